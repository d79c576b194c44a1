"""Passes over many rows on several threads, whose results do not depend on how many there are.

Rows are cut into blocks whose size depends on the data alone. A thread gets neighbouring blocks and one call of a
compiled function that holds no lock of Python; what it sums up it leaves per block, to be added in their order. Numba's
own parallel loops are no choice: one of their implementations fails under concurrent calls, another after a fork.

How many threads there are follows what users set for others: OMP_NUM_THREADS, NUMBA_NUM_THREADS, threadpoolctl, the
workers of joblib. One pass at a time has them; a pass that finds them busy runs on its caller's thread alone.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from contextlib import ContextDecorator
from functools import cache
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads
from threadpoolctl import ThreadpoolController

from atklearn.runtime.compiling import HAS_NUMBA, njit, njit_if_there, numba

if TYPE_CHECKING:
    from atklearn.losses.individual import Array

__all__ = [
    "BLOCK", "add_up", "block_sums", "count_blocks", "extremes", "fill", "over_rows", "run", "steady_blas",
    "thread_count",
]  # fmt: skip

# Rows in a block of a pass over losses.
BLOCK = 8192
# Nanoseconds of work that are worth a second thread, and what it takes to wake one and to hear of it again: one after
# the other, since they share a lock of Python, so that t threads take ``cost / t + t * WAKE``.
WORTH = 40_000.0
WAKE = 2_000.0


def thread_count() -> int:
    """Return how many threads a pass may use, the caller's included."""
    limit = int(_openmp_effective_n_threads())
    if HAS_NUMBA:
        parallel = numba.np.ufunc.parallel
        # before its threads have started, asking would start them, and nobody needs them
        started = getattr(parallel, "_is_initialized", False)
        limit = min(limit, int(numba.get_num_threads() if started else getattr(numba.config, "NUMBA_NUM_THREADS", 1)))
    return max(limit, 1)


def count_blocks(n: int, size: int) -> int:
    """Return how many blocks of a size hold n rows; at least one."""
    return max(-(-n // size), 1)


def run(work: Callable[..., object], n_blocks: int, cost: float, *arguments: object) -> None:
    """Call ``work(first, last, *arguments)`` for ranges of blocks that make up all, on as many threads as pay.

    Parameters
    ----------
    work : callable
        It is called from several threads at once, and writes only what belongs to its blocks.
    n_blocks : int
    cost : float
        Nanoseconds that all of it takes on one thread, roughly.
    """
    n_threads = 1
    if n_blocks > 1 and cost >= 2.0 * WORTH:
        n_threads = min(n_blocks, max(int(math.sqrt(cost / WAKE)), 2), thread_count())
    crew = _crew  # a child process gets another one
    if n_threads == 1 or not crew.busy.acquire(blocking=False):
        work(0, n_blocks, *arguments)
        return
    try:
        crew.share(work, arguments, [n_blocks * i // n_threads for i in range(n_threads + 1)])
    finally:
        crew.busy.release()


def over_rows(work: Callable[..., object], n: int, cost: float, *arguments: object) -> None:
    """Call ``work(first, last, size, *arguments)`` for blocks of rows; ``cost`` is per row."""
    if n <= BLOCK:
        work(0, 1, BLOCK, *arguments)
    else:
        run(work, count_blocks(n, BLOCK), n * cost, BLOCK, *arguments)


def block_sums(work: Callable[..., object], n_sums: int, n: int, cost: float, *arguments: object) -> Array:
    """Do work on blocks of rows that fills ``sums[block]``, its last argument; return the sums over all blocks."""
    if n <= BLOCK:
        sums = np.empty((1, n_sums))
        work(0, 1, BLOCK, *arguments, sums)
        return np.asarray(sums[0])
    sums = np.empty((count_blocks(n, BLOCK), n_sums))
    over_rows(work, n, cost, *arguments, sums)
    return np.asarray(np.add.reduce(sums))


def fill(out: Array, function: np.ufunc, *inputs: Any) -> Array:
    """Fill ``out`` with what an elementwise function makes of arrays as long, and of numbers."""
    if out.size <= BLOCK:
        function(*inputs, out=out)
    else:
        over_rows(_fill_blocks, out.size, 1.0, function, inputs, out)
    return out


def _fill_blocks(first: int, last: int, size: int, function: np.ufunc, inputs: tuple[object, ...], out: Array) -> None:
    part = slice(first * size, last * size)
    function(*(each[part] if isinstance(each, np.ndarray) else each for each in inputs), out=out[part])


def extremes(values: Array) -> tuple[float, float]:
    """Return the smallest and the largest number."""
    if values.size <= BLOCK:
        return _extremes(values)  # type: ignore[no-any-return]
    found = np.empty((count_blocks(values.size, BLOCK), 2))
    over_rows(_find_extremes, values.size, 0.5, values, found)
    return float(found[:, 0].min()), float(found[:, 1].max())


def _plain_extremes(values: Array) -> tuple[float, float]:
    low, high = (
        np.fmin.reduce(values, dtype=float, initial=np.inf),
        np.fmax.reduce(values, dtype=float, initial=-np.inf),
    )
    return float(low), float(high)


@njit_if_there(cache=True, nogil=True, error_model="numpy", instead=_plain_extremes)
def _extremes(values):  # type: ignore[no-untyped-def]
    low, high = np.inf, -np.inf
    for i in range(values.size):
        low, high = min(low, values[i]), max(high, values[i])
    return low, high


@njit_if_there(cache=True, nogil=True, error_model="numpy")
def _find_extremes(first, last, size, values, out):  # type: ignore[no-untyped-def]
    for block in range(first, last):
        out[block, 0], out[block, 1] = _extremes(values[block * size : (block + 1) * size])


def add_up(parts: Array) -> Array:
    """Return the sum of parts, shape (n_blocks, size), in their order; large parts on several threads."""
    if len(parts) == 1:
        return np.asarray(parts[0])
    total = np.zeros(parts.shape[1])
    over_rows(_add_columns, total.size, 0.5 * len(parts), parts, total)
    return total


@njit(cache=True, nogil=True)
def _add_columns(first, last, size, parts, total):  # type: ignore[no-untyped-def]
    # not NumPy's sum, whose order depends on how many columns there are
    for block in range(len(parts)):
        for j in range(first * size, min(last * size, total.size)):
            total[j] += parts[block, j]


class _Crew:
    """Threads that wait for work; they are started when first needed and end with the process."""

    def __init__(self) -> None:
        self.busy = threading.Lock()  # held by the pass that has the crew
        self.tasks: SimpleQueue[Any] = SimpleQueue()
        self.size = 0

    def share(self, work: Callable[..., object], arguments: tuple[object, ...], ends: list[int]) -> None:
        """Do the first range of blocks in the caller's thread and the others in the crew's."""
        n_others = len(ends) - 2
        while self.size < n_others:
            threading.Thread(target=_serve, args=(self.tasks,), name="atklearn", daemon=True).start()
            self.size += 1
        done: SimpleQueue[BaseException | None] = SimpleQueue()
        for i in range(1, n_others + 1):
            self.tasks.put((work, ends[i], ends[i + 1], arguments, done))
        try:
            work(0, ends[1], *arguments)
        finally:  # also after an error, or others would still write when the caller has gone on
            errors = [done.get() for _ in range(n_others)]
        for error in errors:
            if error is not None:
                raise error


def _serve(tasks: SimpleQueue[Any]) -> None:
    while True:
        work, first, last, arguments, done = tasks.get()
        try:
            work(first, last, *arguments)
            done.put(None)
        except BaseException as error:
            done.put(error)
        del work, arguments, done  # idle threads keep no arrays alive


class _SteadyBlas:
    """BLAS on one thread while anyone holds it: the bits of its results depend on the number of its threads."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.holders = 0
        self.limit: Any = None

    def hold(self) -> None:
        with self.lock:
            if self.holders == 0:
                self.limit = _controller().limit(limits=1, user_api="blas")
            self.holders += 1

    def let_go(self) -> None:
        with self.lock:
            self.holders -= 1
            if self.holders == 0:
                self.limit.restore_original_limits()


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


class steady_blas(ContextDecorator):  # noqa: N801
    """Keep BLAS on one thread: its results get the same bits on every machine, and it leaves the cores to us.

    Where someone holds it already, as a path does around its fits, to hold it again is only to count.
    """

    def __enter__(self) -> None:
        self.blas = _blas
        self.blas.hold()

    def __exit__(self, *_: object) -> None:
        self.blas.let_go()

    def _recreate_cm(self) -> steady_blas:
        return steady_blas()  # decorated functions may call each other


_crew = _Crew()
_blas = _SteadyBlas()


def _start_anew() -> None:
    """In a child process, forget the threads and the locks of the parent: they have not come along."""
    global _crew, _blas
    if _blas.holders:  # by other threads of the parent
        _blas.limit.restore_original_limits()
    _crew, _blas = _Crew(), _SteadyBlas()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)
