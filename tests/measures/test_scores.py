"""The scores against scikit-learn's, by hand, and under weights."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import balanced_accuracy_score, recall_score
from sklearn.model_selection import cross_val_score

from atklearn import ATkClassifier, average_top_k, measures


@pytest.fixture(scope="module")
def labels():
    rng = np.random.default_rng(0)
    truth = rng.choice(["a", "b", "c"], 200, p=[0.6, 0.3, 0.1])
    guess = np.where(rng.random(200) < 0.6, truth, "a")
    return truth, guess, rng.integers(0, 4, 200)


def test_agree_with_scikit_learn(labels):
    truth, guess, weight = labels
    for w in (None, weight):
        assert_allclose(
            measures.balanced_error(truth, guess, sample_weight=w),
            1.0 - balanced_accuracy_score(truth, guess, sample_weight=w),
        )
        recalls = recall_score(truth, guess, average=None, sample_weight=w)
        assert_allclose(measures.worst_class_error(truth, guess, sample_weight=w), 1.0 - recalls.min())
        assert_allclose(measures.g_mean(truth, guess, sample_weight=w), recalls.prod() ** (1.0 / 3.0))


def test_weights_are_repetitions(labels):
    truth, guess, weight = labels
    groups = np.arange(truth.size) % 7
    weighted = measures.worst_group_error(truth, guess, groups=groups, sample_weight=weight)
    assert_allclose(
        weighted, measures.worst_group_error(truth.repeat(weight), guess.repeat(weight), groups=groups.repeat(weight))
    )


def test_tail_loss_is_the_mean_of_the_largest_losses():
    rng = np.random.default_rng(0)
    y, f = rng.choice([-1.0, 1.0], 50), rng.standard_normal(50)
    losses = np.sort(np.log1p(np.exp(-y * f)))[::-1]
    assert_allclose(measures.tail_loss(y, f, loss="log_loss", k=0.1), losses[:5].mean())
    with pytest.raises(ValueError, match="recode the classes"):
        measures.tail_loss(y + 1.0, f, loss="hinge")
    with pytest.raises(ValueError, match="one of"):
        measures.tail_loss(y, f, loss="nonsense")
    with pytest.raises(ValueError, match="vectors of one length"):
        measures.tail_loss(y, f[:-1], loss="hinge")


def test_scorers_serve_scikit_learn():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 2))
    y = (X[:, 0] + 0.3 * rng.standard_normal(90) > 0).astype(int)
    group = measures.worst_group_error_scorer(lambda X: X[:, 1] > 0)
    for scorer in (measures.balanced_error_scorer, measures.worst_class_error_scorer, group):
        assert (cross_val_score(ATkClassifier(), X, y, scoring=scorer, cv=2) <= 0.0).all()
    assert (cross_val_score(ATkClassifier(), X, y, scoring=measures.g_mean_scorer, cv=2) > 0.5).all()


def test_the_tail_loss_is_the_average_top_k_also_where_it_ends_inside_a_sample():
    rng = np.random.default_rng(1)
    y, f = rng.standard_normal(25), rng.standard_normal(25)
    for k in (0.1, 0.07, 1.0, 3):
        for weight in (None, rng.integers(0, 4, 25)):
            expected = average_top_k(k).value(np.abs(y - f), weight)
            assert_allclose(measures.tail_loss(y, f, loss="absolute_error", k=k, sample_weight=weight), expected)


@pytest.mark.parametrize("weight", [[1.0], [0.0, 0.0, 0.0], [1.0, -1.0, 1.0], [1.0, np.nan, 1.0]])
def test_weights_that_are_none_are_named(weight):
    with pytest.raises(ValueError, match="3 finite numbers >= 0, not all zero"):
        measures.g_mean([0, 1, 1], [0, 1, 1], sample_weight=weight)
    with pytest.raises(ValueError, match="3 finite numbers >= 0, not all zero"):
        measures.tail_loss([0.0, 1.0, 1.0], [0.0, 1.0, 1.0], loss="huber", sample_weight=weight)


def test_shapes_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match=r"\(2,\), \(3,\)"):
        measures.balanced_error([0, 1], [0, 1, 1])
