"""What the solved cells of a k x C grid say of the next one.

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
it for every C, and for every smaller k as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from atklearn.core.store import Density
from atklearn.problems.objective import Problem
from atklearn.problems.solution import Solution, StopReason

__all__ = ["Neighbours"]


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
