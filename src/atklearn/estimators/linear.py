"""The linear estimators: validate, encode, choose, solve, publish."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral, Real
from typing import ClassVar, Self

import numpy as np
from sklearn.base import _fit_context, clone
from sklearn.utils._param_validation import Interval, StrOptions

from atklearn.chunked.checkpoint import Checkpoint
from atklearn.chunked.chunks import EncodedChunks
from atklearn.core.collapse import collapse_limit, warn_of_collapse
from atklearn.core.problem import Progress, Solution
from atklearn.core.solve import solve_linear
from atklearn.encoding.encoded import Encoded, Problems, plain
from atklearn.estimators.documentation import CLASSES, NUMBERS, documented
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
    warn_of_classes_aside,
    warn_unless_converged,
)
from atklearn.losses.aggregate import resolve_trim, warn_of_one_row
from atklearn.losses.individual import Array, IndividualLoss, Task
from atklearn.runtime.namespaces import home_of, is_tensor, saying_what_fits
from atklearn.selection.choosing import AUTO_ROWS, N_CS, Criterion, Selection, default_Cs, default_search
from atklearn.selection.distribution import few_tensor_rows
from atklearn.selection.folds import Judge, lend_coefficients
from atklearn.trimmed.solve import solve_trimmed

__all__ = [
    "ASKED",
    "CLASS_WEIGHT",
    "ATkClassifier",
    "ATkRegressor",
    "LinearATk",
    "default_C",
    "few_samples",
    "fit_encoded",
]

# Of the parameters that the plain estimators share with those that search.
ASKED: Constraints = {
    "loss": [str, IndividualLoss],
    "trim": [Real],
    "scoring": [str, callable, None],
    "tail": [Interval(Real, 0.0, 1.0, closed="right"), None],
    "at_most": [Interval(Real, 0.0, None, closed="both"), None],
    "fit_intercept": ["boolean"],
    "penalize_intercept": ["boolean"],
    "tol": [Interval(Real, 0.0, None, closed="neither")],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "verbose": ["verbose"],
}
CLASS_WEIGHT: Constraints = {"class_weight": [StrOptions({"balanced"}), dict, None]}
# The objective, relative to the loss at zero, that is as good as none: where one class alone has weight there is no
# best intercept, and the larger it is, the better.
_NOTHING = 1e-12


class LinearATk(CallbackSupportMixin, FollowsX):
    """Base of the linear estimators."""

    _task: ClassVar[Task]
    _C_per_sample: ClassVar[float]  # the penalty of scikit-learn's best known model, its C or alpha being 1
    selection_: Selection
    _parameter_constraints: ClassVar[Constraints] = ASKED | {
        "k": [Real, StrOptions({"auto", "max"})],
        "n_init": [Interval(Integral, 0, None, closed="left")],
        "C": [Interval(Real, 0.0, None, closed="neither"), None],
        "warm_start": ["boolean"],
    }

    @published_at_once
    @_fit_context(prefer_skip_nested_validation=True)
    @saying_what_fits
    def fit(self, X: AsIs, y: AsIs, sample_weight: AsIs = None) -> Self:
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
        with training_data(self, self._encoder(self._task), X, y, sample_weight) as data:
            progress = FitProgress(self, X, y, sample_weight)
            self._fit(data, progress)
            self._follow(home_of(X))
            progress.finish()
        return self

    def _fit(self, data: Encoded | EncodedChunks, progress: FitProgress) -> None:
        """Solve the problems on encoded data, and publish the solutions."""
        if self.k == "auto" and not self.trim:
            k, factor = self._auto_k(data)
        else:
            warn_of_one_row(self.k)
            k, factor = 1.0 if self.k == "auto" else self.k, 1.0
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
        reports = [progress.following(name) for name in problems.names]
        if self.trim_ > 0.0:
            problems, solutions = self._solve_range(problems, starts, reports)
        else:
            self.set_aside_ = np.zeros(0, dtype=np.intp)
            if isinstance(data, Encoded) and data.is_weighted and data.classes is not None:
                at_zero = problems.problems[0].loss.at_zero
                reports = [
                    _until_nothing_is_left(report, _NOTHING * at_zero) if _is_one_sided(values[data.kept]) else report
                    for report, values in zip(reports, data.values, strict=True)
                ]
            solutions = [
                solve_linear(problem, tol=self.tol, max_iter=self.max_iter, start=start, progress=report)
                for problem, start, report in zip(problems.problems, starts, reports, strict=True)
            ]
        if checkpoint is not None:
            checkpoint.done()
        self._publish(problems, solutions)
        if isinstance(data, EncodedChunks):
            self.n_passes_ = data.n_passes
        warn_unless_converged(solutions, problems.names, self.tol, self.C_)

    def _solve_range(
        self, problems: Problems, starts: list[Solution | None], reports: list[Progress | None]
    ) -> tuple[Problems, list[Solution]]:
        """Solve the problems of a range, the same rows set aside in all of them; return them as left in the end."""
        fit = solve_trimmed(
            problems.problems, self.trim_, tol=self.tol, max_iter=self.max_iter, starts=starts,
            n_init=self.n_init, progress=reports,
        )  # fmt: skip
        warn_of_classes_aside(fit.class_shares, problems.classes, self.trim)
        order = np.zeros(fit.outside.n_rows)  # of the rows set aside, from 1
        order[fit.ranked] = np.arange(1, fit.ranked.size + 1)
        order = problems.spread([order] * len(problems.problems))[:, 0]
        samples = np.flatnonzero(order)
        self.set_aside_ = samples[np.argsort(order[samples])]

        def spread(columns: Sequence[Array]) -> AsIs:
            return problems.spread([fit.outside.extend(column) for column in columns])

        return replace(problems, problems=fit.outside.problems, spread=spread), fit.solutions

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
        return [one or other for one, other in zip(checkpoint.starts(problems), starts, strict=True)]

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


def fit_encoded(estimator: LinearATk, data: Encoded | EncodedChunks, like: FollowsX) -> LinearATk:
    """Fit an estimator to data that another one has encoded, whose features it takes."""
    estimator.n_features_in_ = like.n_features_in_
    if hasattr(like, "feature_names_in_"):
        estimator.feature_names_in_ = like.feature_names_in_
    estimator._fit(data, FitProgress(estimator))
    return estimator


def _is_one_sided(values: AsIs) -> bool:
    return bool(values.min() == values.max())


def _until_nothing_is_left(report: Progress | None, enough: float) -> Progress:
    """Return what reports the progress of a solver, and stops it where the objective is as good as zero."""

    def stop(step: int, objective: float, gap: float) -> bool:
        return (report is not None and bool(report(step, objective, gap))) or objective <= enough

    return stop


def few_samples(data: Encoded | EncodedChunks) -> Encoded:
    """Return the samples that a choice looks at, on the host: of chunks and of tensors not all of many."""
    if isinstance(data, EncodedChunks):
        return data.few(AUTO_ROWS)
    if is_tensor(data.X):
        return few_tensor_rows(data, AUTO_ROWS)
    return data


@documented("linear", CLASSES)
@dataclass(eq=False, repr=False)
class ATkClassifier(LinearClassifierMixin, LinearATk):
    r"""Linear classifier that minimises the average of the k largest losses.

    .. math:: \min_{w, b} \; \mathrm{AT}_k\big(\ell(y_i (x_i \cdot w + b))\big) + \frac{\lVert w \rVert^2}{2 C}

    ``k`` spans the maximum loss (k = 1) and the average loss (k = 1.0, that is k = n). In between, samples that are
    classified well enough to leave the top k no longer count, and rare, hard groups are not sacrificed to easy ones.
    The solver is exact: ``dual_gap_`` certifies how far ``objective_`` can be from the optimum. With more than
    two classes, one classifier is fitted per class against the rest.

    Parameters
    ----------
    loss : {"log_loss", "hinge", "squared_hinge"} or IndividualLoss, default="log_loss"
        The individual loss. Only "log_loss" offers ``predict_proba``; with "hinge", k acts as another C would.
    k, trim
    C : float or None, default=None
        Inverse regularisation strength, relative to the mean of the top k (scikit-learn's C, relative to the sum of
        losses, equals ours divided by n). None is n, the weight of all samples: the penalty of
        :class:`sklearn.linear_model.LogisticRegression` as it comes, which k = 1.0 then is. ``k="auto"`` chooses among
        a thousandth of that, that, and ten times that.
    scoring, tail, at_most, fit_intercept, penalize_intercept, class_weight, tol, max_iter, n_init, warm_start
    verbose

    Attributes
    ----------
    coef_, intercept_, classes_, loss_threshold_, top_weights_, dual_gap_, objective_, n_iter_, k_, k_share_, C_
    n_passes_, selection_, set_aside_, trim_, n_features_in_, feature_names_in_

    See Also
    --------
    ATkClassifierCV : Chooses k and C by cross-validation.
    ATkSVC : The same with a kernel.
    SGDATkClassifier : Learns from a stream.

    Notes
    -----
    Training on the tail is not probability calibration: for k < n, ``predict_proba`` is the logistic function of a
    score that was fitted to the hardest samples only. Use :class:`sklearn.calibration.CalibratedClassifierCV` where
    probabilities matter.

    With ``trim``, an exact fit on the samples that are left takes turns with setting the largest losses aside, until
    these no longer change. The objective falls all the way, to a local minimum: ``objective_`` is its true value, but
    ``dual_gap_`` is that of the last convex problem, on the samples that are left.
    With several classes the same samples are set aside for all, those with the largest sum of losses above the
    thresholds; at least a tenth of every class stays.

    References
    ----------
    Fan, Lyu, Ying, Hu. Learning with Average Top-k Loss. NeurIPS 2017.

    Hu, Ying, Wang, Lyu. Learning by Minimizing the Sum of Ranked Range. NeurIPS 2020.

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
    _C_per_sample = 1.0
    _parameter_constraints: ClassVar[Constraints] = LinearATk._parameter_constraints | CLASS_WEIGHT

    loss: str | IndividualLoss = "log_loss"
    _: KW_ONLY
    k: float | str = "auto"
    trim: float = 0
    C: float | None = None
    scoring: str | Callable[..., float] | None = None
    tail: float | None = None
    at_most: float | None = None
    fit_intercept: bool = True
    penalize_intercept: bool = False
    class_weight: ClassWeight = None
    tol: float = 1e-6
    max_iter: int = 1000
    n_init: int = 50
    warm_start: bool = False
    verbose: int = 0

    def _publish(self, problems: Problems, solutions: list[Solution]) -> None:
        self.classes_ = problems.classes
        super()._publish(problems, solutions)
        limits = [
            self.trim_ + collapse_limit(problem)
            for problem, solution in zip(problems.problems, solutions, strict=True)
            if not solution.beats(problem.rows.loss_at_zero)
        ]
        if limits:
            warn_of_collapse(self.k, self.k_, limits, problems.total, len(solutions), "linear model")


@documented("linear", NUMBERS)
@dataclass(eq=False, repr=False)
class ATkRegressor(ScoredRegressorMixin, LinearATk):
    r"""Linear regressor that minimises the average of the k largest losses.

    .. math:: \min_{w, b} \; \mathrm{AT}_k\big(\ell(x_i \cdot w + b, y_i)\big) + \frac{\lVert w \rVert^2}{2 C}

    ``k`` spans the maximum loss (k = 1, Chebyshev regression) and the average loss (k = 1.0: ridge regression for the
    squared error). With the absolute error it is nu-support vector regression. The solver is exact: ``dual_gap_``
    certifies how far ``objective_`` can be from the optimum.

    Parameters
    ----------
    loss : {"squared_error", "absolute_error", "huber"} or IndividualLoss, default="squared_error"
        The individual loss; ``atklearn.Huber(delta)`` sets the size of error where Huber turns linear.
    k, trim
    C : float or None, default=None
        Inverse regularisation strength, relative to the mean of the top k. None is n / 2, n being the weight of all
        samples: the penalty of :class:`sklearn.linear_model.Ridge` as it comes, which k = 1.0 then is. ``k="auto"``
        chooses among a thousandth of that, that, and ten times that.
    scoring, tail, at_most, fit_intercept, penalize_intercept, tol, max_iter, n_init, warm_start, verbose

    Attributes
    ----------
    coef_, intercept_
    loss_threshold_ : float
        The k-th largest loss, the paper's lambda: half the width of the tube for the absolute error.
    top_weights_, dual_gap_, objective_, n_iter_, k_, k_share_, C_, n_passes_, selection_, set_aside_, trim_
    n_features_in_, feature_names_in_

    See Also
    --------
    ATkRegressorCV : Chooses k and C by cross-validation.
    ATkSVR : The same with a kernel.
    SGDATkRegressor : Learns from a stream.

    Notes
    -----
    With ``trim``, an exact fit on the samples that are left takes turns with setting the largest losses aside, until
    these no longer change. The objective falls all the way, to a local minimum: ``objective_`` is its true value, but
    ``dual_gap_`` is that of the last convex problem, on the samples that are left.

    References
    ----------
    Fan, Lyu, Ying, Hu. Learning with Average Top-k Loss. NeurIPS 2017.

    Hu, Ying, Wang, Lyu. Learning by Minimizing the Sum of Ranked Range. NeurIPS 2020.

    Examples
    --------
    >>> from atklearn import ATkRegressor
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = ATkRegressor("absolute_error", k=0.2).fit(scale(X), y)
    >>> bool(abs(y - model.predict(scale(X))).max() > model.loss_threshold_ > 0)
    True
    """

    _task = "regression"
    _C_per_sample = 0.5

    loss: str | IndividualLoss = "squared_error"
    _: KW_ONLY
    k: float | str = "auto"
    trim: float = 0
    C: float | None = None
    scoring: str | Callable[..., float] | None = None
    tail: float | None = None
    at_most: float | None = None
    fit_intercept: bool = True
    penalize_intercept: bool = False
    tol: float = 1e-6
    max_iter: int = 1000
    n_init: int = 50
    warm_start: bool = False
    verbose: int = 0

    def _publish(self, problems: Problems, solutions: list[Solution]) -> None:
        super()._publish(problems, solutions)
        self.coef_, self.intercept_ = self.coef_[0], self.intercept_[0]
