"""How values look in messages, and which line of code a warning points at."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

__all__ = ["most_alike", "refuse_extremes", "refuse_weights", "shown", "stack_level"]

# Sums of squares up to which there is room for weights, and of targets from which on their last digits are not lost.
_MOST_SQUARES = 1e300
_LEAST_SQUARES = 1e-290
# Between the line of a user and a warning there may be any number of frames of these.
_INSIDE = ("atklearn", "contextlib", "joblib", "sklearn")


def shown(value: object) -> str:
    """Return a value as one would type it: numbers and labels of NumPy plainly, also within a collection.

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


def _plain(value: Any) -> object:
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
    elif not 1e-300 <= most <= 1e300:
        problem = f"weights of up to {most:g}, which float64 cannot add up; divide them by the largest"
    if problem is not None:
        raise ValueError(f"sample_weight is expected to be {n_samples} finite numbers >= 0, got {problem}.")


def refuse_extremes(name: str, squares: float, must_be_seen: bool = False) -> None:
    """Say that numbers are too large to be squared and added up, as all of them are, or too small where it matters.

    Parameters
    ----------
    name : str
        What holds the numbers.
    squares : float
        The sum of their squares.
    must_be_seen : bool, default=False
        Whether squares that vanish are trouble, as those of targets are.
    """
    is_small = squares < _LEAST_SQUARES
    if squares > _MOST_SQUARES or (is_small and must_be_seen):
        raise ValueError(
            f"{name} is expected to hold numbers whose squares float64 can add up, got some of about "
            f"{'1e-145 or less' if is_small else '1e+150 or more'}; divide {name} by its largest absolute value."
        )
