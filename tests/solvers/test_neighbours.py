"""What one cell of a grid says of another: laws of the optimum, checked against solves from nothing."""

from __future__ import annotations

import numpy as np
import pytest

from atklearn.core.grid import solve_grid
from atklearn.core.solve import solve_linear
from atklearn.encoding.encoded import ProblemEncoder
from atklearn.losses.individual import Hinge, LogLoss, SquaredHinge

INTERCEPTS = ("free", "penalized", "none")
KS = (40.0, 75.0, 110.0, 150.0)
CS = (0.01, 0.1, 1.0, 10.0, 100.0)


def noisy_problem(loss, intercept="free", n=150, noise=1.0):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, 4))
    y = X @ np.array([1.0, -1.0, 0.5, 0.0]) + 0.2 + noise * rng.standard_normal(n) > 0.0
    (problem,) = ProblemEncoder(loss, intercept).on(X, y, rng.uniform(0.9, 1.1, n)).problems
    return problem


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("loss", [Hinge(), LogLoss(), SquaredHinge()], ids=repr)
def test_every_cell_has_the_objective_of_a_fit_from_nothing(loss, intercept):
    problem = noisy_problem(loss, intercept)
    ks = [k for k in KS if k <= problem.rows.total]
    seen = set()
    for i, j, solution in solve_grid(problem, ks, CS, tol=1e-5):
        alone = solve_linear(problem.at(ks[i], CS[j]), tol=1e-8)
        assert solution.objective == pytest.approx(alone.objective, rel=2e-5)
        assert solution.objective - solution.dual_gap <= alone.objective * (1.0 + 1e-12)
        seen.add((i, j))
    assert seen == {(i, j) for i in range(len(ks)) for j in range(len(CS))}


@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_below_a_certain_C_the_hinge_optimum_is_in_proportion_to_C(intercept):
    problem = noisy_problem(Hinge(), intercept)
    large, small = (solve_linear(problem.at(110.0, C), tol=1e-10) for C in (0.1, 0.01))
    assert 0.0 < large.threshold < small.threshold < 1.0
    np.testing.assert_allclose(small.coef, large.coef / 10.0, rtol=1e-4, atol=1e-7)
    assert 1.0 - small.threshold == pytest.approx((1.0 - large.threshold) / 10.0, rel=1e-3)
    copied = problem.at(110.0, 0.01).certify(large.coef / 10.0, large.density)
    assert copied.reaches(1e-9)


def test_copies_of_the_hinge_take_no_steps():
    problem = noisy_problem(Hinge())
    steps, thresholds = np.zeros((2, 2, len(CS)))
    for i, j, solution in solve_grid(problem, [110.0, 100.0], CS, tol=1e-3):
        steps[i, j], thresholds[i, j] = solution.n_iter, solution.threshold
    shifted = np.flatnonzero(thresholds[1] > 0.0)  # the row that knows from the one above where to begin
    assert shifted.size >= 2
    assert not steps[1, shifted[:-1]].any()


@pytest.mark.parametrize("loss", [Hinge(), LogLoss()], ids=repr)
def test_where_zero_is_optimal_it_is_for_every_smaller_k_without_a_step(loss):
    problem = noisy_problem(loss, noise=100.0)
    cells = {(i, j): solution for i, j, solution in solve_grid(problem, [20.0, 10.0, 5.0], [1.0, 100.0], tol=1e-6)}
    assert not any(solution.coef.any() for solution in cells.values())
    assert all(solution.reaches(1e-6) for solution in cells.values())
    assert all(cells[i, j].n_iter == 0 for i in (1, 2) for j in (0, 1))
