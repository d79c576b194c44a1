"""Pure noise leaves a model as it is: a correction is kept only if it is ahead by more than chance."""

from __future__ import annotations

import numpy as np
import pytest
from correction_problems import Affine
from scipy.stats import binom
from sklearn.linear_model import Ridge

from atklearn.correction import TailCorrectedRegressor

TIMES = 60


def test_is_not_looked_for_in_too_many_parts_of_models_that_differ_by_it():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 2))
    with pytest.warns(UserWarning, match="With 30 parts, models of different parts differ by what the correction sees"):
        TailCorrectedRegressor(Ridge(), cv=30, experts=None).fit(X, X[:, 0] + rng.standard_normal(90))


@pytest.mark.parametrize(
    ("base", "n", "cv"), [(Affine().fit(), 300, "prefit"), (Ridge(), 300, 5)], ids=["prefit", "cross-fitted"]
)
def test_is_taken_for_a_tail_once_in_twenty_times_at_most(base, n, cv):
    taken = 0
    for seed in range(TIMES):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((n, 3))
        y = X[:, 0] + rng.standard_normal(n)
        taken += TailCorrectedRegressor(base, cv=cv, experts=None, random_state=seed).fit(X, y).is_corrected_
    assert taken <= binom.ppf(0.99, TIMES, 0.05)
