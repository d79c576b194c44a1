"""Speed near and below the collapse, and of few columns, against scikit-learn: same process, one thread, ratios.

A ratio below 1 means that atklearn is faster than what it is compared with. Every time is the best of three runs, in
processor seconds, with the runs of all competitors taking turns; tol is the default of either library (1e-6 of a
certified gap here, 1e-4 of the gradient there), C = 100.

Usage: ./run bench collapse [SECTION ...]    sections: collapse columns path
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from atklearn import ATkClassifier, CollapseWarning
from atklearn.losses.individual import INDIVIDUAL_LOSSES
from atklearn.problems.posing import Posing
from atklearn.solvers.exact.collapse import collapse_limit
from atklearn.solvers.exact.grid import solve_grid

C = 100.0
REPEATS = 3


def best_times(runs: Sequence[Callable[[], Any]]) -> list[float]:
    """Return the least time of each run, all of them taking turns."""
    best = [float("inf")] * len(runs)
    for _ in range(REPEATS):
        for place, run in enumerate(runs):
            start = time.process_time()
            run()
            best[place] = min(best[place], time.process_time() - start)
    return best


def make_data(n: int, d: int, *, noise: float = 0.0, flipped: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    w = rng.standard_normal(d)
    y = np.sign(X @ (w / np.linalg.norm(w)) + 0.3 + noise * rng.standard_normal(n))
    return X, np.where(rng.random(n) < flipped, -y, y)


def compare(n: int, d: int, shares: Sequence[float], **trouble: float) -> None:
    X, y = make_data(n, d, **trouble)
    problem = Posing(INDIVIDUAL_LOSSES["log_loss"](), "free").on(X, y, k=1.0, C=C).problems[0]
    seconds = best_times(
        [
            lambda: ATkClassifier(k=1.0, C=C).fit(X, y),
            lambda: LogisticRegression(C=C / n, tol=1e-4).fit(X, y),
            *(lambda share=share: ATkClassifier(k=share, C=C).fit(X, y) for share in shares),  # type: ignore[misc]
        ]
    )
    whole, theirs, *ours = seconds
    what = ", ".join(f"{name} {value}" for name, value in trouble.items())
    print(
        f"{n:,} x {d}, {what}, switch at {collapse_limit(problem) / n:.3f} n; k = n {whole:.3f} s, lbfgs {theirs:.3f} s"
    )
    for share, second in zip(shares, ours, strict=True):
        print(f"    k = {share:<5} n: {second / whole:5.2f} of k = n, {second / theirs:5.2f} of lbfgs")


def near_the_collapse() -> None:
    print("\n== log loss near and below the collapse")
    compare(1_000_000, 20, (0.5, 0.4, 0.36, 0.34, 0.33, 0.3, 0.2, 0.1), noise=0.5)
    compare(1_000_000, 20, (0.5, 0.3, 0.1), flipped=0.13)
    compare(1_000_000, 5, (0.7, 0.5, 0.4), flipped=0.2)
    compare(1_000_000, 5, (0.5,), flipped=0.12)
    for n in (500, 5000):
        compare(n, 10, (0.5, 0.4, 0.3, 0.2, 0.1), noise=0.5)


def few_columns() -> None:
    print("\n== log loss, few columns, away from the collapse")
    for n, d in ((1_000_000, 5), (1_000_000, 20), (300_000, 100)):
        compare(n, d, (0.7, 0.5), noise=0.1)


def paths() -> None:
    print("\n== 8 k x 6 C, tol = 1e-3: milliseconds a cell")
    for n in (500, 5000):
        for loss in ("log_loss", "hinge"):
            X, y = make_data(n, 10, noise=0.6)
            problem = Posing(INDIVIDUAL_LOSSES[loss](), "free").on(X, y, k=1.0, C=1.0).problems[0]
            best: dict[tuple[int, int], tuple[float, bool]] = {}
            for _ in range(REPEATS):
                start = time.process_time()
                for i, j, cell in solve_grid(problem, n * np.geomspace(0.05, 1.0, 8), np.geomspace(0.01, 1e3, 6)):
                    second = time.process_time() - start
                    best[i, j] = min(second, best.get((i, j), (second,))[0]), not cell.coef.any()
                    start = time.process_time()
            zero, other = (
                [1e3 * second for second, collapsed in best.values() if collapsed is is_zero]
                for is_zero in (True, False)
            )
            print(
                f"{n} x 10, {loss}: {len(zero)} collapsed {np.mean(zero):.2f}, {len(other)} others {np.mean(other):.2f}"
            )


SECTIONS = {"collapse": near_the_collapse, "columns": few_columns, "path": paths}


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore", CollapseWarning)  # on purpose
    for share in (1.0, 0.5, 0.1):
        ATkClassifier(k=share).fit(*make_data(6000, 3, noise=0.5))  # compile
    print("One thread; compare ratios, not seconds.")
    with threadpool_limits(1):
        for name in names or SECTIONS:
            SECTIONS[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
