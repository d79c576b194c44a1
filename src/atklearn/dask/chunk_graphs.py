"""Questions to chunks as graphs of Dask: how a chunk is read, who answers, and how answers are added up.

What only one chunk needs is read in the task that asks it, and gone with it: so no more chunks are in memory than tasks
run. What several chunks need stays in the graph, where Dask computes it once.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping, Sequence
from functools import partial, reduce
from typing import Any, TypeAlias

import cloudpickle
import dask
from dask._task_spec import Alias
from dask.core import get_dependencies
from dask.utils import ensure_dict
from distributed import Future, futures_of

from atklearn.chunked.chunk import Block
from atklearn.chunked.fleet import Reply, answer
from atklearn.dask.dask_blocks import DaskBlocks

__all__ = [
    "ChunkReader", "Graph", "Key", "Readers", "ask_held", "ask_reader", "ask_remembered", "opened", "shares",
    "summed",
]  # fmt: skip

Key: TypeAlias = Any
Graph: TypeAlias = dict[Key, Any]
Needs: TypeAlias = Mapping[Key, Iterable[Key]]
# Answers that are added up at a time: few, so that not many wait for each other.
_FAN_IN = 8


class ChunkReader:
    """How one chunk is read.

    Parameters
    ----------
    index : int
        The number of the chunk.
    keys : sequence of key
        Those of X, y and weights, as far as there are any.
    fields : sequence of str
        What of a block these are.
    graph : dict
        What leads to them and to no other chunk.
    borrowed : sequence of key
        What else it needs, from outside this graph.
    """

    def __init__(
        self, index: int, keys: Sequence[Key], fields: Sequence[str], graph: Graph, borrowed: Sequence[Key]
    ) -> None:  # fmt: skip
        self.index, self.keys, self.fields = index, list(keys), list(fields)
        self.graph, self.borrowed = graph, list(borrowed)

    def read(self, lent: Sequence[Any]) -> Block:
        """Return the data."""
        given = {key: (partial(_itself, value),) for key, value in zip(self.borrowed, lent, strict=True)}
        parts = dask.get(self.graph | given, self.keys)
        return Block(**dict(zip(self.fields, parts, strict=True)))


def _itself(value: Any) -> Any:
    return value


class Readers:
    """How all chunks are read, and what several of them need.

    Parameters
    ----------
    blocks : DaskBlocks

    Attributes
    ----------
    common : dict
        The graph of what is not read by a chunk alone: several need it, or it lies on a cluster already.
    """

    def __init__(self, blocks: DaskBlocks) -> None:
        columns = {
            field: column
            for field, column in zip(Block._fields, (blocks.X, blocks.y, blocks.weight), strict=True)
            if column is not None
        }
        graph: Graph = {}
        for source in {id(each.dask): each.dask for column in columns.values() for each in column}.values():
            graph.update(ensure_dict(source))
        self._needs = {key: get_dependencies(graph, key) for key in graph}
        self.keys = [tuple(column[i].key for column in columns.values()) for i in range(len(blocks))]
        owners: dict[Key, int | None] = {}
        for i, keys in enumerate(self.keys):
            _claim(keys, i, owners, self._needs)
        # A future means something only to the one who sends it: it cannot be part of a reader.
        elsewhere = {owners[key] for key, node in graph.items() if key in owners and _is_elsewhere(node, graph)}
        for i, keys in enumerate(self.keys):
            if i in elsewhere:
                _claim(keys, None, owners, self._needs)
        self.common = {key: graph[key] for key, owner in owners.items() if owner is None}
        own: list[Graph] = [{} for _ in self.keys]
        for key, owner in owners.items():
            if owner is not None:
                own[owner][key] = graph[key]
        self.readers = []
        for i, (keys, mine) in enumerate(zip(self.keys, own, strict=True)):
            borrowed = {each for key in mine for each in self._needs[key]}.union(keys).difference(mine)
            self.readers.append(ChunkReader(i, keys, list(columns), mine, sorted(borrowed, key=str)))
        self._packed: dict[int, bytes] = {}

    @property
    def are_held(self) -> bool:
        """Whether all features lie on a cluster."""
        return all(isinstance(self._meant(keys[0]), Future) for keys in self.keys)

    def _meant(self, key: Key) -> Any:
        """Return a node of what is common, or the one that it is another name of."""
        node = self.common.get(key)
        while isinstance(node, Alias):
            (key,) = node.dependencies
            node = self.common.get(key)
        return node

    def packed(self, index: int) -> bytes:
        """Return a reader as it travels; it is packed once."""
        if index not in self._packed:
            self._packed[index] = cloudpickle.dumps(self.readers[index])
        return self._packed[index]

    def shared_by(self, chunks: Iterable[int]) -> Graph:
        """Return the part of what is common that some chunks need."""
        waiting = [key for i in chunks for key in self.readers[i].borrowed]
        found: Graph = {}
        while waiting:
            key = waiting.pop()
            if key not in found:
                found[key] = self.common[key]
                waiting.extend(self._needs[key])
        return found


def _claim(keys: Iterable[Key], owner: int | None, owners: dict[Key, int | None], needs: Needs) -> None:
    """Let a chunk own all that leads to some keys; what two own belongs to none."""
    waiting = [(key, owner) for key in keys]
    while waiting:
        key, claimed = waiting.pop()
        if key in owners:
            if owners[key] in (None, claimed):
                continue
            claimed = None
        owners[key] = claimed
        waiting.extend((each, claimed) for each in needs[key])


def _is_elsewhere(node: Any, graph: Graph) -> bool:
    """Say whether a node is, or has among its arguments, a future."""
    if isinstance(node, Future):
        return True
    needed = getattr(node, "dependencies", None)
    return bool(futures_of(node)) if needed is None else not graph.keys() >= set(needed)


def ask_reader(parcel: Any, reader: Any, lent: Sequence[Any]) -> Reply:
    """Read a chunk and ask it."""
    reader = opened(reader)
    return answer(opened(parcel), [(reader.index, reader.read(lent))])


def ask_held(parcel: Any, chunks: Sequence[int], features: Sequence[Any], others: Sequence[tuple[Any, Any]]) -> Reply:
    """Ask chunks whose data are at hand."""
    blocks = [Block(X, *other) for X, other in zip(features, others, strict=True)]
    return answer(opened(parcel), list(zip(chunks, blocks, strict=True)))


def ask_remembered(parcel: Any, chunks: Sequence[int]) -> Reply:
    """Ask chunks that should know what it takes."""
    return answer(opened(parcel), [(i, None) for i in chunks])


def opened(parcel: Any) -> Any:
    """Return what was packed to travel."""
    return pickle.loads(parcel) if isinstance(parcel, bytes) else parcel


def _add_up(replies: Sequence[Reply]) -> Reply:
    return reduce(Reply.plus, replies, Reply(None))


def _add_and_pack(replies: Sequence[Reply]) -> bytes:
    return pickle.dumps(_add_up(replies), protocol=5)


def summed(answers: Graph, name: str, *, to_travel: bool) -> Graph:
    """Return a graph of tasks that answer, and of the sum of their answers under ``name``.

    Examples
    --------
    >>> graph = summed({f"answer-{i}": (Reply, i) for i in range(20)}, "sum", to_travel=False)
    >>> dask.get(graph, "sum")
    Reply(total=190, missing=())
    """
    end = _add_and_pack if to_travel else _add_up
    if len(answers) == 1:  # every task on the way costs time
        return {name: (end, list(answers.values()))}
    graph, level = dict(answers), list(answers)
    while len(level) > _FAN_IN:
        groups = [level[i : i + _FAN_IN] for i in range(0, len(level), _FAN_IN)]
        level = [f"{name}-sum-{len(graph) + i}" for i in range(len(groups))]
        graph |= {key: (_add_up, group) for key, group in zip(level, groups, strict=True)}
    return graph | {name: (end, level)}


def shares(chunks: Sequence[int], count: int) -> list[list[int]]:
    """Return chunks in as many lists, of nearly the same length, as there are, none empty.

    Examples
    --------
    >>> shares(range(5), 2), shares([7], 3)
    ([[0, 2, 4], [1, 3]], [[7]])
    """
    return [list(chunks[i::count]) for i in range(min(count, len(chunks)))]
