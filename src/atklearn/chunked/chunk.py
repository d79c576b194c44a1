"""One chunk of rows where it lies: what a problem sees of it, and the vectors it makes.

A vector with a number per row (predictions, densities) stays with the chunks; the driver knows how to make it: a
:class:`Recipe` from other vectors and a few numbers. So a chunk that has lost a vector makes it again:
that is all there is to surviving the death of a worker, and to resuming a fit.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from atklearn.core.coordinates import Units, convert
from atklearn.losses.individual import Array, IndividualLoss
from atklearn.runtime import threads
from atklearn.selection.distribution import row_marks
from atklearn.stores.compiled import Features, Losses, Paying
from atklearn.stores.passes import N_SUMS, add_scaled, clip, settle_blocks

if TYPE_CHECKING:
    from atklearn.chunked.queries import Answer, Query

__all__ = [
    "Block", "Chunk", "Combination", "Constant", "FoldPart", "Ids", "Labels", "Memory", "MissingVectorError",
    "Prediction", "Recipe", "RowView", "Rows", "Scaled", "Scattered", "Smoothed", "Values", "Vector", "as_features",
    "lineage", "row_ids", "settle",
]  # fmt: skip

Rows: TypeAlias = Any
"""Features of some rows: an array, a sparse matrix or a table."""
Values: TypeAlias = npt.NDArray[Any]
"""Labels or numbers, one per row."""
Mask: TypeAlias = npt.NDArray[np.bool_]
Ids: TypeAlias = npt.NDArray[np.int64]

_ROW_BITS = 32  # of an id; those above are the chunk's
_SPARE = 3  # arrays that a thread keeps for the next query


@dataclass(frozen=True)
class Labels:
    """The classes of all chunks, sorted, and what samples of each are multiplied with."""

    classes: Values
    weights: Array | None = None

    def codes(self, y: Values) -> npt.NDArray[np.intp]:
        """Return which class every label is."""
        return np.searchsorted(self.classes, y)


@dataclass(frozen=True)
class FoldPart:
    """The rows outside one of some folds, or those in it; a row's fold depends on its values alone."""

    n_folds: int
    fold: int
    seed: int
    is_held_out: bool = False

    def of(self, X: Rows) -> Mask:
        """Return which rows belong to this part."""
        inside = row_marks(X, np.zeros(X.shape[0]), self.seed) % np.uint64(self.n_folds) == self.fold
        return np.asarray(inside == self.is_held_out)


@dataclass(frozen=True)
class RowView:
    """What a problem sees of rows: which of them count, their targets, the loss they pay, the units of the features.

    Attributes
    ----------
    token : int
        Names which rows count and their targets in the memory of chunks: equal for views that differ in the rest.
    loss : IndividualLoss or None
        None where nothing is paid.
    ones : bool
        Whether the features have a column of ones, the last.
    labels : Labels or None
        None for a regression.
    positive : int or None
        The class that is 1, the others being -1; if None, targets are codes of classes.
    part : FoldPart or None
        The rows that count, besides having mass; all if None.
    units : Units or None
        Those of the user if None.
    """

    token: int
    loss: IndividualLoss | None = None
    ones: bool = False
    labels: Labels | None = None
    positive: int | None = None
    part: FoldPart | None = None
    units: Units | None = None

    @property
    def shift(self) -> float:
        """What is taken off the targets."""
        return 0.0 if self.units is None else self.units.shift

    def mass(self, y: Values, weight: Array | None) -> Array:
        """Return sample weights times class weights, shape (n_rows,)."""
        mass = np.ones(y.size) if weight is None else np.asarray(weight, dtype=np.float64)
        if self.labels is not None and self.labels.weights is not None:
            mass = mass * self.labels.weights[self.labels.codes(y)]
        return mass

    def targets(self, y: Values) -> Array:
        """Return targets as the loss takes them, for labels or numbers."""
        return self.signed(np.asarray(y if self.labels is None else self.labels.codes(y), dtype=np.float64))

    def signed(self, codes: Array) -> Array:
        """Return codes as 1 for the positive class and -1 for the rest; as they are where there is none."""
        return codes if self.positive is None else np.where(codes == self.positive, 1.0, -1.0)


def as_features(X: Rows) -> Rows:
    """Return features as C-ordered array or CSR with 32-bit indices."""
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


# How vectors are made


@dataclass(frozen=True)
class Recipe(ABC):
    """How a vector is made. ``token`` is the name of the vector, unique in a fit."""

    token: int

    @property
    def parents(self) -> tuple[int, ...]:
        """The vectors it is made from."""
        return ()

    @property
    def shortcut(self) -> tuple[int, ...]:
        """Vectors that save a pass over the features, if they are remembered."""
        return ()

    @abstractmethod
    def make(self, chunk: Chunk) -> Array:
        """Return the vector of a chunk."""


@dataclass(frozen=True)
class Prediction(Recipe):
    """Predictions ``X z``; without a look at X where ``origin + t along + offset`` is the same, and remembered."""

    view: RowView
    z: Array
    origin: int | None = None
    t: float = 0.0
    along: int | None = None
    offset: float = 0.0

    @property
    def shortcut(self) -> tuple[int, ...]:
        """Where it comes from, and along what."""
        return tuple(token for token in (self.origin, self.along) if token is not None)

    def reads(self, held: Set[int]) -> bool:
        """Say whether it takes the features where some vectors are remembered."""
        return bool(self.z.any()) and (self.origin is None or not held >= set(self.shortcut))

    def make(self, chunk: Chunk) -> Array:
        """Add up what is remembered, or read the features, unless all is zero."""
        held = chunk.memory.vectors
        if self.origin is not None and held.keys() >= set(self.shortcut):
            out = held[self.origin] + self.offset
            if self.along is not None:
                threads.over_rows(add_scaled, out.size, 1.0, self.t, held[self.along], out)
            return out
        if not self.z.any():
            return np.zeros(chunk.n_rows(self.view))
        matrix = chunk.matrix(self.view)
        predictions = matrix.predict(*matrix.split(self.z), np.empty(matrix.n_rows))
        chunk.refuse_spoiled(predictions)
        return predictions


@dataclass(frozen=True)
class Constant(Recipe):
    """One number for every row."""

    view: RowView
    value: float

    def make(self, chunk: Chunk) -> Array:
        """Repeat it."""
        return np.full(chunk.n_rows(self.view), self.value)


@dataclass(frozen=True)
class Scattered(Recipe):
    """Numbers for some rows, by their ids, ascending; zero for the others."""

    view: RowView
    ids: Ids
    values: Array

    def make(self, chunk: Chunk) -> Array:
        """Put down those of the chunk."""
        ids = chunk.ids(self.view)
        if self.ids.size == 0 or ids.size == 0:
            return np.zeros(ids.size)
        found = np.minimum(np.searchsorted(self.ids, ids), self.ids.size - 1)
        return np.where(self.ids[found] == ids, self.values[found], 0.0)


@dataclass(frozen=True)
class Smoothed(Recipe):
    """Densities of losses smoothed by mu around a centre, above a threshold."""

    view: RowView
    centre: int
    f: int
    mu: float
    threshold: float

    @property
    def parents(self) -> tuple[int, ...]:
        """Centre and predictions."""
        return self.centre, self.f

    def make(self, chunk: Chunk) -> Array:
        """Smooth the losses."""
        f, centre = chunk.vector(self.f), chunk.vector(self.centre)
        u, losses, paying = chunk.losses(self.view, 1.0, f)
        settle(losses, centre, u, self.mu, self.threshold, paying.kink.is_two_sided, f)
        return losses.r.copy()


@dataclass(frozen=True)
class Scaled(Recipe):
    """Densities that pull up, down and not at all, times a factor each."""

    view: RowView
    density: int
    f: int
    up: float
    down: float
    level: float

    @property
    def parents(self) -> tuple[int, ...]:
        """Densities and predictions."""
        return self.density, self.f

    def make(self, chunk: Chunk) -> Array:
        """Scale either side."""
        f, r = chunk.vector(self.f), chunk.vector(self.density)
        _, losses, _ = chunk.losses(self.view, 1.0, f)
        side = r * losses.slope
        return r * np.where(side > 0.0, self.up, np.where(side < 0.0, self.down, self.level))


@dataclass(frozen=True)
class Combination(Recipe):
    """A linear combination of densities, brought between its bounds, then times a scale."""

    terms: tuple[tuple[float, int], ...]
    lowest: float
    scale: float = 1.0

    @property
    def parents(self) -> tuple[int, ...]:
        """All densities that go in."""
        return tuple(token for _, token in self.terms)

    def make(self, chunk: Chunk) -> Array:
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
    """Fill in densities and pulls at a threshold; return the sums of :class:`atklearn.core.point.SettledSums`."""
    return threads.block_sums(
        settle_blocks, N_SUMS, losses.f.size, 4.0, losses.s, losses.slope, centre, u, mu, threshold, two_sided, along,
        losses.r, losses.a,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Vector:
    """A vector as the driver knows it: its recipe, and the vectors which that needs."""

    recipe: Recipe
    parents: tuple[Vector, ...] = ()

    @property
    def token(self) -> int:
        """Its name."""
        return self.recipe.token


def lineage(vectors: Iterable[Vector], held: Container[int] = ()) -> tuple[Recipe, ...]:
    """Return the recipes that lead to some vectors, parents first, but for what the chunks hold already."""
    recipes: dict[int, Recipe] = {}
    waiting = [vector for vector in vectors if vector.token not in held]
    while waiting:
        vector = waiting[-1]
        missing = [p for p in vector.parents if p.token not in recipes and p.token not in held]
        if missing:
            waiting.extend(missing)
            continue
        waiting.pop()
        recipes[vector.token] = vector.recipe
    return tuple(recipes.values())


def row_ids(index: int, n: int) -> Ids:
    """Return ids of the n rows of a chunk, unique among all and ascending with the number of the chunk."""
    return (np.int64(index) << _ROW_BITS) + np.arange(n)


# The chunk


class MissingVectorError(Exception):
    """A chunk has forgotten, or never known, what a query names: it needs its data, and all recipes."""


class Block(NamedTuple):
    """The data of a chunk as its owner has them: arrays, sparse matrices, tables."""

    X: Rows
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
    """What a chunk remembers from one query to the next."""

    def __init__(self) -> None:
        self.vectors: dict[int, Array] = {}
        self.targets: dict[int, tuple[Array, Array | float]] = {}  # with mass, one number if all have the same
        self.kept: dict[int, Mask | None] = {}  # which rows count; None if all do
        self.is_empty = False
        self.lock = threading.Lock()  # a task that was given up may still run when its successor does

    def keep(self, tokens: frozenset[int]) -> None:
        """Forget all but what is named."""
        self.vectors = {token: vector for token, vector in self.vectors.items() if token in tokens}
        self.targets = {token: targets for token, targets in self.targets.items() if token in tokens}
        self.kept = {token: kept for token, kept in self.kept.items() if token in tokens}


class Chunk:
    """A chunk while it answers one query.

    Parameters
    ----------
    block : Block or None
        None where the query should do without the data.
    memory : Memory
    recipes : sequence of Recipe
        Of vectors that it may not remember.
    index : int
        Its number among all.
    """

    def __init__(self, block: Block | None, memory: Memory, recipes: Sequence[Recipe] = (), index: int = 0) -> None:
        self.block, self.memory, self.index = block, memory, index
        self.recipes = {recipe.token: recipe for recipe in recipes}
        self._features: dict[int, Rows] = {}
        self._lent: list[Array] = []
        self._all: Rows = None
        self._ids: Ids | None = None

    @classmethod
    def of_rows(
        cls, view: RowView, recipes: Sequence[Recipe], ids: Ids, X: Rows, y: Array, mass: Array
    ) -> Chunk:  # fmt: skip
        """Return some rows in memory, wherever they were, as a chunk that can make their part of vectors."""
        chunk = cls(None, Memory(), recipes)
        chunk._ids = ids
        chunk._features[view.token] = X
        chunk.memory.targets[view.token] = y, mass
        return chunk

    def answer(self, query: Query, also_make: Sequence[int] = ()) -> Answer | None:
        """Return the answer to a query, None if the chunk has no rows; make other vectors in passing."""
        if self.block is not None:
            self.memory.is_empty = self.block.X.shape[0] == 0
        try:
            if self.memory.is_empty:
                return None
            answered = query.answer(self)
            for token in also_make:
                self.vector(token)
            return answered
        finally:
            _scratch.give_back(self._lent)

    def given(self) -> Block:
        """Return the data."""
        if self.block is None:
            raise MissingVectorError
        return self.block

    # Which rows count, and their targets

    def ids(self, view: RowView) -> Ids:
        """Return a number for every row that counts, unique among all chunks, ascending."""
        if self._ids is None:
            self._ids = row_ids(self.index, self.n_rows(view))
        return self._ids

    def targets(self, view: RowView) -> tuple[Array, Array]:
        """Return targets and mass of the rows that count."""
        y, mass = self._remembered(view)
        return y, np.full(y.size, mass) if isinstance(mass, float) else mass

    def n_rows(self, view: RowView) -> int:
        """Return how many rows count."""
        return int(self._remembered(view)[0].size)

    def _remembered(self, view: RowView) -> tuple[Array, Array | float]:
        if view.token not in self.memory.targets:
            self._look(view)
        return self.memory.targets[view.token]

    def _look(self, view: RowView) -> None:
        """Look at the data, and remember which rows count, and their targets."""
        (labels, mass), kept = self._labelled(view), self.kept(view)
        is_whole = bool(kept.all())
        if not is_whole:
            labels, mass = labels[kept], mass[kept]
        is_even = mass.size > 0 and mass.min() == mass.max()
        targets = view.targets(labels)
        if not np.isfinite(targets).all():
            raise self._spoiled("y")
        self.memory.kept[view.token] = None if is_whole else kept
        self.memory.targets[view.token] = targets, float(mass[0]) if is_even else mass

    def _labelled(self, view: RowView) -> tuple[Values, Array]:
        """Return labels and mass of all rows."""
        _, labels, weight = self.given()
        labels = np.asarray(labels).reshape(-1)
        mass = view.mass(labels, None if weight is None else np.asarray(weight).reshape(-1))
        if not np.isfinite(mass).all():
            raise self._spoiled("sample_weight")
        return labels, mass

    def kept(self, view: RowView) -> Mask:
        """Return which rows of the data count."""
        kept = self._labelled(view)[1] > 0.0
        if view.part is not None:
            kept &= view.part.of(self._read())
        return kept

    # Features, and the losses they lead to

    def features(self, view: RowView) -> Rows:
        """Return the features of the rows that count, as array or CSR."""
        if view.token not in self._features:
            if view.token not in self.memory.kept:
                self._look(view)
            X, kept = self._read(), self.memory.kept[view.token]
            self._features[view.token] = X if kept is None else X[kept]
        return self._features[view.token]

    def _read(self) -> Rows:
        """Return all features, converted once for all who look."""
        if self._all is None:
            self._all = as_features(self.given().X)
        return self._all

    def matrix(self, view: RowView) -> Features:
        """Return the features of the rows that count, in the units of the view, with its column of ones."""
        X = self.features(view)
        if view.units is not None:
            X, _ = convert(X, self._remembered(view)[0], view.units)
        elif sp.issparse(X):
            X = X.astype(np.float64, copy=False)
        return Features(X, view.ones)

    def losses(
        self, view: RowView, k: float, f: Array, t: float = 0.0, along: Array | None = None
    ) -> tuple[Array, Losses, Paying]:
        """Return ``u = mass / k`` and losses at ``f + t along``, which last as long as the query; no densities yet."""
        assert view.loss is not None
        y, mass = self._remembered(view)
        numbers = _scratch.take(y.size)
        self._lent.append(numbers)
        losses, paying = Losses(y.size, numbers[:5]), Paying(view.loss, y - view.shift if view.shift else y)
        paying.expand(f, t, f if along is None else along, losses)
        return np.divide(mass, k, out=numbers[5]), losses, paying

    def refuse_spoiled(self, *products: Array) -> None:
        """Say so if products with the features show that these are no longer finite, as they were when summarised."""
        with np.errstate(all="ignore"):
            if all(np.isfinite(product.sum()) for product in products):
                return
        for X in self._features.values():
            if not np.isfinite(X.data if sp.issparse(X) else X).all():
                raise self._spoiled("X")

    def _spoiled(self, name: str) -> ValueError:
        return ValueError(
            f"Chunk {self.index} of the data: {name} is expected to stay finite in a fit, got NaN or infinity where "
            "there was none; let nobody write to the data, and fit again."
        )

    # Vectors

    def vector(self, token: int) -> Array:
        """Return a vector, made if need be, as are those it is made from."""
        waiting = [token]
        while waiting:
            name = waiting[-1]
            if name in self.memory.vectors:
                waiting.pop()
                continue
            if name not in self.recipes:
                raise MissingVectorError
            unmade = [parent for parent in self.recipes[name].parents if parent not in self.memory.vectors]
            if unmade:
                waiting.extend(unmade)
                continue
            self.memory.vectors[name] = self.recipes[name].make(self)
            waiting.pop()
        return self.memory.vectors[token]
