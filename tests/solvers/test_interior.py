"""The interior point: ties of any kind cost it no steps, and small tops are solved wherever rows coincide."""

from __future__ import annotations

import numpy as np
import pytest
from problems import CLASSIFICATION, INTERCEPTS, LOSSES, Case, optimum_by_cvxpy, random_case

from atklearn import ATkRegressor
from atklearn.core.interior import solve_interior
from atklearn.core.newton import ProximalNewton, can_go_inside, solve_newton
from atklearn.core.problem import Start
from atklearn.core.solve import solve_linear
from atklearn.core.store import PlainStore
from atklearn.stores.compiled import CompiledRows

KINDS = ("normal", "drawn", "one-hot", "integer")


def small_top(loss: str, kind: str, seed: int, n: int = 300, d: int = 60) -> Case:
    """Draw features of a kind in which rows coincide, or nearly, a noisy target, and a top of one to twenty rows."""
    rng = np.random.default_rng([seed, LOSSES.index(loss), KINDS.index(kind)])
    if kind == "one-hot":
        X = (rng.integers(0, 8, (n, d // 8))[:, :, None] == np.arange(8)).reshape(n, -1).astype(float)
    elif kind == "integer":
        X = rng.integers(-2, 3, (n, d)).astype(float)
    else:
        X = rng.standard_normal((n, d))
    if kind == "drawn":
        X = X[rng.integers(0, n // 2, n)]
    f = X @ rng.standard_normal(X.shape[1])
    y = f / f.std() + rng.standard_normal(n)
    y = np.where(y > 0.0, 1.0, -1.0) if loss in CLASSIFICATION else y
    return Case(loss, "free", X, y, np.ones(n), float(rng.integers(1, 21)), 10.0 ** rng.uniform(-1.0, 4.0))


def from_zero(case: Case, rows=CompiledRows):
    problem = case.problem_on(rows)
    return solve_interior(problem, np.zeros(problem.rows.n_columns), np.inf, 1e-6, 100)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", LOSSES)
def test_small_tops_are_certified_in_few_steps(loss, kind):
    for seed in range(3):
        case = small_top(loss, kind, seed)
        optimum = optimum_by_cvxpy(case)
        for solution in (from_zero(case), solve_linear(case.problem)):
            assert solution.reaches(1e-6)
            assert solution.n_iter <= 100
            assert solution.objective <= optimum * (1.0 + 2e-6)
            assert solution.lower_bound <= optimum * (1.0 + 1e-6)


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("loss", LOSSES)
def test_it_solves_what_newton_solves(loss, intercept):
    for seed in range(1, 10, 2):
        case = random_case(loss, intercept, seed)
        solution = from_zero(case)
        if solution.reaches(1e-6):  # columns of any size are for the solver that calls it
            assert solution.objective == pytest.approx(solve_linear(case.problem).objective, rel=2e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_stores_agree_and_weight_is_repetition(loss):
    case = small_top(loss, "drawn", 5, n=80, d=10)
    rng = np.random.default_rng(0)
    times = rng.integers(1, 4, case.y.size)
    weighted = Case(loss, "free", case.X, case.y, times.astype(float), 5.0, case.C)
    repeated = Case(loss, "free", case.X.repeat(times, axis=0), case.y.repeat(times), np.ones(times.sum()), 5.0, case.C)
    compiled, plain, thrice = from_zero(weighted), from_zero(weighted, PlainStore), from_zero(repeated)
    assert compiled.n_iter == plain.n_iter == thrice.n_iter
    np.testing.assert_allclose(plain.coef, compiled.coef, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(thrice.coef, compiled.coef, rtol=1e-5, atol=1e-8)


def test_it_goes_on_where_newton_labours():
    """Rows drawn with replacement and a top of five: Newton's method alone ends a hundredth above the optimum."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(200, 100))[rng.integers(0, 200, 300)]
    f = X @ rng.normal(size=100)
    y = f / f.std() + rng.normal(size=300)
    problem = Case("squared_error", "free", X, y, np.ones(300), 5.0, 100.0).problem
    alone = ProximalNewton(problem, Start(np.zeros(101)), is_last=True)
    assert not alone.run(1e-6, 1000).reaches(1e-3)
    assert solve_newton(problem, Start(np.zeros(101)), 1e-6, 1000).objective == pytest.approx(4.36825, rel=1e-5)
    model = ATkRegressor("squared_error", k=5, C=100.0).fit(X, y)
    assert model.objective_ == pytest.approx(4.36825, rel=1e-5)
    assert model.dual_gap_ <= 1e-6 * model.objective_
    assert model.n_iter_ <= 100


@pytest.mark.parametrize(("d", "share"), [(200, 1 / 3000), (200, 5 / 3000), (20, 5 / 3000)])
@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "huber"])
def test_tables_of_few_different_rows(loss, d, share):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((3000, d))[rng.integers(0, 3000, 3000)]
    f = X @ rng.standard_normal(d)
    y = f / f.std() + rng.standard_normal(3000)
    solution = solve_linear(Case(loss, "free", X, y, np.ones(3000), share * 3000, 100.0).problem)
    assert solution.reaches(1e-6)
    assert solution.n_iter <= 100


def test_many_columns_are_left_to_others():
    case = small_top("squared_error", "normal", 0)
    assert can_go_inside(case.problem)
    wide = Case("squared_error", "free", np.zeros((10, 700)), np.zeros(10), np.ones(10), 1.0, 1.0)
    assert not can_go_inside(wide.problem)


def test_progress_sees_every_step_and_can_stop():
    case = small_top("absolute_error", "drawn", 0)
    seen = []
    problem = case.problem
    stopped = solve_interior(
        problem, np.zeros(problem.rows.n_columns), np.inf, 1e-6, 100, lambda *now: seen.append(now) or len(seen) > 3
    )
    assert [steps for steps, *_ in seen] == [0, 1, 2, 3]
    assert stopped.n_iter == 3
    assert not stopped.reaches(1e-6)
    assert stopped.lower_bound <= from_zero(case).objective
