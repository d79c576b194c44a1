"""When k is too small: the optimum collapses to w = 0 and the predicted signs are noise.

Theorem 1 of the paper says that the average top-k loss is calibrated if k/n exceeds the optimal risk. On a given
training set with a linear model the switch is exact. At w = 0 all losses are equal, and w = 0 is optimal if and only
if weights ``0 <= p_i <= mass_i`` of sum k exist with ``sum(p_i y_i x_i) = 0``. The largest such sum is, by linear
programming duality,

    k* = min over w of sum(mass_i * max(0, 1 - y_i x_i . w)),

the total hinge loss of the best linear classifier, whatever the margin loss in use.
"""

from __future__ import annotations

import warnings
from typing import Any

from atklearn.losses.individual import Hinge
from atklearn.problems.objective import Problem
from atklearn.solvers.exact.solve import solve_linear, thin

__all__ = ["CollapseWarning", "largest_collapsing_k", "warn_of_collapse"]


# Rows from which k* is estimated, enough for two digits.
_ENOUGH_ROWS = 10_000


class CollapseWarning(UserWarning):
    """k is so small that the optimum is w = 0; the message says how large it has to be."""


def warn_of_collapse(k: Any, amount: float, limit: float, total: float, model: str) -> None:
    """Warn if the k asked for, an ``amount`` of the ``total`` mass, is at or below the ``limit`` of a kind of model.

    A zero classifier at a larger k is one to within tol, by the penalty, and none of k's doing.
    """
    if amount > 1.001 * limit:
        return
    advice = (
        f"take k above {limit / total:.2f} ({limit:.0f} of {total:.0f} samples)"
        if limit < 0.99 * total
        else f"no k helps: no {model} beats chance"
    )
    warnings.warn(
        f"k={k!r} is too small for data this noisy: the {amount:g} largest losses balance each other and the optimum "
        "is zero, which does not tell the classes apart (Theorem 1 of the paper). "
        f"By the hinge loss of the best {model} on these data, {advice}.",
        CollapseWarning,
        stacklevel=5,
    )


def largest_collapsing_k(problem: Problem) -> float:
    """Estimate the amount of mass ``k*`` at or below which the problem collapses.

    Examples
    --------
    >>> import numpy as np
    >>> from atklearn.problems.design import make_design
    >>> from atklearn.losses.individual import LogLoss
    >>> X = np.array([[1.0], [1.0], [1.0], [-1.0]])
    >>> y = np.array([1.0, 1.0, -1.0, -1.0])  # one of four on the wrong side
    >>> problem = Problem(make_design(X, False), y, np.ones(4), 1.0, LogLoss(), 1.0, "none")
    >>> round(largest_collapsing_k(problem), 3)
    2.0
    """
    whole = float(problem.mass.sum())
    if problem.n_rows > _ENOUGH_ROWS:
        problem = thin(problem, _ENOUGH_ROWS)
    total = float(problem.mass.sum())
    scale = problem.design.column_squares(problem.mass / total).sum()
    nearly_free = 1e7 / max(scale, 1e-300)
    average = Problem(problem.design, problem.y, problem.mass, total, Hinge(), nearly_free, problem.intercept)
    solution = solve_linear(average, tol=1e-3)
    return whole * (solution.objective - average.penalty(solution.coef))
