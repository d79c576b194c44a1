"""Problems to be fitted in memory and in chunks, and ways to cut them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from atklearn import ATkClassifier, ATkRegressor

CLASSIFICATION = ("log_loss", "hinge", "squared_hinge")
REGRESSION = ("squared_error", "absolute_error", "huber")
N_PROBLEMS = 10


@dataclass(frozen=True)
class ChunkCase:
    """Data, and what is to be fitted to them."""

    X: Any
    y: np.ndarray
    weight: np.ndarray | None
    is_classification: bool
    options: dict[str, Any] = field(default_factory=dict)

    def in_memory(self, **options: Any) -> Any:
        """Return the estimator in memory, fitted."""
        cls = ATkClassifier if self.is_classification else ATkRegressor
        return cls(**self.options | options).fit(self.X, self.y, self.weight)


def draw(n: int = 3000, d: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Draw features, and numbers that follow them, with a few large errors."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n) ** 3


def before_queries(monkeypatch: Any, engine: type, numbers: Collection[int], action: Callable[[], Any]) -> list[str]:
    """Let something happen before queries of some numbers, counted from 1; return the names of all that are asked."""
    ask, asked = engine.ask, []

    def meddle(self: Any, request: Any, chunks: Any, **options: Any) -> Any:
        asked.append(request.query.name)
        if len(asked) in numbers:
            action()
        return ask(self, request, chunks, **options)

    monkeypatch.setattr(engine, "ask", meddle)
    return asked


def draw_case(seed: int) -> ChunkCase:
    """Draw a problem: any loss, k and C, with weights or without, two classes or three, dense or sparse."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(40, 400)), int(rng.integers(2, 9))
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.8) * 10.0 ** rng.uniform(-2, 2, d)
    f = X / X.std(axis=0) @ rng.standard_normal(d) + 0.5 * rng.standard_normal(n)
    is_classification = seed % 2 == 0
    loss = (CLASSIFICATION if is_classification else REGRESSION)[seed // 2 % 3]
    options = {
        "loss": loss,
        "k": float(rng.uniform(0.3, 1.0)),
        "C": float(n * 10.0 ** rng.uniform(-2, 1)),
        "tol": 1e-9,
    }
    options["fit_intercept"] = bool(rng.random() < 0.8)
    y: np.ndarray = f + 3.0
    if is_classification:
        y = np.digitize(f, [0.0, 1.5] if seed % 3 == 0 else [0.0]).astype(np.int64) * 3 - 2
        if rng.random() < 0.4:
            options["class_weight"] = "balanced"
    weight = rng.integers(0, 4, n).astype(float) if rng.random() < 0.5 else None
    return ChunkCase(sp.csr_array(X) if seed % 4 == 3 else X, y, weight, is_classification, options)


def cuts(case: ChunkCase, how: str) -> tuple[ChunkCase, list[int]]:
    """Return the case, its rows reordered if need be, and where its chunks end."""
    n = case.y.size
    if how == "single rows":
        return case, [*range(1, 8), n // 2, n]
    if how == "empty chunks":
        return case, [0, n // 3, n // 3, n // 3, n, n]
    if how == "a class a chunk":
        order = np.argsort(case.y, kind="stable")
        weight = None if case.weight is None else case.weight[order]
        y = case.y[order]
        ends = [*(np.flatnonzero(np.diff(y)) + 1).tolist(), n] if case.is_classification else [n // 2, n]
        return ChunkCase(case.X[order], y, weight, case.is_classification, case.options), ends
    return case, [n]


CUTS = ("single rows", "empty chunks", "a class a chunk", "one chunk")


def assert_same_fit(one: Any, other: Any, rtol: float = 1e-6) -> None:
    """Two fitted estimators have the same coefficients, to a relative accuracy, and say the same of them."""
    scale = np.linalg.norm(np.append(np.ravel(other.coef_), np.ravel(other.intercept_)))
    assert np.linalg.norm(np.ravel(one.coef_) - np.ravel(other.coef_)) <= rtol * scale
    assert np.linalg.norm(np.ravel(one.intercept_) - np.ravel(other.intercept_)) <= rtol * scale
    for name in ("objective_", "loss_threshold_", "k_", "k_share_", "C_"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-5, atol=1e-9, err_msg=name)
    if hasattr(other, "classes_"):
        np.testing.assert_array_equal(one.classes_, other.classes_)
