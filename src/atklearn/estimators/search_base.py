"""What the cross-validated estimators share: the grids, the folds, the scores, the choice, the final fit."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.model_selection import check_cv
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from atklearn.estimators.callbacks import CallbackSupportMixin, FitProgress
from atklearn.estimators.fitting import posing_of
from atklearn.estimators.following import FollowsX
from atklearn.estimators.linear_base import LinearATk, default_C
from atklearn.losses.aggregate import resolve_drop, resolve_k
from atklearn.losses.individual import Array, IndividualLoss, Task
from atklearn.losses.messages import shown
from atklearn.problems.arrays import check_features
from atklearn.problems.device_room import saying_what_fits
from atklearn.problems.entering import enter_mass, enter_training
from atklearn.problems.namespaces import home_of, is_tensor, on_host, same_home
from atklearn.problems.posing import Posed, Posing
from atklearn.selection.choosing import (
    AUTO_ROWS,
    Criterion,
    Search,
    Selection,
    default_Cs,
    default_ks_above,
    default_search,
)
from atklearn.selection.folds import Fold, cv_results
from atklearn.selection.judging import Judge, lend_coefficients
from atklearn.solvers.exact.collapse import collapse_share

__all__ = ["LinearATkCV"]


class LinearATkCV(CallbackSupportMixin, FollowsX):
    """Base of the two estimators: grids, folds, scores, choice, final fit."""

    _plain: ClassVar[type[LinearATk]]
    selection_: Selection

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "loss": [str, IndividualLoss],
        "ks": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "Cs": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "drop": [Real],
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
        X : {array-like, sparse matrix, tensor} of shape (n_samples, n_features)
            A tensor of PyTorch is computed where it lies, fold after fold, and what is fitted follows it.
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
        groups : array-like of shape (n_samples,), default=None
            Passed to the splitter: samples of a group stay together in, say, ``GroupKFold``.

        Returns
        -------
        self : estimator
        """
        self._forget()
        classification = isinstance(self, ClassifierMixin)
        home = home_of(X)
        X, y = enter_training(self, X, y, y_numeric=not classification, ensure_min_samples=2)
        progress = FitProgress(self, X, y, sample_weight)
        if sample_weight is not None:
            sample_weight = enter_mass(sample_weight, X)
        posing = posing_of(self, "classification" if classification else "regression")
        posed = posing.on(X, y, sample_weight)
        self._survey(posed, len(y))
        if self.cv is None:
            few = X, y, sample_weight
            if home is not None:
                from atklearn.selection.few_tensor_rows import few_tensor_rows

                few = few_tensor_rows(*few, AUTO_ROWS, has_labels=classification)
            self._run_default(posing, *few, progress)
        else:
            ks, Cs, options = self._given_ks(), self._Cs_of(self._total), {"max_iter": self.max_iter}
            splits = list(
                check_cv(self.cv, on_host(y), classifier=classification).split(X, on_host(y), on_host(groups))
            )
            folds = [
                Fold(posing, None, None, None, split, ks, Cs, drop=self.drop_share_, **options) for split in splits
            ]
            test_to_train = float(np.mean([test.size / train.size for train, test in splits]))
            judge, criterion = self._judge()
            search = Search(folds, judge, criterion, ks, Cs, test_to_train)
            self._run(search, progress, shared=(X, y, sample_weight))
        self._refit(X, y, sample_weight)
        self._follow(home)
        progress.finish()
        return self

    def _forget(self) -> None:
        """Drop what an earlier fit has left."""
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)

    def _survey(self, posed: Posed, n_samples: int) -> None:
        """Set what is known of all samples before anything is chosen."""
        self._total = posed.targets.total
        self.n_samples_ = n_samples
        self.drop_share_ = resolve_drop(self.drop, self._total, self._total) / self._total
        self.calibration_bound_ = None
        if isinstance(self, ClassifierMixin):
            self.classes_ = posed.targets.classes
            self.calibration_bound_ = collapse_share(posed.problems)

    def _judge(self) -> tuple[Judge, Criterion]:
        """Return who scores the cells, and what is asked of the choice."""
        task: Task = "classification" if isinstance(self, ClassifierMixin) else "regression"
        criterion = Criterion.asked(task, self.scoring, self.tail, self.at_most, self.rule)
        classes = getattr(self, "classes_", None)
        template = self._template(k=1.0)
        return Judge.of(template, criterion.scoring, self.n_features_in_, classes, lend_coefficients), criterion

    def _run_default(self, posing: Posing, X: Any, y: Any, sample_weight: Any, progress: FitProgress) -> None:
        """Choose on the folds that the plain estimator takes with ``k="auto"``."""
        judge, criterion = self._judge()
        search = default_search(
            posing, X, y, sample_weight, judge, criterion, ks=int(self.ks) if self._counts_ks() else self._given_ks(),
            Cs_of=self._Cs_of, default_C=self._default_C, drop=self.drop_share_, max_iter=self.max_iter,
            random_state=self.random_state,
        )  # fmt: skip
        scale = 1.0
        if isinstance(self.Cs, Integral):  # its C are those of some samples, in proportion to their mass
            scale = self._default_C(self._total) / float(search.values[search.fallback])
        self._run(search, progress, scale=scale)

    def _run(self, search: Search, progress: FitProgress, shared: tuple[Any, ...] = (), scale: float = 1.0) -> None:
        """Score the grid on all folds, and choose.

        Parameters
        ----------
        search : Search
        progress : FitProgress
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
        try:
            search.run(n_jobs, shared, passed)
        finally:  # an interrupt leaves the cells that were finished
            self.cv_results_ = cv_results(search.cells[..., 0], self.ks_, self.Cs_)
        selection = search.selection()
        self.selection_ = selection.scaled_to(selection.value * scale)
        i, j = selection.chosen
        self.k_share_, self.C_ = self.selection_.k, self.selection_.value
        self.k_ = self.k_share_ * self._total
        self.best_index_ = i * self.Cs_.size + j
        self.best_params_ = {"k": self.k_share_, "C": self.C_}
        self.best_score_ = selection.score

    def _refit(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Fit the choice on all samples, if that is wanted."""
        if self.refit:
            self.best_estimator_ = self._template(k=self.k_share_, C=self.C_, tol=self.tol).fit(X, y, sample_weight)
            for name in ("coef_", "intercept_", "threshold_", "dual_gap_", "objective_", "n_iter_"):
                setattr(self, name, getattr(self.best_estimator_, name))

    def _template(self, **options: Any) -> LinearATk:
        """Return the plain estimator with the parameters that both have, and the given ones."""
        shared = set(self._plain().get_params()) & set(self.get_params()) - {"scoring", "tail", "at_most", "verbose"}
        return self._plain(**{name: getattr(self, name) for name in shared} | options)

    def _counts_ks(self) -> bool:
        return isinstance(self.ks, Integral)

    def _given_ks(self) -> Array:
        """Return the grid of k as shares, ascending."""
        if self._counts_ks():
            return default_ks_above(self.drop_share_, int(self.ks), self.calibration_bound_)
        ks = np.unique([resolve_k(k, self._total) / self._total for k in self.ks])
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
        """Call the final fit on checked features."""
        check_is_fitted(self, "best_estimator_")
        if same_home(self.coef_, X, f"{type(self).__name__}.{method}()") is None:
            X = check_features(self, X)
        return getattr(self.best_estimator_, method)(X)
