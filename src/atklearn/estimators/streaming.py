"""Estimators that learn from streams: rows in blocks, one step of the paper's algorithm per row."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from numbers import Integral, Real
from typing import ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from atklearn.encoding.encoded import (
    Targets,
    check_mass,
    check_training,
    class_targets,
    intercept_kind,
    regression_targets,
)
from atklearn.estimators.documentation import CLASSES, NUMBERS, documented
from atklearn.estimators.linear import CLASS_WEIGHT
from atklearn.estimators.shared import (
    AsIs,
    ClassWeight,
    Constraints,
    LinearClassifierMixin,
    LinearRegressorMixin,
    published_at_once,
)
from atklearn.losses.aggregate import AverageTopK, resolve_k, warn_of_one_row
from atklearn.losses.individual import Array, IndividualLoss, Task, resolve_individual_loss
from atklearn.ondisk.array_chunks import read_rows
from atklearn.runtime.messages import shown, stack_level
from atklearn.stochastic.sgd import (
    AVERAGINGS,
    HEAD,
    LEARNING_RATES,
    SGD,
    Averaging,
    Descent,
    LearningRate,
    Plateau,
    RandomState,
    draw_seed,
)
from atklearn.stochastic.visits import MassClock, Rows, passes
from atklearn.stores.compiled import Places

__all__ = ["RowBlocks", "SGDATkClassifier", "SGDATkRegressor", "Stream", "StreamingATk"]


class RowBlocks:
    """Blocks of rows of arrays that lie in memory or in memory-mapped files; it can be read again and again.

    Each block is a copy, and the pages of a memory-mapped file are given back after it, so that reading costs the
    memory of one block.

    Parameters
    ----------
    *arrays : array-like or sparse matrix
        X, y and, if wanted, the sample weights: anything that can be sliced by rows.
    chunk_size : int, default=65536
        Rows per block.

    Examples
    --------
    >>> import numpy as np
    >>> from atklearn import RowBlocks, SGDATkRegressor
    >>> blocks = RowBlocks(np.arange(10.0).reshape(5, 2), np.arange(5.0), chunk_size=2)
    >>> [X.shape for X, y in blocks], [y.tolist() for X, y in blocks]
    ([(2, 2), (2, 2), (1, 2)], [[0.0, 1.0], [2.0, 3.0], [4.0]])
    >>> SGDATkRegressor(k=1.0, tol=None, max_iter=3, random_state=0).fit_blocks(blocks).t_  # three passes, five rows
    15
    """

    def __init__(self, *arrays: AsIs, chunk_size: int = 65_536) -> None:
        lengths = {array.shape[0] for array in arrays}
        if len(lengths) != 1 or chunk_size < 1:
            raise ValueError(
                "RowBlocks expects one or more arrays of equal length and chunk_size >= 1, got lengths "
                f"{sorted(lengths)} and chunk_size={shown(chunk_size)}."
            )
        self.arrays = arrays
        self.chunk_size = chunk_size

    def __iter__(self) -> Iterator[tuple[AsIs, ...]]:
        for begin in range(0, self.arrays[0].shape[0], self.chunk_size):
            yield tuple(read_rows(array, slice(begin, begin + self.chunk_size)) for array in self.arrays)


# A fall of the objective in the last pass, relative to it, that means there was more to gain.
_STEEP = 0.02


@dataclass
class Stream:
    """What a stream has taught so far: one descent per problem, and the first visits until there are enough."""

    descents: list[Descent] = field(default_factory=list)
    clock: MassClock = field(default_factory=MassClock)
    head: list[tuple[Rows, Array]] | None = field(default_factory=list)

    def learn(self, X: Rows, targets: Array, visits: Places, start: Callable[[Rows, Array], Descent]) -> float:
        """Make the visits for each problem (row of ``targets``); return the mean objective met on the way.

        The scale of the steps comes from the first ``HEAD`` visits. Until these have been made, each block starts the
        stream afresh on all of them, so that it does not matter where blocks end.
        """
        if visits.size == 0 and self.descents:
            return 0.0
        if self.head is not None:
            if visits.size == 0 and not self.head:
                raise ValueError(
                    "The first block of a stream is expected to weigh half a sample or more, got less; sample_weight "
                    "counts samples, so scale it to a mean of about 1."
                )
            self.head.append((X[visits], targets[:, visits]))
            X = _stack([rows for rows, _ in self.head])
            targets = np.hstack([part for _, part in self.head])
            visits = np.arange(X.shape[0])
            self.descents = [start(X[:HEAD], np.ascontiguousarray(target[:HEAD])) for target in targets]
            self.head = [(X, targets)] if X.shape[0] < HEAD else None
        costs = [descent.walk(X, target, visits) for descent, target in zip(self.descents, targets, strict=True)]
        return float(np.mean(costs))


def _stack(blocks: list[Rows]) -> Rows:
    """Put blocks of rows on top of each other."""
    if len(blocks) == 1:
        return blocks[0]
    return sp.vstack(blocks, format="csr") if any(map(sp.issparse, blocks)) else np.vstack(blocks)


class StreamingATk(BaseEstimator):
    """What the streaming estimators share: parameters, passes, publication."""

    _task: ClassVar[Task]
    classes_: AsIs
    _parameter_constraints: ClassVar[Constraints] = {
        "loss": [str, IndividualLoss],
        "k": [Real, StrOptions({"max"})],
        "C": [Interval(Real, 0.0, None, closed="neither")],
        "fit_intercept": ["boolean"],
        "penalize_intercept": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0.0, None, closed="left"), None],
        "shuffle": ["boolean"],
        "learning_rate": [StrOptions(set(LEARNING_RATES))],
        "eta0": [Interval(Real, 0.0, None, closed="neither"), StrOptions({"auto"})],
        "power_t": [Interval(Real, 0.0, 1.0, closed="both")],
        "average": [StrOptions(set(AVERAGINGS)), None],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0.0, 1.0, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @published_at_once
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: AsIs, y: AsIs, sample_weight: AsIs = None) -> Self:
        """Fit the model to arrays, from scratch.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Weight 2 is the same as the sample twice; weight 0 is the same as without it.

        Returns
        -------
        self : estimator
        """
        X, y = self._validate(X, y, first=True)
        self._fit_rows(X, self._targets(y, sample_weight), strata=y if self._task == "classification" else None)
        return self

    @abstractmethod
    def _targets(self, y: AsIs, sample_weight: AsIs) -> Targets:
        """Return what all y and the weights say."""

    @abstractmethod
    def _rows_of(self, X: AsIs, y: AsIs, sample_weight: AsIs = None, *, first: bool) -> tuple[Rows, Targets]:
        """Return the rows of a block and what their y and weights say."""

    def _validate(self, X: AsIs, y: AsIs, first: bool) -> tuple[Rows, AsIs]:
        """Return X as C-ordered array or CSR, and y, both checked."""
        return check_training(self, X, y, reset=first, y_numeric=self._task == "regression")

    def _descent(self, X: Rows, target: Array, fraction: float) -> Descent:
        """Start a descent at the scale of some rows."""
        kind = intercept_kind(self.fit_intercept, self.penalize_intercept)
        settings = SGD(self.learning_rate, self.eta0, self.power_t, self.shuffle, self.average)
        loss = resolve_individual_loss(self.loss, self._task)
        return Descent(X, target, loss, fraction, float(self.C), kind, settings)

    def _fraction(self, total: float | None) -> float:
        """Return k as a fraction of the total, which a stream does not know."""
        counts = isinstance(self.k, Integral) or self.k == "max"
        if total is None and counts:
            raise ValueError(
                'k as an int, or "max", counts samples, and a stream does not say how many there are: k is expected to '
                f"be a float in (0, 1], the fraction of samples in the top, got {shown(self.k)}."
            )
        warn_of_one_row(self.k)
        mass = resolve_k(self.k, 1.0 if total is None else total)
        return mass / total if counts and total is not None else float(self.k)

    def _fit_rows(self, X: Rows, targets: Targets, strata: AsIs) -> None:
        """Pass over the data as often as it takes, for each problem."""
        mass = targets.mass
        fraction, seed = self._fraction(targets.total), draw_seed(self.random_state)
        judged = np.zeros(mass.size, dtype=bool)
        if self.early_stopping:
            held_out = train_test_split(
                np.arange(mass.size), test_size=self.validation_fraction, stratify=strata, random_state=seed
            )[1]
            judged[held_out] = True
        stream, plans = Stream(head=None), []
        for target in targets.values:
            orders = passes(X, target, np.where(judged, 0.0, mass), self.shuffle, seed)
            visits = next(orders)
            descent = self._descent(X[visits[:HEAD]], target[visits[:HEAD]], fraction)
            plan = _Plan(self)
            while True:
                cost = descent.walk(X, target, visits)
                if self.early_stopping:
                    cost = _aggregate_loss(descent, X[judged], target[judged], mass[judged])
                if plan.is_finished_by(cost, [descent]):
                    break
                visits = next(orders)
            stream.descents.append(descent)
            plans.append(plan)
        curves = [plan.curve for plan in plans]
        self._publish(stream, max(len(curve) for curve in curves), X.dtype, targets.total)
        self.objective_curve_ = curves[0] if len(curves) == 1 else curves
        _warn_if_falling(plans)

    def _fit_blocks(self, blocks: Iterable[tuple[AsIs, ...]]) -> None:
        """Pass over blocks as often as it takes, or once if they can be read only once."""
        if self.early_stopping:
            raise ValueError(
                "early_stopping=True is expected with fit, which can hold a part of the rows out, got blocks; set "
                "early_stopping=False, and watch a held-out block of your own between calls of partial_fit if need be."
            )
        fraction, rng = self._fraction(None), np.random.default_rng(draw_seed(self.random_state))
        stream, plan = Stream(), _Plan(self)
        only_once = iter(blocks) is blocks
        while True:
            cost, n_visits = 0.0, 0
            for block in blocks:
                X, targets = self._rows_of(*block, first=not plan.curve and n_visits == 0)
                visits = stream.clock.visits(targets.mass)
                visits = rng.permutation(visits) if self.shuffle else visits
                cost += visits.size * stream.learn(X, targets.values, visits, partial(self._descent, fraction=fraction))
                n_visits += visits.size
            if n_visits == 0:
                raise ValueError("fit_blocks expects at least one block of rows, got none.")
            if plan.is_finished_by(cost / n_visits, stream.descents) or only_once:
                break
        self._publish(stream, len(plan.curve), X.dtype)
        self.objective_curve_ = plan.curve
        _warn_if_falling([plan])

    def _learn_block(self, X: Rows, targets: Targets) -> None:
        """Go on with the stream; what was learned before stays as it is if this fails."""
        stream = deepcopy(getattr(self, "_stream", None)) or Stream()
        start = partial(self._descent, fraction=self._fraction(None))
        stream.learn(X, targets.values, stream.clock.visits(targets.mass), start)
        self._publish(stream, 1, X.dtype)

    def _publish(self, stream: Stream, n_iter: int, dtype: np.dtype[np.floating], total: float | None = None) -> None:
        """Set the fitted attributes, one row or entry per problem, plain where there is one problem.

        Only the mass in the top of a known total has a value: a stream has none, and none of a former fit stays.
        """
        thresholds = [descent.threshold for descent in stream.descents]
        self.coef_ = np.array([descent.weights for descent in stream.descents]).astype(dtype)
        self.intercept_ = np.array([descent.intercept for descent in stream.descents]).astype(dtype)
        self.loss_threshold_ = thresholds[0] if len(thresholds) == 1 else np.array(thresholds)
        self.n_iter_ = n_iter
        self.t_ = stream.descents[0].n_visits
        self.k_share_ = float(stream.descents[0].rule.fraction)
        if total is not None:
            self.k_ = self.k_share_ * total
        elif hasattr(self, "k_"):
            del self.k_
        self._stream = stream


class _Plan:
    """When to stop, and when an adaptive descent shortens its step."""

    def __init__(self, estimator: StreamingATk) -> None:
        self.estimator = estimator
        self.plateau = Plateau(estimator.tol, estimator.n_iter_no_change)
        self.curve: list[float] = []
        self.is_cut_off = False

    def is_finished_by(self, cost: float, descents: list[Descent]) -> bool:
        """Take the value after one more pass of the descents."""
        self.curve.append(cost)
        if self.estimator.verbose:
            print(f"pass {len(self.curve)}: objective {cost:.6g}", flush=True)
        if self.plateau.reached(cost):
            self.plateau.waited = 0
            if self.estimator.learning_rate != "adaptive":
                return True
            shortened = [descent.shorten_step() for descent in descents]
            return not all(shortened)
        self.is_cut_off = len(self.curve) >= self.estimator.max_iter
        return self.is_cut_off

    @property
    def last_fall(self) -> float:
        """How much the objective fell in a last pass that was not meant to be the last, as part of what it was."""
        if not self.is_cut_off or len(self.curve) < 2 or self.plateau.tol is None:
            return 0.0
        return 1.0 - self.curve[-1] / self.curve[-2]


def _warn_if_falling(plans: list[_Plan]) -> None:
    """Say, once for all problems, where there was more to gain."""
    falling = [plan for plan in plans if plan.last_fall >= _STEEP]
    if not falling:
        return
    before, after = max(falling, key=lambda plan: plan.last_fall).curve[-2:]
    where = "" if len(plans) == 1 else f" for {len(falling)} of {len(plans)} classes,"
    warnings.warn(
        f"The objective still fell{where} from {before:.6g} to {after:.6g} in the last of {len(falling[0].curve)} "
        "passes: raise max_iter, standardise the features, or set eta0.",
        ConvergenceWarning,
        stacklevel=stack_level(),
    )


def _aggregate_loss(descent: Descent, X: Rows, target: Array, mass: Array) -> float:
    """Return the average top-k loss of the iterate on some rows."""
    losses = descent.loss(X @ descent.weights + descent.intercept, target)
    return AverageTopK(descent.rule.fraction).value(losses, mass)


@documented("stream", CLASSES)
@dataclass(eq=False, repr=False)
class SGDATkClassifier(LinearClassifierMixin, StreamingATk):
    r"""Linear classifier that minimises the average of the k largest losses by stochastic steps.

    .. math:: \min_{w, b} \; \mathrm{AT}_k\big(\ell(y_i (x_i \cdot w + b))\big) + \frac{\lVert w \rVert^2}{2 C}

    It learns the weights and the threshold lambda together, one sample at a time (Eq. 2 of the paper), from arrays by
    :meth:`fit`, from blocks of any origin by :meth:`fit_blocks`, or from whatever comes next by :meth:`partial_fit`.
    With more than two classes, one classifier is fitted per class against the rest. Where the data fit into memory,
    :class:`atklearn.ATkClassifier` is exact and often as fast.

    Parameters
    ----------
    loss : {"log_loss", "hinge", "squared_hinge"} or IndividualLoss, default="log_loss"
        The individual loss. Only "log_loss" offers ``predict_proba``. A loss of your own runs interpreted: the same
        steps, some hundred times slower.
    k, C, fit_intercept, penalize_intercept
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied with ``sample_weight``; "balanced" needs ``fit``, which sees all labels.
    max_iter, tol, shuffle, learning_rate, eta0, power_t, average, early_stopping, validation_fraction
    n_iter_no_change, random_state, verbose

    Attributes
    ----------
    coef_, intercept_, classes_, loss_threshold_, k_share_, k_, objective_curve_, n_iter_, t_, n_features_in_
    feature_names_in_

    See Also
    --------
    RowBlocks : Blocks of arrays in memory or in files, for :meth:`fit_blocks`.
    ATkClassifier : The exact fit, of data in memory.

    References
    ----------
    Fan, Lyu, Ying, Hu. Learning with Average Top-k Loss. NeurIPS 2017.

    Examples
    --------
    >>> from atklearn import SGDATkClassifier
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = SGDATkClassifier(k=0.5, random_state=0).fit(scale(X), y)
    >>> model.score(scale(X), y) > 0.97
    True
    >>> stream = SGDATkClassifier(k=0.5)
    >>> for begin in range(0, len(X), 100):
    ...     stream = stream.partial_fit(scale(X)[begin : begin + 100], y[begin : begin + 100], classes=[0, 1])
    >>> stream.t_
    569
    """

    _task = "classification"
    _parameter_constraints: ClassVar[Constraints] = StreamingATk._parameter_constraints | CLASS_WEIGHT

    loss: str | IndividualLoss = "log_loss"
    _: KW_ONLY
    k: float | str = 0.7
    C: float = 100.0
    fit_intercept: bool = True
    penalize_intercept: bool = False
    class_weight: ClassWeight = None
    max_iter: int = 20
    tol: float | None = 1e-3
    shuffle: bool = True
    learning_rate: LearningRate = "invscaling"
    eta0: float | Literal["auto"] = "auto"
    power_t: float = 0.5
    average: Averaging = "recent"
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 5
    random_state: RandomState = None
    verbose: int = 0

    @published_at_once
    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: AsIs, y: AsIs, classes: AsIs = None, sample_weight: AsIs = None) -> Self:
        """Go on learning from the next block of a stream, visiting its rows once, in their order.

        Any cut of the same stream into blocks gives the same model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), default=None
            All classes that can occur; needed in the first call only.
        sample_weight : array-like of shape (n_samples,), default=None
            In units of one sample: weight 2 is the same as the sample twice.

        Returns
        -------
        self : estimator
        """
        first = not hasattr(self, "_stream")
        if first or classes is not None:
            self._set_classes(classes, first)
        self._learn_block(*self._rows_of(X, y, sample_weight, first=first))
        return self

    @published_at_once
    @_fit_context(prefer_skip_nested_validation=True)
    def fit_blocks(self, blocks: Iterable[tuple[AsIs, ...]], classes: AsIs = None) -> Self:
        """Fit the model to data in blocks, from scratch.

        Parameters
        ----------
        blocks : iterable of (X, y) or (X, y, sample_weight)
            For example :class:`atklearn.RowBlocks`, or a generator over files. What can be iterated again is passed
            over up to ``max_iter`` times, a generator once. With ``shuffle``, the rows of each block are shuffled.
        classes : array-like of shape (n_classes,), default=None
            All classes that can occur.

        Returns
        -------
        self : estimator
        """
        self._set_classes(classes, first=True)
        self._fit_blocks(blocks)
        return self

    def _set_classes(self, classes: AsIs, first: bool) -> None:
        """Learn which classes there are, or check that they are still the same."""
        if classes is None:
            raise ValueError(
                "classes is expected to list all class labels before the first block of a stream, got None; pass, "
                "say, classes=np.unique(y)."
            )
        found = np.unique(classes)
        if not first and not np.array_equal(found, self.classes_):
            raise ValueError(f"classes is expected to stay {self.classes_} for the whole stream, got {found}.")
        if found.size < 2:
            raise ValueError(f"{type(self).__name__} expects at least 2 classes, got {found.size} class: {found}.")
        self.classes_ = found

    def _targets(self, y: AsIs, sample_weight: AsIs) -> Targets:
        targets = class_targets(y, sample_weight, self.class_weight, type(self).__name__)
        self.classes_ = np.asarray(targets.classes)
        return targets

    def _rows_of(self, X: AsIs, y: AsIs, sample_weight: AsIs = None, *, first: bool) -> tuple[Rows, Targets]:
        if self.class_weight == "balanced":
            raise ValueError(
                'class_weight="balanced" is expected with fit, which sees all labels, got a stream; pass a dict of '
                "class weights instead."
            )
        X, y = self._validate(X, y, first=first)
        check_classification_targets(y)
        unknown = np.setdiff1d(y, self.classes_)
        if unknown.size:
            raise ValueError(f"y is expected to hold the classes {self.classes_} only, got also {unknown}.")
        codes = np.searchsorted(self.classes_, np.asarray(y))
        factors = compute_class_weight(self.class_weight, classes=self.classes_, y=self.classes_)
        return X, Targets(codes, check_mass(sample_weight, y.size), self.classes_, factors)


@documented("stream", NUMBERS)
@dataclass(eq=False, repr=False)
class SGDATkRegressor(LinearRegressorMixin, StreamingATk):
    r"""Linear regressor that minimises the average of the k largest losses by stochastic steps.

    .. math:: \min_{w, b} \; \mathrm{AT}_k\big(\ell(x_i \cdot w + b, y_i)\big) + \frac{\lVert w \rVert^2}{2 C}

    It learns the weights and the threshold lambda together, one sample at a time (Eq. 2 of the paper), from arrays by
    :meth:`fit`, from blocks of any origin by :meth:`fit_blocks`, or from whatever comes next by :meth:`partial_fit`.
    Where the data fit into memory, :class:`atklearn.ATkRegressor` is exact and often as fast.

    Parameters
    ----------
    loss : {"squared_error", "absolute_error", "huber"} or IndividualLoss, default="squared_error"
        The individual loss. A loss of your own runs interpreted: the same steps, some hundred times slower.
    k, C, fit_intercept, penalize_intercept, max_iter, tol, shuffle, learning_rate, eta0, power_t, average
    early_stopping, validation_fraction, n_iter_no_change, random_state, verbose

    Attributes
    ----------
    coef_, intercept_, loss_threshold_, k_share_, k_, objective_curve_, n_iter_, t_, n_features_in_, feature_names_in_

    See Also
    --------
    RowBlocks : Blocks of arrays in memory or in files, for :meth:`fit_blocks`.
    ATkRegressor : The exact fit, of data in memory.

    References
    ----------
    Fan, Lyu, Ying, Hu. Learning with Average Top-k Loss. NeurIPS 2017.

    Examples
    --------
    >>> from atklearn import SGDATkRegressor
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = SGDATkRegressor("absolute_error", k=0.5, random_state=0).fit(scale(X), y)
    >>> model.score(scale(X), y) > 0.45
    True
    >>> stream = SGDATkRegressor("absolute_error", k=0.5)
    >>> for begin in range(0, len(X), 100):
    ...     stream = stream.partial_fit(scale(X)[begin : begin + 100], y[begin : begin + 100])
    >>> stream.t_
    442
    """

    _task = "regression"

    loss: str | IndividualLoss = "squared_error"
    _: KW_ONLY
    k: float | str = 0.7
    C: float = 100.0
    fit_intercept: bool = True
    penalize_intercept: bool = False
    max_iter: int = 20
    tol: float | None = 1e-3
    shuffle: bool = True
    learning_rate: LearningRate = "invscaling"
    eta0: float | Literal["auto"] = "auto"
    power_t: float = 0.5
    average: Averaging = "recent"
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 5
    random_state: RandomState = None
    verbose: int = 0

    @published_at_once
    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: AsIs, y: AsIs, sample_weight: AsIs = None) -> Self:
        """Go on learning from the next block of a stream, visiting its rows once, in their order.

        Any cut of the same stream into blocks gives the same model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            In units of one sample: weight 2 is the same as the sample twice.

        Returns
        -------
        self : estimator
        """
        self._learn_block(*self._rows_of(X, y, sample_weight, first=not hasattr(self, "_stream")))
        return self

    @published_at_once
    @_fit_context(prefer_skip_nested_validation=True)
    def fit_blocks(self, blocks: Iterable[tuple[AsIs, ...]]) -> Self:
        """Fit the model to data in blocks, from scratch.

        Parameters
        ----------
        blocks : iterable of (X, y) or (X, y, sample_weight)
            For example :class:`atklearn.RowBlocks`, or a generator over files. What can be iterated again is passed
            over up to ``max_iter`` times, a generator once. With ``shuffle``, the rows of each block are shuffled.

        Returns
        -------
        self : estimator
        """
        self._fit_blocks(blocks)
        return self

    def _targets(self, y: AsIs, sample_weight: AsIs) -> Targets:
        return regression_targets(y, sample_weight)

    def _rows_of(self, X: AsIs, y: AsIs, sample_weight: AsIs = None, *, first: bool) -> tuple[Rows, Targets]:
        X, y = self._validate(X, y, first=first)
        return X, regression_targets(y, sample_weight)

    def _publish(self, stream: Stream, n_iter: int, dtype: np.dtype[np.floating], total: float | None = None) -> None:
        super()._publish(stream, n_iter, dtype, total)
        self.coef_, self.intercept_ = self.coef_[0], self.intercept_[0]
