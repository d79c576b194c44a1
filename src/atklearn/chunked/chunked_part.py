"""What rows in chunks hand out: densities that stay with the chunks, and parts of the rows that are fetched."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Protocol

import numpy as np

from atklearn.chunked.chunk import Chunk, Ids
from atklearn.chunked.fleet import Fleet
from atklearn.chunked.questions import Values
from atklearn.chunked.sights import View
from atklearn.chunked.vectors import Scattered, Vector, history
from atklearn.losses.individual import Array, Kink
from atklearn.problems.compiled_rows import CompiledRows

__all__ = ["ChunkedDensity", "ChunkedPart", "RowsInChunks"]


class RowsInChunks(Protocol):
    """What a point has to know of its rows: see :class:`atklearn.chunked.chunked_rows.ChunkedRows`."""

    fleet: Fleet
    view: View
    kink: Kink
    n_rows: int
    n_columns: int
    ones: int | None
    each: float | None
    target_range: tuple[float, float]

    def vector_of(self, density: Any, k: float) -> Vector:
        """Return densities, given in whatever form, as a vector of the chunks."""

    def split(self, z: Array) -> tuple[Array, float]:
        """Return the weights of the features and the intercept."""

    def join(self, weights: Array, intercept: float) -> Array:
        """Return z from the weights of the features and the intercept."""

    def in_memory(self, X: Any, y: Array, mass: Array) -> CompiledRows:
        """Return rows that were fetched as compiled ones."""


class ChunkedDensity:
    """Densities that lie with the chunks, or the weights that go with them; an array only where one is asked for."""

    def __init__(self, rows: RowsInChunks, vector: Vector, k: float | None = None) -> None:
        self.rows, self.vector, self.k = rows, vector, k

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        told = self.rows.fleet.ask(Values(self.rows.view, self.vector.token, self.k), self.vector)
        return np.asarray(told.together()[1], dtype=dtype)


class ChunkedPart:
    """Some of the rows, fetched into memory, that know where they were."""

    def __init__(self, whole: RowsInChunks, columns: tuple[Any, ...]) -> None:
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
