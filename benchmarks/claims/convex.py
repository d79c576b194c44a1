"""The same objective in a general convex solver, and in libraries made for one of its kinds."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from functools import partial
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from claims.accuracy import Yardstick, estimator
from claims.claim import LOSS_NAMES, Claim, Contest, Setting, shape, share
from claims.data import linear_data

D = 20
UNPENALIZED = 1e8  # our C where the others have no penalty: it adds less than 1e-8 to the objective

N_CVXPY = 10_000


def losses_in_cvxpy(loss: str, f: Any, y: np.ndarray) -> Any:
    """Return the individual losses of predictions as cvxpy has them."""
    import cvxpy as cp

    return {
        "log_loss": lambda: cp.logistic(-cp.multiply(y, f)),
        "hinge": lambda: cp.pos(1 - cp.multiply(y, f)),
        "squared_hinge": lambda: cp.square(cp.pos(1 - cp.multiply(y, f))),
        "squared_error": lambda: cp.square(y - f),
        "absolute_error": lambda: cp.abs(y - f),
        "huber": lambda: 0.5 * cp.huber(y - f, 1.0),
    }[loss]()


def program(loss: str, X: np.ndarray, y: np.ndarray, k: float, C: float) -> tuple[Any, Any, Any]:
    """Return AT_k as a user of cvxpy writes it, with its variables."""
    import cvxpy as cp

    n, d = X.shape
    w, b = cp.Variable(d), cp.Variable()
    losses = losses_in_cvxpy(loss, X @ w + b, y)
    count = round(k * n)
    return cp.Problem(cp.Minimize(cp.sum_largest(losses, count) / count + cp.sum_squares(w) / (2 * C))), w, b


def against_cvxpy(setting: Setting, *, loss: str, k: float) -> Contest:
    import cvxpy as cp

    C = 100.0
    X, y = linear_data(loss, setting.rows(N_CVXPY), D)
    yardstick = Yardstick(loss, X, y, k, C)

    def theirs(X: np.ndarray = X, y: np.ndarray = y) -> tuple[np.ndarray, float]:
        problem, w, b = program(loss, X, y, k, C)
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-6, tol_gap_rel=1e-6, tol_feas=1e-6, max_threads=1)
        return w.value, float(b.value)

    theirs(X[:200], y[:200])
    return Contest(
        lambda: estimator(loss, k=k, C=C, tol=1e-6).fit(X, y),
        theirs,
        lambda model, found: (yardstick.of(model), yardstick.excess(*found)),
        warm=True,
    )


N_DRO = 5_000
DRO_MODELS = {"log_loss": "logistic", "hinge": "svm", "squared_error": "ols", "absolute_error": "lad"}


def cvar_dro() -> Any:
    """Return the class for CVaR of dro, without what its packages import on top, for networks and trees."""
    spec = find_spec("dro")
    assert spec is not None
    places = list(spec.submodule_search_locations or ())
    for name, folders in (
        ("dro", places),
        ("dro.linear_model", [str(Path(place, "linear_model")) for place in places]),
    ):
        if name not in sys.modules:
            bare = ModuleSpec(name, None, is_package=True)
            bare.submodule_search_locations = folders
            sys.modules[name] = importlib.util.module_from_spec(bare)
    return importlib.import_module("dro.linear_model.cvar_dro").CVaRDRO


def against_dro(setting: Setting, *, loss: str, k: float) -> Contest:
    model_of = cvar_dro()
    X, y = linear_data(loss, setting.rows(N_DRO), D, noise=0.5)
    yardstick = Yardstick(loss, X, y, k, UNPENALIZED)

    def theirs(X: np.ndarray = X, y: np.ndarray = y) -> Any:
        model = model_of(D, DRO_MODELS[loss], alpha=k)
        model.fit(X, y)
        return model

    theirs(X[:200], y[:200])
    return Contest(
        lambda: estimator(loss, k=k, C=UNPENALIZED, tol=1e-6).fit(X, y),
        theirs,
        lambda model, other: (yardstick.of(model), yardstick.excess(np.asarray(other.theta), float(other.b))),
        warm=True,
    )


N_REHLINE = 50_000
REHLINE_LOSSES = {
    "hinge": {"name": "svm"},
    "squared_hinge": {"name": "squared SVM"},
    "absolute_error": {"name": "QR", "qt": 0.5},  # half of the absolute error
    "huber": {"name": "huber", "tau": 1.0},
}


def against_rehline(setting: Setting, *, loss: str) -> Contest:
    from rehline import plqERM_Ridge

    n = setting.rows(N_REHLINE)
    X, y = linear_data(loss, n, D, noise=0.5)
    y = np.ascontiguousarray(y)
    C = float(n)  # the sum of the losses + |w|^2 / 2, as is usual there
    yardstick = Yardstick(loss, X, y, 1.0, C, fit_intercept=False)
    theirs_C = 2.0 if loss == "absolute_error" else 1.0

    def fit(tol: float) -> Any:
        return plqERM_Ridge(REHLINE_LOSSES[loss], C=theirs_C, tol=tol, max_iter=10_000).fit(X, y)

    return Contest(
        lambda: estimator(loss, k=1.0, C=C, tol=1e-4, fit_intercept=False).fit(X, y),
        lambda: fit(1e-4),
        lambda model, other: (yardstick.of(model), yardstick.excess(other.coef_)),
    )


N_QUANTILE = 5_000


def against_quantile_regressor(setting: Setting) -> Contest:
    from sklearn.linear_model import QuantileRegressor

    X, y = linear_data("absolute_error", setting.rows(N_QUANTILE), D)
    yardstick = Yardstick("absolute_error", X, y, 1.0, UNPENALIZED)
    return Contest(
        lambda: estimator("absolute_error", k=1.0, C=UNPENALIZED, tol=1e-6).fit(X, y),
        lambda: QuantileRegressor(quantile=0.5, alpha=0.0).fit(X, y),
        lambda model, other: (yardstick.of(model), yardstick.of(other)),
    )


def claim(name: str, task: str, n: int, over: str, prepare: Callable[..., Contest], *packages: str) -> Claim:
    return Claim(
        f"convex/{name}",
        task,
        shape(n, D),
        over,
        prepare,
        packages,
        needs=tuple({"scikit-learn": "sklearn"}.get(name, name) for name in packages),
    )


CLAIMS = [
    *(
        claim(
            f"cvxpy-{loss}",
            f"AT_k, {LOSS_NAMES[loss]}, {share(k)}",
            N_CVXPY,
            "cvxpy with Clarabel",
            partial(against_cvxpy, loss=loss, k=k),
            "cvxpy",
            "clarabel",
        )
        for loss, k in (("log_loss", 0.4), ("hinge", 0.4), ("squared_error", 0.05), ("absolute_error", 0.05))
    ),
    *(
        claim(
            f"dro-{loss}",
            f"CVaR, {LOSS_NAMES[loss]}, alpha = {k:g} ({share(k)}), no penalty",
            N_DRO,
            "dro `CVaRDRO` (cvxpy with Clarabel inside)",
            partial(against_dro, loss=loss, k=k),
            "dro",
            "cvxpy",
        )
        for loss, k in (("log_loss", 0.8), ("hinge", 0.8), ("squared_error", 0.2), ("absolute_error", 0.2))
    ),
    *(
        claim(
            f"rehline-{loss}",
            f"{LOSS_NAMES[loss]}, k = n, C = n, no intercept",
            N_REHLINE,
            "ReHLine `plqERM_Ridge`",
            partial(against_rehline, loss=loss),
            "rehline",
        )
        for loss in REHLINE_LOSSES
    ),
    claim(
        "quantile-regressor",
        "absolute error, k = n, no penalty",
        N_QUANTILE,
        "`QuantileRegressor` (HiGHS)",
        against_quantile_regressor,
        "scikit-learn",
    ),
]
