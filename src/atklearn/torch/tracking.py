"""What a loss remembers from batch to batch, found while training goes through the data set: a threshold, or means.

By Lemma 1 of the paper ``AT_k = min over lambda of the mean of  lambda + [l_i - lambda]_+ / s``, with s = k / n. With
lambda held fixed that is a plain mean over samples: it splits over batches, micro-batches and processes without bias.
Which lambda is best, the share of losses above it tells: s of them should be. So after every batch lambda takes a step
towards that, of a size in proportion to how far the losses lie from it. And where a batch is large enough to show that
lambda is far off, because the model has learnt fast, lambda is first brought up to date: else a model of which no loss
is above lambda would have no gradient.

Of groups, the average top-k of their mean losses makes the worst-off groups count, not the worst samples: ``AT_k over
groups = sum over groups g of q_g m_g``, with m_g the mean loss of a group, and q the weights of the average top-k of
these means.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from atklearn.losses.aggregate import AverageTopK
from atklearn.torch.slices import Elements, Team, level_of, positive, slice_of, wide

__all__ = ["Groups", "LearntThreshold", "TrackedThreshold"]

_TAIL = 64.0  # losses above lambda that are remembered: lambda is known to some 10 % of their spread then
_FASTEST = 0.1  # of the way in one step, however large the batch: the density of the losses is only guessed
_LEAST = 0.1  # of the mean distance from lambda is the scale of a step at least; more, the fewer losses are above it
_BAND = 2.0  # a batch with this many times fewer or more losses above lambda than it should have, and ...
_DEVIATIONS = 3.0  # ... this far from what chance would do, says that lambda is out of date
_PER_GROUP = 256.0  # samples of a group of average size that its mean remembers
_LEAST_KEPT = 0.5  # of what is remembered in one step, however large: a group that a batch lacks is not forgotten


class LearntThreshold(nn.Module):
    """The threshold as a parameter: the optimiser moves it, at its own learning rate."""

    def __init__(self) -> None:
        super().__init__()
        self.threshold = nn.Parameter(torch.zeros(1))

    def forward(self, elements: Elements, share: Tensor, team: Team) -> tuple[Tensor, Tensor | float]:
        """Return this process's part of the loss, and the mass of all."""
        sums = _sums_at(elements, self.threshold.detach(), team)
        return _part_of_mean(elements, self.threshold, share, sums), sums[0]


class TrackedThreshold(nn.Module):
    """The threshold as a buffer that follows the losses of the training batches.

    Its buffers are vectors, of one number if need be: a compiled graph forgets what it writes to a float64 of no
    dimension (PyTorch 2.13, on a CPU).

    Parameters
    ----------
    window : float or None
        Mass of losses that lambda looks back on; ``64 / share`` by default.
    accumulation_steps : int
        Calls in training mode that belong to one step of the optimiser: lambda is held over them.
    """

    threshold: Tensor
    seen: Tensor
    recent: Tensor
    least: Tensor

    def __init__(self, window: float | None, accumulation_steps: int) -> None:
        super().__init__()
        self.window = window
        self.register_buffer("threshold", torch.zeros(1, dtype=torch.float64))
        self.register_buffer("seen", torch.zeros(1, dtype=torch.float64))
        # of late: mean excess over lambda and mass above it, each relative to s, and mean distance from it
        self.register_buffer("recent", torch.zeros(3, dtype=torch.float64))
        self.register_buffer("least", torch.full((1,), torch.inf, dtype=torch.float64))
        self.pending = Pending(4, accumulation_steps)

    def forward(self, elements: Elements, share: Tensor, team: Team) -> tuple[Tensor, Tensor | float]:
        """Return this process's part of the loss, and the mass of all; in training, move on."""
        with torch.no_grad():
            mass = team.sum(_total(elements))
            threshold = self._current(elements, share[0], mass, team)
            sums = _sums_at(elements, threshold, team)
        part = _part_of_mean(elements, threshold, share, sums)
        if self.training:
            with torch.no_grad():
                counts = torch.isfinite(sums).all() & (mass > 0)  # what overflowed must not spoil the threshold
                begins = counts & (self.seen == 0)
                self.threshold.copy_(torch.where(counts, threshold, self.threshold))
                self.least.copy_(torch.where(counts, torch.minimum(self.least, _least(elements, team)), self.least))
                self._move(torch.where(counts, sums[:4], 0.0), begins, share)
        return part, mass

    def _current(self, elements: Elements, share: Tensor, mass: Tensor, team: Team) -> Tensor:
        """Return lambda as it is, unless there is none yet, or a step's first batch says that it is out of date."""
        wanted = share * mass
        deviation = _DEVIATIONS * torch.sqrt(wanted * (1.0 - share))
        fewest = torch.minimum(wanted / _BAND, wanted - deviation)
        # few losses above lambda scatter upwards more than their deviation says
        most = torch.maximum(wanted * _BAND, wanted + deviation + _DEVIATIONS)
        low, high = (
            level_of(elements, _at_hand(amount, team), team).to(mass.dtype)
            for amount in (torch.minimum(most, mass), fewest.clamp(min=1.0))
        )
        caught_up = torch.where(fewest >= 1.0, torch.minimum(self.threshold, high), self.threshold)
        caught_up = torch.where(most < mass, torch.maximum(caught_up, low), caught_up)
        may_catch_up = (self.pending.calls == 0) & (mass > 0) & self.training
        threshold = torch.where(may_catch_up, caught_up, self.threshold)
        return torch.where((self.seen == 0) & (mass > 0), low, threshold)

    def _move(self, sums: Tensor, begins: Tensor, share: Tensor) -> None:
        """Step towards the threshold that has its share of the losses above it, when a step's calls are complete."""
        window = _TAIL / share if self.window is None else torch.full_like(share, self.window)
        self.seen.copy_(torch.minimum(self.seen + sums[0], window))
        first = torch.cat([sums[2] / share, sums[0, None], sums[3, None]]) / positive(sums[0])
        self.recent.copy_(torch.where(begins, first, self.recent))
        (mass, above, excess, distance), is_complete = self.pending.add(sums)
        moves = is_complete & (mass > 0)
        mass = positive(mass)
        gain = torch.where(moves, (mass / self.seen).clamp(max=_FASTEST), 0.0)
        pull = gain * (above / mass / share - 1.0)
        # the logarithm tames steps of large batches; those of small ones stay proportional, and so unbiased
        pull = torch.where(pull > 0, torch.log1p(pull.clamp(min=0.0)), pull)
        excess_then, above_then, distance_then = self.recent
        scale = torch.maximum(excess_then, (1.0 - above_then).clamp(min=_LEAST) * distance_then)
        floor = torch.minimum(self.threshold, self.least)  # below all losses there is no better lambda
        self.threshold.copy_(torch.maximum(self.threshold + pull * scale, floor))
        now = torch.cat([excess / share, above / share, distance[None]]) / mass
        self.recent.add_(gain * (now - self.recent))
        self.least.masked_fill_(is_complete, torch.inf)


def _part_of_mean(elements: Elements, threshold: Tensor, share: Tensor, sums: Tensor) -> Tensor:
    """Return what this process's elements add to the mean of ``lambda + [l - lambda]_+ / s`` over all.

    Losses tied at lambda share in the gradient what those above leave of the top: a model whose losses are all the same
    could not learn otherwise. At s = 1 the best lambda is below all losses, and their plain mean is meant.
    """
    values, weights = elements.values(), elements.mass()
    mass, above, _, _, tied = sums
    part = ((share * mass - above) / positive(tied)).clamp(0.0, 1.0).to(values.dtype)
    threshold, share = threshold.to(values.dtype), share.to(values.dtype)
    off = values - threshold
    excess = torch.where(off < 0, 0.0, torch.where(off == 0, part * off, off))  # what is not a number stays
    spread = torch.where(share < 1.0, threshold + excess / share, values)
    added = spread.sum() if weights is None else (spread * weights).sum()
    return (added / positive(mass)).to(added.dtype)


def _sums_at(elements: Elements, threshold: Tensor, team: Team) -> Tensor:
    """Return sums over all processes' losses: mass, that above the threshold, excess over it, distance, mass at it."""
    values, mass = elements.values().detach(), elements.mass()
    off = values - threshold.to(values.dtype)
    is_above, is_tied = (off > 0).to(off.dtype), (off == 0).to(off.dtype)
    parts = torch.stack([torch.ones_like(off), is_above, torch.relu(off), off.abs(), is_tied])
    return team.sum((parts if mass is None else parts * mass).sum(-1, dtype=wide(values.device)))


def _least(elements: Elements, team: Team) -> Tensor:
    """Return the smallest loss of all processes."""
    values, exists = elements.values().detach(), elements.exists()
    if exists is not None:
        values = torch.where(exists, values, torch.inf)
    nothing = torch.full((1,), -torch.inf, dtype=values.dtype, device=values.device)
    return -team.largest(torch.cat([-values, nothing]).amax())


def _at_hand(amount: Tensor, team: Team) -> Tensor | float:
    """Return an amount as a plain number where nothing waits for it: fewer losses are sorted then."""
    is_plain = amount.device.type == "cpu" and team.is_alone and not torch.compiler.is_compiling()
    return float(amount) if is_plain else amount


def _total(elements: Elements) -> Tensor:
    device = elements.losses.device
    return torch.as_tensor(elements.total(), dtype=wide(device), device=device)


class Groups(nn.Module):
    """The average top-k of the mean losses of groups: means in the batch, or in the latest batches, kept as buffers.

    With q and the groups' shares p of the data held fixed, the loss is a plain mean of ``q_g / p_g`` times the loss
    over samples: where they are kept it splits over batches and processes without bias, also where a batch lacks a
    group. Groups that do not occur do not count.

    Parameters
    ----------
    n_groups : int
    remembers : bool
        Whether means are kept from batch to batch.
    window : float, default=None
        Mass of losses that the means look back on; 256 per group by default.
    accumulation_steps : int, default=1
        Calls in training mode that belong to one step of the optimiser: q and p are held over them.
    """

    sums: Tensor
    mass: Tensor

    def __init__(
        self, n_groups: int, remembers: bool, window: float | None = None, accumulation_steps: int = 1
    ) -> None:
        super().__init__()
        self.n_groups, self.remembers = n_groups, remembers
        self.window = _PER_GROUP * n_groups if window is None else window
        if remembers:
            self.register_buffer("sums", torch.zeros(n_groups, dtype=torch.float64))
            self.register_buffer("mass", torch.zeros(n_groups, dtype=torch.float64))
            self.pending = Pending(2 * n_groups, accumulation_steps)

    def forward(self, elements: Elements, group: Tensor, k: float | Tensor, team: Team) -> tuple[Tensor, Tensor]:
        """Return this process's part of the loss, and the mass of all; in training, move on."""
        own, mass = _sums_by_group(elements, group, self.n_groups)
        with torch.no_grad():
            now, mass = team.sum(torch.stack([own, mass])).to(wide(own.device))
            sums, known = now, mass
            if self.remembers:
                begins = self.mass.sum() == 0
                sums, known = torch.where(begins, now, self.sums), torch.where(begins, mass, self.mass)
            means = Elements(sums / positive(known), known > 0, None)
            factors = slice_of(AverageTopK(k), means)[0] * known.sum() / positive(known)
            if self.remembers and self.training:
                counts = torch.isfinite(now).all()
                self._move(torch.where(counts, torch.cat([now, mass]), 0.0))
        total = mass.sum()
        return ((factors * own).sum() / positive(total)).to(own.dtype), total

    def _move(self, sums: Tensor) -> None:
        """Forget a part of the old for the new, when a step's calls are complete."""
        total, is_complete = self.pending.add(sums)
        now, mass = total[: self.n_groups], total[self.n_groups :]
        kept = (1.0 - mass.sum() / self.window).clamp(min=_LEAST_KEPT)
        self.sums.copy_(torch.where(is_complete, kept * self.sums + now, self.sums))
        self.mass.copy_(torch.where(is_complete, kept * self.mass + mass, self.mass))


def _sums_by_group(elements: Elements, group: Tensor, n_groups: int) -> tuple[Tensor, Tensor]:
    """Return the sum of the losses of each group, with gradient, and their mass."""
    values, mass = elements.values(), elements.mass()
    mass = torch.ones_like(values) if mass is None else mass.to(values.dtype)
    zeros = torch.zeros(n_groups, dtype=values.dtype, device=values.device)
    return zeros.scatter_add(0, group, values * mass), zeros.scatter_add(0, group, mass)


class Pending(nn.Module):
    """Sums over the calls that belong to one step of the optimiser.

    Parameters
    ----------
    size : int
    accumulation_steps : int
        How many calls that is.
    """

    sums: Tensor
    calls: Tensor

    def __init__(self, size: int, accumulation_steps: int) -> None:
        super().__init__()
        self.accumulation_steps = accumulation_steps
        self.register_buffer("sums", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("calls", torch.zeros(1, dtype=torch.int64))

    def add(self, sums: Tensor) -> tuple[Tensor, Tensor]:
        """Return the sums so far, and whether they are complete; then the next ones begin at zero."""
        self.sums.add_(sums)
        self.calls.add_(1)
        total, is_complete = self.sums.clone(), self.calls >= self.accumulation_steps
        self.sums.masked_fill_(is_complete, 0.0)
        self.calls.masked_fill_(is_complete, 0)
        return total, is_complete
