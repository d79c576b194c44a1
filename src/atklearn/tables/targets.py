"""What is to be predicted: classes or numbers, and whether there is enough of it to learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from atklearn.losses.individual import Array, Task
from atklearn.tables.kinds import ReadColumn

__all__ = ["labels_of", "learnable_target"]

MIN_CLASS_ROWS = 5  # one in every part of a 5-fold split
MAX_CLASSES = 100
MAX_CLASSES_UNASKED = 20  # more whole numbers than that are counts or amounts
MANY_CLASSES = 10  # whole numbers of which there are more may be either


def labels_of(column: ReadColumn, task: Task | None) -> pd.Series:
    """Return a target as numbers or text, missing where there is nothing to learn from.

    Text that can be read as numbers is classes if few values occur, as '1,5' and '2,5' may be.

    Parameters
    ----------
    column : ReadColumn
    task : {"classification", "regression"} or None

    Returns
    -------
    labels : Series of float64, of bool and missing values, or of str, of shape (n_rows,)
    """
    if column.kind == "boolean":
        return column.values.map({1.0: True, 0.0: False})
    if column.kind != "number":
        return column.as_labels()
    few = column.values.nunique() <= MAX_CLASSES_UNASKED
    if column.example is not None and (task == "classification" or (task is None and few)):
        return column.as_labels()
    return column.values


def learnable_target(labels: pd.Series, name: str, task: Task | None) -> tuple[npt.NDArray[Any], Task, list[str]]:
    """Return the target, the task, asked for or detected, and what the user should know of it.

    Parameters
    ----------
    labels : Series of shape (n_rows,)
        From :func:`labels_of`, the rows without a label left out.
    name : str
    task : {"classification", "regression"} or None

    Returns
    -------
    target : ndarray of shape (n_rows,)
        Labels of type str, int or bool, or float64 for regression.
    task : {"classification", "regression"}
    warnings : list of str

    Examples
    --------
    >>> learnable_target(pd.Series([1.0, 2.0] * 10), "stars", None)[:2]
    (array([1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2]), 'classification')
    """
    boolean = labels.dtype != np.float64 and bool(labels.isin([True, False]).all())
    if labels.dtype != np.float64 and not boolean:
        if task == "regression":
            raise ValueError(
                f"The target {name!r} is expected to hold numbers for regression, and holds {str(labels.iloc[0])!r}; "
                "correct it or choose classification."
            )
        return _classes(labels.astype("string"), name), "classification", []
    values: Array = labels.to_numpy(dtype=np.float64)
    whole = bool((values == np.floor(values)).all() and np.abs(values).max() < 2**53)
    distinct, counts = np.unique(values, return_counts=True)
    warnings = []
    if task is None:
        task = "classification" if whole and distinct.size <= MAX_CLASSES_UNASKED else "regression"
        if whole and task == "classification" and distinct.size > MANY_CLASSES:
            warnings.append(
                f"The {distinct.size} whole numbers of the target {name!r} are taken as classes; if they are amounts, "
                "choose --task regression."
            )
        if whole and task == "regression" and distinct.size <= MAX_CLASSES and counts.min() >= MIN_CLASS_ROWS:
            warnings.append(
                f"The {distinct.size} whole numbers of the target {name!r} are taken as amounts; if they are classes, "
                "choose --task classification."
            )
    if task == "regression":
        if distinct.size == 1:
            raise ValueError(f"The target {name!r} has a single value, {values[0]:g}; there is nothing to learn.")
        return values, task, warnings
    if boolean:
        return _classes(labels.astype(bool), name), task, warnings
    # scikit-learn takes fractions for a regression target, so they are labels as text
    return _classes(labels.astype(np.int64 if whole else "string"), name), task, warnings


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
