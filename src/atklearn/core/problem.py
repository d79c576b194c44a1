"""The objective of linear models, stated once, with its value, its certificate, and what every solver returns.

    minimise over w, b:   AT_k(l_1, ..., l_n) + |w|^2 / (2 C),      l_i = l(x_i . w + b, y_i)

``AT_k`` is the mean of the k largest losses, so C does not change its meaning with k. Equation 3 of the paper divides
the top-k sum by n instead; :func:`atklearn.theory.paper_C` converts. In terms of sample weights,

    AT_k(l) = max over q of sum(q * l),   0 <= q_i <= mass_i / k,  sum(q) <= 1,

and any such q gives a lower bound of the optimum, because the q-weighted objective G is strongly convex in w:

    F* >= min G >= G(w, b) - C/2 |grad_w G|^2      where the b-derivative of G is zero.

The certificate is F(w, b) minus that bound. It needs no conjugates, so every convex loss has it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from atklearn.core.coordinates import Coordinates
from atklearn.core.point import Point, Proof
from atklearn.core.store import ArrayStore, Density, Store
from atklearn.losses.aggregate import top_sum
from atklearn.losses.individual import Array, IndividualLoss
from atklearn.runtime.compiling import FAST_SUMS, njit_if_there

__all__ = ["Certificate", "InterceptKind", "Problem", "Progress", "Solution", "Start", "StopReason"]

# Called after every move with the steps so far, the objective and the gap; a true answer stops the solver.
Progress: TypeAlias = Callable[[int, float, float], bool | None]

_ROUNDING = 1e-13
_NEGLIGIBLE = 1e-9  # of what is certified
_UNIT = 2.0**-53  # by which a sum or product is rounded, relative


class StopReason(StrEnum):
    """Why a solver stopped."""

    CONVERGED = "the duality gap reached the tolerance"
    MAX_ITER = "the iteration limit was reached"
    STALLED = "no further progress is possible in floating-point arithmetic"
    ROUNDING = "no more can be certified in floating-point arithmetic"
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
    rounding : float
        The part of it that rounding makes, which no further step makes smaller.
    """

    coef: Array
    intercept: float
    density: Any
    threshold: float
    objective: float
    dual_gap: float
    rounding: float = field(default=0.0, kw_only=True)

    def beats(self, value: float) -> bool:
        """Whether the objective is below a value, such as that of saying nothing, by more than rounding."""
        return self.objective < value * (1.0 - _ROUNDING)

    def reaches(self, tol: float) -> bool:
        """Whether the gap is at most ``tol`` times the objective."""
        return self.dual_gap <= tol * self.objective

    def is_exhausted(self, tol: float) -> bool:
        """Whether it is rounding that keeps the gap from ``tol`` times the objective."""
        least = max(tol * self.objective, 0.1 * self.rounding)
        return self.rounding > tol * self.objective and self.dual_gap - self.rounding <= least

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
        if reason is StopReason.STALLED and certificate.is_exhausted(tol):
            reason = StopReason.ROUNDING
        c = certificate
        return cls(
            c.coef, c.intercept, c.density, c.threshold, c.objective, c.dual_gap, n_iter, reason, smoothing,
            rounding=c.rounding,
        )  # fmt: skip

    @property
    def is_final(self) -> bool:
        """Whether there is nothing to go on for: it is solved, as far as floating point goes, or was stopped."""
        return self.stop_reason in (StopReason.CONVERGED, StopReason.ROUNDING, StopReason.CALLBACK)

    def followed_by(self, then: Solution, tol: float) -> Solution:
        """Return the lower of this solution and one that was reached from it, with the better of their bounds."""
        lower, other = (then, self) if then.objective <= self.objective else (self, then)
        found = replace(other, stop_reason=then.stop_reason).moved_to(lower, tol)
        return replace(found, n_iter=self.n_iter + then.n_iter, smoothing=then.smoothing)

    def moved_to(self, certificate: Certificate, tol: float) -> Solution:
        """Return this solution with other coefficients and their certificate.

        What was proved here bounds the optimum from below wherever one stands, so the better of both bounds counts.
        """
        gap = max(certificate.objective - self.lower_bound, 0.0) + certificate.rounding
        if gap < certificate.dual_gap:
            certificate = replace(certificate, density=self.density, dual_gap=gap)
        is_over = self.stop_reason in (StopReason.CONVERGED, StopReason.ROUNDING)
        otherwise = StopReason.STALLED if is_over else self.stop_reason
        solution = Solution.of(certificate, tol=tol, n_iter=self.n_iter, otherwise=otherwise)
        return replace(solution, smoothing=self.smoothing)


@dataclass(frozen=True)
class Start:
    """Where to begin: coefficients, and densities and smoothing as far as they are known.

    Attributes
    ----------
    coef : ndarray
    density : Density or None
    smoothing : float or None
    is_informed : bool
        Whether it is the solution of a neighbour, or on a part of the rows.
    """

    coef: Array
    density: Density | None = None
    smoothing: float | None = None
    is_informed: bool = False


# From this many rows on, one in so many of them gives the start.
LARGE = 50_000
THINNING = 20

InterceptKind: TypeAlias = Literal["free", "penalized", "none"]


class Problem:
    """The AT_k objective on given rows.

    Parameters
    ----------
    rows : Store
        With a column of ones unless ``intercept="none"``.
    k : float
        Amount of mass in the top, ``0 < k <= rows.total``.
    C : float
    intercept : {"free", "penalized", "none"}
    units : Coordinates, default=None
        Of the rows, if they are not the user's: the penalty is that of the weights in the user's units.

    Attributes
    ----------
    free : int, ndarray or None
        The entries of the coefficients that are not penalised, one for each output.
    ridge : ndarray of shape (n_columns,)
        The penalty is ``sum(ridge * z**2) / 2``.
    """

    def __init__(
        self, rows: Store, k: float, C: float, intercept: InterceptKind, units: Coordinates | None = None
    ) -> None:
        self.rows = rows
        self.units = units
        self.k = k
        self.C = C
        self.intercept = intercept
        self.free = rows.ones if intercept == "free" else None

    @property
    def loss(self) -> IndividualLoss:
        """The individual loss."""
        return self.rows.loss

    @cached_property
    def ridge(self) -> Array:
        """The weights of the penalty."""
        ridge = np.full(self.rows.n_columns, 1.0 / self.C)
        if self.units is not None:
            ridge *= self.rows.join(self.units.scale**-2.0, 1.0)
        if self.free is not None:
            ridge[self.free] = 0.0
        return ridge

    @cached_property
    def _inverse_ridge(self) -> Array:
        return np.divide(1.0, self.ridge, out=np.zeros_like(self.ridge), where=self.ridge > 0.0)

    def conditioned(self) -> Problem | None:
        """Return the same problem in better coordinates, or None if its own are good enough."""
        found = self.rows.conditioned(centred=self.free is not None) if self.units is None else None
        return None if found is None else Problem(found[0], self.k, self.C, self.intercept, found[1])

    def in_even_units(self) -> Problem | None:
        """Return the problem in units in which rounding does least harm, or None if it is so already."""
        if self.units is not None or not isinstance(self.rows, ArrayStore):
            return None
        found = self.rows.in_even_units(centred=self.free is not None)
        return None if found is None else Problem(found[0], self.k, self.C, self.intercept, found[1])

    @property
    def is_exact(self) -> bool:
        """Whether what is certified in the coordinates of the rows holds in the user's to the last digits."""
        return self.units is None or self.units.is_exact

    def inward(self, coef: Array) -> Array:
        """Return coefficients in the units of the rows, for given ones in the user's."""
        return coef if self.units is None else self.rows.join(*self.units.inward(*self.rows.split(coef)))

    def outward(self, coef: Array) -> Array:
        """Return coefficients in the user's units, for given ones in those of the rows."""
        return coef if self.units is None else self.rows.join(*self.units.outward(*self.rows.split(coef)))

    @property
    def is_quadratic(self) -> bool:
        """Whether one exact Newton step solves the problem."""
        return self.loss.quadratic and self.k >= self.rows.total * (1.0 - 1e-12)

    def on(self, rows: Store, k: float) -> Problem:
        """Return the problem on other rows, with their own k."""
        return Problem(rows, k, self.C, self.intercept, self.units)

    @property
    def is_large(self) -> bool:
        """Whether a part of the rows is so much quicker to solve that it is worth to start from."""
        return self.rows.n_rows >= max(LARGE, self.rows.min_efficient_rows)

    def thinned(self, n_rows: int, least_k: float = 0.0) -> Problem:
        """Return the problem on a random part of the rows, with k in proportion, or ``least_k`` if that is more.

        It is statistically close to the whole, and cheap.
        """
        rows = self.rows.sample(n_rows)
        return self.on(rows, min(max(self.k * rows.total / self.rows.total, least_k), rows.total))

    def at(self, k: float, C: float) -> Problem:
        """Return the problem on the same rows with another k and C."""
        return Problem(self.rows, k, C, self.intercept, self.units)

    def starting_from(self, solution: Solution) -> Solution | None:
        """Return what a former solution gives to start from; None if it has other columns."""
        if solution.coef.shape != (self.rows.n_columns,):
            return None
        return solution if self.rows.holds(solution.density) else replace(solution, density=None)

    def penalty(self, z: Array) -> float:
        """Return ``|w|^2 / (2 C)``, with the intercept if it is penalised."""
        return 0.5 * float(weighted_square(self.ridge, z))

    def stationarity(self, gradient: Array) -> float:
        """Return ``C/2 |gradient|^2`` over the penalised columns."""
        return 0.5 * float(weighted_square(self._inverse_ridge, gradient))

    def certify(self, z: Array, density: Density) -> Certificate:
        """Evaluate the objective exactly at ``z`` and bound its distance from the optimum with ``density``."""
        return self.certify_point(self.rows.point(z, self.k, density))

    def certify_point(self, point: Point) -> Certificate:
        """Do the same at a point with its own densities."""
        return self.conclude(point.z, point.prove(balanced=self.free is not None))

    def conclude(self, z: Array, proof: Proof) -> Certificate:
        """Return what a proof at ``z`` says of the objective."""
        objective = proof.value + self.penalty(z)
        gradient = self.ridge * z + proof.gradient
        of_value, of_bound = self._rounding(z, gradient, proof)
        # losses are never negative, so that the penalty, or zero, is a bound as well
        gap = min(max(self.stationarity(gradient) + proof.slack, 0.0) + of_bound, objective)
        of_value += z.size * _UNIT * objective
        gap += of_value
        return Certificate(
            z, 0.0, proof.density, proof.threshold, objective, gap, rounding=min(of_value + of_bound, gap)
        )

    def _rounding(self, z: Array, gradient: Array, proof: Proof) -> tuple[float, float]:
        """Return how far, at most, rounding can have moved the objective and its bound from what is exact at z.

        A sum of p products is off by no more than ``p u sum(|x| |z|)``, ``u = 2^-53``. In the objective such an error
        of every prediction counts with ``sum(u |s'|)`` at most, in the tangents of the bound with ``sum(u |r s'|)``;
        errors of the gradient count by what they add to ``C/2 |gradient|^2``, and along a free intercept by how far it
        may be off. Those of sums over n rows are as good as never above ``4 sqrt(n) u`` (Higham and Mary, 2019). To
        add an intercept to nothing rounds nothing. The largest entries of X say what is enough nearly always; where it
        is not, every entry is looked at.
        """
        rows = self.rows
        n_terms = min(int(np.count_nonzero(rows.split(z)[0])), rows.most_terms)
        relative = (n_terms + 4) * _UNIT if n_terms else 0.0
        reach = float(rows.largest_entries @ np.abs(z))

        def of_bound(sizes: Array) -> float:
            off = (min(rows.n_rows, 4.0 * np.sqrt(rows.n_rows)) + 4.0) * _UNIT * sizes
            total = 2.0 * relative * float(sizes @ np.abs(z))
            total += float((self._inverse_ridge * (np.abs(gradient) + 0.5 * off)) @ off)
            if self.free is not None:
                total += float(np.sum(off[self.free])) * (reach + max(map(abs, rows.target_range)))
            return total

        found = proof.steepness * relative * reach, of_bound(proof.pull * rows.largest_entries)
        if sum(found) <= _NEGLIGIBLE * proof.value or not (isinstance(rows, ArrayStore) and rows.is_gatherable):
            return found
        s, slope, _ = rows.expand_at(z)
        mass = rows.mass / self.k
        of_rows, of_columns = rows.sizes_at(z, mass * proof.density * slope)
        off = relative * np.abs(slope) * of_rows
        raised = np.abs(s) + off if rows.kink.is_two_sided else rows.kink.loss(s + off)
        return max(top_sum(raised, mass, 1.0) - proof.value, 0.0), of_bound(of_columns)

    def coefficients(self, certificate: Certificate) -> tuple[Array, float]:
        """Return the weights of the features and the intercept."""
        return self.rows.split(certificate.coef)

    def sample_weights(self, certificate: Certificate) -> Array:
        """Return the worst-case weights of the samples, shape (n_rows,)."""
        weights: Array = self.rows.sample_weights(certificate.density, self.k)
        return weights


@njit_if_there(cache=True, fastmath=FAST_SUMS, instead=lambda weights, v: (weights * v) @ v)
def weighted_square(weights, v):  # type: ignore[no-untyped-def]
    """Return ``sum(weights * v**2)``."""
    result = 0.0
    for j in range(v.size):
        result += weights[j] * v[j] * v[j]
    return result
