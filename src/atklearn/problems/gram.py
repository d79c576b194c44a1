"""A kernel machine's only contact with the data: products with the kernel matrix, and small blocks of it.

The full matrix is never formed, except where the kernel comes as one ("precomputed") or a reduction asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from sklearn.utils import gen_batches
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from atklearn.losses.individual import Array
from atklearn.stores.picking import Places

__all__ = ["Gram", "Kernel", "KernelName"]

KernelName: TypeAlias = str | Callable[..., Any]

# Kernel values held at once while a product is formed: few enough for the cache.
_BLOCK = 1 << 19


@dataclass(frozen=True)
class Kernel:
    """A kernel function with its parameters.

    ``name`` is "linear", "poly", "rbf", "sigmoid", "precomputed" or a function of two sets of samples; ``parameters``
    holds ``gamma``, ``degree`` and ``coef0``, of which each kernel takes what it knows.
    """

    name: KernelName
    parameters: dict[str, float] = field(default_factory=dict)

    def __call__(self, X: Any, Y: Any) -> Array:
        """Return the kernel values between the rows of X and those of Y, shape (n_X, n_Y)."""
        if callable(self.name):
            values = np.asarray(self.name(X, Y), dtype=np.float64)
            if values.shape != (X.shape[0], Y.shape[0]):
                raise ValueError(
                    f"A kernel function is expected to return an array of shape {(X.shape[0], Y.shape[0])} for that "
                    f"many samples, got {values.shape}; it receives both sets of samples at once."
                )
            return values
        if self.name == "rbf":
            exponents = _negative_squares(X, Y, self.parameters["gamma"])
            return np.exp(np.minimum(exponents, 0.0, out=exponents), out=exponents)
        products = np.ascontiguousarray(safe_sparse_dot(X, Y.T, dense_output=True), dtype=np.float64)
        if self.name == "linear":
            return products
        products *= self.parameters["gamma"]
        products += self.parameters["coef0"]
        if self.name == "sigmoid":
            return np.tanh(products, out=products)
        return np.power(products, self.parameters["degree"], out=products)

    def product(self, X: Any, Y: Any, weights: Array) -> Array:
        """Return ``K(X, Y) weights`` without holding the whole matrix; weights of shape (n_Y,) or (n_Y, m)."""
        out = np.zeros((X.shape[0], *weights.shape[1:]))
        if Y.shape[0] > 0:
            for batch in gen_batches(X.shape[0], max(1, _BLOCK // Y.shape[0])):
                out[batch] = self(X[batch], Y) @ weights
        return out


class Gram:
    """The kernel matrix of a set of samples, or of the given rows of it, computed as needed.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (n_rows, n_features)
        The samples; for "precomputed" and for functions, the kernel matrix itself.
    kernel : Kernel
    """

    def __init__(self, X: Any, kernel: Kernel) -> None:
        self.X = X
        self.kernel = kernel
        self.n_rows = int(X.shape[0])

    @property
    def is_stored(self) -> bool:
        """Whether the matrix exists already."""
        return self.kernel.name == "precomputed"

    def take(self, rows: Places) -> Gram:
        """Return the kernel matrix of some of the samples."""
        return Gram(self.X[np.ix_(rows, rows)] if self.is_stored else self.X[rows], self.kernel)

    def block(self, rows: Places) -> Array:
        """Return the kernel values among the given rows."""
        part = self.take(rows).X
        return part if self.is_stored else self.kernel(part, part)

    def fill(self, out: Array) -> Array:
        """Write the whole matrix into ``out`` and return it."""
        if self.is_stored:
            out[...] = self.X
            return out
        for batch in gen_batches(self.n_rows, max(1, _BLOCK // self.n_rows)):
            out[batch] = self.kernel(self.X[batch], self.X)
        return out

    def diagonal_mean(self) -> float:
        """Return the mean of K(x, x) over (at most a thousand of) the rows: the scale of the kernel."""
        rows = np.arange(0, self.n_rows, max(1, self.n_rows // 1000))
        if self.is_stored:
            return float(self.X[rows, rows].mean())
        return float(np.mean([self.kernel(self.X[i : i + 1], self.X[i : i + 1])[0, 0] for i in rows[:1000]]))

    def times(self, beta: Array) -> Array:
        """Return K beta, shape (n_rows,), at the cost of the columns where beta is not zero."""
        rows = np.flatnonzero(beta)
        if not self.is_stored:
            return self.kernel.product(self.X, self.X[rows], beta[rows])
        products: Array = self.X @ beta if 2 * rows.size > self.n_rows else self.X[:, rows] @ beta[rows]
        return products


def _negative_squares(X: Any, Y: Any, gamma: float) -> Array:
    """Return ``-gamma |x - y|^2 = 2 gamma x.y - gamma |x|^2 - gamma |y|^2`` for all pairs."""
    of_x, of_y = -gamma * row_norms(X, squared=True), -gamma * row_norms(Y, squared=True)
    if sp.issparse(X) or sp.issparse(Y):
        exponents = np.asarray(safe_sparse_dot(X, (2.0 * gamma) * Y.T, dense_output=True))
        exponents += of_x[:, None]
        exponents += of_y
    else:  # all three terms in one product: passes over the result are what predictions wait for
        left = np.column_stack([X, of_x, np.ones_like(of_x)])
        exponents = left @ np.column_stack([(2.0 * gamma) * Y, np.ones_like(of_y), of_y]).T
    return np.ascontiguousarray(exponents, dtype=np.float64)
