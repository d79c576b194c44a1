"""Other units for the same problem: columns scaled and centred, targets shifted, so that rounding does less harm.

With ``x'_j = (x_j - centre_j) / scale_j`` and ``y' = y - shift``, the weights ``w'_j = w_j scale_j`` and the intercept
``b' = b + centre . w - shift`` make the same errors and pay the same penalty ``sum(w'_j^2 / scale_j^2) / (2 C)``. The
objective and its certificate are the same numbers; only the arithmetic that computes them changes. Centring and
shifting move the intercept, so they need one that is not penalised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import scipy.sparse as sp

from atklearn.losses.individual import Array

__all__ = ["Coordinates", "Units", "convert", "helpful_units", "looked_at"]

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


def helpful_units(X: Any, y: Array, *, centred: bool, regression: bool) -> Units | None:
    """Return better units for these data, or None if the user's are good enough.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,)
    centred : bool
        Whether offsets can be taken out: there is an intercept that is not penalised.
    regression : bool
        Whether the target has units, too.

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
            if ((np.abs(middle) > _FAR * spread) & (spread > 0.0)).any():  # a constant column does no harm
                centre = middle
                seen = seen - middle
        sizes = np.sqrt(np.mean(seen**2, axis=0))
    shift = 0.0
    if centred and regression:
        middle = float(y[rows][0] + np.mean(y[rows] - y[rows][0]))  # exact for a constant
        if abs(middle) > _FAR * float(y[rows].std()):
            shift = middle
    present = sizes[sizes > 0.0]
    uneven = present.size > 0 and present.max() > _UNEVEN * present.min()
    if not uneven and not shift and not centre.any():
        return None
    scale = np.ones(sizes.size)
    if uneven:
        scale[sizes > 0.0] = np.exp2(np.round(np.log2(present)))
    return Units(scale, centre, shift)


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
