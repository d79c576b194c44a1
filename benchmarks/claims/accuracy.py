"""How accurate a linear model is: its objective beside a certified lower bound of the least one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from atklearn import ATkClassifier, ATkRegressor, average_top_k
from atklearn.losses.individual import INDIVIDUAL_LOSSES

TOLERANCES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)


def is_of_classes(loss: str) -> bool:
    """Whether a loss is for labels."""
    return INDIVIDUAL_LOSSES[loss].task == "classification"


def estimator(loss: str, **parameters: Any) -> ATkClassifier | ATkRegressor:
    """Return our linear model with a loss."""
    return (ATkClassifier if is_of_classes(loss) else ATkRegressor)(loss, **parameters)


KEPT = 3  # yardsticks, for the next claims on the same data


class Yardstick:
    """AT_k of the losses plus |w|^2 / (2 C) on some data, and a bound that no model is below.

    The bound is what a fit to 1e-9 certifies. It is a bound whatever that fit reached; the objective is computed here,
    for us as for others.
    """

    def __init__(self, loss: str, X: Any, y: np.ndarray, k: float, C: float, **options: Any) -> None:
        self.loss, self.X, self.y, self.k, self.C = INDIVIDUAL_LOSSES[loss](), X, y, k, C
        self.penalize_intercept = options.get("penalize_intercept", False)
        best = estimator(loss, k=k, C=C, tol=1e-9, **options).fit(X, y)
        self.bound = float(best.objective_ - best.dual_gap_)

    def excess(self, w: np.ndarray, b: float = 0.0) -> float:
        """Return how far above the bound a model is, relative to the bound."""
        losses = self.loss(self.X @ w + b, self.y)
        top = float(losses.mean()) if self.k == 1.0 else average_top_k(losses, self.k)
        penalty = w @ w + (b * b if self.penalize_intercept else 0.0)
        return float((top + penalty / (2.0 * self.C)) / self.bound - 1.0)

    def of(self, model: Any) -> float:
        """Return the same of a model with ``coef_`` and, where it has one, ``intercept_``."""
        return self.excess(np.ravel(model.coef_), float(np.ravel(getattr(model, "intercept_", 0.0))[0]))

    def loosest(
        self, fit: Callable[[float], Any], accuracy: float, tolerances: Sequence[float] = TOLERANCES
    ) -> tuple[float, Any]:
        """Return the loosest tolerance at which a fit is accurate enough, else the tightest; and that fit."""
        for tol in tolerances:
            model = fit(tol)
            if self.of(model) <= accuracy:
                break
        return tol, model


_kept: list[tuple[tuple[object, ...], Yardstick]] = []


def yardstick(loss: str, X: Any, y: np.ndarray, k: float, C: float, **options: Any) -> Yardstick:
    """Return a yardstick, one that was made before if it is of the very same arrays."""
    asked = (loss, id(X), id(y), k, C, *sorted(options.items()))  # as long as it is kept, no other array has that id
    for known, made in _kept:
        if known == asked:
            return made
    made = Yardstick(loss, X, y, k, C, **options)
    _kept.append((asked, made))
    del _kept[:-KEPT]
    return made
