"""What the kernel machines share: parameters, statement of the problems, publication of their solutions, scores."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator, _fit_context
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, Options, StrOptions
from sklearn.utils.validation import check_is_fitted

from atklearn.core.problem import Solution
from atklearn.encoding.encoded import Targets, check_features, check_training, plain, regression_targets
from atklearn.estimators.fitting import keeping_fitted_state, warn_unless_converged
from atklearn.kernel.problem import Kernel, KernelMatrix, KernelProblem
from atklearn.kernel.solve import solve_kernel
from atklearn.losses.aggregate import resolve_k, warn_of_one_row
from atklearn.losses.individual import Array

__all__ = ["KernelATk"]


class KernelATk(BaseEstimator):
    """Base of the kernel machines."""

    _two_sided: ClassVar[bool]
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [StrOptions({"linear", "poly", "rbf", "sigmoid", "precomputed"}), callable],
        "degree": [Interval(Integral, 0, None, closed="left")],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "k": [Real, StrOptions({"max"})],
        "C": [Interval(Real, 0.0, None, closed="neither")],
        "fit_intercept": ["boolean"],
        "tol": [Interval(Real, 0.0, None, closed="neither")],
        "cache_size": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left"), Options(Integral, {-1})],
        "verbose": ["verbose"],
    }

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        return tags

    @property
    def coef_(self) -> npt.NDArray[Any]:
        """Weights of the features, shape (n_problems, n_features); only with ``kernel="linear"``."""
        if self.kernel != "linear":
            raise AttributeError(f'coef_ exists with kernel="linear" only, got kernel={self.kernel!r}.')
        coef: npt.NDArray[Any] = np.asarray(self.dual_coef_ @ self.support_vectors_)
        return coef

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features) or (n_samples, n_samples)
            The latter with ``kernel="precomputed"``.
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Weight 2 is the same as the sample twice; weight 0 is the same as without it.

        Returns
        -------
        self : estimator
        """
        with keeping_fitted_state(self):
            X, y = check_training(self, X, y, y_numeric=self._two_sided, **self._input_checks())
            if self.kernel == "precomputed" and X.shape[0] != X.shape[1]:
                raise ValueError(
                    f'With kernel="precomputed" X is expected to be a square kernel matrix, got shape {X.shape}; '
                    "pass the kernel values between all training samples."
                )
            targets = self._targets(y, sample_weight)
            gram = self._gram(X, targets.weight, targets.kept)
            warn_of_one_row(self.k)
            k = resolve_k(self.k, targets.total)
            problems = [
                KernelProblem(
                    gram, value[targets.kept], targets.mass[targets.kept], k, float(self.C),
                    two_sided=self._two_sided, intercept=self.fit_intercept,
                )
                for value in targets.values
            ]  # fmt: skip
            solutions = [
                solve_kernel(
                    problem, tol=self.tol, max_iter=self.max_iter, cache_size=self.cache_size,
                    verbose=self.verbose > 1, report=_printed(name) if self.verbose else None,
                )
                for problem, name in zip(problems, targets.names, strict=True)
            ]  # fmt: skip
            self._publish(X, targets, problems, solutions)
            warn_unless_converged(solutions, targets.names, self.tol, self.C)
        return self

    def _targets(self, y: Any, sample_weight: Any) -> Targets:
        """Return what y and the weights say."""
        return regression_targets(y, sample_weight)

    def _input_checks(self) -> dict[str, Any]:
        return {"accept_sparse": False if self.kernel == "precomputed" else "csr", "dtype": np.float64}

    def _gram(self, X: Any, sample_weight: Array, kept: npt.NDArray[np.bool_]) -> KernelMatrix:
        """Return the kernel matrix of the rows that have weight, and keep its gamma."""
        self.gamma_ = _resolve_gamma(self.gamma, X, sample_weight)
        if self.kernel == "precomputed":
            return KernelMatrix(X if kept.all() else np.ascontiguousarray(X[np.ix_(kept, kept)]), self._kernel())
        X = X if kept.all() else X[kept]
        if callable(self.kernel):
            return KernelMatrix(self._kernel()(X, X), Kernel("precomputed"))
        return KernelMatrix(X, self._kernel())

    def _kernel(self) -> Kernel:
        return Kernel(self.kernel, {"gamma": self.gamma_, "degree": self.degree, "coef0": self.coef0})

    def _publish(self, X: Any, targets: Targets, problems: list[KernelProblem], solutions: list[Solution]) -> None:
        """Set the fitted attributes."""
        beta = np.array([solution.coef for solution in solutions])
        support = np.flatnonzero(beta.any(axis=0))
        self.support_ = np.flatnonzero(targets.kept)[support]
        self.support_vectors_ = np.empty((0, 0)) if self.kernel == "precomputed" else X[self.support_]
        self.dual_coef_ = np.ascontiguousarray(beta[:, support])
        self.intercept_ = np.array([solution.intercept for solution in solutions])
        pairs = zip(problems, solutions, strict=True)
        weights = targets.spread([problem.sample_weights(solution) for problem, solution in pairs])
        self.top_weights_ = weights[:, 0] if len(solutions) == 1 else weights
        self.loss_threshold_ = plain([solution.threshold for solution in solutions])
        self.dual_gap_ = plain([solution.dual_gap for solution in solutions])
        self.objective_ = plain([solution.objective for solution in solutions])
        self.n_iter_ = plain([solution.n_iter for solution in solutions])
        self.k_ = problems[0].k
        self.k_share_ = min(self.k_ / targets.total, 1.0)

    def _scores(self, X: Any) -> npt.NDArray[Any]:
        """Return ``f(x) + b``, shape (n_samples, n_problems)."""
        check_is_fitted(self)
        X = check_features(self, X, **self._input_checks())
        if self.kernel == "precomputed":
            scores: npt.NDArray[Any] = X[:, self.support_] @ self.dual_coef_.T
        else:
            scores = self._kernel().product(X, self.support_vectors_, self.dual_coef_.T)
        scores += self.intercept_
        return scores


def _printed(name: str) -> Callable[[int, float, float], None]:
    """Return what prints the progress of a named problem."""

    def report(n_iter: int, objective: float, gap: float) -> None:
        print(f"{name}: LIBSVM steps {n_iter}, objective {objective:.6g}, duality gap {gap:.1e}", flush=True)

    return report


def _resolve_gamma(gamma: str | float, X: Any, sample_weight: Array) -> float:
    """Turn "scale" and "auto" into numbers; the variance counts weights, so that repeating samples agrees."""
    if gamma == "auto":
        return 1.0 / float(X.shape[1])
    if gamma != "scale":
        return float(gamma)
    if sp.issparse(X):
        centre = np.average(np.asarray(X.mean(axis=1)).ravel(), weights=sample_weight)
        squares = np.average(np.asarray(X.multiply(X).mean(axis=1)).ravel(), weights=sample_weight)
        variance = squares - centre**2
    else:
        centre = np.average(X.mean(axis=1), weights=sample_weight)
        variance = np.average(((X - centre) ** 2).mean(axis=1), weights=sample_weight)
    return 1.0 / float(X.shape[1] * variance) if variance > 0.0 else 1.0
