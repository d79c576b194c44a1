"""All chunks together: asks every one of them, and adds up what they answer.

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

from atklearn.chunked.chunk import Block, Chunk, Memory, Missing, Moved, Product, Step, Vector, history
from atklearn.chunked.questions import Question

__all__ = ["Engine", "Fleet", "HoldsVectors", "Reply", "Request", "answer", "forget"]

# Fits whose chunks a process remembers; more are there only if some were never told to end.
_MOST_FITS = 8


@dataclass(frozen=True)
class Request:
    """A question on its way to the chunks of a fit, with how to make the vectors it names, and which to keep."""

    fit: str
    question: Question
    steps: tuple[Step, ...]
    keep: frozenset[int]
    beside: tuple[int, ...] = ()  # vectors to be made in passing, since the features are read


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
        """Whether the features are fetched for every question that reads them, and gone after it."""

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
                reply = reply.plus(
                    Reply(Chunk(block, memory, request.steps, index).answer(request.question, request.beside))
                )
            except Missing:
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


class Fleet:
    """The chunks of a fit, and what is known of what they remember.

    Parameters
    ----------
    engine : Engine

    Attributes
    ----------
    reads : int
        How often all features have been read.
    rounds : int
        How many questions were asked.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.fit = uuid.uuid4().hex
        self.reads = self.rounds = 0
        self.holders: WeakSet[HoldsVectors] = WeakSet()
        self.latest: ref[Any] | None = None  # the point that was differentiated last
        self._held: set[int] = set()

    def name(self) -> int:
        """Return a token that is not in use."""
        return random.SystemRandom().getrandbits(62)  # unique beyond this process: fits are resumed in others

    def holds(self, vector: Vector) -> bool:
        """Say whether the chunks should hold a vector."""
        return vector.token in self._held

    def ask(self, question: Question, *vectors: Vector) -> Any:
        """Return the sum of the answers of all chunks; None if there are no rows.

        What chunks should remember is not sent again. One that does not, because it has moved to another process, is
        asked once more, with its data and all steps that lead to the vectors.
        """
        steps = history(vectors, self._held)
        reading = question.reads or any(self._reads(step) for step in steps)
        beside = self._unmade(steps) if reading else ()
        steps = (*steps, *beside)
        needed = self._needed({step.token for step in steps} | self._held)
        keep = frozenset(needed | {question.sight.token})
        made = tuple(step.token for step in beside)
        request = Request(self.fit, question, steps, keep, made)
        self.rounds += 1
        self.reads += reading
        reply = self.engine.ask(request, range(self.engine.n_chunks), reading=reading)
        if reply.missing:
            whole = Request(self.fit, question, (*history(vectors), *beside), keep, made)
            self.reads += not reading
            again = self.engine.ask(whole, sorted(reply.missing), reading=True)
            reply = Reply(reply.total).plus(again)
            if again.missing:
                raise RuntimeError(
                    f"Chunks {again.missing} cannot answer {question.name!r} although they have their data."
                )
        self._held = (self._held | {step.token for step in steps}) & needed
        return reply.total

    def _needed(self, made: set[int]) -> set[int]:
        """Return the vectors that are to stay with the chunks, given those that will have been made."""
        tokens = set()
        waiting = [vector for holder in self.holders for vector in holder.needed()]
        for vector in waiting:
            tokens.add(vector.token)
            if vector.token not in made:
                tokens.update(vector.step.shortcut)
                waiting.extend(vector.parents)
        return tokens

    def _unmade(self, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        """Return how to make the products with the features that somebody holds and nobody has asked for yet."""
        known = self._held.union(step.token for step in steps)
        waiting = {vector.token: vector.step for holder in self.holders for vector in holder.needed()}
        return tuple(step for token, step in waiting.items() if token not in known and isinstance(step, Product))

    def _reads(self, step: Step) -> bool:
        """Say whether a step needs the features."""
        if isinstance(step, Moved):
            return bool(step.z.any()) and not self._held.issuperset(step.shortcut)
        return isinstance(step, Product) and bool(step.z.any())

    def close(self) -> None:
        """Let the chunks forget all."""
        self.engine.close(self.fit)
