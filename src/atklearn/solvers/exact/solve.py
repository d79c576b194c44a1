"""The exact linear solver: which rows the Newton method works on.

Small problems go to it whole. Large ones start from the solution on a part of the rows, which is statistically close
already. Where k is a small part of n, most losses stay below the threshold and cannot matter: a working set of the
largest losses is solved instead, and grown until the certificate holds on all rows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from atklearn.losses.aggregate import ranked_loss
from atklearn.problems.design import Rows
from atklearn.losses.individual import Array
from atklearn.problems.objective import Problem, bound_and_slack
from atklearn.problems.solution import Solution, StopReason
from atklearn.solvers.exact.newton import Progress, ProximalNewton

__all__ = ["solve_linear", "thin"]

# From this many rows on, one in so many of them gives the start.
_LARGE = 50_000
_THINNING = 20
# A working set pays if the top k is at most this part of the rows.
_SMALL_TOP = 0.2
# A warm start takes the last smoothing of its predecessor times this: wide enough to move, narrow enough to gain.
_RELAX = 25.0


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
    return _no_worse_than_zero(problem, _solve(problem, tol, max_iter, start, relax, progress))


def thin(problem: Problem, n_rows: int, least_k: float = 0.0) -> Problem:
    """Return the problem on a random part of the rows, with k in proportion, or ``least_k`` if that is more."""
    run = problem.n_rows // n_rows
    # One row from each run: random, sorted, and without shuffling all of them.
    rows = np.arange(n_rows) * run + np.random.default_rng(0).integers(run, size=n_rows)
    total = float(problem.mass[rows].sum())
    return problem.take(rows, min(max(problem.k * total / float(problem.mass.sum()), least_k), total))


def _solve(
    problem: Problem, tol: float, max_iter: int, start: Solution | None, relax: float, progress: Progress | None
) -> Solution:
    """Choose the rows to work on."""
    n, d = problem.n_rows, problem.design.n_columns
    coef = np.zeros(d)
    density: Array | None = None
    smoothing: float | None = None
    if start is not None:
        coef, smoothing = start.coef, relax * start.smoothing
        density = start.density if start.density.size == n else None
    elif n >= _LARGE and n >= 100 * d and not problem.is_quadratic:
        # Fewer rows in the top than a few per column would be fitted by chance: a larger top tells more of the whole.
        thinned = thin(problem, n // _THINNING, least_k=5.0 * d * float(problem.mass.mean()))
        # The optimum on the thinned rows is off by about d / (rows in the top): to find it more finely is wasted.
        coarse = float(np.clip(d * thinned.u.mean(), tol, 0.01))
        sketch = _solve(thinned, coarse, max_iter, None, relax, None)
        coef, smoothing = sketch.coef, 3.0 * sketch.smoothing
    if n >= 5000 and problem.k <= _SMALL_TOP * problem.mass.sum():
        return _solve_on_top(problem, coef, density, smoothing, tol, max_iter, progress)
    return ProximalNewton(problem, coef, density, smoothing).run(tol, max_iter, progress)


def _solve_on_top(
    problem: Problem,
    coef: Array,
    density: Array | None,
    smoothing: float | None,
    tol: float,
    max_iter: int,
    progress: Progress | None,
) -> Solution:
    """Solve on the largest losses, adding rows that rise above the threshold, until the gap holds on all rows.

    Sample weights on part of the rows are sample weights on all, so the lower bound carries over as it is.
    """
    n, d = problem.n_rows, problem.design.n_columns
    s, slope = np.empty((2, n))
    steps = 0
    problem.expand(problem.design.predict(coef), s, slope)
    losses = problem.loss_values(s)
    rows = _largest(losses, int(1.5 * problem.k / problem.mass.mean()) + 10 * d + 500)
    density = None if density is None else density[rows]
    while rows.size < n:
        part = problem.take(rows, problem.k)
        solved = ProximalNewton(part, coef, density, smoothing).run(0.5 * tol, max_iter - steps, progress)
        steps += solved.n_iter
        problem.expand(problem.design.predict(solved.coef), s, slope)
        losses = problem.loss_values(s)
        threshold = ranked_loss(losses, problem.mass, problem.k)
        whole = np.zeros(n)
        whole[rows] = solved.density
        objective = bound_and_slack(s, whole, problem.u, threshold, problem.two_sided)[0] + problem.penalty(solved.coef)
        gap = objective - (solved.objective - solved.dual_gap)
        if gap <= tol * objective or solved.stop_reason is not StopReason.CONVERGED:
            return Solution(
                coef=solved.coef,
                threshold=threshold,
                sample_weights=problem.u * np.abs(whole),
                density=whole,
                objective=objective,
                dual_gap=gap,
                smoothing=solved.smoothing,
                n_iter=steps,
                stop_reason=solved.stop_reason,
            )
        losses[rows] = -1.0
        rising = _largest(losses, min(max(rows.size, 2000), int(np.count_nonzero(losses > solved.threshold))))
        coef, smoothing = solved.coef, 5.0 * solved.smoothing
        rows = np.sort(np.concatenate([rows, rising]))
        density = whole[rows]
    return ProximalNewton(problem, coef, density, smoothing).run(tol, max_iter - steps, progress)


def _no_worse_than_zero(problem: Problem, solution: Solution) -> Solution:
    """Return the zero classifier if the solution does not beat it.

    Too small a k makes w = 0 the optimum. Any point near it is optimal to the tolerance, with signs that are rounding
    noise; zero itself is better, and the same whatever the order or the weighting of the samples.
    """
    if problem.loss.task != "classification":
        return solution
    at_zero = float(problem.loss(np.zeros(2), np.array([-1.0, 1.0])).max())
    if solution.objective < at_zero * (1.0 - 1e-14):
        return solution
    zero = np.zeros_like(solution.coef)
    certificate = problem.certify(zero, solution.density)
    return replace(
        solution,
        coef=zero,
        threshold=certificate.threshold,
        sample_weights=problem.u * np.abs(certificate.density),
        density=certificate.density,
        objective=certificate.objective,
        dual_gap=certificate.gap,
    )


def _largest(losses: Array, count: int) -> Rows:
    """Return the sorted positions of the largest losses."""
    count = min(max(count, 1), losses.size)
    return np.sort(np.argpartition(losses, losses.size - count)[losses.size - count :])
