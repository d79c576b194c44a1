"""Questions to chunks on a cluster: each chunk has a home, the worker that remembers what it was asked before."""

from __future__ import annotations

import itertools
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

import cloudpickle
import dask
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from dask.sizeof import sizeof
from distributed import Client, Future

from atklearn.chunked.fleet import Reply, Request
from atklearn.dask.chunk_graphs import (
    Graph,
    Readers,
    ask_held,
    ask_reader,
    ask_remembered,
    opened,
    shares,
    summed,
)  # fmt: skip
from atklearn.dask.cluster import Cluster, Promise, workers_died
from atklearn.dask.dask_blocks import DaskBlocks

__all__ = ["ClusterEngine", "allot"]

# Of the memory of all workers, what data may take to be kept there.
_SHARE_OF_MEMORY = 0.5
# Bytes of a question in all tasks of a worker, above which it is a task of its own that these depend on: that takes
# longer, by one way through the scheduler, but it is sent only once.
_MUCH_TO_REPEAT = 1 << 16
# Workers that may die one after the other while they are asked about the same chunk.
_MOST_DEATHS = 3


@dataclass(frozen=True)
class _Errand:
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
        What questions and answers have taken on their way to the cluster and back.
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
        columns = [column for column in (blocks.X, blocks.y, blocks.weight) if column is not None]
        futures = self.cluster.compute([each for column in columns for each in column])
        self.cluster.wait(futures)
        n = len(blocks)
        self._features = futures[:n]
        self._settle()
        graphs: dict[str | None, Graph] = {}
        names = [f"atk-targets-0-{self._name}-{i}" for i in range(n)]
        for i, (name, home) in enumerate(zip(names, self._homes, strict=True)):
            y = None if blocks.y is None else futures[n + i]
            weight = None if blocks.weight is None else futures[i - n]
            graphs.setdefault(home, {})[name] = (_pair, y, weight)
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
        parcel, name = cloudpickle.dumps(request), request.question.name
        deaths: Counter[int] = Counter()
        errands = self._errands(name, parcel, chunks, reading)
        try:
            while (told := self._told(errands)) is None:
                workers = self.cluster.look()
                gone = [errand for errand in errands if errand.home is not None and errand.home not in workers]
                if gone and workers:
                    self.cluster.cancel([errand.promise.future for errand in gone])
                    left = [i for errand in gone for i in errand.chunks]
                    deaths.update(left)
                    if max(deaths.values()) > _MOST_DEATHS:
                        raise workers_died()
                    errands = [errand for errand in errands if errand not in gone]
                    errands += self._errands(name, parcel, left, reading)
        except BaseException:
            self.cluster.cancel([errand.promise.future for errand in errands])
            raise
        self.bytes_received += sum(map(len, told))
        reply: Reply = reduce(Reply.plus, map(opened, told), Reply(None))
        if reply.missing:
            self._workers = {}  # something has moved: choose homes again
        return reply

    def _told(self, errands: Sequence[_Errand]) -> list[bytes] | None:
        """Wait a moment for the answers; return them if all are there."""
        promises = [errand.promise for errand in errands]
        return self.cluster.results(promises) if self.cluster.pause(promises) else None

    def _errands(self, name: str, parcel: bytes, chunks: Sequence[int], reading: bool) -> list[_Errand]:
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
            parts = [[i] for i in mine] if self.is_lazy and reading else shares(mine, n_threads)
            request = f"{total}-request"
            is_once = len(parcel) * len(parts) > _MUCH_TO_REPEAT
            answers = {f"{stem}-{part[0]}": self._task(request if is_once else parcel, part, reading) for part in parts}
            graphs[home] = summed(answers, total, to_travel=True) | ({request: parcel} if is_once else {})
            self.bytes_sent += len(parcel) * (1 if is_once else len(parts))
        common = self.readers.shared_by(chunks) if self.is_lazy and reading else {}
        futures = self._send(graphs, sums, common)
        return [
            _Errand(home, mine, Promise(future))
            for (home, mine), future in zip(by_home.items(), futures, strict=True)
        ]  # fmt: skip

    def _task(self, request: str | bytes, chunks: list[int], reading: bool) -> tuple[Any, ...]:
        """Return the task that answers for some chunks; for one of them, if it has to be read."""
        if not self.is_lazy:
            features, others = [self._features[i] for i in chunks], [self._others[i] for i in chunks]
            return ask_held, request, chunks, features, others
        if not reading:
            return ask_remembered, request, chunks
        packed = self.readers.packed(chunks[0])
        self.bytes_sent += len(packed)
        return ask_reader, request, packed, self.readers.readers[chunks[0]].borrowed

    def _send(
        self,
        graphs: Mapping[str | None, Graph],
        wanted: Sequence[str],
        common: Graph | None = None,
        **annotations: Any,
    ) -> list[Future]:
        """Have graphs run, each by its worker, and what is common to them by any."""
        layers = {"common": MaterializedLayer(common or {})}
        for number, (home, graph) in enumerate(graphs.items()):
            told = None if home is None else {"workers": [home]} | annotations
            layers[f"home-{number}"] = MaterializedLayer(graph, annotations=told)
        places = {key: layer for layer, graph in layers.items() for key in graph}
        needs = {layer: set() if layer == "common" else {"common"} for layer in layers}
        whole = HighLevelGraph(layers, needs)
        # A question may be long, and Dask would tell the user not to send it.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
            return self.cluster.compute(
                [Delayed(key, whole, layer=places[key]) for key in wanted], optimize_graph=False
            )  # fmt: skip

    def close(self, fit: str) -> None:
        """Let all workers forget a fit."""
        self.cluster.forget(fit)


def _pair(y: Any, weight: Any) -> tuple[Any, Any]:
    return y, weight


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
