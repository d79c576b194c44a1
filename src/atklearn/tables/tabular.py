"""A user's table as a learning problem, from a file or from memory: the target, the task, the groups, the features."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.sparse import csr_array

from atklearn.datasets.generated import make_deliveries
from atklearn.losses.individual import Array, Task
from atklearn.runtime.messages import most_alike
from atklearn.tables.columns import LARGEST, ReadColumn, read_column
from atklearn.tables.health import columns_to_leave_out, find_leaks, kind_in_words, reading_in_words
from atklearn.tables.reading import (
    RawTable,
    check_file,
    is_sparse,
    is_svmlight,
    name_of,
    numbered_frame,
    plain_name,
    read_raw,
    read_svmlight,
)

__all__ = [
    "DEMONSTRATED_SCORE",
    "TabularData",
    "as_raw_table",
    "demonstration_table",
    "listed",
    "make_table",
    "read_table",
]

_MIN_ROWS = 20
_MAX_GROUPS = 50
_MIN_CLASS_ROWS = 5  # one in every part of a 5-fold split
_MAX_CLASSES = 100
_MAX_CLASSES_UNASKED = 20  # more whole numbers than that are counts or amounts
_MANY_CLASSES = 10  # whole numbers of which there are more may be either

DEMONSTRATED_SCORE = "tail_error"

Table: TypeAlias = pd.DataFrame | dict[str, npt.ArrayLike] | npt.NDArray[np.generic]  # or whatever has to_pandas


@dataclass(frozen=True)
class TabularData:
    """A table and what is to be learned from it.

    Attributes
    ----------
    name : str
        The name of the file, without folder and suffix.
    features : DataFrame or CSR array of shape (n_rows, n_columns)
        Columns of float64, datetime64 or string; CSR for an SVMlight file.
    target : ndarray of shape (n_rows,)
        Labels as the file has them, or float64 for regression.
    task : {"classification", "regression"}
    target_name : str
    groups : ndarray of str of shape (n_rows,) or None
    group_name : str or None
    rows : ndarray of int of shape (n_rows,)
        The numbers of the rows in the file, from one, not counting its header.
    fingerprint : str
        The SHA-256 of the file and of the encoding that was named, or of the frame, in hexadecimal.
    notes : list of str
        What a reader of results should know about how the table was read as a whole.
    split_by : ndarray of str of shape (n_rows,) or None
        Rows that share a value belong together and are not to be split.
    split_by_name : str or None
    time : ndarray of shape (n_rows,) or None
        The order of the rows in time: numbers as they are, dates in nanoseconds.
    time_name : str or None
    health : dict
        ``rows_read`` and ``rows_used``, counts; ``rows_left_out``, pairs of a count and why; ``columns``, a triple of
        name, use and how it was read for every column of the file; ``warnings``, sentences on what its owner should
        look at. A use is one of "target", "number", "date", "category", "text", "group", "split by", "time" and
        "left out".
    decimal_commas : tuple of str
        The columns of numbers that were read from text with a decimal comma.
    date_formats : dict of str to str
        The columns of dates that were read from text in another format than ISO 8601, with the format.
    """

    name: str
    features: pd.DataFrame | csr_array
    target: npt.NDArray[Any]
    task: Task
    target_name: str
    groups: npt.NDArray[np.str_] | None
    group_name: str | None
    rows: npt.NDArray[np.intp]
    fingerprint: str
    notes: list[str] = field(default_factory=list)
    split_by: npt.NDArray[np.str_] | None = None
    split_by_name: str | None = None
    time: Array | None = None
    time_name: str | None = None
    health: dict[str, object] = field(default_factory=dict)
    decimal_commas: tuple[str, ...] = ()
    date_formats: dict[str, str] = field(default_factory=dict)


def read_table(
    path: str | Path,
    target: str | None = None,
    *,
    task: Task | None = None,
    group: str | None = None,
    drop: Sequence[str] = (),
    keep: Sequence[str] = (),
    split_by: str | None = None,
    time: str | None = None,
    encoding: str | None = None,
    max_memory: float | None = None,
) -> TabularData:
    r"""Read a table and what is to be learned from it, or say in one sentence what is wrong with it.

    Parameters
    ----------
    path : str or Path
        A CSV (comma, semicolon or tab), Excel, JSON lines, Parquet or SVMlight file.
    target : str, default=None
        The column to predict. An SVMlight file has its own.
    task : {"classification", "regression"}, default=None
        By default, text, booleans and at most 20 distinct whole numbers are classes.
    group : str, default=None
        A column to report by.
    drop : sequence of str, default=()
        Columns to leave out.
    keep : sequence of str, default=()
        Columns that are features, although they look like identifiers or have another use.
    split_by : str, default=None
        A column whose equal values belong together and are not to be split.
    time : str, default=None
        A column of numbers or dates that orders the rows.
    encoding : str, default=None
        Of a text file. By default UTF-8, or UTF-16 if the file begins so, or Windows-1252 if it is neither.
    max_memory : float, default=None
        What reading may take of memory, in gigabytes; by default half of what the machine has. A file that would
        take more is refused before it is expanded.

    Returns
    -------
    data : TabularData
        The rows that have a target.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "bikes.csv"
    ...     _ = path.write_text("town,rain,rides\n" + "Ulm,0.5,few\nBonn,0.1,many\n" * 20, encoding="utf-8")
    ...     data = read_table(path, "rides")
    >>> data.task, data.features.shape, data.target[:2].tolist()
    ('classification', (40, 2), ['few', 'many'])
    >>> data.health["columns"]
    [['town', 'category', ''], ['rain', 'number', ''], ['rides', 'target', '']]
    """
    path = check_file(path)
    _check_task(task)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    digest.update((encoding or "").encode())  # the same bytes may be another text
    if is_svmlight(path):
        if any(option is not None for option in (target, group, split_by, time, encoding)) or drop or keep:
            raise ValueError(
                f"{path} has a target of its own and no named columns; give no target, no other column and no encoding."
            )
        matrix, labels = read_svmlight(path, max_memory=max_memory)
        if is_sparse(matrix):
            return _sparse_table(path, matrix, labels, task, digest.hexdigest())
        raw, target = RawTable(numbered_frame(matrix, labels)), "target"
    else:
        raw = read_raw(path, encoding=encoding, max_memory=max_memory)
    roles = Roles(name_of(path), target, group, split_by, time, tuple(drop), tuple(keep))
    return _table(raw, roles, task, digest.hexdigest())


def make_table(
    table: Table,
    target: str | npt.ArrayLike,
    *,
    name: str,
    task: Task | None = None,
    group: str | None = None,
    drop: Sequence[str] = (),
    keep: Sequence[str] = (),
    split_by: str | None = None,
    time: str | None = None,
) -> TabularData:
    """Take a table in memory the way that :func:`read_table` takes a file.

    Parameters
    ----------
    table : DataFrame, dict or array of shape (n_rows, n_columns)
        Of pandas, polars or anything else with ``to_pandas``. The columns of an array are called x0, x1 and so on.
    target : str or array-like of shape (n_rows,)
        The column to predict, or the values to predict.
    name : str
        What to call the table.
    task, group, drop, keep, split_by, time
        As :func:`read_table` takes them.

    Returns
    -------
    data : TabularData

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((40, 2))
    >>> data = make_table(X, X[:, 0] > 0.0, name="made")
    >>> data.task, list(data.features), data.target_name
    ('classification', ['x0', 'x1'], 'target')
    """
    _check_task(task)
    frame, target_name = as_raw_table(table, target)
    roles = Roles(name, target_name, group, split_by, time, tuple(drop), tuple(keep))
    return _table(RawTable(frame), roles, task, _fingerprint(frame))


def _fingerprint(frame: pd.DataFrame) -> str:
    """Return the SHA-256 of names and values, whatever the index."""
    digest = hashlib.sha256()
    for name in frame.columns:
        digest.update(name.encode(errors="replace") + b"\0")
        try:
            values = pd.util.hash_pandas_object(frame[name], index=False)
        except TypeError:  # of lists and the like, which only columns to drop may hold
            values = pd.util.hash_pandas_object(frame[name].map(str), index=False)
        digest.update(values.to_numpy().tobytes())
    return digest.hexdigest()


def _table(raw: RawTable, roles: Roles, task: Task | None, fingerprint: str) -> TabularData:
    """Return a table with its columns in their roles, and its health."""
    frame = raw.frame
    target = roles.check(list(frame.columns))
    read = {target: read_column(frame[target], raw.comma)}
    labels = _labels_of(read[target], task)
    infinite = read[target].n_infinite if labels.dtype == np.float64 else 0
    left_out = [
        (int(labels.isna().sum()) - infinite, "no target"),
        (infinite, f"a target that is infinite or beyond {LARGEST:g}"),
    ]
    there = labels.notna().to_numpy()
    order = None
    if roles.time is not None:
        order = _as_order(frame[roles.time], raw.comma)
        left_out.append((int((there & np.isnan(order)).sum()), f"no time in {roles.time!r}"))
        there = there & ~np.isnan(order)
        order = order[there]
    rows = np.flatnonzero(there)
    reasons = [(count, reason) for count, reason in left_out if count]
    if rows.size < _MIN_ROWS:
        lost = "".join(f"; {count} have {reason}" for count, reason in reasons)
        raise ValueError(
            f"The table {roles.name!r} has {rows.size} rows to learn from, and at least {_MIN_ROWS} are expected"
            f"{lost}; {'divide the target by a power of ten' if infinite else 'add rows'}."
        )
    values, task, warnings = _learnable_target(labels.iloc[rows], target, task)
    if rows.size < len(frame):
        frame = frame.iloc[rows]
    others = [name for name in frame.columns if name not in (target, *roles.drop)]
    # rows without a target are counted above, once
    read[target] = replace(read[target], values=labels.iloc[rows], n_infinite=0)
    read |= {name: read_column(frame[name], raw.comma) for name in others}
    candidates = {name: read[name] for name in others if name in roles.keep or not roles.of(name)}
    why = columns_to_leave_out(candidates, rows, str(frame.columns[0]), roles.keep)
    used = {name: column for name, column in candidates.items() if name not in why}
    if not used:
        name = next(iter(why), None)
        remedy = (
            "add one beside the target" if name is None else f"--keep {name!r}, left out as {why[name]!r}, if it is one"
        )
        raise ValueError(f"The table {roles.name!r} has no column left to learn from; {remedy}.")
    features = pd.DataFrame({name: column.values for name, column in used.items()}, copy=False)
    warnings += [column.warning for column in used.values() if column.warning]
    warnings += _leaks_in_words(find_leaks(features, values, task), target, task)
    health = {
        "rows_read": len(raw.frame),
        "rows_used": int(rows.size),
        "rows_left_out": [list(reason) for reason in reasons],
        "columns": [[str(name), *_use(str(name), roles, read, why)] for name in frame.columns],
        "warnings": warnings,
    }
    groups = None if roles.group is None else _names(read[roles.group])
    if groups is not None and np.unique(groups).size > _MAX_GROUPS:
        raise ValueError(
            f"The group {roles.group!r} has {np.unique(groups).size} distinct values, more than {_MAX_GROUPS}, too "
            "many to report by; choose a coarser column."
        )
    split_by = None if roles.split_by is None else _names(read[roles.split_by])
    if split_by is not None and np.unique(split_by).size == 1:
        raise ValueError(
            f"The column {roles.split_by!r} has one value only, and cannot be split by; choose another one."
        )
    return TabularData(
        roles.name, features, values, task, target, groups, roles.group, rows + 1, fingerprint, raw.notes,
        split_by, roles.split_by, order, roles.time, health,
        decimal_commas=tuple(name for name, column in used.items() if column.comma),
        date_formats={name: column.date_format for name, column in used.items() if column.date_format is not None},
    )  # fmt: skip


def _names(column: ReadColumn) -> npt.NDArray[np.str_]:
    """Return what each row says, with a name for those that say nothing."""
    return np.asarray(column.as_labels().fillna("missing"), dtype=np.str_)


def _use(name: str, roles: Roles, read: dict[str, ReadColumn], why: dict[str, str]) -> tuple[str, str]:
    """Return what a column is used as, and how it was read."""
    if name in roles.drop:
        return "left out", "on your request"
    if name in why:
        return "left out", why[name]
    role, how = roles.of(name), reading_in_words(read[name])
    if not role:
        return kind_in_words(read[name]), how
    uses = [*role, *([kind_in_words(read[name])] if name in roles.keep else [])]
    return uses[0], ", ".join(filter(None, [*(f"also {use}" for use in uses[1:]), how]))


def _leaks_in_words(leaks: dict[str, float], target: str, task: Task) -> list[str]:
    scores = {name: f"R² {value:.3f}" if task == "regression" else f"balanced accuracy {100.0 * value:.0f} %"
              for name, value in leaks.items()}  # fmt: skip
    return [
        f"{name!r} alone predicts {target!r} almost perfectly ({score}): a possible leak; leave it out with "
        f"--drop {name!r} if it is not known when predicting."
        for name, score in scores.items()
    ]


def _sparse_table(path: Path, features: csr_array, numbers: Array, task: Task | None, fingerprint: str) -> TabularData:
    """Return the table of an SVMlight file."""
    there = np.isfinite(numbers)
    rows = np.flatnonzero(there)
    if rows.size < _MIN_ROWS:
        raise ValueError(f"{path} has {rows.size} rows with a target, and at least {_MIN_ROWS} are expected; add rows.")
    values, task, warnings = _learnable_target(pd.Series(numbers[rows]), "target", task)
    n_left = int(there.size - rows.size)
    health = {
        "rows_read": int(there.size),
        "rows_used": int(rows.size),
        "rows_left_out": [[n_left, "no finite target"]] if n_left else [],
        "columns": [["target", "target", ""], [f"0 to {features.shape[1] - 1}", "number", "numbered features"]],
        "warnings": warnings,
    }
    features = features[rows] if n_left else features
    return TabularData(
        name_of(path), features, values, task, "target", None, None, rows + 1, fingerprint, health=health
    )


@dataclass(frozen=True)
class Roles:
    """The columns of a table, of this name, that are named for something, and those to leave out or to keep."""

    name: str
    target: str | None
    group: str | None = None
    split_by: str | None = None
    time: str | None = None
    drop: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()

    def of(self, name: str) -> list[str]:
        """Return the uses of a column other than as a feature.

        Examples
        --------
        >>> Roles("bikes", "rides", group="town", split_by="town").of("town")
        ['group', 'split by']
        """
        named = {"target": self.target, "group": self.group, "split by": self.split_by, "time": self.time}
        return [use for use, column in named.items() if column == name]

    def check(self, columns: Sequence[str]) -> str:
        """Return the target if all named columns are there and their roles go together.

        Examples
        --------
        >>> Roles("bikes", "ride").check(["town", "rides"])
        Traceback (most recent call last):
            ...
        ValueError: The table 'bikes' has no column 'ride'; did you mean 'rides'?
        """
        if self.target is None:
            raise ValueError(f"A target is expected, one of {listed(columns)}; try --target {columns[-1]!r}.")
        uses = {"group": self.group, "split_by": self.split_by, "time": self.time}
        named = [name for name in uses.values() if name is not None]
        for name in (self.target, *named, *self.drop, *self.keep):
            if name not in columns:
                close = most_alike(str(name), columns)
                remedy = f"choose one of {listed(columns)}." if close is None else f"did you mean {close!r}?"
                raise ValueError(f"The table {self.name!r} has no column {name!r}; {remedy}")
        for use, column in uses.items():
            if column == self.target:
                remedy = "results by class need no group" if use == "group" else f"name another column for {use}"
                raise ValueError(f"The column {column!r} is both target and {use}; {remedy}.")
        for name in (self.target, *named):
            if name in self.drop:
                raise ValueError(f"The column {name!r} is needed; do not --drop it.")
        for name in self.keep:
            if name == self.target or name in self.drop:
                other = "the target" if name == self.target else "to be dropped"
                raise ValueError(f"The column {name!r} is {other} and cannot be kept as a feature; do not --keep it.")
        return self.target


def listed(names: Sequence[str], most: int = 20) -> str:
    """Return names as a part of a sentence, at most so many."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more


def _check_task(task: str | None) -> None:
    if task not in (None, "classification", "regression"):
        raise ValueError(f"task is expected to be 'classification' or 'regression', got {task!r}; choose one.")


def _as_order(column: pd.Series, comma: bool = False) -> Array:
    """Return what orders the rows in time, NaN where it is missing: numbers as they are, dates in nanoseconds."""
    read = read_column(column, comma)
    if read.kind == "date":
        order = 1000.0 * read.values.astype("int64").to_numpy()
        return np.asarray(np.where(read.values.isna(), np.nan, order))
    if read.kind != "number":
        raise ValueError(
            f"The time {column.name!r} is expected to hold numbers or dates, and holds "
            f"{str(column.dropna().iloc[0])!r}; choose another column."
        )
    return np.asarray(read.values, dtype=np.float64)


def as_raw_table(table: Table, target: str | npt.ArrayLike | None) -> tuple[pd.DataFrame, str | None]:
    """Return a table in memory as a frame that holds the target, too, and the name of the target.

    Examples
    --------
    >>> frame, name = as_raw_table({"rain": [0.5, 0.1]}, [3, 4])
    >>> list(frame), name
    (['rain', 'target'], 'target')
    """
    frame = _as_frame(table)
    frame.columns = [plain_name(name) for name in frame.columns]
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise ValueError(f"The table has more than one column named {twice!r}; rename all but one.")
    if target is None or isinstance(target, str) or (np.ndim(target) == 0 and str(target) in frame.columns):
        return frame, None if target is None else str(target)
    if hasattr(target, "to_pandas"):
        target = target.to_pandas()
    if isinstance(target, pd.DataFrame) and target.shape[1] == 1:
        target = target.iloc[:, 0]
    values = target.array if isinstance(target, pd.Series) else _as_vector(target)
    if len(values) != len(frame):
        raise ValueError(f"The target is expected to have {len(frame)} values, one per row, and has {len(values)}.")
    given = getattr(target, "name", None)
    name = "target" if given is None else str(given)
    if name in frame.columns:
        raise ValueError(f"The table has a column {name!r} like the target, which would tell it; leave it out.")
    return frame.assign(**{name: values}), name


def _as_vector(target: npt.ArrayLike) -> npt.NDArray[np.generic]:
    values = np.asarray(target)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(f"The target is expected as a vector, got an array of shape {values.shape}.")
    return values


def _as_frame(table: Table) -> pd.DataFrame:
    """Return a frame of its own for what is one or turns into one."""
    if hasattr(table, "to_pandas"):
        table = table.to_pandas()
    if isinstance(table, np.ndarray) and table.ndim == 2:
        return pd.DataFrame(table, columns=[f"x{i}" for i in range(table.shape[1])]).infer_objects()
    if isinstance(table, dict):
        try:
            return pd.DataFrame(table)
        except ValueError as error:
            raise ValueError(f"A dict is expected to hold columns of one length; {error}.") from error
    if isinstance(table, pd.DataFrame):
        return table.reset_index(drop=True)
    got = f"an array of shape {table.shape}" if isinstance(table, np.ndarray) else type(table).__name__
    raise ValueError(f"A table is expected as a DataFrame, a dict of columns or an array of two dimensions, got {got}.")


def _labels_of(column: ReadColumn, task: Task | None) -> pd.Series:
    """Return a target as numbers, booleans or text, missing where there is nothing to learn from.

    Text that can be read as numbers is classes if few values occur, as '1,5' and '2,5' may be.
    """
    if column.kind == "boolean":
        return column.values.map({1.0: True, 0.0: False})
    if column.kind != "number":
        return column.as_labels()
    few = column.values.nunique() <= _MAX_CLASSES_UNASKED
    if column.example is not None and (task == "classification" or (task is None and few)):
        return column.as_labels()
    return column.values


def _learnable_target(
    labels: pd.Series, name: str, task: Task | None
) -> tuple[npt.NDArray[np.generic], Task, list[str]]:
    """Return the target (str, int, bool or float64), the task, asked for or detected, and warnings.

    Examples
    --------
    >>> _learnable_target(pd.Series([1.0, 2.0] * 10), "stars", None)[:2]
    (array([1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2]), 'classification')
    """
    boolean = labels.dtype != np.float64 and bool(labels.isin([True, False]).all())
    if labels.dtype != np.float64 and not boolean:
        if task == "regression":
            raise ValueError(
                f"The target {name!r} is expected to hold numbers for regression, and holds {str(labels.iloc[0])!r}; "
                "correct it or choose classification."
            )
        return _classes(labels.astype("string"), name), "classification", []
    values: Array = labels.to_numpy(dtype=np.float64)
    whole = bool((values == np.floor(values)).all() and np.abs(values).max() < 2**53)
    distinct, counts = np.unique(values, return_counts=True)
    warnings = []
    if task is None:
        task = "classification" if whole and distinct.size <= _MAX_CLASSES_UNASKED else "regression"
        if whole and task == "classification" and distinct.size > _MANY_CLASSES:
            warnings.append(
                f"The {distinct.size} whole numbers of the target {name!r} are taken as classes; if they are amounts, "
                "choose --task regression."
            )
        if whole and task == "regression" and distinct.size <= _MAX_CLASSES and counts.min() >= _MIN_CLASS_ROWS:
            warnings.append(
                f"The {distinct.size} whole numbers of the target {name!r} are taken as amounts; if they are classes, "
                "choose --task classification."
            )
    if task == "regression":
        if distinct.size == 1:
            raise ValueError(f"The target {name!r} has a single value, {values[0]:g}; there is nothing to learn.")
        return values, task, warnings
    if boolean:
        return _classes(labels.astype(bool), name), task, warnings
    # scikit-learn takes fractions for a regression target, so they are labels as text
    return _classes(labels.astype(np.int64 if whole else "string"), name), task, warnings


def _classes(labels: pd.Series, name: str) -> npt.NDArray[np.generic]:
    """Return the labels if there are classes in them to learn."""
    counts = labels.value_counts()
    if counts.size > _MAX_CLASSES:
        raise ValueError(
            f"The target {name!r} has {counts.size} classes, and at most {_MAX_CLASSES} are expected; merge rare ones, "
            "or choose --task regression if it is a number."
        )
    if counts.size == 1:
        raise ValueError(f"The target {name!r} has one class only, '{counts.index[0]}'; at least two are expected.")
    if counts.min() < _MIN_CLASS_ROWS:
        raise ValueError(
            f"The class '{counts.index[-1]}' of the target {name!r} has too few rows, {counts.min()}, and at least "
            f"{_MIN_CLASS_ROWS} are expected to split it; merge it with another class or leave its rows out."
        )
    classes: npt.NDArray[np.generic] = labels.to_numpy(dtype=str) if labels.dtype == "string" else labels.to_numpy()
    return classes


DEMONSTRATED_SCORE = "tail_error"


def demonstration_table() -> TabularData:
    """Return delivery times as a table: how late the latest are is what counts, and vehicles are what to report by.

    Examples
    --------
    >>> demonstration_table().features.columns.tolist()
    ['distance_km', 'climb_m']
    """
    made = make_table(make_deliveries(), "minutes", name="deliveries", group="vehicle")
    note = (
        "generated: most deliveries are by van or scooter, for which the climb hardly matters; some are by bike, for "
        "which it does, and the vehicle is not known when the time is to be said"
    )
    return replace(made, notes=[note])
