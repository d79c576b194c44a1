"""Rows in memory, dense or CSR, with every pass over them compiled: see :mod:`atklearn.problems.rows` for the meaning.

A Newton step is five calls: a ray, a look along it, the gradient, the Hessian's weights and its matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from atklearn.losses.aggregate import ranked_loss
from atklearn.losses.compiled import compiled
from atklearn.losses.individual import Array, IndividualLoss, Kink
from atklearn.problems import fused, passes, smoothing
from atklearn.problems.access import readable
from atklearn.problems.conditioning import Units, convert, helpful_units
from atklearn.problems.picking import PickedRows, Places, largest_places, sample_runs
from atklearn.problems.rows import Curvature, Proof, Reading

__all__ = ["CompiledPoint", "CompiledRows"]

# Rows scaled at once for the Hessian: few enough for the cache, enough for BLAS.
_GRAM_BLOCK = 2048
# With more columns than this, what counts is that BLAS does half of a Hessian only.
_FEW_COLUMNS = 64
# From here on, a pass over X costs more than to look whether it is needed.
_MANY_ROWS = 10_000
# Predictions whose losses a loss without compiled code expands at once, so that its temporaries stay in the cache.
_BLOCK = 8192


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

    def __init__(self, X: Any, y: Array, mass: Array, loss: IndividualLoss, intercept: bool) -> None:
        self.X = X.astype(np.float64, copy=False) if sp.issparse(X) else X
        self.y = y
        self.mass = mass
        self.loss = loss
        self.n_rows, self.n_features = (int(size) for size in X.shape)
        self.n_columns = self.n_features + intercept
        self.ones = self.n_features if intercept else None
        self.total = float(mass.sum())
        self.each = float(mass[0]) if mass.min() == mass.max() else None  # the mass of every row, if they are alike
        self.target_range = float(y.min()), float(y.max())
        self.kink = Kink(loss.kink)
        self.two_sided = self.kink.is_two_sided
        self.readable = readable(self.X)
        self.compiled_loss = compiled(loss)
        # So small that several passes are made in one call: the calls cost more than the passes.
        is_short = self.n_rows <= _GRAM_BLOCK and self.n_columns <= _FEW_COLUMNS
        self.is_small = is_short and not sp.issparse(X) and self.compiled_loss is not None
        self._conditioned: dict[bool, tuple[CompiledRows, Units] | None] = {}

    @cached_property
    def loss_at_zero(self) -> float:
        """What a classifier pays that says nothing."""
        return self.loss.at_zero

    def at(self, z: Array, k: float, density: Array | None = None) -> CompiledPoint:
        """Return the point at z."""
        u = self.mass / k
        if density is None:  # everyone alike, and no side taken by two-sided losses
            density = np.full(self.n_rows, 0.0 if self.two_sided else min(k / self.total, 1.0))
        return CompiledPoint(self, z, k, u, density)

    def take(self, places: Places) -> CompiledRows:
        """Return some of the rows."""
        return CompiledRows(self.X[places], self.y[places], self.mass[places], self.loss, self.ones is not None)

    def sample(self, count: int) -> CompiledRows:
        """Return one row from each of ``count`` equal parts: random, sorted, and without shuffling all of them."""
        count = min(count, self.n_rows)
        places = (np.arange(count) + np.random.default_rng(0).random(count)) * (self.n_rows / count)
        return self.take(places.astype(np.intp))

    def conditioned(self, *, centred: bool) -> tuple[CompiledRows, Units] | None:
        """Return the same samples in units that harm less by rounding, or None if these are good enough."""
        if centred not in self._conditioned:
            units = helpful_units(self.X, self.y, centred=centred, regression=self.loss.task == "regression")
            found = None
            if units is not None:
                X, y = convert(self.X, self.y, units)
                found = CompiledRows(X, y, self.mass, self.loss, self.ones is not None), units
            self._conditioned[centred] = found
        return self._conditioned[centred]

    def paying(self, loss: IndividualLoss) -> CompiledRows:
        """Return the same samples with another loss."""
        return CompiledRows(self.X, self.y, self.mass, loss, self.ones is not None)

    def mean_square(self) -> float:
        """Return the mean of ``|x|^2`` over the mass."""
        return float(passes.weighted_squares(self.readable, self.mass)) / self.total + (self.ones is not None)

    def holds(self, density: Array) -> bool:
        """Say whether densities are of as many rows."""
        return np.shape(density) == (self.n_rows,)

    def blend(self, terms: Sequence[tuple[float, Array]], k: float) -> Array:
        """Return a linear combination of densities, made feasible."""
        out = terms[0][0] * terms[0][1]
        for factor, density in terms[1:]:
            passes.add_scaled(factor, density, out)
        passes.clip_to_mass(self.mass, k, -1.0 if self.two_sided else 0.0, out)
        return out

    def sample_weights(self, density: Array, k: float) -> Array:
        """Return ``u |r|``."""
        return self.mass / k * np.abs(density)

    def split(self, z: Array) -> tuple[Array, float]:
        """Return the weights of the features and the intercept."""
        return z[: self.n_features], 0.0 if self.ones is None else float(z[self.ones])

    def join(self, weights: Array, intercept: float) -> Array:
        """Return z from the weights of the features and the intercept."""
        return np.array(weights) if self.ones is None else np.append(weights, intercept)

    def predict(self, z: Array, out: Array) -> Array:
        """Fill ``out`` with the predictions."""
        passes.predict(self.readable, *self.split(z), out)
        return out

    def pull_back(self, a: Array) -> Array:
        """Return ``X^T a``."""
        out = np.empty(self.n_columns)
        total = passes.pull_back(self.readable, a, out[: self.n_features])
        if self.ones is not None:
            out[self.ones] = total
        return out

    def expand(self, start: Array, t: float, direction: Array, into: _Losses) -> None:
        """Fill in predictions ``start + t * direction``, ``s`` and its slope."""
        if self.compiled_loss is not None:
            passes.expand_along(self.compiled_loss, start, t, direction, self.y, into.f, into.s, into.slope)
            return
        into.f[:] = start + t * direction
        for begin in range(0, self.n_rows, _BLOCK):
            part = slice(begin, begin + _BLOCK)
            into.s[part], into.slope[part], _ = self.loss.expand(into.f[part], self.y[part])

    def predict_and_expand(self, z: Array, into: _Losses) -> None:
        """Fill in the predictions of z, ``s`` and its slope."""
        if self.is_small:
            fused.predict_and_expand(self.compiled_loss, self.X, *self.split(z), self.y, into.f, into.s, into.slope)
        else:
            self.expand(self.predict(z, into.f), 0.0, into.f, into)

    def curvatures(self, f: Array, rows: Places) -> Array:
        """Return the second derivatives of ``s`` for some rows."""
        if self.compiled_loss is None:
            return np.asarray(self.loss.expand(f[rows], self.y[rows])[2], dtype=np.float64)
        out = np.empty(rows.size)
        passes.curvatures(self.compiled_loss, f, self.y, rows, out)
        return out


class _Losses:
    """What is known at one z, one number per sample."""

    def __init__(self, n_rows: int) -> None:
        self.f, self.s, self.slope, self.r, self.a = np.empty((5, n_rows))
        self.threshold = self.moving = 0.0  # of the densities


class CompiledPoint:
    """The rows at one z and one k."""

    def __init__(self, rows: CompiledRows, z: Array, k: float, u: Array, density: Array) -> None:
        self.rows, self.z, self.k, self.u, self.centre = rows, z, k, u, density
        self.here = _Losses(rows.n_rows)
        self.there: _Losses | None = None  # where a ray looks
        self.here.r[:] = density
        self.refresh()

    def refresh(self) -> None:
        """Compute predictions and losses anew from z."""
        if self.rows.n_rows < _MANY_ROWS or self.z.any():
            self.rows.predict_and_expand(self.z, self.here)
        else:  # where cold starts begin: no pass over X
            f = self.here.f
            f.fill(0.0)
            self.rows.expand(f, 0.0, f, self.here)
        self.is_fresh = True

    def smooth(self, mu: float) -> Reading:
        """Find threshold and densities."""
        return self.settle(self.here, mu, self.here.f)

    def settle(self, losses: _Losses, mu: float, along: Array) -> Reading:
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
        self.centre = self.here.r.copy()

    def reach(self) -> float:
        """Return the length of the interval that holds all predictions and targets."""
        return float(passes.span(self.here.f, *self.rows.target_range))

    def shift(self, amount: float) -> None:
        """Move along the column of ones."""
        assert self.rows.ones is not None
        self.z = self.z.copy()
        self.z[self.rows.ones] += amount
        self.here.f += amount
        self.is_fresh = False
        self.rows.expand(self.here.f, 0.0, self.here.f, self.here)

    def towards(self, direction: Array) -> CompiledRay:
        """Return the ray in a direction."""
        if self.there is None:
            self.there = _Losses(self.rows.n_rows)
        return CompiledRay(self, direction, self.there)

    def gradient(self) -> Array:
        """Return ``X^T (u r s')``."""
        return self.rows.pull_back(self.here.a)

    def curvature(
        self, mu: float, *, form: bool, cautious: bool = False, most: int | None = None, seed: int = 0
    ) -> Curvature:
        """Return the generalised Hessian of the smoothed loss."""
        rows, here = self.rows, self.here
        if form and rows.is_small and (most is None or rows.n_rows <= most):
            return fused.curvature_at_once(self, mu, cautious)
        picked, n_tied = passes.strata(here.r)
        scale = np.ones(picked.size)
        is_sampled = most is not None and picked.size > most
        if most is not None and is_sampled:
            picked, scale = sample_runs((picked[:n_tied], picked[n_tied:]), most, seed)
        kept, (h, pulls) = np.empty(picked.size, dtype=np.intp), np.empty((2, picked.size))
        curvatures = rows.curvatures(here.f, picked)
        if cautious and rows.kink is Kink.NONE:
            curvatures = np.maximum(curvatures, here.slope[picked] ** 2 / np.maximum(2.0 * here.s[picked], 1e-300))
        count = passes.weigh(
            picked, scale, here.r, here.slope, curvatures, self.u, mu, here.moving, kept, h, pulls
        )  # fmt: skip
        picked, h, pulls = kept[:count], h[:count], pulls[:count]
        rank_one = self._pull_back_some(picked, pulls) if here.moving > 0.0 else None
        if not form:
            product, diagonal = self._operator(picked, h, rank_one)
            return Curvature(None, product, diagonal, is_sampled, n_tied > 0)
        H = self._gram(picked, h)
        if rank_one is not None:
            passes.subtract_rank_one(rank_one, H)
        return Curvature(H, None, None, is_sampled, n_tied > 0)

    def _gram(self, picked: Places, h: Array) -> Array:
        """Return ``sum(h_i x_i x_i^T)`` over the picked rows, by products ``B^T B``, which BLAS does half of."""
        rows = self.rows
        if sp.issparse(rows.X):
            H = np.zeros((rows.n_columns, rows.n_columns))
            passes.sparse_gram(rows.readable, picked, h, rows.n_features, H)
            return H
        if picked.size == rows.n_rows > _GRAM_BLOCK and rows.X.dtype == h.dtype and h.min() == h.max():
            return self._plain_gram(float(h[0]))
        scaled = np.empty((min(_GRAM_BLOCK, picked.size), rows.n_columns))
        total: Array | None = None
        for begin in range(0, max(picked.size, 1), _GRAM_BLOCK):
            part = slice(begin, begin + _GRAM_BLOCK)
            block = scaled[: picked.size - begin]
            passes.scale_rows(rows.readable, picked[part], h[part], block)
            product = block.T @ block
            total = product if total is None else np.add(total, product, out=total)
        return np.asarray(total)

    def _plain_gram(self, weight: float) -> Array:
        """Return the same where all rows count and are alike, as in ridge regression: without a scaled copy."""
        rows, d, ones = self.rows, self.rows.n_features, np.ones(_GRAM_BLOCK)
        H = np.zeros((rows.n_columns, rows.n_columns))
        for begin in range(0, rows.n_rows, _GRAM_BLOCK):
            block = rows.X[begin : begin + _GRAM_BLOCK]
            H[:d, :d] += block.T @ block
            H[d:, :d] += ones[: len(block)] @ block
        H[:d, d:], H[d:, d:] = H[d:, :d].T, rows.n_rows
        return weight * H

    def _pull_back_some(self, picked: Places, a: Array) -> Array:
        """Return ``X^T a`` over the picked rows."""
        out = np.zeros(self.rows.n_columns)
        total = passes.pull_back_rows(self.rows.readable, picked, a, out)
        if self.rows.ones is not None:
            out[self.rows.ones] = total
        return out

    def _operator(self, picked: Places, h: Array, rank_one: Array | None) -> tuple[Any, Array]:
        """Return the function v -> H v, one pass over the picked rows, and the diagonal of H."""
        rows, X = self.rows, self.rows.readable
        if 2 * picked.size < rows.n_rows:  # conjugate gradients pass over them many times: worth a copy
            X, picked = readable(rows.X[picked]), np.arange(picked.size)
        diagonal = np.zeros(rows.n_columns)
        passes.column_squares(X, picked, h, diagonal)
        if rows.ones is not None:
            diagonal[rows.ones] = h.sum()
        if rank_one is not None:
            diagonal -= rank_one**2

        def product(v: Array) -> Array:
            out = np.empty(rows.n_columns)
            total = passes.gram_product(X, picked, h, *rows.split(v), out)
            if rows.ones is not None:
                out[rows.ones] = total
            if rank_one is not None:
                out -= (rank_one @ v) * rank_one
            return out

        return product, diagonal

    def prove(self, *, balanced: bool) -> Proof:
        """Return the exact aggregate and a feasible density near r."""
        rows, here, exact, r = self.rows, self.here, self.here, self.here.r.copy()
        if rows.is_small and rows.each is not None:
            return fused.prove_at_once(self, balanced)
        a = np.empty(rows.n_rows)
        along = smoothing.make_feasible(here.f, here.slope, self.u, balanced, r, a)
        gradient = rows.pull_back(a)
        if not self.is_fresh:
            exact = self.there = self.there or _Losses(rows.n_rows)
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
        if rows.each is None:
            return ranked_loss(rows.kink.loss(s), rows.mass, self.k)
        return ranked_loss(rows.kink.loss(s), None, self.k / rows.each)

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

    def __init__(self, point: CompiledPoint, direction: Array, there: _Losses) -> None:
        self.point, self.direction, self.there = point, direction, there
        self.f_direction = point.rows.predict(direction, np.empty(point.rows.n_rows))
        self.t = 0.0

    def at(self, t: float, mu: float) -> Reading:
        """Smooth the losses at ``z + t * direction``."""
        self.t = t
        if self.point.rows.is_small:
            return fused.look_at_once(self, mu)
        self.point.rows.expand(self.point.here.f, t, self.f_direction, self.there)
        return self.point.settle(self.there, mu, self.f_direction)

    def land(self) -> None:
        """Move the point to where the ray was last looked at."""
        point = self.point
        point.z = point.z + self.t * self.direction
        point.here, point.there = self.there, point.here
        point.is_fresh = False
