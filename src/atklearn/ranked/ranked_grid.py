"""All fits of a k x C grid on a ranked range of the losses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from atklearn.core.problem import Problem, Solution
from atklearn.losses.individual import Array
from atklearn.ranked.alternation import solve_ranked

__all__ = ["solve_ranked_grid"]


def solve_ranked_grid(
    problems: Sequence[Problem],
    ks: Sequence[float] | Array,
    Cs: Sequence[float] | Array,
    trim: float,
    *,
    tol: float = 1e-3,
    max_iter: int = 1000,
) -> Iterator[tuple[int, int, list[Solution]]]:
    """Yield ``(i, j, solutions of all problems at ks[i] and Cs[j])``, from the largest k down.

    For every k the smallest C is started as a fit by itself is, and each further one from that before.

    Parameters
    ----------
    problems : sequence of Problem
        Of one or of each class, on the same rows; their own k and C do not matter.
    ks, Cs : sequence of float
        Amounts of mass, all above ``trim``; and C.
    trim : float
        The mass set aside.
    tol, max_iter : float, int
        As in :func:`atklearn.ranked.alternation.solve_ranked`.
    """
    for i in np.argsort(ks)[::-1]:
        before: list[Solution] | None = None
        for j in np.argsort(Cs):
            cell = [problem.at(float(ks[i]), float(Cs[j])) for problem in problems]
            before = solve_ranked(cell, trim, tol=tol, max_iter=max_iter, starts=before).solutions
            yield int(i), int(j), before
