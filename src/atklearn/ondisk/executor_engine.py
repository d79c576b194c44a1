"""The smallest engine: chunks of arrays in files, each asked by a worker of an executor."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial, reduce
from typing import Any

import numpy as np

from atklearn.chunked.chunk import Block
from atklearn.chunked.fleet import Reply, Request, answer, forget
from atklearn.runtime.threads import thread_count

__all__ = ["ArrayBlocks", "ExecutorEngine", "read_rows"]


class ArrayBlocks:
    """Blocks of rows of arrays that need not fit into memory.

    Parameters
    ----------
    *arrays : array-like or None
        X, y and sample weights: memory-mapped, in memory, or anything that can be sliced by rows.
    ends : sequence of int
        Where chunks end.

    Examples
    --------
    >>> chunks = ArrayBlocks(np.arange(6.0).reshape(3, 2), np.arange(3.0), None, ends=[2, 3])
    >>> len(chunks), chunks.block(1).X
    (2, array([[4., 5.]]))
    """

    def __init__(self, *arrays: Any, ends: Sequence[int]) -> None:
        self.arrays, self.ends = arrays, list(ends)

    def __len__(self) -> int:
        return len(self.ends)

    def block(self, index: int) -> Block:
        """Return the data of a chunk; of a file, a copy."""
        part = slice(self.ends[index - 1] if index else 0, self.ends[index])
        return Block(*(None if array is None else read_rows(array, part) for array in self.arrays))

    def __getstate__(self) -> dict[str, Any]:
        return {"arrays": [_portable(array) for array in self.arrays], "ends": self.ends}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.ends, self.arrays = state["ends"], tuple(_opened(array) for array in state["arrays"])


def read_rows(array: Any, part: slice) -> Any:
    """Return a copy of some rows, and let go of the file's pages behind it."""
    if not isinstance(array, np.memmap):
        return array[part]
    block = np.array(array[part])
    pages = getattr(array, "_mmap", None)
    # a copy-on-write map keeps changes in its pages, and not every system takes advice
    if pages is not None and array.mode in ("r", "r+") and hasattr(pages, "madvise"):
        pages.madvise(mmap.MADV_DONTNEED)
    return block


class _File(dict[str, Any]):
    """How to map a file once more."""


def _portable(array: Any) -> Any:
    """Return a memory-mapped array as the way to map it in another process: pickled, it would travel as a whole."""
    pages = getattr(array, "_mmap", None)
    if not isinstance(array, np.memmap) or pages is None or not array.flags.c_contiguous:
        return array
    start = array.offset - array.offset % mmap.ALLOCATIONGRANULARITY
    offset = start + array.ctypes.data - np.frombuffer(pages, dtype=np.uint8).ctypes.data
    return _File(filename=array.filename, dtype=array.dtype, mode="r", offset=offset, shape=array.shape)


def _opened(array: Any) -> Any:
    return np.memmap(**array) if isinstance(array, _File) else array


class ExecutorEngine:
    """Asks chunks by an executor, threads unless another one is given.

    Parameters
    ----------
    chunks : ArrayBlocks
    executor : concurrent.futures.Executor, default=None
    """

    is_lazy = True

    def __init__(self, chunks: ArrayBlocks, executor: Executor | None = None) -> None:
        self.chunks = chunks
        self.executor = ThreadPoolExecutor(thread_count()) if executor is None else executor
        self.owns_executor = executor is None
        self.n_chunks = len(chunks)

    def ask(self, request: Request, chunks: Sequence[int], *, reading: bool) -> Reply:
        """Return the sum of what the chunks answer."""
        work = partial(_answer, self.chunks, request, reading)
        return reduce(Reply.plus, self.executor.map(work, chunks), Reply(None))

    def close(self, fit: str) -> None:
        """Forget a fit; threads that were started for it end."""
        forget(fit)
        if self.owns_executor:
            self.executor.shutdown(wait=False, cancel_futures=True)


def _answer(chunks: ArrayBlocks, request: Request, reading: bool, index: int) -> Reply:
    return answer(request, [(index, chunks.block(index) if reading else None)])
