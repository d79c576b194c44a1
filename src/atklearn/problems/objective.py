"""The objective, stated once, with its value and its certificate.

    minimise over w, b:   AT_k(l_1, ..., l_n) + |w|^2 / (2 C),      l_i = l(x_i . w + b, y_i)

``AT_k`` is the mean of the k largest losses, so C does not change its meaning with k. Equation 3 of the paper divides
the top-k sum by n instead; :func:`paper_C` converts. In terms of sample weights,

    AT_k(l) = max over q of sum(q * l),   0 <= q_i <= mass_i / k,  sum(q) <= 1,

and any such q gives a lower bound of the optimum, because the q-weighted objective G is strongly convex in w:

    F* >= min G >= G(w, b) - C/2 |grad_w G|^2      where the b-derivative of G is zero.

The certificate is F(w, b) minus that bound. It needs no conjugates, so every convex loss has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numba
import numpy as np

from atklearn.losses.aggregate import ranked_loss, resolve_k
from atklearn.problems.design import FAST_SUMS, Design, Rows
from atklearn.losses.individual import Array, IndividualLoss

__all__ = ["Certificate", "InterceptKind", "Problem", "paper_C"]

InterceptKind: TypeAlias = Literal["free", "penalized", "none"]

# Predictions whose losses are expanded at once, so that the temporaries stay in the cache.
BLOCK = 8192


def paper_C(C: float, k: float, n_samples: int) -> float:
    """Convert a C of this library to the C of the paper's Eq. 3, which divides the top-k sum by n.

    Parameters
    ----------
    C : float
        Regularisation strength of ``AT_k + |w|^2 / (2 C)``.
    k : int or float
        As in :func:`atklearn.losses.aggregate.resolve_k`.
    n_samples : int

    Examples
    --------
    >>> paper_C(1.0, k=50, n_samples=200)
    4.0
    """
    return C * n_samples / resolve_k(k, n_samples)


@dataclass(frozen=True)
class Certificate:
    """Primal value, threshold and certified duality gap at a point, and the density that proves it."""

    objective: float
    threshold: float
    gap: float
    density: Array


class Problem:
    """The AT_k objective on given data.

    Parameters
    ----------
    design : Design
        X, with the column of ones unless ``intercept="none"``.
    y : ndarray of shape (n_rows,)
        Targets; -1 and +1 for classification losses.
    mass : ndarray of shape (n_rows,)
        Sample weights > 0.
    k : float
        Amount of mass in the top, ``0 < k <= mass.sum()``.
    loss : IndividualLoss
    C : float
    intercept : {"free", "penalized", "none"}
    """

    def __init__(
        self, design: Design, y: Array, mass: Array, k: float, loss: IndividualLoss, C: float, intercept: InterceptKind
    ) -> None:
        self.design = design
        self.y = y
        self.mass = mass
        self.k = k
        self.loss = loss
        self.C = C
        self.intercept = intercept
        self.u = mass / k
        self.two_sided = loss.kink == "absolute"
        self.ridge = np.full(design.n_columns, 1.0 / C)
        if intercept == "free":
            self.ridge[-1] = 0.0

    @property
    def n_rows(self) -> int:
        """Number of samples."""
        return self.design.n_rows

    @property
    def has_free_intercept(self) -> bool:
        """Whether the last column is not penalised."""
        return self.intercept == "free"

    @property
    def is_quadratic(self) -> bool:
        """Whether one exact Newton step solves the problem."""
        return self.loss.quadratic and self.k >= self.mass.sum() * (1.0 - 1e-12)

    def take(self, rows: Rows, k: float) -> Problem:
        """Return the problem on some of the rows, with its own k."""
        return Problem(self.design.take(rows), self.y[rows], self.mass[rows], k, self.loss, self.C, self.intercept)

    def at(self, k: float, C: float) -> Problem:
        """Return the problem on the same data with another k and C."""
        return Problem(self.design, self.y, self.mass, k, self.loss, C, self.intercept)

    def expand(self, f: Array, s: Array, slope: Array) -> None:
        """Fill ``s`` and its derivative at predictions ``f``: the one elementwise pass over the losses."""
        for begin in range(0, f.size, BLOCK):
            part = slice(begin, begin + BLOCK)
            s[part], slope[part], _ = self.loss.expand(f[part], self.y[part])

    def penalty(self, z: Array) -> float:
        """Return ``|w|^2 / (2 C)``, with the intercept if it is penalised."""
        return 0.5 * float(self.ridge @ (z * z))

    def stationarity(self, gradient: Array) -> float:
        """Return ``C/2 |gradient|^2`` over the penalised columns."""
        penalized = gradient[:-1] if self.has_free_intercept else gradient
        return 0.5 * self.C * float(penalized @ penalized)

    def certify(self, z: Array, density: Array, expanded: tuple[Array, Array] | None = None) -> Certificate:
        """Evaluate the objective exactly at ``z`` and bound its distance from the optimum with ``density``.

        With a free intercept the weights of one side are scaled down until the b-derivative vanishes: they stay
        feasible, since ``sum(q) <= 1`` may be slack, and the bound needs no guess of where the optimal intercept
        lies.
        """
        if expanded is None:
            s, slope = np.empty((2, self.n_rows))
            self.expand(self.design.predict(z) if z.any() else np.zeros(self.n_rows), s, slope)
        else:
            s, slope = expanded
        threshold = ranked_loss(self.loss_values(s), self.mass, self.k)
        if self.has_free_intercept:
            pull, push, _ = intercept_balance(s, density, self.u, self.u * density * slope)
            heavier = 1.0 if pull > push else -1.0
            scale = min(pull, push) / max(pull, push) if pull != push else 1.0
            density = np.where(np.sign(density * slope) == heavier, density * scale, density)
        density = density / max(1.0, float(self.u @ np.abs(density)))  # feasible beyond rounding
        gradient = self.ridge * z + self.design.pull_back(self.u * density * slope)
        value, slack = bound_and_slack(s, density, self.u, threshold, self.two_sided)
        return Certificate(value + self.penalty(z), threshold, self.stationarity(gradient) + slack, density)

    def loss_values(self, s: Array) -> Array:
        """Return the losses from their smooth parts ``s``."""
        if self.loss.kink == "none":
            return s
        return np.abs(s) if self.two_sided else np.maximum(s, 0.0)


@numba.njit(cache=True, fastmath=FAST_SUMS)
def bound_and_slack(s, r, u, lam, two_sided):  # type: ignore[no-untyped-def]
    """Return the bound of Lemma 1, ``lam + sum(u * [l - lam]_+) >= AT_k(l)``, and its excess over ``sum(u * r * s)``.

    The excess is summed from terms that are each >= 0, so it does not cancel. Both are exact at ``lam = l_[k]``.
    """
    above = 0.0
    slack = 0.0
    mass = 0.0
    for i in range(s.size):
        over = max((abs(s[i]) if two_sided else s[i]) - lam, 0.0)
        above += u[i] * over
        slack += u[i] * (over - (r[i] * s[i] - lam * abs(r[i])))
        mass += u[i] * abs(r[i])
    return lam + above, slack + lam * max(1.0 - mass, 0.0)


@numba.njit(cache=True, fastmath=FAST_SUMS)
def intercept_balance(s, r, u, a):  # type: ignore[no-untyped-def]
    """Return the b-derivatives ``a = u r s'`` pulling up and down, and what balancing them costs the bound."""
    pull = 0.0
    push = 0.0
    pull_value = 0.0
    push_value = 0.0
    for i in range(s.size):
        value = abs(u[i] * r[i] * s[i])
        if a[i] > 0.0:
            pull += a[i]
            pull_value += value
        else:
            push -= a[i]
            push_value += value
    if pull == push:
        return pull, push, 0.0
    if pull > push:
        return pull, push, (1.0 - push / pull) * pull_value
    return pull, push, (1.0 - pull / push) * push_value
