"""What the linear estimators share: parameters, statement of the problems, publication of their solutions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import _fit_context, clone
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions

from atklearn.estimators.callbacks import CallbackSupportMixin, FitProgress
from atklearn.estimators.fitting import keeping_fitted_state, posing_of, warn_of_classes_aside, warn_unless_converged
from atklearn.estimators.following import FollowsX
from atklearn.losses.aggregate import resolve_drop
from atklearn.losses.individual import Array, IndividualLoss, Task
from atklearn.problems.arrays import check_mass
from atklearn.problems.device_room import saying_what_fits
from atklearn.problems.entering import enter_training
from atklearn.problems.namespaces import home_of, is_tensor
from atklearn.problems.posing import Posed, Posing, published
from atklearn.problems.ranged import TargetsOutside
from atklearn.problems.solution import Solution
from atklearn.selection.choosing import AUTO_ROWS, N_CS, Criterion, Selection, default_Cs, default_search
from atklearn.selection.judging import Judge, lend_coefficients
from atklearn.solvers.exact.solve import solve_linear
from atklearn.solvers.ranked.alternation import refuse_other_solvers, solve_ranked
from atklearn.solvers.stochastic.sgd import SGD, refuse_stochastic, solve_sgd

__all__ = ["LinearATk", "default_C"]


class LinearATk(CallbackSupportMixin, FollowsX):
    """Base of the linear estimators."""

    _task: ClassVar[Task]
    _C_per_sample: ClassVar[float]  # the penalty of scikit-learn's best known model, its C or alpha being 1
    selection_: Selection
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "loss": [str, IndividualLoss],
        "k": [Real, StrOptions({"auto"})],
        "drop": [Real],
        "n_starts": [Interval(Integral, 0, None, closed="left")],
        "C": [Interval(Real, 0.0, None, closed="neither"), None],
        "scoring": [str, callable, None],
        "tail": [Interval(Real, 0.0, 1.0, closed="right"), None],
        "at_most": [Interval(Real, 0.0, None, closed="both"), None],
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
        tags.array_api_support = self.solver == "exact"
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    @saying_what_fits
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix, tensor} of shape (n_samples, n_features)
            A tensor of PyTorch is computed where it lies, and what is fitted follows it: see :meth:`to_numpy`.
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Weight 2 is the same as the sample twice; weight 0 is the same as without it.

        Returns
        -------
        self : estimator
        """
        with keeping_fitted_state(self):
            home = home_of(X)
            refuse_stochastic(self.solver, home)
            X, y = enter_training(self, X, y, y_numeric=self._task == "regression")
            progress = FitProgress(self, X, y, sample_weight)
            posing = posing_of(self, self._task)
            k, factor = self._auto_k(posing, X, y, sample_weight) if self._chooses_k() else self._given_k()
            posed = posing.on(X, y, sample_weight, k=k, on_the_host=bool(self.drop))
            posed, solutions = self._solve(posed, factor, progress)
            self._publish(posed, solutions)
            self._follow(home)
            warn_unless_converged(solutions, posed.targets.names, self.tol, self.C_)
            progress.finish()
        return self

    def _solve(self, posed: Posed, factor: float, progress: FitProgress) -> tuple[Posed, list[Solution]]:
        """Solve the problems with a multiple of the default C, or the given one; return them as solved."""
        self.C_ = factor * self._default_C(posed.targets.total)
        if hasattr(self, "selection_"):
            self.selection_ = self.selection_.scaled_to(self.C_)
        posed = posed.at(posed.k, self.C_)
        self.k_ = posed.k
        self.drop_ = resolve_drop(self.drop, posed.k, posed.targets.total)
        if self.drop_ > 0.0:
            return self._solve_range(posed, progress)
        self.set_aside_ = np.zeros(0, dtype=np.intp)
        solve = _solver(self.solver)
        solutions = [
            solve(problem, tol=self.tol, max_iter=self.max_iter, start=start, progress=progress.following(name))
            for problem, start, name in zip(posed.problems, self._starts(posed), posed.targets.names, strict=True)
        ]
        return posed, solutions

    def _solve_range(self, posed: Posed, progress: FitProgress) -> tuple[Posed, list[Solution]]:
        """Solve the problems of a range, the same rows set aside in all of them; return them as left in the end."""
        refuse_other_solvers(self.solver, self.drop)
        names = posed.targets.names
        fit = solve_ranked(
            posed.problems, self.drop_, tol=self.tol, max_iter=self.max_iter, starts=self._starts(posed),
            n_starts=self.n_starts, progress=[progress.following(name) for name in names],
        )  # fmt: skip
        warn_of_classes_aside(fit.class_shares, posed.targets.classes, self.drop)
        targets = TargetsOutside(posed.targets, fit.outside)
        self.set_aside_ = targets.places_of(fit.ranked)
        return Posed(targets, fit.outside.problems), fit.solutions

    def _chooses_k(self) -> bool:
        """Say whether there is a k to choose."""
        return self.k == "auto" and not self.drop

    def _given_k(self) -> tuple[float, float]:
        """Return k as it is given, and the default C as a multiple of itself; nothing was chosen."""
        if hasattr(self, "selection_"):
            del self.selection_
        return 1.0 if self.k == "auto" else self.k, 1.0

    def _default_C(self, total: float) -> float:
        """Return C as it is given, or the default for samples of some total mass."""
        return default_C(type(self), total) if self.C is None else float(self.C)

    def _Cs_of(self, total: float) -> Array:
        """Return the C to choose among, ascending, for samples of some total mass."""
        return default_Cs(N_CS if self.C is None else 1, self._default_C(total))

    def _auto_k(self, posing: Posing, X: Any, y: Any, sample_weight: Any) -> tuple[float, float]:
        """Return the share k/n that cross-validation chooses, and C as a multiple of the default."""
        if is_tensor(X):
            from atklearn.selection.few_tensor_rows import few_tensor_rows

            X, y, sample_weight = few_tensor_rows(X, y, sample_weight, AUTO_ROWS, has_labels=posing.is_classification)
        criterion = Criterion.asked(self._task, self.scoring, self.tail, self.at_most)
        classes = None
        if posing.is_classification:
            classes = np.unique(y if sample_weight is None else y[check_mass(sample_weight, y.size) > 0.0])
        judge = Judge.of(clone(self), criterion.scoring, X.shape[1], classes, lend_coefficients)
        search = default_search(
            posing, X, y, sample_weight, judge, criterion, Cs_of=self._Cs_of, default_C=self._default_C
        )
        search.run()
        self.selection_ = search.selection()
        return self.selection_.k, self.selection_.value / float(search.values[search.fallback])

    def _starts(self, posed: Posed) -> list[Solution | None]:
        """Return the previous solutions where a warm start is asked for and they fit."""
        previous: list[Solution] = getattr(self, "_solutions", []) if self.warm_start else []
        if len(previous) != len(posed.problems):
            return [None] * len(posed.problems)
        return [problem.starting_from(solution) for problem, solution in zip(posed.problems, previous, strict=True)]

    def _publish(self, posed: Posed, solutions: list[Solution]) -> None:
        """Set the fitted attributes."""
        self.coef_, self.intercept_ = posed.coefficients(solutions)
        for name, value in published(posed.targets, posed.problems, solutions, self.k_).items():
            setattr(self, name, value)
        if self.warm_start:
            self._solutions = solutions


def default_C(kind: type[LinearATk], total: float) -> float:
    """Return the C that a kind of estimator takes for samples of some total mass, unless one is given."""
    return kind._C_per_sample * total


def _solver(solver: str | SGD) -> Callable[..., Solution]:
    """Return the function that solves a problem the way asked for."""
    if isinstance(solver, SGD):
        return partial(solve_sgd, settings=solver)
    return solve_linear if solver == "exact" else solve_sgd
