"""Columns of arrays and of data frames, whoever made them: pandas, polars, Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

__all__ = ["as_objects", "column_names", "has_categories", "has_dates", "some_columns"]

_CATEGORIES = ("category", "categorical", "enum", "dictionary")  # what pandas, polars and Arrow call them
_DATES = ("date", "timestamp")


def column_names(X: Any) -> list[Any] | None:
    """Return the names of the columns; None for an array. What Arrow calls columns are the values."""
    names = X.column_names if hasattr(X, "column_names") else getattr(X, "columns", None)
    return None if names is None else list(names)


def has_categories(column: Any) -> bool:
    """Say whether the type of a column of a frame is one for categories."""
    return _kind(column).startswith(_CATEGORIES)


def has_dates(column: Any) -> bool:
    """Say whether the type of a column of a frame is one for dates."""
    return _kind(column).startswith(_DATES)


def _kind(column: Any) -> str:
    """Return what a frame calls the type of a column."""
    return str(column.dtype if hasattr(column, "dtype") else column.type).lower()


def some_columns(X: Any, places: Sequence[int]) -> Any:
    """Return the columns at some places, as what X is."""
    names = column_names(X)
    if names is None:
        return X[:, places] if sp.issparse(X) else np.asarray(X)[:, places]
    some = [names[place] for place in places]
    return X.select(some) if hasattr(X, "column_names") else X[some]


def as_objects(X: Any, places: Sequence[int]) -> npt.NDArray[Any]:
    """Return the columns at some places as objects, so that text and numbers may stand side by side."""
    names = column_names(X)
    if names is None:
        return np.asarray(X, dtype=object)[:, places]
    return np.column_stack([np.asarray(X[names[place]], dtype=object) for place in places])
