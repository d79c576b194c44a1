"""A user's file as a table: CSV, Excel, JSON lines, Parquet and SVMlight, in one way for fitting and predicting.

Whatever is wrong with a file is a ValueError of one sentence that names the file and the remedy. What a file would take
of memory is estimated before it is expanded: some megabytes may hold many gigabytes.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import os
import re
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from scipy.sparse import csr_array
from sklearn.datasets import load_svmlight_file

from atklearn.losses.individual import Array

__all__ = [
    "RawTable",
    "check_file",
    "check_memory",
    "is_sparse",
    "is_svmlight",
    "name_of",
    "numbered_frame",
    "plain_name",
    "read_raw",
    "read_svmlight",
]

_CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
_EXCEL = (".xlsx", ".xls")
_JSON = (".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz")
_PARQUET = (".parquet", ".pq")
_SVMLIGHT = (".svm", ".svmlight", ".libsvm", ".svm.gz", ".svmlight.gz", ".libsvm.gz")
_SUFFIXES = _CSV + _EXCEL + _JSON + _PARQUET + _SVMLIGHT
_DENSE = 0.5  # of the entries of a matrix are there
_MOST_NUMBERS = 100_000_000
_MOST_COLUMNS = 100_000
_HEAD = 1 << 20  # characters that tell how a file is written
_FALLBACK = "cp1252"
# bytes of memory that a byte of text takes while it is read, one of SVMlight, and a cell of Excel
_PER_BYTE, _PER_SPARSE_BYTE, _PER_CELL = 8, 3, 100
_UNKNOWN_MEMORY = 8e9  # bytes, where the system does not say
_LONGEST_TAG = 200  # characters of the beginning of a cell
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
# with a value: an empty one has no closing tag
_CELL = re.compile(rb"<(?:\w+:)?c\b[^>]*?\sr=[\"']([A-Z]{1,3})(\d{1,7})[\"'][^>]*(?<!/)>")


@dataclass(frozen=True)
class RawTable:
    """A file as it is, its columns named by distinct strings, their values not yet interpreted.

    Attributes
    ----------
    frame : DataFrame of shape (n_rows, n_columns)
    comma : bool
        Whether the file has decimal commas.
    notes : list of str
        What a reader of results should know about how the file was read.
    """

    frame: pd.DataFrame
    comma: bool = False
    notes: list[str] = field(default_factory=list)


def check_file(path: str | Path) -> Path:
    """Return the path of a file that is there, has content and a suffix we read.

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
    if not path.name.lower().endswith(_SUFFIXES):
        raise ValueError(f"{path} is expected to end in one of {', '.join(_SUFFIXES)}; convert or rename it.")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty, and a table is expected; check how it was written.")
    return path


def is_svmlight(path: Path) -> bool:
    """Return whether the suffix is one of SVMlight's."""
    return path.name.lower().endswith(_SVMLIGHT)


def name_of(path: Path) -> str:
    """Return the name of a file without folder and suffix.

    Examples
    --------
    >>> name_of(Path("data/bikes.csv.gz"))
    'bikes'
    """
    return path.name.removesuffix(".gz").rpartition(".")[0]


def plain_name(name: object) -> str:
    """Return the name of a column, without the NUL characters at its end, which NumPy would not keep."""
    return str(name).rstrip("\0")


def check_memory(path: Path, needed: float, max_memory: float | None) -> None:
    """Raise if a file would take more bytes of memory than are allowed, in gigabytes: by default half of the machine's.

    Examples
    --------
    >>> check_memory(Path("bikes.csv.gz"), 8e9, 2.0)
    Traceback (most recent call last):
        ...
    ValueError: bikes.csv.gz would take about 8 GB of memory, more than the 2 GB allowed; allow more by max_memory \
(--max-memory), in GB, or make it smaller.
    """
    if max_memory is not None and not max_memory > 0.0:
        raise ValueError(f"max_memory (--max-memory) is expected to be a number of GB above 0, got {max_memory!r}.")
    if max_memory is None:
        known = hasattr(os, "sysconf")
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if known else _UNKNOWN_MEMORY
        max_memory = 0.5e-9 * total
    if needed > 1e9 * max_memory:
        raise ValueError(
            f"{path} would take about {round(1e-9 * needed, 1):,g} GB of memory, more than the "
            f"{round(max_memory, 1):,g} GB allowed; allow more by max_memory (--max-memory), in GB, or make it smaller."
        )


def read_raw(
    path: Path, text: Collection[str] = (), encoding: str | None = None, max_memory: float | None = None
) -> RawTable:
    r"""Return the table of a file other than SVMlight that :func:`check_file` let pass.

    Some columns stay text even where a CSV file has nothing but numbers in them. Text files are in the encoding that is
    named; by default UTF-8, or UTF-16 if the file begins so, or Windows-1252 if it is neither.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "bikes.csv"
    ...     _ = path.write_text("town;rides\nUlm;1,5\nBonn;2\n", encoding="utf-8")
    ...     raw = read_raw(path)
    >>> raw.frame["rides"].tolist(), raw.comma
    ([1.5, 2.0], True)
    """
    name = path.name.lower()
    typed = "Parquet" if name.endswith(_PARQUET) else "Excel" if name.endswith(_EXCEL) else None
    if typed and encoding is not None:
        raise ValueError(f"An encoding is expected for files of text only, and {path} is {typed}; leave it out.")
    if encoding is not None:
        try:
            codecs.lookup(encoding)
        except LookupError as error:
            raise ValueError(f"No encoding is called {encoding!r}; try 'utf-8', 'cp1252' or 'utf-16'.") from error
    kind = typed or ("JSON lines" if name.endswith(_JSON) else "CSV")
    with _blaming_the_file(path, kind, encoding):
        needed = {"Parquet": _memory_of_parquet, "Excel": _memory_of_excel}.get(kind, _memory_of_text)(path)
    check_memory(path, needed, max_memory)
    with _blaming_the_file(path, kind, encoding):
        if typed:
            raw, names = _read_parquet(path) if typed == "Parquet" else _read_excel(path)
        else:
            read = _read_csv if kind == "CSV" else _read_json_lines
            raw, names = _decoded(path, encoding, lambda codec: read(path, codec, text))
    if len(names) > _MOST_COLUMNS:
        raise ValueError(
            f"{path} has {len(names):,} columns, and at most {_MOST_COLUMNS:,} are expected; leave columns out, or "
            "convert it to SVMlight."
        )
    twice = [name for name, count in Counter(map(plain_name, names)).items() if count > 1 and name]
    if twice:
        raise ValueError(f"{path} has more than one column named {twice[0]!r}; rename all but one.")
    if raw.frame.shape[0] == 0:
        raise ValueError(f"{path} has a header and no rows; check how it was written.")
    raw.frame.columns = [plain_name(name) for name in raw.frame.columns]
    return raw


@contextmanager
def _blaming_the_file(path: Path, kind: str, encoding: str | None = None) -> Iterator[None]:
    """Turn whatever a parser raises into one sentence: the file is what is wrong."""
    try:
        yield
    except MemoryError:
        raise
    except UnicodeError as error:
        raise ValueError(
            f"{path} is expected to be text in {encoding or 'UTF-8'}, and is not; name its --encoding."
        ) from error
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        said = lines[0].strip().rstrip(".;")
        raise ValueError(f"{path} cannot be read as {kind}, {said}; repair the file.") from error


def _memory_of_text(path: Path, per_byte: int = _PER_BYTE) -> float:
    """Return what a file of text takes; of a compressed one, by expanding it piece by piece."""
    size = path.stat().st_size
    if path.suffix.lower() == ".gz":
        with gzip.open(path) as stream:
            size = sum(len(piece) for piece in iter(lambda: stream.read(_HEAD), b""))
    return float(per_byte * size)


def _memory_of_parquet(path: Path) -> float:
    with pq.ParquetFile(path) as file:
        about = file.metadata
        sizes = sum(about.row_group(group).total_byte_size for group in range(about.num_row_groups))
        return float(max(sizes, 8 * about.num_rows * about.num_columns))


def _memory_of_excel(path: Path) -> float:
    """Return what the first sheet takes: every cell between the first and the last, be it empty or not."""
    if not zipfile.is_zipfile(path):  # the old format, in which a sheet has at most 65,536 rows and 256 columns
        return float(_PER_BYTE * path.stat().st_size)
    with zipfile.ZipFile(path) as book:
        size = sum(part.file_size for part in book.infolist())
        last_row = last_column = 0
        with book.open(_first_sheet(book)) as stream:
            rest = b""
            while piece := stream.read(_HEAD):
                for letters, row in _CELL.findall(rest + piece):
                    column = 0
                    for letter in letters:
                        column = 26 * column + letter - 64
                    last_row, last_column = max(last_row, int(row)), max(last_column, column)
                rest = piece[-_LONGEST_TAG:]
    return float(max(size, _PER_CELL * last_row * last_column))


def _first_sheet(book: zipfile.ZipFile) -> str:
    """Return the part of a workbook that holds its first sheet."""
    nodes = ElementTree.fromstring(book.read("xl/workbook.xml")).iter()
    sheet = next(node for node in nodes if node.tag.endswith("}sheet"))
    wanted = next(value for name, value in sheet.attrib.items() if name.endswith("}id"))
    parts = ElementTree.fromstring(book.read("xl/_rels/workbook.xml.rels"))
    target = next(part.attrib["Target"] for part in parts if part.attrib["Id"] == wanted)
    return target.lstrip("/") if target.startswith("/") else f"xl/{target}"


Named = tuple[RawTable, list[str]]  # with the names as the file has them, before any are made distinct


def _decoded(path: Path, encoding: str | None, read: Callable[[str], Named]) -> Named:
    """Read a text file in the encoding that is named or, failing that, found out."""
    if encoding is not None:
        return read(encoding)
    with _opener(path)(path, "rb") as stream:
        start = stream.read(2)
    if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return read("utf-16")
    try:
        return read("utf-8-sig")
    except UnicodeDecodeError:
        raw, names = read(_FALLBACK)
        raw.notes.append("the file is not UTF-8 and was read as Windows-1252; --encoding names another one")
        return raw, names


def _opener(path: Path) -> Callable[..., IO[Any]]:
    return gzip.open if path.suffix.lower() == ".gz" else open


def _read_csv(path: Path, encoding: str, text: Collection[str]) -> Named:
    with _opener(path)(path, "rt", encoding=encoding, newline="") as stream:
        head = stream.read(_HEAD)
        head += stream.readline()  # a header may be longer
    separators = "\t" if ".tsv" in path.name.lower() else ",;\t"
    with _fields_of_any_length():
        separator = max(separators, key=lambda candidate: len(_header(head, candidate)))
        names = _header(head, separator)
        if len(names) > _MOST_COLUMNS:
            return RawTable(pd.DataFrame()), names
        codes = _codes(head, separator, names)
    # where numbers need the semicolon, it is often because they have a decimal comma
    comma = bool(separator == ";" and re.search(r"\d,\d", head) and not re.search(r"\d\.\d", head))
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the header
        frame = pd.read_csv(
            path,
            sep=separator,
            decimal="," if comma else ".",
            encoding=encoding,
            dtype=dict.fromkeys({*text, *codes}, "string"),
            index_col=False,
            low_memory=False,  # one type for all of a column, not one per piece of it
        )
    return RawTable(frame, comma), names


@contextmanager
def _fields_of_any_length() -> Iterator[None]:
    """Lift the limit of :mod:`csv`, which is one of the whole process, as long as this lasts."""
    before = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _header(head: str, separator: str) -> list[str]:
    """Return the fields of the first line that has any."""
    lines = csv.reader(io.StringIO(head, newline=""), delimiter=separator)
    return next((line for line in lines if line), [])


def _codes(head: str, separator: str, names: list[str]) -> list[str]:
    """Return the columns with digits behind a leading zero, such as '01234', which a parser of numbers would drop."""
    if not re.search(rf"[{separator}\n\"]0\d", head):
        return []
    lines = csv.reader(io.StringIO(head, newline=""), delimiter=separator)
    found = {place for line in lines for place, value in enumerate(line) if re.fullmatch(r"\s*0\d+\s*", value)}
    return [name for place, name in enumerate(names) if place in found]


def _read_json_lines(path: Path, encoding: str, text: Collection[str]) -> Named:  # noqa: ARG001
    records = []
    with _opener(path)(path, "rt", encoding=encoding) as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"line {number}: {error}") from error
            if not isinstance(record, dict):
                raise ValueError(f"line {number} is not an object with the names of the columns")
            if _SURROGATE.search(line) and re.search(r"[\ud800-\udfff]", json.dumps(record, ensure_ascii=False)):
                raise ValueError(f"line {number} escapes one half of a surrogate pair, which is no character")
            records.append(record)
    frame = pd.DataFrame(records)
    return RawTable(frame), list(frame.columns)


def _read_excel(path: Path) -> Named:
    with pd.ExcelFile(path, engine="calamine") as book:
        sheets = [str(name) for name in book.sheet_names]
        cells = pd.read_excel(book, sheet_name=0, header=None, keep_default_na=False, na_values=[""])
    if cells.empty:
        raise ValueError(f"the sheet {sheets[0]!r} is empty")
    names = ["" if pd.isna(value) else str(value) for value in cells.iloc[0]]
    frame = cells.iloc[1:].reset_index(drop=True)
    frame.columns = [name or f"Unnamed: {place}" for place, name in enumerate(names)]
    notes = [f"the first of {len(sheets)} sheets was read, {sheets[0]!r}"] if len(sheets) > 1 else []
    return RawTable(frame.infer_objects(), False, notes), names


def _read_parquet(path: Path) -> Named:
    # a file, not a dataset: folders named like "year=2020" on the way to it are not columns
    with pq.ParquetFile(path) as file:
        names = file.schema_arrow.names
        if len(set(names)) < len(names) or len(names) > _MOST_COLUMNS:
            return RawTable(pd.DataFrame()), names
        frame = file.read().to_pandas(types_mapper=pd.ArrowDtype)
    return RawTable(frame.reset_index(drop=True)), names


def read_svmlight(
    path: Path, n_features: int | None = None, max_memory: float | None = None
) -> tuple[csr_array, Array]:
    """Return the matrix and the targets of an SVMlight file.

    The index of a feature is the index of its column, so that a file means the same whichever features occur in it; in
    a file that counts from one, column 0 is empty. The number of columns may be known.
    """
    with _blaming_the_file(path, "SVMlight"):
        needed = _memory_of_text(path, _PER_SPARSE_BYTE)
    check_memory(path, needed, max_memory)
    with _blaming_the_file(path, "SVMlight"):
        X, y = load_svmlight_file(str(path), n_features=n_features, zero_based=True)
    if y.size == 0:
        raise ValueError(f"{path} has no rows; check how it was written.")
    if not np.isfinite(X.data).all():
        raise ValueError(f"{path} is expected to hold finite numbers, and does not; leave such entries out.")
    if X.nnz > np.iinfo(np.int32).max:
        raise ValueError(f"{path} has {X.nnz} entries, and fewer than 2^31 are expected; leave rows out.")
    # the loader counts in 64 bits, the estimators in 32
    return csr_array((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape), y


def is_sparse(X: csr_array) -> bool:
    """Return whether a matrix has mostly zeros, or is too large or too wide to be written out."""
    size = X.shape[0] * X.shape[1]
    return bool(X.nnz < _DENSE * size or size > _MOST_NUMBERS or X.shape[1] > _MOST_COLUMNS)


def numbered_frame(X: csr_array, y: Array) -> pd.DataFrame:
    """Return an SVMlight file that is not sparse as the table it was: columns named by their numbers, and the target.

    Examples
    --------
    >>> numbered_frame(csr_array([[0.0, 1.5]]), np.ones(1)).to_dict("list")
    {'0': [0.0], '1': [1.5], 'target': [1.0]}
    """
    frame = pd.DataFrame(X.toarray(), columns=[str(j) for j in range(X.shape[1])])
    return frame.assign(target=y)
