"""Formulas that are written once, in NumPy, for one sample or many: compiled code, tensors and kernels follow.

A formula is the method :meth:`IndividualLoss.expand` of a loss, marked with :func:`elementwise`. It is ordinary Python
over NumPy, so that on arrays it runs as it stands. Everywhere else the same code runs with other functions in the
place of NumPy's: see :meth:`Formula.bound_to`.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, wraps
from types import CellType, FunctionType, ModuleType
from typing import Any, TypeAlias
from zlib import crc32

import numpy as np
import numpy.typing as npt

__all__ = ["FUNCTIONS", "Array", "Formula", "Parts", "elementwise", "formula_of"]

Array: TypeAlias = npt.NDArray[np.float64]
Parts: TypeAlias = tuple[Array | float, Array | float, Array | float]

# What a formula may call, by its name in NumPy.
FUNCTIONS = (
    "abs", "clip", "exp", "log", "log1p", "logaddexp", "maximum", "minimum", "sign", "sqrt", "square", "tanh", "where",
)  # fmt: skip
_BY_VALUE = {getattr(np, name): name for name in FUNCTIONS} | {abs: "abs"}


@dataclass(frozen=True, eq=False)
class Formula:
    """A formula as it was written, to be run with other functions than NumPy's.

    Parameters
    ----------
    text : callable
        Takes the loss, a prediction and a target; returns ``s``, its slope and its curvature.
    """

    text: Callable[[Any, Array, Array], Parts]

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The attributes of the loss that it reads."""
        known = set(FUNCTIONS) | set(self.outer)
        return tuple(name for name in self.text.__code__.co_names if name not in known)

    def values(self, loss: Any) -> tuple[float, ...]:
        """Return the numbers that a loss has for its parameters.

        Parameters
        ----------
        loss : IndividualLoss

        Raises
        ------
        TypeError
            If one of them is not a number.
        """
        missing = [name for name in self.parameters if not isinstance(getattr(loss, name, None), float | int)]
        if missing:
            raise TypeError(
                f"{type(loss).__name__}.expand is marked @elementwise and is expected to use arithmetic, numbers of "
                f"the loss and np.{', np.'.join(FUNCTIONS)}; {missing[0]!r} is none of these. Write it with them, or "
                "leave out @elementwise."
            )
        return tuple(float(getattr(loss, name)) for name in self.parameters)

    def bound_to(self, functions: Mapping[str, Any]) -> FunctionType:
        """Return the same code with other functions in the place of NumPy's.

        Parameters
        ----------
        functions : mapping of str to callable
            By their names in NumPy, some or all of :data:`FUNCTIONS`.
        """
        module = ModuleType("numpy")  # compiled code looks up attributes of modules only
        vars(module).update(functions)

        def other(value: Any) -> Any:
            return module if value is np else functions.get(_BY_VALUE[value]) if _is_function(value) else value

        code = self.text.__code__
        outer = {name: other(value) for name, value in self.outer.items()}
        closure = tuple(CellType(outer[name]) for name in code.co_freevars)
        return FunctionType(code, outer | {"__builtins__": builtins}, self.text.__name__, None, closure)

    @property
    def fingerprint(self) -> int:
        """A number that another formula does not have, and this one only as long as it stays as it is."""
        code = self.text.__code__
        numbers = sorted((name, value) for name, value in self.outer.items() if isinstance(value, float | int))
        return crc32(repr((code.co_code, code.co_consts, code.co_names, code.co_varnames, numbers)).encode())

    @cached_property
    def outer(self) -> dict[str, Any]:
        """What it reads from outside, by name: NumPy, functions of it, numbers."""
        code, found = self.text.__code__, {}
        cells = dict(zip(code.co_freevars, self.text.__closure__ or (), strict=True))
        for name in (*code.co_names, *cells):
            if name in cells:
                found[name] = cells[name].cell_contents
            elif name in self.text.__globals__:
                found[name] = self.text.__globals__[name]
            elif hasattr(builtins, name):
                found[name] = getattr(builtins, name)
        for name, value in found.items():
            if not (value is np or _is_function(value) or isinstance(value, float | int)):
                raise TypeError(
                    f"{self.text.__qualname__} is marked @elementwise and is expected to use arithmetic, numbers and "
                    f"np.{', np.'.join(FUNCTIONS)}; {name!r} is none of these. Write it with them, or leave out "
                    "@elementwise."
                )
        return found


def elementwise(
    expand: Callable[[Any, Array, Array], Parts],
) -> Callable[[Any, Array, Array], tuple[Array, Array, Array]]:
    """Mark the ``expand`` of a loss as a formula that treats every sample by itself, so that it can be compiled.

    It may use arithmetic, comparisons, numbers of the loss (``self.delta``) and ``np.abs, clip, exp, log, log1p,
    logaddexp, maximum, minimum, sign, sqrt, square, tanh, where``; no branches on samples, which ``np.where`` is for,
    and no other function. What it returns may be plain numbers, where they are the same for all samples.

    The loss is then part of the compiled passes, of the stochastic steps and of boosting, and is computed where
    tensors lie, instead of being called back in Python.

    Parameters
    ----------
    expand : callable
        The method of a subclass of :class:`atklearn.IndividualLoss`.

    Returns
    -------
    expand : callable
        The method, for arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from atklearn import ATkRegressor, IndividualLoss, elementwise
    >>> class Expectile(IndividualLoss):
    ...     task = "regression"
    ...
    ...     def __init__(self, share):
    ...         self.share = share
    ...
    ...     @elementwise
    ...     def expand(self, prediction, target):
    ...         error = prediction - target
    ...         weight = np.where(error < 0.0, self.share, 1.0 - self.share)
    ...         return weight * error**2, 2.0 * weight * error, 2.0 * weight
    >>> Expectile(0.9)(np.array([0.0, 2.0]), np.array([1.0, 1.0])).round(3)
    array([0.9, 0.1])
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> ATkRegressor(Expectile(0.9), k=0.5, C=1e6).fit(X, [0.0, 2.0, 4.0, 6.0]).predict([[5.0]]).round(2)
    array([10.])
    """

    @wraps(expand)
    def on_arrays(self: Any, prediction: Array, target: Array) -> tuple[Array, Array, Array]:
        s, slope, curvature = (
            part if isinstance(part, np.ndarray) else np.full(prediction.shape, part)
            for part in expand(self, prediction, target)
        )
        return s, slope, curvature

    on_arrays.formula = Formula(expand)  # type: ignore[attr-defined]
    return on_arrays


def formula_of(loss: Any) -> Formula | None:
    """Return the formula of a loss, or None if its ``expand`` is not marked as one.

    Examples
    --------
    >>> from atklearn import Huber
    >>> formula_of(Huber(2.0)).parameters
    ('delta',)
    """
    return getattr(type(loss).expand, "formula", None)


def _is_function(value: Any) -> bool:
    return callable(value) and value in _BY_VALUE
