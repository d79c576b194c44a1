"""Speed of the exact linear solver against outside competitors: same process, one thread, ratios.

A ratio above 1 means that atklearn is faster. Every time is for one accuracy, stated per section: of one run against
cvxpy, the median of three runs elsewhere. Timings include input validation; compilation, cached on disk after the first
use ever, is excluded by a small fit at the start.

Usage: ./run bench linear [SECTION ...]    sections: cvxpy average top sparse growth memory
"""

from __future__ import annotations

import ctypes
import math
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression, Ridge
from threadpoolctl import threadpool_limits

from atklearn import ATkClassifier, ATkRegressor, CollapseWarning

CLASSIFICATION = ("log_loss", "hinge", "squared_hinge")


def timed(run: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    """Return the median time of some runs and the last result."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = run()
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds)), result


def make_data(loss: str, n: int, d: int, noise: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    w = rng.standard_normal(d)
    score = X @ (w / np.linalg.norm(w)) + 0.3
    if loss in CLASSIFICATION:
        return X, np.sign(score + noise * rng.standard_normal(n))
    heavy = np.where(rng.random(n) < 0.1, 3.0, 0.5)
    return X, score + heavy * rng.standard_normal(n)


def estimator(loss: str, **parameters: Any) -> ATkClassifier | ATkRegressor:
    return (ATkClassifier if loss in CLASSIFICATION else ATkRegressor)(loss, **parameters)


def against_cvxpy() -> None:
    print("\n== n = 20,000, d = 20, C = 100: cvxpy + Clarabel, both to a relative accuracy of 1e-6")
    print(f"{'loss':<16}{'k/n':>6}{'atklearn s':>12}{'cvxpy s':>10}{'ratio':>8}{'objective above cvxpy, relative':>34}")
    for loss, share in (("log_loss", 0.4), ("hinge", 0.4), ("squared_error", 0.05), ("absolute_error", 0.05)):
        X, y = make_data(loss, 20_000, 20)
        ours, model = timed(lambda X=X, y=y, loss=loss, share=share: estimator(loss, k=share, tol=1e-6).fit(X, y))
        w, b = cp.Variable(20), cp.Variable()
        f = X @ w + b
        losses = {
            "log_loss": lambda y=y, f=f: cp.logistic(-cp.multiply(y, f)),
            "hinge": lambda y=y, f=f: cp.pos(1 - cp.multiply(y, f)),
            "squared_error": lambda y=y, f=f: cp.square(y - f),
            "absolute_error": lambda y=y, f=f: cp.abs(y - f),
        }[loss]()
        k = round(share * 20_000)
        program = cp.Problem(cp.Minimize(cp.sum_largest(losses, k) / k + cp.sum_squares(w) / 200))
        theirs, value = timed(
            lambda program=program: program.solve(
                solver=cp.CLARABEL, tol_gap_abs=1e-6, tol_gap_rel=1e-6, tol_feas=1e-6, max_threads=1
            )
        )
        above = model.objective_ / value - 1
        print(f"{loss:<16}{share:>6}{ours:>12.3f}{theirs:>10.2f}{theirs / ours:>8.0f}{above:>34.1e}")


def logistic_objective(model: LogisticRegression, X: Any, y: np.ndarray, C: float) -> float:
    f = X @ model.coef_.ravel() + model.intercept_
    return float(np.logaddexp(0, -y * f).mean() + model.coef_.ravel() @ model.coef_.ravel() / (2 * C))


def first_accurate(
    make: Callable[[float], LogisticRegression], X: Any, y: np.ndarray, C: float, best: float, accuracy: float
) -> str | float:
    """Return the time of the loosest tolerance that reaches the accuracy."""
    for tol in (1e-2, 1e-4, 1e-6, 1e-8):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seconds, model = timed(lambda tol=tol: make(tol).fit(X, y), 3)
        if logistic_objective(model, X, y, C) <= best * (1 + accuracy):
            return seconds
    return f"stays above {accuracy:g}"


def against_the_average() -> None:
    n, d, C = 1_000_000, 50, 100.0
    print(f"\n== n = {n:,}, d = {d}, C = {C:g}, k = n: scikit-learn at equal accuracy (relative 1e-6)")
    X, y = make_data("log_loss", n, d)
    ours, model = timed(lambda: ATkClassifier(k=1.0, C=C, tol=1e-6).fit(X, y), 3)
    best = model.objective_ - model.dual_gap_
    print(f"{'log_loss':<16}atklearn {ours:.2f} s")
    for solver in ("lbfgs", "newton-cholesky", "newton-cg"):
        theirs = first_accurate(
            lambda tol, solver=solver: LogisticRegression(C=C / n, solver=solver, tol=tol, max_iter=1000),
            X,
            y,
            C,
            best,
            1e-6,
        )
        outcome = theirs if isinstance(theirs, str) else f"{theirs:.2f} s, ratio {theirs / ours:.1f}"
        print(f"{'':<16}LogisticRegression({solver!r}) {outcome}")
    X, y = make_data("squared_error", n, d)
    ours, model = timed(lambda: ATkRegressor(k=1.0, C=C, tol=1e-6).fit(X, y), 3)
    theirs, ridge = timed(lambda: Ridge(alpha=n / (2 * C)).fit(X, y), 3)
    distance = np.abs(model.coef_ - ridge.coef_).max()
    print(f"{'squared_error':<16}atklearn {ours:.2f} s, Ridge {theirs:.2f} s, ratio {theirs / ours:.1f}", end="")
    print(f" (largest difference of a weight {distance:.0e})")


def over_k() -> None:
    n, d = 1_000_000, 50
    print(f"\n== n = {n:,}, d = {d}, tol = 1e-6: time over k, relative to k = n")
    print(f"{'loss':<16}{'k = n, s':>10}" + "".join(f"{share:>10}" for share in ("n/2", "n/10", "n/100", "n/10000")))
    for loss in ("log_loss", "hinge", "squared_error", "absolute_error"):
        X, y = make_data(loss, n, d, noise=0.0)  # with noise, so small a k would collapse
        whole, _ = timed(lambda X=X, y=y, loss=loss: estimator(loss, k=1.0).fit(X, y), 3)
        row = ""
        for share in (0.5, 0.1, 0.01, 1e-4):
            seconds, _ = timed(lambda X=X, y=y, loss=loss, share=share: estimator(loss, k=share).fit(X, y), 3)
            row += f"{seconds / whole:>10.2f}"
        print(f"{loss:<16}{whole:>10.2f}{row}")


def against_liblinear() -> None:
    n, d, per_row, C = 200_000, 50_000, 50, 1.0
    print(f"\n== sparse {n:,} x {d:,}, {per_row} entries a row, log loss, relative accuracy 1e-4")
    rng = np.random.default_rng(0)
    popularity = 1 / np.arange(1, d + 1) ** 0.8
    columns = rng.choice(d, size=n * per_row, p=popularity / popularity.sum())
    X = sp.csr_matrix((rng.random(n * per_row) + 0.1, (np.repeat(np.arange(n), per_row), columns)), shape=(n, d))
    X = sp.csr_matrix(sp.diags(1 / np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())) @ X)
    y = np.where(X @ (3 * rng.standard_normal(d)) + 0.5 * rng.standard_normal(n) > 0, 1.0, -1.0)
    common = {"C": C * n, "fit_intercept": False, "tol": 1e-4}
    ours, model = timed(lambda: ATkClassifier(k=1.0, **common).fit(X, y), 3)
    best = model.objective_ - model.dual_gap_
    print(f"atklearn, k = n: {ours:.2f} s")
    for solver in ("liblinear", "newton-cg", "lbfgs"):
        theirs = first_accurate(
            lambda tol, solver=solver: LogisticRegression(
                C=C, solver=solver, tol=tol, max_iter=1000, fit_intercept=False
            ),
            X,
            y,
            C * n,
            best,
            1e-4,
        )
        outcome = theirs if isinstance(theirs, str) else f"{theirs:.2f} s, ratio {theirs / ours:.1f}"
        print(f"LogisticRegression({solver!r}): {outcome}")
    for loss, share in (("log_loss", 0.8), ("log_loss", 0.5), ("hinge", 1.0), ("hinge", 0.5)):
        seconds, _ = timed(lambda loss=loss, share=share: ATkClassifier(loss, k=share, **common).fit(X, y))
        print(f"atklearn, {loss}, k = {share} n: {seconds:.2f} s")


def growth() -> None:
    print("\n== growth of the time from n = 1e4 to 1e6, d = 50, as an exponent of n")
    for loss in ("log_loss", "hinge", "squared_error", "absolute_error"):
        for share in (1.0, 0.5):
            seconds = []
            for n in (10_000, 100_000, 1_000_000):
                X, y = make_data(loss, n, 50)
                fit = estimator(loss, k=share).fit
                seconds.append(timed(lambda fit=fit, X=X, y=y: fit(X, y), 3)[0])
            exponent = math.log(seconds[-1] / seconds[0]) / math.log(100)
            times = ", ".join(f"{s:.3f}" for s in seconds)
            print(f"{loss:<16}k = {share} n: {times} s, exponent {exponent:.2f}")


def memory() -> None:
    print("\n== peak memory of a fit beyond the data, in units of the size of X")
    marker = Path("/proc/self/clear_refs")
    if not marker.exists():
        print("needs Linux's /proc/self/clear_refs")
        return

    def status(field: str) -> float:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith(field)) * 1024

    for loss, share in (("log_loss", 1.0), ("log_loss", 0.5), ("squared_error", 0.01)):
        X, y = make_data(loss, 1_000_000, 50)
        ctypes.CDLL(None).malloc_trim(0)  # memory that was freed but kept would hide what the fit takes
        marker.write_text("5")  # resets the peak
        before = status("VmRSS")
        estimator(loss, k=share).fit(X, y)
        print(f"{loss:<16}k = {share} n: {(status('VmHWM') - before) / X.nbytes:.2f}")


SECTIONS = {
    "cvxpy": against_cvxpy,
    "average": against_the_average,
    "top": over_k,
    "sparse": against_liblinear,
    "growth": growth,
    "memory": memory,
}


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore", CollapseWarning)  # on purpose: the smallest k of section "top"
    for loss in ("log_loss", "hinge", "squared_error", "absolute_error"):
        estimator(loss, k=0.01).fit(*make_data(loss, 6000, 3))  # compile
    print("One thread; compare ratios, not seconds.")
    with threadpool_limits(1):
        for name in names or SECTIONS:
            SECTIONS[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
