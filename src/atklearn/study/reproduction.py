"""The paper's tables and figures as one run."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from atklearn.datasets import DATASETS, Dataset, DatasetUnavailable, load_dataset, load_toy
from atklearn.losses.individual import Array
from atklearn.study.paper_figures import ErrorAgainstK, ShiftedLoss, ToyCases
from atklearn.study.paper_tables import PROTOCOL, PaperTables
from atklearn.study.results import Record, ResultsFile
from atklearn.study.running import Experiment, Task, run_experiment

__all__ = ["Reproduced", "run_reproduction"]

_TOY_CASES = range(1, 7)


@dataclass(frozen=True)
class Reproduced:
    """A reproduction that is done.

    Attributes
    ----------
    path : Path
        The results file.
    moved : str
        Why it is not the one asked for; empty if it is.
    skipped : list of Record
        The data sets that are not available, with the reason.
    """

    path: Path
    moved: str
    skipped: list[Record]


def run_reproduction(
    part: str,
    path: Path,
    *,
    data_dir: Path | None = None,
    network: bool = True,
    names: Sequence[str] = tuple(DATASETS),
    n_splits: int = 10,
    solver: str = "exact",
    n_jobs: int = 1,
    client: Any = None,
    fresh: bool = False,
    on_start: Callable[[Sequence[Task]], None] = lambda _: None,
    on_task: Callable[[Task], None] = lambda _: None,
) -> Reproduced:
    """Run tables, figures or all, and write what is found to a results file, going on where a former run stopped.

    Parameters
    ----------
    part : {"tables", "figures", "all"}
    path : Path
        The results file; parts run one after the other may share it.
    data_dir : Path, default=None
        A folder of data files, see :func:`atklearn.datasets.load_dataset`.
    network : bool, default=True
        Whether OpenML may be asked for what is not there.
    names : sequence of str, default=all twelve
    n_splits : int, default=10
    solver : {"exact", "sgd"}, default="exact"
    n_jobs : int, default=1
        Processes.
    client : distributed.Client, default=None
        Of a Dask cluster, whose workers run the tasks in the place of processes.
    fresh : bool, default=False
        Whether to start anew instead of going on.
    on_start, on_task : callable
        Told of all tasks at first, and of every task as it is finished.

    Returns
    -------
    reproduced : Reproduced
    """
    datasets: list[Dataset] = []
    skipped: list[Record] = []
    for name in names:
        try:
            datasets.append(load_dataset(name, data_dir=data_dir, network=network))
        except DatasetUnavailable as error:
            skipped.append({"record": "skipped", "dataset": DATASETS[name].title, "reason": str(error)})
    toys = {case: load_toy(case, data_dir=data_dir) for case in _TOY_CASES}
    experiment = _Together({"data": _Description(datasets, skipped)})
    if part in ("tables", "all"):
        experiment.add("table", PaperTables(datasets, n_splits, solver))
    if part in ("figures", "all"):
        experiment.add("figure 1", ToyCases({case: (X, y) for case, (X, y, _) in toys.items()}, solver))
        experiment.add("figure 2", ShiftedLoss())
        experiment.add("figure 3", ErrorAgainstK(datasets, n_splits, solver))
    config = {
        "n_splits": n_splits, "solver": solver, "protocol": PROTOCOL,
        "data": {dataset.name: _fingerprint(dataset.X, dataset.y) for dataset in datasets},
        "toy": {f"case {case}": f"{source}, {_fingerprint(X, y)}" for case, (X, y, source) in toys.items()},
    }  # fmt: skip
    on_start(experiment.tasks())
    with ResultsFile(path, "reproduce", config, fresh=fresh) as results:
        run_experiment(experiment, results, n_jobs=n_jobs, client=client, on_task=on_task)
    return Reproduced(results.path, results.moved, skipped)


class _Together:
    """Several experiments as one; the name of a task begins with that of its experiment."""

    def __init__(self, parts: dict[str, Experiment]) -> None:
        self.parts = parts

    def add(self, name: str, experiment: Experiment) -> None:
        """Add an experiment."""
        self.parts[name] = experiment

    def tasks(self) -> Sequence[Task]:
        """Return the tasks of all."""
        return [task for experiment in self.parts.values() for task in experiment.tasks()]

    def run(self, task: Task) -> list[Record]:
        """Let the experiment it belongs to do a task."""
        return self.parts[task.name.split(":")[0]].run(task)


class _Description:
    """The records of what there is to run on, and of what there is not."""

    def __init__(self, datasets: Sequence[Dataset], skipped: list[Record]) -> None:
        self.records = [
            {
                "record": "data", "dataset": dataset.name, "title": dataset.title, "task": dataset.task,
                "n": dataset.X.shape[0], "d": dataset.X.shape[1], "source": dataset.source,
            }
            for dataset in datasets
        ] + skipped  # fmt: skip

    def tasks(self) -> Sequence[Task]:
        """Return the one task."""
        return [Task("data", cost=0.0)]

    def run(self, task: Task) -> list[Record]:  # noqa: ARG002
        """Return the records."""
        return self.records


def _fingerprint(X: Array, y: Array) -> str:
    digest = hashlib.sha256(X.tobytes())
    digest.update(y.tobytes())
    return digest.hexdigest()[:16]
