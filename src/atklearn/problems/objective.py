"""The objective of linear models, stated once, with its value and its certificate.

    minimise over w, b:   AT_k(l_1, ..., l_n) + |w|^2 / (2 C),      l_i = l(x_i . w + b, y_i)

``AT_k`` is the mean of the k largest losses, so C does not change its meaning with k. Equation 3 of the paper divides
the top-k sum by n instead; :func:`paper_C` converts. In terms of sample weights,

    AT_k(l) = max over q of sum(q * l),   0 <= q_i <= mass_i / k,  sum(q) <= 1,

and any such q gives a lower bound of the optimum, because the q-weighted objective G is strongly convex in w:

    F* >= min G >= G(w, b) - C/2 |grad_w G|^2      where the b-derivative of G is zero.

The certificate is F(w, b) minus that bound. It needs no conjugates, so every convex loss has it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np

from atklearn.core.conditioning import Coordinates
from atklearn.core.point import Point, Proof
from atklearn.core.store import Density, Store
from atklearn.losses.aggregate import resolve_k
from atklearn.losses.compiling import FAST_SUMS, njit_if_there
from atklearn.losses.individual import Array, IndividualLoss
from atklearn.problems.solution import Certificate, Solution

__all__ = ["InterceptKind", "Problem", "paper_C"]

InterceptKind: TypeAlias = Literal["free", "penalized", "none"]


def paper_C(C: float, k: float, n_samples: int) -> float:
    """Convert a C of this library to the C of the paper's Eq. 3, which divides the top-k sum by n.

    Parameters
    ----------
    C : float
        Regularisation strength of ``AT_k + |w|^2 / (2 C)``.
    k : int or float
        An int counts samples, a float is the fraction of them.
    n_samples : int

    Returns
    -------
    paper_C : float
        ``C n / k``.

    Examples
    --------
    >>> from atklearn import paper_C
    >>> paper_C(1.0, k=50, n_samples=200)
    4.0
    """
    return C * n_samples / resolve_k(k, n_samples)


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
        gap = max(self.stationarity(self.ridge * z + proof.gradient) + proof.slack, 0.0)
        # losses are never negative, so that the penalty, or zero, is a bound as well
        return Certificate(z, 0.0, proof.density, proof.threshold, objective, min(gap, objective))

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
