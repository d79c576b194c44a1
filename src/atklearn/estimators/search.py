"""Linear estimators that choose k and C by cross-validation on warm-started paths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if

from atklearn.estimators.following import ScoredClassifierMixin, ScoredRegressorMixin
from atklearn.estimators.linear import ATkClassifier, ATkRegressor
from atklearn.estimators.search_base import LinearATkCV
from atklearn.losses.individual import IndividualLoss

__all__ = ["ATkClassifierCV", "ATkRegressorCV"]


class ATkClassifierCV(ScoredClassifierMixin, LinearATkCV):
    """Linear classifier with the average top-k loss that chooses k and C by cross-validation.

    It asks what ``ATkClassifier()`` asks by default, and answers it alike; beyond that, the grid, the folds and the
    rule are yours to set, and all scores are published. See :doc:`/choosing-k`.

    Parameters
    ----------
    loss : {"log_loss", "hinge", "squared_hinge"} or IndividualLoss, default="log_loss"
    ks : int or array-like, default=6
        A number of grid points between the calibration bound (below it classifiers collapse to w = 0) and all samples,
        the denser the smaller they are; or the grid itself, an int counting samples, a float being the fraction of
        them, and "max" one sample.
    Cs : int or array-like, default=3
        A number of grid points: from a thousandth of the default C of :class:`atklearn.ATkClassifier` up to it,
        log-spaced, and ten times it, made for standardised features; or the grid itself.
    trim : int or float, default=0
        How many, or what part, of the largest losses every fit sets aside: see :class:`atklearn.ATkClassifier`. It is
        not chosen: see :func:`atklearn.choose_trim`.
    cv : int, splitter, iterable or None, default=None
        As in scikit-learn. None is the folds of ``ATkClassifier()``: five, or three from 1,500 samples on, of 5,000
        samples at most, and five twice without a budget. Cells that the first folds find far beyond the budget are left
        out of the others. A number or a splitter takes all samples and scores all cells.
    scoring : str, callable or None, default=None
        The name of a measure ("error", "balanced_error", "worst_class_error", "g_mean", "roc_auc",
        "average_precision", "log_loss", "brier": see :data:`atklearn.measures.MEASURES`), or what scikit-learn
        accepts; None is the tail: see the next. Where a class is rare, use a score that sees it, such as
        "balanced_error" or "g_mean". Sample weights are passed on if it takes them.
    tail : float or None, default=None
        The share of the worst losses whose mean is lowered, in the place of ``scoring``; None is a tenth.
    at_most : float or None, default=None
        What that may cost: by how much the mean loss may rise, out of fold, against the best average's, relative to it.
        None is 0.02, and no limit with ``scoring``.
    rule : {"one_standard_error", "best"}, default="one_standard_error"
        Among the cells within the budget, "best" takes the one with the best mean score. "one_standard_error" takes the
        largest k with a cell that is behind the best by no more than the standard error of their difference, and its
        best C.
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
        Folds fitted at once, through joblib and its backends; those of tensors are fitted one after another.
    random_state : int, RandomState instance or None, default=0
        Shuffles the default folds.
    verbose : int, default=0

    Attributes
    ----------
    k_ : float
        The chosen k, in units of sample weight.
    k_share_ : float
        The same as part of the total weight: a value for the parameter ``k`` of the plain estimator.
    C_ : float
        The chosen C.
    selection_ : Selection
        What the choice saw, prices and all, and why it is as it is. Draw it with :class:`atklearn.KCurveDisplay`.
    best_estimator_ : ATkClassifier
        The final fit; present if ``refit``.
    cv_results_ : dict of ndarrays
        As in :class:`sklearn.model_selection.GridSearchCV`: ``params``, ``param_k``, ``param_C``,
        ``split0_test_score`` and so on, ``mean_test_score``, ``std_test_score``, ``rank_test_score``. Cells that were
        left out are NaN, or unfinished if a callback stopped the search.
    best_index_ : int
        The cell of the choice, which need not be the one of rank 1.
    best_params_ : dict
        Its ``k``, as a fraction, and ``C``.
    best_score_ : float
        Its mean score over the folds.
    ks_, Cs_ : ndarray
        The grids, k as fractions.
    trim_share_ : float
        The part set aside.
    n_samples_ : int
        Of the fit.
    calibration_bound_ : float
        The fraction k/n at or below which the classifier collapses on these data.
    classes_, coef_, intercept_, loss_threshold_, dual_gap_, objective_, n_iter_
        Of the final fit.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only if X had names.

    Examples
    --------
    >>> from atklearn import ATkClassifierCV
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = ATkClassifierCV(ks=[0.1, 0.3, 1.0], Cs=[1.0, 100.0], cv=3, scoring="balanced_error").fit(scale(X), y)
    >>> model.best_score_ > -0.05, len(model.cv_results_["params"])
    (True, 6)
    """

    _plain = ATkClassifier
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearATkCV._parameter_constraints,
        "class_weight": [StrOptions({"balanced"}), dict, None],
    }

    def __init__(
        self,
        loss: str | IndividualLoss = "log_loss",
        *,
        ks: int | Sequence[float | str] = 6,
        Cs: int | Sequence[float] = 3,
        trim: float = 0,
        cv: Any = None,
        scoring: str | Callable[..., float] | None = None,
        tail: float | None = None,
        at_most: float | None = None,
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
        self.trim = trim
        self.cv = cv
        self.scoring = scoring
        self.tail = tail
        self.at_most = at_most
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

    def predict(self, X: Any) -> Any:
        """Return the labels that ``best_estimator_`` predicts.

        Parameters
        ----------
        X : {array-like, sparse matrix, tensor, Dask collection, Chunks} of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        return self._delegate("predict", X)

    def decision_function(self, X: Any) -> Any:
        """Return the scores ``x . w + b`` of ``best_estimator_``; of two classes, those of the second.

        Parameters
        ----------
        X : {array-like, sparse matrix, tensor, Dask collection, Chunks} of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            One column per class, if there are more than two.
        """
        return self._delegate("decision_function", X)

    @available_if(lambda self: hasattr(ATkClassifier(self.loss), "predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """Return the logistic function of the scores, scaled to sum to one over the classes.

        These are no calibrated probabilities for k < n. Only with ``loss="log_loss"``.

        Parameters
        ----------
        X : {array-like, sparse matrix, tensor, Dask collection, Chunks} of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        return self._delegate("predict_proba", X)

    @available_if(lambda self: hasattr(ATkClassifier(self.loss), "predict_log_proba"))
    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithm of :meth:`predict_proba`.

        Parameters
        ----------
        X : {array-like, sparse matrix, tensor, Dask collection, Chunks} of shape (n_samples, n_features)

        Returns
        -------
        logarithms : ndarray of shape (n_samples, n_classes)
        """
        return self._delegate("predict_log_proba", X)


class ATkRegressorCV(ScoredRegressorMixin, LinearATkCV):
    """Linear regressor with the average top-k loss that chooses k and C by cross-validation.

    It asks what ``ATkRegressor()`` asks by default, and answers it alike; beyond that, the grid, the folds and the
    rule are yours to set, and all scores are published. See :doc:`/choosing-k`.

    Parameters
    ----------
    loss : {"squared_error", "absolute_error", "huber"} or IndividualLoss, default="squared_error"
    ks : int or array-like, default=6
        A number of grid points between 2 % of the samples and all of them, the denser the smaller they are; or the grid
        itself, an int counting samples, a float being the fraction of them, and "max" one sample.
    Cs : int or array-like, default=3
        A number of grid points: from a thousandth of the default C of :class:`atklearn.ATkRegressor` up to it,
        log-spaced, and ten times it, made for standardised features; or the grid itself.
    trim : int or float, default=0
        How many, or what part, of the largest losses every fit sets aside: see :class:`atklearn.ATkRegressor`. It is
        not chosen: see :func:`atklearn.choose_trim`.
    cv : int, splitter, iterable or None, default=None
        As in scikit-learn. None is the folds of ``ATkRegressor()``: five, or three from 1,500 samples on, of 5,000
        samples at most, and five twice without a budget. Cells that the first folds find far beyond the budget are left
        out of the others. A number or a splitter takes all samples and scores all cells.
    scoring : str, callable or None, default=None
        The name of a measure ("rmse", "mae", "tail_error", "p95_error", "max_error", "r2": see
        :data:`atklearn.measures.MEASURES`), or what scikit-learn accepts; None is the tail: see the next. Sample
        weights are passed on if it takes them.
    tail : float or None, default=None
        The share of the worst errors whose mean size is lowered, in the place of ``scoring``; None is a tenth.
    at_most : float or None, default=None
        What that may cost: by how much the mean of the loss (the RMSE for the squared error, the mean loss for others)
        may rise, out of fold, against the best average's, relative to it. None is 0.02, and no limit with ``scoring``.
    rule : {"one_standard_error", "best"}, default="one_standard_error"
        Among the cells within the budget, "best" takes the one with the best mean score. "one_standard_error" takes the
        largest k with a cell that is behind the best by no more than the standard error of their difference, and its
        best C.
    refit : bool, default=True
        Whether to fit the choice on all samples.
    fit_intercept : bool, default=True
    penalize_intercept : bool, default=False
    tol : float, default=1e-6
        The relative duality gap of the final fit; the cells of the grid are certified to 1e-3.
    max_iter : int, default=1000
        Newton steps per fit.
    n_jobs : int or None, default=None
        Folds fitted at once, through joblib and its backends; those of tensors are fitted one after another.
    random_state : int, RandomState instance or None, default=0
        Shuffles the default folds.
    verbose : int, default=0

    Attributes
    ----------
    k_ : float
        The chosen k, in units of sample weight.
    k_share_ : float
        The same as part of the total weight: a value for the parameter ``k`` of the plain estimator.
    C_ : float
        The chosen C.
    selection_ : Selection
        What the choice saw, prices and all, and why it is as it is. Draw it with :class:`atklearn.KCurveDisplay`.
    best_estimator_ : ATkRegressor
        The final fit; present if ``refit``.
    cv_results_ : dict of ndarrays
        As in :class:`sklearn.model_selection.GridSearchCV`; see :class:`atklearn.ATkClassifierCV`.
    best_index_ : int
        The cell of the choice, which need not be the one of rank 1.
    best_params_ : dict
        Its ``k``, as a fraction, and ``C``.
    best_score_ : float
        Its mean score over the folds.
    ks_, Cs_ : ndarray
        The grids, k as fractions.
    trim_share_ : float
        The part set aside.
    n_samples_ : int
        Of the fit.
    calibration_bound_ : None
        There is no such bound in regression.
    coef_, intercept_, loss_threshold_, dual_gap_, objective_, n_iter_
        Of the final fit.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only if X had names.

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

    _plain = ATkRegressor

    def __init__(
        self,
        loss: str | IndividualLoss = "squared_error",
        *,
        ks: int | Sequence[float | str] = 6,
        Cs: int | Sequence[float] = 3,
        trim: float = 0,
        cv: Any = None,
        scoring: str | Callable[..., float] | None = None,
        tail: float | None = None,
        at_most: float | None = None,
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
        self.trim = trim
        self.cv = cv
        self.scoring = scoring
        self.tail = tail
        self.at_most = at_most
        self.rule = rule
        self.refit = refit
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def predict(self, X: Any) -> Any:
        """Return the predictions ``x . w + b`` of ``best_estimator_``.

        Parameters
        ----------
        X : {array-like, sparse matrix, tensor, Dask collection, Chunks} of shape (n_samples, n_features)

        Returns
        -------
        predictions : ndarray of shape (n_samples,)
        """
        return self._delegate("predict", X)
