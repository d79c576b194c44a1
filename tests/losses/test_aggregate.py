"""The laws of aggregate losses: slices against sorting and exact rationals, the tilted loss against its formula."""

from __future__ import annotations

import numpy as np
import pytest
from exact_slices import HARD, exact_mean, largest_inside
from numpy.testing import assert_allclose
from scipy.optimize import linprog
from scipy.special import logsumexp

from atklearn.aggregates import Average, AverageBottomK, AverageTopK, Maximum, RankedRange, Tilted, TopK
from atklearn.losses.aggregate import resolve_k

RANGES = {
    "average": (Average(), lambda n: (0, n)),
    "maximum": (Maximum(), lambda n: (0, 1)),  # noqa: ARG005
    "average_top_k": (AverageTopK(4), lambda n: (0, 4)),  # noqa: ARG005
    "fraction": (AverageTopK(0.5), lambda n: (0, n / 2)),
    "top_k": (TopK(3), lambda n: (2, 3)),  # noqa: ARG005
    "average_bottom_k": (AverageBottomK(4), lambda n: (n - 4, n)),
    "ranked_range": (RankedRange(2, 5), lambda n: (2, 5)),  # noqa: ARG005
}


def losses_of(seed: int, ties: bool) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4, 12).astype(float) if ties else rng.exponential(size=12)


@pytest.mark.parametrize("name", RANGES)
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(5))
class TestAgainstSorting:
    def test_value_and_threshold_are_mean_and_end_of_the_slice(self, name, ties, seed):
        aggregate, bounds = RANGES[name]
        losses = losses_of(seed, ties)
        start, stop = (int(end) for end in bounds(losses.size))
        inside = np.sort(losses)[::-1][start:stop]
        assert aggregate.value(losses) == pytest.approx(inside.mean())
        assert aggregate.threshold(losses) == inside[-1]

    def test_weights_sum_to_one_give_the_value_and_are_shared_by_ties(self, name, ties, seed):
        aggregate, _ = RANGES[name]
        losses = losses_of(seed, ties)
        weights = aggregate.weights(losses)
        assert weights.min() >= -1e-15
        assert weights.sum() == pytest.approx(1.0)
        assert weights @ losses == pytest.approx(aggregate.value(losses))
        for level in np.unique(losses):
            assert np.ptp(weights[losses == level]) == pytest.approx(0.0)

    def test_order_of_samples_does_not_matter(self, name, ties, seed):
        aggregate, _ = RANGES[name]
        losses = losses_of(seed, ties)
        order = np.random.default_rng(seed + 99).permutation(losses.size)
        assert aggregate.value(losses[order]) == pytest.approx(aggregate.value(losses))
        assert_allclose(aggregate.weights(losses[order]), aggregate.weights(losses)[order], atol=1e-15)

    def test_weighting_is_repeating(self, name, ties, seed):
        aggregate, _ = RANGES[name]
        losses = losses_of(seed, ties)
        counts = np.random.default_rng(seed + 7).integers(0, 4, losses.size)
        repeated = np.repeat(losses, counts)
        assert aggregate.value(losses, counts) == pytest.approx(aggregate.value(repeated))
        assert aggregate.threshold(losses, counts) == aggregate.threshold(repeated)
        share = np.bincount(np.repeat(np.arange(12), counts), aggregate.weights(repeated), minlength=12)
        assert_allclose(aggregate.weights(losses, counts), share, atol=1e-15)


class TestAgainstExactRationals:
    """What is outside the slice, however large, leaves nothing in it."""

    @pytest.mark.parametrize("name", HARD)
    def test_hard_cases(self, name):
        losses, start, stop, weight = HARD[name]
        n = sum(weight or [1.0] * len(losses))
        aggregate = RankedRange(*(end if isinstance(end, int) else end / n for end in (start, stop)))
        error = aggregate.value(losses, weight) - exact_mean(losses, start, stop, weight)
        assert abs(error) <= 1e-14 * largest_inside(losses, start, stop, weight)

    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("seed", range(20))
    def test_losses_of_all_sizes(self, seed, weighted):
        rng = np.random.default_rng(seed)
        losses = rng.choice([-1.0, 1.0], 16) * 10.0 ** rng.integers(-10, 40, 16)
        weight = rng.integers(1, 5, 16).astype(float) if weighted else None
        n = 16 if weight is None else int(weight.sum())
        start, stop = sorted(int(end) for end in rng.choice(n, 2, replace=False))
        for aggregate, ends in (
            (RankedRange(start, stop), (start, stop)), (TopK(stop), (stop - 1, stop)),
            (AverageBottomK(stop), (n - stop, n)), (AverageBottomK(stop / n), (n - stop, n)),
        ):  # fmt: skip
            error = aggregate.value(losses, weight) - exact_mean(losses, *ends, weight)
            assert abs(error) <= 1e-12 * largest_inside(losses, *ends, weight)

    def test_a_share_that_means_a_whole_number_leaves_nothing_of_the_last_loss_before(self):
        losses = np.arange(100.0)
        losses[71:] = 1e200  # 29 of them, and 0.29 * 100 is less
        assert 0.29 * 100 < 29
        assert RankedRange(0.29, 0.31).value(losses) == pytest.approx(69.5)
        assert RankedRange(0.29, 0.31).weights(losses)[71:].max() == 0.0

    @pytest.mark.parametrize("scale", [1e-300, 1e308])
    def test_weights_may_have_any_size(self, scale):
        losses, weight = np.array([5.0, 3.0, 2.0, 0.0]), np.array([0.25, 0.5, 0.5, 1.0])
        for aggregate in (AverageTopK(0.4), AverageBottomK(0.7), RankedRange(0.2, 0.6), Tilted(0.0), Tilted(1.0)):
            assert aggregate.value(losses, scale * weight) == pytest.approx(aggregate.value(losses, weight))
            assert_allclose(aggregate.weights(losses, scale * weight), aggregate.weights(losses, weight), atol=1e-15)
        if scale > 1.0:  # one unit is nothing of them
            assert Maximum().value(losses, scale * weight) == AverageTopK(3).value(losses, scale * weight) == 5.0
            assert AverageTopK(2).value(losses, [1.0, 1e308, 1e308, 1e308]) == 4.0


@pytest.mark.parametrize("k", [1, 3, 12, 0.31, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_lemma_1_average_top_k_is_the_minimum_over_lambda(k, weighted):
    rng = np.random.default_rng(0)
    losses = rng.exponential(size=12)
    mass = rng.uniform(0.5, 2.0, 12) if weighted else np.ones(12)
    aggregate, amount = AverageTopK(k), resolve_k(k, mass.sum())

    def lambda_form(lam):
        return lam + mass @ np.maximum(losses - lam, 0) / amount

    value, threshold = aggregate.value(losses, mass), aggregate.threshold(losses, mass)
    assert lambda_form(threshold) == pytest.approx(value)
    assert min(lambda_form(lam) for lam in np.linspace(0, losses.max(), 1001)) >= value - 1e-12


@pytest.mark.parametrize("k", [1, 4, 0.45])
def test_average_top_k_is_the_largest_weighted_sum_on_the_capped_simplex(k):
    rng = np.random.default_rng(1)
    losses, mass = rng.exponential(size=9), rng.uniform(0.5, 2.0, 9)
    caps = mass / resolve_k(k, mass.sum())
    program = linprog(-losses, A_eq=np.ones((1, 9)), b_eq=[1.0], bounds=list(zip(0 * caps, caps, strict=True)))
    assert AverageTopK(k).value(losses, mass) == pytest.approx(-program.fun)
    weights = AverageTopK(k).weights(losses, mass)
    assert (weights <= caps + 1e-15).all()


def test_average_top_k_is_convex_and_between_average_and_maximum():
    rng = np.random.default_rng(3)
    for _ in range(50):
        a, b, t, k = rng.exponential(size=10), rng.exponential(size=10), rng.random(), rng.uniform(0.05, 1)
        value = AverageTopK(k).value
        assert value(t * a + (1 - t) * b) <= t * value(a) + (1 - t) * value(b) + 1e-12
        assert Average().value(a) - 1e-12 <= value(a) <= a.max() + 1e-12
        assert value(a) >= TopK(int(np.ceil(10 * k))).value(a) - 1e-12


def test_weights_of_a_convex_range_are_a_subgradient():
    rng = np.random.default_rng(4)
    for k in (1, 3, 0.55, 1.0):
        a, b = rng.integers(0, 3, 10).astype(float), rng.exponential(size=10)
        aggregate = AverageTopK(k)
        assert aggregate.value(b) >= aggregate.value(a) + aggregate.weights(a) @ (b - a) - 1e-12


def test_convexity_is_told():
    convex = [Average(), Maximum(), AverageTopK(3), TopK(1), AverageBottomK(1.0)]
    assert all(aggregate.is_convex for aggregate in convex)
    assert not any(aggregate.is_convex for aggregate in [TopK(2), AverageBottomK(3), RankedRange(1, 3)])


def test_fractions_that_miss_a_whole_number_by_rounding():
    losses = np.arange(100.0)
    assert 0.07 * 100 > 7
    assert AverageTopK(0.07).threshold(losses) == 93.0
    assert AverageTopK(0.07).threshold(losses, np.where(losses < 50, 0.5, 1.0) + 0.5 * (losses < 50)) == 93.0


@pytest.mark.parametrize(
    ("k", "expected"),
    [
        *((k, "int") for k in (0, 11, -1, True, "half", None)),
        *((k, "fraction") for k in (1.5, 0.0, float("nan"))),
    ],
)
def test_k_out_of_range_or_of_the_wrong_kind(k, expected):
    with pytest.raises(ValueError, match=expected):
        resolve_k(k, 10)


@pytest.mark.parametrize("aggregate", [Average(), Tilted(1.0)])
@pytest.mark.parametrize(
    ("losses", "weights"),
    [([], None), ([[1.0]], None), ([np.nan], None), ([1.0, 2.0], [1.0]), ([1.0], [-1.0]), ([1.0], [0.0])],
)
def test_bad_vectors(aggregate, losses, weights):
    with pytest.raises(ValueError, match="expected"):
        aggregate.value(losses, weights)


@pytest.mark.parametrize(
    ("aggregate", "message"),
    [
        (RankedRange(3, 2), r"start < stop, got \[3, 2\] of 4 samples"),
        (RankedRange(2, 0.5), r"start < stop, got \[2, 2\] of 4 samples"),
        (TopK(6), r"expected in \[1, 4\], got 6"),
        (TopK(0), r"expected in \[1, 4\], got 0"),
        (TopK(0.5), "expected to be an int, the rank of a loss from 1 on, got 0.5"),
    ],
)
def test_ranges_that_are_empty_or_too_long(aggregate, message):
    with pytest.raises(ValueError, match=message):
        aggregate.value(np.arange(4.0))


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
