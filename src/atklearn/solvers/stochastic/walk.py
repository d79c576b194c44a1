"""The compiled loop of the stochastic solver: one visit after the other, dense or sparse.

Symbols: the weights are ``w = scale * v``, so that shrinking them costs one multiplication. Their average with weights
``c_t`` is ``(reach * v - lag) / total``, where ``reach`` sums ``c_t * scale`` and ``lag`` holds each change of ``v``
times the reach before it, so that averaging costs no more than the change itself. A visit touches the non-zero entries
of its row and nothing else.

The loop is written once. It is compiled for NumPy arrays, for CSR rows and for the built-in losses; a loss that exists
in Python only runs the same loop interpreted. What the loop does with a row (``_dot``, ``_square``, ``_add``,
``_fetch``) stands below it, in this file: the cache of compiled code looks at no other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.extending import intrinsic, overload

from atklearn.problems.design import FAST_SUMS, Rows
from atklearn.losses.individual import (
    AbsoluteError,
    Array,
    Hinge,
    Huber,
    IndividualLoss,
    LogLoss,
    SquaredError,
    SquaredHinge,
)

__all__ = ["BuiltIn", "CSRRows", "StepRule", "built_in", "walk"]

# The places of the numbers that change from visit to visit.
SCALE, B, LAM, T, TOTAL, REACH, B_SUM, LAM_SUM, STATE_SIZE = range(9)

LOG_LOSS, HINGE, SQUARED_HINGE, SQUARED_ERROR, ABSOLUTE_ERROR, HUBER = range(6)
INVERSE_POWER, OPTIMAL, CONSTANT = range(3)
LAST, ALL, RECENT = range(3)

# Bytes that the processor fetches at once.
_CACHE_LINE = 64
# Below this scale, v grows so large that it is rescaled.
_SMALL_SCALE = 1e-9


class CSRRows(NamedTuple):
    """The three arrays of a CSR matrix."""

    data: Array
    indices: Any
    indptr: Any


class BuiltIn(NamedTuple):
    """A loss the compiled loop knows, with the delta of Huber."""

    code: int
    delta: float


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


def built_in(loss: IndividualLoss) -> BuiltIn | None:
    """Return what the compiled loop needs to know of a loss, or None if it does not know it."""
    codes: dict[type[IndividualLoss], int] = {
        LogLoss: LOG_LOSS,
        Hinge: HINGE,
        SquaredHinge: SQUARED_HINGE,
        SquaredError: SQUARED_ERROR,
        AbsoluteError: ABSOLUTE_ERROR,
        Huber: HUBER,
    }
    code = codes.get(type(loss))  # not isinstance: a subclass may change the loss
    return None if code is None else BuiltIn(code, loss.delta if isinstance(loss, Huber) else 1.0)


def walk(
    X: Any, y: Array, visits: Rows, loss: BuiltIn | IndividualLoss, v: Array, lag: Array, state: Array, rule: StepRule
) -> float:
    """Make the visits in turn, changing ``v``, ``lag`` and ``state``; return the sum of ``lam + [l - lam]_+ n/k``."""
    compiled = isinstance(loss, BuiltIn)
    return float((_walk if compiled else _walk.py_func)(X, y, visits, loss, v, lag, state, rule))


@numba.njit(cache=True, nogil=True)
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
            _fetch(X, visits[position + 1])
        eta = _step_size(rule, t)
        value, slope = _evaluate(loss, scale * _dot(X, i, v) + b, y[i])
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
                bend = curvature * (_square(X, i) + has_intercept)
                step = min(eta, fraction / bend) if bend > 0.0 else eta
            change = -step * slope / fraction
            if change != 0.0:
                _add(X, i, change / scale, reach, v, lag)
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


@numba.njit(cache=True)
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
    s, slope, _ = (float(part[0]) for part in loss.expand(np.array([f]), np.array([y])))
    if loss.kink == "positive_part":
        return max(s, 0.0), slope if s > 0.0 else 0.0
    if loss.kink == "absolute":
        return abs(s), slope if s > 0.0 else -slope
    return s, slope


@overload(_evaluate)
def _compile_evaluate(loss, f, y):  # type: ignore[no-untyped-def]  # noqa: ARG001
    def evaluate(loss, f, y):  # type: ignore[no-untyped-def]
        if loss.code == LOG_LOSS:
            margin = y * f
            decay = np.exp(-abs(margin))
            wrong = decay if margin >= 0.0 else 1.0
            # log1p is the slowest part of a visit; log gives the same to 1e-12 unless decay is tiny
            logarithm = np.log(1.0 + decay) if decay > 1e-4 else decay * (1.0 - decay * (0.5 - decay / 3.0))
            return logarithm - min(margin, 0.0), -y * wrong / (1.0 + decay)
        if loss.code == HINGE:
            violation = 1.0 - y * f
            return (violation, -y) if violation > 0.0 else (0.0, 0.0)
        if loss.code == SQUARED_HINGE:
            violation = max(1.0 - y * f, 0.0)
            return violation * violation, -2.0 * y * violation
        error = f - y
        if loss.code == SQUARED_ERROR:
            return error * error, 2.0 * error
        if loss.code == ABSOLUTE_ERROR:
            return abs(error), 1.0 if error > 0.0 else -1.0
        slope = min(max(error, -loss.delta), loss.delta)
        return slope * (error - 0.5 * slope), slope

    return evaluate


def _dot(X, i, v):  # type: ignore[no-untyped-def]
    """Return row i times v."""
    if isinstance(X, CSRRows):
        part = slice(X.indptr[i], X.indptr[i + 1])
        return float(X.data[part] @ v[X.indices[part]])
    return float(X[i] @ v)


def _square(X, i):  # type: ignore[no-untyped-def]
    """Return the squared norm of row i."""
    row = X.data[X.indptr[i] : X.indptr[i + 1]] if isinstance(X, CSRRows) else X[i]
    return float(row @ row)


def _add(X, i, change, reach, v, lag):  # type: ignore[no-untyped-def]
    """Add ``change`` times row i to v, and ``reach`` times that to the lag of the average."""
    if isinstance(X, CSRRows):
        part = slice(X.indptr[i], X.indptr[i + 1])
        np.add.at(v, X.indices[part], change * X.data[part])
        np.add.at(lag, X.indices[part], reach * change * X.data[part])
    else:
        v += change * X[i]
        lag += reach * change * X[i]


def _fetch(X, i):  # type: ignore[no-untyped-def]
    """Ask for row i to be in the cache soon: rows in random order are waited for longer than they are worked on."""


@numba.njit(cache=True, fastmath=FAST_SUMS)
def _fast_dot(X, i, v):  # type: ignore[no-untyped-def]
    result = 0.0
    for j in range(v.size):
        result += X[i, j] * v[j]
    return result


@overload(_dot)
def _compile_dot(X, i, v):  # type: ignore[no-untyped-def]  # noqa: ARG001
    def dense(X, i, v):  # type: ignore[no-untyped-def]
        return _fast_dot(X, i, v)

    def sparse(X, i, v):  # type: ignore[no-untyped-def]
        result = 0.0  # summed in order: gathering several entries at once is slower than one by one
        for position in range(X.indptr[i], X.indptr[i + 1]):
            result += X.data[position] * v[np.uint32(X.indices[position])]
        return result

    return dense if isinstance(X, types.Array) else sparse


@overload(_square, jit_options={"fastmath": FAST_SUMS})
def _compile_square(X, i):  # type: ignore[no-untyped-def]  # noqa: ARG001
    def dense(X, i):  # type: ignore[no-untyped-def]
        result = 0.0
        for j in range(X.shape[1]):
            result += np.float64(X[i, j]) * X[i, j]
        return result

    def sparse(X, i):  # type: ignore[no-untyped-def]
        result = 0.0
        for position in range(X.indptr[i], X.indptr[i + 1]):
            result += np.float64(X.data[position]) * X.data[position]
        return result

    return dense if isinstance(X, types.Array) else sparse


@overload(_add, jit_options={"fastmath": FAST_SUMS})
def _compile_add(X, i, change, reach, v, lag):  # type: ignore[no-untyped-def]  # noqa: ARG001
    # without averaging the lag stays out of the way
    def dense(X, i, change, reach, v, lag):  # type: ignore[no-untyped-def]
        if reach == 0.0:
            for j in range(v.size):
                v[j] += change * X[i, j]
        else:
            for j in range(v.size):
                part = change * X[i, j]
                v[j] += part
                lag[j] += reach * part

    def sparse(X, i, change, reach, v, lag):  # type: ignore[no-untyped-def]
        if reach == 0.0:
            for position in range(X.indptr[i], X.indptr[i + 1]):
                v[np.uint32(X.indices[position])] += change * X.data[position]
        else:
            for position in range(X.indptr[i], X.indptr[i + 1]):
                j = np.uint32(X.indices[position])  # unsigned: needs no test for a negative index
                part = change * X.data[position]
                v[j] += part
                lag[j] += reach * part

    return dense if isinstance(X, types.Array) else sparse


@overload(_fetch)
def _compile_fetch(X, i):  # type: ignore[no-untyped-def]  # noqa: ARG001
    def dense(X, i):  # type: ignore[no-untyped-def]
        n_columns = X.shape[1]
        for j in range(0, n_columns, _CACHE_LINE // X.itemsize):
            _prefetch(X, i * n_columns + j)  # type: ignore[call-arg]

    def sparse(X, i):  # type: ignore[no-untyped-def]
        begin, end = X.indptr[i], X.indptr[i + 1]
        for position in range(begin, end, _CACHE_LINE // X.data.itemsize):
            _prefetch(X.data, position)  # type: ignore[call-arg]
        for position in range(begin, end, _CACHE_LINE // X.indices.itemsize):
            _prefetch(X.indices, position)  # type: ignore[call-arg]

    return dense if isinstance(X, types.Array) else sparse


@intrinsic
def _prefetch(_context, array, index):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Emit the processor's instruction that starts to load an array element (by its flat position)."""

    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        number = ir.IntType(32)
        pointer = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        call = ir.FunctionType(ir.VoidType(), [pointer.type, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], call)
        builder.call(function, [pointer, number(0), number(3), number(1)])  # for reading, into all levels, data
        return context.get_dummy_value()

    return types.void(array, types.intp), emit
