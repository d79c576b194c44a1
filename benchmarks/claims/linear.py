"""Many rows and few columns: the average and AT_k over scikit-learn's average, and over our own."""

from __future__ import annotations

from functools import partial
from typing import Literal

from sklearn.linear_model import LogisticRegression, Ridge

from atklearn import ATkClassifier, ATkRegressor
from claims.accuracy import yardstick
from claims.claim import Claim, Contest, Setting, shape, share
from claims.data import linear_data

C = 100.0
SHAPES = ((1_000_000, 5), (1_000_000, 20), (300_000, 100))
NOISE = 0.5  # labels wrong for 15 %: w = 0 is optimal for every k up to 0.335 n
ALL_THREADS: tuple[Literal[1, "all"], ...] = (1, "all")


def against_lbfgs(setting: Setting, *, n: int, d: int, k: float) -> Contest:
    n = setting.rows(n)
    X, y = linear_data("log_loss", n, d)
    average, ours = yardstick("log_loss", X, y, 1.0, C), yardstick("log_loss", X, y, k, C)
    return Contest(
        lambda: ATkClassifier(k=k, C=C).fit(X, y),
        lambda: LogisticRegression(C=C / n).fit(X, y),
        lambda model, other: (ours.of(model), average.of(other)),
    )


def against_ridge(setting: Setting, *, n: int, d: int) -> Contest:
    n = setting.rows(n)
    X, y = linear_data("squared_error", n, d)
    exact = yardstick("squared_error", X, y, 1.0, C)
    return Contest(
        lambda: ATkRegressor(k=1.0, C=C).fit(X, y),
        lambda: Ridge(alpha=n / (2 * C)).fit(X, y),
        lambda model, other: (exact.of(model), exact.of(other)),
    )


def against_own_average(setting: Setting, *, k: float, noise: float) -> Contest:
    X, y = linear_data("log_loss", setting.rows(1_000_000), 20, noise=noise)

    def gap(model: ATkClassifier) -> float:
        return float(model.dual_gap_ / model.objective_)

    return Contest(
        lambda: ATkClassifier(k=k, C=C).fit(X, y),
        lambda: ATkClassifier(k=1.0, C=C).fit(X, y),
        lambda model, other: (gap(model), gap(other)),
    )


CLAIMS = [
    *(
        Claim(
            f"linear/lbfgs-{n}x{d}-{k:g}-{threads}",
            f"log loss, {share(k)}",
            shape(n, d),
            "`LogisticRegression` (lbfgs, k = n)",
            partial(against_lbfgs, n=n, d=d, k=k),
            threads=threads,
        )
        for n, d in SHAPES
        for k in (1.0, 0.5)
        for threads in ALL_THREADS
    ),
    *(
        Claim(
            f"linear/ridge-{threads}",
            "squared error, k = n",
            shape(1_000_000, 50),
            "`Ridge`",
            partial(against_ridge, n=1_000_000, d=50),
            threads=threads,
        )
        for threads in ALL_THREADS
    ),
    *(
        Claim(
            f"linear/collapse-{k:g}",
            f"log loss, {share(k)}, {where}",
            shape(1_000_000, 20),
            "our own k = n",
            partial(against_own_average, k=k, noise=NOISE),
            packages=(),
        )
        for k, where in (
            (0.34, "just above the collapse at 0.335 n"),
            (0.3, "below the collapse"),
            (0.1, "below the collapse"),
        )
    ),
    *(
        Claim(
            f"linear/small-k-{k:g}",
            f"log loss, {share(k)}, no noise",
            shape(1_000_000, 20),
            "our own k = n",
            partial(against_own_average, k=k, noise=0.0),
            packages=(),
        )
        for k in (0.1, 0.01)
    ),
]
