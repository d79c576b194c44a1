"""How well decision values tell a class from the rest, whatever the threshold: ROC AUC and average precision."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from atklearn.losses.individual import Array

__all__ = ["area_under_roc", "average_precision"]


def area_under_roc(decisions: Array, positive: npt.NDArray[np.bool_], weight: Array | None = None) -> Array:
    """Return the probability that a positive sample has a larger decision value than a negative one, ties half.

    Where a kind has no weight, 0.5.

    Parameters
    ----------
    decisions : ndarray of shape (..., n_samples)
    positive : ndarray of bool of shape (n_samples,)
    weight : ndarray of shape (..., n_samples), default=None

    Returns
    -------
    areas : ndarray of shape (...)

    Examples
    --------
    >>> area_under_roc(np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True]))
    array(0.75)
    """
    hits, misses, last = _descending(decisions, positive, weight)
    found = hits.cumsum(axis=-1)
    at_end = np.take_along_axis(found, last, axis=-1)
    first = _first_of_run(last)
    before = np.take_along_axis(found - hits, first, axis=-1)
    total = 2.0 * found[..., -1] * misses.sum(axis=-1)
    area = (misses * (at_end + before)).sum(axis=-1)
    return np.asarray(np.divide(area, total, out=np.full(area.shape, 0.5), where=total > 0.0))


def average_precision(decisions: Array, positive: npt.NDArray[np.bool_], weight: Array | None = None) -> Array:
    """Return the mean over the positive samples of the precision where each is found, ties found together.

    Zero without positive weight.

    Parameters
    ----------
    decisions : ndarray of shape (..., n_samples)
    positive : ndarray of bool of shape (n_samples,)
    weight : ndarray of shape (..., n_samples), default=None

    Returns
    -------
    precisions : ndarray of shape (...)

    Examples
    --------
    >>> average_precision(np.array([0.1, 0.4, 0.3, 0.8, 0.2]), np.array([False, False, False, True, True]))
    array(0.75)
    """
    hits, misses, last = _descending(decisions, positive, weight)
    found, taken = hits.cumsum(axis=-1), (hits + misses).cumsum(axis=-1)
    precision = np.divide(found, taken, out=np.zeros_like(found), where=taken > 0.0)
    total, mean = found[..., -1], (hits * np.take_along_axis(precision, last, axis=-1)).sum(axis=-1)
    return np.asarray(np.divide(mean, total, out=np.zeros(mean.shape), where=total > 0.0))


def _descending(
    decisions: Array, positive: npt.NDArray[np.bool_], weight: Array | None
) -> tuple[Array, Array, npt.NDArray[np.intp]]:
    """Return the weights of positives and negatives by falling decision, and where the run of equals of each ends."""
    order = np.argsort(-decisions, axis=-1, kind="stable")
    ranked = np.take_along_axis(decisions, order, axis=-1)
    ends = np.ones(ranked.shape, dtype=bool)
    ends[..., :-1] = ranked[..., 1:] != ranked[..., :-1]
    places = np.where(ends, np.arange(positive.size), positive.size)
    last = np.minimum.accumulate(places[..., ::-1], axis=-1)[..., ::-1]
    mass = np.ones(positive.size) if weight is None else weight
    shape = np.broadcast_shapes(decisions.shape, mass.shape)
    order, last = np.broadcast_to(order, shape), np.broadcast_to(last, shape)
    mass, found = np.take_along_axis(np.broadcast_to(mass, shape), order, axis=-1), positive[order]
    return np.where(found, mass, 0.0), np.where(found, 0.0, mass), last


def _first_of_run(last: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Return where the run of equals of each place begins, from where it ends."""
    starts = np.ones(last.shape, dtype=bool)
    starts[..., 1:] = last[..., 1:] != last[..., :-1]
    begun: npt.NDArray[np.intp] = np.maximum.accumulate(np.where(starts, np.arange(last.shape[-1]), 0), axis=-1)
    return begun
