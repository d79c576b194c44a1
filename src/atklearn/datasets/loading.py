"""One of the paper's data sets by its name, checked against what the paper says of it."""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError

import numpy as np

from atklearn.datasets.generated import check_case, make_toy
from atklearn.datasets.registry import DATASETS, DatasetEntry, OpenMLCopy
from atklearn.losses.individual import Array
from atklearn.runtime.messages import shown

__all__ = ["Dataset", "DatasetSummary", "DatasetUnavailable", "describe_datasets", "load_dataset", "load_toy"]


class DatasetUnavailable(LookupError):  # noqa: N818 - a state of the world, not a fault of the caller
    """Raised when a data set is neither generated, nor in the folder of files, nor to be had from OpenML.

    Examples
    --------
    >>> from atklearn.datasets import DatasetUnavailable, load_dataset
    >>> try:
    ...     housing = load_dataset("housing", network=False)
    ... except DatasetUnavailable as error:
    ...     print(str(error).split(";")[0])
    Housing is not available: no folder of data files was named, and OpenML 531 may not be asked (network=False)
    """


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set, and where it came from: what :func:`atklearn.datasets.load_dataset` returns.

    Attributes
    ----------
    name, title : str
        As the library, and as the paper, calls it.
    task : {"classification", "regression"}
    X : ndarray of shape (n_samples, n_features)
        Raw features, not scaled.
    y : ndarray of shape (n_samples,)
        Labels -1 and +1, or raw targets.
    feature_names : list of str
    source : str
        For the record: "generated", the file, or the number on OpenML.

    Examples
    --------
    >>> from atklearn.datasets import load_dataset
    >>> titanic = load_dataset("titanic")
    >>> titanic.X.shape, titanic.feature_names, titanic.source
    ((2201, 3), ['class', 'child', 'male'], 'generated')
    """

    name: str
    title: str
    task: str
    X: Array
    y: Array
    feature_names: list[str]
    source: str


@dataclass(frozen=True)
class DatasetSummary:
    """A line of the list of data sets that :func:`atklearn.datasets.describe_datasets` returns.

    Attributes
    ----------
    name, title : str
        As the library, and as the paper, calls it.
    task : {"classification", "regression"}
    n_samples, n_features : int
    imbalance_ratio : float or None
        The size of the larger class over that of the smaller; None for a regression.
    source : str
        Where the data would come from.

    Examples
    --------
    >>> from atklearn.datasets import describe_datasets
    >>> rarest = max(describe_datasets(), key=lambda summary: summary.imbalance_ratio or 0.0)
    >>> rarest.title, round(rarest.imbalance_ratio, 2)
    ('Phoneme', 2.41)
    """

    name: str
    title: str
    task: str
    n_samples: int
    n_features: int
    imbalance_ratio: float | None
    source: str


def load_dataset(name: str, *, data_dir: str | os.PathLike[str] | None = None, network: bool = True) -> Dataset:
    """Return one of the paper's twelve data sets.

    Monk, Titanic and Sinc are generated. The others are read from ``data_dir`` if they are there, else from OpenML. All
    are checked: the shape and the class counts must be the paper's.

    Parameters
    ----------
    name : str
        One of :data:`atklearn.datasets.DATASETS`.
    data_dir : str or path-like, default=None
        A folder with files ``NAME.csv.gz`` or ``NAME.csv``: a header with the names of the features and, last,
        ``target``; numbers; labels -1 and +1.
    network : bool, default=True
        Whether OpenML may be asked for what is not in ``data_dir``.

    Returns
    -------
    dataset : Dataset

    Raises
    ------
    DatasetUnavailable
        If the data are in none of the allowed places.
    ValueError
        If they are, but are not what they should be; or if there is no data set of that name.

    Examples
    --------
    >>> from atklearn.datasets import load_dataset
    >>> monk = load_dataset("monk")
    >>> monk.X.shape, monk.source
    ((432, 6), 'generated')
    """
    if name not in tuple(DATASETS):
        raise ValueError(f"name is expected to be one of {list(DATASETS)}, got {shown(name)}.")
    entry = DATASETS[name]
    if entry.generator is not None:
        X, y = entry.generator()
        return _checked(entry, X, y, list(entry.feature_names), "the generator", "generated")
    path = _find(entry, data_dir)
    if path is not None:
        return _from_file(entry, path)
    if entry.openml is None:
        raise _unavailable(entry, data_dir, "no copy of it on OpenML is known")
    if not network:
        online = f"OpenML {entry.openml.data_id} may not be asked (network=False)"
        raise _unavailable(entry, data_dir, online, ", or allow the network")
    return _from_openml(entry, entry.openml, data_dir)


def load_toy(case: int, *, data_dir: str | os.PathLike[str] | None = None) -> tuple[Array, Array, str]:
    """Return a toy case from ``toy/caseN.csv`` in ``data_dir`` if it is there, else generated, and which of the two.

    Parameters
    ----------
    case : int
        From 1 to 6: see :func:`atklearn.datasets.make_toy`.
    data_dir : str or path-like, default=None

    Returns
    -------
    X : ndarray of shape (200, 2)
    y : ndarray of shape (200,)
    source : str
        "generated", or the file.

    Examples
    --------
    >>> from atklearn.datasets import load_toy
    >>> X, y, source = load_toy(4)
    >>> X.shape, source
    ((200, 2), 'generated')
    """
    check_case(case)
    path = None if data_dir is None else Path(data_dir, "toy", f"case{case}.csv")
    if path is None or not path.is_file():
        return *make_toy(case, random_state=0), "generated"
    table, _, _ = _read_numbers(path)
    if table.shape != (200, 3) or not set(np.unique(table[:, 2])) == {-1.0, 1.0}:
        raise ValueError(
            f"{path.name} is expected to hold 200 samples with two features and a target of -1 and +1, found a table "
            f"of {table.shape[0]} x {table.shape[1]}; replace it."
        )
    return table[:, :2], table[:, 2], f"file {path.name}"


def describe_datasets(data_dir: str | os.PathLike[str] | None = None) -> list[DatasetSummary]:
    """Return what the paper says of its data sets, and where each would come from, without asking the network.

    Parameters
    ----------
    data_dir : str or path-like, default=None
        As in :func:`load_dataset`. The files are looked for, not read.

    Returns
    -------
    summaries : list of DatasetSummary

    Examples
    --------
    >>> from atklearn.datasets import describe_datasets
    >>> for summary in describe_datasets()[:2]:
    ...     print(summary.title, summary.n_samples, summary.n_features, summary.source, sep=", ")
    Monk, 432, 6, generated
    Australian, 690, 14, OpenML 40981 (needs the network)
    """
    return [
        DatasetSummary(
            entry.name, entry.title, entry.task, entry.n_samples, entry.n_features, entry.imbalance_ratio,
            _where(entry, data_dir),
        )
        for entry in DATASETS.values()
    ]  # fmt: skip


def _where(entry: DatasetEntry, data_dir: str | os.PathLike[str] | None) -> str:
    if entry.generator is not None:
        return "generated"
    try:
        path = _find(entry, data_dir)
    except DatasetUnavailable:
        return f"not available: there is no folder {str(data_dir)!r}"
    if path is not None:
        return f"file {path.name}"
    if entry.openml is not None:
        return f"OpenML {entry.openml.data_id} (needs the network)"
    return f"not available: needs {entry.file_names[0]} in a folder of data files"


def _find(entry: DatasetEntry, data_dir: str | os.PathLike[str] | None) -> Path | None:
    """Return the file of the data set in the folder, if there is one."""
    if data_dir is None:
        return None
    if not Path(data_dir).is_dir():  # a mistyped folder must not end in a silent download
        raise DatasetUnavailable(
            f"{entry.title} was looked for in {str(data_dir)!r}, which is not a folder; name the folder that holds "
            f"{entry.file_names[0]} (data_dir, or --data DIR)."
        )
    return next((path for path in (Path(data_dir, file) for file in entry.file_names) if path.is_file()), None)


def _unavailable(
    entry: DatasetEntry, data_dir: str | os.PathLike[str] | None, online: str, remedy: str = ""
) -> DatasetUnavailable:
    """Return the error that says where the data set was looked for, and what to do."""
    folder = "no folder of data files was named" if data_dir is None else f"{str(data_dir)!r} does not hold it"
    return DatasetUnavailable(
        f"{entry.title} is not available: {folder}, and {online}; name a folder (data_dir, or --data DIR) with "
        f"{entry.file_names[0]}, made from {entry.origin}{remedy}."
    )


def _from_file(entry: DatasetEntry, path: Path) -> Dataset:
    table, names, content = _read_numbers(path)
    source = f"file {path.name}"
    if path.suffix == ".gz" and entry.sha256 is not None:
        same = hashlib.sha256(content).hexdigest() == entry.sha256
        source += " (sha256 verified)" if same else " (sha256 differs from the known copy)"
    return _checked(entry, table[:, :-1], table[:, -1], names[:-1], path.name, source)


def _read_numbers(path: Path) -> tuple[Array, list[str], bytes]:
    """Return the table in a file with the names of its columns, the last being the target, and the file's content."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(
            f"{str(path)!r} is expected to be a file that may be read, and cannot be opened ({_in_words(error)}); "
            "check who may read it, or put a copy in another folder."
        ) from error
    try:
        plain = gzip.decompress(content) if path.suffix == ".gz" else content
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(
            f"{path.name} is expected to be a whole gzip archive, and is damaged or none; make or download it again."
        ) from error
    try:
        text = plain.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path.name} is expected to be text in UTF-8, and byte {error.start} is not; make or download it again."
        ) from error
    header, *rows = text.splitlines() or [""]
    names = header.split(",")
    if names[-1] != "target" or not rows:
        raise ValueError(
            f"{path.name} is expected to be a header, the names of the features and last 'target', and then rows of "
            f"numbers, found {len(rows)} rows below {header[:60]!r}."
        )
    try:
        table = np.loadtxt(rows, delimiter=",", ndmin=2)
        if table.shape[1] != len(names):
            raise ValueError(f"the header names {len(names)} columns, the rows have {table.shape[1]}")
    except ValueError as error:
        raise ValueError(
            f"{path.name} is expected to be a table of numbers, and is none: {str(error).rstrip('.')}; correct or "
            "replace it."
        ) from error
    return table, names, content


def _from_openml(entry: DatasetEntry, copy: OpenMLCopy, data_dir: str | os.PathLike[str] | None) -> Dataset:
    try:
        fetched = copy.fetch()
    except Exception as error:  # whatever went wrong on the way, the data are not here
        reason = f"OpenML {copy.data_id} could not be fetched ({_in_words(error)})"
        raise _unavailable(entry, data_dir, reason, ", or try again with a connection") from error
    try:
        X, y = copy.convert(fetched)
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise ValueError(
            f"OpenML {copy.data_id} is no longer the copy of {entry.title} that was expected: {error}; "
            f"use a file instead (data_dir, or --data DIR)."
        ) from error
    names = list(fetched.feature_names)[-X.shape[1] :]  # an identifier that was dropped stood first
    return _checked(entry, X, y, names, f"OpenML {copy.data_id}", str(copy))


def _in_words(error: Exception) -> str:
    """Return what the system or the network says, without the number of the error and the names of classes."""
    cause = error.reason if type(error) is URLError else error
    return str(getattr(cause, "strerror", None) or cause) or type(error).__name__


def _checked(entry: DatasetEntry, X: Array, y: Array, names: list[str], where: str, source: str) -> Dataset:
    """Return the data set if its shape, its values and its class counts are as they should be."""
    n_samples, n_features = X.shape
    if (n_samples, n_features) != (entry.n_samples, entry.n_features):
        raise ValueError(
            f"{where} is expected to hold the {entry.n_samples} samples with {entry.n_features} features of "
            f"{entry.title}, found {n_samples} with {n_features}; replace it."
        )
    if not (np.isfinite(X).all() and np.isfinite(y).all()):
        raise ValueError(f"{where} is expected to hold finite numbers, found NaN or infinity; replace it.")
    if entry.class_counts is not None:
        negative, positive = entry.class_counts
        labels, counts = np.unique(y, return_counts=True)
        if labels.tolist() != [-1.0, 1.0] or counts.tolist() != [negative, positive]:
            found = ", ".join(f"{count} of {label:g}" for label, count in zip(labels[:5], counts[:5], strict=True))
            raise ValueError(
                f"{where} is expected to hold {negative} labels -1 and {positive} labels +1, found {found}; "
                "recode or replace it."
            )
    return Dataset(entry.name, entry.title, entry.task, np.ascontiguousarray(X), np.ascontiguousarray(y), names, source)
