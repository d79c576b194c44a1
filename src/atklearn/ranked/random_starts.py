"""Random starts: the least squares fits of a few rows each, the best of which are worth to go on from.

A model of the average is where the outliers pull it, and the largest losses there need not be theirs. A model of a few
rows that happens to have no outlier among them shows them all, if roughly: the regression on the rows that it leaves
tells whether it is worth more. Many are cheap to make and to compare, as in the fast least trimmed squares of Rousseeuw
and Van Driessen (2006).
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
import scipy.sparse as sp

from atklearn.losses.individual import Array
from atklearn.ranked.ranged import RangedProblem
from atklearn.stores.compiled import CompiledRows, Places

__all__ = ["random_starts"]

# Rows of a model: as many as it has columns and some more, and no more than this.
_MORE_ROWS = 2
_MOST_ROWS = 30
# Their ridge, in parts of the mean square of a row.
_RIDGE = 1e-3
_TINY = 1e-12
# For every one that is returned, so many of the models of few rows are candidates as they are.
_AS_THEY_ARE = 5
# So many numbers may be held at once: of sparse features with many columns there are fewer models.
_NUMBERS = 5_000_000
# So many products may be spent on the regressions on the rows that models leave.
_WORK = 50_000_000
# A few rows with targets -1 and +1 tell the direction of a classifier; its length is one of these times theirs.
_LENGTHS = (1.0, 4.0)


def random_starts(problem: RangedProblem, count: int, best: int) -> list[list[Array]]:
    """Return the coefficients of the best of random models, each a list with an array per problem.

    Parameters
    ----------
    problem : RangedProblem
    count : int
        How many to compare.
    best : int
        How many to return.
    """
    if count == 0:
        return []
    rows = problem.rows
    size = min(rows.n_columns + _MORE_ROWS, rows.n_rows, _MOST_ROWS)
    count = min(count, max(_NUMBERS // (size * rows.n_columns), 1))
    ends = np.cumsum(rows.mass)
    drawn = np.searchsorted(ends, np.random.default_rng(0).random((count, size)) * ends[-1], side="right")
    drawn = np.minimum(drawn, rows.n_rows - 1)
    few = [_of_few_rows(each, drawn) for each in problem.rows_of_problems]
    lengths = _LENGTHS if rows.loss.task == "classification" else _LENGTHS[:1]
    models = _Models(problem, np.array(few), _LENGTHS[:1])
    first = _Models(problem, models.best(_AS_THEY_ARE * best).coefs, lengths)
    n_refined = min(_WORK // (rows.n_rows * rows.n_columns**2), -(-count // 2))
    if n_refined >= best:
        left = models.best(n_refined).left
        refined = np.array([_of_weighted_rows(each, left) for each in problem.rows_of_problems])
        first = first.beside(_Models(problem, refined, lengths))
    return [list(model) for model in first.best(best).coefs.swapaxes(0, 1)]


def _of_few_rows(rows: CompiledRows, drawn: Places) -> Array:
    """Return the ridge regressions on the rows drawn, shape (n_models, n_columns)."""
    count, size = drawn.shape
    X = _with_ones(rows, rows.X[drawn.ravel()]).reshape(count, size, -1)
    gram = X @ X.transpose(0, 2, 1)
    ridge = _RIDGE * np.trace(gram, axis1=1, axis2=2)[:, None, None] / size + _TINY
    alpha = np.linalg.solve(gram + ridge * np.eye(size), rows.y[drawn][:, :, None])
    return np.asarray((X.transpose(0, 2, 1) @ alpha)[:, :, 0])


def _of_weighted_rows(rows: CompiledRows, weights: Array) -> Array:
    """Return the ridge regressions on all rows with some weights, shape (n_models, n_columns)."""
    X = _with_ones(rows, rows.X)
    grams = np.array([(X * each[:, None]).T @ X for each in weights])
    ridge = _RIDGE * np.trace(grams, axis1=1, axis2=2)[:, None, None] / X.shape[1] + _TINY
    pulls = (weights * rows.y) @ X
    return np.asarray(np.linalg.solve(grams + ridge * np.eye(X.shape[1]), pulls[:, :, None])[:, :, 0])


def _with_ones(rows: CompiledRows, X: Any) -> Array:
    """Return features as a dense array, with the column of ones if there is one."""
    dense = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    return dense if rows.ones is None else np.column_stack([dense, np.ones(len(dense))])


class _Models:
    """Models of all problems, with about what the objective is at each, and the mass that each leaves.

    Parameters
    ----------
    problem : RangedProblem
    coefs : ndarray of shape (n_problems, n_models, n_columns)
    lengths : sequence of float
        Each model is taken times the best of these.
    """

    def __init__(self, problem: RangedProblem, coefs: Array, lengths: Sequence[float]) -> None:
        found = [_values_and_left(problem, coefs * length) for length in lengths]
        values = np.array([value for value, _ in found])
        which, places = values.argmin(axis=0), np.arange(coefs.shape[1])
        self.coefs = coefs * np.take(lengths, which)[None, :, None]
        self.values = values[which, places]
        self.left = np.array([left for _, left in found])[which, places]

    def best(self, count: int) -> _Models:
        """Return those with the least values, the least first."""
        chosen = copy(self)
        places = np.argsort(self.values, kind="stable")[:count]
        chosen.coefs, chosen.values, chosen.left = self.coefs[:, places], self.values[places], self.left[places]
        return chosen

    def beside(self, others: _Models) -> _Models:
        """Return these and others."""
        joined = copy(self)
        joined.coefs = np.concatenate([self.coefs, others.coefs], axis=1)
        joined.values, joined.left = np.append(self.values, others.values), np.vstack([self.left, others.left])
        return joined


def _values_and_left(problem: RangedProblem, models: Array) -> tuple[Array, Array]:
    """Return the range of the losses of all problems added up, and the mass outside of the largest, for each model."""
    n_models = models.shape[1]
    totals, penalties = np.zeros((n_models, problem.rows.n_rows)), np.zeros(n_models)
    for each, rows, coefs in zip(problem.problems, problem.rows_of_problems, models, strict=True):
        weights, shifts = (coefs, 0.0) if rows.ones is None else (coefs[:, :-1], coefs[:, -1:])
        predictions = np.asarray(rows.X @ weights.T).T + shifts
        totals += rows.loss(predictions.ravel(), np.tile(rows.y, n_models)).reshape(totals.shape)
        penalties += 0.5 * (coefs**2 @ each.ridge)
    order = np.argsort(-totals, axis=1)
    mass = problem.rows.mass[order]
    ends = np.cumsum(mass, axis=1)
    # of each row, counted from the top: what lies beyond the rows set aside, and of that what lies before k
    beyond = np.clip(ends - problem.trim, 0.0, mass)
    counted = beyond - np.clip(ends - problem.k, 0.0, mass)
    sums = (counted * np.take_along_axis(totals, order, axis=1)).sum(axis=1)
    left = np.empty_like(beyond)
    np.put_along_axis(left, order, beyond, axis=1)
    return np.asarray(sums / (problem.k - problem.trim) + penalties), left
