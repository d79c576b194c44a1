"""Several passes as one compiled call, for data so small that the calls cost more than the passes.

The functions that end in ``at_once`` do for points and rays of :mod:`atklearn.problems.compiled_rows` what their
methods do pass by pass.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from atklearn.losses.aggregate import rank_of
from atklearn.losses.compiled import ABSOLUTE, POSITIVE_PART, SMOOTH, expand_one
from atklearn.losses.compiling import njit
from atklearn.problems.passes import expand_along, predict, pull_back
from atklearn.problems.rows import Curvature, Proof, Reading
from atklearn.problems.smoothing import (
    balance_sides,
    bound_blocks,
    change_blocks,
    pull_along,
    settle_few,
    weigh_sides,
)  # fmt: skip

__all__ = ["curvature_at_once", "look_at_once", "predict_and_expand", "prove_at_once"]


def curvature_at_once(point: Any, mu: float, cautious: bool) -> Curvature:
    """Return the generalised Hessian of the smoothed loss, of all rows."""
    rows, here = point.rows, point.here
    H = np.empty((rows.n_columns, rows.n_columns))
    has_ties = _hessian(
        rows.compiled_loss, rows.X, here.f, rows.y, here.s, here.slope, here.r, point.u, mu, here.moving,
        cautious and rows.compiled_loss.kink == SMOOTH, H,
    )  # fmt: skip
    return Curvature(H, None, None, None, is_sampled=False, has_ties=has_ties)


def look_at_once(ray: Any, mu: float) -> Reading:
    """Smooth the losses where the ray is."""
    point, there = ray.point, ray.there
    rows, here = point.rows, point.here
    reading = Reading(
        *_look(
            rows.compiled_loss, here.f, ray.t, ray.f_direction, rows.y, there.f, there.s, there.slope, point.centre,
            point.u, mu, here.threshold, rows.two_sided, there.r, there.a,
        )
    )  # fmt: skip
    there.threshold, there.moving = reading.threshold, reading.moving
    return reading


def prove_at_once(point: Any, balanced: bool) -> Proof:
    """Return the exact aggregate and a feasible density near r; all rows have the same mass."""
    rows, here = point.rows, point.here
    r, gradient = here.r.copy(), np.empty(rows.n_columns)
    rank = rank_of(point.k / rows.each, rows.n_rows)
    weights, intercept = rows.split(point.z)
    value, threshold, slack = _prove(
        rows.compiled_loss, rows.X, weights, intercept, rows.y, point.u, rank, balanced, here.f, here.s, here.slope,
        point.is_fresh, r, gradient,
    )  # fmt: skip
    return Proof(value, threshold, slack, gradient, r)


@njit(cache=True, nogil=True, error_model="numpy")
def _hessian(loss, X, f, y, s, slope, r, u, mu, moving, cautious, H):  # type: ignore[no-untyped-def]
    """Fill ``H`` with the generalised Hessian of an array X, all rows, with ones if it is larger; return the ties.

    See :meth:`atklearn.problems.rows.Point.curvature`.
    """
    n, d = X.shape
    scaled = np.empty((n, len(H)))
    rank_one = np.zeros(len(H))
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
                rank_one[j] += pull * X[i, j]
            for j in range(d, len(H)):
                rank_one[j] += pull
        if weight > 0.0:
            root = np.sqrt(weight)
            for j in range(d):
                scaled[count, j] = root * X[i, j]
            for j in range(d, len(H)):
                scaled[count, j] = root
            count += 1
    np.dot(scaled[:count].T, scaled[:count], H)
    if moving > 0.0:
        factor = 1.0 / (mu * max(moving, tied_mass))
        for i in range(len(H)):
            for j in range(len(H)):
                H[i, j] -= factor * rank_one[i] * rank_one[j]
    return tied_mass > 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _look(loss, start, t, direction, y, f, s, slope, centre, u, mu, guess, two_sided, r, a):  # type: ignore[no-untyped-def]
    """Expand the losses at ``start + t * direction`` and settle their densities."""
    expand_along(0, 1, y.size, loss, start, t, direction, y, f, s, slope)
    return settle_few(s, slope, centre, u, mu, guess, two_sided, direction, r, a)


@njit(cache=True, nogil=True, error_model="numpy")
def predict_and_expand(loss, X, w, bias, y, f, s, slope):  # type: ignore[no-untyped-def]
    """Fill in predictions, the smooth part of their losses and its slope."""
    predict(0, 1, y.size, X, w, bias, f)
    expand_along(0, 1, y.size, loss, f, 0.0, f, y, f, s, slope)


@njit(cache=True, nogil=True, error_model="numpy")
def _prove(loss, X, w, bias, y, u, rank, balanced, f, s, slope, is_fresh, r, gradient):  # type: ignore[no-untyped-def]
    """Make the densities ``r`` feasible and fill their gradient, ``X^T (u r s')``; return value, threshold and slack.

    See :meth:`atklearn.problems.rows.Point.prove`; all rows have the same mass, and ``rank`` of them are the top.
    """
    n, d = X.shape
    a, sums = np.empty(n), np.empty((1, 3))
    up = down = 1.0
    if balanced:
        weigh_sides(0, 1, n, u, r, slope, sums)
        pull, push = sums[0, 0], sums[0, 1]
        up = min(push / pull, 1.0) if pull > 0.0 else 1.0
        down = min(pull / push, 1.0) if push > 0.0 else 1.0
    balance_sides(0, 1, n, u, r, slope, up, down, r, sums)
    middle = f[0] if balanced else 0.0
    pull_along(0, 1, n, f, slope, u, max(sums[0, 0], 1.0), middle, r, a, sums)
    total = sums[0, 1]
    along = sums[0, 0] + middle * total
    pull_back(0, 1, n, X, a, d, gradient.reshape((1, -1)))
    exact = s
    if not is_fresh:
        anew, exact, ignored = np.empty(y.size), np.empty(y.size), np.empty(y.size)
        predict(0, 1, n, X, w, bias, anew)
        expand_along(0, 1, n, loss, anew, 0.0, anew, y, anew, exact, ignored)
    losses = exact.copy()
    if loss.kink == ABSOLUTE:
        losses = np.abs(losses)
    elif loss.kink == POSITIVE_PART:
        losses = np.maximum(losses, 0.0)
    place = losses.size - rank
    threshold = np.partition(losses, place)[place] if place > 0 else losses.min()
    bound_blocks(0, 1, n, exact, r, u, threshold, loss.kink == ABSOLUTE, sums)
    value, slack = threshold + sums[0, 0], sums[0, 1] + threshold * max(1.0 - sums[0, 2], 0.0)
    if not is_fresh:
        change_blocks(0, 1, n, u, r, exact, s, sums)
        slack += sums[0, 0]
        for j in range(d):  # a . (X z - f)
            slack -= gradient[j] * w[j]
        slack -= total * bias - along
    return value, threshold, slack
