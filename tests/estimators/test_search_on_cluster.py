"""The CV estimators on a Dask cluster, through joblib: the same scores, found by the workers."""

from __future__ import annotations

import warnings

import dask
import joblib
import numpy as np
import pytest

from atklearn import ATkClassifierCV, ATkRegressorCV

rng = np.random.default_rng(0)
X = rng.standard_normal((2_000, 10))
TARGETS = {ATkClassifierCV: X[:, 0] > 0.3 * rng.standard_normal(len(X)), ATkRegressorCV: X[:, 0] + X[:, 1] ** 2}


@pytest.mark.parametrize("search", list(TARGETS))
def test_a_cluster_finds_what_is_found_here_and_gets_the_data_once(monkeypatch, client, search):
    model, y = search(ks=3, Cs=2, cv=4), TARGETS[search]
    here = model.fit(X, y).cv_results_

    def refused(*_):
        raise AssertionError("a fold was fitted in this process")

    monkeypatch.setattr("atklearn.selection.folds.Fold.fill", refused)
    with (
        warnings.catch_warnings(record=True) as told,
        dask.config.set({"distributed.admin.large-graph-warning-threshold": f"{X.nbytes // 2} B"}),
        joblib.parallel_config(backend="dask", client=client),
    ):
        warnings.simplefilter("always")
        there = model.fit(X, y).cv_results_
    assert [str(warning.message) for warning in told] == []
    for name in here:
        np.testing.assert_array_equal(here[name], there[name])
