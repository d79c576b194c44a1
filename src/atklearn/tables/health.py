"""The health of a table: what is read from each column, what is left out and why, what its owner should look at.

The rules say why a column is left out, which skrub's DropUninformative does not; and a column that tells the target is
found on rows it has not seen, which skrub's column_associations do not do, for which a unique name tells everything.
"""

from __future__ import annotations

import re
from collections.abc import Collection

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics import balanced_accuracy_score, r2_score
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import CategoricalNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from atklearn.losses.individual import Array, Task
from atklearn.tables.columns import ReadColumn

__all__ = ["CATEGORIES", "columns_to_leave_out", "find_leaks", "kind_in_words", "reading_in_words"]

CATEGORIES = 40  # distinct values of text, from which on it is not one column per value
_MAX_DISTINCT = 100_000
_ALMOST_ALL = 0.9  # of the rows have an identifier, where there is one
_KEY = re.compile(r"ids?|nr|no|num|number|key|uuid|guid|index|idx|pk|rowid|rownum", re.IGNORECASE)

_MOST_ROWS = 5000
_FEWEST_ROWS = 50
_FEWEST_OF_CLASS = 10
_SUSPICIOUS: dict[Task, float] = {"classification": 0.98, "regression": 0.99}
_N_FOLDS = 3
_MOST_LEAVES = 64
_RARE = 3  # rows: values that fewer share tell nothing about others


def columns_to_leave_out(
    columns: dict[str, ReadColumn], rows: npt.NDArray[np.intp], first: str, keep: Collection[str]
) -> dict[str, str]:
    """Return the columns that can tell nothing, or nothing about other rows, with why; but for those to keep.

    The columns are in the order of the file, of which ``rows`` are used, and ``first`` is its first column.

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
        if distinct > _MAX_DISTINCT:
            return f"more than {_MAX_DISTINCT:,} different texts"
        # several words are text, from which something may be learned
        words = there.head(1000).str.count(r"\S+").mean()
        is_key = distinct == there.size >= _ALMOST_ALL * rows.size and words < 2.0
        return "different in every row, like an identifier" if is_key else None
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
    return bool(words) and bool(_KEY.fullmatch(words[-1]) or words[0].lower() in {"id", "uuid", "guid"})


def kind_in_words(column: ReadColumn) -> str:
    """Return what a column is used as: "number", "date", "category" or "text"."""
    if column.kind == "text":
        return "category" if column.values.nunique() < CATEGORIES else "text"
    return "date" if column.kind == "date" else "number"


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


def find_leaks(features: pd.DataFrame, target: npt.NDArray[np.generic], task: Task) -> dict[str, float]:
    """Return the columns that predict the target almost alone, with their balanced accuracy or R².

    Such a column was probably written after the target. A shallow tree on one column, or the best guess for each text,
    is cross-validated on at most 5,000 rows. That a value is missing counts as a value.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 100)
    >>> features = pd.DataFrame({"noise": rng.standard_normal(100), "refund": np.where(y == 1, 9.5, np.nan)})
    >>> find_leaks(features, y, "classification")
    {'refund': 1.0}
    """
    classification = task == "classification"
    labels = np.unique(target, return_inverse=True)[1] if classification else target
    if labels.size < _FEWEST_ROWS or (classification and np.bincount(labels).min() < _FEWEST_OF_CLASS):
        return {}
    rows = _draw(labels, classification)
    y = labels[rows]
    folds = (StratifiedKFold if classification else KFold)(_N_FOLDS, shuffle=True, random_state=0)
    score = balanced_accuracy_score if classification else r2_score
    options = {"max_leaf_nodes": _MOST_LEAVES, "min_samples_leaf": _RARE, "random_state": 0}
    tree = (
        DecisionTreeClassifier(class_weight="balanced", **options)
        if classification
        else DecisionTreeRegressor(**options)
    )
    found: dict[str, float] = {}
    for name in features.columns:
        column = features[name].iloc[rows]
        tried: list[tuple[BaseEstimator, npt.NDArray[np.generic]]]
        if column.dtype == "string":
            codes = _codes_of(column)
            tried = [(_guess_by_category(codes, classification), codes)]
        else:
            values, ranks = _numbers_of(column)
            # a tree follows a straight line badly where values are rare
            tried = [(tree, ranks), *([] if classification else [(LinearRegression(), values)])]
        for model, x in tried:
            # what does not even fit the rows it has seen cannot predict others
            if score(y, model.fit(x, y).predict(x)) >= _SUSPICIOUS[task]:
                value = float(score(y, cross_val_predict(model, x, y, cv=folds)))
                if value >= max(_SUSPICIOUS[task], found.get(str(name), 0.0)):
                    found[str(name)] = value
    return found


def _draw(codes: npt.NDArray[np.generic], classification: bool) -> npt.NDArray[np.intp]:
    """Return at most so many rows, with some of every class."""
    rows = np.random.default_rng(0).permutation(codes.size)
    if codes.size <= _MOST_ROWS:
        return rows
    drawn = [rows[:_MOST_ROWS]]
    if classification:
        drawn += [rows[codes[rows] == code][:_FEWEST_OF_CLASS] for code in np.unique(codes)]
    return np.unique(np.concatenate(drawn))


def _guess_by_category(codes: npt.NDArray[np.intp], classification: bool) -> BaseEstimator:
    """Return a model of the class that a category has most of, in proportion to its size, or of the category's mean."""
    if classification:
        return CategoricalNB(alpha=1e-9, fit_prior=False, min_categories=int(codes.max()) + 1)
    return make_pipeline(OneHotEncoder(handle_unknown="ignore"), Ridge(1e-6))


def _codes_of(column: pd.Series) -> npt.NDArray[np.intp]:
    """Return text as codes, of shape (n_rows, 1): 0 where it is missing, and one for all rare values."""
    codes = pd.factorize(column)[0] + 1
    counts = np.bincount(codes)
    rare = (counts < _RARE) & (np.arange(counts.size) > 0)
    return np.where(rare[codes], counts.size, codes)[:, None]


def _numbers_of(column: pd.Series) -> tuple[Array, Array]:
    """Return numbers or dates between -1 and 1, and their ranks, both of shape (n_rows, 1)."""
    values = column.to_numpy(dtype=np.float64, na_value=np.nan) if column.dtype.kind != "M" else _moments(column)
    there = ~np.isnan(values)
    ranks = np.unique(values, return_inverse=True)[1].astype(np.float64)  # trees round to 32 bits
    ranks[~there] = -float(ranks.size)  # so far below that no split mistakes the lowest number for it
    values = np.where(there, values - (values[there].mean() if there.any() else 0.0), 0.0)
    return (values / max(np.abs(values).max(), 1e-300))[:, None], ranks[:, None]


def _moments(column: pd.Series) -> Array:
    return np.asarray(np.where(column.isna(), np.nan, column.astype("int64")), dtype=np.float64)
