"""The matrix of the features as a tensor: every pass over it, in blocks of rows, summed up in float64."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from atklearn.losses.individual import Array
from atklearn.problems.conditioning import Units
from atklearn.problems.tensors import triton_matrix
from atklearn.problems.tensors.triton_language import serves

__all__ = ["TensorMatrix"]

# Numbers of X that are converted, scaled or weighted at a time: few beside X, and in the cache of a CPU.
_CPU_BLOCK, _GPU_BLOCK = 1 << 18, 1 << 27
_GRAM_BLOCK = 1 << 25


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
        return self.pull_back_all([a])[0]

    def pull_back_all(self, vectors: list[Tensor]) -> list[Array]:
        """Return ``X^T a`` for several vectors, and look at the device once."""
        sums = torch.stack([self._sums(a) for a in vectors]).cpu().numpy()
        return list(sums)

    def _sums(self, a: Tensor) -> Tensor:
        if self.has_kernels:
            total = triton_matrix.pull_back(self.X, a, self.centre, self.inverse_scale)
        else:
            total = torch.zeros(self.d, dtype=torch.float64, device=self.X.device)
            for part, block in self._blocks():
                total += block.T @ a[part]
        return torch.cat([total, a.sum().reshape(1)]) if self.has_ones else total

    def gram(self, h: Tensor) -> Tensor:
        """Return ``sum(h_i x_i x_i^T)``, the column of ones included, on the device."""
        total = torch.zeros((self.n_columns, self.n_columns), dtype=torch.float64, device=self.X.device)
        roots = h.sqrt()
        for part, block in self._blocks(_GRAM_BLOCK):
            scaled = block.new_empty((len(block), self.n_columns))
            torch.mul(block, roots[part, None], out=scaled[:, : self.d])
            if self.has_ones:
                scaled[:, self.d] = roots[part]
            total.addmm_(scaled.T, scaled)
        return total

    def gram_product(self, h: Tensor, v: Array) -> Array:
        """Return ``sum(h_i (x_i . v) x_i)``."""
        return self.pull_back(self.predict(v).mul_(h))

    def column_squares(self, h: Tensor) -> Array:
        """Return ``sum(h_i x_ij^2)`` for every column."""
        total = torch.zeros(self.d, dtype=torch.float64, device=self.X.device)
        for part, block in self._blocks():
            total += (block**2).T @ h[part]
        if self.has_ones:
            total = torch.cat([total, h.sum().reshape(1)])
        return np.asarray(total.cpu().numpy())

    def _blocks(self, size: int | None = None) -> Iterator[tuple[slice, Tensor]]:
        """Yield ranges of rows and their features in float64: of plain ones, unless a size is given, all at once."""
        if size is None:
            size = _CPU_BLOCK if self.X.device.type == "cpu" else _GPU_BLOCK
            if self.is_plain:
                size = max(self.X.numel(), 1)
        rows = max(size // max(self.n_columns, 1), 1)
        for begin in range(0, self.n_rows, rows):
            part = slice(begin, min(begin + rows, self.n_rows))
            block = self.X[part]
            if not self.is_plain:
                block = block.double()
            if self.centre is not None:
                block = (block - self.centre).mul_(self.inverse_scale)
            yield part, block
