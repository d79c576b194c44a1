"""The laws of rows that make a proof hold on all of them: certificates, parts, combinations. All kinds obey them."""

from __future__ import annotations

import numpy as np
import pytest
from problems import INTERCEPTS, optimum_by_cvxpy, random_case
from problems import LOSSES as BUILT_IN
from rows_cases import SHARES, as_array, average_of_top, read_density

from atklearn.core.problem import Problem
from atklearn.core.solve import solve_linear
from atklearn.core.store import PlainStore
from atklearn.losses.individual import Hinge, Kink, SquaredError
from atklearn.stores.compiled import CompiledRows

# Proofs


def test_a_proof_values_the_top_exactly(stand):
    """With k where a sample ends, and with k inside of one, and with ties at the end of the top."""
    z = stand.coefficients()
    losses = stand.losses(z)
    largest_first = np.argsort(-losses)
    ends = np.cumsum(stand.mass[largest_first])
    for k in (*ends[[0, 5, 6, 20]], *(share * stand.rows.total for share in SHARES)):
        proof = stand.rows.point(z, k, stand.density(k)).prove(balanced=False)
        assert proof.value == pytest.approx(average_of_top(losses, stand.mass, k), rel=1e-12)
        last = largest_first[np.flatnonzero(ends >= k * (1 - 1e-9))[0]]
        assert proof.threshold == pytest.approx(losses[last], rel=1e-12)


def test_a_proof_accounts_for_its_own_densities(stand):
    for z, k, _, _, point, _ in stand.points():
        s, slope, _ = stand.expand(z)
        for balanced in (False, True):
            proof = point.prove(balanced=balanced)
            q = stand.mass / k * as_array(proof.density)
            assert proof.slack >= -1e-15 * proof.value
            assert proof.slack == pytest.approx(proof.value - q @ s, rel=1e-9, abs=1e-13 * abs(proof.value))
            np.testing.assert_allclose(proof.gradient, stand.design.T @ (q * slope), rtol=1e-9, atol=1e-12)


def test_the_densities_of_a_proof_are_feasible_near_those_given_and_balanced_if_asked(stand):
    for share in SHARES:
        z, k = stand.coefficients(), share * stand.rows.total
        given = stand.density(k)
        u, slope = stand.mass / k, stand.expand(z)[1]
        scaled = given if stand.rng.random() < 0.5 else given / max(np.abs(given).max(), 1e-9)  # too much in all
        for balanced in (False, True):
            r = as_array(stand.rows.point(z, k, scaled).prove(balanced=balanced).density)
            assert u @ np.abs(r) <= 1.0 + 1e-14
            assert (np.abs(r) <= np.abs(scaled) + 1e-15).all()  # scaled down, sample by sample
            assert (r * scaled >= 0.0).all()
            if balanced:
                assert u @ (r * slope) == pytest.approx(0.0, abs=1e-13 * max(u @ np.abs(r * slope), 1e-300))
        feasible = as_array(stand.rows.point(z, k, given).prove(balanced=False).density)
        np.testing.assert_allclose(feasible, given, rtol=1e-14)


def test_proving_changes_nothing(stand):
    for _, _, mu, _, point, before in stand.points(shares=(0.3,)):
        gradient = point.gradient()
        point.prove(balanced=True)
        np.testing.assert_array_equal(point.gradient(), gradient)
        after = point.smooth(mu)
        assert after.bound == pytest.approx(before.bound, rel=1e-13)
        assert after.push == pytest.approx(before.push, rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("kind", [PlainStore, CompiledRows])
@pytest.mark.parametrize("loss", BUILT_IN)
@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_no_optimum_is_below_a_certified_bound(kind, loss, intercept):
    """Wherever one stands and whatever densities one has; and near the optimum the bound is close."""
    rng = np.random.default_rng(0)
    for seed in (1, 4):
        case = random_case(loss, intercept, seed)
        optimum, problem = optimum_by_cvxpy(case), case.problem_on(kind)
        solution = solve_linear(problem, tol=1e-4)
        for blur in (0.0, 1e-3, 0.1, 1.0):
            z = solution.coef + blur * rng.standard_normal(solution.coef.size)
            low = -1.0 if Kink(problem.loss.kink).is_two_sided else 0.0
            density = np.clip(solution.density + blur * rng.standard_normal(case.y.size), low, 1.0)
            certificate = problem.certify(z, density)
            assert certificate.objective >= optimum * (1 - 1e-6) - 1e-9
            assert certificate.lower_bound <= optimum * (1 + 1e-6) + 1e-9
        assert solution.lower_bound >= optimum * (1 - 2e-4) - 1e-9


# Parts


def places(part, rows) -> np.ndarray:
    return as_array(part.restrict(np.arange(rows.n_rows))).astype(int)


def test_the_largest_losses_are_those_of_a_sort_up_to_ties(stand):
    z = stand.coefficients()
    losses = stand.losses(z)
    point = stand.rows.point(z, 1.0)
    for count in (1, 2, 7, stand.y.size, 2 * stand.y.size):
        part = point.largest(count)
        kept = places(part, stand.rows)
        assert part.rows.n_rows == kept.size == min(count, stand.y.size)
        assert (np.diff(kept) > 0).all()
        np.testing.assert_allclose(np.sort(losses[kept]), np.sort(losses)[losses.size - kept.size :], rtol=1e-12)


def test_a_part_grows_by_the_largest_losses_above_a_threshold(stand):
    z = stand.coefficients()
    losses = stand.losses(z)
    point = stand.rows.point(z, 1.0)
    elsewhere = stand.rows.point(stand.coefficients(), 1.0).largest(6)  # a part that is not the top here
    there = places(elsewhere, stand.rows)
    others = np.setdiff1d(np.arange(stand.y.size), there)
    for above in (0.0, np.median(losses) * (1 + 1e-9), 2.0 * losses.max()):
        for count in (4, 1000):
            grown = places(point.largest(count, beside=elsewhere, above=above), stand.rows)
            added = np.setdiff1d(grown, there)
            assert np.isin(there, grown).all()
            assert (np.diff(grown) > 0).all()
            candidates = np.sort(losses[others][losses[others] > above])[::-1]
            np.testing.assert_allclose(np.sort(losses[added])[::-1], candidates[:count], rtol=1e-12)


def test_a_part_is_the_same_samples_and_its_densities_are_densities_of_all_with_the_same_value(stand):
    z, k = stand.coefficients(), 0.1 * stand.rows.total
    part = stand.rows.point(z, k).largest(11)
    kept, point = places(part, stand.rows), part.rows.point(z, k)
    assert point.reach() == pytest.approx(np.ptp(np.append((stand.design @ z)[kept], stand.y[kept])))
    assert part.rows.total == pytest.approx(stand.mass[kept].sum())
    assert (part.rows.loss, part.rows.ones) == (stand.rows.loss, stand.rows.ones)
    point.smooth(0.1)
    density = point.prove(balanced=False).density
    extended = part.extend(density)
    np.testing.assert_array_equal(as_array(part.restrict(extended)), as_array(density))
    assert np.count_nonzero(as_array(extended)) == np.count_nonzero(as_array(density))
    assert stand.rows.holds(extended)
    on_part, on_all = point.prove(balanced=True), stand.rows.point(z, k, extended).prove(balanced=True)
    np.testing.assert_allclose(on_all.gradient, on_part.gradient, rtol=1e-9, atol=1e-12)
    assert on_all.value - on_all.slack == pytest.approx(on_part.value - on_part.slack, rel=1e-12)


def test_a_sample_is_drawn_the_same_from_every_kind_of_rows(stand):
    plain = PlainStore(stand.design[:, :3], stand.y, stand.mass, stand.loss, stand.rows.ones is not None)
    z = stand.coefficients()
    for count in (1, 7, 20):
        drawn, expected = stand.rows.sample(count), plain.sample(count)
        assert drawn.n_rows == count
        assert drawn.total == pytest.approx(expected.total)
        readings = [rows.point(z, 0.5 * rows.total).smooth(1.0) for rows in (drawn, expected, stand.rows.sample(count))]
        for field in ("deviation", "size", "bound"):
            assert getattr(readings[0], field) == pytest.approx(getattr(readings[1], field), rel=1e-12)
            assert getattr(readings[0], field) == getattr(readings[2], field)


# Densities and coefficients


def test_a_blend_is_feasible_and_exact_where_that_is_feasible(stand):
    for share in SHARES:
        k = share * stand.rows.total
        one, other, third = (stand.density(k) for _ in range(3))
        blended = as_array(stand.rows.blend([(1.0, one), (1.0, other), (-1.0, third)], k))
        assert stand.rows.holds(blended)
        assert np.abs(blended).max() <= 1.0
        assert stand.kink.is_two_sided or blended.min() >= 0.0
        assert stand.mass / k @ np.abs(blended) <= 1.0 + 1e-12
        mixed = as_array(stand.rows.blend([(0.4, one), (0.6, other)], k))
        np.testing.assert_allclose(mixed, 0.4 * one + 0.6 * other, rtol=1e-12)


def test_sample_weights_are_densities_times_their_caps(stand):
    k = 0.4 * stand.rows.total
    density = stand.density(k)
    weights = as_array(stand.rows.sample_weights(density, k))
    np.testing.assert_allclose(weights, stand.mass / k * np.abs(density), rtol=1e-14)
    assert stand.rows.holds(density)
    assert not stand.rows.holds(density[1:])


def test_joining_undoes_splitting(stand):
    z = stand.coefficients()
    weights, intercept = stand.rows.split(z)
    assert weights.shape == (3,)
    assert intercept == (z[-1] if stand.rows.ones is not None else 0.0)
    np.testing.assert_array_equal(stand.rows.join(weights, intercept), z)


def test_the_mean_square_counts_the_column_of_ones(stand):
    expected = np.average(np.sum(stand.design**2, axis=1), weights=stand.mass)
    assert stand.rows.mean_square() == pytest.approx(expected, rel=1e-12)


def test_the_largest_entries_bound_every_prediction(stand):
    np.testing.assert_allclose(stand.rows.largest_entries, abs(stand.design).max(axis=0), rtol=1e-12)


def test_the_same_samples_may_pay_another_loss(stand):
    other = Hinge() if stand.loss.task == "classification" else SquaredError()
    rows, z, k = stand.rows.paying(other), stand.coefficients(), 0.3 * stand.rows.total
    assert rows.loss is other
    assert stand.rows.loss is stand.loss
    assert rows.point(z, k).prove(balanced=False).value == pytest.approx(
        average_of_top(other(stand.design @ z, stand.y), stand.mass, k), rel=1e-12
    )


def test_a_proof_at_predictions_that_have_drifted_bounds_every_objective(stand):
    """Moves of 1e9 and back leave predictions off by rounding: the value is exact all the same, the bound a bound."""
    rng = np.random.default_rng(0)
    k, C = 0.4 * stand.rows.total, 3.0
    problem = Problem(stand.rows, k, C, "none" if stand.rows.ones is None else "free")
    point = stand.rows.point(stand.coefficients(), k)
    for direction in (far := 1e9 * stand.coefficients(), -far):
        ray = point.towards(direction)
        point.move_to(ray.look(1.0, 0.5))
    proof = point.prove(balanced=problem.free is not None)
    certificate = problem.conclude(point.z, proof)
    fresh = problem.certify(point.z, proof.density)
    assert certificate.objective == pytest.approx(fresh.objective, rel=1e-12)
    for size in (0.1, 1.0):
        for _ in range(10):
            other = point.z + size * rng.standard_normal(point.z.size)
            assert problem.certify(other, proof.density).objective >= certificate.lower_bound - 1e-12


def test_a_cautious_curvature_promises_no_negative_loss(stand):
    """Down to the minimum of its parabola, a loss without a kink loses at most itself; elsewhere nothing changes."""
    for _, k, mu, _, point, _ in stand.points():
        plain, cautious = (point.curvature(mu, form="matrix", cautious=flag).matrix for flag in (False, True))
        if stand.loss.kink != Kink.NONE:
            np.testing.assert_array_equal(cautious, plain)
            continue
        assert np.linalg.eigvalsh(cautious - plain).min() >= -1e-9 * np.abs(cautious).max()
        s, slope, bend = stand.expand(point.z)
        floor = np.maximum(bend, slope**2 / np.maximum(2.0 * s, 1e-300))
        u, r = stand.mass / k, np.abs(read_density(point))
        added = stand.design.T @ ((u * r * (floor - bend))[:, None] * stand.design)
        np.testing.assert_allclose(cautious - plain, added, rtol=1e-7, atol=1e-9 * np.abs(cautious).max())


def test_a_proof_takes_tangents_where_the_densities_were_found_and_the_value_where_z_is(stand):
    """With z moved by hand, predictions are off by a known amount, as rounding puts them off by an unknown one."""
    for share in SHARES:
        k = share * stand.rows.total
        point = stand.rows.point(stand.coefficients(), k)
        ray = point.towards(stand.coefficients())
        point.move_to(ray.look(1.0, 0.5))
        s, slope, _ = stand.expand(point.z)
        change = 0.3 * stand.coefficients()
        point.z = point.z + change
        proof = point.prove(balanced=False)
        assert proof.value == pytest.approx(average_of_top(stand.losses(point.z), stand.mass, k), rel=1e-9)
        q = stand.mass / k * as_array(proof.density)
        tangents = q @ s + (q * slope) @ (stand.design @ change)
        assert proof.value - proof.slack == pytest.approx(tangents, rel=1e-8, abs=1e-9)


@pytest.mark.parametrize("ones", [False, True])
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_a_hessian_of_many_blocks_is_the_sum_of_its_rows(ones, share):
    """More rows than one block, all alike (as in ridge regression) or not."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((5000, 3)), rng.standard_normal(5000)
    z = rng.standard_normal(3 + ones)
    matrices = []
    for kind in (PlainStore, CompiledRows):
        point = kind(X, y, np.ones(5000), SquaredError(), ones).point(z, share * 5000)
        point.smooth(0.5)
        matrices.append(point.curvature(0.5, form="matrix").matrix)
    np.testing.assert_allclose(*matrices, rtol=1e-9, atol=1e-12)
