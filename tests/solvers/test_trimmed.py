"""Laws of training on a ranked range: the objective falls, the end is critical, and often it is the least there is."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from problems import CLASSIFICATION, INTERCEPTS, LOSSES, Case, optimum_by_cvxpy, random_case

from atklearn.core.problem import StopReason
from atklearn.core.solve import solve_linear
from atklearn.losses.aggregate import RankedRange
from atklearn.losses.individual import INDIVIDUAL_LOSSES
from atklearn.trimmed.problem import TrimmedProblem, largest_amounts
from atklearn.trimmed.solve import random_starts, solve_trimmed

TOL = 1e-6


def ranged_case(loss, intercept, seed):
    """Return a random problem, and how much to set aside: a part of the mass before k, of some rows only in part."""
    case = random_case(loss, intercept, seed)
    share = (0.1, 0.5, 0.02)[seed % 3]
    return case, share * case.k


def losses_at(case, coef):
    X, b = case.dense(), 0.0
    if case.intercept != "none":
        coef, b = coef[:-1], coef[-1]
    return INDIVIDUAL_LOSSES[case.loss]()(X @ coef + b, case.y)


def penalty_at(case, coef):
    weights = coef if case.intercept != "free" else coef[:-1]
    return float(weights @ weights) / (2.0 * case.C)


def keeps_classes(case, trim):
    """Whether no class is so small that it keeps rows which belong to the largest losses."""
    if case.loss not in CLASSIFICATION:
        return True
    return 0.9 * min(case.mass[case.y > 0].sum(), case.mass[case.y < 0].sum()) >= trim


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("seed", range(12))
def test_the_objective_never_rises_and_the_end_is_critical(loss, intercept, seed):
    case, trim = ranged_case(loss, intercept, seed)
    fit = solve_trimmed([case.problem], trim, tol=TOL, n_init=5)
    values = np.array(fit.values)
    assert (np.diff(values) <= 1e-13 * values[:-1]).all()
    solution, aside = fit.solutions[0], fit.outside.aside
    assert solution.stop_reason is StopReason.CONVERGED
    # the certificate is that of the convex problem on what is left ...
    assert solution.dual_gap <= TOL * solution.objective
    # ... and what is set aside are the largest losses, so that the objective is the mean of the range
    losses = losses_at(case, solution.coef)
    assert aside.sum() == pytest.approx(trim, rel=1e-9)
    if keeps_classes(case, trim):
        rounding = 1e-6 * (1.0 + losses.max())
        assert losses[aside > 0].min() >= losses[aside < case.mass].max() - rounding
        value = RankedRange(trim / case.mass.sum(), case.k / case.mass.sum()).value(losses, case.mass)
        assert solution.objective == pytest.approx(value + penalty_at(case, solution.coef), rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(8))
def test_a_coarse_tolerance_is_reached_too(loss, seed):
    case, trim = ranged_case(loss, "free", seed)
    for tol in (1e-2, 1e-3, 1e-4):
        solution = solve_trimmed([case.problem], trim, tol=tol, n_init=0).solutions[0]
        assert solution.stop_reason is StopReason.CONVERGED
        assert solution.dual_gap <= tol * solution.objective


@pytest.mark.parametrize("loss", LOSSES)
def test_the_model_is_optimal_for_the_rows_that_are_left(loss):
    case, trim = ranged_case(loss, "free", 7)
    fit = solve_trimmed([case.problem], trim, tol=1e-8)
    kept = fit.outside.places
    left = replace(case, X=case.X[kept], y=case.y[kept], mass=(case.mass - fit.outside.aside)[kept], k=case.k - trim)
    assert fit.solutions[0].objective == pytest.approx(optimum_by_cvxpy(left), rel=1e-5, abs=1e-7)


def enumerable_case(seed):
    rng = np.random.default_rng(seed)
    loss = ("log_loss", "squared_hinge", "hinge", "squared_error", "absolute_error")[seed % 5]
    n, d, trim = int(rng.integers(8, 12)), int(rng.integers(1, 4)), int(rng.integers(1, 3))
    X = rng.standard_normal((n, d))
    f = X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n)
    bad = rng.random(n) < 0.2
    if loss in CLASSIFICATION:
        y = np.where(bad, -1.0, 1.0) * np.sign(f)
        y[: 2 * trim + 2] = np.tile([1.0, -1.0], trim + 1)  # no class may vanish
    else:
        y = f + bad * rng.normal(0.0, 4.0, n)
    k = int(rng.integers(trim + 1, n + 1))
    return Case(loss, "free", X, y, np.ones(n), float(k), 10.0 ** rng.uniform(-1, 3)), trim


def least_of_all_sets(case, trim):
    """Solve without every set of rows there is."""
    best = np.inf
    for out in combinations(range(len(case.y)), trim):
        kept = np.setdiff1d(np.arange(len(case.y)), out)
        rest = replace(case, X=case.X[kept], y=case.y[kept], mass=case.mass[kept], k=case.k - trim)
        best = min(best, solve_linear(rest.problem, tol=TOL).objective)
    return best


def test_the_default_starts_find_the_least_value_of_most_small_problems():
    found = []
    for seed in range(25):
        case, trim = enumerable_case(seed)
        value = solve_trimmed([case.problem], float(trim)).solutions[0].objective
        least = least_of_all_sets(case, trim)
        assert value >= least * (1.0 - 1e-5) - 1e-9
        found.append(value <= least * (1.0 + 1e-5) + 1e-9)
    assert np.mean(found) >= 0.8


def test_outliers_far_out_are_found_by_random_starts_only():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 5))
    y = X @ [1.0, -2.0, 0.5, 1.0, 0.0] + 0.3 * rng.standard_normal(300)
    X[:75] = 0.5 * X[:75] + [3.0, -3.0, 3.0, 3.0, 3.0]
    y[:75] = -5.0
    case = Case("squared_error", "free", X, y, np.ones(300), 300.0, 300.0)
    deaf, heard = (solve_trimmed([case.problem], 75.0, n_init=n) for n in (0, 50))
    np.testing.assert_array_equal(np.sort(heard.ranked), np.arange(75))
    assert heard.solutions[0].objective < 0.2 * deaf.solutions[0].objective


@pytest.mark.parametrize("n", [300, 2000])
def test_outliers_that_are_off_by_little_are_found_also_on_a_part_of_the_rows(n):
    """Starts are refined before they are compared; and a random part may have more outliers than its share."""
    found = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X, w, far = rng.standard_normal((n, 5)), rng.standard_normal(5), rng.standard_normal(5)
        wrong = rng.permutation(n) < n // 4
        X[wrong] = 10.0 * far / np.linalg.norm(far) + 0.3 * X[wrong]
        y = X @ w + 0.5 * rng.standard_normal(n) + 10.0 * wrong
        case = Case("squared_error", "free", X, y, np.ones(n), float(n), float(n))
        fit = solve_trimmed([case.problem], n // 4)
        found.append(np.count_nonzero(wrong[fit.ranked]) >= 0.99 * (n // 4))
    assert np.mean(found) >= 0.8


def test_weights_are_repetition():
    case = random_case("log_loss", "free", 1)
    times = np.random.default_rng(0).integers(1, 4, len(case.y))
    weighted = replace(case, mass=times.astype(float), k=0.8 * times.sum())
    rows = np.repeat(np.arange(len(case.y)), times)
    repeated = replace(case, X=case.X[rows], y=case.y[rows], mass=np.ones(rows.size), k=weighted.k)
    found = [solve_trimmed([each.problem], 4.5, tol=1e-10, n_init=0) for each in (weighted, repeated)]
    assert found[0].solutions[0].objective == pytest.approx(found[1].solutions[0].objective, rel=1e-8)
    aside = np.bincount(rows, weights=found[1].outside.aside)
    np.testing.assert_allclose(found[0].outside.aside, aside, atol=1e-12)


def test_the_largest_amounts_are_those_of_a_sorted_list():
    rng = np.random.default_rng(0)
    for _ in range(50):
        n = int(rng.integers(1, 12))
        values, mass = rng.integers(0, 5, n).astype(float), rng.integers(1, 4, n).astype(float)
        amount = rng.uniform(0.0, mass.sum())
        units = sorted((-value, place, unit) for place, value in enumerate(values) for unit in range(int(mass[place])))
        expected = np.zeros(n)
        for rank, (_, place, _) in enumerate(units):
            expected[place] += np.clip(amount - rank, 0.0, 1.0)
        np.testing.assert_allclose(largest_amounts(values, mass, amount), expected, atol=1e-9)


def test_a_tenth_of_every_class_stays():
    values = np.arange(30.0)
    classes = (values < 10).astype(int)
    aside = largest_amounts(values, np.ones(30), 25.0, classes)
    np.testing.assert_allclose([aside[classes == code].sum() for code in (0, 1)], [18.0, 7.0])
    assert aside[29] == 1.0
    assert aside[0] == 0.0


def test_random_starts_are_the_best_first():
    case, trim = ranged_case("squared_error", "free", 3)
    ranged = TrimmedProblem([case.problem], trim)
    one, two = random_starts(ranged, 20, 1), random_starts(ranged, 20, 2)
    values = [ranged_range_value(case, trim, coefs[0]) for coefs in (*two, *random_starts(ranged, 5, 1))]
    np.testing.assert_array_equal(one[0][0], two[0][0])
    assert values[0] <= min(values)
    assert random_starts(ranged, 0, 2) == []


def ranged_range_value(case, trim, coef):
    total = case.mass.sum()
    value = RankedRange(trim / total, case.k / total).value(losses_at(case, coef), case.mass)
    return value + penalty_at(case, coef)


def test_a_fit_that_is_stopped_says_how_far_it_got():
    case, trim = ranged_case("log_loss", "free", 4)
    fit = solve_trimmed([case.problem], trim, tol=1e-12, progress=[lambda *_: True])
    solution = fit.solutions[0]
    assert solution.stop_reason is StopReason.CALLBACK
    left = replace(case, X=case.X[fit.outside.places], y=case.y[fit.outside.places],
                   mass=(case.mass - fit.outside.aside)[fit.outside.places], k=case.k - trim)  # fmt: skip
    assert solution.objective - solution.dual_gap <= optimum_by_cvxpy(left) + 1e-7
