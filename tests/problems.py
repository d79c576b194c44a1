"""Random problems for every solver, and independent answers to them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from atklearn.core.problem import Problem
from atklearn.losses.individual import INDIVIDUAL_LOSSES
from atklearn.stores.compiled import CompiledRows

LOSSES = tuple(INDIVIDUAL_LOSSES)
CLASSIFICATION = ("log_loss", "hinge", "squared_hinge")
REGRESSION = ("squared_error", "absolute_error", "huber")
INTERCEPTS = ("free", "penalized", "none")


def draw(loss: str, n: int = 60, d: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows with zeros in them and targets that follow a noisy line."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6)
    f = X @ rng.standard_normal(d) + 0.5 + 0.5 * rng.standard_normal(n)
    return X, np.where(f > 0, 1.0, -1.0) if loss in CLASSIFICATION else f


@dataclass(frozen=True)
class Case:
    """One problem, as plain data."""

    loss: str
    intercept: str
    X: Any
    y: np.ndarray
    mass: np.ndarray
    k: float
    C: float

    @property
    def problem(self) -> Problem:
        return self.problem_on(CompiledRows)

    def problem_on(self, kind: Any) -> Problem:
        """State the problem on a kind of rows."""
        rows = kind(self.X, self.y, self.mass, INDIVIDUAL_LOSSES[self.loss](), self.intercept != "none")
        return Problem(rows, self.k, self.C, self.intercept)

    def dense(self) -> np.ndarray:
        return self.X.toarray() if sp.issparse(self.X) else self.X


def random_case(loss: str, intercept: str, seed: int) -> Case:
    """Draw sizes, scales, noise, weights, k and C; every fourth problem is sparse, every other weighted."""
    rng = np.random.default_rng([seed, LOSSES.index(loss), INTERCEPTS.index(intercept)])
    n, d = int(rng.choice([6, 25, 80])), int(rng.choice([1, 4, 12, 40]))
    X = rng.standard_normal((n, d)) * np.exp(rng.standard_normal(d)) + rng.integers(0, 2) * rng.standard_normal(d)
    score = X @ rng.standard_normal(d)
    if INDIVIDUAL_LOSSES[loss].task == "classification":
        noise = rng.choice([0.0, 0.3, 1.0]) * score.std() * rng.standard_normal(n)
        y = np.where(score + noise > np.median(score), 1.0, -1.0)
        y[:2] = 1.0, -1.0
    else:
        y = score + rng.choice([0.01, 1.0, 5.0]) * rng.standard_t(2, n) + 10.0 * rng.standard_normal()
    if seed % 4 == 0:
        X = sp.csr_array(np.where(rng.random((n, d)) < 0.4, X, 0.0))
    mass = rng.integers(1, 4, n) * rng.uniform(0.1, 3.0) if seed % 2 else np.ones(n)
    share = (1 / n, 0.1, 0.5, 0.37, 1.0)[seed % 5]
    return Case(loss, intercept, X, y, mass, share * mass.sum(), 10.0 ** rng.integers(-4, 5))


def optimum_by_cvxpy(case: Case) -> float:
    """Solve the lambda form of Lemma 1 with a general convex solver."""
    X, y = case.dense(), case.y
    w, b, lam = cp.Variable(X.shape[1]), cp.Variable(), cp.Variable()
    f = X @ w + (b if case.intercept != "none" else 0.0)
    losses = {
        "log_loss": lambda: cp.logistic(-cp.multiply(y, f)),
        "hinge": lambda: cp.pos(1 - cp.multiply(y, f)),
        "squared_hinge": lambda: cp.square(cp.pos(1 - cp.multiply(y, f))),
        "squared_error": lambda: cp.square(y - f),
        "absolute_error": lambda: cp.abs(y - f),
        "huber": lambda: 0.5 * cp.huber(y - f, 1.0),
    }[case.loss]()
    penalty = cp.sum_squares(w) + (cp.square(b) if case.intercept == "penalized" else 0.0)
    value = lam + case.mass @ cp.pos(losses - lam) / case.k + penalty / (2 * case.C)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Solution may be inaccurate")  # Clarabel's word on its last digits
        return float(cp.Problem(cp.Minimize(value)).solve(solver=cp.CLARABEL))


def dual_value(case: Case, alpha: np.ndarray, q: np.ndarray) -> float:
    """Evaluate the Fenchel dual -sum(q l*(alpha / q)) - C/2 |X^T alpha|^2 at q in the capped simplex, by conjugates.

    For the hinge and the absolute error the q-weighted conjugate is linear in alpha.
    """
    X, y = case.dense(), case.y
    if case.intercept == "penalized":
        X = np.column_stack([X, np.ones(len(y))])
    used = q > 0
    a, y = alpha[used], y[used]
    t = a / q[used]
    conjugate = {
        "log_loss": lambda: _entropy(-y * t),
        "hinge": lambda: y * t,
        "squared_hinge": lambda: (y * t) + t**2 / 4,
        "squared_error": lambda: t * y + t**2 / 4,
        "absolute_error": lambda: t * y,
        "huber": lambda: t * y + t**2 / 2,
    }[case.loss]()
    return float(-q[used] @ conjugate - case.C / 2 * np.sum((X.T @ alpha) ** 2))


def _entropy(p: np.ndarray) -> np.ndarray:
    p = np.clip(p, 1e-300, 1 - 1e-16)
    return p * np.log(p) + (1 - p) * np.log1p(-p)
