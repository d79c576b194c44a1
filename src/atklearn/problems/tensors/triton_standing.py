# mypy: disable-error-code="no-untyped-def, attr-defined, index"
"""Passes over predictions on an NVIDIA GPU: losses, slopes and densities are made in the registers, sums come out.

A kernel reads of every sample its prediction (and that of the direction of a ray), target, centre and mass, each once.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import torch
from torch import Tensor

from atklearn.problems.tensors.triton_language import N_SUMS, add_up, constant, jit, launch, processors, tl
from atklearn.problems.tensors.triton_losses import density_of, expand, losses_of

__all__ = ["Asked", "Operands", "filled", "look", "shared"]


class Asked(IntEnum):
    """What a sample is asked for: numbers, or its stratum: 0 without density, 1 between its bounds, 2 at the upper."""

    LOSS = 0
    SLOPE = 1
    DENSITY = 2
    STRATUM = 3


_LOSS, _SLOPE, _DENSITY = (constant(int(what)) for what in (Asked.LOSS, Asked.SLOPE, Asked.DENSITY))

_LOOK_BLOCK, _LOOK_WARPS, _LOOK_PROGRAMS = 256, 4, 16
_FILL_BLOCK, _FILL_WARPS = 1024, 4


class Operands(NamedTuple):
    """What kernels take of samples.

    Attributes
    ----------
    code : int
        Of the loss.
    delta : float
        Of Huber's loss.
    f, y, centre, mass : Tensor of shape (n,)
        See :class:`atklearn.problems.tensors.standing.Standing`.
    k : float
    """

    code: int
    delta: float
    f: Tensor
    y: Tensor
    centre: Tensor
    mass: Tensor
    k: float


@jit
def _look(
    code: tl.constexpr, delta: tl.float64, f, y, centre, mass, inverse_k: tl.float64, inverse_mu: tl.float64,
    lam: tl.float64, t: tl.float64, along, pulls, out, n, centre_stride, mass_stride,
    has_along: tl.constexpr, n_sums: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    nothing = tl.zeros([block], dtype=tl.float64)
    above, slack, size, moving = nothing, nothing, nothing, nothing
    pull, push, pull_value, push_value, steepness = nothing, nothing, nothing, nothing, nothing
    tied, full, first, second, length = nothing, nothing, nothing, nothing, nothing
    low, high = nothing + float("-inf"), nothing + float("-inf")
    for part in range(tl.program_id(0), tl.cdiv(n, block), tl.num_programs(0)):
        places = part.to(tl.int64) * block + tl.arange(0, block)
        inside = places < n
        at = tl.load(f + places, mask=inside, other=0.0)
        way = nothing
        if has_along:
            way = tl.load(along + places, mask=inside, other=0.0)
            at += t * way
        target = tl.load(y + places, mask=inside, other=0).to(tl.float64)
        middle = tl.load(centre + places * centre_stride, mask=inside, other=0.0)
        u = tl.load(mass + places * mass_stride, mask=inside, other=0.0) * inverse_k
        s, slope, _ = expand(code, delta, at, target)
        r = density_of(code, s, middle, inverse_mu, lam)
        density = tl.abs(r)
        over = tl.maximum(losses_of(code, s) - lam, 0.0)
        a, value, distance = u * r * slope, u * tl.abs(r * s), s - lam
        tl.store(pulls + places, a, mask=inside)
        above += u * over
        slack += u * (over - (r * s - lam * density))
        size += u * density
        between = (density > 0.0) & (density < 1.0)
        moving += tl.where(between, u, 0.0)
        tied += tl.where(between & inside, 1.0, 0.0)
        full += tl.where((density >= 1.0) & inside, 1.0, 0.0)
        pull += tl.maximum(a, 0.0)
        push += tl.maximum(-a, 0.0)
        pull_value += tl.where(a > 0.0, value, 0.0)
        push_value += tl.where(a < 0.0, value, 0.0)
        steepness += a * way
        first += u * distance
        second += u * distance * distance
        length += u * tl.abs(s)
        low = tl.maximum(low, tl.where(inside, -at, float("-inf")))
        high = tl.maximum(high, tl.where(inside, at, float("-inf")))
    out += tl.program_id(0) * n_sums
    tl.store(out, tl.sum(above, 0))
    tl.store(out + 1, tl.sum(slack, 0))
    tl.store(out + 2, tl.sum(size, 0))
    tl.store(out + 3, tl.sum(moving, 0))
    tl.store(out + 4, tl.sum(pull, 0))
    tl.store(out + 5, tl.sum(push, 0))
    tl.store(out + 6, tl.sum(pull_value, 0))
    tl.store(out + 7, tl.sum(push_value, 0))
    tl.store(out + 8, tl.sum(steepness, 0))
    tl.store(out + 9, tl.sum(tied, 0))
    tl.store(out + 10, tl.sum(first, 0))
    tl.store(out + 11, tl.sum(second, 0))
    tl.store(out + 12, tl.sum(length, 0))
    tl.store(out + 13, tl.sum(full, 0))
    tl.store(out + 14, tl.max(low, 0))
    tl.store(out + 15, tl.max(high, 0))


@jit
def _fill(
    what: tl.constexpr, code: tl.constexpr, delta: tl.float64, f, y, centre, inverse_mu: tl.float64, lam: tl.float64,
    out, n, centre_stride, block: tl.constexpr,
):  # fmt: skip
    places = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = places < n
    at = tl.load(f + places, mask=inside, other=0.0)
    target = tl.load(y + places, mask=inside, other=0).to(tl.float64)
    s, slope, _ = expand(code, delta, at, target)
    if what == _LOSS:
        tl.store(out + places, losses_of(code, s), mask=inside)
    elif what == _SLOPE:
        tl.store(out + places, slope, mask=inside)
    else:
        middle = tl.load(centre + places * centre_stride, mask=inside, other=0.0)
        r = density_of(code, s, middle, inverse_mu, lam)
        if what == _DENSITY:
            tl.store(out + places, r, mask=inside)
        else:
            size = tl.abs(r)
            tl.store(out + places, (size > 0.0).to(tl.int8) + (size >= 1.0).to(tl.int8), mask=inside)


def shared(n: int, device: torch.device) -> int:
    """Return how many programs share n samples."""
    return max(min(_LOOK_PROGRAMS * processors(device), -(-n // _LOOK_BLOCK)), 1)


def look(at: Operands, mu: float, lam: float, t: float, along: Tensor | None, pulls: Tensor) -> Tensor:
    """Return the sums that a reading is made of at ``f + t * along``, and minus the least and the largest prediction.

    Parameters
    ----------
    at : Operands
    mu, lam, t : float
    along : Tensor of shape (n,) or None
    pulls : Tensor of shape (n,)
        Gets ``u r s'``.

    Returns
    -------
    numbers : Tensor of shape (16,)
        13 sums, where the sum of u belongs the number of samples between the bounds of their density; the number of
        those at the upper; and two maxima.
    """
    n, device = len(at.f), at.f.device
    programs = shared(n, device)
    partial = torch.empty((programs, N_SUMS), dtype=torch.float64, device=device)
    launch(
        _look, (programs,), device,
        at.code, at.delta, at.f, at.y, at.centre, at.mass, 1.0 / at.k, 1.0 / mu, lam, t,
        at.f if along is None else along, pulls, partial, n, at.centre.stride(0), at.mass.stride(0),
        along is not None, N_SUMS, _LOOK_BLOCK, warps=_LOOK_WARPS,
    )  # fmt: skip
    return add_up(partial)


def filled(at: Operands, what: Asked, mu: float = 1.0, lam: float = 0.0) -> Tensor:
    """Return what is asked for of every sample: a number in float64 each, or its stratum as int8."""
    n = len(at.f)
    out = torch.empty(n, dtype=torch.int8 if what is Asked.STRATUM else torch.float64, device=at.f.device)
    launch(
        _fill, (-(-n // _FILL_BLOCK),), at.f.device,
        int(what), at.code, at.delta, at.f, at.y, at.centre, 1.0 / mu, lam, out, n, at.centre.stride(0), _FILL_BLOCK,
        warps=_FILL_WARPS,
    )  # fmt: skip
    return out
