"""For the hinge, k is a second name for C and bounds errors and support vectors; with other losses it is not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.svm import SVC

from atklearn import ATkClassifier, ATkClassifierCV, ATkRegressor, ATkSVC, ATkSVR, CollapseWarning, Hinge, theory
from atklearn.datasets import make_toy

EXACT = 1e-9
WEIGHTS = {"yes": 1.2, "no": 0.9}
MODELS = {
    "free intercept": ATkClassifier("hinge"),
    "penalised intercept": ATkClassifier("hinge", penalize_intercept=True),
    "no intercept": ATkClassifier("hinge", fit_intercept=False),
    "class weights": ATkClassifier("hinge", class_weight=WEIGHTS),
    "linear kernel": ATkSVC("linear"),
    "rbf": ATkSVC(),
    "poly": ATkSVC("poly"),
    "kernel with class weights, no intercept": ATkSVC(class_weight=WEIGHTS, fit_intercept=False),
}
collapses = pytest.mark.filterwarnings("ignore::atklearn.CollapseWarning")


def noisy_problem(seed):
    """Return X, y, fresh X, weights, and k and C at which lambda > 0: labels noisy enough for k to matter."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((161, 4))
    y = np.where(X[:61, 0] + 0.6 * rng.standard_normal(61) > 0.0, "yes", "no")
    parameters = {"k": rng.uniform(0.5, 0.8), "C": 10.0 ** rng.uniform(-1.5, 0.0), "tol": EXACT}
    return X[:61], y, X[61:], rng.uniform(0.2, 2.0, 61), parameters


class TestIdentity:
    """AT_k with hinge is rho times the average with hinge at another C."""

    @pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
    @pytest.mark.parametrize("weighted", [False, True], ids=["counts", "weights"])
    @pytest.mark.parametrize("seed", range(3))
    def test_of_models(self, model, weighted, seed):
        X, y, fresh, mass, parameters = noisy_problem(seed)
        mass = mass if weighted else None
        rho, C = theory.hinge_equivalent(model.set_params(**parameters).fit(X, y, mass))
        assert 0.0 < rho < 1.0  # a case that says something
        average = type(model)(**{**model.get_params(), "k": 1.0, "C": C}).fit(X, y, mass)
        scores = model.decision_function(fresh)
        assert_allclose(scores, rho * average.decision_function(fresh), rtol=0, atol=1e-5 * np.ptp(scores))
        assert_array_equal(model.predict(fresh), average.predict(fresh))

    def test_of_the_svm_of_others(self):
        X, y, fresh, mass, parameters = noisy_problem(1)
        model = ATkSVC(gamma=0.3, **parameters).fit(X, y, mass)
        rho, C = theory.hinge_equivalent(model)
        svm = SVC(C=C / mass.sum(), gamma=0.3, tol=1e-8).fit(X, y, mass)
        assert_allclose(model.decision_function(fresh), rho * svm.decision_function(fresh), rtol=0, atol=1e-6 * rho)

    def test_without_a_threshold_only_the_share_counts(self):
        X, y, _, _, _ = noisy_problem(0)
        model = ATkClassifier("hinge", k=0.9, C=100.0).fit(X, y)
        assert theory.hinge_equivalent(model) == pytest.approx((1.0, 100.0 / 0.9))

    def test_of_each_class_against_the_rest(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((91, 3))
        y = np.argmax(2.0 * X + rng.standard_normal(X.shape), axis=1)
        model = ATkClassifier("hinge", k=0.8, C=1.0, tol=EXACT).fit(X, y)
        for row, (weights, threshold) in enumerate(zip(model.coef_, model.loss_threshold_, strict=True)):
            C = theory.equivalent_C(1.0, share=0.8, threshold=threshold)
            average = ATkClassifier("hinge", k=1.0, C=C, tol=EXACT).fit(X, y)
            assert_allclose(weights, (1.0 - threshold) * average.coef_[row], atol=1e-6)

    def test_of_the_C_that_was_used_and_of_the_model_that_was_searched_for(self):
        X, y, _, _, _ = noisy_problem(0)
        unsaid, said = (ATkClassifier("hinge", k=0.9, C=C).fit(X, y) for C in (None, float(y.size)))
        assert theory.hinge_equivalent(unsaid) == theory.hinge_equivalent(said)
        search = ATkClassifierCV(Hinge(), ks=[0.8], Cs=[1.0], cv=2).fit(X, y)
        assert theory.hinge_equivalent(search) == theory.hinge_equivalent(search.best_estimator_)


def direction(model):
    """Return the boundary as a vector of length one, intercept included."""
    boundary = np.append(model.coef_, model.intercept_)
    return boundary / np.linalg.norm(boundary)


@pytest.mark.parametrize(
    ("kind", "loss", "is_near"),
    [
        (ATkClassifier, "hinge", True),
        (ATkClassifier, "log_loss", False),
        (ATkClassifier, "squared_hinge", False),
        (ATkRegressor, "squared_error", False),
        (ATkRegressor, "absolute_error", False),
        (ATkRegressor, "huber", False),
    ],
)
def test_some_C_of_the_average_gives_what_at_k_gives_for_the_hinge_alone(kind, loss, is_near):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((101, 3))
    target = X[:, 0] + 0.5 * rng.standard_normal(101)
    X[:8] += [2.0, 1.5, 0.0]  # a group that the others speak against: top and average disagree
    target[:8] = -2.0
    target = target > 0.0 if kind is ATkClassifier else target
    fit = kind(loss, k=0.5, tol=1e-8, C=1.0).fit(X, target)
    average = kind(loss, k=1.0, tol=1e-8)
    distance = min(
        np.linalg.norm(direction(average.set_params(C=C).fit(X, target)) - direction(fit))
        for C in np.geomspace(1e-3, 1e5, 161)
    )
    assert distance < 1e-3 if is_near else distance > 1e-2


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


class TestRefusals:
    """What has no equivalent, or nothing to check, is told so."""

    def test_collapsed_fits(self):
        X, y, _, _, _ = noisy_problem(0)
        for model in (ATkClassifier("hinge", k=2), ATkSVC("linear", k=2)):
            with pytest.warns(CollapseWarning):
                model.fit(X, y)
            assert not model.coef_.any()
            with pytest.raises(ValueError, match=r"collapsed \(w = 0\).* larger k"):
                theory.hinge_equivalent(model)

    def test_other_losses_and_more_classes(self):
        X, y, _, _, _ = noisy_problem(0)
        for model, target in (
            (ATkClassifier("log_loss"), y),
            (ATkRegressor("absolute_error"), X[:, 1]),
            (ATkSVR(), X[:, 1]),
        ):
            with pytest.raises(ValueError, match="expects a classifier with the hinge loss"):
                theory.hinge_equivalent(model.fit(X, target))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CollapseWarning)
            model = ATkClassifier("hinge").fit(X, np.arange(61) // 21)
        with pytest.raises(ValueError, match=r"two classes, got 3.* equivalent_C"):
            theory.hinge_equivalent(model)
        with pytest.raises(ValueError, match=r"two classes, got 3.* nu_property"):
            theory.check_nu_property(model, X, np.arange(61) // 21)
        model = ATkClassifier("hinge", class_weight="balanced").fit(X, y)
        with pytest.raises(ValueError, match="expects class_weight=None"):
            theory.check_nu_property(model, X, y)

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"C": 0.0}, "C is expected to be finite and > 0"),
            ({"C": np.inf}, "C is expected to be finite and > 0"),
            ({"share": 20}, r"share is expected in \(0, 1\], got 20"),
            ({"share": 0.0}, "share is expected"),
            ({"share": 5e-324}, r"C n / \(rho k\) is expected to be finite.* larger k"),
            ({"threshold": 1.0}, "collapsed"),
            ({"threshold": -0.1}, "threshold is expected"),
            ({"threshold": np.nan}, "threshold is expected"),
        ],
    )
    def test_impossible_equivalents(self, wrong, message):
        with pytest.raises(ValueError, match=message):
            theory.equivalent_C(**{"C": 1.0, "share": 0.5, "threshold": 0.5, **wrong})

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"margins": [1.0]}, "vectors of finite numbers of one length"),
            ({"margins": [np.nan, 1.0]}, "vectors of finite numbers"),
            ({"top_weights": [np.inf, 0.0]}, "vectors of finite numbers"),
            ({"rho": 1.5}, "rho = 1 - threshold"),
            ({"rho": np.nan}, "rho = 1 - threshold"),
            ({"k": 3}, r"k is expected in \(0, 2\]"),
            ({"mass": [-1.0, 4.0]}, "a weight of -1"),
            ({"mass": [1e308, 1e308]}, "which float64 cannot add up"),
        ],
    )
    def test_impossible_margins_and_weights(self, wrong, message):
        given = {"margins": [-1.0, 2.0], "top_weights": [1.0, 0.0], "rho": 0.5, "k": 1, **wrong}
        with pytest.raises(ValueError, match=message):
            theory.nu_property(given.pop("margins"), given.pop("top_weights"), **given)
