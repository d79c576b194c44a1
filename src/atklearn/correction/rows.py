"""What a correction sees of a row: the predictions of models, and the columns of X that matter, as numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import OneHotEncoder

from atklearn.encoding.frames import as_objects, column_names, has_categories, has_dates
from atklearn.losses.individual import Array

__all__ = ["FARTHEST", "MOST_COLUMNS", "RowEncoder", "SeenColumns"]

# So many columns of X at most: those that follow the residual most closely. More help nobody (docs/decisions/0030), and
# a correction has to stay cheap beside its model.
MOST_COLUMNS = 40
# Features farther out than so many standard deviations are taken to be there: a linear correction extrapolates.
FARTHEST = 8.0
# A variance below this part of the mean square is rounding.
_NO_VARIANCE = 1e-12
_MOST_CATEGORIES = 9  # the eight most frequent ones, and the others together


class RowEncoder(TransformerMixin, BaseEstimator):
    """Makes numbers of the columns of arrays and frames.

    Numbers stay, missing ones become the median. Dates become seconds. Of other columns the eight most frequent values
    get a column each, the rest one together. Sparse matrices pass as they are.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"size": [1.0, None, 3.0], "kind": ["a", "b", "a"]})
    >>> RowEncoder().fit_transform(frame)
    array([[1., 1., 0.],
           [2., 0., 1.],
           [3., 1., 0.]])
    """

    def fit(self, X: Any, y: object = None) -> Self:  # noqa: ARG002
        """Learn which columns are numbers, their medians, and the values of the others.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)
        y : None

        Returns
        -------
        self : RowEncoder
        """
        self.medians_: dict[int, float] = {}
        self.categories_: list[int] = []
        self.encoder_: OneHotEncoder | None = None
        for place in range(0 if sp.issparse(X) else int(np.shape(X)[1])):
            values = _numbers(X, place)
            if values is None:
                self.categories_.append(place)
            else:
                seen = values[np.isfinite(values)]
                self.medians_[place] = float(np.median(seen)) if seen.size else 0.0
        if self.categories_:
            self.encoder_ = OneHotEncoder(
                max_categories=_MOST_CATEGORIES, handle_unknown="infrequent_if_exist", sparse_output=False
            ).fit(_texts(X, self.categories_))
        return self

    def transform(self, X: Any) -> Any:
        """Return the columns of other rows as numbers.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)

        Returns
        -------
        numbers : {ndarray, sparse matrix} of shape (n_samples, n_outputs)
        """
        if sp.issparse(X):
            return sp.csr_array(X)
        if self.encoder_ is None and _is_all_numbers(X):
            return np.asarray(X)
        columns = []
        for place, median in self.medians_.items():
            values = _numbers(X, place)
            if values is None:
                raise ValueError(
                    f"Column {place} is expected to be numbers, as it was in fit, got text; check the columns of X."
                )
            columns.append(np.where(np.isfinite(values), values, median))
        numbers = np.column_stack(columns) if columns else np.empty((np.shape(X)[0], 0))
        if self.encoder_ is None:
            return numbers
        return np.hstack([numbers, self.encoder_.transform(_texts(X, self.categories_))])


def _is_all_numbers(X: Any) -> bool:
    """Say whether this is an array of numbers, none of them missing."""
    if column_names(X) is not None:
        return False
    values = np.asarray(X)
    return values.dtype.kind in "biuf" and bool(np.isfinite(values.sum()) or np.isfinite(values).all())


def _numbers(X: Any, place: int) -> Array | None:
    """Return a column as numbers, missing ones as NaN; None if it is not one of numbers."""
    names = column_names(X)
    if names is None:
        column = np.asarray(X)[:, place]
    else:
        column = X[names[place]]
        if has_categories(column):
            return None
        if has_dates(column):
            days = np.asarray(column, dtype="datetime64[s]")
            return np.where(np.isnat(days), np.nan, days.astype(np.float64))
    values = np.asarray(column)
    if values.dtype == object:
        values = np.array([np.nan if value is None or type(value).__name__ == "NAType" else value for value in values])
    if values.dtype.kind not in "biufO":
        return None
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError):
        return None


def _texts(X: Any, places: list[int]) -> npt.NDArray[Any]:
    """Return columns as text, in which anything can be compared with anything."""
    return np.asarray(np.vectorize(str, otypes=[object])(as_objects(X, places)))


@dataclass(frozen=True)
class SeenColumns:
    """The columns that a correction takes: the predictions, and those of X that follow the residual, standardised.

    Attributes
    ----------
    columns : ndarray of shape (n_columns,)
        Those of X, by their places.
    centers, scales : ndarray of shape (n_predictions + n_columns,)
    n_predictions : int
    """

    columns: npt.NDArray[np.intp]
    centers: Array
    scales: Array
    n_predictions: int

    @classmethod
    def fit(cls, predictions: Array, X: Any, residuals: Array, mass: Array, reach: Array) -> SeenColumns:
        """Return the view of rows.

        Parameters
        ----------
        predictions : ndarray of shape (n_samples, n_predictions)
        X : {ndarray, sparse matrix} of shape (n_samples, n_features)
        residuals : ndarray of shape (n_targets, n_samples)
            What the correction is to follow.
        mass : ndarray of shape (n_samples,)
        reach : ndarray of shape (n_predictions,)
            What standardised predictions are multiplied with: the larger, the less their weights are penalised.
        """
        share = mass / mass.sum()
        of_predictions = _moments(predictions, share)
        centers, deviations = _moments(X, share)
        columns = np.flatnonzero(deviations > 0.0)
        if columns.size > MOST_COLUMNS:
            centred = share * (residuals - (residuals @ share)[:, None])
            follows = np.abs(np.asarray(centred @ X)) / np.where(deviations > 0.0, deviations, np.inf)
            columns = np.sort(np.argsort(-follows.max(axis=0), kind="stable")[:MOST_COLUMNS])
        scales = np.where(of_predictions[1] > 0.0, of_predictions[1], 1.0) / reach
        return cls(
            columns,
            np.append(of_predictions[0], centers[columns]),
            np.append(scales, deviations[columns]),
            predictions.shape[1],
        )

    def transform(self, predictions: Array, X: Any) -> Array:
        """Return what the correction sees of rows, shape (n_samples, n_predictions + n_columns)."""
        seen = np.empty((len(predictions), self.scales.size))
        seen[:, : self.n_predictions] = predictions
        if self.columns.size:
            features = seen[:, self.n_predictions :]
            if sp.issparse(X):
                features[:] = X[:, self.columns].toarray()
            else:
                for place, column in enumerate(self.columns):  # without a copy of X
                    features[:, place] = X[:, column]
        seen -= self.centers
        seen /= self.scales
        features = seen[:, self.n_predictions :]
        np.clip(features, -FARTHEST, FARTHEST, out=features)
        return seen


def _moments(X: Any, share: Array) -> tuple[Array, Array]:
    """Return mean and standard deviation of every column, zero where there is only rounding."""
    means = np.asarray(share @ X, dtype=np.float64)
    if sp.issparse(X):
        squares = np.asarray(share @ X.multiply(X), dtype=np.float64)
    else:
        squares = np.einsum("i,ij,ij->j", share, X, X, dtype=np.float64)
    variances = squares - means**2
    return means, np.sqrt(np.where(variances > _NO_VARIANCE * squares, variances, 0.0))
