"""Grids of k and C over as many fits of scikit-learn, which knows C alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from atklearn import atk_path
from atklearn.core.solve import solve_linear
from atklearn.encoding.encoded import ProblemEncoder
from atklearn.losses.individual import INDIVIDUAL_LOSSES
from claims.accuracy import Yardstick
from claims.claim import LOSS_NAMES, Claim, Contest, Setting, shape
from claims.data import linear_data

TOL = 1e-3
SMALL, LARGE = (324, 15), (20_000, 20)
KS = {SMALL: np.geomspace(0.4, 1.0, 8), LARGE: np.geomspace(0.3, 1.0, 8)}
CS = {SMALL: np.logspace(-1, 4, 6), LARGE: np.logspace(-1, 4, 11)}


def noise_of(size: tuple[int, int]) -> float:
    return 1.0 if size == SMALL else 0.3


def fits_of_the_average(X: np.ndarray, y: np.ndarray, Cs: Sequence[float], loss: str, times: int) -> list[Any]:
    """Return a fit for each C, made as often as there are k."""
    n = len(y)
    for _ in range(times):
        if loss == "log_loss":
            models = [LogisticRegression(C=C / n).fit(X, y) for C in Cs]
        else:
            models = [LinearSVC(C=C / n, loss="hinge", dual=True).fit(X, y) for C in Cs]
    return models


def against_single_fits(setting: Setting, *, size: tuple[int, int], loss: str) -> Contest:
    X, y = linear_data(loss, setting.rows(size[0]), size[1], noise=noise_of(size))
    ks, Cs = KS[size], CS[size]

    def excess(path: Any, others: list[Any]) -> tuple[float, float | None]:
        """Return the largest over C at k = n; LinearSVC penalises the intercept, and is not asked."""
        yardsticks = [Yardstick(loss, X, y, 1.0, C) for C in Cs]
        ours = max(
            one.excess(path.coefs[-1, j].ravel(), float(np.ravel(path.intercepts[-1, j])[0]))
            for j, one in enumerate(yardsticks)
        )
        if loss == "hinge":
            return ours, None
        return ours, max(one.of(other) for one, other in zip(yardsticks, others, strict=True))

    return Contest(
        lambda: atk_path(X, y, ks=ks, Cs=Cs, loss=loss, tol=TOL),
        lambda: fits_of_the_average(X, y, Cs, loss, len(ks)),
        excess,
    )


def against_cold_fits(setting: Setting, *, loss: str) -> Contest:
    X, y = linear_data(loss, setting.rows(LARGE[0]), LARGE[1], noise=noise_of(LARGE))
    (problem,) = ProblemEncoder(INDIVIDUAL_LOSSES[loss](), "free").on(X, y).problems
    ks, Cs = KS[LARGE], CS[LARGE]

    def excess(path: Any, fits: list[Any]) -> tuple[float, float]:
        return float((path.dual_gaps / path.objectives).max()), max(one.dual_gap / one.objective for one in fits)

    return Contest(
        lambda: atk_path(X, y, ks=ks, Cs=Cs, loss=loss, tol=TOL),
        lambda: [solve_linear(problem.at(k * len(y), C), tol=TOL) for k in ks for C in Cs],
        excess,
    )


def cells(size: tuple[int, int]) -> str:
    return f"{len(KS[size])} k x {len(CS[size])} C"


CLAIMS = [
    *(
        Claim(
            f"path/{name}-{size[0]}x{size[1]}",
            f"{LOSS_NAMES[loss]}, {cells(size)}",
            shape(*size),
            f"as many fits of {over}",
            partial(against_single_fits, size=size, loss=loss),
        )
        for size, loss, name, over in (
            (SMALL, "log_loss", "lbfgs", "`LogisticRegression` (lbfgs, k = n)"),
            (SMALL, "hinge", "linear-svc", "`LinearSVC` (LIBLINEAR, k = n)"),
            (LARGE, "log_loss", "lbfgs", "`LogisticRegression` (lbfgs, k = n)"),
        )
    ),
    *(
        Claim(
            f"path/cold-{loss}",
            f"{LOSS_NAMES[loss]}, {cells(LARGE)}",
            shape(*LARGE),
            "our own fits, each from zero",
            partial(against_cold_fits, loss=loss),
            packages=(),
        )
        for loss in ("log_loss", "hinge")
    ),
]
