"""A user's table as a learning problem, from a file or from memory: the target, the task, the groups, the features."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.sparse import csr_array

from atklearn.losses.individual import Array, Task
from atklearn.tables.feature_making import TabularData, feature_names, features_in_words, make_features, take_rows
from atklearn.tables.health import columns_to_leave_out, kind_in_words, reading_in_words
from atklearn.tables.kinds import ReadColumn, read_column
from atklearn.tables.leaks import find_leaks
from atklearn.tables.reading import (
    RawTable,
    check_file,
    is_sparse,
    is_svmlight,
    name_of,
    numbered_frame,
    read_raw,
    read_svmlight,
)
from atklearn.tables.roles import Roles, as_order, as_raw_table, check_task
from atklearn.tables.targets import labels_of, learnable_target

__all__ = [
    "TabularData",
    "feature_names",
    "features_in_words",
    "make_features",
    "make_table",
    "read_table",
    "take_rows",
]

MIN_ROWS = 20
MAX_GROUPS = 50


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
    check_task(task)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    digest.update((encoding or "").encode())  # the same bytes may be another text
    fingerprint = digest.hexdigest()
    if is_svmlight(path):
        if any(option is not None for option in (target, group, split_by, time, encoding)) or drop or keep:
            raise ValueError(
                f"{path} has a target of its own and no named columns; give no target, no other column and no encoding."
            )
        matrix, labels = read_svmlight(path)
        if is_sparse(matrix):
            return _sparse_table(path, matrix, labels, task, fingerprint)
        raw, target = RawTable(numbered_frame(matrix, labels)), "target"
    else:
        raw = read_raw(path, encoding=encoding)
    roles = Roles(name_of(path), target, group, split_by, time, tuple(drop), tuple(keep)).checked(
        list(raw.frame.columns)
    )
    return _table(raw, roles, task, fingerprint)


def make_table(
    table: Any,
    target: Any,
    *,
    name: str,
    task: Task | None = None,
    group: str | None = None,
    drop: Sequence[str] = (),
    keep: Sequence[str] = (),
    split_by: str | None = None,
    time: str | None = None,
    fingerprint: str | None = None,
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
    fingerprint : str, default=None
        What tells this table from others. By default, a hash of its names and values.

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
    check_task(task)
    frame, target = as_raw_table(table, target)
    if fingerprint is None:
        fingerprint = _fingerprint(frame)
    roles = Roles(name, target, group, split_by, time, tuple(drop), tuple(keep)).checked(list(frame.columns))
    return _table(RawTable(frame), roles, task, fingerprint)


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
    read = {roles.target: read_column(frame[roles.target], raw.comma)}
    labels = labels_of(read[roles.target], task)
    infinite = read[roles.target].n_infinite if labels.dtype == np.float64 else 0
    left_out = [(int(labels.isna().sum()) - infinite, "no target"), (infinite, "an infinite target")]
    there = labels.notna().to_numpy()
    order = None
    if roles.time is not None:
        order = as_order(frame[roles.time], raw.comma)
        left_out.append((int((there & np.isnan(order)).sum()), f"no time in {roles.time!r}"))
        there = there & ~np.isnan(order)
        order = order[there]
    rows = np.flatnonzero(there)
    if rows.size < MIN_ROWS:
        known = "a target" if roles.time is None else "a target and a time"
        raise ValueError(
            f"The table {roles.name!r} has {rows.size} rows with {known}, and at least {MIN_ROWS} are expected; "
            "add rows."
        )
    values, task, warnings = learnable_target(labels.iloc[rows], roles.target, task)
    if rows.size < len(frame):
        frame = frame.iloc[rows]
    others = [name for name in frame.columns if name not in (roles.target, *roles.drop)]
    # rows without a target are counted above, once
    read[roles.target] = replace(read[roles.target], values=labels.iloc[rows], n_infinite=0)
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
    warnings += _leaks_in_words(find_leaks(features, values, task), roles.target, task)
    health = {
        "rows_read": len(raw.frame),
        "rows_used": int(rows.size),
        "rows_left_out": [[count, reason] for count, reason in left_out if count],
        "columns": [[str(name), *_use(str(name), roles, read, why)] for name in frame.columns],
        "warnings": warnings,
    }
    groups = None if roles.group is None else _names(read[roles.group])
    if groups is not None and np.unique(groups).size > MAX_GROUPS:
        raise ValueError(
            f"The group {roles.group!r} has {np.unique(groups).size} distinct values, more than {MAX_GROUPS}, too many "
            "to report by; choose a coarser column."
        )
    split_by = None if roles.split_by is None else _names(read[roles.split_by])
    if split_by is not None and np.unique(split_by).size == 1:
        raise ValueError(
            f"The column {roles.split_by!r} has one value only, and cannot be split by; choose another one."
        )
    commas = tuple(name for name, column in used.items() if column.comma)
    return TabularData(
        roles.name, features, values, task, roles.target, groups, roles.group, rows + 1, fingerprint, raw.notes,
        split_by, roles.split_by, order, roles.time, health, commas,
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
    if rows.size < MIN_ROWS:
        raise ValueError(f"{path} has {rows.size} rows with a target, and at least {MIN_ROWS} are expected; add rows.")
    values, task, warnings = learnable_target(pd.Series(numbers[rows]), "target", task)
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
