"""One chunk of rows where it lies: what a problem sees of it, the vectors it makes, and sums that add up.

A vector with a number per row (predictions, densities) stays with the chunks; what is known of it elsewhere is how to
make it: a step from other vectors and a few numbers. So a chunk that has lost it, or never had it, can make it again:
that is all there is to surviving the death of a worker, and to resuming a fit. A chunk knows nothing of who asks.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from atklearn.core.coordinates import Units, convert
from atklearn.core.ranking import Between
from atklearn.losses.individual import Array, IndividualLoss
from atklearn.runtime import threads
from atklearn.selection.distribution import row_marks
from atklearn.stores.compiled import Features, Losses, Paying
from atklearn.stores.passes import N_SUMS, add_scaled, clip, settle_blocks

__all__ = [
    "Alike", "BetweenChunks", "Blend", "Block", "Chunk", "Extremes", "Feasible", "FoldPart", "Ids", "Labels",
    "Memory", "Missing", "Moved", "Picked", "Product", "Scattered", "Settled", "Sight", "Step", "Sums", "Together",
    "Vector", "View", "as_features", "history", "row_ids", "stacked",
]  # fmt: skip


class Sums(dict[Any, Any]):
    """Named amounts; the sum of two has the sums of equal names.

    Examples
    --------
    >>> Sums(count=1, total=2.0) + Sums(count=3)
    {'count': 4, 'total': 2.0}
    """

    def __add__(self, other: Sums) -> Sums:
        out = Sums(self)
        for name, amount in other.items():
            out[name] = out[name] + amount if name in out else amount
        return out


class Together(list[Any]):
    """Several amounts, added each to its own."""

    def __add__(self, other: Together) -> Together:  # type: ignore[override]
        return Together(one + more for one, more in zip(self, other, strict=True))


@dataclass(frozen=True)
class Extremes:
    """The smallest and the largest of numbers; those of two collections are added to those of both."""

    low: float
    high: float

    def __add__(self, other: Extremes) -> Extremes:
        return Extremes(min(self.low, other.low), max(self.high, other.high))

    @classmethod
    def of(cls, values: npt.NDArray[Any]) -> Extremes:
        """Return those of an array, of none as of nothing."""
        return cls(float(values.min()), float(values.max())) if values.size else cls(np.inf, -np.inf)


@dataclass(frozen=True)
class BetweenChunks:
    """What the losses of chunks say of an interval, and how many of each chunk are inside."""

    parts: tuple[Between, ...]
    counts: tuple[tuple[int, int], ...]

    def __add__(self, other: BetweenChunks) -> BetweenChunks:
        return BetweenChunks(self.parts + other.parts, self.counts + other.counts)

    @property
    def above(self) -> float:
        """The amount above the interval."""
        return sum(part.above for part in self.parts)

    def of_all(self) -> Between:
        """Return what all of them say together."""
        parts = self.parts
        return Between(
            above=self.above,
            inside=sum(part.inside for part in parts),
            count=sum(part.count for part in parts),
            values=np.concatenate([part.values for part in parts]),
            weights=np.concatenate([part.weights for part in parts]),
            is_partial=any(part.is_partial for part in parts),
            least=min(part.least for part in parts),
            most=max(part.most for part in parts),
        )


@dataclass(frozen=True)
class Picked:
    """Rows taken out of their chunks: a list of pieces, each the ids of its rows and what belongs to them."""

    pieces: tuple[tuple[Any, ...], ...] = ()

    def __add__(self, other: Picked) -> Picked:
        return Picked(self.pieces + other.pieces)

    def together(self) -> tuple[Any, ...]:
        """Return the columns of all pieces, each as one array, in the order of the ids."""
        ids, *columns = (stacked(list(parts)) for parts in zip(*self.pieces, strict=True))
        if np.all(ids[1:] >= ids[:-1]):
            return ids, *columns
        order = np.argsort(ids, kind="stable")
        return ids[order], *(column[order] for column in columns)


def stacked(parts: list[Any]) -> Any:
    """Return arrays, or sparse matrices, one below the other."""
    if len(parts) == 1:
        return parts[0]
    return sp.vstack(parts, format="csr") if any(map(sp.issparse, parts)) else np.concatenate(parts)


@dataclass(frozen=True)
class Labels:
    """The classes of all chunks, sorted, and what samples of each are multiplied with."""

    classes: npt.NDArray[Any]
    weights: Array | None = None

    def codes(self, y: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
        """Return which class every label is."""
        return np.searchsorted(self.classes, y)


@dataclass(frozen=True)
class FoldPart:
    """The rows outside one of some folds, or those in it; a row's fold depends on its values alone."""

    n_folds: int
    fold: int
    seed: int
    is_held_out: bool = False

    def of(self, X: Any) -> npt.NDArray[np.bool_]:
        """Return which rows belong to this part."""
        inside = row_marks(X, np.zeros(X.shape[0]), self.seed) % np.uint64(self.n_folds) == self.fold
        return np.asarray(inside == self.is_held_out)


@dataclass(frozen=True)
class Sight:
    """Which rows count, and what their targets are.

    Attributes
    ----------
    token : int
        Its name in the memory of chunks.
    labels : Labels or None
        None for a regression.
    positive : int or None
        The class that is told from the rest; None where no targets are needed.
    part : FoldPart or None
    """

    token: int
    labels: Labels | None = None
    positive: int | None = None
    part: FoldPart | None = None

    def mass(self, y: npt.NDArray[Any], weight: Array | None) -> Array:
        """Return sample weights times class weights, shape (n_rows,)."""
        mass = np.ones(y.size) if weight is None else np.asarray(weight, dtype=np.float64)
        if self.labels is not None and self.labels.weights is not None:
            mass = mass * self.labels.weights[self.labels.codes(y)]
        return mass

    def numbers(self, y: npt.NDArray[Any]) -> Array:
        """Return the targets as a loss takes them; the codes of the classes if none is told from the rest."""
        return self.aimed(np.asarray(y if self.labels is None else self.labels.codes(y), dtype=np.float64))

    def aimed(self, codes: Array) -> Array:
        """Return the targets, for codes of classes, or targets as they are."""
        return codes if self.positive is None else np.where(codes == self.positive, 1.0, -1.0)


@dataclass(frozen=True)
class View:
    """What a problem makes of the rows it sees."""

    sight: Sight
    loss: IndividualLoss
    ones: bool
    units: Units | None = None

    @property
    def shift(self) -> float:
        """What is taken off the targets."""
        return 0.0 if self.units is None else self.units.shift


def as_features(X: Any) -> Any:
    """Return the features of a chunk, an array, sparse matrix or table, as C-ordered array or CSR."""
    if sp.issparse(X):
        matrix = X.tocsr()
        small = np.int32
        if matrix.indices.dtype != small or matrix.indptr.dtype != small:
            indices, indptr = matrix.indices.astype(small), matrix.indptr.astype(small)
            matrix = type(matrix)((matrix.data, indices, indptr), shape=matrix.shape)
        return matrix
    array = X.to_numpy() if hasattr(X, "to_numpy") else np.asarray(X)
    wanted = array.dtype if array.dtype in (np.float32, np.float64) else np.float64
    return np.ascontiguousarray(array, dtype=wanted)


class Maker(Protocol):
    """A chunk, as far as vectors are made from it."""

    def n_rows(self, sight: Sight) -> int:
        """Return how many rows count."""

    def ids(self, sight: Sight) -> npt.NDArray[np.int64]:
        """Return a number for every row that counts, unique among all chunks, ascending."""

    def matrix(self, view: View) -> Features:
        """Return the features of the rows that count."""

    def paid(self, view: View) -> Paying:
        """Return what these rows pay, without reading their features."""

    def losses(self, view: View, k: float) -> tuple[Array, Losses]:
        """Return ``mass / k`` and room for losses, which both last as long as the question."""

    def held(self, token: int) -> Array | None:
        """Return a vector if it is remembered."""

    def vector(self, token: int) -> Array:
        """Return a vector that is remembered or made."""


@dataclass(frozen=True)
class Step(ABC):
    """How a vector is made. ``token`` is its name, unique in a fit."""

    token: int

    @property
    def parents(self) -> tuple[int, ...]:
        """The vectors it is made from."""
        return ()

    @property
    def shortcut(self) -> tuple[int, ...]:
        """Vectors that save a pass over the features, if they are there."""
        return ()

    @abstractmethod
    def make(self, chunk: Maker) -> Array:
        """Return the vector of a chunk."""


@dataclass(frozen=True)
class Product(Step):
    """Predictions ``X z``."""

    view: View
    z: Array

    def make(self, chunk: Maker) -> Array:
        """Read the features, unless all is zero."""
        if not self.z.any():
            return np.zeros(chunk.n_rows(self.view.sight))
        matrix = chunk.matrix(self.view)
        return matrix.predict(*matrix.split(self.z), np.empty(matrix.n_rows))


@dataclass(frozen=True)
class Moved(Step):
    """Predictions ``origin + t along + offset``; if these are gone, ``X z`` of where that leads to."""

    view: View
    z: Array
    origin: int
    t: float = 0.0
    along: int | None = None
    offset: float = 0.0

    @property
    def shortcut(self) -> tuple[int, ...]:
        """Where it comes from, and along what."""
        return (self.origin,) if self.along is None else (self.origin, self.along)

    def make(self, chunk: Maker) -> Array:
        """Add up what is there, or read the features."""
        held = [vector for vector in map(chunk.held, self.shortcut) if vector is not None]
        if len(held) < len(self.shortcut):
            return Product(self.token, self.view, self.z).make(chunk)
        out = held[0] + self.offset
        if self.along is not None:
            threads.over_rows(add_scaled, out.size, 1.0, self.t, held[1], out)
        return out


@dataclass(frozen=True)
class Alike(Step):
    """The same number for every row."""

    view: View
    value: float

    def make(self, chunk: Maker) -> Array:
        """Repeat it."""
        return np.full(chunk.n_rows(self.view.sight), self.value)


@dataclass(frozen=True)
class Scattered(Step):
    """Numbers for some rows, by their ids, ascending; zero for the others."""

    view: View
    ids: npt.NDArray[np.int64]
    values: Array

    def make(self, chunk: Maker) -> Array:
        """Put down those of the chunk."""
        ids = chunk.ids(self.view.sight)
        if self.ids.size == 0 or ids.size == 0:
            return np.zeros(ids.size)
        found = np.minimum(np.searchsorted(self.ids, ids), self.ids.size - 1)
        return np.where(self.ids[found] == ids, self.values[found], 0.0)


@dataclass(frozen=True)
class Settled(Step):
    """Densities of losses smoothed by mu around a centre, above a threshold."""

    view: View
    centre: int
    f: int
    mu: float
    threshold: float

    @property
    def parents(self) -> tuple[int, ...]:
        """Centre and predictions."""
        return self.centre, self.f

    def make(self, chunk: Maker) -> Array:
        """Smooth the losses."""
        f, centre = chunk.vector(self.f), chunk.vector(self.centre)
        (u, losses), paid = chunk.losses(self.view, 1.0), chunk.paid(self.view)
        paid.expand(f, 0.0, f, losses)
        settle(losses, centre, u, self.mu, self.threshold, paid.kink.is_two_sided, f)
        return losses.r.copy()


@dataclass(frozen=True)
class Feasible(Step):
    """Densities that pull up, down and not at all, times a factor each."""

    view: View
    density: int
    f: int
    up: float
    down: float
    level: float

    @property
    def parents(self) -> tuple[int, ...]:
        """Densities and predictions."""
        return self.density, self.f

    def make(self, chunk: Maker) -> Array:
        """Scale either side."""
        f, r = chunk.vector(self.f), chunk.vector(self.density)
        _, losses = chunk.losses(self.view, 1.0)
        chunk.paid(self.view).expand(f, 0.0, f, losses)
        side = r * losses.slope
        return r * np.where(side > 0.0, self.up, np.where(side < 0.0, self.down, self.level))


@dataclass(frozen=True)
class Blend(Step):
    """A linear combination of densities, brought between its bounds, then times a scale."""

    terms: tuple[tuple[float, int], ...]
    lowest: float
    scale: float = 1.0

    @property
    def parents(self) -> tuple[int, ...]:
        """All densities that go in."""
        return tuple(token for _, token in self.terms)

    def make(self, chunk: Maker) -> Array:
        """Add up, clip, scale."""
        (factor, token), *others = self.terms
        out = factor * chunk.vector(token)
        for factor, token in others:
            threads.over_rows(add_scaled, out.size, 1.0, factor, chunk.vector(token), out)
        threads.block_sums(clip, 1, out.size, 1.0, out, self.lowest, out)
        return out if self.scale == 1.0 else self.scale * out


def settle(
    losses: Losses, centre: Array, u: Array, mu: float, threshold: float, two_sided: bool, along: Array
) -> Array:  # fmt: skip
    """Fill in densities and pulls at a threshold; return the sums of :class:`atklearn.core.point.Sums`."""
    return threads.block_sums(
        settle_blocks, N_SUMS, losses.f.size, 4.0, losses.s, losses.slope, centre, u, mu, threshold, two_sided, along,
        losses.r, losses.a,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Vector:
    """A vector as its chunks' driver knows it: the step that makes it, and the vectors that step needs."""

    step: Step
    parents: tuple[Vector, ...] = ()

    @property
    def token(self) -> int:
        """Its name."""
        return self.step.token


def history(vectors: Iterable[Vector], held: Any = ()) -> tuple[Step, ...]:
    """Return the steps that make some vectors, parents first, but for what the chunks hold already."""
    steps: dict[int, Step] = {}
    waiting = [vector for vector in vectors if vector.token not in held]
    while waiting:
        vector = waiting[-1]
        missing = [p for p in vector.parents if p.token not in steps and p.token not in held]
        if missing:
            waiting.extend(missing)
            continue
        waiting.pop()
        steps[vector.token] = vector.step
    return tuple(steps.values())


Ids: TypeAlias = npt.NDArray[np.int64]
_ROW_BITS = 32  # of an id; those above are the chunk's
_SPARE = 3  # arrays that a thread keeps for the next question


def row_ids(index: int, n: int) -> Ids:
    """Return ids of the n rows of a chunk, unique among all and ascending with the number of the chunk."""
    return (np.int64(index) << _ROW_BITS) + np.arange(n)


class Missing(Exception):  # noqa: N818
    """A chunk has forgotten, or never known, what it is asked about: it needs its data, and the steps so far."""


class Block(NamedTuple):
    """The data of a chunk as its owner has them: arrays, sparse matrices, tables."""

    X: Any
    y: Any = None
    weight: Any = None


class _Scratch(threading.local):
    """Arrays for what is computed on the way to an answer, used again and again.

    To get memory from the system, and to give it back, takes as long as to compute with it; workers of Dask are set up
    to give it back at once.
    """

    def __init__(self) -> None:
        self.free: list[Array] = []

    def take(self, n_rows: int) -> Array:
        """Return six numbers for every row, with no meaning."""
        for place, numbers in enumerate(self.free):
            if numbers.shape[1] == n_rows:
                return self.free.pop(place)
        return np.empty((6, n_rows))

    def give_back(self, lent: list[Array]) -> None:
        """Take arrays back, and keep those that came last."""
        self.free = (lent + self.free)[:_SPARE]


_scratch = _Scratch()


class Memory:
    """What a chunk remembers from one question to the next."""

    def __init__(self) -> None:
        self.vectors: dict[int, Array] = {}
        self.targets: dict[int, tuple[Array, Array | float]] = {}
        self.kept: dict[int, npt.NDArray[np.bool_] | None] = {}  # which rows count; None if all do
        self.is_empty = False
        self.lock = threading.Lock()  # a task that was given up may still run when its successor does

    def keep(self, tokens: frozenset[int]) -> None:
        """Forget all but what is named."""
        self.vectors = {token: vector for token, vector in self.vectors.items() if token in tokens}
        self.targets = {token: targets for token, targets in self.targets.items() if token in tokens}
        self.kept = {token: kept for token, kept in self.kept.items() if token in tokens}


class Chunk:
    """A chunk while it answers one question.

    Parameters
    ----------
    block : Block or None
        None where the question should do without the data.
    memory : Memory
    steps : sequence of Step
        How vectors are made that it may not hold.
    index : int
        Its number among all.
    """

    def __init__(self, block: Block | None, memory: Memory, steps: Sequence[Step] = (), index: int = 0) -> None:
        self.block, self.memory, self.index = block, memory, index
        self.steps = {step.token: step for step in steps}
        self._features: dict[int, Any] = {}
        self._lent: list[Array] = []
        self._all: Any = None
        self._ids: Ids | None = None

    @classmethod
    def of_rows(cls, sight: Sight, steps: Sequence[Step], ids: Ids, X: Any, y: Array, mass: Array) -> Chunk:
        """Return some rows in memory, wherever they were, as a chunk that can make their part of vectors."""
        chunk = cls(None, Memory(), steps)
        chunk._ids = ids
        chunk._features[sight.token] = X
        chunk.memory.targets[sight.token] = y, mass
        return chunk

    def ids(self, sight: Sight) -> Ids:
        """Return a number for every row that counts, unique among all chunks, ascending."""
        if self._ids is None:
            self._ids = row_ids(self.index, self.n_rows(sight))
        return self._ids

    def given(self) -> Block:
        """Return the data."""
        if self.block is None:
            raise Missing
        return self.block

    def targets(self, sight: Sight) -> tuple[Array, Array]:
        """Return targets and mass of the rows that count."""
        y, mass = self._remembered(sight)
        return y, np.full(y.size, mass) if isinstance(mass, float) else mass

    def n_rows(self, sight: Sight) -> int:
        """Return how many rows count."""
        return int(self._remembered(sight)[0].size)

    def _remembered(self, sight: Sight) -> tuple[Array, Array | float]:
        """Return targets, and mass as one number if all have the same."""
        if sight.token not in self.memory.targets:
            self._look(sight)
        return self.memory.targets[sight.token]

    def losses(self, view: View, k: float) -> tuple[Array, Losses]:
        """Return ``u = mass / k`` and room for losses, which both last as long as the question."""
        y, mass = self._remembered(view.sight)
        numbers = _scratch.take(y.size)
        self._lent.append(numbers)
        return np.divide(mass, k, out=numbers[5]), Losses(y.size, numbers[:5])

    def features(self, sight: Sight) -> Any:
        """Return the features of the rows that count, as array or CSR."""
        if sight.token not in self._features:
            if sight.token not in self.memory.kept:
                self._look(sight)
            X, kept = self._read(), self.memory.kept[sight.token]
            self._features[sight.token] = X if kept is None else X[kept]
        return self._features[sight.token]

    def _look(self, sight: Sight) -> None:
        """Look at the data, and remember which rows count, and their targets."""
        (labels, mass), kept = self._labelled(sight), self.kept(sight)
        is_whole = bool(kept.all())
        if not is_whole:
            labels, mass = labels[kept], mass[kept]
        is_even = mass.size > 0 and mass.min() == mass.max()
        self.memory.kept[sight.token] = None if is_whole else kept
        self.memory.targets[sight.token] = sight.numbers(labels), float(mass[0]) if is_even else mass

    def _labelled(self, sight: Sight) -> tuple[npt.NDArray[Any], Array]:
        """Return labels and mass of all rows."""
        _, labels, weight = self.given()
        labels = np.asarray(labels).reshape(-1)
        return labels, sight.mass(labels, None if weight is None else np.asarray(weight).reshape(-1))

    def kept(self, sight: Sight) -> npt.NDArray[np.bool_]:
        """Return which rows of the data count."""
        kept = self._labelled(sight)[1] > 0.0
        if sight.part is not None:
            kept &= sight.part.of(self._read())
        return kept

    def _read(self) -> Any:
        """Return all features, converted once for all who look."""
        if self._all is None:
            self._all = as_features(self.given().X)
        return self._all

    def matrix(self, view: View) -> Features:
        """Return the features of the rows that count, in the units of the view, with its column of ones."""
        X = self.features(view.sight)
        if view.units is not None:
            X, _ = convert(X, self._remembered(view.sight)[0], view.units)
        elif sp.issparse(X):
            X = X.astype(np.float64, copy=False)
        return Features(X, view.ones)

    def paid(self, view: View) -> Paying:
        """Return what these rows pay, without reading their features."""
        y = self._remembered(view.sight)[0]
        return Paying(view.loss, y - view.shift if view.shift else y)

    def held(self, token: int) -> Array | None:
        """Return a vector if it is remembered."""
        return self.memory.vectors.get(token)

    def vector(self, token: int) -> Array:
        """Return a vector, made if need be from the vectors that it needs."""
        waiting = [token]
        while waiting:
            name = waiting[-1]
            if name in self.memory.vectors:
                waiting.pop()
                continue
            if name not in self.steps:
                raise Missing
            unmade = [parent for parent in self.steps[name].parents if parent not in self.memory.vectors]
            if unmade:
                waiting.extend(unmade)
                continue
            self.memory.vectors[name] = self.steps[name].make(self)
            waiting.pop()
        return self.memory.vectors[token]

    def answer(self, question: Any, beside: Sequence[int] = ()) -> Any:
        """Return the answer to a question, None if the chunk has no rows; make the vectors named ``beside``, too."""
        if self.block is not None:
            self.memory.is_empty = self.block.X.shape[0] == 0
        try:
            if self.memory.is_empty:
                return None
            answered = question.answer(self)
            for token in beside:
                self.vector(token)
            return answered
        finally:
            _scratch.give_back(self._lent)
