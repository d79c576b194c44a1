"""One large fit on all cores: over one thread, with the same bits, and over scikit-learn on as many."""

from __future__ import annotations

from functools import partial
from typing import Any

from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from atklearn import ATkClassifier
from claims.accuracy import yardstick
from claims.claim import Claim, Contest, Setting, shape, share
from claims.data import linear_data

N, D, C = 1_000_000, 50, 100.0


def against_lbfgs(setting: Setting, *, k: float) -> Contest:
    n = setting.rows(N)
    X, y = linear_data("log_loss", n, D)
    average, own = yardstick("log_loss", X, y, 1.0, C), yardstick("log_loss", X, y, k, C)
    return Contest(
        lambda: ATkClassifier(k=k, C=C).fit(X, y),
        lambda: LogisticRegression(C=C / n).fit(X, y),
        lambda model, other: (own.of(model), average.of(other)),
        turns=2,
    )


def against_one_thread(setting: Setting, *, k: float) -> Contest:
    X, y = linear_data("log_loss", setting.rows(N), D)
    own = yardstick("log_loss", X, y, k, C)

    def alone() -> Any:
        with threadpool_limits(1):
            return ATkClassifier(k=k, C=C).fit(X, y)

    def excess(model: Any, other: Any) -> tuple[float, float]:
        if model.coef_.tobytes() != other.coef_.tobytes():
            raise AssertionError("The coefficients are not those of one thread, bit for bit.")
        return own.of(model), own.of(other)

    return Contest(lambda: ATkClassifier(k=k, C=C).fit(X, y), alone, excess, turns=3)


CLAIMS = [
    *(
        Claim(
            f"threads/lbfgs-{k:g}",
            f"log loss, {share(k)}",
            shape(N, D),
            "`LogisticRegression` (lbfgs, k = n) on as many threads",
            partial(against_lbfgs, k=k),
            threads="all",
            machine="both",
        )
        for k in (1.0, 0.7)
    ),
    *(
        Claim(
            f"threads/one-thread-{k:g}",
            f"log loss, {share(k)}, the same coefficients bit for bit",
            shape(N, D),
            "our own on one thread",
            partial(against_one_thread, k=k),
            packages=(),
            threads="all",
            machine="both",
        )
        for k in (1.0, 0.7)
    ),
]
