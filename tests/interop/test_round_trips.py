"""What is saved comes back: by joblib, by skops, with the same predictions bit for bit and no types but its own."""

from __future__ import annotations

import io

import dask.array as da
import joblib
import numpy as np
import pytest
import skops.io
from numpy.testing import assert_array_equal
from sklearn.base import clone, is_classifier

import atklearn
import atklearn.boosting
from atklearn import Hinge, Huber

SMALL_GRID = {"ks": [0.8, 1.0], "Cs": [1.0, 100.0], "cv": 2}
FEW_TREES = {"n_estimators": 3, "n_jobs": 1}
SELECTION = "atklearn.selection.choosing.Selection"  # of estimators that choose k: what was seen
# What each fitted estimator is made of, beside itself: all that a reader has to trust.
STREAM = {
    "atklearn.estimators.streaming.Stream",
    "atklearn.stochastic.sgd.Descent",
    "atklearn.stochastic.visits.MassClock",
    "atklearn.stochastic.visits.StepRule",
}
TREES = {
    SELECTION,
    "atklearn.boosting.boosted.Columns",
    "atklearn.boosting.trees.BoostedTrees",
    "collections.OrderedDict",
    "lightgbm.basic.Booster",
}
ESTIMATORS = [
    (atklearn.ATkClassifier(k=0.8), set()),
    (atklearn.ATkRegressor(k=0.5), set()),
    (atklearn.ATkClassifierCV(**SMALL_GRID), {"atklearn.estimators.linear.ATkClassifier", SELECTION}),
    (atklearn.ATkRegressorCV(**SMALL_GRID), {"atklearn.estimators.linear.ATkRegressor", SELECTION}),
    (atklearn.SGDATkClassifier(random_state=0), STREAM | {"atklearn.losses.individual.LogLoss"}),
    (atklearn.SGDATkRegressor(max_iter=40, random_state=0), STREAM | {"atklearn.losses.individual.SquaredError"}),
    (atklearn.ATkSVC(), set()),
    (atklearn.ATkSVR(), set()),
    (atklearn.boosting.ATkBoostingClassifier(**FEW_TREES), TREES),
    (atklearn.boosting.ATkBoostingRegressor(**FEW_TREES), TREES),
]
WITH_PARTS = [
    (atklearn.ATkClassifier(Hinge(), k=0.8), {"atklearn.losses.individual.Hinge"}),
    (atklearn.ATkClassifier(k=0.8, warm_start=True), {"atklearn.core.problem.Solution"}),
    (atklearn.ATkRegressor(Huber(2.0), trim=0.1), {"atklearn.losses.individual.Huber"}),
]
FOLLOWING_X = [estimator for estimator, _ in ESTIMATORS[:4]]


def name_of(case):
    return f"{type(case).__module__.split('.')[1]}-{type(case).__name__}" if hasattr(case, "fit") else ""


def by_joblib(model):
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    return joblib.load(file)


def by_skops(model):
    content = skops.io.dumps(model)
    return skops.io.loads(content, trusted=skops.io.get_untrusted_types(data=content))


def answers(model, X):
    methods = ("predict", "decision_function", "predict_proba", "predict_log_proba")
    return [getattr(model, method)(X) for method in methods if hasattr(model, method)]


def assert_same_answers(model, again, X):
    assert type(again) is type(model)
    assert repr(again) == repr(model)
    for one, other in zip(answers(model, X), answers(again, X), strict=True):
        assert_array_equal(one, other, strict=True)


@pytest.fixture
def fit(flowers, diabetes):
    def fitted(estimator):
        X, y = flowers if is_classifier(estimator) else diabetes
        return estimator.fit(X, y), X

    return fitted


def test_no_public_estimator_is_left_out():
    public = {name for name in atklearn.__all__ if hasattr(getattr(atklearn, name), "fit")}
    public |= {name for name in atklearn.boosting.__all__ if name.startswith("ATkBoosting")}
    assert {type(estimator).__name__ for estimator, _ in ESTIMATORS} == public


@pytest.mark.parametrize(("estimator", "parts"), ESTIMATORS + WITH_PARTS, ids=name_of)
def test_comes_back_the_same_and_asks_to_trust_nothing_but_what_it_is(fit, estimator, parts):
    model, X = fit(estimator)
    for there_and_back in (by_joblib, by_skops):
        assert_same_answers(model, there_and_back(model), X)
    itself = f"{type(model).__module__}.{type(model).__name__}"
    assert set(skops.io.get_untrusted_types(data=skops.io.dumps(model))) == {itself} | parts


@pytest.mark.parametrize("estimator", FOLLOWING_X, ids=name_of)
def test_what_was_fitted_on_a_dask_collection_is_saved_without_it(flowers, diabetes, estimator):
    X, y = flowers if is_classifier(estimator) else diabetes
    model = clone(estimator).fit(da.from_array(X, chunks=(50, -1)), da.from_array(y, chunks=50)).to_predict()
    for there_and_back in (by_joblib, by_skops):
        assert_same_answers(model, there_and_back(model), X)


@pytest.mark.parametrize("there_and_back", [by_joblib, by_skops])
def test_a_stream_goes_on_as_if_it_had_not_been_saved(two_flowers, there_and_back):
    X, y = two_flowers
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    model = atklearn.SGDATkClassifier(k=0.8).partial_fit(X[:70], y[:70], classes=[False, True])
    again = there_and_back(model).partial_fit(X[70:], y[70:])
    assert_array_equal(again.coef_, model.partial_fit(X[70:], y[70:]).coef_, strict=True)


@pytest.mark.parametrize("there_and_back", [by_joblib, by_skops])
def test_a_warm_start_goes_on_as_if_it_had_not_been_saved(two_flowers, there_and_back):
    X, y = two_flowers
    model = atklearn.ATkClassifier(k=0.8, warm_start=True).fit(X, y)
    again = there_and_back(model).set_params(k=0.9).fit(X, y)
    assert_array_equal(again.coef_, model.set_params(k=0.9).fit(X, y).coef_, strict=True)
    assert again.n_iter_ == model.n_iter_


def test_a_file_of_another_kind_is_refused_by_skops(two_flowers):
    content = skops.io.dumps(atklearn.ATkClassifier(k=0.8).fit(*two_flowers))
    with pytest.raises(skops.io.exceptions.UntrustedTypesFoundException, match=r"linear\.ATkClassifier"):
        skops.io.loads(content)
