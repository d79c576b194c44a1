"""The exact solver against a general convex solver, against its own dual, and against the laws of weighting."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from problems import INTERCEPTS, LOSSES, Case, dual_value, optimum_by_cvxpy, random_case

from atklearn.core import newton as system
from atklearn.core.problem import StopReason
from atklearn.core.solve import solve_linear
from atklearn.losses.individual import INDIVIDUAL_LOSSES
from atklearn.theory import paper_C


def check_certificate(case: Case, solution) -> None:
    """The gap is primal minus dual, the dual written from the conjugates; the weights are feasible."""
    problem = case.problem
    f = problem.rows.features.predict(*problem.rows.split(solution.coef), np.empty(case.y.size))
    slope = problem.loss.expand(f, case.y)[1]
    alpha = case.mass / case.k * solution.density * slope
    q = problem.sample_weights(solution)
    assert (q >= 0).all()
    assert (q <= case.mass / case.k * (1 + 1e-12)).all()
    assert q.sum() <= 1 + 1e-12
    if not solution.coef.any():  # proved where the solver stood before it was set to zero
        return
    if case.intercept == "free":
        assert alpha.sum() == pytest.approx(0.0, abs=1e-9 * max(np.abs(alpha).sum(), 1e-300))
    gap = solution.objective - dual_value(case, alpha, q)
    assert gap == pytest.approx(solution.dual_gap, rel=1e-6, abs=1e-9 * max(solution.objective, 1e-2))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_twenty_random_problems_agree_with_cvxpy(loss, intercept):
    for seed in range(20):
        case = random_case(loss, intercept, seed)
        solution = solve_linear(case.problem, tol=1e-7)
        assert solution.stop_reason is StopReason.CONVERGED
        optimum = optimum_by_cvxpy(case)
        assert solution.objective <= optimum * (1 + 1e-6) + 1e-9, (seed, solution.objective, optimum)
        assert solution.objective - solution.dual_gap <= optimum * (1 + 1e-6) + 1e-9, seed
        check_certificate(case, solution)


def value_by_sorting(case: Case, z: np.ndarray) -> float:
    """Evaluate the objective by the definition: repeat, sort, average."""
    d = case.X.shape[1]
    f = case.X @ z[:d] + (z[d] if case.intercept != "none" else 0.0)
    order = np.argsort(-INDIVIDUAL_LOSSES[case.loss]()(f, case.y))
    losses, mass = INDIVIDUAL_LOSSES[case.loss]()(f, case.y)[order], case.mass[order]
    taken = np.clip(case.k - (np.cumsum(mass) - mass), 0.0, mass)
    penalized = z if case.intercept == "penalized" else z[:d]
    return float(taken @ losses / case.k + penalized @ penalized / (2 * case.C))


@pytest.mark.parametrize("loss", LOSSES)
def test_objective_is_the_definition(loss):
    for seed in range(10):
        case = random_case(loss, INTERCEPTS[seed % 3], seed)
        solution = solve_linear(case.problem)
        assert solution.objective == pytest.approx(value_by_sorting(case, solution.coef), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_no_neighbour_is_better(loss):
    rng = np.random.default_rng(0)
    case = random_case(loss, "free", 3)
    solution = solve_linear(case.problem, tol=1e-9)
    for size in (1e-1, 1e-3):
        for _ in range(50):
            neighbour = solution.coef + size * rng.standard_normal(solution.coef.size)
            assert value_by_sorting(case, neighbour) >= solution.objective - solution.dual_gap - 1e-12


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_weighting_and_repeating_take_the_same_steps(loss, intercept):
    case = random_case(loss, intercept, 2)
    counts = np.random.default_rng(5).integers(1, 4, case.y.size)
    rows = np.repeat(np.arange(case.y.size), counts)
    k = 0.4 * counts.sum()
    weighted = Case(loss, intercept, case.X, case.y, counts.astype(float), k, 10.0)
    repeated = Case(loss, intercept, case.X[rows], case.y[rows], np.ones(rows.size), k, 10.0)
    one, other = solve_linear(weighted.problem), solve_linear(repeated.problem)
    assert one.n_iter == other.n_iter
    np.testing.assert_allclose(one.coef, other.coef, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("loss", LOSSES)
def test_scaling_all_weights_changes_nothing(loss):
    case = random_case(loss, "free", 1)
    scaled = Case(loss, "free", case.X, case.y, 7.0 * case.mass, 7.0 * case.k, case.C)
    one, other = solve_linear(case.problem), solve_linear(scaled.problem)
    np.testing.assert_allclose(one.coef, other.coef, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_sparse_and_dense_are_one(loss):
    case = random_case(loss, "free", 4)
    dense = Case(loss, "free", case.dense(), case.y, case.mass, case.k, case.C)
    one, other = solve_linear(case.problem), solve_linear(dense.problem)
    np.testing.assert_allclose(one.coef, other.coef, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_conjugate_gradients_find_the_same_optimum(loss, intercept, monkeypatch):
    case = random_case(loss, intercept, 7)
    by_factoring = solve_linear(case.problem, tol=1e-8)
    monkeypatch.setattr(system, "_DENSE_COLUMNS", 0)
    by_cg = solve_linear(case.problem, tol=1e-8)
    assert by_cg.stop_reason is StopReason.CONVERGED
    assert by_cg.objective == pytest.approx(by_factoring.objective, rel=3e-8)


def large_case(loss: str, share: float, n: int = 60_000, d: int = 6, heavy: bool = False) -> Case:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    score = X @ rng.standard_normal(d) + 0.5
    task = INDIVIDUAL_LOSSES[loss].task
    y = np.sign(score + 0.1 * rng.standard_normal(n)) if task == "classification" else score + rng.standard_t(3, n)
    mass = rng.uniform(0.5, 2.0, n) if heavy else np.ones(n)
    return Case(loss, "free", X, y, mass, share * mass.sum(), 10.0)


@pytest.mark.parametrize("loss", ["log_loss", "hinge", "squared_error", "absolute_error"])
@pytest.mark.parametrize("share", [1.0, 0.5, 0.01, 2 / 60_000])
@pytest.mark.parametrize("heavy", [False, True])
def test_large_problems_are_certified_on_all_rows(loss, share, heavy):
    """Thinned starts, sampled Hessians and working sets change the way, never the proof."""
    case = large_case(loss, share, heavy=heavy)
    solution = solve_linear(case.problem)
    assert solution.stop_reason is StopReason.CONVERGED
    assert solution.objective == pytest.approx(value_by_sorting(case, solution.coef), rel=1e-9)
    check_certificate(case, solution)
    assert solution.dual_gap <= 1e-6 * solution.objective


def test_sampled_hessian_preconditions_when_columns_are_many(monkeypatch):
    case = large_case("log_loss", 0.5, n=30_000, d=8)
    monkeypatch.setattr(system, "_SAMPLED_COLUMNS", 4)
    solution = solve_linear(case.problem)
    assert solution.stop_reason is StopReason.CONVERGED
    check_certificate(case, solution)


def test_the_intercept_of_a_regression_on_nothing_is_the_centre():
    """Known answers with no features that matter: mean (k = n, squared), midrange (k = 1, absolute)."""
    y = np.array([0.0, 1.0, 2.0, 9.0])
    X = np.zeros((4, 1))
    for loss, k, centre in [("squared_error", 4.0, 3.0), ("absolute_error", 1.0, 4.5), ("squared_error", 1.0, 4.5)]:
        case = Case(loss, "free", X, y, np.ones(4), k, 1.0)
        assert solve_linear(case.problem, tol=1e-9).coef[-1] == pytest.approx(centre, abs=1e-4)


def test_a_perfect_fit_has_objective_and_gap_zero():
    case = Case("squared_error", "free", np.zeros((5, 2)), np.full(5, 3.0), np.ones(5), 2.0, 1.0)
    solution = solve_linear(case.problem)
    assert solution.stop_reason is StopReason.CONVERGED
    assert solution.objective == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("scale", [1e-4, 1e4])
@pytest.mark.parametrize("loss", ["log_loss", "squared_error", "absolute_error"])
def test_badly_scaled_features_converge(loss, scale):
    case = random_case(loss, "free", 3)
    X = case.dense() * np.where(np.arange(case.X.shape[1]) % 2, scale, 1.0)
    solution = solve_linear(Case(loss, "free", X, case.y, case.mass, case.k, 1.0).problem)
    assert solution.stop_reason is StopReason.CONVERGED


def test_warm_start_at_the_optimum_is_immediate():
    case = large_case("log_loss", 0.5, n=2000)
    first = solve_linear(case.problem)
    again = solve_linear(case.problem, start=first)
    assert again.n_iter < first.n_iter
    assert again.objective == pytest.approx(first.objective, rel=2e-6)


def test_the_step_limit_is_kept_and_told():
    solution = solve_linear(random_case("hinge", "free", 2).problem, max_iter=2)
    assert solution.stop_reason is StopReason.MAX_ITER
    assert solution.n_iter == 2
    assert solution.dual_gap > 1e-6 * solution.objective


def test_float32_data_are_solved_in_double_precision():
    case = large_case("log_loss", 0.5, n=3000)
    single = Case("log_loss", "free", case.X.astype(np.float32), case.y, case.mass, case.k, case.C)
    solution = solve_linear(single.problem, tol=1e-9)
    exact = solve_linear(replace(case, X=single.X.astype(float)).problem, tol=1e-9)
    np.testing.assert_allclose(solution.coef, exact.coef, rtol=1e-6)


def test_the_paper_divides_the_top_k_sum_by_n_and_converts_to_ours():
    """sum of the top k / n + |w|^2 / (2 C') with C' = paper_C(C) is k/n times our objective, at every w."""
    rng = np.random.default_rng(0)
    case = random_case("log_loss", "none", 2)
    n, d = case.X.shape
    w = rng.standard_normal(d)
    losses = np.sort(INDIVIDUAL_LOSSES["log_loss"]()(case.X @ w, case.y))[::-1]
    k = int(case.k)
    paper = losses[:k].sum() / n + w @ w / (2 * paper_C(case.C, k, n))
    ours = Case("log_loss", "none", case.X, case.y, case.mass, float(k), case.C)
    assert paper == pytest.approx(k / n * value_by_sorting(ours, w))


def test_a_sample_without_ties_says_nothing_of_the_intercept():
    """The hinge has no curvature but that of ties; where none is drawn, the intercept takes no step of its own."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((9000, 3))
    y = np.sign(X[:, 0] + 0.5 * rng.standard_normal(9000))
    case = Case("hinge", "free", X, y, np.ones(9000), 9000.0, 1e7)
    assert solve_linear(case.problem, tol=1e-3).stop_reason is StopReason.CONVERGED


@pytest.mark.parametrize("seed", [0, 4, 7])
def test_a_working_set_that_cannot_be_solved_better_is_grown_all_the_same(seed):
    """A tolerance beyond rounding: what is missing then is not digits but rows, and these are to be had."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((8000, 8))
    X[:, 1] = np.exp(X[:, 1])
    y = X @ rng.standard_normal(8) + rng.standard_t(2, 8000) * np.exp(X[:, 0])
    case = Case("absolute_error", "free", X, y, np.ones(8000), 800.0, 10.0)
    assert solve_linear(case.problem, tol=1e-14).reaches(1e-9)


@pytest.mark.parametrize(
    ("loss", "n", "d", "share", "steps"),
    [
        ("squared_hinge", 60_000, 100, 1.0, 12),
        ("log_loss", 60_000, 100, 1.0, 9),
        ("log_loss", 20_000, 20, 0.01, 45),
        ("hinge", 20_000, 20, 0.01, 80),
    ],
)
def test_labels_that_are_well_separated_take_no_more_steps_than_others(loss, n, d, share, steps):
    """Few samples bend the average then, and which are the largest losses is not seen from zero."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = np.where(X @ rng.standard_normal(d) + 0.003 * np.sqrt(d) * rng.standard_normal(n) > 0.0, 1.0, -1.0)
    solution = solve_linear(Case(loss, "free", X, y, np.ones(n), share * n, float(n)).problem)
    assert solution.reaches(1e-6)
    assert solution.n_iter <= steps
