"""What the cross-validated estimators share: the grids, the folds, the scores, the choice, the final fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.model_selection import check_cv
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from atklearn.chunked.chunked_folds import ChunkedFold, fold_parts
from atklearn.chunked.encoded_chunks import EncodedChunks
from atklearn.core.collapse import collapse_share
from atklearn.estimators.callbacks import CallbackSupportMixin, FitProgress
from atklearn.estimators.fitting import encoder_of, keeping_fitted_state
from atklearn.estimators.following import FollowsX, chunks_of, training_data
from atklearn.estimators.jobs import map_jobs
from atklearn.estimators.judging import Judge, make_judge
from atklearn.estimators.linear_base import LinearATk, fit_encoded
from atklearn.losses.aggregate import resolve_drop, resolve_k
from atklearn.losses.individual import Array, IndividualLoss
from atklearn.losses.messages import shown
from atklearn.problems.device_room import saying_what_fits
from atklearn.problems.encoding import Encoded, Problems
from atklearn.problems.namespaces import home_of, is_tensor, on_host, same_home
from atklearn.selection.choosing import choose_best, choose_within_error, default_Cs, default_folds, default_ks_above
from atklearn.selection.folds import FilledFold, Fold, Split, cv_results

__all__ = ["LinearATkCV"]


class LinearATkCV(CallbackSupportMixin, FollowsX):
    """Base of the two estimators: grids, folds, scores, choice, final fit."""

    _plain: ClassVar[type[LinearATk]]

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "loss": [str, IndividualLoss],
        "ks": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "Cs": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "drop": [Real],
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
        self._make_grids(data.problems())
        if data.classes is not None:
            self.classes_ = data.classes
        self.n_samples_ = data.n_samples
        checkpoint = None
        folds: list[FilledFold]
        if isinstance(data, EncodedChunks):
            grids = {"ks_used": self.ks_, "Cs_used": self.Cs_}
            checkpoint = data.opened_checkpoint(self.get_params(deep=False), **grids)
            parts = fold_parts(data.n_samples, self.cv, groups, self.n_jobs, self.random_state)
            folds = [
                ChunkedFold(data, part, number, self.ks_, self.Cs_, self.max_iter, checkpoint)
                for number, part in enumerate(parts)
            ]
            test_to_train = 1.0 / (parts[0].n_folds - 1)
        else:
            splits = self._splits(data.X, on_host(data.labels), on_host(groups))
            options = {"max_iter": self.max_iter, "drop": self.drop_share_}
            bare = replace(data, X=None, y=None, weight=None)
            folds = [Fold(bare, split, self.ks_, self.Cs_, **options) for split in splits]
            test_to_train = float(np.mean([test.size / train.size for train, test in splits]))
        scores = np.full((len(folds), self.ks_.size, self.Cs_.size), np.nan)
        self._fill(scores, folds, progress, data)
        self.cv_results_ = cv_results(scores, self.ks_, self.Cs_)
        self._choose(scores, test_to_train, data.total)
        self._refit(data)
        if checkpoint is not None:
            checkpoint.done()

    def _forget(self) -> None:
        """Drop what an earlier fit has left."""
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)

    def _refit(self, data: Encoded | EncodedChunks) -> None:
        """Fit the choice on all samples, if that is wanted."""
        if not self.refit:
            return
        if isinstance(data, EncodedChunks) and data.checkpoint is not None:
            data = replace(data, checkpoint=f"{data.checkpoint}.fit")  # beside that of the search
        best = fit_encoded(self._template(k=self.k_share_, C=self.C_, tol=self.tol), data, like=self)
        self.best_estimator_ = best
        self.coef_, self.intercept_ = best.coef_, best.intercept_
        self.threshold_, self.objective_, self.dual_gap_ = best.threshold_, best.objective_, best.dual_gap_
        self.n_iter_ = best.n_iter_

    def _template(self, **options: Any) -> LinearATk:
        """Return the plain estimator with the parameters that both have, and the given ones."""
        shared = set(self._plain().get_params()) & set(self.get_params()) - {"scoring", "verbose"}
        return self._plain(**{name: getattr(self, name) for name in shared} | options)

    def _make_grids(self, problems: Problems) -> None:
        """Set the calibration bound and the grids, k as shares and both ascending."""
        total = problems.total
        bound = None if problems.classes is None else collapse_share(problems.problems)
        self.calibration_bound_ = bound
        self.drop_share_ = resolve_drop(self.drop, total, total) / total
        if isinstance(self.ks, Integral):
            self.ks_ = default_ks_above(self.drop_share_, int(self.ks), bound)
        else:
            self.ks_ = np.unique([resolve_k(k, total) / total for k in self.ks])
        self.Cs_ = default_Cs(int(self.Cs)) if isinstance(self.Cs, Integral) else np.unique(self.Cs).astype(float)
        if self.ks_.size == 0 or self.Cs_.size == 0 or self.Cs_[0] <= 0.0:
            raise ValueError(
                f"ks and Cs are expected to be numbers of grid points or non-empty grids with every C > 0, got "
                f"ks={shown(self.ks)}, Cs={shown(self.Cs)}."
            )

    def _splits(self, X: Any, y: Any, groups: Any) -> list[Split]:
        """Return the folds as a list, so that all cells see the same."""
        classification = isinstance(self, ClassifierMixin)
        if self.cv is not None:
            return list(check_cv(self.cv, y, classifier=classification).split(X, y, groups))
        splitter = default_folds(y, classification=classification, random_state=self.random_state)
        return list(splitter.split(X, y))

    def _fill(
        self, scores: Array, folds: Sequence[FilledFold], progress: FitProgress, data: Encoded | EncodedChunks
    ) -> None:  # fmt: skip
        """Fill in the scores fold by fold, in this process cell by cell."""
        judge = make_judge(self._template(k=1.0), self.scoring, self.n_features_in_, getattr(self, "classes_", None))
        work = list(zip(folds, scores, strict=True))
        # every operation on tensors takes the whole device, and those of a GPU cannot be sent to another process;
        # every fit on chunks has all the workers
        in_turn = isinstance(data, EncodedChunks) or is_tensor(data.X)
        shared = () if isinstance(data, EncodedChunks) else (data.X, data.y, data.weight)
        n_jobs = 1 if in_turn else self.n_jobs
        for fold, filled in enumerate(map_jobs(partial(_fill_fold, judge), work, n_jobs, shared=shared)):
            scores[fold] = filled
            if self.verbose:
                print(f"fold {fold + 1} of {len(folds)}: {filled.size} fits, best score {filled.max():.4g}", flush=True)
            if progress.passed("fold"):
                break

    def _choose(self, scores: Array, test_to_train: float, total: float) -> None:
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
            i, j = choose_within_error(complete, test_to_train)
        self.k_share_, self.C_ = float(self.ks_[i]), float(self.Cs_[j])
        self.k_ = self.k_share_ * total
        self.best_index_ = i * self.Cs_.size + j
        self.best_params_ = {"k": self.k_share_, "C": self.C_}
        self.best_score_ = float(complete[:, i, j].mean())

    def _delegate(self, method: str, X: Any) -> Any:
        """Call the final fit, which knows the features by their names."""
        check_is_fitted(self, "best_estimator_")
        if chunks_of(X) is None:
            same_home(self.coef_, X, f"{type(self).__name__}.{method}()")
        return getattr(self.best_estimator_, method)(X)


def _fill_fold(judge: Judge, work: tuple[FilledFold, Array], *shared: Any) -> Array:
    """Write the scores of a fold where they belong, in this process, and return them for where another one is asked."""
    fold, out = work
    return (fold.given(*shared) if isinstance(fold, Fold) else fold).fill(out, judge)
