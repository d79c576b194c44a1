"""The Newton system: solve with the generalised Hessian of the smoothed objective, the penalty included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.linalg import cho_solve

from atklearn.core.point import Point
from atklearn.losses.compiling import FAST_SUMS, njit_if_there
from atklearn.losses.individual import Array
from atklearn.problems.objective import Problem

__all__ = ["NewtonSystem", "newton_system"]

Solve: TypeAlias = Callable[[Array], Array]

# Up to this many columns the Hessian is formed and factored; beyond, conjugate gradients need only products with X.
_DENSE_COLUMNS = 600
# Above this many columns a sampled Hessian is too rough to step with, and preconditions conjugate gradients instead.
_SAMPLED_COLUMNS = 300
_CG_TOLERANCE = 0.05
_CG_STEPS = 250


class NewtonSystem(NamedTuple):
    """H at a point.

    ``lasting`` says that it will do for the next point as well: a sampled Hessian is no better at its own point than at
    the next, as long as no sample sits on a kink. ``free_curvature`` is its entry of the unpenalised coordinate then.
    """

    solve: Solve
    free_curvature: float = 0.0
    lasting: bool = False


def newton_system(
    problem: Problem,
    point: Point,
    gradient: Array,
    mu: float,
    *,
    reach: float,
    damping: float,
    cautious: bool,
    seed: int,
) -> NewtonSystem:
    """Form H at a point.

    Along the unpenalised coordinate H may be singular: ``reach`` caps its step, ``damping`` its pivot (relative) from
    below. See :meth:`atklearn.core.point.Point.curvature` for ``cautious``.
    """
    d, free = problem.rows.n_columns, problem.free
    if d > _DENSE_COLUMNS:
        ridge = problem.ridge
        if free is not None and not problem.is_quadratic:
            ridge = _held(ridge, free, gradient, reach)
        # a triangle of H that is no larger than X
        packed = problem.rows.is_dense and d <= 2 * problem.rows.n_rows
        system = _factor_packed(problem, point, mu, ridge, cautious) if packed else None
        return system or NewtonSystem(_iterative(point, mu, ridge, cautious, None))
    # A Gram matrix of this many rows costs about as much as the passes over the data that surround it.
    most = None if problem.is_quadratic else max(8000, 40 * d, problem.rows.n_rows // d)
    curvature = point.curvature(mu, form="matrix", cautious=cautious, most=most, seed=seed)
    H = curvature.matrix
    assert H is not None
    ridge, single = problem.ridge, free if isinstance(free, int) else None
    if single is None and free is not None and not problem.is_quadratic:
        ridge = _held(ridge, free, gradient, reach)
    solve = _factor(H, ridge, single, reach, damping)
    if not curvature.is_sampled or d <= _SAMPLED_COLUMNS:
        free_curvature = 0.0 if single is None else float(H[single, single])
        return NewtonSystem(solve, free_curvature, lasting=curvature.is_sampled and not curvature.has_ties)
    return NewtonSystem(_iterative(point, mu, problem.ridge, cautious, solve))


def _held(ridge: Array, free: Any, gradient: Array, reach: float) -> Array:
    """Return the ridge with one along unpenalised coordinates, where H may be singular, that keeps steps in reach."""
    ridge = ridge.copy()
    ridge[free] = (np.abs(gradient[free]) + 1e-12) / reach
    return ridge


def _factor_packed(problem: Problem, point: Point, mu: float, ridge: Array, cautious: bool) -> NewtonSystem | None:
    """Return H factored in half the memory; None if rounding made it indefinite."""
    H = point.curvature(mu, form="packed", cautious=cautious).packed
    assert H is not None
    H.add_diagonal(ridge)
    diagonal = H.diagonal()
    H.add_diagonal(1e-14 * diagonal)
    if not H.factor():
        return None
    free_curvature = float(diagonal[problem.free]) if isinstance(problem.free, int) else 0.0
    return NewtonSystem(H.solve, free_curvature, lasting=problem.is_quadratic)


def _factor(H: Array, ridge: Array, free: int | None, reach: float, damping: float) -> Solve:
    """Add the ridge to H; return the function that solves with it, the unpenalised coordinate eliminated last."""
    last = -1 if free is None else free
    scale, others, factor, response, pivot = _eliminate(H, ridge, last, damping)
    limit = reach / scale[last]
    return lambda v: _back_substitute(scale, others, factor, response, pivot, last, limit, v)


@njit_if_there(cache=True)
def _eliminate(H, ridge, free, damping):  # type: ignore[no-untyped-def]
    """Add the ridge to H and factor it, scaled to unit diagonal.

    Return scale, order, Cholesky factor of all coordinates but the free one (-1: none), its response and pivot.
    """
    diagonal = np.diag(H) + ridge
    np.fill_diagonal(H, diagonal)
    scale = 1.0 / np.sqrt(np.maximum(diagonal, 1e-300))
    scaled = H * scale.reshape((-1, 1)) * scale
    others = np.flatnonzero(np.arange(len(H)) != free)
    m = others.size
    jitter = 1e-14
    while True:
        matrix = np.ascontiguousarray(scaled[others][:, others])
        matrix.reshape(-1)[:: m + 1] += jitter
        if _cholesky(matrix) or jitter > 1.0:
            break
        jitter *= 100.0  # rounding made it indefinite
    response = np.zeros(m)
    pivot = 1.0
    if free >= 0:
        column = scaled[:, free][others]
        response[:] = column
        _solve_factored(matrix, response)
        pivot = max(H[free, free] * scale[free] ** 2 - column @ response, damping)
    return scale, others, matrix, response, pivot


@njit_if_there(cache=True)
def _back_substitute(scale, others, factor, response, pivot, free, limit, v):  # type: ignore[no-untyped-def]
    """Return the solution; that of the free coordinate at most ``limit`` in size, in units of its scale."""
    first = v[others] * scale[others]
    last = 0.0
    if free >= 0:
        # column . (matrix^-1 v) = (matrix^-1 column) . v
        last = min(max((v[free] * scale[free] - response @ first) / pivot, -limit), limit)
    _solve_factored(factor, first)
    step = np.empty(v.size)
    step[others] = (first - response * last) * scale[others]
    if free >= 0:
        step[free] = last * scale[free]
    return step


@njit_if_there(cache=True)
def _cholesky(matrix):  # type: ignore[no-untyped-def]
    """Overwrite the lower triangle with the Cholesky factor; return whether there is one."""
    if not np.isfinite(matrix).all():
        return False
    try:
        matrix[:] = np.linalg.cholesky(matrix)
    except Exception:
        return False
    return True


def _solve_with_lapack(factor: Array, v: Array) -> None:
    if v.size > 0:
        v[:] = cho_solve((factor.T, False), v, check_finite=False)  # transposed, it needs no copy


@njit_if_there(cache=True, fastmath=FAST_SUMS, instead=_solve_with_lapack)
def _solve_factored(factor, v):  # type: ignore[no-untyped-def]
    """Overwrite ``v`` with the solution, the lower factor given."""
    for i in range(v.size):
        total = v[i]
        for j in range(i):
            total -= factor[i, j] * v[j]
        v[i] = total / factor[i, i]
    for i in range(v.size - 1, -1, -1):
        v[i] /= factor[i, i]
        for j in range(i):
            v[j] -= factor[i, j] * v[i]


def _iterative(point: Point, mu: float, ridge: Array, cautious: bool, precondition: Solve | None) -> Solve:
    """Return the function that solves by conjugate gradients, preconditioned by the diagonal if by nothing better."""
    curvature = point.curvature(mu, form="product", cautious=cautious)
    data_product, diagonal = curvature.product, curvature.diagonal
    assert data_product is not None
    assert diagonal is not None
    if precondition is None:
        diagonal = np.maximum(ridge + diagonal, ridge)

        def precondition(v: Array) -> Array:
            return np.asarray(v / diagonal)

    def product(v: Array) -> Array:
        return ridge * v + data_product(v)

    return lambda target: _conjugate_gradients(product, target, precondition)


def _conjugate_gradients(product: Solve, target: Array, precondition: Solve) -> Array:
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
