"""The exact linear solver: which rows the Newton method works on.

Small problems go to it whole. Large ones start from the solution on a part of the rows, which is statistically close
already. Where k is a small part of n, most losses stay below the threshold and cannot matter: a working set of the
largest losses is solved instead, and grown until the certificate holds on all rows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from atklearn.core.store import Density
from atklearn.losses.individual import Array
from atklearn.problems.objective import Problem
from atklearn.problems.solution import Solution, StopReason
from atklearn.solvers.exact.balance import certify_zero
from atklearn.solvers.exact.newton import Progress, ProximalNewton
from atklearn.solvers.exact.thinning import THINNING, is_large, thin
from atklearn.solvers.exact.wide import is_wide, solve_wide, takes_cheap_steps
from atklearn.stores.threads import steady_blas

__all__ = ["solve_linear"]

# A working set pays if there are this many rows and the top k is at most this part of them.
_MANY = 5000
_SMALL_TOP = 0.2
# Rows per column that are enough to tell roughly where the average is least, and how roughly.
_SOME_ROWS = 200
_ROUGH = 0.01
# So much more of a gap on all rows than on a working set shows that rows are missing in this.
_MUCH_MORE = 10.0
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
    doubt = _Doubt(problem, coef, progress)
    if start is not None or is_large(problem):  # a neighbour, or a part of the rows, has collapsed already
        doubt.is_raised = doubt.may_be_zero and not coef.any()
    steps = 0
    if not doubt.is_raised:
        solution = _solve_from(problem, coef, density, smoothing, tol, max_iter, doubt)
    if doubt.is_raised:
        zero, steps = certify_zero(problem, tol, max_iter, None if start is None else start.density)
        if zero is not None:
            if progress is not None:
                progress(steps, zero.objective, zero.dual_gap)
            return Solution.of(zero, tol=tol, n_iter=steps, otherwise=StopReason.STALLED, smoothing=doubt.at_zero)
        doubt.settle()
        if not coef.any():  # densities and smoothing of a collapse say nothing of what is above it
            density = smoothing = None
        solution = _solve_from(problem, coef, density, smoothing, tol, max(max_iter - steps, 1), doubt)
    if problem.loss.task == "classification" and not solution.beats(problem.rows.loss_at_zero):
        solution = _zero(problem, solution, tol)
    return replace(solution, n_iter=steps + solution.n_iter) if steps else solution


class _Doubt:
    """Looks on while a classifier is fitted, and stops the solver if it does not beat w = 0 soon.

    Where it does, no more is needed: zero is not optimal.
    """

    def __init__(self, problem: Problem, start: Array, progress: Progress | None) -> None:
        self.at_zero = problem.rows.loss_at_zero if problem.loss.task == "classification" else 0.0
        self.progress = progress
        is_classification = problem.loss.task == "classification"
        # so many columns fit any labels, or nearly so
        self.may_be_zero = is_classification and problem.k < problem.rows.total and not is_wide(problem)
        self.is_raised = False
        self.first = 0 if start.any() else 1

    def look(self, steps: int, objective: float, gap: float) -> bool:
        """Say whether to stop, after so many steps."""
        if steps == self.first and self.compare(objective):
            return True
        return self.progress is not None and bool(self.progress(steps, objective, gap))

    def compare(self, objective: float) -> bool:
        """Say whether to stop where the objective is as high as given."""
        self.is_raised = self.may_be_zero and objective >= self.at_zero
        return self.is_raised

    def settle(self) -> None:
        """Look no more."""
        self.may_be_zero = self.is_raised = False


def _solve_from(
    problem: Problem,
    coef: Array,
    density: Density | None,
    smoothing: float | None,
    tol: float,
    max_iter: int,
    doubt: _Doubt,
) -> Solution:
    """Solve from coefficients, densities and a smoothing."""
    if _has_small_top(problem):
        return _solve_on_top(problem, coef, density, smoothing, tol, max_iter, doubt)
    return _solve_on_rows(problem, coef, density, smoothing, tol, max_iter, doubt.look)


def _has_small_top(problem: Problem) -> bool:
    """Say whether the largest losses are so few that a working set of them pays."""
    rows = problem.rows
    return (
        rows.n_rows >= _MANY and problem.k <= _SMALL_TOP * rows.total and _first_count(problem) <= rows.max_subset_rows
    )


def _solve_on_rows(
    problem: Problem,
    coef: Array,
    density: Density | None,
    smoothing: float | None,
    tol: float,
    max_iter: int,
    progress: Progress,
) -> Solution:
    """Solve on the rows as they are, by the method that suits their shape."""
    if takes_cheap_steps(problem):
        return solve_wide(problem, coef, density, smoothing, tol, max_iter, progress)
    return ProximalNewton(problem, coef, density, smoothing).run(tol, max_iter, progress)


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


def _cold_start(problem: Problem, tol: float, max_iter: int) -> tuple[Array, None, float | None]:
    """Return coefficients, densities and smoothing from nothing: zero, or the solution on some of many rows."""
    n, d = problem.rows.n_rows, problem.rows.n_columns
    if problem.is_quadratic:
        return np.zeros(d), None, None
    if not is_large(problem):
        if problem.loss.task == "classification" and _has_small_top(problem):
            return _average_start(problem), None, None
        return np.zeros(d), None, None
    # A top of fewer rows than columns would be fitted by chance: a larger top tells more of the whole.
    thinned = thin(problem, n // THINNING, least_k=5.0 * d * problem.rows.total / n)
    # The optimum on the thinned rows is off by about d / (rows in the top): to find it more finely is wasted.
    coarse = float(np.clip(d * thinned.rows.total / thinned.rows.n_rows / thinned.k, tol, 0.01))
    sketch = solve_linear(thinned, tol=coarse, max_iter=max_iter)
    return sketch.coef, None, 3.0 * sketch.smoothing


def _average_start(problem: Problem) -> Array:
    """Return about where the average loss is least: at zero all losses tie, and none of them is the largest."""
    n, d = problem.rows.n_rows, problem.rows.n_columns
    enough = max(n // THINNING, _SOME_ROWS * d, problem.rows.min_efficient_rows)
    some = thin(problem, enough) if enough < n else problem
    return solve_linear(some.at(some.rows.total, some.C), tol=_ROUGH).coef


def _solve_on_top(
    problem: Problem,
    coef: Array,
    density: Density | None,
    smoothing: float | None,
    tol: float,
    max_iter: int,
    doubt: _Doubt,
) -> Solution:
    """Solve on the largest losses, adding rows that rise above the threshold, until the gap holds on all rows.

    Sample weights on part of the rows are sample weights on all, so the lower bound carries over as it is.
    """
    rows, k = problem.rows, problem.k
    steps = 0
    part = rows.point(coef, k, density).largest(_first_count(problem))
    density = None if density is None else part.restrict(density)
    while part.rows.n_rows < min(rows.n_rows, rows.max_subset_rows):
        solved = _solve_on_rows(
            problem.on(part.rows, k), coef, density, smoothing, 0.5 * tol, max_iter - steps, doubt.look
        )
        steps += solved.n_iter
        coef, smoothing, density = solved.coef, 5.0 * solved.smoothing, part.extend(solved.density)
        point = rows.point(coef, k, density)
        certificate = problem.certify_point(point)
        halted = solved.stop_reason in (StopReason.MAX_ITER, StopReason.CALLBACK)
        # a part that has stalled is solved as well as it can be: what is missing may still be rows outside of it
        stalled = solved.stop_reason is StopReason.STALLED and certificate.dual_gap <= _MUCH_MORE * solved.dual_gap
        is_done = certificate.reaches(tol) or halted or stalled or doubt.compare(certificate.objective)
        if not is_done:
            before = part.rows.n_rows
            part = point.largest(
                min(max(before, 2000), rows.max_subset_rows - before), beside=part, above=solved.threshold
            )
            is_done = part.rows.n_rows == before  # there are no others
        if is_done:
            otherwise = StopReason.STALLED if solved.stop_reason is StopReason.CONVERGED else solved.stop_reason
            return Solution.of(certificate, tol=tol, n_iter=steps, otherwise=otherwise, smoothing=solved.smoothing)
        density = part.restrict(density)
    density = None if density is None else part.extend(density)
    solution = _solve_on_rows(problem, coef, density, smoothing, tol, max_iter - steps, doubt.look)
    return replace(solution, n_iter=steps + solution.n_iter)


def _first_count(problem: Problem) -> int:
    """Return how many rows a working set starts with: the top, as much again for a half, and some for every column."""
    rows = problem.rows
    return int(1.5 * problem.k * rows.n_rows / rows.total) + 10 * rows.n_columns + 500


def _zero(problem: Problem, solution: Solution, tol: float) -> Solution:
    """Return the zero classifier in place of a solution that does not beat it.

    Too small a k makes w = 0 the optimum. Any point near it is optimal to the tolerance, with signs that are rounding
    noise; zero itself is better, and the same whatever the order or the weighting of the samples.
    """
    return solution.moved_to(problem.certify(np.zeros_like(solution.coef), solution.density), tol)
