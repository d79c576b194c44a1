"""Whole moves as one compiled call, for data so small that the calls cost more than the passes."""

from __future__ import annotations

import numpy as np

from atklearn.core.point import balance
from atklearn.losses.compiled import ABSOLUTE, POSITIVE_PART, expand_one
from atklearn.losses.compiling import njit
from atklearn.stores.passes import expand_along, predict, pull_back
from atklearn.stores.smoothing import bound_blocks, scale_sides, settle_few, weigh_sides

__all__ = ["hessian", "look", "predict_and_expand", "prove"]


@njit(cache=True, nogil=True, error_model="numpy")
def hessian(loss, X, f, y, s, slope, r, u, mu, cautious, H, pulls):  # type: ignore[no-untyped-def]
    """Fill ``H`` with the weighted Gram matrix of an array X, all rows, with ones if it is larger; return the ties.

    Fill ``pulls`` with those of the ties. See :class:`atklearn.core.point.Gram`.
    """
    n, d = X.shape
    scaled = np.empty((n, len(H)))
    pulls[:] = 0.0
    tied_mass = 0.0
    count = 0
    for i in range(n):
        size = abs(r[i])
        if size == 0.0:
            continue
        _, _, curvature = expand_one(loss, f[i], y[i])
        if cautious:
            curvature = max(curvature, slope[i] ** 2 / max(2.0 * s[i], 1e-300))
        weight = u[i] * size * curvature
        if size < 1.0:
            weight += u[i] * slope[i] ** 2 / mu
            tied_mass += u[i]
            pull = u[i] * slope[i] if r[i] > 0.0 else -u[i] * slope[i]
            for j in range(d):
                pulls[j] += pull * X[i, j]
            for j in range(d, len(H)):
                pulls[j] += pull
        if weight > 0.0:
            root = np.sqrt(weight)
            for j in range(d):
                scaled[count, j] = root * X[i, j]
            for j in range(d, len(H)):
                scaled[count, j] = root
            count += 1
    np.dot(scaled[:count].T, scaled[:count], H)
    return tied_mass


@njit(cache=True, nogil=True, error_model="numpy")
def look(loss, start, t, along, y, f, s, slope, centre, u, mu, guess, two_sided, r, a):  # type: ignore[no-untyped-def]
    """Expand the losses at ``start + t * along`` and settle their densities; return the reading."""
    expand_along(0, 1, y.size, loss, start, t, along, y, f, s, slope)
    return settle_few(s, slope, centre, u, mu, guess, two_sided, along, r, a)


@njit(cache=True, nogil=True, error_model="numpy")
def predict_and_expand(loss, X, w, bias, y, f, s, slope):  # type: ignore[no-untyped-def]
    """Fill in predictions, the smooth part of their losses and its slope."""
    predict(0, 1, y.size, X, w, bias, f)
    expand_along(0, 1, y.size, loss, f, 0.0, f, y, f, s, slope)


@njit(cache=True, nogil=True, error_model="numpy")
def prove(loss, X, w, bias, y, u, rank, balanced, f, s, slope, is_fresh, density, r, gradient):  # type: ignore[no-untyped-def]
    """Fill ``r`` with feasible densities near the given ones, and their gradient; return value, threshold and slack.

    See :meth:`atklearn.core.point.Point.prove`; all rows have the same mass, and ``rank`` of them are the top.
    """
    n, d = X.shape
    a, sums = np.empty(n), np.empty((1, 5))
    weigh_sides(0, 1, n, u, density, slope, sums)
    up, down = 1.0, 1.0
    if balanced:
        up, down = balance(sums[0, 0], sums[0, 1])
    most = max(up * sums[0, 2] + down * sums[0, 3] + sums[0, 4], 1.0)
    scale_sides(0, 1, n, u, density, slope, up / most, down / most, 1.0 / most, r, a)
    pull_back(0, 1, n, X, a, d, gradient.reshape((1, -1)))
    exact, anew = s, f
    if not is_fresh:
        anew, exact, ignored = np.empty(n), np.empty(n), np.empty(n)
        predict(0, 1, n, X, w, bias, anew)
        expand_along(0, 1, n, loss, anew, 0.0, anew, y, anew, exact, ignored)
    losses = exact.copy()
    if loss.kink == ABSOLUTE:
        losses = np.abs(losses)
    elif loss.kink == POSITIVE_PART:
        losses = np.maximum(losses, 0.0)
    place = losses.size - rank
    threshold = np.partition(losses, place)[place] if place > 0 else losses.min()
    bound_blocks(0, 1, n, exact, anew, s, slope, f, r, u, threshold, loss.kink == ABSOLUTE, sums)
    value = threshold + sums[0, 0]
    slack = sums[0, 1] + threshold * max(1.0 - sums[0, 2], 0.0) + sums[0, 3]
    return value, threshold, slack
