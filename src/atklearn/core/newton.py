"""Proximal point on the sample weights, semismooth Newton inside; and the Newton system.

Symbols: ``z`` the coefficients, ``r`` the densities of the sample weights, ``centre`` those of the last proximal step,
``mu`` the smoothing; all that has an entry per sample stays behind the :class:`~atklearn.core.point.Point`.

The smoothed objective phi(z) = |w|^2/(2C) + max over r of sum(u (r s - mu/2 (r - centre)^2)) is minimised by Newton's
method. When its gradient is small against the slack that the smoothing leaves, the centre moves to ``r`` and ``mu``
shrinks; where Newton's method labours, ``mu`` grows. The gap ``C/2 |grad phi|^2 + slack`` bounds the distance from the
optimum all along, so it alone decides when to stop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.linalg import cho_solve

from atklearn.core.interior import solve_interior
from atklearn.core.point import Look, Point, Ray, Reading
from atklearn.core.problem import Certificate, Problem, Progress, Solution, Start, StopReason
from atklearn.losses.individual import Array
from atklearn.runtime.compiling import FAST_SUMS, njit_if_there

__all__ = ["NewtonSystem", "ProximalNewton", "can_go_inside", "go_on_inside", "newton_system", "solve_newton"]

_GROW = 5.0  # of mu after a slow inner solve
_MAX_TRIALS = 30  # of the line search
_DAMPING = (1e-13, 1e-3)  # least and most, of the pivot of an unpenalised coordinate
_BALANCED = 1e-14  # of the objective: an imbalance that is rounding
_LONGEST_CAUTION = 64  # steps
_LONGEST_WAIT = 200  # steps without a smaller gap before giving up
# Beyond, a step of an interior point costs too much: the Gram matrix is formed and factored every time.
_INSIDE_COLUMNS = 600
# Steps without a tenth of the gap before an interior point: from a neighbour's solution; or one for so many rows, up
# to a limit.
_INFORMED_LABOUR = 25
_ROWS_A_STEP = 250
_LONGEST_LABOUR = 100
_PATIENCE = 20  # moves that change nothing before giving up


def solve_newton(
    problem: Problem, begin: Start, tol: float, max_iter: int, progress: Progress | None = None
) -> Solution:
    """Minimise until the gap is at most ``tol`` times the objective; where this labours, by an interior point."""
    if begin.smoothing == 0.0:  # it has laboured nearby, or nothing is known
        if can_go_inside(problem) and begin.coef.any():
            here = Solution.of(
                problem.certify(begin.coef, begin.density), tol=tol, n_iter=0, otherwise=StopReason.STALLED
            )
            return go_on_inside(problem, here, tol, max_iter, progress)
        begin = replace(begin, smoothing=None)
    return go_on_inside(problem, ProximalNewton(problem, begin).run(tol, max_iter, progress), tol, max_iter, progress)


def can_go_inside(problem: Problem) -> bool:
    """Say whether an interior point can solve a problem: on rows that memory holds, with not too many columns."""
    return problem.rows.is_gatherable and problem.rows.n_columns <= _INSIDE_COLUMNS


def go_on_inside(
    problem: Problem, solution: Solution, tol: float, max_iter: int, progress: Progress | None = None
) -> Solution:
    """Return the solution, or where it is not finished, what an interior point makes of it: its smoothing is 0 then."""
    if solution.is_final or solution.n_iter >= max_iter or not can_go_inside(problem):
        return solution
    before = solution.n_iter
    inside = solve_interior(problem, solution.coef, solution.dual_gap, tol, max_iter - before, _after(before, progress))
    found = replace(solution.followed_by(inside, tol), smoothing=0.0)
    if found.stop_reason is not StopReason.STALLED:
        return found
    last = ProximalNewton(problem, Start(found.coef, found.density), is_last=True)
    return found.followed_by(last.run(tol, max_iter - found.n_iter, _after(found.n_iter, progress)), tol)


def _after(before: int, progress: Progress | None) -> Progress | None:
    """Return what is called after a move, for a solver that goes on after so many steps."""
    return None if progress is None else lambda steps, objective, gap: progress(before + steps, objective, gap)


class ProximalNewton:
    """One solve of one problem; :meth:`run` is the algorithm, the other methods are its moves."""

    # What mu shrinks by after an inner solve of so many steps at most, and the steps after which it grows instead.
    shrinks: tuple[tuple[int, float], ...] = ((6, 0.2),)
    slow = 12
    width = 1.0  # the first mu, in units of the spread of the losses
    labours = 10  # steps without a tenth of the gap, of a cold start on few rows

    def __init__(self, problem: Problem, begin: Start, *, is_last: bool = False) -> None:
        self.problem = problem
        self.patience = float("inf") if is_last else self._patience(begin)
        self.point = problem.rows.point(begin.coef, problem.k, begin.density)
        self.damping = _DAMPING[0]
        self.caution, self.lesson = 0, 1  # steps to take cautiously yet, and after the last that went too far
        self.system: NewtonSystem | None = None  # as long as it holds
        self.steps = 0
        self.guess_smoothing, smoothing = begin.smoothing is None, begin.smoothing
        if smoothing is None:
            smoothing = _spread(self.point.smooth(1.0))  # any mu will do to see the losses
        self.mu = smoothing
        self._smooth()

    def run(self, tol: float, max_iter: int, progress: Progress | None = None) -> Solution:
        """Minimise until the gap is at most ``tol`` times the objective."""
        target_share = 1.0  # tightened if the exact certificate falls short of the running estimate
        inner = stalls = refreshes = 0
        best: Certificate | None = None
        least, since = float("inf"), 0  # the smallest gap seen, and the step it was seen at
        tenth, since_tenth = float("inf"), 0  # and the last that was a tenth of the one before
        while True:
            objective, stationarity, slack = self._measure()
            target = target_share * tol * objective
            if stationarity + slack < 0.9 * least:
                least, since = stationarity + slack, self.steps
            if least < 0.1 * tenth:
                tenth, since_tenth = least, self.steps
            stopped = progress is not None and bool(progress(self.steps, objective, stationarity + slack))
            stuck = stalls >= _PATIENCE or refreshes >= _PATIENCE or self.steps - since >= _LONGEST_WAIT
            stuck = stuck or self.steps - since_tenth >= self.patience
            limit = stopped or stuck or self.steps >= max_iter
            if limit or stationarity + slack <= target:
                proof = self.point.prove(balanced=self.problem.free is not None)
                best = _better(best, self.problem.conclude(self.point.z, proof))
                if limit or best.reaches(tol) or best.is_exhausted(tol):
                    break
                target_share *= 0.3
                refreshes += 1
                if abs(proof.value - self.reading.bound) > 0.1 * tol * objective:  # predictions have drifted
                    self.point.refresh()
                    self._smooth()
            elif stationarity <= max(0.3 * slack, 0.1 * target):
                stalls = stalls + 1 if inner == 0 else 0
                self._recentre(next((shrink for quick, shrink in self.shrinks if inner <= quick), 1.0))
                inner = 0
            elif inner >= self.slow:
                self.mu *= _GROW
                self._smooth()
                inner = 0
            else:
                stalls = 0 if self._step() else stalls + 1
                self.steps += 1
                inner += 1
                if self.guess_smoothing and self.steps == 2:  # the losses at the start say little about their spread
                    self.mu = max(self.width * _spread(self.reading), 1e-3 * self.mu)
                    self._smooth()
                    inner = 0
        otherwise = StopReason.MAX_ITER if self.steps >= max_iter else StopReason.STALLED
        return Solution.of(
            best,
            tol=tol,
            n_iter=self.steps,
            otherwise=StopReason.CALLBACK if stopped else otherwise,
            smoothing=self.mu,
        )

    def _patience(self, begin: Start) -> float:
        """Return the steps without a tenth of the gap, after which an interior point goes on; no end where none can."""
        if not can_go_inside(self.problem):
            return float("inf")
        # A step inside takes all rows, Newton's those that are tied; and the next along a path is better off with what
        # Newton's method leaves.
        of_rows = min(self.problem.rows.n_rows / _ROWS_A_STEP, _LONGEST_LABOUR)
        return max(self.labours, of_rows, _INFORMED_LABOUR if begin.is_informed else 0)

    def advance(self) -> bool:
        """Take one Newton step at the smoothing as it is; return whether it moved."""
        self.steps += 1
        return self._step()

    def resume(self, smoothing: float) -> None:
        """Go on with another smoothing around the same centre."""
        self.mu = smoothing
        self._smooth()

    def _measure(self) -> tuple[float, float, float]:
        """Return an upper bound of the objective, and the two parts of the gap."""
        problem, reading = self.problem, self.reading
        stationarity = problem.stationarity(self.gradient)
        if problem.free is not None:
            stationarity += reading.imbalance
        return reading.bound + problem.penalty(self.point.z), stationarity, reading.slack

    def _step(self) -> bool:
        """Take one Newton step; return whether it moved."""
        problem, point = self.problem, self.point
        fresh = self.system is None
        if self.system is None:
            # An unpenalised intercept may have to move across all predictions and targets, hardly further.
            reach = 0.0 if problem.free is None else 2.0 * point.reach()
            self.system = newton_system(
                problem, point, self.gradient, self.mu, reach=reach, damping=self.damping,
                cautious=self.caution > 0, seed=self.steps,
            )  # fmt: skip
        direction = self.system.solve(-self.gradient)
        t, reading = self._line_search(direction, point.towards(direction))
        if reading is None:
            self.system = None
            return False
        self.caution = max(self.caution - 1, 0)
        if t < 0.1:
            self.lesson = min(2 * self.lesson, _LONGEST_CAUTION)
            self.caution = self.lesson
        if t == 1.0:
            self.damping = max(1e-3 * self.damping, _DAMPING[0])
        elif t < 0.01:  # the intercept wants to move too far
            self.damping = min(1e3 * self.damping, _DAMPING[1])
        self.reading = reading
        if self.system.lasting and self.system.free_curvature > 0.0:
            # One more Newton step along the intercept: no pass over X, and the gap is linear in its derivative.
            point.shift(-reading.push / self.system.free_curvature)
            self.reading = point.smooth(self.mu)
        before = self.gradient
        self._differentiate()
        shrunk = float(self.gradient @ self.gradient) < 0.01 * float(before @ before)
        if not (fresh and self.system.lasting and t == 1.0 and shrunk):
            self.system = None
        return True

    def _line_search(self, direction: Array, ray: Ray) -> tuple[float, Reading | None]:
        """Move the point to where the slope of phi has halved; it is convex, so a bracket finds it.

        Return the distance and the reading there, or None if the direction does not descend.
        """
        slope = float(self.gradient @ direction)
        if not slope < 0.0:
            return 0.0, None
        pull = self.problem.ridge * direction
        penalty_slope, penalty_curvature = float(pull @ self.point.z), float(pull @ direction)
        low, high, slope_low, slope_high = 0.0, 1.0, slope, 0.0
        t = 1.0
        look: Look | None = None
        for _ in range(_MAX_TRIALS):
            look = None  # what it has borrowed goes back before the next one borrows
            look = ray.look(t, self.mu)
            slope_t = penalty_slope + t * penalty_curvature + look.reading.steepness
            if abs(slope_t) <= 0.5 * abs(slope) or (t == 1.0 and slope_t < 0.0):
                break
            if slope_t > 0.0:
                high, slope_high = t, slope_t
            else:
                low, slope_low = t, slope_t
            tried, width = t, high - low
            secant = low - width * slope_low / (slope_high - slope_low)
            t = min(max(secant, low + 0.1 * width), high - 0.1 * width)
        else:
            t = tried
        assert look is not None
        self.point.move_to(look)
        return t, look.reading

    def _recentre(self, shrink: float) -> None:
        """Take the proximal step: the densities become the centre."""
        self.point.recentre()
        # Below 1e-7 of the losses, the threshold has too few digits left to place the densities.
        self.mu = max(self.mu * shrink, 1e-7 * max(self.reading.threshold, _spread(self.reading)))
        self._smooth()

    def _smooth(self) -> None:
        """Find threshold, densities and gradient of phi at the point."""
        self.reading = self.point.smooth(self.mu)
        self.system = None
        self._differentiate()

    def _differentiate(self) -> None:
        self.gradient = self.problem.ridge * self.point.z + self.point.gradient()
        if self.problem.free is not None and self.reading.imbalance <= _BALANCED * self.reading.bound:
            self.gradient[self.problem.free] = 0.0  # where nothing holds the intercept, rounding would send it far


def _better(one: Certificate | None, other: Certificate) -> Certificate:
    """Return the certificate with the smaller gap."""
    return other if one is None or other.dual_gap <= one.dual_gap else one


def _spread(reading: Reading) -> float:
    """Return the standard deviation of the losses, or their mean size where they are all alike."""
    if reading.deviation > 1e-3 * reading.size:
        return reading.deviation
    return max(reading.size, 1e-300)


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
