"""What the streaming estimators share: the state of a stream, passes over rows and blocks, and when to stop."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions

from atklearn.encoding.encoded import Targets, check_training, intercept_kind
from atklearn.losses.aggregate import AverageTopK, resolve_k, warn_of_one_row
from atklearn.losses.individual import Array, IndividualLoss, Task, resolve_individual_loss
from atklearn.runtime.messages import shown, stack_level
from atklearn.stochastic.sgd import (
    AVERAGINGS,
    HEAD,
    LEARNING_RATES,
    SGD,
    Descent,
    Plateau,
    draw_seed,
)
from atklearn.stochastic.visits import MassClock, passes
from atklearn.stores.compiled import Places

__all__ = ["Stream", "StreamingATk"]

# A fall of the objective in the last pass, relative to it, that means there was more to gain.
_STEEP = 0.02


@dataclass
class Stream:
    """What a stream has taught so far: one descent per problem, and the first visits until there are enough."""

    descents: list[Descent] = field(default_factory=list)
    clock: MassClock = field(default_factory=MassClock)
    head: list[tuple[Any, Array]] | None = field(default_factory=list)

    def learn(self, X: Any, targets: Array, visits: Places, start: Callable[[Any, Array], Descent]) -> float:
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


def _stack(blocks: list[Any]) -> Any:
    """Put blocks of rows on top of each other."""
    if len(blocks) == 1:
        return blocks[0]
    return sp.vstack(blocks, format="csr") if any(map(sp.issparse, blocks)) else np.vstack(blocks)


class StreamingATk(BaseEstimator):
    """What the streaming estimators share: parameters, passes, publication."""

    _task: ClassVar[Task]
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
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

    def _validate(self, X: Any, y: Any, first: bool) -> tuple[Any, Any]:
        """Return X as C-ordered array or CSR, and y, both checked."""
        return check_training(self, X, y, reset=first, y_numeric=self._task == "regression")

    def _descent(self, X: Any, target: Array, fraction: float) -> Descent:
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

    def _fit_rows(self, X: Any, targets: Targets, strata: Any) -> None:
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

    def _fit_blocks(self, blocks: Iterable[Any], rows_of: Callable[..., tuple[Any, Targets]]) -> None:
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
                X, targets = rows_of(*block, first=not plan.curve and n_visits == 0)
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

    def _learn_block(self, X: Any, targets: Targets) -> None:
        """Go on with the stream; what was learned before stays as it is if this fails."""
        stream = deepcopy(getattr(self, "_stream", None)) or Stream()
        start = partial(self._descent, fraction=self._fraction(None))
        stream.learn(X, targets.values, stream.clock.visits(targets.mass), start)
        self._publish(stream, 1, X.dtype)

    def _publish(self, stream: Stream, n_iter: int, dtype: Any, total: float | None = None) -> None:
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


def _aggregate_loss(descent: Descent, X: Any, target: Array, mass: Array) -> float:
    """Return the average top-k loss of the iterate on some rows."""
    losses = descent.loss(X @ descent.weights + descent.intercept, target)
    return AverageTopK(descent.rule.fraction).value(losses, mass)
