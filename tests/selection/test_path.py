"""The warm-started grid: every cell is the cold fit, whatever it started from, and what one says of another is so."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from problems import INTERCEPTS, LOSSES, random_case
from sklearn.datasets import load_iris
from sklearn.preprocessing import scale

from atklearn import ATkClassifier, ATkRegressor, atk_path
from atklearn.core.grid import solve_grid
from atklearn.core.problem import Problem, StopReason
from atklearn.core.solve import solve_linear
from atklearn.encoding.encoded import ProblemEncoder
from atklearn.losses.individual import Hinge, LogLoss

SHARES = (0.1, 0.45, 1.0, 0.3)
CS = (10.0, 0.1, 1000.0, 1.0)


@pytest.fixture(scope="module")
def two_classes():
    X, y = load_iris(return_X_y=True)
    return scale(X), np.where(y == 1, "middle", "other")


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("tol", [1e-3, 1e-7])
def test_cells_agree_with_cold_fits_to_the_certificate(loss, intercept, tol):
    for seed in range(4):
        problem = random_case(loss, intercept, seed).problem
        ks = [max(share * problem.rows.total, 1.0) for share in SHARES]
        seen = set()
        for i, j, solution in solve_grid(problem, ks, CS, tol=tol):
            cell = problem.at(ks[i], CS[j])
            cold = solve_linear(cell, tol=1e-8)
            lowest = cold.objective - cold.dual_gap
            assert solution.stop_reason is StopReason.CONVERGED
            assert solution.objective - lowest <= tol * solution.objective + 2.0 * cold.dual_gap + 1e-12
            assert solution.objective - solution.dual_gap <= cold.objective * (1.0 + 1e-12)
            seen.add((i, j))
        assert len(seen) == len(ks) * len(CS)


@pytest.mark.parametrize("loss", ["absolute_error", "squared_hinge"])
def test_cells_with_a_working_set_agree_with_cold_fits(loss):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6000, 4))
    y = X @ np.array([1.0, 2.0, 0.0, -1.0]) + 0.1 * rng.standard_normal(6000)
    y = np.sign(y) if loss == "squared_hinge" else y
    ks, Cs = [0.05, 0.1, 0.15], [0.1, 10.0, 1000.0]
    path = atk_path(X, y, ks=ks, Cs=Cs, loss=loss)
    for i, k in enumerate(ks):
        for j, C in enumerate(Cs):
            estimator = ATkRegressor if loss == "absolute_error" else ATkClassifier
            cold = estimator(loss, k=k, C=C, tol=1e-7).fit(X, y)
            assert path.objectives[i, j, 0] - path.dual_gaps[i, j, 0] <= cold.objective_
            assert path.dual_gaps[i, j, 0] <= 1e-3 * path.objectives[i, j, 0]
            assert_allclose(path.objectives[i, j, 0], cold.objective_, rtol=1e-3)


def test_a_useless_prediction_is_dropped_for_a_cold_start(monkeypatch):
    problem = random_case("hinge", "free", 1).problem
    k = 0.5 * problem.rows.total
    expected = solve_linear(problem.at(k, 10.0), tol=1e-3)
    steps = []

    def failing(cell: Problem, **options):
        steps.append(options.get("start"))
        return solve_linear(cell, **options | ({"max_iter": 1} if options.get("start") else {}))

    monkeypatch.setattr("atklearn.core.grid.solve_linear", failing)
    *_, (_, _, last) = solve_grid(problem, [k], [0.1, 10.0])
    assert steps[-1] is None
    assert_allclose(last.objective, expected.objective, rtol=1e-12)


class TestPublicFunction:
    def test_is_the_estimator_for_every_cell(self, two_classes):
        X, y = two_classes
        ks, Cs = [100, 0.8, 1.0], [1.0, 50.0]
        path = atk_path(X, y, ks=ks, Cs=Cs, tol=1e-9)
        for i, k in enumerate(ks):
            for j, C in enumerate(Cs):
                model = ATkClassifier(k=k, C=C, tol=1e-9).fit(X, y)
                assert_allclose(path.coefs[i, j], model.coef_, atol=1e-4)
                assert_allclose(path.decision(X)[i, j, 0], model.decision_function(X), atol=1e-3)
                assert_allclose(path.objectives[i, j, 0], model.objective_, rtol=1e-8)
        assert (path.dual_gaps <= 1e-9 * path.objectives).all()
        assert_allclose(path.ks, [100.0, 120.0, 150.0])

    def test_regression_and_sparse_features(self):
        rng = np.random.default_rng(0)
        X = sp.random(120, 6, density=0.5, format="csr", random_state=0)
        y = X @ rng.standard_normal(6) + 0.1 * rng.standard_normal(120)
        path = atk_path(X, y, ks=[0.2, 1.0], Cs=[10.0], loss="absolute_error", tol=1e-8)
        model = ATkRegressor("absolute_error", k=0.2, C=10.0, tol=1e-8).fit(X, y)
        assert_allclose(path.objectives[0, 0, 0], model.objective_, rtol=1e-7)
        assert_allclose(path.thresholds[0, 0, 0], model.loss_threshold_, rtol=1e-3)

    def test_one_problem_per_class(self):
        X, y = load_iris(return_X_y=True)
        path = atk_path(scale(X), y, ks=[0.9], Cs=[1.0], class_weight={0: 1.0, 1: 2.0, 2: 1.0})
        assert path.coefs.shape == (1, 1, 3, 4)
        assert list(path.classes) == [0, 1, 2]

    def test_weights_are_repetitions(self, two_classes):
        X, y = two_classes
        weight = np.random.default_rng(0).integers(0, 3, y.size)
        weighted = atk_path(X, y, ks=[0.5, 1.0], Cs=[1.0, 10.0], sample_weight=weight)
        repeated = atk_path(X.repeat(weight, 0), y.repeat(weight), ks=[0.5, 1.0], Cs=[1.0, 10.0])
        assert_allclose(weighted.coefs, repeated.coefs, atol=1e-8)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"ks": [], "Cs": [1.0]}, "non-empty"),
            ({"ks": [1.0], "Cs": [0.0]}, "every C > 0"),
            ({"ks": [1.5], "Cs": [1.0]}, r"in \(0, 1\]"),
            ({"ks": [1.0], "Cs": [1.0], "loss": "huber", "class_weight": "balanced"}, "use sample_weight"),
            ({"ks": [1.0], "Cs": [1.0], "loss": "nonsense"}, "'log_loss', 'hinge'"),
        ],
    )
    def test_says_what_is_wrong(self, options, message):
        with pytest.raises(ValueError, match=message):
            atk_path([[0.0], [1.0]], [0, 1], **options)


@pytest.mark.parametrize("loss", ["log_loss", "hinge", "squared_hinge"])
def test_a_small_C_does_not_hide_the_signs(loss, two_classes):
    """Where w is tiny, zero is within any tolerance of the objective, but it is not a classifier."""
    X, y = two_classes
    ks, Cs = [0.8, 1.0], [1e-4, 1e-2]
    path = atk_path(X, y, ks=ks, Cs=Cs, loss=loss, penalize_intercept=True, tol=1e-3)
    for i, j in np.ndindex(len(ks), len(Cs)):
        fine = ATkClassifier(loss, k=ks[i], C=Cs[j], penalize_intercept=True, tol=1e-9).fit(X, y).coef_[0]
        assert fine.any()
        assert_allclose(path.coefs[i, j, 0], fine, atol=0.3 * np.abs(fine).max())


# What one cell says of another

NEIGHBOURS = (0.01, 0.1, 1.0, 10.0, 100.0)


def noisy_problem(loss, intercept="free", n=150, noise=1.0):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, 4))
    y = X @ np.array([1.0, -1.0, 0.5, 0.0]) + 0.2 + noise * rng.standard_normal(n) > 0.0
    (problem,) = ProblemEncoder(loss, intercept).on(X, y, rng.uniform(0.9, 1.1, n)).problems
    return problem


@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_below_a_certain_C_the_hinge_optimum_is_in_proportion_to_C(intercept):
    problem = noisy_problem(Hinge(), intercept)
    large, small = (solve_linear(problem.at(110.0, C), tol=1e-10) for C in (0.1, 0.01))
    assert 0.0 < large.threshold < small.threshold < 1.0
    assert_allclose(small.coef, large.coef / 10.0, rtol=1e-4, atol=1e-7)
    assert 1.0 - small.threshold == pytest.approx((1.0 - large.threshold) / 10.0, rel=1e-3)
    copied = problem.at(110.0, 0.01).certify(large.coef / 10.0, large.density)
    assert copied.reaches(1e-9)


def test_copies_of_the_hinge_take_no_steps():
    problem = noisy_problem(Hinge())
    steps, thresholds = np.zeros((2, 2, len(NEIGHBOURS)))
    for i, j, solution in solve_grid(problem, [110.0, 100.0], NEIGHBOURS, tol=1e-3):
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
