"""Rows in chunks: every answer is a question to all chunks and arithmetic on their sums; see the plain store.

Passes over a chunk are compiled, where it lies. What has a number per row stays with the chunks, as a
:class:`~atklearn.chunked.chunk.Vector` that says how it is made. Nothing is computed before it is needed: so
predictions along a ray are made in the pass that looks there first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from weakref import ref

import numpy as np

from atklearn.chunked.chunk import (
    Alike,
    Blend,
    Block,
    Chunk,
    Extremes,
    Feasible,
    Ids,
    Memory,
    Moved,
    Picked,
    Product,
    Scattered,
    Settled,
    Step,
    Sums,
    Vector,
    View,
    history,
    row_ids,
)
from atklearn.chunked.fleet import Fleet
from atklearn.chunked.questions import (
    Curving,
    Fetch,
    GramProduct,
    Losing,
    Pull,
    Question,
    Settle,
    Size,
    Slack,
    Standing,
    Top,
    Values,
    Weigh,
)  # fmt: skip
from atklearn.chunked.survey import ROOM, Counted
from atklearn.core.coordinates import Units, convert, helpful_units
from atklearn.core.packed import PackedSymmetric
from atklearn.core.point import Bound, Form, Gram, Reading, SettledSums, Sides
from atklearn.core.ranking import Between, Ranked, rank
from atklearn.core.store import Store, spread_places
from atklearn.losses.individual import Array, IndividualLoss, Kink
from atklearn.stores.compiled import CompiledRows

__all__ = ["ChunkState", "ChunkedDensity", "ChunkedRows", "ChunkedSubset", "ChunkedWeights"]

# What a proximal step most often does to the smoothing.
_SHRINK = 0.2
_ROUNDING = 1e-14  # of the bound: less slack than that leaves no proximal step to take


class ChunkedDensity:
    """Densities that lie with the chunks, or the weights that go with them; an array only where one is asked for."""

    def __init__(self, rows: ChunkedRows, vector: Vector, k: float | None = None) -> None:
        self.rows, self.vector, self.k = rows, vector, k

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        told = self.rows.fleet.ask(Values(self.rows.view, self.vector.token, self.k), self.vector)
        return np.asarray(told.together()[1], dtype=dtype)


@dataclass(frozen=True)
class ChunkedWeights:
    """How to make ``q = u |r|`` from the data of a chunk."""

    view: View
    k: float
    token: int
    steps: tuple[Step, ...]

    @classmethod
    def of(cls, weights: ChunkedDensity) -> ChunkedWeights:
        """Return how weights are made that lie with the chunks of a fit."""
        assert weights.k is not None
        return cls(weights.rows.view, weights.k, weights.vector.token, history([weights.vector]))

    def make(self, block: Block, index: int) -> Array:
        """Return the weights of all rows of a chunk, zero for those that do not count."""
        out = np.zeros(block.X.shape[0])
        if out.size == 0:
            return out
        chunk = Chunk(block, Memory(), self.steps, index)
        _, mass = chunk.targets(self.view.sight)
        out[chunk.kept(self.view.sight)] = mass / self.k * np.abs(chunk.vector(self.token))
        return out


class ChunkedSubset:
    """Some of the rows, fetched into memory, that know where they were."""

    def __init__(self, whole: ChunkedRows, columns: tuple[Any, ...]) -> None:
        self.whole, self.columns = whole, columns

    @property
    def ids(self) -> Ids:
        """The ids of the rows, ascending."""
        ids: Ids = self.columns[0]
        return ids

    @cached_property
    def rows(self) -> CompiledRows:
        """These rows."""
        return self.whole.in_memory(*self.columns[1:])

    def restrict(self, density: Any) -> Array:
        """Return the densities of these rows, made from them alone."""
        vector = self.whole.vector_of(density, 1.0)
        chunk = Chunk.of_rows(self.whole.view.sight, history([vector]), *self.columns)
        return chunk.vector(vector.token)

    def extend(self, density: Array) -> ChunkedDensity:
        """Return densities of all rows."""
        step = Scattered(self.whole.fleet.name(), self.whole.view, self.ids, np.asarray(density))
        return ChunkedDensity(self.whole, Vector(step))


class ChunkedDirection:
    """Predictions of a direction, which stay with the chunks as long as this is held."""

    def __init__(self, fleet: Fleet, vector: Vector, z: Array) -> None:
        self.vector, self.z = vector, z
        fleet.holders.add(self)

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
    curving : Curving, default=None
        The curvature that was last asked for, which is likely to be asked for next.
    """

    def __init__(
        self, rows: ChunkedRows, z: Array, k: float, start: Vector, t: float = 0.0, direction: Vector | None = None,
        density: Vector | None = None, curving: Curving | None = None,
    ) -> None:  # fmt: skip
        self.rows, self.z, self.k = rows, z, k
        self.start, self.t, self.direction = start, t, direction
        self.density, self.curving = density, curving
        self.centre: Vector | None = None  # of the last smoothing, with its mu and threshold
        self.mu, self.lam = 1.0, 0.0
        self.range: Extremes | None = None  # of the predictions
        self.reading: Reading | None = None
        self.pulled: Sums | None = None  # what the chunks have pulled here
        self.ahead: ChunkState | None = None  # what will be asked next, if all goes well
        rows.fleet.holders.add(self)

    def needed(self) -> list[Vector]:
        """Return the vectors that should stay with the chunks."""
        return [each for each in (self.start, self.direction, self.centre, self.density) if each is not None]

    @property
    def f(self) -> Vector:
        """The predictions."""
        if self.direction is not None:
            move = Moved(
                self.rows.fleet.name(), self.rows.view, self.z, self.start.token, self.t, self.direction.token
            )  # fmt: skip
            self.start, self.direction = Vector(move), None
        return self.start

    def moved(self, z: Array, start: Vector, t: float = 0.0, direction: Vector | None = None) -> ChunkState:
        """Return the rows somewhere else."""
        return ChunkState(self.rows, z, self.k, start, t, direction, curving=self.curving)

    @property
    def standing(self) -> Standing:
        """The state as questions name it."""
        density = None if self.centre is not None or self.density is None else self.density.token
        centre = self.f.token if self.centre is None else self.centre.token
        return Standing(self.rows.view, self.k, self.f.token, centre, self.mu, self.lam, density)

    def ask(self, question: Question, *more: Vector) -> Any:
        """Ask about where the rows stand, and let the chunks make what moves have left to make."""
        self.f  # noqa: B018 which may have to be made
        return self.rows.fleet.ask(question, *self.needed(), *more)


class ChunkedRows(Store):
    """Samples in chunks.

    Parameters
    ----------
    fleet : Fleet
    view : View
    counted : Counted
        Of the same rows, with the codes of their classes as targets if they have any.
    """

    passes_are_remote = True
    most_ranked = 4096  # losses travel

    def __init__(self, fleet: Fleet, view: View, counted: Counted) -> None:
        self.fleet, self.view, self.counted = fleet, view, counted
        self.loss = view.loss
        self.is_dense = not counted.is_sparse
        self.n_rows = counted.n_rows
        self.n_columns = counted.n_features + view.ones
        self.ones = counted.n_features if view.ones else None
        self.total = counted.total
        self.max_subset_rows = max(int(ROOM / counted.bytes_per_row), 1000)
        self.each = counted.mass.low if counted.mass.low == counted.mass.high else None
        targets = Extremes(-1.0, 1.0) if view.sight.labels is not None else counted.targets
        self.target_range = targets.low - view.shift, targets.high - view.shift
        X, y, mass = counted.sample
        self.fetched = X, view.sight.aimed(y), mass
        self._conditioned: dict[bool, tuple[ChunkedRows, Units] | None] = {}

    # States

    def stand(self, z: Array, k: float, density: Any) -> ChunkState:
        """Return the rows at z, whose predictions are made in the pass that needs them first."""
        f = Vector(Product(self.fleet.name(), self.view, z))
        return ChunkState(self, z, k, f, density=None if density is None else self.vector_of(density, k))

    def predict(self, direction: Array) -> ChunkedDirection:
        """Return the predictions of a direction."""
        return ChunkedDirection(
            self.fleet, Vector(Product(self.fleet.name(), self.view, direction)), direction
        )  # fmt: skip

    def moved(self, state: ChunkState, t: float, along: ChunkedDirection) -> ChunkState:
        """Return the rows at ``f + t along``."""
        return state.moved(state.z + t * along.z, state.f, t, along.vector)

    def shifted(self, state: ChunkState, amount: float) -> ChunkState:
        """Return the rows at ``f + amount``."""
        z, last = state.z.copy(), state.f.step
        z[self.ones] += amount
        if isinstance(last, Moved) and not self.fleet.holds(state.f):  # one move is still to be made: as one with this
            move = replace(last, token=self.fleet.name(), z=z, offset=last.offset + amount)
        else:
            move = Moved(self.fleet.name(), self.view, z, state.f.token, offset=amount)
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
                step = Settled(self.fleet.name(), self.view, centre.token, f.token, state.mu, state.lam)
                state.density = Vector(step, (centre, f))
        return state.density

    def prediction_range(self, state: ChunkState) -> tuple[float, float]:
        """Return the smallest and the largest prediction, which a smoothing has seen."""
        if state.range is None:
            centre = self._density(state)
            state.range = state.ask(Settle(replace(state.standing, centre=centre.token), 0.0), centre)["reach"]
        return state.range.low, state.range.high

    # Smoothing

    def settle(
        self, state: ChunkState, centre: ChunkedDensity, mu: float, lam: float, along: ChunkedDirection | None
    ) -> tuple[SettledSums, ChunkState]:
        """Return the sums at a threshold, and the state with the densities there."""
        t, way = (0.0, None) if along is None else (state.t, along.vector)
        f = state.f if along is None or state.direction is None else state.start
        at = Standing(self.view, state.k, f.token, centre.vector.token, mu, lam)
        told = self.fleet.ask(
            Settle(at, lam, t, None if way is None else way.token), f, centre.vector, *(() if way is None else (way,))
        )  # fmt: skip
        settled = state.moved(state.z, state.start, state.t, state.direction)
        settled.centre, settled.mu, settled.lam, settled.range = centre.vector, mu, lam, told["reach"]
        return SettledSums(*told["sums"].tolist()), settled

    def top(self, state: ChunkState, centre: ChunkedDensity, mu: float) -> float:
        """Return the threshold above which every density is zero."""
        at = Standing(self.view, state.k, state.start.token, centre.vector.token, mu)
        way = state.direction
        question = Top(at, state.t, None if way is None else way.token)
        more = () if way is None else (way,)
        return float(self.fleet.ask(question, state.start, centre.vector, *more)["top"].high)

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

        Where features are fetched for it, the same goes for where the proximal step leads to that may follow.
        """
        if state.pulled is None or "gradient" not in state.pulled:
            reading, curving = state.reading, None if state.centre is None else state.curving
            if reading is not None:
                self.fleet.latest = ref(state)
            if reading is not None and reading.slack > _ROUNDING * reading.bound and self.fleet.engine.is_lazy:
                density = self.densities(state)
                _, state.ahead = self.smoothed(state, density, _SHRINK * state.mu, state.lam)
            states = [state] if state.ahead is None else [state, state.ahead]
            question = Pull(tuple(each.standing for each in states), curving)
            pulled = state.ask(question, *(() if state.ahead is None else state.ahead.needed()))["pulled"]
            for each, told in zip(states, pulled, strict=True):
                each.pulled = told
        assert state.pulled is not None
        return np.asarray(state.pulled["gradient"])

    def gram(self, state: ChunkState, mu: float, *, form: Form, cautious: bool, most: int | None, seed: int) -> Gram:
        """Return the weighted Gram matrix, at the smoothing of the state."""
        assert mu == state.mu
        share = None if most is None or most >= self.n_rows else most / self.n_rows
        wanted = Curving(form, cautious and self.kink is Kink.NONE, share, seed)
        if state.pulled is None or "curvature" not in state.pulled or not wanted.is_like(state.curving):
            state.curving = wanted
            others = state.ask(Pull((state.standing,), wanted, gradient=state.pulled is None))["pulled"][0]
            state.pulled = Sums((state.pulled or {}) | others)
        told, curving = state.pulled.pop("curvature"), state.curving
        assert curving is not None
        gram = Gram(told["pulls"], told["tied"], told["sampled"] > 0)
        if form == "product":
            standing = state.standing

            def product(v: Array) -> Array:
                return np.asarray(state.ask(GramProduct(standing, curving, v))["product"])

            return gram._replace(product=product, diagonal=np.array(told["diagonal"]))
        if form == "packed":
            packed = PackedSymmetric(self.n_columns)
            packed.numbers = np.array(told["packed"])
            return gram._replace(packed=packed)
        return gram._replace(matrix=np.array(told["matrix"]))

    # Proof

    def sides(self, state: ChunkState) -> Sides:
        """Return pulls and masses."""
        return Sides(*state.ask(Weigh(state.standing))["sides"].tolist())

    def scaled(self, state: ChunkState, up: float, down: float, level: float) -> ChunkState:
        """Return the state with other densities."""
        before, f = self._density(state), state.f
        step = Feasible(self.fleet.name(), self.view, before.token, f.token, up, down, level)
        return ChunkState(self, state.z, state.k, f, density=Vector(step, (before, f)))

    def bound(self, exact: ChunkState, feasible: ChunkState, lam: float) -> Bound:
        """Return the sums over all rows."""
        density, f = self._density(feasible), exact.f
        told = feasible.ask(Slack(feasible.standing, f.token, density.token, lam), f, density)
        return Bound(*told["sums"].tolist())

    def least(self, state: ChunkState) -> float:
        """Return the smallest loss."""
        return self._between(state, -np.inf, np.inf, 0.0, True).least

    def between(self, state: ChunkState, low: float, high: float, share: float, by_count: bool) -> Between:
        """Return what the losses say of an interval."""
        return self._between(state, low, high, share, by_count)

    def _between(
        self, state: ChunkState, low: float, high: float, share: float, by_count: bool, without: Vector | None = None
    ) -> Between:
        token = None if without is None else without.token
        more = () if without is None else (without,)
        told = self.fleet.ask(Losing(self.view, state.f.token, low, high, share, by_count, token), state.f, *more)
        return told["between"].of_all()  # type: ignore[no-any-return]

    # Parts, and other stores of the same rows

    def largest(self, state: ChunkState, count: int, beside: ChunkedSubset | None, above: float) -> ChunkedSubset:
        """Return the rows with the largest losses."""
        count = min(max(count, 1), self.n_rows)
        without = None
        if beside is not None:
            without = Vector(Scattered(self.fleet.name(), self.view, beside.ids, np.ones(beside.ids.size)))
            higher = self._between(state, above, above, 0.0, True, without).above
            if higher == 0.0:
                return beside
        if beside is None or higher > count:
            ranked = rank(
                lambda low, high, share: self._between(state, low, high, share, True, without),
                float(count), self.n_rows, self.most_ranked,
            )  # fmt: skip
            left = self._ties(state, ranked, count, without)
        else:
            ranked, left = Ranked(above, higher), {}
        more = () if without is None else (without,)
        token = None if without is None else without.token
        picked: Picked = self.fleet.ask(Fetch(self.view, state.f.token, ranked.value, left, token), state.f, *more)
        if beside is not None:
            picked = picked + Picked((beside.columns,))
        return ChunkedSubset(self, picked.together())

    def _ties(self, state: ChunkState, ranked: Ranked, count: int, without: Vector | None) -> dict[int, int]:
        """Return how many rows with just that loss are taken from each chunk, for the number to be as wanted."""
        value, token = ranked.value, None if without is None else without.token
        more = () if without is None else (without,)
        told = self.fleet.ask(Losing(self.view, state.f.token, value, value, 0.0, True, token), state.f, *more)
        left, ties = count - int(told["between"].above), {}
        for index, n in sorted(told["between"].counts):
            ties[index] = min(n, left)
            left -= ties[index]
        return {index: n for index, n in ties.items() if n > 0}

    def vector_of(self, density: Any, k: float) -> Vector:
        """Return densities, given in whatever form, as a vector of the chunks."""
        if isinstance(density, ChunkedDensity):
            return density.vector
        if density is not None:
            ids = np.concatenate([row_ids(index, n) for index, n in sorted(self.counted.sizes.items())])
            return Vector(Scattered(self.fleet.name(), self.view, ids, np.asarray(density, dtype=np.float64)))
        return Vector(Alike(self.fleet.name(), self.view, self.alike(k)))

    def sample(self, count: int) -> CompiledRows:
        """Return a random part of the rows, not more than were fetched, the same every time."""
        X, y, mass = self.fetched
        places = spread_places(y.size, count)
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
