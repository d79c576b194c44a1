"""A user's file as a table: CSV, Parquet and SVMlight, read once and in one way for fitting and for predicting.

Whatever is wrong with a file is a ValueError of one sentence that names the file and the remedy.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import warnings
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.sparse import csr_array
from sklearn.datasets import load_svmlight_file

from atklearn.losses.individual import Array

__all__ = ["as_feature", "check_file", "is_svmlight", "read_frame", "read_svmlight"]

_CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
_PARQUET = (".parquet", ".pq")
_SVMLIGHT = (".svm", ".svmlight", ".libsvm")
_HEAD = 1 << 20  # characters that hold any header


def check_file(path: str | Path) -> Path:
    """Return the path of a file that is there, has content and a suffix we read.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    path : Path

    Examples
    --------
    >>> check_file("absent.csv")
    Traceback (most recent call last):
        ...
    ValueError: absent.csv is expected to be a file, and there is none; check the path.
    """
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{path} is expected to be a file, and is a folder; name a file in it.")
    if not path.is_file():
        raise ValueError(f"{path} is expected to be a file, and there is none; check the path.")
    if not path.name.lower().endswith(_CSV + _PARQUET + _SVMLIGHT):
        raise ValueError(
            f"{path} is expected to end in one of {', '.join(_CSV + _PARQUET + _SVMLIGHT)}; convert or rename it."
        )
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty, and a table is expected; check how it was written.")
    return path


def is_svmlight(path: Path) -> bool:
    """Return whether the suffix is one of SVMlight's."""
    return path.name.lower().endswith(_SVMLIGHT)


def read_frame(path: Path, text: Iterable[str] = ()) -> pd.DataFrame:
    r"""Return the table of a CSV or Parquet file, its columns named by distinct strings.

    Parameters
    ----------
    path : Path
        Of a file that :func:`check_file` let pass.
    text : iterable of str, default=()
        Columns that stay text even where a CSV file has nothing but numbers in them.

    Returns
    -------
    frame : DataFrame of shape (n_rows, n_columns)

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "bikes.csv"
    ...     _ = path.write_text("town;rides\nUlm;1,5\nBonn;2\n", encoding="utf-8")
    ...     frame = read_frame(path)
    >>> frame["rides"].tolist()
    [1.5, 2.0]
    """
    kind, read = ("Parquet", _read_parquet) if path.name.lower().endswith(_PARQUET) else ("CSV", _read_csv)
    try:
        frame, names = read(path, text)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is expected to be text in UTF-8, and is not; save it with that encoding.") from error
    except Exception as error:  # whatever a parser raises, the file is what is wrong
        raise ValueError(f"{path} cannot be read as {kind}, {_first_line(error)}; repair the file.") from error
    twice = [name for name, count in Counter(names).items() if count > 1 and name]
    if twice:
        raise ValueError(f"{path} has more than one column named {twice[0]!r}; rename all but one.")
    if frame.shape[0] == 0:
        raise ValueError(f"{path} has a header and no rows; check how it was written.")
    return frame


def _read_csv(path: Path, text: Iterable[str]) -> tuple[pd.DataFrame, list[str]]:
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as stream:
        head = stream.read(_HEAD)
    separators = "\t" if ".tsv" in path.name.lower() else ",;\t"
    separator = max(separators, key=lambda candidate: len(_header(head, candidate)))
    # where numbers need the semicolon, it is often because they have a decimal comma
    comma = separator == ";" and re.search(r"\d,\d", head) and not re.search(r"\d\.\d", head)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the header
        frame = pd.read_csv(
            path,
            sep=separator,
            decimal="," if comma else ".",
            encoding="utf-8-sig",
            dtype=dict.fromkeys(text, "string"),
            index_col=False,
            low_memory=False,  # one type for all of a column, not one per piece of it
        )
    return frame, _header(head, separator)


def _header(head: str, separator: str) -> list[str]:
    """Return the fields of the first line that has any."""
    lines = csv.reader(io.StringIO(head, newline=""), delimiter=separator)
    return next((line for line in lines if line), [])


def _read_parquet(path: Path, text: Iterable[str]) -> tuple[pd.DataFrame, list[str]]:  # noqa: ARG001
    # a file, not a dataset: folders named like "year=2020" on the way to it are not columns
    with pq.ParquetFile(path) as file:
        names = file.schema_arrow.names
        if len(set(names)) < len(names):
            return pd.DataFrame(), names
        frame = file.read().to_pandas(types_mapper=pd.ArrowDtype)
    frame = frame.reset_index(drop=True)
    frame.columns = [str(name) for name in frame.columns]
    return frame, names


def _first_line(error: Exception) -> str:
    """Return what an exception says, as a part of a sentence."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].strip().rstrip(".;")


def read_svmlight(path: Path, n_features: int | None = None) -> tuple[csr_array, Array]:
    """Return the matrix and the targets of an SVMlight file.

    The index of a feature is the index of its column, so that a file means the same whichever features occur in it; in
    a file that counts from one, column 0 is empty.

    Parameters
    ----------
    path : Path
        Of a file that :func:`check_file` let pass.
    n_features : int, default=None
        The number of columns, if it is known.

    Returns
    -------
    X : CSR array of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,)
    """
    try:
        X, y = load_svmlight_file(str(path), n_features=n_features, zero_based=True)
    except Exception as error:  # whatever the parser raises, the file is what is wrong
        raise ValueError(f"{path} cannot be read as SVMlight, {_first_line(error)}; repair the file.") from error
    if y.size == 0:
        raise ValueError(f"{path} has no rows; check how it was written.")
    if not np.isfinite(X.data).all():
        raise ValueError(f"{path} is expected to hold finite numbers, and does not; leave such entries out.")
    if X.nnz > np.iinfo(np.int32).max:
        raise ValueError(f"{path} has {X.nnz} entries, and fewer than 2^31 are expected; leave rows out.")
    # the loader counts in 64 bits, the estimators in 32
    return csr_array((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape), y


def as_feature(column: pd.Series) -> pd.Series:
    """Return a column as float64, datetime64 or string, the three kinds that features are made from.

    Parameters
    ----------
    column : Series of shape (n_rows,)

    Returns
    -------
    column : Series of shape (n_rows,)
        Booleans and durations are numbers, times of all zones are UTC; what has no value at all is a number.

    Examples
    --------
    >>> as_feature(pd.Series([True, None, False])).tolist()
    [1.0, nan, 0.0]
    """
    arrow = column.dtype.pyarrow_dtype if isinstance(column.dtype, pd.ArrowDtype) else None
    if arrow is not None and (
        pa.types.is_nested(arrow) or pa.types.is_binary(arrow) or pa.types.is_large_binary(arrow)
    ):
        raise ValueError(
            f"The column {column.name!r} is expected to hold numbers, text or dates, and holds {arrow}; "
            f"leave it out with --drop {column.name!r}."
        )
    if column.dtype.kind == "M":
        dates = pd.Series(pd.DatetimeIndex(column), index=column.index, name=column.name)
        return dates if dates.dt.tz is None else dates.dt.tz_convert(None)
    if column.dtype.kind == "m":
        column = column.astype("timedelta64[us]").dt.total_seconds()
    if _holds_numbers(column):
        numbers: Any = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return pd.Series(numbers, index=column.index, name=column.name, copy=False)
    return column.astype("string")


def _holds_numbers(column: pd.Series) -> bool:
    """Return whether all that a column holds are numbers or booleans."""
    if pd.api.types.is_numeric_dtype(column.dtype) or column.dtype.kind == "b":
        return True
    objects = ("boolean", "integer", "floating", "mixed-integer-float", "decimal", "empty")
    if column.dtype == object:
        return pd.api.types.infer_dtype(column, skipna=True) in objects
    return not column.notna().any()
