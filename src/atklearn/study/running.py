"""Running the tasks of an experiment, some at once, each written to the results file as it finishes."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeAlias

from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from atklearn.runtime.threads import steady_blas
from atklearn.study.clusters import on_cluster
from atklearn.study.processes import in_processes
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
    """What can be run: it is sent to every process or worker once, then runs tasks by name."""

    def tasks(self) -> Sequence[Task]:
        """Return all tasks, in the order in which to start them."""

    def run(self, task: Task) -> list[Record]:
        """Do one task and return what was found; the same whenever and wherever it is run."""


Work: TypeAlias = Callable[[Task], list[Record]]


def run_experiment(
    experiment: Experiment,
    results: ResultsFile,
    *,
    n_jobs: int = 1,
    client: Any = None,
    on_task: Callable[[Task], None] = lambda _: None,
) -> None:
    """Run the tasks that the results file does not hold yet.

    Parameters
    ----------
    experiment : Experiment
    results : ResultsFile
    n_jobs : int, default=1
        Processes; with 1 everything happens in this one.
    client : distributed.Client, default=None
        Of a Dask cluster, whose workers run the tasks in the place of processes.
    on_task : callable
        Told of every task once it is in the file, also of those that were there before.
    """
    tasks = experiment.tasks()
    for task in tasks:
        if task.name in results.finished:
            on_task(task)
    open_tasks = [task for task in tasks if task.name not in results.finished]
    with closing(_run(experiment, open_tasks, n_jobs, client)) as found:  # what is not waited for is given up at once
        for task, records in found:
            results.add(task.name, records)
            on_task(task)


@contextmanager
def recorded_misses() -> Iterator[None]:
    """Silence the warnings of fits that missed their tolerance: records count them, and reports say so."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def _run(experiment: Experiment, tasks: list[Task], n_jobs: int, client: Any) -> Generator[tuple[Task, list[Record]]]:
    """Run tasks where they are done sooner: the cheapest here, to see how long they take, and many in processes.

    A cluster is there already, and was asked for: it gets all.
    """
    work = partial(_run_task, experiment)
    if client is not None:
        yield from _run_elsewhere(on_cluster(work, client), tasks, room=len(tasks))
        return
    if n_jobs == 1:
        yield from _run_here(work, tasks)
        return
    left = 0.0
    for task in sorted((task for task in tasks if task.cost > 0.0), key=lambda task: task.cost)[:_LOOKS]:
        begin = time.perf_counter()
        ((_, records),) = _run_here(work, [task])
        seconds = time.perf_counter() - begin
        yield task, records
        tasks = [other for other in tasks if other is not task]
        left = seconds / task.cost * sum(other.cost for other in tasks)
        if seconds > _QUICK:
            break
    if left <= _WORTH_PROCESSES:
        yield from _run_here(work, tasks)
    else:
        yield from _run_elsewhere(in_processes(work, min(n_jobs, len(tasks))), tasks, room=n_jobs)


def _run_here(work: Work, tasks: Sequence[Task]) -> Iterator[tuple[Task, list[Record]]]:
    for task in tasks:
        yield task, work(task)


def _run_elsewhere(
    place: AbstractContextManager[Callable[[Task], Future[list[Record]]]], tasks: Sequence[Task], room: int
) -> Iterator[tuple[Task, list[Record]]]:
    """Run tasks where others work, no more in advance than fill the room and one."""
    waiting = iter(tasks)
    running: dict[Future[list[Record]], Task] = {}
    with place as submit:
        while True:
            for task in waiting:
                running[submit(task)] = task
                if len(running) > room:
                    break
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future.result()


def _run_task(experiment: Experiment, task: Task) -> list[Record]:
    """Run a task as it is run everywhere, on one thread: more of them may round otherwise."""
    # OpenMP counts its threads per thread that asks for them, BLAS per process, where other tasks may run as well
    with threadpool_limits(1, user_api="openmp"), steady_blas(), recorded_misses():
        return experiment.run(task)
