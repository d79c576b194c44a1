# mypy: disable-error-code="no-untyped-def, attr-defined, index"
"""The matrix of the features as a tensor: every pass over it, in blocks of rows, summed up in float64.

On an NVIDIA GPU the passes are kernels that read X once, at the speed of the memory. A float32 X stays so: its numbers
are widened in the registers. Other units of the columns are applied there, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from atklearn.core.coordinates import Units
from atklearn.losses.individual import Array
from atklearn.stores.tensors.triton_language import jit, launch, processors, serves, tl

__all__ = ["TensorMatrix"]

# Numbers of X that are converted, scaled or weighted at a time: few beside X, and in the cache of a CPU.
_CPU_BLOCK, _GPU_BLOCK = 1 << 18, 1 << 27
# Parts of the rows whose extremes are looked for at once.
_PARTS = 4096
# Numbers of X that a program takes at a time, and columns among them at most: to sum up along rows, few.
_PREDICT_TILE, _PULL_TILE, _SCALED_TILE = (2048, 16), (4096, 128), (2048, 64)
_PROGRAMS = 8  # for each multiprocessor, that share the rows


@jit
def _tile(X, rows, columns, n, d, row_stride, column_stride, centre, inverse_scale, has_units: tl.constexpr):
    inside = (rows < n)[:, None] & (columns < d)[None, :]
    places = rows.to(tl.int64)[:, None] * row_stride + columns[None, :] * column_stride
    tile = tl.load(X + places, mask=inside, other=0.0).to(tl.float64)
    if has_units:
        middle = tl.load(centre + columns, mask=columns < d, other=0.0)
        factor = tl.load(inverse_scale + columns, mask=columns < d, other=0.0)
        tile = tl.where(inside, (tile - middle[None, :]) * factor[None, :], 0.0)
    return tile


@jit
def _predict(
    X, n, d, row_stride, column_stride, centre, inverse_scale, has_units: tl.constexpr,
    w, bias: tl.float64, out, height: tl.constexpr, width: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0).to(tl.int64) * height + tl.arange(0, height)
    total = tl.zeros([height], dtype=tl.float64)
    for begin in range(0, d, width):
        columns = begin + tl.arange(0, width)
        tile = _tile(X, rows, columns, n, d, row_stride, column_stride, centre, inverse_scale, has_units)
        weights = tl.load(w + columns, mask=columns < d, other=0.0)
        total += tl.sum(tile * weights[None, :], axis=1)
    tl.store(out + rows, total + bias, mask=rows < n)


@jit
def _pull_back(
    X, n, d, row_stride, column_stride, centre, inverse_scale, has_units: tl.constexpr,
    a, out, has_ones: tl.constexpr, height: tl.constexpr, width: tl.constexpr,
):  # fmt: skip
    columns = tl.program_id(1) * width + tl.arange(0, width)
    total = tl.zeros([height, width], dtype=tl.float64)
    ones = tl.zeros([height], dtype=tl.float64)
    for block in range(tl.program_id(0), tl.cdiv(n, height), tl.num_programs(0)):
        rows = tl.cast(block, tl.int64) * height + tl.arange(0, height)
        tile = _tile(X, rows, columns, n, d, row_stride, column_stride, centre, inverse_scale, has_units)
        pulls = tl.load(a + rows, mask=rows < n, other=0.0)
        total += tile * pulls[:, None]
        ones += pulls
    out += tl.program_id(0) * (d + has_ones)
    tl.store(out + columns, tl.sum(total, axis=0), mask=columns < d)
    if has_ones:  # which is not stored, or tiles would be as wide as twice the columns
        tl.store(out + d, tl.sum(ones, axis=0), mask=tl.program_id(1) == 0)


@jit
def _scaled_rows(
    X, n, d, row_stride, column_stride, centre, inverse_scale, has_units: tl.constexpr,
    rows, first, factors, out, m, n_columns, has_rows: tl.constexpr, height: tl.constexpr, width: tl.constexpr,
):  # fmt: skip
    drawn = tl.program_id(0).to(tl.int64) * height + tl.arange(0, height)
    columns = tl.program_id(1) * width + tl.arange(0, width)
    places = first + drawn
    if has_rows:
        places = tl.load(rows + places, mask=drawn < m, other=n)
    tile = _tile(X, places, columns, n, d, row_stride, column_stride, centre, inverse_scale, has_units)
    tile = tl.where((columns == d)[None, :], 1.0, tile)
    factor = tl.load(factors + drawn, mask=drawn < m, other=0.0)
    wanted = (drawn < m)[:, None] & (columns < n_columns)[None, :]
    tl.store(out + drawn[:, None] * n_columns + columns[None, :], tile * factor[:, None], mask=wanted)


def _shape(n_columns: int, most: tuple[int, int]) -> tuple[int, int]:
    """Return rows and columns of a tile."""
    width = min(1 << max(n_columns - 1, 0).bit_length(), most[1])
    return most[0] // width, width


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

    def tensor_of(self, numbers: Tensor | Array | Sequence[float]) -> Tensor:
        """Return numbers in float64 where X lies."""
        return torch.as_tensor(numbers, dtype=torch.float64).to(self.X.device)

    def take(self, places: Tensor) -> TensorMatrix:
        """Return a copy of some rows."""
        return TensorMatrix(self.X.index_select(0, places), self.has_ones, self.units)

    @property
    def _operands(self) -> tuple[object, ...]:
        """What every kernel takes first."""
        centre, inverse_scale = (self.X if each is None else each for each in (self.centre, self.inverse_scale))
        return (self.X, self.n_rows, self.d, *self.X.stride(), centre, inverse_scale, self.units is not None)

    def predict(self, weights: Array, bias: float) -> Tensor:
        """Return ``X w + b``, shape (n_rows,)."""
        w, out = self.tensor_of(weights), torch.empty(self.n_rows, dtype=torch.float64, device=self.X.device)
        if self.has_kernels:
            height, width = _shape(self.d, _PREDICT_TILE)
            grid = (-(-self.n_rows // height),)
            launch(_predict, grid, self.X.device, *self._operands, w, bias, out, height, width)
            return out
        for part, block in self._blocks():
            torch.mv(block, w, out=out[part])
        return out.add_(bias) if bias else out

    def pull_back(self, a: Tensor) -> Array:
        """Return ``X^T a``."""
        if not self.has_kernels:
            total = torch.zeros(self.d, dtype=torch.float64, device=self.X.device)
            for part, block in self._blocks():
                total += block.T @ a[part]
            return self._with_ones(total, a)
        height, width = _shape(self.d, _PULL_TILE)
        programs = max(min(_PROGRAMS * processors(self.X.device), -(-self.n_rows // height)), 1)
        sums = torch.empty((programs, self.n_columns), dtype=torch.float64, device=self.X.device)
        grid = (programs, -(-self.d // width))
        launch(_pull_back, grid, self.X.device, *self._operands, a, sums, self.has_ones, height, width)
        return np.asarray(sums.sum(0).cpu().numpy())

    def scaled(self, places: Tensor | None, begin: int, factors: Tensor) -> Tensor:
        """Return rows times factors, the column of ones included, in float64, shape (len(factors), n_columns).

        They are those at the given places, or all, from the one numbered ``begin`` on.
        """
        m = len(factors)
        out = torch.empty((m, self.n_columns), dtype=torch.float64, device=self.X.device)
        if self.has_kernels:
            height, width = _shape(self.n_columns, _SCALED_TILE)
            grid = (-(-m // height), -(-self.n_columns // width))
            launch(
                _scaled_rows, grid, self.X.device, *self._operands,
                self.X if places is None else places, begin, factors, out, m, self.n_columns, places is not None,
                height, width,
            )  # fmt: skip
            return out
        rows = slice(begin, begin + m)
        block = self._converted(self.X[rows] if places is None else self.X[places[rows]])
        torch.mul(block, factors[:, None], out=out[:, : self.d])
        if self.has_ones:
            out[:, self.d] = factors
        return out

    def column_squares(self, h: Tensor) -> Array:
        """Return ``sum(h_i x_ij^2)`` for every column."""
        total = torch.zeros(self.d, dtype=torch.float64, device=self.X.device)
        for part, block in self._blocks():
            total += (block**2).T @ h[part]
        return self._with_ones(total, h)

    def _with_ones(self, total: Tensor, a: Tensor) -> Array:
        """Return sums of columns, that of the column of ones behind them if there is one."""
        if self.has_ones:
            total = torch.cat([total, a.sum().reshape(1)])
        return np.asarray(total.cpu().numpy())

    def largest_entries(self) -> Array:
        """Return the largest ``|x|`` of every column, the column of ones included."""
        # a device reduces many short columns quicker than a few long ones
        whole = self.n_rows // _PARTS * _PARTS if self.X.is_contiguous() else 0
        seen = [torch.aminmax(self.X[whole:], dim=0, keepdim=True)] if whole < self.n_rows else []
        if whole:
            seen.append(torch.aminmax(self.X[:whole].view(_PARTS, -1, self.d), dim=1))
        low = torch.cat([each.min for each in seen]).amin(dim=0)
        high = torch.cat([each.max for each in seen]).amax(dim=0)
        ends = torch.stack([low, high]).double()
        if self.centre is not None:
            ends = (ends - self.centre) * self.inverse_scale
        sizes = np.asarray(ends.abs().amax(dim=0).cpu().numpy())
        return np.append(sizes, 1.0) if self.has_ones else sizes

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
