"""Graphs in onnxruntime answer what the estimators answer, and what has no graph is refused."""

from __future__ import annotations

import builtins
import sys

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import scipy.sparse as sp
import skl2onnx
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import StackingClassifier, StackingRegressor, VotingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from atklearn import (
    ATkClassifier,
    ATkClassifierCV,
    ATkRegressor,
    ATkRegressorCV,
    ATkSVC,
    ATkSVR,
    CollapseWarning,
    Hinge,
    Huber,
    LogLoss,
    SGDATkClassifier,
    SGDATkRegressor,
)
from atklearn.correction import TailCorrectedClassifier, TailCorrectedRegressor
from atklearn.onnx import to_onnx

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
FLOATS = [np.float32, np.float64]
SMALL_GRID = {"ks": [0.8, 1.0], "Cs": [1.0, 100.0], "cv": 2}
CLASSIFIERS = [
    ATkClassifier(k=0.8),
    ATkClassifier(LogLoss(), k=0.8, fit_intercept=False),
    ATkClassifier("hinge", k=0.8),
    ATkClassifier(Hinge(), k=0.8, class_weight="balanced"),
    ATkClassifier("squared_hinge", k=0.8),
    ATkClassifier(k=1.0, trim=0.05),
    ATkClassifierCV(**SMALL_GRID),
    ATkClassifierCV("hinge", **SMALL_GRID),
    SGDATkClassifier(random_state=0),
    SGDATkClassifier("hinge", random_state=0),
    ATkSVC("linear"),
    ATkSVC(class_weight="balanced"),
    ATkSVC("poly", coef0=0.5),
    ATkSVC("sigmoid", gamma=0.05, coef0=-0.5),
]
REGRESSORS = [
    ATkRegressor(k=0.5),
    ATkRegressor("absolute_error", k=0.5),
    ATkRegressor(Huber(0.5), k=0.5, fit_intercept=False),
    ATkRegressor(trim=0.1),
    ATkRegressorCV(**SMALL_GRID),
    SGDATkRegressor(max_iter=40, random_state=0),
    ATkSVR("linear"),
    ATkSVR(C=1e4),
    ATkSVR("poly", degree=2, coef0=1.0),
    ATkSVR("sigmoid", gamma=0.05),
]


def run(graph, X):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(graph.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, X if isinstance(X, dict) else {"X": X})


def per_class(scores):
    """Decision values as skl2onnx has them: a column for each class, also for two."""
    return np.column_stack([-scores, scores]) if scores.ndim == 1 else scores


def assert_same_classes(model, X, **options):
    labels, scores = run(to_onnx(model, X, **options), X)
    assert_array_equal(labels, model.predict(X))
    with_probabilities = hasattr(model, "predict_proba") and not options.get("raw_scores")
    expected = model.predict_proba(X) if with_probabilities else per_class(model.decision_function(X))
    assert_allclose(scores, expected, **CLOSE)
    assert scores.dtype == X.dtype
    return scores


def assert_same_numbers(model, X, **options):
    (numbers,) = run(to_onnx(model, X, **options), X)
    assert numbers.shape == (len(X), 1)
    assert numbers.dtype == X.dtype
    assert_allclose(numbers[:, 0], model.predict(X), **CLOSE)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=repr)
def test_classifiers(flowers, two_flowers, estimator, dtype):
    for X, y in (flowers, two_flowers):
        model = estimator.fit(X, y)
        assert_same_classes(model, X.astype(dtype))
        assert_same_classes(model, X.astype(dtype), raw_scores=True)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("estimator", REGRESSORS, ids=repr)
def test_regressors(diabetes, estimator, dtype):
    X, y = diabetes
    assert_same_numbers(estimator.fit(X, y), X.astype(dtype))


@pytest.mark.parametrize("labels", [[3, 1, 2**40], ["b", "a", "ä"], [1.0, 0.0, 7.0], ["b", "a"], [5, 7], [True, False]])
@pytest.mark.parametrize("estimator", [ATkClassifier(k=1.0), ATkSVC()], ids=repr)
def test_labels_of_every_kind(flowers, labels, estimator):
    X, y = flowers
    codes = np.unique(y, return_inverse=True)[1] % len(labels)
    model = estimator.fit(X, np.array(labels)[codes])
    assert_same_classes(model, X)


@pytest.mark.parametrize("dtype", FLOATS)
def test_far_from_the_data_where_every_class_rejects_a_sample(flowers, dtype):
    X, y = flowers
    model = ATkClassifier(k=0.8).fit(X, y)
    scores = np.array([[-25.0, -27.0, -30.0], [-62.0, -60.0, -61.0], [-2100.0, -2000.0, -2200.0]])
    far = ((scores - model.intercept_) @ np.linalg.pinv(model.coef_).T).astype(dtype)
    assert_allclose(model.decision_function(far), scores, rtol=1e-4)
    assert_allclose(model.predict_proba(far)[2], 1.0 / 3.0)  # nothing is left to be told apart
    assert_same_classes(model, far)


def test_a_tie_goes_to_the_first_of_two_classes(two_flowers):
    model = ATkClassifier(k=1.0, fit_intercept=False).fit(*two_flowers)
    assert_same_classes(model, np.zeros((2, 4)))


def test_a_kernel_machine_keeps_its_digits_where_large_terms_cancel(diabetes):
    X, y = diabetes[0][:80], diabetes[1][:80]
    model = ATkSVR(C=1e6, gamma=0.01, k=1.0).fit(X, y)
    assert np.abs(model.dual_coef_).max() > 1e3
    single = X.astype(np.float32)
    assert_allclose(run(to_onnx(model, single), single)[0][:, 0], model.predict(single), rtol=1e-5)


def test_whole_numbers_may_be_given(flowers):
    X, y = flowers
    whole = np.round(10.0 * X).astype(np.int64)
    for model in (ATkClassifier(k=1.0).fit(whole, y), ATkSVC().fit(whole, y)):
        labels, scores = run(to_onnx(model, whole), whole)
        assert_array_equal(labels, model.predict(whole))
        expected = model.predict_proba(whole) if hasattr(model, "predict_proba") else model.decision_function(whole)
        assert_allclose(scores, expected, **CLOSE)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_support_vectors_may_be_sparse(diabetes, kernel):
    X, y = diabetes
    assert_same_numbers(ATkSVR(kernel).fit(sp.csr_array(X), y), X)


def test_a_kernel_machine_without_support_vectors():
    X = np.repeat(np.random.default_rng(0).normal(size=(20, 3)), 2, axis=0)
    with pytest.warns(CollapseWarning):
        model = ATkSVC(k=2).fit(X, np.arange(40) % 2)
    assert len(model.support_) == 0
    assert_same_classes(model, X)


@pytest.mark.parametrize("opset", [11, 13, 18, 21])
def test_older_operators(flowers, diabetes, opset):
    X, y = flowers
    for estimator in (ATkClassifier(k=0.8), ATkSVC(), ATkSVC("poly")):
        assert_same_classes(estimator.fit(X, y), X, target_opset=opset)
    X, y = diabetes
    assert_same_numbers(ATkRegressor(k=0.5).fit(X, y), X, target_opset=opset)


class TestInsideOthers:
    @pytest.mark.parametrize("last", [ATkClassifier(k=0.8), ATkSVC()], ids=repr)
    def test_columns_of_a_frame(self, flowers, last):
        X, y = flowers
        frame = pd.DataFrame(X[:, :2] * [10.0, 0.1], columns=["long", "wide"]).assign(
            town=np.resize(["a", "b"], len(y))
        )
        features = ColumnTransformer([("n", StandardScaler(), ["long", "wide"]), ("c", OneHotEncoder(), ["town"])])
        model = make_pipeline(features, last).fit(frame, y)
        given = {name: frame[[name]].to_numpy() for name in frame}
        labels, scores = run(to_onnx(model, frame), given)
        assert_array_equal(labels, model.predict(frame))
        expected = model.predict_proba(frame) if hasattr(model, "predict_proba") else model.decision_function(frame)
        assert_allclose(scores, expected, **CLOSE)

    @pytest.mark.parametrize("dtype", FLOATS)
    def test_searches_and_pipelines(self, flowers, diabetes, dtype):
        X, y = flowers
        nested = make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), ATkClassifier(k=0.8))).fit(X, y)
        search = GridSearchCV(ATkClassifier(), {"k": [0.8, 1.0]}, cv=2).fit(X, y)
        for model in (nested, search):
            assert_same_classes(model, X.astype(dtype))
        X, y = diabetes
        assert_same_numbers(make_pipeline(StandardScaler(), ATkSVR()).fit(X, y), X.astype(dtype))

    @pytest.mark.parametrize("estimator", [ATkClassifier(k=0.8), ATkClassifier("hinge", k=0.8), ATkSVC()], ids=repr)
    def test_calibration_and_one_against_the_rest(self, flowers, two_flowers, estimator):
        for X, y in (flowers, two_flowers):
            assert_same_classes(CalibratedClassifierCV(estimator, cv=2).fit(X, y), X)
        X, y = flowers
        model = OneVsRestClassifier(estimator).fit(X, y)
        assert_array_equal(run(to_onnx(model, X), X)[0], model.predict(X))

    def test_ensembles(self, flowers, diabetes):
        X, y = flowers
        members = [("a", ATkClassifier(k=0.8)), ("b", LogisticRegression())]
        assert_same_classes(StackingClassifier(members, cv=2).fit(X, y), X)
        X, y = diabetes
        for kind in (VotingRegressor, StackingRegressor):
            assert_same_numbers(kind([("a", ATkRegressor(k=0.5)), ("b", ATkSVR()), ("c", Ridge())]).fit(X, y), X)


class TestCorrections:
    FIXED = {"k": 0.9, "C": 100.0}  # noqa: RUF012

    @pytest.mark.parametrize("dtype", FLOATS)
    @pytest.mark.parametrize(
        "asked",
        [
            {},
            {"experts": None, "features": "prediction"},
            {"experts": [make_pipeline(StandardScaler(), Ridge(10.0))], "features": [3, 2]},
            {"experts": None, "features": StandardScaler()},
            {"experts": None, "k": "auto", "C": None, "at_most": 0.0},
        ],
        ids=str,
    )
    def test_of_numbers(self, diabetes, asked, dtype):
        X, y = diabetes
        model = TailCorrectedRegressor(make_pipeline(StandardScaler(), Ridge(1e3)), **(self.FIXED | asked))
        for target in (y, y - y.mean()):
            assert_same_numbers(model.fit(X, target), X.astype(dtype))

    @pytest.mark.parametrize("dtype", FLOATS)
    @pytest.mark.parametrize("asked", [FIXED, FIXED | {"cap": 0.8, "features": "prediction"}, {}], ids=str)
    def test_of_classes(self, flowers, two_flowers, asked, dtype):
        for X, y in (flowers, two_flowers):
            model = TailCorrectedClassifier(LogisticRegression(max_iter=1000), **asked).fit(X, y)
            assert_same_classes(model, X.astype(dtype))

    def test_of_fitted_models_and_columns_with_names(self, diabetes):
        X, y = diabetes
        frame = pd.DataFrame(X, columns=list("abcdefghij"))
        base = Ridge().fit(frame, y)
        model = TailCorrectedRegressor(base, cv="prefit", experts=None, features=["c", "d"], **self.FIXED)
        expected = model.fit(frame, y).predict(frame)
        assert_allclose(run(to_onnx(model, X), X)[0][:, 0], expected, **CLOSE)

    def test_of_whole_numbers(self, diabetes):
        X, y = diabetes
        whole = np.round(10.0 * X).astype(np.int64)
        model = TailCorrectedRegressor(Ridge(), **self.FIXED).fit(whole, y)
        assert_allclose(run(to_onnx(model, whole), whole)[0][:, 0], model.predict(whole), rtol=1e-4)

    def test_impute_what_is_missing(self, diabetes):
        X, y = diabetes
        holes = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
        base = make_pipeline(SimpleImputer(), Ridge())
        model = TailCorrectedRegressor(base, experts=None, **self.FIXED).fit(holes, y)
        assert_same_numbers(model, holes.astype(np.float32))  # onnxruntime imputes nothing else

    def test_of_categories_are_refused(self, diabetes):
        X, y = diabetes
        texts = np.column_stack([X[:, :2].astype(str), np.resize(["a", "b"], len(y))]).astype(object)
        model = TailCorrectedRegressor(make_pipeline(OneHotEncoder(handle_unknown="ignore"), Ridge()), experts=None)
        with pytest.raises(ValueError, match=r"nothing but numbers .* name the columns of numbers in features"):
            to_onnx(model.set_params(**self.FIXED).fit(texts, y), texts)


class TestOptionsOfSkl2onnx:
    @pytest.fixture
    def model(self, flowers):
        return ATkClassifier(k=0.8).fit(*flowers)

    @pytest.fixture
    def single(self, flowers):
        return flowers[0].astype(np.float32)

    def test_dictionaries_are_its_default(self, model, single):
        expected = dict(zip(model.classes_, model.predict_proba(single[:1])[0], strict=True))
        assert run(skl2onnx.to_onnx(model, single), single)[1][0] == pytest.approx(expected, abs=1e-5)

    def test_columns(self, model, single):
        outputs = run(skl2onnx.to_onnx(model, single, options={"zipmap": "columns"}), single)
        assert_allclose(np.column_stack(outputs[1:]), model.predict_proba(single), **CLOSE)

    def test_class_labels(self, model, single):
        options = {id(model): {"zipmap": False, "output_class_labels": True}}
        assert_array_equal(run(skl2onnx.to_onnx(model, single, options=options), single)[2], model.classes_)

    def test_places_in_the_place_of_labels(self, model, single):
        labels = run(to_onnx(model, single, options={id(model): {"zipmap": False, "nocl": True}}), single)[0]
        assert_array_equal(model.classes_[labels], model.predict(single))


class TestRefused:
    @pytest.mark.parametrize("kernel", ["precomputed", lambda X, Y: X @ Y.T])
    @pytest.mark.parametrize("kind", [ATkSVC, ATkSVR])
    def test_kernels_without_a_formula(self, two_flowers, kernel, kind):
        X, y = two_flowers
        model = kind(kernel).fit(X @ X.T if kernel == "precomputed" else X, y)
        with pytest.raises(ValueError, match=r"one of the kernels linear, poly, rbf, sigmoid .* got"):
            to_onnx(model, X)

    @pytest.mark.parametrize("convert", [to_onnx, skl2onnx.to_onnx])
    def test_models_on_tensors(self, flowers, convert):
        torch = pytest.importorskip("torch")
        X, y = flowers[0], np.unique(flowers[1], return_inverse=True)[1]
        for estimator in (ATkClassifier(k=0.8), ATkRegressor(k=0.8)):
            model = estimator.fit(torch.tensor(X), torch.tensor(y))
            with pytest.raises(ValueError, match=r"lives on torch on cpu; export what its to_numpy\(\) returns"):
                convert(model, X)
        assert_same_classes(ATkClassifier(k=0.8).fit(torch.tensor(X), torch.tensor(y)).to_numpy(), X)

    def test_models_that_are_not_fitted(self, flowers):
        for model in (ATkClassifier(), ATkSVR(), ATkClassifierCV(**SMALL_GRID, refit=False).fit(*flowers)):
            with pytest.raises(NotFittedError):
                to_onnx(model, flowers[0])

    @pytest.mark.parametrize(
        "labels",
        [
            np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[D]"),
            np.array([0, 2**63], dtype=np.uint64),
        ],
        ids=["days", "64 bits without a sign"],
    )
    def test_labels_that_onnx_does_not_have(self, two_flowers, labels):
        X, y = two_flowers
        with pytest.raises(ValueError, match="whole numbers of 64 bits or text"):
            to_onnx(ATkClassifier(k=1.0).fit(X, labels[y.astype(int)]), X)

    def test_numbers_that_do_not_fit_into_the_type_of_X(self, diabetes):
        X, y = diabetes
        model = ATkRegressor(k=0.5, C=1.0).fit(X, y * 1e60)
        assert_same_numbers(model, X)
        with pytest.raises(ValueError, match=r"fit into float32 .* pass X as float64"):
            to_onnx(model, X.astype(np.float32))

    def test_other_columns_than_those_of_the_fit(self, flowers):
        X, y = flowers
        model = ATkClassifier(k=0.8).fit(X, y)
        with pytest.raises(ValueError, match="the 4 features that it was fitted on, got an input of 3"):
            to_onnx(model, X[:, :3])
        with pytest.raises(ValueError, match="as one array, got 4 inputs"):
            to_onnx(model, pd.DataFrame(X, columns=list("abcd")))

    def test_without_skl2onnx_one_sentence_says_what_to_install(self, monkeypatch):
        imported = builtins.__import__

        def without(name, *arguments):
            if name.partition(".")[0] == "skl2onnx":
                raise ModuleNotFoundError("No module named 'skl2onnx'", name="skl2onnx")
            return imported(name, *arguments)

        for name in [name for name in sys.modules if name.startswith("atklearn.onnx")]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setattr(builtins, "__import__", without)
        with pytest.raises(ModuleNotFoundError, match=r"needs skl2onnx, .* pip install 'atklearn\[onnx\]'"):
            import atklearn.onnx  # noqa: F401
