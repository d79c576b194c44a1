"""Which column is what: the target, those with a use of their own, those that are left out or kept on request."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from atklearn.losses.individual import Array
from atklearn.tables.kinds import read_column, written_dates

__all__ = ["Roles", "as_order", "as_raw_table", "check_task"]


@dataclass(frozen=True)
class Roles:
    """The columns of a table that are named for something.

    Attributes
    ----------
    name : str
        Of the table.
    target : str or None
        None only until they are checked.
    group, split_by, time : str or None
    drop, keep : tuple of str
    """

    name: str
    target: Any
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

    def checked(self, columns: Sequence[str]) -> Roles:
        """Return the roles if all named columns are there and their roles go together.

        Examples
        --------
        >>> Roles("bikes", "ride").checked(["town", "rides"])
        Traceback (most recent call last):
            ...
        ValueError: The table 'bikes' has no column 'ride'; did you mean 'rides'?
        """
        if self.target is None:
            raise ValueError(f"A target is expected, one of {_listed(columns)}; try --target {columns[-1]!r}.")
        uses = {"group": self.group, "split_by": self.split_by, "time": self.time}
        named = [name for name in uses.values() if name is not None]
        for name in (self.target, *named, *self.drop, *self.keep):
            if name not in columns:
                close = difflib.get_close_matches(str(name), columns, n=1)
                remedy = f"did you mean {close[0]!r}?" if close else f"choose one of {_listed(columns)}."
                raise ValueError(f"The table {self.name!r} has no column {name!r}; {remedy}")
        if self.group == self.target:
            raise ValueError(f"The column {self.target!r} is both target and group; results by class need no group.")
        for use, name in uses.items():
            if name == self.target:
                raise ValueError(f"The column {name!r} is both target and {use}; name another column for {use}.")
        for name in (self.target, *named):
            if name in self.drop:
                raise ValueError(f"The column {name!r} is needed; do not --drop it.")
        for name in self.keep:
            if name == self.target or name in self.drop:
                other = "the target" if name == self.target else "to be dropped"
                raise ValueError(f"The column {name!r} is {other} and cannot be kept as a feature; do not --keep it.")
        return replace(self, target=str(self.target))


def _listed(columns: Sequence[str], most: int = 20) -> str:
    more = f" and {len(columns) - most} more" if len(columns) > most else ""
    return ", ".join(repr(name) for name in columns[:most]) + more


def check_task(task: Any) -> None:
    """Raise if there is no such task."""
    if task not in (None, "classification", "regression"):
        raise ValueError(f"task is expected to be 'classification' or 'regression', got {task!r}; choose one.")


def as_order(column: pd.Series, comma: bool = False) -> Array:
    """Return what orders the rows in time, NaN where it is missing: numbers as they are, dates in nanoseconds.

    Examples
    --------
    >>> as_order(pd.Series(["31/01/2020", "01/02/2020"])).argsort().tolist()
    [0, 1]
    """
    read = read_column(column, comma)
    dates = read.values if read.kind == "date" else written_dates(read.values) if read.kind == "text" else None
    if dates is not None:
        order = 1000.0 * dates.astype("int64").to_numpy()
        return np.asarray(np.where(dates.isna(), np.nan, order))
    if read.kind != "number":
        raise ValueError(
            f"The time {column.name!r} is expected to hold numbers or dates, and holds "
            f"{str(column.dropna().iloc[0])!r}; choose another column."
        )
    return np.asarray(read.values, dtype=np.float64)


def as_raw_table(table: Any, target: Any) -> tuple[pd.DataFrame, str | None]:
    """Return a table in memory as a frame that holds the target, too, and the name of the target.

    Parameters
    ----------
    table : DataFrame, dict or array of shape (n_rows, n_columns)
        Of pandas, polars or anything else with ``to_pandas``.
    target : str, array-like of shape (n_rows,) or None

    Examples
    --------
    >>> frame, name = as_raw_table({"rain": [0.5, 0.1]}, [3, 4])
    >>> list(frame), name
    (['rain', 'target'], 'target')
    """
    frame = _as_frame(table)
    frame.columns = [str(name) for name in frame.columns]
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


def _as_vector(target: Any) -> Any:
    values = np.asarray(target)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(f"The target is expected as a vector, got an array of shape {values.shape}.")
    return values


def _as_frame(table: Any) -> pd.DataFrame:
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
