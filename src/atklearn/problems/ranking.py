"""The k-th largest of many losses, exactly: a sample brackets it, and only what lies inside is sorted."""

from __future__ import annotations

import numpy as np

from atklearn.losses.aggregate import least_mass, rank_of, ranked_loss, select
from atklearn.losses.compiling import njit
from atklearn.losses.individual import Array
from atklearn.problems import threads

__all__ = ["ranked"]

# Losses that are looked at, and how far to both sides of the rank among these the bracket reaches: four deviations.
_SAMPLE = 4096
_MARGIN = 128


@njit(cache=True, nogil=True)
def _count_blocks(first, last, size, s, two_sided, low, high, mass, counts, sums):  # type: ignore[no-untyped-def]
    """Count the losses above a bracket and inside, and sum up their masses."""
    for block in range(first, last):
        n_above = n_inside = 0
        above = inside = 0.0
        for i in range(block * size, min((block + 1) * size, s.size)):
            loss = abs(s[i]) if two_sided else s[i]
            if loss > high:
                above += mass[i]
                n_above += 1
            elif loss >= low:
                inside += mass[i]
                n_inside += 1
        counts[block, 0], counts[block, 1] = n_above, n_inside
        sums[block, 0], sums[block, 1] = above, inside


@njit(cache=True, nogil=True)
def _fill_inside(first, last, size, s, two_sided, low, high, mass, starts, losses, weights):  # type: ignore[no-untyped-def]
    """Write down what is inside the bracket."""
    for block in range(first, last):
        place = starts[block]
        for i in range(block * size, min((block + 1) * size, s.size)):
            loss = abs(s[i]) if two_sided else s[i]
            if low <= loss <= high:
                losses[place], weights[place] = loss, mass[i]
                place += 1


def ranked(s: Array, mass: Array, each: float | None, k: float, *, two_sided: bool) -> float:
    """Return the largest number such that a mass of at least k is there or above.

    Parameters
    ----------
    s : ndarray of shape (n,)
        Losses; with two sides, their absolute values are meant.
    mass : ndarray of shape (n,)
    each : float or None
        The mass of every one, if all are alike.
    k : float
    """
    if s.size <= threads.BLOCK or (each is not None and rank_of(k / each, s.size) == s.size):
        losses = np.abs(s) if two_sided else s
        return ranked_loss(losses, mass, k) if each is None else ranked_loss(losses, None, k / each)
    if each is None:
        wanted, share = least_mass(k), k / float(mass.sum())
    else:  # counts are exact
        wanted = float(rank_of(k / each, s.size))
        share = wanted / s.size
    low, high = _bracket(s, share, two_sided)
    while True:
        n_blocks = threads.count_blocks(s.size, threads.BLOCK)
        counts, sums = np.empty((n_blocks, 2), dtype=np.intp), np.empty((n_blocks, 2))
        threads.over_rows(_count_blocks, s.size, 1.0, s, two_sided, low, high, mass, counts, sums)
        above, inside = np.add.reduce(sums if each is None else counts)
        if above < wanted <= above + inside or (low == -np.inf and above < wanted):
            break
        # the sample was an odd one: then the bracket has an end at most, or none
        low, high = (low if above >= wanted and high < np.inf else -np.inf), np.inf
    starts = np.concatenate([[0], np.cumsum(counts[:, 1])])
    losses, weights = np.empty((2, starts[-1]))
    threads.over_rows(_fill_inside, s.size, 1.0, s, two_sided, low, high, mass, starts, losses, weights)
    if each is None:
        return select(losses, weights, wanted - float(above))
    place = losses.size - int(wanted - above)
    return float(np.partition(losses, place)[place])


def _bracket(s: Array, share: float, two_sided: bool) -> tuple[float, float]:
    """Return what the loss that a share is above lies between, most likely."""
    sample = s[:: max(s.size // _SAMPLE, 1)]
    sample = np.sort(np.abs(sample) if two_sided else sample)
    place = int((1.0 - share) * sample.size)
    low, high = place - _MARGIN, place + _MARGIN
    return (
        float(sample[low]) if low >= 0 else -np.inf,
        float(sample[high]) if high < sample.size else np.inf,
    )
