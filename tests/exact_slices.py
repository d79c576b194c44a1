"""Means of slices of losses in exact rational numbers, and cases in which floating-point sums would lose them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

# losses, start, stop and sample weights: what is outside the slice is enormous, or the weights are
HARD = {
    "an outlier above": ([1e20, 3.0, 2.0, 0.0], 1, 3, None),
    "outliers on both sides": ([-1e300, 3.0, 2.0, 1e300, -1e20, 0.1], 1, 4, None),
    "an outlier above, of large weight": ([1e20, 3.0, 2.0, 0.0], 7, 9.5, [7.0, 1.0, 2.0, 3.0]),
    "an outlier at the end, in part": ([1e20, 3.0, 2.0, 0.0], 0.5, 3, [0.75, 1.0, 1.0, 1.0]),
    "the k-th of many sizes": ([10.0**power for power in range(-8, 24)], 20, 21, None),
    "a tie over the start": ([1e20, 0.1, 0.1, 0.1, 0.1, -1e20], 2, 4, None),
    "tiny beside enormous": ([5e-324, 1e150, 1e-300, 0.0], 1, 3, None),
}


def exact_mean(losses, start, stop, weight=None):
    """Return the mean of the mass from ``start`` to ``stop``, counted from the largest loss."""
    weight = [1] * len(losses) if weight is None else weight
    passed, total, start, stop = Fraction(0), Fraction(0), Fraction(start), Fraction(stop)
    for loss, own in sorted(zip(map(Fraction, losses), map(Fraction, weight), strict=True), reverse=True):
        inside = max(min(passed + own, stop) - max(passed, start), 0)
        total, passed = total + inside * loss, passed + own
    return total / (stop - start)


def largest_inside(losses, start, stop, weight=None):
    """Return the largest size of a loss in the slice: what an error is measured by."""
    ends = np.cumsum(np.ones(len(losses)) if weight is None else np.asarray(weight)[np.argsort(losses)[::-1]])
    ordered = np.sort(losses)[::-1]
    return abs(ordered[(ends > start) & (np.concatenate([[0.0], ends[:-1]]) < stop)]).max()
