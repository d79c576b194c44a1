"""Would AT_k help on a table? The comparison as a function: what the command line runs, for scripts and notebooks.

All that it needs is imported when it runs, so that the package needs no more than its estimators do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from atklearn.losses.individual import Task
from atklearn.measures.answers import TAIL_SHARE

if TYPE_CHECKING:
    import pandas as pd
    from sklearn.pipeline import Pipeline

    from atklearn.report.comparison_findings import Findings
    from atklearn.report.content import Page
    from atklearn.study.comparison import Finished
    from atklearn.tables.tabular import TabularData

__all__ = ["Comparison", "compare"]

RESULTS, REPORT, FIGURES = "results.jsonl", "report.html", "figures"
MANY_ROWS = 100_000


def compare(
    table: Any = None,
    target: Any = None,
    *,
    task: Task | None = None,
    group: str | None = None,
    split_by: str | None = None,
    time: str | None = None,
    drop: Sequence[str] = (),
    keep: Sequence[str] = (),
    encoding: str | None = None,
    max_memory: float | None = None,
    model: str = "linear",
    scoring: str | None = None,
    tail: float = TAIL_SHARE,
    margin: float | None = None,
    loss: str | Sequence[str] = (),
    repeats: int | None = None,
    quick: bool = False,
    robust: bool | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    scheduler: Any = None,
    out: str | Path | None = None,
    fresh: bool = False,
    verbose: bool = True,
) -> Comparison:
    """Compare maximum, average and AT_k on a table: an answer for every measure, a recommended model, a report.

    The options are those of the command ``atklearn compare``. It needs ``atklearn[cli]``.

    Parameters
    ----------
    table : DataFrame, dict of columns, 2-D array or path, default=None
        By default a generated set of delivery times.
    target : str or array-like of shape (n_rows,), default=None
        The column to predict, or its values. An SVMlight file has its own.
    task : {"classification", "regression"}, default=None
        By default what the target looks like.
    group : str, default=None
        A column to report by. It is not a feature.
    split_by : str, default=None
        A column whose equal rows stay together, in training or in test. It is not a feature.
    time : str, default=None
        A column whose later half is tested, by fits on what was before. It is not a feature.
    drop, keep : sequence of str, default=()
        Columns to leave out; columns to use that would be left out.
    encoding : str, default=None
        Of a text file; by default UTF-8, or what else fits.
    max_memory : float, default=None
        What reading a file may take of memory, in gigabytes; by default half of what the machine has.
    model : {"linear", "boosting"}, default="linear"
        What is fitted: linear models, or boosted trees, which need ``atklearn[boosting]``.
    scoring : str, default=None
        The measure that counts: "balanced_error" for classes and "rmse" for numbers by default.
    tail : float, default=0.1
        The part of the rows that is the tail of the errors.
    margin : float, default=None
        The part of a measure's scale that does not matter; 0.01 by default.
    loss : str or sequence of str, default=()
        Individual losses to compare; by default all that fit the task.
    repeats : int, default=None
        Of the ten folds; 5, 2 or 1 by default, the fewer the more rows there are; half as many for boosted trees.
    quick : bool, default=False
        A first look: one repeat, coarse grids, at most 20,000 rows.
    robust : bool, default=None
        Whether linear fits that set the largest losses aside are compared, too, and the rows listed that they leave
        out: for wrong labels and broken sensors. By default unless this is a first look.
    random_state : int, default=0
        Of the splits.
    n_jobs : int, default=None
        Processes; all cores by default.
    scheduler : str or distributed.Client, default=None
        The address of a Dask scheduler, or a client of it: its workers do the work in the place of processes. It needs
        ``atklearn[dask]``.
    out : str or Path, default=None
        The folder of the results, to go on with in another session, and of the report. By default results last as
        long as this process, in which the same fits answer other questions.
    fresh : bool, default=False
        Whether to start anew instead of going on with what is there.
    verbose : bool, default=True
        Whether to tell how far it is.

    Returns
    -------
    result : Comparison
        It prints as its answer in one sentence, and shows itself in a notebook as its report. ``verdicts`` is the
        answer for every measure, a DataFrame; ``summary`` the answer as plain data, what ``--json`` prints; ``model``
        the recommended model, fitted on all rows; ``data`` the table, as it was understood; ``folder`` where the
        results are. ``predict(table)`` predicts new rows, ``save_model(path)`` saves the model with skops, and
        ``write(folder)`` writes the report and its figures.

    Examples
    --------
    >>> import numpy as np
    >>> from atklearn import compare
    >>> X = np.random.default_rng(0).standard_normal((60, 2))
    >>> result = compare(X, X[:, 0] > 0.0, quick=True, loss="log_loss", n_jobs=1, verbose=False)
    >>> sorted(set(result.verdicts["answer"]) - {"helps", "hurts", "same", "undecided"})
    []
    >>> result.predict(X[:2])["prediction"].dtype
    dtype('bool')
    """
    with _needing_the_extra():
        from joblib import cpu_count

        from atklearn.report.progress import progress
        from atklearn.report.terminal import tell
        from atklearn.study.clusters import connected
        from atklearn.study.comparison import run_comparison
        from atklearn.study.families import family_named
        from atklearn.study.outcome import Question
        from atklearn.study.places import check_place
        from atklearn.study.settings import Settings
        from atklearn.tables.tabular import DEMONSTRATED_SCORE, demonstration_table, make_table, read_table
    family_named(model)  # what is not installed is said before anything is read
    if split_by is not None and time is not None:
        raise ValueError("One of --split-by and --time is expected, got both; choose what tells how new rows come.")
    roles: dict[str, Any] = {
        "task": task, "group": group, "split_by": split_by, "time": time, "drop": drop, "keep": keep,
    }  # fmt: skip
    if encoding is not None and not isinstance(table, str | Path):
        raise ValueError("--encoding is about a file of text, but none is named; leave it out.")
    if table is None:
        if target is not None or any(roles.values()):
            raise ValueError("--target, --task, --group, --drop and the like are about a table, but none is named.")
        data = demonstration_table()
        scoring = scoring or DEMONSTRATED_SCORE
    elif isinstance(table, str | Path):
        data = read_table(table, target, encoding=encoding, max_memory=max_memory, **roles)
    else:
        data = make_table(table, target, name="table", **roles)
    if data.time is not None and repeats not in (None, 1):
        raise ValueError(f"With --time there is one way to split, so --repeats is expected to be 1, got {repeats}.")
    changes: dict[str, Any] = {"random_state": random_state, "tail": tail}
    losses = (loss,) if isinstance(loss, str) else tuple(dict.fromkeys(loss))
    if repeats is not None:
        changes["repeats"] = repeats
    settings = Settings.for_task(
        data.task, len(data.target), model=model, quick=quick, losses=losses, robust=robust, **changes
    )
    question = Question.about(data.task, has_groups=data.groups is not None, score=scoring, margin=margin)
    if out is None:
        path = Path(_scratch().name, "comparison", RESULTS)
    else:
        path = Path(out, RESULTS)
        check_place(path)
    if verbose and len(data.target) > MANY_ROWS and not quick:
        tell(f"{len(data.target)} rows take long; --quick is a first look on a part of them.")
    title = f"Comparing on {data.name}"
    with connected(scheduler, n_jobs) as client, progress(title, silent=not verbose) as (on_start, on_task):
        finished = run_comparison(
            data, settings, question, path, n_jobs=n_jobs or cpu_count(), client=client, fresh=fresh,
            on_start=on_start, on_task=on_task,
        )  # fmt: skip
    if finished.moved and out is not None:
        tell(finished.moved)
    return Comparison(data, finished)


class Comparison:
    """What a comparison found: what :func:`atklearn.compare` returns.

    It prints as its answer in one sentence, and shows itself in a notebook as its report.

    Attributes
    ----------
    data : TabularData
        The table, as it was understood.
    finished : Finished
        Where the results are, and the recommendation.

    Examples
    --------
    >>> import numpy as np
    >>> from atklearn import compare
    >>> X = np.random.default_rng(0).standard_normal((60, 2))
    >>> result = compare(X, X[:, 0] > 0.0, quick=True, loss="log_loss", n_jobs=1, verbose=False)
    >>> print(str(result).split(".")[0])
    The same on balanced error
    >>> result.verdicts.index[0], result.verdicts["answer"].iloc[0], result.summary["n_rows"]
    ('balanced_error', 'same', 60)
    >>> result.model.predict(result.data.features[:3])
    array([ True,  True, False])
    """

    def __init__(self, data: TabularData, finished: Finished) -> None:
        self.data, self.finished = data, finished

    @property
    def folder(self) -> Path:
        """The folder of the results: ``out`` of :func:`atklearn.compare`, or one that lasts as long as this process."""
        return self.finished.path.parent

    @cached_property
    def findings(self) -> Findings:
        """What the records of the results file say, as the objects that reports are made of."""
        from atklearn.report.comparison_findings import Findings
        from atklearn.study.results import read_results

        return Findings(read_results(self.finished.path), self.finished.asked)

    @cached_property
    def page(self) -> Page:
        """The report as content, before it is decided how it looks: :meth:`write` makes a page of it."""
        from atklearn.report.comparison_page import comparison_page

        return comparison_page(self.findings)

    @cached_property
    def verdicts(self) -> pd.DataFrame:
        """The answer for every measure, the one that counts first: a table indexed by the measures' names."""
        import pandas as pd

        return pd.DataFrame.from_dict(self.summary["verdicts"], orient="index").rename_axis("measure")

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The answer as plain data: what ``atklearn compare --json`` prints."""
        from atklearn.report.comparison_findings import comparison_summary

        return comparison_summary(self.findings)

    @cached_property
    def model(self) -> Pipeline:
        """The recommended model, fitted on all rows: from the columns of ``data.features`` to the target."""
        from atklearn.study.last_fit import fit_recommended

        return fit_recommended(self.data, self.finished.recommendation)

    def predict(self, table: Any, **options: Any) -> pd.DataFrame:
        """Predict new rows with the recommended model, read as the table was.

        Parameters
        ----------
        table : DataFrame, dict of columns, 2-D array or path
            With the columns that are features; others are ignored.
        **options
            ``ids``, columns to carry through; ``threshold``, from which probability of the second of two classes on it
            is predicted; ``encoding`` of a text file; ``max_memory`` that reading a file may take, in gigabytes.

        Returns
        -------
        predictions : DataFrame
            The column ``prediction``, and for classes their probabilities or scores.
        """
        from atklearn.tables.predicting import predict_table

        return predict_table(self.model, table, **options).table

    def save_model(self, path: str | Path) -> None:
        """Save the recommended model with skops; the command ``atklearn predict`` reads it.

        Parameters
        ----------
        path : str or Path
            Of the file, which has to end in ``.skops``.
        """
        from atklearn.study.saving import save_model

        save_model(self.model, path)

    def write(self, folder: str | Path | None = None) -> Path:
        """Write the report and its figures; return the path of the page.

        Parameters
        ----------
        folder : str or Path, default=None
            Where to; by default to the results.

        Returns
        -------
        path : Path
        """
        return write_report(self.page, self.folder if folder is None else Path(folder))

    def __repr__(self) -> str:
        return f"{self.page.verdict}. {self.page.headline}"

    def _repr_html_(self) -> str:
        from atklearn.report.notebook import render_fragment

        return render_fragment(self.page)


def write_report(page: Page, folder: Path) -> Path:
    """Write a page and its figures into a folder; return the path of the page."""
    from atklearn.report.page import write_page
    from atklearn.report.pictures import write_figures

    write_page(page, folder / REPORT)
    write_figures(page, folder / FIGURES)
    return folder / REPORT


@contextmanager
def _needing_the_extra() -> Iterator[None]:
    """Say how to install what is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("atklearn"):
            raise
        raise ModuleNotFoundError(
            f"compare needs {error.name}, which comes with: pip install 'atklearn[cli]'", name=error.name
        ) from error


@cache
def _scratch() -> TemporaryDirectory[str]:
    """Return a folder that lasts as long as this process."""
    return TemporaryDirectory(prefix="atklearn-", ignore_cleanup_errors=True)
