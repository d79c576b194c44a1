"""The verdict on one fit: what it published, held against the definition and against the outside solver.

How much rounding is excused
----------------------------
Let ``u = 2^-53``, and let a fit compute everything in plain float64. Its prediction of a row is off by at most
``delta_i = (d + 4) u (|x_i| . |w| + |b|)``, the classical bound of a sum of d + 1 products in any order, with room for
weights that were solved for in other units and mapped back. (Published weights of single precision are rounded once
more, by ``2^-24`` of each term; what only that explains is told apart as "float32 drift".) Subtracting the target then
costs a relative error only. With ``|l'_i|`` the slope of the loss there and ``M`` its largest curvature, the loss of a
row is off by

    e_i = |l'_i| delta_i + M delta_i^2 / 2,

and the objective by at most AT_k(e), because AT_k is subadditive and grows with its arguments. That excuses a published
objective ("inconsistent", "above").

The lower bound compares with another point (w', b') through convexity: for sample weights q and G the q-weighted mean,

    F(w', b') >= G(w, b) + grad . ((w', b') - (w, b)) + |w' - w|^2 / (2 C) >= G(w, b) - C/2 |grad_w|^2,

so an error in the gradient, a sum of n products, counts by how far the points are apart. With ``gamma = (n + 4) u``,
the slope of row i is off by ``gamma |l'_i| + M delta_i``, and with ``D_i = |x_i| . |w' - w| + |b' - b|`` the bound is
off by at most

    AT_k(e_i + D_i (gamma |l'_i| + M delta_i)) + gamma |w| . |w' - w| / C.

Everything besides is a relative error of a few units in the last place, far below the relative 1e-9 granted anyway.
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

FAILURES = ("nan", "wrong bound", "missed", "inconsistent", "above", "infeasible", "error")
# what only the rounding derived above excuses, by kind
EXCUSES = ("excused bound", "excused value", "excused above", "float32 drift")
# not failures: warnings of the library, and what limits what this harness can see
NOTES = ("warned", "collapsed", "other warning", "no answer", "loose answer", *EXCUSES)

RELATIVE = 1e-9
ABOVE = 1e-6
_UNIT = 2.0**-53
_SINGLE = 2.0**-24

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
    single: bool

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
            coef.dtype == np.float32,
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
    _check_consistency(verdict, definition, fit)
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


def _errors_of_prediction(definition: Definition, fit: _Fit, single: bool) -> Array:
    """Return ``delta`` of the module's derivation."""
    sizes = np.abs(definition.X) @ np.abs(fit.point.w) + abs(fit.point.b)
    return ((definition.X.shape[1] + 4) * _UNIT + (_SINGLE if single else 0.0)) * sizes


def _errors_of_loss(definition: Definition, fit: _Fit, delta: Array) -> Array:
    """Return ``e`` of the module's derivation."""
    return definition.slopes(fit.point) * delta + 0.5 * CURVATURE[definition.loss] * delta**2


def _check_consistency(verdict: Verdict, definition: Definition, fit: _Fit) -> None:
    """Check the published objective and threshold at the published weights."""
    losses = definition.losses(fit.point)
    true = definition.top_mean(losses) + definition.penalty(fit.point)
    delta = _errors_of_prediction(definition, fit, single=False)
    coarse = _errors_of_prediction(definition, fit, single=fit.single)
    allowed = definition.top_mean(_errors_of_loss(definition, fit, delta))
    drift = definition.top_mean(_errors_of_loss(definition, fit, coarse))
    if fit.single:  # the penalty of rounded weights
        drift += 3.0 * _SINGLE * definition.penalty(fit.point)
    off = abs(fit.objective - true)
    granted = RELATIVE * abs(true)
    if off > granted + max(allowed, drift):
        verdict.fail("inconsistent", f"objective {fit.objective:.12g}, by definition {true:.12g}")
    elif off > granted + allowed:
        verdict.notes.add("float32 drift")
    elif off > granted:
        verdict.notes.add("excused value")
    # A threshold may stand at either end of a jump that lies at k, and k is known to rounding only. It is one row's
    # loss, where nothing averages out, and may come from predictions that were updated step by step: hence the factor.
    slack = 10.0 * float(_errors_of_loss(definition, fit, coarse).max()) + RELATIVE * abs(fit.threshold)
    lowest = definition.ranked(losses, definition.k * (1.0 + 1e-9)) - slack
    highest = definition.ranked(losses, definition.k * (1.0 - 1e-9)) + slack
    if not lowest <= fit.threshold <= highest:
        verdict.fail("inconsistent", f"threshold {fit.threshold:.12g} outside [{lowest:.12g}, {highest:.12g}]")


def _check_against_outside(verdict: Verdict, definition: Definition, fit: _Fit, tol: float) -> None:
    """Check the certified lower bound and the objective against points whose value is known."""
    found = outside_point(definition)
    delta = _errors_of_prediction(definition, fit, single=False)
    if found is None:
        verdict.notes.add("no answer")
    else:
        value = definition.value(found)
        if value > fit.objective * (1.0 + ABOVE):
            verdict.notes.add("loose answer")
        excess = fit.objective - value * (1.0 + max(ABOVE, tol))
        allowed = definition.top_mean(_errors_of_loss(definition, fit, delta))
        if excess > 0.0 and "warned" not in verdict.notes:
            if excess > allowed:
                relative = math.inf if value == 0.0 else fit.objective / value - 1.0
                verdict.fail("above", f"objective {fit.objective:.9g}, outside {value:.9g}: {relative:.2g} above")
            else:
                verdict.notes.add("excused above")
    # the fit's own point bounds the optimum too, and so does w = 0
    others = [fit.point, Point(np.zeros_like(fit.point.w), 0.0)]
    lower = fit.objective - fit.gap
    for point in others if found is None else [found, *others]:
        excess = lower - definition.value(point) - RELATIVE * (abs(fit.objective) + abs(fit.gap))
        if excess > _bound_allowance(definition, fit, point, delta):
            verdict.fail("wrong bound", f"lower bound {lower:.12g}, a point has {definition.value(point):.12g}")
        elif excess > 0.0:
            verdict.notes.add("excused bound")


def _bound_allowance(definition: Definition, fit: _Fit, point: Point, delta: Array) -> float:
    """Return how much rounding may raise the lower bound above the value of a point."""
    gamma = (definition.X.shape[0] + 4) * _UNIT
    moved = np.abs(point.w - fit.point.w)
    apart = np.abs(definition.X) @ moved + abs(point.b - fit.point.b)
    slope_error = gamma * definition.slopes(fit.point) + CURVATURE[definition.loss] * delta
    ridge = gamma * float(np.abs(fit.point.w) @ moved) / definition.C
    return definition.top_mean(_errors_of_loss(definition, fit, delta) + apart * slope_error) + ridge
