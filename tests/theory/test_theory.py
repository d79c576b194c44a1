"""The paper's theory: its tools against distributions on which every expectation is known."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from scipy.optimize import linprog

from atklearn import ATkClassifier, Hinge, SquaredHinge, average_top_k, paper_C, theory
from atklearn.datasets import make_toy

# Six points with one indicator feature each: linear functions are all functions, and the Bayes rule is read off.
PRIOR = np.array([0.3, 0.2, 0.2, 0.1, 0.1, 0.1])
POSITIVE = np.array([0.95, 0.1, 0.85, 0.2, 0.9, 0.05])
RARELY_WRONG = np.array([0.99, 0.02, 0.97, 0.02, 0.99, 0.01])
BAYES = np.sign(POSITIVE - 0.5)  # the same for both
BAYES_ERROR = float(PRIOR @ np.minimum(POSITIVE, 1.0 - POSITIVE))
SWITCH = 2.0 * BAYES_ERROR

collapses = pytest.mark.filterwarnings("ignore::atklearn.CollapseWarning")


def population():
    X, y = np.tile(np.eye(6), (2, 1)), np.repeat([1.0, -1.0], 6)
    return X, y, np.concatenate([PRIOR * POSITIVE, PRIOR * (1.0 - POSITIVE)])


def draw(n, *seed, positive=POSITIVE):
    rng = np.random.default_rng(seed)
    point = rng.choice(6, size=n, p=PRIOR)
    return np.eye(6)[point], np.where(rng.random(n) < positive[point], 1.0, -1.0)


def fit(X, y, k, loss="hinge", C=1e4, sample_weight=None):
    return ATkClassifier(loss, k=k, C=C, fit_intercept=False).fit(X, y, sample_weight)


class TestCalibration:
    """Theorem 1."""

    @collapses
    @pytest.mark.parametrize("loss", ["hinge", "log_loss", "squared_hinge"])
    def test_the_population_switches_at_twice_the_bayes_error_whatever_the_loss(self, loss):
        X, y, mass = population()
        for share in (0.05, BAYES_ERROR, 0.99 * SWITCH):
            assert not fit(X, y, share, loss, sample_weight=mass).coef_.any()
        for share in (1.01 * SWITCH, 0.5, 1.0):
            assert_allclose(np.sign(fit(X, y, share, loss, sample_weight=mass).coef_[0]), BAYES)

    @collapses
    @pytest.mark.parametrize(
        ("positive", "loss", "n"),
        [
            (POSITIVE, "hinge", 1000),
            (POSITIVE, "log_loss", 400),
            (RARELY_WRONG, "hinge", 200),  # a third of the samples shows two wrong labels or fewer
        ],
        ids=["hinge", "log_loss", "rarely wrong"],
    )
    def test_the_interval_covers_the_switch_and_its_ends_behave_as_the_theorem_says(self, positive, loss, n):
        switch = 2.0 * PRIOR @ np.minimum(positive, 1.0 - positive)
        covers = tight = 0
        for seed in range(100):
            X, y = draw(n, seed, n, positive=positive)
            interval = theory.calibration_interval(X, y, loss, fit_intercept=False, random_state=seed)
            covers += interval.lower <= switch <= interval.upper
            tight += interval.switch_lower <= switch <= interval.switch_upper
            assert interval.lower <= interval.switch_lower <= interval.switch <= interval.switch_upper
            assert interval.switch <= interval.upper
            if seed % 5 == 0:
                if interval.degenerate_k > 0:
                    assert not fit(X, y, interval.degenerate_k, loss).coef_.any()
                assert (np.sign(fit(X, y, interval.calibrated_k, loss).coef_[0]) == BAYES).all()
        assert covers >= 95
        assert tight >= 90

    def test_estimates_come_near_the_truth(self):
        X, y = draw(20_000, 0)
        interval = theory.calibration_interval(X, y, "log_loss", C=1e4, fit_intercept=False, random_state=0)
        entropy = -(POSITIVE * np.log2(POSITIVE) + (1 - POSITIVE) * np.log2(1 - POSITIVE))
        assert_allclose(interval.bayes_error, BAYES_ERROR, atol=0.01)
        assert_allclose(interval.risk, PRIOR @ entropy, atol=0.02)  # in bits: log loss in units of l(0)
        assert_allclose(interval.switch, SWITCH, atol=0.02)

    @collapses
    def test_the_switch_is_that_of_the_sample(self):
        X, y = make_toy(4, random_state=0)
        X = np.vstack([X, X[:20]])
        y = np.append(y, -y[:20])
        k = 220 * theory.calibration_interval(X, y, random_state=0).switch
        assert not ATkClassifier(k=int(0.99 * k), C=1e4).fit(X, y).coef_.any()
        assert ATkClassifier(k=int(1.02 * k) + 1, C=1e4).fit(X, y).coef_.any()

    def test_more_rows_than_the_switch_needs_and_sparse_data(self):
        X, y = draw(30_000, 1)
        dense = theory.calibration_interval(X, y, "hinge", fit_intercept=False, random_state=0)
        sparse = theory.calibration_interval(sp.csr_array(X), y, "hinge", fit_intercept=False, random_state=0)
        assert dense.switch_lower < SWITCH < dense.switch_upper
        assert_allclose(sparse.upper, dense.upper, rtol=1e-3)

    def test_separable_classes_calibrate_at_every_k(self):
        X, y = make_toy(1, random_state=0)
        interval = theory.calibration_interval(X, y, "hinge", random_state=0)
        assert interval.lower == 0.0
        assert interval.degenerate_k == 0
        assert "no k is known to be too small" in str(interval)
        assert interval.switch < 1e-3

    def test_pure_noise_has_no_calibrated_k_and_says_so(self):
        rng = np.random.default_rng(0)
        X, y = rng.standard_normal((200, 3)), rng.choice(["a", "b"], 200)
        interval = theory.calibration_interval(X, y, random_state=0)
        assert interval.calibrated_k is None
        assert "no k is known" in str(interval)

    def test_the_text_has_the_numbers(self):
        X, y = draw(1000, 3)
        interval = theory.calibration_interval(X, y, "hinge", fit_intercept=False, random_state=0)
        assert f"[{interval.lower:.3f}, {interval.upper:.3f}]" in str(interval)
        assert f"k <= {interval.degenerate_k} is too small" in str(interval)

    def test_refusals(self):
        X, y = draw(100, 0)
        with pytest.raises(ValueError, match="two classes"):
            theory.calibration_interval(X, np.arange(100) % 3)
        with pytest.raises(ValueError, match="lower cv"):
            theory.calibration_interval(X, np.arange(100) < 4)
        with pytest.raises(ValueError, match="confidence"):
            theory.calibration_interval(X, y, confidence=95)
        with pytest.raises(ValueError, match="classification"):
            theory.calibration_interval(X, y, "squared_error")


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
    @pytest.mark.parametrize(("n", "mu"), [(100, 0.1), (30_000, 0.2), (1_000_000, 0.1)])
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
            model = fit(X, y, bound.k, C=bound.library_C, sample_weight=counts)
            wrong = np.where(model.predict(points) > 0, 1.0 - positive, positive)
            excess[trial] = prior @ wrong - bayes_error
            rho, size = 1.0 - model.threshold_, np.linalg.norm(model.coef_)
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

    def test_epsilon_for_a_confidence(self):
        bound = theory.excess_error_bound(100_000, mu=0.2, confidence=0.9, C=1.0, **LINE_SETTING)
        assert_allclose(bound.probability, 0.1)

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

    def test_more_samples_and_a_smaller_space_help(self):
        values = [theory.excess_error_bound(n, confidence=0.95, C=1.0, **LINE_SETTING).value for n in (10**5, 10**6)]
        assert values[1] < values[0]
        small, large = (
            theory.excess_error_bound(10**6, mu=0.2, epsilon=0.1, C=1.0, kappa=1.0, norm=norm, risk=0.2)
            for norm in (1.0, 4.0)
        )
        assert small.value < large.value
        assert small.probability < large.probability

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

    @pytest.mark.parametrize(("bound", "mu"), [(0.05, None), (1.0, None), (0.2, 0.15)])
    def test_unreachable_bounds_are_refused(self, bound, mu):
        with pytest.raises(ValueError, match="bound is expected above"):
            theory.required_samples(bound, confidence=0.95, mu=mu, C=1.0, **LINE_SETTING)


class TestNuProperty:
    """k bounds margin errors and support vectors."""

    @collapses
    @pytest.mark.parametrize("fit_intercept", [True, False])
    def test_it_holds_for_weighted_fits(self, fit_intercept):
        two_sided = 0
        for seed in range(100):
            rng = np.random.default_rng(seed)
            n = int(rng.integers(20, 200))
            X = rng.standard_normal((n, 3))
            y = np.where(X[:, 0] + rng.choice([0.0, 0.5, 2.0]) * rng.standard_normal(n) > 0, "yes", "no")
            y[:2] = "yes", "no"
            mass = rng.integers(0, 4, n) * rng.uniform(0.1, 2.0) + (np.arange(n) < 2)
            C = 10.0 ** rng.uniform(-3, 4)
            model = ATkClassifier("hinge", k=rng.uniform(0.02, 1.0), C=C, fit_intercept=fit_intercept, tol=1e-5)
            found = theory.check_nu_property(model.fit(X, y, mass), X, y, mass)
            assert found.holds, str(found)
            two_sided += found.is_two_sided
        assert 20 < two_sided < 100  # both kinds were met

    def test_between_errors_and_support_vectors_there_is_little_but_the_margin(self):
        X, y = make_toy(4, random_state=0)
        found = theory.check_nu_property(ATkClassifier(Hinge(), k=20, C=1.0).fit(X, y), X, y)
        assert found.is_two_sided
        assert found.k - found.margin_errors <= 3  # two features and an intercept fix three samples on the margin
        assert found.support_vectors - found.k <= 3

    def test_without_a_threshold_support_vectors_may_be_fewer(self):
        X, y = make_toy(1, random_state=0)
        found = theory.check_nu_property(ATkClassifier("hinge", k=150, C=1e3).fit(X, y), X, y)
        assert not found.is_two_sided
        assert found.holds
        assert found.support_vectors < found.k
        assert "not promised" in str(found)

    def test_violations_are_seen(self):
        margins, weights = [-1.0, -1.0, 0.5, 2.0], [0.5, 0.5, 0.0, 0.0]
        assert theory.nu_property(margins, weights, rho=0.5, k=2).holds
        assert not theory.nu_property(margins, weights, rho=0.5, k=1).holds
        too_few = theory.nu_property(margins, weights, rho=0.5, k=3)
        assert not too_few.holds
        assert "VIOLATED" in str(too_few)
        assert theory.nu_property(margins, weights, rho=1.0, k=3).holds
        assert theory.nu_property(margins, weights, rho=0.5, k=5, mass=[2, 1, 1, 1]).support_vectors == 3.0

    def test_refusals(self):
        X, y = make_toy(1, random_state=0)
        with pytest.raises(ValueError, match="hinge"):
            theory.check_nu_property(ATkClassifier(SquaredHinge()).fit(X, y), X, y)
        with pytest.raises(ValueError, match="class_weight"):
            theory.check_nu_property(ATkClassifier("hinge", class_weight="balanced").fit(X, y), X, y)
        three = np.arange(200) // 67
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = ATkClassifier("hinge").fit(X, three)
        with pytest.raises(ValueError, match="two classes"):
            theory.check_nu_property(model, X, three)
        with pytest.raises(ValueError, match="vectors of one length"):
            theory.nu_property([1.0], [1.0, 2.0], rho=0.5, k=1)
        with pytest.raises(ValueError, match="rho"):
            theory.nu_property([1.0], [1.0], rho=1.5, k=1)
        with pytest.raises(ValueError, match="k is expected"):
            theory.nu_property([1.0], [1.0], rho=0.5, k=2)


class TestOutliers:
    """AT_k bounds the top-k loss."""

    @pytest.mark.parametrize("seed", range(5))
    def test_the_bounds_hold_with_outliers_anywhere(self, seed):
        rng = np.random.default_rng(seed)
        losses = np.sort(rng.exponential(size=200))[::-1]
        allowed = theory.k_for_outliers(0.05, 200, max_looseness=8)
        m = allowed.n_outliers
        for k in range(m + 1, 201):
            assert losses[m] <= allowed.looseness(k) * average_top_k(k).value(losses) * (1 + 1e-12)
            weights = average_top_k(k).weights(losses)
            assert weights[:m].sum() <= allowed.outlier_weight(k) + 1e-12
        assert allowed.outlier_weight(allowed.lower) < 0.5 <= allowed.outlier_weight(allowed.lower - 1)
        assert allowed.looseness(allowed.upper) <= 8 < allowed.looseness(allowed.upper + 1)
        assert allowed.looseness(m) == math.inf

    @collapses
    def test_flipped_labels_collapse_the_fit_below_and_do_no_harm_above(self):
        rng = np.random.default_rng(0)
        truth = rng.choice([-1.0, 1.0], size=400)
        X = np.column_stack([truth, 0.1 * rng.standard_normal(400)])
        y = np.where(np.arange(400) < 20, -truth, truth)
        allowed = theory.k_for_outliers(0.05, 400)
        for k in (5, 20, 30):
            assert not ATkClassifier("hinge", k=k).fit(X, y).coef_.any()
        for k in (allowed.lower, 80, 400):
            assert (ATkClassifier("hinge", k=k).fit(X, y).predict(X) == truth).all()

    def test_rounding_and_ends(self):
        assert theory.k_for_outliers(0.07, 100).n_outliers == 7
        assert theory.k_for_outliers(0.071, 100).n_outliers == 8
        assert theory.k_for_outliers(0.0, 100) == theory.OutlierRange(1, 100, 0, 100)
        assert theory.k_for_outliers(0.1, 1000, max_weight=0.2).lower == 501

    def test_refusals(self):
        for arguments in ({"outlier_share": 1.0}, {"outlier_share": -0.1}):
            with pytest.raises(ValueError, match="outlier_share"):
                theory.k_for_outliers(n_samples=100, **arguments)
        with pytest.raises(ValueError, match="n_samples"):
            theory.k_for_outliers(0.1, 0)
        with pytest.raises(ValueError, match="max_weight"):
            theory.k_for_outliers(0.1, 100, max_weight=1.0)
        with pytest.raises(ValueError, match="clean the data"):
            theory.k_for_outliers(0.5, 100)
        with pytest.raises(ValueError, match="max_looseness"):
            theory.k_for_outliers(0.2, 100, max_looseness=1.5)
