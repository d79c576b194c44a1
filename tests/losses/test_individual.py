"""The laws of individual losses: derivatives, convexity, values known by heart."""

from __future__ import annotations

import numpy as np
import pytest

from atklearn import Huber
from atklearn.losses.individual import INDIVIDUAL_LOSSES, resolve_individual_loss

PREDICTIONS = np.linspace(-6.0, 6.0, 241) + 0.013  # off the kinks


def targets(loss) -> np.ndarray:
    if loss.task == "classification":
        return np.where(np.arange(PREDICTIONS.size) % 2, 1.0, -1.0)
    return np.random.default_rng(0).standard_normal(PREDICTIONS.size)


@pytest.fixture(params=INDIVIDUAL_LOSSES)
def loss(request):
    return INDIVIDUAL_LOSSES[request.param]()


def test_slope_and_curvature_are_derivatives(loss):
    y, h = targets(loss), 1e-5
    s, slope, curvature = loss.expand(PREDICTIONS, y)
    above, below = loss.expand(PREDICTIONS + h, y), loss.expand(PREDICTIONS - h, y)
    np.testing.assert_allclose((above[0] - below[0]) / (2 * h), slope, atol=1e-6)
    away = np.abs(curvature - loss.expand(PREDICTIONS + 1e-2, y)[2]) < 0.1  # not next to a jump
    np.testing.assert_allclose(((above[1] - below[1]) / (2 * h))[away], curvature[away], atol=1e-6)
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
        np.testing.assert_allclose(loss(PREDICTIONS, PREDICTIONS), 0.0)


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
    np.testing.assert_allclose(value, [800.0, 0.0])
    np.testing.assert_allclose(slope, [-1.0, 0.0])
    np.testing.assert_allclose(curvature, [0.0, 0.0])


def test_huber_is_quadratic_inside_and_linear_outside():
    loss = Huber(delta=2.0)
    np.testing.assert_allclose(loss(np.array([1.0, 5.0]), np.zeros(2)), [0.5, 2.0 * (5.0 - 1.0)])
    assert repr(loss) == "Huber(delta=2.0)"
    with pytest.raises(ValueError, match="delta > 0"):
        Huber(delta=0.0)


def test_a_loss_must_fit_the_task():
    with pytest.raises(ValueError, match=r"log_loss.*squared_error"):
        resolve_individual_loss("squared_error", "classification")
    with pytest.raises(ValueError, match="regression loss"):
        resolve_individual_loss(INDIVIDUAL_LOSSES["hinge"](), "regression")
