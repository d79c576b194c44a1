"""Two sides on all rows: values of the predictions put together, errors as of textbooks, the same for both."""

from __future__ import annotations

import numpy as np
import pytest
from comparisons import choice
from scipy import stats
from sklearn import metrics

from atklearn.measures.catalogue import names_of_measures
from atklearn.study.pooling import JudgedRows

N, FOLDS = 300, 3


def splits(said, repeats, seed=0):
    """Return choices of splits whose test parts make all rows once per repeat, from decisions per repeat."""
    rng = np.random.default_rng(seed)
    return [
        choice(said[repeat][..., rows], rows)
        for repeat in range(repeats)
        for rows in np.array_split(rng.permutation(said[repeat].shape[-1]), FOLDS)
    ]


def two_classes(n=N, repeats=2, wrong=(0.2, 0.15), seed=0):
    """Return rows and, per side, decisions of shape (repeats, 1, n) that are wrong with given probabilities."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    right = rng.uniform(0.1, 2.0, (2, repeats, 1, n)) * (2.0 * y - 1.0)
    flip = rng.random((repeats, 1, n)) < np.reshape(wrong, (2, 1, 1, 1))  # alike for both
    return JudgedRows(y, np.array([0, 1]), rng.choice(["a", "b"], n), 0.1, FOLDS), np.where(flip, -right, right)


def numbers(n=N, repeats=2, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.standard_normal(n)
    said = y + rng.standard_t(3, (2, repeats, 1, n)) * np.reshape([1.0, 0.8], (2, 1, 1, 1))
    return JudgedRows(y, None, rng.choice(["a", "b"], n), 0.1, FOLDS), said


def compared(rows, said, measure):
    one, other = (splits(side, len(side)) for side in said)
    return rows.compare(measure, one, other)


def test_classes_are_measured_together():
    rows, said = two_classes()
    labels = (said[:, :, 0] > 0.0).astype(int)
    for measure, theirs in {
        "error": metrics.zero_one_loss,
        "balanced_error": lambda y, p: 1.0 - metrics.balanced_accuracy_score(y, p),
        "worst_class_error": lambda y, p: 1.0 - metrics.recall_score(y, p, average=None).min(),
        "worst_group_error": lambda y, p: max((p != y)[rows.groups == group].mean() for group in "ab"),
    }.items():
        pair = compared(rows, said, measure)
        assert pair.average == pytest.approx(np.mean([theirs(rows.y, p) for p in labels[0]]))
        assert pair.atk == pytest.approx(np.mean([theirs(rows.y, p) for p in labels[1]]))


def test_probabilities_are_those_of_log_loss():
    rows, said = two_classes(repeats=1)
    pair = compared(rows, said, "log_loss")
    assert pair.average == pytest.approx(metrics.log_loss(rows.y, 1.0 / (1.0 + np.exp(-said[0, 0, 0]))))


def test_an_order_is_that_of_one_fit():
    """Decision values of different fits are not comparable: adding a constant to one of them changes nothing."""
    rows, said = two_classes(repeats=1)
    average, atk = (splits(side, 1) for side in said)
    areas = [metrics.roc_auc_score(rows.y[c.rows], c.said[0]) for c in average]
    moved = [choice(c.said + 10.0 * i, c.rows) for i, c in enumerate(average)]
    assert rows.compare("roc_auc", average, atk).average == pytest.approx(np.mean(areas))
    assert rows.compare("roc_auc", moved, atk) == rows.compare("roc_auc", average, atk)


def test_numbers_are_measured_together():
    rows, said = numbers()
    for measure, theirs in {
        "rmse": metrics.root_mean_squared_error,
        "mae": metrics.mean_absolute_error,
        "max_error": metrics.max_error,  # that of all rows, not the mean of those of the parts
        "tail_error": lambda y, p: np.sort(np.abs(y - p))[-30:].mean(),
        "r2": metrics.r2_score,
    }.items():
        pair = compared(rows, said, measure)
        for value, side in zip((pair.average, pair.atk), said, strict=True):
            assert value == pytest.approx(np.mean([theirs(rows.y, p[0]) for p in side]))


def test_one_split_or_many_is_the_same():
    rows, said = numbers(repeats=1)
    whole = JudgedRows(rows.y, None, rows.groups, rows.tail, 1)
    everything = [[choice(side[0], np.arange(N))] for side in said]
    for measure in names_of_measures("regression"):
        assert compared(rows, said, measure) == whole.compare(measure, *everything)


@pytest.mark.parametrize("n", [400, 3000])
def test_the_error_of_a_difference_of_rates_is_that_of_textbooks(n):
    rows, said = two_classes(n, repeats=1)
    wrong = (said[:, 0, 0] > 0.0) != rows.y
    difference = wrong[1].astype(float) - wrong[0]
    pair = compared(rows, said, "error")
    assert pair.atk - pair.average == pytest.approx(difference.mean())
    assert pair.error == pytest.approx(difference.std() / np.sqrt(n), rel=0.1)  # paired, not of two samples
    assert compared(rows, said[[0, 0]], "error").error == 0.0


def test_the_error_of_a_difference_of_means_is_that_of_textbooks():
    rows, said = numbers(1000, repeats=2)
    sizes = np.abs(said[:, :, 0] - rows.y).mean(axis=1)  # repeats say something about the same rows
    assert compared(rows, said, "mae").error == pytest.approx(stats.sem(sizes[1] - sizes[0]), rel=0.1)


def test_the_error_of_a_class_is_that_of_its_rows():
    rows, said = two_classes(2000, repeats=1)
    wrong = (said[:, 0, 0] > 0.0) != rows.y
    difference = wrong[1].astype(float) - wrong[0]
    of_classes = [difference[rows.y == label].std() / np.sqrt((rows.y == label).sum()) for label in (0, 1)]
    assert compared(rows, said, "balanced_error").error == pytest.approx(0.5 * np.hypot(*of_classes), rel=0.1)


def test_the_same_choice_is_no_difference():
    rows, said = two_classes(repeats=1)
    side = splits(said[0], 1)
    pair = rows.compare("error", side, side)
    assert (pair.average, pair.error) == (pair.atk, 0.0)


@pytest.mark.parametrize("measure", [*names_of_measures("classification"), *names_of_measures("regression")])
def test_every_measure_has_an_error(measure):
    classes = measure in names_of_measures("classification")
    rows, said = two_classes(24, repeats=1) if classes else numbers(24, repeats=1)
    pair = compared(rows, said, measure)
    assert np.isfinite([pair.average, pair.atk, pair.error]).all()
    assert pair.error > 0.0
    assert compared(rows, said, measure) == pair  # the rows are drawn alike every time
