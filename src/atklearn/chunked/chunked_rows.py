"""Rows in chunks: see :mod:`atklearn.problems.rows` for the meaning. The chunks are compiled rows where they lie.

What has a number per row stays with them, as a :class:`~atklearn.chunked.vectors.Vector` that says how it is made.
Nothing is computed before it is needed: so predictions along a ray are made in the pass that looks there first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from atklearn.chunked.chunked_point import ChunkedDensity, ChunkedPoint
from atklearn.chunked.fleet import Fleet
from atklearn.chunked.questions import Census, Size
from atklearn.chunked.sights import Sight, View
from atklearn.chunked.sums import Extremes, Picked
from atklearn.chunked.vectors import Alike, Blend, Scattered, Vector
from atklearn.chunked.weights import ChunkedWeights
from atklearn.losses.individual import Array, IndividualLoss, Kink
from atklearn.problems.compiled_rows import CompiledRows
from atklearn.problems.conditioning import Units, convert, helpful_units

__all__ = ["ChunkedRows", "Counted", "count"]

# Bytes that a part of the rows may take, where it is put together in memory: the sample to start from, a working set.
_ROOM = 1 << 27


@dataclass(frozen=True)
class Counted:
    """What one pass tells of the rows that a sight takes in: numbers, and a sample of the rows themselves."""

    n_rows: int
    n_features: int
    total: float
    mass: Extremes
    targets: Extremes
    mean_square: float
    is_sparse: bool
    bytes_per_row: float
    counts: tuple[tuple[int, int], ...]
    sample: tuple[Any, ...]


def count(fleet: Fleet, sight: Sight, n_features: int) -> Counted:
    """Count the rows that a sight takes in, and fetch a sample of them."""
    n_chunks = max(fleet.engine.n_chunks, 1)
    told = fleet.ask(Census(sight, max(_ROOM // (8 * n_features * n_chunks), 1)))
    counts = tuple(sorted(told["counts"]))
    n_rows = sum(n for _, n in counts)
    return Counted(
        n_rows=n_rows,
        n_features=n_features,
        total=told["total"],
        mass=told["mass"],
        targets=told["targets"],
        mean_square=told["squares"] / told["total"],
        is_sparse=told["sparse"] > 0,
        bytes_per_row=max(told["bytes"] / n_rows, 1.0),
        counts=counts,
        sample=_even(told["sample"], dict(counts)),
    )


def _even(picked: Picked, counts: dict[int, int]) -> tuple[Any, ...]:
    """Return a sample in which every row of every chunk is as likely, from samples of chunks of any size."""
    pieces = []
    share = min(piece[0].size / counts[int(piece[0][0] >> 32)] for piece in picked.pieces)
    for piece in picked.pieces:
        size = piece[0].size
        expected = share * counts[int(piece[0][0] >> 32)]
        rng = np.random.default_rng(int(piece[0][0] >> 32))
        wanted = min(int(expected) + int(rng.random() < expected % 1.0), size)
        places = ((np.arange(wanted) + rng.random(wanted)) * (size / max(wanted, 1))).astype(np.intp)
        if wanted:
            pieces.append(tuple(column[places] for column in piece))
    return Picked(tuple(pieces)).together() if pieces else Picked(picked.pieces[:1]).together()


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
        self.room = min(max(int(_ROOM / counted.bytes_per_row), 1000), self.n_rows)
        self.each = counted.mass.low if counted.mass.low == counted.mass.high else None
        targets = Extremes(-1.0, 1.0) if view.sight.labels is not None else counted.targets
        self.target_range = targets.low - view.shift, targets.high - view.shift
        ids, X, y, mass = counted.sample
        self.fetched = ids, X, view.sight.aimed(y), mass
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
            ids = np.concatenate([(np.int64(index) << 32) + np.arange(n) for index, n in self.counted.counts])
            return Vector(Scattered(self.fleet.name(), self.view, ids, np.asarray(density, dtype=np.float64)))
        alike = 0.0 if self.kink.is_two_sided else min(k / self.total, 1.0)
        return Vector(Alike(self.fleet.name(), self.view, alike))

    def sample(self, count: int) -> CompiledRows:
        """Return a random part of the rows, not more than were fetched, the same every time."""
        _, X, y, mass = self.fetched
        count = min(count, y.size)
        places = (np.arange(count) + np.random.default_rng(0).random(count)) * (y.size / count)
        return self.in_memory(*(column[places.astype(np.intp)] for column in (X, y, mass)))

    def in_memory(self, X: Any, y: Array, mass: Array) -> CompiledRows:
        """Return rows that were fetched as compiled ones."""
        if self.view.units is not None:
            X, y = convert(X, y, self.view.units)
        return CompiledRows(X, y, mass, self.loss, self.view.ones)

    def conditioned(self, *, centred: bool) -> tuple[ChunkedRows, Units] | None:
        """Return the same samples in better units, as far as a sample tells, or None if these are good enough."""
        if centred not in self._conditioned:
            _, X, y, _ = self.fetched
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
        """Return ``u |r|``, to be made chunk by chunk where they are wanted."""
        return ChunkedWeights.of(self.view, k, self.vector_of(density, k))

    def split(self, z: Array) -> tuple[Array, float]:
        """Return the weights of the features and the intercept."""
        return (z, 0.0) if self.ones is None else (z[:-1], float(z[-1]))

    def join(self, weights: Array, intercept: float) -> Array:
        """Return z from the weights of the features and the intercept."""
        return np.array(weights) if self.ones is None else np.append(weights, intercept)
