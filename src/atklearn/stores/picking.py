"""Which rows: samples of them, and those with the largest losses."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from atklearn.losses.individual import Array

__all__ = ["PickedRows", "Places", "largest_places", "sample_by_weight", "sample_runs", "tell_enough"]

Places: TypeAlias = npt.NDArray[np.intp]

# Neighbouring rows drawn together.
_RUN = 8
# Rows drawn alike are good enough if at least this part of them carries the weight, or so many for every column.
_EVEN = 0.3
_FOR_A_COLUMN = 100


def tell_enough(n_drawn: int, n_columns: int, count: int, weight: float, square: float) -> bool:
    """Say whether rows drawn alike tell a weighted sum well.

    Parameters
    ----------
    n_drawn, n_columns : int
        How many are drawn, and how many numbers each has.
    count : int
    weight, square : float
        Sums of so many weights, and of their squares.

    Examples
    --------
    >>> tell_enough(100, 2, 4, 4.0, 4.0), tell_enough(100, 2, 4, 4.0, 16.0)  # 1 + 1 + 1 + 1, and 4 + 0 + 0 + 0
    (True, False)
    """
    return weight * weight * n_drawn >= min(_EVEN * n_drawn, _FOR_A_COLUMN * n_columns) * count * square


def sample_runs(rows: Places, most: int, rng: np.random.Generator) -> Places:
    """Draw ``most`` of the rows: short runs, one from each of as many equal parts; random, yet quick to read."""
    runs = most // _RUN
    starts = ((np.arange(runs) + rng.random(runs)) * ((rows.size - _RUN) / runs)).astype(np.intp)
    return np.asarray(rows[(starts[:, None] + np.arange(_RUN)).ravel()])


def sample_by_weight(weights: Array, most: int, rng: np.random.Generator) -> tuple[Places, Array]:
    """Draw ``most`` places, each as often as it weighs; return them, sorted, and how many places each stands for.

    Examples
    --------
    >>> places, scale = sample_by_weight(np.array([0.0, 2.0, 0.0, 6.0]), 4, np.random.default_rng(0))
    >>> places, scale
    (array([1, 3, 3, 3]), array([1.        , 0.33333333, 0.33333333, 0.33333333]))
    """
    ends = np.cumsum(weights)
    step = float(ends[-1]) / most
    if step == 0.0:  # nothing has weight
        return np.zeros(0, dtype=np.intp), np.zeros(0)
    # one from each of as many equal parts of the weight
    places = np.searchsorted(ends, (np.arange(most) + rng.random(most)) * step, side="right")
    places = np.minimum(places, np.flatnonzero(weights)[-1])  # rounding may reach beyond the last that has weight
    return places, step / weights[places]


def largest_places(losses: Array, count: int) -> Places:
    """Return the sorted places of the largest losses."""
    count = min(max(count, 1), losses.size)
    return np.sort(np.argpartition(losses, losses.size - count)[losses.size - count :])


class PickedRows:
    """Some of the rows, and their places."""

    def __init__(self, whole: Any, places: Places) -> None:
        self.whole, self.places = whole, places
        self.rows = whole.take(places)

    def restrict(self, density: Array) -> Array:
        """Return the densities of these rows."""
        return density[self.places]

    def extend(self, density: Array) -> Array:
        """Return densities of all rows."""
        out = np.zeros(self.whole.n_rows)
        out[self.places] = density
        return out
