"""A measure of many fits at once is that of each of them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn import metrics

from atklearn import ATkClassifier, ATkRegressor, atk_path
from atklearn.aggregates import AverageTopK
from atklearn.losses.labels import chosen_labels
from atklearn.measures import (
    MEASURES,
    Answers,
    balanced_error,
    g_mean,
    worst_class_error,
    worst_group_error,
)
from atklearn.measures.catalogue import (
    DEFAULT_MEASURES,
    GROUP_MEASURES,
    evaluate_by_group,
    evaluate_measures,
    names_of_measures,
)

PROBABILITY_MEASURES = {"log_loss", "brier"}

KS, CS = ["max", 0.4, 1.0], [0.1, 10.0]
N_NEW = 45  # of which a tenth is four samples and a half
pytestmark = pytest.mark.filterwarnings("ignore::atklearn.CollapseWarning")


def problem(n_classes, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((80 + N_NEW, 4))
    scores = X[:, :2] @ rng.standard_normal((2, n_classes)) + rng.standard_normal((len(X), n_classes))
    return X[:80], scores.argmax(axis=1)[:80], X[80:], scores.argmax(axis=1)[80:]


def cells():
    return [((i, k), (j, C)) for i, k in enumerate(KS) for j, C in enumerate(CS)]


def answers_of(path, X, y, loss, **known):
    return Answers.from_decisions(path.decision(X), y, path.classes, loss=loss, **known)


@pytest.mark.parametrize("loss", ["log_loss", "hinge"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_classification(n_classes, loss, weighted):
    X, y, X_new, y_new = problem(n_classes)
    path = atk_path(X, y, ks=KS, Cs=CS, loss=loss, tol=1e-9)
    groups = np.where(X_new[:, 0] > 0.0, "a", "b")
    weight = np.random.default_rng(2).integers(0, 3, N_NEW).astype(float) if weighted else None
    answers = answers_of(path, X_new, y_new, loss, groups=groups, sample_weight=weight)
    found, by_group = evaluate_measures(answers), evaluate_by_group(answers)
    assert set(found) == set(names_of_measures("classification")) - (
        set() if loss == "log_loss" else PROBABILITY_MEASURES
    )
    for (i, k), (j, C) in cells():
        said = ATkClassifier(loss, k=k, C=C, tol=1e-9).fit(X, y).predict(X_new)
        assert found["error"][i, j] == pytest.approx(np.average(said != y_new, weights=weight))
        for measure in (balanced_error, worst_class_error, g_mean):
            assert found[measure.__name__][i, j] == pytest.approx(measure(y_new, said, sample_weight=weight))
        worst = worst_group_error(y_new, said, groups=groups, sample_weight=weight)
        assert found["worst_group_error"][i, j] == pytest.approx(worst)
        assert max(values[i, j] for values in by_group.values()) == pytest.approx(worst)
        # ... and scikit-learn's own, one class against the rest
        decisions = path.decision(X_new)[i, j]
        positives = [y_new == label for label in path.classes[-len(decisions) :]]
        for name, theirs in (
            ("roc_auc", metrics.roc_auc_score),
            ("average_precision", metrics.average_precision_score),
        ):
            values = [theirs(p, d, sample_weight=weight) for p, d in zip(positives, decisions, strict=True)]
            assert found[name][i, j] == pytest.approx(np.mean(values))
        if loss == "log_loss":
            said = answers.probabilities[i, j].T
            expected = metrics.log_loss(y_new, said, labels=path.classes, sample_weight=weight)
            assert found["log_loss"][i, j] == pytest.approx(expected)
            missed = 0.5 * ((said - (y_new[:, None] == path.classes)) ** 2).sum(axis=1)
            assert found["brier"][i, j] == pytest.approx(np.average(missed, weights=weight))
            if n_classes == 2:
                expected = metrics.brier_score_loss(y_new, said[:, 1], sample_weight=weight)
                assert found["brier"][i, j] == pytest.approx(expected)


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error"])
@pytest.mark.parametrize("weighted", [False, True])
def test_regression(loss, weighted):
    X, y, X_new, y_new = problem(2)
    y, y_new = 1.0 * y + X[:, 2], 1.0 * y_new + X_new[:, 2]
    path = atk_path(X, y, ks=KS, Cs=CS, loss=loss, tol=1e-9)
    groups = np.where(X_new[:, 0] > 0.0, "a", "b")
    weight = np.random.default_rng(2).integers(0, 3, N_NEW) if weighted else np.ones(N_NEW, dtype=int)
    answers = answers_of(path, X_new, y_new, loss, groups=groups, sample_weight=1.0 * weight, tail=0.13)
    found, by_group = evaluate_measures(answers), evaluate_by_group(answers)
    assert set(found) == set(names_of_measures("regression"))
    y_many = y_new.repeat(weight)
    for (i, k), (j, C) in cells():
        said = X_new @ path.coefs[i, j, 0] + path.intercepts[i, j, 0]
        fitted = ATkRegressor(loss, k=k, C=C, tol=1e-9).fit(X, y).predict(X_new)
        assert_allclose(said, fitted, atol=0.01)
        many = said.repeat(weight)  # a weight is a repetition
        assert found["rmse"][i, j] == pytest.approx(metrics.root_mean_squared_error(y_many, many))
        assert found["mae"][i, j] == pytest.approx(metrics.mean_absolute_error(y_many, many))
        assert found["r2"][i, j] == pytest.approx(metrics.r2_score(y_many, many))
        assert found["max_error"][i, j] == pytest.approx(metrics.max_error(y_many, many))
        sizes = np.abs(y_many - many)
        assert found["p95_error"][i, j] == pytest.approx(np.quantile(sizes, 0.95, method="inverted_cdf"))
        assert found["tail_error"][i, j] == pytest.approx(AverageTopK(0.13).value(sizes))
        rows = groups[np.arange(N_NEW).repeat(weight)] == "a"
        assert by_group["a"][i, j] == pytest.approx(metrics.root_mean_squared_error(y_many[rows], many[rows]))


def test_ties_are_shared_and_found_together():
    rng = np.random.default_rng(0)
    for _ in range(50):
        y, decisions = rng.integers(0, 2, 12), rng.integers(0, 4, 12).astype(float)
        if 0 < y.sum() < 12:
            found = evaluate_measures(Answers.from_decisions(decisions[None], y, np.array([0, 1])))
            assert found["roc_auc"] == pytest.approx(metrics.roc_auc_score(y, decisions))
            assert found["average_precision"] == pytest.approx(metrics.average_precision_score(y, decisions))


def test_a_class_alone_cannot_be_told_apart_but_is_measured():
    found = evaluate_measures(Answers.from_decisions(np.array([[1.0, 2.0]]), np.array([1, 1]), np.array([0, 1])))
    assert found["roc_auc"] == 0.5
    assert found["average_precision"] == 0.0
    constant = evaluate_measures(Answers(np.array([2.0, 2.0]), np.array([[2.0, 2.0], [2.0, 3.0]])))
    assert constant["r2"].tolist() == [1.0, 0.0]


def test_what_answers_do_not_hold_is_not_measured():
    found = evaluate_measures(Answers(np.array([0, 1]), np.array([0, 0]), np.array([0, 1])))
    assert list(found) == ["error", "balanced_error", "worst_class_error", "g_mean"]
    with pytest.raises(ValueError, match="decision values and a loss"):
        _ = Answers(np.array([0, 1]), np.array([0, 0]), np.array([0, 1])).losses


def test_every_measure_says_which_way_is_better():
    """The truth itself scores at least as well as any other answer."""
    y = np.array([0, 0, 1, 1])
    decisions = np.array([[2.0 * y - 1.0], [1.0 - 2.0 * y]])
    groups = np.array(["a", "b", "a", "b"])
    classes = Answers.from_decisions(decisions, y, np.array([0, 1]), loss="log_loss", groups=groups)
    numbers = Answers.from_decisions(decisions, decisions[0, 0], None, loss="huber", groups=groups)
    for answers in (classes, numbers):
        for name, (right, wrong) in evaluate_measures(answers).items():
            assert MEASURES[name].sign * right > MEASURES[name].sign * wrong, name


def test_defaults_are_measures_of_their_task():
    for task in ("classification", "regression"):
        assert DEFAULT_MEASURES[task] in names_of_measures(task)
        assert task in MEASURES[GROUP_MEASURES[task]].tasks
    assert set(names_of_measures()) == set(MEASURES)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_labels_are_those_of_the_estimator(n_classes):
    X, y, X_new, _ = problem(n_classes)
    names = np.array(["w", "x", "y", "z"])[y]
    model = ATkClassifier().fit(X, names)
    decisions = np.atleast_2d(model.decision_function(X_new).T)
    assert (chosen_labels(decisions, model.classes_) == model.predict(X_new)).all()
    assert chosen_labels(np.stack([decisions] * 3), model.classes_).shape == (3, N_NEW)
