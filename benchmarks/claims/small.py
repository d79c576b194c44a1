"""Small data, where calls cost more than arithmetic: one fit, and fits as they come, k chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine, make_classification
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import scale

from atklearn import ATkClassifier, ATkRegressor
from claims.accuracy import Yardstick
from claims.claim import Claim, Contest, Setting, shape, share
from claims.data import linear_data

SETS: dict[str, tuple[Callable[[], Any], tuple[int, int], str]] = {
    "breast-cancer": (partial(load_breast_cancer, return_X_y=True), (569, 30), "2 classes"),
    "wine": (partial(load_wine, return_X_y=True), (178, 13), "3 classes"),
    "digits": (partial(load_digits, return_X_y=True), (1797, 64), "10 classes"),
    "made-rare": (
        partial(make_classification, 2000, 20, weights=[0.95], flip_y=0.02, random_state=1),
        (2000, 20),
        "a class of 5 %",
    ),
    "diabetes": (partial(load_diabetes, return_X_y=True), (442, 10), "numbers"),
}


def one_small_fit(_setting: Setting, *, k: float) -> Contest:
    X, y = linear_data("log_loss", 432, 6, noise=1.0)
    average, own = (Yardstick("log_loss", X, y, share, 432.0) for share in (1.0, k))
    return Contest(
        lambda: ATkClassifier(k=k, C=432.0).fit(X, y),
        lambda: LogisticRegression().fit(X, y),
        lambda model, other: (own.of(model), average.of(other)),
        turns=100,
    )


def as_they_come(_setting: Setting, *, name: str) -> Contest:
    load, _, kind = SETS[name]
    X, y = load()
    X = scale(X)
    if kind == "numbers":
        return Contest(lambda: ATkRegressor().fit(X, y), lambda: Ridge().fit(X, y), turns=50)
    return Contest(lambda: ATkClassifier().fit(X, y), lambda: LogisticRegression().fit(X, y))


CLAIMS = [
    *(
        Claim(
            f"small/one-fit-{k:g}",
            f"log loss, {share(k)}, C = n",
            shape(432, 6),
            "`LogisticRegression` (lbfgs, k = n)",
            partial(one_small_fit, k=k),
            rounds=5,
        )
        for k in (1.0, 0.7)
    ),
    *(
        Claim(
            f"small/default-{name}",
            f"{'ATkRegressor()' if kind == 'numbers' else 'ATkClassifier(), which chooses k'}, {name}, {kind}",
            shape(*size),
            "`Ridge()`" if kind == "numbers" else "`LogisticRegression()`",
            partial(as_they_come, name=name),
        )
        for name, (_, size, kind) in SETS.items()
    ),
]
