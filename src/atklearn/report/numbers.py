"""The numbers behind a chart as tables: what there is to read for those who do not see the chart."""

from __future__ import annotations

import math
from collections.abc import Sequence

from atklearn.report.content import Cell, Chart, Explorer, Line, Plane, Table

__all__ = ["chart_numbers", "explorer_numbers", "plane_numbers"]

LONGEST = 200


def chart_numbers(chart: Chart) -> list[Table]:
    """Return one table: a row per x, a column per series, with its band in brackets."""
    columns = []
    for series in chart.series:
        column = {}
        for i, (x, y) in enumerate(zip(series.x, series.y, strict=True)):
            band = f" ({_text(series.low[i])} to {_text(series.high[i])})" if len(series.low) else ""
            label = f" ({series.labels[i]})" if len(series.labels) else ""
            column[float(x)] = _text(y) + band + label
        columns.append(column)
    rows = [
        [_text(x)] + [column.get(x, "") for column in columns]
        for x in sorted({x for column in columns for x in column if math.isfinite(x)})
    ]
    return [_table(chart.name, chart.title, [chart.x_title, *(series.name for series in chart.series)], rows)]


def plane_numbers(plane: Plane) -> list[Table]:
    """Return the samples, at most so many of each group, and the boundaries."""
    columns = ["group", plane.x_title, plane.y_title]
    rows = [
        [points.name, _text(x), _text(y)]
        for points in plane.points
        for x, y in list(zip(points.x, points.y, strict=True))[:LONGEST]
    ]
    left_out = sum(max(len(points.x) - LONGEST, 0) for points in plane.points)
    note = f"{left_out} more samples are left out." if left_out else ""
    tables = [_table(plane.name, plane.title, columns, rows, note)]
    lines = [*plane.lines, *([] if plane.shaded is None else [plane.shaded])]
    if lines:
        tables.append(_table(f"{plane.name}-lines", "Boundaries", ["name", "boundary"], [_boundary(i) for i in lines]))
    return tables


def explorer_numbers(explorer: Explorer) -> list[Table]:
    """Return what the slider says at each step."""
    rows = [[_text(step.x), step.label] for step in explorer.steps]
    return [_table(f"{explorer.chart.name}-steps", "Positions of the slider", [explorer.chart.x_title, "label"], rows)]


def _boundary(line: Line) -> list[str]:
    if line.a == line.b == 0:
        return [line.name, "none: collapsed"]
    return [line.name, f"{_text(line.a)} x {line.b:+.6g} y {line.c:+.6g} = 0"]


def _table(
    name: str, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], note: str | None = None
) -> Table:
    """Make a table; without a note of its own, it is cut where it would be too long."""
    if note is None:
        note = f"The first {LONGEST} of {len(rows)} rows." if len(rows) > LONGEST else ""
        rows = rows[:LONGEST]
    return Table(f"{name}-numbers", title, columns, [[Cell(text) for text in row] for row in rows], note)


def _text(value: float) -> str:
    return f"{value:.6g}" if math.isfinite(value) else "n/a"
