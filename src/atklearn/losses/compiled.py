"""The built-in losses as compiled code, for loops that evaluate one sample after the other.

:func:`expand_one` says for one prediction what :meth:`IndividualLoss.expand` says for arrays, and
:func:`loss_and_slope` what the kink makes of it. A loss that exists in Python only has no code here: :func:`compiled`
returns None for it, and callers go through its ``expand``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from atklearn.losses.compiling import intrinsic, ir, njit, types
from atklearn.losses.individual import (
    AbsoluteError,
    Hinge,
    Huber,
    IndividualLoss,
    Kink,
    LogLoss,
    SquaredError,
    SquaredHinge,
)

__all__ = ["CompiledLoss", "compiled", "expand_one", "loss_and_slope"]

LOG_LOSS, HINGE, SQUARED_HINGE, SQUARED_ERROR, ABSOLUTE_ERROR, HUBER = range(6)
SMOOTH, POSITIVE_PART, ABSOLUTE = range(3)

_CODES: dict[type[IndividualLoss], int] = {
    LogLoss: LOG_LOSS,
    Hinge: HINGE,
    SquaredHinge: SQUARED_HINGE,
    SquaredError: SQUARED_ERROR,
    AbsoluteError: ABSOLUTE_ERROR,
    Huber: HUBER,
}
_KINKS = {Kink.NONE: SMOOTH, Kink.POSITIVE_PART: POSITIVE_PART, Kink.ABSOLUTE: ABSOLUTE}


class CompiledLoss(NamedTuple):
    """A built-in loss as compiled code knows it: which one, what its kink is, and the delta of Huber."""

    code: int
    kink: int
    delta: float


def compiled(loss: IndividualLoss) -> CompiledLoss | None:
    """Return what compiled code needs to know of a loss, or None if it does not know it.

    Examples
    --------
    >>> compiled(Huber(2.0))
    CompiledLoss(code=5, kink=0, delta=2.0)
    """
    code = _CODES.get(type(loss))  # not isinstance: a subclass may change the loss
    if code is None:
        return None
    return CompiledLoss(code, _KINKS[Kink(loss.kink)], loss.delta if isinstance(loss, Huber) else 1.0)


# log(2) in two parts, the first with so few digits that its products with small whole numbers are exact.
_LOG2_HIGH, _LOG2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
# Added to a number of moderate size, this leaves its nearest whole number in the last bits.
_ROUNDER = 6755399441055744.0
_LOWEST_EXPONENT = -708.0


@intrinsic
def _bits_of(_context, number):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Read the bits of a float64 as an int64."""

    def emit(_context, builder, _signature, arguments):  # type: ignore[no-untyped-def]
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), emit


@intrinsic
def _number_of(_context, bits):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Read the bits of an int64 as a float64."""

    def emit(_context, builder, _signature, arguments):  # type: ignore[no-untyped-def]
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), emit


@njit(cache=True, inline="always", error_model="numpy")
def _exp(x):  # type: ignore[no-untyped-def]
    """Return exp(x) for x <= 0, to the last digit: x = k log(2) + r, and a power series in r.

    Written out, so that loops over it run on several numbers at once, which calls of the C library do not.
    """
    shifted = max(x, _LOWEST_EXPONENT) * 1.4426950408889634 + _ROUNDER
    k = shifted - _ROUNDER
    r = (max(x, _LOWEST_EXPONENT) - k * _LOG2_HIGH) - k * _LOG2_LOW
    # pairs of terms, pairs of pairs: no long chain of sums to wait for
    r2 = r * r
    r4 = r2 * r2
    low = (1.0 + r) + r2 * (1.0 / 2.0 + r * (1.0 / 6.0))
    middle = (1.0 / 24.0 + r * (1.0 / 120.0)) + r2 * (1.0 / 720.0 + r * (1.0 / 5040.0))
    high = (1.0 / 40320.0 + r * (1.0 / 362880.0)) + r2 * (1.0 / 3628800.0 + r * (1.0 / 39916800.0))
    top = 1.0 / 479001600.0 + r * (1.0 / 6227020800.0)
    p = (low + r4 * middle) + (r4 * r4) * (high + r4 * top)
    return p * _number_of((_bits_of(shifted) << 52) + (1023 << 52))


@njit(cache=True, inline="always", error_model="numpy")
def _log1p(x):  # type: ignore[no-untyped-def]
    """Return log(1 + x) for 0 <= x <= 1, to the last digits also of tiny x: the series of 2 artanh(x / (2 + x))."""
    s = x / (2.0 + x)
    q = s * s
    q2 = q * q
    q4 = q2 * q2
    q8 = q4 * q4
    low = (1.0 + q * (1.0 / 3.0)) + q2 * (1.0 / 5.0 + q * (1.0 / 7.0))
    second = (1.0 / 9.0 + q * (1.0 / 11.0)) + q2 * (1.0 / 13.0 + q * (1.0 / 15.0))
    third = (1.0 / 17.0 + q * (1.0 / 19.0)) + q2 * (1.0 / 21.0 + q * (1.0 / 23.0))
    fourth = (1.0 / 25.0 + q * (1.0 / 27.0)) + q2 * (1.0 / 29.0 + q * (1.0 / 31.0))
    top = 1.0 / 33.0 + q * (1.0 / 35.0)
    return 2.0 * s * ((low + q4 * second) + q8 * ((third + q4 * fourth) + q8 * top))


@njit(cache=True, inline="always", error_model="numpy")
def expand_one(loss, f, y):  # type: ignore[no-untyped-def]
    """Return ``s``, its slope and its curvature at the prediction ``f`` of one sample."""
    if loss.code == LOG_LOSS:
        margin = y * f
        decay = _exp(-abs(margin))
        wrong = (decay if margin >= 0.0 else 1.0) / (1.0 + decay)  # P(-y | f), without overflow
        return _log1p(decay) - min(margin, 0.0), -y * wrong, wrong * (1.0 - wrong)
    if loss.code == HINGE:
        return 1.0 - y * f, -y, 0.0
    if loss.code == SQUARED_HINGE:
        violation = max(1.0 - y * f, 0.0)
        return violation * violation, -2.0 * y * violation, 2.0 if violation > 0.0 else 0.0
    if loss.code == SQUARED_ERROR:
        error = f - y
        return error * error, 2.0 * error, 2.0
    if loss.code == ABSOLUTE_ERROR:
        return y - f, -1.0, 0.0
    if loss.code == HUBER:
        error = f - y
        slope = min(max(error, -loss.delta), loss.delta)
        return slope * (error - 0.5 * slope), slope, 1.0 if abs(error) <= loss.delta else 0.0
    return np.nan, np.nan, np.nan  # a code that is not listed: nothing that could pass for an answer


@njit(cache=True, inline="always", error_model="numpy")
def loss_and_slope(loss, f, y):  # type: ignore[no-untyped-def]
    """Return the loss of one prediction and a slope of it: what :func:`expand_one` says, with the kink put in.

    It is for loops that wait for each answer, where the C library's exponential and logarithm are the quicker ones.
    """
    if loss.code == LOG_LOSS:
        margin = y * f
        decay = np.exp(-abs(margin))
        wrong = (decay if margin >= 0.0 else 1.0) / (1.0 + decay)
        # the same as log1p to 1e-12, and the slowest part of a visit
        logarithm = np.log(1.0 + decay) if decay > 1e-4 else decay * (1.0 - decay * (0.5 - decay / 3.0))
        return logarithm - min(margin, 0.0), -y * wrong
    s, slope, _ = expand_one(loss, f, y)
    if loss.kink == SMOOTH or s > 0.0:
        return s, slope
    return (-s, -slope) if loss.kink == ABSOLUTE else (0.0, 0.0)
