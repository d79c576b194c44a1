"""Vectors with a number per row that stay with the chunks; what is known of them elsewhere is how to make them.

A vector (predictions, densities) is a step from other vectors and a few numbers, so a chunk that has lost it, or never
had it, can make it again: that is all there is to surviving the death of a worker, and to resuming a fit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from atklearn.chunked.sights import Sight, View
from atklearn.losses.individual import Array
from atklearn.stores import threads
from atklearn.stores.expansion import Losses, Paying
from atklearn.stores.features import Features
from atklearn.stores.passes import add_scaled, clip
from atklearn.stores.smoothing import N_SUMS, settle_blocks

__all__ = ["Alike", "Blend", "Feasible", "Moved", "Product", "Scattered", "Settled", "Step", "Vector", "history"]


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
