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
from atklearn.estimators.callbacks import CallbackSupportMixin, FitProgress
from atklearn.estimators.fitting import encoder_of, keeping_fitted_state, warn_of_classes_aside, warn_unless_converged
from atklearn.estimators.following import FollowsX, training_data
from atklearn.estimators.judging import make_judge
from atklearn.losses.aggregate import resolve_drop
from atklearn.losses.individual import IndividualLoss, SquaredError, Task, resolve_individual_loss
from atklearn.problems.device_room import saying_what_fits
from atklearn.problems.encoding import Encoded, Problems, plain
from atklearn.problems.namespaces import home_of, is_tensor
from atklearn.selection.choosing import AUTO_ROWS, auto_k
from atklearn.solvers.ranked.alternation import solve_ranked

__all__ = ["LinearATk", "fit_encoded"]

# The default C, as multiples of scikit-learn's. One class against the rest may ask for a weaker penalty than the
# multinomial model, which shares it among the classes (docs/decisions/0015), so that k = "auto" tries another one.
_ONE_PROBLEM = (1.0,)
_MANY = (1.0, 10.0)


class LinearATk(CallbackSupportMixin, FollowsX):
    """Base of the linear estimators."""

    _task: ClassVar[Task]
    _C_per_sample: ClassVar[float]  # the penalty of scikit-learn's best known model, its C or alpha being 1
    _score_to_choose_by: ClassVar[str]
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "loss": [str, IndividualLoss],
        "k": [Real, StrOptions({"auto"})],
        "drop": [Real],
        "n_starts": [Interval(Integral, 0, None, closed="left")],
        "C": [Interval(Real, 0.0, None, closed="neither"), None],
        "scoring": [str, callable, None],
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
        k, which = self._auto_k(data) if self._chooses_k() else self._given_k()
        self.C_ = self._Cs_of(data.total, data.n_problems)[which]
        checkpoint = None
        if isinstance(data, EncodedChunks):
            problems = data.problems(k=k, C=self.C_)
            checkpoint = data.opened_checkpoint(self.get_params(deep=False), k_used=problems.k)
            progress.watch(data, checkpoint)
        else:
            problems = data.problems(k=k, C=self.C_, on_the_host=bool(self.drop))
        self.k_ = problems.k
        self.drop_ = resolve_drop(self.drop, problems.k, problems.total)
        starts = self._starts(problems, checkpoint)
        if self.drop_ > 0.0:
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
            problems.problems, self.drop_, tol=self.tol, max_iter=self.max_iter, starts=starts,
            n_starts=self.n_starts, progress=[progress.following(name) for name in problems.names],
        )  # fmt: skip
        warn_of_classes_aside(fit.class_shares, problems.classes, self.drop)
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
        # to be judged by the mean that it minimises leaves nothing to choose (docs/decisions/0015)
        by_its_own = self.scoring is None and isinstance(resolve_individual_loss(self.loss, self._task), SquaredError)
        return self.k == "auto" and not by_its_own and not self.drop

    def _given_k(self) -> tuple[float, int]:
        """Return k as it is given, and the first C."""
        return 1.0 if self.k == "auto" else self.k, 0

    def _Cs_of(self, total: float, n_problems: int) -> list[float]:
        """Return the C for samples of some total mass; where it may be chosen along with k, all there are to try."""
        if self.C is not None:
            return [float(self.C)]
        return [multiple * self._C_per_sample * total for multiple in (_ONE_PROBLEM if n_problems == 1 else _MANY)]

    def _auto_k(self, data: Encoded | EncodedChunks) -> tuple[float, int]:
        """Return the share k/n that cross-validation chooses, and which C."""
        if isinstance(data, EncodedChunks):
            few = data.few(AUTO_ROWS)
        elif is_tensor(data.X):
            from atklearn.selection.few_tensor_rows import few_tensor_rows

            few = few_tensor_rows(data, AUTO_ROWS)
        else:
            few = data
        scoring = self._score_to_choose_by if self.scoring is None else self.scoring
        judge = make_judge(clone(self), scoring, few.n_features, few.classes)
        return auto_k(few, lambda total: self._Cs_of(total, few.n_problems), judge)

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
        self.sample_weights_ = weights[:, 0] if len(solutions) == 1 else weights
        self.threshold_ = plain([solution.threshold for solution in solutions])
        self.dual_gap_ = plain([solution.dual_gap for solution in solutions])
        self.objective_ = plain([solution.objective for solution in solutions])
        self.n_iter_ = plain([solution.n_iter for solution in solutions])
        self.k_share_ = min(self.k_ / problems.total, 1.0)
        if self.warm_start:
            self._solutions = solutions


def fit_encoded(estimator: LinearATk, data: Encoded | EncodedChunks, like: Any) -> LinearATk:
    """Fit an estimator to data that another one has encoded, whose features it takes."""
    estimator.n_features_in_ = like.n_features_in_
    if hasattr(like, "feature_names_in_"):
        estimator.feature_names_in_ = like.feature_names_in_
    estimator._fit(data, FitProgress(estimator, None, None, None))
    return estimator
