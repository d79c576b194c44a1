"""The beginning of the report of a comparison, for those who come to it new: what is compared, and on which data."""

from __future__ import annotations

import numpy as np

from atklearn.measures import MEASURES
from atklearn.report.comparison_findings import Findings
from atklearn.report.content import Block, Cell, Table
from atklearn.report.wording import amount, listed, percent, sentence
from atklearn.study.results import Record

__all__ = ["about_the_data", "what_is_compared"]

_FEW_COLUMNS = 12
_FEW_CLASSES = 6
_MANY = {"number": "numbers", "date": "dates", "category": "categories", "text": "texts"}


def what_is_compared(found: Findings) -> list[Block]:
    """Return what average, maximum and AT_k are, and what the answer is about."""
    data, measure = found.data, MEASURES[found.score]
    n = data["n_used"]
    meaning = f": {measure.meaning}" if measure.meaning else ""
    scale = f"{percent(found.margin)} of its value" if measure.relative else f"{found.margin:g}"
    if measure.percent:
        points = 100.0 * found.margin
        scale = f"{points:g} percentage point{'' if points == 1.0 else 's'}"
    better = "higher" if measure.higher_is_better else "lower"
    return [
        f"A model that predicts “{data['target']}” is fitted by making its errors on the {n} rows small. The usual way "
        "looks at their average. The other extreme looks at the largest error alone, the maximum. AT_k is in between: "
        f"it looks at the average of the k largest errors. With k = {n}, all rows, that is the usual average; with "
        "k = 1 it is the maximum. The smaller k is, the more the model listens to the rows that are hard to predict. "
        "Which k is best depends on the data, and is found by trying several on rows that the fit has not seen "
        f"(cross-validation). {found.words.models}",
        f"What counts here is {measure.title}{meaning}. A {better} one is better. “Helps” and “hurts” say that "
        f"AT_k changes it by more than chance would and by more than {scale}; “the same”, that any change is smaller "
        "than that; “undecided”, that these rows do not tell.",
    ]


def about_the_data(found: Findings) -> list[Block]:
    """Return what was read of the data, and how."""
    data = found.data
    health: Record = data["health"]
    return [
        _rows(health),
        *(f"{sentence(note)}." for note in data["notes"]),
        _target(found),
        *_columns(health, data["d"]),
    ]


def _rows(health: Record) -> str:
    read, used = health["rows_read"], health["rows_used"]
    if used == read:
        return f"All {read} rows are used."
    why = listed([f"{count} ({reason})" for count, reason in health["rows_left_out"]])
    return f"Of {read} rows, {used} are used" + (f"; left out are {why}." if why else ".")


def _target(found: Findings) -> str:
    """Say what is predicted: the classes and how frequent they are, or the range of the numbers."""
    data = found.data
    if data["task"] == "classification":
        counts = sorted(zip(data["counts"], data["classes"], strict=True), key=lambda pair: -pair[0])
        named = counts if len(counts) <= _FEW_CLASSES else [counts[0], counts[-1]]
        rows = listed([f"{name} ({count} rows)" for count, name in named])
        which = "" if len(counts) <= _FEW_CLASSES else "the most and the least frequent are "
        return f"The target, “{data['target']}”, is one of {len(counts)} classes: {which}{rows}."
    y = found.truth
    low, middle, high = (amount(float(np.quantile(y, q)), float(np.abs(y).max())) for q in (0.0, 0.5, 1.0))
    return f"The target, “{data['target']}”, is a number, from {low} to {high}; half of the rows are below {middle}."


def _columns(health: Record, n_columns: int) -> list[Block]:
    """Return the columns: all if they are few, else those that there is something to say about."""
    columns = health["columns"]
    if not columns:
        return [f"The {n_columns} columns have no names and are used as numbers."]
    few = len(columns) <= _FEW_COLUMNS
    told = [column for column in columns if few or column[1] == "left out" or column[2]]
    counts: dict[str, int] = {}
    for _, use, _ in (column for column in columns if column not in told):
        counts[use] = counts.get(use, 0) + 1
    blocks: list[Block] = []
    if told:
        rows = [[Cell(name), Cell(use), Cell(how)] for name, use, how in told]
        title = "The columns" if few else "Columns that there is something to say about"
        blocks.append(Table("columns", title, ["column", "used as", "how"], rows))
    if counts:
        others = listed([f"{n} {_MANY.get(use, use) if n > 1 else use}" for use, n in counts.items()])
        blocks.append(f"{'The other' if told else 'The'} columns are used as they are: {others}.")
    return blocks
