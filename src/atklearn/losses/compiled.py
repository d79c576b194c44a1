"""The built-in losses as compiled code, for loops that evaluate one sample after the other.

:func:`expand_one` says for one prediction what :meth:`IndividualLoss.expand` says for arrays; :func:`loss_of` and
:func:`slope_of` add what the kink makes of it. A loss that exists in Python only has no code here: :func:`compiled`
returns None for it, and callers go through its ``expand``.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

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

__all__ = ["CompiledLoss", "compiled", "expand_one", "loss_of", "slope_of"]

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


@numba.njit(cache=True, inline="always")
def expand_one(loss, f, y):  # type: ignore[no-untyped-def]
    """Return ``s``, its slope and its curvature at the prediction ``f`` of one sample."""
    if loss.code == LOG_LOSS:
        margin = y * f
        decay = np.exp(-abs(margin))
        wrong = (decay if margin >= 0.0 else 1.0) / (1.0 + decay)  # P(-y | f), without overflow
        # log1p(decay): log alone loses what 1 + decay rounds away, and this ratio gives it back
        rounded = 1.0 + decay
        logarithm = np.log(rounded) * (decay / (rounded - 1.0)) if rounded > 1.0 else decay
        return logarithm - min(margin, 0.0), -y * wrong, wrong * (1.0 - wrong)
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


@numba.njit(cache=True, inline="always")
def loss_of(loss, s):  # type: ignore[no-untyped-def]
    """Return the loss from its smooth part ``s``."""
    if loss.kink == ABSOLUTE:
        return abs(s)
    return max(s, 0.0) if loss.kink == POSITIVE_PART else s


@numba.njit(cache=True, inline="always")
def slope_of(loss, s, slope):  # type: ignore[no-untyped-def]
    """Return a slope of the loss from ``s`` and its slope."""
    if loss.kink == SMOOTH or s > 0.0:
        return slope
    return -slope if loss.kink == ABSOLUTE else 0.0
