"""The health of a table: what is read from each column, what is left out and why, what its owner should look at."""

from __future__ import annotations

import re
from collections.abc import Collection

import numpy as np
import numpy.typing as npt
import pandas as pd

from atklearn.tables.kinds import ReadColumn, written_dates

__all__ = ["CATEGORIES", "columns_to_leave_out", "kind_in_words", "reading_in_words"]

CATEGORIES = 40  # distinct values of text, from which on it is not one column per value
MAX_DISTINCT = 100_000
_ALMOST_ALL = 0.9  # of the rows have an identifier, where there is one
_NAMES_OF_KEYS = {
    "id",
    "ids",
    "nr",
    "no",
    "num",
    "number",
    "key",
    "uuid",
    "guid",
    "index",
    "idx",
    "pk",
    "rowid",
    "rownum",
}


def columns_to_leave_out(
    columns: dict[str, ReadColumn], rows: npt.NDArray[np.intp], first: str, keep: Collection[str]
) -> dict[str, str]:
    """Return the columns that can tell nothing, or nothing about other rows, with why.

    Parameters
    ----------
    columns : dict of str to ReadColumn
        The rows that are used, in the order of the file.
    rows : ndarray of int of shape (n_rows,)
        Their places in the file.
    first : str
        The first column of the file.
    keep : collection of str
        Columns that stay, whatever they hold.

    Returns
    -------
    why : dict of str to str

    Examples
    --------
    >>> frame = pd.DataFrame({"nr": [1.0, 2.0, 3.0], "rain": [0.5, 0.1, 0.5], "wet": [0.5, 0.1, 0.5]})
    >>> read = {name: ReadColumn(frame[name], "number") for name in frame}
    >>> columns_to_leave_out(read, np.arange(3), "nr", keep=())
    {'nr': 'counts the rows', 'wet': "the same as 'rain'"}
    """
    why: dict[str, str] = {}
    seen: dict[int, str] = {}
    for name, column in columns.items():
        reason = _reason(name, column, rows)
        if name == first and re.fullmatch(r"(Unnamed: 0)?", name.strip()):
            reason = reason or "has no name, like the row labels of a saved table"
        if reason is None:
            digest = hash(pd.util.hash_pandas_object(column.values, index=False).to_numpy().tobytes())
            twin = seen.setdefault(digest, name)
            if twin != name and columns[twin].values.equals(column.values):
                reason = f"the same as {twin!r}"
        if reason is not None and name not in keep:
            why[name] = reason
    return why


def _reason(name: str, column: ReadColumn, rows: npt.NDArray[np.intp]) -> str | None:
    """Return why a column, seen alone, is of no use; None if it may be of some."""
    there = column.values.dropna()
    if there.empty:
        return "no values"
    distinct = there.nunique()
    complete = there.size == rows.size
    if distinct == 1 and complete:
        return "the same value in every row"
    if column.kind == "text":
        if distinct > MAX_DISTINCT:
            return f"more than {MAX_DISTINCT:,} different texts"
        # several words are text, from which something may be learned
        words = there.head(1000).str.count(r"\S+").mean()
        if (
            distinct == there.size >= _ALMOST_ALL * rows.size
            and words < 2.0
            and written_dates(there.head(1000)) is None
        ):
            return "different in every row, like an identifier"
        return None
    if column.kind != "number" or not complete:
        return None
    values = column.values.to_numpy()
    if not (values == np.floor(values)).all():
        return None
    steps = np.diff(values) / np.diff(rows)
    if steps[0] > 0.0 and (steps == steps[0]).all():
        return "counts the rows"
    if distinct == there.size and _looks_like_a_key(name):
        return "different in every row, and named like an identifier"
    return None


def _looks_like_a_key(name: str) -> bool:
    """Return whether a name is that of an identifier, such as id, customer_id, orderId or Kunden-Nr."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|[^\W_]+", name)
    return bool(words) and (words[-1].lower() in _NAMES_OF_KEYS or words[0].lower() in {"id", "uuid", "guid"})


def kind_in_words(column: ReadColumn) -> str:
    """Return what a column is used as: "number", "date", "category" or "text"."""
    if column.kind != "text":
        return "date" if column.kind == "date" else "number"
    if written_dates(column.values.dropna().head(1000)) is not None:
        return "date"
    return "category" if column.values.nunique() < CATEGORIES else "text"


def reading_in_words(column: ReadColumn) -> str:
    """Return what it took to read a column, in a few words; empty if nothing.

    Examples
    --------
    >>> reading_in_words(ReadColumn(pd.Series([5.0, None, None]), "number", example="$5", n_infinite=1))
    "read from text such as '$5', 1 infinite value taken as missing, 1 value missing"
    """
    n_missing = int(column.values.isna().sum()) - column.n_infinite
    parts = [] if column.example is None else [f"read from text such as {column.example!r}"]
    if column.n_infinite:
        parts.append(f"{_counted(column.n_infinite, 'infinite value')} taken as missing")
    if n_missing:
        parts.append(f"{_counted(n_missing, 'value')} missing")
    return ", ".join(parts)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' if count > 1 else ''}"
