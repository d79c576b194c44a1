"""The stochastic solver, against the paper's steps written out and the exact solver."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from problems import CLASSIFICATION, INTERCEPTS, REGRESSION, draw
from sklearn.datasets import load_breast_cancer, load_diabetes, make_classification
from sklearn.preprocessing import scale

from atklearn import ATkClassifier, ATkRegressor, LogLoss, SGDATkClassifier, SGDATkRegressor, SquaredError
from atklearn.aggregates import AverageTopK
from atklearn.core.problem import Problem, StopReason
from atklearn.core.solve import solve_linear
from atklearn.datasets import make_toy
from atklearn.encoding.encoded import ProblemEncoder
from atklearn.losses.individual import INDIVIDUAL_LOSSES
from atklearn.stochastic.sgd import SGD, Descent, solve_sgd, solve_sgd_grid
from atklearn.stochastic.visits import MassClock, passes
from atklearn.stores.compiled import CompiledRows
from atklearn.theory import paper_C


def loss_and_slope(loss: str, f: float, y: float) -> tuple[float, float]:
    """Each loss of the paper and a subgradient, from its textbook formula."""
    if loss == "log_loss":
        return np.log(1 + np.exp(-y * f)), -y / (1 + np.exp(y * f))
    if loss == "hinge":
        return max(0.0, 1 - y * f), -y if y * f < 1 else 0.0
    if loss == "squared_hinge":
        return max(0.0, 1 - y * f) ** 2, -2 * y * max(0.0, 1 - y * f)
    if loss == "squared_error":
        return (f - y) ** 2, 2 * (f - y)
    if loss == "absolute_error":
        return abs(f - y), np.sign(f - y)
    e = f - y
    return (e**2 / 2, e) if abs(e) <= 1 else (abs(e) - 0.5, np.sign(e))


def written_out(loss, X, y, fraction, C, intercept, eta, average, n_passes=3):
    """The steps of Eq. 2 on our objective, one array operation per line; returns weights and lambda."""
    n = len(y)
    Z = X if intercept == "none" else np.column_stack([X, np.ones(n)])
    decay = np.full(Z.shape[1], 1 / C)
    if intercept == "free":
        decay[-1] = 0.0
    z = np.zeros(Z.shape[1])
    if loss in REGRESSION and intercept != "none":
        z[-1] = y.mean()
    first = [loss_and_slope(loss, f, t)[0] for f, t in zip(Z @ z, y, strict=True)]
    lam = AverageTopK(fraction).threshold(first) if fraction < 1 else 0.0
    top = loss_and_slope(loss, 0.0, 1.0)[0] if loss in CLASSIFICATION else np.inf
    z_sum, lam_sum, weight_sum, t = 0.0 * z, 0.0, 0.0, 0
    for _ in range(n_passes):
        for i in range(n):
            t += 1
            value, slope = loss_and_slope(loss, Z[i] @ z, y[i])
            active = value > lam
            z = z - eta(t) * (active / fraction * slope * Z[i] + decay * z)
            lam = min(max(lam - eta(t) * (1 - active / fraction), 0.0), top)
            assert 0.0 <= lam <= top
            weight = {"all": 1.0, "recent": t**2, None: 0.0}[average]
            z_sum, lam_sum, weight_sum = z_sum + weight * z, lam_sum + weight * lam, weight_sum + weight
    return (z, lam) if average is None else (z_sum / weight_sum, lam_sum / weight_sum)


def coef(descent: Descent) -> np.ndarray:
    """Return the weights, and the intercept if there is one."""
    return np.append(descent.weights, descent.intercept) if descent.rule.has_intercept else descent.weights


def walked(loss, X, y, fraction, C, intercept, settings, n_passes=3) -> Descent:
    descent = Descent(X, y, INDIVIDUAL_LOSSES[loss](), fraction, C, intercept, settings)
    for _ in range(n_passes):
        descent.walk(X, y, np.arange(len(y)))
    return descent


class TestSteps:
    @pytest.mark.parametrize("intercept", INTERCEPTS)
    @pytest.mark.parametrize("loss", CLASSIFICATION + REGRESSION)
    def test_are_those_of_the_paper(self, loss, intercept):
        for average, fraction in (("all", 0.3), ("recent", 0.7), (None, 1.0)):
            X, y = draw(loss)
            descent = walked(loss, X, y, fraction, 10.0, intercept, SGD(eta0=0.02, average=average))
            z, lam = written_out(loss, X, y, fraction, 10.0, intercept, lambda t: 0.02 / np.sqrt(t), average)
            assert_allclose(coef(descent), z, rtol=1e-9, atol=1e-12)
            assert_allclose(descent.threshold, lam, rtol=1e-9, atol=1e-12)

    @pytest.mark.parametrize("loss", CLASSIFICATION + REGRESSION)
    def test_are_the_same_on_sparse_rows(self, loss):
        X, y = draw(loss)
        dense = walked(loss, X, y, 0.4, 10.0, "free", SGD())
        sparse = walked(loss, sp.csr_array(X), y, 0.4, 10.0, "free", SGD())
        assert_allclose(coef(sparse), coef(dense), rtol=1e-9)

    def test_in_the_scaling_of_the_paper(self):
        """Eq. 2 itself divides by n: its C is n/k times ours, and its step is n/k times ours for the same move."""
        X, y = draw("log_loss")
        n, k, C, eta = len(y), 15, 5.0, 0.05
        w, lam = np.zeros(X.shape[1]), np.log(2)
        for i in range(n):
            value, slope = loss_and_slope("log_loss", X[i] @ w, y[i])
            active = value > lam
            w = w - eta * n / k * (slope * X[i] * active + w / paper_C(C, k, n))
            lam = min(max(0.0, lam - eta * n / k * (k / n - active)), np.log(2))
        settings = SGD("constant", eta0=eta, average=None)
        descent = walked("log_loss", X, y, k / n, C, "none", settings, n_passes=1)
        assert_allclose(coef(descent), w, rtol=1e-9)
        assert_allclose(descent.threshold, lam, rtol=1e-9)

    @pytest.mark.parametrize(
        ("learning_rate", "eta"),
        [
            ("invscaling", lambda t: 0.1 / t**0.7),
            ("optimal", lambda t: 1 / (1 / 0.1 + (t - 1) / 3.0)),
            ("constant", lambda _: 0.1),
            ("adaptive", lambda _: 0.1),
        ],
    )
    def test_follow_the_schedule(self, learning_rate, eta):
        X, y = draw("log_loss")
        settings = SGD(learning_rate, eta0=0.1, power_t=0.7, average="all")
        descent = walked("log_loss", X, y, 0.5, 3.0, "free", settings)
        assert_allclose(coef(descent), written_out("log_loss", X, y, 0.5, 3.0, "free", eta, "all")[0], rtol=1e-9)

    def test_that_shrink_the_weights_to_nothing_keep_the_average(self):
        """A step longer than C would turn the weights round: they stop at zero, and the past still counts."""
        X, y = draw("log_loss")
        for C in (0.05, 1e-3):  # shrinking by 0.9 to below any scale, or at once
            descent = walked("log_loss", X, y, 0.5, C, "none", SGD("constant", eta0=0.005, average="all"), 4)
            w, w_sum, lam = np.zeros(5), np.zeros(5), np.log(2)
            for i in list(range(60)) * 4:
                value, slope = loss_and_slope("log_loss", X[i] @ w, y[i])
                w = max(0.0, 1 - 0.005 / C) * w - 0.005 * (value > lam) / 0.5 * slope * X[i]
                lam = min(max(lam - 0.005 * (1 - (value > lam) / 0.5), 0.0), np.log(2))
                w_sum += w
            assert_allclose(coef(descent), w_sum / 240, rtol=1e-7)

    def test_on_a_loss_of_ones_own_are_interpreted_but_the_same(self):
        class OwnLogLoss(LogLoss):
            pass

        class OwnSquaredError(SquaredError):
            pass

        for own, loss in ((OwnLogLoss(), "log_loss"), (OwnSquaredError(), "squared_error")):
            X, y = draw(loss)
            for rows in (X, sp.csr_array(X)):
                mine = Descent(rows, y, own, 0.5, 10.0, "free", SGD(eta0=0.01))
                mine.walk(rows, y, np.arange(60))
                assert_allclose(coef(mine), coef(walked(loss, X, y, 0.5, 10.0, "free", SGD(eta0=0.01), 1)), rtol=1e-9)

    def test_too_long_are_reported(self):
        X, y = draw("squared_error")
        with pytest.raises(ValueError, match="lower eta0"):
            SGDATkRegressor(eta0=100.0, learning_rate="constant", random_state=0).fit(X, y)

    def test_to_weights_whose_square_overflows_are_reported(self):
        X, y = np.zeros((3, 2)), np.ones(3)
        descent = Descent(X, y, SquaredError(), 1.0, 1.0, "none", SGD(eta0=0.01))
        descent.move_to(np.full(2, 1e200), 0.0, 0.0)
        with pytest.raises(ValueError, match="lower eta0"):
            descent.walk(X, y, np.arange(3))


class TestVisits:
    def test_count_mass(self):
        mass = np.array([1.0, 0.0, 3.0, 0.5, 0.5])
        assert_array_equal(MassClock(0.2).visits(mass), [0, 2, 2, 2, 4])

    def test_of_fractional_mass_come_in_proportion(self):
        rng = np.random.default_rng(0)
        X, y, mass = rng.standard_normal((40, 2)), np.ones(40), rng.uniform(0.1, 2.0, 40)
        order = passes(X, y, mass, True, 0)
        counts = sum(np.bincount(next(order), minlength=40) for _ in range(400))
        assert_allclose(counts / counts.sum(), mass / mass.sum(), atol=2e-3)

    def test_do_not_grow_with_the_unit_of_the_weights(self):
        X, y = draw("hinge")
        assert next(passes(X, y, np.full(60, 1e6), True, 0)).size <= 600
        assert next(passes(X, y, np.full(60, 1e-6), True, 0)).size == 60

    def test_cover_every_row_once_a_pass(self):
        X, y = draw("hinge")
        for shuffle in (True, False):
            order = passes(X, y, np.ones(60), shuffle, 3)
            first, second = next(order), next(order)
            assert_array_equal(np.sort(first), np.arange(60))
            assert np.array_equal(first, second) != shuffle


class TestSolver:
    @pytest.mark.parametrize("loss", CLASSIFICATION + REGRESSION)
    def test_certificate_holds(self, loss):
        for intercept in INTERCEPTS:
            for k in (5.0, 30.0, 60.0):
                X, y = draw(loss)
                rows = CompiledRows(X, y, np.ones(60), INDIVIDUAL_LOSSES[loss](), intercept != "none")
                problem = Problem(rows, k, 10.0, intercept)
                best = solve_linear(problem, tol=1e-9).objective
                found = solve_sgd(problem, tol=1e-3, max_iter=60)
                assert found.objective - found.dual_gap <= best * (1 + 1e-9) <= found.objective * (1 + 2e-9)

    def test_converges(self):
        X, y = draw("log_loss", n=500)
        problem = Problem(CompiledRows(X, y, np.ones(500), LogLoss(), True), 350.0, 10.0, "free")
        found = solve_sgd(problem, tol=5e-3, max_iter=1000)
        assert found.stop_reason is StopReason.CONVERGED
        assert found.dual_gap <= 5e-3 * found.objective

    def test_is_as_close_to_the_exact_solution_as_it_says(self):
        X, y = load_breast_cancer(return_X_y=True)
        X = scale(X)
        exact = ATkClassifier(k=0.5, C=100.0).fit(X, y)
        (problem,) = ProblemEncoder(LogLoss(), "free").on(X, y, k=0.5, C=100.0).problems
        found = solve_sgd(problem, tol=0.05, max_iter=200)
        assert exact.objective_ <= found.objective <= 1.05 * exact.objective_
        assert_array_equal(found.coef, solve_sgd(problem, tol=0.05, max_iter=200, settings=SGD(random_state=0)).coef)
        assert solve_sgd(problem, tol=1e-9, max_iter=2).stop_reason is StopReason.MAX_ITER

    def test_goes_on_from_a_solution_and_can_be_watched_and_stopped(self):
        X, y = draw("log_loss", n=500)
        (problem,) = ProblemEncoder(LogLoss(), "free").on(X, y, C=500.0).problems
        first = solve_sgd(problem, tol=0.02, max_iter=500)
        assert solve_sgd(problem, tol=0.02, max_iter=500, start=first).n_iter <= first.n_iter
        passes = []
        stopped = solve_sgd(problem, tol=1e-9, progress=lambda step, *_: passes.append(step) or step == 3)
        assert (passes, stopped.stop_reason) == ([1, 2, 3], StopReason.CALLBACK)

    def test_a_grid_is_certified_cell_by_cell(self):
        X, y = draw("log_loss", n=500)
        (problem,) = ProblemEncoder(LogLoss(), "free").on(X, y).problems
        for i, j, found in solve_sgd_grid(problem, [350.0, 500.0], [0.1, 1.0], tol=0.02, max_iter=500):
            best = solve_linear(problem.at([350.0, 500.0][i], [0.1, 1.0][j]), tol=1e-8).objective
            assert best * (1.0 - 1e-7) <= found.objective <= best + found.dual_gap
            assert found.dual_gap <= 0.02 * found.objective

    @pytest.mark.parametrize("case", [4, 6])
    def test_with_the_authors_settings_finds_what_the_average_misses(self, case):
        """Figure 1: with an outlier, small k makes one error, the average gives up the rare group."""
        X, y = make_toy(case, random_state=0)
        errors = {}
        for k in (5, 10, 200):
            problem = Problem(CompiledRows(X, y, np.ones(200), LogLoss(), True), float(k), 100.0, "penalized")
            authors = SGD(eta0=1e-3 * problem.C, shuffle=False, average="all")
            found = solve_sgd(problem, tol=1e-12, max_iter=1000, settings=authors)
            errors[k] = int(np.sum(np.sign(X @ found.coef[:-1] + found.coef[-1]) != y))
        assert max(errors[5], errors[10]) <= 2 < errors[200]

    @pytest.mark.parametrize(
        ("setting", "message"),
        [
            ({"learning_rate": "fast"}, "learning_rate is expected"),
            ({"eta0": -1.0}, "eta0 is expected"),
            ({"power_t": 2.0}, "power_t is expected"),
            ({"average": "some"}, "average is expected"),
        ],
    )
    def test_settings_are_checked(self, setting, message):
        with pytest.raises(ValueError, match=message):
            SGD(**setting)


SETS = {
    "cancer": (SGDATkClassifier, load_breast_cancer),
    "diabetes": (SGDATkRegressor, load_diabetes),
    "drawn": (
        SGDATkClassifier,
        lambda return_X_y: make_classification(2000, 20, flip_y=0.1, random_state=return_X_y * 1),
    ),
}


@pytest.mark.parametrize("name", SETS)
def test_defaults_come_within_one_percent_in_twenty_passes(name):
    estimator, load = SETS[name]
    X, y = load(return_X_y=True)
    X = scale(X)
    exact = (ATkClassifier if estimator is SGDATkClassifier else ATkRegressor)(k=0.7, C=100.0).fit(X, y)
    model = estimator(random_state=0).fit(X, y)
    assert model.n_iter_ <= 20
    target = np.where(y == 1, 1.0, -1.0) if estimator is SGDATkClassifier else y
    loss = LogLoss() if estimator is SGDATkClassifier else SquaredError()
    losses = loss(X @ np.ravel(model.coef_) + np.ravel(model.intercept_)[0], target)
    objective = AverageTopK(0.7).value(losses) + np.sum(model.coef_**2) / 200
    assert exact.objective_ * (1 - 1e-6) <= objective <= 1.01 * exact.objective_
    # lambda approaches the k-th largest loss
    assert_allclose(model.loss_threshold_, exact.loss_threshold_, atol=0.1 * losses.max())
