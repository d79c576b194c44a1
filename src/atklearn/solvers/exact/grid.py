"""All fits of a k x C grid on the same data, each started from its neighbours.

The optimum moves smoothly over the grid, so three solved corners of a rectangle predict the fourth:

    z[k, C] ~ z[k, C'] + z[k', C] - z[k', C'],

for the weights and for the densities of the samples alike, k' and C' being the neighbours solved before. The first row
(the largest k, the smoothest problem) has no row above it and extrapolates in C alone. What a prediction is worth shows
in the certificate, which every cell gets by itself, whatever it started from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from atklearn.losses.individual import Array
from atklearn.problems.objective import Problem
from atklearn.problems.solution import Solution, StopReason
from atklearn.solvers.exact.solve import solve_linear

__all__ = ["solve_path"]

# A coarse solve ends with a wide smoothing, which fits its neighbour as it is; a fine one has to be let out again.
_COARSE = 1e-4
_RELAX = 5.0
# A fit is told from zero if its gap is at most this part of what it is better; finer than this is not tried.
_SURE = 0.1
_FINEST = 1e-9
_MANY = 100.0


def solve_path(
    problem: Problem,
    ks: Sequence[float] | Array,
    Cs: Sequence[float] | Array,
    *,
    tol: float = 1e-3,
    max_iter: int = 1000,
    collapsing_k: Callable[[], float] = lambda: np.inf,
) -> Iterator[tuple[int, int, Solution]]:
    """Yield ``(i, j, solution at ks[i] and Cs[j])``, from the largest k down and from the smallest C up.

    Parameters
    ----------
    problem : Problem
        The data; its own k and C do not matter.
    ks : sequence of float
        Amounts of mass in the top, ``0 < k <= mass.sum()``.
    Cs : sequence of float
    tol : float
        The duality gap allowed in every cell, relative to its objective.
    max_iter : int
        The number of Newton steps allowed per cell.
    collapsing_k : callable
        For classification, returns the k at or below which w = 0 is the optimum, whatever C. Above it, a small C makes
        w so small that zero itself is within the tolerance, and its signs say nothing: there, cells are solved until
        the gap is a small part of what they are better than zero. It is called only if there is such a cell.
    """
    at_zero = float(problem.loss(np.zeros(1), np.ones(1))[0])
    spread = float(problem.design.column_squares(problem.mass / problem.mass.sum()).sum())
    limit: float | None = None
    k_order, C_order = np.argsort(ks)[::-1], np.argsort(Cs)
    above: list[Solution] = []
    for i in k_order:
        row: list[Solution] = []
        for j in C_order:
            cell = problem.at(float(ks[i]), float(Cs[j]))
            start = _predict(cell, row, above, [float(Cs[c]) for c in C_order])
            solution = _solve(cell, start, tol, max_iter)
            # C |gradient|^2 / 2 is what can be gained on zero, and the mean of |x|^2 is some times |gradient|^2
            if cell.C * spread / 2.0 < _MANY * tol * at_zero and _near_zero(solution, at_zero):
                limit = collapsing_k() if limit is None else limit
                if cell.k > limit:
                    solution = _tell_from_zero(cell, solution, at_zero, tol, max_iter)
            row.append(solution)
            yield int(i), int(j), solution
        above = row


def _solve(cell: Problem, start: Solution | None, tol: float, max_iter: int) -> Solution:
    """Solve one cell from its prediction, or from nothing if that fails."""
    if start is not None:
        solution = solve_linear(cell, tol=tol, max_iter=max_iter, start=start, relax=1.0 if tol >= _COARSE else _RELAX)
        if solution.stop_reason is StopReason.CONVERGED:
            return solution
    return solve_linear(cell, tol=tol, max_iter=max_iter)


def _near_zero(solution: Solution, at_zero: float) -> bool:
    """Say whether the gap is no small part of what the fit is better than w = 0."""
    return solution.dual_gap > _SURE * (at_zero - solution.objective)


def _tell_from_zero(cell: Problem, solution: Solution, at_zero: float, tol: float, max_iter: int) -> Solution:
    """Solve more finely until the fit is told from w = 0."""
    while _near_zero(solution, at_zero) and tol > _FINEST:
        tol *= 0.1
        solution = solve_linear(cell, tol=tol, max_iter=max_iter, start=solution, relax=_RELAX)
    return solution


def _predict(cell: Problem, row: list[Solution], above: list[Solution], Cs: list[float]) -> Solution | None:
    """Return the start of the next cell of ``row`` from what is solved, or None at the first cell of all."""
    j = len(row)
    if above and j:
        return _combine(cell, {1.0: [row[-1], above[j]], -1.0: [above[j - 1]]})
    if above:
        return above[0]
    if j >= 2:  # linear in 1 / sqrt(C), which flattens both ends of the path
        a, b, c = (C**-0.5 for C in Cs[j - 2 : j + 1])
        t = (c - b) / (b - a) if a != b else 0.0
        return _combine(cell, {1.0 + t: [row[-1]], -t: [row[-2]]})
    return row[0] if j else None


def _combine(cell: Problem, parts: dict[float, list[Solution]]) -> Solution:
    """Return a combination of solutions, the densities made feasible."""
    terms = [(factor, solution) for factor, solutions in parts.items() for solution in solutions]
    coef = sum(factor * solution.coef for factor, solution in terms)
    density = np.asarray(sum(factor * solution.density for factor, solution in terms))
    density = np.clip(density, -1.0 if cell.two_sided else 0.0, 1.0)
    density /= max(1.0, float(cell.u @ np.abs(density)))
    smoothing = max(solution.smoothing for factor, solution in terms if factor > 0.0)
    return replace(terms[0][1], coef=np.asarray(coef), density=density, smoothing=smoothing)
