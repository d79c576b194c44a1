"""Maximum, average and AT_k on a table: all chosen within each training part, on test parts that nothing has seen."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from atklearn.study.last_fit import LastFit
from atklearn.study.outcome import Outcome, Question, Recommendation
from atklearn.study.results import ResultsFile, read_results
from atklearn.study.running import Task, run_experiment
from atklearn.study.settings import Settings
from atklearn.study.split_grids import SplitGrids, split_of
from atklearn.study.yardstick import Yardstick
from atklearn.tables.tabular import TabularData

__all__ = ["Finished", "run_comparison"]


@dataclass(frozen=True)
class Finished:
    """A comparison that is done.

    Attributes
    ----------
    path : Path
        The results file.
    moved : str
        Why it is not the one asked for; empty if it is.
    asked : str
        What the records that answer the question call it.
    recommendation : Recommendation
    """

    path: Path
    moved: str
    asked: str
    recommendation: Recommendation


def run_comparison(
    data: TabularData,
    settings: Settings,
    question: Question,
    path: Path,
    *,
    n_jobs: int = 1,
    client: Any = None,
    fresh: bool = False,
    on_start: Callable[[Sequence[Task]], None] = lambda _: None,
    on_task: Callable[[Task], None] = lambda _: None,
) -> Finished:
    """Compare on a table and write everything found to a results file, going on where a former run stopped.

    A file with fewer repeats than asked for is extended; one with more keeps them. Another question about the same
    fits is answered from the file.

    Parameters
    ----------
    data : TabularData
    settings : Settings
    question : Question
    path : Path
        The results file; if its folder holds another run, the results go to a folder beside it.
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
    finished : Finished
    """
    if data.time is not None:  # there is one way to split by time
        settings = replace(settings, repeats=1, last_repeats=1)
    experiment = SplitGrids(data, settings)
    with ResultsFile(path, "compare", _config(data, settings, Yardstick(experiment)), fresh=fresh) as results:
        there = _repeats_in(results.finished, experiment)
        if there > settings.repeats:
            experiment = SplitGrids(data, replace(settings, repeats=there))
        repeats = experiment.settings.repeats
        last = Task(f"answer: {question.score}, margin {question.margin:g}, {repeats} repeats", cost=0.5)
        yardstick = Yardstick(experiment)
        on_start([*experiment.tasks(), *yardstick.tasks(), last])
        run_experiment(experiment, results, n_jobs=n_jobs, client=client, on_task=on_task)
        run_experiment(yardstick, results, n_jobs=n_jobs, client=client, on_task=on_task)
        outcome = Outcome.from_records(read_results(results.path), question, repeats)
        run_experiment(LastFit(data, outcome, settings.family, last), results, on_task=on_task)
    return Finished(results.path, results.moved, last.name, outcome.recommendation)


def _config(data: TabularData, settings: Settings, yardstick: Yardstick) -> dict[str, Any]:
    """Return everything that determines the fits."""
    fits = {name: value for name, value in asdict(settings).items() if name not in ("repeats", "family")}
    grid = {"model": settings.family.name, **vars(settings.family)}
    return {"data": data.fingerprint, "dataset": data.name, "target": data.target_name, "task": data.task,
            "group": data.group_name, "split_by": data.split_by_name, "time": data.time_name,
            "columns": _fingerprint_of_columns(data), **grid, **fits,
            "yardstick": yardstick.standard.library}  # fmt: skip


def _repeats_in(finished: Iterable[str], experiment: SplitGrids) -> int:
    """Return how many repeats a results file holds with all their splits."""
    counts: dict[int, int] = {}
    for name in finished:
        split = split_of(name)
        if split is not None:
            counts[split // experiment.n_folds] = counts.get(split // experiment.n_folds, 0) + 1
    whole = experiment.n_folds * len(experiment.settings.losses) * len(experiment.settings.weights)
    repeats = 0
    while counts.get(repeats) == whole:
        repeats += 1
    return repeats


def _fingerprint_of_columns(data: TabularData) -> str:
    names = getattr(data.features, "columns", [str(data.features.shape[1])])
    return hashlib.sha256("\0".join(names).encode(errors="replace")).hexdigest()[:16]
