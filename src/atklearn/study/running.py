"""Running the tasks of an experiment, some at once, each written to the results file as it finishes."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import active_children, get_context
from types import ModuleType
from typing import Any, Protocol

from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from atklearn.study.results import Record, ResultsFile

__all__ = ["Experiment", "Task", "recorded_misses", "run_experiment"]


# Processes have to start and to import before they help: for less work than this, in seconds, they do not pay.
_WORTH_PROCESSES = 20.0
# How many tasks are looked at: after a quick one another, since the first may have done what is done once only.
_LOOKS = 2
_QUICK = 1.0


@dataclass(frozen=True)
class Task:
    """A piece of work that is done as a whole or not at all.

    Attributes
    ----------
    name : str
        Unique in the experiment; says in the results file what is finished.
    key : object
        What the experiment needs to know to do it.
    cost : float
        How long it takes, in any unit, for the time left.
    """

    name: str
    key: Any = None
    cost: float = 1.0


class Experiment(Protocol):
    """What can be run: it is sent to every process once, then runs tasks by name."""

    def tasks(self) -> Sequence[Task]:
        """Return all tasks, in the order in which to start them."""

    def run(self, task: Task) -> list[Record]:
        """Do one task and return what was found; the same whenever and wherever it is run."""


def run_experiment(
    experiment: Experiment,
    results: ResultsFile,
    *,
    n_jobs: int = 1,
    on_task: Callable[[Task], None] = lambda _: None,
) -> None:
    """Run the tasks that the results file does not hold yet.

    Parameters
    ----------
    experiment : Experiment
    results : ResultsFile
    n_jobs : int, default=1
        Processes; with 1 everything happens in this one.
    on_task : callable
        Told of every task once it is in the file, also of those that were there before.
    """
    tasks = experiment.tasks()
    for task in tasks:
        if task.name in results.finished:
            on_task(task)
    open_tasks = [task for task in tasks if task.name not in results.finished]
    for task, records in _run(experiment, open_tasks, n_jobs):
        results.add(task.name, records)
        on_task(task)


@contextmanager
def recorded_misses() -> Iterator[None]:
    """Silence the warnings of fits that missed their tolerance: records count them, and reports say so."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def _run(experiment: Experiment, tasks: list[Task], n_jobs: int) -> Iterator[tuple[Task, list[Record]]]:
    """Run tasks where they are done sooner: the cheapest here, to see how long they take, and many in processes."""
    if n_jobs == 1:
        yield from _run_here(experiment, tasks)
        return
    left = 0.0
    for task in sorted((task for task in tasks if task.cost > 0.0), key=lambda task: task.cost)[:_LOOKS]:
        begin = time.perf_counter()
        ((_, records),) = _run_here(experiment, [task])
        seconds = time.perf_counter() - begin
        yield task, records
        tasks = [other for other in tasks if other is not task]
        left = seconds / task.cost * sum(other.cost for other in tasks)
        if seconds > _QUICK:
            break
    run = _run_here if left <= _WORTH_PROCESSES else partial(_run_in_processes, n_jobs=n_jobs)
    yield from run(experiment, tasks)


def _run_here(experiment: Experiment, tasks: Sequence[Task]) -> Iterator[tuple[Task, list[Record]]]:
    """Run tasks in this process, on one thread, as the others would: more threads may round otherwise."""
    with threadpool_limits(1):
        for task in tasks:
            with recorded_misses():
                records = experiment.run(task)
            yield task, records


def _run_in_processes(
    experiment: Experiment, tasks: Sequence[Task], n_jobs: int
) -> Iterator[tuple[Task, list[Record]]]:
    """Run tasks in fresh processes; an interrupt or an error abandons what is not finished."""
    others = active_children()
    pool = ProcessPoolExecutor(
        min(n_jobs, len(tasks)), get_context("spawn"), initializer=_begin, initargs=(experiment, os.getpid())
    )
    waiting = iter(tasks)
    running: dict[Future[list[Record]], Task] = {}
    try:
        while True:
            for task in waiting:  # no more in advance than keeps every process busy
                # a process that is about to start would answer an interrupt with its own traceback
                with _interrupts_held(), _script_hidden():
                    running[pool.submit(_run_task, task)] = task
                if len(running) > n_jobs:
                    break
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future.result()
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


# What a worker process works on.
_experiment: Experiment | None = None


def _begin(experiment: Experiment, parent: int) -> None:
    """Prepare a worker process."""
    global _experiment
    _experiment = experiment
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threadpool_limits(1)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """End this process when its parent was killed: the pool would wait for more work for ever."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _run_task(task: Task) -> list[Record]:
    experiment: Any = _experiment
    with recorded_misses():
        records: list[Record] = experiment.run(task)
    return records
