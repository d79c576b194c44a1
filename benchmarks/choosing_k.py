"""Does a k chosen by cross-validation beat the average? Real data, nested splits, paired differences.

Every outer split trains on 75 % of the rows and tests on the rest. On the training part, repeated 5-fold
cross-validation over a grid of k and C, warm-started, yields scores from which a rule chooses k and C; its competitor
is the average (k = n) with C chosen from the same scores. The test part is used only to report. Features are
standardised on the training part. The scores of all cells are stored, so that rules can be compared at no cost.

Usage: python benchmarks/choosing_k.py collect DATA_DIR RESULTS.npz [--splits 20] [--seed 0] [--sets monk german ...]
       python benchmarks/choosing_k.py report RESULTS.npz
DATA_DIR holds NAME.csv.gz files with a header and the target in the last column.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import (
    RepeatedKFold,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedShuffleSplit,
)

from atklearn import atk_path
from atklearn.collapse import largest_collapsing_k
from atklearn.linear import ATkClassifier

CLASSIFICATION = ("monk", "australian", "german", "splice", "phoneme", "titanic")
REGRESSION = ("housing", "abalone", "cpusmall")
N_KS = 8
CS = np.logspace(-1, 4, 6)
SMALLEST_SHARE = 0.02  # of the samples in the top, for regression, which has no calibration bound


def load(directory: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    table = np.loadtxt(directory / f"{name}.csv.gz", delimiter=",", skiprows=1)
    X, y = table[:, :-1], table[:, -1]
    return X, y if name in CLASSIFICATION else (y - y.min()) / np.ptp(y)


def k_grid(X: np.ndarray, y: np.ndarray, classification: bool, class_weight: str | None) -> np.ndarray:
    lowest = SMALLEST_SHARE
    if classification:
        problems, mass = ATkClassifier(k=1.0, class_weight=class_weight)._problems(X, y, None)
        lowest = max(largest_collapsing_k(problems[0]) / mass.sum(), 0.01)
    return np.geomspace(min(lowest, 0.9), 1.0, N_KS + 1)[1:]


def cell_scores(X: Any, y: Any, train: Any, test: Any, ks: Any, options: dict[str, Any]) -> np.ndarray:
    """Return the scores, lower is better, of every cell on the test rows: shape (2, n_ks, n_Cs)."""
    path = atk_path(X[train], y[train], ks=ks, Cs=CS, **options)
    f, y = path.scores(X[test])[:, :, 0], y[test]
    if options["loss"] == "absolute_error":
        return np.array([np.sqrt(((f - y) ** 2).mean(-1)), np.abs(f - y).mean(-1)])
    wrong = (f > 0) != (y > 0)
    return np.array([wrong.mean(-1), 0.5 * (wrong[..., y > 0].mean(-1) + wrong[..., y < 0].mean(-1))])


def one_split(X: Any, y: Any, train: Any, test: Any, repeats: int, seed: int, options: dict[str, Any]) -> Any:
    """Return the k grid, the scores of the inner folds and the scores on the test part."""
    X = (X - X[train].mean(0)) / np.maximum(X[train].std(0), 1e-12)
    classification = options["loss"] == "log_loss"
    ks = k_grid(X[train], y[train], classification, options.get("class_weight"))
    splitter = RepeatedStratifiedKFold if classification else RepeatedKFold
    folds = splitter(n_splits=5, n_repeats=repeats, random_state=seed).split(X[train], y[train])
    inner = [cell_scores(X, y, train[a], train[b], ks, options) for a, b in folds]
    return ks, np.array(inner), cell_scores(X, y, train, test, ks, options)


def collect(directory: Path, results: Path, n_splits: int, seed: int, sets: list[str]) -> None:
    stored = {}
    for name in sets:
        X, y = load(directory, name)
        classification = name in CLASSIFICATION
        outer = (StratifiedShuffleSplit if classification else ShuffleSplit)(
            n_splits, test_size=0.25, random_state=seed
        )
        repeats = 5 if y.size < 1500 else 2
        for weighting in ("plain", "balanced") if classification else ("plain",):
            options: dict[str, Any] = {"loss": "log_loss" if classification else "absolute_error"}
            if weighting == "balanced":
                options["class_weight"] = "balanced"
            start = time.perf_counter()
            runs = [one_split(X, y, a, b, repeats, seed + i, options) for i, (a, b) in enumerate(outer.split(X, y))]
            for key, values in zip(("ks", "inner", "test"), zip(*runs, strict=True), strict=True):
                stored[f"{name}/{weighting}/{key}"] = np.array(values)
            print(f"{name:<12}{weighting:<10}{time.perf_counter() - start:6.0f} s", flush=True)
            np.savez_compressed(results, **stored)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stage", choices=("collect", "report"))
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sets", nargs="+", default=[*CLASSIFICATION, *REGRESSION])
    given = parser.parse_args()
    if given.stage == "collect":
        collect(*given.paths, given.splits, given.seed, given.sets)


if __name__ == "__main__":
    main()
