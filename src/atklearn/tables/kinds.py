"""Columns as numbers, dates or text, whatever file or frame they come from.

A file of text says '1.5', 'True' and '2020-01-31' where others have types: all are read alike here, for fitting and,
with the kinds known, for predicting.
"""

from __future__ import annotations

import datetime
import decimal
import numbers
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
from skrub import ToDatetime

from atklearn.tables.disguise import NO_NUMBER, parse_numbers

__all__ = ["Kind", "ReadColumn", "as_dates", "as_numbers", "as_text", "read_column", "written_dates"]

Kind = Literal["number", "boolean", "date", "text"]

LARGEST = 1e150  # its square is finite
# what text files write for nothing, in the words of pandas
MISSING = frozenset(
    (
        "", "NA", "N/A", "n/a", "NaN", "nan", "-NaN", "-nan", "null", "NULL", "None", "<NA>", "#N/A", "#N/A N/A", "#NA",
        "1.#IND", "1.#QNAN", "-1.#IND", "-1.#QNAN",
    )
)  # fmt: skip
_BOOLEANS = {"True": 1.0, "TRUE": 1.0, "true": 1.0, "False": 0.0, "FALSE": 0.0, "false": 0.0}
_ISO_DATE = r"\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?\s?(?:Z|[+-]\d{2}:?\d{2})?)?"
_CODE = r"[+-]?0\d+"  # '01234' is a name written in digits
_MANY = 1000  # distinct values tell whether the others are worth a look
_ALMOST = 0.1  # of the distinct values may be wrong in a column that was meant to be numbers


@dataclass(frozen=True)
class ReadColumn:
    """A column in one of three types, and what it took to read it.

    Attributes
    ----------
    values : Series of float64, datetime64[us] or string, of shape (n_rows,)
        Booleans and durations are numbers, times of all zones are UTC.
    kind : {"number", "boolean", "date", "text"}
    example : str or None
        Text that was read as a number although it is not written as one.
    comma : bool
        Whether that text has a decimal comma.
    n_infinite : int
        Infinite or huge numbers, which are missing in ``values``.
    warning : str or None
        A sentence, if the column is text and was probably meant otherwise.
    written : Series of str of shape (n_rows,) or None
        The text that was read as something else.
    """

    values: pd.Series
    kind: Kind
    example: str | None = None
    comma: bool = False
    n_infinite: int = 0
    warning: str | None = None
    written: pd.Series | None = field(default=None, repr=False)

    def as_labels(self) -> pd.Series:
        """Return what each row says, as text: whole numbers without a point, days without a time."""
        if self.kind == "text":
            return self.values
        if self.example is not None and self.written is not None:
            return self.written
        labels = pd.Series(pd.NA, index=self.values.index, name=self.values.name, dtype="string")
        there = self.values.notna()
        shown = [_written(bool(v) if self.kind == "boolean" else v) for v in self.values[there]]
        labels[there] = shown
        return labels


def read_column(column: pd.Series, comma: bool = False) -> ReadColumn:
    """Return a column as what it holds: numbers, dates or text.

    Parameters
    ----------
    column : Series of shape (n_rows,)
    comma : bool, default=False
        Whether a comma separates decimals where the column leaves it open.

    Returns
    -------
    column : ReadColumn
        A column without any value is one of numbers.

    Examples
    --------
    >>> read_column(pd.Series([True, None, False])).values.tolist()
    [1.0, nan, 0.0]
    >>> read = read_column(pd.Series(["$1,000", "$20", "-"], name="price"))
    >>> read.kind, read.values.tolist(), read.example
    ('number', [1000.0, 20.0, nan], '$1,000')
    >>> read_column(pd.Series(["01234", "99999"])).kind
    'text'
    """
    typed, is_category = _typed(column)
    if typed.dtype.kind == "M":
        return ReadColumn(typed, "date")
    if typed.dtype.kind in "fb":
        return _finite(
            typed.astype(np.float64), "boolean" if typed.dtype.kind == "b" or _has_flags(column) else "number"
        )
    return ReadColumn(typed, "text") if is_category else _read_text(typed, comma)


def _read_text(text: pd.Series, comma: bool) -> ReadColumn:
    """Return what a column of text says."""
    distinct = text.dropna().drop_duplicates()
    if distinct.isin(_BOOLEANS).all():
        return _finite(text.map(_BOOLEANS).astype(np.float64), "number" if distinct.empty else "boolean")
    said = distinct[~distinct.str.casefold().isin(NO_NUMBER)]
    if said.str.fullmatch(_ISO_DATE).all() and not said.empty:
        dates, wrong = as_dates(text)
        if not wrong.any():
            return ReadColumn(dates, "date")
    if said.str.fullmatch(_CODE).any():
        return ReadColumn(text, "text")
    sample = parse_numbers(said.head(_MANY), comma)
    if said.empty or sample.wrong.mean() > _ALMOST:
        return ReadColumn(text, "text")
    found = parse_numbers(text, comma)
    warning = None
    if found.wrong.any():
        wrong = text[found.wrong].iloc[0]
        warning = (
            f"{text.name!r} is taken as text because of {wrong!r}; if it holds numbers, correct or empty such values."
        )
    elif len(found.currencies) > 1:
        signs = " and ".join(repr(sign) for sign in found.currencies)
        warning = (
            f"{text.name!r} is taken as text because it mixes {signs}; convert it to one currency to have numbers."
        )
    if warning is not None:
        return ReadColumn(text, "text", warning=warning)
    values = pd.Series(found.values, index=text.index, name=text.name)
    return _finite(values, "number", text, example=found.example, comma=found.comma)


def as_numbers(column: pd.Series, comma: bool = False) -> tuple[pd.Series, pd.Series]:
    """Return a column that is known to be of numbers, and where it holds anything else.

    Examples
    --------
    >>> values, wrong = as_numbers(pd.Series(["$5", "7", "many", None]))
    >>> values.tolist(), wrong.tolist()
    ([5.0, 7.0, nan, nan], [False, False, True, False])
    """
    typed, _ = _typed(column)
    if typed.dtype.kind == "M":
        return pd.Series(np.nan, index=column.index), typed.notna()
    if typed.dtype.kind in "fb":
        return _finite(typed.astype(np.float64), "number").values, pd.Series(False, index=column.index)
    flags = typed.map(_BOOLEANS).astype(np.float64)
    found = parse_numbers(typed.mask(flags.notna()), comma)
    values = pd.Series(np.where(flags.notna(), flags, found.values), index=column.index)
    return _finite(values, "number").values, pd.Series(found.wrong, index=column.index)


def as_dates(column: pd.Series) -> tuple[pd.Series, pd.Series]:
    """Return a column that is known to be of dates, and where it holds anything else.

    Examples
    --------
    >>> values, wrong = as_dates(pd.Series(["2020-01-31", "soon", None]))
    >>> values.dt.year.tolist(), wrong.tolist()
    ([2020.0, nan, nan], [False, True, False])
    """
    typed, _ = _typed(column)
    if typed.dtype.kind == "M":
        return typed, pd.Series(False, index=column.index)
    text = typed.astype("string") if typed.dtype.kind not in "fb" else as_text(column)
    text = text.mask(text.str.casefold().isin(NO_NUMBER))
    dates = pd.to_datetime(text, errors="coerce", format="ISO8601", utc=True)
    return _in_utc(dates), text.notna() & dates.isna()


def as_text(column: pd.Series) -> pd.Series:
    """Return a column that is known to be of text: numbers and dates as a text file would write them.

    Examples
    --------
    >>> as_text(pd.Series([1.0, 2.5, None])).tolist()
    ['1', '2.5', <NA>]
    """
    typed, _ = _typed(column)
    if typed.dtype == "string":
        return typed
    kind: Kind = "date" if typed.dtype.kind == "M" else "boolean" if _has_flags(column) else "number"
    return ReadColumn(typed, kind).as_labels()


def _typed(column: pd.Series) -> tuple[pd.Series, bool]:
    """Return a column as float64, bool, datetime64[us] or string, by its type alone, and whether it has categories."""
    arrow = column.dtype.pyarrow_dtype if isinstance(column.dtype, pd.ArrowDtype) else None
    if arrow is not None and pa.types.is_dictionary(arrow):
        return _as_strings(column.astype(pd.ArrowDtype(arrow.value_type))), True
    if isinstance(column.dtype, pd.CategoricalDtype):
        return _as_strings(column.astype(object)), True
    if arrow is not None and pa.types.is_date(arrow):
        column = column.astype("datetime64[s]")
    if column.dtype.kind == "M":
        return _in_utc(pd.Series(pd.DatetimeIndex(column), index=column.index, name=column.name)), False
    if column.dtype.kind == "m":
        column = column.astype("timedelta64[us]").dt.total_seconds()
    if column.dtype == object:
        column = _of_one_type(column)
    if column.dtype.kind == "M":
        return _in_utc(column), False
    if column.dtype.kind == "b" and not column.isna().any():
        return column.astype(bool), False
    if pd.api.types.is_numeric_dtype(column.dtype) or column.dtype.kind == "b":
        values: Any = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return pd.Series(values, index=column.index, name=column.name, copy=False), False
    return _as_strings(column), False


def _of_one_type(column: pd.Series) -> pd.Series:
    """Return a column of objects with the one type that all of them have, if they have one."""
    inferred = pd.api.types.infer_dtype(column, skipna=True)
    if inferred in ("boolean", "integer", "floating", "mixed-integer-float", "decimal", "empty"):
        values: Any = column.to_numpy(dtype=object, copy=True)
        values[column.isna().to_numpy()] = np.nan
        return pd.Series(values.astype(np.float64), index=column.index, name=column.name)
    if inferred in ("datetime", "datetime64", "date") or column.dropna().map(_is_date).all():
        return pd.to_datetime(column, utc=True)
    if inferred in ("timedelta", "timedelta64"):
        return pd.to_timedelta(column).dt.total_seconds()
    return column


def _as_strings(column: pd.Series) -> pd.Series:
    """Return a column as stripped text, missing where it says so."""
    arrow = column.dtype.pyarrow_dtype if isinstance(column.dtype, pd.ArrowDtype) else None
    held = None
    if arrow is not None and (
        pa.types.is_nested(arrow) or pa.types.is_binary(arrow) or pa.types.is_large_binary(arrow)
    ):
        held = str(arrow)
    elif column.dtype == object:
        nested = column[column.map(lambda value: isinstance(value, list | tuple | dict | set | bytes | np.ndarray))]
        held = type(nested.iloc[0]).__name__ if nested.size else None
        column = column.where(column.isna(), column.map(_written)) if held is None else column
    if held is not None:
        raise ValueError(
            f"The column {column.name!r} is expected to hold numbers, text or dates, and holds {held}; "
            f"leave it out with --drop {column.name!r}."
        )
    if arrow is not None and not (pa.types.is_string(arrow) or pa.types.is_large_string(arrow)):
        column = column.astype(object).map(_written, na_action="ignore")
    text = column.astype("string").str.strip()
    return text.mask(text.isin(MISSING))


def _has_flags(column: pd.Series) -> bool:
    """Return whether a typed column holds booleans, among missing values perhaps."""
    if column.dtype == object:
        return bool(pd.api.types.infer_dtype(column, skipna=True) == "boolean")
    return bool(column.dtype.kind == "b")


def _is_date(value: Any) -> bool:
    return isinstance(value, datetime.date)


def _written(value: Any) -> str:
    """Return a value as a text file would have it."""
    if isinstance(value, bool | np.bool_ | str):
        return str(value)
    if isinstance(value, datetime.datetime) and value.time() == datetime.time() and value.tzinfo is None:
        return str(value.date())
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real | decimal.Decimal):
        number = float(value)
        return str(int(number)) if number.is_integer() else repr(number)
    return str(value)


def _in_utc(dates: pd.Series) -> pd.Series:
    return (dates if dates.dt.tz is None else dates.dt.tz_convert(None)).dt.as_unit("us")


def _finite(values: pd.Series, kind: Kind, written: pd.Series | None = None, **how: Any) -> ReadColumn:
    """Return numbers with those missing whose squares would be infinite."""
    huge = values.abs() >= LARGEST
    return ReadColumn(values.mask(huge), kind, n_infinite=int(huge.sum()), written=written, **how)


def written_dates(text: pd.Series) -> pd.Series | None:
    """Return the dates of text in any format that all of it shares, such as '31/01/2020', or None.

    Examples
    --------
    >>> written_dates(pd.Series(["31/01/2020", None])).dt.month.tolist()
    [1.0, nan]
    """
    try:
        dates = ToDatetime().fit_transform(text.astype("string").rename("written"))
    except ValueError:  # of which RejectColumn is one
        return None
    return _in_utc(dates)
