"""Rows in memory, dense or CSR, with every pass over them compiled: see :mod:`atklearn.problems.rows` for the meaning.

A Newton step is five calls: a ray, a look along it, the gradient, the Hessian's weights and its matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from atklearn.losses.individual import Array, IndividualLoss, Kink
from atklearn.problems import fused, hessian, passes, smoothing, threads
from atklearn.problems.ascent import CompiledAscent
from atklearn.problems.conditioning import Units, convert, helpful_units
from atklearn.problems.expansion import Losses, Paying
from atklearn.problems.features import Features
from atklearn.problems.picking import PickedRows, Places, largest_places
from atklearn.problems.ranking import ranked
from atklearn.problems.rotation import Rotation, is_worth_rotating, rotate
from atklearn.problems.rows import Curvature, Form, Proof, Reading

__all__ = ["CompiledPoint", "CompiledRows"]

# With more columns than this, what counts is that BLAS does half of a Hessian only.
_FEW_COLUMNS = 64
# From here on, a pass over X costs more than to look whether it is needed.
_MANY_ROWS = 10_000


class CompiledRows:
    """Samples in memory.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (n_rows, n_features)
        An array is C-ordered, of float32 or float64; every sum is accumulated in float64.
    y : ndarray of shape (n_rows,)
        Targets; -1 and +1 for classification losses.
    mass : ndarray of shape (n_rows,)
        Sample weights > 0.
    loss : IndividualLoss
    intercept : bool
        Whether there is a column of ones, which is never stored; it is the last.
    """

    def __init__(
        self,
        X: Any,
        y: Array,
        mass: Array,
        loss: IndividualLoss,
        intercept: bool,
        rotations: dict[bool, Rotation | None] | None = None,
    ) -> None:
        self.X = X.astype(np.float64, copy=False) if sp.issparse(X) else X
        self.y = y
        self.mass = mass
        self.loss = loss
        self.n_rows, self.n_features = (int(size) for size in X.shape)
        self.n_columns = self.n_features + intercept
        self.ones = self.n_features if intercept else None
        self.total = float(mass.sum())
        self.room, self.is_far, self.at_once = self.n_rows, False, 1
        least, most = threads.extremes(mass)
        self.each = least if least == most else None  # the mass of every row, if they are alike
        self.target_range = threads.extremes(y)
        self.paid = Paying(loss, y)
        self.kink, self.compiled_loss = self.paid.kink, self.paid.compiled_loss
        self.two_sided = self.kink.is_two_sided
        self.features = Features(self.X, intercept)
        self.is_dense = not self.features.is_sparse
        self._conditioned: dict[bool, tuple[CompiledRows, Units | Rotation] | None] = {}
        self._rotations = {} if rotations is None else rotations  # shared by all rows of the same X
        # So small that several passes are made in one call: the calls cost more than the passes.
        is_short = self.n_rows <= hessian.GRAM_BLOCK and self.n_columns <= _FEW_COLUMNS
        self.is_small = is_short and self.is_dense and self.compiled_loss is not None

    @cached_property
    def loss_at_zero(self) -> float:
        """What a classifier pays that says nothing."""
        return self.loss.at_zero

    def at(self, z: Array, k: float, density: Array | None = None) -> CompiledPoint:
        """Return the point at z."""
        u = threads.fill(np.empty(self.n_rows), np.divide, self.mass, k)
        if density is None:  # everyone alike, and no side taken by two-sided losses
            alike = 0.0 if self.two_sided else min(k / self.total, 1.0)
            density = threads.fill(np.empty(self.n_rows), np.positive, alike)
        return CompiledPoint(self, z, k, u, density)

    def take(self, places: Places) -> CompiledRows:
        """Return some of the rows."""
        X = self.features.take(places)
        return CompiledRows(X, self.y[places], self.mass[places], self.loss, self.ones is not None)

    def lighter(self, places: Places, mass: Array) -> CompiledRows:
        """Return some of the rows with other mass; coordinates that are good enough for all are so for these."""
        rows = CompiledRows(self.features.take(places), self.y[places], mass, self.loss, self.ones is not None)
        rows._conditioned = {centred: None for centred, found in self._conditioned.items() if found is None}
        return rows

    def smooth_parts(self, z: Array) -> Array:
        """Return ``s`` at z: the losses, but for the kink."""
        into = Losses(self.n_rows)
        self.predict_and_expand(z, into)
        return into.s

    def sample(self, count: int) -> CompiledRows:
        """Return one row from each of ``count`` equal parts: random, sorted, and without shuffling all of them."""
        count = min(count, self.n_rows)
        places = (np.arange(count) + np.random.default_rng(0).random(count)) * (self.n_rows / count)
        return self.take(places.astype(np.intp))

    def conditioned(self, *, centred: bool) -> tuple[CompiledRows, Units | Rotation] | None:
        """Return the same samples in better coordinates, or None if these are good enough."""
        if centred not in self._conditioned:
            units: Units | Rotation | None
            units = helpful_units(self.X, self.y, centred=centred, regression=self.loss.task == "regression")
            found: tuple[CompiledRows, Units | Rotation] | None = None
            rotation = self._rotation(units, centred)
            if rotation is not None:
                units = rotation.shifted(0.0 if units is None else units.shift)
                found = self._like(rotation.factor, self.y - units.shift, self.loss), units
            elif units is not None:
                found = self._like(*convert(self.X, self.y, units), self.loss), units
            self._conditioned[centred] = found
        return self._conditioned[centred]

    def _rotation(self, units: Units | None, centred: bool) -> Rotation | None:
        """Return the rotation into fewer columns, where that pays."""
        if not (self.is_dense and is_worth_rotating(self.n_rows, self.n_features)):
            return None
        if centred not in self._rotations:
            self._rotations[centred] = rotate(self.X, np.zeros(self.n_features) if units is None else units.centre)
        return self._rotations[centred]

    def paying(self, loss: IndividualLoss) -> CompiledRows:
        """Return the same samples with another loss."""
        return self._like(self.X, self.y, loss, self._rotations)

    def aiming_at(self, y: Array) -> CompiledRows:
        """Return the same samples with other targets."""
        return self._like(self.X, y, self.loss, self._rotations)

    def _like(
        self, X: Any, y: Array, loss: IndividualLoss, rotations: dict[bool, Rotation | None] | None = None
    ) -> CompiledRows:
        return CompiledRows(X, y, self.mass, loss, self.ones is not None, rotations)

    def mean_square(self) -> float:
        """Return the mean of ``|x|^2`` over the mass."""
        return self.features.weighted_squares(self.mass) / self.total + (self.ones is not None)

    def ascent(self, k: float, C: float, density: Array | None = None, *, balanced: bool) -> CompiledAscent | None:
        """Start a coordinate ascent on the dual, where there are losses and rows for it."""
        if not self.loss.linear or not self.is_dense:
            return None
        start = self.at(np.zeros(self.n_columns), k).here
        return CompiledAscent(
            self.X, start.s, start.slope, self.mass / k, C, self.ones is not None, balanced, self.two_sided, density
        )

    def holds(self, density: Array) -> bool:
        """Say whether densities are of as many rows."""
        return isinstance(density, np.ndarray) and density.shape == (self.n_rows,)

    def blend(self, terms: Sequence[tuple[float, Array]], k: float) -> Array:
        """Return a linear combination of densities, made feasible."""
        out = terms[0][0] * terms[0][1]
        for factor, density in terms[1:]:
            threads.over_rows(passes.add_scaled, self.n_rows, 1.0, factor, density, out)
        low = -1.0 if self.two_sided else 0.0
        size = float(threads.block_sums(passes.clip, 1, self.n_rows, 1.0, self.mass, low, out)[0])
        if size > k:
            out *= k / size
        return out

    def sample_weights(self, density: Array, k: float) -> Array:
        """Return ``u |r|``."""
        out = threads.fill(np.empty(self.n_rows), np.abs, density)
        threads.fill(out, np.multiply, out, self.mass)
        return threads.fill(out, np.divide, out, k)

    def split(self, z: Array) -> tuple[Array, float]:
        """Return the weights of the features and the intercept."""
        return self.features.split(z)

    def join(self, weights: Array, intercept: float) -> Array:
        """Return z from the weights of the features and the intercept."""
        return np.array(weights) if self.ones is None else np.append(weights, intercept)

    def predict(self, z: Array, out: Array) -> Array:
        """Fill ``out`` with the predictions."""
        return self.features.predict(*self.split(z), out)

    def pull_back(self, a: Array) -> Array:
        """Return ``X^T a``."""
        return self.features.pull_back(a)

    def predict_and_expand(self, z: Array, into: Losses) -> None:
        """Fill in the predictions of z, ``s`` and its slope."""
        if self.is_small:
            fused.predict_and_expand(self.compiled_loss, self.X, *self.split(z), self.y, into.f, into.s, into.slope)
        else:
            self.paid.expand(self.predict(z, into.f), 0.0, into.f, into)


class CompiledPoint:
    """The rows at one z and one k."""

    def __init__(self, rows: CompiledRows, z: Array, k: float, u: Array, density: Array) -> None:
        self.rows, self.z, self.k, self.u, self.centre = rows, z, k, u, density
        self.here = Losses(rows.n_rows)
        self.there: Losses | None = None  # where a ray looks
        self.f_direction: Array | None = None  # predictions of its direction
        self.own_centre: Array | None = None
        threads.fill(self.here.r, np.positive, density)
        self.refresh()

    def refresh(self) -> None:
        """Compute predictions and losses anew from z."""
        if self.rows.n_rows < _MANY_ROWS or self.z.any():
            self.rows.predict_and_expand(self.z, self.here)
        else:  # where cold starts begin: no pass over X
            f = self.here.f
            f.fill(0.0)
            self.rows.paid.expand(f, 0.0, f, self.here)
        self.is_fresh = True

    def smooth(self, mu: float) -> Reading:
        """Find threshold and densities."""
        return self.settle(self.here, mu, self.here.f)

    def settle(self, losses: Losses, mu: float, along: Array) -> Reading:
        """Find threshold and densities of some losses; the threshold here is the first guess."""
        reading = Reading(
            *smoothing.settle(
                losses.s, losses.slope, self.centre, self.u, mu, self.here.threshold, self.rows.two_sided, along,
                losses.r, losses.a,
            )
        )  # fmt: skip
        losses.threshold, losses.moving = reading.threshold, reading.moving
        return reading

    def recentre(self) -> None:
        """Make the densities the centre."""
        if self.own_centre is None:  # the first one may belong to the caller
            self.own_centre = np.empty(self.rows.n_rows)
        self.centre = threads.fill(self.own_centre, np.positive, self.here.r)

    def densities(self) -> Array:
        """Return the densities of the last smoothing."""
        return self.here.r.copy()

    def reach(self) -> float:
        """Return the length of the interval that holds all predictions and targets."""
        low, high = threads.extremes(self.here.f)
        return max(high, self.rows.target_range[1]) - min(low, self.rows.target_range[0])

    def shift(self, amount: float) -> None:
        """Move along the column of ones."""
        assert self.rows.ones is not None
        self.z = self.z.copy()
        self.z[self.rows.ones] += amount
        threads.fill(self.here.f, np.add, self.here.f, amount)
        self.is_fresh = False
        self.rows.paid.expand(self.here.f, 0.0, self.here.f, self.here)

    def towards(self, direction: Array) -> CompiledRay:
        """Return the ray in a direction."""
        if self.there is None:
            self.there = Losses(self.rows.n_rows)
        return CompiledRay(self, direction, self.there)

    def gradient(self) -> Array:
        """Return ``X^T (u r s')``."""
        return self.rows.pull_back(self.here.a)

    def curvature(
        self, mu: float, *, form: Form, cautious: bool = False, most: int | None = None, seed: int = 0
    ) -> Curvature:
        """Return the generalised Hessian of the smoothed loss."""
        rows, here = self.rows, self.here
        if form == "matrix" and rows.is_small and (most is None or rows.n_rows <= most):
            return fused.curvature_at_once(self, mu, cautious)
        picked, h, pulls, tied_mass, is_sampled = hessian.weighted_rows(
            rows.paid, here, self.u, mu, rows.n_columns, cautious=cautious, most=most, seed=seed
        )
        has_ties = tied_mass > 0.0
        rank_one = None
        if here.moving > 0.0:
            rank_one = rows.features.pull_back_rows(picked, pulls)
            # by no less than the moving mass of the rows that went in, or the matrix could turn indefinite
            rank_one /= np.sqrt(mu * max(here.moving, tied_mass))
        if form == "product":
            product, diagonal = hessian.operator(rows.features, picked, h, rank_one)
            return Curvature(None, None, product, diagonal, is_sampled, has_ties)
        if form == "packed":
            packed = hessian.packed_gram(rows.features, picked, h)
            if rank_one is not None:
                packed.add_gram(rank_one[None, :], -1.0)
            return Curvature(None, packed, None, None, is_sampled, has_ties)
        H = hessian.gram(rows.features, picked, h)
        if rank_one is not None:
            passes.subtract_rank_one(rank_one, H)
        return Curvature(H, None, None, None, is_sampled, has_ties)

    def prove(self, *, balanced: bool) -> Proof:
        """Return the exact aggregate and a feasible density near r."""
        rows, here, exact = self.rows, self.here, self.here
        if rows.is_small and rows.each is not None:
            return fused.prove_at_once(self, balanced)
        r, a = np.empty(rows.n_rows), np.empty(rows.n_rows) if self.there is None else self.there.a
        along = smoothing.make_feasible(here.f, here.slope, self.u, balanced, here.r, r, a)
        gradient = rows.pull_back(a)
        if not self.is_fresh:
            exact = self.there = self.there or Losses(rows.n_rows)
            rows.predict_and_expand(self.z, exact)
        threshold = self._ranked(exact.s)
        value, slack = smoothing.bound_and_slack(exact.s, r, self.u, threshold, rows.two_sided)
        if not self.is_fresh:
            slack += smoothing.weighted_change(self.u, r, exact.s, here.s)
            slack -= float(gradient @ self.z) - along  # a . (X z - f)
        return Proof(value, threshold, slack, gradient, r)

    def _ranked(self, s: Array) -> float:
        """Return the k-th largest loss."""
        rows = self.rows
        found = ranked(s, rows.mass, rows.each, self.k, two_sided=rows.two_sided)
        return max(found, 0.0) if rows.kink is Kink.POSITIVE_PART else found

    def largest(self, count: int, *, beside: Any = None, above: float = 0.0) -> PickedRows:
        """Return the rows with the largest losses."""
        losses = self.rows.kink.loss(self.here.s).copy()
        if beside is None:
            return PickedRows(self.rows, largest_places(losses, count))
        losses[beside.places] = -1.0
        count = min(count, int(np.count_nonzero(losses > above)))
        places = np.sort(np.concatenate([beside.places, largest_places(losses, count)])) if count else beside.places
        return PickedRows(self.rows, places)


class CompiledRay:
    """A half-line from a point."""

    def __init__(self, point: CompiledPoint, direction: Array, there: Losses) -> None:
        self.point, self.direction, self.there = point, direction, there
        if point.f_direction is None:
            point.f_direction = np.empty(point.rows.n_rows)
        self.f_direction = point.rows.predict(direction, point.f_direction)
        self.t = 0.0

    def at(self, t: float, mu: float) -> Reading:
        """Smooth the losses at ``z + t * direction``."""
        self.t = t
        if self.point.rows.is_small:
            return fused.look_at_once(self, mu)
        self.point.rows.paid.expand(self.point.here.f, t, self.f_direction, self.there)
        return self.point.settle(self.there, mu, self.f_direction)

    def land(self) -> None:
        """Move the point to where the ray was last looked at."""
        point = self.point
        point.z = point.z + self.t * self.direction
        point.here, point.there = self.there, point.here
        point.is_fresh = False
