"""The k that was used: ``k_`` is mass, ``k_share_`` is a value for the parameter k that gives the same fit."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone, is_classifier

from atklearn import (
    ATkClassifier,
    ATkClassifierCV,
    ATkRegressor,
    ATkRegressorCV,
    ATkSVC,
    ATkSVR,
    SGDATkClassifier,
    SGDATkRegressor,
)

GRIDS = {"Cs": [1.0, 100.0], "cv": 3, "random_state": 0}
STEPS = {"random_state": 0, "max_iter": 5, "tol": None}
TAKING = [
    ATkClassifier(),
    ATkClassifier(class_weight="balanced"),
    ATkClassifier("hinge", class_weight={0.0: 1.0, 1.0: 3.0}),
    ATkRegressor(),
    ATkSVC(),
    ATkSVC(class_weight="balanced"),
    ATkSVR(),
    SGDATkClassifier(**STEPS),
    SGDATkClassifier(class_weight="balanced", **STEPS),
    SGDATkRegressor(**STEPS),
]
CHOOSING = [
    ATkClassifier(k="auto"),
    ATkClassifier("hinge", k="auto", class_weight="balanced"),
    ATkRegressor("absolute_error", k="auto"),
    ATkClassifierCV(ks=3, **GRIDS),
    ATkClassifierCV(ks=[60, 0.8, 1.0], class_weight="balanced", **GRIDS),
    ATkRegressorCV(ks=[20, 0.5, 1.0], **GRIDS),
]
STREAMING = [SGDATkClassifier(k=0.3, **STEPS), SGDATkRegressor(k=0.3, **STEPS)]


def data(estimator, n=150):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 4))
    score = X @ [1.0, -1.0, 0.5, 0.0] + 0.3 * rng.standard_normal(n) - 0.5
    return X, (score > 0.0).astype(float) if is_classifier(estimator) else score, rng.integers(0, 4, n).astype(float)


def total(estimator, y, weight):
    """Return the mass of all samples: the sample weights times those of the classes, computed here by hand."""
    kind = getattr(estimator, "class_weight", None)
    if kind is None or kind == "balanced":  # balancing keeps the total
        return weight.sum()
    return sum(weight[y == label].sum() * factor for label, factor in kind.items())


def answers(model, X):
    return (model.decision_function if is_classifier(model) else model.predict)(X)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("k", [90, 0.6, 1.0])
@pytest.mark.parametrize("estimator", TAKING, ids=str)
def test_the_k_taken_is_published_as_mass_and_as_share(estimator, k, weighted):
    X, y, weight = data(estimator)
    if not weighted:
        weight = np.ones(y.size)
    model = clone(estimator).set_params(k=k).fit(X, y, weight)
    whole = total(estimator, y, weight)
    assert model.k_ == pytest.approx(k if isinstance(k, int) else k * whole, rel=1e-12)
    assert model.k_share_ == pytest.approx(model.k_ / whole, rel=1e-12)
    assert 0.0 < model.k_share_ <= 1.0
    again = clone(estimator).set_params(k=model.k_share_).fit(X, y, weight)
    assert again.k_share_ == pytest.approx(model.k_share_, rel=1e-12)
    np.testing.assert_allclose(answers(again, X), answers(model, X), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("estimator", CHOOSING, ids=str)
def test_the_k_chosen_is_published_as_mass_and_as_share(estimator, weighted):
    X, y, weight = data(estimator)
    if not weighted:
        weight = np.ones(y.size)
    model = clone(estimator).fit(X, y, weight)
    assert model.k_ == pytest.approx(model.k_share_ * total(estimator, y, weight), rel=1e-12)
    assert isinstance(model.k_share_, float)
    plain = {name: value for name, value in model.get_params().items() if name in ("loss", "class_weight", "tol")}
    kind = ATkClassifier if is_classifier(model) else ATkRegressor
    again = kind(**plain, k=model.k_share_, C=getattr(model, "C_", 100.0)).fit(X, y, weight)
    assert again.k_share_ == pytest.approx(model.k_share_, rel=1e-12)
    assert again.k_ == pytest.approx(model.k_, rel=1e-12)
    np.testing.assert_allclose(answers(again, X), answers(model, X), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("estimator", STREAMING, ids=str)
def test_a_stream_knows_the_share_alone(estimator):
    X, y, _ = data(estimator)
    classes = {"classes": [0.0, 1.0]} if is_classifier(estimator) else {}
    for learn in (
        lambda model: model.partial_fit(X, y, **classes),
        lambda model: model.fit_blocks([(X, y)], **classes),
        lambda model: model.fit(X, y).partial_fit(X, y),
    ):
        model = learn(clone(estimator))
        assert model.k_share_ == 0.3
        assert not hasattr(model, "k_")
    assert model.fit(X, y).k_ == pytest.approx(45.0)
