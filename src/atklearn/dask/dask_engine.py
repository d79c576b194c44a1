"""Dask as an engine: every question is a small graph, run by a cluster or by the scheduler of this process."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Literal

import dask
import distributed
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph

from atklearn.chunked.fleet import Reply, Request, forget
from atklearn.dask.chunk_graphs import Graph, Readers, ask_reader, ask_remembered, shares, summed
from atklearn.dask.cluster_engine import ClusterEngine
from atklearn.dask.dask_blocks import DaskBlocks
from atklearn.runtime.messages import shown
from atklearn.runtime.threads import thread_count

__all__ = ["LocalEngine", "dask_engine", "default_client"]


def dask_engine(
    blocks: DaskBlocks,
    client: distributed.Client | None = None,
    persist: bool | Literal["auto"] = "auto",
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
    >>> from atklearn.chunked.fleet import Fleet
    >>> from atklearn.chunked.survey import survey
    >>> from atklearn.dask.dask_blocks import split_rows
    >>> engine = dask_engine(split_rows(da.ones((10, 3), chunks=(4, 3)), da.arange(10, chunks=4)))
    >>> survey(Fleet(engine), 3, has_labels=False).counted().n_rows
    10
    """
    if persist not in (True, False, "auto"):
        raise ValueError(f"persist is expected to be True, False or 'auto', got {shown(persist)}.")
    client = default_client() if client is None else client
    return LocalEngine(blocks) if client is None else ClusterEngine(client, blocks, persist)


def default_client() -> distributed.Client | None:
    """Return the client that Dask would take, if there is one."""
    try:
        return distributed.default_client()
    except ValueError:
        return None


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
        name = f"atk-{request.question.name}-1-{uuid.uuid4().hex}"
        parcel = f"{name}-request"
        graph: Graph = {}
        if reading:
            readers = [self.readers.readers[i] for i in chunks]
            graph = {f"{name}-{each.index}": (ask_reader, parcel, each, each.borrowed) for each in readers}
        else:
            parts = shares(chunks, thread_count())
            graph = {f"{name}-{part[0]}": (ask_remembered, parcel, part) for part in parts}
        graph = summed(graph, name, to_travel=False)
        graph |= {parcel: request} | (self.readers.shared_by(chunks) if reading else {})
        wanted = Delayed(name, HighLevelGraph.from_collections(name, graph))
        scheduler = dask.config.get("scheduler", "threads")
        reply: Reply = dask.compute(wanted, scheduler=scheduler, optimize_graph=False)[0]
        return reply

    def close(self, fit: str) -> None:
        """Forget a fit."""
        forget(fit)
