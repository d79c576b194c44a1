"""The matrix of the features as a tensor: every pass over it, in blocks of rows, summed up in float64."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from atklearn.core.coordinates import Units
from atklearn.losses.individual import Array
from atklearn.stores.tensors import triton_curvature, triton_matrix
from atklearn.stores.tensors.triton_language import serves

__all__ = ["TensorMatrix"]

# Numbers of X that are converted, scaled or weighted at a time: few beside X, and in the cache of a CPU.
_CPU_BLOCK, _GPU_BLOCK = 1 << 18, 1 << 27


class TensorMatrix:
    """A tensor of features, a column of ones beside it that is never stored, and units that are applied on the way.

    Parameters
    ----------
    X : Tensor of shape (n_rows, d)
        Of float32 or float64; it is not copied.
    has_ones : bool
        Whether there is a column of ones, the last.
    units : Units, default=None
        The columns are ``(x - centre) / scale``, in float64; None if they are those of X.
    """

    def __init__(self, X: Tensor, has_ones: bool, units: Units | None = None) -> None:
        self.X, self.has_ones, self.units = X, has_ones, units
        self.n_rows, self.d = X.shape
        self.n_columns = self.d + has_ones
        self.centre = self.inverse_scale = None
        if units is not None:  # scales are powers of two: to multiply by the inverse rounds nothing
            self.centre, self.inverse_scale = self.tensor_of(units.centre), self.tensor_of(1.0 / units.scale)
        self.is_plain = units is None and X.dtype == torch.float64
        self.has_kernels = serves(X)

    def tensor_of(self, numbers: Array) -> Tensor:
        """Return numbers of the host where X lies."""
        return torch.as_tensor(numbers, dtype=torch.float64).to(self.X.device)

    def split(self, z: Array) -> tuple[Array, float]:
        """Return the weights of the features and the intercept."""
        return (z[:-1], float(z[-1])) if self.has_ones else (z, 0.0)

    def take(self, places: Tensor) -> TensorMatrix:
        """Return a copy of some rows."""
        return TensorMatrix(self.X.index_select(0, places), self.has_ones, self.units)

    def predict(self, z: Array) -> Tensor:
        """Return ``X w + b``, shape (n_rows,)."""
        weights, bias = self.split(z)
        w = self.tensor_of(weights)
        if self.has_kernels:
            return triton_matrix.predict(self.X, w, bias, self.centre, self.inverse_scale)
        out = torch.empty(self.n_rows, dtype=torch.float64, device=self.X.device)
        for part, block in self._blocks():
            torch.mv(block, w, out=out[part])
        return out.add_(bias) if bias else out

    def pull_back(self, a: Tensor) -> Array:
        """Return ``X^T a``."""
        if self.has_kernels:
            total = triton_matrix.pull_back(self.X, self.has_ones, a, self.centre, self.inverse_scale)
            return np.asarray(total.cpu().numpy())
        total = torch.zeros(self.d, dtype=torch.float64, device=self.X.device)
        for part, block in self._blocks():
            total += block.T @ a[part]
        if self.has_ones:
            total = torch.cat([total, a.sum().reshape(1)])
        return np.asarray(total.cpu().numpy())

    def scaled(self, places: Tensor | None, begin: int, factors: Tensor) -> Tensor:
        """Return rows times factors, the column of ones included, in float64, shape (len(factors), n_columns).

        They are those at the given places, or all, from the one numbered ``begin`` on.
        """
        if self.has_kernels:
            return triton_curvature.scaled_rows(
                self.X, self.has_ones, places, begin, factors, self.centre, self.inverse_scale
            )  # fmt: skip
        rows = slice(begin, begin + len(factors))
        block = self._converted(self.X[rows] if places is None else self.X[places[rows]])
        out = block.new_empty((len(factors), self.n_columns))
        torch.mul(block, factors[:, None], out=out[:, : self.d])
        if self.has_ones:
            out[:, self.d] = factors
        return out

    def column_squares(self, h: Tensor) -> Array:
        """Return ``sum(h_i x_ij^2)`` for every column."""
        total = torch.zeros(self.d, dtype=torch.float64, device=self.X.device)
        for part, block in self._blocks():
            total += (block**2).T @ h[part]
        if self.has_ones:
            total = torch.cat([total, h.sum().reshape(1)])
        return np.asarray(total.cpu().numpy())

    def _blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield ranges of rows and their features in float64: of plain ones all at once."""
        size = _CPU_BLOCK if self.X.device.type == "cpu" else _GPU_BLOCK
        rows = max(self.n_rows if self.is_plain else size // max(self.n_columns, 1), 1)
        for begin in range(0, self.n_rows, rows):
            part = slice(begin, min(begin + rows, self.n_rows))
            yield part, self._converted(self.X[part])

    def converted(self) -> Tensor:
        """Return the features in float64, in their units."""
        return self._converted(self.X)

    def _converted(self, block: Tensor) -> Tensor:
        block = block.double()
        return block if self.centre is None else (block - self.centre).mul_(self.inverse_scale)
