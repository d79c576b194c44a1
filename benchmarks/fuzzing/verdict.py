"""The verdict on one fit: what it published, held against the definition and against the outside solver.

Rounding is no excuse: ``dual_gap_`` says how far the published point can be from the optimum in exact arithmetic, so
``objective_`` is that of the definition to within the gap, and ``objective_ - dual_gap_`` lies below the value of every
point. Points of small problems are evaluated in rational arithmetic.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from atklearn import ATkClassifier, ATkRegressor, CollapseWarning
from fuzzing.definition import CLASSIFICATION, CURVATURE, Array, Definition, Point
from fuzzing.outside import outside_point
from fuzzing.problems import FuzzProblem

FAILURES = ("nan", "wrong bound", "missed", "inconsistent", "above", "worse than zero", "infeasible", "error")
# not failures: warnings of the library, what limits what this harness can see, and what a warning has told
NOTES = ("warned", "collapsed", "other warning", "no answer", "loose answer", "beaten", "stopped early")

RELATIVE = 1e-13  # k and the masses of balanced classes are themselves rounded
ABOVE = 1e-6
SMALL = 100  # entries of X, up to which points are evaluated in rational arithmetic
_UNIT = 2.0**-53

MakeEstimator = Callable[[FuzzProblem, float], Any]


@dataclass
class Verdict:
    """What is to be said about one fit."""

    problem: FuzzProblem
    failures: dict[str, str] = field(default_factory=dict)
    notes: set[str] = field(default_factory=set)

    def fail(self, kind: str, why: str) -> None:
        """Record a failure, the first of its kind."""
        self.failures.setdefault(kind, why)


@dataclass(frozen=True)
class _Fit:
    """What an estimator published, for one problem of two classes or one target."""

    point: Point
    objective: float
    gap: float
    threshold: float
    sample_weights: Array
    k: float

    @classmethod
    def of(cls, model: Any) -> _Fit:
        coef = np.ravel(model.coef_)
        return cls(
            Point(coef.astype(np.float64), float(np.ravel(model.intercept_)[0])),
            float(model.objective_),
            float(model.dual_gap_),
            float(model.loss_threshold_),
            np.asarray(model.top_weights_, dtype=np.float64),
            float(model.k_),
        )

    @property
    def is_finite(self) -> bool:
        numbers = [*self.point.w, self.point.b, self.objective, self.gap, self.threshold, *self.sample_weights, self.k]
        return bool(np.isfinite(numbers).all())


def library_estimator(problem: FuzzProblem, tol: float) -> Any:
    """Return the library's estimator for a problem."""
    options: dict[str, Any] = {
        "k": "max" if isinstance(problem.k, int) and problem.k == 1 else problem.k,
        "C": problem.C,
        "fit_intercept": problem.intercept != "none",
        "penalize_intercept": problem.intercept == "penalized",
        "tol": tol,
    }
    if problem.loss in CLASSIFICATION:
        return ATkClassifier(problem.loss, class_weight=problem.class_weight, **options)
    return ATkRegressor(problem.loss, **options)


def examine(problem: FuzzProblem, tol: float = 1e-6, make_estimator: MakeEstimator = library_estimator) -> Verdict:
    """Fit a problem, solve it with the outside solver, and compare."""
    verdict = Verdict(problem)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = make_estimator(problem, tol).fit(problem.X, problem.y, sample_weight=problem.sample_weight)
        except Exception as error:
            verdict.fail("error", f"{type(error).__name__}: {error}")
            return verdict
    for warning in caught:
        known = {ConvergenceWarning: "warned", CollapseWarning: "collapsed"}
        verdict.notes.add(known.get(warning.category, "other warning"))
    fit = _Fit.of(model)
    if not fit.is_finite:
        verdict.fail("nan", f"objective {fit.objective}, gap {fit.gap}, threshold {fit.threshold}")
        return verdict
    definition = problem.definition()
    if "warned" not in verdict.notes and not fit.gap <= tol * fit.objective:
        verdict.fail("missed", f"gap {fit.gap:.3g} of objective {fit.objective:.3g}")
    _check_weights(verdict, problem, definition, fit)
    _check_consistency(verdict, definition, fit, tol)
    _check_against_outside(verdict, definition, fit, tol)
    return verdict


def _check_weights(verdict: Verdict, problem: FuzzProblem, definition: Definition, fit: _Fit) -> None:
    """Check k and that the published sample weights lie in the capped simplex."""
    if abs(fit.k - definition.k) > 1e-12 * definition.k:
        verdict.fail("inconsistent", f"k {fit.k} where {definition.k} was asked for")
    weights = fit.sample_weights
    if weights.shape != problem.y.shape:
        verdict.fail("infeasible", f"{weights.shape} sample weights for {problem.y.size} rows")
        return
    used = problem.masses() > 0.0
    excess = max(
        float(-weights.min()),
        float((weights[used] - definition.mass / definition.k * (1.0 + 1e-12)).max()),
        float(np.abs(weights[~used]).max(initial=0.0)),
        float(weights.sum()) - 1.0 - 1e-12,
    )
    if excess > 0.0:
        verdict.fail("infeasible", f"by {excess:.3g}")


def _value(definition: Definition, point: Point) -> float:
    return float(definition.exact_value(point)) if definition.X.size <= SMALL else definition.value(point)


def _check_consistency(verdict: Verdict, definition: Definition, fit: _Fit, tol: float) -> None:
    """Check the published objective and threshold at the published weights."""
    true = _value(definition, fit.point)
    if abs(fit.objective - true) > fit.gap + RELATIVE * abs(true):
        verdict.fail("inconsistent", f"objective {fit.objective:.12g}, by definition {true:.12g}, gap {fit.gap:.3g}")
    if not true <= _value(definition, _origin(fit)) * (1.0 + tol):
        verdict.fail("worse than zero", f"objective {true:.12g}")
    # A threshold may stand at either end of a jump that lies at k, and k is known to rounding only. It is one row's
    # loss, off by the rounding of its prediction, where nothing averages out: hence the factor.
    losses = definition.losses(fit.point)
    sizes = np.abs(definition.X) @ np.abs(fit.point.w) + abs(fit.point.b)
    off = (definition.X.shape[1] + 4) * _UNIT * sizes
    off = definition.slopes(fit.point) * off + 0.5 * CURVATURE[definition.loss] * off**2
    slack = 10.0 * float(off.max()) + 1e-9 * abs(fit.threshold)
    lowest = definition.ranked(losses, definition.k * (1.0 + 1e-9)) - slack
    highest = definition.ranked(losses, definition.k * (1.0 - 1e-9)) + slack
    if not lowest <= fit.threshold <= highest:
        verdict.fail("inconsistent", f"threshold {fit.threshold:.12g} outside [{lowest:.12g}, {highest:.12g}]")


def _origin(fit: _Fit) -> Point:
    return Point(np.zeros_like(fit.point.w), 0.0)


def _check_against_outside(verdict: Verdict, definition: Definition, fit: _Fit, tol: float) -> None:
    """Check the certified lower bound and the objective against points whose value is known."""
    found = outside_point(definition)
    values = [_value(definition, point) for point in (fit.point, _origin(fit))]
    if found is None:
        verdict.notes.add("no answer")
    else:
        values.append(value := _value(definition, found))
        if value > fit.objective * (1.0 + ABOVE):
            verdict.notes.add("loose answer")
        if values[0] > value * (1.0 + max(ABOVE, tol)):
            relative = math.inf if value == 0.0 else values[0] / value - 1.0
            if "warned" in verdict.notes:
                verdict.notes.add("beaten")
            else:
                verdict.fail("above", f"objective {values[0]:.9g}, outside {value:.9g}: {relative:.2g} above")
    lower = fit.objective - fit.gap
    for value in values:  # each bounds the optimum
        if lower > value + RELATIVE * abs(fit.objective):
            verdict.fail("wrong bound", f"lower bound {lower:.12g}, a point has {value:.12g}")
