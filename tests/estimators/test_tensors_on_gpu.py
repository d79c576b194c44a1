"""The linear estimators on a GPU: the same as of arrays, and everything stays there."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.preprocessing import scale

from atklearn import ATkClassifier, ATkClassifierCV, ATkRegressor, ATkRegressorCV, atk_path
from atklearn.runtime import namespaces
from atklearn.runtime.namespaces import on_host

if not torch.cuda.is_available():
    pytest.skip("needs a GPU, and a PyTorch built for it", allow_module_level=True)

FINE = {"tol": 1e-9, "C": 5.0}


@pytest.fixture(params=["on the host", "where X lies"], autouse=True)
def small_data(request, monkeypatch):
    """Few numbers are computed on the host, as they are by default, and on the GPU."""
    if request.param == "where X lies":
        monkeypatch.setattr(namespaces, "FEW_NUMBERS", 0)


def on_gpu(values):
    return torch.tensor(values, device="cuda")


def assert_on_gpu(model, *names):
    for name in names:
        assert getattr(model, name).device == torch.device("cuda", 0), name


@pytest.mark.parametrize("loss", ["log_loss", "hinge", "squared_hinge"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_classifiers(binary, loss, dtype):
    X, y = binary[0].astype(dtype), binary[1]
    weight = np.random.default_rng(0).integers(0, 3, len(y)) * 1.0
    arrays = ATkClassifier(loss, k=0.5, class_weight="balanced", **FINE).fit(X, y, weight)
    tensors = ATkClassifier(loss, k=0.5, class_weight="balanced", **FINE).fit(on_gpu(X), y, torch.tensor(weight))
    assert_on_gpu(tensors, "coef_", "intercept_", "classes_", "top_weights_")
    assert_allclose(on_host(tensors.coef_), arrays.coef_, atol=1e-5)
    said = tensors.predict(on_gpu(X))
    assert said.device.type == "cuda"
    assert_array_equal(on_host(said), arrays.predict(X))
    assert tensors.score(on_gpu(X), on_gpu(y), on_gpu(weight)) == arrays.score(X, y, weight)
    assert_array_equal(tensors.to_numpy().predict(X), arrays.predict(X))


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "huber"])
def test_regressors(diabetes, loss):
    X, y = diabetes[0], scale(diabetes[1])
    arrays = ATkRegressor(loss, k=0.5, **FINE).fit(X, y)
    tensors = ATkRegressor(loss, k=0.5, **FINE).fit(on_gpu(X), torch.tensor(y))
    assert_on_gpu(tensors, "coef_", "intercept_")
    assert_allclose(on_host(tensors.predict(on_gpu(X))), arrays.predict(X), atol=1e-5)


def test_labels_that_are_no_numbers(flowers):
    X, y = flowers
    arrays, tensors = ATkClassifier(k=0.7).fit(X, y), ATkClassifier(k=0.7).fit(on_gpu(X), y)
    assert_array_equal(tensors.predict(on_gpu(X)), arrays.predict(X))
    assert_allclose(on_host(tensors.predict_proba(on_gpu(X))), arrays.predict_proba(X), atol=1e-4)


def test_choice_of_k_of_many_samples():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((8000, 3))
    y = (X[:, 0] + 0.3 * rng.standard_normal(8000) > 1.0).astype(int)
    X[rng.random(8000) < 0.1, 0] -= 5.0
    arrays, tensors = ATkClassifier(C=1.0).fit(X, y), ATkClassifier(C=1.0).fit(on_gpu(X), y)
    assert tensors.k_share_ == pytest.approx(arrays.k_share_, rel=1e-9)


@pytest.mark.parametrize("scoring", ["balanced_error", "f1", None])
def test_searches(binary, scoring):
    X, y = binary
    options = {"ks": [0.5, 1.0], "Cs": [0.1, 10.0], "cv": 3, "n_jobs": 2}
    model = ATkClassifierCV(scoring=scoring, **options)
    arrays = model.fit(X, y).cv_results_["mean_test_score"]
    model.fit(on_gpu(X), on_gpu(y))
    assert_allclose(model.cv_results_["mean_test_score"], arrays, atol=2e-3)
    assert_on_gpu(model, "coef_", "ks_", "Cs_", "classes_")
    assert model.predict(on_gpu(X)).device.type == "cuda"
    assert_array_equal(model.to_numpy().predict(X), on_host(model.predict(on_gpu(X))))
    regressor = ATkRegressorCV("absolute_error", **options).fit(on_gpu(X), on_gpu(y))
    assert_on_gpu(regressor, "coef_", "intercept_")


def test_paths(binary):
    X, y = binary
    path = atk_path(on_gpu(X), y, ks=[0.5, 1.0], Cs=[1.0], tol=1e-9)
    assert_allclose(on_host(path.coefs), atk_path(X, y, ks=[0.5, 1.0], Cs=[1.0], tol=1e-9).coefs, atol=1e-6)
    assert path.decision(on_gpu(X)).device.type == "cuda"


def test_predicts_only_where_it_was_fitted(binary):
    X, y = binary
    model = ATkClassifier(k=0.5).fit(on_gpu(X), y)
    for other in (X, torch.tensor(X)):
        with pytest.raises(ValueError, match="the same device as in the fit, torch on cuda:0, got "):
            model.predict(other)
    assert torch.equal(pickle.loads(pickle.dumps(model)).predict(on_gpu(X)), model.predict(on_gpu(X)))


def test_targets_may_stay_behind_and_arrays_on_the_host(binary):
    X, y = binary
    assert isinstance(ATkClassifier(k=0.5).fit(X, on_gpu(y), on_gpu(np.ones(len(y)))).coef_, np.ndarray)
    model = ATkClassifier(k=0.5, warm_start=True, **FINE).fit(on_gpu(X), y)
    assert_allclose(model.fit(X, y).coef_, on_host(model.fit(on_gpu(X), y).coef_), atol=1e-6)


def test_features_that_have_no_room_as_floats_are_told_as_any_others():
    free = torch.cuda.mem_get_info()[0]
    X = torch.zeros(1, 1, device="cuda", dtype=torch.int8).expand(free // 8 * 2, 1)  # becomes float64
    with pytest.raises(MemoryError, match="enough for blocks of"):
        ATkRegressor(k=1.0).fit(X, torch.zeros(1).expand(len(X)))


def test_a_full_device_says_what_fits_and_keeps_nothing():
    X = torch.randn((4_000_000, 4), device="cuda", dtype=torch.float64)
    y = X[:, 0] > 0.0
    model = ATkClassifier(k=0.5)
    model.fit(X[:1000], y[:1000])  # what kernels need is there before
    total = torch.cuda.mem_get_info()[1]
    before = torch.cuda.memory_allocated()
    torch.cuda.empty_cache()
    try:
        torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 100_000_000) / total)
        with pytest.raises(MemoryError, match=r"takes about .* GB beside X, and cuda:0 has .* blocks of \d+ rows"):
            model.fit(X, y)
        assert torch.cuda.memory_allocated() == before
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert model.fit(X, y).dual_gap_ <= 1e-6 * model.objective_
