"""The fits of a whole grid of k and C on one data set."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from atklearn.core.grid import solve_grid
from atklearn.core.problem import Solution
from atklearn.encoding.encoded import (
    ClassWeight,
    ProblemEncoder,
    Problems,
    enter_training,
    intercept_kind,
    refuse_malformed,
)
from atklearn.losses.aggregate import resolve_k, resolve_trim, warn_of_one_row
from atklearn.losses.individual import Array, IndividualLoss, resolve_individual_loss, task_of
from atklearn.runtime.messages import shown, stack_level
from atklearn.runtime.namespaces import Features, Labels, Vector, home_of, same_home, saying_what_fits
from atklearn.runtime.threads import steady_blas
from atklearn.trimmed.solve import solve_trimmed

__all__ = ["ATkPath", "atk_path", "grid_cells", "solve_path"]

# From a problem, ks in mass, Cs, tol and max_iter to ``(i, j, solution at ks[i] and Cs[j])``, cell by cell.
GridSolver: TypeAlias = Callable[..., Iterator[tuple[int, int, Solution]]]


@dataclass(frozen=True)
class ATkPath:
    """The fits of a grid of k and C, each with its certificate; :func:`atklearn.atk_path` describes what it has."""

    ks: Array
    Cs: Array
    classes: Labels | None
    coefs: Array
    intercepts: Array
    objectives: Array
    dual_gaps: Array
    thresholds: Array
    n_iters: npt.NDArray[np.intp]
    stop_reasons: npt.NDArray[np.object_]

    def decision(self, X: Features) -> Vector:
        """Return ``X w + b`` of every fit.

        Parameters
        ----------
        X : {ndarray, sparse matrix, tensor} of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_ks, n_Cs, n_problems, n_samples)
        """
        home = same_home(self.coefs, X, "ATkPath.decision()")
        if home is not None:
            from atklearn.encoding.tensors import as_floats, tensor_scores

            coefs, intercepts = home.enter(self.coefs), home.enter(self.intercepts)
            models = coefs.reshape(-1, coefs.shape[-1]), intercepts.reshape(-1)
            scores = tensor_scores(home, as_floats(home.enter(X)), *models).T
            return home.leave(scores.reshape(*intercepts.shape, -1))
        refuse_malformed(X)
        flat = np.asarray(X @ self.coefs.reshape(-1, self.coefs.shape[-1]).T).T
        return flat.reshape(*self.intercepts.shape, -1) + self.intercepts[..., None]


@saying_what_fits
def atk_path(
    X: Features,
    y: Vector,
    *,
    ks: Sequence[float | str],
    Cs: Sequence[float],
    loss: str | IndividualLoss = "log_loss",
    sample_weight: Vector = None,
    class_weight: ClassWeight = None,
    fit_intercept: bool = True,
    penalize_intercept: bool = False,
    trim: float = 0,
    tol: float = 1e-3,
    max_iter: int = 1000,
) -> ATkPath:
    """Fit all combinations of ``ks`` and ``Cs``, every fit started from its neighbours.

    Parameters
    ----------
    X : {array-like, sparse matrix, tensor} of shape (n_samples, n_features)
        A tensor of PyTorch is computed where it lies, and the arrays of the path follow it.
    y : array-like of shape (n_samples,)
    ks : sequence of int, float or "max"
        As in :class:`atklearn.ATkClassifier`: an int counts samples, a float is the fraction of them, "max" is one.
    Cs : sequence of float
        Inverse regularisation strengths, relative to the mean of the top k.
    loss : str or IndividualLoss, default="log_loss"
        It decides between classification and regression.
    sample_weight : array-like of shape (n_samples,), default=None
    class_weight : dict, "balanced" or None, default=None
        Classification only.
    fit_intercept : bool, default=True
    penalize_intercept : bool, default=False
    trim : int or float, default=0
        How many, or what part, of the largest losses every fit sets aside: see :class:`atklearn.ATkClassifier`. With
        any, objectives are local minima, and dual gaps are those of the convex problems on the samples that are left.
    tol : float, default=1e-3
        The duality gap allowed, relative to the objective: enough to compare cells; lower it for final fits.
    max_iter : int, default=1000
        Newton steps per fit.

    Returns
    -------
    path : ATkPath
        ``coefs``, ``intercepts``, ``objectives``, ``dual_gaps`` (how far each can be from its optimum), ``thresholds``
        (the k-th largest losses), ``n_iters`` (Newton steps) and ``stop_reasons`` are arrays with the leading shape
        (n_ks, n_Cs, n_problems): one problem for a regression or two classes; with more classes, one per class against
        the rest; ``coefs`` have the features as their last axis. ``ks`` (in units of sample weight), ``Cs`` and
        ``classes`` (None for a regression) name their places. ``decision(X)`` returns ``X w + b`` of every fit, shape
        (n_ks, n_Cs, n_problems, n_samples).

    See Also
    --------
    ATkClassifierCV : Chooses a classifier of a grid by cross-validation.
    ATkRegressorCV : Chooses a regressor of a grid by cross-validation.

    Examples
    --------
    >>> from atklearn import atk_path
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> path = atk_path(scale(X), y, ks=[0.2, 0.5, 1.0], Cs=[1.0, 100.0])
    >>> path.coefs.shape, bool((path.dual_gaps <= 1e-3 * path.objectives).all())
    ((3, 2, 1, 30), True)
    >>> wrong = (path.decision(scale(X))[:, :, 0] > 0.0) != y
    >>> wrong.sum(axis=-1)  # of 569 samples, for every k (rows) and C (columns)
    array([[12,  7],
           [27,  7],
           [34,  8]])
    """
    task = task_of(loss)
    if task == "regression" and class_weight is not None:
        raise ValueError(
            f"class_weight is for classification, got {shown(class_weight)} with loss {loss!r}; use sample_weight."
        )
    warn_of_one_row(*ks)
    individual = resolve_individual_loss(loss, task)
    home = home_of(X)
    X, y = enter_training(None, X, y, y_numeric=task == "regression")
    encoder = ProblemEncoder(individual, intercept_kind(fit_intercept, penalize_intercept), class_weight, "atk_path")
    path = solve_path(encoder.on(X, y, sample_weight, on_the_host=bool(trim)), ks, Cs, tol, max_iter, trim=trim)
    return path if home is None else replace(path, **{name: home.publish(value) for name, value in vars(path).items()})


def grid_cells(
    problems: Problems,
    ks: Sequence[float | str] | Array,
    Cs: Sequence[float] | Array,
    tol: float,
    max_iter: int,
    *,
    trim: float = 0,
    solve: GridSolver = solve_grid,
) -> Iterator[tuple[int, int, list[Solution]]]:
    """Yield ``(i, j, solutions of all problems at ks[i] and Cs[j])``; k and trim as counts or shares."""
    if len(ks) == 0 or len(Cs) == 0 or min(Cs) <= 0.0:
        raise ValueError(f"Grids are expected to be non-empty, with every C > 0, got ks={shown(ks)}, Cs={shown(Cs)}.")
    amounts = [resolve_k(k, problems.total) for k in ks]
    aside = resolve_trim(trim, min(amounts), problems.total)
    if aside > 0.0:
        for i in np.argsort(amounts)[::-1]:
            before: list[Solution] | None = None  # at the next smaller C
            for j in np.argsort(Cs):
                cell = problems.at(amounts[i], float(Cs[j])).problems
                before = solve_trimmed(cell, aside, tol=tol, max_iter=max_iter, starts=before).solutions
                yield int(i), int(j), before
        return
    paths = [solve(problem, amounts, Cs, tol=tol, max_iter=max_iter) for problem in problems.problems]
    for cells in zip(*paths, strict=True):
        i, j, _ = cells[0]
        yield i, j, [solution for _, _, solution in cells]


@steady_blas()
def solve_path(
    problems: Problems,
    ks: Sequence[float | str] | Array,
    Cs: Sequence[float] | Array,
    tol: float,
    max_iter: int,
    *,
    trim: float = 0,
    solve: GridSolver = solve_grid,
) -> ATkPath:
    """Solve every problem on the grid, and say so where the tolerance was missed; k and trim as counts or shares."""
    d = problems.problems[0].rows.n_columns - (problems.problems[0].rows.ones is not None)
    shape = (len(ks), len(Cs), len(problems.problems))
    coefs, intercepts = np.empty((*shape, d)), np.zeros(shape)
    objectives, gaps, thresholds = np.empty((3, *shape))
    n_iters, reasons = np.empty(shape, dtype=np.intp), np.empty(shape, dtype=object)
    missed = 0
    for i, j, solutions in grid_cells(problems, ks, Cs, tol, max_iter, trim=trim, solve=solve):
        coefs[i, j], intercepts[i, j] = problems.coefficients(solutions)
        for place, solution in enumerate(solutions):
            cell = i, j, place
            objectives[cell], gaps[cell], thresholds[cell] = solution.objective, solution.dual_gap, solution.threshold
            n_iters[cell], reasons[cell] = solution.n_iter, solution.stop_reason
            missed += not solution.reaches(tol)
    amounts = np.array([resolve_k(k, problems.total) for k in ks])
    if missed:
        worst = float((gaps / np.where(objectives > 0.0, objectives, 1.0)).max())
        warnings.warn(
            f"{missed} of {reasons.size} fits of the path missed the tolerance: the largest duality gap is {worst:.1e} "
            f"of its objective, {tol:.1e} was asked for. To go on, raise max_iter or tol, standardise the features, or "
            "lower the largest C; stop_reasons says which fits.",
            ConvergenceWarning,
            stacklevel=stack_level(),
        )
    return ATkPath(
        amounts, np.asarray(Cs, dtype=float), problems.classes, coefs, intercepts, objectives, gaps, thresholds,
        n_iters, reasons,
    )  # fmt: skip
