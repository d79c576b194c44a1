"""Speed of a k x C grid: warm-started against cold, and against scikit-learn's grid search. One thread, one process.

n = 20,000, d = 20, 8 k x 11 C = 88 fits, every cell certified to a relative duality gap of 1e-3. The grid is spread so
that no cell is trivial: k from just above the calibration bound to n, C from where the penalty rules to where it does
not. "Cold" is the same solver at the same tolerance, every fit from zero. scikit-learn's grid search runs over C, the
only one of the two it knows, with no refit and one split (train on all, score on 100 rows), so that its time is that of
its fits; competitors that would take minutes run some fits evenly spaced in the grid, and their time is extrapolated.

Usage: python benchmarks/path.py
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from atklearn import atk_path
from atklearn.losses.individual import INDIVIDUAL_LOSSES
from atklearn.problems.posing import Posing
from atklearn.solvers.exact.solve import solve_linear

N, D = 20_000, 20
CS = np.logspace(-1, 4, 11)
TOL = 1e-3
REPEATS = 3


def make_data(loss: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return X, y and the fractions k/n."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D))
    w = rng.standard_normal(D)
    score = X @ (w / np.linalg.norm(w)) + 0.3
    if INDIVIDUAL_LOSSES[loss].task == "classification":
        return X, np.sign(score + 0.3 * rng.standard_normal(N)), np.geomspace(0.3, 1.0, 8)
    heavy = np.where(rng.random(N) < 0.1, 3.0, 0.5)
    return X, score + heavy * rng.standard_normal(N), np.geomspace(0.02, 1.0, 8)


def best_of(run: Callable[[], Any]) -> tuple[float, Any]:
    """Return the least time of some runs, the one the machine disturbed least, and the last result."""
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        result = run()
        seconds.append(time.perf_counter() - start)
    return min(seconds), result


def warm_against_cold() -> dict[str, float]:
    print(
        f"{'loss':<16}{'cold s':>9}{'warm s':>9}{'ratio':>8}{'steps cold':>12}{'warm':>7}{'certified':>11}{'w = 0':>7}"
    )
    times = {}
    for loss in INDIVIDUAL_LOSSES:
        X, y, ks = make_data(loss)
        (problem,) = Posing(INDIVIDUAL_LOSSES[loss](), "free").on(X, y).problems
        cells = [(k * N, C) for k in ks for C in CS]
        atk_path(X[:500], y[:500], ks=[0.5], Cs=[1.0], loss=loss)  # compile
        cold_s, cold = best_of(lambda: [solve_linear(problem.at(k, C), tol=TOL) for k, C in cells])  # noqa: B023
        times[loss], path = best_of(lambda: atk_path(X, y, ks=ks, Cs=CS, loss=loss, tol=TOL))  # noqa: B023
        certified = int((path.dual_gaps <= TOL * path.objectives).sum())
        trivial = int((~path.coefs.any(axis=-1)).sum())
        steps = sum(solution.n_iter for solution in cold)
        print(
            f"{loss:<16}{cold_s:>9.2f}{times[loss]:>9.2f}{cold_s / times[loss]:>8.1f}{steps:>12}{path.n_iters.sum():>7}"
            f"{certified:>8}/88{trivial:>7}"
        )
    return times


def small_paths() -> None:
    """Time the fits that comparisons make by the thousand: 8 k x 6 C on 324 rows of 15 columns."""
    print(f"\n{'324 x 15, 8 x 6 cells':<44}{'ms a cell':>12}{'steps':>8}{'us a step':>12}")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((324, 15))
    score = X @ rng.standard_normal(15) / 2 + 0.3
    for loss, kind in INDIVIDUAL_LOSSES.items():
        noisy = score + rng.standard_normal(324)
        y = np.where(noisy > 0.0, 1.0, -1.0) if kind.task == "classification" else noisy
        grid = {"ks": np.geomspace(0.4, 1.0, 8), "Cs": np.logspace(-1, 4, 6), "loss": loss, "tol": TOL}
        atk_path(X, y, **grid)
        seconds, path = best_of(lambda: atk_path(X, y, **grid))  # noqa: B023
        steps = int(path.n_iters.sum())
        print(f"{loss:<44}{1e3 * seconds / 48:>12.2f}{steps:>8}{1e6 * seconds / steps:>12.0f}")


def against_grid_search(times: dict[str, float]) -> None:
    print(f"\n{'scikit-learn, 88 fits':<44}{'s':>9}{'atklearn s':>12}{'ratio':>8}")
    rows = (
        ("GridSearchCV(LogisticRegression)", LogisticRegression(max_iter=1000), "log_loss", np.arange(11)),
        ("GridSearchCV(SVC(kernel='linear')), from 3", SVC(kernel="linear"), "hinge", np.array([2, 5, 8])),
    )
    for name, model, loss, picked in rows:
        X, y, _ = make_data(loss)
        split = [(np.arange(N), np.arange(100))]
        # scikit-learn's C multiplies the sum of the losses, ours their mean
        search = GridSearchCV(model, {"C": CS[picked] / N}, cv=split, refit=False)
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            search.fit(X, y)
        seconds = (time.perf_counter() - start) * 88 / picked.size
        print(f"{name:<44}{seconds:>9.1f}{times[loss]:>12.2f}{seconds / times[loss]:>8.1f}")


if __name__ == "__main__":
    with threadpool_limits(1):
        against_grid_search(warm_against_cold())
        small_paths()
