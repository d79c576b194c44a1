"""The k-th largest of many losses in a tensor, exactly, and which losses are the largest.

A sample brackets the loss that is sought; one pass counts what is above and inside; only what is inside is sorted.
"""

from __future__ import annotations

import torch
from torch import Tensor

from atklearn.losses.aggregate import least_mass, rank_of

__all__ = ["largest_places", "ranked"]

# So few are sorted as they are; of more, so many are looked at, and the bracket reaches so far to both sides: more
# than four deviations of the rank among these.
_FEW = 1 << 17
_SAMPLE = 1 << 16
_MARGIN = 600


def ranked(losses: Tensor, mass: Tensor, each: float | None, k: float) -> float:
    """Return the largest number such that a mass of at least k is there or above.

    Parameters
    ----------
    losses : Tensor of shape (n,)
    mass : Tensor of shape (n,)
    each : float or None
        The mass of every one, if all are alike.
    k : float

    Examples
    --------
    >>> losses = torch.tensor([3.0, 1.0, 2.0, 2.0])
    >>> ranked(losses, torch.ones(4), 1.0, 3.0), ranked(losses, torch.tensor([0.5, 1.0, 1.0, 1.0]), None, 0.5)
    (2.0, 3.0)
    """
    n = len(losses)
    if each is not None:  # counts are exact
        wanted = float(rank_of(k / each, n))
        if wanted == n:
            return float(losses.amin())
        share = wanted / n
    else:
        wanted, share = least_mass(k), min(k / float(mass.sum()), 1.0)
    above = 0.0
    if n > _FEW:
        losses, mass, above = _inside_bracket(losses, mass, each, share, wanted)
    if each is not None:
        place = len(losses) - int(wanted - above)
        return float(torch.sort(losses).values[place])
    ordered, order = torch.sort(losses, descending=True)
    filled = torch.cumsum(mass[order], 0)
    place = min(int((filled < wanted - above).sum()), len(ordered) - 1)
    return float(ordered[place])


def _inside_bracket(
    losses: Tensor, mass: Tensor, each: float | None, share: float, wanted: float
) -> tuple[Tensor, Tensor, float]:
    """Return losses among which the one that is sought is, their masses, and what is above them."""
    sample = torch.sort(losses[:: max(len(losses) // _SAMPLE, 1)]).values
    place = int((1.0 - share) * len(sample))
    ends = sample[[max(place - _MARGIN, 0), min(place + _MARGIN, len(sample) - 1)]]
    is_low, is_high = place - _MARGIN < 0, place + _MARGIN >= len(sample)
    while True:
        is_above = torch.zeros_like(losses, dtype=torch.bool) if is_high else losses > ends[1]
        is_inside = ~is_above if is_low else (losses >= ends[0]) & ~is_above
        if each is None:
            sums = torch.stack([(mass * is_above).sum(), (mass * is_inside).sum()])
        else:
            sums = torch.stack([is_above.sum(), is_inside.sum()])
        above, inside = (float(number) for number in sums.tolist())
        if above < wanted <= above + inside or (is_low and above < wanted):
            return losses[is_inside], mass[is_inside], above
        # the sample was an odd one: then the bracket has an end at most, or none
        is_low, is_high = is_low or not (above >= wanted and not is_high), True


def largest_places(losses: Tensor, count: int) -> Tensor:
    """Return the sorted places of the largest losses; among ties the first.

    Examples
    --------
    >>> largest_places(torch.tensor([3.0, 1.0, 2.0, 2.0]), 2)
    tensor([0, 2])
    """
    count = min(max(count, 1), len(losses))
    if count == len(losses):
        return torch.arange(count, device=losses.device)
    level = ranked(losses, losses, 1.0, float(count))
    above = torch.nonzero(losses > level).ravel()
    tied = torch.nonzero(losses == level).ravel()[: count - len(above)]
    return torch.sort(torch.cat([above, tied])).values
