"""The defaults are safe: nowhere clearly behind what people would use instead. More sets: ./run bench defaults."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_iris,
    load_wine,
    make_classification,
    make_regression,
)
from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale

from atklearn import ATkClassifier, ATkRegressor

CLASSES = {
    "breast_cancer": partial(load_breast_cancer, return_X_y=True),
    "rare": partial(make_classification, 2000, 20, weights=[0.95], flip_y=0.02, random_state=1),
    "noisy": partial(make_classification, 500, 10, flip_y=0.6, random_state=4),
    "iris": partial(load_iris, return_X_y=True),
    "wine": partial(load_wine, return_X_y=True),
    "three": partial(make_classification, 1000, 20, n_classes=3, n_informative=5, random_state=2),
}
NUMBERS = {
    "diabetes": partial(load_diabetes, return_X_y=True),
    "plain": partial(make_regression, 500, 20, noise=20.0, random_state=0),
    "wide": partial(make_regression, 100, 50, noise=20.0, random_state=1),
}


def mean_score(model, X, y, scoring, splitter):
    folds = splitter(5, shuffle=True, random_state=0)
    return cross_val_score(make_pipeline(StandardScaler(), model), X, y, scoring=scoring, cv=folds).mean()


@pytest.mark.parametrize("name", CLASSES)
def test_it_is_at_most_a_point_behind_logistic_regression(name):
    X, y = CLASSES[name]()
    ours, theirs = (
        mean_score(model, X, y, "accuracy", StratifiedKFold) for model in (ATkClassifier(), LogisticRegression())
    )
    assert ours >= theirs - 0.01


def test_with_more_classes_the_penalty_is_chosen_too():
    """On Iris, one class against the rest at the penalty of scikit-learn is two points behind the multinomial model."""
    X, y = load_iris(return_X_y=True)
    X = scale(X)
    assert_allclose(ATkClassifier().fit(X, y).C_, 10.0 * y.size)
    assert y.size == ATkClassifier(k=1.0).fit(X, y).C_
    assert ATkClassifier(C=7.0).fit(X, y).C_ == 7.0


@pytest.mark.parametrize("name", NUMBERS)
def test_a_regressor_is_within_its_budget_of_ridge(name):
    ours, theirs = (
        mean_score(model, *NUMBERS[name](), "neg_root_mean_squared_error", KFold)
        for model in (ATkRegressor(), RidgeCV())
    )
    assert -ours <= -1.03 * theirs


@pytest.mark.parametrize("task", ["classes", "numbers"])
def test_they_do_what_their_names_say(task):
    """Where a part of the rows is of another kind, the worst rows that were not seen are better off than by default."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 3))
    late = rng.random(4000) < 0.1
    noise = 0.5 * rng.standard_normal(4000)
    if task == "numbers":
        y = X[:, 0] + noise + 3.0 * late
        ours, theirs = (model.fit(X[:3000], y[:3000]).predict(X[3000:]) for model in (ATkRegressor(), RidgeCV()))
        losses = [np.abs(y[3000:] - said) for said in (ours, theirs)]
        means = [np.sqrt((each**2).mean()) for each in losses]
    else:
        y = np.where(late, -1.0, 1.0) * (3.0 * X[:, 0] + noise) > 0.0
        models = ATkClassifier().fit(X[:3000], y[:3000]), LogisticRegression().fit(X[:3000], y[:3000])
        sign = np.where(y[3000:], 1.0, -1.0)
        losses = [np.logaddexp(0.0, -sign * model.decision_function(X[3000:])) for model in models]
        means = [each.mean() for each in losses]
    worst = [np.sort(each)[-100:].mean() for each in losses]
    assert worst[0] < 0.98 * worst[1]
    assert means[0] < 1.05 * means[1]


@pytest.mark.parametrize("class_weight", [None, {0: 1.0, 1: 3.0}])
def test_the_default_penalty_of_the_average_is_that_of_logistic_regression(class_weight):
    X, y = load_breast_cancer(return_X_y=True)
    weight = np.random.default_rng(0).integers(0, 3, y.size).astype(float)
    ours = ATkClassifier(k=1.0, class_weight=class_weight, tol=1e-10).fit(scale(X), y, weight)
    theirs = LogisticRegression(class_weight=class_weight, tol=1e-9, max_iter=10_000).fit(scale(X), y, weight)
    assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    assert_allclose(ours.C_, (weight * (1.0 if class_weight is None else np.take([1.0, 3.0], y))).sum())


def test_the_default_penalty_of_the_average_is_that_of_ridge():
    X, y = load_diabetes(return_X_y=True)
    weight = np.random.default_rng(0).random(y.size)
    ours = ATkRegressor(k=1.0, tol=1e-12).fit(scale(X), y, weight)
    assert_allclose(ours.coef_, Ridge().fit(scale(X), y, weight).coef_, rtol=1e-6)
    assert_allclose(ours.C_, weight.sum() / 2)


def test_a_C_that_is_given_is_taken():
    X, y = load_diabetes(return_X_y=True)
    assert ATkRegressor(k=1.0, C=7).fit(scale(X), y).C_ == 7.0
