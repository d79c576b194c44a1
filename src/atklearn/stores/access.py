"""How compiled loops read a row of X, dense or sparse: written once, compiled for both.

Every loop over rows calls these functions and so has one text for NumPy arrays and for CSR. Each has a plain Python
form, which loops run that are not compiled (a loss that exists in Python only), and one compiled form per kind of X.
Places are unsigned there: then no access has to ask whether an index is negative, and counts from the end.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from atklearn.losses.compiling import FAST_SUMS, intrinsic, ir, njit, overload, types
from atklearn.losses.individual import Array

__all__ = [
    "CSR", "add", "add_all", "add_squares", "add_twice", "between", "dot", "fetch", "readable", "square",
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
