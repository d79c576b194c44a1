"""Small kernel machines, stopped after any number of iterations, held against the definition and a full fit."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import pairwise_kernels

from atklearn import ATkClassifier, ATkRegressor, ATkSVC, ATkSVR, CollapseWarning
from fuzzing.definition import Array, Definition, Point
from fuzzing.problems import FuzzProblem
from fuzzing.verdict import ABOVE, RELATIVE, SMALL, Verdict

LIMITS = (1, 5, 50, -1)
# What kernel values other than products of the features are off by, relative, and their sums.
_ROUNDED = 1e-12


@dataclass(frozen=True)
class KernelFuzz:
    """A machine and its data; ``problem`` names what is nasty about them."""

    problem: FuzzProblem
    kernel: str
    max_iter: int

    def machine(self, tol: float) -> Any:
        """Return the estimator."""
        kind = ATkSVC if self.problem.loss == "hinge" else ATkSVR
        p = self.problem
        return kind(
            self.kernel, k=p.k, C=p.C, gamma=0.5, degree=2, coef0=1.0, fit_intercept=p.intercept == "free", tol=tol,
            max_iter=self.max_iter,
        )  # fmt: skip

    def fitted(self, tol: float) -> tuple[Any, set[type[Warning]]]:
        """Return the fitted machine, and what it warned of."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = self.machine(tol).fit(self.problem.X, self.problem.y, self.problem.sample_weight)
        return model, {warning.category for warning in caught}

    def value(self, model: Any) -> float:
        """Return the objective at the published coefficients."""
        beta = np.zeros(self.problem.y.size)
        beta[model.support_] = model.dual_coef_[0]
        intercept = float(np.ravel(model.intercept_)[0])
        definition = self.problem.definition()
        if self.kernel == "linear" and definition.X.size <= SMALL:
            w = [sum((Fraction(b) * Fraction(x) for b, x in zip(beta.tolist(), column, strict=True)), Fraction(0))
                 for column in definition.X.T.tolist()]  # fmt: skip
            return float(definition.exact_value_at(w, Fraction(intercept)))
        K = pairwise_kernels(definition.X, metric=self.kernel, filter_params=True, gamma=0.5, degree=2, coef0=1.0)
        f, sign = K @ beta + intercept, self.problem.y
        losses = np.maximum(1.0 - sign * f, 0.0) if self.problem.loss == "hinge" else np.abs(sign - f)
        return definition.top_mean(losses) + float(beta @ K @ beta) / (2.0 * definition.C)


def kernel_fuzz(seed: int, index: int) -> KernelFuzz:
    """Return problem ``index`` of a seed, always the same."""
    rng = np.random.default_rng([seed, index, 1])
    loss = ("hinge", "absolute_error")[index % 2]
    n, d = int(rng.integers(4, 41)), int(rng.choice([1, 2, 4, 8]))
    X = rng.standard_normal((n, d)) + (100.0 if rng.random() < 0.2 else 0.0)
    if rng.random() < 0.2:
        X = X[rng.integers(0, max(n // 2, 2), n)]
    score = X @ rng.standard_normal(d)
    score = (score - score.mean()) / max(score.std(), 1e-3) + rng.choice([0.1, 1.0]) * rng.standard_normal(n)
    y = np.where(score > np.median(score), 1.0, -1.0) if loss == "hinge" else score
    weight = rng.integers(1, 4, n).astype(float) if rng.random() < 0.3 else None
    total = float(n if weight is None else weight.sum())
    k = 1.0 if rng.random() < 0.2 else float(rng.uniform(1.0 / total, 1.0))
    C, intercept = float(10.0 ** rng.uniform(-1.0, 3.5)), str(rng.choice(["free", "none"], p=[0.7, 0.3]))
    kernel, limit = str(rng.choice(["linear", "rbf", "poly"], p=[0.5, 0.4, 0.1])), LIMITS[int(rng.integers(4))]
    problem = FuzzProblem(index, loss, intercept, X, y, weight, None, k, C, (kernel, f"max_iter {limit}"))
    return KernelFuzz(problem, kernel, limit)


def examine_kernel(index: int, seed: int, tol: float) -> Verdict:
    """Fit a machine, and hold it against the definition, against zero, a full fit and the linear solver."""
    fuzz = kernel_fuzz(seed, index)
    problem, verdict = fuzz.problem, Verdict(fuzz.problem)
    try:
        model, warned = fuzz.fitted(tol)
        full, _ = (model, warned) if fuzz.max_iter == -1 else replace(fuzz, max_iter=-1).fitted(tol)
    except Exception as error:
        verdict.fail("error", f"{type(error).__name__}: {error}")
        return verdict
    names = {ConvergenceWarning: "warned" if fuzz.max_iter == -1 else "stopped early", CollapseWarning: "collapsed"}
    verdict.notes.update(names.get(kind, "other warning") for kind in warned)
    objective, gap, value = model.objective_, model.dual_gap_, fuzz.value(model)
    if not np.isfinite([objective, gap, *model.dual_coef_.ravel()]).all():
        verdict.fail("nan", f"objective {objective}, gap {gap}")
        return verdict
    granted = (RELATIVE if fuzz.kernel == "linear" else _ROUNDED) * abs(value)
    if abs(objective - value) > gap + granted:
        verdict.fail("inconsistent", f"objective {objective:.12g}, by definition {value:.12g}, gap {gap:.3g}")
    if ConvergenceWarning not in warned and not gap <= tol * objective:
        verdict.fail("missed", f"gap {gap:.3g} of objective {objective:.3g}")
    definition = problem.definition()
    nothing = definition.value(Point(np.zeros(definition.X.shape[1]), 0.0))
    if value > nothing * (1.0 + tol) and ConvergenceWarning not in warned:
        verdict.fail("worse than zero", f"objective {value:.12g}")
    others = [value, nothing, replace(fuzz, max_iter=-1).value(full)]
    if fuzz.kernel == "linear":
        others.append(_linear_value(problem, definition))
    if value > min(others) * (1.0 + 2.0 * max(ABOVE, tol)) + granted:
        if ConvergenceWarning in warned:
            verdict.notes.update({"beaten"} if fuzz.max_iter == -1 else ())
        else:
            verdict.fail("above", f"objective {value:.9g}, another point {min(others):.9g}")
    if objective - gap > min(others) + granted:
        verdict.fail("wrong bound", f"lower bound {objective - gap:.12g}, a point has {min(others):.12g}")
    return verdict


def _linear_value(problem: FuzzProblem, definition: Definition) -> float:
    """Return the value that the linear solver finds."""
    made = ATkClassifier if problem.loss == "hinge" else ATkRegressor
    model = made(problem.loss, k=problem.k, C=problem.C, fit_intercept=problem.intercept == "free")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(problem.X, problem.y, problem.sample_weight)
    weights: Array = np.ravel(model.coef_)
    return definition.value(Point(weights, float(np.ravel(model.intercept_)[0])))
