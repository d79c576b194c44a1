"""The compiled loop of the stochastic solver: one visit after the other, dense or sparse.

Symbols: the weights are ``w = scale * v``, so that shrinking them costs one multiplication. Their average with weights
``c_t`` is ``(reach * v - lag) / total``, where ``reach`` sums ``c_t * scale`` and ``lag`` holds each change of ``v``
times the reach before it, so that averaging costs no more than the change itself. A visit touches the non-zero entries
of its row and nothing else.

The loop is written once. It is compiled for NumPy arrays, for CSR rows and for losses that are formulas; any other
loss runs the same loop interpreted. What the loop does with a row stands in
:mod:`atklearn.stores.passes`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from atklearn.losses.compiled import CompiledLoss, loss_and_slope
from atklearn.losses.individual import Array, IndividualLoss, Kink
from atklearn.runtime.compiling import njit, overload
from atklearn.stores.compiled import Places
from atklearn.stores.passes import add, add_twice, dot, fetch, square

__all__ = ["StepRule", "walk"]

# The places of the numbers that change from visit to visit.
SCALE, B, LAM, T, TOTAL, REACH, B_SUM, LAM_SUM, STATE_SIZE = range(9)

INVERSE_POWER, OPTIMAL, CONSTANT = range(3)
LAST, ALL, RECENT = range(3)

# Below this scale, v grows so large that it is rescaled.
_SMALL_SCALE = 1e-9


class StepRule(NamedTuple):
    """What stays the same from visit to visit."""

    schedule: int
    eta0: float
    power: float
    delay: float  # visits after which an inverse-power step has begun to fall
    lam_rate: float  # of the threshold's step to the weights' step
    lam_max: float
    fraction: float  # k / n
    ridge: float  # 1 / C
    has_intercept: bool
    decays_intercept: bool
    curvature: float  # of the loss, to keep a step from overshooting; 0 where no step is limited
    averaging: int  # whether c_t is 0, 1 or t^2


def walk(
    X: Any,
    y: Array,
    visits: Places,
    loss: CompiledLoss | IndividualLoss,
    v: Array,
    lag: Array,
    state: Array,
    rule: StepRule,
) -> float:
    """Make the visits in turn, changing ``v``, ``lag`` and ``state``; return the sum of ``lam + [l - lam]_+ n/k``."""
    compiled = isinstance(loss, CompiledLoss)
    return float((_walk if compiled else _walk.py_func)(X, y, visits, loss, v, lag, state, rule))


@njit(cache=True, nogil=True)
def _walk(X, y, visits, loss, v, lag, state, rule):  # type: ignore[no-untyped-def]
    scale, b, lam, t = state[SCALE], state[B], state[LAM], state[T]
    total, reach, b_sum, lam_sum = state[TOTAL], state[REACH], state[B_SUM], state[LAM_SUM]
    fraction, lam_rate, lam_max, curvature = rule.fraction, rule.lam_rate, rule.lam_max, rule.curvature
    has_intercept, decays_intercept, ridge = rule.has_intercept, rule.decays_intercept, rule.ridge
    averaging = rule.averaging
    cost = 0.0
    for position in range(visits.size):
        i = visits[position]
        if position + 1 < visits.size:
            fetch(X, visits[position + 1])
        eta = _step_size(rule, t)
        value, slope = _evaluate(loss, scale * dot(X, i, v) + b, y[i])
        above = value > lam
        cost += lam
        shrink = 1.0 - eta * ridge
        if shrink > 0.0:
            scale *= shrink
        if shrink <= 0.0 or scale < _SMALL_SCALE:
            # v takes over the scale, and lag what the average owes to the past
            for j in range(v.size):
                lag[j] -= reach * v[j]
                v[j] *= scale if shrink > 0.0 else 0.0
            scale = 1.0
            reach = 0.0
        if decays_intercept:
            b *= max(shrink, 0.0)
        if above:
            cost += (value - lam) / fraction
            step = eta
            if curvature > 0.0:
                bend = curvature * (square(X, i) + has_intercept)
                step = min(eta, fraction / bend) if bend > 0.0 else eta
            change = -step * slope / fraction
            if change != 0.0:
                if reach == 0.0:  # without averaging the lag stays out of the way
                    add(X, i, change / scale, v)
                else:
                    add_twice(X, i, change / scale, v, reach, lag)
                if has_intercept:
                    b += change
            lam = min(lam + eta * lam_rate * (1.0 / fraction - 1.0), lam_max)
        else:
            lam = max(lam - eta * lam_rate, 0.0)
        t += 1.0
        weight = t * t if averaging == RECENT else (1.0 if averaging == ALL else 0.0)
        total += weight
        reach += weight * scale
        b_sum += weight * b
        lam_sum += weight * lam
    state[SCALE], state[B], state[LAM], state[T] = scale, b, lam, t
    state[TOTAL], state[REACH], state[B_SUM], state[LAM_SUM] = total, reach, b_sum, lam_sum
    return cost


@njit(cache=True)
def _step_size(rule, t):  # type: ignore[no-untyped-def]
    """Return the step of the visit after ``t`` others."""
    if rule.schedule == INVERSE_POWER:
        slowed = 1.0 + t / rule.delay
        return rule.eta0 / (np.sqrt(slowed) if rule.power == 0.5 else slowed**rule.power)
    if rule.schedule == OPTIMAL:
        return rule.eta0 / (1.0 + rule.eta0 * rule.ridge * t)
    return rule.eta0


def _evaluate(loss, f, y):  # type: ignore[no-untyped-def]
    """Return the loss and its derivative in the prediction."""
    s, slope, _ = loss.expand(np.array([f]), np.array([y]))
    kink = Kink(loss.kink)
    return float(kink.loss(s)[0]), float(kink.slope(s, slope)[0])


@overload(_evaluate)
def _compile_evaluate(loss, f, y):  # type: ignore[no-untyped-def]  # noqa: ARG001
    def evaluate(loss, f, y):  # type: ignore[no-untyped-def]
        return loss_and_slope(loss, f, y)

    return evaluate
