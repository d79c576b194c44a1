"""The laws of rows that make an algorithm converge: smoothing, derivatives, moves. All kinds of rows obey them."""

from __future__ import annotations

import numpy as np
import pytest
from rows_cases import KINDS, LOSSES, Stand, average_of_top, make_stand, read_density

from atklearn.core.point import Reading


def assert_same_reading(one: Reading, other: Reading, *, rtol: float = 1e-9, steepness: bool = False) -> None:
    for name in Reading._fields:
        if name != "steepness" or steepness:
            assert getattr(one, name) == pytest.approx(getattr(other, name), rel=rtol, abs=10.0 * rtol), name


# What a reading says


def test_the_bound_is_that_of_lemma_1_and_not_below_the_average_of_the_top(stand):
    for z, k, _, _, _, reading in stand.points():
        losses, lam = stand.losses(z), reading.threshold
        assert reading.bound == pytest.approx(lam + stand.mass / k @ np.maximum(losses - lam, 0.0), rel=1e-12)
        assert reading.bound >= average_of_top(losses, stand.mass, k) * (1 - 1e-12)


def test_densities_are_within_bounds_and_fill_the_cap_or_cost_nothing(stand):
    for _, k, _, _, point, reading in stand.points():
        r = read_density(point)
        filled = stand.mass / k @ np.abs(r)
        assert np.abs(r).max() <= 1.0
        assert stand.kink.is_two_sided or r.min() >= 0.0
        assert filled <= 1.0 + 1e-11
        assert reading.threshold >= 0.0
        assert reading.threshold == 0.0 or filled == pytest.approx(1.0, abs=1e-11)


def test_densities_maximise_the_smoothed_gain(stand):
    """Necessary and sufficient: along the gain's own slope no feasible density is better than r.

    The best one for a slope g takes the largest g, or those of either sign, until the cap is full: AT_k of g.
    """
    for z, k, mu, centre, point, _ in stand.points():
        r, s, u = read_density(point), stand.expand(z)[0], stand.mass / k

        def gain(r, s=s, u=u, mu=mu, centre=centre):
            return u @ (r * s - 0.5 * mu * (r - centre) ** 2)

        g = s - mu * (r - centre)
        best = average_of_top(np.abs(g) if stand.kink.is_two_sided else np.maximum(g, 0.0), stand.mass, k)
        assert u @ (r * g) == pytest.approx(best, rel=1e-9, abs=1e-11)
        for _ in range(10):
            assert gain(stand.density(k)) <= gain(r) + 1e-12


def test_the_slack_is_what_the_densities_leave_to_gain(stand):
    for z, k, _, _, point, reading in stand.points():
        gained = stand.mass / k @ (read_density(point) * stand.expand(z)[0])
        assert reading.slack >= -1e-15 * reading.bound
        assert reading.slack == pytest.approx(reading.bound - gained, rel=1e-9, abs=1e-13 * abs(reading.bound))


def test_push_is_the_slope_along_the_ones_and_imbalance_the_price_of_removing_it(stand):
    for z, k, _, _, point, reading in stand.points():
        s, slope, _ = stand.expand(z)
        r = read_density(point)
        a = stand.mass / k * r * slope
        assert reading.push == pytest.approx(a.sum(), rel=1e-10, abs=1e-12)
        if stand.rows.ones is not None:
            assert reading.push == pytest.approx(point.gradient()[stand.rows.ones], rel=1e-10, abs=1e-12)
        sign = np.sign(reading.push)
        heavier = sign * a > 0.0
        share = np.abs(a[~heavier]).sum() / np.abs(a[heavier]).sum() if heavier.any() else 1.0
        price = (1.0 - share) * np.abs(stand.mass / k * r * s)[heavier].sum()
        assert reading.imbalance == pytest.approx(price, rel=1e-9, abs=1e-12)


def test_range_spread_and_moving_mass(stand):
    for z, k, _, _, point, reading in stand.points():
        f, s, r = stand.design @ z, stand.expand(z)[0], np.abs(read_density(point))
        assert point.reach() == pytest.approx(np.ptp(np.append(f, stand.y)))
        mean = np.average(s, weights=stand.mass)
        assert reading.deviation == pytest.approx(np.sqrt(np.average((s - mean) ** 2, weights=stand.mass)), rel=1e-9)
        assert reading.size == pytest.approx(np.average(np.abs(s), weights=stand.mass), rel=1e-12)
        between = stand.mass[(r > 0.0) & (r < 1.0)].sum() / k if reading.threshold > 0.0 else 0.0
        assert reading.moving == pytest.approx(between, rel=1e-12)


def test_at_zero_all_predictions_are_zero(stand):
    point = stand.rows.point(np.zeros(stand.rows.n_columns), stand.rows.total / 2)
    assert point.reach() == np.ptp(np.append(0.0, stand.y))


def test_without_densities_everyone_is_alike(stand):
    z, k = stand.coefficients(), 0.4 * stand.rows.total
    alike = np.full(stand.y.size, 0.0 if stand.kink.is_two_sided else 0.4)
    assert_same_reading(stand.rows.point(z, k).smooth(0.3), stand.rows.point(z, k, alike).smooth(0.3), rtol=1e-13)


# Derivatives


def smoothed_value(stand: Stand, z: np.ndarray, k: float, mu: float, centre: np.ndarray) -> float:
    """Return the maximum over r of ``sum(u (r s - mu/2 (r - centre)^2))``."""
    point = stand.rows.point(z, k, centre)
    reading = point.smooth(mu)
    return reading.bound - reading.slack - 0.5 * mu * stand.mass / k @ (read_density(point) - centre) ** 2


def test_the_gradient_is_that_of_the_smoothed_value(stand):
    for z, k, mu, centre, point, _ in stand.points(shares=(0.3, 1.0)):
        step = 1e-5 * np.eye(z.size)
        slopes = [
            (smoothed_value(stand, z + e, k, mu, centre) - smoothed_value(stand, z - e, k, mu, centre)) / 2e-5
            for e in step
        ]
        np.testing.assert_allclose(point.gradient(), slopes, rtol=1e-3, atol=1e-5)


def test_the_curvature_is_the_derivative_of_the_gradient_away_from_corners(stand):
    seen = 0
    for z, k, mu, centre, point, _ in stand.points():
        h = 1e-6 * stand.rng.standard_normal(z.size)
        sides = [stand.rows.point(z + h, k, centre), stand.rows.point(z - h, k, centre)]
        for side in sides:
            side.smooth(mu)
        corners = [(read_density(at) <= 0, np.abs(read_density(at)) >= 1, stand.expand(at.z)[2] > 0) for at in sides]
        if np.array_equal(*corners):
            seen += 1
            H = point.curvature(mu, form="matrix").matrix
            np.testing.assert_allclose(
                H @ h, (sides[0].gradient() - sides[1].gradient()) / 2, rtol=1e-5, atol=1e-5 * np.linalg.norm(h)
            )
    assert seen >= 6  # of 8: corners are rare


def test_the_curvature_is_a_sum_over_rows_less_what_the_threshold_gives_way(stand):
    for z, k, mu, _, point, reading in stand.points():
        (_, slope, bend), r, u = stand.expand(z), read_density(point), stand.mass / k
        tied = (np.abs(r) > 0.0) & (np.abs(r) < 1.0)
        h = u * np.abs(r) * bend + tied * u * slope**2 / mu
        H = stand.design.T @ (h[:, None] * stand.design)
        if reading.threshold > 0.0 and tied.any():
            g = stand.design.T @ (tied * u * np.sign(r) * slope)
            H -= np.outer(g, g) / (mu * u[tied].sum())
        curvature = point.curvature(mu, form="matrix")
        assert curvature.has_ties == tied.any()
        assert not curvature.is_sampled
        np.testing.assert_allclose(curvature.matrix, H, rtol=1e-8, atol=1e-9 / mu)
        assert np.linalg.eigvalsh(curvature.matrix).min() >= -1e-10 / mu


def test_product_and_diagonal_are_those_of_the_matrix(stand):
    for z, _, mu, _, point, _ in stand.points():
        H, unformed = point.curvature(mu, form="matrix").matrix, point.curvature(mu, form="product")
        assert unformed.matrix is None
        v = stand.rng.standard_normal(z.size)
        np.testing.assert_allclose(unformed.product(v), H @ v, rtol=1e-9, atol=1e-9 / mu)
        np.testing.assert_allclose(unformed.diagonal, np.diag(H), rtol=1e-9, atol=1e-9 / mu)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", ["log_loss", "hinge", "absolute_error"])
def test_a_sampled_curvature_is_told_stays_convex_and_is_right_on_average(kind, loss):
    stand = make_stand(kind, loss, ones=True, n=600)
    z, k, mu, most = stand.coefficients(), 0.6 * stand.rows.total, 2.0, 160
    point = stand.rows.point(z, k)
    point.smooth(mu)
    full, one = point.curvature(mu, form="matrix").matrix, point.curvature(mu, form="matrix", most=most, seed=1)
    assert one.is_sampled == (kind != "plain")
    v = stand.coefficients()
    product = point.curvature(mu, form="product", most=most, seed=1).product
    np.testing.assert_allclose(product(v), one.matrix @ v, rtol=1e-9, atol=1e-12)
    drawn = [point.curvature(mu, form="matrix", most=most, seed=seed).matrix for seed in range(60)]
    assert min(np.linalg.eigvalsh(H).min() for H in drawn) >= -1e-10
    np.testing.assert_allclose(np.mean(drawn, axis=0), full, atol=0.05 * np.abs(full).max())


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "plain"])
@pytest.mark.parametrize("loss", ["log_loss", "squared_hinge", "huber"])
@pytest.mark.parametrize("share", [1.0, 0.4])
def test_where_few_rows_carry_the_weight_these_are_drawn(kind, loss, share):
    """Labels well separated, or errors mostly beyond the bend: rows drawn alike would miss whole directions."""
    rng = np.random.default_rng(0)
    X, z, mass = rng.standard_normal((20_000, 6)).astype(np.float32), 10.0 * rng.standard_normal(7), np.ones(20_000)
    f = X @ z[:-1] + z[-1]
    y = np.sign(f) if loss != "huber" else f + 200.0 * rng.standard_normal(20_000)
    point = KINDS[kind](X, y, mass, LOSSES[loss], True).point(z, share * 20_000)
    point.smooth(0.5)
    full = point.curvature(0.5, form="matrix").matrix
    root = np.linalg.inv(np.linalg.cholesky(full + 1e-9 * np.trace(full) * np.eye(7)))
    for seed in range(5):
        drawn = point.curvature(0.5, form="matrix", most=400, seed=seed)
        assert drawn.is_sampled
        assert np.linalg.norm(root @ (drawn.matrix - full) @ root.T, 2) < 0.5


# Moves


def test_along_a_ray_everything_is_as_at_a_point_of_its_own_and_landing_moves_there(stand):
    for z, k, mu, centre, point, before in stand.points():
        direction = stand.coefficients()
        ray = point.towards(direction)
        for t in (1.0, 0.0, 0.4):
            other, look = stand.rows.point(z + t * direction, k, centre), ray.look(t, mu)
            assert_same_reading(look.reading, other.smooth(mu))
            assert look.reading.steepness == pytest.approx(other.gradient() @ direction, rel=1e-9, abs=1e-10)
        np.testing.assert_array_equal(point.z, z)  # looking moves nothing
        assert_same_reading(point.smooth(mu), before)
        point.move_to(look)
        np.testing.assert_allclose(point.z, other.z, rtol=1e-14)
        np.testing.assert_allclose(point.gradient(), other.gradient(), rtol=1e-9, atol=1e-11)
        curvatures = [at.curvature(mu, form="matrix").matrix for at in (point, other)]
        np.testing.assert_allclose(*curvatures, rtol=1e-8, atol=1e-9 / mu)
        assert_same_reading(point.smooth(mu), look.reading)


def test_refreshing_removes_the_rounding_of_moves(stand):
    z, k, mu = stand.coefficients(), 0.5 * stand.rows.total, 0.5
    far = 1e9 * stand.coefficients()
    point = stand.rows.point(z, k)
    for direction in (far, -far):
        ray = point.towards(direction)
        point.move_to(ray.look(1.0, mu))
    exact = stand.rows.point(point.z, k).smooth(mu)
    assert point.smooth(mu).size != pytest.approx(exact.size, rel=1e-13)
    point.refresh()
    assert_same_reading(point.smooth(mu), exact, rtol=1e-12)


def test_recentring_makes_the_densities_the_centre(stand):
    for z, k, mu, _, point, _ in stand.points():
        r = read_density(point)
        point.recentre()
        assert_same_reading(point.smooth(0.3 * mu), stand.rows.point(z, k, r).smooth(0.3 * mu))


def test_recentring_climbs_to_the_average_of_the_top(stand):
    """The proximal point method: the gain of the densities rises to AT_k, whatever the smoothing."""
    z, k = stand.coefficients(), 0.3 * stand.rows.total
    point, gained = stand.rows.point(z, k), []
    for _ in range(60):
        reading = point.smooth(0.05)
        gained.append(reading.bound - reading.slack)
        point.recentre()
    assert (np.diff(gained) >= -1e-12).all()
    assert gained[-1] == pytest.approx(average_of_top(stand.losses(z), stand.mass, k), rel=1e-9)


@pytest.mark.parametrize("ones", [True], ids=["ones"])
def test_shifting_is_a_move_along_the_ones(stand):
    for z, k, mu, centre, point, _ in stand.points():
        there = z + 0.7 * (np.arange(z.size) == stand.rows.ones)
        point.shift(0.7)
        np.testing.assert_allclose(point.z, there)
        other = stand.rows.point(there, k, centre)
        assert_same_reading(point.smooth(mu), other.smooth(mu))
        np.testing.assert_allclose(point.gradient(), other.gradient(), rtol=1e-9, atol=1e-11)


def test_a_long_search_for_the_threshold_ends_where_a_short_one_does(stand):
    """What was looked at before is a first guess, no more: far away, at a far smaller mu, at zero."""
    z, k = stand.coefficients(), 0.3 * stand.rows.total
    for before in (100.0 * z, 0.0 * z):
        for mu in (1e-3, 10.0):
            point = stand.rows.point(z, k)
            ray = point.towards(before - z)
            ray.look(1.0, 1.0)
            assert_same_reading(point.smooth(mu), stand.rows.point(z, k).smooth(mu))
