"""One threshold for the whole data set, found while training goes through it in batches.

By Lemma 1 of the paper ``AT_k = min over lambda of the mean of  lambda + [l_i - lambda]_+ / s``, with s = k / n. With
lambda held fixed that is a plain mean over samples: it splits over batches, micro-batches and processes without bias.
Which lambda is best, the share of losses above it tells: s of them should be. So after every batch lambda takes a step
towards that, of a size in proportion to how far the losses lie from it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from atklearn.torch.elements import Elements, positive, wide
from atklearn.torch.team import Team

__all__ = ["LearntThreshold", "Pending", "TrackedThreshold"]

_TAIL = 256.0  # losses above lambda that are remembered: lambda is known to some 5 % of their spread then
_FASTEST = 0.1  # of the way in one step, however large the batch: the density of the losses is only guessed
_LEAST = 0.1  # of the mean distance from lambda is the scale of a step at least; more, the fewer losses are above it


class LearntThreshold(nn.Module):
    """The threshold as a parameter: the optimiser moves it, at its own learning rate."""

    def __init__(self) -> None:
        super().__init__()
        self.threshold = nn.Parameter(torch.zeros(1))

    def forward(self, elements: Elements, share: Tensor, team: Team) -> tuple[Tensor, Tensor | float]:
        """Return this process's part of the loss, and the mass of all."""
        mass = team.sum_of(elements.total(), elements.losses)
        return _part_of_mean(elements, self.threshold, share, mass), mass


class TrackedThreshold(nn.Module):
    """The threshold as a buffer that follows the losses of the training batches.

    Its buffers are vectors, of one number if need be: a compiled graph forgets what it writes to a float64 of no
    dimension (PyTorch 2.13, on a CPU).

    Parameters
    ----------
    memory : float or None
        Mass of losses that lambda looks back on; ``256 / share`` by default.
    accumulate : int
        Calls in training mode that belong to one step of the optimiser: lambda is held over them.
    """

    threshold: Tensor
    seen: Tensor
    recent: Tensor
    least: Tensor

    def __init__(self, memory: float | None, accumulate: int) -> None:
        super().__init__()
        self.memory = memory
        self.register_buffer("threshold", torch.zeros(1, dtype=torch.float64))
        self.register_buffer("seen", torch.zeros(1, dtype=torch.float64))
        # of late: mean excess over lambda and mass above it, each relative to s, and mean distance from it
        self.register_buffer("recent", torch.zeros(3, dtype=torch.float64))
        self.register_buffer("least", torch.full((1,), torch.inf, dtype=torch.float64))
        self.pending = Pending(4, accumulate)

    def forward(self, elements: Elements, share: Tensor, team: Team) -> tuple[Tensor, Tensor | float]:
        """Return this process's part of the loss, and the mass of all; in training, move on."""
        with torch.no_grad():
            sums, least, largest = _statistics(elements, self.threshold, team)
            counts = torch.isfinite(sums).all() & (sums[0] > 0)  # what overflowed must not spoil the threshold
            begins = counts & (self.seen == 0)
            mean, square = sums[4:] / positive(sums[0])
            spread = (square - mean**2).clamp(min=0.0).sqrt()
            # at first: where the quantile of an exponential distribution with these moments would be
            guess = torch.clamp(mean - spread * (1.0 + torch.log(share)), least, largest)
            threshold = torch.where(begins, guess, self.threshold)
        part = _part_of_mean(elements, threshold, share, sums[0])
        if self.training:
            with torch.no_grad():
                self.threshold.copy_(threshold)
                self.recent.copy_(
                    torch.where(begins, torch.stack([spread, torch.ones_like(spread), spread]), self.recent)
                )
                self.least.copy_(torch.where(counts, torch.minimum(self.least, least), self.least))
                self._move(torch.where(counts & ~begins, sums[:4], 0.0), torch.where(begins, sums[0], 0.0), share)
        return part, sums[0]

    def _move(self, sums: Tensor, first: Tensor, share: Tensor) -> None:
        """Step towards the threshold that has its share of the losses above it, when a step's calls are complete."""
        memory = _TAIL / share if self.memory is None else torch.full_like(share, self.memory)
        self.seen.copy_(torch.minimum(self.seen + sums[0] + first, memory))
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


class Pending(nn.Module):
    """Sums over the calls that belong to one step of the optimiser.

    Parameters
    ----------
    size : int
    accumulate : int
        How many calls that is.
    """

    sums: Tensor
    calls: Tensor

    def __init__(self, size: int, accumulate: int) -> None:
        super().__init__()
        self.accumulate = accumulate
        self.register_buffer("sums", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("calls", torch.zeros(1, dtype=torch.int64))

    def add(self, sums: Tensor) -> tuple[Tensor, Tensor]:
        """Return the sums so far, and whether they are complete; then the next ones begin at zero."""
        self.sums.add_(sums)
        self.calls.add_(1)
        total, is_complete = self.sums.clone(), self.calls >= self.accumulate
        self.sums.masked_fill_(is_complete, 0.0)
        self.calls.masked_fill_(is_complete, 0)
        return total, is_complete


def _part_of_mean(elements: Elements, threshold: Tensor, share: Tensor, mass: Tensor | float) -> Tensor:
    """Return what this process's elements add to the mean of ``lambda + [l - lambda]_+ / s`` over all.

    At s = 1 the best lambda is below all losses, and their plain mean is meant.
    """
    values, weights = elements.values(), elements.mass()
    threshold, share = threshold.to(values.dtype), share.to(values.dtype)
    spread = torch.where(share < 1.0, threshold + torch.relu(values - threshold) / share, values)
    added = spread.sum() if weights is None else (spread * weights).sum()
    return (added / positive(mass)).to(added.dtype)


def _statistics(elements: Elements, threshold: Tensor, team: Team) -> tuple[Tensor, Tensor, Tensor]:
    """Return sums over the losses of all processes, and the smallest and the largest of them.

    The sums, shape (6,): of the mass, of the mass above the threshold, of the excess over it and the distance from
    it, of the losses and of their squares.
    """
    values, mass, exists = elements.values().detach(), elements.mass(), elements.exists()
    off = values - threshold.to(values.dtype)
    parts = torch.stack([torch.ones_like(off), (off > 0).to(off.dtype), torch.relu(off), off.abs(), values, values**2])
    sums = (parts if mass is None else parts * mass).sum(-1, dtype=wide(values.device))
    signed = torch.stack([-values, values])
    if exists is not None:
        signed = torch.where(exists, signed, -torch.inf)
    nothing = torch.full((2, 1), -torch.inf, dtype=values.dtype, device=values.device)
    ends = team.largest(torch.cat([signed, nothing], dim=1).amax(-1)).to(sums.dtype)
    return team.sum(sums), -ends[0], ends[1]
