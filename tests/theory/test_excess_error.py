"""Theorem 2: the bound of the excess error, on distributions on which every expectation is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import linprog

from atklearn import ATkClassifier, theory
from atklearn.theory import paper_C

collapses = pytest.mark.filterwarnings("ignore::atklearn.CollapseWarning")

# f(x) = w x on four points, one label in ten wrong; and indicators of three points, where f_H is the Bayes rule.
LINE = (np.array([[-1.0], [-0.5], [0.5], [1.0]]), np.array([0.1, 0.1, 0.9, 0.9]), np.full(4, 0.25))
LINE_SETTING = {"kappa": 1.0, "norm": 2.0, "risk": 0.25, "approximation": 0.05}
INDICATOR = (np.eye(3), np.array([0.95, 0.2, 0.9]), np.array([0.5, 0.2, 0.3]))
INDICATOR_SETTING = {"kappa": 1.0, "norm": math.sqrt(3.0), "risk": 2.0 * (0.025 + 0.04 + 0.03)}
DISTRIBUTIONS = {"line": (LINE, LINE_SETTING), "indicator": (INDICATOR, INDICATOR_SETTING)}


def joint(points, positive, prior):
    """Every (x, y) with its probability."""
    y = np.repeat([1.0, -1.0], len(points))
    return np.tile(points, (2, 1)), y, np.concatenate([prior * positive, prior * (1.0 - positive)])


class TestExcessError:
    """Theorem 2."""

    @pytest.mark.parametrize("name", DISTRIBUTIONS)
    def test_the_known_f_h_is_the_solution_of_a_linear_program(self, name):
        distribution, setting = DISTRIBUTIONS[name]
        X, y, mass = joint(*distribution)
        d = X.shape[1]
        margins = np.hstack([-y[:, None] * X, -np.eye(y.size)])
        bounds = [(None, None)] * d + [(0.0, None)] * y.size
        found = linprog(np.append(np.zeros(d), mass), margins, -np.ones(y.size), bounds=bounds)
        bayes_error = distribution[2] @ np.minimum(distribution[1], 1.0 - distribution[1])
        assert_allclose(found.fun, setting["risk"], atol=1e-9)
        assert_allclose(np.linalg.norm(found.x[:d]), setting["norm"], atol=1e-7)
        assert_allclose(found.fun - 2.0 * bayes_error, setting.get("approximation", 0.0), atol=1e-9)

    @collapses
    @pytest.mark.parametrize("name", DISTRIBUTIONS)
    @pytest.mark.parametrize(("n", "mu"), [(100, 0.1), (1_000_000, 0.1)])
    def test_over_1000_training_sets_the_bound_is_not_exceeded_too_often(self, name, n, mu):
        distribution, setting = DISTRIBUTIONS[name]
        points, positive, prior = distribution
        X, y, mass = joint(*distribution)
        bayes_error = prior @ np.minimum(positive, 1.0 - positive)
        bounds = [
            theory.excess_error_bound(n, mu=mu, epsilon=epsilon, C=1.0, **setting)
            for epsilon in (0.02, 0.05, 0.1, 0.3, 1.0)
        ]
        bound = bounds[0]
        rng = np.random.default_rng(n)
        excess, radius_passed = np.empty(1000), 0
        for trial in range(1000):
            counts = rng.multinomial(n, mass)
            model = ATkClassifier("hinge", k=bound.k, C=bound.library_C, fit_intercept=False).fit(X, y, counts)
            wrong = np.where(model.predict(points) > 0, 1.0 - positive, positive)
            excess[trial] = prior @ wrong - bayes_error
            rho, size = 1.0 - model.loss_threshold_, np.linalg.norm(model.coef_)
            radius_passed += size > rho * bound.radius or rho <= 0.0
            # what the proof rests on: the sample's hinge risk of f / rho is at most k / n
            losses = np.maximum(rho - y * (X @ model.coef_[0]), 0.0)
            assert counts @ losses <= rho * bound.k + 1e-6 * n
        assert radius_passed / 1000 <= bound.radius_failure
        for each in bounds:
            assert np.mean(excess >= each.value) <= each.probability
        assert bounds[1].is_vacuous == (n == 100)

    def test_the_value_by_hand(self):
        bound = theory.excess_error_bound(10_000, mu=0.25, epsilon=0.1, C=0.5, **LINE_SETTING)
        radius = 2.0 * 0.5001 * max(math.sqrt(1.0 / 0.25), 2.0 * 2.0 / 0.25)
        assert bound.k == 5000
        assert_allclose(bound.radius, radius)
        assert_allclose(bound.value, 0.25 + 1e-4 + 0.05 + 0.1 + 2.0 * radius / 100.0)
        assert_allclose(
            bound.probability,
            math.exp(-10_000 * 0.25**2 / (2.0 * 3.0**2)) + math.exp(-2.0 * 10_000 * 0.01 / (1.0 + radius) ** 2),
        )
        assert_allclose(bound.stated_value, 0.25 + 0.05 + 0.1 + (1.0 + 2.0 + 8.0) / 25.0)
        assert_allclose(bound.stated_probability, 2.0 * math.exp(-10_000 * (0.025 / 11.0) ** 2))

    def test_the_statement_is_smaller_than_what_is_proved_for_large_mu(self):
        bound = theory.excess_error_bound(30_000, mu=0.7, epsilon=0.05, C=100.0, **LINE_SETTING)
        assert bound.stated_value < bound.value

    def test_k_and_c_are_those_of_the_estimator(self):
        bound = theory.excess_error_bound(100, mu=0.1, epsilon=0.1, C=3.0, **LINE_SETTING)
        assert bound.k == 35
        assert_allclose(paper_C(bound.library_C, bound.k, 100), 3.0)

    @pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
    @pytest.mark.parametrize("n", [10**5, 10**7])
    def test_the_best_mu_is_the_best_of_a_grid(self, n, C):
        best = theory.excess_error_bound(n, confidence=0.95, C=C, **LINE_SETTING)
        grid = []
        for mu in np.linspace(0.01, 0.74, 400):
            try:
                grid.append(theory.excess_error_bound(n, mu=mu, confidence=0.95, C=C, **LINE_SETTING).value)
            except ValueError:  # mu too small for this confidence
                grid.append(np.inf)
        assert best.value <= min(grid) + 1e-9
        assert_allclose(best.value, min(grid), rtol=0.01)

    @pytest.mark.parametrize("mu", [None, 0.15])
    @pytest.mark.parametrize("wanted", [0.9, 0.3])
    def test_the_number_of_samples_is_the_smallest(self, wanted, mu):
        answer = theory.required_samples(wanted, confidence=0.95, mu=mu, C=1.0, **LINE_SETTING)
        assert answer.value <= wanted
        assert_allclose(answer.probability, 0.05, rtol=1e-6)
        one_less = theory.excess_error_bound(answer.n - 1, mu=mu, confidence=0.95, C=1.0, **LINE_SETTING)
        assert one_less.value > wanted
        assert not answer.is_vacuous

    def test_vacuous_bounds_say_so(self):
        by_value = theory.excess_error_bound(100, mu=0.2, epsilon=0.9, C=1.0, **LINE_SETTING)
        by_probability = theory.excess_error_bound(30_000, mu=0.05, epsilon=0.01, C=1.0, **LINE_SETTING)
        useful = theory.excess_error_bound(10**6, mu=0.1, epsilon=0.1, C=1.0, **LINE_SETTING)
        assert by_value.value >= 1.0
        assert by_probability.value < 1.0 <= by_probability.probability
        for bound in (by_value, by_probability):
            assert bound.is_vacuous
            assert "vacuous" in str(bound)
        assert "vacuous" not in str(useful)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"mu": 0.75}, "mu is expected in"),
            ({"mu": 0.0}, "mu is expected in"),
            ({"epsilon": 0.0}, "epsilon is expected in"),
            ({"epsilon": 1.5}, "epsilon is expected in"),
            ({"epsilon": None}, "Exactly one of epsilon and confidence"),
            ({"confidence": 0.9}, "Exactly one of epsilon and confidence"),
            ({"mu": None}, "mu is expected along with epsilon"),
            ({"n": 0}, "n is expected"),
            ({"n": 2.5}, "n is expected"),
            ({"n": math.inf}, "n is expected"),
            ({"n": 10**400}, "n is expected"),
            ({"C": 0.0}, "C is expected"),
            ({"kappa": -1.0}, "kappa is expected"),
            ({"norm": math.inf}, "norm is expected"),
            ({"norm": math.nan}, "norm is expected"),
            ({"risk": 1.0}, "risk is expected in"),
            ({"approximation": 0.3}, "approximation is expected in"),
            ({"approximation": -0.1}, "approximation is expected in"),
            ({"norm": 0.5}, "kappa \\* norm is expected"),
            ({"epsilon": None, "confidence": 1.0}, "confidence is expected in"),
            ({"n": 100, "epsilon": None, "confidence": 0.95}, "epsilon is expected in"),
            ({"n": 100, "mu": None, "epsilon": None, "confidence": 0.95}, "epsilon is expected in"),
        ],
    )
    def test_refusals(self, change, message):
        given = {"n": 1000, "mu": 0.2, "epsilon": 0.1, "C": 1.0, **LINE_SETTING, **change}
        with pytest.raises(ValueError, match=message):
            theory.excess_error_bound(**given)

    @pytest.mark.parametrize(
        "extreme", [{"C": 1e308}, {"kappa": 1e200}, {"norm": 1e308, "kappa": 1e308}, {"mu": 1e-200}]
    )
    def test_extreme_settings_are_vacuous(self, extreme):
        bound = theory.excess_error_bound(**{"n": 1000, "mu": 0.2, "epsilon": 0.1, "C": 1.0, **LINE_SETTING, **extreme})
        assert bound.is_vacuous
        assert bound.probability >= 1.0
        assert 0.0 < bound.library_C < math.inf
        if "mu" not in extreme:
            with pytest.raises(ValueError, match="a number of samples that a float holds"):
                theory.required_samples(0.5, confidence=0.95, **{"C": 1.0, **LINE_SETTING, **extreme})

    @pytest.mark.parametrize(
        ("C", "k", "n", "message"),
        [
            (-1.0, 0.5, 10, "C is expected to be finite and > 0"),
            (math.inf, 0.5, 10, "C is expected to be finite and > 0"),
            (1.0, 0.5, 0, "n_samples is expected"),
            (1.0, 0.5, 10**400, "n_samples is expected"),
            (1e308, 1, 10**6, "C n / k is expected to be finite.* lower C"),
        ],
    )
    def test_a_C_that_the_paper_does_not_have(self, C, k, n, message):
        with pytest.raises(ValueError, match=message):
            paper_C(C, k, n)

    @pytest.mark.parametrize(("bound", "mu"), [(0.05, None), (1.0, None), (0.2, 0.15)])
    def test_unreachable_bounds_are_refused(self, bound, mu):
        with pytest.raises(ValueError, match="bound is expected above"):
            theory.required_samples(bound, confidence=0.95, mu=mu, C=1.0, **LINE_SETTING)
