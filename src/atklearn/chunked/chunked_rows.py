"""Rows in chunks: see :mod:`atklearn.problems.rows` for the meaning. Passes over a chunk are compiled, where it lies.

What has a number per row stays with them, as a :class:`~atklearn.chunked.vectors.Vector` that says how it is made.
Nothing is computed before it is needed: so predictions along a ray are made in the pass that looks there first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from atklearn.chunked.chunk import row_ids
from atklearn.chunked.chunked_part import ChunkedDensity
from atklearn.chunked.chunked_point import ChunkedPoint
from atklearn.chunked.fleet import Fleet
from atklearn.chunked.questions import Size
from atklearn.chunked.sights import View
from atklearn.chunked.sums import Extremes
from atklearn.chunked.survey import ROOM, Counted, spread_places
from atklearn.chunked.vectors import Alike, Blend, Scattered, Vector
from atklearn.losses.individual import Array, IndividualLoss, Kink
from atklearn.problems.compiled_rows import CompiledRows
from atklearn.problems.conditioning import Units, convert, helpful_units

__all__ = ["ChunkedRows"]


class ChunkedRows:
    """Samples in chunks.

    Parameters
    ----------
    fleet : Fleet
    view : View
    counted : Counted
        Of the same rows, with the codes of their classes as targets if they have any.
    """

    def __init__(self, fleet: Fleet, view: View, counted: Counted) -> None:
        self.fleet, self.view, self.counted = fleet, view, counted
        self.loss = view.loss
        self.kink = Kink(view.loss.kink)
        self.is_dense = not counted.is_sparse
        self.n_rows = counted.n_rows
        self.n_columns = counted.n_features + view.ones
        self.ones = counted.n_features if view.ones else None
        self.total = counted.total
        self.is_far, self.at_once = True, 1
        self.room = max(int(ROOM / counted.bytes_per_row), 1000)
        self.each = counted.mass.low if counted.mass.low == counted.mass.high else None
        targets = Extremes(-1.0, 1.0) if view.sight.labels is not None else counted.targets
        self.target_range = targets.low - view.shift, targets.high - view.shift
        X, y, mass = counted.sample
        self.fetched = X, view.sight.aimed(y), mass
        self._conditioned: dict[bool, tuple[ChunkedRows, Units] | None] = {}

    @property
    def loss_at_zero(self) -> float:
        """What a classifier pays that says nothing."""
        return self.loss.at_zero

    def at(self, z: Array, k: float, density: Any = None) -> ChunkedPoint:
        """Return the point at z."""
        return ChunkedPoint(self, z, k, self.vector_of(density, k))

    def vector_of(self, density: Any, k: float) -> Vector:
        """Return densities, given in whatever form, as a vector of the chunks."""
        if isinstance(density, ChunkedDensity):
            return density.vector
        if density is not None:
            ids = np.concatenate([row_ids(index, n) for index, n in sorted(self.counted.sizes.items())])
            return Vector(Scattered(self.fleet.name(), self.view, ids, np.asarray(density, dtype=np.float64)))
        alike = 0.0 if self.kink.is_two_sided else min(k / self.total, 1.0)
        return Vector(Alike(self.fleet.name(), self.view, alike))

    def sample(self, count: int) -> CompiledRows:
        """Return a random part of the rows, not more than were fetched, the same every time."""
        X, y, mass = self.fetched
        places = spread_places(y.size, count, seed=0)
        return self.in_memory(X[places], y[places], mass[places])

    def in_memory(self, X: Any, y: Array, mass: Array) -> CompiledRows:
        """Return rows that were fetched as compiled ones."""
        if self.view.units is not None:
            X, y = convert(X, y, self.view.units)
        return CompiledRows(X, y, mass, self.loss, self.view.ones)

    def conditioned(self, *, centred: bool) -> tuple[ChunkedRows, Units] | None:
        """Return the same samples in better units, as far as a sample tells, or None if these are good enough."""
        if centred not in self._conditioned:
            X, y, _ = self.fetched
            units = helpful_units(X, y, centred=centred, regression=self.loss.task == "regression")
            found = None if units is None else (self._with(units=units), units)
            self._conditioned[centred] = found
        return self._conditioned[centred]

    def _with(self, **changes: Any) -> ChunkedRows:
        return ChunkedRows(self.fleet, replace(self.view, **changes), self.counted)

    def paying(self, loss: IndividualLoss) -> ChunkedRows:
        """Return the same samples with another loss."""
        return self._with(loss=loss)

    def mean_square(self) -> float:
        """Return the mean of ``|x|^2`` over the mass; in other units, of the sample."""
        if self.view.units is not None:
            return self.sample(self.n_rows).mean_square()
        return self.counted.mean_square + self.view.ones

    def ascent(self, k: float, C: float, density: Any = None, *, balanced: bool) -> None:  # noqa: ARG002
        """Return None: to visit one row after the other takes all of them in one place."""
        return

    def holds(self, density: Any) -> bool:
        """Say whether densities are of as many rows."""
        if isinstance(density, ChunkedDensity):
            return bool(density.rows.fleet is self.fleet and density.rows.view.sight.token == self.view.sight.token)
        return bool(np.shape(density) == (self.n_rows,))

    def blend(self, terms: Sequence[tuple[float, Any]], k: float) -> ChunkedDensity:
        """Return a linear combination of densities, made feasible."""
        vectors = tuple(self.vector_of(density, k) for _, density in terms)
        factors = tuple((factor, vector.token) for (factor, _), vector in zip(terms, vectors, strict=True))
        blend = Blend(self.fleet.name(), factors, -1.0 if self.kink.is_two_sided else 0.0)
        size = self.fleet.ask(Size(self.view, blend.token), Vector(blend, vectors))["size"]
        scaled = replace(blend, token=self.fleet.name(), scale=min(k / size, 1.0) if size > 0.0 else 1.0)
        return ChunkedDensity(self, Vector(scaled, vectors))

    def sample_weights(self, density: Any, k: float) -> Any:
        """Return ``u |r|``, an array only where one is asked for."""
        return ChunkedDensity(self, self.vector_of(density, k), k)

    def split(self, z: Array) -> tuple[Array, float]:
        """Return the weights of the features and the intercept."""
        return (z, 0.0) if self.ones is None else (z[:-1], float(z[-1]))

    def join(self, weights: Array, intercept: float) -> Array:
        """Return z from the weights of the features and the intercept."""
        return np.array(weights) if self.ones is None else np.append(weights, intercept)
