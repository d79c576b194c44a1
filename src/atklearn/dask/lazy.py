"""Predictions on Dask collections, computed when they are wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import numpy.typing as npt
import pandas as pd

from atklearn.chunked.chunk import Block
from atklearn.chunked.chunk_store import ChunkedWeights
from atklearn.dask.dask_blocks import DaskBlocks

__all__ = ["lazy_prediction", "lazy_weights"]


def lazy_prediction(predict: Callable[[Any], Any], X: Any) -> da.Array:
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
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    options: dict[str, Any] = {"drop_axis": 1} if example.ndim == 1 else {"chunks": (X.chunks[0], example.shape[1:])}
    return X.map_blocks(_answer, predict, example, dtype=example.dtype, name=None, token=name, meta=example, **options)


def _example(predict: Callable[[Any], Any], X: Any) -> npt.NDArray[Any]:
    """Return the answer for no rows, to tell its kind: that for a row of zeros, without the row."""
    if isinstance(X, dd.DataFrame):
        row: Any = pd.DataFrame(0, index=[0], columns=X.columns).astype(dict(X.dtypes))
    else:
        row = np.zeros((1, X.shape[1]), dtype=X.dtype)
    answer: npt.NDArray[Any] = predict(row)
    return answer[:0]


def _answer(part: Any, predict: Callable[[Any], Any], example: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the answer for a chunk, which may have no rows."""
    if part.shape[0] == 0:
        return example
    answer: npt.NDArray[Any] = predict(part)
    return answer


def lazy_weights(blocks: DaskBlocks, columns: list[ChunkedWeights]) -> da.Array:
    """Return the weights of all samples, a column per problem, made from the data when they are wanted."""
    make = dask.delayed(_weigh, pure=True, name="atk-weights")
    parts = []
    for index in range(len(blocks)):
        y, weight = (None if each is None else each[index] for each in (blocks.y, blocks.weight))
        made = make(columns, blocks.X[index], y, weight, index)
        parts.append(da.from_delayed(made, shape=(np.nan, len(columns)), dtype=np.float64))
    return da.concatenate(parts)


def _weigh(columns: list[ChunkedWeights], X: Any, y: Any, weight: Any, index: int) -> npt.NDArray[Any]:
    return np.column_stack([column.make(Block(X, y, weight), index) for column in columns])
