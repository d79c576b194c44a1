"""How values look in messages, and which line of code a warning points at."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

__all__ = ["most_alike", "refuse_weights", "shown", "stack_level"]

# Between the line of a user and a warning there may be any number of frames of these.
_INSIDE = ("atklearn", "contextlib", "joblib", "sklearn")


def shown(value: Any) -> str:
    """Return a value as one would type it: numbers and labels of NumPy plainly, also within a collection.

    Parameters
    ----------
    value : object

    Examples
    --------
    >>> import numpy as np
    >>> shown(np.float64(0.2)), shown("0.2"), shown({np.str_("yes"): np.int64(2)})
    ('0.2', "'0.2'", "{'yes': 2}")
    >>> shown([np.float64(0.5), 1]), shown(np.array([0.5, 1.0]))
    ('[0.5, 1]', '[0.5, 1.0]')
    """
    return repr(_plain(value))


def stack_level() -> int:
    """Return the ``stacklevel`` of a warning that points at the line where a user called us, or scikit-learn."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _INSIDE:
        frame, level = frame.f_back, level + 1
    return level


def most_alike(name: str, names: Sequence[str]) -> str | None:
    """Return the name that is spelt most alike, or that holds these three letters or more; None if there is none.

    Examples
    --------
    >>> most_alike("balanced", ["error", "balanced_error"]), most_alike("x", ["error"])
    ('balanced_error', None)
    """
    close = get_close_matches(name, names, n=1) or [each for each in names if len(name) > 2 and name in each]
    return close[0] if close else None


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return {_plain(key): _plain(entry) for key, entry in value.items()}
    if type(value) in (list, tuple, set):
        return type(value)(map(_plain, value))
    return value


def refuse_weights(n_samples: int, shape: tuple[int, ...], least: float, most: float) -> None:
    """Say what is wrong with sample weights, if it is so, by their shape and their ends, which are NaN if one is."""
    problem = None
    if shape != (n_samples,):
        problem = f"an array of shape {shape}; pass one weight per sample"
    elif not (np.isfinite(least) and np.isfinite(most)):
        problem = "NaN or infinity; replace or drop these samples"
    elif least < 0.0:
        problem = f"a weight of {least:g}; use 0 to leave a sample out"
    elif most == 0.0:
        problem = "all-zero weights; at least one sample needs a positive weight"
    if problem is not None:
        raise ValueError(f"sample_weight is expected to be {n_samples} finite numbers >= 0, got {problem}.")
