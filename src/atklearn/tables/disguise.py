"""Numbers in disguise: text such as '$1,234.50', '12,5 %' or '(3.00)' that means a number.

What separates thousands and what decimals is judged by the whole column, never by one value.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from atklearn.losses.individual import Array

__all__ = ["NO_NUMBER", "Numbers", "parse_numbers"]

# Where a number or a date is expected, these say that there is none; among other text they may mean something.
NO_NUMBER = frozenset(
    (
        "-", "--", "---", "\u2013", "\u2014", "?", "??", ".", "..", "...", "na", "n.a.", "n.a", "n/a", "none", "null",
        "nil", "missing", "unknown", "#value!", "#ref!", "#div/0!", "#num!", "#name?", "#null!", "0000-00-00",
    )
)  # fmt: skip

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

    Parameters
    ----------
    text : Series of str of shape (n_rows,)
        Stripped, missing where there is nothing.
    comma : bool, default=False
        Whether a comma separates decimals where the column leaves it open, as '1,234' does.

    Returns
    -------
    numbers : Numbers

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
    text = text.mask(text.str.casefold().isin(NO_NUMBER))
    if not comma:
        try:
            plain = pc.cast(pa.array(text), pa.float64())
        except pa.ArrowInvalid:
            pass
        else:
            values = np.array(plain.to_numpy(zero_copy_only=False), dtype=np.float64)
            return Numbers(values, np.zeros(values.size, dtype=bool))
    codes, distinct = pd.factorize(text)
    read = [_read(str(value)) for value in distinct]
    known = [styles for styles in read if any(styles)]
    point_fits, comma_fits = (all(styles[i] for styles in known) for i in (0, 1))
    comma = comma_fits and (comma or not point_fits)
    chosen = [styles[int(comma)] for styles in read]
    numbers = [np.nan if match is None else _value(match, comma) for match in chosen]
    values = np.array([*numbers, np.nan])[codes]
    wrong = np.array([*(match is None for match in chosen), False])[codes]
    dressed = [str(value) for value, match in zip(distinct, chosen, strict=True) if match and not _is_plain(value)]
    currencies = {found for match in chosen if match for found in (match[3], match[6]) if found and found != "%"}
    return Numbers(values, wrong, comma, dressed[0] if dressed else None, sorted(currencies))


def _read(value: str) -> tuple[re.Match[str] | None, re.Match[str] | None]:
    """Return how a value is read with a decimal point and with a decimal comma."""
    value = value.translate(_SPACES)
    point, comma = _POINT.fullmatch(value), _COMMA.fullmatch(value)
    return point if _is_sound(point) else None, comma if _is_sound(comma) else None


def _is_sound(match: re.Match[str] | None) -> bool:
    """Return whether what may stand in front or behind a number does not stand there twice or by half."""
    if match is None:
        return False
    opened, sign, before, other_sign, _, behind, closed = match.groups()
    return bool(opened) == bool(closed) and not (sign and other_sign) and not (before and behind and behind != "%")


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
