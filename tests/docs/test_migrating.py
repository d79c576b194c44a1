"""The conversions of docs/migrating.md: on random problems, scikit-learn's model and ours are the same."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import HuberRegressor, LogisticRegression, QuantileRegressor, Ridge
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC, SVR, LinearSVC, NuSVC, NuSVR

from atklearn import ATkClassifier, ATkRegressor, ATkSVC, ATkSVR, Huber

SEEDS = range(4)
KERNEL = {"gamma": 0.3, "tol": 1e-9}  # a number: "scale" depends on weights here, and there it does not


class Drawn:
    """Rows, labels, numbers, weights (none for even seeds), and a strength of the penalty."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.n, d = int(rng.integers(60, 160)), int(rng.integers(2, 6))
        self.X = rng.standard_normal((self.n, d))
        f = self.X @ rng.standard_normal(d) + 0.3
        self.labels = np.where(f + 0.4 * rng.standard_normal(self.n) > 0.0, "yes", "no")
        self.numbers = f + rng.standard_t(4, self.n)
        self.weight = rng.uniform(0.5, 2.0, self.n) if seed % 2 else None
        self.total = float(self.n if self.weight is None else self.weight.sum())
        self.c = float(10.0 ** rng.uniform(-2.0, 0.5))


@pytest.fixture(params=SEEDS)
def drawn(request):
    return Drawn(request.param)


def assert_close(ours, theirs, rtol=1e-5):
    ours, theirs = np.ravel(ours), np.ravel(theirs)
    assert np.linalg.norm(ours - theirs) <= rtol * np.linalg.norm(theirs)


def with_intercept(model):
    return np.append(np.ravel(model.coef_), model.intercept_)


def test_logistic_regression(drawn):
    theirs = LogisticRegression(C=drawn.c, tol=1e-10, max_iter=10_000).fit(drawn.X, drawn.labels, drawn.weight)
    ours = ATkClassifier(k=1.0, C=drawn.c * drawn.total, tol=1e-12).fit(drawn.X, drawn.labels, drawn.weight)
    assert_close(with_intercept(ours), with_intercept(theirs))


@pytest.mark.parametrize("class_weight", ["balanced", {"yes": 3.0, "no": 0.5}])
def test_class_weights_are_part_of_the_total(drawn, class_weight):
    theirs = LogisticRegression(C=drawn.c, class_weight=class_weight, tol=1e-10, max_iter=10_000)
    theirs.fit(drawn.X, drawn.labels)
    each = 1.0 if class_weight == "balanced" else np.array([class_weight[label] for label in drawn.labels])
    C = drawn.c * float(np.broadcast_to(each, drawn.n).sum())
    ours = ATkClassifier(k=1.0, C=C, class_weight=class_weight, tol=1e-12).fit(drawn.X, drawn.labels)
    assert_close(with_intercept(ours), with_intercept(theirs))


def test_more_classes_are_one_against_the_rest():
    drawn = Drawn(0)
    y = np.digitize(drawn.numbers, np.quantile(drawn.numbers, [0.3, 0.7]))
    theirs = OneVsRestClassifier(LogisticRegression(C=drawn.c, tol=1e-10, max_iter=10_000)).fit(drawn.X, y)
    ours = ATkClassifier(k=1.0, C=drawn.c * drawn.n, tol=1e-12).fit(drawn.X, y)
    assert_close(ours.coef_, [each.coef_[0] for each in theirs.estimators_])


def test_defaults_are_those_of_scikit_learn(drawn):
    ours = ATkClassifier(k=1.0, tol=1e-12).fit(drawn.X, drawn.labels, drawn.weight)
    theirs = LogisticRegression(tol=1e-10, max_iter=10_000).fit(drawn.X, drawn.labels, drawn.weight)
    assert_close(with_intercept(ours), with_intercept(theirs))
    ours = ATkRegressor(k=1.0, tol=1e-12).fit(drawn.X, drawn.numbers, drawn.weight)
    assert_close(with_intercept(ours), with_intercept(Ridge().fit(drawn.X, drawn.numbers, drawn.weight)))


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_liblinear_penalises_the_intercept(drawn, loss):
    theirs = LinearSVC(C=drawn.c, loss=loss, tol=1e-9, max_iter=1_000_000, random_state=0)
    theirs.fit(drawn.X, drawn.labels, drawn.weight)
    ours = ATkClassifier(loss, k=1.0, C=drawn.c * drawn.total, penalize_intercept=True, tol=1e-12)
    ours.fit(drawn.X, drawn.labels, drawn.weight)
    assert_close(with_intercept(ours), with_intercept(theirs), rtol=1e-4)


def test_svc(drawn):
    theirs = SVC(C=drawn.c, **KERNEL).fit(drawn.X, drawn.labels, drawn.weight)
    ours = ATkSVC(k=1.0, C=drawn.c * drawn.total, **KERNEL).fit(drawn.X, drawn.labels, drawn.weight)
    assert_close(ours.decision_function(drawn.X), theirs.decision_function(drawn.X))


@pytest.mark.parametrize("part", [0.3, 1.0, 3.0])
def test_nu_svc_is_a_scale_away(drawn, part):
    """Below the C at which the scale is one: a multiple; above: the plain SVM with c = C / k."""
    nu = 0.35
    theirs = NuSVC(nu=nu, **KERNEL).fit(drawn.X, drawn.labels, drawn.weight)
    C = part * np.abs(theirs.dual_coef_).sum()
    ours = ATkSVC(k=nu, C=C, **KERNEL).fit(drawn.X, drawn.labels, drawn.weight)
    if part <= 1.0:
        assert 1.0 - ours.loss_threshold_ == pytest.approx(part, rel=1e-4)
    else:
        assert ours.loss_threshold_ == 0.0
        theirs = SVC(C=C / (nu * drawn.total), **KERNEL).fit(drawn.X, drawn.labels, drawn.weight)
    values = ours.decision_function(drawn.X) / (1.0 - ours.loss_threshold_)
    assert_close(values, theirs.decision_function(drawn.X), rtol=1e-4)


def test_nu_svr(drawn):
    nu = 0.4
    theirs = NuSVR(C=drawn.c, nu=nu, **KERNEL).fit(drawn.X, drawn.numbers, drawn.weight)
    ours = ATkSVR(k=nu, C=drawn.c * nu * drawn.total, **KERNEL).fit(drawn.X, drawn.numbers, drawn.weight)
    assert_close(ours.predict(drawn.X), theirs.predict(drawn.X))


def test_linear_nu_svr(drawn):
    theirs = NuSVR(C=drawn.c, nu=0.4, kernel="linear", tol=1e-9).fit(drawn.X, drawn.numbers, drawn.weight)
    ours = ATkRegressor("absolute_error", k=0.4, C=drawn.c * 0.4 * drawn.total, tol=1e-12)
    assert_close(ours.fit(drawn.X, drawn.numbers, drawn.weight).coef_, theirs.coef_)


@pytest.mark.parametrize("epsilon", [0.0, 0.7])
def test_svr_says_which_k_its_epsilon_is(drawn, epsilon):
    theirs = SVR(C=drawn.c, epsilon=epsilon, **KERNEL).fit(drawn.X, drawn.numbers, drawn.weight)
    outside = drawn.total if epsilon == 0.0 else np.abs(theirs.dual_coef_).sum() / drawn.c
    ours = ATkSVR(k=outside / drawn.total, C=drawn.c * outside, **KERNEL).fit(drawn.X, drawn.numbers, drawn.weight)
    assert_close(ours.predict(drawn.X), theirs.predict(drawn.X))
    assert ours.loss_threshold_ == pytest.approx(epsilon, abs=1e-5)


def test_ridge(drawn):
    alpha = 1.0 / drawn.c
    theirs = Ridge(alpha=alpha).fit(drawn.X, drawn.numbers, drawn.weight)
    ours = ATkRegressor(k=1.0, C=drawn.total / (2.0 * alpha), tol=1e-12).fit(drawn.X, drawn.numbers, drawn.weight)
    assert_close(with_intercept(ours), with_intercept(theirs), rtol=1e-8)


def test_huber_at_the_scale_that_was_found(drawn):
    """Without weights: with them, the scale that it finds is of the number of rows, not of their weight."""
    alpha = 1.0 / drawn.c
    theirs = HuberRegressor(epsilon=1.5, alpha=alpha, tol=1e-10, max_iter=10_000).fit(drawn.X, drawn.numbers)
    scale = theirs.scale_
    ours = ATkRegressor(Huber(1.5 * scale), k=1.0, C=drawn.n / (alpha * scale), tol=1e-12).fit(drawn.X, drawn.numbers)
    assert_close(with_intercept(ours), with_intercept(theirs), rtol=1e-4)


@pytest.mark.parametrize("q", [0.2, 0.5, 0.9])
def test_quantiles_take_one_more_row(drawn, q):
    X, y, n = drawn.X, drawn.numbers, drawn.n
    far = y.mean() + np.sign(q - 0.5) * 10.0 * np.ptp(y)
    weight = np.append(np.ones(n), abs(2.0 * q - 1.0) * n)
    ours = ATkRegressor("absolute_error", k=1.0, C=1e7, tol=1e-12)
    ours.fit(np.vstack([X, X.mean(axis=0)]), np.append(y, far), weight)
    theirs = QuantileRegressor(quantile=q, alpha=0.0).fit(X, y)

    def pinball(model):
        e = y - model.predict(X)
        return np.maximum(q * e, (q - 1.0) * e).sum()

    assert pinball(ours) == pytest.approx(pinball(theirs), rel=1e-8)  # where there are several, any is a minimum


def test_the_threshold_is_a_quantile_of_the_errors(drawn):
    ours = ATkRegressor("absolute_error", k=0.25, C=1e3, tol=1e-10).fit(drawn.X, drawn.numbers)
    sizes = np.abs(drawn.numbers - ours.predict(drawn.X))
    assert ours.loss_threshold_ == pytest.approx(np.quantile(sizes, 0.75, method="inverted_cdf"), rel=1e-6)


@pytest.mark.parametrize("tol", [1e-2, 1e-4])
def test_the_gap_bounds_the_coefficients(drawn, tol):
    rough = ATkClassifier(k=0.8, C=50.0, tol=tol).fit(drawn.X, drawn.labels, drawn.weight)
    exact = ATkClassifier(k=0.8, C=50.0, tol=1e-12).fit(drawn.X, drawn.labels, drawn.weight)
    assert np.linalg.norm(rough.coef_ - exact.coef_) <= np.sqrt(2.0 * 50.0 * rough.dual_gap_) + 1e-6
