"""What to say where a device has no room left for a fit: how much it takes, and how many rows would fit."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from atklearn.problems.namespaces import has_home

__all__ = ["bytes_per_row", "saying_what_fits"]

Function = TypeVar("Function", bound=Callable[..., Any])

# Numbers in float64 that a fit has for every row beside X: predictions, densities, pulls, losses, those of a direction.
_NUMBERS_PER_ROW = 18
# One row in so many is copied for the start.
_THINNED = 20
# What passes take whatever the number of rows.
_AT_LEAST = 1 << 30


def bytes_per_row(n_features: int, element_size: int) -> float:
    """Return about how many bytes a fit takes for every row, beside X.

    Examples
    --------
    >>> bytes_per_row(32, 8)
    156.8
    """
    return 8.0 * _NUMBERS_PER_ROW + n_features * element_size / _THINNED


def saying_what_fits(function: Function) -> Function:
    """Turn what a device says when its memory is full into a MemoryError of one sentence, and let all of it go.

    The function, a method or not, takes X as its first argument, or by that name.
    """

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        torch = sys.modules.get("torch")
        if torch is None:
            return function(*arguments, **named)
        try:
            return function(*arguments, **named)
        except torch.OutOfMemoryError as error:
            traceback.clear_frames(error.__traceback__)  # they would keep tensors as long as the error is known
        X = next(each for each in (*arguments, named.get("X")) if has_home(each))
        raise MemoryError(_sentence(torch, X))  # outside, so that it does not hold the other one

    return call  # type: ignore[return-value]


def _sentence(torch: Any, X: Any) -> str:
    n, d = (int(size) for size in X.shape)
    tensor = torch.from_dlpack(X)
    each = bytes_per_row(d, tensor.element_size())
    free = _free_bytes(torch, tensor.device)
    rows = int(max(free - _AT_LEAST, 0) / each)
    needed = (n * each + _AT_LEAST) / 1e9
    return (
        f"A fit on X of shape ({n}, {d}) takes about {needed:.3g} GB beside X, and {tensor.device} "
        f"has {free / 1e9:.3g} GB left, enough for blocks of {min(rows, n)} rows; fit X[:{min(rows, n)}] or as many "
        "rows spread over X, or put X on disk and fit atklearn.ondisk.ArrayChunks of it, which are read in blocks."
    )


def _free_bytes(torch: Any, device: Any) -> float:
    """Return what a device has left for this process, its own reserve included."""
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info(device)
    share = getattr(torch.cuda, "get_per_process_memory_fraction", lambda _: 1.0)(device)
    return float(min(free, share * total - torch.cuda.memory_reserved(device)))
