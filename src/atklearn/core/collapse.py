"""When zero is optimal: k is too small, the optimum collapses to w = 0 and the predicted signs are noise.

Theorem 1 of the paper says that the average top-k loss is calibrated if k/n exceeds the optimal risk. On a given
training set with a linear model the switch is exact. At w = 0 all losses are equal, and w = 0 is optimal if and only
if weights ``0 <= p_i <= mass_i`` of sum k exist with ``sum(p_i y_i x_i) = 0``. The largest such sum is, by linear
programming duality,

    k* = min over w of sum(mass_i * max(0, 1 - y_i x_i . w)),

the total hinge loss of the best linear classifier, whatever the margin loss in use.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from atklearn.core.problem import Problem
from atklearn.core.solve import solve_linear
from atklearn.losses.individual import Hinge
from atklearn.runtime.messages import shown, stack_level

__all__ = ["CollapseWarning", "collapse_limit", "collapse_share", "warn_of_collapse"]

# Rows from which k* is estimated, enough for two digits.
_ENOUGH_ROWS = 10_000
_NEARLY_FREE = 1e7  # C, in units of the features


class CollapseWarning(UserWarning):
    """Warned of when k is so small that the optimum is w = 0; the message says how large it has to be.

    The k largest losses then balance each other, and the model does not tell the classes apart (Theorem 1).

    Examples
    --------
    >>> import warnings
    >>> from atklearn import ATkClassifier, CollapseWarning
    >>> X, y = [[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]], [0, 0, 1, 1, 1, 0]  # a third is on the wrong side
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always", CollapseWarning)
    ...     model = ATkClassifier(k=3).fit(X, y)
    >>> model.coef_, caught[0].category.__name__
    (array([[0.]]), 'CollapseWarning')
    >>> print(str(caught[0].message).split(", ")[-1])
    take k above 0.67 (4 of 6 samples).
    >>> ATkClassifier(k=5).fit(X, y).predict([[0.0], [1.0]])
    array([0, 1])
    """


def warn_of_collapse(k: Any, amount: float, limits: Sequence[float], total: float, n_problems: int, model: str) -> None:
    """Warn, once for all classes, if k is at or below the limit of a problem that has zero as its optimum.

    A zero classifier at a larger k is one to within tol, by the penalty, and none of k's doing.

    Parameters
    ----------
    k : int or float
        As asked for.
    amount, total : float
        What k means in mass, and the mass of all samples.
    limits : sequence of float
        Of the problems that have zero as their optimum.
    n_problems : int
        Of all, those included.
    model : str
        What kind is fitted.
    """
    below = [limit for limit in limits if amount <= 1.001 * limit]
    if not below:
        return
    where = "" if n_problems == 1 else f" for {len(below)} of {n_problems} classes"
    needed = max(below)
    advice = (
        f"take k above {needed / total:.2f} ({needed:.0f} of {total:.0f} samples)"
        if needed < 0.99 * total
        else f"no k helps{' all of them' if len(below) > 1 else ''}: no {model} beats chance"
    )
    warnings.warn(
        f"k={shown(k)} is too small for data this noisy: the top {amount:g} of the losses balance each other and the "
        f"optimum is zero{where}, which does not tell the classes apart (Theorem 1 of the paper). "
        f"By the hinge loss of the best {model} on these data, {advice}.",
        CollapseWarning,
        stacklevel=stack_level(),
    )


def collapse_limit(problem: Problem) -> float:
    """Estimate the amount of mass ``k*`` at or below which a linear classifier collapses.

    Examples
    --------
    >>> import numpy as np
    >>> from atklearn.losses.individual import LogLoss
    >>> from atklearn.stores.compiled import CompiledRows
    >>> X = np.array([[1.0], [1.0], [1.0], [-1.0]])
    >>> y = np.array([1.0, 1.0, -1.0, -1.0])  # one of four on the wrong side
    >>> rows = CompiledRows(X, y, np.ones(4), LogLoss(), intercept=False)
    >>> round(collapse_limit(Problem(rows, k=1.0, C=1.0, intercept="none")), 3)
    2.0
    """
    whole = problem.rows.total
    if problem.rows.n_rows > _ENOUGH_ROWS:
        problem = problem.thinned(_ENOUGH_ROWS)
    rows = problem.rows.paying(Hinge())
    average = Problem(rows, rows.total, _NEARLY_FREE / max(rows.mean_square(), 1e-300), problem.intercept)
    solution = solve_linear(average, tol=1e-3)
    return whole * (solution.objective - average.penalty(solution.coef))


def collapse_share(problems: list[Problem]) -> float:
    """Return the part of the mass at or below which a classifier collapses; of several, the largest of theirs."""
    return max(collapse_limit(problem) / problem.rows.total for problem in problems)
