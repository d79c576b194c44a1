"""Curves of what models said about rows: how well they rank, how large their errors are, how true their numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from atklearn.losses.individual import Array

__all__ = ["binned", "largest_errors", "mean_curve", "precision_at_recall", "true_at_false_positives"]

Mask = npt.NDArray[np.bool_]


def true_at_false_positives(decisions: Array, positive: Mask, grid: Array) -> Array:
    """Return the ROC curve: the part of the positives found, at given parts of the negatives taken for positive.

    Parameters
    ----------
    decisions : ndarray of shape (n_rows,)
    positive : ndarray of bool of shape (n_rows,)
        Of both kinds.
    grid : ndarray
        Between 0 and 1.

    Examples
    --------
    >>> decisions, positive = np.array([0.9, 0.8, 0.4, 0.1]), np.array([True, False, True, False])
    >>> true_at_false_positives(decisions, positive, np.array([0.0, 0.5, 1.0]))
    array([0.5, 1. , 1. ])
    """
    found, wrong = _found(decisions, positive)
    alarms, hits = (np.concatenate([[0.0], counts / counts[-1]]) for counts in (wrong, found))
    return np.asarray(np.interp(grid, alarms, hits))


def precision_at_recall(decisions: Array, positive: Mask, grid: Array) -> Array:
    """Return how many of those taken for positive are, where given parts of the positives have just been found.

    Examples
    --------
    >>> decisions, positive = np.array([0.9, 0.8, 0.4, 0.1]), np.array([True, False, True, False])
    >>> precision_at_recall(decisions, positive, np.array([0.5, 1.0])).round(2)
    array([1.  , 0.67])
    """
    found, wrong = _found(decisions, positive)
    reached = np.searchsorted(found / found[-1], grid * (1.0 - 1e-12))
    return np.asarray((found / (found + wrong))[np.minimum(reached, found.size - 1)])


def _found(decisions: Array, positive: Mask) -> tuple[Array, Array]:
    """Return how many positives and negatives are above each threshold, from the highest; equals come together."""
    order = np.argsort(-decisions, kind="stable")
    ranked, hits = decisions[order], positive[order]
    last = np.append(ranked[1:] != ranked[:-1], True)
    return np.cumsum(hits)[last].astype(np.float64), np.cumsum(~hits)[last].astype(np.float64)


def mean_curve(
    parts: Iterable[list[tuple[Array, Mask]]], curve: Callable[[Array, Mask, Array], Array], grid: Array
) -> Array:
    """Return a curve averaged over test parts, and within each over its classes against the rest.

    Decision values of different fits cannot be compared, so that rows of different parts are not ranked together.

    Parameters
    ----------
    parts : iterable of lists of (decisions, positive)
        As :attr:`atklearn.measures.Answers.told_apart` has them; those without are left out.
    curve : callable
        :func:`true_at_false_positives` or :func:`precision_at_recall`.
    grid : ndarray
    """
    found = [np.mean([curve(f, positive, grid) for f, positive in problems], axis=0) for problems in parts if problems]
    return np.asarray(np.mean(found, axis=0)) if found else np.full(grid.shape, np.nan)


def largest_errors(errors: Array, most: int = 60) -> tuple[Array, Array]:
    """Return parts of the rows, and the size of error that just this part reaches, averaged over the repeats.

    Parameters
    ----------
    errors : ndarray of shape (n_repeats, n_rows)
    most : int, default=60
        Of the points, close together where few rows are.

    Examples
    --------
    >>> parts, sizes = largest_errors(np.array([[1.0, -4.0, 2.0, 0.0]]))
    >>> parts, sizes
    (array([0.25, 0.5 , 0.75, 1.  ]), array([4., 2., 1., 0.]))
    """
    n = errors.shape[1]
    falling = np.sort(np.abs(errors), axis=1)[:, ::-1]
    ranks = np.unique(np.geomspace(1, n, most).round().astype(int))
    return ranks / n, falling.mean(axis=0)[ranks - 1]


def binned(said: Array, truth: Array, n_bins: int = 10) -> tuple[Array, Array]:
    """Return means of what was said and of what is true, in bins with about as many of each, by what was said.

    Examples
    --------
    >>> said, truth = binned(np.array([0.1, 0.2, 0.8, 0.9]), np.array([0.0, 0.0, 0.0, 1.0]), n_bins=2)
    >>> said.round(2), truth
    (array([0.15, 0.85]), array([0. , 0.5]))
    """
    order = np.argsort(said, kind="stable")
    parts = [part for part in np.array_split(order, n_bins) if part.size]
    return np.array([said[part].mean() for part in parts]), np.array([truth[part].mean() for part in parts])
