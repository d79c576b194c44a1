"""The fits of a whole grid of k and C on one data set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.multiclass import check_classification_targets

from atklearn.losses.aggregate import resolve_k
from atklearn.solvers.exact.collapse import largest_collapsing_k
from atklearn.losses.individual import INDIVIDUAL_LOSSES, Array, IndividualLoss
from atklearn.estimators.linear import ATkClassifier, ATkRegressor
from atklearn.problems.objective import Problem
from atklearn.problems.solution import Solution
from atklearn.solvers.exact.grid import solve_path
from atklearn.solvers.stochastic.sgd import SGD, solve_sgd

__all__ = ["ATkPath", "atk_path", "solve_grid"]


@dataclass(frozen=True)
class ATkPath:
    """The fits of a grid of k and C, each with its certificate.

    Every array has the leading shape (n_ks, n_Cs, n_problems). There is one problem for a regression or two classes;
    with more classes, one per class against the rest.

    Attributes
    ----------
    ks : ndarray of shape (n_ks,)
        In units of sample weight.
    Cs : ndarray of shape (n_Cs,)
    classes : ndarray of shape (n_classes,) or None
    coefs : ndarray of shape (n_ks, n_Cs, n_problems, n_features)
    intercepts : ndarray of shape (n_ks, n_Cs, n_problems)
    objectives : ndarray of shape (n_ks, n_Cs, n_problems)
    dual_gaps : ndarray of shape (n_ks, n_Cs, n_problems)
        How far each objective can be from its optimum.
    thresholds : ndarray of shape (n_ks, n_Cs, n_problems)
        The k-th largest loss of each fit.
    n_iters : ndarray of shape (n_ks, n_Cs, n_problems)
        Newton steps of each fit.
    """

    ks: Array
    Cs: Array
    classes: npt.NDArray[Any] | None
    coefs: Array
    intercepts: Array
    objectives: Array
    dual_gaps: Array
    thresholds: Array
    n_iters: npt.NDArray[np.intp]

    def scores(self, X: Any) -> Array:
        """Return ``X w + b`` of every fit, shape (n_ks, n_Cs, n_problems, n_samples)."""
        flat = np.asarray(X @ self.coefs.reshape(-1, self.coefs.shape[-1]).T).T
        return flat.reshape(*self.intercepts.shape, -1) + self.intercepts[..., None]


def atk_path(
    X: Any,
    y: Any,
    *,
    ks: Sequence[float],
    Cs: Sequence[float],
    loss: str | IndividualLoss = "log_loss",
    sample_weight: Any = None,
    class_weight: dict[Any, float] | str | None = None,
    fit_intercept: bool = True,
    penalize_intercept: bool = False,
    solver: str | SGD = "exact",
    tol: float = 1e-3,
    max_iter: int = 1000,
) -> ATkPath:
    """Fit all combinations of ``ks`` and ``Cs``, every fit started from its neighbours.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    ks : sequence of int or float
        As in :class:`atklearn.ATkClassifier`: an int counts samples, a float is the fraction of them.
    Cs : sequence of float
    loss : str or IndividualLoss, default="log_loss"
        It decides between classification and regression.
    sample_weight : array-like of shape (n_samples,), default=None
    class_weight : dict, "balanced" or None, default=None
        Classification only.
    fit_intercept : bool, default=True
    penalize_intercept : bool, default=False
    solver : {"exact", "sgd"} or SGD, default="exact"
        As in :class:`atklearn.ATkClassifier`; "sgd" starts every fit afresh.
    tol : float, default=1e-3
        The duality gap allowed, relative to the objective: enough to compare cells; lower it for final fits.
    max_iter : int, default=1000
        Newton steps per fit, or passes over the data for "sgd".

    Returns
    -------
    ATkPath

    Examples
    --------
    >>> from atklearn import atk_path
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> path = atk_path(scale(X), y, ks=[0.2, 0.5, 1.0], Cs=[1.0, 100.0])
    >>> path.coefs.shape, bool((path.dual_gaps <= 1e-3 * path.objectives).all())
    ((3, 2, 1, 30), True)
    """
    task = loss.task if isinstance(loss, IndividualLoss) else getattr(INDIVIDUAL_LOSSES.get(loss), "task", None)
    if task == "regression" and class_weight is not None:
        raise ValueError(
            f"class_weight is for classification, got {class_weight!r} with loss {loss!r}; use sample_weight."
        )
    options: dict[str, Any] = {"fit_intercept": fit_intercept, "penalize_intercept": penalize_intercept}
    estimator: ATkClassifier | ATkRegressor
    if task == "regression":
        estimator = ATkRegressor(loss, k=1.0, **options)
        X, y = estimator._validate(X, y, y_numeric=True)
    else:
        estimator = ATkClassifier(loss, k=1.0, class_weight=class_weight, **options)
        X, y = estimator._validate(X, y)
        check_classification_targets(y)
    problems, mass = estimator._problems(X, y, sample_weight)
    masses = [resolve_k(k, float(mass.sum())) for k in ks]
    return solve_grid(problems, masses, Cs, tol, max_iter, getattr(estimator, "classes_", None), solver)


def solve_grid(
    problems: list[Problem],
    ks: Sequence[float],
    Cs: Sequence[float],
    tol: float,
    max_iter: int,
    classes: npt.NDArray[Any] | None,
    solver: str | SGD = "exact",
) -> ATkPath:
    """Solve every problem on the grid; ``ks`` in units of mass."""
    if len(ks) == 0 or len(Cs) == 0 or min(Cs) <= 0.0:
        raise ValueError(f"Grids are expected to be non-empty, with every C > 0, got ks={ks!r}, Cs={Cs!r}.")
    if not isinstance(solver, SGD) and solver not in ("exact", "sgd"):
        raise ValueError(f'solver is expected to be "exact", "sgd" or an SGD, got {solver!r}.')
    d = problems[0].design.n_features
    shape = (len(ks), len(Cs), len(problems))
    coefs, intercepts = np.empty((*shape, d)), np.zeros(shape)
    objectives, gaps, thresholds = np.empty((3, *shape))
    n_iters = np.empty(shape, dtype=np.intp)
    for index, problem in enumerate(problems):
        if solver == "exact":
            cells = solve_path(
                problem, ks, Cs, tol=tol, max_iter=max_iter, collapsing_k=partial(largest_collapsing_k, problem)
            )
        else:
            settings = solver if isinstance(solver, SGD) else SGD()
            cells = _sgd_cells(problem, ks, Cs, tol, max_iter, settings)
        for i, j, solution in cells:
            cell = i, j, index
            coefs[cell] = solution.coef[:d]
            if problem.design.intercept:
                intercepts[cell] = solution.coef[d]
            objectives[cell], gaps[cell] = solution.objective, solution.dual_gap
            thresholds[cell], n_iters[cell] = solution.threshold, solution.n_iter
    return ATkPath(
        np.asarray(ks, dtype=float), np.asarray(Cs, dtype=float), classes, coefs, intercepts, objectives, gaps,
        thresholds, n_iters,
    )  # fmt: skip


def _sgd_cells(
    problem: Problem, ks: Sequence[float], Cs: Sequence[float], tol: float, max_iter: int, settings: SGD
) -> Iterator[tuple[int, int, Solution]]:
    """Yield what :func:`solve_path` does, each fit by stochastic steps from the start."""
    for (i, k), (j, C) in product(enumerate(ks), enumerate(Cs)):
        yield i, j, solve_sgd(problem.at(k, C), tol=tol, max_iter=max_iter, settings=settings)
