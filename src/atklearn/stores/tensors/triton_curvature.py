# mypy: disable-error-code="no-untyped-def, attr-defined, index"
"""The rows of a Hessian on an NVIDIA GPU: their weights, and scaled copies to multiply."""

from __future__ import annotations

import torch
from torch import Tensor

from atklearn.stores.tensors.triton_language import jit, launch, tl
from atklearn.stores.tensors.triton_losses import density_of
from atklearn.stores.tensors.triton_standing import Operands

__all__ = ["scaled_rows", "weigh_rows"]

_BLOCK = 256
_TILE, _WIDEST = 2048, 64


@jit
def _weigh_rows(
    expand: tl.constexpr, two_sided: tl.constexpr, cautious: tl.constexpr, parameters, f, y, centre, mass,
    inverse_k: tl.float64, inverse_mu: tl.float64, lam: tl.float64, rows, own, first, n_listed, listed_tied: tl.float64,
    listed_full: tl.float64, drawn_tied: tl.float64, drawn_full: tl.float64, roots, ratios, ties, m, centre_stride,
    mass_stride,
    has_rows: tl.constexpr, has_own: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    drawn = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = drawn < m
    places = first + drawn
    if has_rows:
        places = tl.load(rows + places, mask=inside, other=0)
    at = tl.load(f + places, mask=inside, other=0.0)
    target = tl.load(y + places, mask=inside, other=0).to(tl.float64)
    middle = tl.load(centre + places * centre_stride, mask=inside, other=0.0)
    u = tl.load(mass + places * mass_stride, mask=inside, other=0.0) * inverse_k
    s, slope, bend = expand(parameters, at, target)
    if cautious:
        bend = tl.maximum(bend, slope * slope / tl.maximum(2.0 * s, 1e-300))
    r = density_of(two_sided, s, middle, inverse_mu, lam)
    size = tl.abs(r)
    tied = (size > 0.0) & (size < 1.0)
    is_listed = first + drawn < n_listed
    scale_tied, scale_full = tl.where(is_listed, listed_tied, drawn_tied), tl.where(is_listed, listed_full, drawn_full)
    u *= tl.where(tied, scale_tied, scale_full)
    if has_own:
        u *= tl.load(own + first + drawn, mask=inside, other=0.0)
    h = u * size * bend + tl.where(tied, u * slope * slope * inverse_mu, 0.0)
    root = tl.sqrt(h)
    pull = tl.where(tied, u * slope * tl.where(r < 0.0, -1.0, 1.0), 0.0)
    tl.store(roots + drawn, root, mask=inside)
    tl.store(ratios + drawn, tl.where(root > 0.0, pull / tl.where(root > 0.0, root, 1.0), 0.0), mask=inside)
    tl.store(ties + drawn, tl.where(tied, u, 0.0), mask=inside)


@jit
def _scaled_rows(
    X, rows, first, roots, out, m, d, n_columns, row_stride, column_stride, centre, inverse_scale,
    has_rows: tl.constexpr, has_units: tl.constexpr, height: tl.constexpr, width: tl.constexpr,
):  # fmt: skip
    drawn = tl.program_id(0).to(tl.int64) * height + tl.arange(0, height)
    columns = tl.program_id(1) * width + tl.arange(0, width)
    places = first + drawn
    if has_rows:
        places = tl.load(rows + places, mask=drawn < m, other=0)
    stored = (drawn < m)[:, None] & (columns < d)[None, :]
    tile = tl.load(
        X + places[:, None] * row_stride + columns[None, :] * column_stride, mask=stored, other=1.0
    ).to(tl.float64)  # fmt: skip
    if has_units:
        middle = tl.load(centre + columns, mask=columns < d, other=0.0)
        factor = tl.load(inverse_scale + columns, mask=columns < d, other=1.0)
        tile = (tile - middle[None, :]) * factor[None, :]
    root = tl.load(roots + drawn, mask=drawn < m, other=0.0)
    wanted = (drawn < m)[:, None] & (columns < n_columns)[None, :]
    tl.store(out + drawn[:, None] * n_columns + columns[None, :], tile * root[:, None], mask=wanted)


def weigh_rows(
    at: Operands, mu: float, lam: float, rows: Tensor | None, own: Tensor | None, first: int, m: int, n_listed: int,
    scales: tuple[float, float, float, float], *, cautious: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return, for m rows, the roots of their weights in the Hessian, pulls over roots, and masses of tied ones.

    Parameters
    ----------
    at : Operands
    mu, lam : float
        Of the densities.
    rows : Tensor of int64 or None
        Which rows, those from ``first`` on being meant; None for all.
    own : Tensor or None
        Of each of these rows, how many stand for it beside what the scales say.
    first, m : int
    n_listed : int
    scales : tuple of float
        How many rows stand for one that is between the bounds of its density, and at the upper: among the first
        ``n_listed``, then among the others.
    cautious : bool
    """
    roots, ratios, ties = torch.empty((3, m), dtype=torch.float64, device=at.f.device)
    launch(
        _weigh_rows, (-(-m // _BLOCK),), at.f.device,
        at.loss.expand, at.loss.two_sided, cautious and at.loss.smooth, at.loss.parameters, at.f, at.y,
        at.centre, at.mass, 1.0 / at.k, 1.0 / mu, lam,
        at.f if rows is None else rows, at.f if own is None else own, first, n_listed, *scales, roots, ratios, ties, m,
        at.centre.stride(0), at.mass.stride(0), rows is not None, own is not None, _BLOCK,
    )  # fmt: skip
    return roots, ratios, ties


def scaled_rows(
    X: Tensor, has_ones: bool, rows: Tensor | None, first: int, roots: Tensor, centre: Tensor | None,
    inverse_scale: Tensor | None,
) -> Tensor:  # fmt: skip
    """Return rows of X, and of a column of ones, times their roots, shape (m, n_columns)."""
    m, d = len(roots), X.shape[1]
    n_columns = d + has_ones
    out = torch.empty((m, n_columns), dtype=torch.float64, device=X.device)
    width = min(1 << max(n_columns - 1, 0).bit_length(), _WIDEST)
    height = _TILE // width
    has_units = centre is not None and inverse_scale is not None
    launch(
        _scaled_rows, (-(-m // height), -(-n_columns // width)), X.device,
        X, X if rows is None else rows, first, roots, out, m, d, n_columns, X.stride(0), X.stride(1),
        X if centre is None else centre, X if inverse_scale is None else inverse_scale, rows is not None, has_units,
        height, width,
    )  # fmt: skip
    return out
