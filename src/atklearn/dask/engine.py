"""Dask as an engine: every query is a small graph, run by a cluster or by the scheduler of this process.

What only one chunk needs is read in the task that asks it, and gone with it: so no more chunks are in memory than tasks
run. What several chunks need stays in the graph, where Dask computes it once. On a cluster each chunk has a home, the
worker that remembers what it was asked before.
"""

from __future__ import annotations

import itertools
import pickle
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, Literal, TypeAlias

import cloudpickle
import dask
import distributed
from dask._task_spec import Alias
from dask.core import get_dependencies
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from dask.sizeof import sizeof
from dask.utils import ensure_dict
from distributed import Client, Future, futures_of

from atklearn.chunked.chunk import Block, Rows, Values
from atklearn.chunked.engine import Reply, Request, answer, forget
from atklearn.dask.cluster import Cluster, Promise, workers_died
from atklearn.runtime.threads import thread_count

__all__ = ["ClusterEngine", "DaskBlocks", "LocalEngine", "Readers", "allot", "dask_engine"]

Key: TypeAlias = Any  # strings, and tuples of a string and numbers
Graph: TypeAlias = dict[Key, Any]

# Answers that are added up at a time: few, so that not many wait for each other.
_FAN_IN = 8
# Of the memory of all workers, what data may take to be kept there.
_SHARE_OF_MEMORY = 0.5
# Bytes of a query in all tasks of a worker, above which it is a task of its own that these depend on: that takes
# longer, by one way through the scheduler, but it is sent only once.
_MUCH_TO_REPEAT = 1 << 16
# Workers that may die one after the other while they are asked about the same chunk.
_MOST_DEATHS = 3


@dataclass(frozen=True)
class DaskBlocks:
    """The chunks of a fit, none of them computed.

    Attributes
    ----------
    X : tuple of Delayed
        The features of each chunk: an array, a sparse matrix or a dataframe.
    y, weight : tuple of Delayed, or None
        The targets and sample weights of each chunk.
    n_features : int
    feature_names : list of str, or None
        The columns of a dataframe, if all are strings.
    nbytes : int or None
        What all features take in memory, where that is known in advance.
    """

    X: tuple[Delayed, ...]
    y: tuple[Delayed, ...] | None
    weight: tuple[Delayed, ...] | None
    n_features: int
    feature_names: list[str] | None = None
    nbytes: int | None = None

    def __len__(self) -> int:
        return len(self.X)

    @property
    def columns(self) -> dict[str, tuple[Delayed, ...]]:
        """What there is of X, y and weights, by the names of the fields of a block."""
        columns = {"X": self.X, "y": self.y, "weight": self.weight}
        return {name: column for name, column in columns.items() if column is not None}


def dask_engine(
    blocks: DaskBlocks, client: Client | None = None, persist: bool | Literal["auto"] = "auto"
) -> LocalEngine | ClusterEngine:
    """Return what asks chunks where Dask has them.

    Parameters
    ----------
    blocks : DaskBlocks
    client : distributed.Client, default=None
        The cluster. None for the one of this process, if it has one, and else for a scheduler in this process: that
        of Dask's configuration, or threads.
    persist : bool or "auto", default="auto"
        Whether the cluster keeps the data in memory during the fit. "auto" does if they take at most half of the
        memory of all workers. Data that are in memory already are used as they are.

    Examples
    --------
    >>> import dask.array as da
    >>> from atklearn.chunked.chunks import summarize
    >>> from atklearn.chunked.engine import Coordinator
    >>> from atklearn.dask.dask_chunks import split_rows
    >>> engine = dask_engine(split_rows(da.ones((10, 3), chunks=(4, 3)), da.arange(10, chunks=4)))
    >>> summarize(Coordinator(engine), 3, has_labels=False).counted().n_rows
    10
    """
    if client is None:
        try:
            client = distributed.default_client()
        except ValueError:
            return LocalEngine(blocks)
    return ClusterEngine(client, blocks, persist)


# How chunks are read


@dataclass(frozen=True)
class ChunkReader:
    """How one chunk is read.

    Attributes
    ----------
    index : int
        The number of the chunk.
    keys : tuple of key
        Those of X, y and weights, as far as there are any.
    fields : tuple of str
        What of a block these are.
    graph : dict
        What leads to them and to no other chunk.
    borrowed : list of key
        What else it needs, from outside this graph.
    """

    index: int
    keys: tuple[Key, ...]
    fields: tuple[str, ...]
    graph: Graph
    borrowed: list[Key]

    def read(self, lent: Sequence[object]) -> Block:
        """Return the data."""
        given = {key: (partial(_itself, value),) for key, value in zip(self.borrowed, lent, strict=True)}
        parts = dask.get(self.graph | given, list(self.keys))
        return Block(**dict(zip(self.fields, parts, strict=True)))


def _itself(value: object) -> object:
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
        columns = blocks.columns
        graph: Graph = {}
        for source in {id(each.dask): each.dask for column in columns.values() for each in column}.values():
            graph.update(ensure_dict(source))
        self._needs = {key: get_dependencies(graph, key) for key in graph}
        self.keys = [tuple(column[i].key for column in columns.values()) for i in range(len(blocks))]
        owners: dict[Key, int | None] = {}
        for i, keys in enumerate(self.keys):
            self._claim(keys, i, owners)
        # A future means something only to the one who sends it: it cannot be part of a reader.
        elsewhere = {owners[key] for key, node in graph.items() if key in owners and _is_elsewhere(node, graph)}
        for i, keys in enumerate(self.keys):
            if i in elsewhere:
                self._claim(keys, None, owners)
        self.common = {key: graph[key] for key, owner in owners.items() if owner is None}
        own: list[Graph] = [{} for _ in self.keys]
        for key, owner in owners.items():
            if owner is not None:
                own[owner][key] = graph[key]
        self.readers = []
        for i, (keys, mine) in enumerate(zip(self.keys, own, strict=True)):
            borrowed = {each for key in mine for each in self._needs[key]}.union(keys).difference(mine)
            self.readers.append(ChunkReader(i, keys, tuple(columns), mine, sorted(borrowed, key=str)))
        self._packed: dict[int, bytes] = {}

    def _claim(self, keys: Iterable[Key], owner: int | None, owners: dict[Key, int | None]) -> None:
        """Let a chunk own all that leads to some keys; what two own belongs to none."""
        waiting = [(key, owner) for key in keys]
        while waiting:
            key, claimed = waiting.pop()
            if key in owners:
                if owners[key] in (None, claimed):
                    continue
                claimed = None
            owners[key] = claimed
            waiting.extend((each, claimed) for each in self._needs[key])

    @property
    def are_held(self) -> bool:
        """Whether all features lie on a cluster."""
        return all(isinstance(self._meant(keys[0]), Future) for keys in self.keys)

    def _meant(self, key: Key) -> object:
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


def _is_elsewhere(node: Any, graph: Graph) -> bool:
    """Say whether a node is, or has among its arguments, a future."""
    if isinstance(node, Future):
        return True
    needed = getattr(node, "dependencies", None)
    return bool(futures_of(node)) if needed is None else not graph.keys() >= set(needed)


# Tasks


def _ask_reader(request: Request | bytes, reader: ChunkReader | bytes, lent: Sequence[object]) -> Reply:
    """Read a chunk and ask it."""
    opened: ChunkReader = _opened(reader)
    return answer(_opened(request), [(opened.index, opened.read(lent))])


def _ask_held(
    request: bytes, chunks: Sequence[int], features: Sequence[Rows], others: Sequence[tuple[Values, Values]]
) -> Reply:  # fmt: skip
    """Ask chunks whose data are at hand."""
    blocks = [Block(X, *other) for X, other in zip(features, others, strict=True)]
    return answer(_opened(request), list(zip(chunks, blocks, strict=True)))


def _ask_remembered(request: Request | bytes, chunks: Sequence[int]) -> Reply:
    """Ask chunks that should know what it takes."""
    return answer(_opened(request), [(i, None) for i in chunks])


def _opened(parcel: Any) -> Any:
    """Return what was packed to travel between this process and its workers."""
    return pickle.loads(parcel) if isinstance(parcel, bytes) else parcel


def _pair(y: Values, weight: Values) -> tuple[Values, Values]:
    return y, weight


def _add_up(replies: Sequence[Reply]) -> Reply:
    return reduce(Reply.plus, replies, Reply(None))


def _add_and_pack(replies: Sequence[Reply]) -> bytes:
    return pickle.dumps(_add_up(replies), protocol=5)


def _summed(answers: Graph, name: str, *, to_travel: bool) -> Graph:
    """Return a graph of tasks that answer, and of the sum of their answers under ``name``."""
    end = _add_and_pack if to_travel else _add_up
    if len(answers) == 1:  # every task on the way costs time
        return {name: (end, list(answers.values()))}
    graph, level = dict(answers), list(answers)
    while len(level) > _FAN_IN:
        groups = [level[i : i + _FAN_IN] for i in range(0, len(level), _FAN_IN)]
        level = [f"{name}-sum-{len(graph) + i}" for i in range(len(groups))]
        graph |= {key: (_add_up, group) for key, group in zip(level, groups, strict=True)}
    return graph | {name: (end, level)}


def _shares(chunks: Sequence[int], count: int) -> list[list[int]]:
    """Return chunks in so many lists of nearly the same length, none empty."""
    return [list(chunks[i::count]) for i in range(min(count, len(chunks)))]


class LocalEngine:
    """Asks chunks in this process.

    Parameters
    ----------
    blocks : DaskBlocks
    """

    is_lazy = True
    bytes_sent = bytes_received = 0

    def __init__(self, blocks: DaskBlocks) -> None:
        self.readers = Readers(blocks)
        self.n_chunks = len(blocks)

    def ask(self, request: Request, chunks: Sequence[int], *, reading: bool) -> Reply:
        """Return the sum of what the chunks answer."""
        name = f"atk-{request.query.name}-1-{uuid.uuid4().hex}"
        parcel = f"{name}-request"
        if reading:
            readers = [self.readers.readers[i] for i in chunks]
            graph: Graph = {f"{name}-{each.index}": (_ask_reader, parcel, each, each.borrowed) for each in readers}
        else:
            graph = {f"{name}-{part[0]}": (_ask_remembered, parcel, part) for part in _shares(chunks, thread_count())}
        graph = _summed(graph, name, to_travel=False)
        graph |= {parcel: request} | (self.readers.shared_by(chunks) if reading else {})
        wanted = Delayed(name, HighLevelGraph.from_collections(name, graph))
        scheduler = dask.config.get("scheduler", "threads")
        reply: Reply = dask.compute(wanted, scheduler=scheduler, optimize_graph=False)[0]
        return reply

    def close(self, fit: str) -> None:
        """Forget a fit."""
        forget(fit)


@dataclass(frozen=True)
class _Batch:
    """The chunks that one worker is asked about, any worker if None, and the task with the sum of their answers."""

    home: str | None
    chunks: list[int]
    promise: Promise


class ClusterEngine:
    """Asks chunks by the workers of a cluster.

    Every worker is asked about the chunks that are at home there, in tasks that no other may run: elsewhere, a chunk
    would have to be read again. If a worker is gone, its chunks get another home.

    Parameters
    ----------
    client : distributed.Client
    blocks : DaskBlocks
    persist : bool or "auto"

    Attributes
    ----------
    n_chunks : int
    is_lazy : bool
    bytes_sent, bytes_received : int
        What queries and answers have taken on their way to the cluster and back.
    """

    def __init__(self, client: Client, blocks: DaskBlocks, persist: bool | Literal["auto"]) -> None:
        self.cluster = Cluster(client)
        self.readers = Readers(blocks)
        self.n_chunks = len(blocks)
        self.bytes_sent = self.bytes_received = 0
        self._name = uuid.uuid4().hex
        self._rounds = itertools.count(1)
        self._workers: Mapping[str, int] = {}  # among which homes were chosen
        self._homes: list[str | None] = [None] * len(blocks)
        self._features: list[Future] = []
        self._others: list[Future] = []
        is_held = self.readers.are_held or persist is True
        self.is_lazy = not (is_held or (persist == "auto" and self._fits(blocks)))
        if not self.is_lazy:
            self._hold(blocks)

    def _fits(self, blocks: DaskBlocks) -> bool:
        """Say whether there is room for all features."""
        nbytes = blocks.nbytes
        if nbytes is None:
            first = dask.delayed(sizeof)(blocks.X[0], dask_key_name=f"atk-size-0-{self._name}")
            sizes = self.cluster.compute([first])
            self.cluster.wait(sizes)
            nbytes = int(sizes[0].result()) * len(blocks)
        return nbytes <= _SHARE_OF_MEMORY * self.cluster.memory()

    def _hold(self, blocks: DaskBlocks) -> None:
        """Get all data into memory, targets and weights of a chunk to where its features are."""
        n, parts = len(blocks), [part for column in blocks.columns.values() for part in column]
        futures = self.cluster.compute(parts)  # at once: what X and y are cut from is read once
        self.cluster.wait(futures)
        columns = {name: futures[n * place : n * (place + 1)] for place, name in enumerate(blocks.columns)}
        self._features = columns["X"]
        self._settle()
        graphs: dict[str | None, Graph] = {}
        names = [f"atk-targets-0-{self._name}-{i}" for i in range(n)]
        pairs = zip(columns.get("y", [None] * n), columns.get("weight", [None] * n), strict=True)
        for name, home, pair in zip(names, self._homes, pairs, strict=True):
            graphs.setdefault(home, {})[name] = (_pair, *pair)
        self._others = self._send(graphs, names, allow_other_workers=True)
        self.cluster.wait(self._others)

    def _settle(self) -> None:
        """Choose homes where workers have come or gone."""
        workers = self.cluster.look()
        if self._workers == workers and workers:
            return
        if self.is_lazy:
            self._homes = allot(self._homes, workers)
        else:
            self.cluster.wait(self._features)
            workers = self.cluster.look()
            holders = self.cluster.holders(self._features)
            self._homes = [holder if holder in workers else None for holder in holders]
        self._workers = dict(workers)

    def ask(self, request: Request, chunks: Sequence[int], *, reading: bool) -> Reply:
        """Return the sum of what the chunks answer."""
        parcel, name = cloudpickle.dumps(request), request.query.name
        deaths: Counter[int] = Counter()
        batches = self._batches(name, parcel, chunks, reading)
        try:
            while (answers := self._answers(batches)) is None:
                workers = self.cluster.look()
                gone = [batch for batch in batches if batch.home is not None and batch.home not in workers]
                if gone and workers:
                    self.cluster.cancel([batch.promise.future for batch in gone])
                    left = [i for batch in gone for i in batch.chunks]
                    deaths.update(left)
                    if max(deaths.values()) > _MOST_DEATHS:
                        raise workers_died()
                    batches = [batch for batch in batches if batch not in gone]
                    batches += self._batches(name, parcel, left, reading)
                elif not self.is_lazy:
                    self.cluster.refuse_paused([batch.promise.future for batch in batches])
        except BaseException:
            self.cluster.cancel([batch.promise.future for batch in batches])
            raise
        self.bytes_received += sum(map(len, answers))
        reply: Reply = reduce(Reply.plus, map(_opened, answers), Reply(None))
        if reply.missing:
            self._workers = {}  # something has moved: choose homes again
        return reply

    def _answers(self, batches: Sequence[_Batch]) -> list[bytes] | None:
        """Wait a moment for the answers; return them if all are there."""
        promises = [batch.promise for batch in batches]
        return self.cluster.results(promises) if self.cluster.pause(promises) else None

    def _batches(self, name: str, parcel: bytes, chunks: Sequence[int], reading: bool) -> list[_Batch]:
        """Ask chunks, each where it is at home."""
        self._settle()
        by_home: dict[str | None, list[int]] = {}
        for i in chunks:
            by_home.setdefault(self._homes[i], []).append(i)
        stem = f"atk-{name}-{next(self._rounds)}-{self._name}"
        graphs: dict[str | None, Graph] = {}
        sums = [f"{stem}-sum-{number}" for number in range(len(by_home))]
        for total, (home, mine) in zip(sums, by_home.items(), strict=True):
            n_threads = self._workers.get(home or "", 1)
            parts = [[i] for i in mine] if self.is_lazy and reading else _shares(mine, n_threads)
            request = f"{total}-request"
            is_once = len(parcel) * len(parts) > _MUCH_TO_REPEAT
            answers = {f"{stem}-{part[0]}": self._task(request if is_once else parcel, part, reading) for part in parts}
            graphs[home] = _summed(answers, total, to_travel=True) | ({request: parcel} if is_once else {})
            self.bytes_sent += len(parcel) * (1 if is_once else len(parts))
        common = self.readers.shared_by(chunks) if self.is_lazy and reading else {}
        futures = self._send(graphs, sums, common)
        return [_Batch(*mine, Promise(future)) for mine, future in zip(by_home.items(), futures, strict=True)]

    def _task(self, request: str | bytes, chunks: list[int], reading: bool) -> tuple[object, ...]:
        """Return the task that answers for some chunks; for one of them, if it has to be read."""
        if not self.is_lazy:
            features, others = [self._features[i] for i in chunks], [self._others[i] for i in chunks]
            return _ask_held, request, chunks, features, others
        if not reading:
            return _ask_remembered, request, chunks
        packed = self.readers.packed(chunks[0])
        self.bytes_sent += len(packed)
        return _ask_reader, request, packed, self.readers.readers[chunks[0]].borrowed

    def _send(
        self,
        graphs: Mapping[str | None, Graph],
        wanted: Sequence[str],
        common: Graph | None = None,
        **annotations: bool,
    ) -> list[Future]:
        """Have graphs run, each by its worker, and what is common to them by any."""
        layers = {"common": MaterializedLayer(common or {})}
        for number, (home, graph) in enumerate(graphs.items()):
            at_home = None if home is None else {"workers": [home]} | annotations
            layers[f"home-{number}"] = MaterializedLayer(graph, annotations=at_home)
        places = {key: layer for layer, graph in layers.items() for key in graph}
        needs = {layer: set() if layer == "common" else {"common"} for layer in layers}
        whole = HighLevelGraph(layers, needs)
        # A query may be long, and Dask would tell the user not to send it.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
            parts = [Delayed(key, whole, layer=places[key]) for key in wanted]
            return self.cluster.compute(parts, optimize_graph=False)

    def close(self, fit: str) -> None:
        """Let all workers forget a fit."""
        self.cluster.forget(fit)


def allot(homes: Sequence[str | None], workers: Mapping[str, int]) -> list[str | None]:
    """Return a home for every chunk: the one it has if it can stay, so that all threads have about as many.

    Parameters
    ----------
    homes : sequence of str or None
        The homes so far.
    workers : mapping
        The threads of every worker.

    Examples
    --------
    >>> allot(["a", "a", "a", None], {"a": 1, "b": 1})
    ['a', 'a', 'b', 'b']
    """
    if not workers:
        return [None] * len(homes)
    n_threads = sum(workers.values())
    room = {home: -(-len(homes) * n // n_threads) for home, n in workers.items()}
    out: list[str | None] = []
    for home in homes:
        stays = home is not None and room.get(home, 0) > 0
        out.append(home if stays else None)
        if home is not None and stays:
            room[home] -= 1
    for i, home in enumerate(out):
        if home is None:
            out[i] = max(room, key=lambda each: room[each] / workers[each])
            room[out[i] or ""] -= 1
    return out
