"""Compiled code where there is Numba, and what becomes of it where there is none.

Loops over samples need Numba: without it they can be imported, and calling one says what to install. What the algorithm
itself calls, whatever holds the samples, runs as plain Python then.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

__all__ = ["FAST_SUMS", "HAS_NUMBA", "intrinsic", "ir", "njit", "njit_if_there", "numba", "overload", "types"]

# Sums may be reordered (that is what makes them fast), but NaN and inf keep their meaning.
FAST_SUMS = {"reassoc", "contract", "nsz"}

_MISSING = "Fits on arrays run compiled code, which needs numba: pip install numba; torch tensors need none."


def _module(name: str) -> Any:
    """Return a module, or None if it is not installed."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        return None


def _refusing(function: Any) -> Any:
    """Return what says that Numba is missing; ``py_func`` is the function itself, as it is where Numba compiles."""

    @wraps(function)
    def refuse(*_: Any, **__: Any) -> Any:
        raise ModuleNotFoundError(_MISSING, name="numba")

    refuse.py_func = function  # type: ignore[attr-defined]
    return refuse


numba, ir = _module("numba"), _module("llvmlite.ir")
types, _extending = _module("numba.core.types"), _module("numba.extending")
HAS_NUMBA = numba is not None and ir is not None
if HAS_NUMBA:
    # Left alone, Numba would learn its types with the first call, and fail a second thread that calls at that moment.
    _target = import_module("numba.core.registry").cpu_target
    _target.typing_context.refresh()
    _target.target_context.refresh()

# Numba's own, so that nothing comes between a caller and the compiled code.
njit = numba.njit if HAS_NUMBA else lambda **_: _refusing
# Only compiled code asks for what these two decorate.
intrinsic = _extending.intrinsic if HAS_NUMBA else lambda function: function
overload = _extending.overload if HAS_NUMBA else lambda *_, **__: lambda function: function


def njit_if_there(*, instead: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Return a decorator that compiles a function; without Numba it runs as it is, or something ``instead``.

    Parameters
    ----------
    instead : callable, default=None
        What does the same in NumPy or SciPy, for a function whose loops would take Python too long.
    **options
        Of ``numba.njit``.

    Examples
    --------
    >>> @njit_if_there(error_model="numpy")
    ... def half(x):
    ...     return x / 2
    >>> half(3.0)
    1.5
    """
    return njit(**options) if HAS_NUMBA else lambda function: instead or function
