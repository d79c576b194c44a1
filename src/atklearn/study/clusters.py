"""Work that goes to the workers of a Dask cluster: each gets the function once, then items."""

from __future__ import annotations

import asyncio
import logging
import pickle
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from atklearn.study.results import versions

__all__ = ["connected", "on_cluster"]

# Seconds that a scheduler has to answer.
_PATIENCE = 5.0


def load_distributed() -> ModuleType:
    """Return Dask's distributed, or say how to install it."""
    try:
        import distributed
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"A scheduler needs {error.name}, which comes with: pip install 'atklearn[dask]'", name=error.name
        ) from error
    module: ModuleType = distributed
    return module


@contextmanager
def connected(scheduler: Any, n_jobs: int | None = None) -> Iterator[Any]:
    """Yield a client of a Dask cluster, or None where there is none.

    Parameters
    ----------
    scheduler : None, str or distributed.Client
        An address is connected to and left at the end; a client stays open.
    n_jobs : int, default=None
        The processes that were asked for; a cluster has workers of its own, so that one excludes the other.

    Raises
    ------
    ValueError
        If nothing answers there.

    Examples
    --------
    >>> with connected(None) as client:
    ...     client is None
    True
    """
    if scheduler is None:
        yield None
        return
    if n_jobs is not None:
        raise ValueError(
            f"One of --jobs and --scheduler is expected, got both; leave out --jobs {n_jobs}: the cluster has workers."
        )
    distributed = load_distributed()
    if isinstance(scheduler, distributed.Client):
        if scheduler.asynchronous or scheduler.status != "running":
            raise ValueError(
                "A Dask client that is open and not asynchronous is expected as scheduler, got one that is "
                f"{'asynchronous' if scheduler.asynchronous else scheduler.status}; pass the scheduler's address."
            )
        yield scheduler
        return
    # A client that cannot connect comes apart noisily, and only when this process ends: so somebody else knocks first.
    with ThreadPoolExecutor(1) as aside:  # where no event loop is running, as one is in a notebook
        error = aside.submit(asyncio.run, _knock(scheduler)).exception()
    if error is not None:
        raise ValueError(
            f"The address of a Dask scheduler is expected, as tcp://host:8786, and none answers at {scheduler!r}; "
            "check the address, or start one with: dask scheduler"
        ) from error
    client = distributed.Client(scheduler, timeout=_PATIENCE, set_as_default=False)
    try:
        yield client
    finally:
        with _unlogged("distributed.client"):  # it would tell of attempts to find a lost scheduler that end here
            client.close(timeout=_PATIENCE)


async def _knock(address: Any) -> None:
    """Raise an error, of any kind, unless a scheduler answers at an address."""
    distributed = load_distributed()
    arguments = distributed.Security().get_connection_args("client")
    async with distributed.rpc(address, timeout=_PATIENCE, connection_args=arguments) as peer:
        identity = await asyncio.wait_for(peer.identity(), _PATIENCE)
    if identity["type"] != "Scheduler":
        raise ValueError(f"That is a {identity['type']}.")


@contextmanager
def _unlogged(name: str) -> Iterator[None]:
    """Let a logger say nothing."""
    logger = logging.getLogger(name)
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


@contextmanager
def on_cluster(work: Callable[[Any], Any], client: Any) -> Iterator[Callable[[Any], Future[Any]]]:
    """Yield what submits an item to the workers of a cluster; leaving cancels what is not finished.

    Dask does again what a worker did not live to finish.

    Parameters
    ----------
    work : callable
        Of one item. It reaches every worker once, and every thread of a worker has a copy of its own.
    client : distributed.Client

    Raises
    ------
    ValueError
        If the cluster is lost, or a task is too much for its workers, or they have other versions of what matters.
    """
    distributed = load_distributed()
    executor = client.get_executor(pure=False)
    address = client.scheduler.address
    try:
        import dask

        # Not scattered: what is scattered is lost with its workers, what is a task is done again. So the function
        # travels with the task, and that is meant, however large the data in it are.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            held = client.submit(_Packed, pickle.dumps(work), versions(), pure=False)
        yield lambda item: executor.submit(_do, held, item)
    except CancelledError as error:
        raise ValueError(
            f"The Dask scheduler at {address} is lost, or has cancelled the tasks; what is finished is kept: once it "
            "is there, the same call goes on from here."
        ) from error
    except (ImportError, RuntimeError) as error:
        # a worker that lacks a module says so, a scheduler speaks of what it cannot read
        if isinstance(error, RuntimeError) and "deserialization" not in str(error):
            raise
        lacking = getattr(error, "name", None) or "atklearn"
        raise ValueError(
            f"The scheduler at {address} and its workers are expected to have what this process has, and lack "
            f"{lacking}; install the same everywhere."
        ) from error
    except distributed.KilledWorker as error:
        raise ValueError(
            f"A task ended every worker that tried it (the last at {error.last_worker.address}), most likely for want "
            "of memory; give the workers more, or take fewer rows. What is finished is kept."
        ) from error
    finally:
        executor.shutdown(wait=False)


class _Packed:
    """A function that every thread of a worker unpacks for itself: what it remembers between calls is not shared."""

    def __init__(self, content: bytes, sent_from: dict[str, str]) -> None:
        self.content, self.sent_from = content, sent_from
        self.unpacked = threading.local()

    def __reduce__(self) -> tuple[type[_Packed], tuple[bytes, dict[str, str]]]:
        return _Packed, (self.content, self.sent_from)

    def __call__(self, item: Any) -> Any:
        if not hasattr(self.unpacked, "work"):
            _check_versions(self.sent_from)
            self.unpacked.work = pickle.loads(self.content)
        return self.unpacked.work(item)


def _check_versions(wanted: dict[str, str]) -> None:
    """Refuse to work with other versions than those that the results file names."""
    there = versions()
    other = [
        f"{name} {there.get(name, 'not at all')} in the place of {wanted.get(name, 'none')}"
        for name in sorted(wanted.keys() | there.keys())
        if wanted.get(name) != there.get(name)
    ]
    if other:
        raise ValueError(
            f"The workers of the cluster are expected to have the versions of this process, got {', '.join(other)}; "
            "install the same everywhere."
        )


def _do(work: _Packed, item: Any) -> Any:
    return work(item)
