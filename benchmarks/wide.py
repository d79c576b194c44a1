"""Speed on wide data against scikit-learn: same process, one thread, our time over theirs, so below 1 we are faster.

Two kinds of X: independent normal columns ("plain"), and columns that are mixtures of few, as embeddings have them
("mixed"). Two strengths of the penalty: C = 100, and C = n, our default and scikit-learn's, whose C = 1 it is.

    log      over LogisticRegression (lbfgs), both at a relative accuracy of 1e-6: of lbfgs, the loosest tolerance that
             reaches it; our gap is certified
    tall     the same on 30,000 x 1,000, at the accuracy that lbfgs has at its default tolerance
    hinge    over LinearSVC at its default tolerance; our gap is certified to be no larger than its excess
    squared  k = n over Ridge
    memory   the peak of a fit beyond X, in units of the size of X

Usage: ./run bench wide [SECTION ...]
"""

from __future__ import annotations

import ctypes
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from atklearn import ATkClassifier, ATkRegressor

SHAPES = ((2000, 2000), (500, 5000), (5000, 3000))
TALL = (30_000, 1000)
ACCURACY = 1e-6
REPEATS = 3


def make_data(n: int, d: int, kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return X, labels and targets."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    if kind == "mixed":
        rank = min(n, d) // 4
        few = rng.standard_normal((n, rank)) * np.arange(1, rank + 1) ** -0.5
        X = few @ rng.standard_normal((rank, d)) / 3 + 0.3 * X
    score = X @ rng.standard_normal(d)
    score /= score.std()
    return X, np.sign(score + 0.3 + 0.3 * rng.standard_normal(n)), score + rng.standard_normal(n)


def cases(shapes: tuple[tuple[int, int], ...]) -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray, float]]:
    for n, d in shapes:
        for kind in ("plain", "mixed"):
            X, y, target = make_data(n, d, kind)
            for C in (100.0, float(n)):
                yield f"{n} x {d} {kind}, C = {C:g}", X, y, target, C


def timed(*runs: Callable[[], Any]) -> tuple[list[float], list[Any]]:
    """Return the least times of runs made in turns, and the last results."""
    seconds, results = [np.inf] * len(runs), [None] * len(runs)
    for _ in range(REPEATS):
        for i, run in enumerate(runs):
            start = time.perf_counter()
            results[i] = run()
            seconds[i] = min(seconds[i], time.perf_counter() - start)
    return seconds, results


def objective(
    model: Any, loss: Callable[[np.ndarray], np.ndarray], X: np.ndarray, C: float, extra: float = 0.0
) -> float:
    w = model.coef_.ravel()
    return float(loss(X @ w + model.intercept_).mean() + (w @ w + extra) / (2 * C))


def against_lbfgs(shapes: tuple[tuple[int, int], ...], equal: bool) -> None:
    print(f"{'':<32}{'lbfgs s':>9}{'steps':>7}{'its excess':>12}{'k = n':>8}{'k = n/2':>9}")
    for name, X, y, _, C in cases(shapes):
        best = ATkClassifier(k=1.0, C=C, tol=1e-9).fit(X, y)
        bound = best.objective_ - best.dual_gap_
        for tol in (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7) if equal else (1e-4,):
            theirs = LogisticRegression(C=C / len(y), tol=tol, max_iter=10_000).fit(X, y)
            excess = objective(theirs, lambda f, y=y: np.logaddexp(0, -y * f), X, C) / bound - 1
            if excess <= ACCURACY:
                break
        goal = ACCURACY if equal else excess
        whole, half = ATkClassifier(k=1.0, C=C, tol=goal), ATkClassifier(k=0.5, C=C, tol=goal)
        seconds, _ = timed(*(lambda model=model, X=X, y=y: model.fit(X, y) for model in (theirs, whole, half)))
        print(f"{name:<32}{seconds[0]:>9.3f}{theirs.n_iter_[0]:>7}{excess:>12.0e}", end="")
        print(f"{seconds[1] / seconds[0]:>8.2f}{seconds[2] / seconds[0]:>9.2f}", flush=True)


def against_linear_svc() -> None:
    print(f"{'':<32}{'LinearSVC s':>12}{'its excess':>12}{'k = n':>8}{'k = n/2':>9}")
    for name, X, y, _, C in cases(SHAPES):
        best = ATkClassifier("hinge", k=1.0, C=C, tol=1e-5, penalize_intercept=True).fit(X, y)
        theirs = LinearSVC(C=C / len(y), loss="hinge").fit(X, y)
        squared_intercept = float(theirs.intercept_[0]) ** 2
        value = objective(theirs, lambda f, y=y: np.maximum(0, 1 - y * f), X, C, squared_intercept)
        excess = value / (best.objective_ - best.dual_gap_) - 1
        ours = [ATkClassifier("hinge", k=k, C=C, tol=excess, penalize_intercept=True) for k in (1.0, 0.5)]
        seconds, _ = timed(*(lambda model=model, X=X, y=y: model.fit(X, y) for model in (theirs, *ours)))
        print(f"{name:<32}{seconds[0]:>12.3f}{excess:>12.0e}", end="")
        print(f"{seconds[1] / seconds[0]:>8.2f}{seconds[2] / seconds[0]:>9.2f}", flush=True)


def against_ridge() -> None:
    print(f"{'':<32}{'Ridge s':>9}{'k = n':>8}{'largest difference of a weight':>33}")
    for name, X, _, target, C in cases((*SHAPES, TALL)):
        theirs, ours = Ridge(alpha=len(X) / (2 * C)), ATkRegressor("squared_error", k=1.0, C=C)
        seconds, _ = timed(*(lambda model=model, X=X, y=target: model.fit(X, y) for model in (theirs, ours)))
        difference = np.abs(theirs.coef_ - ours.coef_).max() / np.abs(theirs.coef_).max()
        print(f"{name:<32}{seconds[0]:>9.3f}{seconds[1] / seconds[0]:>8.2f}{difference:>33.0e}", flush=True)


def memory() -> None:
    marker = Path("/proc/self/clear_refs")
    if not marker.exists():
        print("needs Linux's /proc/self/clear_refs")
        return

    def status(field: str) -> float:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith(field)) * 1024

    for n, d in (*SHAPES, TALL):
        X, y, target = make_data(n, d, "plain")
        for loss, k in (("log_loss", 1.0), ("log_loss", 0.5), ("hinge", 1.0), ("hinge", 0.5), ("squared_error", 1.0)):
            regression = loss == "squared_error"
            model = (ATkRegressor if regression else ATkClassifier)(loss, k=k, tol=1e-4)
            ctypes.CDLL(None).malloc_trim(0)  # memory that was freed but kept would hide what the fit takes
            marker.write_text("5")  # resets the peak
            before = status("VmRSS")
            model.fit(X, target if regression else y)
            print(f"{n} x {d} {loss:<14} k = {k} n: {(status('VmHWM') - before) / X.nbytes:.2f}", flush=True)


SECTIONS: dict[str, Callable[[], None]] = {
    "log": lambda: against_lbfgs(SHAPES, equal=True),
    "tall": lambda: against_lbfgs((TALL,), equal=False),
    "hinge": against_linear_svc,
    "squared": against_ridge,
    "memory": memory,
}


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore")  # LinearSVC says that it stops before it has converged
    X, y, target = make_data(300, 200, "plain")
    for loss in ("log_loss", "hinge"):
        ATkClassifier(loss, k=0.5).fit(X, y)  # compile
    ATkRegressor(k=1.0).fit(X, target)
    with threadpool_limits(1):
        for name in names or SECTIONS:
            print(f"\n== {name}", flush=True)
            SECTIONS[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
