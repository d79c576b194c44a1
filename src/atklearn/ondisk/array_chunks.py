"""Arrays as chunks of rows: memory-mapped files, or anything else that can be sliced by rows."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from itertools import pairwise
from numbers import Integral
from os import PathLike
from typing import Any

import numpy as np

from atklearn.chunked.chunk_store import ChunkedWeights
from atklearn.chunked.chunks import ChunkedData, Chunks
from atklearn.losses.individual import Array
from atklearn.ondisk.executor_engine import ArrayBlocks, ExecutorEngine
from atklearn.runtime.messages import shown

__all__ = ["ArrayChunks"]

# Bytes of a chunk: much for one pass, little beside what a machine has.
_CHUNK = 1 << 26


class ArrayChunks(Chunks):
    """An X that is read chunk by chunk, so that it need not fit into memory.

    ``ATkClassifier().fit(ArrayChunks(X), y)`` finds the optimum and the certificate of ``fit(X, y)``. X is read twice
    for a Newton step; some four numbers per row stay in memory, and nothing else but a sample of the rows. A
    memory-mapped array that is passed as it is, not in here, is taken for an array in memory.

    Parameters
    ----------
    X : array of shape (n_samples, n_features), or path-like
        Anything that can be sliced by rows, such as an array in a memory-mapped file; or the name of a .npy file.
    chunk_size : int, default=None
        Rows in a chunk; if None, those of some 64 MB.
    executor : concurrent.futures.Executor, default=None
        Works on chunks; if None, threads, as many as there are cores. Processes open memory-mapped files by
        themselves.
    checkpoint : path-like, default=None
        A file to note in what was reached: a fit that was interrupted goes on from there if it is started again. It is
        removed when the fit ends.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from atklearn import ATkClassifier
    >>> from atklearn.ondisk import ArrayChunks
    >>> rng = np.random.default_rng(0)
    >>> with tempfile.TemporaryFile() as file:
    ...     X = np.memmap(file, dtype=np.float64, shape=(1000, 5))
    ...     X[:] = rng.standard_normal(X.shape)
    ...     model = ATkClassifier(k=0.5).fit(ArrayChunks(X, chunk_size=300), X[:, 0] > 0.0)
    >>> bool(model.dual_gap_ <= 1e-6 * model.objective_), model.n_passes_ > 5
    (True, True)
    """

    def __init__(
        self,
        X: Any,
        *,
        chunk_size: int | None = None,
        executor: Executor | None = None,
        checkpoint: str | PathLike[str] | None = None,
    ) -> None:
        super().__init__(checkpoint=checkpoint)
        if chunk_size is not None and (not isinstance(chunk_size, Integral) or chunk_size < 1):
            raise ValueError(f"chunk_size is expected to be an int >= 1, or None, got {shown(chunk_size)}.")
        if executor is not None and not isinstance(executor, Executor):
            raise ValueError(
                f"executor is expected to be one of concurrent.futures, or None, got {shown(executor)}; say, "
                "ProcessPoolExecutor(4)."
            )
        self.X = _mapped(X)
        shape = getattr(self.X, "shape", None)
        if shape is None or len(shape) != 2:
            raise ValueError(
                "X is expected to be an array of two dimensions, memory-mapped or otherwise sliceable by rows, or the "
                f"name of a .npy file, got {type(X).__name__} of shape {shape}."
            )
        if shape[0] == 0 or shape[1] == 0:
            raise ValueError(f"X is expected to have rows and columns, got shape {shown(shape)}.")
        self.chunk_size, self.executor = chunk_size, executor

    def ends(self) -> list[int]:
        """Return where chunks end.

        Returns
        -------
        ends : list of int
        """
        n_rows, n_columns = self.X.shape
        rows = int(self.chunk_size or max(_CHUNK // (8 * n_columns), 1))
        return [*range(rows, n_rows, rows), n_rows]

    def open(self, y: Any, sample_weight: Any = None) -> ChunkedData:
        """Return X beside targets and weights, as an executor reads them.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            Or the name of a .npy file; so are the weights.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        data : ChunkedData
        """
        y = self._beside("y", _mapped(y))
        weight = None if sample_weight is None else self._beside("sample_weight", _mapped(sample_weight))
        blocks = ArrayBlocks(self.X, y, weight, ends=self.ends())

        def spread(columns: list[ChunkedWeights]) -> Array:
            """Return the weights of all samples, a column per problem."""
            out = np.empty((blocks.ends[-1], len(columns)))
            for index, (begin, end) in enumerate(pairwise([0, *blocks.ends])):
                block = blocks.block(index)
                for place, column in enumerate(columns):
                    out[begin:end, place] = column.make(block, index)
            return out

        engine = ExecutorEngine(blocks, self.executor)
        return ChunkedData(engine, int(self.X.shape[1]), None, spread, n_reads_to_spread=1)

    def _beside(self, name: str, column: Any) -> Any:
        """Return a column that can be sliced as X is."""
        column = column.to_numpy() if hasattr(column, "to_numpy") else column
        column = column if hasattr(column, "shape") else np.asarray(column)
        if column.shape[:1] != self.X.shape[:1]:
            raise ValueError(
                f"{name} is expected to be as long as X, which has {self.X.shape[0]} rows, got shape {column.shape}."
            )
        return column

    def map_rows(self, function: Callable[[Any], Any]) -> Any:
        """Return what a function of rows gives for all of them, chunk after chunk.

        Parameters
        ----------
        function : callable
            Takes rows of X, returns an array with an entry for each, such as ``model.predict``.

        Returns
        -------
        values : ndarray of shape (n_samples, ...)
        """
        blocks = ArrayBlocks(self.X, ends=self.ends())
        return np.concatenate([function(blocks.block(i).X) for i in range(len(blocks))])


def _mapped(values: Any) -> Any:
    """Return what is in a .npy file without reading it; all that is no name of a file as it is."""
    if not isinstance(values, str | PathLike):
        return values
    try:
        return np.load(values, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"A name in the place of an array is expected to be that of a .npy file, got {str(values)!r} ({error}); "
            "write one with numpy.save, or pass an array."
        ) from error
