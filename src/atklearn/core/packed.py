"""Large symmetric matrices in half the memory: LAPACK's rectangular full packed format, with its speed of full storage.

The lower triangle of a d x d matrix, cut and folded into a rectangle: d (d + 1) / 2 numbers that matrix products and
the Cholesky factorisation work on as they do on full storage.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpftrf, dpftrs, dsfrk

from atklearn.losses.individual import Array

__all__ = ["PackedSymmetric"]


class PackedSymmetric:
    """A symmetric matrix of which only the lower triangle is kept.

    Parameters
    ----------
    size : int

    Examples
    --------
    >>> matrix = PackedSymmetric(3)
    >>> matrix.add_gram(np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 1.0]]))
    >>> matrix.add_diagonal(np.ones(3))
    >>> matrix.factor()
    True
    >>> matrix.solve(np.array([2.0, 7.0, 3.0])).round(12) + 0.0
    array([0., 1., 1.])
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.numbers = np.zeros(size * (size + 1) // 2)

    def add_gram(self, block: Array, factor: float = 1.0) -> None:
        """Add ``factor * block^T block``, block being C-ordered, of shape (m, size)."""
        self.numbers = dsfrk(self.size, len(block), factor, block.T, 1.0, self.numbers, uplo="L", overwrite_c=True)

    def add_diagonal(self, values: Array) -> None:
        """Add to the diagonal."""
        self.numbers[self._diagonal()] += values

    def diagonal(self) -> Array:
        """Return the diagonal."""
        return np.asarray(self.numbers[self._diagonal()])

    def factor(self) -> bool:
        """Overwrite the matrix with its Cholesky factor; return whether there is one."""
        self.numbers, info = dpftrf(self.size, self.numbers, uplo="L", overwrite_a=True)
        return bool(info == 0)

    def solve(self, v: Array) -> Array:
        """Solve with the factor."""
        return np.asarray(dpftrs(self.size, self.numbers, v, uplo="L")[0]).ravel()

    def _diagonal(self) -> Array:
        """Return where the diagonal lies: the first half down the columns, the second above it, transposed."""
        d, half, odd = self.size, (self.size + 1) // 2, self.size % 2
        height = d + 1 - odd
        first, second = np.arange(half), np.arange(d - half)
        return np.concatenate([first + 1 - odd + first * height, second + (second + odd) * height])
