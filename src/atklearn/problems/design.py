"""The solver's only contact with the data: four operations on the design matrix.

A design is X with, if asked for, a last column of ones for the intercept that is never stored. Solvers call
``predict`` (X z), ``pull_back`` (X^T a), ``gram`` (X^T diag(h) X, or its diagonal alone) and ``take`` (some rows),
and nothing else, so the same loop can run on anything that offers these four.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, TypeAlias

import numba
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from atklearn.losses.individual import Array

Rows: TypeAlias = npt.NDArray[np.intp]

# Rows handled at once where a scaled copy is needed: small enough for the cache, large enough for BLAS.
_BLOCK = 2048
# Sums may be reordered (that is what makes them fast), but NaN and inf keep their meaning.
FAST_SUMS = {"reassoc", "contract", "nsz"}


class Design(ABC):
    """Design matrix of shape (n_rows, n_columns), the last column being ones if ``intercept``.

    A subclass implements the operations for the columns of X; the column of ones is added here.
    """

    def __init__(self, X: Any, intercept: bool) -> None:
        self.X = X
        self.intercept = intercept
        self.n_rows = int(X.shape[0])
        self.n_features = int(X.shape[1])
        self.n_columns = self.n_features + intercept

    def predict(self, z: Array) -> Array:
        """Return X z, shape (n_rows,)."""
        return self._predict(z[: self.n_features], z[-1] if self.intercept else 0.0)

    def pull_back(self, a: Array, rows: Rows | None = None) -> Array:
        """Return X^T a over the given rows (all by default), shape (n_columns,); ``a`` has one entry per given row."""
        out = self._pull_back(a, rows)
        return np.append(out, a.sum()) if self.intercept else out

    def gram(self, h: Array, rows: Rows | None = None) -> Array:
        """Return X^T diag(h) X over the given rows (all by default) for ``h >= 0``, one entry per given row."""
        out = np.empty((self.n_columns, self.n_columns))
        out[: self.n_features, : self.n_features], border = self._gram(h, rows)
        if self.intercept:
            out[-1] = out[:, -1] = np.append(border, h.sum())
        return out

    def column_squares(self, h: Array) -> Array:
        """Return the diagonal of X^T diag(h) X, shape (n_columns,)."""
        out = self._column_squares(h)
        return np.append(out, h.sum()) if self.intercept else out

    def take(self, rows: Rows) -> Design:
        """Return the design of the given rows."""
        return type(self)(self.X[rows], self.intercept)

    @abstractmethod
    def _predict(self, w: Array, bias: float) -> Array: ...

    @abstractmethod
    def _pull_back(self, a: Array, rows: Rows | None) -> Array: ...

    @abstractmethod
    def _gram(self, h: Array, rows: Rows | None) -> tuple[Array, Array]:
        """Return X^T diag(h) X and X^T h."""

    @abstractmethod
    def _column_squares(self, h: Array) -> Array: ...


class DenseDesign(Design):
    """A C-ordered NumPy array of float32 or float64; every sum is accumulated in float64."""

    def _predict(self, w: Array, bias: float) -> Array:
        return _dense_predict(self.X, w, bias)

    def _pull_back(self, a: Array, rows: Rows | None) -> Array:
        return _dense_pull_back(self.X, a) if rows is None else _dense_pull_back_rows(self.X, a, rows)

    def _gram(self, h: Array, rows: Rows | None) -> tuple[Array, Array]:
        out, border = np.zeros((self.n_features, self.n_features)), np.zeros(self.n_features)
        scaled = np.empty((_BLOCK, self.n_features))
        constant = rows is None and self.X.dtype == np.float64 and h.min() == h.max()
        for begin in range(0, h.size, _BLOCK):
            block = slice(begin, begin + _BLOCK)
            X = self.X[block if rows is None else rows[block]]
            root = np.sqrt(h[block])
            if not constant:
                X = np.multiply(X, root[:, None], out=scaled[: len(X)])
            out += X.T @ X
            border += root @ X
        return (h[0] * out, np.sqrt(h[0]) * border) if constant else (out, border)

    def _column_squares(self, h: Array) -> Array:
        return _dense_column_squares(self.X, h)


class SparseDesign(Design):
    """A SciPy CSR matrix of float64."""

    def _predict(self, w: Array, bias: float) -> Array:
        out: Array = self.X @ w
        out += bias
        return out

    def _pull_back(self, a: Array, rows: Rows | None) -> Array:
        out: Array = (self.X if rows is None else self.X[rows]).T @ a
        return out

    def _gram(self, h: Array, rows: Rows | None) -> tuple[Array, Array]:
        root = np.sqrt(h)
        scaled = (self.X if rows is None else self.X[rows]).multiply(root[:, None]).tocsr()
        return (scaled.T @ scaled).toarray(), scaled.T @ root

    def _column_squares(self, h: Array) -> Array:
        squares = sp.csr_array((self.X.data**2, self.X.indices, self.X.indptr), shape=self.X.shape)
        out: Array = squares.T @ h
        return out


def make_design(X: Any, intercept: bool) -> Design:
    """Wrap a C-ordered NumPy array or a SciPy CSR matrix."""
    if sp.issparse(X):  # SciPy would convert float32 anew in every product
        return SparseDesign(X.astype(np.float64, copy=False), intercept)
    return DenseDesign(X, intercept)


@numba.njit(cache=True, fastmath=FAST_SUMS)
def _dense_predict(X: Any, w: Array, bias: float) -> Array:
    out = np.empty(X.shape[0])
    for i in range(X.shape[0]):
        total = 0.0
        for j in range(X.shape[1]):
            total += X[i, j] * w[j]
        out[i] = total + bias
    return out


@numba.njit(cache=True, fastmath=FAST_SUMS)
def _dense_pull_back(X: Any, a: Array) -> Array:
    out = np.zeros(X.shape[1])
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            out[j] += a[i] * X[i, j]
    return out


@numba.njit(cache=True, fastmath=FAST_SUMS)
def _dense_pull_back_rows(X: Any, a: Array, rows: Rows) -> Array:
    out = np.zeros(X.shape[1])
    for place in range(rows.size):
        i = rows[place]
        for j in range(X.shape[1]):
            out[j] += a[place] * X[i, j]
    return out


@numba.njit(cache=True, fastmath=FAST_SUMS)
def _dense_column_squares(X: Any, h: Array) -> Array:
    out = np.zeros(X.shape[1])
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            out[j] += h[i] * X[i, j] ** 2
    return out
