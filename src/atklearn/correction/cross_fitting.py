"""Predictions of rows by models that have not seen them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, clone
from sklearn.utils import _safe_indexing
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params

from atklearn.losses.individual import Array
from atklearn.selection.folds import Places, Split

__all__ = ["LeftOut", "ModelToFit", "cross_fit", "cross_fit_apart", "fit_models", "linear_share"]


_NONE: Places = np.zeros(0, dtype=np.intp)


@dataclass(frozen=True)
class ModelToFit:
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


class LeftOut(NamedTuple):
    """What models predict of rows they have not seen.

    Attributes
    ----------
    predictions : ndarray of shape (n_samples, n_models * n_outputs)
        Those of the first model first; the mean, where a row was left out several times.
    known : ndarray of int
        The rows that were left out at all.
    sampled : ndarray of shape (n_splits, n_sampled, n_models * n_outputs)
        What the models of every split predict of the same few rows.
    """

    predictions: Array
    known: Places
    sampled: Array


def cross_fit(
    models: Sequence[ModelToFit],
    X: Any,
    y: npt.NDArray[Any],
    splits: Sequence[Split],
    predict: Callable[[BaseEstimator, Any], Array],
    n_jobs: int | None,
    sample: Places | None = None,
) -> LeftOut:
    """Fit every model on every training part and predict the part left out, and a sample of rows."""
    parts = _predict_all(models, X, y, splits, predict, n_jobs, _NONE if sample is None else sample)
    predictions, known = _means(len(y), [test for _, test in splits], [part for part, _ in parts])
    return LeftOut(predictions, known, np.array([there for _, there in parts]))


def cross_fit_apart(
    models: Sequence[ModelToFit],
    X: Any,
    y: npt.NDArray[Any],
    splits: Sequence[Split],
    predict: Callable[[BaseEstimator, Any], Array],
    n_jobs: int | None,
) -> list[tuple[Places, Array]]:
    """Return, for every split, predictions of its training rows by models that have not seen the rows left out either.

    A split is judged on the rows it leaves out, and fits a correction to predictions of the others; those are by models
    that have seen the rows left out. Where models of different folds differ by something that the correction sees, it
    can tell from the difference what was left out: a gain that new rows do not have.
    """
    pairs, parts = [], []
    for (a, (train_a, test_a)), (b, (train_b, test_b)) in combinations(enumerate(splits), 2):
        both = np.intersect1d(train_a, train_b)
        if 0 < both.size < min(train_a.size, train_b.size):  # else one has not seen the other's, or nothing is left
            pairs.append((a, b))
            parts.append((both, np.union1d(test_a, test_b)))
    given = [part for part, _ in _predict_all(models, X, y, parts, predict, n_jobs, _NONE)]
    apart = []
    for place, (_, test) in enumerate(splits):
        own = [number for number, pair in enumerate(pairs) if place in pair]
        if own:
            values, there = _means(len(y), [parts[each][1] for each in own], [given[each] for each in own])
            there = np.setdiff1d(there, test)
            apart.append((there, values[there]))
        else:
            apart.append((_NONE, np.empty((0, 0))))
    return apart


def linear_share(predictions: Array, seen: Array) -> float:
    """Return how much of what models of different folds differ by is linear in what a correction sees.

    Parameters
    ----------
    predictions : ndarray of shape (n_splits, n_samples, n_outputs)
        Of the same rows.
    seen : ndarray of shape (n_samples, n_features)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2))
    >>> lines = X @ rng.normal(size=(5, 2, 1))
    >>> linear_share(lines, X), round(linear_share(lines**2, X), 1)
    (1.0, 0.2)
    """
    differences = predictions - predictions.mean(axis=0)
    size = float((differences**2).sum())
    if size == 0.0:
        return 0.0
    if 2 * (seen.shape[1] + 1) > len(seen):
        return 1.0  # too few rows to tell
    basis = np.linalg.qr(np.column_stack([np.ones(len(seen)), seen]))[0]
    return min(float(((basis.T @ differences) ** 2).sum()) / size, 1.0)


def _means(n_rows: int, rows: Sequence[Places], values: Sequence[Array]) -> tuple[Array, Places]:
    """Return the mean of the values of every row, shape (n_rows, n_values), and the rows that have any."""
    times, sums = np.zeros(n_rows), np.zeros((n_rows, values[0].shape[1]))
    for some, given in zip(rows, values, strict=True):
        times[some] += 1.0
        sums[some] += given
    known = np.flatnonzero(times)
    sums[known] /= times[known, None]
    return sums, known


def _predict_all(
    models: Sequence[ModelToFit],
    X: Any,
    y: npt.NDArray[Any],
    splits: Sequence[Split],
    predict: Callable[[BaseEstimator, Any], Array],
    n_jobs: int | None,
    sample: Places,
) -> list[tuple[Array, Array]]:
    """Return, for every split, what the models predict of the rows left out, and of a sample, side by side."""
    work = [(model, split) for model in models for split in splits]
    found = Parallel(n_jobs=n_jobs)(delayed(_predict)(model, X, y, split, sample, predict) for model, split in work)
    by_split = (zip(*found[place :: len(splits)], strict=True) for place in range(len(splits)))
    return [(np.hstack(left_out), np.hstack(sampled)) for left_out, sampled in by_split]


def _predict(
    model: ModelToFit,
    X: Any,
    y: npt.NDArray[Any],
    split: Split,
    sample: Places,
    predict: Callable[[BaseEstimator, Any], Array],
) -> tuple[Array, Array]:
    """Return the predictions of the rows that a split leaves out, and of a sample."""
    train, test = split
    fitted = model.fitted(X, y, train)
    there = predict(fitted, _safe_indexing(X, sample)) if sample.size else np.empty((0, 1))
    return predict(fitted, _safe_indexing(X, test)), there


def fit_models(models: Sequence[ModelToFit], X: Any, y: npt.NDArray[Any], n_jobs: int | None) -> list[BaseEstimator]:
    """Return clones of the models, fitted to all rows."""
    return list(Parallel(n_jobs=n_jobs)(delayed(model.fitted)(X, y) for model in models))
