"""The cross-validated estimators: the grids, the folds, the scores, the choice, the final fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral
from typing import ClassVar, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.model_selection import BaseCrossValidator, check_cv
from sklearn.utils._param_validation import Interval, StrOptions

from atklearn.chunked.chunks import ChunkedFold, EncodedChunks, fold_parts, refuse_for_chunks
from atklearn.core.collapse import collapse_share
from atklearn.encoding.encoded import Encoded
from atklearn.estimators.documentation import CLASSES, NUMBERS, documented
from atklearn.estimators.linear import (
    ASKED,
    CLASS_WEIGHT,
    ATkClassifier,
    ATkRegressor,
    LinearATk,
    default_C,
    few_samples,
    fit_encoded,
)
from atklearn.estimators.shared import (
    AsIs,
    CallbackSupportMixin,
    ClassWeight,
    Constraints,
    FitProgress,
    FollowsX,
    LinearClassifierMixin,
    ScoredRegressorMixin,
    published_at_once,
    training_data,
)
from atklearn.losses.aggregate import resolve_k, resolve_trim, warn_of_one_row
from atklearn.losses.individual import Array, IndividualLoss, Task
from atklearn.runtime.messages import shown
from atklearn.runtime.namespaces import home_of, is_tensor, on_host, saying_what_fits
from atklearn.selection.choosing import Criterion, Search, Selection, default_Cs, default_ks, default_search
from atklearn.selection.folds import FilledFold, Fold, Judge, cv_results, lend_coefficients
from atklearn.stochastic.sgd import RandomState

__all__ = ["ATkClassifierCV", "ATkRegressorCV", "LinearATkCV"]

Splits: TypeAlias = BaseCrossValidator | Iterable[tuple[npt.ArrayLike, npt.ArrayLike]] | int | None

# What the search asks of its user, and hands on to every fit.
_HANDED_ON = ("loss", "trim", "fit_intercept", "penalize_intercept", "max_iter")


class LinearATkCV(CallbackSupportMixin, FollowsX):
    """Base of the two estimators: grids, folds, scores, choice, final fit."""

    _plain: ClassVar[type[LinearATk]]
    _handed_on: ClassVar[tuple[str, ...]] = _HANDED_ON
    selection_: Selection

    _parameter_constraints: ClassVar[Constraints] = ASKED | {
        "ks": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "Cs": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "cv": ["cv_object"],
        "rule": [StrOptions({"one_standard_error", "best"})],
        "refit": ["boolean"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    @published_at_once
    @_fit_context(prefer_skip_nested_validation=True)
    @saying_what_fits
    def fit(self, X: AsIs, y: AsIs, sample_weight: AsIs = None, groups: AsIs = None) -> Self:
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
        with training_data(self, self._encoder(self._task), X, y, sample_weight, ensure_min_samples=2) as data:
            progress = FitProgress(self, X, y, sample_weight)
            self._fit(data, groups, progress)
            self._follow(home_of(X))
            progress.finish()
        return self

    @property
    def _task(self) -> Task:
        return "classification" if isinstance(self, ClassifierMixin) else "regression"

    def _fit(self, data: Encoded | EncodedChunks, groups: AsIs, progress: FitProgress) -> None:
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
            shared: tuple[AsIs, ...] = ()
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
                folds = [Fold(bare, split, ks, Cs, max_iter=self.max_iter, trim=self.trim_share_) for split in splits]
                test_to_train = float(np.mean([test.size / train.size for train, test in splits]))
                shared = data.X, data.y, data.weight
            judge, criterion = self._judge()
            search = Search(folds, judge, criterion, ks, Cs, test_to_train)
            self._run(search, progress, data.total, shared=shared)
        self._refit(data)
        if checkpoint is not None:
            checkpoint.done()

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
        criterion = Criterion.asked(self._task, self.scoring, self.tail, self.at_most, self.rule)
        classes = getattr(self, "classes_", None)
        template = self._plain_estimator(k=1.0)
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
        self, search: Search, progress: FitProgress, total: float, shared: tuple[AsIs, ...] = (), scale: float = 1.0
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
        best = fit_encoded(self._plain_estimator(k=self.k_share_, C=self.C_), data, like=self)
        self.best_estimator_ = best
        self.coef_, self.intercept_ = best.coef_, best.intercept_
        self.loss_threshold_, self.objective_, self.dual_gap_ = best.loss_threshold_, best.objective_, best.dual_gap_
        self.n_iter_ = best.n_iter_

    def _plain_estimator(self, k: float, C: float | None = None) -> LinearATk:
        """Return the plain estimator with what is handed on, and the given k and C."""
        return self._plain(k=k, C=C, tol=self.tol, **{name: getattr(self, name) for name in self._handed_on})

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
        """Return the C that the plain estimator takes for samples of some total mass."""
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


@documented("search", CLASSES)
@dataclass(eq=False, repr=False)
class ATkClassifierCV(LinearClassifierMixin, LinearATkCV):
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
    Cs, trim, cv, scoring, tail, at_most, rule, refit, fit_intercept, penalize_intercept
    class_weight : dict, "balanced" or None, default=None
        As in :class:`atklearn.ATkClassifier`; "balanced" weights are taken from each training part.
    tol, max_iter, n_jobs, random_state, verbose

    Attributes
    ----------
    k_, k_share_, C_, selection_, best_estimator_, cv_results_, best_index_, best_params_, best_score_
    ks_, Cs_ : ndarray
        The grids, k as fractions.
    trim_share_, n_samples_
    calibration_bound_ : float
        The fraction k/n at or below which the classifier collapses on these data.
    classes_
    coef_, intercept_, loss_threshold_, dual_gap_, objective_, n_iter_ : ndarray or number
        Of the final fit.
    n_features_in_, feature_names_in_

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
    _handed_on = (*_HANDED_ON, "class_weight")
    _parameter_constraints: ClassVar[Constraints] = LinearATkCV._parameter_constraints | CLASS_WEIGHT

    loss: str | IndividualLoss = "log_loss"
    _: KW_ONLY
    ks: int | Sequence[float | str] = 6
    Cs: int | Sequence[float] = 3
    trim: float = 0
    cv: Splits = None
    scoring: str | Callable[..., float] | None = None
    tail: float | None = None
    at_most: float | None = None
    rule: str = "one_standard_error"
    refit: bool = True
    fit_intercept: bool = True
    penalize_intercept: bool = False
    class_weight: ClassWeight = None
    tol: float = 1e-6
    max_iter: int = 1000
    n_jobs: int | None = None
    random_state: RandomState = 0
    verbose: int = 0


@documented("search", NUMBERS)
@dataclass(eq=False, repr=False)
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
    Cs, trim, cv, scoring, tail, at_most, rule, refit, fit_intercept, penalize_intercept, tol, max_iter, n_jobs
    random_state, verbose

    Attributes
    ----------
    k_, k_share_, C_, selection_, best_estimator_, cv_results_, best_index_, best_params_, best_score_
    ks_, Cs_ : ndarray
        The grids, k as fractions.
    trim_share_, n_samples_
    calibration_bound_ : None
        There is no such bound in regression.
    coef_, intercept_, loss_threshold_, dual_gap_, objective_, n_iter_ : ndarray or number
        Of the final fit.
    n_features_in_, feature_names_in_

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

    loss: str | IndividualLoss = "squared_error"
    _: KW_ONLY
    ks: int | Sequence[float | str] = 6
    Cs: int | Sequence[float] = 3
    trim: float = 0
    cv: Splits = None
    scoring: str | Callable[..., float] | None = None
    tail: float | None = None
    at_most: float | None = None
    rule: str = "one_standard_error"
    refit: bool = True
    fit_intercept: bool = True
    penalize_intercept: bool = False
    tol: float = 1e-6
    max_iter: int = 1000
    n_jobs: int | None = None
    random_state: RandomState = 0
    verbose: int = 0
