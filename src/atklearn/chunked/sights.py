"""How a problem sees the rows of a chunk: which of them, with which targets, paying which loss, in which units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from atklearn.core.coordinates import Units
from atklearn.losses.individual import Array, IndividualLoss
from atklearn.selection.distribution import row_marks

__all__ = ["FoldPart", "Labels", "Sight", "View", "as_features"]


@dataclass(frozen=True)
class Labels:
    """The classes of all chunks, sorted, and what samples of each are multiplied with."""

    classes: npt.NDArray[Any]
    weights: Array | None = None

    def codes(self, y: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
        """Return which class every label is."""
        return np.searchsorted(self.classes, y)


@dataclass(frozen=True)
class FoldPart:
    """The rows outside one of some folds, or those in it; a row's fold depends on its values alone."""

    n_folds: int
    fold: int
    seed: int
    is_held_out: bool = False

    def of(self, X: Any) -> npt.NDArray[np.bool_]:
        """Return which rows belong to this part."""
        inside = row_marks(X, np.zeros(X.shape[0]), self.seed) % np.uint64(self.n_folds) == self.fold
        return np.asarray(inside == self.is_held_out)


@dataclass(frozen=True)
class Sight:
    """Which rows count, and what their targets are.

    Attributes
    ----------
    token : int
        Its name in the memory of chunks.
    labels : Labels or None
        None for a regression.
    positive : int or None
        The class that is told from the rest; None where no targets are needed.
    part : FoldPart or None
    """

    token: int
    labels: Labels | None = None
    positive: int | None = None
    part: FoldPart | None = None

    def mass(self, y: npt.NDArray[Any], weight: Array | None) -> Array:
        """Return sample weights times class weights, shape (n_rows,)."""
        mass = np.ones(y.size) if weight is None else np.asarray(weight, dtype=np.float64)
        if self.labels is not None and self.labels.weights is not None:
            mass = mass * self.labels.weights[self.labels.codes(y)]
        return mass

    def numbers(self, y: npt.NDArray[Any]) -> Array:
        """Return the targets as a loss takes them; the codes of the classes if none is told from the rest."""
        return self.aimed(np.asarray(y if self.labels is None else self.labels.codes(y), dtype=np.float64))

    def aimed(self, codes: Array) -> Array:
        """Return the targets, for codes of classes, or targets as they are."""
        return codes if self.positive is None else np.where(codes == self.positive, 1.0, -1.0)


@dataclass(frozen=True)
class View:
    """What a problem makes of the rows it sees."""

    sight: Sight
    loss: IndividualLoss
    ones: bool
    units: Units | None = None

    @property
    def shift(self) -> float:
        """What is taken off the targets."""
        return 0.0 if self.units is None else self.units.shift


def as_features(X: Any) -> Any:
    """Return the features of a chunk, an array, sparse matrix or table, as C-ordered array or CSR."""
    if sp.issparse(X):
        matrix = X.tocsr()
        small = np.int32
        if matrix.indices.dtype != small or matrix.indptr.dtype != small:
            indices, indptr = matrix.indices.astype(small), matrix.indptr.astype(small)
            matrix = type(matrix)((matrix.data, indices, indptr), shape=matrix.shape)
        return matrix
    array = X.to_numpy() if hasattr(X, "to_numpy") else np.asarray(X)
    wanted = array.dtype if array.dtype in (np.float32, np.float64) else np.float64
    return np.ascontiguousarray(array, dtype=wanted)
