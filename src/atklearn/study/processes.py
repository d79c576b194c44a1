"""Work that goes to fresh processes of this machine: each gets the function once, then items."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from types import ModuleType
from typing import Any

__all__ = ["in_processes"]


@contextmanager
def in_processes(work: Callable[[Any], Any], n_processes: int) -> Iterator[Callable[[Any], Future[Any]]]:
    """Yield what submits an item to one of several processes; an interrupt or an error abandons what is not finished.

    Parameters
    ----------
    work : callable
        Of one item; it is sent to every process once.
    n_processes : int

    Examples
    --------
    >>> with in_processes(abs, 1) as submit:
    ...     submit(-3).result()
    3
    """
    others = active_children()
    pool = ProcessPoolExecutor(n_processes, get_context("spawn"), initializer=_begin, initargs=(work, os.getpid()))

    def submit(item: Any) -> Future[Any]:
        # a process that is about to start would answer an interrupt with its own traceback
        with _interrupts_held(), _script_hidden():
            return pool.submit(_do, item)

    try:
        yield submit
    except BaseException:
        # The processes do not listen to Ctrl-C, which the terminal sends to all: this one ends them.
        for process in active_children():
            if process not in others:
                process.kill()
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Let Ctrl-C wait for the end of this, and be unheard by processes that start here."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _script_hidden() -> Iterator[None]:
    """Let processes that start here not run the user's script again: they need nothing of it."""
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


# What a worker process does with items.
_work: Callable[[Any], Any] | None = None


def _begin(work: Callable[[Any], Any], parent: int) -> None:
    """Prepare a worker process."""
    global _work
    _work = work
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """End this process when its parent was killed: the pool would wait for more work for ever."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _do(item: Any) -> Any:
    assert _work is not None
    return _work(item)
