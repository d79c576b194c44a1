"""Are the defaults safe? ATkClassifier() and ATkRegressor() next to LogisticRegression() and Ridge(), all as they come.

Five folds, features standardised on the training part. A row per data set: balanced accuracy in %, or RMSE, as the mean
over the folds; the difference in points, or in % of the RMSE, positive where the default of atklearn is better; the
shares k/n that it chose; and its time to fit over theirs, in one process. For more than two classes a column says how
far one-versus-rest alone, of LogisticRegression(), is from its multinomial model.

Usage: ./run bench defaults [DIR] [--seed 0]
DIR holds NAME.csv.gz of the paper's data sets, with a header and the target in the last column; without it only those
that are generated, or come with scikit-learn, are compared. The seed draws the folds, not the data.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    load_wine,
    make_classification,
    make_friedman1,
    make_regression,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import balanced_accuracy_score, root_mean_squared_error
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler

from atklearn import ATkClassifier, ATkRegressor
from atklearn.datasets import make_monk, make_sinc, make_titanic

Loader = Callable[[], tuple[np.ndarray, np.ndarray]]

PAPER_CLASSES = ("australian", "german", "splice", "spambase", "phoneme", "madelon")
PAPER_NUMBERS = ("housing", "abalone", "cpusmall")
CLASSES: dict[str, Loader] = {
    "monk": make_monk,
    "titanic": make_titanic,
    "iris": partial(load_iris, return_X_y=True),
    "wine": partial(load_wine, return_X_y=True),
    "breast_cancer": partial(load_breast_cancer, return_X_y=True),
    "digits": partial(load_digits, return_X_y=True),
    "made-plain": partial(make_classification, 1000, 20, random_state=0),
    "made-rare": partial(make_classification, 2000, 20, weights=[0.95], flip_y=0.02, random_state=1),
    "made-three": partial(make_classification, 1000, 20, n_classes=3, n_informative=5, random_state=2),
    "made-noisy": partial(make_classification, 500, 10, flip_y=0.3, random_state=3),
    "made-noisier": partial(make_classification, 500, 10, flip_y=0.6, random_state=4),
}
NUMBERS: dict[str, Loader] = {
    "sinc": partial(make_sinc, random_state=0),
    "diabetes": partial(load_diabetes, return_X_y=True),
    "made-plain": partial(make_regression, 1000, 20, noise=20.0, random_state=0),
    "made-wide": partial(make_regression, 100, 50, noise=20.0, random_state=1),
    "made-curved": partial(make_friedman1, 500, noise=1.0, random_state=0),
}


def from_file(path: Path) -> tuple[np.ndarray, np.ndarray]:
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    return table[:, :-1], table[:, -1]


def parts(X: np.ndarray, y: np.ndarray, classification: bool, seed: int) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Yield X and y to train on, then X and y to test on."""
    splitter = (StratifiedKFold if classification else KFold)(5, shuffle=True, random_state=seed)
    for train, test in splitter.split(X, y):
        scaler = StandardScaler().fit(X[train])
        yield scaler.transform(X[train]), y[train], scaler.transform(X[test]), y[test]


def score(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    said = model.predict(X)
    return 100.0 * balanced_accuracy_score(y, said) if is_classifier(model) else root_mean_squared_error(y, said)


def compare(name: str, load: Loader, theirs: Any, ours: Any, seed: int) -> float:
    """Print the row of a data set; return the difference, positive where the default of atklearn is better."""
    X, y = load()
    classification = is_classifier(ours)
    seconds, scores, shares = np.zeros(2), [], []
    for X_train, y_train, X_test, y_test in parts(X, y, classification, seed):
        row = []
        for place, model in enumerate((theirs, ours)):
            start = time.perf_counter()
            model.fit(X_train, y_train)
            seconds[place] += time.perf_counter() - start
            row.append(score(model, X_test, y_test))
        if classification and len(model.classes_) > 2:
            row.append(score(OneVsRestClassifier(LogisticRegression()).fit(X_train, y_train), X_test, y_test))
        scores.append(row)
        shares.append(ours.k_share_)
    baseline, mine, *alone = np.mean(scores, axis=0)
    difference = mine - baseline if classification else 100.0 * (1.0 - mine / baseline)
    chosen = " ".join(f"{share:.2f}" for share in shares)
    versus_rest = f"{alone[0] - baseline:+.2f}" if alone else ""
    size = f"{X.shape[0]} x {X.shape[1]}"
    print(
        f"| {name} | {size} | {baseline:.2f} | {mine:.2f} | {difference:+.2f} | {versus_rest} | {chosen} "
        f"| {seconds[1] / seconds[0]:.1f} |",
        flush=True,
    )
    return float(difference)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", nargs="?", type=Path, metavar="DIR")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    directory = given.directory
    warnings.simplefilter("ignore", ConvergenceWarning)  # of LogisticRegression at its default number of steps
    classes, numbers = CLASSES, NUMBERS
    if directory is not None:
        classes = {name: partial(from_file, directory / f"{name}.csv.gz") for name in PAPER_CLASSES} | classes
        numbers = {name: partial(from_file, directory / f"{name}.csv.gz") for name in PAPER_NUMBERS} | numbers
    for theirs, ours in ((LogisticRegression(), ATkClassifier()), (Ridge(), ATkRegressor())):
        for model in (theirs, ours):  # compile
            model.fit(*next(parts(*(CLASSES["wine"] if is_classifier(ours) else NUMBERS["diabetes"])(), False, 0))[:2])
        measure, unit = ("balanced accuracy %", "points") if is_classifier(ours) else ("RMSE", "%")
        print(
            f"\n| set ({measure}) | size | {theirs} | {ours} | difference, {unit} | one-versus-rest alone | k/n "
            "| time, ratio |\n|---|---|---|---|---|---|---|---|"
        )
        sets = classes if is_classifier(ours) else numbers
        differences = {name: compare(name, load, theirs, ours, given.seed) for name, load in sets.items()}
        worst = min(differences, key=differences.__getitem__)
        print(f"\nworst difference: {differences[worst]:+.2f} {unit}, {worst}")


if __name__ == "__main__":
    main()
