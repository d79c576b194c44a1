"""Predictions of rows by models that have not seen them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, clone
from sklearn.utils import _safe_indexing
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params

from atklearn.losses.individual import Array
from atklearn.selection.folds import Places, Split

__all__ = ["FittedModel", "cross_fit", "fit_models"]


@dataclass(frozen=True)
class FittedModel:
    """A model to fit, with what its ``fit`` takes beside X and y."""

    estimator: BaseEstimator
    params: Mapping[str, Any]

    def fitted(self, X: Any, y: npt.NDArray[Any], rows: Places | None = None) -> BaseEstimator:
        """Return a clone that is fitted to all or to some of the rows."""
        model, params = clone(self.estimator), dict(self.params)
        if rows is not None:
            params = _check_method_params(X, params, indices=rows)
            X, y = _safe_indexing(X, rows), y[rows]
        return model.fit(X, y, **params)


def cross_fit(
    models: Sequence[FittedModel],
    X: Any,
    y: npt.NDArray[Any],
    splits: Sequence[Split],
    predict: Callable[[BaseEstimator, Any], Array],
    n_jobs: int | None,
) -> tuple[Array, Places]:
    """Fit every model on every training part and predict the part left out.

    Returns
    -------
    predictions : ndarray of shape (n_samples, n_models * n_outputs)
        Those of the first model first; the mean, where a row was left out several times.
    known : ndarray of int
        The rows that were left out at all.
    """
    work = [(model, split) for model in models for split in splits]
    found = Parallel(n_jobs=n_jobs)(delayed(_predict_left_out)(model, X, y, split, predict) for model, split in work)
    times = np.zeros(len(y))
    for _, test in splits:
        times[test] += 1.0
    width = found[0].shape[1]
    sums = np.zeros((len(y), len(models) * width))
    for place, (part, (_, (_, test))) in enumerate(zip(found, work, strict=True)):
        own = place // len(splits) * width
        sums[test, own : own + width] += part
    known = np.flatnonzero(times)
    sums[known] /= times[known, None]
    return sums, known


def _predict_left_out(
    model: FittedModel, X: Any, y: npt.NDArray[Any], split: Split, predict: Callable[[BaseEstimator, Any], Array]
) -> Array:
    train, test = split
    return predict(model.fitted(X, y, train), _safe_indexing(X, test))


def fit_models(models: Sequence[FittedModel], X: Any, y: npt.NDArray[Any], n_jobs: int | None) -> list[BaseEstimator]:
    """Return clones of the models, fitted to all rows."""
    return list(Parallel(n_jobs=n_jobs)(delayed(model.fitted)(X, y) for model in models))
