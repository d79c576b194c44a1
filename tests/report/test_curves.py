"""Curves say what the measures say that are read off them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from atklearn.measures.catalogue import area_under_roc, average_precision
from atklearn.report.curves import binned, largest_errors, mean_curve, precision_at_recall, true_at_false_positives

GRID = np.linspace(0.0, 1.0, 2001)


def some_part(seed, n=300, ties=False):
    rng = np.random.default_rng(seed)
    positive = rng.random(n) < 0.3
    decisions = rng.standard_normal(n) + positive
    return np.round(decisions, 1) if ties else decisions, positive


@pytest.mark.parametrize("ties", [False, True])
def test_areas_are_the_measures(ties):
    """Averaged over parts, the area is the mean of the parts' areas, to the accuracy of the grid."""
    parts = [some_part(seed, ties=ties) for seed in range(4)]
    roc = mean_curve([[part] for part in parts], true_at_false_positives, GRID)
    assert_allclose(np.trapezoid(roc, GRID), np.mean([area_under_roc(*part) for part in parts]), atol=1e-3)
    precision = mean_curve([[part] for part in parts], precision_at_recall, GRID[1:])
    assert_allclose(precision.mean(), np.mean([average_precision(*part) for part in parts]), atol=1e-3)


def test_parts_are_not_ranked_together():
    """Decision values of another fit may be of another size."""
    one, (decisions, positive) = some_part(0), some_part(1)
    curves = [
        mean_curve([[one], [(scale * decisions + shift, positive)]], true_at_false_positives, GRID)
        for scale, shift in ((1.0, 0.0), (1e3, -50.0))
    ]
    assert_allclose(*curves)


def test_a_part_without_both_kinds_has_no_curve():
    one = some_part(0)
    assert_allclose(mean_curve([[one], []], precision_at_recall, GRID), mean_curve([[one]], precision_at_recall, GRID))
    assert np.isnan(mean_curve([[]], precision_at_recall, GRID)).all()


def test_the_largest_errors_hold_the_tail():
    errors = np.random.default_rng(0).standard_normal((3, 1000))
    parts, sizes = largest_errors(errors)
    assert (np.diff(sizes) <= 0.0).all()
    assert sizes[0] == pytest.approx(np.abs(errors).max(axis=1).mean())
    assert (parts[0], parts[-1]) == (0.001, 1.0)
    place = int(np.argmin(np.abs(parts - 0.05)))
    rank = round(1000 * parts[place])
    assert sizes[place] == pytest.approx(np.sort(np.abs(errors), axis=1)[:, -rank].mean())


def test_bins_are_alike_and_keep_the_mean():
    rng = np.random.default_rng(0)
    said = rng.random(500)
    predicted, observed = binned(said, said + rng.standard_normal(500))
    assert predicted.size == 10
    assert (np.diff(predicted) > 0.0).all()
    assert predicted.mean() == pytest.approx(said.mean())
    assert np.abs(observed - predicted).max() < 0.5
    assert len(binned(np.arange(3.0), np.arange(3.0))[0]) == 3
