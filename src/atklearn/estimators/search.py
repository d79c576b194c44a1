"""Linear estimators that choose k and C by cross-validation on warm-started paths."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, _fit_context, clone
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted, validate_data

from atklearn.losses.aggregate import resolve_k
from atklearn.estimators.callbacks import CallbackSupportMixin, FitProgress
from atklearn.selection.choosing import calibration_share, choose_best, choose_within_error, default_Cs, default_folds, default_ks
from atklearn.estimators.fitting import check_mass
from atklearn.selection.folds import Fold, Split, cv_results
from atklearn.losses.individual import Array, IndividualLoss
from atklearn.estimators.linear import ATkClassifier, ATkRegressor

__all__ = ["ATkClassifierCV", "ATkRegressorCV"]


class _LinearATkCV(CallbackSupportMixin, BaseEstimator):
    """What the two estimators share: grids, folds, scores, choice, final fit."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "loss": [str, IndividualLoss],
        "ks": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "Cs": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "cv": ["cv_object"],
        "scoring": [str, callable, None],
        "rule": [StrOptions({"one_standard_error", "best"})],
        "refit": ["boolean"],
        "fit_intercept": ["boolean"],
        "penalize_intercept": ["boolean"],
        "tol": [Interval(Real, 0.0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _fit(self, template: ATkClassifier | ATkRegressor, X: Any, y: Any, sample_weight: Any, groups: Any) -> None:
        """Score the grid, choose, and fit the choice on all samples."""
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            if name not in ("n_features_in_", "feature_names_in_"):
                delattr(self, name)
        progress = FitProgress(self, X, y, sample_weight)
        if sample_weight is not None:
            sample_weight = check_mass(sample_weight, y.size)
        self._make_grids(template, X, y, sample_weight)
        self.n_samples_ = int(y.size)
        splits = self._splits(X, y, groups)
        scores = np.full((len(splits), self.ks_.size, self.Cs_.size), np.nan)
        try:
            self._fill(scores, template, X, y, sample_weight, splits, progress)
        finally:  # an interrupt leaves the cells that were finished
            self.cv_results_ = cv_results(scores, self.ks_, self.Cs_)
        self._choose(scores, splits)
        if self.refit:
            final = clone(template).set_params(k=self.k_, C=self.C_, tol=self.tol)
            self.best_estimator_ = final.fit(X, y, sample_weight)
            for name in ("coef_", "intercept_", "threshold_", "dual_gap_", "objective_", "n_iter_"):
                setattr(self, name, getattr(self.best_estimator_, name))
        progress.finish()

    def _make_grids(self, template: ATkClassifier | ATkRegressor, X: Any, y: Any, sample_weight: Any) -> None:
        """Set the calibration bound and the grids, k as fractions and both ascending."""
        problems, mass = template._problems(X, y, sample_weight)
        classification = isinstance(template, ATkClassifier)
        self.calibration_bound_ = calibration_share(problems) if classification else None
        if isinstance(self.ks, Integral):
            self.ks_ = default_ks(int(self.ks), self.calibration_bound_)
        else:
            total = float(mass.sum())
            self.ks_ = np.unique([resolve_k(k, total) / total for k in self.ks])
        self.Cs_ = default_Cs(int(self.Cs)) if isinstance(self.Cs, Integral) else np.unique(self.Cs).astype(float)
        if self.ks_.size == 0 or self.Cs_.size == 0 or self.Cs_[0] <= 0.0:
            raise ValueError(
                f"ks and Cs are expected to be numbers of grid points or non-empty grids with every C > 0, got "
                f"ks={self.ks!r}, Cs={self.Cs!r}."
            )

    def _splits(self, X: Any, y: Any, groups: Any) -> list[Split]:
        """Return the folds as a list, so that all cells see the same."""
        classification = isinstance(self, ClassifierMixin)
        if self.cv is not None:
            return list(check_cv(self.cv, y, classifier=classification).split(X, y, groups))
        splitter = default_folds(y, classification=classification, random_state=self.random_state)
        return list(splitter.split(X, y))

    def _fill(
        self,
        scores: Array,
        template: ATkClassifier | ATkRegressor,
        X: Any,
        y: Any,
        sample_weight: Any,
        splits: list[Split],
        progress: FitProgress,
    ) -> None:
        """Fill in the scores fold by fold, in this process cell by cell."""
        scorer = check_scoring(template, scoring=self.scoring)
        jobs = [Fold(template, X, y, sample_weight, split, self.ks_, self.Cs_, scorer) for split in splits]
        done: Iterator[Any]
        if effective_n_jobs(self.n_jobs) == 1:
            done = (job.fill(out) for job, out in zip(jobs, scores, strict=True))
        else:
            parallel = Parallel(n_jobs=self.n_jobs, return_as="generator")
            done = parallel(delayed(job.fill)(np.full(scores.shape[1:], np.nan)) for job in jobs)
        for fold, filled in enumerate(done):
            scores[fold] = filled
            if self.verbose:
                print(
                    f"fold {fold + 1} of {len(splits)}: {filled.size} fits, best score {filled.max():.4g}", flush=True
                )
            if progress.passed("fold"):
                break

    def _choose(self, scores: Array, splits: Sequence[Split]) -> None:
        """Set the choice from the folds that are complete."""
        complete = scores[np.isfinite(scores).all(axis=(1, 2))]
        if len(complete) == 0:
            raise ValueError(
                f"At least one fold with a finite score in every cell is expected, got none of {len(scores)}; "
                "check that the score is defined on every fold."
            )
        if self.rule == "best":
            i, j = choose_best(complete)
        else:
            i, j = choose_within_error(complete, float(np.mean([test.size / train.size for train, test in splits])))
        self.k_, self.C_ = float(self.ks_[i]), float(self.Cs_[j])
        self.best_index_ = i * self.Cs_.size + j
        self.best_params_ = {"k": self.k_, "C": self.C_}
        self.best_score_ = float(complete[:, i, j].mean())

    def _delegate(self, method: str, X: Any) -> npt.NDArray[Any]:
        """Call the final fit on checked features."""
        check_is_fitted(self, "best_estimator_")
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32])
        out: npt.NDArray[Any] = getattr(self.best_estimator_, method)(X)
        return out


class ATkClassifierCV(ClassifierMixin, _LinearATkCV):
    """Linear classifier with the average top-k loss that chooses k and C by cross-validation.

    It scores a grid of k and C on every fold, each fit started from its neighbours, and prefers the average loss
    (k = n): a smaller k is taken only as far as the scores ask for it by more than their standard error.

    Parameters
    ----------
    loss : {"log_loss", "hinge", "squared_hinge"} or IndividualLoss, default="log_loss"
    ks : int or array-like, default=8
        A number of grid points, log-spaced from the calibration bound (below it classifiers collapse to w = 0) to all
        samples; or the grid itself, an int counting samples and a float being the fraction of them.
    Cs : int or array-like, default=6
        A number of grid points, log-spaced between 0.1 and 10,000, made for standardised features; or the grid itself.
    cv : int, splitter, iterable or None, default=None
        As in scikit-learn. None is stratified 5-fold, repeated 5 times below 1,500 samples and twice above: the fewer
        samples, the noisier the score of a single partition.
    scoring : str, callable or None, default=None
        As in scikit-learn; None is accuracy. Where a class is rare, use a score that sees it, such as
        "balanced_accuracy" or :data:`atklearn.measures.g_mean_scorer`. Sample weights are passed on if it takes them.
    rule : {"one_standard_error", "best"}, default="one_standard_error"
        "best" takes the cell with the best mean score. "one_standard_error" takes the largest k with a cell that is
        behind the best by no more than the standard error of their difference, and its best C.
    refit : bool, default=True
        Whether to fit the choice on all samples.
    fit_intercept : bool, default=True
    penalize_intercept : bool, default=False
    class_weight : dict, "balanced" or None, default=None
        As in :class:`atklearn.ATkClassifier`; "balanced" weights are taken from each training part.
    tol : float, default=1e-6
        The relative duality gap of the final fit; the cells of the grid are certified to 1e-3.
    max_iter : int, default=1000
        Newton steps per fit.
    n_jobs : int or None, default=None
        Folds fitted at once, through joblib and its backends.
    random_state : int, RandomState instance or None, default=0
        Shuffles the default folds.
    verbose : int, default=0

    Attributes
    ----------
    k_ : float
        The chosen k as a fraction of the samples, a value for the parameter ``k`` of the plain estimator.
    C_ : float
    best_estimator_ : ATkClassifier
        The final fit; present if ``refit``.
    cv_results_ : dict of ndarrays
        As in :class:`sklearn.model_selection.GridSearchCV`: ``params``, ``param_k``, ``param_C``,
        ``split0_test_score`` and so on, ``mean_test_score``, ``std_test_score``, ``rank_test_score``. If the fit was
        interrupted, unfinished cells are NaN.
    best_index_, best_params_, best_score_ : int, dict, float
        Of the choice, which need not be the cell of rank 1.
    ks_, Cs_ : ndarray
        The grids, k as fractions.
    n_samples_ : int
        Of the fit.
    calibration_bound_ : float
        The fraction k/n at or below which the classifier collapses on these data.
    classes_, coef_, intercept_, threshold_, dual_gap_, objective_, n_iter_
        Of the final fit.

    Examples
    --------
    >>> from atklearn import ATkClassifierCV
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = ATkClassifierCV(ks=[0.1, 0.3, 1.0], Cs=[1.0, 100.0], cv=3, scoring="balanced_accuracy").fit(scale(X), y)
    >>> model.best_score_ > 0.95, len(model.cv_results_["params"])
    (True, 6)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_LinearATkCV._parameter_constraints,
        "class_weight": [StrOptions({"balanced"}), dict, None],
    }

    def __init__(
        self,
        loss: str | IndividualLoss = "log_loss",
        *,
        ks: int | Sequence[float] = 8,
        Cs: int | Sequence[float] = 6,
        cv: Any = None,
        scoring: str | Callable[..., float] | None = None,
        rule: str = "one_standard_error",
        refit: bool = True,
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        class_weight: dict[Any, float] | str | None = None,
        tol: float = 1e-6,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.ks = ks
        self.Cs = Cs
        self.cv = cv
        self.scoring = scoring
        self.rule = rule
        self.refit = refit
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> ATkClassifierCV:
        """Choose k and C, and fit them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
        groups : array-like of shape (n_samples,), default=None
            Passed to the splitter: samples of a group stay together in, say, ``GroupKFold``.

        Returns
        -------
        self : ATkClassifierCV
        """
        X, y = _validate(self, X, y)
        check_classification_targets(y)
        template = ATkClassifier(
            self.loss,
            k=1.0,
            fit_intercept=self.fit_intercept,
            penalize_intercept=self.penalize_intercept,
            class_weight=self.class_weight,
            max_iter=self.max_iter,
        )
        self._fit(template, X, y, sample_weight, groups)
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the predicted class labels, shape (n_samples,)."""
        return self._delegate("predict", X)

    def decision_function(self, X: Any) -> npt.NDArray[Any]:
        """Return the scores ``x . w + b``, shape (n_samples,) for two classes, else (n_samples, n_classes)."""
        return self._delegate("decision_function", X)

    @available_if(lambda self: hasattr(ATkClassifier(self.loss), "predict_proba"))
    def predict_proba(self, X: Any) -> npt.NDArray[Any]:
        """Return the logistic function of the scores, shape (n_samples, n_classes); no calibrated probabilities."""
        return self._delegate("predict_proba", X)

    @available_if(lambda self: hasattr(ATkClassifier(self.loss), "predict_log_proba"))
    def predict_log_proba(self, X: Any) -> npt.NDArray[Any]:
        """Return the logarithm of :meth:`predict_proba`."""
        return self._delegate("predict_log_proba", X)


class ATkRegressorCV(RegressorMixin, _LinearATkCV):
    """Linear regressor with the average top-k loss that chooses k and C by cross-validation.

    It scores a grid of k and C on every fold, each fit started from its neighbours, and prefers the average loss
    (k = n): a smaller k is taken only as far as the scores ask for it by more than their standard error.

    Parameters
    ----------
    loss : {"squared_error", "absolute_error", "huber"} or IndividualLoss, default="squared_error"
    ks : int or array-like, default=8
        A number of grid points, log-spaced from 2 % of the samples to all of them; or the grid itself, an int counting
        samples and a float being the fraction of them.
    Cs : int or array-like, default=6
        A number of grid points, log-spaced between 0.1 and 10,000, made for standardised features and targets; or the
        grid itself.
    cv : int, splitter, iterable or None, default=None
        As in scikit-learn. None is 5-fold, repeated 5 times below 1,500 samples and twice above.
    scoring : str, callable or None, default=None
        As in scikit-learn; None is R2. Sample weights are passed on if it takes them.
    rule : {"one_standard_error", "best"}, default="one_standard_error"
        "best" takes the cell with the best mean score. "one_standard_error" takes the largest k with a cell that is
        behind the best by no more than the standard error of their difference, and its best C.
    refit : bool, default=True
        Whether to fit the choice on all samples.
    fit_intercept : bool, default=True
    penalize_intercept : bool, default=False
    tol : float, default=1e-6
        The relative duality gap of the final fit; the cells of the grid are certified to 1e-3.
    max_iter : int, default=1000
        Newton steps per fit.
    n_jobs : int or None, default=None
        Folds fitted at once, through joblib and its backends.
    random_state : int, RandomState instance or None, default=0
        Shuffles the default folds.
    verbose : int, default=0

    Attributes
    ----------
    k_ : float
        The chosen k as a fraction of the samples, a value for the parameter ``k`` of the plain estimator.
    C_ : float
    best_estimator_ : ATkRegressor
        The final fit; present if ``refit``.
    cv_results_ : dict of ndarrays
        As in :class:`sklearn.model_selection.GridSearchCV`; see :class:`atklearn.ATkClassifierCV`.
    best_index_, best_params_, best_score_ : int, dict, float
        Of the choice, which need not be the cell of rank 1.
    ks_, Cs_ : ndarray
        The grids, k as fractions.
    n_samples_ : int
        Of the fit.
    coef_, intercept_, threshold_, dual_gap_, objective_, n_iter_
        Of the final fit.

    Examples
    --------
    >>> from atklearn import ATkRegressorCV
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = ATkRegressorCV("absolute_error", ks=4, Cs=3, cv=3).fit(scale(X), scale(y))
    >>> model.score(scale(X), scale(y)) > 0.4
    True
    """

    def __init__(
        self,
        loss: str | IndividualLoss = "squared_error",
        *,
        ks: int | Sequence[float] = 8,
        Cs: int | Sequence[float] = 6,
        cv: Any = None,
        scoring: str | Callable[..., float] | None = None,
        rule: str = "one_standard_error",
        refit: bool = True,
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        tol: float = 1e-6,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.ks = ks
        self.Cs = Cs
        self.cv = cv
        self.scoring = scoring
        self.rule = rule
        self.refit = refit
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> ATkRegressorCV:
        """Choose k and C, and fit them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
        groups : array-like of shape (n_samples,), default=None
            Passed to the splitter: samples of a group stay together in, say, ``GroupKFold``.

        Returns
        -------
        self : ATkRegressorCV
        """
        X, y = _validate(self, X, y, y_numeric=True)
        template = ATkRegressor(
            self.loss,
            k=1.0,
            fit_intercept=self.fit_intercept,
            penalize_intercept=self.penalize_intercept,
            max_iter=self.max_iter,
        )
        self._fit(template, X, y, sample_weight, groups)
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the predictions ``x . w + b``, shape (n_samples,)."""
        return self._delegate("predict", X)


def _validate(estimator: Any, X: Any, y: Any, **check: Any) -> tuple[Any, Any]:
    """Return X as C-ordered array or CSR, and y, both checked."""
    X, y = validate_data(
        estimator,
        X,
        y,
        accept_sparse="csr",
        dtype=[np.float64, np.float32],
        order="C",
        accept_large_sparse=False,
        ensure_min_samples=2,
        **check,
    )
    return X, y
