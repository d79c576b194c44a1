"""The compiled passes over the rows: predictions, losses, gradient, Hessian.

Each works on blocks of rows, ``first`` to ``last`` of a size, and what it sums up it leaves per block: see
:mod:`atklearn.stores.threads`. Where ``rows`` are given, the blocks are of these.
"""

from __future__ import annotations

import numpy as np

from atklearn.losses.compiled import expand_one, expand_slopes
from atklearn.losses.compiling import FAST_SUMS, njit
from atklearn.stores.access import add, add_all, add_squares, between, dot, square

_IN_CACHE = 2048  # rows whose losses are expanded at once
# Products may be added without rounding in between, in the order that is written.
SIMPLE_SUMS = {"contract", "nsz"}


@njit(cache=True, nogil=True, error_model="numpy")
def predict(first, last, size, X, w, bias, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with ``X w + bias``."""
    for i in range(first * size, min(last * size, out.size)):
        out[i] = dot(X, i, w) + bias


@njit(cache=True, nogil=True, error_model="numpy")
def pull_back(first, last, size, X, a, d, sums):  # type: ignore[no-untyped-def]
    """Fill ``sums`` with ``X^T a``, and behind its d columns, if they are wider, with ``sum(a)``."""
    for block in range(first, last):
        begin, end = block * size, min((block + 1) * size, a.size)
        sums[block] = 0.0
        add_all(between(X, begin, end), a[begin:end], sums[block, :d])
        sums[block, d:] = a[begin:end].sum()


@njit(cache=True, nogil=True, error_model="numpy")
def pull_back_all(first, last, size, X, vectors, d, sums):  # type: ignore[no-untyped-def]
    """Do the same for several vectors, one after the other in ``sums``; a block is in the cache from the first on."""
    m, n = vectors.shape
    width = sums.shape[1] // m
    for block in range(first, last):
        begin, end = block * size, min((block + 1) * size, n)
        rows = between(X, begin, end)
        for j in range(m):
            out, a = sums[block, j * width : (j + 1) * width], vectors[j, begin:end]
            out[:] = 0.0
            add_all(rows, a, out[:d])
            out[d:] = a.sum()


@njit(cache=True, nogil=True, fastmath=SIMPLE_SUMS, error_model="numpy")
def _move(start, t, direction, f):  # type: ignore[no-untyped-def]
    for i in range(f.size):
        f[i] = start[i] + t * direction[i]


@njit(cache=True, nogil=True, error_model="numpy")
def expand_along(first, last, size, loss, start, t, direction, y, f, s, slope):  # type: ignore[no-untyped-def]
    """Fill ``f = start + t * direction``, and the smooth part of the losses there with its slope."""
    stop = min(last * size, y.size)
    for begin in range(first * size, stop, _IN_CACHE):  # few arrays per loop, all in the cache: so loops run wide
        part = slice(begin, min(begin + _IN_CACHE, stop))
        _move(start[part], t, direction[part], f[part])
        expand_slopes(loss, f[part], y[part], s[part], slope[part])


@njit(cache=True, nogil=True, error_model="numpy")
def curvatures(first, last, size, loss, f, y, rows, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with the curvature of the losses of some rows."""
    for place in range(first * size, min(last * size, rows.size)):
        _, _, out[place] = expand_one(loss, f[rows[place]], y[rows[place]])


@njit(cache=True, nogil=True, error_model="numpy")
def count_strata(first, last, size, r, counts):  # type: ignore[no-untyped-def]
    """Count the densities strictly between their bounds, and those at the upper one."""
    for block in range(first, last):
        n_tied = n_full = 0
        for i in range(block * size, min((block + 1) * size, r.size)):
            density = abs(r[i])
            n_full += density >= 1.0
            n_tied += (density > 0.0) & (density < 1.0)
        counts[block, 0], counts[block, 1] = n_tied, n_full


@njit(cache=True, nogil=True, error_model="numpy")
def fill_strata(first, last, size, r, starts, rows):  # type: ignore[no-untyped-def]
    """Write down these rows, those of each block from its ``starts`` on."""
    for block in range(first, last):
        tied, full = starts[block, 0], starts[block, 1]
        for i in range(block * size, min((block + 1) * size, r.size)):
            density = abs(r[i])
            if density >= 1.0:
                rows[full] = i
                full += 1
            elif density > 0.0:
                rows[tied] = i
                tied += 1


@njit(cache=True, nogil=True, error_model="numpy")
def few_strata(r):  # type: ignore[no-untyped-def]
    """Return the rows of positive density, those strictly between its bounds first, and how many these are."""
    counts = np.empty((1, 2), dtype=np.intp)
    count_strata(0, 1, r.size, r, counts)
    n_tied, n_full = counts[0, 0], counts[0, 1]
    rows = np.empty(n_tied + n_full, dtype=np.intp)
    counts[0, 0], counts[0, 1] = 0, n_tied
    fill_strata(0, 1, r.size, r, counts, rows)
    return rows, n_tied


@njit(cache=True, nogil=True, error_model="numpy")
def pull_back_rows(first, last, size, X, rows, a, d, sums):  # type: ignore[no-untyped-def]
    """Do the same as :func:`pull_back` with some rows, ``a`` having one entry for each of these."""
    for block in range(first, last):
        sums[block] = 0.0
        total = 0.0
        for place in range(block * size, min((block + 1) * size, rows.size)):
            if a[place] != 0.0:
                add(X, rows[place], a[place], sums[block])
                total += a[place]
        sums[block, d:] = total


@njit(cache=True, nogil=True, error_model="numpy")
def weigh(first, last, size, rows, scale, r, slope, curvature, u, mu, kept, h, pulls, sums):  # type: ignore[no-untyped-def]
    """Find the weights ``h`` of the Hessian and ``pulls`` of its rank-one term; each row stands for ``scale`` of them.

    ``h = u (|r| s'' + [tied] s'^2 / mu)`` and ``pulls = [tied] u sign(r) s'``. Rows without weight are left out: those
    of a block that have some, ``kept``, come first in its place. Sums up how many they are, and the mass of the tied.
    """
    for block in range(first, last):
        tied_mass = 0.0
        free = begin = block * size
        for place in range(begin, min(begin + size, rows.size)):
            i = rows[place]
            density = abs(r[i])
            mass = scale[place] * u[i]
            weight = mass * density * curvature[place]
            pull = 0.0
            if 0.0 < density < 1.0:
                weight += mass * slope[i] * slope[i] / mu
                pull = mass * np.sign(r[i]) * slope[i]
                tied_mass += mass
            if weight > 0.0:
                kept[free], h[free], pulls[free] = i, weight, pull
                free += 1
        sums[block, 0], sums[block, 1] = free - begin, tied_mass


@njit(cache=True, nogil=True, error_model="numpy")
def close_gaps(first, last, size, starts, kept, h, pulls, all_kept, all_h, all_pulls):  # type: ignore[no-untyped-def]
    """Copy what each block has kept to its place behind the others, ``starts[block]``."""
    for block in range(first, last):
        begin, start, stop = block * size, starts[block], starts[block + 1]
        end = begin + stop - start
        all_kept[start:stop] = kept[begin:end]
        all_h[start:stop] = h[begin:end]
        all_pulls[start:stop] = pulls[begin:end]


@njit(cache=True, nogil=True, error_model="numpy")
def scale_rows(X, rows, h, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with the given rows of an array times the roots of ``h``, ones appended as far as it is wider."""
    d = X.shape[1]
    for place in range(rows.size):
        root = np.sqrt(h[place])
        for j in range(d):
            out[place, j] = root * X[rows[place], j]
        for j in range(d, out.shape[1]):
            out[place, j] = root


@njit(cache=True, nogil=True, error_model="numpy")
def copy_rows(first, last, size, X, rows, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with the given rows of an array."""
    for place in range(first * size, min(last * size, rows.size)):
        for j in range(X.shape[1]):
            out[place, j] = X[rows[place], j]


@njit(cache=True, nogil=True, fastmath=FAST_SUMS, error_model="numpy")
def sparse_gram(first, last, size, X, rows, h, d, sums):  # type: ignore[no-untyped-def]
    """Fill ``sums`` with ``sum(h_i x_i x_i^T)`` over rows of CSR of d columns, entry by entry; with ones if wider.

    Every pair of entries is met once, on one side of the diagonal or the other, and both sides are added at the end.
    """
    for block in range(first, last):
        H = sums[block]
        H[:] = 0.0
        intercept = len(H) > d
        for place in range(block * size, min((block + 1) * size, rows.size)):
            begin, end = np.uint64(X.indptr[rows[place]]), np.uint64(X.indptr[rows[place] + 1])
            for position in range(begin, end):
                scaled = h[place] * X.data[position]
                target = H[np.uint32(X.indices[position])]
                for other in range(begin, position):
                    target[np.uint32(X.indices[other])] += scaled * X.data[other]
                target[np.uint32(X.indices[position])] += 0.5 * scaled * X.data[position]
                if intercept:
                    target[d] += scaled
            if intercept:
                H[d, d] += 0.5 * h[place]
        for i in range(len(H)):
            for j in range(i + 1):
                H[i, j] += H[j, i]
                H[j, i] = H[i, j]


@njit(cache=True, nogil=True, error_model="numpy")
def gram_product(first, last, size, X, rows, h, w, bias, sums):  # type: ignore[no-untyped-def]
    """Fill ``sums`` with ``sum(h_i (x_i . w + bias) x_i)`` over the given rows; if wider, with the sum of factors."""
    for block in range(first, last):
        sums[block] = 0.0
        total = 0.0
        for place in range(block * size, min((block + 1) * size, rows.size)):
            t = h[place] * (dot(X, rows[place], w) + bias)
            add(X, rows[place], t, sums[block])
            total += t
        sums[block, w.size :] = total


@njit(cache=True, nogil=True, error_model="numpy")
def weighted_squares(first, last, size, X, mass, sums):  # type: ignore[no-untyped-def]
    """Fill ``sums`` with ``sum(mass_i |x_i|^2)``."""
    for block in range(first, last):
        total = 0.0
        for i in range(block * size, min((block + 1) * size, mass.size)):
            total += mass[i] * square(X, i)
        sums[block, 0] = total


@njit(cache=True, nogil=True, error_model="numpy")
def column_squares(first, last, size, X, rows, h, d, sums):  # type: ignore[no-untyped-def]
    """Fill ``sums`` with ``sum(h_i x_ij^2)`` over the given rows, and behind the d columns with ``sum(h)``."""
    for block in range(first, last):
        sums[block] = 0.0
        total = 0.0
        for place in range(block * size, min((block + 1) * size, rows.size)):
            add_squares(X, rows[place], h[place], sums[block])
            total += h[place]
        sums[block, d:] = total


@njit(cache=True, nogil=True, error_model="numpy")
def add_scaled(first, last, size, factor, values, out):  # type: ignore[no-untyped-def]
    """Add ``factor * values`` to ``out``."""
    for i in range(first * size, min(last * size, out.size)):
        out[i] += factor * values[i]


@njit(cache=True, nogil=True, fastmath=FAST_SUMS, error_model="numpy")
def clip(first, last, size, mass, lowest, r, sums):  # type: ignore[no-untyped-def]
    """Bring densities between ``lowest`` and 1; fill ``sums`` with ``sum(mass |r|)``."""
    for block in range(first, last):
        total = 0.0
        for i in range(block * size, min((block + 1) * size, r.size)):
            r[i] = min(max(r[i], lowest), 1.0)
            total += mass[i] * abs(r[i])
        sums[block, 0] = total


@njit(cache=True, nogil=True)
def count_between(first, last, size, s, two_sided, low, high, mass, counts, sums):  # type: ignore[no-untyped-def]
    """Count the losses above an interval and inside, and sum up their masses."""
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
def fill_between(first, last, size, s, two_sided, low, high, mass, starts, losses, weights):  # type: ignore[no-untyped-def]
    """Write down the losses inside, and their masses."""
    for block in range(first, last):
        place = starts[block]
        for i in range(block * size, min((block + 1) * size, s.size)):
            loss = abs(s[i]) if two_sided else s[i]
            if low <= loss <= high:
                losses[place], weights[place] = loss, mass[i]
                place += 1
