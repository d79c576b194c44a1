"""The laws of AT_k-SVM and AT_k-SVR: a convex solver's answers, LIBSVM's answers, weights, the nu-property."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from kernel_problems import EXACT, draw, hinge_losses, squared_norm
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.metrics.pairwise import pairwise_kernels, rbf_kernel
from sklearn.svm import SVC, NuSVC, NuSVR, OneClassSVM

from atklearn import ATkClassifier, ATkRegressor, ATkSVC, ATkSVR
from atklearn.aggregates import AverageTopK


class TestConvexSolver:
    """The optimum of the dual quadratic program, by an independent solver."""

    @staticmethod
    def optimum(K, y, mass, k, C, *, bias, regression):
        values, vectors = np.linalg.eigh(K)
        root = (vectors * np.sqrt(np.maximum(values, 0.0))).T
        beta = cp.Variable(y.size)
        constraints = [cp.abs(beta) <= mass * C / k, cp.norm1(beta) <= C]
        if bias:
            constraints.append(cp.sum(beta) == 0)
        if not regression:
            constraints.append(cp.multiply(y, beta) >= 0)
        dual = cp.Problem(cp.Maximize(y @ beta - 0.5 * cp.sum_squares(root @ beta)), constraints)
        return dual.solve(solver=cp.CLARABEL) / C

    @pytest.mark.filterwarnings("ignore::atklearn.CollapseWarning")
    @pytest.mark.parametrize("seed", range(20))
    @pytest.mark.parametrize("bias", [True, False])
    @pytest.mark.parametrize("regression", [False, True])
    @pytest.mark.parametrize("weighted", [False, True])
    def test_random_problems(self, seed, bias, regression, weighted):
        rng = np.random.default_rng([seed, bias, regression, weighted])
        n = int(rng.integers(8, 80))
        X, y = draw(rng.integers(1 << 30), n=n, noise=rng.choice([0.1, 1.0, 3.0]), regression=regression)
        if regression:
            y = y * np.exp(3.0 * rng.standard_normal())
        else:
            y[:2] = 1, -1
        mass = rng.uniform(0.1, 3.0, n) if weighted else np.ones(n)
        k, C = float(rng.uniform(0.05, 1.0)), float(10.0 ** rng.uniform(-1.0, 3.0))
        name = ("rbf", "linear", "poly")[seed % 3]
        K = pairwise_kernels(X, metric=name, filter_params=True, gamma=0.5, degree=2, coef0=1.0)
        model = (ATkSVR if regression else ATkSVC)(
            name, gamma=0.5, degree=2, coef0=1.0, k=k, C=C, fit_intercept=bias, tol=1e-6
        )
        if seed % 2:
            model.set_params(kernel="precomputed").fit(K, y, mass)
        else:
            model.fit(X, y, mass)
        optimum = self.optimum(K, y, mass, k * mass.sum(), C, bias=bias, regression=regression)
        scale_of_y = np.abs(y).mean()
        assert_allclose(model.objective_, optimum, rtol=1e-5, atol=1e-6 * scale_of_y)
        # the published model has that value, by the definition of the objective alone
        K = K[:, model.support_]
        prediction = K @ model.dual_coef_[0] + model.intercept_[0]
        losses = np.abs(y - prediction) if regression else np.maximum(1.0 - y * prediction, 0.0)
        value = AverageTopK(k).value(losses, mass) + squared_norm(model, K) / (2.0 * C)
        assert_allclose(model.objective_, value, rtol=1e-9, atol=1e-9 * scale_of_y)
        # and its worst-case weights are a feasible dual point
        q = model.top_weights_
        assert (q <= mass / (k * mass.sum()) * (1.0 + 1e-9)).all()
        assert q.min() >= 0.0
        assert q.sum() <= 1.0 + 1e-12

    def test_small_problems_are_solved_to_rounding_whatever_tol(self):
        for seed in range(30):
            X, y = draw(seed)
            model = ATkSVC(k=0.3 + 0.02 * seed).fit(X, y)
            assert model.dual_gap_ < 1e-11


class TestPlainSVM:
    """k = n is the plain support vector machine with scikit-learn's C = C / n."""

    @pytest.mark.parametrize("seed", range(5))
    def test_all_samples(self, seed):
        X, y = draw(seed)
        ours = ATkSVC(k=1.0, C=30.0).fit(X, y)
        theirs = SVC(C=30.0 / y.size, tol=1e-9).fit(X, y)
        assert_array_equal(ours.support_, np.sort(theirs.support_))
        assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-6)

    def test_weighted(self):
        X, y = draw(1)
        mass = np.random.default_rng(0).uniform(0.0, 2.0, y.size)
        ours = ATkSVC(k=1.0, C=30.0, gamma=0.3).fit(X, y, mass)
        theirs = SVC(C=30.0 / mass.sum(), gamma=0.3, tol=1e-9).fit(X, y, mass)
        assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-6)

    def test_every_k_above_the_number_of_violations_is_the_same_machine(self):
        X, y = draw(2)
        c = 1.0
        plain = SVC(C=c, tol=1e-9).fit(X, y)
        enough = np.abs(plain.dual_coef_).sum() / c  # the k at which sum(alpha) <= c k stops to bind
        for k in (int(np.ceil(enough)), int(enough) + 5, y.size):
            model = ATkSVC(k=k, C=c * k).fit(X, y)
            assert_allclose(model.loss_threshold_, 0.0, atol=1e-9)
            assert_allclose(model.decision_function(X), plain.decision_function(X), atol=1e-6)
        assert ATkSVC(k=int(enough) - 3, C=c * (int(enough) - 3)).fit(X, y).loss_threshold_ > 1e-6


class TestNuSVM:
    """Where nu = k / n is feasible and rho <= 1: the nu-machine, scaled by rho = 1 - threshold."""

    @pytest.mark.parametrize("seed", range(5))
    @pytest.mark.parametrize("k", [0.2, 0.4])
    def test_classification(self, seed, k):
        X, y = draw(seed, noise=0.3)
        ours = ATkSVC(k=k, C=3.0, gamma=0.5).fit(X, y)
        theirs = NuSVC(nu=k, gamma=0.5, tol=1e-10).fit(X, y)
        rho = 1.0 - ours.loss_threshold_
        assert 0.0 < rho <= 1.0
        assert_allclose(ours.decision_function(X), rho * theirs.decision_function(X), atol=1e-6)

    def test_classification_with_weights(self):
        X, y = draw(3, noise=0.3)
        mass = np.random.default_rng(0).uniform(0.5, 2.0, y.size)
        ours = ATkSVC(k=0.3, C=3.0, gamma=0.5).fit(X, y, mass)
        theirs = NuSVC(nu=0.3, gamma=0.5, tol=1e-10).fit(X, y, mass)
        rho = 1.0 - ours.loss_threshold_
        assert_allclose(ours.decision_function(X), rho * theirs.decision_function(X), atol=1e-6)

    @pytest.mark.parametrize("seed", range(5))
    @pytest.mark.parametrize("k", [0.1, 0.5, 1.0])
    def test_regression(self, seed, k):
        X, y = draw(seed, regression=True)
        ours = ATkSVR(k=k, C=40.0).fit(X, y)
        theirs = NuSVR(nu=k, C=40.0 / ours.k_, tol=1e-9).fit(X, y)
        assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-5)

    @pytest.mark.parametrize("bias", [True, False])
    def test_paper_scaling_one_and_kernel_at_most_one_is_nu_svm(self, bias):
        """Proposition: with the paper's C = 1 and K(x, x) <= 1, rho <= 1 needs no constraint."""
        X, y = draw(4, noise=0.3)
        for k in (6, 15, 24):
            C = k / y.size  # the paper divides by n: its C is ours times n / k
            model = ATkSVC(k=k, C=C, gamma=0.5, fit_intercept=bias).fit(X, y)
            assert_allclose(model.top_weights_.sum(), 1.0)
            if bias:
                nu_svm = NuSVC(nu=k / y.size, gamma=0.5, tol=1e-10).fit(X, y).decision_function(X)
            else:
                Q = rbf_kernel(X, gamma=0.5) * y * y[:, None]
                nu_svm = y * (Q @ np.bincount(*self.one_class(Q, k / y.size), minlength=y.size))
            ours = model.decision_function(X)
            assert_allclose(ours / np.abs(ours).max(), nu_svm / np.abs(nu_svm).max(), atol=1e-6)

    @staticmethod
    def one_class(Q, nu):
        machine = OneClassSVM(kernel="precomputed", nu=nu, tol=1e-10).fit(Q)
        return machine.support_, machine.dual_coef_[0]

    @pytest.mark.parametrize("seed", range(5))
    @pytest.mark.parametrize("k", [3, 12, 30])
    def test_k_bounds_support_vectors_from_below_and_margin_errors_from_above(self, seed, k):
        X, y = draw(seed)
        model = ATkSVC(k=k, C=k / y.size).fit(X, y)
        assert model.support_.size >= k
        assert np.count_nonzero(hinge_losses(model, X, y) > model.loss_threshold_ + 1e-9) <= k
        X, y = draw(seed, regression=True)
        model = ATkSVR(k=k, C=20.0).fit(X, y)
        assert model.support_.size >= k
        assert np.count_nonzero(np.abs(y - model.predict(X)) > model.loss_threshold_ + 1e-9) <= k


class TestInfeasibleNu:
    """Where NuSVC refuses, AT_k is the plain machine."""

    @pytest.mark.parametrize("k", [0.4, 0.7, 0.95])
    def test_imbalanced_classes(self, k):
        X, y = draw(0)
        y = np.where(np.arange(y.size) % 10 == 0, 1, -1)
        with pytest.raises(ValueError, match="infeasible"):
            NuSVC(nu=k).fit(X, y)
        ours = ATkSVC(k=k, C=50.0).fit(X, y)
        theirs = SVC(C=50.0 / ours.k_, tol=1e-10).fit(X, y)
        assert_allclose(ours.dual_coef_[0], theirs.dual_coef_[0][np.argsort(theirs.support_)], atol=1e-6)
        assert_allclose(ours.loss_threshold_, 0.0, atol=1e-9)

    def test_exactly_at_the_limit(self):
        X, y = draw(1)
        k = 2 * int(min(np.sum(y > 0), np.sum(y < 0)))
        assert ATkSVC(k=k, C=5.0).fit(X, y).dual_gap_ < 1e-12


class TestLinearKernel:
    """With the linear kernel the kernel machines are the linear estimators."""

    @pytest.mark.parametrize("bias", [True, False])
    @pytest.mark.parametrize("k", [0.5, 0.8])
    def test_same_weights(self, bias, k):
        X, y = draw(0, noise=0.2)
        kernel = ATkSVC("linear", k=k, C=5.0, fit_intercept=bias, **EXACT).fit(X, y)
        linear = ATkClassifier("hinge", k=k, C=5.0, fit_intercept=bias, tol=1e-10).fit(X, y)
        assert_allclose(kernel.coef_, linear.coef_, atol=1e-4)
        assert_allclose(kernel.objective_, linear.objective_, rtol=1e-8)
        X, y = draw(0, regression=True)
        kernel = ATkSVR("linear", k=k, C=5.0, fit_intercept=bias, **EXACT).fit(X, y)
        linear = ATkRegressor("absolute_error", k=k, C=5.0, fit_intercept=bias, tol=1e-10).fit(X, y)
        assert_allclose(kernel.coef_[0], linear.coef_, atol=1e-4)
        assert_allclose(kernel.objective_, linear.objective_, rtol=1e-8)

    def test_no_coef_with_other_kernels(self):
        X, y = draw(0)
        model = ATkSVC().fit(X, y)
        assert not hasattr(model, "coef_")


class TestWeights:
    """Weight 2 is the sample twice, weight 0 is without it, whatever the form of the machine."""

    @pytest.mark.parametrize("bias", [True, False])
    @pytest.mark.parametrize("regression", [False, True])
    @pytest.mark.parametrize("k", [0.15, 0.6, 1.0])
    def test_weights_are_repetitions(self, bias, regression, k):
        X, y = draw(7, regression=regression)
        weight = np.random.default_rng(1).integers(0, 4, y.size)
        model = (ATkSVR if regression else ATkSVC)(k=k, C=20.0, fit_intercept=bias)
        weighted = clone(model).fit(X, y, weight)
        repeated = clone(model).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
        predict = "predict" if regression else "decision_function"
        assert_allclose(getattr(weighted, predict)(X), getattr(repeated, predict)(X), rtol=1e-7, atol=1e-9)
        assert_allclose(weighted.loss_threshold_, repeated.loss_threshold_, rtol=1e-7, atol=1e-9)
        assert_allclose(weighted.objective_, repeated.objective_, rtol=1e-10)
        assert not np.isin(weighted.support_, np.flatnonzero(weight == 0)).any()

    def test_weights_act_in_the_nu_regime(self):
        X, y = draw(7)
        model = ATkSVC(k=0.3, C=3.0)
        plain = clone(model).fit(X, y).decision_function(X)
        weighted = clone(model).fit(X, y, np.where(y > 0, 3.0, 1.0)).decision_function(X)
        assert np.abs(plain - weighted).max() > 0.01

    def test_class_weight_is_sample_weight(self):
        X, y = draw(8)
        by_class = ATkSVC(k=0.3, gamma=0.4, class_weight={1: 2.5, -1: 0.5}).fit(X, y)
        by_sample = ATkSVC(k=0.3, gamma=0.4).fit(X, y, np.where(y > 0, 2.5, 0.5))
        assert_allclose(by_class.decision_function(X), by_sample.decision_function(X), rtol=1e-9)

    def test_balanced_counts_weight(self):
        X, y = draw(9)
        weight = np.random.default_rng(2).integers(1, 3, y.size)
        model = ATkSVC(k=0.3, gamma=0.4, class_weight="balanced")
        weighted = clone(model).fit(X, y, weight)
        repeated = clone(model).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
        assert_allclose(weighted.decision_function(X), repeated.decision_function(X), rtol=1e-7, atol=1e-9)

    def test_order_of_samples_does_not_matter(self):
        X, y = draw(10)
        order = np.random.default_rng(0).permutation(y.size)
        one, other = ATkSVC(k=0.3).fit(X, y), ATkSVC(k=0.3).fit(X[order], y[order])
        assert_allclose(one.decision_function(X), other.decision_function(X), rtol=1e-7, atol=1e-9)
