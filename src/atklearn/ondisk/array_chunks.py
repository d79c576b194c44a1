"""Rows of files as chunks: memory-mapped arrays, .npy and Parquet files, or anything else that can be sliced by rows.

Memory-mapped arrays are read as files, not as memory: where a file that is mapped shrinks, the process would end.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial, reduce
from itertools import accumulate, pairwise
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from atklearn.chunked.chunk import Block, Rows, Values
from atklearn.chunked.chunk_store import ChunkedWeights
from atklearn.chunked.chunks import ChunkedData, Chunks
from atklearn.chunked.engine import Reply, Request, answer, forget
from atklearn.losses.individual import Array
from atklearn.runtime.messages import shown
from atklearn.runtime.threads import thread_count

if TYPE_CHECKING:
    from pyarrow import Schema, Table
    from pyarrow.dataset import Dataset, Fragment

__all__ = ["ArrayBlocks", "ArrayChunks", "ExecutorEngine", "FileRows", "ParquetRows", "read_rows"]

# Bytes of a chunk: much for one pass, little beside what a machine has.
_CHUNK = 1 << 26
_PARQUET = (".parquet", ".parq", ".pq")


# Rows of files


class RowSource(Protocol):
    """What can be sliced by rows: an array, a sparse matrix, or rows of files."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows, and columns if there are such."""

    def __getitem__(self, part: slice, /) -> Rows:
        """Return some rows."""


def read_rows(source: RowSource, part: slice) -> Rows:
    """Return some rows; of a memory-mapped array a copy, read from its file."""
    return (FileRows.of(source) if isinstance(source, np.memmap) else source)[part]


class FileRows:
    """Rows of a memory-mapped array, read from its file.

    Parameters
    ----------
    array : memmap
        With a name, and strides that are not negative.
    """

    def __init__(self, array: np.memmap[Any, Any]) -> None:
        pages = np.frombuffer(getattr(array, "_mmap"), dtype=np.uint8)  # noqa: B009 NumPy has no public name for it
        begin = array.ctypes.data - pages.ctypes.data
        if array.mode != "r":
            array.flush()
        self.path = Path(str(array.filename))
        self.offset = array.offset - array.offset % mmap.ALLOCATIONGRANULARITY + begin
        self.shape, self.strides, self.dtype = array.shape, array.strides, array.dtype
        self.state = _state(self.path.stat())

    @classmethod
    def of(cls, array: RowSource) -> RowSource:
        """Return a memory-mapped array as rows of its file, where it has one; else the array."""
        if not isinstance(array, np.memmap) or getattr(array, "_mmap", None) is None:
            return array
        # changes of a copy-on-write map are in memory alone; files without a name cannot be opened again
        if array.mode == "c" or array.filename is None or min(array.strides, default=0) < 0:
            return array
        return cls(array)

    def __getitem__(self, part: slice) -> Values:
        begin, end, _ = part.indices(self.shape[0])
        if len(self.shape) == 2 and self.strides[1] > self.strides[0]:  # column by column, as they lie in the file
            columns = [self._read(begin, end, self.offset + j * self.strides[1], 1) for j in range(self.shape[1])]
            return np.stack(columns, axis=1)
        return self._read(begin, end, self.offset, len(self.shape))

    def _read(self, begin: int, end: int, offset: int, ndim: int) -> Values:
        """Return some rows of the whole array, or of a column of it."""
        shape, strides = (max(end - begin, 0), *self.shape[1:ndim]), self.strides[:ndim]
        if 0 in shape:
            return np.empty(shape, self.dtype)
        n_bytes = sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True)) + self.dtype.itemsize
        try:
            with self.path.open("rb") as file:
                is_same = _state(os.fstat(file.fileno())) == self.state
                found = np.fromfile(file, np.uint8, n_bytes, offset=offset + begin * self.strides[0])
        except OSError as error:
            raise _changed(self.path, f"got {error}") from error
        if not is_same or found.size < n_bytes:
            raise _changed(self.path, "got one that was written to, cut or replaced")
        rows: Values = np.ndarray(shape, self.dtype, found, strides=strides)
        return np.ascontiguousarray(rows)


def _state(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_ino, found.st_size, found.st_mtime_ns


class ParquetRows:
    """Columns of Parquet files, read row group by row group.

    Parameters
    ----------
    fragments : sequence of pyarrow.dataset.Fragment
        Each a row group.
    ends : sequence of int
        The rows up to the end of each.
    schema : pyarrow.Schema
    columns : sequence of str
    is_one : bool
        Whether one column is wanted, as a vector: of numbers, or of labels of any kind.
    """

    def __init__(
        self, fragments: Sequence[Fragment], ends: Sequence[int], schema: Schema, columns: Sequence[str],
        is_one: bool = False,
    ) -> None:  # fmt: skip
        self.fragments, self.ends, self.schema = fragments, ends, schema
        self.columns, self.is_one = list(columns), is_one

    @classmethod
    def of(cls, dataset: Dataset) -> ParquetRows:
        """Return all columns of a dataset."""
        fragments = [group for file in dataset.get_fragments() for group in file.split_by_row_group()]
        sizes = (sum(group.num_rows for group in fragment.row_groups) for fragment in fragments)
        return cls(fragments, list(accumulate(sizes)), dataset.schema, dataset.schema.names)

    def choose(self, columns: Sequence[str], is_one: bool = False) -> ParquetRows:
        """Return some of the columns, or one."""
        return ParquetRows(self.fragments, self.ends, self.schema, columns, is_one)

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows, and columns unless it is one."""
        n_rows = self.ends[-1] if self.ends else 0
        return (n_rows,) if self.is_one else (n_rows, len(self.columns))

    def refuse_text(self) -> None:
        """Say which column does not hold numbers, if there is one."""
        from pyarrow import types

        for name in self.columns:
            kind = self.schema.field(name).type
            if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
                raise ValueError(
                    f"Column {name!r} of X is expected to hold numbers, got {kind}; encode it, or leave it out: "
                    "pyarrow.dataset.dataset(path, schema=...) takes the columns to be read."
                )

    def __getitem__(self, part: slice) -> Values:
        table = self.table(part)
        if self.is_one:
            column = table.column(0)
            column = column.cast(column.type.value_type) if hasattr(column.type, "value_type") else column
            return np.asarray(column.to_numpy())
        return np.column_stack([column.to_numpy().astype(np.float64) for column in table.columns])

    def table(self, part: slice) -> Table:
        """Return some rows as a table."""
        import pyarrow

        begin, end, _ = part.indices(self.shape[0])
        tables = [self.schema.empty_table().select(self.columns)]
        for fragment, first, last in zip(self.fragments, [0, *self.ends], self.ends, strict=False):
            if first < end and begin < last:
                try:
                    table = fragment.to_table(schema=self.schema, columns=self.columns)
                except (OSError, pyarrow.ArrowException) as error:
                    raise _changed(fragment.path, f"got {error}") from error
                if table.num_rows != last - first:
                    raise _changed(fragment.path, f"got {table.num_rows} rows in place of {last - first}")
                tables.append(table.slice(max(begin - first, 0), min(end, last) - max(begin, first)))
        return pyarrow.concat_tables(tables)


def _changed(path: str | Path, what: str) -> ValueError:
    return ValueError(
        f"The file {str(path)!r} is expected to stay as it is while it is read, {what}; fit again when nobody "
        "writes to it."
    )


def _source(values: Any) -> Any:
    """Return rows of what a name or a dataset says; all that is neither as it is."""
    if type(values).__module__.startswith("pyarrow") and hasattr(values, "get_fragments"):
        return ParquetRows.of(values)
    if not isinstance(values, str | PathLike):
        return values
    path = Path(values)
    try:
        if path.is_dir() or path.suffix in _PARQUET:
            return ParquetRows.of(_parquet(path))
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ValueError(
            "A name in the place of an array is expected to be that of a .npy or Parquet file, or of a folder of the "
            f"latter, got {os.fspath(values)!r} ({error}); write one, or pass an array."
        ) from error


def _parquet(path: Path) -> Dataset:
    try:
        import pyarrow.dataset
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"Parquet files such as {str(path)!r} take pyarrow, which is not installed: pip install pyarrow, or "
            "write .npy files.",
            name=error.name,
        ) from error
    return pyarrow.dataset.dataset(path, format="parquet", partitioning="hive")


# Rows of files as chunks


class ArrayBlocks:
    """Blocks of rows of X, y and sample weights that need not fit into memory.

    Parameters
    ----------
    *sources : array-like or None
        Memory-mapped, in memory, or anything that can be sliced by rows.
    ends : sequence of int
        Where chunks end.

    Examples
    --------
    >>> chunks = ArrayBlocks(np.arange(6.0).reshape(3, 2), np.arange(3.0), None, ends=[2, 3])
    >>> len(chunks), chunks.block(1).X
    (2, array([[4., 5.]]))
    """

    def __init__(self, *sources: RowSource | None, ends: Sequence[int]) -> None:
        self.sources, self.ends = [each if each is None else FileRows.of(each) for each in sources], list(ends)

    def __len__(self) -> int:
        return len(self.ends)

    def block(self, index: int) -> Block:
        """Return the data of a chunk."""
        part = slice(self.ends[index - 1] if index else 0, self.ends[index])
        try:
            return Block(*(None if source is None else source[part] for source in self.sources))
        except ValueError as error:
            raise ValueError(f"Chunk {index} of the data: {error}") from error


class ExecutorEngine:
    """The smallest engine: asks chunks by an executor, threads unless another one is given.

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


class ArrayChunks(Chunks):
    """An X that is read chunk by chunk, so that it need not fit into memory.

    ``ATkClassifier().fit(ArrayChunks(X), y)`` finds the optimum and the certificate of ``fit(X, y)``. X is read twice
    for a Newton step; some four numbers per row stay in memory, and nothing else but a sample of the rows. A
    memory-mapped array that is passed as it is, not in here, is taken for an array in memory.

    Parameters
    ----------
    X : array of shape (n_samples, n_features), path-like, or pyarrow.dataset.Dataset
        Anything that can be sliced by rows, such as an array in a memory-mapped file; or the name of a .npy file, of a
        Parquet file or of a folder of these. In Parquet files, y and weights may be columns, which are named in their
        places; all others are features, and have to hold numbers.
    chunk_size : int, default=None
        Rows in a chunk; if None, those of some 64 MB. Row groups of Parquet files stay whole: a chunk has more rows
        where one of them has.
    executor : concurrent.futures.Executor, default=None
        Works on chunks; if None, threads, as many as there are cores. Processes open files by themselves.
    checkpoint : path-like, default=None
        A file to note in what was reached: a fit that was interrupted goes on from there if it is started again. It is
        removed when the fit ends. One fit has it at a time.

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
        self.X = _source(X)
        shape = getattr(self.X, "shape", None)
        if shape is None or len(shape) != 2:
            raise ValueError(
                "X is expected to be an array of two dimensions, memory-mapped or otherwise sliceable by rows, or the "
                f"name of a .npy or Parquet file, got {type(X).__name__} of shape {shape}."
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
        if not isinstance(self.X, ParquetRows):
            return [*range(rows, n_rows, rows), n_rows]
        ends = [0]
        for end, following in pairwise([*self.X.ends, n_rows + rows]):
            if following - ends[-1] > rows:
                ends.append(end)
        return ends[1:]

    def open(self, y: Any, sample_weight: Any = None) -> ChunkedData:
        """Return X beside targets and weights, as an executor reads them.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            Or the name of a column of X in Parquet files, or of a .npy file; so are the weights.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        data : ChunkedData
        """
        X, names = self.X, None
        if isinstance(X, ParquetRows):
            beside = [each for each in (y, sample_weight) if isinstance(each, str)]
            X = X.choose([name for name in X.columns if name not in beside])
            X.refuse_text()
            names = X.columns
        weight = None if sample_weight is None else self._beside("sample_weight", sample_weight)
        blocks = ArrayBlocks(X, self._beside("y", y), weight, ends=self.ends())

        def spread(columns: list[ChunkedWeights]) -> Array:
            """Return the weights of all samples, a column per problem."""
            out = np.empty((blocks.ends[-1], len(columns)))
            for index, (begin, end) in enumerate(pairwise([0, *blocks.ends])):
                block = blocks.block(index)
                for place, column in enumerate(columns):
                    out[begin:end, place] = column.make(block, index)
            return out

        engine = ExecutorEngine(blocks, self.executor)
        return ChunkedData(engine, int(X.shape[1]), names, spread, n_reads_to_spread=1)

    def _beside(self, name: str, column: Any) -> RowSource:
        """Return a column that can be sliced as X is."""
        if isinstance(self.X, ParquetRows) and isinstance(column, str) and column in self.X.columns:
            return self.X.choose([column], is_one=True)
        column = _source(column)
        column = column.to_numpy() if hasattr(column, "to_numpy") else column
        column = column if hasattr(column, "shape") else np.asarray(column)
        if column.shape[:1] != self.X.shape[:1]:
            raise ValueError(
                f"{name} is expected to be as long as X, which has {self.X.shape[0]} rows, got shape {column.shape}."
            )
        return column  # type: ignore[no-any-return]

    def map_rows(self, function: Callable[[Rows], Array]) -> Array:
        """Return what a function of rows gives for all of them, chunk after chunk.

        Parameters
        ----------
        function : callable
            Takes rows of X, returns an array with an entry for each, such as ``model.predict``. Of Parquet files it
            gets tables: with the features by whose names the model was fitted, if it is a method of one that knows.

        Returns
        -------
        values : ndarray of shape (n_samples, ...)
        """
        parts = [slice(begin, end) for begin, end in pairwise([0, *self.ends()])]
        if isinstance(self.X, ParquetRows):
            known = getattr(getattr(function, "__self__", None), "feature_names_in_", self.X.columns)
            X = self.X.choose([name for name in known if name in self.X.columns])
            return np.concatenate([function(X.table(part)) for part in parts])
        source = FileRows.of(self.X)
        return np.concatenate([function(source[part]) for part in parts])
