"""Boosted trees: AT_k over an average that is as custom, so that LightGBM calls Python for both."""

from __future__ import annotations

from typing import Any

import numpy as np

from atklearn.boosting import ATkObjective
from claims.claim import Claim, Contest, Setting, shape

N, D, ROUNDS, SHARE = 300_000, 20, 40, 0.2


def custom_average(y_true: np.ndarray, y_pred: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return y_pred - y_true, np.ones_like(y_pred)


def against_custom_average(setting: Setting) -> Contest:
    import lightgbm

    rng = np.random.default_rng(0)
    X = rng.standard_normal((setting.rows(N), D))
    y = X[:, 0] + np.sin(3.0 * X[:, 1]) * X[:, 2] + rng.standard_t(3, len(X))

    def fit(objective: Any) -> Any:
        options = {"n_estimators": ROUNDS, "n_jobs": setting.threads, "verbosity": -1}
        return lightgbm.LGBMRegressor(objective=objective, **options).fit(X, y)

    return Contest(lambda: fit(ATkObjective(k=SHARE)), lambda: fit(custom_average))


CLAIMS = [
    Claim(
        f"boosting/overhead-{threads}",
        f"{ROUNDS} rounds, squared error, k = {SHARE:g} n",
        shape(N, D),
        "LightGBM with a custom average",
        against_custom_average,
        ("lightgbm",),
        ("lightgbm",),
        threads=threads,
    )
    for threads in (1, "all")
]
