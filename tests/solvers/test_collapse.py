"""Zero is certified up to the switch that a linear program finds, and beaten above it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from problems import CLASSIFICATION, INTERCEPTS, Case
from scipy.optimize import linprog

from atklearn.core import problem as objective
from atklearn.core.balance import certify_zero
from atklearn.core.grid import solve_grid
from atklearn.core.problem import StopReason
from atklearn.core.solve import solve_linear
from atklearn.core.store import PlainStore
from atklearn.stores.compiled import CompiledRows


def noisy_case(loss: str = "log_loss", intercept: str = "free", *, n: int = 300, weighted: bool = False) -> Case:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n, 4))
    y = np.where(X @ [1.0, -1.0, 0.5, 0.0] + 0.3 + 0.8 * rng.standard_normal(n) > 0, 1.0, -1.0)
    mass = rng.integers(1, 4, n).astype(float) if weighted else np.ones(n)
    return Case(loss, intercept, X, y, mass, mass.sum(), 100.0)


def switch(case: Case) -> float:
    """Return the largest sum of weights ``0 <= p <= mass`` that balance: ``sum(p y x) = 0``."""
    X, y = case.dense(), case.y
    if case.intercept != "none":
        X = np.column_stack([X, np.ones(len(y))])
    program = linprog(
        -np.ones(len(y)), A_eq=(y[:, None] * X).T, b_eq=np.zeros(X.shape[1]), bounds=[(0.0, m) for m in case.mass]
    )
    return float(-program.fun)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("loss", CLASSIFICATION)
def test_zero_is_certified_below_the_switch_and_beaten_above(loss, intercept, sparse, weighted):
    case = noisy_case(loss, intercept, weighted=weighted)
    case = replace(case, X=sp.csr_array(case.X)) if sparse else case
    limit = switch(case)
    for share in (0.02, 0.5, 0.99):
        solution = solve_linear(replace(case, k=share * limit).problem)
        assert not solution.coef.any()
        assert solution.stop_reason is StopReason.CONVERGED
        assert solution.dual_gap <= 1e-6 * solution.objective
        assert solution.n_iter <= 15
    above = solve_linear(replace(case, k=1.03 * limit).problem)
    assert above.stop_reason is StopReason.CONVERGED
    assert above.beats(case.problem.rows.loss_at_zero)


@pytest.mark.parametrize("kind", [PlainStore, CompiledRows])
@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_the_search_tells_both_sides_of_the_switch(kind, intercept):
    case = noisy_case(intercept=intercept)
    limit = switch(case)
    below, _ = certify_zero(replace(case, k=0.995 * limit).problem_on(kind), 1e-6, 100)
    above, _ = certify_zero(replace(case, k=1.005 * limit).problem_on(kind), 1e-6, 100)
    assert below is not None
    assert above is None
    # the proof by hand: weights of sum k within their bounds that balance
    p = case.mass * below.density
    assert p.sum() == pytest.approx(0.995 * limit, rel=1e-6)
    assert (p >= 0.0).all()
    assert (p <= case.mass).all()
    np.testing.assert_allclose((case.y * p) @ case.X / p.sum(), 0.0, atol=1e-3)


def test_densities_of_a_larger_k_certify_a_smaller_one_without_a_step():
    case = noisy_case()
    limit = switch(case)
    found, _ = certify_zero(replace(case, k=0.9 * limit).problem, 1e-6, 100)
    smaller, steps = certify_zero(replace(case, k=0.3 * limit).problem, 1e-6, 100, found.density)
    assert steps == 0
    assert smaller.reaches(1e-6)


def test_many_rows_start_from_a_part_of_them(monkeypatch):
    monkeypatch.setattr(objective, "LARGE", 1000)
    case = noisy_case(n=8000)
    limit = switch(case)
    certificate, steps = certify_zero(replace(case, k=0.9 * limit).problem, 1e-6, 100)
    assert certificate is not None
    assert steps <= 6


def test_a_small_C_is_no_collapse():
    """The penalty makes zero optimal to within tol, but the signs of the optimum are known."""
    case = replace(noisy_case(), C=1e-9)
    certificate, _ = certify_zero(replace(case, k=1.1 * switch(case)).problem, 1e-3, 100)
    assert certificate is None


def test_once_a_row_of_a_grid_has_collapsed_the_rest_takes_no_steps():
    case = noisy_case()
    limit = switch(case)
    ks = limit * np.array([1.3, 0.8, 0.5, 0.2])
    cells = {(i, j): cell for i, j, cell in solve_grid(case.problem, ks, [0.1, 1.0, 10.0, 100.0])}
    for (i, j), cell in cells.items():
        assert cell.stop_reason is StopReason.CONVERGED
        assert cell.coef.any() == (ks[i] > limit)
        if ks[i] < limit and (i, j) != (1, 0):
            assert cell.n_iter == 0
