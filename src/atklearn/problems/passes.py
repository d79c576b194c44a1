"""The compiled passes over the rows: predictions, losses, gradient, Hessian."""

from __future__ import annotations

import numba
import numpy as np

from atklearn.losses.compiled import expand_one
from atklearn.problems.access import FAST_SUMS, add, add_all, add_squares, dot, square

_BLOCK = 2048  # rows whose losses are expanded at once
# Products may be added without rounding in between, in the order that is written.
SIMPLE_SUMS = {"contract", "nsz"}


@numba.njit(cache=True, nogil=True, error_model="numpy")
def predict(X, w, bias, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with ``X w + bias``."""
    for i in range(out.size):
        out[i] = dot(X, i, w) + bias


@numba.njit(cache=True, nogil=True, error_model="numpy")
def pull_back(X, a, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with ``X^T a``; return ``sum(a)``."""
    out[:] = 0.0
    add_all(X, a, out)
    return a.sum()


@numba.njit(cache=True, nogil=True, fastmath=SIMPLE_SUMS, error_model="numpy")
def _move(start, t, direction, f):  # type: ignore[no-untyped-def]
    for i in range(f.size):
        f[i] = start[i] + t * direction[i]


@numba.njit(cache=True, nogil=True, fastmath=SIMPLE_SUMS, error_model="numpy")
def _expand(loss, f, y, s, slope):  # type: ignore[no-untyped-def]
    for i in range(y.size):
        s[i], slope[i], _ = expand_one(loss, f[i], y[i])


@numba.njit(cache=True, nogil=True, error_model="numpy")
def expand_along(loss, start, t, direction, y, f, s, slope):  # type: ignore[no-untyped-def]
    """Fill ``f = start + t * direction``, and the smooth part of the losses there with its slope."""
    for begin in range(0, y.size, _BLOCK):  # few arrays per loop, and all of them in the cache: so loops run wide
        part = slice(begin, begin + _BLOCK)
        _move(start[part], t, direction[part], f[part])
        _expand(loss, f[part], y[part], s[part], slope[part])


@numba.njit(cache=True, nogil=True, error_model="numpy")
def curvatures(loss, f, y, rows, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with the curvature of the losses of some rows."""
    for place in range(rows.size):
        _, _, out[place] = expand_one(loss, f[rows[place]], y[rows[place]])


@numba.njit(cache=True, error_model="numpy")
def span(f, low, high):  # type: ignore[no-untyped-def]
    """Return the length of the interval that holds ``low``, ``high`` and all of ``f``."""
    for i in range(f.size):
        low, high = min(low, f[i]), max(high, f[i])
    return high - low


@numba.njit(cache=True, error_model="numpy")
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


@numba.njit(cache=True, nogil=True, error_model="numpy")
def pull_back_rows(X, rows, a, out):  # type: ignore[no-untyped-def]
    """Add ``X^T a`` over the given rows to ``out``, ``a`` having one entry per given row; return ``sum(a)``."""
    total = 0.0
    for place in range(rows.size):
        if a[place] != 0.0:
            add(X, rows[place], a[place], out)
            total += a[place]
    return total


@numba.njit(cache=True, nogil=True, error_model="numpy")
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


@numba.njit(cache=True, nogil=True, error_model="numpy")
def scale_rows(X, rows, h, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with the given rows of an array times the roots of ``h``, ones appended as far as it is wider."""
    d = X.shape[1]
    for place in range(rows.size):
        root = np.sqrt(h[place])
        for j in range(d):
            out[place, j] = root * X[rows[place], j]
        for j in range(d, out.shape[1]):
            out[place, j] = root


@numba.njit(cache=True, nogil=True, fastmath=FAST_SUMS, error_model="numpy")
def sparse_gram(X, rows, h, d, H):  # type: ignore[no-untyped-def]
    """Fill zeros H with ``sum(h_i x_i x_i^T)`` over rows of CSR of d columns, entry by entry; with ones if larger.

    Every pair of entries is met once, on one side of the diagonal or the other, and both sides are added at the end.
    """
    intercept = len(H) > d
    for place in range(rows.size):
        if h[place] <= 0.0:
            continue
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


@numba.njit(cache=True, nogil=True, error_model="numpy")
def subtract_rank_one(g, H):  # type: ignore[no-untyped-def]
    """Subtract ``g g^T``."""
    for i in range(len(H)):
        for j in range(len(H)):
            H[i, j] -= g[i] * g[j]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def gram_product(X, rows, h, w, bias, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with ``sum(h_i (x_i . w + bias) x_i)`` over the given rows; return ``sum(h_i (x_i . w + bias))``."""
    out[:] = 0.0
    total = 0.0
    for place in range(rows.size):
        t = h[place] * (dot(X, rows[place], w) + bias)
        add(X, rows[place], t, out)
        total += t
    return total


@numba.njit(cache=True, nogil=True, error_model="numpy")
def weighted_squares(X, mass):  # type: ignore[no-untyped-def]
    """Return ``sum(mass_i |x_i|^2)``."""
    total = 0.0
    for i in range(mass.size):
        total += mass[i] * square(X, i)
    return total


@numba.njit(cache=True, nogil=True, error_model="numpy")
def column_squares(X, rows, h, out):  # type: ignore[no-untyped-def]
    """Add ``sum(h_i x_ij^2)`` over the given rows to ``out``."""
    for place in range(rows.size):
        add_squares(X, rows[place], h[place], out)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def add_scaled(factor, values, out):  # type: ignore[no-untyped-def]
    """Add ``factor * values`` to ``out``."""
    for i in range(out.size):
        out[i] += factor * values[i]


@numba.njit(cache=True, nogil=True, fastmath=FAST_SUMS, error_model="numpy")
def clip_to_mass(mass, k, lowest, r):  # type: ignore[no-untyped-def]
    """Make densities feasible: between ``lowest`` and 1, then scaled down until ``sum(mass |r|) <= k``."""
    total = 0.0
    for i in range(r.size):
        r[i] = min(max(r[i], lowest), 1.0)
        total += mass[i] * abs(r[i])
    if total > k:
        for i in range(r.size):
            r[i] *= k / total
