"""A measure of many fits at once is that of each of them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import mean_absolute_error, root_mean_squared_error

from atklearn import ATkClassifier, ATkRegressor, atk_path, average_top_k
from atklearn.losses.labels import chosen_labels
from atklearn.measures import (
    MEASURES,
    Answers,
    balanced_error,
    g_mean,
    tail_loss,
    worst_class_error,
    worst_group_error,
)
from atklearn.measures.catalogue import (
    DEFAULT_MEASURES,
    GROUP_MEASURES,
    evaluate_by_group,
    evaluate_measures,
    selectable_measures,
)

KS, CS = [1, 0.4, 1.0], [0.1, 10.0]
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
    assert set(found) == {name for name, measure in MEASURES.items() if "classification" in measure.tasks}
    for (i, k), (j, C) in cells():
        said = ATkClassifier(loss, k=k, C=C, tol=1e-9).fit(X, y).predict(X_new)
        assert found["error"][i, j] == pytest.approx(np.average(said != y_new, weights=weight))
        for measure in (balanced_error, worst_class_error, g_mean):
            assert found[measure.__name__][i, j] == pytest.approx(measure(y_new, said, sample_weight=weight))
        worst = worst_group_error(y_new, said, groups=groups, sample_weight=weight)
        assert found["worst_group_error"][i, j] == pytest.approx(worst)
        assert max(values[i, j] for values in by_group.values()) == pytest.approx(worst)
        # the losses of one class against the rest are summed before the largest are taken
        decisions = path.decision(X_new)[i, j]
        summed = sum(
            answers_of_one(decision, y_new == label, loss).losses
            for decision, label in zip(decisions, path.classes[-len(decisions) :], strict=True)
        )
        assert found["tail_loss"][i, j] == pytest.approx(average_top_k(0.1).value(summed, weight))


def answers_of_one(decision, positive, loss):
    return Answers.from_decisions(decision[None], np.where(positive, 1.0, -1.0), np.array([-1.0, 1.0]), loss=loss)


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error"])
def test_regression(loss):
    X, y, X_new, y_new = problem(2)
    y, y_new = 1.0 * y + X[:, 2], 1.0 * y_new + X_new[:, 2]
    path = atk_path(X, y, ks=KS, Cs=CS, loss=loss, tol=1e-9)
    groups = np.where(X_new[:, 0] > 0.0, "a", "b")
    answers = answers_of(path, X_new, y_new, loss, groups=groups)
    found, by_group = evaluate_measures(answers), evaluate_by_group(answers)
    assert set(found) == {name for name, measure in MEASURES.items() if "regression" in measure.tasks}
    for (i, k), (j, C) in cells():
        said = X_new @ path.coefs[i, j, 0] + path.intercepts[i, j, 0]
        fitted = ATkRegressor(loss, k=k, C=C, tol=1e-9).fit(X, y).predict(X_new)
        assert_allclose(said, fitted, atol=0.01)
        assert found["rmse"][i, j] == pytest.approx(root_mean_squared_error(y_new, said))
        assert found["mae"][i, j] == pytest.approx(mean_absolute_error(y_new, said))
        assert found["tail_loss"][i, j] == pytest.approx(tail_loss(y_new, said, loss=loss))
        rows = groups == "a"
        assert by_group["a"][i, j] == pytest.approx(root_mean_squared_error(y_new[rows], said[rows]))


@pytest.mark.parametrize("n", [25, 45, 1000])
def test_there_is_one_tail_loss(n):
    """A tenth of 25 rows is two and a half: neither two nor three."""
    rng = np.random.default_rng(0)
    y, said = rng.standard_normal(n), rng.standard_normal((3, 2, n))
    found = evaluate_measures(Answers.from_decisions(said[..., None, :], y, None, loss="squared_error"))["tail_loss"]
    for cell in np.ndindex(3, 2):
        exact = average_top_k(0.1).value((said[cell] - y) ** 2)
        assert found[cell] == pytest.approx(exact, rel=1e-12)
        assert tail_loss(y, said[cell], loss="squared_error") == pytest.approx(exact, rel=1e-12)


def test_what_answers_do_not_hold_is_not_measured():
    found = evaluate_measures(Answers(np.array([0, 1]), np.array([0, 0]), np.array([0, 1])))
    assert list(found) == ["error", "balanced_error", "g_mean", "worst_class_error"]
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


def test_defaults_are_measures_that_may_be_used_so():
    for task in ("classification", "regression"):
        assert DEFAULT_MEASURES[task] in selectable_measures(task)
        assert task in MEASURES[GROUP_MEASURES[task]].tasks
    assert "tail_loss" not in selectable_measures()
    assert set(selectable_measures()) == {*selectable_measures("classification"), *selectable_measures("regression")}


@pytest.mark.parametrize("n_classes", [2, 4])
def test_labels_are_those_of_the_estimator(n_classes):
    X, y, X_new, _ = problem(n_classes)
    names = np.array(["w", "x", "y", "z"])[y]
    model = ATkClassifier().fit(X, names)
    decisions = np.atleast_2d(model.decision_function(X_new).T)
    assert (chosen_labels(decisions, model.classes_) == model.predict(X_new)).all()
    assert chosen_labels(np.stack([decisions] * 3), model.classes_).shape == (3, N_NEW)
