"""The smoothed average top-k: a proximal step on the sample weights, and what one pass over the losses yields.

With ``u = mass / k`` the average top-k is a maximum over densities ``r``:

    A(s) = max over r in R of sum(u * r * s),   R = {0 <= r <= 1, sum(u * r) <= 1}
    (two-sided, for losses |s|:                 R = {|r| <= 1, sum(u * |r|) <= 1})

Adding ``-mu/2 * sum(u * (r - centre)**2)`` makes it smooth in ``s``; the maximiser is a clipped line in ``s`` above a
threshold ``lam >= 0``. Weighting the proximal term by ``u`` makes a sample of weight 2 and a repeated sample take the
very same steps.
"""

from __future__ import annotations

import numba
import numpy as np

from atklearn.problems.design import FAST_SUMS
from atklearn.losses.individual import Array

_MAX_SEARCH = 100
_ROUNDING = 1e-11  # in a sum of n shares


@numba.njit(cache=True, fastmath=FAST_SUMS, inline="always")
def _excess(s, centre, mu, lam, two_sided):  # type: ignore[no-untyped-def]
    """Return the unclipped density |r| of one sample at threshold ``lam`` and its sign."""
    sign = 1.0
    if two_sided and centre + s / mu < 0.0:
        sign = -1.0
    # (s - lam) / mu, not s / mu - lam / mu: for small mu the latter cancels
    return sign * centre + (sign * s - lam) / mu, sign


@numba.njit(cache=True, fastmath=FAST_SUMS)
def _mass(s, centre, u, mu, lam, two_sided):  # type: ignore[no-untyped-def]
    """Return sum(u * |r|) at ``lam`` and the part of it that moves with ``lam``."""
    total = 0.0
    free = 0.0
    for i in range(s.size):
        r, _ = _excess(s[i], centre[i], mu, lam, two_sided)
        total += u[i] * min(max(r, 0.0), 1.0)
        free += u[i] * (1.0 if (r > 0.0) & (r < 1.0) else 0.0)
    return total, free


@numba.njit(cache=True)
def _top(s, centre, mu, two_sided):  # type: ignore[no-untyped-def]
    """Return the threshold above which every density is zero."""
    top = 0.0
    for i in range(s.size):
        reach = s[i] + mu * centre[i]
        top = max(top, abs(reach) if two_sided else reach)
    return top


@numba.njit(cache=True)
def find_threshold(s, centre, u, mu, guess, two_sided):  # type: ignore[no-untyped-def]
    """Return ``lam >= 0`` with sum(u * |r|) = 1, or 0 if the sum stays below: Newton's method inside a bracket."""
    low = 0.0
    total, free = _mass(s, centre, u, mu, low, two_sided)
    if total <= 1.0 + _ROUNDING:
        return 0.0
    high = _top(s, centre, mu, two_sided)
    lam = guess if low < guess < high else low + (total - 1.0) * mu / free if free > 0.0 else 0.5 * (low + high)
    for _ in range(_MAX_SEARCH):
        total, free = _mass(s, centre, u, mu, lam, two_sided)
        if abs(total - 1.0) <= 1e-14:
            break
        if total > 1.0:
            low = lam
        else:
            high = lam
        step = (total - 1.0) * mu / free if free > 0.0 else np.inf
        lam = lam + step if low < lam + step < high else 0.5 * (low + high)
        if high - low <= 1e-16 * high:
            break
    return lam


@numba.njit(cache=True, fastmath=FAST_SUMS)
def settle(s, slope, centre, u, mu, lam, two_sided, r, a):  # type: ignore[no-untyped-def]
    """Fill ``r`` with the maximiser at threshold ``lam``, and ``a = u r s'``, the derivative in the predictions."""
    for i in range(s.size):
        size, sign = _excess(s[i], centre[i], mu, lam, two_sided)
        r[i] = sign * min(max(size, 0.0), 1.0)
        a[i] = u[i] * r[i] * slope[i]


@numba.njit(cache=True, fastmath=FAST_SUMS)
def spread(s, u):  # type: ignore[no-untyped-def]
    """Return the weighted standard deviation of ``s`` and its mean size."""
    total = 0.0
    mean = 0.0
    size = 0.0
    for i in range(s.size):
        total += u[i]
        mean += u[i] * s[i]
        size += u[i] * abs(s[i])
    mean /= total
    square = 0.0
    for i in range(s.size):
        square += u[i] * (s[i] - mean) ** 2
    return np.sqrt(square / total), size / total


class Point:
    """All that is known at one z: predictions, losses, densities, threshold."""

    def __init__(self, n_rows: int) -> None:
        self.f, self.s, self.slope, self.r, self.a = np.empty((5, n_rows))
        self.lam = 0.0

    def smooth(self, centre: Array, u: Array, mu: float, two_sided: bool) -> None:
        """Find threshold and densities for the losses; the old threshold is the first guess."""
        self.lam = find_threshold(self.s, centre, u, mu, self.lam, two_sided)
        settle(self.s, self.slope, centre, u, mu, self.lam, two_sided, self.r, self.a)


def density_start(two_sided: bool, u: Array) -> Array:
    """Return the centre to start from: everyone alike (no side taken for two-sided losses)."""
    return np.full(u.size, 0.0 if two_sided else min(1.0 / u.sum(), 1.0))
