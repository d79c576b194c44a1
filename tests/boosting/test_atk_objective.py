"""The objective for boosting libraries, against finite differences, brute force and the libraries' own objectives."""

from __future__ import annotations

import copy
import pickle

import lightgbm
import numpy as np
import pytest
import xgboost
from numpy.testing import assert_allclose, assert_array_equal
from rows_cases import LogCosh
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.model_selection import GridSearchCV

from atklearn import Huber, LogLoss
from atklearn.aggregates import AverageTopK
from atklearn.boosting import ATkMetric, ATkObjective
from atklearn.boosting.derivatives import steady_expansion
from atklearn.losses.individual import INDIVIDUAL_LOSSES, task_of

LOSSES = [*INDIVIDUAL_LOSSES, LogCosh()]
REGRESSION = [loss for loss in LOSSES if task_of(loss) == "regression"]


def draw(loss, n=40, seed=0):
    """Return targets, predictions away from every kink, and weights."""
    rng = np.random.default_rng(seed)
    y = rng.standard_normal(n)
    if task_of(loss) == "classification":
        y = np.sign(y)
    f = rng.standard_normal(n) * 1.5
    f += 1e-3 * (np.abs(f - y) < 1e-3)
    return y, f, rng.integers(1, 4, n).astype(float)


def individual(loss):
    return INDIVIDUAL_LOSSES[loss]() if isinstance(loss, str) else loss


def smoothed(losses, mass, k, width):
    """The smoothed average of the k largest losses: the largest value over densities, which a clipped line attains."""
    centre = k / mass.sum()
    far = losses.max() - losses.min() + width

    def densities(lam):
        return np.clip(centre + (losses - lam) / width, 0.0, 1.0)

    r = densities(brentq(lambda lam: mass @ densities(lam) - k, losses.min() - far, losses.max() + far, xtol=1e-14))
    return float(mass @ (r * losses - 0.5 * width * (r - centre) ** 2) / k)


def unit_of(loss):
    return 0.5 if loss == "squared_error" else 1.0


@pytest.mark.parametrize("loss", LOSSES, ids=str)
class TestGradient:
    @pytest.mark.parametrize("k", [0.2, 7, 0.55, 0.999])
    @pytest.mark.parametrize("width", [0.05, 1.0, 20.0])
    def test_is_that_of_the_smoothed_average_of_the_largest_losses(self, loss, k, width):
        y, f, mass = draw(loss)
        total = mass.sum()
        losses = individual(loss)(f, y)
        mean = np.average(losses, weights=mass)
        deviation = np.sqrt(np.average((losses - mean) ** 2, weights=mass))

        def value(f):
            return smoothed(individual(loss)(f, y), mass, k if isinstance(k, int) else k * total, width * deviation)

        gradient, _ = ATkObjective(loss, k, smoothing=width)(y, f, mass)
        h = 1e-6
        differences = [(value(f + h * row) - value(f - h * row)) / (2.0 * h) for row in np.eye(f.size)]
        assert_allclose(gradient, unit_of(loss) * total * np.array(differences), atol=2e-6 * total)

    @pytest.mark.parametrize("k", [1, 0.2, 1.0])
    def test_of_a_weight_is_that_of_repetition(self, loss, k):
        y, f, mass = draw(loss)
        times = mass.astype(int)
        weighted = ATkObjective(loss, k)(y, f, mass)
        repeated = ATkObjective(loss, k)(np.repeat(y, times), np.repeat(f, times))
        for one, other in zip(weighted, repeated, strict=True):
            first = np.concatenate([[0], np.cumsum(times)[:-1]])
            assert_allclose(one, other[first] * times, rtol=1e-9, atol=1e-12)

    def test_is_the_losses_own_for_the_average(self, loss):
        y, f, mass = draw(loss)
        gradient, hessian = ATkObjective(loss, 1.0)(y, f, mass)
        s, slope, _ = individual(loss).expand(f, y)
        if individual(loss).kink == "positive_part":
            slope = slope * (s > 0.0)
        elif individual(loss).kink == "absolute":
            slope = slope * np.sign(s)
        assert_allclose(gradient, unit_of(loss) * mass * slope)
        assert (hessian > 0.0).all()

    def test_pulls_at_the_top_alone_and_weighs_everywhere(self, loss):
        y, f, mass = draw(loss)
        gradient, hessian = ATkObjective(loss, 0.2, smoothing=1e-9)(y, f, mass)
        average = ATkObjective(loss, 1.0)(y, f, mass)
        density = AverageTopK(0.2).weights(individual(loss)(f, y), mass) * mass.sum() / mass
        assert_allclose(gradient, density * average[0], atol=1e-6 * mass.sum())
        assert_allclose(hessian, np.maximum(density, 1.0) * average[1], rtol=1e-5)

    def test_starts_from_the_best_constant(self, loss):
        y, _, mass = draw(loss)
        for k in (1.0, 0.3, 2):

            def cost(c, k=k):
                return AverageTopK(k).value(individual(loss)(np.full(y.size, c), y), mass)

            start = ATkObjective(loss, k).start(y, mass)
            best = min(cost(c) for c in np.linspace(y.min() - 1.0, y.max() + 1.0, 2001))
            assert cost(start) <= best * (1.0 + 1e-6) + 1e-9


@pytest.mark.parametrize("name", list(INDIVIDUAL_LOSSES))
@pytest.mark.parametrize("k", [0.2, 1.0])
def test_a_loss_in_python_and_its_compiled_code_agree(name, k):
    kind = INDIVIDUAL_LOSSES[name]
    in_python = type(kind.__name__, (kind,), {})()  # a subclass might change the loss, so it is not compiled
    y, f, mass = draw(name, n=20_000)
    for weight in (None, mass):
        one, other = (ATkObjective(loss, k, smoothing=0.3)(y, f, weight) for loss in (name, in_python))
        assert_allclose(one, other, rtol=1e-8, atol=1e-9)


class TestSmoothing:
    def test_goes_from_wide_to_narrow(self):
        objective = ATkObjective(smoothing=(4.0, 0.25), rounds=4)
        assert_allclose([objective.width_at(t) for t in range(7)], [4.0, 2.0, 1.0, 0.5, 0.25, 0.25, 0.25])
        assert ATkObjective(smoothing=2.0).width_at(50) == 2.0

    def test_that_is_wide_is_the_average(self):
        y, f, mass = draw("squared_error")
        wide, average = ATkObjective(k=0.2, smoothing=1e9)(y, f, mass), ATkObjective(k=1.0)(y, f, mass)
        assert_allclose(wide, average, rtol=1e-6)

    def test_begins_anew_with_every_fit(self):
        y, f, _ = draw("squared_error")
        objective = ATkObjective(k=0.2)
        first = [objective(y, np.full(y.size, 0.5)), objective(y, f), objective(y, f)]
        again = [objective(y, np.full(y.size, 0.5)), objective(y, f), objective(y, f)]
        assert_allclose(first, again, rtol=1e-12)
        assert not np.allclose(first[1][0], first[2][0], rtol=1e-6)  # since the width is another one


class TestCurvature:
    def test_bounds_a_robust_loss_from_above(self):
        target, loss = np.zeros(1), Huber(0.5)
        for at in (-3.0, -0.4, 0.2, 2.0):
            value, slope, curvature, _ = steady_expansion(loss, np.array([at]), target, None, 1.0)
            steps = np.linspace(-5.0, 5.0, 101)
            parabola = value + slope * steps + 0.5 * curvature * steps**2
            assert (parabola >= loss(at + steps, np.zeros(101)) - 1e-12).all()

    @pytest.mark.parametrize("loss", LOSSES, ids=str)
    def test_is_never_zero(self, loss):
        y = np.array([1.0, -1.0, 1.0, 1.0])
        for f in (np.array([40.0, -50.0, 3.0, 0.2]), y):
            assert (steady_expansion(individual(loss), f, y, None, 4.0)[2] > 0.0).all()
            assert (ATkObjective(loss, 1)(y, f)[1] > 0.0).all()


def trees(library, task, objective, n_estimators=20, **options):
    """Return an estimator of one of the libraries, silent and on one thread."""
    if library == "lightgbm":
        return getattr(lightgbm, f"LGBM{task}")(
            objective=objective, n_estimators=n_estimators, n_jobs=1, verbosity=-1, **options
        )
    return getattr(xgboost, f"XGB{task}")(objective=objective, n_estimators=n_estimators, n_jobs=1, **options)


def raw(library, model, X, y, start=0.0, **fitting):
    """Return raw predictions of a model that is fitted from a constant on."""
    if library == "lightgbm":
        base = np.full((y.size, 3) if y.dtype.kind == "i" and y.max() == 2 else y.size, start)
        return start + model.fit(X, y, init_score=base.ravel(order="F"), **fitting).predict(X, raw_score=True)
    if hasattr(model, "predict_proba"):
        start = expit(start)
    return model.set_params(base_score=start).fit(X, y, **fitting).predict(X, output_margin=True)


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
class TestInTheLibraries:
    X, y = load_diabetes(return_X_y=True)
    classes = (y > 150.0).astype(int)

    @pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
    def test_the_average_is_their_own(self, library, loss):
        task, y = ("Regressor", self.y) if loss == "squared_error" else ("Classifier", self.classes)
        own = {
            "lightgbm": {"Regressor": "regression", "Classifier": "binary"},
            "xgboost": {"Regressor": "reg:squarederror", "Classifier": "binary:logistic"},
        }[library][task]
        start = ATkObjective(loss, k=1.0).start(y)
        assert start == pytest.approx(y.mean() if task == "Regressor" else np.log(y.mean() / (1.0 - y.mean())))
        theirs, ours = (
            raw(library, trees(library, task, each, 30), self.X, y, start) for each in (own, ATkObjective(loss, k=1.0))
        )
        assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)

    def test_it_goes_down_further_than_with_the_average(self, library):
        options = {} if library == "lightgbm" else {"max_depth": 3}
        average, top = (
            raw(library, trees(library, "Regressor", ATkObjective(k=k), 60, **options), self.X, self.y, self.y.mean())
            for k in (1.0, 0.2)
        )
        at_k = AverageTopK(0.2)
        assert at_k.value((top - self.y) ** 2) < 0.8 * at_k.value((average - self.y) ** 2)

    def test_weights_reach_it(self, library):
        rng = np.random.default_rng(0)
        X, y, weight = rng.standard_normal((300, 2)), rng.standard_normal(300), np.zeros(300)
        weight[:150], y[150:] = 1.0, 100.0
        found = raw(library, trees(library, "Regressor", ATkObjective(k=0.3)), X, y, sample_weight=weight)
        assert np.abs(found).max() < 5.0

    def test_it_takes_several_classes(self, library):
        y = np.digitize(self.y, [100.0, 200.0])
        scores = raw(library, trees(library, "Classifier", ATkObjective("log_loss", k=0.7)), self.X, y)
        assert (scores.argmax(axis=1) == y).mean() > 0.85

    def test_grids_search_over_it(self, library):
        grid = {"objective": [ATkObjective(k=k) for k in (0.2, 1.0)]}
        search = GridSearchCV(trees(library, "Regressor", None, 10), grid, cv=3, scoring="neg_max_error")
        assert search.fit(self.X, self.y).best_params_["objective"] in grid["objective"]

    def test_targets_that_they_cannot_square_are_refused(self, library):
        with pytest.raises(ValueError, match="Gradients are expected whose squares boosting libraries can add up"):
            trees(library, "Regressor", ATkObjective()).fit(self.X, self.y * 1e20)


class TestMetric:
    y, f = np.array([0.0, 1.0, 5.0, 2.0]), np.array([0.5, 3.0, 1.0, 2.0])

    def test_is_the_average_of_the_largest_losses(self):
        assert ATkObjective(k=2).eval_metric()(self.y, self.f) == ("atk", 10.0, False)
        assert ATkObjective(k=2).eval_metric(library="xgboost")(self.y, self.f) == 10.0

    def test_of_several_classes_is_the_mean_of_theirs(self):
        y, f = np.array([0.0, 1.0, 2.0]), np.random.default_rng(0).standard_normal((3, 3))
        losses = [LogLoss()(f[:, c], np.where(y == c, 1.0, -1.0)).max() for c in range(3)]
        assert_allclose(ATkMetric("atk", "log_loss", 1).value(y, f), np.mean(losses))

    def test_knows_the_measures(self):
        assert ATkMetric("max_error")(self.y, self.f) == ("max_error", 4.0, False)
        name, value, higher = ATkMetric("roc_auc", "log_loss")(np.array([0, 1, 1]), np.array([-1.0, 1.0, -2.0]))
        assert (name, value, higher) == ("roc_auc", 0.5, True)
        assert ATkMetric("roc_auc", "log_loss", library="xgboost")(np.array([0, 1]), np.array([-1.0, 1.0])) == -1.0

    @pytest.mark.filterwarnings("ignore:The argument 'eval_set' is deprecated")
    @pytest.mark.parametrize("measure", ["atk", "tail_error", "max_error"])
    def test_stops_both_libraries_early(self, measure):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((400, 3))
        y = X[:, 0] + rng.standard_normal(400)
        objective = ATkObjective(k=0.2)
        one = lightgbm.LGBMRegressor(objective=objective, n_estimators=300, verbosity=-1, n_jobs=1).fit(
            X[:200], y[:200], eval_set=[(X[200:], y[200:])], eval_metric=objective.eval_metric(measure),
            callbacks=[lightgbm.early_stopping(5, verbose=False, first_metric_only=False)],
        )  # fmt: skip
        other = xgboost.XGBRegressor(
            n_jobs=1, objective=objective, n_estimators=300, base_score=0.0, early_stopping_rounds=5,
            eval_metric=objective.eval_metric(measure, "xgboost"),
        ).fit(X[:200], y[:200], eval_set=[(X[200:], y[200:])], verbose=False)  # fmt: skip
        assert one.best_iteration_ < 290
        assert other.best_iteration < 290
        assert measure in other.evals_result()["validation_0"]

    def test_that_is_unknown_is_named(self):
        with pytest.raises(ValueError, match="expected to be one of"):
            ATkMetric("balanced_error")
        with pytest.raises(ValueError, match="library is expected"):
            ATkObjective().eval_metric(library="catboost")


class TestAsAnObject:
    def test_is_copied_pickled_and_printed(self):
        objective = ATkObjective(Huber(2.0), k=5, smoothing=1.0)
        objective(np.zeros(9), np.arange(9.0))
        for other in (copy.deepcopy(objective), pickle.loads(pickle.dumps(objective)), clone(objective, safe=False)):
            assert repr(other) == "ATkObjective(loss=Huber(delta=2.0), k=5, smoothing=1.0, rounds=100)"
        assert ATkObjective(k=5) == ATkObjective(k=5) != ATkObjective(k=6)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"loss": "rmse"}, "loss is expected to be one of"),
            ({"k": 0.0}, "expected in"),
            ({"k": "auto"}, "expected to be an int"),
            ({"smoothing": 0.0}, "smoothing is expected"),
            ({"smoothing": (1.0, 2.0, 3.0)}, "smoothing is expected"),
            ({"smoothing": (1e-308, 1e308)}, "smoothing is expected"),
            ({"rounds": 0}, "rounds is expected"),
        ],
    )
    def test_says_what_it_expects(self, options, message):
        with pytest.raises(ValueError, match=message):
            ATkObjective(**options)

    def test_says_what_labels_it_expects(self):
        with pytest.raises(ValueError, match="Labels are expected to be 0 and 1"):
            ATkObjective("log_loss", 1.0)(np.array([0.0, 2.0]), np.zeros(2))
        with pytest.raises(ValueError, match="the same rows"):
            ATkObjective()(np.zeros(2), np.zeros(3))

    @pytest.mark.parametrize("size", [5e-324, 1e-170, 1e170, 1e308])
    @pytest.mark.parametrize("which", ["Targets", "Sample weights"])
    def test_says_which_sizes_it_expects(self, which, size):
        extreme, usual = np.array([1.0, 0.5, -1.0 if which == "Targets" else 0.0]) * size, np.arange(3.0)
        y, weight = (extreme, usual) if which == "Targets" else (usual, extreme)
        for ask in (lambda: ATkObjective()(y, np.zeros(3), weight), lambda: ATkObjective().start(y, weight)):
            with pytest.raises(ValueError, match=rf"{which} are expected to be 1e-100 to 1e\+100|cannot add up"):
                ask()

    def test_of_losses_that_are_all_alike_is_the_average(self):
        y = np.array([1.0, -1.0, 1.0])
        assert_array_equal(ATkObjective("log_loss", 1)(y, np.zeros(3))[0], -0.5 * y)
