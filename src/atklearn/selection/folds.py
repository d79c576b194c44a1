"""One fold of a cross-validation over k and C: fit the grid on one part, score it on the other."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from atklearn.solvers.exact.collapse import largest_collapsing_k
from atklearn.losses.individual import Array
from atklearn.estimators.linear import ATkClassifier, ATkRegressor
from atklearn.problems.solution import Solution
from atklearn.solvers.exact.grid import solve_path

__all__ = ["Fold", "Split", "cv_results"]

Split: TypeAlias = tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]

# Cells are compared, not published: their gap, relative to the objective, need not be finer than this.
GRID_TOL = 1e-3


@dataclass(frozen=True)
class Fold:
    """A task that can be sent to another process.

    Attributes
    ----------
    template : ATkClassifier or ATkRegressor
        With all parameters but k and C as they shall be.
    X, y, sample_weight : array-like
        Of all samples.
    split : tuple of ndarrays
        The rows to fit and the rows to score.
    ks, Cs : ndarray
        The grid, k as fractions.
    scorer : callable
    """

    template: ATkClassifier | ATkRegressor
    X: Any
    y: Any
    sample_weight: Array | None
    split: Split
    ks: Array
    Cs: Array
    scorer: Callable[..., float]

    def fill(self, out: Array) -> Array:
        """Write the score of every cell into ``out``, shape (n_ks, n_Cs), as soon as it is known; return it."""
        train, test = self.split
        model = clone(self.template)
        weight = None if self.sample_weight is None else self.sample_weight[train]
        X_train = _safe_indexing(self.X, train)
        problems, mass = model._problems(X_train, self.y[train], weight)
        model.n_features_in_ = self.X.shape[1]
        X_test, y_test = _safe_indexing(self.X, test), self.y[test]
        weighted = {}
        if self.sample_weight is not None and _takes_weight(self.scorer):
            weighted = {"sample_weight": self.sample_weight[test]}
        ks = self.ks * float(mass.sum())
        limits = {"tol": GRID_TOL, "max_iter": model.max_iter}
        paths = [
            solve_path(problem, ks, self.Cs, **limits, collapsing_k=partial(largest_collapsing_k, problem))
            for problem in problems
        ]
        for cells in zip(*paths, strict=True):
            i, j, _ = cells[0]
            _publish(model, [solution for _, _, solution in cells])
            out[i, j] = self.scorer(model, X_test, y_test, **weighted)
        return out


def _publish(model: ATkClassifier | ATkRegressor, solutions: list[Solution]) -> None:
    """Give the model the coefficients of a cell."""
    d = model.n_features_in_
    coef = np.array([solution.coef for solution in solutions])
    weights, intercept = coef[:, :d], coef[:, d] if model.fit_intercept else np.zeros(len(coef))
    single = isinstance(model, ATkRegressor)
    model.coef_, model.intercept_ = (weights[0], intercept[0]) if single else (weights, intercept)


def _takes_weight(scorer: Any) -> bool:
    """Return whether a scorer, or the metric it wraps, knows sample weights."""
    if type(scorer).__name__ == "_PassthroughScorer":  # scikit-learn's stand-in for the estimator's own score
        return True
    return "sample_weight" in inspect.signature(getattr(scorer, "_score_func", scorer)).parameters


def cv_results(scores: Array, ks: Array, Cs: Array) -> dict[str, Any]:
    """Return scores of shape (n_splits, n_ks, n_Cs) in the format of GridSearchCV; means are over finite scores."""
    flat = scores.reshape(len(scores), -1)
    k, C = (grid.ravel() for grid in np.meshgrid(ks, Cs, indexing="ij"))
    finished = np.isfinite(flat)
    count = finished.sum(axis=0)
    safe = np.maximum(count, 1)
    mean = np.where(count, np.where(finished, flat, 0.0).sum(axis=0) / safe, np.nan)
    spread = np.where(finished, flat - mean, 0.0)
    std = np.where(count, np.sqrt((spread**2).sum(axis=0) / safe), np.nan)
    # equal scores share the best rank; an unfinished cell comes last
    order = np.where(count, -mean, np.inf)
    rank = 1 + (order[None, :] < order[:, None]).sum(axis=1)
    return {
        "params": [{"k": float(a), "C": float(b)} for a, b in zip(k, C, strict=True)],
        "param_k": k,
        "param_C": C,
        **{f"split{fold}_test_score": row for fold, row in enumerate(flat)},
        "mean_test_score": mean,
        "std_test_score": std,
        "rank_test_score": rank.astype(np.int32),
    }
