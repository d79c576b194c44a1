"""A cluster of Dask as its client sees it: who works there, what is done, and whether it is still there at all."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, ClassVar

from dask.delayed import Delayed
from distributed import CancelledError, Client, Future, KilledWorker

from atklearn.chunked.engine import forget

__all__ = ["Cluster", "ClusterLostError", "Promise", "workers_died"]

# What calls of a scheduler raise that is gone, or going.
_NO_ANSWER = (OSError, TimeoutError, RuntimeError, CancelledError)


class ClusterLostError(RuntimeError):
    """Raised when a cluster is gone, or has lost what cannot be made again.

    Examples
    --------
    A fit that goes on elsewhere, from where it was when its cluster was lost:

    >>> import tempfile
    >>> import dask.array as da
    >>> from atklearn import ATkClassifier
    >>> from atklearn.dask import ClusterLostError, DaskChunks
    >>> X = da.random.default_rng(0).standard_normal((1000, 5), chunks=(250, 5))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model, chunks = ATkClassifier(k=0.5), DaskChunks(X, checkpoint=f"{folder}/fit")
    ...     try:
    ...         model = model.fit(chunks, X[:, 0] > 0.0)
    ...     except ClusterLostError:  # start another cluster, and fit again
    ...         model = model.fit(chunks, X[:, 0] > 0.0)
    >>> bool(model.dual_gap_ <= 1e-6 * model.objective_)
    True
    """


class Promise:
    """A task on a cluster, and whether it has ended."""

    def __init__(self, future: Future) -> None:
        self.future = future
        self.ended = threading.Event()
        future.add_done_callback(self._end)

    def _end(self, _: Future) -> None:
        self.ended.set()


class Cluster:
    """A cluster that may lose workers, and itself.

    Parameters
    ----------
    client : distributed.Client
    """

    # Seconds without any worker, or any answer of the scheduler, after which nothing more is hoped for.
    PATIENCE: ClassVar[float] = 30.0
    # Seconds between two looks at who is there, while tasks run.
    GLANCE: ClassVar[float] = 0.5
    # Seconds without any task ended, in the latter half of which a worker was paused for want of memory all along.
    STALL: ClassVar[float] = 20.0

    def __init__(self, client: Client) -> None:
        if client.asynchronous:
            raise ValueError(
                "The client is expected not to be asynchronous, got one that is; make it with asynchronous=False."
            )
        self.client = client
        self.workers: dict[str, int] = {}
        self._looked = -float("inf")
        self._alone_since: float | None = None
        self._waiting: frozenset[str] = frozenset()  # the tasks that are waited for, and since when it is just these
        self._waiting_since = 0.0

    @property
    def _is_closed(self) -> bool:
        return self.client.status in ("closing", "closed")

    def look(self) -> dict[str, int]:
        """Return the threads of every worker, by addresses, as they were a moment ago at most."""
        if time.monotonic() - self._looked < self.GLANCE:
            return self.workers
        try:
            self.workers = dict(self.call(self.client.scheduler.ncores, workers=None))
        except ClusterLostError:
            raise
        except _NO_ANSWER:
            self.workers = {}
        self._looked = time.monotonic()
        if self.workers:
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = self._looked
        elif self._looked - self._alone_since > self.PATIENCE:
            raise ClusterLostError(
                f"The cluster has had no workers for {self.PATIENCE:.0f} seconds: start some, and fit again."
            )
        return self.workers

    def call(self, function: Callable[..., Any], *args: object, seconds: float | None = None, **kwargs: object) -> Any:
        """Return what a coroutine of the client returns, or raise TimeoutError."""
        limit = self.PATIENCE if seconds is None else seconds
        with self._connected():
            return self.client.sync(lambda: function(*args, **kwargs), callback_timeout=limit)

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Say that the cluster is lost, whatever the client raises, once it is closed."""
        try:
            if self._is_closed:
                raise _closed()
            yield
        except Exception as error:
            if self._is_closed and not isinstance(error, ClusterLostError):
                raise _closed() from error
            raise

    def compute(self, collections: Sequence[Delayed], **options: object) -> list[Future]:
        """Have something computed."""
        with self._connected():
            futures: list[Future] = self.client.compute(collections, **options)
        return futures

    def refuse_paused(self, futures: Sequence[Future]) -> None:
        """Say so if workers are paused, and nothing that is waited for goes on: what is kept does not fit there."""
        waiting, now = frozenset(str(future.key) for future in futures if not future.done()), time.monotonic()
        if waiting != self._waiting:
            self._waiting, self._waiting_since = waiting, now
        elif now - self._waiting_since > 0.5 * self.STALL:
            with suppress(TimeoutError, OSError):
                paused = set(self.look()) - set(self.call(self.client.scheduler.ncores_running, workers=None))
                if not paused:
                    self._waiting_since = now
                elif now - self._waiting_since > self.STALL:
                    raise ClusterLostError(
                        f"{len(paused)} of {len(self.workers)} workers have no memory left for the data that are kept "
                        "there, and do not go on: fit again with DaskChunks(X, persist=False), which reads for every "
                        "pass, on workers with more memory, or with smaller chunks."
                    )

    def pause(self, promises: Sequence[Promise]) -> bool:
        """Wait a moment, or until all tasks have ended; say whether they have, and raise what one has raised."""
        end = time.monotonic() + self.GLANCE
        ended = all(each.ended.wait(max(end - time.monotonic(), 0.0)) for each in promises)
        with self._connected():
            for each in promises:
                _raise_from(each.future)
        return ended

    def results(self, promises: Sequence[Promise]) -> list[Any] | None:
        """Return what tasks that have ended have left, or None if it cannot be had, since a worker died meanwhile."""
        seconds = 4.0 * self.GLANCE
        futures = [each.future for each in promises]
        known = set(self.workers)
        gather = partial(self.client.gather, errors="skip", asynchronous=True)
        while True:
            try:
                found = list(self.call(gather, futures, seconds=seconds))
            except TimeoutError:
                if set(self.look()) != known:
                    return None
                seconds *= 2.0  # it may be much, on a slow network
            else:
                return found if len(found) == len(futures) else None

    def wait(self, futures: Sequence[Future]) -> None:
        """Wait for tasks that any worker may run; if that is not to be, nobody else needs them."""
        try:
            while any(future.status != "finished" for future in futures):
                with self._connected():
                    for future in futures:
                        _raise_from(future)
                self.look()
                self.refuse_paused(futures)
                time.sleep(0.1 * self.GLANCE)
        except BaseException:
            for future in futures:
                future.release()
            raise

    def holders(self, futures: Sequence[Future]) -> list[str | None]:
        """Return a worker for each result that has it, if one has."""
        try:
            found = self.call(self.client.scheduler.who_has, keys=[future.key for future in futures])
        except _NO_ANSWER:
            found = {}
        return [next(iter(sorted(found.get(future.key, ()))), None) for future in futures]

    def memory(self) -> float:
        """Return the bytes that all workers together may use."""
        try:
            limits = self.call(self.client.run, _memory_limit, asynchronous=True).values()
        except TimeoutError as error:
            raise ClusterLostError(
                f"The workers of the cluster have not answered for {self.PATIENCE:.0f} seconds: see what they do, and "
                "fit again."
            ) from error
        return float(sum(float("inf") if limit is None else limit for limit in limits))

    def cancel(self, futures: Sequence[Future]) -> None:
        """Take back tasks, whether or not there is still somebody to hear it."""
        with suppress(*_NO_ANSWER):  # ClusterLostError is a RuntimeError
            self.call(self.client.cancel, futures, asynchronous=True, force=True, seconds=10.0 * self.GLANCE)

    def forget(self, fit: str) -> None:
        """Let all workers forget a fit, as far as they are still there."""
        with suppress(*_NO_ANSWER):
            self.call(self.client.run, forget, fit, asynchronous=True, on_error="ignore", seconds=10.0 * self.GLANCE)


def _raise_from(future: Future) -> None:
    """Raise what a task has raised, if it has."""
    if future.cancelled():
        raise _lost()
    if future.status == "error":
        error = future.exception()
        if isinstance(error, KilledWorker):
            raise workers_died() from error
        raise error.with_traceback(future.traceback())


def workers_died() -> ClusterLostError:
    """Return what to say if no worker survives a task."""
    return ClusterLostError(
        "Workers died one after the other at the same chunk, most likely for want of memory: "
        "make chunks smaller or give workers more memory, and fit again."
    )


def _closed() -> ClusterLostError:
    return ClusterLostError("The connection to the scheduler is closed: start a cluster, and fit again.")


def _lost() -> ClusterLostError:
    return ClusterLostError("The cluster has lost data or tasks of this fit: load the data again, and fit again.")


def _memory_limit(dask_worker: Any) -> float | None:
    limit = dask_worker.memory_manager.memory_limit
    return float(limit) if limit else None
