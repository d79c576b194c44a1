"""Kernel machines: support vector machines that minimise the average of the k largest losses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, _fit_context
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, Options, StrOptions
from sklearn.utils.validation import check_is_fitted

from atklearn.core.collapse import warn_of_collapse
from atklearn.core.problem import Solution
from atklearn.encoding.encoded import Targets, check_features, check_training, class_targets, plain, regression_targets
from atklearn.estimators.documentation import CLASSES, NUMBERS, documented
from atklearn.estimators.linear import CLASS_WEIGHT
from atklearn.estimators.shared import AsIs, ClassWeight, Constraints, published_at_once, warn_unless_converged
from atklearn.kernel.problem import Kernel, KernelMatrix, KernelName, KernelProblem
from atklearn.kernel.solve import kernel_collapse_limit, solve_kernel
from atklearn.losses.aggregate import resolve_k, warn_of_one_row
from atklearn.losses.individual import Array
from atklearn.losses.labels import chosen_labels

__all__ = ["ATkSVC", "ATkSVR", "KernelATk"]


class KernelATk(BaseEstimator):
    """Base of the kernel machines."""

    _two_sided: ClassVar[bool]
    _parameter_constraints: ClassVar[Constraints] = {
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
    def coef_(self) -> Array:
        """Weights of the features, shape (n_problems, n_features); only with ``kernel="linear"``."""
        if self.kernel != "linear":
            raise AttributeError(f'coef_ exists with kernel="linear" only, got kernel={self.kernel!r}.')
        coef: Array = np.asarray(self.dual_coef_ @ self.support_vectors_)
        coef.flags.writeable = False  # made anew each time: what is written into it would be lost
        return coef

    @published_at_once
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: AsIs, y: AsIs, sample_weight: AsIs = None) -> Self:
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
        X, y = check_training(self, X, y, y_numeric=self._two_sided, **self._input_checks())
        if self.kernel == "precomputed" and X.shape[0] != X.shape[1]:
            raise ValueError(
                f'With kernel="precomputed" X is expected to be a square kernel matrix, got shape {X.shape}; '
                "pass the kernel values between all training samples."
            )
        targets = self._targets(y, sample_weight)
        gram = self._gram(X, targets.weight, targets.kept)
        warn_of_one_row(self.k)
        k, unit = resolve_k(self.k, targets.total), targets.unit  # LIBSVM's tolerances are for masses near one
        problems = [
            KernelProblem(
                gram, value[targets.kept], targets.mass[targets.kept] / unit, k / unit, float(self.C),
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

    def _targets(self, y: AsIs, sample_weight: AsIs) -> Targets:
        """Return what y and the weights say."""
        return regression_targets(y, sample_weight)

    def _input_checks(self) -> dict[str, object]:
        return {"accept_sparse": False if self.kernel == "precomputed" else "csr", "dtype": np.float64}

    def _gram(self, X: AsIs, sample_weight: Array, kept: npt.NDArray[np.bool_]) -> KernelMatrix:
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

    def _publish(self, X: AsIs, targets: Targets, problems: list[KernelProblem], solutions: list[Solution]) -> None:
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
        self.k_ = problems[0].k * targets.unit
        self.k_share_ = min(self.k_ / targets.total, 1.0)

    def _scores(self, X: AsIs) -> Array:
        """Return ``f(x) + b``, shape (n_samples, n_problems)."""
        check_is_fitted(self)
        X = check_features(self, X, **self._input_checks())
        if self.kernel == "precomputed":
            scores: Array = X[:, self.support_] @ self.dual_coef_.T
        else:
            scores = self._kernel().product(X, self.support_vectors_, self.dual_coef_.T)
        scores += self.intercept_
        return scores


def _printed(name: str) -> Callable[[int, float, float], None]:
    """Return what prints the progress of a named problem."""

    def report(n_iter: int, objective: float, gap: float) -> None:
        print(f"{name}: LIBSVM steps {n_iter}, objective {objective:.6g}, duality gap {gap:.1e}", flush=True)

    return report


def _resolve_gamma(gamma: str | float, X: AsIs, sample_weight: Array) -> float:
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


@documented("kernel", CLASSES)
@dataclass(eq=False, repr=False)
class ATkSVC(ClassifierMixin, KernelATk):
    r"""Support vector classifier that minimises the average of the k largest hinge losses.

    .. math:: \min_{f, b} \; \mathrm{AT}_k\big([1 - y_i (f(x_i) + b)]_+\big) + \frac{\lVert f \rVert_K^2}{2 C}

    This is the AT_k-SVM of the paper (Eqs. 5 and 6) with a bias. ``k`` spans the maximum loss (k = 1), nu-support
    vector classification (nu = k / n, with a scale that is set by C) and the plain support vector machine (k = 1.0,
    that is k = n, and every k above the number that is shown by ``loss_threshold_ = 0``). Every k is feasible.
    ``dual_gap_`` certifies how far ``objective_`` can be from the optimum. With more than two classes, one classifier
    is fitted per class against the rest.

    Parameters
    ----------
    kernel, degree, gamma, coef0
    k : int, float or "max", default=1.0
        An int counts samples, a float is the fraction of them: ``1.0`` is the average loss, "max" the largest alone.
        With sample or class weights, k counts weight. With the hinge, k is a second name for C (:doc:`/theory`): choose
        C first. Too small a k on noisy data collapses to f = 0: see :class:`atklearn.CollapseWarning`.
    C : float, default=100.0
        Inverse regularisation strength, relative to the mean of the top k. Scikit-learn's C, relative to the sum of
        losses, equals ours divided by n at k = n, and by k in general.
    fit_intercept : bool, default=True
        Whether there is a bias b, which is not penalised. Without one, the kernel matrix is formed whole.
    class_weight, tol, cache_size, max_iter, verbose

    Attributes
    ----------
    support_, support_vectors_
    dual_coef_ : ndarray of shape (1, n_SV) or (n_classes, n_SV)
        Coefficients of the support vectors: label times alpha.
    coef_, intercept_, classes_
    loss_threshold_ : float or ndarray of shape (n_classes,)
        The k-th largest loss, the paper's lambda; rho = 1 - lambda.
    top_weights_ : ndarray of shape (n_samples,) or (n_samples, n_classes)
        Worst-case weights of the samples, ``alpha / C``. They sum to one, or to less where the threshold is zero.
    dual_gap_, objective_, n_iter_, k_, k_share_, gamma_, n_features_in_, feature_names_in_

    See Also
    --------
    ATkClassifier : The linear model; with ``loss="hinge"`` on :class:`sklearn.kernel_approximation.Nystroem` features
        it approximates this one on data too large for it.

    References
    ----------
    Fan, Lyu, Ying, Hu. Learning with Average Top-k Loss. NeurIPS 2017.

    Examples
    --------
    >>> from atklearn import ATkSVC
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = ATkSVC(k=0.2).fit(scale(X), y)
    >>> round(model.score(scale(X), y), 2), bool(model.dual_gap_ <= 1e-3 * model.objective_)
    (0.99, True)
    """

    _two_sided = False
    _parameter_constraints: ClassVar[Constraints] = KernelATk._parameter_constraints | CLASS_WEIGHT

    kernel: KernelName = "rbf"
    _: KW_ONLY
    degree: int = 3
    gamma: str | float = "scale"
    coef0: float = 0.0
    k: float | str = 1.0
    C: float = 100.0
    fit_intercept: bool = True
    class_weight: ClassWeight = None
    tol: float = 1e-3
    cache_size: float = 200
    max_iter: int = -1
    verbose: int = 0

    def _targets(self, y: AsIs, sample_weight: AsIs) -> Targets:
        return class_targets(y, sample_weight, self.class_weight, type(self).__name__)

    def _publish(self, X: AsIs, targets: Targets, problems: list[KernelProblem], solutions: list[Solution]) -> None:
        self.classes_ = np.asarray(targets.classes)
        super()._publish(X, targets, problems, solutions)
        limits = [
            kernel_collapse_limit(problem)
            for problem, solution in zip(problems, solutions, strict=True)
            if not solution.coef.any() and solution.intercept == 0.0
        ]
        warn_of_collapse(self.k, problems[0].k, limits, targets.total, len(solutions), "function of this kernel")

    def decision_function(self, X: AsIs) -> Array:
        """Return the scores ``f(x) + b``; of two classes, those of the second.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            With ``kernel="precomputed"`` the kernel values between these samples and those of the fit.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            One column per class, if there are more than two.
        """
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: AsIs) -> AsIs:
        """Return the predicted class labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        return chosen_labels(self._scores(X).T, self.classes_)


@documented("kernel", NUMBERS)
@dataclass(eq=False, repr=False)
class ATkSVR(RegressorMixin, KernelATk):
    r"""Support vector regressor that minimises the average of the k largest absolute errors.

    .. math:: \min_{f, b} \; \mathrm{AT}_k\big(|y_i - f(x_i) - b|\big) + \frac{\lVert f \rVert_K^2}{2 C}

    This is nu-support vector regression with nu = k / n: ``k`` spans the maximum error (k = 1) and the average error
    (k = 1.0, that is k = n, epsilon-support vector regression with epsilon = 0). ``dual_gap_`` certifies how far
    ``objective_`` can be from the optimum.

    Parameters
    ----------
    kernel, degree, gamma, coef0
    k : int, float or "max", default=0.7
        An int counts samples, a float is the fraction of them; ``1.0`` is the average error, "max" the largest.
        With sample weights, k counts weight.
    C : float, default=100.0
        Inverse regularisation strength, relative to the mean of the top k; ``NuSVR``'s C equals ours divided by k.
    fit_intercept : bool, default=True
        Whether there is a bias b, which is not penalised. Without one, twice the kernel matrix is formed both ways.
    tol, cache_size, max_iter, verbose

    Attributes
    ----------
    support_, support_vectors_
    dual_coef_ : ndarray of shape (1, n_SV)
        Coefficients of the support vectors.
    coef_, intercept_
    loss_threshold_ : float
        The k-th largest error, the paper's lambda: half the width of the tube.
    top_weights_ : ndarray of shape (n_samples,)
        Worst-case weights of the samples, ``|dual_coef_| / C``. They sum to one, or to less where the threshold is
        zero.
    dual_gap_, objective_, n_iter_, k_, k_share_, gamma_, n_features_in_, feature_names_in_

    See Also
    --------
    ATkRegressor : The linear model, also for other losses.

    References
    ----------
    Fan, Lyu, Ying, Hu. Learning with Average Top-k Loss. NeurIPS 2017.

    Examples
    --------
    >>> from atklearn import ATkSVR
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = ATkSVR(k=0.3, C=1e5).fit(X, y)
    >>> bool(abs(y - model.predict(X)).max() > model.loss_threshold_ > 0)
    True
    """

    _two_sided = True

    kernel: KernelName = "rbf"
    _: KW_ONLY
    degree: int = 3
    gamma: str | float = "scale"
    coef0: float = 0.0
    k: float | str = 0.7
    C: float = 100.0
    fit_intercept: bool = True
    tol: float = 1e-3
    cache_size: float = 200
    max_iter: int = -1
    verbose: int = 0

    def predict(self, X: AsIs) -> Array:
        """Return the predictions ``f(x) + b``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        predictions : ndarray of shape (n_samples,)
        """
        return self._scores(X)[:, 0]
