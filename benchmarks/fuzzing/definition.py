"""The objective written down anew, from its definition alone, and evaluated to the last digits.

    AT_k(l_1, ..., l_n) + |w|^2 / (2 C),      l_i = l(x_i . w + b, y_i)

Nothing here comes from the library under test. Small problems are evaluated in rational arithmetic. In others, products
are split without error (Dekker) and summed by ``math.fsum``, so that a margin or an error of prediction is the exact
one rounded once, whatever cancels in it: the value of a point needs no allowance for rounding beyond a few units in its
last place.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

CLASSIFICATION = ("log_loss", "hinge", "squared_hinge")
REGRESSION = ("squared_error", "absolute_error", "huber")
LOSSES = CLASSIFICATION + REGRESSION
INTERCEPTS = ("free", "penalized", "none")

# The largest second derivative of a loss in its prediction; where there is a kink, of its smooth pieces.
CURVATURE = {
    "log_loss": 0.25,
    "hinge": 0.0,
    "squared_hinge": 2.0,
    "squared_error": 2.0,
    "absolute_error": 0.0,
    "huber": 1.0,
}
_SPLITTER = 2.0**27 + 1.0


@dataclass(frozen=True)
class Point:
    """Weights and intercept."""

    w: Array
    b: float


@dataclass(frozen=True)
class Definition:
    """The problem as mathematics: dense rows of positive mass, targets (-1 and +1 for classes), k as an amount."""

    X: Array
    y: Array
    mass: Array
    k: float
    loss: str
    C: float
    intercept: str

    @property
    def is_classification(self) -> bool:
        """Whether the targets are classes."""
        return self.loss in CLASSIFICATION

    def residuals(self, point: Point) -> Array:
        """Return ``f - y`` for regression, ``-y f`` for the log loss, ``1 - y f`` for the hinges, rounded once."""
        main, rest = _two_products(self.X, point.w)
        terms = np.column_stack([main, rest, np.full(len(main), point.b)])
        if self.is_classification:
            terms *= -self.y[:, None]
            start = np.full(len(main), 0.0 if self.loss == "log_loss" else 1.0)
        else:
            start = -self.y
        return np.array([math.fsum(row) for row in np.column_stack([terms, start]).tolist()])

    def losses(self, point: Point) -> Array:
        """Return the loss of every row."""
        r = self.residuals(point)
        if self.loss == "log_loss":
            return np.log1p(np.exp(-np.abs(r))) + np.maximum(r, 0.0)
        if self.loss == "hinge":
            return np.maximum(r, 0.0)
        if self.loss == "squared_hinge":
            return np.maximum(r, 0.0) ** 2
        if self.loss == "squared_error":
            return r**2
        size = np.abs(r)
        return size if self.loss == "absolute_error" else np.where(size <= 1.0, 0.5 * size**2, size - 0.5)

    def slopes(self, point: Point) -> Array:
        """Return the size of the derivative of every row's loss in its prediction, the larger one at a kink."""
        r = self.residuals(point)
        if self.loss == "log_loss":
            return 1.0 / (1.0 + np.exp(np.minimum(-r, 700.0)))
        if self.loss == "squared_hinge":
            return 2.0 * np.maximum(r, 0.0)
        if self.loss == "squared_error":
            return 2.0 * np.abs(r)
        return np.minimum(np.abs(r), 1.0) if self.loss == "huber" else np.ones_like(r)

    def top_mean(self, values: Array) -> float:
        """Return AT_k of any values >= 0: sort, fill the mass k from the top, take the last row in part."""
        order = np.argsort(-values, kind="stable")
        left, terms = self.k, []
        for value, mass in zip(values[order].tolist(), self.mass[order].tolist(), strict=True):
            taken = min(mass, left)
            terms.append(taken / self.k * value)
            left -= taken
            if left <= 0.0:
                break
        return math.fsum(terms)

    def penalty(self, point: Point) -> float:
        """Return ``|w|^2 / (2 C)``, with the intercept where it is penalised."""
        squares = (point.w**2).tolist() + ([point.b**2] if self.intercept == "penalized" else [])
        return math.fsum(squares) / (2.0 * self.C)

    def value(self, point: Point) -> float:
        """Return the objective."""
        return self.top_mean(self.losses(point)) + self.penalty(point)

    def exact_value(self, point: Point) -> Fraction:
        """Return the objective in rational arithmetic, the log loss to fifty digits."""
        return self.exact_value_at([Fraction(value) for value in point.w.tolist()], Fraction(point.b))

    def exact_value_at(self, w: list[Fraction], b: Fraction) -> Fraction:
        """Return the objective of weights that are rational themselves."""
        rows = zip(self.X.tolist(), self.y.tolist(), self.mass.tolist(), strict=True)
        losses = [
            (self._exact_loss(sum((Fraction(x) * v for x, v in zip(row, w, strict=True)), b), Fraction(y)), Fraction(m))
            for row, y, m in rows
        ]
        left = k = Fraction(self.k)
        total = Fraction(0)
        for loss, mass in sorted(losses, reverse=True):
            taken = min(mass, left)
            total += taken * loss
            left -= taken
        squares = sum(v * v for v in w) + (b * b if self.intercept == "penalized" else 0)
        return total / k + squares / (2 * Fraction(self.C))

    def _exact_loss(self, prediction: Fraction, y: Fraction) -> Fraction:
        if self.loss == "log_loss":
            return _log_loss(y * prediction)
        if self.is_classification:
            violation = max(1 - y * prediction, Fraction(0))
            return violation if self.loss == "hinge" else violation**2
        error = abs(prediction - y)
        if self.loss == "squared_error":
            return error**2
        return error if self.loss == "absolute_error" else error**2 / 2 if error <= 1 else error - Fraction(1, 2)

    def ranked(self, losses: Array, amount: float) -> float:
        """Return the loss at which the mass from the top reaches the amount."""
        order = np.argsort(-losses, kind="stable")
        reached = np.cumsum(self.mass[order])
        return float(losses[order][min(int(np.searchsorted(reached, amount)), len(order) - 1)])


def _log_loss(margin: Fraction) -> Fraction:
    """Return ``log(1 + exp(-margin))`` to fifty digits."""
    with localcontext(Context(prec=50, Emin=-(10**9), Emax=10**9)):
        size = Decimal(abs(margin).numerator) / Decimal(margin.denominator)
        return Fraction((1 + (-size).exp()).ln()) + max(-margin, Fraction(0))


def _two_products(X: Array, w: Array) -> tuple[Array, Array]:
    """Return the rounded products and what rounding took from them (Dekker and Veltkamp)."""
    product = X * w
    X_high, X_low = _split(X)
    w_high, w_low = _split(w)
    return product, ((X_high * w_high - product) + X_high * w_low + X_low * w_high) + X_low * w_low


def _split(values: Array) -> tuple[Array, Array]:
    shifted = _SPLITTER * values
    high = shifted - (shifted - values)
    return high, values - high
