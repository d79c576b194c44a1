"""What every solver returns, and what proves it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from atklearn.losses.individual import Array

__all__ = ["Certificate", "Solution", "StopReason"]

_ROUNDING = 1e-13


class StopReason(StrEnum):
    """Why a solver stopped."""

    CONVERGED = "the duality gap reached the tolerance"
    MAX_ITER = "the iteration limit was reached"
    STALLED = "no further progress is possible in floating-point arithmetic"
    CALLBACK = "a callback asked to stop"


@dataclass(frozen=True)
class Certificate:
    """Coefficients, their exact objective, and a proof of how far it can be from the optimum.

    Attributes
    ----------
    coef : ndarray
        What the objective is minimised over: one entry per column for linear models, one dual coefficient per row for
        kernel machines.
    intercept : float
        Where it is not an entry of ``coef``, else 0.
    density : object
        Sample weights over their caps ``mass / k``, in [0, 1], signed for two-sided losses: what proves the bound.
    threshold : float
        The k-th largest loss, the paper's lambda.
    objective : float
        The primal value ``AT_k + |w|^2 / (2 C)`` at ``coef``.
    dual_gap : float
        ``objective`` minus a certified lower bound of the optimum.
    """

    coef: Array
    intercept: float
    density: Any
    threshold: float
    objective: float
    dual_gap: float

    def beats(self, value: float) -> bool:
        """Whether the objective is below a value, such as that of saying nothing, by more than rounding."""
        return self.objective < value * (1.0 - _ROUNDING)

    def reaches(self, tol: float) -> bool:
        """Whether the gap is at most ``tol`` times the objective."""
        return self.dual_gap <= tol * self.objective

    @property
    def lower_bound(self) -> float:
        """What no coefficients can go below."""
        return self.objective - self.dual_gap


@dataclass(frozen=True)
class Solution(Certificate):
    """The answer of a solver: a certificate, and how it was come by.

    Attributes
    ----------
    n_iter : int
        Newton steps, passes over the data, or LIBSVM's iterations.
    stop_reason : StopReason
    smoothing : float
        The smoothing the exact solver ended with: where a warm start begins.
    """

    n_iter: int
    stop_reason: StopReason
    smoothing: float = 0.0

    @classmethod
    def of(
        cls, certificate: Certificate, *, tol: float, n_iter: int, otherwise: StopReason, smoothing: float = 0.0
    ) -> Solution:
        """Return a certificate as a solution: converged if it reaches the tolerance, ``otherwise`` if not."""
        reason = StopReason.CONVERGED if certificate.reaches(tol) else otherwise
        c = certificate
        return cls(
            c.coef, c.intercept, c.density, c.threshold, c.objective, c.dual_gap, n_iter, reason, smoothing
        )  # fmt: skip

    def moved_to(self, certificate: Certificate, tol: float) -> Solution:
        """Return this solution with other coefficients and their certificate.

        What was proved here bounds the optimum from below wherever one stands, so the better of both bounds counts.
        """
        gap = max(certificate.objective - self.lower_bound, 0.0)
        if gap < certificate.dual_gap:
            certificate = replace(certificate, density=self.density, dual_gap=gap)
        otherwise = StopReason.STALLED if self.stop_reason is StopReason.CONVERGED else self.stop_reason
        solution = Solution.of(certificate, tol=tol, n_iter=self.n_iter, otherwise=otherwise)
        return replace(solution, smoothing=self.smoothing)
