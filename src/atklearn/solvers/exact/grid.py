"""All fits of a k x C grid on the same data, each started from its neighbours.

The optimum moves smoothly over the grid, so three solved corners of a rectangle predict the fourth:

    z[k, C] ~ z[k, C'] + z[k', C] - z[k', C'],

for the weights and for the densities of the samples alike, k' and C' being the neighbours solved before. The first row
(the largest k, the smoothest problem) has no row above it and extrapolates in C alone. What a prediction is worth shows
in the certificate, which every cell gets by itself, whatever it started from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from atklearn.losses.individual import Array
from atklearn.problems.objective import Problem
from atklearn.problems.solution import Solution, StopReason
from atklearn.solvers.exact.collapse import collapse_limit
from atklearn.solvers.exact.solve import solve_linear

__all__ = ["solve_grid"]

# A coarse solve ends with a wide smoothing, which fits its neighbour as it is; a fine one has to be let out again.
_COARSE = 1e-4
_RELAX = 5.0
# A fit is told from zero if its gap is at most this part of what it is better; finer than this is not tried.
_SURE = 0.1
_FINEST = 1e-9
_MANY = 100.0


def solve_grid(
    problem: Problem,
    ks: Sequence[float] | Array,
    Cs: Sequence[float] | Array,
    *,
    tol: float = 1e-3,
    max_iter: int = 1000,
) -> Iterator[tuple[int, int, Solution]]:
    """Yield ``(i, j, solution at ks[i] and Cs[j])``, from the largest k down and from the smallest C up.

    Parameters
    ----------
    problem : Problem
        The data; its own k and C do not matter.
    ks : sequence of float
        Amounts of mass in the top, ``0 < k <= rows.total``.
    Cs : sequence of float
    tol : float
        The duality gap allowed in every cell, relative to its objective.
    max_iter : int
        The number of Newton steps allowed per cell.
    """
    signs = _Signs(problem, tol, max_iter) if problem.loss.task == "classification" else None
    k_order, C_order = np.argsort(ks)[::-1], np.argsort(Cs)
    ascending = [float(Cs[j]) for j in C_order]
    above: list[Solution] = []
    for i in k_order:
        row: list[Solution] = []
        for j in C_order:
            cell = problem.at(float(ks[i]), float(Cs[j]))
            solution = _solve(cell, _predict(cell, row, above, ascending), tol, max_iter)
            row.append(solution if signs is None else signs.told_from_zero(cell, solution))
            yield int(i), int(j), row[-1]
        above = row


def _solve(cell: Problem, start: Solution | None, tol: float, max_iter: int) -> Solution:
    """Solve one cell from its prediction, or from nothing if that fails."""
    if start is not None:
        solution = solve_linear(cell, tol=tol, max_iter=max_iter, start=start, relax=1.0 if tol >= _COARSE else _RELAX)
        if solution.stop_reason is StopReason.CONVERGED:
            return solution
    return solve_linear(cell, tol=tol, max_iter=max_iter)


class _Signs:
    """Sees to it that a small C does not hide the signs of a classifier.

    Above the collapse, a small C makes w so small that zero itself is within the tolerance, and its signs say nothing:
    there, cells are solved until the gap is a small part of what they are better than zero.
    """

    def __init__(self, problem: Problem, tol: float, max_iter: int) -> None:
        self.problem, self.tol, self.max_iter = problem, tol, max_iter
        self.at_zero = problem.rows.loss_at_zero

    @cached_property
    def limit(self) -> float:
        """The k at or below which zero is the optimum, whatever C; found out only if there is a doubtful cell."""
        return collapse_limit(self.problem)

    @cached_property
    def mean_square(self) -> float:
        """The mean of ``|x|^2``."""
        return self.problem.rows.mean_square()

    def told_from_zero(self, cell: Problem, solution: Solution) -> Solution:
        """Return the solution, or a finer one if its signs are in doubt."""
        tol = self.tol
        # C |gradient|^2 / 2 is what can be gained on zero, and the mean of |x|^2 is some times |gradient|^2
        if not self._is_doubtful(solution) or cell.C * self.mean_square / 2.0 >= _MANY * tol * self.at_zero:
            return solution
        while cell.k > self.limit and self._is_doubtful(solution) and tol > _FINEST:
            tol *= 0.1
            solution = solve_linear(cell, tol=tol, max_iter=self.max_iter, start=solution, relax=_RELAX)
        return solution

    def _is_doubtful(self, solution: Solution) -> bool:
        """Say whether the gap is no small part of what the fit is better than w = 0."""
        return solution.dual_gap > _SURE * (self.at_zero - solution.objective)


def _predict(cell: Problem, row: list[Solution], above: list[Solution], Cs: list[float]) -> Solution | None:
    """Return the start of the next cell of ``row`` from what is solved, or None at the first cell of all."""
    j = len(row)
    if row and not row[-1].coef.any():  # collapsed: the same weights balance whatever C
        return row[-1]
    if above and j:
        return _combine(cell, [(1.0, row[-1]), (1.0, above[j]), (-1.0, above[j - 1])])
    if above:
        return above[0]
    if j >= 2:  # linear in 1 / sqrt(C), which flattens both ends of the path
        a, b, c = (C**-0.5 for C in Cs[j - 2 : j + 1])
        t = (c - b) / (b - a) if a != b else 0.0
        return _combine(cell, [(1.0 + t, row[-1]), (-t, row[-2])])
    return row[0] if j else None


def _combine(cell: Problem, terms: list[tuple[float, Solution]]) -> Solution:
    """Return a combination of solutions, the densities made feasible."""
    coef = terms[0][0] * terms[0][1].coef
    for factor, solution in terms[1:]:
        coef = coef + factor * solution.coef
    density = cell.rows.blend([(factor, solution.density) for factor, solution in terms], cell.k)
    smoothing = max(solution.smoothing for factor, solution in terms if factor > 0.0)
    return replace(terms[0][1], coef=coef, density=density, smoothing=smoothing)
