# mypy: disable-error-code="no-untyped-def, attr-defined, index"
"""The passes of a proof on an NVIDIA GPU: see :mod:`atklearn.core.point` for what they are for."""

from __future__ import annotations

import torch
from torch import Tensor

from atklearn.stores.tensors.triton_language import N_SUMS, add_up, jit, launch, tl
from atklearn.stores.tensors.triton_losses import losses_of
from atklearn.stores.tensors.triton_standing import Operands, shared

__all__ = ["read_slack", "scale_sides", "weigh_sides"]

_BLOCK = 256


@jit
def _weigh_sides(
    expand: tl.constexpr, parameters, f, y, mass, r, inverse_k: tl.float64, out, n, mass_stride, r_stride,
    n_sums: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    nothing = tl.zeros([block], dtype=tl.float64)
    pull, push, up, down, level = nothing, nothing, nothing, nothing, nothing
    for part in range(tl.program_id(0), tl.cdiv(n, block), tl.num_programs(0)):
        places = tl.cast(part, tl.int64) * block + tl.arange(0, block)
        inside = places < n
        at = tl.load(f + places, mask=inside, other=0.0)
        target = tl.load(y + places, mask=inside, other=0).to(tl.float64)
        density = tl.load(r + places * r_stride, mask=inside, other=0.0)
        u = tl.load(mass + places * mass_stride, mask=inside, other=0.0) * inverse_k
        _, slope, _ = expand(parameters, at, target)
        side, weight = density * slope, u * tl.abs(density)
        pull += tl.maximum(u * side, 0.0)
        push += tl.maximum(-u * side, 0.0)
        up += tl.where(side > 0.0, weight, 0.0)
        down += tl.where(side < 0.0, weight, 0.0)
        level += tl.where(side == 0.0, weight, 0.0)
    columns = tl.arange(0, n_sums)
    numbers = tl.where(columns == 0, tl.sum(pull, 0), 0.0)
    numbers = tl.where(columns == 1, tl.sum(push, 0), numbers)
    numbers = tl.where(columns == 2, tl.sum(up, 0), numbers)
    numbers = tl.where(columns == 3, tl.sum(down, 0), numbers)
    numbers = tl.where(columns == 4, tl.sum(level, 0), numbers)
    tl.store(out + tl.program_id(0) * n_sums + columns, numbers)


@jit
def _scale_sides(
    expand: tl.constexpr, parameters, f, y, mass, given, inverse_k: tl.float64, up: tl.float64, down: tl.float64,
    level: tl.float64, middle: tl.float64, r, a, out, n, mass_stride, given_stride,
    n_sums: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    nothing = tl.zeros([block], dtype=tl.float64)
    along, total = nothing, nothing
    for part in range(tl.program_id(0), tl.cdiv(n, block), tl.num_programs(0)):
        places = tl.cast(part, tl.int64) * block + tl.arange(0, block)
        inside = places < n
        at = tl.load(f + places, mask=inside, other=0.0)
        target = tl.load(y + places, mask=inside, other=0).to(tl.float64)
        density = tl.load(given + places * given_stride, mask=inside, other=0.0)
        u = tl.load(mass + places * mass_stride, mask=inside, other=0.0) * inverse_k
        _, slope, _ = expand(parameters, at, target)
        side = density * slope
        density *= tl.where(side > 0.0, up, tl.where(side < 0.0, down, level))
        pulls = u * density * slope
        tl.store(r + places, density, mask=inside)
        tl.store(a + places, pulls, mask=inside)
        along += pulls * (at - middle)
        total += pulls
    columns = tl.arange(0, n_sums)
    numbers = tl.where(columns == 0, tl.sum(along, 0), 0.0)
    numbers = tl.where(columns == 1, tl.sum(total, 0), numbers)
    tl.store(out + tl.program_id(0) * n_sums + columns, numbers)


@jit
def _read_slack(
    expand: tl.constexpr, two_sided: tl.constexpr, parameters, f, exact, y, mass, r, inverse_k: tl.float64,
    lam: tl.float64, out, n, mass_stride, has_moved: tl.constexpr, n_sums: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    nothing = tl.zeros([block], dtype=tl.float64)
    above, slack, size, change = nothing, nothing, nothing, nothing
    for part in range(tl.program_id(0), tl.cdiv(n, block), tl.num_programs(0)):
        places = tl.cast(part, tl.int64) * block + tl.arange(0, block)
        inside = places < n
        at = tl.load(exact + places, mask=inside, other=0.0)
        target = tl.load(y + places, mask=inside, other=0).to(tl.float64)
        density = tl.load(r + places, mask=inside, other=0.0)
        u = tl.load(mass + places * mass_stride, mask=inside, other=0.0) * inverse_k
        s, _, _ = expand(parameters, at, target)
        over = tl.maximum(losses_of(two_sided, s) - lam, 0.0)
        above += u * over
        slack += u * (over - (density * s - lam * tl.abs(density)))
        size += u * tl.abs(density)
        if has_moved:
            before, _, _ = expand(parameters, tl.load(f + places, mask=inside, other=0.0), target)
            change += u * density * (s - before)
    columns = tl.arange(0, n_sums)
    numbers = tl.where(columns == 0, tl.sum(above, 0), 0.0)
    numbers = tl.where(columns == 1, tl.sum(slack, 0), numbers)
    numbers = tl.where(columns == 2, tl.sum(size, 0), numbers)
    numbers = tl.where(columns == 3, tl.sum(change, 0), numbers)
    tl.store(out + tl.program_id(0) * n_sums + columns, numbers)


def _partial(at: Operands) -> Tensor:
    return torch.empty((shared(len(at.f), at.f.device), N_SUMS), dtype=torch.float64, device=at.f.device)


def weigh_sides(at: Operands, r: Tensor) -> Tensor:
    """Return what pulls up and down, and the masses of those that pull up, down and not at all, shape (5,)."""
    partial = _partial(at)
    launch(
        _weigh_sides, (len(partial),), at.f.device,
        at.loss.expand, at.loss.parameters, at.f, at.y, at.mass, r, 1.0 / at.k, partial, len(at.f),
        at.mass.stride(0), r.stride(0), N_SUMS, _BLOCK,
    )  # fmt: skip
    return add_up(partial)[:5]


def scale_sides(
    at: Operands, given: Tensor, up: float, down: float, level: float, middle: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return densities times the factors of their sides, pulls ``a``, and the sums of ``a (f - middle)`` and ``a``."""
    partial, r, a = _partial(at), torch.empty_like(at.f), torch.empty_like(at.f)
    launch(
        _scale_sides, (len(partial),), at.f.device,
        at.loss.expand, at.loss.parameters, at.f, at.y, at.mass, given, 1.0 / at.k, up, down, level, middle, r, a,
        partial, len(at.f), at.mass.stride(0), given.stride(0), N_SUMS, _BLOCK,
    )  # fmt: skip
    return r, a, add_up(partial)[:2]


def read_slack(at: Operands, exact: Tensor, r: Tensor, lam: float) -> Tensor:
    """Return, summed over u: what is above the threshold, the slack, the density, and its gain by exact predictions."""
    partial = _partial(at)
    launch(
        _read_slack, (len(partial),), at.f.device,
        at.loss.expand, at.loss.two_sided, at.loss.parameters, at.f, exact, at.y, at.mass, r, 1.0 / at.k, lam, partial,
        len(at.f), at.mass.stride(0), exact is not at.f, N_SUMS, _BLOCK,
    )  # fmt: skip
    return add_up(partial)[:4]
