"""Who is in a slice of the losses, and with which part: exact for fractions, ties and weights, on any device.

Nothing here looks at a number on the host, so nothing waits for the device, breaks a graph, or depends on the batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from numbers import Integral

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import FunctionCtx

from atklearn.losses.aggregate import AverageTopK, SlicedMean, check_k, least_mass
from atklearn.torch import fused_rows

__all__ = [
    "ALONE", "Dims", "Elements", "Team", "amount_of", "fitting", "level_of", "mean_of", "positive", "slice_of",
    "wide",
]  # fmt: skip

Dims = int | tuple[int, ...] | None

_NEARLY = least_mass(1.0)  # a sum that misses an amount by rounding has reached it
_DIGIT = 8  # bits that one exchange between processes settles


def wide(device: torch.device) -> torch.dtype:
    """Return the type that sums are made in: counts are exact in it far beyond any batch."""
    return torch.float32 if device.type == "mps" else torch.float64


def positive(amount: Tensor | float) -> Tensor | float:
    """Return an amount to divide by: where there is none, 1, since what is divided is nothing, too."""
    return torch.where(amount > 0, amount, 1.0) if isinstance(amount, Tensor) else amount or 1.0


@dataclass(frozen=True)
class Elements:
    """Losses in rows of shape (..., n), each with the mass it stands for: every row is aggregated by itself.

    Attributes
    ----------
    losses : Tensor of shape (..., n)
        As they came: any floating type, ignored elements included.
    mask : bool Tensor of shape (..., n) or None
        False where an element is ignored.
    weight : Tensor of shape (..., n) or None
    """

    losses: Tensor
    mask: Tensor | None
    weight: Tensor | None

    @classmethod
    def of(cls, losses: Tensor, weight: Tensor | None, mask: Tensor | None, dim: Dims = None) -> Elements:
        """Check and lay out: the dimensions to aggregate go last, as one."""
        if not isinstance(losses, Tensor) or not losses.is_floating_point():
            found = losses.dtype if isinstance(losses, Tensor) else type(losses).__name__
            raise ValueError(f"losses are expected as a tensor of floating-point numbers, got {found}.")
        if losses.ndim == 0:
            raise ValueError(
                "losses are expected one per element, got a single number, already reduced: "
                "pass reduction='none' to the criterion."
            )
        if mask is not None and mask.dtype != torch.bool:
            raise ValueError(f"mask is expected as a bool tensor, True where an element counts, got {mask.dtype}.")
        mask = None if mask is None else _in_rows(fitting(mask, losses, "mask"), dim)
        weight = None if weight is None else _in_rows(fitting(weight.detach(), losses, "weight"), dim)
        return cls(_in_rows(losses, dim), mask, weight)

    def upside_down(self) -> Elements:
        """Return the negatives of the losses: of these, the smallest losses are the largest."""
        return Elements(-self.losses, self.mask, self.weight)

    def values(self) -> Tensor:
        """Return the losses in float32 or wider, and 0 in the place of those that do not exist."""
        values = self.losses.to(self._kind())
        exists = self.exists()
        return values if exists is None else torch.where(exists, values, 0.0)

    def mass(self) -> Tensor | None:
        """Return what each element counts for, shape (..., n); None when all count for one."""
        if self.weight is None:
            return None if self.mask is None else self.mask.to(self._kind())
        weight = self.weight.to(torch.promote_types(self.weight.dtype, self._kind()))
        return weight if self.mask is None else torch.where(self.mask, weight, 0.0)

    def exists(self) -> Tensor | None:
        """Return where there is something to count; None when everywhere."""
        if self.weight is None:
            return self.mask
        return self.weight > 0 if self.mask is None else self.mask & (self.weight > 0)

    def total(self) -> Tensor | float:
        """Return the mass of every row, shape (...): plain numbers where it is known without looking."""
        mass = self.mass()
        return float(self.losses.shape[-1]) if mass is None else mass.sum(-1, dtype=wide(mass.device))

    def fits_kernels(self) -> bool:
        """Return whether the rows are best put through the kernels for GPUs."""
        return self.weight is None and fused_rows.pays(self.losses)

    def in_two_dimensions(self) -> tuple[Tensor, Tensor | None]:
        """Return losses and mask with shape (rows, n), as the kernels take them."""
        n = self.losses.shape[-1]
        return self.losses.reshape(-1, n), None if self.mask is None else self.mask.reshape(-1, n)

    def _kind(self) -> torch.dtype:
        return torch.promote_types(self.losses.dtype, torch.float32)


def fitting(other: Tensor, losses: Tensor, name: str) -> Tensor:
    """Return what goes with the losses in their shape, or say that it does not fit."""
    try:
        return torch.broadcast_to(other, losses.shape)
    except RuntimeError as error:
        raise ValueError(
            f"{name} is expected to fit losses of shape {tuple(losses.shape)}, got shape {tuple(other.shape)}."
        ) from error


def _in_rows(tensor: Tensor, dim: Dims) -> Tensor:
    if dim is None:
        return tensor.reshape(-1)
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if len({place % tensor.ndim for place in dims}) != len(dims) or any(
        not -tensor.ndim <= place < tensor.ndim for place in dims
    ):
        raise ValueError(f"dim is expected to name dimensions of losses of shape {tuple(tensor.shape)}, got {dim}.")
    moved = tensor.movedim(dims, tuple(range(-len(dims), 0)))
    kept = moved.shape[: moved.ndim - len(dims)]
    return moved.reshape(*kept, prod(moved.shape[moved.ndim - len(dims) :]))


class Team:
    """The processes that share a batch, of which each has a part: what they add up, and whose gradient is whose.

    Parameters
    ----------
    group : process group of torch.distributed, or None
        None stands for this process alone.
    """

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        self.group = group
        self.size = 1 if group is None else dist.get_world_size(group)

    @classmethod
    def of(cls, group: dist.ProcessGroup | None = None) -> Team:
        """Return the team of a group, of all processes by default; without processes to share with, one alone."""
        if not dist.is_available() or not dist.is_initialized():
            return ALONE
        team = cls(group if group is not None else dist.group.WORLD)
        return team if team.size > 1 else ALONE

    @property
    def is_alone(self) -> bool:
        """Whether there is nobody to exchange with."""
        return self.size == 1

    def sum(self, tensor: Tensor) -> Tensor:
        """Return the sum of all processes' tensors, without gradient."""
        return tensor if self.is_alone else self._reduced(tensor, dist.ReduceOp.SUM)

    def sum_of(self, number: Tensor | float, beside: Tensor) -> Tensor | float:
        """Return the sum of all processes' numbers, plain ones or tensors beside another tensor."""
        if self.is_alone:
            return number
        return self.sum(torch.as_tensor(number, dtype=torch.float64, device=beside.device))

    def largest(self, tensor: Tensor) -> Tensor:
        """Return the largest of all processes' tensors, place by place, without gradient."""
        return tensor if self.is_alone else self._reduced(tensor, dist.ReduceOp.MAX)

    def joined(self, part: Tensor) -> Tensor:
        """Return the sum of all processes' parts, whose gradient reaches this process's part, times their number.

        Data parallel training averages gradients over the processes; so it ends with the gradient of the sum.
        """
        if self.is_alone:
            return part
        total = self.sum(part.to(torch.float64)).to(part.dtype)
        return _Joined.apply(part, total, self.size)

    def _reduced(self, tensor: Tensor, operation: dist.ReduceOp) -> Tensor:
        total = tensor.detach().clone()
        dist.all_reduce(total, op=operation, group=self.group)
        return total


class _Joined(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, part: Tensor, total: Tensor, size: int) -> Tensor:  # noqa: ARG004
        ctx.size = size
        return total.clone()

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor, None, None]:
        return grad * ctx.size, None, None


ALONE = Team()


def amount_of(k: float | Tensor, total: Tensor | float, device: torch.device) -> Tensor | float:
    """Return ``k`` as mass: ints, plain or in a tensor, count, up to all there is; floats are shares of the total."""
    if isinstance(k, Tensor):
        k = within_bounds(k.to(device))
        if k.is_floating_point():
            return (k * total).to(wide(device))
        count = k.to(wide(device))
        return torch.minimum(count, total) if isinstance(total, Tensor) else count.clamp(max=total)
    check_k(k)
    if not isinstance(k, Integral):
        return float(k) * total
    return total.clamp(max=float(k)) if isinstance(total, Tensor) else min(float(k), total)


def within_bounds(k: Tensor) -> Tensor:
    """Return a tensor ``k``, at least 1 or in (0, 1]: what it holds is not looked at, but its type and shape are."""
    if k.ndim > 0 or k.dtype == torch.bool or k.is_complex():
        raise ValueError(
            "k as a tensor is expected to be one number of no dimension, an int to count or a float for a share, "
            f"got {k.dtype} of shape {tuple(k.shape)}."
        )
    if not k.is_floating_point():
        return k.clamp(min=1)
    return k.to(torch.promote_types(k.dtype, torch.float32)).clamp(torch.finfo(torch.float32).tiny, 1.0)


def mean_of(aggregate: SlicedMean, elements: Elements, team: Team = ALONE) -> Tensor:
    """Return what this process adds to the mean of a slice of the losses, shape (...): alone, the mean itself.

    Where a row has nothing to count it is 0, with a zero gradient.
    """
    if isinstance(aggregate, AverageTopK) and team.is_alone and elements.fits_kernels():
        return _mean_by_kernels(elements, aggregate.k)
    from_bottom = aggregate.ends[2]
    ranked = elements.upside_down() if from_bottom else elements
    shares, low, high = slice_of(aggregate, ranked, team)
    mean = (shares * ranked.values().clamp(low, high)).sum(-1)
    return -mean if from_bottom else mean


@torch.no_grad()
def slice_of(aggregate: SlicedMean, elements: Elements, team: Team = ALONE) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return the weight of every element in the mean of a slice from the top, and what others are to be drawn to.

    The weights of a row, shape (..., n), add up to one, or are zero where it has nothing; ties at an end share what is
    left of it. Losses without a weight may be infinite, and that times zero is not zero: between the two limits, shape
    (..., 1), lie the losses that have one. Elements of an aggregate from the bottom are expected upside down.
    """
    values = elements.values()
    if values.shape[-1] == 0 and team.is_alone:
        return values, values.new_zeros(1), None
    start, stop = _ends(aggregate, team.sum_of(elements.total(), elements.losses), values.device)
    each, mass = _column(1.0 / positive(stop - start)), elements.mass()
    if mass is not None:  # a sum of masses may be too large for their own type
        mass, each = _like(values, mass.to(wide(mass.device)) * each), 1.0
    largest = torch.finfo(values.dtype).max
    low, part = _end(elements, values, stop, team)
    shares = torch.where(values > low, _like(values, each), (values == low) * _like(values, part * each))
    high = None
    if aggregate.ends[0] != 0:
        high, passed = _end(elements, values, start, team)
        rest = torch.where(high > low, 1.0, part) - passed
        shares = torch.where(values < high, shares, (values == high) * _like(values, rest * each))
        high = torch.where(rest > 0, high, largest).clamp(min=-largest)
    return shares if mass is None else shares * mass, low.clamp(max=largest), high


def _ends(aggregate: SlicedMean, total: Tensor | float, device: torch.device) -> tuple[Tensor | float, Tensor | float]:
    """Return where a slice begins and ends, as mass; empty slices are refused as far as nothing has to be looked at."""
    first, last, _ = aggregate.ends
    stop = amount_of(last, total, device)
    if first == 0:
        return 0.0, stop
    start = amount_of(first, total, device)
    is_known = isinstance(start, float) and isinstance(stop, float)
    is_reversed = isinstance(first, Integral) == isinstance(last, Integral) and not first < last
    if is_reversed or (is_known and total > 0 and not start < stop * _NEARLY):
        raise ValueError(
            f"{aggregate} is expected to be a slice of the losses that begins before it ends, got an empty one"
            f"{f' of {total:g} losses' if is_known else ''}; let it begin earlier."
        )
    return (start, stop) if is_known else (torch.minimum(start, stop), stop)


def _end(elements: Elements, values: Tensor, amount: Tensor | float, team: Team) -> tuple[Tensor, Tensor]:
    """Return the loss at which a top of that mass ends, and how much it takes of what is tied there, shape (..., 1).

    A top that ends within rounding of an element's end takes all of it: the rest could be the rest of an outlier.
    """
    level, mass = level_of(elements, amount, team).unsqueeze(-1), elements.mass()
    above, tied = values > level, values == level
    if mass is None:
        sums = torch.stack([above.sum(-1), tied.sum(-1)]).to(wide(values.device))
    else:
        sums = torch.stack([(mass * side).sum(-1, dtype=wide(values.device)) for side in (above, tied)])
    mass_above, mass_tied = team.sum(sums).unsqueeze(-1)
    wanted = _column(amount)
    part = ((wanted - mass_above) / positive(mass_tied)).clamp(0.0, 1.0)
    return level, torch.where(wanted >= (mass_above + mass_tied) * _NEARLY, 1.0, part)


def _column(amount: Tensor | float) -> Tensor | float:
    return amount.unsqueeze(-1) if isinstance(amount, Tensor) else amount


def _like(values: Tensor, amount: Tensor | float) -> Tensor | float:
    return amount.to(values.dtype) if isinstance(amount, Tensor) else amount


def level_of(elements: Elements, amount: Tensor | float, team: Team = ALONE) -> Tensor:
    """Return the loss at which the mass counted from the top reaches ``amount``, shape (...)."""
    *kept, n = elements.losses.shape
    if team.is_alone and elements.fits_kernels():
        losses, mask = elements.in_two_dimensions()
        amounts = torch.as_tensor(amount, dtype=torch.float64, device=losses.device).expand(kept).reshape(-1)
        return fused_rows.threshold_rows(losses, amounts, True, mask).reshape(kept)
    values, exists, mass = elements.values().detach(), elements.exists(), elements.mass()
    if exists is not None:
        values = torch.where(exists, values, -torch.inf)
    if not team.is_alone:
        return _level_over_processes(values, torch.ones_like(values) if mass is None else mass, amount, team)
    if n == 0:
        return values.sum(-1)
    if mass is None and not isinstance(amount, Tensor):
        rank = min(max(ceil(amount * _NEARLY), 1), n)
        if values.device.type == "cpu":  # faster than sorting there, slower elsewhere
            return values.kthvalue(n - rank + 1, dim=-1).values
        return values.sort(-1, descending=True).values[..., rank - 1]
    ordered, order = values.sort(-1, descending=True)
    if mass is None:
        place = (torch.ceil(amount * _NEARLY).long().clamp(1, n) - 1).expand(ordered.shape[:-1])
    else:
        reached = mass.gather(-1, order).cumsum(-1, dtype=wide(mass.device))
        place = (reached < _column(amount * _NEARLY)).sum(-1)
        last = (mass > 0).sum(-1) - 1  # sums that miss the total by rounding end at the smallest loss there is
        place = torch.minimum(place, last).clamp(min=0)
    return ordered.gather(-1, place.unsqueeze(-1)).squeeze(-1)


def _mean_by_kernels(elements: Elements, k: float | Tensor) -> Tensor:
    """Return the average top-k of large rows on a GPU, in few passes over them."""
    device = elements.losses.device
    if isinstance(k, Tensor):
        k = within_bounds(k.to(device))
        counts = not k.is_floating_point()
    else:
        check_k(k)
        counts = isinstance(k, Integral)
        k = torch.full((), float(k), dtype=wide(device), device=device)
    losses, mask = elements.in_two_dimensions()
    return fused_rows.average_top_k_rows(losses, k, counts, mask).reshape(elements.losses.shape[:-1])


def _level_over_processes(values: Tensor, mass: Tensor, amount: Tensor, team: Team) -> Tensor:
    """Find the level of all processes' elements digit by digit of its bits: 256 sums are exchanged for each."""
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
    bits = 64 if values.dtype == torch.float64 else 32
    raw = values.view(torch.int64 if bits == 64 else torch.int32).to(torch.int64)
    return raw ^ ((raw >> (bits - 1)) & (2 ** (bits - 1) - 1)), bits


def _value_of(key: Tensor, dtype: torch.dtype) -> Tensor:
    if dtype == torch.float64:
        return (key ^ ((key >> 63) & 0x7FFFFFFFFFFFFFFF)).view(torch.float64)
    return (key ^ ((key >> 31) & 0x7FFFFFFF)).to(torch.int32).view(torch.float32)
