"""Groups of samples: the average top-k of their mean losses, so that the worst-off groups count, not the worst samples.

``AT_k over groups = sum over groups g of q_g m_g``: m_g is the mean loss of a group, and q the weights of the average
top-k of these means.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from atklearn.losses.aggregate import AverageTopK
from atklearn.torch.slices import Elements, Team, positive, slice_of
from atklearn.torch.tracking import Pending

__all__ = ["BatchGroups", "TrackedGroups"]

_PER_GROUP = 256.0  # samples of a group of average size that its mean remembers
_LEAST_KEPT = 0.5  # of what is remembered in one step, however large: a group that a batch lacks is not forgotten


class BatchGroups(nn.Module):
    """Groups by the means that they have in the batch; those that do not occur in it do not count.

    Parameters
    ----------
    n_groups : int
    """

    def __init__(self, n_groups: int) -> None:
        super().__init__()
        self.n_groups = n_groups

    def forward(self, elements: Elements, group: Tensor, k: float | Tensor, team: Team) -> tuple[Tensor, Tensor]:
        """Return this process's part of the loss, and the mass of all."""
        own, mass = _sums_by_group(elements, group, self.n_groups)
        with torch.no_grad():
            mass = team.sum(mass)
            weights = _weights(team.sum(own) / positive(mass), mass, k)
        return (weights / positive(mass) * own).sum(), mass.sum()


class TrackedGroups(nn.Module):
    """Groups by the means that they had in the latest batches, kept as buffers.

    With q and the groups' shares p of the data held fixed, the loss is a plain mean of ``q_g / p_g`` times the loss
    over samples: it splits over batches and processes without bias, also where a batch lacks a group.

    Parameters
    ----------
    n_groups : int
    window : float or None
        Mass of losses that the means look back on; 256 per group by default.
    accumulation_steps : int
        Calls in training mode that belong to one step of the optimiser: q and p are held over them.
    """

    sums: Tensor
    mass: Tensor

    def __init__(self, n_groups: int, window: float | None, accumulation_steps: int) -> None:
        super().__init__()
        self.n_groups = n_groups
        self.window = _PER_GROUP * n_groups if window is None else window
        self.register_buffer("sums", torch.zeros(n_groups, dtype=torch.float64))
        self.register_buffer("mass", torch.zeros(n_groups, dtype=torch.float64))
        self.pending = Pending(2 * n_groups, accumulation_steps)

    def forward(self, elements: Elements, group: Tensor, k: float | Tensor, team: Team) -> tuple[Tensor, Tensor]:
        """Return this process's part of the loss, and the mass of all; in training, move on."""
        own, mass = _sums_by_group(elements, group, self.n_groups)
        with torch.no_grad():
            now, mass = team.sum(torch.stack([own, mass])).to(self.sums.dtype)
            begins = self.mass.sum() == 0
            sums, known = torch.where(begins, now, self.sums), torch.where(begins, mass, self.mass)
            weights = _weights(sums / positive(known), known, k)
            factors = weights * known.sum() / positive(known)
            if self.training:
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


def _weights(means: Tensor, mass: Tensor, k: float | Tensor) -> Tensor:
    """Return the weight of every group in the average top-k of the means of those that occur."""
    return slice_of(AverageTopK(k), Elements(means, mass > 0, None)).shares
