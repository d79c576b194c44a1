"""Dask collections as chunks of rows: X, y and sample weights cut at the same places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
from dask.array.utils import meta_from_array
from dask.delayed import Delayed
from distributed import futures_of

from atklearn.runtime.messages import shown

__all__ = ["DaskBlocks", "is_array_or_frame", "split_rows"]

Delays: TypeAlias = tuple[Delayed, ...]


@dataclass(frozen=True)
class DaskBlocks:
    """The chunks of a fit, none of them computed.

    Attributes
    ----------
    X : tuple of Delayed
        The features of each chunk: an array, a sparse matrix or a dataframe.
    y, weight : tuple of Delayed, or None
        The targets and sample weights of each chunk.
    n_features : int
    feature_names : list of str, or None
        The columns of a dataframe, if all are strings.
    nbytes : int or None
        What all features take in memory, where that can be told in advance.
    """

    X: Delays
    y: Delays | None
    weight: Delays | None
    n_features: int
    feature_names: list[str] | None = None
    nbytes: int | None = None

    def __len__(self) -> int:
        return len(self.X)


def is_array_or_frame(data: Any) -> bool:
    """Say whether data are a Dask array, dataframe or series.

    Examples
    --------
    >>> is_array_or_frame(da.ones(3)), is_array_or_frame(np.ones(3))
    (True, False)
    """
    return isinstance(data, da.Array | dd.DataFrame | dd.Series)


def split_rows(X: Any, y: Any = None, sample_weight: Any = None) -> DaskBlocks:
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
    if isinstance(X, dd.DataFrame):
        return _split_frame(X, y, sample_weight)
    if not isinstance(X, da.Array):
        raise ValueError(
            f"X is expected to be a Dask array or dataframe, got {_kind(X)}; pass data in memory to the "
            "estimators as they are, or make a Dask array of them with dask.array.from_array."
        )
    if X.ndim != 2 or np.isnan(X.shape[1]):
        raise ValueError(
            f"X is expected to have two dimensions and a known number of columns, got shape {shown(X.shape)}; "
            "reshape it, or give its shape where it is made."
        )
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    # The blocks of a sparse array are smaller than its shape tells.
    nbytes = int(X.nbytes) if _is_known(X) and isinstance(meta_from_array(X), np.ndarray) else None
    return DaskBlocks(
        X=_delayed(X),
        y=_beside(X, y, "y"),
        weight=_beside(X, sample_weight, "sample_weight"),
        n_features=int(X.shape[1]),
        nbytes=nbytes,
    )


def _split_frame(X: dd.DataFrame, y: Any, sample_weight: Any) -> DaskBlocks:
    """Cut a dataframe, and what is beside it, where it is cut."""
    text = [name for name, kind in X.dtypes.items() if isinstance(kind, pd.StringDtype)]
    if text:
        raise ValueError(
            f"X is expected to have columns of numbers, got text in {shown(text[0])}; encode it, or leave it out."
        )
    beside = {
        name: _checked(X, column, name)
        for name, column in (("y", y), ("sample_weight", sample_weight))
        if column is not None
    }
    columns = [X, *beside.values()]
    parts = [_delayed(column) for column in columns]
    # Where Dask optimises, it may read several small files as one partition, how many depends on the columns wanted:
    # then X and y, optimised one by one, are no longer cut alike.
    if any(len(part) != column.npartitions for part, column in zip(parts, columns, strict=True)):
        parts = [_delayed(column, optimise=False) for column in columns]
    found = dict(zip(beside, parts[1:], strict=True))
    names = list(X.columns) if all(isinstance(name, str) for name in X.columns) else None
    return DaskBlocks(parts[0], found.get("y"), found.get("sample_weight"), len(X.columns), names)


def _beside(X: Any, column: Any, name: str) -> Delays | None:
    """Return the chunks of a column of numbers or labels, as X is cut."""
    return None if column is None else _delayed(_checked(X, column, name))


def _checked(X: Any, column: Any, name: str) -> Any:
    """Return a column of numbers or labels as a collection that is cut as X is."""
    if not is_array_or_frame(column):
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
        return _cut_alike(X, column, name)
    _check_count(X, column, name)
    return column


def _delayed(collection: Any, *, optimise: bool = True) -> Delays:
    """Return the chunks of a collection; futures must not be optimised, for Dask would lose hold of them."""
    chunks = collection.to_delayed(optimize_graph=optimise and not futures_of(collection))
    return tuple(np.asarray(chunks, dtype=object).reshape(-1))


def _cut_alike(X: Any, column: da.Array, name: str) -> da.Array:
    """Return an array cut where X is."""
    if column.ndim == 2 and column.numblocks[1] > 1:
        column = column.rechunk({1: -1})
    if not (_is_known(X) and _is_known(column)):
        _check_count(X, column, name)
        return column
    if column.shape[0] != X.shape[0]:
        raise ValueError(
            f"{name} is expected to have an entry for every row of X, got {column.shape[0]} for {X.shape[0]} rows; "
            "make both from the same data."
        )
    return column if column.chunks[0] == X.chunks[0] else column.rechunk({0: X.chunks[0]})


def _check_count(X: Any, column: Any, name: str) -> None:
    if column.npartitions != X.npartitions:
        raise ValueError(
            f"{name} is expected to have as many chunks as X where their sizes are not known, got {column.npartitions} "
            f"for {X.npartitions}; take both from the same dataframe, or call compute_chunk_sizes() on arrays."
        )


def _is_known(collection: Any) -> bool:
    """Say whether it is known how many rows every chunk has."""
    return isinstance(collection, da.Array) and not np.isnan(collection.chunks[0]).any()


def _kind(data: Any) -> str:
    return f"{type(data).__module__.split('.')[0]}.{type(data).__name__}"
