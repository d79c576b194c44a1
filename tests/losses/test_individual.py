"""The laws of individual losses, and of formulas: compiled code, tensors and NumPy agree on what is written once."""

from __future__ import annotations

import runpy
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit

from atklearn import ATkRegressor, Huber, IndividualLoss, LogLoss, SGDATkRegressor, elementwise
from atklearn.losses import compiled as compiled_code
from atklearn.losses.compiled import compiled, expand_curvatures, expand_one, expand_slopes, loss_and_slope
from atklearn.losses.individual import (
    FUNCTIONS,
    INDIVIDUAL_LOSSES,
    Kink,
    formula_of,
    resolve_individual_loss,
)
from atklearn.runtime.compiling import njit

EXAMPLES = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "extending" / "new_losses.py"))
OF_THE_TUTORIAL = [EXAMPLES["Expectile"](0.9), EXAMPLES["Expectile"](0.3), EXAMPLES["ToleratedError"](0.7)]
PREDICTIONS = np.linspace(-6.0, 6.0, 241) + 0.013  # off the kinks


def targets(loss) -> np.ndarray:
    if loss.task == "classification":
        return np.where(np.arange(PREDICTIONS.size) % 2, 1.0, -1.0)
    return np.random.default_rng(0).standard_normal(PREDICTIONS.size)


@pytest.fixture(params=[*(cls() for cls in INDIVIDUAL_LOSSES.values()), *OF_THE_TUTORIAL], ids=repr)
def loss(request):
    return request.param


def test_slope_and_curvature_are_derivatives(loss):
    y, h = targets(loss), 1e-5
    s, slope, curvature = loss.expand(PREDICTIONS, y)
    above, below = loss.expand(PREDICTIONS + h, y), loss.expand(PREDICTIONS - h, y)
    assert_allclose((above[0] - below[0]) / (2 * h), slope, atol=1e-6)
    away = np.abs(curvature - loss.expand(PREDICTIONS + 1e-2, y)[2]) < 0.1  # not next to a jump
    assert_allclose(((above[1] - below[1]) / (2 * h))[away], curvature[away], atol=1e-6)
    assert s.shape == slope.shape == curvature.shape == y.shape


def test_losses_are_convex_and_not_negative(loss):
    y = targets(loss)[0]
    values = loss(PREDICTIONS, np.full_like(PREDICTIONS, y))
    assert values.min() >= 0.0
    assert np.diff(values, 2).min() >= -1e-12
    assert (loss.expand(PREDICTIONS, np.full_like(PREDICTIONS, y))[2] >= 0).all()


def test_margin_losses_decrease_in_the_margin(loss):
    if loss.task == "classification":
        assert (np.diff(loss(PREDICTIONS, np.ones_like(PREDICTIONS))) <= 0).all()
    else:
        assert_allclose(loss(PREDICTIONS, PREDICTIONS), 0.0)


def test_what_solvers_need_to_know_is_true(loss):
    """Each attribute promises something of ``s``."""
    y = targets(loss)
    curvature = loss.expand(PREDICTIONS, y)[2]
    far = abs(loss.expand(np.array([-1e6, 1e6]), y[:2] if loss.task == "regression" else np.ones(2))[1]).max()
    assert loss.linear == (curvature == 0.0).all()
    assert not loss.quadratic or (curvature == curvature[0]).all()
    assert loss.bounded_slope == (far < 10.0)
    assert not loss.shifts_and_scales or (loss.expand(PREDICTIONS, y)[0] == 1.0 - y * PREDICTIONS).all()
    assert loss.domain == ("signs" if loss.task == "classification" else "numbers")


def test_every_loss_has_a_title_of_its_own():
    assert len({cls.title for cls in INDIVIDUAL_LOSSES.values()}) == len(INDIVIDUAL_LOSSES)


def test_extreme_predictions_stay_finite():
    value, slope, curvature = INDIVIDUAL_LOSSES["log_loss"]().expand(np.array([-800.0, 800.0]), np.array([1.0, 1.0]))
    assert_allclose(value, [800.0, 0.0])
    assert_allclose(slope, [-1.0, 0.0])
    assert_allclose(curvature, [0.0, 0.0])


def test_huber_is_quadratic_inside_and_linear_outside():
    loss = Huber(delta=2.0)
    assert_allclose(loss(np.array([1.0, 5.0]), np.zeros(2)), [0.5, 2.0 * (5.0 - 1.0)])
    assert repr(loss) == "Huber(delta=2.0)"
    with pytest.raises(ValueError, match="delta > 0"):
        Huber(delta=0.0)


def test_a_loss_must_fit_the_task():
    with pytest.raises(ValueError, match=r"log_loss.*squared_error"):
        resolve_individual_loss("squared_error", "classification")
    with pytest.raises(ValueError, match="regression loss"):
        resolve_individual_loss(INDIVIDUAL_LOSSES["hinge"](), "regression")


LIMIT = 0.7  # a number outside a formula


class Everything(IndividualLoss):
    """No loss, but every function that a formula may call."""

    task = "regression"

    def __init__(self, low, high):
        self.low, self.high = low, high

    @elementwise
    def expand(self, prediction, target):
        """Return numbers that any mistake would change."""
        error = prediction - target
        size = abs(error) + np.abs(prediction)
        s = np.clip(error, self.low, self.high) + np.exp(-size) + np.log(size + 0.1) + np.log1p(size)
        slope = np.logaddexp(error, 0.0) + np.maximum(error, LIMIT) - np.minimum(error, 0.1) + np.sign(error)
        return s, slope, np.sqrt(size) + np.square(error) + np.tanh(error) + np.where(error > 0.1, 0.1, self.low)


class Quartic(IndividualLoss):
    """What a user writes: a tenth of the fourth power of the error, beside its square."""

    task = "regression"

    def __init__(self, weight):
        self.weight = weight

    @elementwise
    def expand(self, prediction, target):
        """Return the loss, its slope and its curvature."""
        square = (prediction - target) ** 2
        slope = 2.0 * (prediction - target) * (1.0 + 2.0 * self.weight * square)
        return square + self.weight * square**2, slope, 2.0 + 12.0 * self.weight * square


class PlainQuartic(Quartic):
    """The same as a loss that exists in Python only."""

    def expand(self, prediction, target):
        return super().expand(prediction, target)


LOSSES = [*(cls() for cls in INDIVIDUAL_LOSSES.values()), Huber(0.3), Everything(-0.3, 0.4), Quartic(0.1)]


def drawn(loss, n=4001):
    rng = np.random.default_rng(0)
    f = np.concatenate([np.linspace(-700.0, 700.0, n // 2), rng.standard_normal(n - n // 2)])
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0) if loss.task == "classification" else rng.standard_normal(n)
    return f, y


@njit(error_model="numpy")
def one_by_one(loss, f, y, s, slope, curvature):
    for i in range(y.size):
        s[i], slope[i], curvature[i] = expand_one(loss, f[i], y[i])


@njit(error_model="numpy")
def in_turn(loss, f, y, value, slope):
    for i in range(y.size):
        value[i], slope[i] = loss_and_slope(loss, f[i], y[i])


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
class TestEveryFormula:
    def test_compiled_it_says_what_it_says_of_arrays(self, loss):
        f, y = drawn(loss)
        rtol = 1e-13 if isinstance(loss, Everything) else 3e-15  # of everything the terms cancel
        expected, found = loss.expand(f, y), np.empty((3, f.size))
        one_by_one(compiled(loss), f, y, *found)
        assert_allclose(found, expected, rtol=rtol, atol=1e-305)
        again = np.empty((3, f.size))
        expand_curvatures(compiled(loss), f, y, again[0], again[2])
        expand_slopes(compiled(loss), f, y, again[0], again[1])
        assert_allclose(again, expected, rtol=rtol, atol=1e-305)

    def test_its_loss_and_slope_are_those_of_its_kink(self, loss):
        f, y = drawn(loss)
        s, slope, _ = loss.expand(f, y)
        found, kink = np.empty((2, f.size)), Kink(loss.kink)
        in_turn(compiled(loss), f, y, *found)
        assert_allclose(found, [kink.loss(s), kink.slope(s, slope)], rtol=1e-11, atol=1e-305)

    @pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch")
    def test_of_tensors_it_says_what_it_says_of_arrays(self, loss):
        from_numpy = pytest.importorskip("torch").from_numpy
        expand = pytest.importorskip("atklearn.stores.tensors.tensor_losses").TensorLoss(loss).expand
        f, y = drawn(loss)
        kind = np.int8 if loss.task == "classification" else float
        found = expand(from_numpy(f), from_numpy(y.astype(kind)))
        for part, expected in zip(found, loss.expand(f, y), strict=True):
            assert part.numpy().dtype == float
            assert_allclose(part.numpy(), expected, rtol=1e-14, atol=1e-305)


class TestFastFunctions:
    """Exponential and logarithm that run on several numbers at once are right to some last digits."""

    @pytest.mark.parametrize(("low", "high"), [(-700.0, 0.0), (-1.0, 1.0), (0.0, 709.0)])
    def test_exponential(self, low, high):
        x = np.random.default_rng(0).uniform(low, high, 20_000)
        assert_allclose(each(compiled_code._exp, x), np.exp(x), rtol=5e-16)
        assert_allclose(each(compiled_code._exp, np.array([-1e9, 710.0])), [0.0, np.inf], atol=1e-307)

    @pytest.mark.parametrize(("low", "high"), [(-0.999, -0.3), (-0.3, 0.42), (0.4, 1.0), (1.0, 1e9)])
    def test_logarithm(self, low, high):
        x = np.random.default_rng(0).uniform(low, high, 20_000)
        assert_allclose(each(compiled_code._log1p, x), np.log1p(x), rtol=7e-16)
        tiny = np.copysign(10.0 ** np.random.default_rng(0).uniform(-300.0, -1.0, 20_000), x)
        assert_allclose(each(compiled_code._log1p, tiny), np.log1p(tiny), rtol=7e-16)


def each(function, x):
    @njit
    def fill(x, out):
        for i in range(x.size):
            out[i] = function(x[i])

    out = np.empty_like(x)
    fill(x, out)
    return out


def test_log_loss_of_large_margins_keeps_its_digits():
    f = np.array([30.0, 100.0, 700.0])
    found = np.empty((2, 3))
    expand_slopes(compiled(LogLoss()), f, np.ones(3), *found)
    assert_allclose(found, [np.log1p(np.exp(-f)), -expit(-f)], rtol=5e-16)


def test_formulas_are_told_apart_by_what_they_say():
    formulas = [formula_of(loss) for loss in LOSSES]
    assert len({formula.fingerprint for formula in formulas}) == len(set(formulas))
    assert set(Everything.expand.formula.text.__code__.co_names) >= set(FUNCTIONS)


def test_a_code_that_is_not_known_is_no_answer():
    f, y = drawn(LogLoss())
    found = np.empty((3, f.size))
    one_by_one(compiled(LogLoss())._replace(code=12345), f, y, *found)
    assert np.isnan(found).all()


@pytest.mark.parametrize("X", [np.random.default_rng(0).standard_normal((300, 4))])
class TestALossOfAUser:
    """Marked or not, it has the same fits; marked, it is compiled."""

    def test_is_compiled_if_it_is_marked_and_its_parameters_are_numbers_of_each(self, X):
        assert compiled(Quartic(0.1)).address == compiled(Quartic(0.5)).address != 0
        assert compiled(PlainQuartic(0.1)) is None
        fits = [ATkRegressor(Quartic(weight), k=0.5, C=10.0).fit(X, X[:, 0]).coef_ for weight in (0.1, 50.0)]
        assert abs(fits[0] - fits[1]).max() > 1e-4

    @pytest.mark.parametrize("share", [0.1, 1.0])
    def test_is_fitted(self, X, share):
        y = X[:, 0] + np.random.default_rng(1).standard_normal(300)
        fits = [ATkRegressor(cls(0.1), k=share, C=1.0, tol=1e-9).fit(X, y) for cls in (Quartic, PlainQuartic)]
        assert_allclose(fits[0].coef_, fits[1].coef_, atol=1e-7)
        assert fits[0].dual_gap_ <= 1e-9 * fits[0].objective_

    @pytest.mark.parametrize("loss", [Quartic(0.01), *OF_THE_TUTORIAL], ids=repr)
    def test_stochastic_steps_and_boosting_find_what_they_find_uncompiled(self, X, loss):
        derivatives = pytest.importorskip("atklearn.boosting.derivatives").derivatives
        formula = type(loss).expand.formula.text
        in_python = {"expand": lambda self, f, y: tuple(part + 0.0 * f for part in formula(self, f, y))}
        both = [loss, type("InPython", (type(loss),), in_python)(*vars(loss).values())]
        assert [compiled(each) is None for each in both] == [False, True]
        y, mass = X[:, 0] + X[:, 1], np.linspace(0.5, 2.0, 300)
        options = {"k": 0.5, "random_state": 0, "max_iter": 3, "tol": None}
        streams = [SGDATkRegressor(each, **options).fit(X, y) for each in both]
        assert_allclose(streams[0].coef_, streams[1].coef_, rtol=1e-9)
        rounds = [derivatives(each, X[:, 0], y, mass, mass.sum(), 40.0, 0.5, 0.0) for each in both]
        for one, other in zip(*rounds, strict=True):
            assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "expand"),
    [
        ("cosh", lambda _, prediction, target: (np.cosh(prediction - target), 0.0, 0.0)),
        ("PREDICTIONS", lambda _, prediction, target: (PREDICTIONS * prediction, target, 0.0)),
    ],
)
def test_what_is_no_function_of_a_formula_is_refused(name, expand):
    loss = type("Cost", (LogLoss,), {"expand": elementwise(expand)})()
    with pytest.raises(TypeError, match=rf"'{name}' is none of these.*leave out @elementwise"):
        compiled(loss)
