# mypy: disable-error-code="no-untyped-def, attr-defined, index"
"""Passes over predictions on an NVIDIA GPU: losses, slopes and densities are made in the registers, sums come out.

A kernel reads of every sample its prediction (and that of the direction of a ray), target, centre and mass, each once.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import torch
from torch import Tensor

from atklearn.core.point import LEAST_ROUNDING, ROUNDING, ROUNDING_PER_ROW
from atklearn.losses.individual import Array
from atklearn.stores.tensors.triton_language import N_SUMS, PARTS, constant, jit, launch, processors, tl, totals
from atklearn.stores.tensors.triton_losses import KernelLoss, density_of, enters, losses_of

__all__ = ["Asked", "Operands", "filled", "search", "shared"]


class Asked(IntEnum):
    """What a sample is asked for: numbers, or its stratum, as :meth:`Standing.strata` says."""

    LOSS = 0
    SLOPE = 1
    DENSITY = 2
    STRATUM = 3


_LOSS, _SLOPE, _DENSITY = (constant(int(what)) for what in (Asked.LOSS, Asked.SLOPE, Asked.DENSITY))

# As many programs for each multiprocessor as have room in its registers.
_LOOK_BLOCK, _LOOK_WARPS, _LOOK_PROGRAMS = 128, 4, 5
_FILL_BLOCK, _FILL_WARPS = 1024, 4

# What a search knows: where it looks, the ends of the bracket, whether zero was looked at, what to do, looks so far.
_LAM, _LOW, _HIGH, _SEEN_ZERO, _TASK, _LOOKS = (constant(place) for place in range(6))
_N_KNOWN = 6
_GO_ON, _FOUND, _GIVE_UP = (constant(float(task)) for task in range(3))
# Looks that are asked for before the host hears of them: more are seldom needed, and those in vain cost little.
_AHEAD = 4


class Operands(NamedTuple):
    """What kernels take of samples.

    Attributes
    ----------
    loss : KernelLoss
    f, y, centre, mass : Tensor of shape (n,)
        See :class:`atklearn.stores.tensors.tensor_store.TensorState`.
    k : float
    """

    loss: KernelLoss
    f: Tensor
    y: Tensor
    centre: Tensor
    mass: Tensor
    k: float


@jit
def _look(
    expand: tl.constexpr, two_sided: tl.constexpr, smooth: tl.constexpr, parameters, f, y, centre, mass,
    inverse_k: tl.float64, inverse_mu: tl.float64, guess: tl.float64, known, t: tl.float64, along, pulls, out, n,
    centre_stride, mass_stride, has_along: tl.constexpr, n_sums: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    lam = tl.where(tl.load(known + _LOOKS) == 0.0, guess, tl.load(known + _LAM))
    n_blocks = tl.where(tl.load(known + _TASK) == _GO_ON, tl.cdiv(n, block), 0)
    nothing = tl.zeros([block], dtype=tl.float64)
    above, slack, size, moving = nothing, nothing, nothing, nothing
    pull, push, pull_value, push_value, steepness = nothing, nothing, nothing, nothing, nothing
    tied, full, first, second, length = nothing, nothing, nothing, nothing, nothing
    tied_weight, tied_square, full_weight, full_square = nothing, nothing, nothing, nothing
    low, high = nothing + float("-inf"), nothing + float("-inf")
    for part in range(tl.program_id(0), n_blocks, tl.num_programs(0)):
        places = tl.cast(part, tl.int64) * block + tl.arange(0, block)
        inside = places < n
        at = tl.load(f + places, mask=inside, other=0.0)
        way = nothing
        if has_along:
            way = tl.load(along + places, mask=inside, other=0.0)
            at += t * way
        target = tl.load(y + places, mask=inside, other=0).to(tl.float64)
        middle = tl.load(centre + places * centre_stride, mask=inside, other=0.0)
        u = tl.load(mass + places * mass_stride, mask=inside, other=0.0) * inverse_k
        s, slope, bend = expand(parameters, at, target)
        r = density_of(two_sided, s, middle, inverse_mu, lam)
        density = tl.abs(r)
        over = tl.maximum(losses_of(two_sided, s) - lam, 0.0)
        a, value, distance = u * r * slope, u * tl.abs(r * s), s - lam
        tl.store(pulls + places, a, mask=inside)
        above += u * over
        slack += u * (over - (r * s - lam * density))
        size += u * density
        between = (density > 0.0) & (density < 1.0)
        moving += tl.where(between, u, 0.0)
        tied += tl.where(between & inside, 1.0, 0.0)
        weight = tl.where(between, u * (density * bend + slope * slope * inverse_mu), 0.0)
        tied_weight += weight
        tied_square += weight * weight
        entering = (density >= 1.0) & inside & enters(smooth, slope, bend)
        full += tl.where(entering, 1.0, 0.0)
        weight = tl.where(entering, u * bend, 0.0)
        full_weight += weight
        full_square += weight * weight
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
    tl.store(out + 10, tl.sum(first, 0))
    tl.store(out + 11, tl.sum(second, 0))
    tl.store(out + 12, tl.sum(length, 0))
    tl.store(out + 13, tl.sum(tied, 0))
    tl.store(out + 14, tl.sum(tied_weight, 0))
    tl.store(out + 15, tl.sum(tied_square, 0))
    tl.store(out + 16, tl.sum(full, 0))
    tl.store(out + 17, tl.sum(full_weight, 0))
    tl.store(out + 18, tl.sum(full_square, 0))
    tl.store(out + n_sums - 2, tl.max(low, 0))
    tl.store(out + n_sums - 1, tl.max(high, 0))


@jit
def _narrow(
    partial, n_parts, guess: tl.float64, mu: tl.float64, enough: tl.float64, rounding: tl.float64, known, out,
    n_sums: tl.constexpr, parts: tl.constexpr,
):  # fmt: skip
    """Add up what was seen, and say where to look next: as :func:`atklearn.core.point.narrow` does on the host."""
    if tl.load(known + _TASK) == _GO_ON:
        numbers, columns = totals(partial, n_parts, n_sums, parts), tl.arange(0, n_sums)
        tl.store(out + columns, numbers)
        total, free = tl.sum(tl.where(columns == 2, numbers, 0.0), 0), tl.sum(tl.where(columns == 3, numbers, 0.0), 0)
        looks = tl.load(known + _LOOKS)
        lam = tl.where(looks == 0.0, guess, tl.load(known + _LAM))
        high = tl.where(looks == 0.0, float("inf"), tl.load(known + _HIGH))
        low = tl.where(total > 1.0, lam, tl.load(known + _LOW))
        high = tl.where(total > 1.0, high, lam)
        seen_zero = (tl.load(known + _SEEN_ZERO) > 0.0) | (lam == 0.0)
        following = lam + (total - 1.0) * mu / tl.where(free > 0.0, free, 1.0)
        is_found = (tl.abs(total - 1.0) <= enough) | ((lam == 0.0) & (total <= 1.0 + rounding))
        is_found = is_found | ((free > 0.0) & (following == lam))
        is_inside = (free > 0.0) & (low < following) & (following < high)
        is_zero = (seen_zero == 0) & (total <= 1.0)
        is_lost = (is_inside == 0) & (is_zero == 0) & (high == float("inf"))
        is_narrow = (high < float("inf")) & (high - low <= 1e-16 * high)
        following = tl.where(is_inside, following, tl.where(is_zero, 0.0, 0.5 * (low + high)))
        tl.store(known + _LAM, tl.where(is_found | is_lost, lam, following))
        tl.store(known + _LOW, low)
        tl.store(known + _HIGH, high)
        tl.store(known + _SEEN_ZERO, tl.where(seen_zero, 1.0, 0.0))
        tl.store(known + _TASK, tl.where(is_found, _FOUND, tl.where(is_lost | is_narrow, _GIVE_UP, _GO_ON)))
        tl.store(known + _LOOKS, looks + 1.0)


@jit
def _fill(
    what: tl.constexpr, expand: tl.constexpr, two_sided: tl.constexpr, smooth: tl.constexpr, parameters, f, y, centre,
    inverse_mu: tl.float64, lam: tl.float64, out, n, centre_stride, block: tl.constexpr,
):  # fmt: skip
    places = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = places < n
    at = tl.load(f + places, mask=inside, other=0.0)
    target = tl.load(y + places, mask=inside, other=0).to(tl.float64)
    s, slope, bend = expand(parameters, at, target)
    if what == _LOSS:
        tl.store(out + places, losses_of(two_sided, s), mask=inside)
    elif what == _SLOPE:
        tl.store(out + places, slope, mask=inside)
    else:
        middle = tl.load(centre + places * centre_stride, mask=inside, other=0.0)
        r = density_of(two_sided, s, middle, inverse_mu, lam)
        if what == _DENSITY:
            tl.store(out + places, r, mask=inside)
        else:
            size = tl.abs(r)
            full = (size >= 1.0) & enters(smooth, slope, bend)
            stratum = tl.where(full, 2, tl.where((size > 0.0) & (size < 1.0), 1, 0))
            tl.store(out + places, stratum.to(tl.int8), mask=inside)


def shared(n: int, device: torch.device) -> int:
    """Return how many programs share n samples."""
    return max(min(_LOOK_PROGRAMS * processors(device), -(-n // _LOOK_BLOCK)), 1)


def search(
    at: Operands, mu: float, guess: float, t: float, along: Tensor | None, pulls: Tensor, most: int = 100
) -> tuple[Array, float, bool]:
    """Look for the threshold at ``f + t * along``: see :func:`atklearn.core.point.search_threshold`.

    Parameters
    ----------
    at : Operands
    mu, guess, t : float
    along : Tensor of shape (n,) or None
    pulls : Tensor of shape (n,)
        Gets ``u r s'``.
    most : int
        How often to look; once, it is at the guess.

    Returns
    -------
    numbers : ndarray of shape (32,)
        The 13 sums that a reading is made of, but for that of u; of the samples between the bounds of their density
        how many, and the sums of their weights in the Hessian and of the squares of these; the same three of those at
        the upper bound that have weight; last, minus the least and the largest prediction.
    threshold : float
    is_found : bool
        If not, something out of the ordinary is to be looked at by the host.
    """
    n, device = len(at.f), at.f.device
    partial = torch.empty((shared(n, device), N_SUMS), dtype=torch.float64, device=device)
    told = torch.zeros(N_SUMS + _N_KNOWN, dtype=torch.float64, device=device)
    known, asked, enough = told[N_SUMS:], 0, max(LEAST_ROUNDING, ROUNDING_PER_ROW * n)
    while True:
        ahead = min(_AHEAD, most - asked) if asked or guess > 0.0 else 1
        for _ in range(ahead):
            launch(
                _look, (len(partial),), device,
                at.loss.expand, at.loss.two_sided, at.loss.smooth, at.loss.parameters, at.f, at.y, at.centre, at.mass,
                1.0 / at.k, 1.0 / mu, guess, known, t, at.f if along is None else along, pulls, partial, n,
                at.centre.stride(0), at.mass.stride(0), along is not None, N_SUMS, _LOOK_BLOCK, warps=_LOOK_WARPS,
            )  # fmt: skip
            launch(
                _narrow, (1,), device,
                partial, len(partial), guess, mu, enough, ROUNDING, known, told, N_SUMS, PARTS, warps=_LOOK_WARPS,
            )  # fmt: skip
        asked += ahead
        numbers = told.cpu().numpy()
        lam, _, _, _, task, _ = numbers[N_SUMS:].tolist()
        if task != 0.0 or asked >= most:  # neither to go on nor allowed to
            return numbers[:N_SUMS], lam, task == 1.0


def filled(at: Operands, what: Asked, mu: float = 1.0, lam: float = 0.0) -> Tensor:
    """Return what is asked for of every sample: a number in float64 each, or its stratum as int8."""
    n = len(at.f)
    out = torch.empty(n, dtype=torch.int8 if what is Asked.STRATUM else torch.float64, device=at.f.device)
    launch(
        _fill, (-(-n // _FILL_BLOCK),), at.f.device,
        int(what), at.loss.expand, at.loss.two_sided, at.loss.smooth, at.loss.parameters, at.f, at.y, at.centre,
        1.0 / mu, lam, out, n, at.centre.stride(0), _FILL_BLOCK, warps=_FILL_WARPS,
    )  # fmt: skip
    return out
