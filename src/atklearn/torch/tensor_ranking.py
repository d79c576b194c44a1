"""Who is in the top of the losses, and with which part: exact for fractions, ties and weights, on any device.

Nothing here looks at a number on the host, so nothing waits for the device, breaks a graph, or depends on the batch.
"""

from __future__ import annotations

from math import ceil
from numbers import Integral

import torch
from torch import Tensor

from atklearn.losses.aggregate import SlicedMean, check_k, least_mass
from atklearn.torch import fused_rows
from atklearn.torch.elements import Elements, positive, wide
from atklearn.torch.team import ALONE, Team

__all__ = ["amount_of", "level_of", "shares_of"]

_NEARLY = least_mass(1.0)  # a sum that misses an amount by rounding has reached it
_DIGIT = 8  # bits that one exchange between processes settles


def amount_of(k: float | Tensor, total: Tensor | float) -> Tensor | float:
    """Return ``k`` as mass: an int counts, at most all there is; a float or a tensor is a share of the total."""
    if isinstance(k, Tensor):
        return k * total
    check_k(k)
    if not isinstance(k, Integral):
        return float(k) * total
    return total.clamp(max=float(k)) if isinstance(total, Tensor) else min(float(k), total)


def shares_of(aggregate: SlicedMean, elements: Elements, team: Team = ALONE) -> Tensor:
    """Return the weight of every element in the aggregate, shape (..., n): of one row they add up to one.

    Where a row has nothing to count they are all zero. Ties at an end of the slice share what is left of it.
    """
    with torch.no_grad():
        start, stop = _bounds(aggregate, team.sum_of(elements.total(), elements.losses))
        shares = _top_shares(elements, stop, team)
        first, _, from_bottom = aggregate.ends
        if first != 0 or from_bottom:
            shares = shares - _top_shares(elements, start, team)
        return shares / _beside_rows(positive(stop - start), shares)


def _bounds(aggregate: SlicedMean, total: Tensor | float) -> tuple[Tensor | float, Tensor | float]:
    first, last, from_bottom = aggregate.ends
    start, stop = 0.0 * total if first == 0 else amount_of(first, total), amount_of(last, total)
    return (total - stop, total - start) if from_bottom else (start, stop)


def _top_shares(elements: Elements, amount: Tensor | float, team: Team) -> Tensor:
    """Return how much of each element lies in the top ``amount`` of mass."""
    values, mass = elements.values(), elements.mass()
    if elements.losses.shape[-1] == 0 and team.is_alone:
        return values.detach()
    level = level_of(elements, amount, team).unsqueeze(-1)
    above, tied = values > level, values == level
    if mass is None:
        sums = torch.stack([above.sum(-1), tied.sum(-1)]).to(wide(values.device))
    else:
        sums = torch.stack([(mass * side).sum(-1, dtype=wide(values.device)) for side in (above, tied)])
    mass_above, mass_tied = team.sum(sums)
    part = ((amount - mass_above) / positive(mass_tied)).clamp(0.0, 1.0)
    shares = torch.where(above, 1.0, tied * _beside_rows(part, values))
    return shares if mass is None else shares * mass


def _beside_rows(amount: Tensor | float, rows: Tensor) -> Tensor | float:
    return amount.to(rows.dtype).unsqueeze(-1) if isinstance(amount, Tensor) else amount


def level_of(elements: Elements, amount: Tensor | float, team: Team = ALONE) -> Tensor:
    """Return the loss at which the mass counted from the top reaches ``amount``, shape (...)."""
    if team.is_alone and elements.weight is None and fused_rows.pays(elements.losses):
        return _level_by_kernels(elements, amount)
    values, exists, n = elements.values().detach(), elements.exists(), elements.losses.shape[-1]
    if exists is not None:
        values = torch.where(exists, values, -torch.inf)
    if not team.is_alone:
        return _level_over_processes(values, elements, amount, team)
    if n == 0:
        return values.sum(-1)
    mass = elements.mass()
    if mass is None and not isinstance(amount, Tensor):
        rank = min(max(ceil(amount * _NEARLY), 1), n)
        if values.device.type == "cpu":  # faster than sorting there, slower elsewhere
            return values.kthvalue(n - rank + 1, dim=-1).values
        return values.sort(-1, descending=True).values[..., rank - 1]
    ordered, order = values.sort(-1, descending=True)
    if mass is None:
        place = torch.ceil(amount * _NEARLY).long().clamp(1, n) - 1
        place = place.expand(ordered.shape[:-1])
    else:
        reached = mass.gather(-1, order).cumsum(-1, dtype=wide(mass.device))
        place = (reached < _beside_rows(amount * _NEARLY, reached)).sum(-1)
        last = (mass > 0).sum(-1) - 1  # sums that miss the total by rounding end at the smallest loss there is
        place = torch.minimum(place, last).clamp(min=0)
    return ordered.gather(-1, place.unsqueeze(-1)).squeeze(-1)


def _level_by_kernels(elements: Elements, amount: Tensor | float) -> Tensor:
    *kept, n = elements.losses.shape
    device = elements.losses.device
    amounts = torch.as_tensor(amount, dtype=torch.float64, device=device).expand(kept).reshape(-1)
    mask = None if elements.mask is None else elements.mask.reshape(-1, n)
    return fused_rows.threshold_rows(elements.losses.reshape(-1, n), amounts, True, mask).reshape(kept)


def _level_over_processes(values: Tensor, elements: Elements, amount: Tensor, team: Team) -> Tensor:
    """Find the level of all processes' elements digit by digit of its bits: 256 sums are exchanged for each."""
    mass = elements.mass()
    mass = torch.ones_like(values) if mass is None else mass
    mass = mass.to(wide(values.device))
    keys, bits = _ordered_keys(values)
    wanted, prefix = amount * _NEARLY, torch.zeros((), dtype=torch.int64, device=values.device)
    for shift in range(bits - _DIGIT, -1, -_DIGIT):
        is_first = shift == bits - _DIGIT
        digits = (keys >> shift) + 128 if is_first else (keys >> shift) & 255
        fits = mass if is_first else mass * ((keys >> (shift + _DIGIT)) == prefix)
        counts = team.sum(torch.zeros(256, dtype=mass.dtype, device=mass.device).scatter_add(0, digits, fits))
        from_top = counts.flip(0).cumsum(0).flip(0)
        lowest = (counts > 0).to(torch.int64).argmax()
        digit = torch.maximum((from_top >= wanted).sum() - 1, lowest)
        wanted = wanted - (from_top[digit] - counts[digit])
        prefix = digit - 128 if is_first else (prefix << _DIGIT) | digit
    return _value_of(prefix, values.dtype)


def _ordered_keys(values: Tensor) -> tuple[Tensor, int]:
    """Return whole numbers in the order of the values, and their number of bits."""
    if values.dtype == torch.float64:
        raw = values.view(torch.int64)
        return raw ^ ((raw >> 63) & 0x7FFFFFFFFFFFFFFF), 64
    raw32 = values.view(torch.int32).to(torch.int64)
    return raw32 ^ ((raw32 >> 31) & 0x7FFFFFFF), 32


def _value_of(key: Tensor, dtype: torch.dtype) -> Tensor:
    if dtype == torch.float64:
        return (key ^ ((key >> 63) & 0x7FFFFFFFFFFFFFFF)).view(torch.float64)
    return (key ^ ((key >> 31) & 0x7FFFFFFF)).to(torch.int32).view(torch.float32)
