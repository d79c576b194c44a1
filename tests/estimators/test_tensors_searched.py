"""Grids of k and C on tensors, with and without cross-validation; and scikit-learn's own checks of the array API."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import GroupKFold
from sklearn.preprocessing import scale

from atklearn import ATkClassifierCV, ATkRegressorCV, KCurveDisplay, atk_path

pytestmark = pytest.mark.usefixtures("as_tensors")

CHECKS = Path(__file__).parents[1] / "array_api_checks.py"
GRID = {"ks": [0.5, 1.0], "Cs": [0.1, 10.0]}


class TestPath:
    @pytest.mark.parametrize("loss", ["log_loss", "absolute_error"])
    def test_is_that_of_arrays(self, binary, loss):
        X, y = binary
        arrays = atk_path(X, y, loss=loss, tol=1e-9, **GRID)
        tensors = atk_path(torch.tensor(X), torch.tensor(y), loss=loss, tol=1e-9, **GRID)
        for name in ("ks", "Cs", "coefs", "intercepts", "objectives", "thresholds"):
            assert isinstance(getattr(tensors, name), torch.Tensor), name
            assert_allclose(getattr(tensors, name).numpy(), getattr(arrays, name), atol=1e-6, err_msg=name)
        assert isinstance(tensors.n_iters, torch.Tensor)
        said = tensors.decision(torch.tensor(X))
        assert_allclose(said.numpy(), arrays.decision(X), atol=1e-5)
        assert tensors.decision(torch.tensor(X).float()).dtype == torch.float32
        whole = torch.tensor(X).round().long()
        assert_allclose(tensors.decision(whole).numpy(), arrays.decision(whole.numpy()), atol=1e-5)

    def test_decides_where_it_was_fitted(self, binary):
        X, y = binary
        path = atk_path(torch.tensor(X), y, **GRID)
        with pytest.raises(ValueError, match=r"ATkPath.decision\(\) must use the same namespace"):
            path.decision(X)

    def test_labels_that_are_no_numbers(self, flowers):
        X, y = flowers
        path = atk_path(torch.tensor(X), y, **GRID)
        assert_array_equal(path.classes, np.unique(y))
        assert path.decision(torch.tensor(X)).shape == (2, 2, 3, len(y))


class TestSearch:
    @pytest.mark.parametrize("scoring", ["balanced_error", "roc_auc", "log_loss", None, "f1"])
    def test_of_classifiers_is_that_of_arrays(self, binary, scoring):
        X, y = binary
        weight = np.random.default_rng(0).integers(0, 3, len(y)) * 1.0
        model = ATkClassifierCV(scoring=scoring, cv=3, **GRID)
        arrays, tensors = (
            ATkClassifierCV(**model.get_params()).fit(data, labels, weights)
            for data, labels, weights in [(X, y, weight), (torch.tensor(X), torch.tensor(y), torch.tensor(weight))]
        )
        assert_allclose(
            tensors.cv_results_["mean_test_score"], arrays.cv_results_["mean_test_score"], atol=2e-3, err_msg=scoring
        )
        assert tensors.best_params_ == arrays.best_params_
        for name in ("ks_", "Cs_", "classes_", "coef_", "intercept_"):
            assert isinstance(getattr(tensors, name), torch.Tensor), name
        assert tensors.n_samples_ == len(y)
        assert tensors.calibration_bound_ == pytest.approx(arrays.calibration_bound_, rel=1e-2)
        for method in ("predict", "decision_function", "predict_proba", "predict_log_proba"):
            theirs = getattr(arrays, method)(X)
            assert_allclose(getattr(tensors, method)(torch.tensor(X)).numpy(), theirs, rtol=1e-3, atol=1e-3)
        assert tensors.score(torch.tensor(X), torch.tensor(y)) == arrays.score(X, y)

    def test_of_regressors_is_that_of_arrays(self, diabetes):
        X, y = diabetes[0], scale(diabetes[1])
        model = ATkRegressorCV("absolute_error", cv=3, **GRID)
        arrays = model.fit(X, y).cv_results_["mean_test_score"]
        model.fit(torch.tensor(X), torch.tensor(y))
        assert_allclose(model.cv_results_["mean_test_score"], arrays, atol=2e-3)
        assert model.score(torch.tensor(X), torch.tensor(y)) > 0.4

    def test_strings_groups_and_jobs(self, flowers):
        X, y = flowers
        groups = torch.arange(len(y)) % 7
        model = ATkClassifierCV(ks=[0.7, 1.0], Cs=[1.0, 10.0], cv=GroupKFold(3), n_jobs=2).fit(
            torch.tensor(X), y, groups=groups
        )
        assert_array_equal(model.classes_, np.unique(y))
        assert isinstance(model.predict(torch.tensor(X)), np.ndarray)

    def test_to_numpy_takes_the_final_fit_along(self, binary):
        X, y = binary
        there = ATkClassifierCV(cv=3, **GRID).fit(torch.tensor(X), torch.tensor(y))
        here = there.to_numpy()
        assert_array_equal(here.predict(X), there.predict(torch.tensor(X)).numpy())
        assert isinstance(here.best_estimator_.coef_, np.ndarray)
        assert isinstance(here.ks_, np.ndarray)
        assert isinstance(there.best_estimator_.coef_, torch.Tensor)

    def test_predicts_only_where_it_was_fitted(self, binary):
        X, y = binary
        model = ATkClassifierCV(cv=3, **GRID).fit(torch.tensor(X), torch.tensor(y))
        with pytest.raises(ValueError, match=r"ATkClassifierCV.predict\(\) must use the same namespace"):
            model.predict(X)

    def test_can_be_drawn(self, binary):
        X, y = binary
        model = ATkClassifierCV(cv=3, **GRID).fit(torch.tensor(X), torch.tensor(y))
        display = KCurveDisplay.from_estimator(model)
        assert display.marks_


def test_scikit_learn_checks_of_the_array_api():
    names = ["ATkClassifier", "ATkRegressor", "ATkClassifierCV", "ATkRegressorCV"]
    ran = subprocess.run([sys.executable, CHECKS, *names], capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    passed = [line.split(" ", 2) for line in ran.stdout.splitlines()]
    assert [name for name, _, _ in passed] == names
    assert all(int(count) >= 12 for _, count, _ in passed)
    assert {namespaces for _, _, namespaces in passed} == {"['array_api_strict', 'numpy', 'torch']"}
