"""Columns of a table as trees take them: numbers, codes in place of categories, NaN in place of what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.preprocessing import OrdinalEncoder
from sklearn.utils import check_array
from sklearn.utils.validation import _check_y, check_consistent_length, validate_data

__all__ = ["Columns"]

_CATEGORICAL = ("category", "categorical", "enum", "dictionary")  # what pandas, polars and Arrow call them
_CHECKS: dict[str, Any] = {"dtype": [np.float64, np.float32], "ensure_all_finite": "allow-nan"}


class Columns:
    """Which columns are categories, and the codes of theirs that were there when it was fitted.

    Parameters
    ----------
    categorical_features : "from_dtype", sequence of str or int, or None
        "from_dtype" are the categorical columns of a DataFrame.

    Examples
    --------
    >>> from sklearn.base import BaseEstimator
    >>> columns = Columns([1])
    >>> X = np.array([[0.5, 7.0], [0.1, 3.0]])
    >>> columns.fit_transform(BaseEstimator(), X, [1.0, 2.0])[0], columns.categorical
    (array([[0.5, 1. ],
           [0.1, 0. ]]), [1])
    """

    def __init__(self, categorical_features: Any) -> None:
        self.categorical_features = categorical_features
        self.categorical: list[int] = []
        self.encoder: OrdinalEncoder | None = None

    def fit_transform(self, estimator: Any, X: Any, y: Any, *, y_numeric: bool = False) -> tuple[Any, npt.NDArray[Any]]:
        """Return the columns as numbers, and y; the estimator gets ``n_features_in_`` and ``feature_names_in_``."""
        self.categorical = self._find(X)
        if not self.categorical:
            checked: tuple[Any, npt.NDArray[Any]] = validate_data(
                estimator, X, y, accept_sparse="csr", y_numeric=y_numeric, **_CHECKS
            )
            return checked
        validate_data(estimator, X, y, skip_check_array=True)
        y = _check_y(y, y_numeric=y_numeric, estimator=estimator)
        check_consistent_length(X, y)
        self.encoder = OrdinalEncoder(
            handle_unknown="use_encoded_value", unknown_value=np.nan, encoded_missing_value=np.nan
        ).fit(_objects(X, self.categorical))
        return self._encode(X), y

    def transform(self, estimator: Any, X: Any) -> Any:
        """Return the columns of other rows as numbers; a category that was not there is missing."""
        if self.encoder is None:
            return validate_data(estimator, X, accept_sparse="csr", reset=False, **_CHECKS)
        validate_data(estimator, X, skip_check_array=True, reset=False)
        return self._encode(X)

    def _encode(self, X: Any) -> npt.NDArray[Any]:
        assert self.encoder is not None
        n_columns = np.shape(X)[1]
        out = np.empty((np.shape(X)[0], n_columns))
        numbers = [place for place in range(n_columns) if place not in self.categorical]
        if numbers:
            out[:, numbers] = check_array(_some(X, numbers), ensure_min_samples=0, **_CHECKS)
        out[:, self.categorical] = self.encoder.transform(_objects(X, self.categorical))
        return out

    def _find(self, X: Any) -> list[int]:
        """Return the places of the columns that are categories."""
        wanted = self.categorical_features
        names = _names(X)
        if wanted is None:
            return []
        if isinstance(wanted, str) and wanted == "from_dtype":
            if names is None:
                return []
            return [place for place, name in enumerate(names) if _kind(X[name]).startswith(_CATEGORICAL)]
        n_columns = np.shape(X)[1] if len(np.shape(X)) == 2 else 0
        places = [names.index(name) if names is not None and name in names else name for name in wanted]
        if not all(isinstance(place, int | np.integer) and 0 <= place < n_columns for place in places):
            raise ValueError(
                f'categorical_features is expected to be "from_dtype", None, or names or places of columns, '
                f"got {wanted!r} for {n_columns} columns."
            )
        return sorted({int(place) for place in places})


def _names(X: Any) -> list[Any] | None:
    """Return the names of the columns; None for an array. What Arrow calls columns are the values."""
    names = X.column_names if hasattr(X, "column_names") else getattr(X, "columns", None)
    return None if names is None else list(names)


def _kind(column: Any) -> str:
    """Return what a frame calls the type of a column."""
    return str(column.dtype if hasattr(column, "dtype") else column.type).lower()


def _some(X: Any, places: Sequence[int]) -> Any:
    """Return some columns."""
    names = _names(X)
    if names is None:
        return np.asarray(X)[:, places]
    some = [names[place] for place in places]
    return X.select(some) if hasattr(X, "column_names") else X[some]


def _objects(X: Any, places: Sequence[int]) -> npt.NDArray[Any]:
    """Return some columns as objects, so that text and numbers may stand side by side."""
    names = _names(X)
    if names is None:
        return np.asarray(X, dtype=object)[:, places]
    return np.column_stack([np.asarray(X[names[place]], dtype=object) for place in places])
