"""All fits of a k x C grid on the same data, each started from what its solved neighbours say of it.

The optimum moves smoothly over the grid, so three solved corners of a rectangle predict the fourth:

    z[k, C] ~ z[k, C'] + z[k', C] - z[k', C'],

for the weights and for the densities of the samples alike, k' and C' being the neighbours solved before. The first row
(the largest k, the smoothest problem) has no row above it and extrapolates in C alone.

A loss that shifts and scales (the hinge) says more. With rho = 1 - threshold its objective is

    1 - rho + sum(mass [rho - m]_+) / k + |w|^2 / (2 C),      m = y (x . w + b),

so that while rho < 1, (w, b) and rho are in proportion to C and the densities stay as they are: **in a row, all cells
below a certain C are scaled copies of one**. Above it rho is 1, and the optimum is that of the average hinge loss at
C / k, hardly different from that of the same C in the row above.

And whatever the margin loss: where zero is the optimum, the sample weights that prove it, ``q = (mass / k) r``, prove
it for every C, and for every smaller k as well. What a prediction is worth shows in the certificate, which every cell
gets by itself, whatever it started from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from atklearn.core.collapse import collapse_limit
from atklearn.core.problem import Problem, Solution, StopReason
from atklearn.core.solve import solve_linear
from atklearn.core.store import Density
from atklearn.losses.individual import Array

__all__ = ["Neighbours", "solve_grid"]

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


class Neighbours:
    """The solutions of the row in work, and of the one above it, at ascending Cs.

    Parameters
    ----------
    problem : Problem
    Cs : list of float
        Ascending.
    collapses : callable
        Says whether zero is the optimum for a k, whatever C: to be zero within the tolerance is not enough for a copy.
    """

    def __init__(self, problem: Problem, Cs: list[float], collapses: Callable[[float], bool]) -> None:
        self.scales = problem.loss.shifts_and_scales
        self.collapses = collapses
        self.Cs = Cs
        self.k = self.k_above = problem.k
        self.above: dict[int, Solution] = {}
        self.row: dict[int, Solution] = {}

    def begin_row(self, k: float) -> list[int]:
        """Return the order in which the cells of the next row, that of a smaller k, are best solved."""
        self.above, self.row = self.row, {}
        self.k, self.k_above = k, self.k
        places = list(range(len(self.Cs)))
        if not self.scales:
            return places
        # from the last cell that others are copies of, down to these: so their gaps, too, get smaller in proportion
        turn = max((j for j, solution in self.above.items() if solution.threshold > 0.0), default=0)
        return [*places[turn::-1], *places[turn + 1 :]]

    def add(self, j: int, solution: Solution) -> None:
        """Take note of a solved cell of the row."""
        self.row[j] = solution

    def copy(self, cell: Problem, j: int, tol: float) -> Solution | None:
        """Return the solution as a copy of its neighbour, or None if that is not good enough."""
        above, previous, following = self.above.get(j), self.row.get(j - 1), self.row.get(j + 1)
        if above is not None and not above.coef.any() and self.collapses(self.k):
            density = cell.rows.blend([(self.k / self.k_above, above.density)], self.k)
            return _certified(cell, above, 1.0, density, tol)
        if previous is not None and not previous.coef.any() and self.collapses(self.k):
            return _certified(cell, previous, 1.0, previous.density, tol)
        if self.scales and following is not None and following.threshold > 0.0:
            return _certified(cell, following, cell.C / self.Cs[j + 1], following.density, tol)
        return None

    def start(self, cell: Problem, j: int) -> Solution | None:
        """Return where to start in a cell, or None where nothing is solved yet."""
        row, above = self.row, self.above
        if above and (self.scales or not j):
            return above[j]
        if above:
            return _combine(cell, [(1.0, row[j - 1]), (1.0, above[j]), (-1.0, above[j - 1])])
        if j >= 2:  # linear in 1 / sqrt(C), which flattens both ends of the path
            a, b, c = (C**-0.5 for C in self.Cs[j - 2 : j + 1])
            t = (c - b) / (b - a) if a != b else 0.0
            return _combine(cell, [(1.0 + t, row[j - 1]), (-t, row[j - 2])])
        return row.get(j - 1)


def _certified(cell: Problem, original: Solution, ratio: float, density: Density, tol: float) -> Solution | None:
    """Return a solution times a ratio as that of a cell, or None if the certificate says that it is not."""
    certificate = cell.certify(ratio * original.coef, density)
    if not certificate.reaches(tol):
        return None
    smoothing = ratio * original.smoothing
    return Solution.of(certificate, tol=tol, n_iter=0, otherwise=StopReason.STALLED, smoothing=smoothing)


def _combine(cell: Problem, terms: list[tuple[float, Solution]]) -> Solution:
    """Return a combination of solutions, the densities made feasible."""
    coef = terms[0][0] * terms[0][1].coef
    for factor, solution in terms[1:]:
        coef = coef + factor * solution.coef
    density = cell.rows.blend([(factor, solution.density) for factor, solution in terms], cell.k)
    smoothing = max(solution.smoothing for factor, solution in terms if factor > 0.0)
    return replace(terms[0][1], coef=coef, density=density, smoothing=smoothing)
