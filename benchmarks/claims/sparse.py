"""Sparse data over LIBLINEAR, both equally accurate."""

from __future__ import annotations

from functools import partial
from typing import Any

from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from atklearn import ATkClassifier
from claims.accuracy import yardstick
from claims.claim import LOSS_NAMES, Claim, Contest, Setting, shape, share
from claims.data import one_hot_data, text_data

N, D, PER_ROW = 60_000, 30_000, 50
ACCURACY = 1e-4
TOLERANCES = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 1e-4, 1e-5)
OWN_TOLERANCES = (1e-2, 1e-3, 3e-4, 1e-4)  # a gap, which the last of them bounds as asked


def equally_accurate(X: Any, y: Any, C: float, loss: str = "log_loss", k: float = 1.0, turns: int = 1) -> Contest:
    """Return a contest with LIBLINEAR on the average, both within 1e-4 of their optimum, as measured."""
    options = {"fit_intercept": False}
    average = yardstick(loss, X, y, 1.0, C, **options)
    own = average if k == 1.0 else yardstick(loss, X, y, k, C, **options)

    def ours(tol: float) -> Any:
        return ATkClassifier(loss, k=k, C=C, tol=tol, **options).fit(X, y)

    def theirs(tol: float) -> Any:
        scaled = {"C": C / len(y), "tol": tol, **options}
        if loss == "log_loss":
            return LogisticRegression(solver="liblinear", **scaled).fit(X, y)
        return LinearSVC(loss=loss, dual=True, max_iter=10_000, **scaled).fit(X, y)

    own_tol, _ = own.loosest(ours, ACCURACY, OWN_TOLERANCES)
    other_tol, _ = average.loosest(theirs, ACCURACY, TOLERANCES)
    return Contest(
        lambda: ours(own_tol),
        lambda: theirs(other_tol),
        lambda model, other: (own.of(model), average.of(other)),
        turns=turns,
    )


def on_text(setting: Setting, *, loss: str, k: float) -> Contest:
    n = setting.rows(N)
    X, y = text_data(n, setting.rows(D), PER_ROW)
    return equally_accurate(X, y, float(n), loss, k)


def on_one_hot(setting: Setting, *, C: float) -> Contest:
    return equally_accurate(*one_hot_data(setting.rows(5000)), C, turns=20)


CLAIMS = [
    *(
        Claim(
            f"sparse/text-{loss}-{k:g}",
            f"{LOSS_NAMES[loss]}, {share(k)}, {PER_ROW} entries a row",
            shape(N, D),
            f"{over} (LIBLINEAR, k = n)",
            partial(on_text, loss=loss, k=k),
        )
        for loss, over in (("log_loss", "`LogisticRegression`"), ("hinge", "`LinearSVC`"))
        for k in (1.0, 0.5)
    ),
    *(
        Claim(
            f"sparse/one-hot-{C:g}",
            f"log loss, k = n, C = {C:g}, eight categories a row as 0 and 1",
            shape(5000, 100),
            "`LogisticRegression` (LIBLINEAR)",
            partial(on_one_hot, C=C),
            rounds=5,
        )
        for C in (100.0, 5000.0)
    ),
]
