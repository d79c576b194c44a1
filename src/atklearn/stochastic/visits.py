"""In which order a stochastic solver visits the rows.

All visits weigh the same: a row of mass 2 is visited twice, a row of mass 0 never, and a row of mass 0.5 every second
time. So weights mean repetition by construction, and no heavy row makes a large step.

In shuffled passes the order starts from the rows themselves, sorted by a hash of their values, before it is shuffled.
Then neither the order of the rows, nor whether a row is repeated or weighted, nor whether the matrix is dense or
sparse, changes what a seed gives.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from atklearn.losses.individual import Array
from atklearn.runtime.compiling import njit
from atklearn.stores.compiled import Places

__all__ = ["MassClock", "passes"]

# Weights that sum to more than this many visits per row are scaled down: beyond it, a pass gets longer, not better.
_MAX_VISITS_PER_ROW = 10


class MassClock:
    """Turns the mass of the rows that come by into visits: one for every unit of mass, across blocks of rows.

    Examples
    --------
    >>> import numpy as np
    >>> clock = MassClock()
    >>> clock.visits(np.array([1.0, 2.0, 0.0])), clock.visits(np.array([0.5, 0.5, 0.5]))
    (array([0, 1, 1]), array([0, 2]))
    """

    def __init__(self, start: float = 0.5) -> None:
        self.time = start

    def visits(self, mass: Array) -> Places:
        """Return the positions of the rows in the order of their visits, repeated as often as they are visited."""
        counts, self.time = _count_ticks(mass, self.time)
        return np.repeat(np.arange(mass.size), counts)


def passes(X: Any, y: Array, mass: Array, shuffle: bool, seed: int) -> Iterator[Places]:
    """Yield the visits of one pass over the data after the other.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d)
    y : ndarray of shape (n,)
    mass : ndarray of shape (n,)
        Sample weights >= 0.
    shuffle : bool
        Whether each pass has a random order of its own; otherwise rows are visited cyclically, as they come.
    seed : int
    """
    rows = np.argsort(row_keys(X, y), kind="stable") if shuffle else np.arange(mass.size)
    rows = rows[mass[rows] > 0.0]
    total = mass.sum()
    unit = np.clip(np.ceil(total * (1.0 - 1e-9)), rows.size, _MAX_VISITS_PER_ROW * rows.size) / total
    plain = bool(mass[rows].min() == mass[rows].max()) and total * unit == rows.size
    rng = np.random.default_rng(seed)
    while True:
        # Where weights are fractions, a fresh offset picks other rows each time, in proportion to their mass. It is
        # drawn in any case, so that the same shuffles follow whether rows are weighted or repeated.
        clock = MassClock(rng.random())
        visits = rows if plain else rows[clock.visits(mass[rows] * unit)]
        yield rng.permutation(visits) if shuffle else visits


def row_keys(X: Any, y: Array) -> npt.NDArray[np.uint64]:
    """Return a number for each row that depends on its non-zero values, their columns and its target only."""
    keys: npt.NDArray[np.uint64] = _sparse_keys(X.data, X.indices, X.indptr, y) if sp.issparse(X) else _dense_keys(X, y)
    return keys


@njit(cache=True)
def _count_ticks(mass, time):  # type: ignore[no-untyped-def]
    """Count the units completed by each row; row by row, so that it does not matter where a block ends."""
    counts = np.empty(mass.size, np.int64)
    for i in range(mass.size):
        time += mass[i]
        counts[i] = int(time)
        time -= counts[i]
    return counts, time


@njit(cache=True)
def _mix(column, value, cell):  # type: ignore[no-untyped-def]
    """Scramble one entry of a row into 64 bits, so that sums over the entries tell rows apart."""
    cell[0] = value
    bits = cell.view(np.uint64)[0] + np.uint64(0x9E3779B97F4A7C15) * np.uint64(column + 1)
    bits = (bits ^ (bits >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    bits = (bits ^ (bits >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return bits ^ (bits >> np.uint64(32))


@njit(cache=True)
def _dense_keys(X, y):  # type: ignore[no-untyped-def]
    keys = np.empty(X.shape[0], np.uint64)
    cell = np.empty(1)  # where the bits of a number are read
    for i in range(X.shape[0]):
        key = _mix(-1, y[i], cell)
        for j in range(X.shape[1]):
            if X[i, j] != 0.0:
                key += _mix(j, X[i, j], cell)
        keys[i] = key
    return keys


@njit(cache=True)
def _sparse_keys(data, indices, indptr, y):  # type: ignore[no-untyped-def]
    keys = np.empty(indptr.size - 1, np.uint64)
    cell = np.empty(1)
    for i in range(keys.size):
        key = _mix(-1, y[i], cell)
        for position in range(indptr[i], indptr[i + 1]):
            if data[position] != 0.0:
                key += _mix(indices[position], data[position], cell)
        keys[i] = key
    return keys
