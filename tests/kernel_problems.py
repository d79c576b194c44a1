"""Small problems for the kernel machines, and what is read off a fitted one."""

from __future__ import annotations

import numpy as np

EXACT = {"tol": 1e-9}


def draw(seed, *, n=60, noise=0.8, regression=False):
    """A small noisy problem: a curved boundary, or a curve."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    curve = np.sin(2.0 * X[:, 0]) + X[:, 1] + noise * rng.standard_normal(n)
    return X, curve if regression else np.where(curve > 0.2, 1, -1)


def hinge_losses(model, X, y):
    return np.maximum(1.0 - y * model.decision_function(X), 0.0)


def squared_norm(model, K):
    """The square of the norm of the fitted function; ``K`` has a row per sample, and a column per support vector."""
    beta = model.dual_coef_[0]
    return beta @ K[model.support_] @ beta
