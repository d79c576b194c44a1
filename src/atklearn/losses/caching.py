"""A place for Numba's cache of compiled code.

Numba keeps it beside the source, or in the user's cache folder, or where ``NUMBA_CACHE_DIR`` says. Where none of these
can be written (an image that is read-only, a user without a home) it refuses to define the functions at all.
"""

from __future__ import annotations

import os
import warnings
from tempfile import TemporaryDirectory

from atklearn.losses.compiling import HAS_NUMBA, njit, numba

__all__ = ["prepare_cache"]

# It lives as long as this process.
_stopgap: TemporaryDirectory[str] | None = None


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
