"""The exact linear solver: coordinates, start, method, certificate, in this order.

Coordinates: better ones than the user's where columns are uneven or far from zero, or more than rows. Start: zero, the
solution on a part of the rows, which is statistically close already, or that of a neighbour. Method: Newton's, cheaper
steps on wide data; where k is a small part of n, most losses stay below the threshold and cannot matter, so a working
set of the largest is solved instead, and grown until the certificate holds on all rows; and where a classifier does not
beat w = 0 soon, it is first asked whether zero is the optimum. Certificate: in the user's coordinates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from atklearn.core.balance import certify_zero
from atklearn.core.newton import solve_newton
from atklearn.core.problem import THINNING, Problem, Progress, Solution, Start, StopReason
from atklearn.core.wide import solve_wide
from atklearn.losses.individual import Array
from atklearn.runtime.threads import steady_blas

__all__ = ["solve_linear"]

# From so many columns on, a quasi-Newton step is cheaper than Newton's by more than it is worse.
_MANY_COLUMNS = 600
_SOME_COLUMNS = 150  # if there are few rows: so many for each column
_FEW_ROWS = 4
# A working set pays if there are this many rows and the top k is at most this part of them.
_MANY = 5000
_SMALL_TOP = 0.2
# Rows per column that are enough to tell roughly where the average is least, and how roughly.
_SOME_ROWS = 200
_ROUGH = 0.01
# So much more of a gap on all rows than on a working set shows that rows are missing in this.
_MUCH_MORE = 10.0
# So large a gap that rounding has made is worth another try, in other units.
_WORTH_A_TRY = 1e-8
# Relative gaps of the first working set, and of the next over that on all rows; so few rows added, of those there, that
# the next is solved to the end.
_FIRST = 0.03
_FINER = 0.03
_FEW_ADDED = 0.01
# A warm start takes the last smoothing of its predecessor times this: wide enough to move, narrow enough to gain.
_RELAX = 25.0


@np.errstate(all="ignore")  # numbers that are too large or too small show in the certificate
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
    better = problem.conditioned()
    working = problem if better is None else better
    # from here on coefficients are in the coordinates of `working`
    begin = _cold_start(working, tol, max_iter) if start is None else _warm_start(working, start, relax)
    solution = _solve(working, begin, tol, max_iter, progress)
    if better is not None:
        # from here on they are the user's
        solution = _in_coordinates_of_the_user(problem, better, solution, tol)
    is_off = solution.stop_reason is StopReason.ROUNDING and solution.dual_gap > _WORTH_A_TRY * solution.objective
    if is_off or solution.stop_reason is StopReason.STALLED:
        solution = _regained(problem, better, solution, tol, max_iter, progress)
    return solution


def _regained(
    problem: Problem, better: Problem | None, solution: Solution, tol: float, max_iter: int, progress: Progress | None
) -> Solution:
    """Return what can be regained of what rounding has cost a solution: in even units, or in the user's."""
    even = problem.in_even_units() if better is None else None
    if even is None and (better is None or better.is_exact):
        return solution
    elsewhere = problem if even is None else even
    again = _solve(elsewhere, _warm_start(elsewhere, solution, _RELAX), tol, max_iter, progress)
    if even is not None:
        again = _in_coordinates_of_the_user(problem, even, again, tol)
    return solution.followed_by(again, tol)


def _in_coordinates_of_the_user(problem: Problem, better: Problem, solution: Solution, tol: float) -> Solution:
    """Return a solution in better coordinates in the user's, with a certificate of what it is there."""
    coef = better.outward(solution.coef)
    if better.is_exact:
        rounded = better.certify(better.inward(coef), solution.density)
        return solution.moved_to(replace(rounded, coef=coef), tol)
    return replace(solution, dual_gap=solution.objective).moved_to(problem.certify(coef, solution.density), tol)


# Where to start


def _warm_start(problem: Problem, start: Solution, relax: float) -> Start:
    """Begin at a solution in the user's coordinates."""
    return Start(problem.inward(start.coef), start.density, relax * start.smoothing, is_informed=True)


def _cold_start(problem: Problem, tol: float, max_iter: int) -> Start:
    """Begin at zero, or at the solution on some of many rows, which began on some of these."""
    levels, tols = [problem], [tol]
    while levels[-1].is_large and not problem.is_quadratic:
        n, d, total = levels[-1].rows.n_rows, levels[-1].rows.n_columns, levels[-1].rows.total
        # A top of fewer rows than columns would be fitted by chance: a larger top tells more of the whole.
        thinned = levels[-1].thinned(n // THINNING, least_k=5.0 * d * total / n)
        # The optimum on the thinned rows is off by about d / (rows in the top): to find it more finely is wasted.
        coarse = d * thinned.rows.total / thinned.rows.n_rows / thinned.k
        levels.append(thinned)
        tols.append(float(np.clip(coarse, tols[-1], 0.01)))
    smallest = levels[-1]
    begin = Start(np.zeros(problem.rows.n_columns))
    if smallest.loss.task == "classification" and _has_small_top(smallest):
        begin = Start(_average_start(smallest, max_iter))
    for level, coarse in zip(levels[:0:-1], tols[:0:-1], strict=True):
        sketch = _solve(level, begin, coarse, max_iter, None)
        begin = Start(sketch.coef, None, 3.0 * sketch.smoothing, is_informed=True)
    return begin


def _average_start(problem: Problem, max_iter: int) -> Array:
    """Return about where the average loss is least: at zero all losses tie, and none of them is the largest."""
    n, d = problem.rows.n_rows, problem.rows.n_columns
    enough = max(n // THINNING, _SOME_ROWS * d, problem.rows.min_efficient_rows)
    some = problem.thinned(enough) if enough < n else problem
    average = some.at(some.rows.total, some.C)
    start = Start(np.zeros(d))
    return _on_rows(average)(average, start, _ROUGH, max_iter, None).coef


# How to go on


def _solve(problem: Problem, begin: Start, tol: float, max_iter: int, progress: Progress | None) -> Solution:
    """Solve from a start; where a classifier does not beat w = 0 soon, ask first whether zero is the optimum."""
    watch = _Watch(problem, begin, progress)
    if not watch.has_stopped:
        solution = _method(problem)(problem, begin, tol, max_iter, watch)
    steps = 0
    if watch.has_stopped:
        zero, steps = certify_zero(problem, tol, max_iter, begin.density if begin.is_informed else None)
        if zero is not None:
            if progress is not None:
                progress(steps, zero.objective, zero.dual_gap)
            return Solution.of(zero, tol=tol, n_iter=steps, otherwise=StopReason.STALLED, smoothing=watch.at_zero)
        if not begin.coef.any():  # densities and smoothing of a collapse say nothing of what is above it
            begin = Start(begin.coef)
        watch.let_go()
        solution = _method(problem)(problem, begin, tol, max(max_iter - steps, 1), watch)
    if problem.loss.task == "classification":
        beats_zero = solution.beats(problem.rows.loss_at_zero)
    else:
        beats_zero = solution.reaches(tol) or solution.beats(
            problem.certify(np.zeros_like(solution.coef), None).objective
        )
    if not beats_zero:
        solution = _zero(problem, solution, tol)
    return replace(solution, n_iter=steps + solution.n_iter) if steps else solution


class _Watch:
    """Looks on while a classifier is fitted, and stops the solver if it does not beat w = 0 soon.

    Where it does, no more is needed: zero is not optimal.
    """

    def __init__(self, problem: Problem, begin: Start, progress: Progress | None) -> None:
        is_classification = problem.loss.task == "classification"
        self.at_zero = problem.rows.loss_at_zero if is_classification else 0.0
        self.progress = progress
        # so many columns fit any labels, or nearly so
        self.may_be_zero = is_classification and problem.k < problem.rows.total and not _is_wide(problem)
        # a neighbour, or a part of the rows, has collapsed already
        self.has_stopped = self.may_be_zero and begin.is_informed and not begin.coef.any()
        self.first = 0 if begin.coef.any() else 1

    def __call__(self, steps: int, objective: float, gap: float) -> bool:
        """Say whether to stop, after so many steps."""
        if steps == self.first and self.stops_at(objective):
            return True
        return self.progress is not None and bool(self.progress(steps, objective, gap))

    def stops_at(self, objective: float) -> bool:
        """Say whether to stop where the objective is as high as given."""
        self.has_stopped = self.may_be_zero and objective >= self.at_zero
        return self.has_stopped

    def let_go(self) -> None:
        """Stop nothing any more."""
        self.may_be_zero = self.has_stopped = False


def _method(problem: Problem) -> Callable[..., Solution]:
    """Return what solves a problem of this shape, from a start, to a tolerance, in so many steps, under a watch."""
    return _by_working_set if _has_small_top(problem) else _on_rows(problem)


def _on_rows(problem: Problem) -> Callable[..., Solution]:
    """Return what solves a problem on all of its rows."""
    return solve_wide if _takes_cheap_steps(problem) else solve_newton


def _is_wide(problem: Problem) -> bool:
    """Say whether a Newton step costs many passes over X."""
    n, d = problem.rows.n_rows, problem.rows.n_columns
    many = d > _MANY_COLUMNS or (d > _SOME_COLUMNS and n <= _FEW_ROWS * d)
    return problem.rows.is_dense and many and not problem.is_quadratic


def _takes_cheap_steps(problem: Problem) -> bool:
    """Say whether cheaper steps than Newton's come first: on wide data, and where its many passes are dear."""
    is_far = problem.rows.passes_are_remote and problem.rows.n_columns > _MANY_COLUMNS and not problem.is_quadratic
    return is_far or _is_wide(problem)


def _has_small_top(problem: Problem) -> bool:
    """Say whether the largest losses are so few that a working set of them pays."""
    rows = problem.rows
    return (
        rows.n_rows >= _MANY and problem.k <= _SMALL_TOP * rows.total and _first_count(problem) <= rows.max_subset_rows
    )


def _by_working_set(problem: Problem, begin: Start, tol: float, max_iter: int, watch: _Watch) -> Solution:
    """Solve on the largest losses, adding rows that rise above the threshold, until the gap holds on all rows.

    Sample weights on part of the rows are sample weights on all, so the lower bound carries over as it is.
    """
    rows, k = problem.rows, problem.k
    here, steps = begin, 0
    finest = 0.5 * tol
    # no finer than what the rows that are still missing will change; from a neighbour's solution, they are few
    rough = finest if begin.is_informed else max(_FIRST, finest)
    part = rows.point(begin.coef, k, begin.density).largest(_first_count(problem))
    while part.rows.n_rows < min(rows.n_rows, rows.max_subset_rows):
        inside = replace(here, density=None if here.density is None else part.restrict(here.density))
        of_part = problem.on(part.rows, k)
        solved = _on_rows(of_part)(of_part, inside, rough, max_iter - steps, watch)
        steps += solved.n_iter
        here = Start(solved.coef, part.extend(solved.density), 5.0 * solved.smoothing, is_informed=True)
        point = rows.point(here.coef, k, here.density)
        certificate = problem.certify_point(point)
        halted = solved.stop_reason in (StopReason.MAX_ITER, StopReason.CALLBACK)
        # a part that has stalled is solved as well as it can be: what is missing may still be rows outside of it
        is_solved = solved.stop_reason in (StopReason.STALLED, StopReason.ROUNDING)
        stalled = is_solved and certificate.dual_gap <= _MUCH_MORE * solved.dual_gap
        is_done = certificate.reaches(tol) or halted or stalled or watch.stops_at(certificate.objective)
        if not is_done:
            before = part.rows.n_rows
            more = min(max(before, 2000), rows.max_subset_rows - before)
            part = point.largest(more, beside=part, above=solved.threshold - certificate.dual_gap)
            added = part.rows.n_rows - before
            is_done = added == 0 and rough == finest  # there are no others
            is_settled = added <= _FEW_ADDED * before
            rough = finest if is_settled else max(_FINER * certificate.dual_gap / certificate.objective, finest)
        if is_done:
            otherwise = StopReason.STALLED if solved.stop_reason is StopReason.CONVERGED else solved.stop_reason
            return Solution.of(certificate, tol=tol, n_iter=steps, otherwise=otherwise, smoothing=solved.smoothing)
    solution = _on_rows(problem)(problem, here, tol, max_iter - steps, watch)
    return replace(solution, n_iter=steps + solution.n_iter)


def _first_count(problem: Problem) -> int:
    """Return how many rows a working set starts with: the top, as much again for a half, and some for every column."""
    rows = problem.rows
    return int(1.5 * problem.k * rows.n_rows / rows.total) + 10 * rows.n_columns + 500


def _zero(problem: Problem, solution: Solution, tol: float) -> Solution:
    """Return w = 0 in place of a solution that does not beat it.

    Too small a k makes w = 0 the optimum. Any point near it is optimal to the tolerance, with signs that are rounding
    noise; zero itself is better, and the same whatever the order or the weighting of the samples.
    """
    return solution.moved_to(problem.certify(np.zeros_like(solution.coef), solution.density), tol)
