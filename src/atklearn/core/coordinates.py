"""Other coordinates for the same problem, in which rounding does less harm, or which are fewer.

**Units**: columns scaled and centred, targets shifted. With ``x'_j = (x_j - centre_j) / scale_j`` and
``y' = y - shift``, the weights ``w'_j = w_j scale_j`` and the intercept ``b' = b + centre . w - shift`` make the same
errors and pay the same penalty ``sum(w'_j^2 / scale_j^2) / (2 C)``. The objective and its certificate are the same
numbers; only the arithmetic that computes them changes. Centring and shifting move the intercept, so they need one that
is not penalised.

**Rotation** into fewer columns: n rows span at most n directions, and the penalty does not see a rotation. With
``X - 1 centre^T = L Q^T``, where the columns of Q are orthonormal, v on the rows L makes the predictions that
``w = Q v`` makes on X and pays the same penalty; weights outside the span of Q only cost. L, of at most n columns, is
the (pivoted) Cholesky factor of the Gram matrix of the rows, so Q is never formed: it is ``(X_p - 1 centre^T)^T
L_p^-T`` for the pivot rows p.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import scipy.sparse as sp
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpstrf

from atklearn.losses.individual import Array

__all__ = [
    "Coordinates",
    "Rotation",
    "Units",
    "convert",
    "even_units",
    "helpful_units",
    "is_worth_rotating",
    "looked_at",
    "rotate",
]

# Rows that are looked at, fewer if there are many columns: enough to tell sizes.
_LOOKED_AT = 1000
_FEWEST = 50
_NUMBERS = 200_000
_ENTRIES = 8
# Units are changed if columns differ in size by this factor, or offsets exceed the spread by that.
_UNEVEN = 1e3
_FAR = 30.0


class Coordinates(Protocol):
    """Other coordinates of the weights than the user's; the penalty is ``sum((w / scale)^2) / (2 C)`` in them."""

    @property
    def scale(self) -> Array:
        """One number per column."""

    @property
    def is_exact(self) -> bool:
        """Whether what is certified in these coordinates holds in the user's to the last digits."""

    def inward(self, weights: Array, intercept: float) -> tuple[Array, float]:
        """Return weights and intercept in these coordinates, for given ones in the user's."""

    def outward(self, weights: Array, intercept: float) -> tuple[Array, float]:
        """Return weights and intercept in the user's coordinates, for given ones in these."""


@dataclass(frozen=True)
class Units:
    """The units of features and target; ``scale`` are powers of two, so that scaling rounds nothing.

    Attributes
    ----------
    scale, centre : ndarray of shape (n_features,)
    shift : float
    """

    scale: Array
    centre: Array
    shift: float
    is_exact: ClassVar[bool] = True

    def inward(self, weights: Array, intercept: float) -> tuple[Array, float]:
        """Return weights and intercept in these units, for given ones in the user's."""
        # the terms may be large and cancel: in more digits than they have
        moved = np.dot(self.centre.astype(np.longdouble), weights.astype(np.longdouble))
        return weights * self.scale, float(np.longdouble(intercept) - np.longdouble(self.shift) + moved)

    def outward(self, weights: Array, intercept: float) -> tuple[Array, float]:
        """Return weights and intercept in the user's units, for given ones in these."""
        weights = weights / self.scale
        moved = np.dot(self.centre.astype(np.longdouble), weights.astype(np.longdouble))
        return weights, float(np.longdouble(intercept) + np.longdouble(self.shift) - moved)


def helpful_units(
    X: Any, y: Array, *, centred: bool, regression: bool, uneven: float = _UNEVEN, far: float = _FAR
) -> Units | None:
    """Return better units for these data, or None if the user's are good enough.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,)
    centred : bool
        Whether offsets can be taken out: there is an intercept that is not penalised.
    regression : bool
        Whether the target has units, too.
    uneven, far : float
        By how much columns may differ in size, and offsets exceed the spread.

    Examples
    --------
    >>> X, y = np.array([[1e9, 1.0], [1e9 + 1.0, 2.0], [1e9 + 2.0, 4.0]]), np.array([1.0, 0.0, 1.0])
    >>> float(helpful_units(X, y, centred=True, regression=True).centre[0] - 1e9)
    1.0
    """
    rows = looked_at(*X.shape)
    seen = X[rows].toarray() if _is_full(X) else X[rows]
    centre = np.zeros(X.shape[1])
    if sp.issparse(seen):  # centring would fill it, and rare entries are not small ones
        counts = np.bincount(seen.indices, minlength=X.shape[1])
        squares = np.bincount(seen.indices, weights=seen.data.astype(float) ** 2, minlength=X.shape[1])
        enough = counts >= min(_ENTRIES, y[rows].size)  # to tell the size of a column
        sizes = np.sqrt(np.where(enough, squares, 0.0) / np.maximum(counts, 1))
    else:
        seen = seen.astype(np.float64, copy=False)
        if centred and seen.size:
            middle, spread = seen.mean(axis=0), seen.std(axis=0)
            if ((np.abs(middle) > far * spread) & (spread > 0.0)).any():  # a constant column does no harm
                centre = middle
                seen = seen - middle
        sizes = np.sqrt(np.mean(seen**2, axis=0))
    shift = 0.0
    if centred and regression:
        middle = float(y[rows][0] + np.mean(y[rows] - y[rows][0]))  # exact for a constant
        if abs(middle) > far * float(y[rows].std()):
            shift = middle
    present = sizes[sizes > 0.0]
    rescaled = present.size > 0 and present.max() > uneven * present.min()
    if not rescaled and not shift and not centre.any():
        return None
    scale = np.ones(sizes.size)
    if rescaled:
        scale[sizes > 0.0] = np.exp2(np.round(np.log2(present)))
    return Units(scale, centre, shift)


def even_units(X: Any, y: Array, *, centred: bool, regression: bool) -> Units | None:
    """Return units in which all columns have one size, and none an offset, for where rounding has stopped a solver."""
    return helpful_units(X, y, centred=centred, regression=regression, uneven=2.0, far=0.0)


def looked_at(n_rows: int, n_features: int) -> slice:
    """Return which rows tell the sizes of columns; of these rows alone, all do."""
    count = min(_LOOKED_AT, max(_FEWEST, _NUMBERS // max(n_features, 1)))
    return slice(None, None, max(1, n_rows // count))


def convert(X: Any, y: Array, units: Units) -> tuple[Any, Array]:
    """Return features and targets in other units."""
    if _is_full(X):
        X = X.toarray()
    if sp.issparse(X):
        data = X.data / units.scale[X.indices]
        return type(X)((data, X.indices, X.indptr), shape=X.shape), y - units.shift
    return (X.astype(np.float64) - units.centre) / units.scale, y - units.shift


def _is_full(X: Any) -> bool:
    """Say whether a matrix is called sparse but is not: it can be centred like an array."""
    return bool(sp.issparse(X) and 2 * X.nnz > X.shape[0] * X.shape[1])


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
