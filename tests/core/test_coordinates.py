"""Other coordinates change the arithmetic, not the problem: units, rotations; and matrices packed into half."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from problems import INTERCEPTS, LOSSES, REGRESSION, Case, draw, random_case

from atklearn import ATkClassifier, ATkRegressor
from atklearn.core.coordinates import helpful_units, rotate
from atklearn.core.packed import PackedSymmetric
from atklearn.core.problem import StopReason
from atklearn.core.solve import solve_linear


def badly_scaled(loss: str, intercept: str, seed: int, sparse: bool = False) -> Case:
    """Return a case with columns of sizes 1e-5 to 1e5, off zero by a hundred times that."""
    case = random_case(loss, intercept, 4 * seed + 1)
    rng = np.random.default_rng(seed)
    sizes = 10.0 ** rng.integers(-5, 6, case.X.shape[1])
    X = (case.dense() + (0.0 if sparse else 100.0)) * sizes
    y = case.y + 1e4 if loss in REGRESSION else case.y
    return replace(case, X=sp.csr_array(np.where(rng.random(X.shape) < 0.4, X, 0.0)) if sparse else X, y=y)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("loss", LOSSES)
def test_objective_and_certificate_are_the_same_numbers(loss, intercept, sparse):
    """At any coefficients, in both units, up to the rounding that the better ones avoid."""
    rng = np.random.default_rng(1)
    for seed in range(3):
        problem = badly_scaled(loss, intercept, seed, sparse).problem
        other = problem.conditioned()
        if other is None:  # a single column
            continue
        z = problem.rows.join(rng.standard_normal(problem.rows.n_columns)[: len(other.units.scale)], 0.3)
        z = z * problem.rows.join(1.0 / other.units.scale, 1.0)
        point = problem.rows.point(z, problem.k)
        point.smooth(point.smooth(1.0).deviation)
        density = point.prove(balanced=problem.free is not None).density
        ours, theirs = problem.certify(z, density), other.certify(other.inward(z), density)
        assert theirs.objective == pytest.approx(ours.objective, rel=1e-8)
        assert theirs.dual_gap == pytest.approx(ours.dual_gap, rel=1e-6)
        np.testing.assert_allclose(other.outward(other.inward(z)), z, rtol=1e-9, atol=1e-12 * np.abs(z).max())


@pytest.mark.parametrize("loss", LOSSES)
def test_what_a_free_intercept_absorbs_does_not_change_the_fit(loss):
    """Features and targets far from zero have the optimum of the same at zero."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4))
    score = X @ rng.standard_normal(4) + rng.standard_normal(60)
    regression = loss in REGRESSION
    y = score if regression else score > 0.0
    model = (ATkRegressor if regression else ATkClassifier)(loss, k=0.6, C=10.0)
    near = model.fit(X, y).objective_
    far = model.fit(X + 1e7, y + 1e6 if regression else y).objective_
    assert far == pytest.approx(near, rel=3e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_scaling_a_column_scales_its_weight(loss):
    """With a penalty too weak to matter, sizes of columns over six decades leave the objective where it was."""
    X, y = draw(loss, n=80, d=6)
    plain, scaled = (
        Case(loss, "free", X * 10.0 ** np.linspace(-decades, decades, 6), y, np.ones(80), 60.0, 1e11)
        for decades in (0, 3)
    )
    expected, found = solve_linear(plain.problem), solve_linear(scaled.problem)
    assert found.stop_reason is StopReason.CONVERGED
    assert found.objective == pytest.approx(expected.objective, rel=1e-4)


def test_a_constant_target_is_fitted_exactly():
    rng = np.random.default_rng(0)
    for loss in REGRESSION:
        model = ATkRegressor(loss, k=0.3).fit(rng.standard_normal((30, 3)), np.full(30, 0.1))
        assert (model.objective_, model.dual_gap_) == (0.0, 0.0)
        assert model.intercept_ == 0.1


def test_good_units_are_left_alone():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((50, 3)) + 2.0, rng.standard_normal(50)
    assert helpful_units(X, y, centred=True, regression=True) is None
    assert helpful_units(sp.csr_array(X), y, centred=True, regression=True) is None


def test_scales_are_powers_of_two_and_empty_columns_stay():
    X = np.array([[1e-6, 3.0, 0.0], [2e-6, 1e4, 0.0], [5e-6, 7.0, 0.0]])
    scale = helpful_units(X, np.zeros(3), centred=False, regression=False).scale
    assert (np.log2(scale) == np.round(np.log2(scale))).all()
    assert scale[2] == 1.0


@pytest.mark.parametrize("rank", [12, 5])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("offset", [0.0, 40.0])
def test_a_rotation_keeps_predictions_and_penalty(rank, dtype, offset):
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((12, rank)) @ rng.standard_normal((rank, 30)) + offset).astype(dtype)
    centre = X.mean(axis=0, dtype=np.float64) if offset else np.zeros(30)
    rotation = rotate(X, centre).shifted(2.0)
    v = rng.standard_normal(rotation.factor.shape[1])
    weights, intercept = rotation.outward(v, 0.7)
    np.testing.assert_allclose(X.astype(float) @ weights + intercept, rotation.factor @ v + 0.7 + 2.0, atol=1e-4)
    rounding = 1e-6 if dtype == np.float64 else 1e-2  # of X itself: the rank of floats is that of their noise
    assert weights @ weights == pytest.approx(v @ v, rel=rounding)
    again, moved = rotation.inward(weights, intercept)
    np.testing.assert_allclose(again, v, atol=rounding)
    assert moved == pytest.approx(0.7, abs=1e-4)


def test_a_rotation_has_as_many_columns_as_the_rows_span():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((10, 4)) @ rng.standard_normal((4, 50))
    assert rotate(X, np.zeros(50)).factor.shape == (10, 4)
    assert rotate(np.zeros((3, 9)), np.zeros(9)) is None


@pytest.mark.parametrize("size", [1, 2, 3, 8, 11])
def test_a_packed_matrix_is_the_matrix(size):
    rng = np.random.default_rng(size)
    block, g, ridge, v = (
        rng.standard_normal((20, size)),
        rng.standard_normal(size),
        rng.random(size) + 2.0,
        np.ones(size),
    )
    packed = PackedSymmetric(size)
    packed.add_gram(block)
    packed.add_gram(0.1 * g[None, :], -1.0)
    packed.add_diagonal(ridge)
    matrix = block.T @ block - 0.01 * np.outer(g, g) + np.diag(ridge)
    np.testing.assert_allclose(packed.diagonal(), np.diag(matrix))
    assert packed.factor()
    np.testing.assert_allclose(packed.solve(v), np.linalg.solve(matrix, v), rtol=1e-9)


def test_an_indefinite_matrix_has_no_factor():
    packed = PackedSymmetric(2)
    packed.add_diagonal(np.array([1.0, -1.0]))
    assert not packed.factor()
