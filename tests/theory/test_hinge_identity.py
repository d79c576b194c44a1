"""For the hinge, k is a second name for C: AT_k fits are multiples of average fits; with other losses they are not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.svm import SVC

from atklearn import ATkClassifier, ATkClassifierCV, ATkRegressor, ATkSVC, ATkSVR, CollapseWarning, Hinge, theory

EXACT = 1e-10
INTERCEPTS = {
    "free intercept": {},
    "penalised intercept": {"penalize_intercept": True},
    "no intercept": {"fit_intercept": False},
}


def noisy_problem(seed):
    """Return X, y, fresh X, weights, and k and C at which lambda > 0: labels noisy enough for k to matter."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((161, 4))
    y = np.where(X[:61, 0] + 0.6 * rng.standard_normal(61) > 0.0, "yes", "no")
    parameters = {"k": rng.uniform(0.5, 0.8), "C": 10.0 ** rng.uniform(-1.5, 0.0), "tol": EXACT}
    return X[:61], y, X[61:], rng.uniform(0.2, 2.0, 61), parameters


def assert_is_multiple_of_average(model, X, y, fresh, mass):
    """Fit both; the scores of the one are rho times those of the other, and so are the coefficients, if there are."""
    rho, C = theory.hinge_equivalent(model.fit(X, y, mass))
    assert 0.0 < rho < 1.0  # a case that says something
    average = type(model)(**{**model.get_params(), "k": 1.0, "C": C}).fit(X, y, mass)
    scores = model.decision_function(fresh)
    np.testing.assert_allclose(scores, rho * average.decision_function(fresh), rtol=0, atol=1e-5 * np.ptp(scores))
    if hasattr(model, "coef_"):
        atol = 1e-5 * np.abs(model.coef_).max()
        np.testing.assert_allclose(model.coef_, rho * average.coef_, rtol=0, atol=atol)
        np.testing.assert_allclose(model.intercept_, rho * average.intercept_, rtol=0, atol=atol)
    assert np.array_equal(model.predict(fresh), average.predict(fresh))


class TestIdentity:
    """AT_k with hinge is rho times the average with hinge at another C."""

    @pytest.mark.parametrize("intercept", INTERCEPTS.values(), ids=INTERCEPTS)
    @pytest.mark.parametrize("weighted", [False, True], ids=["counts", "weights"])
    @pytest.mark.parametrize("seed", range(5))
    def test_of_linear_models(self, intercept, weighted, seed):
        X, y, fresh, mass, parameters = noisy_problem(seed)
        model = ATkClassifier("hinge", **intercept, **parameters)
        assert_is_multiple_of_average(model, X, y, fresh, mass if weighted else None)

    @pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
    @pytest.mark.parametrize("weighted", [False, True], ids=["counts", "weights"])
    @pytest.mark.parametrize("seed", range(3))
    def test_of_kernel_machines(self, kernel, weighted, seed):
        X, y, fresh, mass, parameters = noisy_problem(seed)
        assert_is_multiple_of_average(ATkSVC(kernel, **parameters), X, y, fresh, mass if weighted else None)

    @pytest.mark.parametrize("intercept", [True, False])
    def test_of_class_weights(self, intercept):
        X, y, fresh, mass, parameters = noisy_problem(0)
        weights = {"yes": 1.2, "no": 0.9}
        for model in (
            ATkClassifier("hinge", class_weight=weights, fit_intercept=intercept, **parameters),
            ATkSVC(class_weight=weights, fit_intercept=intercept, **parameters),
        ):
            assert_is_multiple_of_average(model, X, y, fresh, mass)

    def test_of_the_svm_of_others(self):
        X, y, fresh, mass, parameters = noisy_problem(1)
        model = ATkSVC(gamma=0.3, **parameters).fit(X, y, mass)
        rho, C = theory.hinge_equivalent(model)
        svm = SVC(C=C / mass.sum(), gamma=0.3, tol=1e-8).fit(X, y, mass)
        np.testing.assert_allclose(
            model.decision_function(fresh), rho * svm.decision_function(fresh), rtol=0, atol=1e-6 * rho
        )

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
            np.testing.assert_allclose(weights, (1.0 - threshold) * average.coef_[row], atol=1e-6)

    def test_of_a_model_searched_for(self):
        X, y, _, _, _ = noisy_problem(0)
        search = ATkClassifierCV(Hinge(), ks=[0.8], Cs=[1.0], cv=2).fit(X, y)
        assert theory.hinge_equivalent(search) == theory.hinge_equivalent(search.best_estimator_)


def direction(model):
    """Return the boundary as a vector of length one, intercept included."""
    boundary = np.append(model.coef_, model.intercept_)
    return boundary / np.linalg.norm(boundary)


def distance_to_averages(kind, loss):
    """Return how near the direction of an AT_k fit comes to that of an average fit, over a fine grid of C."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((101, 3))
    target = X[:, 0] + 0.5 * rng.standard_normal(101)
    X[:8] += [2.0, 1.5, 0.0]  # a group that the others speak against: top and average disagree
    target[:8] = -2.0
    target = target > 0.0 if kind is ATkClassifier else target
    fit = kind(loss, k=0.5, tol=1e-8, C=1.0).fit(X, target)
    average = kind(loss, k=1.0, tol=1e-8)
    distances = [
        np.linalg.norm(direction(average.set_params(C=C).fit(X, target)) - direction(fit))
        for C in np.geomspace(1e-3, 1e5, 161)
    ]
    return min(distances)


class TestOtherLosses:
    """No C of the average gives what AT_k gives, but for the hinge."""

    def test_the_hinge_comes_as_near_as_the_grid_allows(self):
        assert distance_to_averages(ATkClassifier, "hinge") < 1e-3

    @pytest.mark.parametrize(
        ("kind", "loss"),
        [
            (ATkClassifier, "log_loss"),
            (ATkClassifier, "squared_hinge"),
            (ATkRegressor, "squared_error"),
            (ATkRegressor, "absolute_error"),
            (ATkRegressor, "huber"),
        ],
    )
    def test_others_stay_away(self, kind, loss):
        assert distance_to_averages(kind, loss) > 1e-2


class TestRefusals:
    """What has no equivalent is told so."""

    def test_collapsed_fits(self):
        X, y, _, _, _ = noisy_problem(0)
        for model in (ATkClassifier("hinge", k=2), ATkSVC("linear", k=2)):
            with pytest.warns(CollapseWarning):
                model.fit(X, y)
            assert not model.coef_.any()
            with pytest.raises(ValueError, match=r"collapsed \(w = 0\).* larger k"):
                theory.hinge_equivalent(model)

    def test_the_C_is_the_one_that_was_used(self):
        X, y, _, _, _ = noisy_problem(0)
        unsaid, said = (ATkClassifier("hinge", k=0.9, C=C).fit(X, y) for C in (None, float(y.size)))
        assert theory.hinge_equivalent(unsaid) == theory.hinge_equivalent(said)

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

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"C": 0.0}, "C is expected to be positive"),
            ({"share": 20}, r"share is expected in \(0, 1\], got 20"),
            ({"share": 0.0}, "share is expected"),
            ({"threshold": 1.0}, "collapsed"),
            ({"threshold": -0.1}, "threshold is expected"),
            ({"threshold": np.nan}, "threshold is expected"),
        ],
    )
    def test_impossible_numbers(self, wrong, message):
        with pytest.raises(ValueError, match=message):
            theory.equivalent_C(**{"C": 1.0, "share": 0.5, "threshold": 0.5, **wrong})
