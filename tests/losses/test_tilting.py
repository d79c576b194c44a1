"""The laws of the tilted loss: its gradient by differences, its limits, and where it lies among the slices."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp

from atklearn.aggregates import Average, AverageTopK, Maximum, Tilted

TILTS = (-30.0, -1.0, -1e-6, 0.0, 1e-6, 1.0, 30.0)


def random_losses(seed):
    rng = np.random.default_rng(seed)
    return rng.exponential(size=12), rng.integers(0, 4, 12)


@pytest.mark.parametrize("t", TILTS)
@pytest.mark.parametrize("seed", range(3))
class TestEveryTilt:
    def test_value_is_the_formula(self, t, seed):
        losses, counts = random_losses(seed)
        expected = losses.mean() if t == 0 else (logsumexp(t * losses) - np.log(12)) / t
        assert Tilted(t).value(losses) == pytest.approx(expected, rel=1e-9)  # the formula itself divides by 1e-6
        weighted = losses @ counts / counts.sum() if t == 0 else logsumexp(t * losses, b=counts / counts.sum()) / t
        assert Tilted(t).value(losses, counts) == pytest.approx(weighted, rel=1e-9)

    def test_weights_are_the_gradient(self, t, seed):
        losses, counts = random_losses(seed)
        for sample_weight in (None, counts):
            value, step = Tilted(t).value, 1e-5
            moves = step * np.eye(12)
            slopes = [value(losses + move, sample_weight) - value(losses - move, sample_weight) for move in moves]
            weights = Tilted(t).weights(losses, sample_weight)
            assert_allclose(weights, np.array(slopes) / (2 * step), atol=1e-7)
            assert weights.sum() == pytest.approx(1.0, rel=1e-14)
            assert weights.min() >= 0.0

    def test_weighting_is_repeating(self, t, seed):
        losses, counts = random_losses(seed)
        repeated = np.repeat(losses, counts)
        assert Tilted(t).value(losses, counts) == pytest.approx(Tilted(t).value(repeated), rel=1e-13)
        share = np.bincount(np.repeat(np.arange(12), counts), Tilted(t).weights(repeated), minlength=12)
        assert_allclose(Tilted(t).weights(losses, counts), share, rtol=1e-12)

    def test_shift_and_scale_go_through(self, t, seed):
        losses, counts = random_losses(seed)
        value = Tilted(t).value(losses, counts)
        assert Tilted(t).value(losses + 5.0, counts) == pytest.approx(value + 5.0, rel=1e-13)
        assert Tilted(t / 3.0).value(3.0 * losses, counts) == pytest.approx(3.0 * value, rel=1e-13)
        assert_allclose(Tilted(t).weights(losses + 5.0, counts), Tilted(t).weights(losses, counts), rtol=1e-10)

    def test_convexity_is_told(self, t, seed):
        (a, _), (b, _) = random_losses(seed), random_losses(seed + 50)
        value = Tilted(t).value
        bends = 0.5 * (value(a) + value(b)) - value(0.5 * (a + b))
        assert Tilted(t).is_convex == (t >= 0)
        assert bends >= -1e-13 if t >= 0 else bends <= 1e-13


@pytest.mark.parametrize("weighted", [False, True])
def test_it_grows_with_the_tilt_from_the_smallest_loss_to_the_largest(weighted):
    losses, counts = random_losses(7)
    losses[counts == 0] = 99.0 if weighted else 0.5  # of no weight, so out of sight
    sample_weight = counts if weighted else None
    seen = losses[counts > 0] if weighted else losses
    tilts = (-np.inf, -1e308, -1e4, -10.0, -1.0, -1e-9, 0, 1e-9, 1.0, 10.0, 1e4, 1e308, np.inf)
    values = [Tilted(t).value(losses, sample_weight) for t in tilts]
    assert (np.diff(values) >= -1e-15).all()
    assert values[0] == seen.min()
    assert values[-1] == seen.max()
    assert_allclose(values[1:3], seen.min(), atol=1e-3)
    assert_allclose(values[-3:-1], seen.max(), atol=1e-3)
    assert_allclose(values[5:8], Average().value(losses, sample_weight), rtol=1e-8)


def test_the_limits_share_among_equals():
    losses = np.array([2.0, 0.0, 2.0, 0.0, 1.0])
    assert_allclose(Tilted(np.inf).weights(losses), [0.5, 0.0, 0.5, 0.0, 0.0])
    assert_allclose(Tilted(np.inf).weights(losses), Maximum().weights(losses))
    assert_allclose(Tilted(-np.inf).weights(losses, [1, 3, 1, 1, 1]), [0.0, 0.75, 0.0, 0.25, 0.0])
    assert_allclose(Tilted(1e3).weights(losses), Tilted(np.inf).weights(losses))


def test_nothing_overflows_and_no_digit_is_lost():
    losses = np.array([1e5, 1e5 + 1.0])
    assert Tilted(1e3).value(losses) == pytest.approx(1e5 + 1.0 - np.log(2) / 1e3, rel=1e-15)
    assert Tilted(-1e3).value(losses) == pytest.approx(1e5 + np.log(2) / 1e3, rel=1e-15)
    # to second order: the mean, and half the variance for every unit of t
    assert Tilted(1e-9).value([0.0, 1.0]) - 0.5 == pytest.approx(1e-9 / 8, rel=1e-5)


def test_weights_may_have_any_size():
    losses, weight = np.array([5.0, 3.0, 2.0, 0.0]), np.array([0.25, 0.5, 0.5, 1.0])
    for t in (0.0, 1.0, -np.inf):
        assert Tilted(t).value(losses, 1e308 * weight) == pytest.approx(Tilted(t).value(losses, weight))


@pytest.mark.parametrize("t", [0.1, 1.0, 20.0])
def test_it_is_the_largest_mean_that_pays_for_its_distance_from_equal_weights(t):
    losses, _ = random_losses(3)
    rng = np.random.default_rng(0)

    def rewarded(q):
        return q @ losses - (q @ np.log(12 * q)) / t

    value = Tilted(t).value(losses)
    assert rewarded(Tilted(t).weights(losses)) == pytest.approx(value)
    assert max(rewarded(q) for q in rng.dirichlet(np.ones(12), 200)) <= value
    for k in range(1, 13):
        assert AverageTopK(k).value(losses) <= value + np.log(12 / k) / t + 1e-12


@pytest.mark.parametrize("t", [np.nan, "1", None, True])
def test_refusals(t):
    with pytest.raises(ValueError, match="tilt t is expected"):
        Tilted(t)


def test_vectors_are_checked_as_those_of_the_slices():
    for losses, weights in (([], None), ([np.nan], None), ([1.0], [-1.0]), ([1.0, 2.0], [1.0])):
        with pytest.raises(ValueError, match="expected"):
            Tilted(1.0).value(losses, weights)
