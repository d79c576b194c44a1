"""Speed on small data, where calls cost more than arithmetic: one fit, a sparse table, cross-validation in processes.

Competitors run in the same process, on one thread, in turns; the least of many times counts, in processor time except
for the cross-validation. A ratio below 1 means that atklearn is faster. For paths on small data: ./run bench path.

    fit      432 x 6, ATkClassifier(k=0.7, C=100) over LogisticRegression()
    one-hot  5,000 x 100 CSR, 8 categories a row, k = n, over LogisticRegression(solver="liblinear"), no intercept,
             each at the loosest tolerance that comes within 1e-4 of the optimum
    jobs     500 x 15, ATkClassifierCV, two processes allowed against one

Usage: ./run bench small
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from atklearn import ATkClassifier, ATkClassifierCV

REPEATS = 40
ACCURACY = 1e-4
TOLERANCES = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 1e-4, 1e-5)
SIZES = (2, 3, 5, 8, 12, 15, 20, 35)  # of the categories


def in_turns(*runs: Callable[[], Any]) -> list[float]:
    """Return the least processor time of each in milliseconds, all having met the same disturbances."""
    seconds: list[list[float]] = [[] for _ in runs]
    for run in runs:
        run()  # compile
    for _ in range(REPEATS):
        for run, times in zip(runs, seconds, strict=True):
            start = time.process_time()
            run()
            times.append(time.process_time() - start)
    return [1e3 * min(times) for times in seconds]


def make_data(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    return X, np.where(X @ rng.standard_normal(d) / 2 + 0.3 + rng.standard_normal(n) > 0.0, 1, -1)


def make_one_hot(n: int = 5000) -> tuple[sp.csr_matrix, np.ndarray]:
    rng = np.random.default_rng(0)
    starts = np.concatenate([[0], np.cumsum(SIZES)[:-1]])
    chosen = [rng.choice(size, n, p=rng.dirichlet(np.full(size, 1.5))) for size in SIZES]
    columns = (np.column_stack(chosen) + starts).ravel()
    X = sp.csr_matrix((np.ones(columns.size), columns, np.arange(0, columns.size + 1, len(SIZES))), (n, sum(SIZES)))
    score = X @ rng.standard_normal(sum(SIZES))
    return X, np.where(score - np.median(score) + rng.logistic(size=n) > 0.0, 1, -1)


def one_fit() -> None:
    X, y = make_data(432, 6)
    ours, theirs = in_turns(lambda: ATkClassifier(k=0.7, C=100).fit(X, y), lambda: LogisticRegression().fit(X, y))
    print(f"fit, 432 x 6: {ours:.2f} ms, LogisticRegression {theirs:.2f} ms, ratio {ours / theirs:.2f}")


def one_hot() -> None:
    X, y = make_one_hot()
    n = y.size
    for C in (100.0, 5000.0):
        exact = ATkClassifier(k=1.0, C=C, fit_intercept=False, tol=1e-9).fit(X, y)
        most = (exact.objective_ - exact.dual_gap_) * (1.0 + ACCURACY)

        def ours(tol: float, C: float = C) -> ATkClassifier:
            return ATkClassifier(k=1.0, C=C, fit_intercept=False, tol=tol).fit(X, y)

        def theirs(tol: float, C: float = C) -> LogisticRegression:
            return LogisticRegression(solver="liblinear", C=C / n, fit_intercept=False, tol=tol).fit(X, y)

        def value(model: Any, C: float = C) -> float:
            w = model.coef_.ravel()
            return float(np.logaddexp(0.0, -y * (X @ w)).mean() + w @ w / (2.0 * C))

        own, other = (next(tol for tol in TOLERANCES if value(fit(tol)) <= most) for fit in (ours, theirs))
        a, b = in_turns(lambda: ours(own), lambda: theirs(other))  # noqa: B023
        print(f"one-hot, C = {C:g}: {a:.2f} ms (tol {own:g}), liblinear {b:.2f} ms (tol {other:g}), ratio {a / b:.2f}")


def jobs() -> None:
    X, y = make_data(500, 15)
    ATkClassifierCV(ks=2, Cs=2, cv=2).fit(X, y)
    seconds = []
    for n_jobs in (1, 2):
        start = time.perf_counter()
        ATkClassifierCV(n_jobs=n_jobs, random_state=0).fit(X, y)
        seconds.append(time.perf_counter() - start)
    print(f"jobs, 500 x 15: n_jobs=1 {seconds[0]:.2f} s, n_jobs=2 {seconds[1]:.2f} s")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        one_fit()
        one_hot()
    jobs()
