"""Rows in chunks: every answer is a query to all chunks and arithmetic on their sums; see the plain store.

Passes over a chunk are compiled, where it lies. What has a number per row stays with the chunks, as a
:class:`~atklearn.chunked.chunk.Vector` that says how it is made. Nothing is computed before it is needed: so
predictions along a ray are made in the pass that looks there first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias
from weakref import ref

import numpy as np
import numpy.typing as npt

from atklearn.chunked import queries
from atklearn.chunked.chunk import (
    Block,
    Chunk,
    Combination,
    Constant,
    Ids,
    Memory,
    Prediction,
    Recipe,
    Rows,
    RowView,
    Scaled,
    Scattered,
    Smoothed,
    Vector,
    lineage,
    row_ids,
)
from atklearn.chunked.engine import Coordinator
from atklearn.chunked.queries import Extremes, Pieces, Query, Reach, Sums
from atklearn.core.coordinates import Units, convert, helpful_units
from atklearn.core.packed import PackedSymmetric
from atklearn.core.point import Bound, Form, Gram, Point, Reading, SettledSums, Sides
from atklearn.core.ranking import Between, Ranked, rank
from atklearn.core.store import Gathered, Store, spread_places
from atklearn.losses.individual import Array, IndividualLoss, Kink
from atklearn.stores.compiled import CompiledRows

__all__ = ["ChunkState", "ChunkedDensity", "ChunkedRows", "ChunkedSubset", "ChunkedWeights", "Counted", "FetchedRows"]

# Bytes that rows may take which are put together in memory: the sample to start from, a working set.
FETCHED_BYTES = 1 << 26
# What a proximal step most often does to the smoothing.
_SHRINK = 0.2
_ROUNDING = 1e-14  # of the bound: less slack than that leaves no proximal step to take


@dataclass(frozen=True)
class Counted:
    """What is known of the rows that count: numbers, and a sample of the rows themselves.

    ``sample`` holds features, targets (of classes their codes) and mass; ``sizes`` how many rows of each chunk count.
    """

    n_rows: int
    n_features: int
    total: float
    mass: Extremes
    targets: Extremes
    reach: Reach
    mean_square: float
    is_sparse: bool
    bytes_per_row: float
    sizes: dict[int, int]
    sample: tuple[Rows, Array, Array]


class ChunkedDensity:
    """Densities that lie with the chunks, or the weights that go with them; an array only where one is asked for."""

    def __init__(self, rows: ChunkedRows, vector: Vector, k: float | None = None) -> None:
        self.rows, self.vector, self.k = rows, vector, k

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        pieces = self.rows.coordinator.ask(queries.FetchVector(self.rows.view, self.vector.token, self.k), self.vector)
        return np.asarray(queries.merged_pieces(pieces)[1], dtype=dtype)


Density: TypeAlias = ChunkedDensity | Array | None
"""Densities with the chunks, in memory, or None for everyone alike."""


@dataclass(frozen=True)
class ChunkedWeights:
    """How to make ``q = u |r|`` from the data of a chunk."""

    view: RowView
    k: float
    token: int
    recipes: tuple[Recipe, ...]

    @classmethod
    def of(cls, weights: ChunkedDensity) -> ChunkedWeights:
        """Return how weights are made that lie with the chunks of a fit."""
        assert weights.k is not None
        return cls(weights.rows.view, weights.k, weights.vector.token, lineage([weights.vector]))

    def make(self, block: Block, index: int) -> Array:
        """Return the weights of all rows of a chunk, zero for those that do not count."""
        out = np.zeros(block.X.shape[0])
        if out.size == 0:
            return out
        chunk = Chunk(block, Memory(), self.recipes, index)
        _, mass = chunk.targets(self.view)
        out[chunk.kept(self.view)] = mass / self.k * np.abs(chunk.vector(self.token))
        return out


class ChunkedSubset:
    """Some of the rows, fetched into memory, that know where they were.

    Parameters
    ----------
    whole : ChunkedRows
    columns : tuple
        Ids, ascending, features, targets and mass.
    """

    def __init__(self, whole: ChunkedRows, columns: tuple[Rows, ...]) -> None:
        self.whole, self.columns = whole, columns

    @property
    def ids(self) -> Ids:
        """The ids of the rows."""
        ids: Ids = self.columns[0]
        return ids

    @cached_property
    def rows(self) -> FetchedRows:
        """These rows as a store."""
        return FetchedRows(self)

    def restrict(self, density: Density) -> Array:
        """Return the densities of these rows, made from them alone."""
        vector = self.whole.vector_of(density, 1.0)
        chunk = Chunk.of_rows(self.whole.view, lineage([vector]), *self.columns)
        return chunk.vector(vector.token)

    def extend(self, density: Array) -> ChunkedDensity:
        """Return densities of all rows."""
        recipe = Scattered(self.whole.coordinator.name(), self.whole.view, self.ids, np.asarray(density))
        return ChunkedDensity(self.whole, Vector(recipe))


class FetchedRows(CompiledRows):
    """The rows of a subset, compiled; a point that a solver begins on them is known to the coordinator.

    Parameters
    ----------
    subset : ChunkedSubset
    """

    def __init__(self, subset: ChunkedSubset) -> None:
        super().__init__(*subset.whole.arguments_in_memory(*subset.columns[1:]))
        self.coordinator, self.subset = subset.whole.coordinator, ref(subset)

    def point(self, z: Array, k: float, density: Density = None) -> Point:
        """Return the point at z."""
        point = super().point(z, k, density)
        self.coordinator.latest = ref(point)
        return point


class ChunkedDirection:
    """Predictions of a direction, which stay with the chunks as long as this is held."""

    def __init__(self, coordinator: Coordinator, vector: Vector, z: Array) -> None:
        self.vector, self.z = vector, z
        coordinator.holders.add(self)

    def needed(self) -> list[Vector]:
        """Return the vectors that should stay with the chunks."""
        return [self.vector]


class ChunkState:
    """All rows at one z and one k, as the vectors that make them; these stay with the chunks as long as it is held.

    Parameters
    ----------
    rows : ChunkedRows
    z : ndarray of shape (n_columns,)
    k : float
    start : Vector
        Predictions are ``start + t * direction``.
    t : float
    direction : Vector, default=None
    density : Vector, default=None
        Densities as they are given; those of the last smoothing if None.
    curvature : queries.Curvature, default=None
        The curvature that was last asked for, which is likely to be asked for next.
    """

    def __init__(
        self, rows: ChunkedRows, z: Array, k: float, start: Vector, t: float = 0.0, direction: Vector | None = None,
        density: Vector | None = None, curvature: queries.Curvature | None = None,
    ) -> None:  # fmt: skip
        self.rows, self.z, self.k = rows, z, k
        self.start, self.t, self.direction = start, t, direction
        self.density, self.curvature = density, curvature
        self.centre: Vector | None = None  # of the last smoothing, with its mu and threshold
        self.mu, self.lam = 1.0, 0.0
        self.range: Extremes | None = None  # of the predictions
        self.reading: Reading | None = None
        self.pulled: Sums | None = None  # what the chunks have pulled here
        self.ahead: ChunkState | None = None  # what will be asked next, if all goes well
        rows.coordinator.holders.add(self)

    def needed(self) -> list[Vector]:
        """Return the vectors that should stay with the chunks."""
        return [each for each in (self.start, self.direction, self.centre, self.density) if each is not None]

    @property
    def f(self) -> Vector:
        """The predictions."""
        if self.direction is not None:
            name, view = self.rows.coordinator.name(), self.rows.view
            self.start = Vector(Prediction(name, view, self.z, self.start.token, self.t, self.direction.token))
            self.direction = None
        return self.start

    def moved(self, z: Array, start: Vector, t: float = 0.0, direction: Vector | None = None) -> ChunkState:
        """Return the rows somewhere else."""
        return ChunkState(self.rows, z, self.k, start, t, direction, curvature=self.curvature)

    @property
    def reference(self) -> queries.StateRef:
        """The state as queries name it."""
        density = None if self.centre is not None or self.density is None else self.density.token
        centre = self.f.token if self.centre is None else self.centre.token
        return queries.StateRef(self.k, self.f.token, centre, self.mu, self.lam, density)

    def ask(self, query: Query, *more: Vector) -> Sums:
        """Ask about the state, and let the chunks make what moves have left to make."""
        self.f  # noqa: B018 which may have to be made
        answer: Sums = self.rows.coordinator.ask(query, *self.needed(), *more)
        return answer


class ChunkedRows(Store):
    """Samples in chunks.

    Parameters
    ----------
    coordinator : Coordinator
    view : RowView
    counted : Counted
        Of the same rows, with the codes of their classes as targets if they have any.
    """

    passes_are_remote = True
    most_ranked = 4096  # losses travel

    def __init__(self, coordinator: Coordinator, view: RowView, counted: Counted) -> None:
        assert view.loss is not None
        self.coordinator, self.view, self.counted = coordinator, view, counted
        self.loss = view.loss
        self.is_dense = not counted.is_sparse
        self.n_rows = counted.n_rows
        self.n_columns = counted.n_features + view.ones
        self.ones = counted.n_features if view.ones else None
        self.total = counted.total
        self.max_subset_rows = max(int(FETCHED_BYTES / counted.bytes_per_row), 1000)
        self.each = counted.mass.low if counted.mass.low == counted.mass.high else None
        targets = Extremes(-1.0, 1.0) if view.labels is not None else counted.targets
        self.target_range = targets.low - view.shift, targets.high - view.shift
        self._conditioned: dict[bool, tuple[ChunkedRows, Units] | None] = {}

    @property
    def sampled(self) -> tuple[Rows, Array, Array]:
        """Features, targets and mass of some rows in memory, in the user's units."""
        X, y, mass = self.counted.sample
        return X, self.view.signed(y), mass

    def point(self, z: Array, k: float, density: Density = None) -> Point:
        """Return the point at z; the coordinator knows it, so that a checkpoint can tell where the solver is."""
        point = super().point(z, k, density)
        self.coordinator.latest = ref(point)
        return point

    # States

    def stand(self, z: Array, k: float, density: Density) -> ChunkState:
        """Return the rows at z, whose predictions are made in the pass that needs them first."""
        f = Vector(Prediction(self.coordinator.name(), self.view, z))
        return ChunkState(self, z, k, f, density=None if density is None else self.vector_of(density, k))

    def predict(self, direction: Array) -> ChunkedDirection:
        """Return the predictions of a direction."""
        vector = Vector(Prediction(self.coordinator.name(), self.view, direction))
        return ChunkedDirection(self.coordinator, vector, direction)

    def moved(self, state: ChunkState, t: float, along: ChunkedDirection) -> ChunkState:
        """Return the rows at ``f + t along``."""
        return state.moved(state.z + t * along.z, state.f, t, along.vector)

    def shifted(self, state: ChunkState, amount: float) -> ChunkState:
        """Return the rows at ``f + amount``."""
        z, last = state.z.copy(), state.f.recipe
        z[self.ones] += amount
        assert isinstance(last, Prediction)
        if last.origin is not None and not self.coordinator.holds(state.f):  # still to be made: as one move with this
            move = replace(last, token=self.coordinator.name(), z=z, offset=last.offset + amount)
        else:
            move = Prediction(self.coordinator.name(), self.view, z, state.f.token, offset=amount)
        shifted = state.moved(z, Vector(move))
        shifted.density = self._density(state)
        if state.range is not None:
            shifted.range = Extremes(state.range.low + amount, state.range.high + amount)
        return shifted

    def densities(self, state: ChunkState) -> ChunkedDensity:
        """Return the densities: as given, or of the last smoothing."""
        return ChunkedDensity(self, self._density(state))

    def _density(self, state: ChunkState) -> Vector:
        if state.density is None:
            if state.centre is None:
                state.density = self.vector_of(None, state.k)
            else:
                f, centre = state.f, state.centre
                recipe = Smoothed(self.coordinator.name(), self.view, centre.token, f.token, state.mu, state.lam)
                state.density = Vector(recipe, (centre, f))
        return state.density

    def prediction_range(self, state: ChunkState) -> tuple[float, float]:
        """Return the smallest and the largest prediction, which a smoothing has seen."""
        if state.range is None:
            centre = self._density(state)
            at = replace(state.reference, centre=centre.token)
            state.range = found = state.ask(queries.ThresholdSums(self.view, at, 0.0), centre)["range"]
            return found.low, found.high
        return state.range.low, state.range.high

    # Smoothing

    def settle(
        self, state: ChunkState, centre: ChunkedDensity, mu: float, lam: float, along: ChunkedDirection | None
    ) -> tuple[SettledSums, ChunkState]:
        """Return the sums at a threshold, and the state with the densities there."""
        t, way = (0.0, None) if along is None else (state.t, along.vector)
        f = state.f if along is None or state.direction is None else state.start
        at = queries.StateRef(state.k, f.token, centre.vector.token, mu, lam)
        query = queries.ThresholdSums(self.view, at, lam, t, None if way is None else way.token)
        found = self.coordinator.ask(query, f, centre.vector, *(() if way is None else (way,)))
        settled = state.moved(state.z, state.start, state.t, state.direction)
        settled.centre, settled.mu, settled.lam, settled.range = centre.vector, mu, lam, found["range"]
        return SettledSums(*found["sums"].tolist()), settled

    def top(self, state: ChunkState, centre: ChunkedDensity, mu: float) -> float:
        """Return the threshold above which every density is zero."""
        at = queries.StateRef(state.k, state.start.token, centre.vector.token, mu)
        way = state.direction
        query = queries.TopThreshold(self.view, at, state.t, None if way is None else way.token)
        more = () if way is None else (way,)
        return float(self.coordinator.ask(query, state.start, centre.vector, *more)["top"].high)

    def smoothed(
        self, state: ChunkState, centre: ChunkedDensity, mu: float, guess: float, along: ChunkedDirection | None = None
    ) -> tuple[Reading, ChunkState]:
        """Find the threshold, unless it was foreseen that it would be looked for here."""
        ahead = state.ahead
        if ahead is not None and ahead.reading is not None and (ahead.mu, ahead.centre) == (mu, centre.vector):
            return ahead.reading, ahead
        reading, settled = super().smoothed(state, centre, mu, guess, along)
        settled.reading = reading
        return reading, settled

    # Derivatives

    def pull(self, state: ChunkState) -> Array:
        """Return ``X^T (u r s')``, and have the curvature from the same pass, as a step is likely to ask for it next.

        Where features are fetched for it, the pass also answers for where the proximal step leads to that may follow.
        """
        if state.pulled is None or "gradient" not in state.pulled:
            reading, curvature = state.reading, None if state.centre is None else state.curvature
            lazy = self.coordinator.engine.is_lazy
            if reading is not None and reading.slack > _ROUNDING * reading.bound and lazy:
                density = self.densities(state)
                _, state.ahead = self.smoothed(state, density, _SHRINK * state.mu, state.lam)
            states = [state] if state.ahead is None else [state, state.ahead]
            query = queries.Pull(self.view, tuple(each.reference for each in states), curvature)
            pulled = state.ask(query, *(() if state.ahead is None else state.ahead.needed()))
            for number, each in enumerate(states):
                each.pulled = pulled[number]
        assert state.pulled is not None
        return np.asarray(state.pulled["gradient"])

    def gram(self, state: ChunkState, mu: float, *, form: Form, cautious: bool, most: int | None, seed: int) -> Gram:
        """Return the weighted Gram matrix, at the smoothing of the state."""
        assert mu == state.mu
        share = None if most is None or most >= self.n_rows else most / self.n_rows
        wanted = queries.Curvature(form, cautious and self.kink is Kink.NONE, share, seed)
        if state.pulled is None or "curvature" not in state.pulled or not wanted.is_like(state.curvature):
            state.curvature = wanted
            others = state.ask(queries.Pull(self.view, (state.reference,), wanted, gradient=state.pulled is None))[0]
            state.pulled = Sums((state.pulled or {}) | others)
        found, curvature = state.pulled.pop("curvature"), state.curvature
        assert curvature is not None
        gram = Gram(found["pulls"], found["tied"], found["sampled"] > 0)
        if form == "product":
            at = state.reference

            def product(v: Array) -> Array:
                return np.asarray(state.ask(queries.GramProduct(self.view, at, curvature, v))["product"])

            return gram._replace(product=product, diagonal=np.array(found["diagonal"]))
        if form == "packed":
            packed = PackedSymmetric(self.n_columns)
            packed.numbers = np.array(found["packed"])
            return gram._replace(packed=packed)
        return gram._replace(matrix=np.array(found["matrix"]))

    # Proof

    def sides(self, state: ChunkState) -> Sides:
        """Return pulls and masses."""
        return Sides(*state.ask(queries.SideSums(self.view, state.reference))["sides"].tolist())

    def scaled(self, state: ChunkState, up: float, down: float, level: float) -> ChunkState:
        """Return the state with other densities."""
        before, f = self._density(state), state.f
        recipe = Scaled(self.coordinator.name(), self.view, before.token, f.token, up, down, level)
        return ChunkState(self, state.z, state.k, f, density=Vector(recipe, (before, f)))

    @cached_property
    def largest_entries(self) -> Array:
        """The largest ``|x|`` of every column, the column of ones included."""
        (high, low), units = self.counted.reach.ends * [[1.0], [-1.0]], self.view.units
        if units is not None:
            low, high = (low - units.centre) / units.scale, (high - units.centre) / units.scale
        return self.join(np.maximum(np.abs(low), np.abs(high)), 1.0)

    def bound(self, exact: ChunkState, feasible: ChunkState, lam: float) -> Bound:
        """Return the sums over all rows."""
        density, f = self._density(feasible), exact.f
        query = queries.ProofSums(self.view, feasible.reference, f.token, density.token, lam)
        return Bound(*feasible.ask(query, f, density)["sums"].tolist())

    def least(self, state: ChunkState) -> float:
        """Return the smallest loss."""
        return self.between(state, -np.inf, np.inf, 0.0, True).least

    def between(self, state: ChunkState, low: float, high: float, share: float, by_count: bool) -> Between:
        """Return what the losses say of an interval."""
        return _of_all(self._between(state, low, high, share, by_count)["parts"])

    def _between(
        self, state: ChunkState, low: float, high: float, share: float, by_count: bool, without: Vector | None = None
    ) -> Sums:
        token, more = (None, ()) if without is None else (without.token, (without,))
        query = queries.LossesBetween(self.view, state.f.token, low, high, share, by_count, token)
        found: Sums = self.coordinator.ask(query, state.f, *more)
        return found

    # Parts, and other stores of the same rows

    def largest(self, state: ChunkState, count: int, beside: ChunkedSubset | None, above: float) -> ChunkedSubset:
        """Return the rows with the largest losses."""
        count = min(max(count, 1), self.n_rows)
        without = None
        if beside is not None:
            without = Vector(Scattered(self.coordinator.name(), self.view, beside.ids, np.ones(beside.ids.size)))
            higher = _of_all(self._between(state, above, above, 0.0, True, without)["parts"]).above
            if higher == 0.0:
                return beside
        if beside is None or higher > count:
            ranked = rank(
                lambda low, high, share: _of_all(self._between(state, low, high, share, True, without)["parts"]),
                float(count), self.n_rows, self.most_ranked,
            )  # fmt: skip
            left = self._ties(state, ranked.value, count, without)
        else:
            ranked, left = Ranked(above, higher), {}
        token, more = (None, ()) if without is None else (without.token, (without,))
        query = queries.FetchRows(self.view, state.f.token, ranked.value, left, token)
        pieces: Pieces = self.coordinator.ask(query, state.f, *more)
        if beside is not None:
            pieces = (*pieces, beside.columns)
        return ChunkedSubset(self, queries.merged_pieces(pieces))

    def _ties(self, state: ChunkState, value: float, count: int, without: Vector | None) -> dict[int, int]:
        """Return how many rows with just that loss are taken from each chunk, for the number to be as wanted."""
        found = self._between(state, value, value, 0.0, True, without)
        left, ties = count - int(_of_all(found["parts"]).above), {}
        for index, n in sorted(found["counts"].items()):
            ties[index] = min(n, left)
            left -= ties[index]
        return {index: n for index, n in ties.items() if n > 0}

    def vector_of(self, density: Density, k: float) -> Vector:
        """Return densities, given in whatever form, as a vector of the chunks."""
        if isinstance(density, ChunkedDensity):
            return density.vector
        if density is not None:
            ids = np.concatenate([row_ids(index, n) for index, n in sorted(self.counted.sizes.items())])
            values = np.asarray(density, dtype=np.float64)
            return Vector(Scattered(self.coordinator.name(), self.view, ids, values))
        return Vector(Constant(self.coordinator.name(), self.view, self.alike(k)))

    @property
    def is_gatherable(self) -> bool:  # type: ignore[override]
        """Whether there are no more rows than a subset may have."""
        return self.n_rows <= self.max_subset_rows

    def gathered(self) -> Gathered:
        """Return all rows as a subset."""
        point = self.point(np.zeros(self.n_columns), self.total)
        subset = self.largest(point.state, self.n_rows, None, -np.inf)
        return Gathered(subset.rows, subset.extend)

    def sample(self, count: int) -> CompiledRows:
        """Return a random part of the rows, not more than were fetched, the same every time."""
        X, y, mass = self.sampled
        places = spread_places(y.size, count)
        return CompiledRows(*self.arguments_in_memory(X[places], y[places], mass[places]))

    def arguments_in_memory(
        self, X: Rows, y: Array, mass: Array
    ) -> tuple[Rows, Array, Array, IndividualLoss, bool]:  # fmt: skip
        """Return what compiled rows are made of, for rows that were fetched."""
        if self.view.units is not None:
            X, y = convert(X, y, self.view.units)
        return X, y, mass, self.loss, self.view.ones

    def conditioned(self, *, centred: bool) -> tuple[ChunkedRows, Units] | None:
        """Return the same samples in better units, as far as a sample tells, or None if these are good enough."""
        if centred not in self._conditioned:
            X, y, _ = self.sampled
            units = helpful_units(X, y, centred=centred, regression=self.loss.task == "regression")
            found = None if units is None else (self._with(units=units), units)
            self._conditioned[centred] = found
        return self._conditioned[centred]

    def _with(self, **changes: Any) -> ChunkedRows:
        return ChunkedRows(self.coordinator, replace(self.view, **changes), self.counted)

    def paying(self, loss: IndividualLoss) -> ChunkedRows:
        """Return the same samples with another loss."""
        return self._with(loss=loss)

    def mean_square(self) -> float:
        """Return the mean of ``|x|^2`` over the mass; in other units, of the sample."""
        if self.view.units is not None:
            return self.sample(self.n_rows).mean_square()
        return self.counted.mean_square + self.view.ones

    def holds(self, density: Density) -> bool:
        """Say whether densities are of as many rows."""
        if isinstance(density, ChunkedDensity):
            rows = density.rows
            return rows.coordinator is self.coordinator and rows.view.token == self.view.token
        return bool(np.shape(density) == (self.n_rows,))  # type: ignore[arg-type]

    def blend(self, terms: Sequence[tuple[float, Density]], k: float) -> ChunkedDensity:
        """Return a linear combination of densities, made feasible."""
        vectors = tuple(self.vector_of(density, k) for _, density in terms)
        factors = tuple((factor, vector.token) for (factor, _), vector in zip(terms, vectors, strict=True))
        blend = Combination(self.coordinator.name(), factors, -1.0 if self.kink.is_two_sided else 0.0)
        mass = self.coordinator.ask(queries.DensityMass(self.view, blend.token), Vector(blend, vectors))["mass"]
        scaled = replace(blend, token=self.coordinator.name(), scale=min(k / mass, 1.0) if mass > 0.0 else 1.0)
        return ChunkedDensity(self, Vector(scaled, vectors))

    def sample_weights(self, density: Density, k: float) -> ChunkedDensity:
        """Return ``u |r|``, an array only where one is asked for."""
        return ChunkedDensity(self, self.vector_of(density, k), k)


def _of_all(parts: Sequence[Between]) -> Between:
    """Return what the losses of all chunks say together."""
    return Between(
        above=sum(part.above for part in parts),
        inside=sum(part.inside for part in parts),
        count=sum(part.count for part in parts),
        values=np.concatenate([part.values for part in parts]),
        weights=np.concatenate([part.weights for part in parts]),
        is_partial=any(part.is_partial for part in parts),
        least=min(part.least for part in parts),
        most=max(part.most for part in parts),
    )
