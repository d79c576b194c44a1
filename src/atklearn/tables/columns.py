"""Columns as numbers, dates or text, whatever file or frame they come from.

A file of text says '1.5', 'True' and '2020-01-31' where others have types: all are read alike here, for fitting and,
with the kinds known, for predicting. The formats of dates are found by skrub. Numbers such as '$1,234.50', '12,5 %' or
'(3.00)' are not left to its ToFloat, which knows no currencies, takes '1,2,3' for 123 and rounds to 32 bits; nor are
missing values to its Cleaner, for which 'none' is missing among other words, too.
"""

from __future__ import annotations

import datetime
import decimal
import numbers
import re
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from skrub import ToDatetime

from atklearn.losses.individual import Array

__all__ = ["ISO", "LARGEST", "ReadColumn", "as_dates", "as_numbers", "as_text", "parse_numbers", "read_column"]

Kind = Literal["number", "boolean", "date", "text"]

LARGEST = 1e150  # its square is finite
# what text files write for nothing, in the words of pandas
_MISSING = frozenset(
    (
        "", "NA", "N/A", "n/a", "NaN", "nan", "-NaN", "-nan", "null", "NULL", "None", "<NA>", "#N/A", "#N/A N/A", "#NA",
        "1.#IND", "1.#QNAN", "-1.#IND", "-1.#QNAN",
    )
)  # fmt: skip
# where a number or a date is expected, these say that there is none; among other text they may mean something
_NO_NUMBER = frozenset(
    (
        "-", "--", "---", "\u2013", "\u2014", "?", "??", ".", "..", "...", "na", "n.a.", "n.a", "n/a", "none", "null",
        "nil", "missing", "unknown", "#value!", "#ref!", "#div/0!", "#num!", "#name?", "#null!", "0000-00-00",
    )
)  # fmt: skip
_BOOLEANS = {"True": 1.0, "TRUE": 1.0, "true": 1.0, "False": 0.0, "FALSE": 0.0, "false": 0.0}
ISO = "ISO8601"
_ISO_DATE = r"\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?\s?(?:Z|[+-]\d{2}:?\d{2})?)?"
_CODE = r"[+-]?0\d+"  # '01234' is a name written in digits
_MANY = 1000  # distinct values tell whether the others are worth a look
_ALMOST = 0.1  # of the distinct values may be wrong in a column that was meant to be numbers

_CODES = "USD EUR GBP JPY CHF CAD AUD NZD CNY INR SEK NOK DKK PLN CZK HUF BRL MXN ZAR SGD HKD KRW TRY RUB ILS THB"
_CURRENCY = rf"(?:[A-Z]{{0,3}}[$€£¥₹₩₽₺₪₫฿]|{'|'.join(_CODES.split())})"
_SPACES = str.maketrans({"\u00a0": " ", "\u2009": " ", "\u202f": " ", "\u2019": "'", "\u2212": "-"})


def _pattern(group: str, decimal: str) -> re.Pattern[str]:
    """Return what a number looks like where these separate thousands and decimals."""
    # nobody writes 0,123 for 123, so that a leading zero tells a decimal comma
    whole = (
        rf"[1-9]\d{{0,2}}(?:{group}\d{{2,3}})*{group}\d{{3}}|[1-9]\d{{0,2}}(?: \d{{3}})+|[1-9]\d{{0,2}}(?:'\d{{3}})+"
    )
    body = rf"(?:(?:{whole}|\d+)(?:{decimal}\d*)?|{decimal}\d+)(?:[eE][+-]?\d+)?|inf(?:inity)?"
    sign = r"([+-]?)\s*"
    return re.compile(
        rf"(\(?)\s*{sign}({_CURRENCY}?)\s*{sign}({body})\s*({_CURRENCY}|%)?\s*(\)?)", re.ASCII | re.IGNORECASE
    )


_POINT, _COMMA = _pattern(",", r"\."), _pattern(r"\.", ",")


@dataclass(frozen=True)
class ReadColumn:
    """A column in one of three types, and what it took to read it.

    Attributes
    ----------
    values : Series of float64, datetime64[us] or string, of shape (n_rows,)
        Booleans and durations are numbers, times of all zones are UTC.
    kind : {"number", "boolean", "date", "text"}
    example : str or None
        Text that was read as a number or a date although it is not plainly written as one.
    comma : bool
        Whether that text has a decimal comma.
    date_format : str or None
        How that text writes a date.
    n_infinite : int
        Infinite or huge numbers, which are missing in ``values``.
    warning : str or None
        A sentence, if the column is text and was probably meant otherwise.
    written : Series of str of shape (n_rows,) or None
        The text of which there is an example.
    """

    values: pd.Series
    kind: Kind
    example: str | None = None
    comma: bool = False
    date_format: str | None = None
    n_infinite: int = 0
    warning: str | None = None
    written: pd.Series | None = field(default=None, repr=False)

    def as_labels(self) -> pd.Series:
        """Return what each row says, as text: whole numbers without a point, days without a time."""
        if self.kind == "text":
            return self.values
        if self.written is not None:
            return self.written
        labels = pd.Series(pd.NA, index=self.values.index, name=self.values.name, dtype="string")
        there = self.values.notna()
        labels[there] = [_written(bool(v) if self.kind == "boolean" else v) for v in self.values[there]]
        return labels


def read_column(column: pd.Series, comma: bool = False) -> ReadColumn:
    """Return a column as what it holds: numbers, dates or text; of numbers if it holds nothing.

    A comma separates decimals if the column says so, or leaves it open and ``comma`` is true.

    Examples
    --------
    >>> read_column(pd.Series([True, None, False])).values.tolist()
    [1.0, nan, 0.0]
    >>> read = read_column(pd.Series(["$1,000", "$20", "-"], name="price"))
    >>> read.kind, read.values.tolist(), read.example
    ('number', [1000.0, 20.0, nan], '$1,000')
    >>> read_column(pd.Series(["Jun 12 1998", "May 3 1999"])).values.dt.month.tolist()
    [6, 5]
    >>> read_column(pd.Series(["01234", "99999"])).kind
    'text'
    """
    typed, is_category = _typed(column)
    if typed.dtype.kind == "M":
        return ReadColumn(typed, "date")
    if typed.dtype.kind in "fb":
        flags = typed.dtype.kind == "b" or _has_flags(column)
        return _finite(ReadColumn(typed.astype(np.float64), "boolean" if flags else "number"))
    return _dates_or_text(typed, typed.dropna()) if is_category else _read_text(typed, comma)


def _read_text(text: pd.Series, comma: bool) -> ReadColumn:
    """Return what a column of text says."""
    distinct = text.dropna().drop_duplicates()
    if distinct.isin(_BOOLEANS).all():
        return _finite(ReadColumn(text.map(_BOOLEANS).astype(np.float64), "number" if distinct.empty else "boolean"))
    said = distinct[~distinct.str.casefold().isin(_NO_NUMBER)]
    if said.str.fullmatch(_ISO_DATE).all() and not said.empty:
        dates, wrong = as_dates(text)
        if not wrong.any():
            return ReadColumn(dates, "date")
    if said.empty or said.str.fullmatch(_CODE).any():
        return ReadColumn(text, "text")
    if parse_numbers(said.head(_MANY), comma).wrong.mean() > _ALMOST:
        return _dates_or_text(text, said)
    found = parse_numbers(text, comma)
    if found.wrong.any():
        wrong = text[found.wrong].iloc[0]
        warning = f"because of {wrong!r}; if it holds numbers, correct or empty such values."
    elif len(found.currencies) > 1:
        signs = " and ".join(repr(sign) for sign in found.currencies)
        warning = f"because it mixes {signs}; convert it to one currency to have numbers."
    else:
        values = pd.Series(found.values, index=text.index, name=text.name)
        written = None if found.example is None else text
        return _finite(ReadColumn(values, "number", found.example, found.comma, written=written))
    return ReadColumn(text, "text", warning=f"{text.name!r} is taken as text {warning}")


def _dates_or_text(text: pd.Series, said: pd.Series) -> ReadColumn:
    """Return a column of dates if all that it says is written in one format, else of text."""
    said = said.head(_MANY)
    # May is a month in full and in short, which skrub takes for two formats; words without digits are no dates
    but_may = said[~said.str.contains("may", case=False)]
    for sample in (said, but_may, but_may[but_may.str.contains(r"\d")]):
        try:
            date_format = ToDatetime().fit(sample.rename("written")).format_
        except ValueError:  # of which RejectColumn is one
            continue
        dates, wrong = as_dates(text, date_format)
        if not wrong.any():
            return ReadColumn(dates, "date", str(said.iloc[0]), date_format=date_format, written=text)
        if wrong.sum() <= _ALMOST * text.count():
            warning = f"because of {text[wrong].iloc[0]!r}; if it holds dates, correct or empty such values."
            return ReadColumn(text, "text", warning=f"{text.name!r} is taken as text {warning}")
    return ReadColumn(text, "text")


def as_dates(column: pd.Series, date_format: str = ISO) -> tuple[pd.Series, pd.Series]:
    """Return a column that is known to be of dates, and where it holds anything else.

    ISO 8601 is understood beside the format, and the name of a month may be full or short.

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
    text = text.mask(text.str.casefold().isin(_NO_NUMBER))
    dates = pd.Series(pd.NaT, index=text.index, name=text.name, dtype="datetime64[us]")
    for way in dict.fromkeys((date_format, date_format.replace("%B", "%b"), date_format.replace("%b", "%B"), ISO)):
        open_ = text.notna() & dates.isna()
        if open_.any():
            dates = dates.fillna(_in_utc(pd.to_datetime(text[open_], errors="coerce", format=way, utc=True)))
    return dates, text.notna() & dates.isna()


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
        return _finite(ReadColumn(typed.astype(np.float64), "number")).values, pd.Series(False, index=column.index)
    flags = typed.map(_BOOLEANS).astype(np.float64)
    found = parse_numbers(typed.mask(flags.notna()), comma)
    values = pd.Series(np.where(flags.notna(), flags, found.values), index=column.index)
    return _finite(ReadColumn(values, "number")).values, pd.Series(found.wrong, index=column.index)


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


class Numbers(NamedTuple):
    """What a column of text says in numbers.

    Attributes
    ----------
    values : ndarray of shape (n_rows,)
        NaN where there is no number.
    wrong : ndarray of bool of shape (n_rows,)
        Where there is text that is no number.
    comma : bool
        Whether the comma separates decimals.
    example : str or None
        A value that needed more than plain reading.
    currencies : list of str
        The distinct currencies, as they are written.
    """

    values: Array
    wrong: npt.NDArray[np.bool_]
    comma: bool = False
    example: str | None = None
    currencies: list[str] = []  # noqa: RUF012


def parse_numbers(text: pd.Series, comma: bool = False) -> Numbers:
    """Read text as numbers: currencies, separators of thousands, percent signs, accountants' parentheses.

    What separates thousands and what decimals is judged by the whole column, never by one value; where it leaves that
    open, as '1,234' does, ``comma`` says whether the comma separates decimals.

    Examples
    --------
    >>> parse_numbers(pd.Series(["$1,234", "($5.50)", None])).values.tolist()
    [1234.0, -5.5, nan]
    >>> parse_numbers(pd.Series(["1,234", "12,5"])).values.tolist()
    [1.234, 12.5]
    >>> parse_numbers(pd.Series(["1,234", "n.a.", "much"])).wrong.tolist()
    [False, False, True]
    """
    text = text.astype("string")
    text = text.mask(text.str.casefold().isin(_NO_NUMBER))
    if not comma:
        try:
            plain = pc.cast(pa.array(text), pa.float64())
        except pa.ArrowInvalid:
            pass
        else:
            values = np.array(plain.to_numpy(zero_copy_only=False), dtype=np.float64)
            return Numbers(values, np.zeros(values.size, dtype=bool))
    codes, distinct = pd.factorize(text)
    with_point, with_comma = ([_match(style, str(value)) for value in distinct] for style in (_POINT, _COMMA))
    known = [pair for pair in zip(with_point, with_comma, strict=True) if any(pair)]
    comma = all(pair[1] for pair in known) and (comma or not all(pair[0] for pair in known))
    chosen = with_comma if comma else with_point
    numbers = [np.nan if match is None else _value(match, comma) for match in chosen]
    values = np.array([*numbers, np.nan])[codes]
    wrong = np.array([*(match is None for match in chosen), False])[codes]
    dressed = [str(value) for value, match in zip(distinct, chosen, strict=True) if match and not _is_plain(value)]
    currencies = {found for match in chosen if match for found in (match[3], match[6]) if found and found != "%"}
    return Numbers(values, wrong, comma, dressed[0] if dressed else None, sorted(currencies))


def _match(style: re.Pattern[str], value: str) -> re.Match[str] | None:
    """Return the parts of a number, if what may stand in front or behind does not stand there twice or by half."""
    match = style.fullmatch(value.translate(_SPACES))
    if match is None:
        return None
    opened, sign, before, other_sign, _, behind, closed = match.groups()
    sound = bool(opened) == bool(closed) and not (sign and other_sign) and not (before and behind and behind != "%")
    return match if sound else None


def _value(match: re.Match[str], comma: bool) -> float:
    opened, sign, _, other_sign, body, _, _ = match.groups()
    digits = body.translate(str.maketrans(",", ".", ". '") if comma else str.maketrans("", "", ", '"))
    value = float(digits)
    return -value if opened or "-" in (sign, other_sign) else value


def _is_plain(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


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
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return pd.Series(values, index=column.index, name=column.name, copy=False), False
    return _as_strings(column), False


def _of_one_type(column: pd.Series) -> pd.Series:
    """Return a column of objects with the one type that all of them have, if they have one."""
    inferred = pd.api.types.infer_dtype(column, skipna=True)
    if inferred in ("boolean", "integer", "floating", "mixed-integer-float", "decimal", "empty"):
        values = column.to_numpy(dtype=object, copy=True)
        values[column.isna().to_numpy()] = np.nan
        return pd.Series(values.astype(np.float64), index=column.index, name=column.name)
    dates = column.dropna().map(lambda value: isinstance(value, datetime.date))
    if inferred in ("datetime", "datetime64", "date") or dates.all():
        return pd.to_datetime(column, utc=True)
    if inferred in ("timedelta", "timedelta64"):
        return pd.to_timedelta(column).dt.total_seconds()
    return column


def _as_strings(column: pd.Series) -> pd.Series:
    """Return a column as text, stripped of space and of NUL at its end, missing where it says so."""
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
    text = column.astype("string").str.rstrip("\0").str.strip()  # arrays of NumPy would lose the NUL
    return text.mask(text.isin(_MISSING))


def _has_flags(column: pd.Series) -> bool:
    """Return whether a typed column holds booleans, among missing values perhaps."""
    if column.dtype == object:
        return bool(pd.api.types.infer_dtype(column, skipna=True) == "boolean")
    return bool(column.dtype.kind == "b")


def _written(value: object) -> str:
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


def _finite(read: ReadColumn) -> ReadColumn:
    """Return a column of numbers with those missing whose squares would be infinite."""
    huge = read.values.abs() >= LARGEST
    return replace(read, values=read.values.mask(huge), n_infinite=int(huge.sum()))
