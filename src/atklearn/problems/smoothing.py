"""The compiled passes over the losses: the smoothed average top-k, its densities, and what they prove.

With ``u = mass / k`` the average top-k is a maximum over densities ``r``:

    A(s) = max over r in R of sum(u * r * s),   R = {0 <= r <= 1, sum(u * r) <= 1}
    (two-sided, for losses |s|:                 R = {|r| <= 1, sum(u * |r|) <= 1})

Adding ``-mu/2 * sum(u * (r - centre)**2)`` makes it smooth in ``s``; the maximiser is a clipped line in ``s`` above a
threshold ``lam >= 0``. Weighting the proximal term by ``u`` makes a sample of weight 2 and a repeated sample take the
very same steps.

Loops are short and touch few arrays, some rows at a time: so the processor works on several rows at once, and what one
loop has written the next still finds in the cache. Every loop works on blocks of rows ``first`` to ``last`` of a size,
and leaves sums per block: see :mod:`atklearn.problems.threads`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from atklearn.losses.compiling import njit, njit_if_there
from atklearn.losses.individual import Array
from atklearn.problems import threads
from atklearn.problems.access import FAST_SUMS

__all__ = [
    "N_SUMS", "balance_sides", "bound_and_slack", "bound_blocks", "change_blocks", "conclude", "make_feasible",
    "pull_along", "search_threshold", "settle", "settle_blocks", "settle_few", "top_blocks", "weigh_sides",
    "weighted_change",
]  # fmt: skip

_MAX_SEARCH = 100
ROUNDING = 1e-11  # in a sum of n shares
LEAST_ROUNDING, ROUNDING_PER_ROW = 1e-14, 1e-17  # that such a sum may be off to count as one
_IN_CACHE = 2048  # rows at a time
N_SUMS = 13  # that a settled block leaves
_FOUND, _LOOK, _LOOK_AT_TOP = range(3)


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


@njit_if_there(cache=True, nogil=True, error_model="numpy")
def _narrow(lam, low, high, seen_zero, total, free, mu, n):  # type: ignore[no-untyped-def]
    """Return the next threshold to look at, the bracket, whether zero was seen, and what to do.

    The sum of shares falls with lam and is piecewise linear, so from a good guess two or three looks are enough; only
    where they leave the bracket that has been seen are its ends looked at themselves.
    """
    seen_zero = seen_zero or lam == 0.0
    if abs(total - 1.0) <= max(LEAST_ROUNDING, ROUNDING_PER_ROW * n) or (lam == 0.0 and total <= 1.0 + ROUNDING):
        return lam, low, high, seen_zero, _FOUND
    if total > 1.0:
        low = lam
    else:
        high = lam
    following = lam + (total - 1.0) * mu / free if free > 0.0 else np.nan
    if following == lam:
        return lam, low, high, seen_zero, _FOUND
    if low < following < high:
        lam = following
    elif not seen_zero and total <= 1.0:
        lam = 0.0
    elif high == np.inf:
        return lam, low, high, seen_zero, _LOOK_AT_TOP
    else:
        lam = 0.5 * (low + high)
    narrow = high < np.inf and high - low <= 1e-16 * high
    return lam, low, high, seen_zero, _FOUND if narrow else _LOOK


@njit(cache=True, nogil=True, error_model="numpy")
def _find_threshold(s, centre, u, mu, guess, two_sided):  # type: ignore[no-untyped-def]
    """Return ``lam >= 0`` with sum(u * |r|) = 1, or 0 if the sum stays below: Newton's method inside a bracket."""
    lam, low, high, seen_zero, task = guess, 0.0, np.inf, False, _LOOK
    total = free = 0.0
    tops = np.empty(1)
    for _ in range(_MAX_SEARCH):
        if task == _LOOK:
            total, free = _shares(s, centre, u, mu, lam, two_sided)
        else:
            top_blocks(0, 1, s.size, s, centre, mu, two_sided, tops)
            high = tops[0]
        lam, low, high, seen_zero, task = _narrow(lam, low, high, seen_zero, total, free, mu, s.size)
        if task == _FOUND:
            break
    return lam


def search_threshold(
    shares: Callable[[float], tuple[float, float]], top: Callable[[], float], mu: float, guess: float, n: int
) -> float:
    """Return the same, from functions that look at the samples.

    Parameters
    ----------
    shares : callable
        Takes ``lam``, returns sum(u * |r|) and the part of it that moves with ``lam``.
    top : callable
        Returns a threshold above which every density is zero.
    mu, guess : float
    n : int
        How many samples there are.
    """
    lam, low, high, seen_zero, task = float(guess), 0.0, np.inf, False, _LOOK
    total = free = 0.0
    for _ in range(_MAX_SEARCH):
        if task == _LOOK:
            total, free = shares(lam)
        else:
            high = top()
        lam, low, high, seen_zero, task = _narrow(lam, low, high, seen_zero, total, free, mu, n)
        if task == _FOUND:
            break
    return lam


def _find_in_blocks(s: Array, centre: Array, u: Array, mu: float, guess: float, two_sided: bool) -> float:
    """Return the same, of many rows."""

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
def settle_blocks(first, last, size, s, slope, centre, u, mu, lam, two_sided, along, r, a, sums):  # type: ignore[no-untyped-def]
    """Fill the densities ``r`` and ``a = u r s'``; sum up what :func:`conclude` reads."""
    for block in range(first, last):
        above = slack = mass = pull = push = pull_value = push_value = steepness = moving = 0.0
        total = one = two = length = 0.0
        end = min((block + 1) * size, s.size)
        for begin in range(block * size, end, _IN_CACHE):
            part = slice(begin, min(begin + _IN_CACHE, end))
            _fill_densities(s[part], centre[part], mu, lam, two_sided, r[part])
            _fill_pulls(u[part], r[part], slope[part], a[part])
            read = _read_top(s[part], u[part], r[part], lam, two_sided)
            above, slack, mass, moving = above + read[0], slack + read[1], mass + read[2], moving + read[3]
            read = _read_pulls(s[part], u[part], r[part], a[part], along[part])
            pull, push, pull_value = pull + read[0], push + read[1], pull_value + read[2]
            push_value, steepness = push_value + read[3], steepness + read[4]
            read = _read_spread(s[part], u[part], lam)
            total, one, two, length = total + read[0], one + read[1], two + read[2], length + read[3]
        out = sums[block]
        out[0], out[1], out[2], out[3], out[4], out[5], out[6] = above, slack, mass, moving, pull, push, pull_value
        out[7], out[8], out[9], out[10], out[11], out[12] = push_value, steepness, total, one, two, length


@njit_if_there(cache=True, nogil=True, error_model="numpy")
def conclude(lam, sums):  # type: ignore[no-untyped-def]
    """Return the reading from the sums over all rows."""
    above, slack, mass, moving, pull, push, pull_value = sums[0], sums[1], sums[2], sums[3], sums[4], sums[5], sums[6]
    push_value, steepness, total, first, second, size = sums[7], sums[8], sums[9], sums[10], sums[11], sums[12]
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


@njit(cache=True, nogil=True, error_model="numpy")
def settle_few(s, slope, centre, u, mu, guess, two_sided, along, r, a):  # type: ignore[no-untyped-def]
    """Do what :func:`settle` does in one call: few rows are done as soon as several would have been called."""
    lam = _find_threshold(s, centre, u, mu, guess, two_sided)
    sums = np.empty((1, N_SUMS))
    settle_blocks(0, 1, s.size, s, slope, centre, u, mu, lam, two_sided, along, r, a, sums)
    return conclude(lam, sums[0])


def settle(
    s: Array, slope: Array, centre: Array, u: Array, mu: float, guess: float, two_sided: bool, along: Array,
    r: Array, a: Array,
) -> tuple[float, ...]:  # fmt: skip
    """Find the threshold, fill the densities ``r`` and ``a = u r s'``, and read off every scalar a step needs.

    Returns, in the order of :class:`atklearn.problems.rows.Reading`, the threshold; the bound of Lemma 1 on AT_k and
    its excess over ``sum(u r s)``, summed from terms that are each >= 0 so that it does not cancel; the b-derivative
    and what balancing it costs the bound; the derivative along ``along``; the mass of the
    samples between the bounds of their density; deviation and mean size of ``s``.
    """
    if s.size <= threads.BLOCK:
        return settle_few(s, slope, centre, u, mu, guess, two_sided, along, r, a)  # type: ignore[no-any-return]
    lam = _find_in_blocks(s, centre, u, mu, guess, two_sided)
    sums = threads.block_sums(
        settle_blocks, N_SUMS, s.size, 4.0, s, slope, centre, u, mu, lam, two_sided, along, r, a
    )  # fmt: skip
    return conclude(lam, sums)  # type: ignore[no-any-return]


@njit(cache=True, nogil=True, fastmath=FAST_SUMS, error_model="numpy")
def bound_blocks(first, last, size, s, r, u, lam, two_sided, sums):  # type: ignore[no-untyped-def]
    """Sum up, block by block, what is above a threshold, what the densities leave of it, and their mass."""
    for block in range(first, last):
        part = slice(block * size, (block + 1) * size)
        sums[block, 0], sums[block, 1], sums[block, 2], _ = _read_top(s[part], u[part], r[part], lam, two_sided)


def bound_and_slack(s: Array, r: Array, u: Array, lam: float, two_sided: bool) -> tuple[float, float]:
    """Return the bound of Lemma 1, ``lam + sum(u * [l - lam]_+) >= AT_k(l)``, and its excess over ``sum(u * r * s)``.

    The excess is summed from terms that are each >= 0, so it does not cancel. Both are exact at ``lam = l_[k]``.
    """
    above, slack, mass = threads.block_sums(bound_blocks, 3, s.size, 1.0, s, r, u, lam, two_sided)
    return float(lam + above), float(slack + lam * max(1.0 - mass, 0.0))


@njit(cache=True, nogil=True, fastmath=FAST_SUMS, error_model="numpy")
def _sides(u, r, slope):  # type: ignore[no-untyped-def]
    pull = push = 0.0
    for i in range(r.size):
        a = u[i] * r[i] * slope[i]
        pull += max(a, 0.0)
        push += max(-a, 0.0)
    return pull, push


@njit(cache=True, nogil=True, fastmath=FAST_SUMS, error_model="numpy")
def weigh_sides(first, last, size, u, r, slope, sums):  # type: ignore[no-untyped-def]
    """Sum up what pulls up and what pulls down."""
    for block in range(first, last):
        part = slice(block * size, (block + 1) * size)
        sums[block, 0], sums[block, 1] = _sides(u[part], r[part], slope[part])


@njit(cache=True, nogil=True, fastmath=FAST_SUMS, error_model="numpy")
def _balance(u, r, slope, up, down, out):  # type: ignore[no-untyped-def]
    mass = 0.0
    for i in range(r.size):
        side = r[i] * slope[i]
        out[i] = r[i] * (up if side > 0.0 else (down if side < 0.0 else 1.0))
        mass += u[i] * abs(out[i])
    return mass


@njit(cache=True, nogil=True, fastmath=FAST_SUMS, error_model="numpy")
def balance_sides(first, last, size, u, r, slope, up, down, out, sums):  # type: ignore[no-untyped-def]
    """Fill ``out`` with densities of either side times its factor, and sum up their mass."""
    for block in range(first, last):
        part = slice(block * size, (block + 1) * size)
        sums[block, 0] = _balance(u[part], r[part], slope[part], up, down, out[part])


@njit(cache=True, nogil=True, fastmath=FAST_SUMS, error_model="numpy")
def _pull(f, slope, u, most, middle, r, a):  # type: ignore[no-untyped-def]
    along = total = 0.0
    for i in range(r.size):
        r[i] /= most
        a[i] = u[i] * r[i] * slope[i]
        along += a[i] * (f[i] - middle)
        total += a[i]
    return along, total


@njit(cache=True, nogil=True, fastmath=FAST_SUMS, error_model="numpy")
def pull_along(first, last, size, f, slope, u, most, middle, r, a, sums):  # type: ignore[no-untyped-def]
    """Divide the densities by ``most``, fill in their pulls ``a``; sum up ``a (f - middle)`` and ``a``."""
    for block in range(first, last):
        part = slice(block * size, (block + 1) * size)
        sums[block, 0], sums[block, 1] = _pull(f[part], slope[part], u[part], most, middle, r[part], a[part])


def make_feasible(
    f: Array, slope: Array, u: Array, balanced: bool, density: Array, r: Array, a: Array
) -> float:  # fmt: skip
    """Fill ``r`` with feasible densities near the given ones, and ``a = u r s'``; return ``a . f``.

    If ``balanced``, the weights of the heavier side are scaled down until the derivative along the column of ones
    vanishes: they stay feasible, since ``sum(u |r|) <= 1`` may be slack, and the bound needs no guess of where the
    optimal intercept lies.
    """
    n, up, down = r.size, 1.0, 1.0
    if balanced:
        pull, push = (float(side) for side in threads.block_sums(weigh_sides, 2, n, 1.0, u, density, slope))
        up = min(push / pull, 1.0) if pull > 0.0 else 1.0
        down = min(pull / push, 1.0) if push > 0.0 else 1.0
    mass = float(threads.block_sums(balance_sides, 1, n, 1.5, u, density, slope, up, down, r)[0])
    middle = float(f[0]) if balanced else 0.0  # then a sums to zero, and products with f are taken where they are small
    most = max(mass, 1.0)  # feasible beyond rounding
    along, total = threads.block_sums(pull_along, 2, n, 1.5, f, slope, u, most, middle, r, a)
    return float(along + middle * total)


@njit(cache=True, nogil=True, fastmath=FAST_SUMS, error_model="numpy")
def change_blocks(first, last, size, u, r, after, before, sums):  # type: ignore[no-untyped-def]
    """Sum up ``u r (after - before)``."""
    for block in range(first, last):
        total = 0.0
        for i in range(block * size, min((block + 1) * size, u.size)):
            total += u[i] * r[i] * (after[i] - before[i])
        sums[block, 0] = total


def weighted_change(u: Array, r: Array, after: Array, before: Array) -> float:
    """Return ``sum(u r (after - before))``."""
    return float(threads.block_sums(change_blocks, 1, u.size, 1.0, u, r, after, before)[0])
