"""Kernel machines over the one call of LIBSVM that each fit reduces to: what exactness and the certificate cost."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC, NuSVC, NuSVR

from atklearn import ATkSVC, ATkSVR
from atklearn.aggregates import AverageTopK
from claims.claim import Claim, Contest, Setting, share
from claims.data import curved_data

N = 4_000
CASES: dict[str, tuple[type, float, float | None, str]] = {
    "nu-svc-0.3": (ATkSVC, 0.3, None, "NuSVC"),
    "nu-svc-0.5": (ATkSVC, 0.5, 100.0, "NuSVC"),
    "svc-0.9": (ATkSVC, 0.9, None, "SVC"),
    "svc-1": (ATkSVC, 1.0, None, "SVC"),
    "nu-svr-0.3": (ATkSVR, 0.3, None, "NuSVR"),
}


def libsvm_alone(kind: str, k: float, C: float, gamma: float, n: int) -> Any:
    """Return the estimator of scikit-learn for the problem that ours reduces to."""
    c = C / (k * n)
    return {
        "NuSVR": lambda: NuSVR(C=c, nu=k, gamma=gamma),
        "NuSVC": lambda: NuSVC(nu=k, gamma=gamma, tol=1e-3 * min(1.0, 1.0 / c)),
        "SVC": lambda: SVC(C=c, gamma=gamma),
    }[kind]()


def excess_of(model: Any, X: np.ndarray, y: np.ndarray, ours: Any) -> float:
    """Return how far the AT_k objective of LIBSVM's answer is above our certified bound.

    Its nu-SVC fixes the direction of w and leaves the length to others; it is given the best one.
    """
    values = model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)
    weights = model.dual_coef_.ravel()
    support = X[model.support_]
    norm = float(weights @ rbf_kernel(support, gamma=ours.gamma_) @ weights)
    aggregate = AverageTopK(ours.k_ / len(y))

    def objective(length: float = 1.0) -> float:
        f = length * values
        losses = np.maximum(0.0, 1.0 - y * f) if isinstance(ours, ATkSVC) else np.abs(y - f)
        return float(aggregate.value(losses) + length**2 * norm / (2.0 * ours.C))

    least = objective()
    if isinstance(model, NuSVC):
        least = float(minimize_scalar(lambda power: objective(10.0**power), bounds=(-4, 4), method="bounded").fun)
    return least / float(ours.objective_ - ours.dual_gap_) - 1.0


def against_libsvm(setting: Setting, *, name: str) -> Contest:
    kind, k, C, over = CASES[name]
    n = setting.rows(N)
    X, labels, target = curved_data(n)
    y = target if kind is ATkSVR else labels
    C = k * n if C is None else C
    gamma = kind(k=k, C=C).fit(X, y).gamma_

    def excess(model: Any, other: Any) -> tuple[float, float]:
        bound = float(model.objective_ - model.dual_gap_)
        return float(model.objective_) / bound - 1.0, excess_of(other, X, y, model)

    ours: Callable[[], Any] = lambda: kind(k=k, C=C).fit(X, y)  # noqa: E731
    return Contest(ours, lambda: libsvm_alone(over, k, C, gamma, n).fit(X, y), excess)


CLAIMS = [
    Claim(
        f"kernel/{name}",
        f"{kind.__name__}, {share(k)}, {f'C = {C:g}' if C else 'C = k'}, RBF",
        f"{N:,} x 10",
        f"`{over}` (LIBSVM)",
        partial(against_libsvm, name=name),
    )
    for name, (kind, k, C, over) in CASES.items()
]
