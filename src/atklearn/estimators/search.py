"""The cross-validated estimators: the grids, the folds, the scores, the choice, the final fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.model_selection import check_cv
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from atklearn.chunked.chunks import ChunkedFold, EncodedChunks, fold_parts, refuse_for_chunks
from atklearn.core.collapse import collapse_share
from atklearn.encoding.encoded import Encoded
from atklearn.estimators.linear import ATkClassifier, ATkRegressor, LinearATk, default_C, few_samples, fit_encoded
from atklearn.estimators.shared import (
    CallbackSupportMixin,
    FitProgress,
    FollowsX,
    ScoredClassifierMixin,
    ScoredRegressorMixin,
    chunks_of,
    encoder_of,
    keeping_fitted_state,
    training_data,
)
from atklearn.losses.aggregate import resolve_k, resolve_trim, warn_of_one_row
from atklearn.losses.individual import Array, IndividualLoss, Task
from atklearn.runtime.messages import shown
from atklearn.runtime.namespaces import home_of, is_tensor, on_host, same_home, saying_what_fits
from atklearn.selection.choosing import Criterion, Search, Selection, default_Cs, default_ks, default_search
from atklearn.selection.folds import FilledFold, Fold, Judge, cv_results, lend_coefficients

__all__ = ["ATkClassifierCV", "ATkRegressorCV", "LinearATkCV"]


class LinearATkCV(CallbackSupportMixin, FollowsX):
    """Base of the two estimators: grids, folds, scores, choice, final fit."""

    _plain: ClassVar[type[LinearATk]]
    selection_: Selection

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "loss": [str, IndividualLoss],
        "ks": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "Cs": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "trim": [Real],
        "cv": ["cv_object"],
        "scoring": [str, callable, None],
        "tail": [Interval(Real, 0.0, 1.0, closed="right"), None],
        "at_most": [Interval(Real, 0.0, None, closed="both"), None],
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

    @_fit_context(prefer_skip_nested_validation=True)
    @saying_what_fits
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Choose k and C, and fit them.

        Parameters
        ----------
        X : {array-like, sparse matrix, tensor, Dask collection, Chunks} of shape (n_samples, n_features)
            A tensor of PyTorch is computed where it lies, fold after fold, and what is fitted follows it. Chunks of
            rows are asked where they are, as in :meth:`ATkClassifier.fit`; a row's fold is drawn from its values, and
            ``cv`` has to be a number.
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
        groups : array-like of shape (n_samples,), default=None
            Passed to the splitter: samples of a group stay together in, say, ``GroupKFold``. None for chunks.

        Returns
        -------
        self : estimator
        """
        encoder = encoder_of(self, "classification" if isinstance(self, ClassifierMixin) else "regression")
        with keeping_fitted_state(self):
            self._forget()
            with training_data(self, encoder, X, y, sample_weight, ensure_min_samples=2) as data:
                progress = FitProgress(self, X, y, sample_weight)
                self._fit(data, groups, progress)
                self._follow(home_of(X))
                progress.finish()
        return self

    def _fit(self, data: Encoded | EncodedChunks, groups: Any, progress: FitProgress) -> None:
        """Search the grid on encoded data, and fit the choice."""
        self._survey(data)
        checkpoint = None
        if isinstance(data, EncodedChunks):
            refuse_for_chunks(self.cv, groups, self.n_jobs)
        if self.cv is None:
            self._run_default(few_samples(data), progress, data.total)
        else:
            ks, Cs = self._given_ks(data.total), self._Cs_of(data.total)
            folds: list[FilledFold]
            shared: tuple[Any, ...] = ()
            if isinstance(data, EncodedChunks):
                checkpoint = data.opened_checkpoint(self.get_params(deep=False), ks_used=ks, Cs_used=Cs)
                parts = fold_parts(data.n_samples, int(self.cv), self.random_state)
                folds = [
                    ChunkedFold(data, part, number, ks, Cs, self.max_iter, checkpoint)
                    for number, part in enumerate(parts)
                ]
                test_to_train = 1.0 / (int(self.cv) - 1)
            else:
                labels = on_host(data.labels)
                splitter = check_cv(self.cv, labels, classifier=data.classes is not None)
                splits = list(splitter.split(data.X, labels, on_host(groups)))
                bare = replace(data, X=None, y=None, weight=None)
                options = {"max_iter": self.max_iter, "trim": self.trim_share_}
                folds = [Fold(bare, split, ks, Cs, **options) for split in splits]
                test_to_train = float(np.mean([test.size / train.size for train, test in splits]))
                shared = data.X, data.y, data.weight
            judge, criterion = self._judge()
            search = Search(folds, judge, criterion, ks, Cs, test_to_train)
            self._run(search, progress, data.total, shared=shared)
        self._refit(data)
        if checkpoint is not None:
            checkpoint.done()

    def _forget(self) -> None:
        """Delete what an earlier fit has left."""
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)

    def _survey(self, data: Encoded | EncodedChunks) -> None:
        """Set what is known of all samples before anything is chosen."""
        self.n_samples_ = data.n_samples
        self.trim_share_ = resolve_trim(self.trim, data.total, data.total) / data.total
        self.calibration_bound_ = None
        if data.classes is not None:
            self.classes_ = data.classes
            self.calibration_bound_ = collapse_share(data.problems().problems)

    def _judge(self) -> tuple[Judge, Criterion]:
        """Return who scores the cells, and what is asked of the choice."""
        task: Task = "classification" if isinstance(self, ClassifierMixin) else "regression"
        criterion = Criterion.asked(task, self.scoring, self.tail, self.at_most, self.rule)
        classes = getattr(self, "classes_", None)
        template = self._template(k=1.0)
        return Judge.of(template, criterion.scoring, self.n_features_in_, classes, lend_coefficients), criterion

    def _run_default(self, few: Encoded, progress: FitProgress, total: float) -> None:
        """Choose on the folds that the plain estimator takes with ``k="auto"``."""
        judge, criterion = self._judge()
        search = default_search(
            few, judge, criterion, ks=int(self.ks) if self._counts_ks() else self._given_ks(total),
            Cs_of=self._Cs_of, default_C=self._default_C, trim=self.trim_share_, max_iter=self.max_iter,
            random_state=self.random_state,
        )  # fmt: skip
        scale = 1.0
        if isinstance(self.Cs, Integral):  # its C are those of some samples, in proportion to their mass
            scale = self._default_C(total) / float(search.values[search.fallback])
        self._run(search, progress, total, scale=scale)

    def _run(
        self, search: Search, progress: FitProgress, total: float, shared: tuple[Any, ...] = (), scale: float = 1.0
    ) -> None:
        """Score the grid on all folds, and choose.

        Parameters
        ----------
        search : Search
        progress : FitProgress
        total : float
            The mass of all samples.
        shared : tuple
            The data, if folds have none by themselves.
        scale : float
            What C has to be multiplied with for all samples.
        """

        def passed(fold: int, scores: Array) -> bool:
            if self.verbose:
                fits = int(np.isfinite(scores).sum())
                best = f", best score {np.nanmax(scores):.4g}" if fits else ""
                print(f"fold {fold + 1} of {len(search.folds)}: {fits} fits{best}", flush=True)
            return progress.passed("fold")

        self.ks_, self.Cs_ = search.ks, search.values * scale
        # every operation on tensors takes the whole device, and those of a GPU cannot be sent to another process
        n_jobs = 1 if shared and is_tensor(shared[0]) else self.n_jobs
        search.run(n_jobs, shared, passed)
        self.cv_results_ = cv_results(search.cells[..., 0], self.ks_, self.Cs_)
        selection = search.selection()
        self.selection_ = selection.scaled_to(selection.value * scale)
        i, j = selection.chosen
        self.k_share_, self.C_ = self.selection_.k, self.selection_.value
        self.k_ = self.k_share_ * total
        self.best_index_ = i * self.Cs_.size + j
        self.best_params_ = {"k": self.k_share_, "C": self.C_}
        self.best_score_ = selection.score

    def _refit(self, data: Encoded | EncodedChunks) -> None:
        """Fit the choice on all samples, if that is wanted."""
        if not self.refit:
            return
        if isinstance(data, EncodedChunks) and data.checkpoint is not None:
            data = replace(data, checkpoint=f"{data.checkpoint}.fit")  # beside that of the search
        best = fit_encoded(self._template(k=self.k_share_, C=self.C_, tol=self.tol), data, like=self)
        self.best_estimator_ = best
        self.coef_, self.intercept_ = best.coef_, best.intercept_
        self.loss_threshold_, self.objective_, self.dual_gap_ = best.loss_threshold_, best.objective_, best.dual_gap_
        self.n_iter_ = best.n_iter_

    def _template(self, **options: Any) -> LinearATk:
        """Return the plain estimator with the parameters that both have, and the given ones."""
        shared = set(self._plain().get_params()) & set(self.get_params()) - {"scoring", "tail", "at_most", "verbose"}
        return self._plain(**{name: getattr(self, name) for name in shared} | options)

    def _counts_ks(self) -> bool:
        return isinstance(self.ks, Integral)

    def _given_ks(self, total: float) -> Array:
        """Return the grid of k as shares, ascending."""
        if self._counts_ks():
            return default_ks(int(self.ks), self.calibration_bound_, self.trim_share_)
        warn_of_one_row(*self.ks)
        ks = np.unique([resolve_k(k, total) / total for k in self.ks])
        if ks.size == 0:
            raise ValueError(f"ks is expected to be a number of grid points or a non-empty grid, got {shown(self.ks)}.")
        return ks

    def _default_C(self, total: float) -> float:
        """Return the C that the plain estimator takes for samples of some mass."""
        return default_C(self._plain, total)

    def _Cs_of(self, total: float) -> Array:
        """Return the grid of C, ascending, for samples of some mass."""
        if isinstance(self.Cs, Integral):
            return default_Cs(int(self.Cs), self._default_C(total))
        Cs = np.unique(self.Cs).astype(float)
        if Cs.size == 0 or Cs[0] <= 0.0:
            raise ValueError(
                "Cs is expected to be a number of grid points or a non-empty grid with every C > 0, got "
                f"{shown(self.Cs)}."
            )
        return Cs

    def _delegate(self, method: str, X: Any) -> Any:
        """Call the final fit, which knows the features by their names."""
        check_is_fitted(self, "best_estimator_")
        if chunks_of(X) is None:
            same_home(self.coef_, X, f"{type(self).__name__}.{method}()")
        return getattr(self.best_estimator_, method)(X)


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
