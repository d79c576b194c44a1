"""One chunk of rows where it lies, and what it remembers between questions. It knows nothing of who asks."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from atklearn.chunked.sights import Sight, View, as_features
from atklearn.chunked.vectors import Step
from atklearn.core.coordinates import convert
from atklearn.losses.individual import Array
from atklearn.stores.expansion import Losses, Paying
from atklearn.stores.features import Features

__all__ = ["Block", "Chunk", "Ids", "Memory", "Missing", "row_ids"]

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
