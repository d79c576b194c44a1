"""Fewer columns for the same problem: n rows span at most n directions, and the penalty does not see a rotation.

With ``X - 1 centre^T = L Q^T``, where the columns of Q are orthonormal, v on the rows L makes the predictions that
``w = Q v`` makes on X and pays the same penalty; weights outside the span of Q only cost. L, of at most n columns, is
the (pivoted) Cholesky factor of the Gram matrix of the rows, so Q is never formed: it is ``(X_p - 1 centre^T)^T
L_p^-T`` for the pivot rows p.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpstrf

from atklearn.losses.individual import Array

__all__ = ["Rotation", "is_worth_rotating", "rotate"]

# Columns of X whose products are added at once: so many that BLAS is quick, so few that a copy is small.
_BLOCK = 512
# With so many columns, and so many for each row, the rows are rotated into fewer.
_MANY_COLUMNS = 100
_WIDE = 2.5


class Rotation:
    """Where the columns of rotated rows point to.

    Attributes
    ----------
    scale : ndarray of shape (rank,)
        Ones: the penalty is the same as in the user's coordinates.
    """

    is_exact = False  # the factor has been rounded

    def __init__(self, X: Any, centre: Array, factor: Array, pivots: Array, shift: float = 0.0) -> None:
        self.X, self.centre, self.factor, self.pivots, self.shift = X, centre, factor, pivots, shift
        self.scale = np.ones(factor.shape[1])

    def shifted(self, shift: float) -> Rotation:
        """Return the same rotation for targets less a shift."""
        return Rotation(self.X, self.centre, self.factor, self.pivots, shift)

    def outward(self, weights: Array, intercept: float) -> tuple[Array, float]:
        """Return weights and intercept in the user's coordinates, for given ones in these."""
        dual = np.zeros(len(self.X))
        dual[self.pivots] = self._solve(weights, "T")
        weights = dual @ self.X - self.centre * dual.sum()
        return weights, float(intercept + self.shift - self.centre @ weights)

    def inward(self, weights: Array, intercept: float) -> tuple[Array, float]:
        """Return the weights in these coordinates that predict the same on the rows, and the intercept."""
        predictions = (self.X @ weights)[self.pivots] - self.centre @ weights
        return self._solve(predictions, "N"), float(intercept - self.shift + self.centre @ weights)

    def _solve(self, v: Array, trans: str) -> Array:
        """Solve with the factor of the pivot rows, or its transpose."""
        out: Array = solve_triangular(self.factor[self.pivots], v, lower=True, trans=trans, check_finite=False)
        return out


def is_worth_rotating(n_rows: int, n_features: int) -> bool:
    """Say whether so many more columns than rows are best rotated into fewer.

    Examples
    --------
    >>> is_worth_rotating(100, 1000), is_worth_rotating(1000, 1000)
    (True, False)
    """
    return n_features >= max(_MANY_COLUMNS, _WIDE * n_rows)


def rotate(X: Array, centre: Array) -> Rotation | None:
    """Return the rotation of the rows ``X - centre``; None if they are all zero.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    centre : ndarray of shape (n_features,)

    Examples
    --------
    >>> X = np.array([[3.0, 4.0, 0.0], [6.0, 8.0, 0.0]])
    >>> rotation = rotate(X, np.zeros(3))
    >>> rotation.factor.round(9)
    array([[ 5.],
           [10.]])
    >>> weights, _ = rotation.outward(np.array([1.0]), 0.0)
    >>> weights.round(9)
    array([0.6, 0.8, 0. ])
    """
    n, d = X.shape
    if X.dtype == np.float64 and not centre.any():
        gram = (X @ X.T).T
    else:
        gram = np.zeros((n, n), order="F")
        for begin in range(0, d, _BLOCK):
            part = slice(begin, begin + _BLOCK)
            block = X[:, part] - centre[part]
            gram = dsyrk(1.0, block.T, beta=1.0, c=gram, trans=1, lower=1, overwrite_c=1)
    gram, order, rank, _ = dpstrf(gram, lower=1, overwrite_a=1)
    if rank == 0:
        return None
    order = order - 1
    for column in range(1, rank):  # in place: another copy would take as much memory again
        gram[:column, column] = 0.0
    factor = np.empty((n, rank))
    factor[order] = gram[:, :rank]
    return Rotation(X, centre, factor, order[:rank])
