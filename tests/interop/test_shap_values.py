"""SHAP explains our models: of linear ones, every feature's value is its coefficient times the way from the mean."""

from __future__ import annotations

import warnings
from itertools import permutations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import is_classifier

from atklearn import ATkClassifier, ATkClassifierCV, ATkRegressor, ATkSVC, SGDATkClassifier

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its pictures make use of what Matplotlib is about to give up
    import shap

SMALL_GRID = {"ks": [0.8, 1.0], "Cs": [1.0, 100.0], "cv": 2}
TWO_CLASSES = [ATkClassifier(k=0.8), ATkClassifier("hinge", k=0.8), ATkClassifierCV(**SMALL_GRID)]


def every_row_of(X):
    """A mean over all rows: left to itself, SHAP draws a hundred of them."""
    return shap.maskers.Independent(X, max_samples=len(X))


@pytest.mark.parametrize("estimator", [*TWO_CLASSES, SGDATkClassifier(random_state=0), ATkRegressor(k=0.5)], ids=repr)
def test_values_are_coefficients_times_the_way_from_the_mean(two_flowers, diabetes, estimator):
    X, y = two_flowers if is_classifier(estimator) else diabetes
    X = X + np.arange(X.shape[1])  # a mean that is not zero
    model = estimator.fit(X, y)
    found = shap.LinearExplainer(model, every_row_of(X))(X)
    scores = model.decision_function(X) if is_classifier(model) else model.predict(X)
    assert_allclose(found.values, np.ravel(model.coef_) * (X - X.mean(axis=0)), atol=1e-8)
    assert_allclose(found.values.sum(axis=1), scores - scores.mean(), atol=1e-8)
    assert_allclose(found.base_values, scores.mean(), atol=1e-8)


def test_several_classes_have_values_each(flowers):
    X, y = flowers
    model = ATkClassifier(k=0.8).fit(X, y)
    found = shap.LinearExplainer(model, every_row_of(X[:120]))(X).values
    expected = (X - X[:120].mean(axis=0))[:, :, None] * model.coef_.T
    assert_allclose(found, expected, atol=1e-8)


def shapley_values(score, x, background):
    """By definition: the mean over all orders of what a feature adds, those not yet known being the background's."""
    orders = list(permutations(range(x.size)))
    values = np.zeros(x.size)
    for order in orders:
        known = background.copy()
        before = score(known).mean()
        for feature in order:
            known[:, feature] = x[feature]
            after = score(known).mean()
            values[feature] += (after - before) / len(orders)
            before = after
    return values


def test_a_kernel_machine_is_explained_by_its_scores(two_flowers):
    X, y = two_flowers
    model = ATkSVC().fit(X, y)
    background = X[::15]
    found = shap.KernelExplainer(model.decision_function, background)(X[:3], silent=True)
    expected = [shapley_values(model.decision_function, x, background) for x in X[:3]]
    assert_allclose(found.values, expected, atol=1e-8)
