"""The Newton direction: solve with the generalised Hessian of the smoothed objective.

With ``T`` the samples whose density lies strictly between its bounds,

    H = diag(ridge) + X^T diag(h) X - g g^T / (mu m),
    h = u |r| s'' + [i in T] u s'^2 / mu,   g = sum over T of u sign(r) s' x,   m = sum over T of u;

the rank-one term, present while the threshold is positive, is the threshold following the step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from atklearn.design import Design, Rows
from atklearn.individual import Array
from atklearn.objective import Problem

# Up to this many columns the Hessian is formed and factored; beyond, conjugate gradients need only products with X.
_DENSE_COLUMNS = 2000
# Above this many columns a sampled Hessian is too rough to step with, and preconditions conjugate gradients instead.
_SAMPLED_COLUMNS = 300
_CG_TOLERANCE = 0.05
_CG_STEPS = 250


@dataclass(frozen=True)
class Curvature:
    """The data part of the Hessian: row weights ``h``, and the rank-one term ``g g^T * scale``."""

    design: Design
    h: Array
    rank_one: Array | None
    scale: float

    def matrix(self, ridge: Array) -> Array:
        """Return H."""
        H = self.design.gram(self.h)
        if self.rank_one is not None:
            H -= self.scale * np.outer(self.rank_one, self.rank_one)
        H[np.diag_indices_from(H)] += ridge
        return H

    def product(self, ridge: Array, v: Array) -> Array:
        """Return H v."""
        out = ridge * v + self.design.pull_back(self.h * self.design.predict(v))
        if self.rank_one is not None:
            out -= self.scale * (self.rank_one @ v) * self.rank_one
        return out

    def diagonal(self, ridge: Array) -> Array:
        """Return the diagonal of H."""
        out = ridge + self.design.column_squares(self.h)
        if self.rank_one is not None:
            out -= self.scale * self.rank_one**2
        return out


def newton_direction(
    problem: Problem,
    gradient: Array,
    r: Array,
    slope: Array,
    curvature: Array,
    mu: float,
    lam: float,
    reach: float,
    damping: float,
    rng: np.random.Generator,
) -> Array:
    """Return a descent direction, ``-H^-1 gradient`` or close to it.

    Along a free intercept H may be singular: ``reach`` caps its step, ``damping`` its pivot (relative) from below.
    """
    h, tied = _row_weights(problem.u, r, slope, curvature, mu)
    pulls = np.where(tied, problem.u * np.sign(r) * slope, 0.0) if lam > 0.0 and tied.any() else None
    moving = float(problem.u @ tied)

    def model(rows: Rows, scale: Array | float) -> Curvature:
        """Return the curvature of some rows, each standing for ``scale`` rows."""
        part = problem.design if rows.size == problem.n_rows else problem.design.take(rows)
        if pulls is None:
            return Curvature(part, scale * h[rows], None, 0.0)
        # At least the moving mass of the rows taken, or the matrix could turn indefinite.
        mass = max(moving, float(np.sum(scale * problem.u[rows] * tied[rows])))
        return Curvature(part, scale * h[rows], part.pull_back(scale * pulls[rows]), 1.0 / (mu * mass))

    curved = np.flatnonzero(h > 0.0)
    d = problem.design.n_columns
    # A Gram matrix of this many rows costs about as much as the passes over the data that surround it.
    budget = max(20_000, 20 * d, 8 * problem.n_rows // d)
    if d > _DENSE_COLUMNS:
        exact = model(curved, 1.0)
        ridge = problem.ridge.copy()
        if problem.has_free_intercept:  # H may be singular along it: a ridge that keeps the step within reach
            ridge[-1] = (abs(gradient[-1]) + 1e-12) / reach
        diagonal = np.maximum(exact.diagonal(ridge), ridge)
        return _conjugate_gradients(lambda v: exact.product(ridge, v), -gradient, lambda v: v / diagonal)
    if curved.size <= budget:
        return _factor(model(curved, 1.0).matrix(problem.ridge), problem.has_free_intercept, reach, damping)(-gradient)
    rows, scale = _sample(curved, tied, budget, rng)
    solve = _factor(model(rows, scale).matrix(problem.ridge), problem.has_free_intercept, reach, damping)
    if d <= _SAMPLED_COLUMNS:
        return solve(-gradient)
    exact = model(curved, 1.0)
    return _conjugate_gradients(lambda v: exact.product(problem.ridge, v), -gradient, solve)


def _sample(rows: Rows, tied: npt.NDArray[np.bool_], budget: int, rng: np.random.Generator) -> tuple[Rows, Array]:
    """Draw up to ``budget`` rows from those in T and as many from the others; return them and what each stands for."""
    picked, scales = [], []
    for stratum in (rows[tied[rows]], rows[~tied[rows]]):
        sample = stratum
        if stratum.size > budget:  # one row out of each of as many equal runs: random, yet read in order
            sample = stratum[((np.arange(budget) + rng.random(budget)) * (stratum.size / budget)).astype(np.intp)]
        picked.append(sample)
        scales.append(np.full(sample.size, stratum.size / max(sample.size, 1)))
    return np.concatenate(picked), np.concatenate(scales)


def _factor(H: Array, free_intercept: bool, reach: float, damping: float) -> Callable[[Array], Array]:
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


def _conjugate_gradients(
    product: Callable[[Array], Array], target: Array, precondition: Callable[[Array], Array]
) -> Array:
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
def _row_weights(u, r, slope, curvature, mu):  # type: ignore[no-untyped-def]
    """Return h and the mask of T."""
    h = np.empty(r.size)
    tied = np.empty(r.size, dtype=np.bool_)
    for i in range(r.size):
        size = abs(r[i])
        tied[i] = 0.0 < size < 1.0
        h[i] = u[i] * size * curvature[i]
        if tied[i]:
            h[i] += u[i] * slope[i] ** 2 / mu
    return h, tied
