"""The kernel machines as estimators: scikit-learn's checks, kernels, classes, certificate, interrupts, bad input."""

from __future__ import annotations

import signal
import threading
import time

import numpy as np
import pytest
import scipy.sparse as sp
from kernel_problems import draw, squared_norm
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import pairwise_kernels, rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.svm import SVC, NuSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from atklearn import ATkClassifier, ATkRegressor, ATkSVC, ATkSVR, CollapseWarning
from atklearn.aggregates import AverageTopK
from atklearn.kernel import problem as kernel_problem
from atklearn.kernel import solve as kernel_solver
from atklearn.kernel.problem import Kernel, KernelMatrix, KernelProblem


@parametrize_with_checks(
    [ATkSVC(), ATkSVR(), ATkSVC(fit_intercept=False), ATkSVR(fit_intercept=False), ATkSVC("linear"), ATkSVR("linear")]
)
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_checks(estimator, check, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    check(estimator)


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

    def test_a_function_may_return_a_sparse_matrix(self):
        X, y = draw(0, noise=0.2)
        sparse = ATkSVC(lambda A, B: A @ B.T, k=0.5).fit(sp.csr_array(X), y)
        assert_allclose(
            sparse.decision_function(sp.csr_array(X)), ATkSVC("linear", k=0.5).fit(X, y).decision_function(X)
        )

    def test_weights_of_features_cannot_be_written_into(self):
        model = ATkSVC("linear").fit(*draw(0))
        with pytest.raises(ValueError, match="read-only"):
            model.coef_[0, 0] = 0.0

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
        assert model.top_weights_.shape == (150, 3)
        assert model.dual_gap_.shape == model.loss_threshold_.shape == model.intercept_.shape == (3,)
        assert model.score(scale(X), y) > 0.9
        alone = ATkSVC(k=0.5).fit(scale(X), y == "versicolor")
        assert_allclose(scores[:, 1], alone.decision_function(scale(X)), rtol=1e-9)

    def test_a_class_without_weight_is_never_predicted(self):
        X, y = load_iris(return_X_y=True)
        with pytest.warns(UserWarning, match=r"The samples of \[0\] have no weight"):
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

    @pytest.mark.parametrize("max_iter", [1, 5, 50])
    @pytest.mark.parametrize("seed", range(50))
    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore::atklearn.CollapseWarning")
    def test_from_a_poor_start_it_is_that_of_the_coefficients(self, seed, max_iter):
        """The steps from a poor start are huge, and clipped at once: the residual they leave is not believed."""
        rng = np.random.default_rng(seed)
        n, regression = int(rng.integers(5, 40)), bool(rng.integers(2))
        X, y = draw(seed, n=n, regression=regression)
        X = X.round() if rng.integers(2) else X
        if not regression:
            y[:2] = 1, -1
        name, k, C = str(rng.choice(["linear", "rbf"])), float(rng.uniform(0.2, 1.0)), float(10.0 ** rng.uniform(0, 3))
        model = (ATkSVR if regression else ATkSVC)(name, gamma=0.5, k=k, C=C, fit_intercept=bool(rng.integers(2)))
        best, stopped = clone(model).fit(X, y), clone(model).set_params(max_iter=max_iter).fit(X, y)
        K = pairwise_kernels(X, metric=model.kernel, filter_params=True, gamma=0.5)[:, stopped.support_]
        prediction = K @ stopped.dual_coef_[0] + stopped.intercept_[0]
        losses = np.abs(y - prediction) if regression else np.maximum(1.0 - y * prediction, 0.0)
        value = AverageTopK(model.k).value(losses) + squared_norm(stopped, K) / (2.0 * model.C)
        assert_allclose(stopped.objective_, value, rtol=1e-10)
        rounding = 1e-9 * best.objective_
        assert best.dual_gap_ < rounding
        assert stopped.objective_ - stopped.dual_gap_ - rounding <= best.objective_ <= stopped.objective_ + rounding

    def test_polish_mends_an_early_stop(self):
        X, y = draw(0, n=200)
        stopped = ATkSVC(k=0.4, C=10.0, max_iter=300).fit(X, y)
        assert stopped.n_iter_ <= 300
        assert stopped.dual_gap_ <= 1e-3 * stopped.objective_

    @pytest.mark.parametrize("seed", range(4))
    @pytest.mark.parametrize("regression", [False, True])
    @pytest.mark.parametrize("kernel", ["linear", "precomputed"])
    def test_features_far_from_zero_without_a_bias_are_solved_soon(self, seed, regression, kernel):
        """LIBSVM would take a hundred million iterations for sixteen rows."""
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((16, 4)) + 100.0, rng.standard_normal(16)
        y = y if regression else np.where(y > 0.0, 1, -1)
        model = (ATkSVR if regression else ATkSVC)(kernel, k=1.0, C=2000.0, fit_intercept=False)
        model.fit(X if kernel == "linear" else X @ X.T, y)
        linear = (ATkRegressor("absolute_error") if regression else ATkClassifier("hinge")).set_params(
            k=1.0, C=2000.0, fit_intercept=False, tol=1e-10
        )
        assert_allclose(model.objective_, linear.fit(X, y).objective_, rtol=1e-7)
        assert model.dual_gap_ <= 1e-3 * model.objective_
        assert model.n_iter_ <= 1_000_000

    def test_many_rows_without_a_linear_form_have_libsvms_own_limit(self, monkeypatch):
        X, y = draw(0, regression=True)
        monkeypatch.setattr(kernel_problem, "_FEW", 10)
        monkeypatch.setattr(kernel_solver, "_ITERATIONS", 500)
        monkeypatch.setattr(kernel_solver, "_ITERATIONS_PER_ROW", 1)
        monkeypatch.setattr(kernel_solver, "polish", lambda *_: None)
        with pytest.warns(ConvergenceWarning, match=r"certified to within .* raise max_iter"):
            assert ATkSVR(C=1e4, fit_intercept=False).fit(X + 10.0, y).n_iter_ == 500

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
                monkeypatch.setattr(kernel_solver, "_is_probably_slack", lambda *_, guess=guess: guess)
                answers.append(ATkSVC(k=k, C=50.0).fit(X, y).objective_)
            assert_allclose(*answers, rtol=1e-10)

    def test_guess_is_right_on_large_problems(self):
        X, y = draw(0, n=1500, noise=0.2)
        for k, C in ((0.3, 10.0), (0.95, 1500.0)):
            model = ATkSVC(k=k, C=C).fit(X, y)
            problem = KernelProblem(
                KernelMatrix(X, Kernel("rbf", {"gamma": model.gamma_})),
                y.astype(float),
                np.ones(y.size),
                model.k_,
                C,
                two_sided=False,
                intercept=True,
            )
            guess = kernel_solver._is_probably_slack(problem, kernel_solver.LibsvmCall(-1, 200, False))
            assert guess == (model.loss_threshold_ < 1e-9)

    def test_best_intercept_is_the_best(self):
        rng = np.random.default_rng(0)
        for seed in range(20):
            X, y = draw(seed, n=30, regression=bool(seed % 2))
            mass = rng.uniform(0.5, 2.0, 30)
            problem = KernelProblem(
                KernelMatrix(X, Kernel("linear")), y * 1.0, mass, 10.0, 1.0, two_sided=bool(seed % 2), intercept=True
            )
            residual = y + rng.standard_normal(30)
            best = problem.best_intercept(residual)
            top = AverageTopK(10.0 / mass.sum())
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
        assert model.objective_ == model.loss_threshold_ == 1.0
        assert model.dual_gap_ <= 1e-6
        assert_allclose(model.top_weights_.sum(), 1.0)

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
