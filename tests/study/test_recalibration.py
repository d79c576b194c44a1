"""Maps of decision values: the best there are on rows not seen, fitted without the fold that validates them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import balanced_accuracy_score, zero_one_loss
from sklearn.model_selection import TunedThresholdClassifierCV

from atklearn.measures import MEASURES, Answers
from atklearn.study.recalibration import Recalibration, apply_map, map_kind

ERRORS = {
    "error": zero_one_loss,
    "balanced_error": lambda y, said: 1.0 - balanced_accuracy_score(y, said),
}
TAIL = 0.1


def classes_said(n, share=0.3, n_folds=3, seed=0):
    """Return decision values that are too low for the rarer class, as folds."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    f = 1.5 * y + rng.standard_normal(n) - 2.0
    return [(f[None, rows], y[rows], None) for rows in np.array_split(np.arange(n), n_folds)]


def numbers_said(n=60, n_folds=3, seed=0):
    """Return predictions that are too small and shifted, with skew errors, as folds."""
    rng = np.random.default_rng(seed)
    y = 100.0 + 20.0 * rng.standard_normal(n)
    f = 0.5 * y + 3.0 * rng.exponential(size=n)
    return [(f[None, rows], y[rows], None) for rows in np.array_split(np.arange(n), n_folds)]


def together(folds):
    return np.concatenate([said[0] for said, _, _ in folds]), np.concatenate([y for _, y, _ in folds])


def recalibrated(folds, n_folds=3):
    classes = np.array([0, 1]) if folds[0][1].dtype.kind == "i" else None
    return Recalibration(folds, n_folds, classes, TAIL)


def between(f):
    values = np.unique(f)
    return 0.5 * (values[1:] + values[:-1])


@pytest.mark.parametrize("measure", ERRORS)
@pytest.mark.parametrize("seed", range(5))
def test_the_threshold_of_few_rows_is_the_best_of_all(measure, seed):
    folds = classes_said(90, seed=seed)
    f, y = together(folds)
    slope, shift = recalibrated(folds).fitted_to(measure)
    assert slope == 1.0
    errors = [ERRORS[measure](y, (f > t).astype(int)) for t in between(f)]
    assert ERRORS[measure](y, (f + shift > 0.0).astype(int)) == pytest.approx(min(errors), abs=1e-12)


@pytest.mark.parametrize("measure", ERRORS)
def test_the_threshold_of_many_rows_is_close_to_the_best(measure):
    folds = classes_said(3000)
    f, y = together(folds)
    _, shift = recalibrated(folds).fitted_to(measure)
    best = min(ERRORS[measure](y, (f > t).astype(int)) for t in between(f)[::3])
    # no threshold has more than a hundredth of the rows up to the next one
    step = 3000 / 99 / 2
    slack = step / 3000 if measure == "error" else step / (2 * np.bincount(y).min())
    found = ERRORS[measure](y, (f + shift > 0.0).astype(int))
    assert found <= best + slack
    assert found < ERRORS[measure](y, (f > 0.0).astype(int))


class Said(ClassifierMixin, BaseEstimator):
    """Has its feature as decision value."""

    def fit(self, X, y):  # noqa: ARG002
        self.classes_ = np.array([0, 1])
        return self

    def decision_function(self, X):
        return X[:, 0]

    def predict(self, X):
        return (X[:, 0] > 0.0).astype(int)


def test_the_threshold_is_that_of_scikit_learn():
    folds = classes_said(90)
    f, y = together(folds)
    tuned = TunedThresholdClassifierCV(
        Said().fit(None, None), scoring="balanced_accuracy", response_method="decision_function", cv="prefit",
        refit=False, thresholds=between(f),
    ).fit(f[:, None], y)  # fmt: skip
    _, shift = recalibrated(folds).fitted_to("balanced_error")
    ours = balanced_accuracy_score(y, (f + shift > 0.0).astype(int))
    assert ours == pytest.approx(tuned.best_score_)


def test_a_threshold_that_cannot_be_better_stays():
    y = np.arange(30) % 2
    folds = [((2.0 * y[rows] - 1.0)[None], y[rows], None) for rows in np.array_split(np.arange(30), 3)]
    for measure in (*ERRORS, "worst_class_error", "g_mean"):
        assert recalibrated(folds).fitted_to(measure) == (1.0, 0.0)


def test_the_worst_group_has_its_own_threshold():
    folds = [(f, y, np.where(np.arange(y.size) % 3 == 0, "a", "b")) for f, y, _ in classes_said(90)]
    f, y = together(folds)
    groups = np.concatenate([group for _, _, group in folds])
    _, shift = recalibrated(folds).fitted_to("worst_group_error")

    def worst(t):
        wrong = (f > t) != y
        return max(wrong[groups == group].mean() for group in "ab")

    assert worst(-shift) == pytest.approx(min(worst(t) for t in between(f)))


def least_top(f, y, k):
    """Return the least mean of the k largest |a f + b - y|, by the linear programme t + sum (|e_i| - t)_+ / k."""
    n = f.size
    ones, excess = np.ones((n, 1)), -np.eye(n)
    A = np.block([[f[:, None], ones, -ones, excess], [-f[:, None], -ones, -ones, excess]])
    cost = np.r_[0.0, 0.0, 1.0, np.full(n, 1.0 / k)]
    bounds = [(None, None)] * 3 + [(0.0, None)] * n
    return linprog(cost, A, np.r_[y, -y], bounds=bounds).fun


@pytest.mark.parametrize(("measure", "k"), [("max_error", 1.0), ("tail_error", TAIL * 60), ("mae", 60.0)])
@pytest.mark.parametrize("seed", range(3))
def test_affine_maps_are_the_best_there_are(measure, k, seed):
    folds = numbers_said(seed=seed)
    f, y = together(folds)
    slope, shift = recalibrated(folds).fitted_to(measure)
    largest = np.sort(np.abs(slope * f + shift - y))[::-1][: round(k)]
    best = least_top(f, y, k)
    assert best * (1.0 - 1e-9) <= largest.mean() <= best * 1.003
    assert best < 0.5 * np.sort(np.abs(f - y))[::-1][: round(k)].mean()


@pytest.mark.parametrize("measure", ["rmse", "r2"])
def test_for_squares_it_is_least_squares(measure):
    folds = numbers_said()
    f, y = together(folds)
    np.testing.assert_allclose(recalibrated(folds).fitted_to(measure), np.polyfit(f, y, 1), rtol=1e-9)


def test_predictions_without_spread_are_moved():
    folds = [(np.full((1, 10), 5.0), np.arange(10.0), None)] * 3
    slope, shift = recalibrated(folds).fitted_to("rmse")
    assert slope * 5.0 + shift == pytest.approx(4.5)


@pytest.mark.parametrize("measure", ["balanced_error", "error", "rmse", "tail_error", "max_error"])
@pytest.mark.parametrize("repetitions", [1, 2])
def test_a_fold_is_validated_by_the_map_of_the_others_of_its_repetition(measure, repetitions):
    make = classes_said if measure in ERRORS else numbers_said
    folds = [fold for seed in range(repetitions) for fold in make(60, seed=seed)]
    found = recalibrated(folds).validation(measure)
    assert len(found) == 3 * repetitions
    for place, (f, y, _) in enumerate(folds):
        first = place - place % 3
        others = [folds[i] for i in range(first, first + 3) if i != place]
        mapped = apply_map(f, recalibrated(others, 2).fitted_to(measure))
        classes = np.array([0, 1]) if measure in ERRORS else None
        answers = Answers.from_decisions(mapped, y, classes, tail=TAIL)
        assert found[place] == pytest.approx(float(MEASURES[measure].evaluate(answers)))


def test_maps_are_for_measures_that_they_can_improve():
    ((f, y, _),) = classes_said(300, n_folds=1)
    for name, measure in MEASURES.items():
        if "group" in name:
            continue
        n_classes = 2 if "classification" in measure.tasks else None
        if n_classes is None:
            assert map_kind(name, n_classes) == "affine"
            continue
        before, after = (
            float(measure.evaluate(Answers.from_decisions(said, y, np.array([0, 1]), loss="log_loss")))
            for said in (f, f + 1.3)
        )
        by_threshold = before != after and name not in ("log_loss", "brier")  # which are of probabilities
        assert (map_kind(name, n_classes) == "threshold") == by_threshold
        assert map_kind(name, 3) is None
