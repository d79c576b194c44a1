# mypy: disable-error-code="no-untyped-def"
"""Formulas of losses as compiled code, for loops that evaluate one sample after the other.

:func:`expand_one` says for one prediction what :meth:`IndividualLoss.expand` says for arrays, and
:func:`loss_and_slope` what the kink makes of it. Both follow from the formulas themselves: those of the built-in
losses become part of every loop over them, those of users are compiled by themselves and called from there. A loss
whose ``expand`` is not marked as a formula has no code here: :func:`compiled` returns None for it, and callers go
through its ``expand``.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from atklearn.losses.individual import INDIVIDUAL_LOSSES, Formula, IndividualLoss, Kink, formula_of
from atklearn.runtime.compiling import HAS_NUMBA, intrinsic, ir, njit, numba, types

__all__ = [
    "ABSOLUTE", "POSITIVE_PART", "SMOOTH", "CompiledLoss", "compiled", "expand_curvatures", "expand_one",
    "expand_slopes", "loss_and_slope",
]  # fmt: skip

SMOOTH, POSITIVE_PART, ABSOLUTE = range(3)
_KINKS = {Kink.NONE: SMOOTH, Kink.POSITIVE_PART: POSITIVE_PART, Kink.ABSOLUTE: ABSOLUTE}
_MOST_PARAMETERS = 4

# Reordering would fold away the constant that rounds in the exponential.
_INLINED: dict[str, object] = {"forceinline": True, "error_model": "numpy", "fastmath": {"contract", "nsz"}}


class CompiledLoss(NamedTuple):
    """A loss as compiled code knows it.

    Attributes
    ----------
    code : int
        Which of the built-in formulas it has; 0 for none of them.
    kink : int
    parameters : tuple of float
        Of the formula, filled up with zeros.
    address : int
        Where the code of another formula lies in this process: of no use in any other.
    """

    code: int
    kink: int
    parameters: tuple[float, ...]
    address: int


def compiled(loss: IndividualLoss) -> CompiledLoss | None:
    """Return what compiled code needs to know of a loss, or None if its ``expand`` is not marked as a formula.

    Examples
    --------
    >>> from atklearn import Huber
    >>> compiled(Huber(2.0)).parameters
    (2.0, 0.0, 0.0, 0.0)
    """
    formula = formula_of(loss)
    if formula is None or len(formula.parameters) > _MOST_PARAMETERS:
        return None
    parameters = formula.values(loss)
    parameters += (0.0,) * (_MOST_PARAMETERS - len(parameters))
    kink = _KINKS[Kink(loss.kink)]
    if formula in _BUILT_IN:
        return CompiledLoss(formula.fingerprint, kink, parameters, 0)
    return CompiledLoss(0, kink, parameters, _address(formula)) if HAS_NUMBA else None


# log(2) in two parts, the first with so few digits that its products with small whole numbers are exact.
_LOG2_HIGH, _LOG2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
# Added to a number of moderate size, this leaves its nearest whole number in the last bits.
_ROUNDER = 6755399441055744.0
# The bits of 1 and of sqrt(1/2), of all digits of a number, and of a number whose last bits are a whole number.
_ONE, _ROOT_OF_HALF, _MANTISSA = 0x3FF0000000000000, 0x3FE6A09E667F3BCD, 0x000FFFFFFFFFFFFF
_SHIFTER, _SHIFTER_BITS = 4503599627370496.0, 0x4330000000000000
_LOWEST_EXPONENT, _HIGHEST_EXPONENT = -708.0, 709.0


@intrinsic
def _bits_of(_context, number):  # noqa: ARG001
    """Read the bits of a float64 as an int64."""

    def emit(_context, builder, _signature, arguments):
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), emit


@intrinsic
def _number_of(_context, bits):  # noqa: ARG001
    """Read the bits of an int64 as a float64."""

    def emit(_context, builder, _signature, arguments):
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), emit


@njit(**_INLINED)
def _exp(x):
    """Return exp(x) to the last digit: x = k log(2) + r, and a power series in r.

    Written out, so that loops over it run on several numbers at once, which calls of the C library do not.
    """
    within = min(max(x, _LOWEST_EXPONENT), _HIGHEST_EXPONENT)
    shifted = within * 1.4426950408889634 + _ROUNDER
    k = shifted - _ROUNDER
    r = (within - k * _LOG2_HIGH) - k * _LOG2_LOW
    # pairs of terms, pairs of pairs: no long chain of sums to wait for
    r2 = r * r
    r4 = r2 * r2
    low = (1.0 + r) + r2 * (1.0 / 2.0 + r * (1.0 / 6.0))
    middle = (1.0 / 24.0 + r * (1.0 / 120.0)) + r2 * (1.0 / 720.0 + r * (1.0 / 5040.0))
    high = (1.0 / 40320.0 + r * (1.0 / 362880.0)) + r2 * (1.0 / 3628800.0 + r * (1.0 / 39916800.0))
    top = 1.0 / 479001600.0 + r * (1.0 / 6227020800.0)
    p = (low + r4 * middle) + (r4 * r4) * (high + r4 * top)
    power = p * _number_of((_bits_of(shifted) << 52) + (1023 << 52))
    return np.inf if x > _HIGHEST_EXPONENT else power


@njit(**_INLINED)
def _log1p(x):
    """Return log(1 + x) for finite x > -1, to the last digits also of tiny x.

    With 1 + x = 2^k (1 + r) it is k log(2) and the series of 2 artanh(r / (2 + r)); where k = 0, r is x itself.
    """
    raised = _bits_of(1.0 + x) + (_ONE - _ROOT_OF_HALF)
    k = _number_of((np.uint64(raised) >> np.uint64(52)) | np.uint64(_SHIFTER_BITS)) - (_SHIFTER + 1023.0)
    r = x if k == 0.0 else _number_of((raised & _MANTISSA) + _ROOT_OF_HALF) - 1.0
    s = r / (2.0 + r)
    q = s * s
    q2 = q * q
    q4 = q2 * q2
    low = (1.0 + q * (1.0 / 3.0)) + q2 * (1.0 / 5.0 + q * (1.0 / 7.0))
    middle = (1.0 / 9.0 + q * (1.0 / 11.0)) + q2 * (1.0 / 13.0 + q * (1.0 / 15.0))
    high = (1.0 / 17.0 + q * (1.0 / 19.0)) + q2 * (1.0 / 21.0)
    return k * _LOG2_HIGH + (2.0 * s * (low + q4 * (middle + q4 * high)) + k * _LOG2_LOW)


@njit(**_INLINED)
def _short_log1p(x):
    """Return log(1 + x) to 1e-12: in loops that wait for each answer, the C library's logarithm is the quicker one."""
    return np.log(1.0 + x) if abs(x) > 1e-4 else x * (1.0 - x * (0.5 - x / 3.0))


@njit(**_INLINED)
def _clip(x, low, high):
    return min(max(x, low), high)


@njit(**_INLINED)
def _square(x):
    return x * x


@njit(**_INLINED)
def _where(condition, one, other):
    return one if condition else other


@njit(**_INLINED)
def _logaddexp(a, b):
    return max(a, b) + _log1p(_exp(-abs(a - b)))


# Where samples are evaluated one by one, the C library's functions are the quicker ones.
_ONE_BY_ONE: dict[str, Callable[..., object]] = {
    "abs": abs, "clip": _clip, "exp": np.exp, "log": np.log, "log1p": np.log1p, "logaddexp": np.logaddexp,
    "maximum": max, "minimum": min, "sign": np.sign, "sqrt": np.sqrt, "square": _square, "tanh": np.tanh,
    "where": _where,
}  # fmt: skip
_MANY_AT_ONCE = _ONE_BY_ONE | {"exp": _exp, "log1p": _log1p, "logaddexp": _logaddexp}
_IN_TURN = _ONE_BY_ONE | {"log1p": _short_log1p}
_BUILT_IN: tuple[Formula, ...] = tuple(
    formula for formula in (getattr(cls.expand, "formula", None) for cls in INDIVIDUAL_LOSSES.values()) if formula
)


@intrinsic
def _call(_context, address, parameters, f, y):  # noqa: ARG001
    """Call the code of a formula where it lies."""

    def emit(context, builder, signature, arguments):
        address, parameters, f, y = arguments
        double = ir.DoubleType()
        kind = ir.FunctionType(ir.VoidType(), [double] * (_MOST_PARAMETERS + 2) + [double.as_pointer()])
        out = numba.core.cgutils.alloca_once(builder, double, size=3)
        each = [builder.extract_value(parameters, place) for place in range(_MOST_PARAMETERS)]
        builder.call(builder.inttoptr(address, kind.as_pointer()), [*each, f, y, out])
        places = (builder.gep(out, [ir.Constant(ir.IntType(32), place)]) for place in range(3))
        return context.make_tuple(builder, signature.return_type, [builder.load(place) for place in places])

    return types.UniTuple(types.float64, 3)(address, parameters, types.float64, types.float64), emit


class _One(NamedTuple):
    """A formula as compiled code for one sample: of its parameters with their names, prediction and target."""

    expand: Callable[..., tuple[float, float, float]]
    named: type

    @classmethod
    def of(cls, formula: Formula, functions: dict[str, Callable[..., object]]) -> _One:
        names = formula.parameters
        unused = tuple(f"unused_{place}" for place in range(len(names), _MOST_PARAMETERS))
        named = namedtuple("named", names + unused)  # type: ignore[misc]
        return cls(njit(**_INLINED)(formula.bound_to(functions)), named)


@cache
def _address(formula: Formula) -> int:
    """Compile a formula of a user, and return where the code lies; it is kept as long as the process."""
    expand, named = _One.of(formula, _ONE_BY_ONE)

    def write(a, b, c, d, f, y, out):
        out[0], out[1], out[2] = expand(named(a, b, c, d), f, y)

    numbers = [types.float64] * (_MOST_PARAMETERS + 2)
    code = numba.cfunc(types.void(*numbers, types.CPointer(types.float64)))(write)
    _KEPT.append(code)
    return int(code.address)


_KEPT: list[object] = []


@njit(**_INLINED)
def _other(loss, f, y):
    if loss.address != 0:
        return _call(loss.address, loss.parameters, f, y)
    return np.nan, np.nan, np.nan  # a code that is not known: nothing that could pass for an answer


def _with_every_formula(text: str, compiled_formulas: list[_One], **options: object) -> Any:
    """Return compiled code for any loss from the text of a function for one, which calls ``expand_it(loss, f, y)``.

    The text is repeated for each of the built-in formulas, behind the question which it is: loops that ask for every
    sample would take them one at a time.
    """
    head, *body = text.strip().splitlines()
    lines, names = [head, "    a, b, c, d = loss.parameters"], {"_other": _other}
    for place, (formula, one) in enumerate(zip(_BUILT_IN, compiled_formulas, strict=True)):
        names[f"expand_{place}"], names[f"named_{place}"] = one
        lines.append(f"    if loss.code == {formula.fingerprint}:")
        call = f"expand_{place}(named_{place}(a, b, c, d),"
        lines.extend(f"    {line}".replace("expand_it(loss,", call) for line in body)
    lines.extend(line.replace("expand_it", "_other") for line in body)
    exec("\n".join(lines), names)  # the text of this module, and numbers
    return njit(**_INLINED | options)(names[head.removeprefix("def ").partition("(")[0]])


_many_at_once = [_One.of(formula, _MANY_AT_ONCE) for formula in _BUILT_IN]
_EXPAND_ONE = """
def expand_one(loss, f, y):
    s, slope, curvature = expand_it(loss, f, y)
    return float(s), float(slope), float(curvature)
"""
expand_one = _with_every_formula(_EXPAND_ONE, _many_at_once)
_expand_in_turn = _with_every_formula(_EXPAND_ONE, [_One.of(formula, _IN_TURN) for formula in _BUILT_IN])
expand_slopes = _with_every_formula(
    """
def expand_slopes(loss, f, y, s, slope):
    for i in range(y.size):
        s[i], slope[i], _ = expand_it(loss, f[i], y[i])
    return
""",
    _many_at_once,
    forceinline=False,
    nogil=True,
)
expand_curvatures = _with_every_formula(
    """
def expand_curvatures(loss, f, y, s, curvature):
    for i in range(y.size):
        s[i], _, curvature[i] = expand_it(loss, f[i], y[i])
    return
""",
    _many_at_once,
    forceinline=False,
    nogil=True,
)


@njit(**_INLINED)
def loss_and_slope(loss, f, y):
    """Return the loss of one prediction and a slope of it: what :func:`expand_one` says, with the kink put in.

    It is for loops that wait for each answer.
    """
    s, slope, _ = _expand_in_turn(loss, f, y)
    if loss.kink == SMOOTH or s > 0.0:
        return s, slope
    return (-s, -slope) if loss.kink == ABSOLUTE else (0.0, 0.0)
