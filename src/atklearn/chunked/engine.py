"""Engines, which bring queries to chunks; and the driver's side, which asks all chunks and adds up their answers.

An engine decides where that happens. It has to call :func:`answer` for groups of chunks, near their data if it can,
and to add up the replies; nothing else depends on it.
"""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol
from weakref import WeakSet, ref

from atklearn.chunked.chunk import (
    Block,
    Chunk,
    Memory,
    MissingVectorError,
    Prediction,
    Recipe,
    Vector,
    lineage,
)  # fmt: skip
from atklearn.chunked.queries import Query
from atklearn.core.point import Point

__all__ = ["Coordinator", "Engine", "HoldsVectors", "Reply", "Request", "answer", "forget"]

# Fits whose chunks a process remembers; more are there only if some were never closed.
_MOST_FITS = 8


@dataclass(frozen=True)
class Request:
    """A query on its way to the chunks of a fit, with recipes of the vectors it names, and which of these to keep."""

    fit: str
    query: Query
    recipes: tuple[Recipe, ...]
    keep: frozenset[int]
    also_make: tuple[int, ...] = ()  # vectors to be made in passing, since the features are read


class Reply(NamedTuple):
    """What some chunks answered, added up (None if they have no rows), and which could not."""

    total: Any
    missing: tuple[int, ...] = ()

    def plus(self, other: Reply) -> Reply:
        """Return the reply of both."""
        if self.total is None or other.total is None:
            total = other.total if self.total is None else self.total
        else:
            total = self.total + other.total
        return Reply(total, self.missing + other.missing)


class Engine(Protocol):
    """Where chunks are asked.

    Attributes
    ----------
    n_chunks : int
    """

    n_chunks: int

    @property
    def is_lazy(self) -> bool:
        """Whether the features are fetched for every query that reads them, and gone after it."""

    def ask(self, request: Request, chunks: Sequence[int], *, reading: bool) -> Reply:
        """Return the sum of what :func:`answer` says for these chunks; their data are needed if ``reading``."""

    def close(self, fit: str) -> None:
        """Let all processes forget a fit: see :func:`forget`."""


_memories: dict[str, dict[int, Memory]] = {}
_lock = threading.Lock()


def answer(request: Request, chunks: Sequence[tuple[int, Block | None]]) -> Reply:
    """Ask some chunks, in the process where it is called, and add up what they answer.

    Parameters
    ----------
    request : Request
    chunks : sequence of tuples
        Of the number of a chunk, and its data or None if they should not be needed.
    """
    with _lock:
        memories = _memories.pop(request.fit, {})
        _memories[request.fit] = memories  # last: those that have not been asked for longest go first
        for fit in list(_memories)[:-_MOST_FITS]:
            del _memories[fit]
    reply = Reply(None)
    for index, block in chunks:
        memory = memories.setdefault(index, Memory())
        with memory.lock:
            try:
                chunk = Chunk(block, memory, request.recipes, index)
                reply = reply.plus(Reply(chunk.answer(request.query, request.also_make)))
            except MissingVectorError:
                reply = reply.plus(Reply(None, (index,)))
            memory.keep(request.keep)
    return reply


def forget(fit: str) -> None:
    """Drop what this process remembers of a fit."""
    with _lock:
        _memories.pop(fit, None)


class HoldsVectors(Protocol):
    """Whoever needs vectors to stay with the chunks as long as it lives."""

    def needed(self) -> list[Vector]:
        """Return these vectors."""


class Coordinator:
    """Asks all chunks of a fit by an engine, and knows which vectors they should remember.

    Parameters
    ----------
    engine : Engine

    Attributes
    ----------
    fit : str
        A name, unique in the world.
    reads, rounds : int
        How often the features were read, and how many queries there were.
    holders : WeakSet
        Who needs vectors.
    latest : weakref to a Point, or None
        The point that a solver began at last, which it moves: on these chunks, or on some rows fetched from them.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.fit = uuid.uuid4().hex
        self.reads = self.rounds = 0
        self.holders: WeakSet[HoldsVectors] = WeakSet()
        self.latest: ref[Point] | None = None
        self._held: set[int] = set()

    def name(self) -> int:
        """Return a token that is not in use."""
        return random.SystemRandom().getrandbits(62)  # unique beyond this process: fits are resumed in others

    def holds(self, vector: Vector) -> bool:
        """Say whether the chunks should hold a vector."""
        return vector.token in self._held

    def ask(self, query: Query, *vectors: Vector) -> Any:
        """Return the sum of the answers of all chunks; None if there are no rows.

        What chunks should remember is not sent again. One that does not, because it has moved to another process, is
        asked once more, with its data and all recipes that lead to the vectors.
        """
        recipes = lineage(vectors, self._held)
        reading = query.reads or any(isinstance(each, Prediction) and each.reads(self._held) for each in recipes)
        beside = self._unmade(recipes) if reading else ()
        recipes = (*recipes, *beside)
        needed = self._needed({recipe.token for recipe in recipes} | self._held)
        keep = frozenset(needed | {query.view.token})
        also_make = tuple(recipe.token for recipe in beside)
        request = Request(self.fit, query, recipes, keep, also_make)
        self.rounds += 1
        self.reads += reading
        reply = self.engine.ask(request, range(self.engine.n_chunks), reading=reading)
        if reply.missing:
            whole = Request(self.fit, query, (*lineage(vectors), *beside), keep, also_make)
            self.reads += not reading
            again = self.engine.ask(whole, sorted(reply.missing), reading=True)
            reply = Reply(reply.total).plus(again)
            if again.missing:
                raise RuntimeError(f"Chunks {again.missing} cannot answer {query.name!r} with their data.")
        self._held = (self._held | {recipe.token for recipe in recipes}) & needed
        return reply.total

    def _needed(self, made: set[int]) -> set[int]:
        """Return the vectors that are to stay with the chunks, given those that will have been made."""
        tokens = set()
        waiting = [vector for holder in self.holders for vector in holder.needed()]
        for vector in waiting:
            tokens.add(vector.token)
            if vector.token not in made:
                tokens.update(vector.recipe.shortcut)
                waiting.extend(vector.parents)
        return tokens

    def _unmade(self, recipes: tuple[Recipe, ...]) -> tuple[Recipe, ...]:
        """Return how to make the predictions that somebody holds and nobody has asked for yet."""
        known = self._held.union(recipe.token for recipe in recipes)
        waiting = {vector.token: vector.recipe for holder in self.holders for vector in holder.needed()}
        return tuple(
            each
            for token, each in waiting.items()
            if token not in known and isinstance(each, Prediction) and each.origin is None
        )

    def close(self) -> None:
        """Let the chunks forget all."""
        self.engine.close(self.fit)
