"""What a stochastic solver does with one row: multiply, measure, add, and fetch ahead of time.

Each operation is a function of a matrix and a row number that works on NumPy arrays (C-ordered) and on CSR rows, both
interpreted and inside compiled loops.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.extending import intrinsic, overload

from atklearn.design import FAST_SUMS
from atklearn.individual import Array

__all__ = ["CSRRows", "add", "dot", "fetch", "square"]

# Bytes that the processor fetches at once.
_CACHE_LINE = 64


class CSRRows(NamedTuple):
    """The three arrays of a CSR matrix."""

    data: Array
    indices: Any
    indptr: Any


def dot(X, i, v):  # type: ignore[no-untyped-def]
    """Return row i times v."""
    if isinstance(X, CSRRows):
        part = slice(X.indptr[i], X.indptr[i + 1])
        return float(X.data[part] @ v[X.indices[part]])
    return float(X[i] @ v)


def square(X, i):  # type: ignore[no-untyped-def]
    """Return the squared norm of row i."""
    row = X.data[X.indptr[i] : X.indptr[i + 1]] if isinstance(X, CSRRows) else X[i]
    return float(row @ row)


def add(X, i, change, reach, v, lag):  # type: ignore[no-untyped-def]
    """Add ``change`` times row i to v, and ``reach`` times that to the lag of the average."""
    if isinstance(X, CSRRows):
        part = slice(X.indptr[i], X.indptr[i + 1])
        np.add.at(v, X.indices[part], change * X.data[part])
        np.add.at(lag, X.indices[part], reach * change * X.data[part])
    else:
        v += change * X[i]
        lag += reach * change * X[i]


def fetch(X, i):  # type: ignore[no-untyped-def]
    """Ask for row i to be in the cache soon: rows in random order are waited for longer than they are worked on."""


@numba.njit(cache=True, fastmath=FAST_SUMS)
def _fast_dot(X, i, v):  # type: ignore[no-untyped-def]
    result = 0.0
    for j in range(v.size):
        result += X[i, j] * v[j]
    return result


@overload(dot)
def _compile_dot(X, i, v):  # type: ignore[no-untyped-def]  # noqa: ARG001
    def dense(X, i, v):  # type: ignore[no-untyped-def]
        return _fast_dot(X, i, v)

    def sparse(X, i, v):  # type: ignore[no-untyped-def]
        result = 0.0  # summed in order: gathering several entries at once is slower than one by one
        for position in range(X.indptr[i], X.indptr[i + 1]):
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
        for position in range(X.indptr[i], X.indptr[i + 1]):
            result += np.float64(X.data[position]) * X.data[position]
        return result

    return dense if isinstance(X, types.Array) else sparse


@overload(add, jit_options={"fastmath": FAST_SUMS})
def _compile_add(X, i, change, reach, v, lag):  # type: ignore[no-untyped-def]  # noqa: ARG001
    # without averaging the lag stays out of the way
    def dense(X, i, change, reach, v, lag):  # type: ignore[no-untyped-def]
        if reach == 0.0:
            for j in range(v.size):
                v[j] += change * X[i, j]
        else:
            for j in range(v.size):
                part = change * X[i, j]
                v[j] += part
                lag[j] += reach * part

    def sparse(X, i, change, reach, v, lag):  # type: ignore[no-untyped-def]
        if reach == 0.0:
            for position in range(X.indptr[i], X.indptr[i + 1]):
                v[np.uint32(X.indices[position])] += change * X.data[position]
        else:
            for position in range(X.indptr[i], X.indptr[i + 1]):
                j = np.uint32(X.indices[position])  # unsigned: needs no test for a negative index
                part = change * X.data[position]
                v[j] += part
                lag[j] += reach * part

    return dense if isinstance(X, types.Array) else sparse


@overload(fetch)
def _compile_fetch(X, i):  # type: ignore[no-untyped-def]  # noqa: ARG001
    def dense(X, i):  # type: ignore[no-untyped-def]
        n_columns = X.shape[1]
        for j in range(0, n_columns, _CACHE_LINE // X.itemsize):
            _prefetch(X, i * n_columns + j)  # type: ignore[call-arg]

    def sparse(X, i):  # type: ignore[no-untyped-def]
        begin, end = X.indptr[i], X.indptr[i + 1]
        for position in range(begin, end, _CACHE_LINE // X.data.itemsize):
            _prefetch(X.data, position)  # type: ignore[call-arg]
        for position in range(begin, end, _CACHE_LINE // X.indices.itemsize):
            _prefetch(X.indices, position)  # type: ignore[call-arg]

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
