"""What every solver returns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from atklearn.losses.individual import Array

__all__ = ["Solution", "StopReason"]


class StopReason(StrEnum):
    """Why a solver stopped."""

    CONVERGED = "the duality gap reached the tolerance"
    MAX_ITER = "the iteration limit was reached"
    STALLED = "no further progress is possible in floating-point arithmetic"
    CALLBACK = "a callback asked to stop"


@dataclass(frozen=True)
class Solution:
    """A linear model with the proof of how good it is.

    Attributes
    ----------
    coef : ndarray of shape (n_columns,)
        The weights, the intercept last if the design has one.
    threshold : float
        The k-th largest loss, the paper's lambda.
    sample_weights : ndarray of shape (n_rows,)
        Worst-case weights of the samples: a point of the capped simplex ``0 <= q <= mass / k``, ``sum(q) <= 1``.
    density : ndarray of shape (n_rows,)
        ``sample_weights`` over their caps, signed for two-sided losses: where a warm start begins.
    objective : float
        The primal value ``AT_k + |w|^2 / (2 C)``.
    dual_gap : float
        ``objective`` minus a certified lower bound of the optimum.
    smoothing : float
        The smoothing the solver ended with: where a warm start begins.
    n_iter : int
        Newton steps or passes over the data taken.
    stop_reason : StopReason
    """

    coef: Array
    threshold: float
    sample_weights: Array
    density: Array
    objective: float
    dual_gap: float
    smoothing: float
    n_iter: int
    stop_reason: StopReason
