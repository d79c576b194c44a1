"""All fits of a k x C grid on the same data, each started from its neighbours.

What :mod:`atklearn.solvers.exact.neighbours` predicts is worth shows in the certificate, which every cell gets by
itself, whatever it started from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from atklearn.losses.individual import Array
from atklearn.problems.objective import Problem
from atklearn.problems.solution import Solution, StopReason
from atklearn.solvers.exact.collapse import collapse_limit
from atklearn.solvers.exact.neighbours import Neighbours
from atklearn.solvers.exact.solve import solve_linear

__all__ = ["solve_grid"]

# A coarse solve ends with a wide smoothing, which fits its neighbour as it is; a fine one has to be let out again, as
# has one that starts from the row above as it is, of another k.
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
    """Yield ``(i, j, solution at ks[i] and Cs[j])``, from the largest k down.

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
    C_order = np.argsort(Cs)
    neighbours = Neighbours(
        problem, [float(Cs[j]) for j in C_order], lambda k: signs is not None and k <= signs.limit
    )  # fmt: skip
    for i in np.argsort(ks)[::-1]:
        for place in neighbours.begin_row(float(ks[i])):
            cell = problem.at(float(ks[i]), neighbours.Cs[place])
            solution = neighbours.copy(cell, place, tol)
            if solution is None:
                solution = _solve(cell, neighbours.start(cell, place), tol, max_iter)
            if signs is not None:
                solution = signs.told_from_zero(cell, solution)
            neighbours.add(place, solution)
            yield int(i), int(C_order[place]), solution


def _solve(cell: Problem, start: Solution | None, tol: float, max_iter: int) -> Solution:
    """Solve one cell from its prediction, or from nothing if that fails."""
    if start is not None:
        relax = 1.0 if tol >= _COARSE and not cell.loss.shifts_and_scales else _RELAX
        solution = solve_linear(cell, tol=tol, max_iter=max_iter, start=start, relax=relax)
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
