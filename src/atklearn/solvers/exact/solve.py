"""The exact linear solver: which rows the Newton method works on.

Small problems go to it whole. Large ones start from the solution on a part of the rows, which is statistically close
already. Where k is a small part of n, most losses stay below the threshold and cannot matter: a working set of the
largest losses is solved instead, and grown until the certificate holds on all rows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from atklearn.losses.individual import Array
from atklearn.problems.objective import Problem
from atklearn.problems.rows import Density
from atklearn.problems.solution import Solution, StopReason
from atklearn.problems.threads import steady_blas
from atklearn.solvers.exact.dual import climb
from atklearn.solvers.exact.newton import Progress, ProximalNewton
from atklearn.solvers.exact.quasi_newton import ProximalQuasiNewton

__all__ = ["solve_linear", "thin"]

# From this many rows on, one in so many of them gives the start.
_LARGE = 50_000
_THINNING = 20
# A working set pays if there are this many rows and the top k is at most this part of them.
_MANY = 5000
_SMALL_TOP = 0.2
# From this many columns on, a quasi-Newton step is cheaper than Newton's by more than it is worse; so many, or one for
# every two columns, cost as much as some fifteen of Newton's.
_MANY_COLUMNS = 600
_SOME_COLUMNS = 150  # if there are few rows
_QUASI_STEPS = 200
# A warm start takes the last smoothing of its predecessor times this: wide enough to move, narrow enough to gain.
_RELAX = 25.0


@steady_blas()
def solve_linear(
    problem: Problem,
    *,
    tol: float = 1e-6,
    max_iter: int = 1000,
    start: Solution | None = None,
    relax: float = _RELAX,
    progress: Progress | None = None,
) -> Solution:
    """Minimise ``AT_k + |w|^2 / (2 C)`` exactly.

    Parameters
    ----------
    problem : Problem
    tol : float
        The duality gap allowed, relative to the objective.
    max_iter : int
        The number of Newton steps allowed.
    start : Solution, default=None
        A solution of a neighbouring problem to start from.
    relax : float
        The factor on the smoothing of ``start``: the closer the start, the smaller.
    progress : callable, default=None
        Called after each move with the steps so far, the objective and the gap; a true answer stops.

    Returns
    -------
    Solution
        With a certified duality gap, whatever made the solver stop.
    """
    conditioned = problem.conditioned()
    if conditioned is not None:
        solution = _solve_conditioned(problem, conditioned, tol, max_iter, start, relax, progress)
        if solution.stop_reason is not StopReason.STALLED or conditioned.is_exact:
            return solution
        start = solution  # what rounding has cost is regained here
    if start is None:
        coef, density, smoothing = _cold_start(problem, tol, max_iter)
    else:
        coef, density, smoothing = start.coef, start.density, relax * start.smoothing
    if problem.rows.n_rows >= _MANY and problem.k <= _SMALL_TOP * problem.rows.total:
        solution = _solve_on_top(problem, coef, density, smoothing, tol, max_iter, progress)
    else:
        solution = _solve_on_all(problem, coef, density, smoothing, tol, max_iter, progress)
    if problem.loss.task == "classification" and not solution.beats(problem.rows.loss_at_zero):
        return _zero(problem, solution, tol)
    return solution


def _solve_conditioned(
    given: Problem,
    problem: Problem,
    tol: float,
    max_iter: int,
    start: Solution | None,
    relax: float,
    progress: Progress | None,
) -> Solution:
    """Solve in better coordinates than the user's, and certify what the answer is in these."""
    if start is not None:
        start = replace(start, coef=problem.inward(start.coef))
    solution = solve_linear(problem, tol=tol, max_iter=max_iter, start=start, relax=relax, progress=progress)
    coef = problem.outward(solution.coef)
    if problem.is_exact:
        rounded = problem.certify(problem.inward(coef), solution.density)
        return solution.moved_to(replace(rounded, coef=coef), tol)
    return replace(solution, dual_gap=solution.objective).moved_to(given.certify(coef, solution.density), tol)


def _solve_on_all(
    problem: Problem,
    coef: Array,
    density: Density | None,
    smoothing: float | None,
    tol: float,
    max_iter: int,
    progress: Progress | None,
) -> Solution:
    """Solve on all rows: by Newton steps; on wide data by cheaper ones first, as long as these get on."""
    if not _is_wide(problem):
        return ProximalNewton(problem, coef, density, smoothing).run(tol, max_iter, progress)
    climbed = climb(problem, density, tol, max_iter, progress)
    if climbed is not None:
        if climbed.reaches(tol) or climbed.stop_reason is StopReason.CALLBACK:
            return climbed
        coef, density, smoothing = climbed.coef, climbed.density, None
    steps = min(max_iter, max(_QUASI_STEPS, problem.rows.n_columns // 2))
    quick = ProximalQuasiNewton(problem, coef, density, smoothing).run(tol, steps, progress)
    if quick.reaches(tol) or quick.stop_reason is StopReason.CALLBACK or quick.n_iter >= max_iter:
        return quick
    newton = ProximalNewton(problem, quick.coef, quick.density, quick.smoothing)
    solution = newton.run(tol, max_iter - quick.n_iter, progress)
    return replace(solution, n_iter=quick.n_iter + solution.n_iter)


def _is_wide(problem: Problem) -> bool:
    """Say whether a Newton step costs many passes over X."""
    n, d = problem.rows.n_rows, problem.rows.n_columns
    many = d > _MANY_COLUMNS or (d > _SOME_COLUMNS and n <= 2 * d)
    return problem.rows.is_dense and many and not problem.is_quadratic


def thin(problem: Problem, n_rows: int, least_k: float = 0.0) -> Problem:
    """Return the problem on a random part of the rows, with k in proportion, or ``least_k`` if that is more."""
    rows = problem.rows.sample(n_rows)
    return problem.on(rows, min(max(problem.k * rows.total / problem.rows.total, least_k), rows.total))


def _cold_start(problem: Problem, tol: float, max_iter: int) -> tuple[Array, None, float | None]:
    """Return coefficients, densities and smoothing from nothing: zero, or the solution on some of many rows."""
    n, d = problem.rows.n_rows, problem.rows.n_columns
    if n < _LARGE or problem.is_quadratic:
        return np.zeros(d), None, None
    # A top of fewer rows than columns would be fitted by chance: a larger top tells more of the whole.
    thinned = thin(problem, n // _THINNING, least_k=5.0 * d * problem.rows.total / n)
    # The optimum on the thinned rows is off by about d / (rows in the top): to find it more finely is wasted.
    coarse = float(np.clip(d * thinned.rows.total / thinned.rows.n_rows / thinned.k, tol, 0.01))
    sketch = solve_linear(thinned, tol=coarse, max_iter=max_iter)
    return sketch.coef, None, 3.0 * sketch.smoothing


def _solve_on_top(
    problem: Problem,
    coef: Array,
    density: Density | None,
    smoothing: float | None,
    tol: float,
    max_iter: int,
    progress: Progress | None,
) -> Solution:
    """Solve on the largest losses, adding rows that rise above the threshold, until the gap holds on all rows.

    Sample weights on part of the rows are sample weights on all, so the lower bound carries over as it is.
    """
    rows, k = problem.rows, problem.k
    steps = 0
    count = int(1.5 * k * rows.n_rows / rows.total) + 10 * rows.n_columns + 500
    part = rows.at(coef, k, density).largest(count)
    density = None if density is None else part.restrict(density)
    while part.rows.n_rows < rows.n_rows:
        newton = ProximalNewton(problem.on(part.rows, k), coef, density, smoothing)
        solved = newton.run(0.5 * tol, max_iter - steps, progress)
        steps += solved.n_iter
        coef, smoothing, density = solved.coef, 5.0 * solved.smoothing, part.extend(solved.density)
        point = rows.at(coef, k, density)
        certificate = problem.certify_point(point)
        if certificate.reaches(tol) or solved.stop_reason is not StopReason.CONVERGED:
            otherwise = StopReason.STALLED if solved.stop_reason is StopReason.CONVERGED else solved.stop_reason
            return Solution.of(certificate, tol=tol, n_iter=steps, otherwise=otherwise, smoothing=solved.smoothing)
        part = point.largest(max(part.rows.n_rows, 2000), beside=part, above=solved.threshold)
        density = part.restrict(density)
    solution = ProximalNewton(problem, coef, density, smoothing).run(tol, max_iter - steps, progress)
    return replace(solution, n_iter=steps + solution.n_iter)


def _zero(problem: Problem, solution: Solution, tol: float) -> Solution:
    """Return the zero classifier in place of a solution that does not beat it.

    Too small a k makes w = 0 the optimum. Any point near it is optimal to the tolerance, with signs that are rounding
    noise; zero itself is better, and the same whatever the order or the weighting of the samples.
    """
    return solution.moved_to(problem.certify(np.zeros_like(solution.coef), solution.density), tol)
