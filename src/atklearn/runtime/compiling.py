"""Compiled code where there is Numba, and what becomes of it where there is none.

Loops over samples need Numba: without it they can be imported, and calling one says what to install. What the algorithm
itself calls, whatever holds the samples, runs as plain Python then.

Numba keeps compiled code beside the source, or in the user's cache folder, or where ``NUMBA_CACHE_DIR`` says. Where
none of these can be written (an image that is read-only, a user without a home) it refuses to define the functions at
all: then :func:`prepare_cache` finds another place.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

__all__ = [
    "FAST_SUMS",
    "HAS_NUMBA",
    "intrinsic",
    "ir",
    "njit",
    "njit_if_there",
    "numba",
    "overload",
    "prepare_cache",
    "types",
]

# Sums may be reordered (that is what makes them fast), but NaN and inf keep their meaning.
FAST_SUMS = {"reassoc", "contract", "nsz"}

_MISSING = "Fits on arrays run compiled code, which needs numba: pip install numba; torch tensors need none."
_stopgap: TemporaryDirectory[str] | None = None  # it lives as long as this process


def _module(name: str) -> Any:
    """Return a module, or None if it is not installed."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        return None


def _refusing(function: Callable[..., object]) -> Callable[..., NoReturn]:
    """Return what says that Numba is missing; ``py_func`` is the function itself, as it is where Numba compiles."""

    @wraps(function)
    def refuse(*_: object, **__: object) -> NoReturn:
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


def prepare_cache() -> None:
    """Make sure that compiled code can be cached somewhere: if nowhere else, in a temporary folder, with a warning."""
    global _stopgap
    if not HAS_NUMBA or _stopgap is not None or _is_writable():
        return
    _stopgap = TemporaryDirectory(prefix="atklearn-", ignore_cleanup_errors=True)
    os.environ["NUMBA_CACHE_DIR"] = _stopgap.name  # for worker processes, too
    numba.config.reload_config()
    warnings.warn(
        "Numba can write its cache of compiled code neither beside the package nor in the user's cache folder, so "
        "every process compiles anew, which takes about half a minute. Set the environment variable NUMBA_CACHE_DIR "
        "to a folder that can be written and lasts.",
        stacklevel=2,
    )


def _is_writable() -> bool:
    """Whether Numba finds a place for the cache."""
    try:
        njit(cache=True)(_nothing)
    except RuntimeError:  # "no locator available"
        return False
    return True


def _nothing() -> None:
    """Stand for all compiled functions: they are kept where this one would be."""
