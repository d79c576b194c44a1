"""Wide data: the cheaper steps find the optimum that a general convex solver finds, whatever way they take."""

from __future__ import annotations

import numpy as np
import pytest
from problems import INTERCEPTS, LOSSES, Case, draw, optimum_by_cvxpy
from sklearn.linear_model import Ridge

from atklearn import ATkClassifier, ATkRegressor
from atklearn.core import newton as system
from atklearn.core import solve, wide
from atklearn.core.problem import StopReason
from atklearn.core.solve import solve_linear
from atklearn.core.store import PlainStore
from atklearn.core.wide import climb
from atklearn.stores import compiled as compiled_rows

KINKED = ("hinge", "absolute_error")


def wide_case(loss: str, intercept: str, n: int, d: int, share: float, C: float = 10.0, seed: int = 0) -> Case:
    """Draw dense columns, and weights for every other problem."""
    rng = np.random.default_rng([seed, n, d])
    X = rng.standard_normal((n, d)) + 0.3
    _, y = draw(loss, n, 5, seed)
    mass = rng.integers(1, 4, n).astype(float) if seed % 2 else np.ones(n)
    return Case(loss, intercept, X, y, mass, share * mass.sum(), C)


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("n", "d"), [(25, 180), (120, 160)], ids=["rotated", "as it is"])
def test_wide_problems_agree_with_cvxpy(loss, intercept, n, d):
    for seed, share in enumerate((1.0, 0.5, 0.1)):
        case = wide_case(loss, intercept, n, d, share, seed=seed)
        solution = solve_linear(case.problem, tol=1e-6)
        assert solution.stop_reason is StopReason.CONVERGED
        optimum = optimum_by_cvxpy(case)
        assert solution.objective <= optimum * (1 + 2e-6) + 1e-9
        assert solution.objective - solution.dual_gap <= optimum * (1 + 2e-6) + 1e-9


@pytest.mark.parametrize("loss", LOSSES)
def test_newton_goes_on_where_quasi_newton_stops(loss, monkeypatch):
    """Also with Hessians packed into half the memory, as many columns have them."""
    case = wide_case(loss, "free", 150, 160, 0.4, C=100.0)
    expected = solve_linear(case.problem, tol=1e-7)
    monkeypatch.setattr(wide, "climb", lambda *_: None)
    monkeypatch.setattr(system, "_INSIDE_COLUMNS", 0)
    monkeypatch.setattr(system, "_DENSE_COLUMNS", 0)
    calls = []
    packed = system._factor_packed
    monkeypatch.setattr(system, "_factor_packed", lambda *given: calls.append(1) or packed(*given))
    monkeypatch.setattr(wide, "_QUASI_STEPS", 3)
    monkeypatch.setattr(wide, "_COLUMNS_A_STEP", 1000)
    solution = solve_linear(case.problem, tol=1e-7)
    assert calls
    assert solution.stop_reason is StopReason.CONVERGED
    assert solution.objective == pytest.approx(expected.objective, rel=1e-6)


class PlainAscent:
    """Coordinate ascent on ``sum(u r s_0) - sum(give (X^T (u r s'))^2) / 2``; ``z = -give X^T (u r s')`` all along.

    A free intercept gives way a little within a sweep and is the multiplier of ``sum(u r s') = 0`` between two. It
    starts from the given densities, or from everyone's, in the amount that is best for the dual.
    """

    def __init__(self, rows: PlainStore, k: float, C: float, density: np.ndarray | None, balanced: bool) -> None:
        self.rows, self.balanced, self.random = rows, balanced, np.random.default_rng(0)
        start = rows.stand(np.zeros(rows.n_columns), k, None)
        self.u, self.s, self.slope = rows.mass / k, start.s, start.slope[:, 0]
        self.low = -1.0 if rows.kink.is_two_sided else 0.0
        self.give = np.full(rows.n_columns, C)
        if balanced:
            self.give[-1] = 2.0 * C * np.sum(rows.design[:, :-1] ** 2, axis=1).mean() / rows.n_rows
        middle = float(np.median(self.s)) if rows.kink.is_two_sided and balanced else 0.0
        if density is None:
            density = np.sign(self.s - middle) if rows.kink.is_two_sided else np.ones(rows.n_rows)
        density = rows.point(np.zeros(rows.n_columns), k, density).prove(balanced=balanced).density
        pull = rows.design.T @ (self.u * density * self.slope)
        value, steepness = (self.u * density) @ self.s, pull @ (self.give * pull)
        self.density = density * min(max(value, 0.0) / steepness, 1.0 / np.abs(density).max())
        self.multiplier = middle

    @property
    def z(self) -> np.ndarray:
        """The coefficients; a free intercept is its multiplier, less what it has given way since."""
        z = -self.give * (self.rows.design.T @ (self.u * self.density * self.slope))
        return z if not self.balanced else np.append(z[:-1], z[-1] + self.multiplier)

    def sweep(self) -> float:
        """Maximise over each density."""
        for i in self.random.permutation(self.rows.n_rows):
            x = self.rows.design[i]
            value = self.s[i] + self.slope[i] * (x @ self.z)
            curvature = self.u[i] * self.slope[i] ** 2 * (self.give @ x**2)
            changed = self.density.copy()
            changed[i] = np.clip(self.density[i] + value / curvature, self.low, 1.0)
            self.density = changed
        if self.balanced:
            # z holds multiplier - give * sum(a); that becomes the multiplier, and gives way anew
            self.multiplier = float(self.z[-1])
        return float(self.u @ np.abs(self.density))


@pytest.mark.parametrize("balanced", [True, False])
@pytest.mark.parametrize("loss", KINKED)
def test_ascent_visits_rows_as_the_definition_does(loss, balanced):
    case = wide_case(loss, "free" if balanced else "penalized", 30, 40, 1.0, seed=1)
    compiled = case.problem.rows.ascent(case.k, case.C, balanced=balanced)
    plain = PlainAscent(case.problem_on(PlainStore).rows, case.k, case.C, None, balanced)
    for _ in range(4):
        assert compiled.sweep() == pytest.approx(plain.sweep(), rel=1e-9)
        np.testing.assert_allclose(compiled.z, plain.z, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(compiled.density, plain.density, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("loss", KINKED)
def test_ascent_ascends(loss):
    """The dual, written from its definition, never falls, and its coefficients are those of its densities."""
    case = wide_case(loss, "none", 40, 60, 1.0, C=30.0)
    ascent = case.problem.rows.ascent(case.k, case.C, balanced=False)
    u, s0 = case.mass / case.k, np.ones(40) if loss == "hinge" else case.y
    slope = -case.y if loss == "hinge" else -np.ones(40)
    values = []
    for _ in range(10):
        ascent.sweep()
        pull = case.X.T @ (u * ascent.density * slope)
        np.testing.assert_allclose(ascent.z, -case.C * pull, rtol=1e-9)
        values.append(u * ascent.density @ s0 - case.C / 2 * pull @ pull)
    assert (np.diff(values) >= -1e-12 * np.abs(values[-1])).all()
    assert values[-1] > values[0]


@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_climbing_certifies_the_hinge_of_separable_data(intercept):
    case = wide_case("hinge", intercept, 60, 200, 0.5, C=100.0)
    solution = climb(case.problem, None, 1e-4, 1000, None)
    assert solution.reaches(1e-4)
    assert solution.objective <= optimum_by_cvxpy(case) * (1 + 1e-4)


def test_a_callback_stops_a_climb():
    case = wide_case("hinge", "free", 60, 200, 1.0)
    assert climb(case.problem, None, 1e-12, 1000, lambda *_: True).stop_reason is StopReason.CALLBACK


def test_classes_share_one_rotation(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 300)), np.arange(40) % 4
    calls = []
    rotate = compiled_rows.rotate
    monkeypatch.setattr(compiled_rows, "rotate", lambda *given: calls.append(1) or rotate(*given))
    model = ATkClassifier(k=0.5).fit(X, y)
    assert len(calls) == 1
    assert (model.dual_gap_ <= 1e-6 * model.objective_).all()


def test_repeated_rows_have_no_rotation_of_full_rank():
    """They count as their weights do."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20, 200)), np.where(np.arange(20) % 2, 1, 0)
    twice = ATkClassifier(k=0.5, tol=1e-9).fit(np.vstack([X, X]), np.append(y, y))
    weighted = ATkClassifier(k=0.5, tol=1e-9).fit(X, y, sample_weight=np.full(20, 2.0))
    np.testing.assert_allclose(twice.coef_, weighted.coef_, atol=1e-5)


@pytest.mark.parametrize(("n", "d"), [(50, 400), (700, 650)])
def test_squared_error_of_all_is_ridge_regression(n, d):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) + 1.0
    y = X[:, 0] + rng.standard_normal(n)
    ours = ATkRegressor("squared_error", k=1.0, C=50.0).fit(X, y)
    theirs = Ridge(alpha=n / 100.0).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-8)
    assert ours.n_iter_ <= 2


def test_what_rounding_costs_a_rotation_is_regained():
    """A rotation that is off leaves a start; the user's coordinates have the last word."""
    case = wide_case("log_loss", "free", 40, 300, 1.0)
    expected = solve_linear(case.problem, tol=1e-8)
    problem = case.problem
    rotated, rotation = problem.rows.conditioned(centred=True)
    rotation.factor[...] *= 1.0 + 1e-3 * np.random.default_rng(0).standard_normal(rotation.factor.shape)
    assert rotated.X is rotation.factor
    solution = solve.solve_linear(problem, tol=1e-8)
    assert solution.reaches(1e-8)
    assert solution.objective == pytest.approx(expected.objective, rel=1e-7)
