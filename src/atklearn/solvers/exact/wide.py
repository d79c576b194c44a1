"""Wide data, where a Newton step costs many passes over X: cheaper steps first, as long as these get on."""

from __future__ import annotations

from dataclasses import replace

from atklearn.problems.objective import Problem
from atklearn.problems.solution import Solution, StopReason
from atklearn.solvers.exact.dual import climb
from atklearn.solvers.exact.newton import Progress, Start, solve_newton
from atklearn.solvers.exact.quasi_newton import ProximalQuasiNewton

__all__ = ["is_wide", "solve_wide", "takes_cheap_steps"]

# From so many columns on, a quasi-Newton step is cheaper than Newton's by more than it is worse.
_MANY_COLUMNS = 600
_SOME_COLUMNS = 150  # if there are few rows: so many for each column
_FEW_ROWS = 4
# So many of these, or one for so many columns, cost as much as some fifteen of Newton's.
_QUASI_STEPS = 200
_COLUMNS_A_STEP = 2


def is_wide(problem: Problem) -> bool:
    """Say whether a Newton step costs many passes over X."""
    n, d = problem.rows.n_rows, problem.rows.n_columns
    many = d > _MANY_COLUMNS or (d > _SOME_COLUMNS and n <= _FEW_ROWS * d)
    return problem.rows.is_dense and many and not problem.is_quadratic


def takes_cheap_steps(problem: Problem) -> bool:
    """Say whether cheaper steps than Newton's come first: on wide data, and where its many passes are dear."""
    is_far = problem.rows.passes_are_remote and problem.rows.n_columns > _MANY_COLUMNS and not problem.is_quadratic
    return is_far or is_wide(problem)


def solve_wide(problem: Problem, begin: Start, tol: float, max_iter: int, progress: Progress | None) -> Solution:
    """Solve by coordinate ascent on the dual if the loss has a kink, then by quasi-Newton steps, then by Newton's."""
    climbed = climb(problem, begin.density, tol, max_iter, progress)
    if climbed is not None:
        if climbed.reaches(tol) or climbed.stop_reason is StopReason.CALLBACK:
            return climbed
        begin = Start(climbed.coef, climbed.density)
    affordable = max(_QUASI_STEPS, problem.rows.n_columns // _COLUMNS_A_STEP)
    steps = min(affordable, max(max_iter // 2, 1))  # some are left for Newton's
    quick = ProximalQuasiNewton(problem, begin).run(tol, steps, progress)
    if quick.reaches(tol) or quick.stop_reason is StopReason.CALLBACK or quick.n_iter >= max_iter:
        return quick
    begin = Start(quick.coef, quick.density, quick.smoothing)
    solution = solve_newton(problem, begin, tol, max_iter - quick.n_iter, progress)
    return replace(solution, n_iter=quick.n_iter + solution.n_iter)
