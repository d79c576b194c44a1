"""What a tail correction costs beside the cross-fitting of its model, in time and memory: 100,000 x 30, no experts.

Usage: ./run bench correction_cost [--rows 100000] [--columns 30]
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import cross_val_predict

from atklearn.correction import TailCorrectedRegressor


class Known(RegressorMixin, BaseEstimator):
    """A model that costs nothing: its prediction is the first column."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Known:  # noqa: ARG002
        """Learn nothing."""
        self.is_fitted_ = True
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the first column."""
        return X[:, 0]


def timed(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=30)
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(given.rows, given.columns))
    late = rng.random(given.rows) < 0.1
    y = X[:, 0] + 0.5 * X[:, 1] ** 2 + rng.normal(size=given.rows) + np.where(late, 2.0 + X[:, 2], 0.0)
    correction = TailCorrectedRegressor(Known(), experts=None)
    correction.fit(X[:2000], y[:2000])  # compiled code is loaded
    ours = min(timed(lambda: correction.fit(X, y)) for _ in range(3))
    trees = HistGradientBoostingRegressor(random_state=0)
    theirs = min(timed(lambda: cross_val_predict(trees, X, y, cv=5)) for _ in range(2))
    tracemalloc.start()
    correction.fit(X, y)
    most = tracemalloc.get_traced_memory()[1]
    print(f"{given.rows} x {given.columns}: correction {ours:.3g} s, cross-fitting {theirs:.3g} s: {ours / theirs:.3g}")
    print(f"memory of the correction {most / X.nbytes:.3g} times the data")


if __name__ == "__main__":
    main()
