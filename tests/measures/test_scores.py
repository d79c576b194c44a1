"""The scores against scikit-learn's, by hand, and under weights."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import balanced_accuracy_score, get_scorer, recall_score
from sklearn.model_selection import cross_val_score
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from atklearn import ATkClassifier, measures
from atklearn.aggregates import AverageTopK


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


def test_tail_loss_is_the_mean_of_the_largest_losses():
    rng = np.random.default_rng(0)
    y, f = rng.choice([-1.0, 1.0], 50), rng.standard_normal(50)
    losses = np.sort(np.log1p(np.exp(-y * f)))[::-1]
    assert_allclose(measures.tail_loss(y, f, loss="log_loss", k=0.1), losses[:5].mean())
    with pytest.raises(ValueError, match="recode the classes"):
        measures.tail_loss(y + 1.0, f, loss="hinge")
    with pytest.raises(ValueError, match="one of"):
        measures.tail_loss(y, f, loss="nonsense")


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
            expected = AverageTopK(k).value(np.abs(y - f), weight)
            assert_allclose(measures.tail_loss(y, f, loss="absolute_error", k=k, sample_weight=weight), expected)


@pytest.mark.parametrize("weight", [[1.0], [0.0, 0.0, 0.0], [1.0, -1.0, 1.0], [1.0, np.nan, 1.0]])
def test_weights_that_are_none_are_named(weight):
    with pytest.raises(ValueError, match="3 finite numbers >= 0, got"):
        measures.g_mean([0, 1, 1], [0, 1, 1], sample_weight=weight)
    with pytest.raises(ValueError, match="3 finite numbers >= 0, got"):
        measures.tail_loss([0.0, 1.0, 1.0], [0.0, 1.0, 1.0], loss="huber", sample_weight=weight)


NUMBERS, LABELS = [0.0, 1.0, 1.0], [0, 1, 1]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: measures.balanced_error([0, 1], LABELS), r"one length > 0, got shapes \[\(2,\), \(3,\)\]"),
        (lambda: measures.g_mean([], []), r"one length > 0, got shapes \[\(0,\), \(0,\)\]"),
        (lambda: measures.worst_class_error([LABELS], [LABELS]), r"vectors .* got shapes \[\(1, 3\), \(1, 3\)\]"),
        (lambda: measures.worst_group_error(LABELS, LABELS, groups=["a"]), r"groups are expected .* \(1,\)\]"),
        (lambda: measures.balanced_error([0.0, np.nan, 1.0], LABELS), "y_true is .* got nan for sample 1; correct it"),
        (lambda: measures.worst_group_error(LABELS, LABELS, groups=[1.0, 2.0, np.inf]), "groups is .* got inf for sa"),
        (lambda: measures.tail_loss([], [], loss="huber"), "one length > 0"),
        (lambda: measures.tail_loss(NUMBERS, NUMBERS[:2], loss="huber"), "one length > 0"),
        (lambda: measures.tail_loss(NUMBERS, [0.0, 1.0, np.inf], loss="huber"), "prediction is .* inf for sample 2"),
        (lambda: measures.MeasureScorer("rmse")(MEAN, [[1.0]] * 3, NUMBERS[:2]), "y, predictions are expected as vec"),
        (lambda: measures.MeasureScorer("rmse")(MEAN, [[1.0]] * 3, [0.0, np.nan, 1.0]), "y is .* got nan for sample 1"),
        (lambda: measures.Answers(np.array([]), np.array([])), "one sample at least"),
        (lambda: measures.Answers(np.zeros(3), np.zeros((2, 4))), r"shape \(3,\) and arrays of shapes \(2, 4\)"),
        (lambda: measures.Answers(np.zeros(3), np.zeros(3), groups=np.zeros(2)), r"shapes \(3,\), \(2,\)"),
    ],
)
def test_what_cannot_be_measured_is_told_in_a_sentence(call, words):
    with pytest.raises(ValueError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


MEAN = DummyRegressor().fit([[0.0]], [1.0])
SKLEARN_NAMES = {"error": "accuracy", "balanced_error": "balanced_accuracy", "roc_auc": "roc_auc",
                 "average_precision": "average_precision", "log_loss": "neg_log_loss", "brier": "neg_brier_score",
                 "rmse": "neg_root_mean_squared_error", "mae": "neg_mean_absolute_error", "max_error": "neg_max_error",
                 "r2": "r2"}  # fmt: skip


@pytest.mark.parametrize("name", SKLEARN_NAMES)
def test_scorers_by_name_rank_as_scikit_learns_do(name):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 3))
    y = X[:, 0] + 0.5 * rng.standard_normal(90)
    scorer, theirs = measures.MeasureScorer(name), get_scorer(SKLEARN_NAMES[name])
    model = Ridge()
    if "classification" in measures.MEASURES[name].tasks:
        y, model = np.where(y > 0.3, 1, 0), LogisticRegression()
    shift = 1.0 if name.endswith("error") and "classification" in measures.MEASURES[name].tasks else 0.0
    model.fit(X[:40], y[:40])
    weight = rng.integers(0, 3, 50)
    for weights in ({}, {"sample_weight": weight}) if name != "max_error" else ({},):
        expected = theirs(model, X[40:], y[40:], **weights) - shift
        assert scorer(model, X[40:], y[40:], **weights) == pytest.approx(expected)


def test_scorers_by_name_serve_any_estimator_and_travel():
    X, y = np.arange(12.0)[:, None], np.arange(12) % 3
    trees = DecisionTreeClassifier(max_depth=2).fit(X, y)  # probabilities, but no decision function
    scorer = pickle.loads(pickle.dumps(measures.MeasureScorer("roc_auc")))
    assert 0.0 < scorer(trees, X, y) <= 1.0
    svm = LinearSVC().fit(X, y)  # the other way round
    assert scorer(svm, X, y) > 0.0
    with pytest.raises(ValueError, match="LinearSVC has no probabilities"):
        measures.MeasureScorer("brier")(svm, X, y)
    with pytest.raises(ValueError, match="LinearSVC is not for"):
        measures.MeasureScorer("rmse")(svm, X, y)


@pytest.mark.parametrize("name", ["accuracy", "worst_group_error", "worst_group_rmse"])
def test_what_is_no_scorer_is_named(name):
    with pytest.raises(ValueError, match=r"one of \['error'|worst_group_error_scorer"):
        measures.MeasureScorer(name)
