# mypy: disable-error-code="no-untyped-def, attr-defined, index"
"""Passes over the features on an NVIDIA GPU: X is read once, at the speed of the memory, and summed up in float64.

A float32 X stays so: its numbers are widened in the registers. Other units of the columns are applied there, too.
"""

from __future__ import annotations

import torch
from torch import Tensor

from atklearn.stores.tensors.triton_language import jit, launch, processors, tl

__all__ = ["predict", "pull_back"]

# Numbers of X that a program takes at a time, and columns among them: to sum up along rows, few.
_TILE, _WIDEST = 4096, 128
_PREDICT_TILE, _PREDICT_WIDEST = 2048, 16
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
    X, w, bias: tl.float64, out, n, d, row_stride, column_stride, centre, inverse_scale,
    has_units: tl.constexpr, height: tl.constexpr, width: tl.constexpr,
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
    X, a, out, n, d, row_stride, column_stride, centre, inverse_scale,
    has_ones: tl.constexpr, has_units: tl.constexpr, height: tl.constexpr, width: tl.constexpr,
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


def _shape(d: int, tile: int, widest: int) -> tuple[int, int]:
    """Return rows and columns of a tile."""
    width = min(1 << max(d - 1, 0).bit_length(), widest)
    return tile // width, width


def _units(X: Tensor, centre: Tensor | None, inverse_scale: Tensor | None) -> tuple[Tensor, Tensor, bool]:
    return (X, X, False) if centre is None or inverse_scale is None else (centre, inverse_scale, True)


def predict(X: Tensor, w: Tensor, bias: float, centre: Tensor | None, inverse_scale: Tensor | None) -> Tensor:
    """Return ``X w + bias`` in float64, shape (n,).

    Parameters
    ----------
    X : Tensor of shape (n, d)
        On a GPU with kernels.
    w : Tensor of shape (d,)
    bias : float
    centre, inverse_scale : Tensor of shape (d,) or None
        If given, the columns are ``(x - centre) * inverse_scale``.
    """
    (n, d), (height, width) = X.shape, _shape(X.shape[1], _PREDICT_TILE, _PREDICT_WIDEST)
    out = torch.empty(n, dtype=torch.float64, device=X.device)
    middle, factor, has_units = _units(X, centre, inverse_scale)
    launch(
        _predict, (-(-n // height),), X.device,
        X, w, bias, out, n, d, X.stride(0), X.stride(1), middle, factor, has_units, height, width,
    )  # fmt: skip
    return out


def pull_back(X: Tensor, has_ones: bool, a: Tensor, centre: Tensor | None, inverse_scale: Tensor | None) -> Tensor:
    """Return ``X^T a`` in float64, the sum of ``a`` behind it if there is a column of ones; else as :func:`predict`."""
    (n, d), (height, width) = X.shape, _shape(X.shape[1], _TILE, _WIDEST)
    programs = max(min(_PROGRAMS * processors(X.device), -(-n // height)), 1)
    out = torch.empty((programs, d + has_ones), dtype=torch.float64, device=X.device)
    middle, factor, has_units = _units(X, centre, inverse_scale)
    launch(
        _pull_back, (programs, -(-d // width)), X.device,
        X, a, out, n, d, X.stride(0), X.stride(1), middle, factor, has_ones, has_units, height, width,
    )  # fmt: skip
    return out.sum(0)
