"""The linear estimators on tensors: what arrays would say, where X lies, in the kind of X; or a refusal."""

from __future__ import annotations

import builtins
import pickle
import subprocess
import sys
from pathlib import Path

import joblib
import numpy as np
import pytest
import sklearn
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, scale

from atklearn import (
    ATkClassifier,
    ATkClassifierCV,
    ATkRegressor,
    ATkRegressorCV,
    KCurveDisplay,
    LogLoss,
    SGDATkClassifier,
    SquaredError,
    atk_path,
)
from atklearn.datasets import make_toy
from atklearn.encoding import encoded as encoding
from atklearn.encoding import tensors as tensor_checks
from atklearn.encoding.encoded import ProblemEncoder
from atklearn.runtime.namespaces import home_of, kept_home, on_host
from atklearn.selection.choosing import AUTO_ROWS
from atklearn.selection.distribution import Distribution, few_tensor_rows, row_marks

pytestmark = pytest.mark.usefixtures("as_tensors")

FINE = {"tol": 1e-9}
CLASSIFICATION = ["log_loss", "hinge", "squared_hinge"]
REGRESSION = ["squared_error", "absolute_error", "huber"]
OTHER_NUMBERS = [
    torch.int32, torch.uint8, torch.uint16, torch.uint64, torch.bool, torch.float16, torch.bfloat16,
    torch.float8_e4m3fn,
]  # fmt: skip


def both(estimator, X, y, weight=None, dtype=torch.float64):
    """Fit on arrays and on tensors, of the same numbers."""
    tensors = torch.tensor(X).to(dtype)
    arrays = clone(estimator).fit(tensors.numpy(), y, weight)
    return arrays, clone(estimator).fit(tensors, torch.tensor(y), weight), tensors


def assert_same(arrays, tensors, atol=1e-6):
    """Compare all that is fitted, the tensors being called back."""
    for name, value in vars(arrays).items():
        if not name.endswith("_") or name in ("n_iter_", "dual_gap_", "top_weights_"):
            continue
        assert_allclose(np.asarray(getattr(tensors, name)), value, atol=atol, err_msg=name)


class TestSameAsArrays:
    @pytest.mark.parametrize("loss", CLASSIFICATION)
    @pytest.mark.parametrize("k", [150, 0.5, 1.0])
    def test_classifiers(self, binary, loss, k):
        arrays, tensors, X = both(ATkClassifier(loss, k=k, C=5.0, **FINE), *binary)
        assert_same(arrays, tensors)
        assert_array_equal(tensors.predict(X).numpy(), arrays.predict(X.numpy()))
        assert_allclose(tensors.decision_function(X).numpy(), arrays.decision_function(X.numpy()), atol=1e-5)
        assert tensors.score(X, binary[1]) == arrays.score(X.numpy(), binary[1])
        assert tensors.score(X, binary[1], binary[1] + 1) == arrays.score(X.numpy(), binary[1], binary[1] + 1)

    @pytest.mark.parametrize("loss", REGRESSION)
    @pytest.mark.parametrize("k", [40, 0.5, 1.0])
    def test_regressors(self, diabetes, loss, k):
        X, y = diabetes
        arrays, tensors, X = both(ATkRegressor(loss, k=k, C=5.0, **FINE), X, scale(y))
        assert_same(arrays, tensors)
        assert_allclose(tensors.predict(X).numpy(), arrays.predict(X.numpy()), atol=1e-6)
        assert tensors.score(X, scale(y)) == pytest.approx(arrays.score(X.numpy(), scale(y)), abs=1e-8)

    @pytest.mark.parametrize("intercept", [(True, False), (True, True), (False, False)])
    def test_intercepts(self, binary, intercept):
        fitted, penalized = intercept
        model = ATkClassifier(k=0.4, fit_intercept=fitted, penalize_intercept=penalized, **FINE)
        assert_same(*both(model, *binary)[:2])

    @pytest.mark.parametrize("class_weight", [None, "balanced", {0: 1.0, 1: 3.0}])
    def test_weights_and_samples_without(self, binary, class_weight):
        X, y = binary
        weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
        arrays, tensors, _ = both(ATkClassifier(k=0.4, class_weight=class_weight, **FINE), X, y, weight)
        assert_same(arrays, tensors)
        assert tensors.top_weights_.shape == (len(y),)
        assert (tensors.top_weights_.numpy()[weight == 0.0] == 0.0).all()
        assert_allclose(tensors.top_weights_.numpy(), arrays.top_weights_, atol=1e-5)

    def test_samples_without_weight_are_left_out(self, binary):
        X, y = binary
        encoder = ProblemEncoder(LogLoss(), "free")
        problems = encoder.on(torch.tensor(X), torch.tensor(y), torch.tensor(np.arange(len(y)) % 4 * 1.0))
        assert problems.problems[0].rows.n_rows == 0.75 * len(y)
        assert problems.total == 1.5 * len(y)

    def test_one_weight_for_all(self, binary):
        X, y = binary
        arrays, tensors, _ = both(ATkClassifier(k=0.4, C=3.0, **FINE), X, y, 2.0)
        assert_same(arrays, tensors)

    def test_three_classes(self, flowers):
        X, y = flowers
        codes = np.unique(y, return_inverse=True)[1] * 10
        arrays, tensors, X = both(ATkClassifier(k=0.6, C=5.0, class_weight="balanced", **FINE), X, codes)
        assert_same(arrays, tensors)
        for name in ("loss_threshold_", "dual_gap_", "objective_", "n_iter_", "top_weights_"):
            assert isinstance(getattr(tensors, name), torch.Tensor), name
        assert_array_equal(tensors.predict(X).numpy(), arrays.predict(X.numpy()))
        for method in ("decision_function", "predict_proba", "predict_log_proba"):
            assert_allclose(getattr(tensors, method)(X).numpy(), getattr(arrays, method)(X.numpy()), atol=1e-5)

    def test_probabilities_where_every_class_says_no(self, flowers):
        X, y = flowers
        far = torch.full((2, X.shape[1]), -1e3)
        model = ATkClassifier(k=1.0).fit(torch.tensor(X), y)
        model.coef_ = torch.ones_like(model.coef_)
        assert_allclose(model.predict_proba(far.double()).numpy(), 1.0 / 3.0)

    def test_short_floats_are_predicted_in_their_precision(self, binary):
        arrays, tensors, X = both(ATkClassifier(k=0.5, C=5.0, **FINE), *binary, dtype=torch.float32)
        assert_same(arrays, tensors)
        assert tensors.coef_.dtype == torch.float64
        for method in ("decision_function", "predict_proba"):
            said = getattr(tensors, method)(X)
            assert said.dtype == torch.float32
            assert_allclose(said.numpy(), getattr(arrays, method)(X.numpy()), atol=1e-5)

    @pytest.mark.parametrize("dtype", OTHER_NUMBERS)
    def test_other_numbers_become_floats(self, binary, dtype):
        """As features, targets and weights."""
        X, y = binary
        X, weight = (torch.tensor(X) > 0.0).to(dtype), torch.tensor(y + 1).to(dtype)
        tensors = ATkClassifier(k=0.5, C=5.0, **FINE).fit(X, y, weight)
        arrays = ATkClassifier(k=0.5, C=5.0, **FINE).fit(X.double().numpy(), y, weight.double().numpy())
        assert_allclose(tensors.coef_.numpy(), arrays.coef_, atol=1e-6)
        assert tensors.decision_function(X).dtype == (torch.float32 if dtype.is_floating_point else torch.float64)
        tensors = ATkRegressor(k=0.5, **FINE).fit(X, weight)
        assert_allclose(
            tensors.coef_.numpy(), ATkRegressor(k=0.5, **FINE).fit(X.double().numpy(), weight).coef_, atol=1e-6
        )

    @pytest.mark.parametrize("labels", [torch.int8, torch.uint16, torch.uint64, torch.float32, torch.bool])
    def test_labels_keep_their_type(self, binary, labels):
        X, y = torch.tensor(binary[0]), torch.tensor(binary[1]).to(labels)
        model = ATkClassifier().fit(X, y)
        assert model.classes_.dtype == labels
        assert model.predict(X).dtype == labels
        assert model.score(X, y) > 0.9

    @pytest.mark.parametrize("size", [1e25, 1e37])
    def test_short_floats_whose_squares_are_too_large_for_them(self, diabetes, size):
        """Everything is summed in float64: such targets are fitted to the tolerance, of such features it is told."""
        X, y = diabetes[0].astype(np.float32), scale(diabetes[1])
        arrays, tensors, _ = both(ATkRegressor(k=0.5, **FINE), X, (size * y).astype(np.float32), dtype=torch.float32)
        assert tensors.dual_gap_ <= 1e-9 * tensors.objective_
        assert_allclose(tensors.coef_.numpy(), arrays.coef_, rtol=1e-4)
        model, features = ATkRegressor(k=0.5), torch.tensor(X) * size
        with pytest.warns(ConvergenceWarning, match="floating-point"):
            model.fit(features, y)
        unpenalized = ATkRegressor(k=0.5, C=1e9).fit(X, y)
        assert model.objective_ == pytest.approx(unpenalized.objective_, rel=1e-2)
        assert_allclose(model.predict(features).numpy(), unpenalized.predict(X), atol=0.2)

    def test_labels_that_are_no_numbers(self, flowers):
        X, y = flowers
        arrays, tensors = ATkClassifier(k=0.6).fit(X, y), ATkClassifier(k=0.6).fit(torch.tensor(X), y)
        assert_array_equal(tensors.classes_, arrays.classes_)
        said = tensors.predict(torch.tensor(X))
        assert isinstance(said, np.ndarray)
        assert_array_equal(said, arrays.predict(X))
        assert tensors.score(torch.tensor(X), y) == arrays.score(X, y)


class TestFollowsX:
    def test_what_is_fitted(self, binary):
        model = ATkClassifier(k=0.5).fit(torch.tensor(binary[0]), torch.tensor(binary[1]))
        for name in ("coef_", "intercept_", "classes_", "top_weights_"):
            assert isinstance(getattr(model, name), torch.Tensor), name
        for name in ("loss_threshold_", "dual_gap_", "objective_", "k_", "k_share_", "C_"):
            assert type(getattr(model, name)) is float, name
        assert type(model.n_iter_) is int
        assert model.n_features_in_ == 8

    def test_a_regressor_has_one_intercept(self, diabetes):
        model = ATkRegressor(k=0.5).fit(torch.tensor(diabetes[0]), diabetes[1])
        assert model.coef_.shape == (10,)
        assert isinstance(model.intercept_, torch.Tensor)
        assert model.intercept_.shape == ()

    def test_targets_and_weights_may_lie_elsewhere(self, binary):
        X, y = binary
        weight = np.random.default_rng(0).random(len(y))
        fits = [
            ATkClassifier(k=0.5).fit(torch.tensor(X), labels, weights).coef_.numpy()
            for labels, weights in [
                (torch.tensor(y), torch.tensor(weight)),
                (y, weight),
                (y.tolist(), weight.tolist()),
                (y.astype(object).astype(int), torch.tensor(weight)),
            ]
        ]
        for coef in fits[1:]:
            assert_array_equal(coef, fits[0])

    def test_an_array_with_targets_that_are_tensors_is_an_array(self, binary):
        X, y = binary
        weight = np.random.default_rng(0).random(len(y))
        model = ATkClassifier(k=0.5).fit(X, torch.tensor(y), torch.tensor(weight))
        assert isinstance(model.coef_, np.ndarray)
        assert_array_equal(model.coef_, ATkClassifier(k=0.5).fit(X, y, weight).coef_)
        assert model.score(X, torch.tensor(y)) == model.score(X, y)

    def test_no_gradients(self, binary):
        X, y, weight = (
            torch.tensor(each, dtype=torch.float64, requires_grad=True) for each in (*binary, binary[1] + 1)
        )
        model = ATkClassifier(k=0.5).fit(X, y, weight)
        assert not model.coef_.requires_grad
        assert not model.predict_proba(X).requires_grad
        assert model.score(X, y, weight) > 0.9
        assert_array_equal(ATkClassifier(k=0.5).fit(binary[0], y, weight).predict(binary[0]), model.predict(X))

    def test_views_with_other_signs_than_the_memory(self, binary):
        X, y = torch.tensor(binary[0]), binary[1]
        negative = (X * 1j).conj().imag
        assert negative.is_neg()
        model = ATkClassifier(k=0.5).fit(negative, y)
        assert_array_equal(model.coef_, ATkClassifier(k=0.5).fit(-X, y).coef_)
        assert_array_equal(model.predict(negative), model.predict(-X))

    def test_x_is_not_changed(self, binary):
        X, y = torch.tensor(binary[0]) + 100.0, torch.tensor(binary[1])
        before = X.clone(), y.clone()
        ATkClassifier(k=0.5).fit(X, y).predict(X)
        assert torch.equal(X, before[0])
        assert torch.equal(y, before[1])

    @pytest.mark.parametrize("method", ["predict", "decision_function", "predict_proba", "predict_log_proba"])
    def test_predicts_only_where_it_was_fitted(self, binary, method):
        X, y = binary
        for fitted, other in [(torch.tensor(X), X), (X, torch.tensor(X)), (torch.tensor(X), X.tolist())]:
            model = ATkClassifier(k=0.5).fit(fitted, y)
            with pytest.raises(ValueError, match=rf"ATkClassifier.{method}\(\) must use the same namespace"):
                getattr(model, method)(other)

    def test_to_numpy(self, binary, flowers, diabetes):
        for X, y in (binary, flowers):
            there = ATkClassifier(k=0.7, warm_start=True).fit(torch.tensor(X), y)
            here = there.to_numpy()
            assert not any(isinstance(value, torch.Tensor) for value in vars(here).values())
            assert not hasattr(here, "_solutions")
            assert isinstance(there.coef_, torch.Tensor)
            assert_array_equal(here.predict(X), np.asarray(there.predict(torch.tensor(X))))
        regressor = ATkRegressor(k=0.5).fit(torch.tensor(diabetes[0]), diabetes[1]).to_numpy()
        assert isinstance(regressor.intercept_, float)
        assert regressor.predict(diabetes[0]).shape == diabetes[1].shape

    def test_to_numpy_of_arrays_is_a_copy(self, binary):
        model = ATkClassifier(k=0.5).fit(*binary)
        copy = model.to_numpy()
        assert copy is not model
        assert_array_equal(copy.predict(binary[0]), model.predict(binary[0]))

    def test_stochastic_estimators_take_them_for_arrays(self, binary):
        X, y = binary
        model = SGDATkClassifier(k=0.5, random_state=0).fit(torch.tensor(X), y)
        assert_array_equal(model.predict(torch.tensor(X)), model.predict(X))


class TestHabits:
    def test_pickled(self, binary, tmp_path):
        X = torch.tensor(binary[0])
        model = ATkClassifier(k=0.5, warm_start=True).fit(X, binary[1])
        joblib.dump(model, tmp_path / "model.joblib")
        for copy in (pickle.loads(pickle.dumps(model)), joblib.load(tmp_path / "model.joblib")):
            assert torch.equal(copy.predict(X), model.predict(X))

    def test_cloned(self, binary):
        model = ATkClassifier(k=0.5).fit(torch.tensor(binary[0]), binary[1])
        assert not hasattr(clone(model), "coef_")

    def test_warm_starts(self, binary):
        X, y = torch.tensor(binary[0]), torch.tensor(binary[1])
        model = ATkClassifier(k=0.5, warm_start=True, **FINE).fit(X, y)
        cold = model.n_iter_
        coef = model.coef_.clone()
        assert model.fit(X, y).n_iter_ < cold
        assert_allclose(model.coef_.numpy(), coef.numpy(), atol=1e-6)

    def test_a_warm_start_goes_on_elsewhere(self, binary):
        X, y = binary
        model = ATkClassifier(k=0.5, warm_start=True, **FINE).fit(torch.tensor(X), y)
        for again in (X, torch.tensor(X)):
            assert_allclose(np.asarray(model.fit(again, y).coef_), model.coef_, atol=1e-6)
            assert type(model.coef_) is type(again)

    def test_in_a_pipeline_and_a_search(self, binary):
        X, y = torch.tensor(binary[0]), torch.tensor(binary[1])
        model = make_pipeline(FunctionTransformer(lambda X: X * 2.0), ATkClassifier(k=0.5)).fit(X, y)
        assert isinstance(model.predict(X), torch.Tensor)
        assert model.score(X, y) > 0.9
        grid = GridSearchCV(ATkClassifier(), {"k": [0.5, 1.0]}, cv=3).fit(X, y)
        assert isinstance(grid.best_estimator_.coef_, torch.Tensor)

    def test_says_how_far_it_got(self, diabetes):
        with pytest.warns(ConvergenceWarning, match="raise max_iter"):
            ATkRegressor("absolute_error", k=0.5, max_iter=1, C=1e4).fit(torch.tensor(diabetes[0]), diabetes[1])

    def test_a_fit_that_fails_leaves_the_last(self, binary):
        X, y = torch.tensor(binary[0]), binary[1]
        model = ATkClassifier(k=0.5).fit(X, y)
        coef = model.coef_
        with pytest.raises(ValueError, match="NaN"):
            model.fit(X * float("nan"), y)
        assert model.coef_ is coef


class TestChoiceOfK:
    def test_is_that_of_arrays(self, binary, diabetes):
        arrays, tensors, _ = both(ATkClassifier(), *binary)
        assert (tensors.k_, tensors.C_) == (arrays.k_, arrays.C_)
        arrays, tensors, _ = both(ATkRegressor("absolute_error", C=1.0), diabetes[0], scale(diabetes[1]))
        assert tensors.k_ == arrays.k_

    def test_marks_are_those_of_arrays(self):
        X = np.random.default_rng(0).standard_normal((50, 3))
        X[:10] = 0.0
        X[5:8] = -0.0
        target = np.random.default_rng(1).standard_normal(50)
        theirs = row_marks(torch.tensor(X), torch.tensor(target)).numpy().view(np.uint64)
        assert_array_equal(theirs, row_marks(X, target))

    @pytest.mark.parametrize("task", ["classes", "labels", "regression"])
    @pytest.mark.parametrize("weighted", [False, True])
    def test_of_many_samples_looks_at_the_same_few(self, task, weighted):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((2000, 3))
        X[:300] = X[-300:]  # some are equal
        y = rng.choice(3, p=[0.9, 0.09, 0.01], size=2000) if task != "regression" else rng.integers(0, 2, 2000) * 1.0
        y[:300] = y[-300:]
        y = np.array(["a", "b", "c"])[y] if task == "labels" else y
        weight = rng.integers(0, 3, 2000) * 1.0 if weighted else None
        has_labels = task != "regression"
        encoder = ProblemEncoder(LogLoss() if has_labels else SquaredError(), "free")
        few = few_tensor_rows(encoder.encode(torch.tensor(X), y if task == "labels" else torch.tensor(y), weight), 200)
        whole = Distribution.of(X, y, np.ones(2000) if weight is None else weight, classification=has_labels)
        thinned = whole.thinned(200)
        order, other = np.lexsort(few.X.T), np.lexsort(X[thinned.rows].T)
        assert_array_equal(few.X[order], X[thinned.rows][other])
        assert_array_equal(few.labels[order], y[thinned.rows][other])
        shares = few.weight[order] / few.weight.sum(), thinned.mass[other] / thinned.mass.sum()
        assert_allclose(*shares, rtol=1e-12)

    def test_of_many_samples_is_that_of_arrays(self):
        rng = np.random.default_rng(0)
        X, y = (
            np.concatenate(parts) for parts in zip(*(make_toy(3, random_state=seed) for seed in range(28)), strict=True)
        )
        X[rng.random(len(y)) < 0.2, 0] += 20.0
        assert len(y) > AUTO_ROWS
        arrays, tensors, _ = both(ATkClassifier(C=100.0), X, y)
        assert tensors.k_share_ == pytest.approx(arrays.k_share_, rel=1e-9)
        assert arrays.k_share_ < 1.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_numbers_of_a_device_are_computed_on_the_host_and_follow_X_all_the_same(flowers, dtype, monkeypatch):
    """As on a GPU: bit for bit what arrays give, as tensors; of any layout."""
    monkeypatch.setattr(encoding, "is_quicker_on_host", lambda *_: True)
    X, y = flowers[0].astype(dtype), np.unique(flowers[1], return_inverse=True)[1]
    weight = np.random.default_rng(0).integers(0, 3, len(y)) * 1.0
    arrays = ATkClassifier(k=0.7, class_weight="balanced").fit(X, y, weight)
    columns_first = torch.tensor(X).T.contiguous().T
    tensors = ATkClassifier(k=0.7, class_weight="balanced").fit(columns_first, torch.tensor(y), torch.tensor(weight))
    for name in ("coef_", "intercept_", "top_weights_", "classes_", "dual_gap_"):
        assert isinstance(getattr(tensors, name), torch.Tensor)
        assert_array_equal(getattr(tensors, name).numpy(), getattr(arrays, name))
    assert_array_equal(tensors.predict(columns_first).numpy(), arrays.predict(X))


# What cannot be fitted on tensors is refused, in one sentence, and where arrays are refused in the same words

X = torch.tensor(np.random.default_rng(0).standard_normal((30, 3)))
Y = torch.arange(30) % 2
ONES = torch.ones(30, dtype=torch.float64)
NAN = torch.where(torch.arange(30) == 3, float("nan"), ONES)


def said_of(fit):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        fit()
    return str(caught.value)


@pytest.mark.parametrize(
    ("X", "y", "weight"),
    [
        (X[:0], Y[:0], None),
        (X[:, :0], Y, None),
        (X, Y[:7], None),
        (X, None, None),
        (X, torch.stack([Y, Y], dim=1), None),
        (X, Y * 0, None),
        (X, X[:, 0], None),
        (X, torch.where(Y == 0, NAN, 1.0), None),
        (X * NAN[:, None], Y, None),
        (torch.where(X.float() == X.float().max(), float("inf"), X.float()), Y, None),
        (X, Y, ONES[:4]),
        (X, Y, NAN),
        (X, Y, ONES * float("inf")),
        (X, Y, -ONES),
        (X, Y, ONES * 0.0),
        (X, Y * 0, Y.double()),
    ],
)
def test_same_words_as_of_arrays(X, y, weight):
    theirs, ours = (
        said_of(lambda: ATkClassifier(k=1.0).fit(*parts))  # noqa: B023
        for parts in ((X.numpy(), on_host(y), on_host(weight)), (X, y, weight))
    )
    assert ours == theirs


def test_same_words_of_targets_that_are_no_numbers():
    for y in (["a"] * 30, NAN):
        theirs = said_of(lambda: ATkRegressor(k=1.0).fit(X.numpy(), on_host(y)))  # noqa: B023
        assert said_of(lambda: ATkRegressor(k=1.0).fit(X, y)) == theirs  # noqa: B023


def test_same_words_of_other_features():
    for train, test in ((X.numpy(), X[:, :2].numpy()), (X, X[:, :2])):
        model = ATkClassifier(k=1.0).fit(train, Y)
        assert said_of(lambda: model.predict(test)) == (  # noqa: B023
            "X has 2 features, but ATkClassifier is expecting 3 features as input."
        )
    assert "NaN" in said_of(lambda: model.predict(X * NAN[:, None]))
    assert "0 sample(s)" in said_of(lambda: model.predict(X[:0]))


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (X[:, 0], r"shape \(30,\); use X.reshape\(-1, 1\)"),
        (X[None], r"shape \(1, 30, 3\)"),
        (X * 1j, "complex128"),
        (X.to_sparse(), "to_dense"),
        (X.to("meta"), "no numbers"),
    ],
)
def test_says_what_tensors_are_expected(X, words):
    for fit in (ATkClassifier(k=1.0).fit, ATkClassifierCV().fit):
        with pytest.raises(ValueError, match=f"X is expected to be a dense tensor of real numbers.*{words}"):
            fit(X, Y)


@pytest.mark.parametrize("estimator", [ATkClassifier(k=1.0), ATkRegressor(k=1.0)], ids=["classifier", "regressor"])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda numbers: numbers.to_sparse(), r"layout torch.sparse_coo; pass {name}.to_dense\(\)"),
        (lambda numbers: numbers * 1j, "torch.complex128: Complex data not supported; pass {name}.real"),
        (lambda numbers: numbers.to("meta"), "the device meta, which holds no numbers; pass a tensor on the CPU"),
    ],
)
def test_says_so_of_targets_and_weights_too(estimator, change, words):
    for name, parts in {"y": (change(Y.double()), None), "sample_weight": (Y, change(ONES))}.items():
        with pytest.raises(ValueError, match=rf"{name} is expected to be .* real numbers.*{words.format(name=name)}"):
            estimator.fit(X, *parts)


def test_a_device_without_float64_is_refused(monkeypatch):
    monkeypatch.setattr(tensor_checks, "_has_float64", lambda _: False)
    with pytest.raises(ValueError, match="on cpu, which has no float64; move it to the CPU or a CUDA device"):
        ATkClassifier(k=1.0).fit(X, Y)


def test_a_column_is_taken_with_a_warning():
    with pytest.warns(DataConversionWarning, match="column-vector"):
        model = ATkClassifier(k=1.0).fit(X, Y[:, None])
    assert torch.equal(model.coef_, ATkClassifier(k=1.0).fit(X, Y).coef_)


def test_large_numbers_whose_sum_is_too_large_are_fine():
    large = torch.full((30, 3), 3e38) * torch.where(Y == 0, 1.0, -1.0)[:, None]
    assert torch.isinf(large.abs().sum())
    tensor_checks.check_tensor_features(ATkClassifier(k=1.0).fit(X, Y), home_of(X), large.abs())


class Elsewhere:
    """An array of a library that speaks the array API."""

    device = "cpu"

    def __dlpack__(self):
        raise NotImplementedError

    def __array_namespace__(self):
        return np


def test_without_pytorch_other_arrays_are_refused(monkeypatch):
    imported = builtins.__import__

    def without_torch(name, *arguments):
        if name == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
        return imported(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without_torch)
    monkeypatch.setattr(sys, "modules", {name: module for name, module in sys.modules.items() if name != "torch"})
    with pytest.raises(ModuleNotFoundError, match=r"computed by torch, .*pip install 'atklearn\[torch\]'"):
        kept_home(Elsewhere())


def test_other_arrays_are_arrays_unless_scikit_learn_dispatches(monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    import array_api_strict as xp

    foreign = xp.asarray(X.numpy())
    assert home_of(foreign) is None
    assert isinstance(ATkClassifier(k=1.0).fit(foreign, xp.asarray(Y.numpy())).coef_, np.ndarray)
    with sklearn.config_context(array_api_dispatch=True):
        assert str(home_of(foreign)).startswith("array_api_strict on ")
        model = ATkClassifier(k=1.0).fit(foreign, Y)
        assert isinstance(model.predict(foreign), type(foreign))
        here = model.to_numpy()
    assert here.predict(X.numpy()).tolist() == ATkClassifier(k=1.0).fit(X, Y).predict(X).tolist()
    with pytest.raises(ValueError, match="must use the same namespace"):
        model.predict(X)


# Grids of k and C on tensors, with and without cross-validation; and scikit-learn's own checks of the array API

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
