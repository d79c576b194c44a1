"""Dask collections as chunks of rows: X, y and sample weights cut alike, and what is made of them lazily."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import Any, Literal, TypeAlias

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
from dask.array.utils import meta_from_array
from dask.delayed import Delayed
from distributed import Client, futures_of

from atklearn.chunked.chunk import Block, Rows, Values
from atklearn.chunked.chunk_store import ChunkedWeights
from atklearn.chunked.chunks import ChunkedData, Chunks
from atklearn.dask.engine import DaskBlocks, dask_engine
from atklearn.losses.individual import Array
from atklearn.runtime.messages import shown

__all__ = ["DaskChunks", "lazy_prediction", "lazy_weights", "split_rows"]

Collection: TypeAlias = Any
"""A Dask array, dataframe or series."""


class DaskChunks(Chunks):
    """A Dask array or dataframe as X, with the cluster that a fit is to use.

    ``ATkClassifier().fit(X, y)`` takes collections as they are; in here, they come with what only Dask has to know. The
    optimum and the certificate are those of all rows. Rows stay where they are; sums travel.

    Parameters
    ----------
    X : dask.array.Array or dask.dataframe.DataFrame of shape (n_samples, n_features)
        Blocks are arrays or SciPy's sparse matrices.
    client : distributed.Client, default=None
        The cluster. If None, that of this process, if it has one, else a scheduler in this process: that of Dask's
        configuration, or threads.
    persist : bool or "auto", default="auto"
        Whether a cluster keeps the data in memory during the fit: "auto" if they take at most half of what all workers
        have. Data that were persisted before are used as they are; what is not in memory is read again for every pass.
    checkpoint : path-like, default=None
        A file to note in what was reached: a fit that was interrupted, or lost its cluster, goes on from there if it is
        started again. It is removed when the fit ends.

    Examples
    --------
    >>> import dask.array as da
    >>> from atklearn import ATkClassifier
    >>> from atklearn.dask import DaskChunks
    >>> X = da.random.default_rng(0).standard_normal((1000, 5), chunks=(250, 5))
    >>> model = ATkClassifier(k=0.5).fit(DaskChunks(X, persist=True), X[:, 0] > 0.0)
    >>> bool(model.dual_gap_ <= 1e-6 * model.objective_), model.predict(X)
    (True, dask.array<atk-predict, shape=(1000,), dtype=bool, chunksize=(250,), chunktype=numpy.ndarray>)
    """

    def __init__(
        self,
        X: Any,
        *,
        client: Client | None = None,
        persist: bool | Literal["auto"] = "auto",
        checkpoint: str | PathLike[str] | None = None,
    ) -> None:
        super().__init__(checkpoint=checkpoint)
        if persist not in (True, False, "auto"):
            raise ValueError(f"persist is expected to be True, False or 'auto', got {shown(persist)}.")
        self.X, self.client, self.persist = X, client, persist

    def open(self, y: Any, sample_weight: Any = None) -> ChunkedData:
        """Return X beside targets and weights, as Dask computes them.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            A Dask array or series that is cut as X is, or has known sizes of chunks; so are the weights.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        data : ChunkedData
        """
        blocks = split_rows(self.X, y, sample_weight)
        engine = dask_engine(blocks, self.client, self.persist)
        return ChunkedData(
            engine, blocks.n_features, blocks.feature_names, lambda columns: lazy_weights(blocks, columns)
        )

    def map_rows(self, function: Callable[[Rows], Values]) -> Any:
        """Return what a function of rows gives for all of them, to be computed when it is wanted.

        Parameters
        ----------
        function : callable
            Takes rows of X, returns an array with an entry for each, such as ``model.predict``.

        Returns
        -------
        values : dask.array.Array of shape (n_samples, ...)
        """
        return lazy_prediction(function, self.X)


# Cutting


def split_rows(X: Collection, y: Any = None, sample_weight: Any = None) -> DaskBlocks:
    """Cut X, y and sample weights into the chunks that X has.

    Parameters
    ----------
    X : dask.array.Array or dask.dataframe.DataFrame
        With blocks that are arrays or SciPy's sparse matrices; chunks along the columns are joined.
    y, sample_weight : dask.array.Array, dask.dataframe.Series, or DataFrame of one column; default=None
        Cut where X is, as far as the sizes of chunks are known; else there must be as many chunks. Where those of X
        are known, NumPy arrays and pandas series will do.

    Examples
    --------
    >>> X, y = da.ones((10, 3), chunks=(4, 2)), da.arange(10, chunks=5)
    >>> blocks = split_rows(X, y)
    >>> len(blocks), blocks.n_features, blocks.y[2].compute()
    (3, 3, array([8, 9]))
    """
    names = nbytes = None
    if isinstance(X, dd.DataFrame):
        text = [name for name, kind in X.dtypes.items() if isinstance(kind, pd.StringDtype)]
        if text:
            raise ValueError(
                f"X is expected to have columns of numbers, got text in {shown(text[0])}; encode it, or leave it out."
            )
        if all(isinstance(name, str) for name in X.columns):
            names = list(X.columns)
    elif not isinstance(X, da.Array):
        raise ValueError(
            f"X is expected to be a Dask array or dataframe, got {_kind(X)}; pass data in memory to the "
            "estimators as they are, or make a Dask array of them with dask.array.from_array."
        )
    elif X.ndim != 2 or np.isnan(X.shape[1]):
        raise ValueError(
            f"X is expected to have two dimensions and a known number of columns, got shape {shown(X.shape)}; "
            "reshape it, or give its shape where it is made."
        )
    else:
        X = _whole_rows(X)
        # The blocks of a sparse array are smaller than its shape tells.
        nbytes = int(X.nbytes) if _is_known(X) and isinstance(meta_from_array(X), np.ndarray) else None
    beside = {"y": y, "sample_weight": sample_weight}
    columns = {name: _checked(X, column, name) for name, column in beside.items() if column is not None} | {"X": X}
    parts = {name: _delayed(column) for name, column in columns.items()}
    # Where Dask optimises, it may read several small files as one partition, how many depends on the columns wanted:
    # then X and y, optimised one by one, are no longer cut alike.
    if any(len(parts[name]) != column.npartitions for name, column in columns.items()):
        parts = {name: _delayed(column, optimise=False) for name, column in columns.items()}
    n_features = int(X.shape[1])
    return DaskBlocks(parts["X"], parts.get("y"), parts.get("sample_weight"), n_features, names, nbytes)


def _whole_rows(X: da.Array) -> da.Array:
    """Return an array without cuts along the columns."""
    return X.rechunk({1: -1}) if X.ndim == 2 and X.numblocks[1] > 1 else X


def _checked(X: Collection, column: Any, name: str) -> Collection:
    """Return a column of numbers or labels as a collection that is cut as X is."""
    if not isinstance(column, da.Array | dd.DataFrame | dd.Series):
        if not _is_known(X):
            raise ValueError(
                f"{name} is expected to be a Dask array or series where the sizes of the chunks of X are not known, "
                f"got {_kind(column)}; take it from the same dataframe, or call compute_chunk_sizes() on an array X."
            )
        array = np.atleast_1d(column)
        # Cut at once, where it fits: chunks that share nothing are read alone.
        rows = X.chunks[0] if array.shape[0] == X.shape[0] else -1
        column = da.from_array(array, chunks=(rows, *array.shape[1:]))
    width = len(column.columns) if isinstance(column, dd.DataFrame) else int(np.prod(column.shape[1:]))
    if column.ndim > 2 or width != 1:
        raise ValueError(f"{name} is expected to be one column, got {width}; choose one of them.")
    if isinstance(column, da.Array):
        column = _whole_rows(column)
        if _is_known(X) and _is_known(column):
            if column.shape[0] != X.shape[0]:
                raise ValueError(
                    f"{name} is expected to have an entry for every row of X, got {column.shape[0]} for {X.shape[0]} "
                    "rows; make both from the same data."
                )
            return column if column.chunks[0] == X.chunks[0] else column.rechunk({0: X.chunks[0]})
    if column.npartitions != X.npartitions:
        raise ValueError(
            f"{name} is expected to have as many chunks as X where their sizes are not known, got {column.npartitions} "
            f"for {X.npartitions}; take both from the same dataframe, or call compute_chunk_sizes() on arrays."
        )
    return column


def _delayed(collection: Collection, *, optimise: bool = True) -> tuple[Delayed, ...]:
    """Return the chunks of a collection; futures must not be optimised, for Dask would lose hold of them."""
    chunks = collection.to_delayed(optimize_graph=optimise and not futures_of(collection))
    return tuple(np.asarray(chunks, dtype=object).reshape(-1))


def _is_known(collection: Collection) -> bool:
    """Say whether it is known how many rows every chunk has."""
    return isinstance(collection, da.Array) and not np.isnan(collection.chunks[0]).any()


def _kind(data: object) -> str:
    return f"{type(data).__module__.split('.')[0]}.{type(data).__name__}"


# What is computed when it is wanted


def lazy_prediction(predict: Callable[[Rows], Values], X: Collection) -> da.Array:
    """Return what a model says of every chunk.

    Parameters
    ----------
    predict : callable
        It travels to the chunks; with a ``__name__``, which tasks are called by.
    X : dask.array.Array or dask.dataframe.DataFrame

    Returns
    -------
    dask.array.Array
        Of a dataframe, with chunks of unknown size.
    """
    example = _example(predict, X)
    name = f"atk-{getattr(predict, '__name__', 'rows')}"
    if isinstance(X, dd.DataFrame):
        call = dask.delayed(_answer, pure=True, name=name)
        shape = (np.nan, *example.shape[1:])
        parts = [
            da.from_delayed(call(part, predict, example), shape=shape, dtype=example.dtype) for part in X.to_delayed()
        ]
        return da.concatenate(parts)
    X = _whole_rows(X)
    options: dict[str, object] = {"drop_axis": 1} if example.ndim == 1 else {"chunks": (X.chunks[0], example.shape[1:])}
    return X.map_blocks(_answer, predict, example, dtype=example.dtype, name=None, token=name, meta=example, **options)


def _example(predict: Callable[[Rows], Values], X: Collection) -> Values:
    """Return the answer for no rows, to tell its kind: that for a row of zeros, without the row."""
    if isinstance(X, dd.DataFrame):
        row: Rows = pd.DataFrame(0, index=[0], columns=X.columns).astype(dict(X.dtypes))
    else:
        row = np.zeros((1, X.shape[1]), dtype=X.dtype)
    return predict(row)[:0]


def _answer(part: Rows, predict: Callable[[Rows], Values], example: Values) -> Values:
    """Return the answer for a chunk, which may have no rows."""
    return predict(part) if part.shape[0] else example


def lazy_weights(blocks: DaskBlocks, columns: list[ChunkedWeights]) -> da.Array:
    """Return the weights of all samples, a column per problem, made from the data when they are wanted."""
    make = dask.delayed(_weigh, pure=True, name="atk-weights")
    parts = []
    for index in range(len(blocks)):
        y, weight = (None if each is None else each[index] for each in (blocks.y, blocks.weight))
        made = make(columns, blocks.X[index], y, weight, index)
        parts.append(da.from_delayed(made, shape=(np.nan, len(columns)), dtype=np.float64))
    return da.concatenate(parts)


def _weigh(columns: list[ChunkedWeights], X: Rows, y: Values, weight: Values, index: int) -> Array:
    return np.column_stack([column.make(Block(X, y, weight), index) for column in columns])
