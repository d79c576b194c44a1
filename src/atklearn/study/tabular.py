"""A user's table as a learning problem: the target, the task, the groups, and features made of its columns."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.sparse import csr_array
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, OneHotEncoder, StandardScaler
from skrub import StringEncoder, TableVectorizer

from atklearn.datasets import make_monk
from atklearn.losses.individual import Array, Task
from atklearn.study.reading import as_feature, check_file, is_svmlight, read_frame, read_svmlight

__all__ = [
    "TabularData",
    "feature_names",
    "features_in_words",
    "make_features",
    "monk_table",
    "read_table",
    "take_rows",
]

MIN_ROWS = 20
MIN_CLASS_ROWS = 5  # one in every part of a 5-fold split
MAX_CLASSES = 100
MAX_CLASSES_UNASKED = 20  # more whole numbers than that are counts or amounts
MAX_GROUPS = 50
MAX_DISTINCT = 100_000
LONG = 100  # distinct values of a text, enough for 30 components in any part of the rows
LARGEST = 1e150  # its square is finite


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
        The SHA-256 of the file, in hexadecimal.
    notes : list of str
        What a reader of results should know about how the table was read.
    """

    name: str
    features: Any
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
    time: npt.NDArray[np.float64] | None = None
    time_name: str | None = None


def read_table(
    path: str | Path,
    target: str | None = None,
    *,
    task: Task | None = None,
    group: str | None = None,
    drop: Sequence[str] = (),
) -> TabularData:
    r"""Read a table and what is to be learned from it, or say in one sentence what is wrong with it.

    Parameters
    ----------
    path : str or Path
        A CSV (comma, semicolon or tab), Parquet or SVMlight file.
    target : str, default=None
        The column to predict. An SVMlight file has its own.
    task : {"classification", "regression"}, default=None
        By default, text, booleans and at most 20 distinct whole numbers are classes.
    group : str, default=None
        A column to report by. It is not a feature.
    drop : sequence of str, default=()
        Columns to leave out.

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
    """
    path = check_file(path)
    if task not in (None, "classification", "regression"):
        raise ValueError(f"task is expected to be 'classification' or 'regression', got {task!r}; choose one.")
    notes: list[str] = []
    groups = None
    if is_svmlight(path):
        if target is not None or group is not None or drop:
            raise ValueError(f"{path} has a target of its own and no named columns; give no target, group or drop.")
        target = "target"
        features, numbers = read_svmlight(path)
        rows = np.arange(numbers.size)
        labels = pd.Series(numbers)
    else:
        frame = read_frame(path)
        target = _check_columns(path, frame, target, group, drop)
        labels = frame.pop(target)
        rows = np.flatnonzero(labels.notna())
        if rows.size < labels.size:
            notes.append(f"{labels.size - rows.size} rows without a target were left out")
            frame, labels = frame.iloc[rows], labels.iloc[rows]
        if group is not None:
            groups = frame.pop(group).convert_dtypes().astype("string").fillna("missing").to_numpy(dtype=str)
            n_groups = np.unique(groups).size
            if n_groups > MAX_GROUPS:
                raise ValueError(
                    f"The group {group!r} has {n_groups} distinct values, more than {MAX_GROUPS}, too many to report "
                    "by; choose a coarser column."
                )
            notes.append(f"the group {group!r} is used to report and is not a feature")
        features = _features(path, frame.drop(columns=list(drop)), notes)
    if rows.size < MIN_ROWS:
        raise ValueError(f"{path} has {rows.size} rows with a target, and at least {MIN_ROWS} are expected; add rows.")
    values, task = _target(labels, target, task)
    with path.open("rb") as file:
        fingerprint = hashlib.file_digest(file, "sha256").hexdigest()
    name = path.name.removesuffix(".gz").rpartition(".")[0]
    return TabularData(name, features, values, task, target, groups, group, rows + 1, fingerprint, notes)


def monk_table() -> TabularData:
    """Return the Monk data set of the paper as a table: what is compared on if no file is named.

    Examples
    --------
    >>> monk_table().features.shape
    (432, 6)
    """
    X, y = make_monk()
    names = ["head_shape", "body_shape", "is_smiling", "holding", "jacket_color", "has_tie"]
    fingerprint = hashlib.sha256(X.tobytes() + y.tobytes()).hexdigest()
    labels = np.where(y > 0.0, "monk", "other")
    rows = np.arange(1, y.size + 1)
    note = "generated: all 432 robots of the third MONK's problem, without noise"
    frame = pd.DataFrame(X, columns=names)
    return TabularData("monk", frame, labels, "classification", "class", None, None, rows, fingerprint, [note])


def take_rows(features: Any, rows: npt.NDArray[np.intp]) -> Any:
    """Return some rows of the features of a table."""
    return features.iloc[rows] if isinstance(features, pd.DataFrame) else features[rows]


def _check_columns(path: Path, frame: pd.DataFrame, target: str | None, group: str | None, drop: Sequence[str]) -> str:
    """Return the target if all named columns are there and have one role each."""
    columns = list(frame.columns)
    if target is None:
        raise ValueError(f"A target is expected, one of {_listed(columns)}; try --target {columns[-1]!r}.")
    for name in (target, *([] if group is None else [group]), *drop):
        if name not in columns:
            close = difflib.get_close_matches(name, columns, n=1)
            remedy = f"did you mean {close[0]!r}?" if close else f"choose one of {_listed(columns)}."
            raise ValueError(f"{path} has no column {name!r}; {remedy}")
    if group == target:
        raise ValueError(f"The column {target!r} is both target and group; results by class need no group.")
    if target in drop or group in drop:
        raise ValueError(f"The column {target if target in drop else group!r} is needed; do not --drop it.")
    return target


def _listed(columns: list[str], most: int = 20) -> str:
    more = f" and {len(columns) - most} more" if len(columns) > most else ""
    return ", ".join(repr(name) for name in columns[:most]) + more


def _features(path: Path, frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Return the columns in the kinds that features are made from, checked."""
    if frame.shape[1] == 0:
        raise ValueError(f"{path} has no column left to learn from; at least one is expected beside the target.")
    columns = {name: as_feature(frame[name]) for name in frame.columns}
    for name, column in columns.items():
        remedy = f"leave it out with --drop {name!r}"
        if not column.notna().any():
            raise ValueError(f"The column {name!r} has no value at all; {remedy}.")
        if column.dtype == "string":
            distinct = column.nunique()
            if distinct > MAX_DISTINCT:
                raise ValueError(
                    f"The column {name!r} is text with {distinct} distinct values, more than {MAX_DISTINCT}, and looks "
                    f"like an identifier; {remedy}."
                )
            constant = distinct == 1
        else:
            constant = bool(column.min() == column.max())
            if column.dtype == np.float64 and not -LARGEST < column.min() <= column.max() < LARGEST:
                raise ValueError(
                    f"The column {name!r} is expected to hold finite numbers, and holds infinite or huge ones; "
                    f"correct them or {remedy}."
                )
        if constant and column.notna().all():
            notes.append(f"the column {name!r} is constant")
    return pd.DataFrame(columns, copy=False)


def _target(labels: pd.Series, name: str, task: Task | None) -> tuple[npt.NDArray[Any], Task]:
    """Return the target and the task, asked for or detected."""
    labels = labels.infer_objects()
    boolean = labels.dtype.kind == "b"
    numbers = as_feature(labels)
    if numbers.dtype != np.float64:
        if task == "regression":
            raise ValueError(
                f"The target {name!r} is expected to hold numbers for regression, and holds {str(labels.iloc[0])!r}; "
                "correct it or choose classification."
            )
        return _classes(labels.astype("string"), name), "classification"
    values: Array = numbers.to_numpy()
    if not np.isfinite(values).all():
        raise ValueError(f"The target {name!r} is expected to hold finite numbers, and does not; leave such rows out.")
    whole = bool((values == np.floor(values)).all() and np.abs(values).max() < 2**53)
    if task is None:
        task = "classification" if whole and np.unique(values).size <= MAX_CLASSES_UNASKED else "regression"
    if task == "regression":
        if values.min() == values.max():
            raise ValueError(f"The target {name!r} has a single value, {values[0]:g}; there is nothing to learn.")
        return values, task
    if boolean:
        return _classes(numbers == 1.0, name), task
    # scikit-learn takes fractions for a regression target, so they are labels as text
    return _classes(numbers.astype(np.int64 if whole else "string"), name), task


def _classes(labels: pd.Series, name: str) -> npt.NDArray[Any]:
    """Return the labels if there are classes in them to learn."""
    counts = labels.value_counts()
    if counts.size > MAX_CLASSES:
        raise ValueError(
            f"The target {name!r} has {counts.size} classes, and at most {MAX_CLASSES} are expected; merge rare ones, "
            "or choose --task regression if it is a number."
        )
    if counts.size == 1:
        raise ValueError(f"The target {name!r} has one class only, '{counts.index[0]}'; at least two are expected.")
    if counts.min() < MIN_CLASS_ROWS:
        raise ValueError(
            f"The class '{counts.index[-1]}' of the target {name!r} has too few rows, {counts.min()}, and at least "
            f"{MIN_CLASS_ROWS} are expected to split it; merge it with another class or leave its rows out."
        )
    classes: npt.NDArray[Any] = labels.to_numpy(dtype=str) if labels.dtype == "string" else labels.to_numpy()
    return classes


def make_features(data: TabularData) -> Any:
    """Return an unfitted transformer from the columns of a table to numbers on one scale.

    Numbers stay numbers, times become years to seconds, text of fewer than 40 distinct values one column per value,
    other text 30 components of its character n-grams. Then missing values become the mean, with a column that says
    where, and all columns are standardised. The mean serves a linear model as well as the median would, since the
    column of indicators takes up any constant, at a hundredth of the time.

    Columns of a sparse matrix are divided by their largest absolute value: that keeps zeros, and does not blow up the
    rare ones as dividing by the standard deviation would.

    Parameters
    ----------
    data : TabularData

    Returns
    -------
    transformer : Pipeline or MaxAbsScaler
        Its output is a C-ordered float64 ndarray, or CSR for CSR.

    Examples
    --------
    >>> features = pd.DataFrame({"rain": [0.5, np.nan, 0.1], "town": ["Ulm", "Bonn", None]}).astype({"town": "string"})
    >>> data = TabularData("bikes", features, np.arange(3.0), "regression", "rides", None, None, np.arange(3), "")
    >>> transformer = make_features(data).fit(features)
    >>> feature_names(transformer)
    ['rain', 'town_Bonn', 'town_Ulm', 'town_nan', 'rain is missing']
    """
    if isinstance(data.features, csr_array):
        return MaxAbsScaler()
    kinds: dict[str, list[str]] = {"numbers": [], "dates": [], "texts": []}
    for name, dtype in data.features.dtypes.items():
        kinds["numbers" if dtype == np.float64 else "dates" if dtype.kind == "M" else "texts"].append(name)
    long = _long_texts(data.features[kinds["texts"]]) if kinds["texts"] else []
    kinds["texts"] = [name for name in kinds["texts"] if name not in long]
    # numbers go past the vectorizer, which would round them to float32
    makers = {"numbers": "passthrough", "dates": _vectorizer(), "texts": _vectorizer()}
    columns: list[Any] = [(kind, makers[kind], names) for kind, names in kinds.items() if names]
    columns += [(f"long{index}", StringEncoder(random_state=0), name) for index, name in enumerate(long)]
    return Pipeline(
        [
            ("columns", ColumnTransformer(columns)),
            ("impute", SimpleImputer(add_indicator=True, keep_empty_features=True, copy=False)),
            ("scale", StandardScaler(copy=False)),
            ("order", FunctionTransformer(np.ascontiguousarray, kw_args={"dtype": "float64"})),
        ]
    )


def features_in_words(data: TabularData) -> str:
    """Say what :func:`make_features` does with a table, for those who read results on it."""
    if isinstance(data.features, csr_array):
        return "the columns, each divided by its largest absolute value"
    return "categories, dates, text and missing values to numbers, then standardised"


def _vectorizer(**parameters: Any) -> TableVectorizer:
    parameters.setdefault("high_cardinality", StringEncoder(random_state=0))
    return TableVectorizer(
        # without drop="if_binary", which warns of values that are new
        low_cardinality=OneHotEncoder(handle_unknown="ignore", sparse_output=False, dtype="float32"),
        drop_null_fraction=None,  # a column may be empty in one fold and not in another
        **parameters,
    )


def _long_texts(texts: pd.DataFrame) -> list[str]:
    """Return the columns whose n-grams would make a vectorizer large: it saves five copies of them."""
    probe = _vectorizer(high_cardinality="drop").fit(texts.head(1000))
    return [name for name in probe.kind_to_columns_["high_cardinality"] if texts[name].nunique() >= LONG]


def feature_names(transformer: Any) -> list[str]:
    """Return the names of the columns that a fitted transformer puts out.

    Parameters
    ----------
    transformer : Pipeline or MaxAbsScaler
        From :func:`make_features`, fitted.

    Returns
    -------
    names : list of str
        The column's name, followed by the value, the part of a date or the number of the component where one column
        became many, or by "is missing".
    """
    if not isinstance(transformer, Pipeline):
        return [str(name) for name in transformer.get_feature_names_out()]
    names = transformer["impute"].get_feature_names_out(transformer["columns"].get_feature_names_out())
    marked = [re.fullmatch(r"(missingindicator_)?[a-z]+[0-9]*__(.*)", name, re.DOTALL) for name in names]
    # the vectorizer makes names that occur twice differ, by chance and differently at every fit
    plain = [(re.sub(r"__skrub_[0-9a-f]+__$", "", match[2]), match[1]) for match in marked if match]
    return [name + (" is missing" if indicator else "") for name, indicator in plain]
