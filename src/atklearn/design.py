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

from atklearn.individual import Array

Rows: TypeAlias = npt.NDArray[np.intp]

# Rows handled at once where a scaled copy is needed: small enough for the cache, large enough for BLAS.
_BLOCK = 2048
# Sums may be reordered (that is what makes them fast), but NaN and inf keep their meaning.
FAST_SUMS = {"reassoc", "contract", "nsz"}


class Design(ABC):
    """Design matrix of shape (n_rows, n_columns), the last column being ones if ``intercept``."""

    def __init__(self, X: Any, intercept: bool) -> None:
        self.X = X
        self.intercept = intercept
        self.n_rows = int(X.shape[0])
        self.n_features = int(X.shape[1])
        self.n_columns = self.n_features + intercept

    @abstractmethod
    def predict(self, z: Array) -> Array:
        """Return X z, shape (n_rows,)."""

    @abstractmethod
    def pull_back(self, a: Array) -> Array:
        """Return X^T a, shape (n_columns,)."""

    @abstractmethod
    def gram(self, h: Array) -> Array:
        """Return X^T diag(h) X for ``h >= 0``."""

    @abstractmethod
    def column_squares(self, h: Array) -> Array:
        """Return the diagonal of X^T diag(h) X, shape (n_columns,)."""

    def take(self, rows: Rows) -> Design:
        """Return the design of the given rows."""
        return type(self)(self.X[rows], self.intercept)


class DenseDesign(Design):
    """A NumPy array of float32 or float64; every sum is accumulated in float64."""

    def predict(self, z: Array) -> Array:
        bias = z[-1] if self.intercept else 0.0
        return _dense_predict(self.X, z[: self.n_features], bias)

    def pull_back(self, a: Array) -> Array:
        out = _dense_pull_back(self.X, a)
        return np.append(out, a.sum()) if self.intercept else out

    def gram(self, h: Array) -> Array:
        out = np.zeros((self.n_columns, self.n_columns))
        block = np.ones((_BLOCK, self.n_columns))
        for begin in range(0, h.size, _BLOCK):
            root = np.sqrt(h[begin : begin + _BLOCK])
            scaled = block[: root.size]
            np.multiply(self.X[begin : begin + _BLOCK], root[:, None], out=scaled[:, : self.n_features])
            if self.intercept:
                scaled[:, -1] = root
            out += scaled.T @ scaled
        return out

    def column_squares(self, h: Array) -> Array:
        out = _dense_column_squares(self.X, h)
        return np.append(out, h.sum()) if self.intercept else out


class SparseDesign(Design):
    """A SciPy CSR matrix."""

    def predict(self, z: Array) -> Array:
        out: Array = self.X @ z[: self.n_features]
        if self.intercept:
            out += z[-1]
        return out

    def pull_back(self, a: Array) -> Array:
        out: Array = self.X.T @ a
        return np.append(out, a.sum()) if self.intercept else out

    def gram(self, h: Array) -> Array:
        scaled = self.X.multiply(np.sqrt(h)[:, None]).tocsr()
        out = np.zeros((self.n_columns, self.n_columns))
        out[: self.n_features, : self.n_features] = (scaled.T @ scaled).toarray()
        if self.intercept:
            out[-1, :-1] = out[:-1, -1] = self.X.T @ h
            out[-1, -1] = h.sum()
        return out

    def column_squares(self, h: Array) -> Array:
        squares = sp.csr_array((self.X.data.astype(np.float64) ** 2, self.X.indices, self.X.indptr), shape=self.X.shape)
        out: Array = squares.T @ h
        return np.append(out, h.sum()) if self.intercept else out


def make_design(X: Any, intercept: bool) -> Design:
    """Wrap a NumPy array or a SciPy CSR matrix."""
    return SparseDesign(X, intercept) if sp.issparse(X) else DenseDesign(X, intercept)


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
def _dense_column_squares(X: Any, h: Array) -> Array:
    out = np.zeros(X.shape[1])
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            out[j] += h[i] * X[i, j] ** 2
    return out
