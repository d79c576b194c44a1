"""The kernel machines: the laws of AT_k-SVM and AT_k-SVR, LIBSVM's answers, and the habits users expect."""

from __future__ import annotations

import signal
import threading
import time

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import pairwise_kernels, rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.svm import SVC, NuSVC, NuSVR, OneClassSVM
from sklearn.utils.estimator_checks import parametrize_with_checks

from atklearn import ATkClassifier, ATkRegressor, ATkSVC, ATkSVR, CollapseWarning, average_top_k
from atklearn.gram import Gram, Kernel
from atklearn.kernel_objective import KernelProblem
from atklearn.solvers import kernel as kernel_solver
from atklearn.solvers import reductions

EXACT = {"tol": 1e-9}


def draw(seed, *, n=60, noise=0.8, regression=False):
    """A small noisy problem: a curved boundary, or a curve."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    curve = np.sin(2.0 * X[:, 0]) + X[:, 1] + noise * rng.standard_normal(n)
    return X, curve if regression else np.where(curve > 0.2, 1, -1)


def hinge_losses(model, X, y):
    return np.maximum(1.0 - y * model.decision_function(X), 0.0)


def squared_norm(model, K):
    beta = model.dual_coef_[0]
    return beta @ K[np.ix_(model.support_, model.support_)] @ beta


@parametrize_with_checks(
    [ATkSVC(), ATkSVR(), ATkSVC(fit_intercept=False), ATkSVR(fit_intercept=False), ATkSVC("linear"), ATkSVR("linear")]
)
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_checks(estimator, check, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    check(estimator)


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
        prediction = K[:, model.support_] @ model.dual_coef_[0] + model.intercept_[0]
        losses = np.abs(y - prediction) if regression else np.maximum(1.0 - y * prediction, 0.0)
        value = average_top_k(k).value(losses, mass) + squared_norm(model, K) / (2.0 * C)
        assert_allclose(model.objective_, value, rtol=1e-9, atol=1e-9 * scale_of_y)
        # and its worst-case weights are a feasible dual point
        q = model.sample_weights_
        assert (q <= mass / (k * mass.sum()) * (1.0 + 1e-9)).all()
        assert q.min() >= 0.0
        assert q.sum() <= 1.0 + 1e-12

    def test_small_problems_are_solved_to_rounding_whatever_tol(self):
        for seed in range(30):
            X, y = draw(seed)
            model = ATkSVC(k=0.3 + 0.02 * seed).fit(X, y)
            assert model.dual_gap_ < 1e-12


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
            assert_allclose(model.threshold_, 0.0, atol=1e-9)
            assert_allclose(model.decision_function(X), plain.decision_function(X), atol=1e-6)
        assert ATkSVC(k=int(enough) - 3, C=c * (int(enough) - 3)).fit(X, y).threshold_ > 1e-6


class TestNuSVM:
    """Where nu = k / n is feasible and rho <= 1: the nu-machine, scaled by rho = 1 - threshold."""

    @pytest.mark.parametrize("seed", range(5))
    @pytest.mark.parametrize("k", [0.2, 0.4])
    def test_classification(self, seed, k):
        X, y = draw(seed, noise=0.3)
        ours = ATkSVC(k=k, C=3.0, gamma=0.5).fit(X, y)
        theirs = NuSVC(nu=k, gamma=0.5, tol=1e-10).fit(X, y)
        rho = 1.0 - ours.threshold_
        assert 0.0 < rho <= 1.0
        assert_allclose(ours.decision_function(X), rho * theirs.decision_function(X), atol=1e-6)

    def test_classification_with_weights(self):
        X, y = draw(3, noise=0.3)
        mass = np.random.default_rng(0).uniform(0.5, 2.0, y.size)
        ours = ATkSVC(k=0.3, C=3.0, gamma=0.5).fit(X, y, mass)
        theirs = NuSVC(nu=0.3, gamma=0.5, tol=1e-10).fit(X, y, mass)
        rho = 1.0 - ours.threshold_
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
            assert_allclose(model.sample_weights_.sum(), 1.0)
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
        assert np.count_nonzero(hinge_losses(model, X, y) > model.threshold_ + 1e-9) <= k
        X, y = draw(seed, regression=True)
        model = ATkSVR(k=k, C=20.0).fit(X, y)
        assert model.support_.size >= k
        assert np.count_nonzero(np.abs(y - model.predict(X)) > model.threshold_ + 1e-9) <= k


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
        assert_allclose(ours.threshold_, 0.0, atol=1e-9)

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
        assert_allclose(weighted.threshold_, repeated.threshold_, rtol=1e-7, atol=1e-9)
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


class TestKernels:
    @pytest.mark.parametrize("name", ["linear", "poly", "rbf", "sigmoid"])
    def test_kernel_values_are_scikit_learns(self, name):
        X, _ = draw(0)
        parameters = {"gamma": 0.3, "degree": 3, "coef0": 0.7}
        expected = pairwise_kernels(X, X[:7], metric=name, filter_params=True, **parameters)
        assert_allclose(Kernel(name, parameters)(X, X[:7]), expected, rtol=1e-10, atol=1e-12)
        assert_allclose(
            Kernel(name, parameters)(sp.csr_array(X), sp.csr_array(X[:7])), expected, rtol=1e-10, atol=1e-12
        )

    @pytest.mark.parametrize("bias", [True, False])
    def test_three_ways_to_give_a_kernel(self, bias):
        X, y = draw(0)
        weight = np.arange(y.size) % 3
        named = ATkSVC(gamma=0.4, fit_intercept=bias).fit(X, y, weight)
        function = ATkSVC(lambda A, B: rbf_kernel(A, B, gamma=0.4), fit_intercept=bias).fit(X, y, weight)
        K = rbf_kernel(X, gamma=0.4)
        precomputed = ATkSVC("precomputed", fit_intercept=bias).fit(K, y, weight)
        assert_allclose(function.decision_function(X), named.decision_function(X), rtol=1e-8)
        assert_allclose(precomputed.decision_function(K), named.decision_function(X), rtol=1e-8)
        assert_array_equal(precomputed.support_, named.support_)

    @pytest.mark.parametrize("name", ["linear", "poly", "rbf"])
    @pytest.mark.parametrize("bias", [True, False])
    def test_sparse_is_dense(self, name, bias):
        X, y = draw(0, noise=0.2)
        X = np.where(np.abs(X) > 0.7, X, 0.0)
        model = ATkSVC(name, coef0=1.0, fit_intercept=bias)
        dense, sparse = clone(model).fit(X, y), clone(model).fit(sp.csr_array(X), y)
        assert_allclose(sparse.gamma_, dense.gamma_)
        assert_allclose(sparse.decision_function(sp.csr_array(X)), dense.decision_function(X), rtol=1e-6, atol=1e-8)

    def test_gamma(self):
        X, y = draw(0)
        assert_allclose(ATkSVC().fit(X, y).gamma_, SVC().fit(X, y)._gamma)
        assert ATkSVC(gamma="auto").fit(X, y).gamma_ == 1.0 / 3.0
        assert ATkSVC(gamma=0.7).fit(X, y).gamma_ == 0.7
        assert ATkSVC(k=1.0).fit(np.ones((4, 2)), [0, 0, 0, 1]).gamma_ == 1.0

    def test_indefinite_kernel_gives_libsvms_answer(self):
        X, y = draw(0)
        ours = ATkSVC("sigmoid", gamma=0.3, k=1.0, C=30.0).fit(X, y)
        theirs = SVC(kernel="sigmoid", gamma=0.3, C=30.0 / y.size).fit(X, y)
        assert np.mean(ours.predict(X) == theirs.predict(X)) > 0.9


class TestManyClasses:
    def test_one_against_the_rest(self):
        X, labels = load_iris(return_X_y=True)
        y = np.array(["setosa", "versicolor", "virginica"])[labels]
        model = ATkSVC(k=0.5).fit(scale(X), y)
        scores = model.decision_function(scale(X))
        assert scores.shape == (150, 3)
        assert model.dual_coef_.shape == (3, model.support_.size)
        assert model.sample_weights_.shape == (150, 3)
        assert model.dual_gap_.shape == model.threshold_.shape == model.intercept_.shape == (3,)
        assert model.score(scale(X), y) > 0.9
        alone = ATkSVC(k=0.5).fit(scale(X), y == "versicolor")
        assert_allclose(scores[:, 1], alone.decision_function(scale(X)), rtol=1e-9)

    def test_a_class_without_weight_is_never_predicted(self):
        X, y = load_iris(return_X_y=True)
        model = ATkSVC(k=0.5).fit(scale(X), y, y > 0)
        assert set(model.predict(scale(X)[y > 0])) == {1, 2}

    def test_in_a_grid_search(self):
        X, y = load_iris(return_X_y=True)
        search = GridSearchCV(make_pipeline(StandardScaler(), ATkSVC()), {"atksvc__k": [0.3, 1.0]}, cv=3).fit(X, y)
        assert search.best_score_ > 0.9


class TestCertificate:
    """The gap is true and says so when it misses `tol`, however LIBSVM stopped."""

    @pytest.mark.parametrize("bias", [True, False])
    @pytest.mark.parametrize("regression", [False, True])
    def test_stopped_early(self, bias, regression, monkeypatch):
        X, y = draw(0, n=200, regression=regression)
        model = (ATkSVR if regression else ATkSVC)(k=0.4, C=1000.0, fit_intercept=bias)
        optimum = clone(model).fit(X, y).objective_
        monkeypatch.setattr(kernel_solver, "polish", lambda *_: None)
        for max_iter in (1, 5, 50):
            stopped = clone(model).set_params(max_iter=max_iter)
            with pytest.warns(ConvergenceWarning, match=r"certified to within .* raise max_iter"):
                stopped.fit(X, y)
            assert stopped.objective_ - stopped.dual_gap_ <= optimum <= stopped.objective_

    def test_polish_mends_an_early_stop(self):
        X, y = draw(0, n=200)
        stopped = ATkSVC(k=0.4, C=10.0, max_iter=300).fit(X, y)
        assert stopped.n_iter_ <= 300
        assert stopped.dual_gap_ <= 1e-3 * stopped.objective_

    def test_stricter_calls_follow_where_the_gap_is_missed(self, monkeypatch, capfd):
        monkeypatch.setattr(kernel_solver, "polish", lambda *_: None)
        X, y = draw(0, n=200)
        model = ATkSVC(k=0.4, C=1000.0, tol=1e-6, verbose=1).fit(X, y)
        assert model.dual_gap_ <= 1e-6 * model.objective_
        assert capfd.readouterr().out.count("duality gap") > 1

    def test_guess_of_the_machine_costs_time_only(self, monkeypatch):
        X, y = draw(0, n=200)
        for k in (0.2, 0.6, 0.9):
            answers = []
            for guess in (True, False):
                monkeypatch.setattr(reductions, "_is_probably_slack", lambda *_, guess=guess: guess)
                answers.append(ATkSVC(k=k, C=50.0).fit(X, y).objective_)
            assert_allclose(*answers, rtol=1e-10)

    def test_guess_is_right_on_large_problems(self):
        X, y = draw(0, n=1500, noise=0.2)
        for k, C in ((0.3, 10.0), (0.95, 1500.0)):
            model = ATkSVC(k=k, C=C).fit(X, y)
            problem = KernelProblem(
                Gram(X, Kernel("rbf", {"gamma": model.gamma_})),
                y.astype(float),
                np.ones(y.size),
                model.k_,
                C,
                two_sided=False,
                intercept=True,
            )
            guess = reductions._is_probably_slack(problem, reductions.LibsvmCall(-1, 200, False))
            assert guess == (model.threshold_ < 1e-9)

    def test_best_intercept_is_the_best(self):
        rng = np.random.default_rng(0)
        for seed in range(20):
            X, y = draw(seed, n=30, regression=bool(seed % 2))
            mass = rng.uniform(0.5, 2.0, 30)
            problem = KernelProblem(
                Gram(X, Kernel("linear")), y * 1.0, mass, 10.0, 1.0, two_sided=bool(seed % 2), intercept=True
            )
            residual = y + rng.standard_normal(30)
            best = problem.best_intercept(residual)
            top = average_top_k(10.0 / mass.sum())
            values = [top.value(problem.losses(residual - b), mass) for b in best + np.linspace(-0.5, 0.5, 101)]
            assert np.argmin(np.round(values, 12)) <= 50
            assert values[50] <= min(values) + 1e-12

    def test_middle_of_many_best_intercepts(self):
        """Both samples at their caps leave b an interval: swapping the classes has to mirror the answer."""
        scores = ATkSVC(k=1.0, C=0.01, gamma=1.0).fit([[0.0], [1.0]], [-1, 1]).decision_function([[0.0], [1.0]])
        assert_allclose(scores[0], -scores[1])
        assert scores[1] > 0.0


class TestCollapse:
    """Too small a k makes f = 0 optimal: the same zero as the linear estimators', with the k that it takes."""

    def contradiction(self):
        X, _ = draw(0, n=20)
        return np.repeat(X, 2, axis=0), np.tile([1, -1], 20)

    @pytest.mark.parametrize("bias", [True, False])
    def test_contradicting_labels(self, bias):
        X, y = self.contradiction()
        with pytest.warns(CollapseWarning, match="no k helps"):
            model = ATkSVC(k=0.5, fit_intercept=bias).fit(X, y)
        assert not model.decision_function(X).any()
        assert model.support_.size == 0
        assert model.objective_ == model.threshold_ == 1.0
        assert model.dual_gap_ <= 1e-6
        assert_allclose(model.sample_weights_.sum(), 1.0)

    def test_message_names_a_k_that_does_not_collapse(self):
        X, y = self.contradiction()
        extra, labels = draw(1, n=20, noise=0.0)
        X, y = np.vstack([X, extra]), np.append(y, labels)
        with pytest.warns(CollapseWarning, match=r"take k above 0\.6[67] \(40 of 60 samples\)"):
            ATkSVC(k=0.5, gamma=20.0).fit(X, y)
        assert ATkSVC(k=0.75, gamma=20.0, C=1000.0).fit(X, y).support_.size > 0


class TestInterrupt:
    def test_ctrl_c_is_heard_and_the_previous_fit_survives(self, monkeypatch):
        X, y = draw(0)
        model = ATkSVC(k=0.3).fit(X, y)
        before = model.decision_function(X)
        released, main = threading.Event(), threading.main_thread().ident
        monkeypatch.setattr(NuSVC, "fit", lambda *_, **__: released.wait(60.0))  # a LIBSVM that takes a minute
        begin = time.perf_counter()
        threading.Timer(0.1, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, y)
        released.set()
        assert time.perf_counter() - begin < 30.0
        assert_array_equal(model.decision_function(X), before)

    def test_failed_fit_leaves_the_previous_one(self):
        X, y = draw(0)
        model = ATkSVC().fit(X, y)
        before = model.decision_function(X)
        with pytest.raises(ValueError, match="k as an int"):
            model.set_params(k=1000).fit(X, y)
        assert_array_equal(model.decision_function(X), before)


class TestBadInput:
    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"k": 0}, "expected in"),
            ({"k": 1.5}, "fraction"),
            ({"C": 0.0}, "'C' parameter"),
            ({"kernel": "cosine"}, "'kernel' parameter"),
            ({"gamma": -1.0}, "'gamma' parameter"),
            ({"max_iter": 0}, "'max_iter' parameter"),
            ({"kernel": lambda X, Y: X @ Y.T @ X}, "A kernel function is expected to return"),
            ({"kernel": "precomputed"}, "expected to be a square kernel matrix"),
            ({"class_weight": {1: 0.0}}, "positive one to at least 2 classes"),
        ],
    )
    def test_parameters(self, parameters, message):
        X, y = draw(0)
        with pytest.raises(ValueError, match=message):
            ATkSVC(**parameters).fit(X, y)

    def test_data(self):
        X, y = draw(0)
        with pytest.raises(ValueError, match="at least 2 classes"):
            ATkSVC().fit(X, np.ones(y.size))
        with pytest.raises(ValueError, match="at least 2 classes"):
            ATkSVC().fit(X, y, y > 0)
        with pytest.raises(ValueError, match="a weight of -1"):
            ATkSVR().fit(X, y, np.where(y > 0, 1.0, -1.0))
        with pytest.raises(TypeError, match="Sparse data was passed"):
            ATkSVC("precomputed").fit(sp.csr_array(X @ X.T), y)
        with pytest.raises(NotFittedError):
            ATkSVR().predict(X)

    def test_constant_target(self):
        X, _ = draw(0)
        for bias in (True, False):
            model = ATkSVR(fit_intercept=bias, C=1e4).fit(X, np.full(60, 3.0))
            assert_allclose(model.predict(X), 3.0, atol=0.1)


def test_regression_on_real_data():
    X, y = load_diabetes(return_X_y=True)
    for bias in (True, False):
        model = ATkSVR(k=0.5, C=1e5, fit_intercept=bias).fit(X, y)
        assert model.dual_gap_ <= 1e-3 * model.objective_
        assert model.score(X, y) > 0.3
