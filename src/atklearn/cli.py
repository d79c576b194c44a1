"""The commands: parse arguments, call one function, set the exit code.

What a command needs is imported when it runs: help and mistakes in the arguments answer at once.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager, nullcontext
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from joblib import cpu_count
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from atklearn.measures.answers import TAIL_SHARE
from atklearn.measures.catalogue import DEFAULT_MEASURES, names_of_measures

if TYPE_CHECKING:
    from atklearn.report.content import Page
    from atklearn.study.running import Task

__all__ = ["app"]

FAILED, INTERRUPTED = 1, 130
MANY_ROWS = 100_000
RESULTS, REPORT, FIGURES = "results.jsonl", "report.html", "figures"

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
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the answer only, no progress and no tables.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the answer as JSON, and nothing else.")]
DataDir = Annotated[Path | None, typer.Option("--data", help="Folder with NAME.csv.gz, header f1,...,fd,target.")]


@app.command()
def compare(
    data: Annotated[
        Path | None, typer.Argument(help="CSV, Parquet or SVMlight file; without one, the generated Monk set.")
    ] = None,
    target: Annotated[str | None, typer.Option("--target", "-t", help="Column to predict.")] = None,
    task: Annotated[TaskName | None, typer.Option(help="Kind of target.", show_default="detected")] = None,
    group: Annotated[str | None, typer.Option(help="Column to report by; not a feature.")] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Column to leave out; may be repeated.")] = None,
    score: Annotated[
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
        bool, typer.Option("--quick", help="A first look: one repeat, coarse grids, 50,000 rows.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of the random splits.")] = 0,
    model: Annotated[Path | None, typer.Option(help="Save the recommended model here, as .skops.")] = None,
    out: Out = None,
    fresh: Fresh = False,
    jobs: Jobs = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Compare maximum, average and AT_k on a table: an answer for every measure, a recommended model, a report."""
    with failing_in_one_sentence():
        from atklearn.report.comparison_findings import Findings, comparison_summary
        from atklearn.report.comparison_page import comparison_page
        from atklearn.study.comparison import run_comparison
        from atklearn.study.last_fit import fit_recommended
        from atklearn.study.outcome import Question
        from atklearn.study.results import read_results
        from atklearn.study.saving import save_model
        from atklearn.study.settings import Settings
        from atklearn.study.tabular import monk_table, read_table

        if model is not None and not model.absolute().parent.is_dir():
            raise ValueError(f"--model is expected to name a file in a folder that exists, got {str(model)!r}.")
        if data is None:
            if target or task or group or drop:
                raise ValueError("--target, --task, --group and --drop are about a file, but none is named.")
            table = monk_table()
        else:
            table = read_table(data, target, task=task.value if task else None, group=group, drop=drop or ())
        changes: dict[str, Any] = {"random_state": seed, "tail": tail}
        if loss:
            changes["losses"] = tuple(dict.fromkeys(loss))
        if repeats is not None:
            changes["repeats"] = repeats
        settings = Settings.for_task(table.task, len(table.target), quick=quick, **changes)
        question = Question.about(
            table.task, has_groups=table.groups is not None, score=score.value if score else None, margin=margin
        )
        if len(table.target) > MANY_ROWS and not quick:
            complain(f"{len(table.target)} rows take long; --quick is a first look on a part of them.")
        name = "-".join(filter(None, ["compare", slug(table.name), slug(target or ""), "quick" if quick else ""]))
        results = results_file(out or Path("atklearn-out", name), fresh)
        with progress(f"Comparing on {table.name}", silent=quiet or as_json) as (on_start, on_task):
            asked, recommendation = run_comparison(
                table, settings, question, results, n_jobs=jobs or cpu_count(), on_start=on_start, on_task=on_task
            )
        if model is not None:
            save_model(fit_recommended(table, recommendation), model)
        found = Findings(read_results(results), asked)
        page = comparison_page(found)
        publish(page, results.parent)
        if as_json:
            print_json({**comparison_summary(found), "report": str(results.with_name(REPORT))})
        else:
            show(page, results.parent, quiet)


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="A model that compare --model saved.")],
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
    out: Annotated[Path | None, typer.Option("--out", help="CSV to write.", show_default="standard output")] = None,
) -> None:
    """Predict the rows of a table with a saved model, and score it where the truth is there."""
    with failing_in_one_sentence():
        from atklearn.study.files import write_whole
        from atklearn.study.predicting import predict_table
        from atklearn.study.saving import load_model

        predicted = predict_table(
            load_model(model), data, ids=ids or (), threshold=threshold, target=target, encoding=encoding
        )
        if out is None:
            predicted.table.to_csv(sys.stdout, index=False)
        else:
            write_whole(out, predicted.table.to_csv(index=False).encode())
        if predicted.scores:
            complain(predicted.scores_in_words())


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
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Rerun the tables and figures of the paper, ours beside the printed numbers."""
    with failing_in_one_sentence():
        from atklearn.datasets import DATASETS
        from atklearn.report.paper_page import paper_page, paper_summary
        from atklearn.study.reproduction import run_reproduction
        from atklearn.study.results import read_results

        if data is not None and not data.is_dir():
            raise ValueError(f"--data is expected to name a folder, and {str(data)!r} is none.")
        for name in dataset or ():
            if name not in DATASETS:
                raise ValueError(f"--set is expected to be one of {', '.join(DATASETS)}, got {name!r}.")
        results = results_file(out or Path("atklearn-out", f"reproduce-{solver.value}"), fresh)
        with progress("Reproducing", silent=quiet or as_json) as (on_start, on_task):
            skipped = run_reproduction(
                part.value, results, data_dir=data, network=not offline, names=tuple(dataset or DATASETS),
                n_splits=splits, solver=solver.value, n_jobs=jobs or cpu_count(), on_start=on_start, on_task=on_task,
            )  # fmt: skip
        page = paper_page(read_results(results))
        publish(page, results.parent)
        if as_json:
            print_json({**paper_summary(read_results(results)), "report": str(results.with_name(REPORT))})
        else:
            show(page, results.parent, quiet)
        for record in skipped:
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
    quiet: Quiet = False,
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
        publish(page, folder)
        if markdown is not None:
            write_markdown(page, markdown)
        show(page, folder, quiet)


@contextmanager
def failing_in_one_sentence() -> Iterator[None]:
    """Turn what users can do something about into a sentence and an exit code."""
    try:
        yield
    except (ValueError, OSError) as error:
        complain(f"Error: {error}")
        raise typer.Exit(FAILED) from error
    except (MemoryError, BrokenExecutor) as error:
        complain("Error: the memory did not suffice; try --jobs 1 or --quick. What is finished is kept.")
        raise typer.Exit(FAILED) from error
    except KeyboardInterrupt as error:
        complain("Interrupted. What is finished is kept: the same command goes on from here.")
        raise typer.Exit(INTERRUPTED) from error


@contextmanager
def progress(title: str, *, silent: bool) -> Iterator[tuple[Any, Any]]:
    """Show how far a run is and how long it will take; yields what to call at the start and after every task."""
    console = Console(stderr=True)
    columns = [TextColumn("{task.description}"), BarColumn(None), TaskProgressColumn(), TimeElapsedColumn(),
               TextColumn("left"), TimeRemainingColumn()]  # fmt: skip
    bar = Progress(*columns, console=console, speed_estimate_period=120.0)
    shown = bar.add_task(title, total=None)
    state = {"done": 0.0, "total": 0.0, "tenths": 0.0}

    def on_start(tasks: Sequence[Task]) -> None:
        state["total"] = sum(task.cost for task in tasks)
        bar.update(shown, total=state["total"])

    def on_task(task: Task) -> None:
        state["done"] += task.cost
        bar.advance(shown, task.cost)
        tenths = int(10.0 * state["done"] / state["total"])
        if not silent and not console.is_terminal and tenths > state["tenths"]:  # a log, not a screen
            state["tenths"] = tenths
            complain(f"{title}: {10 * tenths} %")

    with bar if console.is_terminal and not silent else nullcontext():
        yield on_start, on_task


def results_file(folder: Path, fresh: bool) -> Path:
    """Return the results file of a folder, removed if the run is to start anew."""
    path = folder / RESULTS
    if fresh:
        path.unlink(missing_ok=True)
    return path


def publish(page: Page, folder: Path) -> None:
    """Write the report and its figures."""
    from atklearn.report.page import write_page
    from atklearn.report.pictures import write_figures

    write_page(page, folder / REPORT)
    write_figures(page, folder / FIGURES)


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
    Console(stderr=True).print(Text(" ".join(sentence.split())), soft_wrap=True)


def print_json(content: Any) -> None:
    """Print plain data for programs."""
    print(json.dumps(content, indent=2, ensure_ascii=False))


def slug(name: str) -> str:
    """Return a name that any file system takes.

    Examples
    --------
    >>> slug("My data (2).csv")
    'My-data-2-.csv'
    """
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:60]
