"""The line holds for several outputs, and for groups of rows as what is ranked: against Ridge and a convex solver."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import Ridge

from atklearn.core.problem import Problem
from atklearn.core.solve import solve_linear
from atklearn.core.store import PlainStore
from atklearn.losses.individual import IndividualLoss, SquaredError

C = 30.0


class SumOfSquares(IndividualLoss):
    """The squared errors of several outputs, added up."""

    task = "regression"
    quadratic = True

    def expand(self, prediction, target):
        error = prediction - target
        n, m = error.shape
        return (error**2).sum(axis=1), 2.0 * error, np.broadcast_to(2.0 * np.eye(m), (n, m, m))


def draw(n=60, d=4, m=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = X @ rng.standard_normal((d, m)) + rng.standard_normal(m) + rng.standard_t(3, (n, m))
    return X, y, rng.uniform(0.5, 2.0, n), rng


def optimum(losses, mass, k, weights):
    """Return the least AT_k of losses, which are convex expressions, with the penalty of the weights."""
    lam, over = cp.Variable(), cp.Variable(losses.shape, nonneg=True)
    objective = lam + mass @ over / k + cp.sum_squares(weights) / (2.0 * C)
    return cp.Problem(cp.Minimize(objective), [over >= losses - lam]).solve(solver="CLARABEL")


@pytest.mark.parametrize("intercept", ["none", "penalized", "free"])
@pytest.mark.parametrize("share", [1.0, 0.6, 0.1])
def test_several_outputs_are_one_problem(share, intercept):
    X, y, mass, _ = draw()
    k = share * mass.sum()
    store = PlainStore(X, y, mass, SumOfSquares(), intercept=intercept != "none")
    problem = Problem(store, k, C, intercept)
    solution = solve_linear(problem)
    assert solution.reaches(1e-6)
    W, b = cp.Variable((4, 3)), cp.Variable(3)
    errors = X @ W - y if intercept == "none" else X @ W + np.ones((60, 1)) @ cp.reshape(b, (1, 3), order="C") - y
    penalised = cp.vstack([W, cp.reshape(b, (1, 3), order="C")]) if intercept == "penalized" else W
    expected = optimum(cp.sum(cp.square(errors), axis=1), mass, k, penalised)
    assert solution.objective == pytest.approx(expected, rel=1e-6)
    assert solution.lower_bound <= expected * (1.0 + 1e-7)
    if share == 1.0 and intercept != "penalized":
        weights, intercepts = problem.coefficients(solution)
        ridge = Ridge(alpha=mass.sum() / (2.0 * C), fit_intercept=intercept == "free").fit(X, y, mass)
        assert_allclose(weights, ridge.coef_, rtol=1e-6, atol=1e-6)
        assert_allclose(intercepts, ridge.intercept_, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("groups", [1, 4, 9, 12])
@pytest.mark.parametrize("intercept", ["none", "free"])
def test_units_are_ranked_by_the_mean_loss_of_their_rows(groups, intercept):
    X, y, mass, rng = draw(m=1)
    group = np.sort(rng.integers(0, 12, 60))
    group = np.unique(group, return_inverse=True)[1]
    units = group.max() + 1
    of_units = np.bincount(group, weights=mass)
    k = min(groups, units) / units * mass.sum()
    store = PlainStore(X, y[:, 0], mass, SquaredError(), intercept=intercept == "free", groups=group)
    solution = solve_linear(Problem(store, k, C, intercept))
    w, b = cp.Variable(4), cp.Variable()
    squares = cp.square(X @ w + (b if intercept == "free" else 0.0) - y[:, 0])
    means = np.zeros((units, 60))
    means[group, np.arange(60)] = mass / of_units[group]
    expected = optimum(means @ squares, of_units, k, w)
    assert solution.reaches(1e-6)
    assert solution.objective == pytest.approx(expected, rel=1e-6)


def test_rows_are_their_own_units():
    X, y, mass, _ = draw(m=1)
    stores = [PlainStore(X, y[:, 0], mass, SquaredError(), True, groups) for groups in (None, np.arange(60))]
    one, other = (solve_linear(Problem(store, 0.3 * mass.sum(), C, "free"), tol=1e-10).coef for store in stores)
    assert_allclose(one, other, rtol=1e-8)
