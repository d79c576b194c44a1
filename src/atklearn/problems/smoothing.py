"""The compiled passes over the losses: the smoothed average top-k, its densities, and what they prove.

With ``u = mass / k`` the average top-k is a maximum over densities ``r``:

    A(s) = max over r in R of sum(u * r * s),   R = {0 <= r <= 1, sum(u * r) <= 1}
    (two-sided, for losses |s|:                 R = {|r| <= 1, sum(u * |r|) <= 1})

Adding ``-mu/2 * sum(u * (r - centre)**2)`` makes it smooth in ``s``; the maximiser is a clipped line in ``s`` above a
threshold ``lam >= 0``. Weighting the proximal term by ``u`` makes a sample of weight 2 and a repeated sample take the
very same steps.

Loops are short and touch few arrays, a block of rows at a time: so the processor works on several rows at once, and
what one loop has written the next still finds in the cache.
"""

from __future__ import annotations

import numba
import numpy as np

from atklearn.problems.access import FAST_SUMS

__all__ = ["bound_and_slack", "find_threshold", "make_feasible", "settle", "weighted_change"]

_MAX_SEARCH = 100
_ROUNDING = 1e-11  # in a sum of n shares
_BLOCK = 2048


@numba.njit(cache=True, fastmath=FAST_SUMS, inline="always", error_model="numpy")
def _excess(s, centre, mu, lam, two_sided):  # type: ignore[no-untyped-def]
    """Return the unclipped density |r| of one sample at threshold ``lam`` and its sign."""
    sign = 1.0
    if two_sided and centre + s / mu < 0.0:
        sign = -1.0
    # (s - lam) / mu, not s / mu - lam / mu: for small mu the latter cancels
    return sign * centre + (sign * s - lam) / mu, sign


@numba.njit(cache=True, fastmath=FAST_SUMS, error_model="numpy")
def _shares(s, centre, u, mu, lam, two_sided):  # type: ignore[no-untyped-def]
    """Return sum(u * |r|) at ``lam`` and the part of it that moves with ``lam``."""
    total = 0.0
    free = 0.0
    for i in range(s.size):
        r, _ = _excess(s[i], centre[i], mu, lam, two_sided)
        total += u[i] * min(max(r, 0.0), 1.0)
        free += u[i] * (1.0 if (r > 0.0) & (r < 1.0) else 0.0)
    return total, free


@numba.njit(cache=True, error_model="numpy")
def _top(s, centre, mu, two_sided):  # type: ignore[no-untyped-def]
    """Return the threshold above which every density is zero."""
    top = 0.0
    for i in range(s.size):
        reach = s[i] + mu * centre[i]
        top = max(top, abs(reach) if two_sided else reach)
    return top


@numba.njit(cache=True, nogil=True, error_model="numpy")
def find_threshold(s, centre, u, mu, guess, two_sided):  # type: ignore[no-untyped-def]
    """Return ``lam >= 0`` with sum(u * |r|) = 1, or 0 if the sum stays below: Newton's method inside a bracket.

    The sum falls with lam and is piecewise linear, so from a good guess two or three looks are enough; only where they
    leave the bracket that has been seen are its ends looked at themselves.
    """
    enough = max(1e-14, 1e-17 * s.size)
    low, high = 0.0, np.inf
    seen_zero = False
    lam = guess
    for _ in range(_MAX_SEARCH):
        if lam == 0.0:
            seen_zero = True
        total, free = _shares(s, centre, u, mu, lam, two_sided)
        if abs(total - 1.0) <= enough or (lam == 0.0 and total <= 1.0 + _ROUNDING):
            return lam
        if total > 1.0:
            low = lam
        else:
            high = lam
        following = lam + (total - 1.0) * mu / free if free > 0.0 else np.nan
        if following == lam:
            return lam
        if low < following < high:
            lam = following
        elif not seen_zero and total <= 1.0:
            lam = 0.0
        else:
            if high == np.inf:
                high = _top(s, centre, mu, two_sided)
            lam = 0.5 * (low + high)
        if high < np.inf and high - low <= 1e-16 * high:
            break
    return lam


@numba.njit(cache=True, nogil=True, fastmath=FAST_SUMS, error_model="numpy")
def _fill_densities(s, centre, mu, lam, two_sided, r):  # type: ignore[no-untyped-def]
    for i in range(s.size):
        excess, sign = _excess(s[i], centre[i], mu, lam, two_sided)
        r[i] = sign * min(max(excess, 0.0), 1.0)


@numba.njit(cache=True, nogil=True, fastmath=FAST_SUMS, error_model="numpy")
def _fill_pulls(u, r, slope, a):  # type: ignore[no-untyped-def]
    for i in range(u.size):
        a[i] = u[i] * r[i] * slope[i]


@numba.njit(cache=True, nogil=True, fastmath=FAST_SUMS, error_model="numpy")
def _read_top(s, u, r, lam, two_sided):  # type: ignore[no-untyped-def]
    """Return, summed over u: what is above the threshold, the slack, the density, where it is between its bounds."""
    above = slack = mass = moving = 0.0
    for i in range(s.size):
        density = abs(r[i])
        over = max((abs(s[i]) if two_sided else s[i]) - lam, 0.0)
        above += u[i] * over
        slack += u[i] * (over - (r[i] * s[i] - lam * density))
        mass += u[i] * density
        moving += u[i] if (density > 0.0) & (density < 1.0) else 0.0
    return above, slack, mass, moving


@numba.njit(cache=True, nogil=True, fastmath=FAST_SUMS, error_model="numpy")
def _read_pulls(s, u, r, a, along):  # type: ignore[no-untyped-def]
    """Return what pulls up and down, what these sides weigh, and the derivative along a direction."""
    pull = push = pull_value = push_value = steepness = 0.0
    for i in range(s.size):
        value = u[i] * abs(r[i] * s[i])
        pull += max(a[i], 0.0)
        push += max(-a[i], 0.0)
        pull_value += value if a[i] > 0.0 else 0.0
        push_value += value if a[i] < 0.0 else 0.0
        steepness += a[i] * along[i]
    return pull, push, pull_value, push_value, steepness


@numba.njit(cache=True, nogil=True, fastmath=FAST_SUMS, error_model="numpy")
def _read_spread(s, u, lam):  # type: ignore[no-untyped-def]
    """Return sums over u, of the distance from lam, of its square, and of the size of s."""
    total = first = second = size = 0.0
    for i in range(s.size):
        total += u[i]
        first += u[i] * (s[i] - lam)
        second += u[i] * (s[i] - lam) ** 2
        size += u[i] * abs(s[i])
    return total, first, second, size


@numba.njit(cache=True, nogil=True, fastmath=FAST_SUMS, error_model="numpy")
def settle(s, slope, centre, u, mu, guess, two_sided, along, r, a):  # type: ignore[no-untyped-def]
    """Find the threshold, fill the densities ``r`` and ``a = u r s'``, and read off every scalar a step needs.

    Returns, in the order of :class:`atklearn.problems.rows.Reading`, the threshold; the bound of Lemma 1 on AT_k and
    its excess over ``sum(u r s)``, summed from terms that are each >= 0 so that it does not cancel; the b-derivative
    and what balancing it costs the bound; the derivative along ``along``; the mass of the
    samples between the bounds of their density; deviation and mean size of ``s``.
    """
    lam = find_threshold(s, centre, u, mu, guess, two_sided)
    above = slack = mass = pull = push = pull_value = push_value = steepness = moving = 0.0
    total = first = second = size = 0.0
    for begin in range(0, s.size, _BLOCK):
        part = slice(begin, begin + _BLOCK)
        _fill_densities(s[part], centre[part], mu, lam, two_sided, r[part])
        _fill_pulls(u[part], r[part], slope[part], a[part])
        sums = _read_top(s[part], u[part], r[part], lam, two_sided)
        above, slack, mass, moving = above + sums[0], slack + sums[1], mass + sums[2], moving + sums[3]
        sums = _read_pulls(s[part], u[part], r[part], a[part], along[part])
        pull, push, pull_value = pull + sums[0], push + sums[1], pull_value + sums[2]
        push_value, steepness = push_value + sums[3], steepness + sums[4]
        sums = _read_spread(s[part], u[part], lam)
        total, first, second, size = total + sums[0], first + sums[1], second + sums[2], size + sums[3]
    slack += lam * max(1.0 - mass, 0.0)
    # scaled down until it balances the other, the heavier side gives up this part of its value
    imbalance = 0.0
    if pull != push:
        imbalance = (1.0 - push / pull) * pull_value if pull > push else (1.0 - pull / push) * push_value
    deviation = np.sqrt(max(second / total - (first / total) ** 2, 0.0))
    return (
        lam, lam + above, slack, pull - push, imbalance, steepness,
        moving if lam > 0.0 else 0.0, deviation, size / total,
    )  # fmt: skip


@numba.njit(cache=True, nogil=True, fastmath=FAST_SUMS, error_model="numpy")
def bound_and_slack(s, r, u, lam, two_sided):  # type: ignore[no-untyped-def]
    """Return the bound of Lemma 1, ``lam + sum(u * [l - lam]_+) >= AT_k(l)``, and its excess over ``sum(u * r * s)``.

    The excess is summed from terms that are each >= 0, so it does not cancel. Both are exact at ``lam = l_[k]``.
    """
    above = 0.0
    slack = 0.0
    mass = 0.0
    for i in range(s.size):
        over = max((abs(s[i]) if two_sided else s[i]) - lam, 0.0)
        above += u[i] * over
        slack += u[i] * (over - (r[i] * s[i] - lam * abs(r[i])))
        mass += u[i] * abs(r[i])
    return lam + above, slack + lam * max(1.0 - mass, 0.0)


@numba.njit(cache=True, nogil=True, fastmath=FAST_SUMS, error_model="numpy")
def make_feasible(f, slope, u, balanced, r, a):  # type: ignore[no-untyped-def]
    """Change the densities ``r`` into feasible ones and fill ``a = u r s'``; return ``a . f``.

    If ``balanced``, the weights of the heavier side are scaled down until the derivative along the column of ones
    vanishes: they stay feasible, since ``sum(u |r|) <= 1`` may be slack, and the bound needs no guess of where the
    optimal intercept lies.
    """
    _fill_pulls(u, r, slope, a)
    pull = push = mass = 0.0
    for i in range(r.size):
        pull += max(a[i], 0.0)
        push += max(-a[i], 0.0)
    up = min(push / pull, 1.0) if balanced and pull > 0.0 else 1.0
    down = min(pull / push, 1.0) if balanced and push > 0.0 else 1.0
    for i in range(r.size):
        r[i] *= up if a[i] > 0.0 else (down if a[i] < 0.0 else 1.0)
        mass += u[i] * abs(r[i])
    if mass > 1.0:  # feasible beyond rounding
        for i in range(r.size):
            r[i] /= mass
    _fill_pulls(u, r, slope, a)
    middle = f[0] if balanced else 0.0  # balanced, a sums to zero, and products with f are taken where they are small
    along = total = 0.0
    for i in range(r.size):
        along += a[i] * (f[i] - middle)
        total += a[i]
    return along + middle * total


@numba.njit(cache=True, nogil=True, fastmath=FAST_SUMS, error_model="numpy")
def weighted_change(u, r, after, before):  # type: ignore[no-untyped-def]
    """Return ``sum(u r (after - before))``."""
    total = 0.0
    for i in range(u.size):
        total += u[i] * r[i] * (after[i] - before[i])
    return total
