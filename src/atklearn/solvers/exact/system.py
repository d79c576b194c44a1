"""The Newton system: solve with the generalised Hessian of the smoothed objective.

With ``T`` the samples whose density lies strictly between its bounds,

    H = diag(ridge) + X^T diag(h) X - g g^T / (mu m),
    h = u |r| s'' + [i in T] u s'^2 / mu,   g = sum over T of u sign(r) s' x,   m = sum over T of u;

the rank-one term, present while the threshold is positive, is the threshold following the step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numba
import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from atklearn.problems.design import Design, Rows
from atklearn.losses.individual import Array
from atklearn.problems.objective import BLOCK, Problem
from atklearn.solvers.exact.smoothing import Point

Solve: TypeAlias = Callable[[Array], Array]

# Up to this many columns the Hessian is formed and factored; beyond, conjugate gradients need only products with X.
_DENSE_COLUMNS = 600
# Above this many columns a sampled Hessian is too rough to step with, and preconditions conjugate gradients instead.
_SAMPLED_COLUMNS = 300
# Neighbouring rows drawn together when the Hessian is sampled.
_RUN = 8
_CG_TOLERANCE = 0.05
_CG_STEPS = 250


@dataclass(frozen=True)
class Curvature:
    """The data part of the Hessian on some rows: weights ``h``, and the rank-one term ``g g^T * scale``."""

    design: Design
    rows: Rows | None
    h: Array
    rank_one: Array | None
    scale: float

    def matrix(self, ridge: Array) -> Array:
        """Return H."""
        H = self.design.gram(self.h, self.rows)
        if self.rank_one is not None:
            H -= self.scale * np.outer(self.rank_one, self.rank_one)
        H[np.diag_indices_from(H)] += ridge
        return H

    def operator(self, ridge: Array) -> tuple[Callable[[Array], Array], Array]:
        """Return the function v -> H v and the diagonal of H."""
        # Conjugate gradients pass over the rows many times: worth a copy of those that count.
        design = self.design if self.rows is None else self.design.take(self.rows)

        def product(v: Array) -> Array:
            out = ridge * v + design.pull_back(self.h * design.predict(v))
            if self.rank_one is not None:
                out -= self.scale * (self.rank_one @ v) * self.rank_one
            return out

        diagonal = ridge + design.column_squares(self.h)
        if self.rank_one is not None:
            diagonal -= self.scale * self.rank_one**2
        return product, diagonal


@dataclass(frozen=True)
class NewtonSystem:
    """H at a point.

    ``lasting`` says that it will do for the next point as well: a sampled Hessian is no better at its own point than at
    the next, as long as no sample sits on a kink. ``last`` is its last diagonal entry then.
    """

    solve: Solve
    last: float = 0.0
    lasting: bool = False


def newton_system(
    problem: Problem, point: Point, gradient: Array, mu: float, reach: float, damping: float, rng: np.random.Generator
) -> NewtonSystem:
    """Form H at a point.

    Along a free intercept H may be singular: ``reach`` caps its step, ``damping`` its pivot (relative) from below.
    """
    kinks, active = _strata(point.r)
    everything = np.flatnonzero(point.r) if kinks.size + active.size < problem.n_rows else None
    moving = float(problem.u[kinks].sum()) if point.lam > 0.0 else 0.0
    d = problem.design.n_columns
    if d > _DENSE_COLUMNS:
        ridge = problem.ridge.copy()
        if problem.has_free_intercept:  # H may be singular along it: a ridge that keeps the step within reach
            ridge[-1] = (abs(gradient[-1]) + 1e-12) / reach
        product, diagonal = _curvature(problem, point, everything, 1.0, mu, moving).operator(ridge)
        diagonal = np.maximum(diagonal, ridge)
        return NewtonSystem(lambda target: _conjugate_gradients(product, target, lambda v: v / diagonal))
    # A Gram matrix of this many rows costs about as much as the passes over the data that surround it.
    budget = max(20_000, 20 * d, 8 * problem.n_rows // d)
    sampled = kinks.size + active.size > budget and not problem.is_quadratic
    rows, scale = _sample(kinks, active, budget, rng) if sampled else (everything, 1.0)
    H = _curvature(problem, point, rows, scale, mu, moving).matrix(problem.ridge)
    solve = _factor(H, problem.has_free_intercept, reach, damping)
    if not sampled or d <= _SAMPLED_COLUMNS:
        return NewtonSystem(solve, float(H[-1, -1]), lasting=sampled and kinks.size == 0)
    product, _ = _curvature(problem, point, everything, 1.0, mu, moving).operator(problem.ridge)
    return NewtonSystem(lambda target: _conjugate_gradients(product, target, solve))


def _curvature(
    problem: Problem, point: Point, rows: Rows | None, scale: Array | float, mu: float, moving: float
) -> Curvature:
    """Return the curvature of some rows, each standing for ``scale`` rows; ``moving`` is the mass of all of T."""
    u = problem.u if rows is None else scale * problem.u[rows]
    h, pulls = np.empty((2, u.size))
    taken = 0.0
    for begin in range(0, u.size, BLOCK):  # by blocks, so that the temporaries stay in the cache
        block = slice(begin, begin + BLOCK)
        part = block if rows is None else rows[block]
        _, slope, curvature = problem.loss.expand(point.f[part], problem.y[part])
        size = np.abs(point.r[part])
        tied = size < 1.0
        h[block] = u[block] * np.where(tied, size * curvature + slope**2 / mu, curvature)
        pulls[block] = np.where(tied, u[block] * np.sign(point.r[part]) * slope, 0.0)
        taken += float(u[block] @ tied)
    if not (curved := h > 0.0).all():
        rows = np.flatnonzero(curved) if rows is None else rows[curved]
        h, pulls = h[curved], pulls[curved]
    if moving == 0.0:
        return Curvature(problem.design, rows, h, None, 0.0)
    # At least the moving mass of the rows taken, or the matrix could turn indefinite.
    scale_one = 1.0 / (mu * max(moving, taken))
    return Curvature(problem.design, rows, h, problem.design.pull_back(pulls, rows), scale_one)


def _sample(kinks: Rows, active: Rows, budget: int, rng: np.random.Generator) -> tuple[Rows, Array]:
    """Draw up to ``budget`` rows from T and as many from the others; return them and how many rows each stands for."""
    picked, scales = [], []
    for stratum in (kinks, active):
        sample = stratum
        if stratum.size > budget:  # short runs, one from each of as many equal parts: random, yet quick to read
            runs = budget // _RUN
            starts = ((np.arange(runs) + rng.random(runs)) * ((stratum.size - _RUN) / runs)).astype(np.intp)
            sample = stratum[(starts[:, None] + np.arange(_RUN)).ravel()]
        picked.append(sample)
        scales.append(np.full(sample.size, stratum.size / max(sample.size, 1)))
    return np.concatenate(picked), np.concatenate(scales)


def _factor(H: Array, free_intercept: bool, reach: float, damping: float) -> Solve:
    """Return the function that solves with H, scaled to unit diagonal, a free intercept eliminated last."""
    scale = 1.0 / np.sqrt(np.maximum(np.diag(H), 1e-300))
    scaled = H * scale * scale[:, None]
    inner = scaled[:-1, :-1] if free_intercept else scaled
    jitter = 1e-14
    while True:
        inner[np.diag_indices_from(inner)] += jitter
        try:
            factor = cho_factor(inner, lower=True, check_finite=False)
            break
        except LinAlgError:  # rounding made it indefinite
            jitter *= 100.0
    if not free_intercept:
        return lambda v: scale * cho_solve(factor, scale * v, check_finite=False)

    column = scaled[:-1, -1]
    response = cho_solve(factor, column, check_finite=False)
    pivot = max(scaled[-1, -1] - column @ response, damping)
    limit = reach / scale[-1]

    def solve(v: Array) -> Array:
        v = scale * v
        first = cho_solve(factor, v[:-1], check_finite=False)
        last = np.clip((v[-1] - column @ first) / pivot, -limit, limit)
        step: Array = scale * np.append(first - response * last, last)
        return step

    return solve


def _conjugate_gradients(product: Callable[[Array], Array], target: Array, precondition: Solve) -> Array:
    """Solve H x = target roughly; every iterate is a descent direction."""
    x = np.zeros_like(target)
    residual = target.copy()
    z = precondition(residual)
    p = z
    rho = residual @ z
    stop = _CG_TOLERANCE**2 * rho
    for _ in range(_CG_STEPS):
        Hp = product(p)
        curvature = p @ Hp
        if curvature <= 0.0:
            return x if x.any() else p
        alpha = rho / curvature
        x = x + alpha * p
        residual = residual - alpha * Hp
        z = precondition(residual)
        rho, previous = residual @ z, rho
        if rho <= stop:
            break
        p = z + (rho / previous) * p
    return x


@numba.njit(cache=True)
def _strata(r):  # type: ignore[no-untyped-def]
    """Return the rows of T (density strictly between its bounds) and the rows of density one."""
    kinks = np.empty(r.size, dtype=np.intp)
    active = np.empty(r.size, dtype=np.intp)
    n_kinks = 0
    n_active = 0
    for i in range(r.size):
        size = abs(r[i])
        if size >= 1.0:
            active[n_active] = i
            n_active += 1
        elif size > 0.0:
            kinks[n_kinks] = i
            n_kinks += 1
    return kinks[:n_kinks], active[:n_active]
