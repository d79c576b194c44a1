"""Linear estimators with the average top-k loss: validate, solve, publish."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, RegressorMixin, _fit_context
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from atklearn.losses.aggregate import resolve_k
from atklearn.estimators.callbacks import CallbackSupportMixin, FitProgress
from atklearn.selection.choosing import auto_k
from atklearn.solvers.exact.collapse import largest_collapsing_k, warn_of_collapse
from atklearn.problems.design import make_design
from atklearn.estimators.fitting import check_mass, class_mass, keeping_fitted_state, warn_unless_converged
from atklearn.losses.individual import Array, IndividualLoss, Task, resolve_individual_loss
from atklearn.estimators.prediction import LinearClassifierMixin, linear_scores
from atklearn.problems.objective import InterceptKind, Problem
from atklearn.problems.solution import Solution
from atklearn.solvers.exact.solve import solve_linear
from atklearn.solvers.stochastic.sgd import SGD, solve_sgd

__all__ = ["ATkClassifier", "ATkRegressor"]


class _LinearATk(CallbackSupportMixin, BaseEstimator):
    """What the linear estimators share: parameters, validation, publication of solutions."""

    _task: ClassVar[Task]
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "loss": [str, IndividualLoss],
        "k": [Real, StrOptions({"auto"})],
        "C": [Interval(Real, 0.0, None, closed="neither")],
        "fit_intercept": ["boolean"],
        "penalize_intercept": ["boolean"],
        "solver": [StrOptions({"exact", "sgd"}), SGD],
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
        k = resolve_k(1.0 if self.k == "auto" else self.k, mass.sum())
        return Problem(design, target, mass, k, loss, float(self.C), self._intercept_kind)

    def _settle_k(self, problems: list[Problem]) -> list[Problem]:
        """Return the problems with their k chosen if that is asked for."""
        if self.k != "auto":
            return problems
        share = auto_k(problems)
        return [problem.at(share * float(problem.mass.sum()), problem.C) for problem in problems]

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


class ATkClassifier(LinearClassifierMixin, _LinearATk):
    r"""Linear classifier that minimises the average of the k largest losses.

    .. math:: \min_{w, b} \; \mathrm{AT}_k\big(\ell(y_i (x_i \cdot w + b))\big) + \frac{\lVert w \rVert^2}{2 C}

    ``k`` spans the maximum loss (k = 1) and the average loss (k = 1.0, that is k = n). In between, samples that are
    classified well enough to leave the top k no longer count, and rare, hard groups are not sacrificed to easy ones.
    The default solver is exact: ``dual_gap_`` certifies how far ``objective_`` can be from the optimum. With more than
    two classes, one classifier is fitted per class against the rest.

    Parameters
    ----------
    loss : {"log_loss", "hinge", "squared_hinge"} or IndividualLoss, default="log_loss"
        The individual loss. Only "log_loss" offers ``predict_proba``.
    k : int, float or "auto", default=0.7
        An int counts samples, a float is the fraction of them; ``1`` is the maximum loss, ``1.0`` the average loss.
        "auto" chooses k by cross-validation of ``score``, twice 5-fold, at the given C, and keeps the average unless
        it is behind by more than 1.5 standard errors.
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
    solver : {"exact", "sgd"} or SGD, default="exact"
        "exact" is a proximal Newton method. "sgd" is the stochastic algorithm of the paper, certified all the same but
        with a ``tol`` of about 0.01 in reach rather than 1e-6; :class:`atklearn.SGD` sets how it steps.
    tol : float, default=1e-6
        The duality gap allowed, relative to the objective.
    max_iter : int, default=1000
        The number of Newton steps allowed, or of passes over the data for "sgd".
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

    Notes
    -----
    Training on the tail is not probability calibration: for k < n, ``predict_proba`` is the logistic function of a
    score that was fitted to the hardest samples only. Use :class:`sklearn.calibration.CalibratedClassifierCV` where
    probabilities matter.

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
        k: float | str = 0.7,
        C: float = 100.0,
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        class_weight: dict[Any, float] | str | None = None,
        solver: str | SGD = "exact",
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
        self.solver = solver
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
            problems, mass = self._problems(X, y, sample_weight)
            problems = self._settle_k(problems)
            positives = self.classes_[-len(problems) :]
            solve = _solver(self.solver)
            solutions = [
                solve(
                    problem,
                    tol=self.tol,
                    max_iter=self.max_iter,
                    start=self._start(problems, index),
                    progress=progress.following(f"class {positives[index]!r}"),
                )
                for index, problem in enumerate(problems)
            ]
            self._publish(problems, solutions, mass, X.dtype)
            self._warn_of_collapse(problems, solutions)
            progress.finish()
        return self

    def _problems(self, X: Any, y: Any, sample_weight: Any) -> tuple[list[Problem], Array]:
        """Return one problem for two classes, else one per class against the rest, and the mass of the samples."""
        self.classes_, codes = np.unique(y, return_inverse=True)
        mass = class_mass(self, codes, check_mass(sample_weight, y.size))
        positives = range(1, 2) if self.classes_.size == 2 else range(self.classes_.size)
        return [self._problem(X, np.where(codes == code, 1.0, -1.0), mass) for code in positives], mass

    def _warn_of_collapse(self, problems: list[Problem], solutions: list[Solution]) -> None:
        for problem, solution in zip(problems, solutions, strict=True):
            at_zero = float(problem.loss(np.zeros(1), np.ones(1))[0])
            if solution.objective < at_zero * (1.0 - 1e-14):
                continue
            limit = largest_collapsing_k(problem)
            warn_of_collapse(self.k, problem.k, limit, float(problem.mass.sum()), "linear model")


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
    k : int, float or "auto", default=0.7
        An int counts samples, a float is the fraction of them; ``1`` is the maximum loss, ``1.0`` the average loss.
        "auto" chooses k by cross-validation of ``score``, twice 5-fold, at the given C, and keeps the average unless
        it is behind by more than 1.5 standard errors.
        With sample weights, k counts weight.
    C : float, default=100.0
        Inverse regularisation strength, relative to the mean of the top k.
    fit_intercept : bool, default=True
    penalize_intercept : bool, default=False
        Whether the intercept is penalised like a weight, as in the paper's homogenised form.
    solver : {"exact", "sgd"} or SGD, default="exact"
        "exact" is a proximal Newton method. "sgd" is the stochastic algorithm of the paper, certified all the same but
        with a ``tol`` of about 0.01 in reach rather than 1e-6; :class:`atklearn.SGD` sets how it steps.
    tol : float, default=1e-6
        The duality gap allowed, relative to the objective.
    max_iter : int, default=1000
        The number of Newton steps allowed, or of passes over the data for "sgd".
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
        k: float | str = 0.7,
        C: float = 100.0,
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        solver: str | SGD = "exact",
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
        self.solver = solver
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
            problems, mass = self._problems(X, y, sample_weight)
            problems = self._settle_k(problems)
            solve = _solver(self.solver)
            solution = solve(
                problems[0],
                tol=self.tol,
                max_iter=self.max_iter,
                start=self._start(problems, 0),
                progress=progress.following("fit"),
            )
            self._publish(problems, [solution], mass, X.dtype)
            self.coef_, self.intercept_ = self.coef_[0], self.intercept_[0]
            progress.finish()
        return self

    def _problems(self, X: Any, y: Any, sample_weight: Any) -> tuple[list[Problem], Array]:
        """Return the problem, as a list of one, and the mass of the samples."""
        mass = check_mass(sample_weight, y.size)
        return [self._problem(X, np.asarray(y, dtype=np.float64), mass)], mass

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the predictions ``x . w + b``, shape (n_samples,)."""
        return linear_scores(self, X)


def _solver(solver: str | SGD) -> Callable[..., Solution]:
    """Return the function that solves a problem the way asked for."""
    if isinstance(solver, SGD):
        return partial(solve_sgd, settings=solver)
    return solve_linear if solver == "exact" else solve_sgd
