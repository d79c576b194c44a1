"""The commands: parse arguments, call one function, set the exit code.

What a command needs is imported when it runs: help and mistakes in the arguments answer at once.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from enum import StrEnum
from errno import ENOSPC
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from joblib import cpu_count
from rich.console import Console
from rich.text import Text

from atklearn.comparing import FIGURES, REPORT, RESULTS, write_report
from atklearn.comparing import compare as run_compare
from atklearn.measures.answers import TAIL_SHARE
from atklearn.measures.catalogue import DEFAULT_MEASURES, names_of_measures

if TYPE_CHECKING:
    from atklearn.report.content import Page

__all__ = ["app"]

FAILED, INTERRUPTED = 1, 130

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def print_version(asked: bool) -> None:
    """Print the version and stop."""
    if asked:
        print(version("atklearn"))
        raise typer.Exit


@app.callback()
def main(
    show_version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Say whether the average top-k loss helps on your data, with which k, and at what cost."""


class TaskName(StrEnum):
    """What kind the target is."""

    classification = "classification"
    regression = "regression"


class Score(StrEnum):
    """What counts: any measure."""

    _ignore_ = "Score measure"
    Score = vars()
    for measure in names_of_measures():
        Score[measure] = measure


class Part(StrEnum):
    """What to reproduce."""

    tables = "tables"
    figures = "figures"
    all = "all"


class Solver(StrEnum):
    """How to fit."""

    exact = "exact"
    sgd = "sgd"


Out = Annotated[Path | None, typer.Option("--out", help="Folder of the results.", show_default="atklearn-out/...")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Start anew instead of going on with a former run.")]
Jobs = Annotated[int | None, typer.Option("--jobs", min=1, help="Processes.", show_default="all cores")]
Scheduler = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Dask scheduler whose workers run it, as tcp://host:8786.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the answer only, no progress and no tables.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the answer as JSON, and nothing else.")]
MaxMemory = Annotated[
    float | None, typer.Option(help="GB of memory that reading a file may take.", show_default="half of the machine's")
]
DataDir = Annotated[Path | None, typer.Option("--data", help="Folder with NAME.csv.gz, header f1,...,fd,target.")]


@app.command()
def compare(
    data: Annotated[
        Path | None,
        typer.Argument(help="CSV, Excel, Parquet, JSON lines or SVMlight file; without one, generated delivery times."),
    ] = None,
    target: Annotated[str | None, typer.Option("--target", "-t", help="Column to predict.")] = None,
    task: Annotated[TaskName | None, typer.Option(help="Kind of target.", show_default="detected")] = None,
    group: Annotated[str | None, typer.Option(help="Column to report by; not a feature.")] = None,
    split_by: Annotated[
        str | None, typer.Option(help="Column whose equal rows are never split; not a feature.")
    ] = None,
    time: Annotated[str | None, typer.Option(help="Column whose later half is tested; not a feature.")] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Column to leave out; may be repeated.")] = None,
    keep: Annotated[
        list[str] | None, typer.Option(help="Column to use that would be left out; may be repeated.")
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(help="Of a text file.", show_default="UTF-8, or what else fits")
    ] = None,
    max_memory: MaxMemory = None,
    model: Annotated[str, typer.Option(metavar="[linear|boosting]", help="What is fitted.")] = "linear",
    scoring: Annotated[
        Score | None, typer.Option(help="What counts.", show_default=" or ".join(DEFAULT_MEASURES.values()))
    ] = None,
    tail: Annotated[float, typer.Option(help="Part of the rows that is the tail of the errors.")] = TAIL_SHARE,
    margin: Annotated[
        float | None, typer.Option(help="Part of a measure's scale that does not matter.", show_default="0.01")
    ] = None,
    loss: Annotated[
        list[str] | None, typer.Option(help="Individual loss; may be repeated.", show_default="all that fit the task")
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Of ten folds; more extend a run.", show_default="5, 2 or 1, by rows")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A first look: one repeat, coarse grids, 20,000 rows.")
    ] = False,
    robust: Annotated[
        bool | None,
        typer.Option(
            "--robust/--no-robust",
            help="Compare fits that set the largest losses aside; list those rows.",
            show_default="unless --quick",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the random splits.")] = 0,
    save_model: Annotated[Path | None, typer.Option(help="Save the recommended model here, as .skops.")] = None,
    out: Out = None,
    fresh: Fresh = False,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Compare maximum, average and AT_k on a table: an answer for every measure, a recommended model, a report."""
    with failing_in_one_sentence():
        from atklearn.study.places import folder_name
        from atklearn.study.saving import check_model_path
        from atklearn.tables.reading import name_of

        if save_model is not None:
            check_model_path(save_model)
        name = folder_name(
            "compare", name_of(data) if data else "deliveries", target, task=task.value if task else None, by=group,
            split_by=split_by, time=time, without=drop, including=keep, encoding=encoding,
            model=model if model != "linear" else None, loss=loss,
            tail=tail if tail != TAIL_SHARE else None, seed=seed or None, quick=quick, robust=robust,
        )  # fmt: skip
        result = run_compare(
            data, target, task=task.value if task else None, group=group, split_by=split_by, time=time,
            drop=drop or (), keep=keep or (), encoding=encoding, max_memory=max_memory, model=model,
            scoring=scoring.value if scoring else None, tail=tail, margin=margin, loss=loss or (), repeats=repeats,
            quick=quick, robust=robust, random_state=seed, n_jobs=jobs, scheduler=scheduler,
            out=out or Path("atklearn-out", name), fresh=fresh, verbose=not (quiet or as_json),
        )  # fmt: skip
        if save_model is not None:
            result.save_model(save_model)
        report = result.write()
        if as_json:
            print_json({**result.summary, "report": str(report)})
            return
        show(result.page, result.folder, quiet)


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="A model that compare --save-model saved.")],
    data: Annotated[Path, typer.Argument(help="A table with the same columns.")],
    ids: Annotated[list[str] | None, typer.Option("--id", help="Column to carry through; may be repeated.")] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="Of the second of two classes: its least probability.", show_default="tuned or 0.5"),
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", "-t", help="Column of the truth, to score by.", show_default="as fitted")
    ] = None,
    encoding: Annotated[str | None, typer.Option(help="Of a text file.", show_default="found out")] = None,
    max_memory: MaxMemory = None,
    out: Annotated[Path | None, typer.Option("--out", help="CSV to write.", show_default="standard output")] = None,
) -> None:
    """Predict the rows of a table with a saved model, and score it where the truth is there."""
    with failing_in_one_sentence():
        from atklearn.runtime.files import write_whole
        from atklearn.study.saving import load_model
        from atklearn.tables.predicting import predict_table

        predicted = predict_table(
            load_model(model, max_memory), data, ids=ids or (), threshold=threshold, target=target, encoding=encoding,
            max_memory=max_memory,
        )  # fmt: skip
        if out is None:
            predicted.table.to_csv(sys.stdout, index=False)
        else:
            write_whole(out, predicted.table.to_csv(index=False).encode())
        for sentence in [*predicted.notes, *([predicted.scores_in_words()] if predicted.scores else [])]:
            complain(sentence)


@app.command()
def reproduce(
    part: Annotated[Part, typer.Argument(help="What to run.")] = Part.all,
    data: DataDir = None,
    offline: Annotated[bool, typer.Option("--offline", help="Do not ask OpenML for what --data lacks.")] = False,
    dataset: Annotated[list[str] | None, typer.Option("--set", help="Only this data set; may be repeated.")] = None,
    splits: Annotated[int, typer.Option(min=1, help="Random splits.")] = 10,
    solver: Annotated[Solver, typer.Option(help="Exact optima, or the paper's own algorithm.")] = Solver.exact,
    out: Out = None,
    fresh: Fresh = False,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Rerun the tables and figures of the paper, ours beside the printed numbers."""
    with failing_in_one_sentence():
        from atklearn.datasets import DATASETS
        from atklearn.report.paper_page import paper_page, paper_summary
        from atklearn.report.progress import progress
        from atklearn.study.clusters import connected
        from atklearn.study.places import check_place
        from atklearn.study.reproduction import run_reproduction
        from atklearn.study.results import read_results

        if data is not None and not data.is_dir():
            raise ValueError(f"--data is expected to name a folder, and {str(data)!r} is none.")
        for name in dataset or ():
            if name not in DATASETS:
                raise ValueError(f"--set is expected to be one of {', '.join(DATASETS)}, got {name!r}.")
        folder = out or Path("atklearn-out", f"reproduce-{solver.value}")
        check_place(folder / RESULTS)
        silent = quiet or as_json
        with connected(scheduler, jobs) as client, progress("Reproducing", silent=silent) as (on_start, on_task):
            done = run_reproduction(
                part.value, folder / RESULTS, data_dir=data, network=not offline, names=tuple(dataset or DATASETS),
                n_splits=splits, solver=solver.value, n_jobs=jobs or cpu_count(), client=client, fresh=fresh,
                on_start=on_start, on_task=on_task,
            )  # fmt: skip
        page = paper_page(read_results(done.path))
        report = write_report(page, done.path.parent)
        if as_json:
            print_json({**paper_summary(read_results(done.path)), "report": str(report)})
        else:
            if done.moved:
                complain(done.moved)
            show(page, done.path.parent, quiet)
        for record in done.skipped:
            complain(f"Skipped {record['dataset']}: {record['reason']}")


@app.command()
def datasets(data: DataDir = None, as_json: AsJson = False) -> None:
    """List the data sets of the paper and where each would come from."""
    with failing_in_one_sentence():
        from dataclasses import asdict

        from atklearn.datasets import describe_datasets
        from atklearn.report.content import Cell, Table
        from atklearn.report.terminal import print_table

        found = describe_datasets(data)
        if as_json:
            print_json([asdict(entry) for entry in found])
            return
        rows = [
            [
                Cell(entry.name), Cell(entry.task), Cell(str(entry.n_samples)), Cell(str(entry.n_features)),
                Cell("" if entry.imbalance_ratio is None else f"{entry.imbalance_ratio:.2f}"), Cell(entry.source),
            ]
            for entry in found
        ]  # fmt: skip
        columns = ["name", "task", "n", "d", "imbalance", "from"]
        print_table(Table("datasets", "Data sets of the paper", columns, rows), Console())


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="A folder of compare or reproduce.")],
    markdown: Annotated[Path | None, typer.Option(help="Write it as Markdown, too, with pictures beside it.")] = None,
) -> None:
    """Write the report of a results file again, without running anything."""
    with failing_in_one_sentence():
        from atklearn.report.comparison_findings import Findings
        from atklearn.report.comparison_page import comparison_page
        from atklearn.report.markdown import write_markdown
        from atklearn.report.paper_page import paper_page
        from atklearn.study.results import read_results

        results = folder / RESULTS
        if not results.is_file():
            raise ValueError(f"{folder} is expected to hold {RESULTS}, but does not.")
        kind = next(read_results(results))["kind"]
        records = read_results(results)
        page = comparison_page(Findings(records)) if kind == "compare" else paper_page(records)
        written = [write_report(page, folder)]
        if markdown is not None:
            write_markdown(page, markdown)
            written.append(markdown)
        for path in written:
            print(path)


@contextmanager
def failing_in_one_sentence() -> Iterator[None]:
    """Turn what users can do something about into a sentence and an exit code."""
    try:
        yield
    except (ValueError, ImportError) as error:  # an extra that is not installed says how to
        complain(f"Error: {error}")
        raise typer.Exit(FAILED) from error
    except BrokenPipeError as error:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(FAILED) from error
    except OSError as error:
        complain(f"Error: {in_words(error)}")
        raise typer.Exit(FAILED) from error
    except (MemoryError, BrokenExecutor) as error:
        complain("Error: the memory did not suffice; try --jobs 1 or --quick. What is finished is kept.")
        raise typer.Exit(FAILED) from error
    except KeyboardInterrupt as error:
        complain("Interrupted. What is finished is kept: the same command goes on from here.")
        raise typer.Exit(INTERRUPTED) from error


def show(page: Page, folder: Path, quiet: bool) -> None:
    """Print a report, or only its answer."""
    from atklearn.report.terminal import print_headline, print_page

    console = Console()
    if quiet:
        print_headline(page, console)
        return
    print_page(page, console)
    console.print()
    console.print(Text(f"Report: {folder / REPORT}"), soft_wrap=True)
    console.print(Text(f"Results: {folder / RESULTS}, figures: {folder / FIGURES}"), soft_wrap=True)


def complain(sentence: str) -> None:
    """Print a sentence to the standard error."""
    from atklearn.report.terminal import tell

    tell(sentence)


def print_json(content: Any) -> None:
    """Print plain data for programs."""
    print(json.dumps(content, indent=2, ensure_ascii=False))


def in_words(error: OSError) -> str:
    """Return what went wrong with a file, and what to do.

    Examples
    --------
    >>> in_words(FileExistsError(17, "File exists", "reports"))
    'reports is a file, where a folder is expected; choose another with --out.'
    """
    where = str(error.filename or "a file")
    words = {
        FileExistsError: f"{where} is a file, where a folder is expected; choose another with --out.",
        NotADirectoryError: f"{where} goes through a file, where a folder is expected; choose another with --out.",
        IsADirectoryError: f"{where} is a folder, where a file is expected; name a file in it.",
        PermissionError: f"{where} may not be read or written by this user; change its permissions or choose another.",
        FileNotFoundError: f"{where} is not there; check the path.",
    }
    if error.errno == ENOSPC:
        return "the disk is full; make room, and the same command goes on from here."
    said = (error.strerror or str(error)).lower()
    return words.get(type(error), f"{where} cannot be used, {said}; choose another.")
