"""The compiled passes over the losses: the threshold, the densities above it, and what they prove.

See :mod:`atklearn.core.point` for the meaning. Loops are short and touch few arrays, some rows at a time: so the
processor works on several rows at once, and what one loop has written the next still finds in the cache. Every loop
works on blocks of rows ``first`` to ``last`` of a size, and leaves sums per block: see :mod:`atklearn.stores.threads`.
"""

from __future__ import annotations

import numpy as np

from atklearn.core.point import FOUND, LOOK, conclude, narrow, search_threshold
from atklearn.losses.compiling import FAST_SUMS, njit
from atklearn.losses.individual import Array
from atklearn.stores import threads

__all__ = [
    "N_SUMS", "bound_blocks", "find_threshold", "scale_sides", "settle_blocks", "settle_few", "top_blocks",
    "weigh_sides",
]  # fmt: skip

_MAX_SEARCH = 100
_IN_CACHE = 2048  # rows at a time
N_SUMS = 13  # that a settled block leaves, in the order of atklearn.core.point.SettledSums


@njit(cache=True, fastmath=FAST_SUMS, inline="always", error_model="numpy")
def _excess(s, centre, mu, lam, two_sided):  # type: ignore[no-untyped-def]
    """Return the unclipped density |r| of one sample at threshold ``lam`` and its sign."""
    sign = 1.0
    if two_sided and centre + s / mu < 0.0:
        sign = -1.0
    # (s - lam) / mu, not s / mu - lam / mu: for small mu the latter cancels
    return sign * centre + (sign * s - lam) / mu, sign


@njit(cache=True, fastmath=FAST_SUMS, error_model="numpy")
def _shares(s, centre, u, mu, lam, two_sided):  # type: ignore[no-untyped-def]
    """Return sum(u * |r|) at ``lam`` and the part of it that moves with ``lam``."""
    total = 0.0
    free = 0.0
    for i in range(s.size):
        r, _ = _excess(s[i], centre[i], mu, lam, two_sided)
        total += u[i] * min(max(r, 0.0), 1.0)
        free += u[i] * (1.0 if (r > 0.0) & (r < 1.0) else 0.0)
    return total, free


@njit(cache=True, nogil=True, fastmath=FAST_SUMS, error_model="numpy")
def _share_blocks(first, last, size, s, centre, u, mu, lam, two_sided, sums):  # type: ignore[no-untyped-def]
    for block in range(first, last):
        part = slice(block * size, (block + 1) * size)
        sums[block, 0], sums[block, 1] = _shares(s[part], centre[part], u[part], mu, lam, two_sided)


@njit(cache=True, nogil=True, error_model="numpy")
def top_blocks(first, last, size, s, centre, mu, two_sided, tops):  # type: ignore[no-untyped-def]
    """Find the threshold above which every density is zero."""
    for block in range(first, last):
        top = 0.0
        for i in range(block * size, min((block + 1) * size, s.size)):
            reach = s[i] + mu * centre[i]
            top = max(top, abs(reach) if two_sided else reach)
        tops[block] = top


@njit(cache=True, nogil=True, error_model="numpy")
def _find_threshold(s, centre, u, mu, guess, two_sided):  # type: ignore[no-untyped-def]
    """Return ``lam >= 0`` with sum(u * |r|) = 1, or 0 if the sum stays below: Newton's method inside a bracket."""
    lam, low, high, seen_zero, task = guess, 0.0, np.inf, False, LOOK
    total = free = 0.0
    tops = np.empty(1)
    for _ in range(_MAX_SEARCH):
        if task == LOOK:
            total, free = _shares(s, centre, u, mu, lam, two_sided)
        else:
            top_blocks(0, 1, s.size, s, centre, mu, two_sided, tops)
            high = tops[0]
        lam, low, high, seen_zero, task = narrow(lam, low, high, seen_zero, total, free, mu, s.size)
        if task == FOUND:
            break
    return lam


def find_threshold(s: Array, centre: Array, u: Array, mu: float, guess: float, two_sided: bool) -> float:
    """Return ``lam >= 0`` with sum(u * |r|) = 1, or 0 if the sum stays below, of many rows."""

    def shares(lam: float) -> tuple[float, float]:
        total, free = threads.block_sums(_share_blocks, 2, s.size, 1.0, s, centre, u, mu, lam, two_sided)
        return total, free

    def top() -> float:
        tops = np.empty(threads.count_blocks(s.size, threads.BLOCK))
        threads.over_rows(top_blocks, s.size, 1.0, s, centre, mu, two_sided, tops)
        return float(tops.max())

    return search_threshold(shares, top, mu, guess, s.size)


@njit(cache=True, nogil=True, fastmath=FAST_SUMS, error_model="numpy")
def _fill_densities(s, centre, mu, lam, two_sided, r):  # type: ignore[no-untyped-def]
    for i in range(s.size):
        excess, sign = _excess(s[i], centre[i], mu, lam, two_sided)
        r[i] = sign * min(max(excess, 0.0), 1.0)


@njit(cache=True, nogil=True, fastmath=FAST_SUMS, error_model="numpy")
def _fill_pulls(u, r, slope, a):  # type: ignore[no-untyped-def]
    for i in range(u.size):
        a[i] = u[i] * r[i] * slope[i]


@njit(cache=True, nogil=True, fastmath=FAST_SUMS, error_model="numpy")
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


@njit(cache=True, nogil=True, fastmath=FAST_SUMS, error_model="numpy")
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


@njit(cache=True, nogil=True, fastmath=FAST_SUMS, error_model="numpy")
def _read_spread(s, u, lam):  # type: ignore[no-untyped-def]
    """Return sums over u, of the distance from lam, of its square, and of the size of s."""
    total = first = second = size = 0.0
    for i in range(s.size):
        total += u[i]
        first += u[i] * (s[i] - lam)
        second += u[i] * (s[i] - lam) ** 2
        size += u[i] * abs(s[i])
    return total, first, second, size


@njit(cache=True, nogil=True, fastmath=FAST_SUMS, error_model="numpy")
def _settle(begin, end, s, slope, centre, u, mu, lam, two_sided, along, r, a):  # type: ignore[no-untyped-def]
    """Fill the densities ``r`` and ``a = u r s'`` of some rows; return the fields of :class:`SettledSums`."""
    above = slack = mass = pull = push = pull_value = push_value = steepness = moving = 0.0
    total = first = second = size = 0.0
    for start in range(begin, end, _IN_CACHE):
        part = slice(start, min(start + _IN_CACHE, end))
        _fill_densities(s[part], centre[part], mu, lam, two_sided, r[part])
        _fill_pulls(u[part], r[part], slope[part], a[part])
        read = _read_top(s[part], u[part], r[part], lam, two_sided)
        above, slack, mass, moving = above + read[0], slack + read[1], mass + read[2], moving + read[3]
        read = _read_pulls(s[part], u[part], r[part], a[part], along[part])
        pull, push, pull_value = pull + read[0], push + read[1], pull_value + read[2]
        push_value, steepness = push_value + read[3], steepness + read[4]
        read = _read_spread(s[part], u[part], lam)
        total, first, second, size = total + read[0], first + read[1], second + read[2], size + read[3]
    return above, slack, mass, moving, pull, push, pull_value, push_value, steepness, total, first, second, size


@njit(cache=True, nogil=True, error_model="numpy")
def settle_blocks(first, last, size, s, slope, centre, u, mu, lam, two_sided, along, r, a, sums):  # type: ignore[no-untyped-def]
    """Fill the densities ``r`` and ``a = u r s'``; sum up, block by block, what rows say at a threshold."""
    for block in range(first, last):
        end = min((block + 1) * size, s.size)
        found = _settle(block * size, end, s, slope, centre, u, mu, lam, two_sided, along, r, a)
        for j in range(N_SUMS):
            sums[block, j] = found[j]


@njit(cache=True, nogil=True, error_model="numpy")
def settle_few(s, slope, centre, u, mu, guess, two_sided, along, r, a):  # type: ignore[no-untyped-def]
    """Find the threshold, settle there and return the reading: few rows are done as soon as one would have called."""
    lam = _find_threshold(s, centre, u, mu, guess, two_sided)
    return conclude(lam, *_settle(0, s.size, s, slope, centre, u, mu, lam, two_sided, along, r, a))


@njit(cache=True, nogil=True, fastmath=FAST_SUMS, error_model="numpy")
def _change(u, r, s, f, s_then, slope_then, f_then):  # type: ignore[no-untyped-def]
    """Return ``sum(u r (s - s_then - slope_then (f - f_then)))``: how far losses are above their tangents."""
    change = 0.0
    for i in range(s.size):
        change += u[i] * r[i] * ((s[i] - s_then[i]) - slope_then[i] * (f[i] - f_then[i]))
    return change


@njit(cache=True, nogil=True, error_model="numpy")
def bound_blocks(first, last, size, s, f, s_then, slope_then, f_then, r, u, lam, two_sided, sums):  # type: ignore[no-untyped-def]
    """Sum up, block by block, what :class:`atklearn.core.point.Bound` says."""
    for block in range(first, last):
        part = slice(block * size, (block + 1) * size)
        above, slack, mass, _ = _read_top(s[part], u[part], r[part], lam, two_sided)
        sums[block, 0], sums[block, 1], sums[block, 2] = above, slack, mass
        sums[block, 3] = _change(u[part], r[part], s[part], f[part], s_then[part], slope_then[part], f_then[part])


@njit(cache=True, nogil=True, fastmath=FAST_SUMS, error_model="numpy")
def _sides(u, r, slope):  # type: ignore[no-untyped-def]
    pull = push = mass_up = mass_down = mass_level = 0.0
    for i in range(r.size):
        side = r[i] * slope[i]
        mass = u[i] * abs(r[i])
        pull += u[i] * max(side, 0.0)
        push += u[i] * max(-side, 0.0)
        mass_up += mass if side > 0.0 else 0.0
        mass_down += mass if side < 0.0 else 0.0
        mass_level += mass if side == 0.0 else 0.0
    return pull, push, mass_up, mass_down, mass_level


@njit(cache=True, nogil=True, error_model="numpy")
def weigh_sides(first, last, size, u, r, slope, sums):  # type: ignore[no-untyped-def]
    """Sum up, block by block, what :class:`atklearn.core.point.Sides` says."""
    for block in range(first, last):
        part = slice(block * size, (block + 1) * size)
        one, two, three, four, five = _sides(u[part], r[part], slope[part])
        sums[block, 0], sums[block, 1], sums[block, 2], sums[block, 3], sums[block, 4] = one, two, three, four, five


@njit(cache=True, nogil=True, error_model="numpy")
def scale_sides(first, last, size, u, density, slope, up, down, level, r, a):  # type: ignore[no-untyped-def]
    """Fill ``r`` with densities times the factors of their sides, and ``a = u r s'``."""
    for i in range(first * size, min(last * size, r.size)):
        side = density[i] * slope[i]
        r[i] = density[i] * (up if side > 0.0 else (down if side < 0.0 else level))
        a[i] = u[i] * r[i] * slope[i]
