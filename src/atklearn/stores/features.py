"""The matrix of the features, and how passes over it are cut into blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from atklearn.losses.individual import Array
from atklearn.stores import passes, threads
from atklearn.stores.access import readable
from atklearn.stores.picking import Places

__all__ = ["Features"]

# Entries in a block; and how many blocks there are at most, each with a sum for every column.
ENTRIES = 1 << 17
_MOST_BLOCKS = 256
_ENTRY_COST = 0.5  # nanoseconds


class Features:
    """A matrix in memory, with a column of ones that is never stored, or without.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (n_rows, d)
    has_ones : bool
        Whether there is a column of ones, the last.
    """

    def __init__(self, X: Any, has_ones: bool) -> None:
        self.X = X
        self.has_ones = has_ones
        self.readable = readable(X)
        self.is_sparse = bool(sp.issparse(X))
        self.n_rows, self.d = (int(size) for size in X.shape)
        self.n_columns = self.d + has_ones
        n_entries = X.nnz if self.is_sparse else X.size
        self.entries_per_row = n_entries / max(self.n_rows, 1)
        # A block has many enough entries for its sums, one per column, to be few beside them.
        least = max(ENTRIES, 4 * self.d, n_entries // _MOST_BLOCKS)
        self.block = max(int(least / max(self.entries_per_row, 1.0)), 1)

    def split(self, z: Array) -> tuple[Array, float]:
        """Return the weights of the features and the intercept."""
        return (z[:-1], float(z[-1])) if self.has_ones else (z, 0.0)

    def over(self, work: Callable[..., Any], n: int, *arguments: Any) -> None:
        """Do work on n rows, block by block: see :func:`atklearn.stores.threads.run`."""
        if n <= self.block:
            work(0, 1, self.block, *arguments)
            return
        cost = _ENTRY_COST * n * self.entries_per_row
        threads.run(work, threads.count_blocks(n, self.block), cost, self.block, *arguments)

    def sums(self, work: Callable[..., Any], n: int, *arguments: Any, n_sums: int | None = None) -> Array:
        """Return what work on n rows, block by block, sums up: for every column, if nothing else is said."""
        if n <= self.block:
            sums = np.empty((1, n_sums or self.n_columns))
            work(0, 1, self.block, *arguments, sums)
            return np.asarray(sums[0])
        sums = np.empty((threads.count_blocks(n, self.block), n_sums or self.n_columns))
        self.over(work, n, *arguments, sums)
        return threads.add_up(sums)

    def take(self, places: Places) -> Any:
        """Return a copy of some rows."""
        if self.is_sparse:
            return self.X[places]
        out = np.empty((places.size, self.d), dtype=self.X.dtype)
        self.over(passes.copy_rows, places.size, self.X, places, out)
        return out

    def predict(self, w: Array, bias: float, out: Array) -> Array:
        """Fill ``out`` with ``X w + bias``."""
        self.over(passes.predict, self.n_rows, self.readable, w, bias, out)
        return out

    def pull_back(self, a: Array) -> Array:
        """Return ``X^T a``."""
        return self.sums(passes.pull_back, self.n_rows, self.readable, a, self.d)

    def pull_back_all(self, vectors: Sequence[Array]) -> list[Array]:
        """Return ``X^T a`` for several vectors, from one pass over X."""
        if len(vectors) == 1:
            return [self.pull_back(vectors[0])]
        n_sums = len(vectors) * self.n_columns
        sums = self.sums(passes.pull_back_all, self.n_rows, self.readable, np.array(vectors), self.d, n_sums=n_sums)
        return list(sums.reshape(len(vectors), self.n_columns))

    def pull_back_rows(self, rows: Places, a: Array) -> Array:
        """Return ``X^T a`` of some rows, ``a`` having one entry for each of these."""
        return self.sums(passes.pull_back_rows, rows.size, self.readable, rows, a, self.d)

    def gram_product(self, rows: Places, h: Array, w: Array, bias: float) -> Array:
        """Return ``sum(h_i (x_i . w + bias) x_i)`` over some rows."""
        return self.sums(passes.gram_product, rows.size, self.readable, rows, h, w, bias)

    def column_squares(self, rows: Places, h: Array) -> Array:
        """Return ``sum(h_i x_ij^2)`` over some rows, for every column."""
        return self.sums(passes.column_squares, rows.size, self.readable, rows, h, self.d)

    def weighted_squares(self, mass: Array) -> float:
        """Return ``sum(mass_i |x_i|^2)``, without the column of ones."""
        return float(self.sums(passes.weighted_squares, self.n_rows, self.readable, mass, n_sums=1)[0])
