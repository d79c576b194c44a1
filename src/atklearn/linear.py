"""Linear estimators with the average top-k loss: validate, solve, publish."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, _fit_context
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from atklearn.aggregate import resolve_k
from atklearn.callbacks import CallbackSupportMixin, FitProgress
from atklearn.collapse import CollapseWarning, largest_collapsing_k
from atklearn.design import make_design
from atklearn.fitting import check_mass, class_mass, keeping_fitted_state, warn_unless_converged
from atklearn.individual import Array, IndividualLoss, LogLoss, Task, resolve_individual_loss
from atklearn.objective import InterceptKind, Problem
from atklearn.solution import Solution
from atklearn.solvers.linear import solve_linear

__all__ = ["ATkClassifier", "ATkRegressor"]


class _LinearATk(CallbackSupportMixin, BaseEstimator):
    """What the linear estimators share: parameters, validation, publication of solutions."""

    _task: ClassVar[Task]
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "loss": [str, IndividualLoss],
        "k": [Real],
        "C": [Interval(Real, 0.0, None, closed="neither")],
        "fit_intercept": ["boolean"],
        "penalize_intercept": ["boolean"],
        "tol": [Interval(Real, 0.0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "warm_start": ["boolean"],
        "verbose": ["verbose"],
    }

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @property
    def _intercept_kind(self) -> InterceptKind:
        if not self.fit_intercept:
            return "none"
        return "penalized" if self.penalize_intercept else "free"

    def _validate(self, X: Any, y: Any, **check: Any) -> tuple[Any, Any]:
        """Return X as C-ordered array or CSR, and y, both checked."""
        X, y = validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            order="C",
            accept_large_sparse=False,
            **check,
        )
        return X, y

    def _problem(self, X: Any, target: Array, mass: Array) -> Problem:
        """State the problem on the rows of positive mass."""
        loss = resolve_individual_loss(self.loss, self._task)
        kept = mass > 0.0
        if not kept.all():
            X, target, mass = X[kept], target[kept], mass[kept]
        design = make_design(X, self.fit_intercept)
        return Problem(design, target, mass, resolve_k(self.k, mass.sum()), loss, float(self.C), self._intercept_kind)

    def _start(self, problems: list[Problem], index: int) -> Solution | None:
        """Return the previous solution if a warm start is asked for and it fits."""
        previous = getattr(self, "_solutions", [])
        if not self.warm_start or len(previous) != len(problems):
            return None
        fits = previous[index].coef.size == problems[index].design.n_columns
        return previous[index] if fits else None

    def _publish(self, problems: list[Problem], solutions: list[Solution], mass: Array, dtype: Any) -> None:
        """Set the fitted attributes, one column or entry per problem, plain where there is one problem."""
        d = problems[0].design.n_features
        coef = np.array([solution.coef for solution in solutions])
        weights = np.zeros((mass.size, len(solutions)))
        weights[mass > 0.0] = np.array([solution.sample_weights for solution in solutions]).T
        single = len(solutions) == 1
        self.coef_ = np.ascontiguousarray(coef[:, :d], dtype=dtype)
        self.intercept_ = (coef[:, d] if self.fit_intercept else np.zeros(len(solutions))).astype(dtype)
        self.sample_weights_ = weights[:, 0] if single else weights
        for name in ("threshold", "dual_gap", "objective", "n_iter"):
            values = [getattr(solution, name) for solution in solutions]
            setattr(self, f"{name}_", values[0] if single else np.array(values))
        self.k_ = problems[0].k
        if self.warm_start:
            self._solutions = solutions
        for problem, solution in zip(problems, solutions, strict=True):
            warn_unless_converged(solution, self.tol, f"standardise the features or lower C={problem.C:g}")


class ATkClassifier(ClassifierMixin, _LinearATk):
    r"""Linear classifier that minimises the average of the k largest losses.

    .. math:: \min_{w, b} \; \mathrm{AT}_k\big(\ell(y_i (x_i \cdot w + b))\big) + \frac{\lVert w \rVert^2}{2 C}

    ``k`` spans the maximum loss (k = 1) and the average loss (k = 1.0, that is k = n). In between, samples that are
    classified well enough to leave the top k no longer count, and rare, hard groups are not sacrificed to easy ones.
    The solver is exact: ``dual_gap_`` certifies how far ``objective_`` can be from the optimum. With more than two
    classes, one classifier is fitted per class against the rest.

    Parameters
    ----------
    loss : {"log_loss", "hinge", "squared_hinge"} or IndividualLoss, default="log_loss"
        The individual loss. Only "log_loss" offers ``predict_proba``.
    k : int or float, default=0.7
        An int counts samples, a float is the fraction of them; ``1`` is the maximum loss, ``1.0`` the average loss.
        With sample or class weights, k counts weight. Too small a k on noisy data collapses to w = 0: see
        :class:`atklearn.CollapseWarning`.
    C : float, default=100.0
        Inverse regularisation strength, relative to the mean of the top k (scikit-learn's C, relative to the sum of
        losses, equals ours divided by n).
    fit_intercept : bool, default=True
    penalize_intercept : bool, default=False
        Whether the intercept is penalised like a weight, as in the paper's homogenised form.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied with ``sample_weight``.
    tol : float, default=1e-6
        The duality gap allowed, relative to the objective.
    max_iter : int, default=1000
        The number of Newton steps allowed.
    warm_start : bool, default=False
        Whether to start from the previous solution.
    verbose : int, default=0

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    threshold_ : float or ndarray of shape (n_classes,)
        The k-th largest loss, the paper's lambda.
    sample_weights_ : ndarray of shape (n_samples,) or (n_samples, n_classes)
        Worst-case weights of the samples; positive exactly for those in the top k that shape the solution. They sum
        to one, or to less where the threshold is zero.
    dual_gap_ : float or ndarray of shape (n_classes,)
    objective_ : float or ndarray of shape (n_classes,)
    n_iter_ : int or ndarray of shape (n_classes,)
    k_ : float
        The k used, in units of sample weight.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Notes ----- Training on the tail is not probability calibration: for k < n, ``predict_proba`` is the logistic
    function of a score that was fitted to the hardest samples only. Use
    :class:`sklearn.calibration.CalibratedClassifierCV` where probabilities matter.

    References
    ----------
    Fan, Lyu, Ying, Hu. Learning with Average Top-k Loss. NeurIPS 2017.

    Examples
    --------
    >>> from atklearn import ATkClassifier
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = ATkClassifier(k=0.2).fit(scale(X), y)
    >>> round(model.score(scale(X), y), 2), bool(model.dual_gap_ <= 1e-6 * model.objective_)
    (0.99, True)
    """

    _task = "classification"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_LinearATk._parameter_constraints,
        "class_weight": [StrOptions({"balanced"}), dict, None],
    }

    def __init__(
        self,
        loss: str | IndividualLoss = "log_loss",
        *,
        k: float = 0.7,
        C: float = 100.0,
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        class_weight: dict[Any, float] | str | None = None,
        tol: float = 1e-6,
        max_iter: int = 1000,
        warm_start: bool = False,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.k = k
        self.C = C
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ATkClassifier:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Weight 2 is the same as the sample twice; weight 0 is the same as without it.

        Returns
        -------
        self : ATkClassifier
        """
        with keeping_fitted_state(self):
            X, y = self._validate(X, y)
            check_classification_targets(y)
            progress = FitProgress(self, X, y, sample_weight)
            self.classes_, codes = np.unique(y, return_inverse=True)
            mass = class_mass(self, codes, check_mass(sample_weight, y.size))
            positives = range(1, 2) if self.classes_.size == 2 else range(self.classes_.size)
            problems = [self._problem(X, np.where(codes == code, 1.0, -1.0), mass) for code in positives]
            solutions = [
                solve_linear(
                    problem,
                    tol=self.tol,
                    max_iter=self.max_iter,
                    start=self._start(problems, index),
                    progress=progress.following(f"class {self.classes_[positives[index]]!r}"),
                )
                for index, problem in enumerate(problems)
            ]
            self._publish(problems, solutions, mass, X.dtype)
            self._warn_of_collapse(problems, solutions)
            progress.finish()
        return self

    def decision_function(self, X: Any) -> npt.NDArray[Any]:
        """Return the scores ``x . w + b``, shape (n_samples,) for two classes, else (n_samples, n_classes)."""
        scores = _scores(self, X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the predicted class labels, shape (n_samples,)."""
        scores = self.decision_function(X)
        codes = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        labels: npt.NDArray[Any] = self.classes_[codes]
        return labels

    @available_if(lambda self: self.loss == "log_loss" or isinstance(self.loss, LogLoss))
    def predict_proba(self, X: Any) -> npt.NDArray[Any]:
        """Return the logistic function of the scores, shape (n_samples, n_classes); mind the note on calibration."""
        positive = expit(_scores(self, X))
        if positive.shape[1] == 1:
            return np.hstack([1.0 - positive, positive])
        total = positive.sum(axis=1, keepdims=True)
        # a sample that every class rejects without a trace left belongs to all alike
        shares: npt.NDArray[Any] = np.where(
            total > 0.0, positive / np.where(total > 0.0, total, 1.0), 1.0 / positive.shape[1]
        )
        return shares

    @available_if(lambda self: self.loss == "log_loss" or isinstance(self.loss, LogLoss))
    def predict_log_proba(self, X: Any) -> npt.NDArray[Any]:
        """Return the logarithm of :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            logarithms: npt.NDArray[Any] = np.log(self.predict_proba(X))
        return logarithms

    def _warn_of_collapse(self, problems: list[Problem], solutions: list[Solution]) -> None:
        for problem, solution in zip(problems, solutions, strict=True):
            if solution.coef.any():
                continue
            total = problem.mass.sum()
            limit = largest_collapsing_k(problem)
            if problem.k > 1.001 * limit:  # w = 0 to within tol, by the penalty
                continue
            advice = (
                f"take k above {limit / total:.2f} ({limit:.0f} of {total:.0f} samples)"
                if limit < 0.99 * total
                else "no k helps: no linear model beats chance"
            )
            warnings.warn(
                f"k={self.k!r} is too small for data this noisy: the {problem.k:g} largest losses balance each other "
                "and the optimum is w = 0, which does not tell the classes apart (Theorem 1 of the paper). "
                f"By the hinge loss of the best linear model on these data, {advice}.",
                CollapseWarning,
                stacklevel=4,
            )


class ATkRegressor(RegressorMixin, _LinearATk):
    r"""Linear regressor that minimises the average of the k largest losses.

    .. math:: \min_{w, b} \; \mathrm{AT}_k\big(\ell(x_i \cdot w + b, y_i)\big) + \frac{\lVert w \rVert^2}{2 C}

    ``k`` spans the maximum loss (k = 1, Chebyshev regression) and the average loss (k = 1.0: ridge regression for the
    squared error). With the absolute error it is nu-support vector regression. The solver is exact: ``dual_gap_``
    certifies how far ``objective_`` can be from the optimum.

    Parameters
    ----------
    loss : {"squared_error", "absolute_error", "huber"} or IndividualLoss, default="squared_error"
        The individual loss; ``atklearn.Huber(delta)`` sets the size of error where Huber turns linear.
    k : int or float, default=0.7
        An int counts samples, a float is the fraction of them; ``1`` is the maximum loss, ``1.0`` the average loss.
        With sample weights, k counts weight.
    C : float, default=100.0
        Inverse regularisation strength, relative to the mean of the top k.
    fit_intercept : bool, default=True
    penalize_intercept : bool, default=False
        Whether the intercept is penalised like a weight, as in the paper's homogenised form.
    tol : float, default=1e-6
        The duality gap allowed, relative to the objective.
    max_iter : int, default=1000
        The number of Newton steps allowed.
    warm_start : bool, default=False
        Whether to start from the previous solution.
    verbose : int, default=0

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    threshold_ : float
        The k-th largest loss, the paper's lambda: half the width of the tube for the absolute error.
    sample_weights_ : ndarray of shape (n_samples,)
        Worst-case weights of the samples; positive exactly for those in the top k that shape the solution. They sum
        to one, or to less where the threshold is zero.
    dual_gap_ : float
    objective_ : float
    n_iter_ : int
    k_ : float
        The k used, in units of sample weight.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    References
    ----------
    Fan, Lyu, Ying, Hu. Learning with Average Top-k Loss. NeurIPS 2017.

    Examples
    --------
    >>> from atklearn import ATkRegressor
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = ATkRegressor("absolute_error", k=0.2).fit(scale(X), y)
    >>> bool(abs(y - model.predict(scale(X))).max() > model.threshold_ > 0)
    True
    """

    _task = "regression"

    def __init__(
        self,
        loss: str | IndividualLoss = "squared_error",
        *,
        k: float = 0.7,
        C: float = 100.0,
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        tol: float = 1e-6,
        max_iter: int = 1000,
        warm_start: bool = False,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.k = k
        self.C = C
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ATkRegressor:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Weight 2 is the same as the sample twice; weight 0 is the same as without it.

        Returns
        -------
        self : ATkRegressor
        """
        with keeping_fitted_state(self):
            X, y = self._validate(X, y, y_numeric=True)
            progress = FitProgress(self, X, y, sample_weight)
            mass = check_mass(sample_weight, y.size)
            problem = self._problem(X, np.asarray(y, dtype=np.float64), mass)
            solution = solve_linear(
                problem,
                tol=self.tol,
                max_iter=self.max_iter,
                start=self._start([problem], 0),
                progress=progress.following("fit"),
            )
            self._publish([problem], [solution], mass, X.dtype)
            self.coef_, self.intercept_ = self.coef_[0], self.intercept_[0]
            progress.finish()
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the predictions ``x . w + b``, shape (n_samples,)."""
        return _scores(self, X)


def _scores(estimator: Any, X: Any) -> npt.NDArray[Any]:
    """Return ``X w + b`` of a fitted estimator."""
    check_is_fitted(estimator)
    X = validate_data(estimator, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32])
    scores: npt.NDArray[Any] = safe_sparse_dot(X, estimator.coef_.T) + estimator.intercept_
    return scores
