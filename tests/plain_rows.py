"""What rows are: the interface of :mod:`atklearn.problems.rows` as plain as NumPy can say it.

Every other implementation must do what this one does; how fast, and what it keeps in memory, is its own affair. The
design matrix is dense and has its column of ones; every quantity is computed by its formula, from scratch; no array
is ever changed in place.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg.lapack import dtrttf

from atklearn.losses.individual import Array, IndividualLoss, Kink
from atklearn.problems.conditioning import Units, convert, helpful_units
from atklearn.problems.packed import PackedSymmetric
from atklearn.problems.rows import Curvature, Form, Part, Proof, Reading, Rows


class PlainRows:
    """The samples: X, targets, mass, and the loss they pay."""

    def __init__(self, X: Any, y: Array, mass: Array, loss: IndividualLoss, intercept: bool) -> None:
        X = X.toarray() if sp.issparse(X) else X
        self.design = np.hstack([np.asarray(X, dtype=np.float64), np.ones((len(y), int(intercept)))])
        self.y, self.mass, self.loss = y, mass, loss
        self.kink = Kink(loss.kink)
        self.n_rows, self.n_columns = self.design.shape
        self.ones = self.n_columns - 1 if intercept else None
        self.total = float(mass.sum())
        self.room, self.is_far, self.at_once = self.n_rows, False, 1
        self.is_dense = True

    def at(self, z: Array, k: float, density: Array | None = None) -> PlainPoint:
        """Return the point at z. Everyone alike means the densities of sum k, or none where there are two sides."""
        if density is None:
            density = np.full(self.n_rows, 0.0 if self.kink.is_two_sided else min(k / self.total, 1.0))
        return PlainPoint(self, z, k, density)

    def take(self, places: Any) -> PlainRows:
        """Return some of the rows."""
        X = self.design[:, : self.n_columns - (self.ones is not None)]
        return PlainRows(X[places], self.y[places], self.mass[places], self.loss, self.ones is not None)

    def sample(self, count: int) -> PlainRows:
        """Return one row from each of ``count`` equal parts."""
        count = min(count, self.n_rows)
        places = (np.arange(count) + np.random.default_rng(0).random(count)) * (self.n_rows / count)
        return self.take(places.astype(int))

    def conditioned(self, *, centred: bool) -> tuple[PlainRows, Units] | None:
        """Return the same samples in other units, if these are bad: the units are the same for all rows there are."""
        X = self.split(self.design.T)[0].T
        units = helpful_units(X, self.y, centred=centred, regression=self.loss.task == "regression")
        if units is None:
            return None
        return PlainRows(*convert(X, self.y, units), self.mass, self.loss, self.ones is not None), units

    @property
    def loss_at_zero(self) -> float:
        return self.loss.at_zero

    def paying(self, loss: IndividualLoss) -> PlainRows:
        other = copy.copy(self)
        other.loss, other.kink = loss, Kink(loss.kink)
        return other

    def mean_square(self) -> float:
        return float(self.mass @ np.sum(self.design**2, axis=1)) / self.total

    def ascent(self, k: float, C: float, density: Array | None = None, *, balanced: bool) -> PlainAscent | None:
        """Start a coordinate ascent if the smooth part of the loss is a line."""
        return None if self.kink is Kink.NONE else PlainAscent(self, k, C, density, balanced)

    def holds(self, density: Any) -> bool:
        return np.shape(density) == (self.n_rows,)

    def blend(self, terms: Any, k: float) -> Array:
        """Return a combination of densities: cut to their bounds, then scaled down if their sum is too large."""
        mixed = np.clip(sum(factor * r for factor, r in terms), -1.0 if self.kink.is_two_sided else 0.0, 1.0)
        return mixed / max(1.0, self.sample_weights(mixed, k).sum())

    def sample_weights(self, density: Array, k: float) -> Array:
        return self.mass / k * np.abs(density)

    def split(self, z: Array) -> tuple[Array, Any]:
        return (z, 0.0) if self.ones is None else (z[:-1], z[-1])

    def join(self, weights: Array, intercept: float) -> Array:
        return np.array(weights) if self.ones is None else np.append(weights, intercept)


class PlainPoint:
    """The rows at one z and one k. ``centre`` is where the proximal term pulls the densities ``r`` to."""

    def __init__(self, rows: PlainRows, z: Array, k: float, density: Array) -> None:
        self.rows, self.z, self.k, self.u = rows, z, k, rows.mass / k
        self.r = self.centre = density
        self.threshold = 0.0
        self.refresh()

    def refresh(self) -> None:
        self.predict(self.rows.design @ self.z)

    def predict(self, f: Array) -> None:
        """Take the predictions f, and the smooth parts of the losses there, with slope and curvature."""
        self.f = f
        self.s, self.slope, self.bend = self.rows.loss.expand(f, self.rows.y)

    @property
    def losses(self) -> Array:
        return self.rows.kink.loss(self.s)

    @property
    def a(self) -> Array:
        """How hard each sample pulls at its prediction: the derivative of the aggregate."""
        return self.u * self.r * self.slope

    def smooth(self, mu: float) -> Reading:
        return self.smooth_along(np.zeros(self.rows.n_rows), mu)

    def smooth_along(self, direction: Array, mu: float) -> Reading:
        """Find threshold and densities, and read off what a step needs; ``direction`` is that of the predictions.

        Without the cap on their sum, the best density is ``centre + s / mu``, cut to its bounds. The cap has a price
        ``lam`` (the threshold) per unit, which draws every density towards zero by ``lam / mu``, not beyond.
        """
        two_sided = self.rows.kink.is_two_sided
        side = np.where(two_sided & (self.centre + self.s / mu < 0.0), -1.0, 1.0)

        def sizes(lam: float) -> Array:
            return np.clip(side * self.centre + (side * self.s - lam) / mu, 0.0, 1.0)

        reach = side * (mu * self.centre + self.s)  # the price at which a density is zero; at mu less it is one
        lam = self.threshold = _price(lambda price: self.u @ sizes(price), np.append(reach, reach - mu))
        self.r = side * sizes(lam)

        bound, slack = self.lemma(lam, self.r)
        pull, push, heavier = self.sides()
        given_up = 0.0 if pull == push else 1.0 - min(pull, push) / max(pull, push)
        size, u = np.abs(self.r), self.u
        mean = np.average(self.s, weights=u)
        return Reading(
            threshold=lam,
            bound=bound,
            slack=slack,
            push=pull - push,
            imbalance=given_up * (u * np.abs(self.r * self.s))[heavier].sum(),
            steepness=float(self.a @ direction),
            moving=u[(size > 0.0) & (size < 1.0)].sum() if lam > 0.0 else 0.0,
            deviation=np.sqrt(np.average((self.s - mean) ** 2, weights=u)),
            size=np.average(np.abs(self.s), weights=u),
        )

    def lemma(self, lam: float, r: Array) -> tuple[float, float]:
        """Return the bound of Lemma 1 and its excess over ``sum(u r s)``, as terms >= 0, so that nothing cancels."""
        over, size = np.maximum(self.losses - lam, 0.0), np.abs(r)
        slack = self.u @ (over - r * self.s + lam * size) + lam * max(1.0 - self.u @ size, 0.0)
        return float(lam + self.u @ over), float(slack)

    def sides(self) -> tuple[float, float, Any]:
        """Return how hard the samples pull the predictions down and up in all, and which are on the heavier side."""
        pull, push = np.maximum(self.a, 0.0).sum(), np.maximum(-self.a, 0.0).sum()
        return pull, push, self.a > 0.0 if pull > push else self.a < 0.0

    def recentre(self) -> None:
        self.centre = self.r

    def densities(self) -> Array:
        return self.r

    def reach(self) -> float:
        return float(np.ptp(np.append(self.f, self.rows.y)))

    def shift(self, amount: float) -> None:
        self.z = self.z + amount * (np.arange(self.z.size) == self.rows.ones)
        self.predict(self.f + amount)

    def towards(self, direction: Array) -> PlainRay:
        return PlainRay(self, direction)

    def gradient(self) -> Array:
        return self.rows.design.T @ self.a

    def curvature(
        self,
        mu: float,
        *,
        form: Form,
        cautious: bool = False,
        most: int | None = None,  # noqa: ARG002
        seed: int = 0,  # noqa: ARG002
    ) -> Curvature:
        """Return the Hessian of all rows: ``most`` allows to leave some out, it does not ask for it.

        The gradient ``sum(u r s' x)`` moves in two ways: with s', at the rate s'' while r stays; and with r where it is
        between its bounds, by ``(s' dx - dlam) / mu``, dlam being what keeps the sum of the densities at its cap. The
        parabola that touches a loss and has the curvature ``s'^2 / (2 s)`` has its minimum at zero: being cautious
        is to take no flatter one, where losses have no kink and so are never negative.
        """
        bend = self.bend
        if cautious and self.rows.kink is Kink.NONE:
            bend = np.maximum(bend, self.slope**2 / np.maximum(2.0 * self.s, 1e-300))
        X, size = self.rows.design, np.abs(self.r)
        tied = (size > 0.0) & (size < 1.0)
        h = self.u * size * bend + tied * self.u * self.slope**2 / mu
        H = X.T @ (h[:, None] * X)
        if self.threshold > 0.0 and tied.any():
            g = X.T @ (tied * self.u * np.sign(self.r) * self.slope)
            H -= np.outer(g, g) / (mu * self.u[tied].sum())
        if form == "matrix":
            return Curvature(H, None, None, None, False, bool(tied.any()))
        if form == "packed":
            packed = PackedSymmetric(len(H))
            packed.numbers = dtrttf(H, uplo="L")[0]
            return Curvature(None, packed, None, None, False, bool(tied.any()))
        return Curvature(None, None, lambda v: H @ v, np.diag(H).copy(), False, bool(tied.any()))

    def prove(self, *, balanced: bool) -> Proof:
        """Return AT_k by sorting, and densities near r: less on the heavier side, less of all if they are too many.

        A tangent of a convex loss is below it wherever it touches, so the sum of tangents at f, weighted by u r, is
        below AT_k at every z: at this z, where AT_k is that of fresh predictions, it is ``sum(u r s) + a . (X z - f)``.
        """
        r = self.r
        pull, push, heavier = self.sides()
        if balanced and pull != push:
            r = np.where(heavier, min(pull, push) / max(pull, push) * r, r)
        r = r / max(self.u @ np.abs(r), 1.0)
        a = self.u * r * self.slope
        fresh = PlainPoint(self.rows, self.z, self.k, r)
        threshold = fresh.ranked_loss()
        value, slack = fresh.lemma(threshold, r)  # the bound is AT_k itself at the k-th largest loss
        slack += float(self.u @ (r * (fresh.s - self.s)) - a @ (fresh.f - self.f))
        return Proof(value, threshold, slack, self.rows.design.T @ a, r)

    def ranked_loss(self) -> float:
        """Return the k-th largest loss."""
        order = np.argsort(-self.losses, kind="stable")
        filled = np.cumsum(self.rows.mass[order])
        last = min(np.searchsorted(filled, self.k * (1.0 - 1e-12)), filled.size - 1)
        return float(self.losses[order[last]])

    def largest(self, count: int, *, beside: Part | None = None, above: float = 0.0) -> PlainPart:
        order = np.argsort(-self.losses, kind="stable")
        if beside is None:
            return PlainPart(self.rows, np.sort(order[: max(count, 1)]))
        there = beside.restrict(np.arange(self.rows.n_rows))
        others = order[(self.losses[order] > above) & ~np.isin(order, there)]
        return PlainPart(self.rows, np.sort(np.append(there, others[:count])))


class PlainRay:
    """A half-line from a point: the point itself stays until the ray lands."""

    def __init__(self, point: PlainPoint, direction: Array) -> None:
        self.point, self.direction = point, direction
        self.f_direction = point.rows.design @ direction

    def at(self, t: float, mu: float) -> Reading:
        self.there = copy.copy(self.point)
        self.there.z = self.point.z + t * self.direction
        self.there.predict(self.point.f + t * self.f_direction)
        return self.there.smooth_along(self.f_direction, mu)

    def land(self) -> None:
        vars(self.point).update(vars(self.there))


class PlainAscent:
    """Coordinate ascent on ``sum(u r s_0) - sum(give (X^T (u r s'))^2) / 2``; ``z = -give X^T (u r s')`` all along.

    A free intercept gives way a little within a sweep and is the multiplier of ``sum(u r s') = 0`` between two. It
    starts from the given densities, or from everyone's, in the amount that is best for the dual.
    """

    def __init__(self, rows: PlainRows, k: float, C: float, density: Array | None, balanced: bool) -> None:
        self.rows, self.balanced, self.random = rows, balanced, np.random.default_rng(0)
        start = rows.at(np.zeros(rows.n_columns), k)
        self.u, self.s, self.slope = rows.mass / k, start.s, start.slope
        self.low = -1.0 if rows.kink.is_two_sided else 0.0
        self.give = np.full(rows.n_columns, C)
        if balanced:
            self.give[-1] = 2.0 * C * np.sum(rows.design[:, :-1] ** 2, axis=1).mean() / rows.n_rows
        middle = float(np.median(self.s)) if rows.kink.is_two_sided and balanced else 0.0
        if density is None:
            density = np.sign(self.s - middle) if rows.kink.is_two_sided else np.ones(rows.n_rows)
        here = PlainPoint(rows, np.zeros(rows.n_columns), k, density)
        density = here.prove(balanced=balanced).density
        pull = rows.design.T @ (self.u * density * self.slope)
        value, steepness = (self.u * density) @ self.s, pull @ (self.give * pull)
        self.density = density * min(max(value, 0.0) / steepness, 1.0 / np.abs(density).max())
        self.multiplier = middle

    @property
    def z(self) -> Array:
        """The coefficients; a free intercept is its multiplier, less what it has given way since."""
        z = -self.give * (self.rows.design.T @ (self.u * self.density * self.slope))
        return z if not self.balanced else np.append(z[:-1], z[-1] + self.multiplier)

    def sweep(self) -> float:
        """Maximise over each density."""
        for i in self.random.permutation(self.rows.n_rows):
            x = self.rows.design[i]
            value = self.s[i] + self.slope[i] * (x @ self.z)
            curvature = self.u[i] * self.slope[i] ** 2 * (self.give @ x**2)
            changed = self.density.copy()
            changed[i] = np.clip(self.density[i] + value / curvature, self.low, 1.0)
            self.density = changed
        if self.balanced:
            # z holds multiplier - give * sum(a); that becomes the multiplier, and gives way anew
            self.multiplier = float(self.z[-1])
        return float(self.u @ np.abs(self.density))


class PlainPart:
    """Some of the rows, and their places among all."""

    def __init__(self, whole: PlainRows, places: Any) -> None:
        self.whole, self.places = whole, places
        self.rows: Rows = whole.take(places)

    def restrict(self, density: Array) -> Array:
        return density[self.places]

    def extend(self, density: Array) -> Array:
        out = np.zeros(self.whole.n_rows)
        out[self.places] = density
        return out


def _price(total: Any, corners: Array) -> float:
    """Return the least ``lam >= 0`` with ``total(lam) <= 1``: total falls, in straight lines between its corners."""
    if total(0.0) <= 1.0 + 1e-11:
        return 0.0
    corners = np.append(0.0, np.sort(corners[corners > 0.0]))
    low, high = 0, corners.size - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if total(corners[middle]) > 1.0 else (low, middle)
    too_much, enough = total(corners[low]), total(corners[high])
    return float(corners[low] + (corners[high] - corners[low]) * (too_much - 1.0) / (too_much - enough))
