"""All compiled loops over rows: how a row of X is read, and every pass, over rows in blocks.

**Access.** Every loop reads rows through a few functions and so has one text for NumPy arrays and for CSR. Each has a
plain Python form, which loops run that are not compiled (a loss that exists in Python only), and one compiled form per
kind of X. Places are unsigned there: then no access has to ask whether an index is negative, and counts from the end.

**Passes** work on blocks of rows, ``first`` to ``last`` of a size, and leave what they sum up per block: see
:mod:`atklearn.runtime.threads`. Where ``rows`` are given, the blocks are of these. Loops are short and touch few
arrays, some rows at a time: so the processor works on several rows at once, and what one loop has written the next
still finds in the cache. What they compute is said in :mod:`atklearn.core.point`.

**Whole moves** as one call, at the end, are for data so small that the calls cost more than the passes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from atklearn.core.point import FOUND, LOOK, balance, conclude, narrow, search_threshold
from atklearn.losses.compiled import ABSOLUTE, POSITIVE_PART, expand_one, expand_slopes
from atklearn.losses.individual import Array
from atklearn.runtime import threads
from atklearn.runtime.compiling import FAST_SUMS, intrinsic, ir, njit, overload, types

__all__ = [
    "CSR", "N_SUMS", "add", "add_all", "add_squares", "add_twice", "between", "bound_blocks", "dot", "fetch",
    "find_threshold", "hessian", "largest_entries", "look", "predict_and_expand", "prove", "raise_to", "readable",
    "scale_sides", "settle_blocks", "settle_few", "square", "top_blocks", "weigh_sides",
]  # fmt: skip

# Bytes that the processor fetches at once.
_CACHE_LINE = 64
# Columns from which on it takes longer to add zero times a row than to find out that it is zero times.
_LONG_ROW = 256


class CSR(NamedTuple):
    """The three arrays of a CSR matrix."""

    data: Array
    indices: Any
    indptr: Any


def readable(X: Any) -> Any:
    """Return X as compiled loops take it: a NumPy array as it is, a SciPy CSR matrix as its three arrays."""
    return CSR(X.data, X.indices, X.indptr) if sp.issparse(X) else X


def between(X, begin, end):  # type: ignore[no-untyped-def]
    """Return rows ``begin`` to ``end``, without a copy."""
    return CSR(X.data, X.indices, X.indptr[begin : end + 1]) if isinstance(X, CSR) else X[begin:end]


def dot(X, i, v):  # type: ignore[no-untyped-def]
    """Return row i times v."""
    if isinstance(X, CSR):
        part = slice(X.indptr[i], X.indptr[i + 1])
        return float(X.data[part] @ v[X.indices[part]])
    return float(X[i] @ v)


def square(X, i):  # type: ignore[no-untyped-def]
    """Return the squared norm of row i."""
    row = X.data[X.indptr[i] : X.indptr[i + 1]] if isinstance(X, CSR) else X[i]
    return float(row @ row)


def add(X, i, factor, out):  # type: ignore[no-untyped-def]
    """Add ``factor`` times row i to ``out``."""
    if isinstance(X, CSR):
        part = slice(X.indptr[i], X.indptr[i + 1])
        np.add.at(out, X.indices[part], factor * X.data[part])
    else:
        out += factor * X[i]


def add_twice(X, i, factor, out, ratio, other):  # type: ignore[no-untyped-def]
    """Add ``factor`` times row i to ``out``, and ``ratio`` times that to ``other``."""
    add(X, i, factor, out)
    add(X, i, ratio * factor, other)


def add_all(X, factors, out):  # type: ignore[no-untyped-def]
    """Add every row times its factor to ``out``."""
    for i in range(factors.size):
        if factors[i] != 0.0:
            add(X, i, factors[i], out)


def add_squares(X, i, factor, out):  # type: ignore[no-untyped-def]
    """Add ``factor`` times the squares of row i to ``out``."""
    if isinstance(X, CSR):
        part = slice(X.indptr[i], X.indptr[i + 1])
        np.add.at(out, X.indices[part], factor * X.data[part] ** 2)
    else:
        out[: X.shape[1]] += factor * X[i] ** 2


def raise_to(X, i, out):  # type: ignore[no-untyped-def]
    """Raise the entries of ``out`` to the sizes of those of row i, if they are below."""
    if isinstance(X, CSR):
        part = slice(X.indptr[i], X.indptr[i + 1])
        np.maximum.at(out, X.indices[part], np.abs(X.data[part]))
    else:
        np.maximum(out[: X.shape[1]], np.abs(X[i]), out=out[: X.shape[1]])


def fetch(X, i):  # type: ignore[no-untyped-def]
    """Ask for row i to be in the cache soon: rows in random order are waited for longer than they are worked on."""


@overload(between)
def _compile_between(X, begin, end):  # type: ignore[no-untyped-def]  # noqa: ARG001
    def dense(X, begin, end):  # type: ignore[no-untyped-def]
        return X[begin:end]

    def sparse(X, begin, end):  # type: ignore[no-untyped-def]
        return CSR(X.data, X.indices, X.indptr[begin : end + 1])

    return dense if isinstance(X, types.Array) else sparse


@njit(cache=True, fastmath=FAST_SUMS)
def _dense_dot(X, i, v):  # type: ignore[no-untyped-def]
    result = 0.0
    for j in range(X.shape[1]):
        result += X[i, j] * v[j]
    return result


@overload(dot)
def _compile_dot(X, i, v):  # type: ignore[no-untyped-def]  # noqa: ARG001
    def dense(X, i, v):  # type: ignore[no-untyped-def]
        return _dense_dot(X, i, v)

    def sparse(X, i, v):  # type: ignore[no-untyped-def]
        result = 0.0  # summed in order: gathering several entries at once is slower than one by one
        for position in range(np.uint64(X.indptr[i]), np.uint64(X.indptr[i + 1])):
            result += X.data[position] * v[np.uint32(X.indices[position])]
        return result

    return dense if isinstance(X, types.Array) else sparse


@overload(square, jit_options={"fastmath": FAST_SUMS})
def _compile_square(X, i):  # type: ignore[no-untyped-def]  # noqa: ARG001
    def dense(X, i):  # type: ignore[no-untyped-def]
        result = 0.0
        for j in range(X.shape[1]):
            result += np.float64(X[i, j]) * X[i, j]
        return result

    def sparse(X, i):  # type: ignore[no-untyped-def]
        result = 0.0
        for position in range(np.uint64(X.indptr[i]), np.uint64(X.indptr[i + 1])):
            result += np.float64(X.data[position]) * X.data[position]
        return result

    return dense if isinstance(X, types.Array) else sparse


@overload(add, jit_options={"fastmath": FAST_SUMS})
def _compile_add(X, i, factor, out):  # type: ignore[no-untyped-def]  # noqa: ARG001
    def dense(X, i, factor, out):  # type: ignore[no-untyped-def]
        for j in range(X.shape[1]):
            out[j] += factor * X[i, j]

    def sparse(X, i, factor, out):  # type: ignore[no-untyped-def]
        for position in range(np.uint64(X.indptr[i]), np.uint64(X.indptr[i + 1])):
            out[np.uint32(X.indices[position])] += factor * X.data[position]

    return dense if isinstance(X, types.Array) else sparse


@overload(add_twice, jit_options={"fastmath": FAST_SUMS})
def _compile_add_twice(X, i, factor, out, ratio, other):  # type: ignore[no-untyped-def]  # noqa: ARG001
    def dense(X, i, factor, out, ratio, other):  # type: ignore[no-untyped-def]
        for j in range(X.shape[1]):
            part = factor * X[i, j]
            out[j] += part
            other[j] += ratio * part

    def sparse(X, i, factor, out, ratio, other):  # type: ignore[no-untyped-def]
        for position in range(np.uint64(X.indptr[i]), np.uint64(X.indptr[i + 1])):
            j = np.uint32(X.indices[position])
            part = factor * X.data[position]
            out[j] += part
            other[j] += ratio * part

    return dense if isinstance(X, types.Array) else sparse


@njit(cache=True, fastmath=FAST_SUMS)
def _dense_add_all(X, factors, out):  # type: ignore[no-untyped-def]
    long = X.shape[1] >= _LONG_ROW
    for i in range(X.shape[0]):
        if long and factors[i] == 0.0:
            continue
        for j in range(X.shape[1]):
            out[j] += factors[i] * X[i, j]


@overload(add_all)
def _compile_add_all(X, factors, out):  # type: ignore[no-untyped-def]  # noqa: ARG001
    def dense(X, factors, out):  # type: ignore[no-untyped-def]
        _dense_add_all(X, factors, out)

    def sparse(X, factors, out):  # type: ignore[no-untyped-def]
        for i in range(factors.size):
            if factors[i] != 0.0:
                add(X, i, factors[i], out)

    return dense if isinstance(X, types.Array) else sparse


@overload(add_squares, jit_options={"fastmath": FAST_SUMS})
def _compile_add_squares(X, i, factor, out):  # type: ignore[no-untyped-def]  # noqa: ARG001
    def dense(X, i, factor, out):  # type: ignore[no-untyped-def]
        for j in range(X.shape[1]):
            out[j] += factor * np.float64(X[i, j]) * X[i, j]

    def sparse(X, i, factor, out):  # type: ignore[no-untyped-def]
        for position in range(np.uint64(X.indptr[i]), np.uint64(X.indptr[i + 1])):
            out[np.uint32(X.indices[position])] += factor * X.data[position] * X.data[position]

    return dense if isinstance(X, types.Array) else sparse


@overload(raise_to)
def _compile_raise_to(X, i, out):  # type: ignore[no-untyped-def]  # noqa: ARG001
    def dense(X, i, out):  # type: ignore[no-untyped-def]
        for j in range(X.shape[1]):
            out[j] = max(out[j], abs(X[i, j]))

    def sparse(X, i, out):  # type: ignore[no-untyped-def]
        for position in range(np.uint64(X.indptr[i]), np.uint64(X.indptr[i + 1])):
            j = np.uint32(X.indices[position])
            out[j] = max(out[j], abs(X.data[position]))

    return dense if isinstance(X, types.Array) else sparse


@overload(fetch)
def _compile_fetch(X, i):  # type: ignore[no-untyped-def]  # noqa: ARG001
    def dense(X, i):  # type: ignore[no-untyped-def]
        n_columns = X.shape[1]
        for j in range(0, n_columns, _CACHE_LINE // X.itemsize):
            _prefetch(X, i * n_columns + j)

    def sparse(X, i):  # type: ignore[no-untyped-def]
        begin, end = X.indptr[i], X.indptr[i + 1]
        for position in range(begin, end, _CACHE_LINE // X.data.itemsize):
            _prefetch(X.data, position)
        for position in range(begin, end, _CACHE_LINE // X.indices.itemsize):
            _prefetch(X.indices, position)

    return dense if isinstance(X, types.Array) else sparse


@intrinsic
def _prefetch(_context, array, index):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Emit the processor's instruction that starts to load an array element (by its flat position)."""

    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        number = ir.IntType(32)
        pointer = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        call = ir.FunctionType(ir.VoidType(), [pointer.type, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], call)
        builder.call(function, [pointer, number(0), number(3), number(1)])  # for reading, into all levels, data
        return context.get_dummy_value()

    return types.void(array, types.intp), emit


_IN_CACHE = 2048  # rows that are worked on at once
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


_MAX_SEARCH = 100
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
    """Return ``sum(u r (s - s_then - slope_then (f - f_then)))``, how far losses are above their tangents.

    With it ``sum(u |slope_then|)`` and ``sum(u |r slope_then|)``.
    """
    change = steepness = pull = 0.0
    for i in range(s.size):
        change += u[i] * r[i] * ((s[i] - s_then[i]) - slope_then[i] * (f[i] - f_then[i]))
        steepness += u[i] * abs(slope_then[i])
        pull += u[i] * abs(r[i] * slope_then[i])
    return change, steepness, pull


@njit(cache=True, nogil=True, error_model="numpy")
def bound_blocks(first, last, size, s, f, s_then, slope_then, f_then, r, u, lam, two_sided, sums):  # type: ignore[no-untyped-def]
    """Sum up, block by block, what :class:`atklearn.core.point.Bound` says."""
    for block in range(first, last):
        part = slice(block * size, (block + 1) * size)
        above, slack, mass, _ = _read_top(s[part], u[part], r[part], lam, two_sided)
        sums[block, 0], sums[block, 1], sums[block, 2] = above, slack, mass
        sums[block, 3], sums[block, 4], sums[block, 5] = _change(
            u[part], r[part], s[part], f[part], s_then[part], slope_then[part], f_then[part]
        )


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


@njit(cache=True, nogil=True, error_model="numpy")
def hessian(loss, X, f, y, s, slope, r, u, mu, cautious, H, pulls):  # type: ignore[no-untyped-def]
    """Fill ``H`` with the weighted Gram matrix of an array X, all rows, with ones if it is larger; return the ties.

    Fill ``pulls`` with those of the ties. See :class:`atklearn.core.point.Gram`.
    """
    n, d = X.shape
    scaled = np.empty((n, len(H)))
    pulls[:] = 0.0
    tied_mass = 0.0
    count = 0
    for i in range(n):
        size = abs(r[i])
        if size == 0.0:
            continue
        _, _, curvature = expand_one(loss, f[i], y[i])
        if cautious:
            curvature = max(curvature, slope[i] ** 2 / max(2.0 * s[i], 1e-300))
        weight = u[i] * size * curvature
        if size < 1.0:
            weight += u[i] * slope[i] ** 2 / mu
            tied_mass += u[i]
            pull = u[i] * slope[i] if r[i] > 0.0 else -u[i] * slope[i]
            for j in range(d):
                pulls[j] += pull * X[i, j]
            for j in range(d, len(H)):
                pulls[j] += pull
        if weight > 0.0:
            root = np.sqrt(weight)
            for j in range(d):
                scaled[count, j] = root * X[i, j]
            for j in range(d, len(H)):
                scaled[count, j] = root
            count += 1
    np.dot(scaled[:count].T, scaled[:count], H)
    return tied_mass


@njit(cache=True, nogil=True, error_model="numpy")
def look(loss, start, t, along, y, f, s, slope, centre, u, mu, guess, two_sided, r, a):  # type: ignore[no-untyped-def]
    """Expand the losses at ``start + t * along`` and settle their densities; return the reading."""
    expand_along(0, 1, y.size, loss, start, t, along, y, f, s, slope)
    return settle_few(s, slope, centre, u, mu, guess, two_sided, along, r, a)


@njit(cache=True, nogil=True, error_model="numpy")
def predict_and_expand(loss, X, w, bias, y, f, s, slope):  # type: ignore[no-untyped-def]
    """Fill in predictions, the smooth part of their losses and its slope."""
    predict(0, 1, y.size, X, w, bias, f)
    expand_along(0, 1, y.size, loss, f, 0.0, f, y, f, s, slope)


@njit(cache=True, nogil=True, error_model="numpy")
def prove(loss, X, w, bias, y, u, rank, balanced, f, s, slope, is_fresh, density, r, gradient):  # type: ignore[no-untyped-def]
    """Fill ``r`` with feasible densities near the given ones, and their gradient.

    Return value, threshold, slack, steepness and pull of the proof.

    See :meth:`atklearn.core.point.Point.prove`; all rows have the same mass, and ``rank`` of them are the top.
    """
    n, d = X.shape
    a, sums = np.empty(n), np.empty((1, 6))
    weigh_sides(0, 1, n, u, density, slope, sums)
    up, down = 1.0, 1.0
    if balanced:
        up, down = balance(sums[0, 0], sums[0, 1])
    most = max(up * sums[0, 2] + down * sums[0, 3] + sums[0, 4], 1.0)
    scale_sides(0, 1, n, u, density, slope, up / most, down / most, 1.0 / most, r, a)
    pull_back(0, 1, n, X, a, d, gradient.reshape((1, -1)))
    exact, anew = s, f
    if not is_fresh:
        anew, exact, ignored = np.empty(n), np.empty(n), np.empty(n)
        predict(0, 1, n, X, w, bias, anew)
        expand_along(0, 1, n, loss, anew, 0.0, anew, y, anew, exact, ignored)
    losses = exact.copy()
    if loss.kink == ABSOLUTE:
        losses = np.abs(losses)
    elif loss.kink == POSITIVE_PART:
        losses = np.maximum(losses, 0.0)
    place = losses.size - rank
    threshold = np.partition(losses, place)[place] if place > 0 else losses.min()
    bound_blocks(0, 1, n, exact, anew, s, slope, f, r, u, threshold, loss.kink == ABSOLUTE, sums)
    value = threshold + sums[0, 0]
    slack = sums[0, 1] + threshold * max(1.0 - sums[0, 2], 0.0) + sums[0, 3]
    return value, threshold, slack, sums[0, 4], sums[0, 5]


@njit(cache=True, nogil=True, error_model="numpy")
def largest_entries(first, last, size, X, n, d, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with the largest ``|x|`` of every column in each block; behind the d columns with one."""
    for block in range(first, last):
        out[block, :d] = 0.0
        out[block, d:] = 1.0
        for i in range(block * size, min((block + 1) * size, n)):
            raise_to(X, i, out[block])
