"""Data that is read block by block, so that it need not fit into memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from atklearn.losses.messages import shown
from atklearn.ondisk.executor_engine import read_rows

__all__ = ["RowBlocks"]


class RowBlocks:
    """Blocks of rows of arrays that lie in memory or in memory-mapped files; it can be read again and again.

    Each block is a copy, and the pages of a memory-mapped file are given back after it, so that reading costs the
    memory of one block.

    Parameters
    ----------
    *arrays : array-like or sparse matrix
        X, y and, if wanted, the sample weights: anything that can be sliced by rows.
    chunk_size : int, default=65536
        Rows per block.

    Examples
    --------
    >>> import numpy as np
    >>> from atklearn import RowBlocks, SGDATkRegressor
    >>> blocks = RowBlocks(np.arange(10.0).reshape(5, 2), np.arange(5.0), chunk_size=2)
    >>> [X.shape for X, y in blocks], [y.tolist() for X, y in blocks]
    ([(2, 2), (2, 2), (1, 2)], [[0.0, 1.0], [2.0, 3.0], [4.0]])
    >>> SGDATkRegressor(k=1.0, tol=None, max_iter=3, random_state=0).fit_blocks(blocks).t_  # three passes, five rows
    15
    """

    def __init__(self, *arrays: Any, chunk_size: int = 65_536) -> None:
        lengths = {array.shape[0] for array in arrays}
        if len(lengths) != 1 or chunk_size < 1:
            raise ValueError(
                "RowBlocks expects one or more arrays of equal length and chunk_size >= 1, got lengths "
                f"{sorted(lengths)} and chunk_size={shown(chunk_size)}."
            )
        self.arrays = arrays
        self.chunk_size = chunk_size

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for begin in range(0, self.arrays[0].shape[0], self.chunk_size):
            yield tuple(read_rows(array, slice(begin, begin + self.chunk_size)) for array in self.arrays)
