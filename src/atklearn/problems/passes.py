"""The compiled passes over the rows: predictions, losses, densities, gradient, Hessian.

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

from atklearn.losses.compiled import expand_one
from atklearn.problems.access import FAST_SUMS, add, add_all, add_squares, dot, square

_MAX_SEARCH = 100
_ROUNDING = 1e-11  # in a sum of n shares


@numba.njit(cache=True, nogil=True)
def predict(X, w, bias, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with ``X w + bias``."""
    for i in range(out.size):
        out[i] = dot(X, i, w) + bias


@numba.njit(cache=True, nogil=True)
def pull_back(X, a, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with ``X^T a``; return ``sum(a)``."""
    out[:] = 0.0
    add_all(X, a, out)
    return a.sum()


@numba.njit(cache=True, nogil=True)
def expand_along(loss, start, t, direction, y, f, s, slope):  # type: ignore[no-untyped-def]
    """Fill ``f = start + t * direction``, and the smooth part of the losses there with its slope."""
    for i in range(y.size):
        f[i] = start[i] + t * direction[i]
        s[i], slope[i], _ = expand_one(loss, f[i], y[i])


@numba.njit(cache=True, nogil=True)
def curvatures(loss, f, y, rows, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with the curvature of the losses of some rows."""
    for place in range(rows.size):
        _, _, out[place] = expand_one(loss, f[rows[place]], y[rows[place]])


@numba.njit(cache=True, fastmath=FAST_SUMS, inline="always")
def _excess(s, centre, mu, lam, two_sided):  # type: ignore[no-untyped-def]
    """Return the unclipped density |r| of one sample at threshold ``lam`` and its sign."""
    sign = 1.0
    if two_sided and centre + s / mu < 0.0:
        sign = -1.0
    # (s - lam) / mu, not s / mu - lam / mu: for small mu the latter cancels
    return sign * centre + (sign * s - lam) / mu, sign


@numba.njit(cache=True, fastmath=FAST_SUMS)
def _shares(s, centre, u, mu, lam, two_sided):  # type: ignore[no-untyped-def]
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


@numba.njit(cache=True, nogil=True)
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


@numba.njit(cache=True, nogil=True, fastmath=FAST_SUMS)
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
    for i in range(s.size):
        excess, sign = _excess(s[i], centre[i], mu, lam, two_sided)
        density = min(max(excess, 0.0), 1.0)
        r[i] = sign * density
        a[i] = u[i] * r[i] * slope[i]
        over = max((abs(s[i]) if two_sided else s[i]) - lam, 0.0)
        above += u[i] * over
        slack += u[i] * (over - (r[i] * s[i] - lam * density))
        mass += u[i] * density
        value = u[i] * abs(r[i] * s[i])
        pull += max(a[i], 0.0)
        push += max(-a[i], 0.0)
        pull_value += value if a[i] > 0.0 else 0.0
        push_value += value if a[i] < 0.0 else 0.0
        steepness += a[i] * along[i]
        moving += u[i] if (density > 0.0) & (density < 1.0) else 0.0
        total += u[i]
        first += u[i] * (s[i] - lam)
        second += u[i] * (s[i] - lam) ** 2
        size += u[i] * abs(s[i])
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


@numba.njit(cache=True, nogil=True)
def pull_back_rows(X, rows, a, out):  # type: ignore[no-untyped-def]
    """Add ``X^T a`` over the given rows to ``out``, ``a`` having one entry per given row; return ``sum(a)``."""
    total = 0.0
    for place in range(rows.size):
        if a[place] != 0.0:
            add(X, rows[place], a[place], out)
            total += a[place]
    return total


@numba.njit(cache=True)
def span(f, low, high):  # type: ignore[no-untyped-def]
    """Return the length of the interval that holds ``low``, ``high`` and all of ``f``."""
    for i in range(f.size):
        low, high = min(low, f[i]), max(high, f[i])
    return high - low


@numba.njit(cache=True)
def strata(r):  # type: ignore[no-untyped-def]
    """Return the rows of positive density, those strictly between its bounds first, and how many these are."""
    rows = np.empty(r.size, dtype=np.intp)
    n_tied = n_full = 0
    for i in range(r.size):
        size = abs(r[i])
        if size >= 1.0:
            n_full += 1
            rows[r.size - n_full] = i
        elif size > 0.0:
            rows[n_tied] = i
            n_tied += 1
    rows[n_tied : n_tied + n_full] = rows[r.size - n_full :][::-1].copy()
    return rows[: n_tied + n_full], n_tied


@numba.njit(cache=True, nogil=True)
def weigh(rows, scale, r, slope, curvature, u, mu, moving, kept, h, pulls):  # type: ignore[no-untyped-def]
    """Fill the weights ``h`` of the Hessian and ``pulls`` of its rank-one term; each row stands for ``scale`` of them.

    Return how many rows have weight; ``kept`` says which, and the others have no entry.

    ``h = u (|r| s'' + [tied] s'^2 / mu)``, ``pulls = [tied] u sign(r) s' / sqrt(mu m)``, with ``m`` at least the
    moving mass of the rows given, or the matrix could turn indefinite; none if nothing moves.
    """
    tied_mass = 0.0
    count = 0
    for place in range(rows.size):
        i = rows[place]
        size = abs(r[i])
        mass = scale[place] * u[i]
        weight = mass * size * curvature[place]
        pull = 0.0
        if 0.0 < size < 1.0:
            weight += mass * slope[i] * slope[i] / mu
            pull = mass * np.sign(r[i]) * slope[i]
            tied_mass += mass
        if weight > 0.0:
            kept[count], h[count], pulls[count] = i, weight, pull
            count += 1
    if moving > 0.0:
        pulls[:count] /= np.sqrt(mu * max(moving, tied_mass))
    return count


@numba.njit(cache=True, nogil=True)
def scale_rows(X, rows, h, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with the given rows of an array times the roots of ``h``, ones appended as far as it is wider."""
    d = X.shape[1]
    for place in range(rows.size):
        root = np.sqrt(h[place])
        for j in range(d):
            out[place, j] = root * X[rows[place], j]
        for j in range(d, out.shape[1]):
            out[place, j] = root


@numba.njit(cache=True, nogil=True, fastmath=FAST_SUMS)
def add_sparse_gram(X, rows, h, d, H):  # type: ignore[no-untyped-def]
    """Add ``sum(h_i x_i x_i^T)`` over the given rows of CSR of d columns, entry by entry; with ones if H is larger."""
    intercept = len(H) > d
    for place in range(rows.size):
        if h[place] <= 0.0:
            continue
        begin, end = X.indptr[rows[place]], X.indptr[rows[place] + 1]
        for position in range(begin, end):
            scaled = h[place] * X.data[position]
            target = H[np.uint32(X.indices[position])]
            for other in range(begin, end):
                target[np.uint32(X.indices[other])] += scaled * X.data[other]
            if intercept:
                target[d] += scaled
                H[d, np.uint32(X.indices[position])] += scaled
        if intercept:
            H[d, d] += h[place]


@numba.njit(cache=True, nogil=True)
def subtract_rank_one(g, H):  # type: ignore[no-untyped-def]
    """Subtract ``g g^T``."""
    for i in range(len(H)):
        for j in range(len(H)):
            H[i, j] -= g[i] * g[j]


@numba.njit(cache=True, nogil=True)
def gram_product(X, rows, h, w, bias, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with ``sum(h_i (x_i . w + bias) x_i)`` over the given rows; return ``sum(h_i (x_i . w + bias))``."""
    out[:] = 0.0
    total = 0.0
    for place in range(rows.size):
        t = h[place] * (dot(X, rows[place], w) + bias)
        add(X, rows[place], t, out)
        total += t
    return total


@numba.njit(cache=True, nogil=True, fastmath=FAST_SUMS)
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


@numba.njit(cache=True, nogil=True)
def make_feasible(f, slope, u, balanced, r, a):  # type: ignore[no-untyped-def]
    """Change the densities ``r`` into feasible ones and fill ``a = u r s'``; return ``a . f``.

    If ``balanced``, the weights of the heavier side are scaled down until the derivative along the column of ones
    vanishes: they stay feasible, since ``sum(u |r|) <= 1`` may be slack, and the bound needs no guess of where the
    optimal intercept lies.
    """
    pull = push = mass = 0.0
    for i in range(r.size):
        a[i] = u[i] * r[i] * slope[i]
        pull += max(a[i], 0.0)
        push += max(-a[i], 0.0)
    up = min(push / pull, 1.0) if balanced and pull > 0.0 else 1.0
    down = min(pull / push, 1.0) if balanced and push > 0.0 else 1.0
    for i in range(r.size):
        r[i] *= up if a[i] > 0.0 else down if a[i] < 0.0 else 1.0
        mass += u[i] * abs(r[i])
    mass = max(mass, 1.0)  # feasible beyond rounding
    middle = f[0] if balanced else 0.0  # balanced, a sums to zero, and products with f are taken where they are small
    along = total = 0.0
    for i in range(r.size):
        r[i] /= mass
        a[i] = u[i] * r[i] * slope[i]
        along += a[i] * (f[i] - middle)
        total += a[i]
    return along + middle * total


@numba.njit(cache=True, nogil=True, fastmath=FAST_SUMS)
def weighted_change(u, r, after, before):  # type: ignore[no-untyped-def]
    """Return ``sum(u r (after - before))``."""
    total = 0.0
    for i in range(u.size):
        total += u[i] * r[i] * (after[i] - before[i])
    return total


@numba.njit(cache=True, nogil=True)
def weighted_squares(X, mass):  # type: ignore[no-untyped-def]
    """Return ``sum(mass_i |x_i|^2)``."""
    total = 0.0
    for i in range(mass.size):
        total += mass[i] * square(X, i)
    return total


@numba.njit(cache=True, nogil=True)
def column_squares(X, rows, h, out):  # type: ignore[no-untyped-def]
    """Add ``sum(h_i x_ij^2)`` over the given rows to ``out``."""
    for place in range(rows.size):
        add_squares(X, rows[place], h[place], out)
