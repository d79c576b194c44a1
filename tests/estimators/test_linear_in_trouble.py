"""The linear estimators when something is in the way: interrupts, too few steps, too small a k, bad input."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
import warnings
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import make_regression
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline

from atklearn import (
    ATkClassifier,
    ATkClassifierCV,
    ATkRegressor,
    ATkRegressorCV,
    ATkSVC,
    ATkSVR,
    CollapseWarning,
    LogLoss,
    OneRowWarning,
    SGDATkRegressor,
    atk_path,
)


class Watch:
    """A callback that counts Newton steps and stops after some."""

    def __init__(self, stop_after):
        self.steps, self.stop_after, self.closed = 0, stop_after, False

    def setup(self, estimator, context): ...

    def on_fit_task_begin(self, estimator, context): ...

    def on_fit_task_end(self, estimator, context):  # noqa: ARG002
        self.steps += context.task_name == "newton-step"
        return self.steps >= self.stop_after

    def teardown(self, estimator, context):  # noqa: ARG002
        self.closed = True


class TestProgress:
    def test_callbacks_see_every_step_and_can_stop(self, binary):
        pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")

        watch = Watch(stop_after=10_000)
        model = ATkClassifier(k=0.3)
        model.set_callbacks(watch)
        model.fit(*binary)
        assert watch.closed
        assert watch.steps == model.n_iter_ + 1
        watch = Watch(stop_after=2)
        model.set_callbacks(watch)
        model.fit(*binary)
        assert watch.steps == 2
        assert model.dual_gap_ > 1e-6 * model.objective_

    def test_not_converged_says_how_far_it_got(self, binary):
        with pytest.warns(ConvergenceWarning, match=r"certified to within .* of the optimum.*raise max_iter"):
            ATkClassifier(max_iter=1).fit(*binary)

    def test_one_warning_tells_of_all_classes_that_did_not_converge(self, flowers):
        with pytest.warns(ConvergenceWarning) as caught:
            model = ATkClassifier(k=0.9, max_iter=1).fit(*flowers)
        (warning,) = caught
        worst = model.classes_[np.argmax(model.dual_gap_ / model.objective_)]
        assert re.match(rf"3 of 3 classes .* of class {worst}, the worst", str(warning.message))
        assert warning.filename == __file__  # where fit was called

    @pytest.mark.parametrize(
        "around",
        [make_pipeline, OneVsRestClassifier, lambda model: GridSearchCV(model, {"C": [1.0]}, cv=2)],
        ids=["pipeline", "one-vs-rest", "search"],
    )
    def test_a_warning_points_at_the_user_also_where_scikit_learn_fits(self, flowers, around):
        with pytest.warns(ConvergenceWarning) as caught:
            around(ATkClassifier(k=0.9, max_iter=1)).fit(*flowers)
        assert {warning.filename for warning in caught} == {__file__}

    def test_interrupt_stops_within_a_second_and_keeps_the_earlier_fit(self):
        pressed = []

        def press():
            pressed.append(time.perf_counter())
            os.kill(os.getpid(), signal.SIGINT)

        class Impatient(LogLoss):
            """Somebody presses Ctrl-C a moment after the first look at the losses of many samples."""

            def expand(self, prediction, target):
                if prediction.size > 5000 and not pressed:
                    threading.Timer(0.02, press).start()
                    time.sleep(0.03)
                return super().expand(prediction, target)

        rng = np.random.default_rng(0)
        X = rng.standard_normal((400_000, 40))
        y = np.sign(X[:, 0] + rng.standard_normal(400_000))
        model = ATkClassifier(Impatient(), k=0.9, C=1.0).fit(X[:1000, :5], y[:1000])
        before = {name: np.copy(value) for name, value in vars(model).items() if name.endswith("_")}
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, y)
        assert time.perf_counter() - pressed[0] < 1.0
        assert {name for name in vars(model) if name.endswith("_")} == set(before)
        for name, value in before.items():
            assert_allclose(getattr(model, name), value)


class TestCollapse:
    @pytest.fixture
    def noisy(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((600, 4))
        return X, np.where(X[:, 0] + 0.7 * rng.standard_normal(600) > 0, "yes", "no")

    @pytest.mark.parametrize("loss", ["log_loss", "hinge", "squared_hinge"])
    @pytest.mark.parametrize("intercept", [True, False])
    def test_the_warning_names_the_k_at_which_the_optimum_leaves_zero(self, noisy, loss, intercept):
        X, y = noisy
        model = ATkClassifier(loss, k=0.05, fit_intercept=intercept)
        with pytest.warns(CollapseWarning, match="take k above") as caught:
            model.fit(X, y)
        assert not model.coef_.any()
        smallest = float(str(caught[0].message).split("above ")[1].split(" ")[0])
        below = ATkClassifier(loss, k=smallest - 0.02, fit_intercept=intercept)
        with pytest.warns(CollapseWarning):
            below.fit(X, y)
        above = ATkClassifier(loss, k=smallest + 0.02, fit_intercept=intercept).fit(X, y)
        assert above.coef_[0, 0] > 0
        assert above.score(X, y) > 0.7

    def test_a_strong_penalty_is_not_a_collapse(self, noisy):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = ATkClassifier(k=0.9, C=1e-6).fit(*noisy)
        assert np.linalg.norm(model.coef_) < 1e-5

    def test_hopeless_data_are_told(self):
        X = np.ones((20, 1))
        y = np.arange(20) % 2
        with pytest.warns(CollapseWarning, match="no k helps"):
            ATkClassifier(k=0.5).fit(X, y)

    def test_one_warning_tells_of_all_classes(self, noisy):
        X, y = noisy
        y = np.where(X[:, 1] > 1.5, "maybe", y)  # a class that a linear model tells from the rest
        with pytest.warns(CollapseWarning) as caught:
            ATkClassifier(k=np.float64(0.1)).fit(X, y)
        (warning,) = caught
        assert re.match(r"k=0\.1 is too small .* zero for 2 of 3 classes", str(warning.message))
        assert warning.filename == __file__
        assert (
            ATkClassifier(k=float(re.search(r"above ([\d.]+)", str(warning.message))[1]) + 0.02).fit(X, y).coef_.all()
        )


class TestClassWithoutWeight:
    """It is left out with a warning: bags of few samples miss a class now and then."""

    X = np.random.default_rng(0).standard_normal((20, 3))
    GRID = ATkClassifierCV(ks=[0.5, 1.0], Cs=[1.0], cv=2)

    @pytest.mark.parametrize("model", [ATkClassifier(), ATkClassifier("hinge", k=0.7), GRID, ATkSVC()], ids=str)
    @pytest.mark.parametrize("only", [0, 1])
    def test_the_other_of_two_is_predicted(self, model, only):
        y = np.arange(20) % 2
        with pytest.warns(UserWarning, match=rf"The samples of \[{1 - only}\] have no weight") as caught:
            model = clone(model).fit(self.X, y, y == only)
        assert len(caught) == 1
        assert set(model.predict(self.X)) == {only}
        assert 0.0 <= model.dual_gap_ <= model.objective_ * (1.0 + 1e-12) < 1e-9

    @pytest.mark.filterwarnings("ignore:The samples of", "ignore::atklearn.CollapseWarning")
    @pytest.mark.parametrize("model", [ATkClassifier(), ATkClassifier(k=0.7), ATkSVC(k=0.7)], ids=str)
    def test_small_data_can_be_bagged(self, model):
        bag = BaggingClassifier(model, n_estimators=20, random_state=0)
        assert bag.fit(self.X, np.arange(20) < 3).score(self.X, np.arange(20) < 3) > 0.8


class TestOneRow:
    X = np.arange(8.0).reshape(-1, 1)
    y = np.array([0.0, 1.0, 1.0, 2.0, 2.0, 4.0, 3.0, 9.0])

    @pytest.mark.parametrize("k", [1, np.int64(1)])
    @pytest.mark.parametrize("model", [ATkRegressor(), ATkSVR(), SGDATkRegressor(tol=None, random_state=0)])
    def test_who_writes_1_is_told_once_what_it_means(self, model, k):
        with pytest.warns(OneRowWarning, match="k=1.0 for all, k='max' for one") as caught:
            found = clone(model).set_params(k=k).fit(self.X, self.y).predict(self.X)
        assert [warning.filename for warning in caught] == [__file__]
        assert_allclose(found, clone(model).set_params(k="max").fit(self.X, self.y).predict(self.X))

    @pytest.mark.parametrize("k", ["max", 1.0, 2])
    def test_nobody_else_is(self, k):
        assert ATkRegressor(k=k).fit(self.X, self.y).k_ == {"max": 1.0, 1.0: 8.0, 2: 2.0}[k]

    def test_in_a_grid_each_k_means_what_it_means_alone(self):
        ks, plain = [0.5, 1, 1.0], {"Cs": [1.0], "cv": 2}
        with pytest.warns(OneRowWarning) as caught:
            model = ATkRegressorCV(ks=ks, **plain).fit(self.X, self.y)
        assert len(caught) == 1
        assert_allclose(model.ks_, [0.125, 0.5, 1.0])
        assert_allclose(ATkRegressorCV(ks=[0.5, "max", 1.0], **plain).fit(self.X, self.y).ks_, model.ks_)
        with pytest.warns(OneRowWarning):
            path = atk_path(self.X, self.y, ks=ks, Cs=[1.0], loss="squared_error")
        assert_allclose(path.ks, [4.0, 1.0, 8.0])


class TestBadInput:
    X = np.random.default_rng(0).standard_normal((20, 2))
    y = np.arange(20) % 2

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"k": 0}, r"\[1, 20\], got 0"),
            ({"k": 21}, r"\[1, 20\], got 21"),
            ({"k": 1.5}, r"\(0, 1\], got 1.5"),
            ({"k": -0.5}, r"fraction"),
            ({"k": "many"}, "'k'"),
            ({"C": 0.0}, "'C'"),
            ({"C": -1.0}, "'C'"),
            ({"tol": 0.0}, "'tol'"),
            ({"loss": "squared_error"}, "log_loss"),
            ({"loss": "lorentz"}, "log_loss"),
            ({"class_weight": {0: -1.0, 1: 1.0}}, "class_weight"),
        ],
    )
    def test_parameters(self, parameters, message):
        with pytest.raises(ValueError, match=message):
            ATkClassifier(**parameters).fit(self.X, self.y)

    @pytest.mark.parametrize(
        ("weights", "message"),
        [
            (-np.ones(20), ">= 0"),
            (np.zeros(20), "all-zero"),
            (np.ones(19), "one weight per sample"),
            (np.full(20, np.nan), "NaN"),
        ],
    )
    @pytest.mark.parametrize("estimator", [ATkClassifier(), ATkRegressor()])
    def test_weights(self, estimator, weights, message):
        with pytest.raises(ValueError, match=message):
            estimator.fit(self.X, self.y, sample_weight=weights)

    @pytest.mark.parametrize(
        ("X", "y", "message"),
        [
            (np.full((20, 2), np.nan), y, "NaN"),
            (np.full((20, 2), np.inf), y, "infinity"),
            (X, np.zeros(20), "2 classes"),
            (X[:0], y[:0], "0 sample"),
            (X[:, :0], y, "0 feature"),
            (X, y[:5], "inconsistent"),
            (X, np.linspace(0, 1, 20), "continuous"),
        ],
    )
    def test_data(self, X, y, message):
        with pytest.raises(ValueError, match=message):
            ATkClassifier().fit(X, y)

    def test_regression_targets(self):
        with pytest.raises(ValueError, match="NaN"):
            ATkRegressor().fit(self.X, np.full(20, np.nan))
        with pytest.raises(ValueError, match="log_loss"):
            ATkRegressor("log_loss").fit(self.X, self.y)

    def test_a_failed_fit_leaves_no_trace(self):
        model = ATkClassifier()
        with pytest.raises(ValueError, match="2 classes"):
            model.fit(self.X, np.zeros(20))
        assert not [name for name in vars(model) if name.endswith("_")]


class TestExactArithmetic:
    """What is certified holds in rational arithmetic at the published coefficients, or a warning says so."""

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    @pytest.mark.parametrize("size", [1.0, 1e7, 1e10])
    def test_of_rows_that_are_interpolated(self, size):
        for seed in range(40):
            rng = np.random.default_rng([seed, int(size)])
            X, y, C = size * rng.standard_normal((2, 2)), 1e4 * rng.standard_normal(2), 100.0
            model = ATkRegressor("absolute_error", k=1.0, C=C, fit_intercept=False).fit(X, y)
            exact = _exact_value(X, y, C, [Fraction(w) for w in model.coef_.tolist()])
            (a, b), (c, d) = ([Fraction(x) for x in row] for row in X.tolist())
            e, f = (Fraction(target) for target in y.tolist())
            interpolating = [(d * e - b * f) / (a * d - b * c), (a * f - c * e) / (a * d - b * c)]
            gap = Fraction(model.dual_gap_)
            assert abs(exact - Fraction(model.objective_)) <= gap
            assert exact - gap <= _exact_value(X, y, C, interpolating)

    def test_of_a_fit_that_was_certified_wrongly(self):
        X, y = np.array([[1e7, 3e6], [-2e6, 1.3e7]]), np.array([12345.678, -9876.543])
        with pytest.warns(ConvergenceWarning, match="no more can be certified in floating-point arithmetic"):
            model = ATkRegressor("absolute_error", k=1.0, C=100.0, fit_intercept=False).fit(X, y)
        assert model.dual_gap_ > 1e-5 * model.objective_

    def test_ordinary_data_pay_nothing_for_it(self):
        X, y = make_regression(500, 20, noise=10.0, random_state=0)
        model = ATkRegressor(k=0.5, tol=1e-10).fit(X, y)
        assert model.dual_gap_ <= 1e-10 * model.objective_


def _exact_value(X, y, C, w):
    """Return the objective for k = n, absolute errors and no intercept, in rational arithmetic."""
    predictions = [sum(Fraction(x) * v for x, v in zip(row, w, strict=True)) for row in X.tolist()]
    losses = [abs(f - Fraction(target)) for f, target in zip(predictions, y.tolist(), strict=True)]
    return sum(losses) / len(losses) + sum(v * v for v in w) / (2 * Fraction(C))


def test_a_fit_is_never_worse_than_zero():
    """Columns 1e18 apart and a huge C: wherever the solver gives up, w = 0 is at hand."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((2, 5)) * 10.0 ** rng.uniform(-9.0, 9.0, 5)
        y = rng.standard_normal(2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = ATkRegressor("squared_error", k=1.0, C=1e4, fit_intercept=False).fit(X, y)
        assert np.mean((y - X @ model.coef_) ** 2) <= np.mean(y**2) * (1.0 + 1e-6)
