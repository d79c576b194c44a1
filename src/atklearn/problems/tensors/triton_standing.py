# mypy: disable-error-code="no-untyped-def, attr-defined, index"
"""Passes over predictions on an NVIDIA GPU: losses, slopes and densities are made in the registers, sums come out.

A kernel reads of every sample its prediction (and that of the direction of a ray), target, centre and mass, each once.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from atklearn.problems.tensors.triton_language import constant, jit, libdevice, processors, tl

__all__ = ["Operands", "densities", "look", "pulls"]

# The built-in losses in the order of ``tensor_losses``.
LOG_LOSS, HINGE, SQUARED_HINGE, SQUARED_ERROR, ABSOLUTE_ERROR, HUBER = (constant(code) for code in range(6))

N_NUMBERS = 15  # that a look leaves: sums, and the ends of the predictions
_LOOK_BLOCK, _LOOK_WARPS, _LOOK_PROGRAMS = 256, 4, 16
_FILL_BLOCK, _FILL_WARPS = 1024, 4


@jit
def _expand(code: tl.constexpr, delta, f, y):
    """Return the smooth part of the losses and its slope."""
    if code == LOG_LOSS:
        margin = y * f
        decay = tl.exp(-tl.abs(margin))
        s = libdevice.log1p(decay) - tl.minimum(margin, 0.0)
        slope = -y * tl.where(margin >= 0.0, decay, 1.0) / (1.0 + decay)
    elif code == HINGE:
        s = 1.0 - y * f
        slope = -y
    elif code == SQUARED_HINGE:
        violation = tl.maximum(1.0 - y * f, 0.0)
        s = violation * violation
        slope = -2.0 * y * violation
    elif code == SQUARED_ERROR:
        error = f - y
        s = error * error
        slope = 2.0 * error
    elif code == ABSOLUTE_ERROR:
        s = y - f
        slope = s * 0.0 - 1.0
    else:
        error = f - y
        slope = tl.minimum(tl.maximum(error, -delta), delta)
        s = slope * (error - 0.5 * slope)
    return s, slope


@jit
def _density(code: tl.constexpr, s, centre, mu, lam):
    """Return the densities at a smoothing and a threshold."""
    if code == ABSOLUTE_ERROR:
        sign = tl.where(centre + s / mu < 0.0, -1.0, 1.0).to(tl.float64)
        r = sign * tl.minimum(tl.maximum(sign * centre + (sign * s - lam) / mu, 0.0), 1.0)
    else:
        r = tl.minimum(tl.maximum(centre + (s - lam) / mu, 0.0), 1.0)
    return r


@jit
def _look(
    code: tl.constexpr, f, y, centre, mass, along, numbers, out, n, centre_stride, mass_stride,
    has_along: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    delta, k, mu = tl.load(numbers), tl.load(numbers + 1), tl.load(numbers + 2)
    lam, t = tl.load(numbers + 3), tl.load(numbers + 4)
    nothing = tl.zeros([block], dtype=tl.float64)
    above, slack, size, moving = nothing, nothing, nothing, nothing
    pull, push, pull_value, push_value, steepness = nothing, nothing, nothing, nothing, nothing
    total, first, second, length = nothing, nothing, nothing, nothing
    low, high = nothing + float("inf"), nothing - float("inf")
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
        u = tl.where(inside, tl.load(mass + places * mass_stride, mask=inside, other=0.0) / k, 0.0)
        s, slope = _expand(code, delta, at, target)
        r = _density(code, s, middle, mu, lam)
        density = tl.abs(r)
        over = tl.maximum((tl.abs(s) if code == ABSOLUTE_ERROR else s) - lam, 0.0)
        a, value, distance = u * r * slope, u * tl.abs(r * s), s - lam
        above += u * over
        slack += u * (over - (r * s - lam * density))
        size += u * density
        moving += tl.where((density > 0.0) & (density < 1.0), u, 0.0)
        pull += tl.maximum(a, 0.0)
        push += tl.maximum(-a, 0.0)
        pull_value += tl.where(a > 0.0, value, 0.0)
        push_value += tl.where(a < 0.0, value, 0.0)
        steepness += a * way
        total += u
        first += u * distance
        second += u * distance * distance
        length += u * tl.abs(s)
        low = tl.minimum(low, tl.where(inside, at, float("inf")))
        high = tl.maximum(high, tl.where(inside, at, -float("inf")))
    out += tl.program_id(0) * 15
    tl.store(out, tl.sum(above, 0))
    tl.store(out + 1, tl.sum(slack, 0))
    tl.store(out + 2, tl.sum(size, 0))
    tl.store(out + 3, tl.sum(moving, 0))
    tl.store(out + 4, tl.sum(pull, 0))
    tl.store(out + 5, tl.sum(push, 0))
    tl.store(out + 6, tl.sum(pull_value, 0))
    tl.store(out + 7, tl.sum(push_value, 0))
    tl.store(out + 8, tl.sum(steepness, 0))
    tl.store(out + 9, tl.sum(total, 0))
    tl.store(out + 10, tl.sum(first, 0))
    tl.store(out + 11, tl.sum(second, 0))
    tl.store(out + 12, tl.sum(length, 0))
    tl.store(out + 13, tl.min(low, 0))
    tl.store(out + 14, tl.max(high, 0))


@jit
def _fill(
    code: tl.constexpr, f, y, centre, mass, numbers, out, n, centre_stride, mass_stride,
    as_pulls: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    delta, k, mu, lam = tl.load(numbers), tl.load(numbers + 1), tl.load(numbers + 2), tl.load(numbers + 3)
    places = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = places < n
    at = tl.load(f + places, mask=inside, other=0.0)
    target = tl.load(y + places, mask=inside, other=0).to(tl.float64)
    middle = tl.load(centre + places * centre_stride, mask=inside, other=0.0)
    s, slope = _expand(code, delta, at, target)
    r = _density(code, s, middle, mu, lam)
    if as_pulls:
        r *= tl.load(mass + places * mass_stride, mask=inside, other=0.0) / k * slope
    tl.store(out + places, r, mask=inside)


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


def look(at: Operands, mu: float, lam: float, t: float, along: Tensor | None) -> Tensor:
    """Return the sums that a reading is made of at ``f + t * along``, and the ends of the predictions, shape (15,)."""
    n, device = len(at.f), at.f.device
    programs = max(min(_LOOK_PROGRAMS * processors(device), -(-n // _LOOK_BLOCK)), 1)
    out = torch.empty((programs, N_NUMBERS), dtype=torch.float64, device=device)
    numbers = _numbers(device, at.delta, at.k, mu, lam, t)
    with torch.cuda.device(device):
        _look[(programs,)](
            at.code, at.f, at.y, at.centre, at.mass, at.f if along is None else along, numbers, out, n,
            at.centre.stride(0), at.mass.stride(0), along is not None, _LOOK_BLOCK, num_warps=_LOOK_WARPS,
        )  # fmt: skip
    return torch.cat([out[:, :13].sum(0), out[:, 13].amin()[None], out[:, 14].amax()[None]])


def densities(at: Operands, mu: float, lam: float) -> Tensor:
    """Return the densities, shape (n,)."""
    return _filled(at, mu, lam, as_pulls=False)


def pulls(at: Operands, mu: float, lam: float) -> Tensor:
    """Return ``u r s'``, shape (n,)."""
    return _filled(at, mu, lam, as_pulls=True)


def _filled(at: Operands, mu: float, lam: float, *, as_pulls: bool) -> Tensor:
    n, out = len(at.f), torch.empty_like(at.f)
    numbers = _numbers(at.f.device, at.delta, at.k, mu, lam)
    with torch.cuda.device(at.f.device):
        _fill[(-(-n // _FILL_BLOCK),)](
            at.code, at.f, at.y, at.centre, at.mass, numbers, out, n, at.centre.stride(0), at.mass.stride(0), as_pulls,
            _FILL_BLOCK, num_warps=_FILL_WARPS,
        )  # fmt: skip
    return out


def _numbers(device: torch.device, *numbers: float) -> Tensor:
    """Return numbers on the device, in float64: as arguments of kernels they would be float32."""
    return torch.tensor(numbers, dtype=torch.float64).to(device)
