"""Random starts: the least squares fits of a few rows each, the best of which are worth to go on from.

A model of the average is where the outliers pull it, and the largest losses there need not be theirs. A model of a few
rows that happens to have no outlier among them shows them all: many are cheap to make and to compare, as in the
fast least trimmed squares of Rousseeuw and Van Driessen (2006).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from atklearn.losses.individual import Array
from atklearn.problems.picking import Places
from atklearn.problems.ranged import RangedProblem

__all__ = ["random_starts"]

# Rows of a model: as many as it has columns and some more, and no more than this.
_MORE_ROWS = 2
_MOST_ROWS = 30
# Their ridge, in parts of the mean square of a row.
_RIDGE = 1e-3
_TINY = 1e-12
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
    ends = np.cumsum(rows.mass)
    drawn = np.searchsorted(ends, np.random.default_rng(0).random((count, size)) * ends[-1], side="right")
    models = _least_squares(problem, np.minimum(drawn, rows.n_rows - 1))
    lengths = _LENGTHS if rows.loss.task == "classification" else _LENGTHS[:1]
    values = np.array([_values(problem, models * length) for length in lengths])
    which = np.argsort(values.min(axis=0), kind="stable")[:best]
    return [list(models[:, place] * lengths[int(values[:, place].argmin())]) for place in which]


def _least_squares(problem: RangedProblem, drawn: Places) -> Array:
    """Return the ridge regressions on the rows drawn, shape (n_problems, n_models, n_columns)."""
    count, size = drawn.shape
    models = []
    for rows in problem.rows_of_problems:
        X = rows.X[drawn.ravel()]
        X = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64).reshape(count, size, -1)
        if rows.ones is not None:
            X = np.concatenate([X, np.ones((count, size, 1))], axis=2)
        gram = X @ X.transpose(0, 2, 1)
        ridge = _RIDGE * np.trace(gram, axis1=1, axis2=2)[:, None, None] / size + _TINY
        alpha = np.linalg.solve(gram + ridge * np.eye(size), rows.y[drawn][:, :, None])
        models.append((X.transpose(0, 2, 1) @ alpha)[:, :, 0])
    return np.array(models)


def _values(problem: RangedProblem, models: Array) -> Array:
    """Return about what the objective is at each model: the range of the losses of all problems, added up."""
    n_models = models.shape[1]
    totals, penalties = np.zeros((n_models, problem.rows.n_rows)), np.zeros(n_models)
    for each, rows, coefs in zip(problem.problems, problem.rows_of_problems, models, strict=True):
        weights, shifts = (coefs, 0.0) if rows.ones is None else (coefs[:, :-1], coefs[:, -1:])
        predictions = np.asarray(rows.X @ weights.T).T + shifts
        totals += rows.loss(predictions.ravel(), np.tile(rows.y, n_models)).reshape(totals.shape)
        penalties += 0.5 * (coefs**2 @ each.ridge)
    mass = problem.rows.mass
    if problem.rows.each is None:
        order = np.argsort(-totals, axis=1)
        totals, mass = np.take_along_axis(totals, order, axis=1), mass[order]
    else:
        totals = np.sort(totals, axis=1)[:, ::-1]
    ends = np.cumsum(mass, axis=-1)
    counted = np.clip(np.minimum(ends, problem.k) - np.maximum(ends - mass, problem.drop), 0.0, None)
    return np.asarray((totals * counted).sum(axis=1) / (problem.k - problem.drop) + penalties)
