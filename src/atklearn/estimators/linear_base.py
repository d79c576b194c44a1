"""What the linear estimators share: parameters, the fit from encoded data to publication of their solutions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import _fit_context, clone
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions

from atklearn.chunked.checkpoint import Checkpoint
from atklearn.chunked.encoded_chunks import EncodedChunks, starts_of
from atklearn.core.problem import Solution
from atklearn.core.solve import solve_linear
from atklearn.encoding.encoded import Encoded, Problems, plain
from atklearn.estimators.callbacks import CallbackSupportMixin, FitProgress
from atklearn.estimators.fitting import encoder_of, keeping_fitted_state, warn_of_classes_aside, warn_unless_converged
from atklearn.estimators.following import FollowsX, training_data
from atklearn.losses.aggregate import resolve_trim, warn_of_one_row
from atklearn.losses.individual import Array, IndividualLoss, Task
from atklearn.ranked.alternation import solve_ranked
from atklearn.runtime.namespaces import home_of, is_tensor, saying_what_fits
from atklearn.selection.choosing import AUTO_ROWS, N_CS, Criterion, Selection, default_Cs, default_search
from atklearn.selection.judging import Judge, lend_coefficients

__all__ = ["LinearATk", "default_C", "few_samples", "fit_encoded"]


class LinearATk(CallbackSupportMixin, FollowsX):
    """Base of the linear estimators."""

    _task: ClassVar[Task]
    _C_per_sample: ClassVar[float]  # the penalty of scikit-learn's best known model, its C or alpha being 1
    selection_: Selection
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "loss": [str, IndividualLoss],
        "k": [Real, StrOptions({"auto", "max"})],
        "trim": [Real],
        "n_init": [Interval(Integral, 0, None, closed="left")],
        "C": [Interval(Real, 0.0, None, closed="neither"), None],
        "scoring": [str, callable, None],
        "tail": [Interval(Real, 0.0, 1.0, closed="right"), None],
        "at_most": [Interval(Real, 0.0, None, closed="both"), None],
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

    @_fit_context(prefer_skip_nested_validation=True)
    @saying_what_fits
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix, tensor, Dask collection, Chunks} of shape (n_samples, n_features)
            A tensor of PyTorch is computed where it lies, and what is fitted follows it: see :meth:`to_numpy`. A Dask
            array or dataframe is asked chunk by chunk, and so are
            :class:`atklearn.ondisk.ArrayChunks`, which need not fit into memory, and
            :class:`atklearn.dask.DaskChunks`, which know their cluster.
        y : array-like of shape (n_samples,)
            Of Dask collections cut as X is, or with known sizes of chunks; so are the weights.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight 2 is the same as the sample twice; weight 0 is the same as without it.

        Returns
        -------
        self : estimator
        """
        encoder = encoder_of(self, self._task)
        with keeping_fitted_state(self), training_data(self, encoder, X, y, sample_weight) as data:
            progress = FitProgress(self, X, y, sample_weight)
            self._fit(data, progress)
            self._follow(home_of(X))
            progress.finish()
        return self

    def _fit(self, data: Encoded | EncodedChunks, progress: FitProgress) -> None:
        """Solve the problems on encoded data, and publish the solutions."""
        k, factor = self._auto_k(data) if self._chooses_k() else self._given_k()
        self.C_ = factor * self._default_C(data.total)
        if hasattr(self, "selection_"):
            self.selection_ = self.selection_.scaled_to(self.C_)
        checkpoint = None
        if isinstance(data, EncodedChunks):
            problems = data.problems(k=k, C=self.C_)
            checkpoint = data.opened_checkpoint(self.get_params(deep=False), k_used=problems.k)
            progress.watch(data, checkpoint)
        else:
            problems = data.problems(k=k, C=self.C_, on_the_host=bool(self.trim))
        self.k_ = problems.k
        self.trim_ = resolve_trim(self.trim, problems.k, problems.total)
        starts = self._starts(problems, checkpoint)
        if self.trim_ > 0.0:
            problems, solutions = self._solve_range(problems, starts, progress)
        else:
            self.set_aside_ = np.zeros(0, dtype=np.intp)
            solutions = [
                solve_linear(
                    problem, tol=self.tol, max_iter=self.max_iter, start=start, progress=progress.following(name)
                )
                for problem, start, name in zip(problems.problems, starts, problems.names, strict=True)
            ]
        if checkpoint is not None:
            checkpoint.done()
        self._publish(problems, solutions)
        if isinstance(data, EncodedChunks):
            self.n_passes_ = data.n_passes
        elif hasattr(self, "n_passes_"):
            del self.n_passes_
        warn_unless_converged(solutions, problems.names, self.tol, self.C_)

    def _solve_range(
        self, problems: Problems, starts: list[Solution | None], progress: FitProgress
    ) -> tuple[Problems, list[Solution]]:
        """Solve the problems of a range, the same rows set aside in all of them; return them as left in the end."""
        fit = solve_ranked(
            problems.problems, self.trim_, tol=self.tol, max_iter=self.max_iter, starts=starts,
            n_init=self.n_init, progress=[progress.following(name) for name in problems.names],
        )  # fmt: skip
        warn_of_classes_aside(fit.class_shares, problems.classes, self.trim)
        order = np.zeros(fit.outside.n_rows)  # of the rows set aside, from 1
        order[fit.ranked] = np.arange(1, fit.ranked.size + 1)
        order = problems.spread([order] * len(problems.problems))[:, 0]
        samples = np.flatnonzero(order)
        self.set_aside_ = samples[np.argsort(order[samples])]

        def spread(columns: Sequence[Any]) -> Any:
            return problems.spread([fit.outside.extend(column) for column in columns])

        return replace(problems, problems=fit.outside.problems, spread=spread), fit.solutions

    def _chooses_k(self) -> bool:
        """Say whether there is a k to choose."""
        return self.k == "auto" and not self.trim

    def _given_k(self) -> tuple[float, float]:
        """Return k as it is given, and the default C as a multiple of itself; nothing was chosen."""
        if hasattr(self, "selection_"):
            del self.selection_
        warn_of_one_row(self.k)
        return 1.0 if self.k == "auto" else self.k, 1.0

    def _default_C(self, total: float) -> float:
        """Return C as it is given, or the default for samples of some total mass."""
        return default_C(type(self), total) if self.C is None else float(self.C)

    def _Cs_of(self, total: float) -> Array:
        """Return the C to choose among, ascending, for samples of some total mass."""
        return default_Cs(N_CS if self.C is None else 1, self._default_C(total))

    def _auto_k(self, data: Encoded | EncodedChunks) -> tuple[float, float]:
        """Return the share k/n that cross-validation chooses, and C as a multiple of the default."""
        few = few_samples(data)
        criterion = Criterion.asked(self._task, self.scoring, self.tail, self.at_most)
        judge = Judge.of(clone(self), criterion.scoring, few.n_features, few.classes, lend_coefficients)
        search = default_search(few, judge, criterion, Cs_of=self._Cs_of, default_C=self._default_C)
        search.run()
        self.selection_ = search.selection()
        return self.selection_.k, self.selection_.value / float(search.values[search.fallback])

    def _starts(self, problems: Problems, checkpoint: Checkpoint | None) -> list[Solution | None]:
        """Return where the checkpoint has got to, or else the previous solutions where they are wanted and fit."""
        starts: list[Solution | None] = [None] * len(problems.problems)
        previous: list[Solution] = getattr(self, "_solutions", []) if self.warm_start else []
        if len(previous) == len(starts):
            pairs = zip(problems.problems, previous, strict=True)
            starts = [problem.starting_from(solution) for problem, solution in pairs]
        if checkpoint is None:
            return starts
        return [one or other for one, other in zip(starts_of(checkpoint, problems), starts, strict=True)]

    def _publish(self, problems: Problems, solutions: list[Solution]) -> None:
        """Set the fitted attributes, plain for one problem, else with an entry or column for each."""
        self.coef_, self.intercept_ = problems.coefficients(solutions)
        weights = problems.sample_weights(solutions)
        self.top_weights_ = weights[:, 0] if len(solutions) == 1 else weights
        self.loss_threshold_ = plain([solution.threshold for solution in solutions])
        self.dual_gap_ = plain([solution.dual_gap for solution in solutions])
        self.objective_ = plain([solution.objective for solution in solutions])
        self.n_iter_ = plain([solution.n_iter for solution in solutions])
        self.k_share_ = min(self.k_ / problems.total, 1.0)
        if self.warm_start:
            self._solutions = solutions


def default_C(kind: type[LinearATk], total: float) -> float:
    """Return the C that a kind of estimator takes for samples of some total mass, unless one is given."""
    return kind._C_per_sample * total


def few_samples(data: Encoded | EncodedChunks) -> Encoded:
    """Return the samples that a choice looks at, on the host: of chunks and of tensors not all of many."""
    if isinstance(data, EncodedChunks):
        return data.few(AUTO_ROWS)
    if is_tensor(data.X):
        from atklearn.selection.few_tensor_rows import few_tensor_rows

        return few_tensor_rows(data, AUTO_ROWS)
    return data


def fit_encoded(estimator: LinearATk, data: Encoded | EncodedChunks, like: Any) -> LinearATk:
    """Fit an estimator to data that another one has encoded, whose features it takes."""
    estimator.n_features_in_ = like.n_features_in_
    if hasattr(like, "feature_names_in_"):
        estimator.feature_names_in_ = like.feature_names_in_
    estimator._fit(data, FitProgress(estimator, None, None, None))
    return estimator
