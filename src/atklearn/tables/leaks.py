"""Leaks: a single column that tells the target almost perfectly was probably written after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from atklearn.losses.individual import Array, Task

__all__ = ["find_leaks"]

_MOST_ROWS = 5000
_FEWEST_ROWS = 50
_FEWEST_OF_CLASS = 10
_SUSPICIOUS: dict[Task, float] = {"classification": 0.98, "regression": 0.99}
_N_FOLDS = 3
_MOST_LEAVES = 64
Guess = Callable[[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], bool], Array]
_RARE = 3  # rows: values that fewer share tell nothing about others, but that there is one may


def find_leaks(features: pd.DataFrame, target: npt.NDArray[Any], task: Task) -> dict[str, float]:
    """Return the columns that predict the target almost alone, with their balanced accuracy or R².

    A shallow tree on one column, or the best guess per category, is cross-validated on at most 5,000 rows. That a value
    is missing counts as a value.

    Parameters
    ----------
    features : DataFrame of float64, datetime64 and string columns, of shape (n_rows, n_columns)
    target : ndarray of shape (n_rows,)
    task : {"classification", "regression"}

    Returns
    -------
    leaks : dict of str to float

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 100)
    >>> features = pd.DataFrame({"noise": rng.standard_normal(100), "refund": np.where(y == 1, 9.5, np.nan)})
    >>> find_leaks(features, y, "classification")
    {'refund': 1.0}
    """
    classification = task == "classification"
    codes = np.unique(target, return_inverse=True)[1] if classification else target
    if codes.size < _FEWEST_ROWS or (classification and np.bincount(codes).min() < _FEWEST_OF_CLASS):
        return {}
    rows = _draw(codes, classification)
    y = codes[rows]
    folds_of = (StratifiedKFold if classification else KFold)(_N_FOLDS, shuffle=True, random_state=0)
    folds = list(folds_of.split(y, y))
    everything = [(np.arange(y.size), np.arange(y.size))]  # first, since it is one fit and not three
    found = {}
    for name in features.columns:
        x = _as_codes_or_numbers(features[name].iloc[rows])
        ways = (
            [_guess_by_category]
            if x.ndim == 1
            else [_guess_by_tree]
            if classification
            else [_guess_by_tree, _guess_by_line]
        )
        best = max(_score(x, y, guess, (everything, folds), task) for guess in ways)
        if best >= _SUSPICIOUS[task]:
            found[str(name)] = best
    return found


def _score(x: npt.NDArray[Any], y: npt.NDArray[Any], guess: Guess, ways_to_split: Any, task: Task) -> float:
    """Return how well a column predicts under the last way to split, or under the first that shows it does not."""
    score = 0.0
    for splits in ways_to_split:
        said = np.empty(y.size)
        for seen, unseen in splits:
            said[unseen] = guess(x[seen], y[seen], x[unseen], task == "classification")
        score = _balanced_accuracy(y, said) if task == "classification" else _r2(y, said)
        if score < _SUSPICIOUS[task]:  # what does not even fit the rows it has seen cannot predict others
            break
    return score


def _draw(codes: npt.NDArray[Any], classification: bool) -> npt.NDArray[np.intp]:
    """Return at most so many rows, with some of every class."""
    rng = np.random.default_rng(0)
    rows = rng.permutation(codes.size)
    if codes.size <= _MOST_ROWS:
        return rows
    drawn = [rows[:_MOST_ROWS]]
    if classification:
        drawn += [rows[codes[rows] == code][:_FEWEST_OF_CLASS] for code in np.unique(codes)]
    return np.unique(np.concatenate(drawn))


def _as_codes_or_numbers(column: pd.Series) -> npt.NDArray[Any]:
    """Return text as codes, rare values sharing one, and all else as numbers, the missing ones below all others."""
    if column.dtype == "string":
        codes = pd.factorize(column)[0] + 1
        counts = np.bincount(codes)
        rare = (counts < _RARE) & (np.arange(counts.size) > 0)
        return np.where(rare[codes], counts.size, codes)
    values: Array
    if column.dtype.kind == "M":
        values = column.astype("int64").to_numpy().astype(np.float64)
        values[column.isna().to_numpy()] = np.nan
    else:
        values = column.to_numpy(dtype=np.float64)
    there = ~np.isnan(values)
    ranks = np.unique(values, return_inverse=True)[1].astype(np.float64)  # trees round to 32 bits
    ranks[~there] = -float(ranks.size)  # so far below that no split mistakes the lowest number for it
    values = np.where(there, values - (values[there].mean() if there.any() else 0.0), 0.0)
    return np.column_stack([values / max(np.abs(values).max(), 1e-300), ranks])


def _guess_by_tree(x: Array, y: npt.NDArray[Any], unseen: Array, classification: bool) -> Array:
    """Return what a tree says of the ranks."""
    options = {"max_leaf_nodes": _MOST_LEAVES, "min_samples_leaf": _RARE, "random_state": 0}
    kind = (
        DecisionTreeClassifier(class_weight="balanced", **options)
        if classification
        else DecisionTreeRegressor(**options)
    )
    return np.asarray(kind.fit(x[:, 1:], y).predict(unseen[:, 1:]), dtype=np.float64)


def _guess_by_line(x: Array, y: Array, unseen: Array, classification: bool) -> Array:  # noqa: ARG001
    """Return what a straight line through the values says; a tree follows it badly where values are rare."""
    centred = x[:, 0] - x[:, 0].mean()
    slope = (centred @ y) / max(centred @ centred, 1e-300)
    return np.asarray(y.mean() + slope * (unseen[:, 0] - x[:, 0].mean()))


def _guess_by_category(
    x: npt.NDArray[Any], y: npt.NDArray[Any], unseen: npt.NDArray[Any], classification: bool
) -> Array:
    """Return the class that a category has most of, in proportion to its size, or the category's mean."""
    n = max(x.max(), unseen.max()) + 1
    if not classification:
        counts = np.bincount(x, minlength=n)
        means = np.bincount(x, weights=y, minlength=n) / np.maximum(counts, 1)
        return np.asarray(np.where(counts > 0, means, y.mean())[unseen])
    table = np.zeros((n, y.max() + 1))
    np.add.at(table, (x, y), 1.0)
    return np.asarray((table / np.maximum(table.sum(axis=0), 1.0)).argmax(axis=1)[unseen], dtype=np.float64)


def _balanced_accuracy(y: npt.NDArray[Any], said: Array) -> float:
    return float(np.mean([(said[y == code] == code).mean() for code in np.unique(y)]))


def _r2(y: npt.NDArray[Any], said: Array) -> float:
    return float(1.0 - ((y - said) ** 2).sum() / ((y - y.mean()) ** 2).sum())
