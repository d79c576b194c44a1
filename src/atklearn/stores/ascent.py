"""Coordinate ascent on the dual of losses with a kink: one row at a time, each visit exact.

The smooth part of such a loss is a line in the prediction, ``s = s_0 + s' f``, and the dual is quadratic in the
densities:

    D(r) = sum(u r s_0) - C/2 |X^T (u r s')|^2,     0 <= r <= 1   (|r| <= 1 for two-sided losses),

without the bound on ``sum(u |r|)``. With ``w = -C X^T (u r s')`` kept up to date, the derivative for one row is ``u
s`` and its curvature ``C u^2 s'^2 |x|^2``: a visit reads the row twice while it is in the cache, where a pass over X
reads it from memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from atklearn.core.point import Sides
from atklearn.losses.individual import Array
from atklearn.runtime import threads
from atklearn.runtime.compiling import njit
from atklearn.stores import passes
from atklearn.stores.passes import add, dot, square

__all__ = ["CompiledAscent"]


class CompiledAscent:
    """Densities on their way up.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    s, slope : ndarray of shape (n_rows,)
        The smooth part of the losses where all predictions are zero, and its derivative.
    u : ndarray of shape (n_rows,)
        Mass over k.
    C : float
    ones : bool
        Whether there is a column of ones.
    balanced : bool
        Whether it has no ridge. Its coefficient is then the multiplier of ``sum(u r s') = 0``, and moves by the method
        of multipliers after every sweep.
    two_sided : bool
    density : ndarray of shape (n_rows,), default=None
        Where to start; if None, everyone alike, or on the side of the target.
    """

    def __init__(
        self,
        X: Any,
        s: Array,
        slope: Array,
        u: Array,
        C: float,
        ones: bool,
        balanced: bool,
        two_sided: bool,
        density: Array | None = None,
    ) -> None:
        self.X, self.s, self.slope, self.u, self.C = X, s, slope, u, C
        self.ones, self.balanced, self.low = ones, balanced, -1.0 if two_sided else 0.0
        squares = np.empty(u.size)
        _squares(X, squares)
        # a free intercept gives way about as much as one row in n would make it
        self.give = 0.0 if not ones else 2.0 * C * float(squares.mean()) / u.size if balanced else C
        self.curvature = u * slope**2 * (C * squares + self.give)
        self.random = np.random.default_rng(0)
        middle = float(np.median(s)) if two_sided and balanced else 0.0
        self.intercept = middle
        if density is None:
            density = np.sign(s - middle) if two_sided else np.ones(u.size)
        self._start_from(density)

    def _start_from(self, density: Array) -> None:
        """Take these densities, in the amount that is best for the dual."""
        s, u, (feasible, pulls) = self.s, self.u, np.empty((2, self.u.size))
        sides = Sides(*threads.block_sums(passes.weigh_sides, 5, u.size, 1.0, u, density, self.slope).tolist())
        factors = sides.feasible(self.balanced)
        threads.over_rows(passes.scale_sides, u.size, 1.5, u, density, self.slope, *factors, feasible, pulls)
        gradient, total = pulls @ self.X, float(pulls.sum())
        steepness = self.C * float(gradient @ gradient) + (0.0 if self.balanced else self.give * total**2)
        value = float((u * feasible) @ s)
        amount = max(value, 0.0) / steepness if steepness > 0.0 else 1.0
        amount = min(amount, 1.0 / max(float(np.abs(feasible).max()), 1e-300))
        self.density = amount * feasible
        self.weights = -self.C * amount * gradient
        if not self.balanced:
            self.intercept = -self.give * amount * total

    @property
    def z(self) -> Array:
        """The coefficients of these densities."""
        return np.append(self.weights, self.intercept) if self.ones else self.weights.copy()

    def sweep(self) -> float:
        """Maximise over the density of each row once; return ``sum(u |r|)``."""
        order = self.random.permutation(self.u.size)
        self.intercept = _visit(
            self.X, order, self.s, self.slope, self.u, self.curvature, self.C, self.give, self.low, self.density,
            self.weights, self.intercept,
        )  # fmt: skip
        if self.balanced:
            self.intercept -= self.give * float((self.u * self.slope) @ self.density)
        return float(self.u @ np.abs(self.density))


@njit(cache=True, nogil=True, error_model="numpy")
def _squares(X, out):  # type: ignore[no-untyped-def]
    for i in range(out.size):
        out[i] = square(X, i)


@njit(cache=True, nogil=True, error_model="numpy")
def _visit(X, order, s, slope, u, curvature, C, give, low, r, w, b):  # type: ignore[no-untyped-def]
    """Visit the rows in the given order; return the coefficient of the column of ones."""
    for place in range(order.size):
        i = order[place]
        value = s[i] + slope[i] * (dot(X, i, w) + b)
        if curvature[i] <= 0.0:  # the row is zero: its loss does not change
            target = 1.0 if value > 0.0 else low
        else:
            target = min(max(r[i] + value / curvature[i], low), 1.0)
        change = u[i] * slope[i] * (target - r[i])
        if change != 0.0:
            r[i] = target
            add(X, i, -C * change, w)
            b -= give * change
    return b
