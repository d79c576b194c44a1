"""What a report says, before it is decided how it looks: headline, sections, tables, charts.

The page, the picture files and the terminal are three views of these objects. All text is plain: views escape it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

__all__ = [
    "Block",
    "Cell",
    "Chart",
    "Explorer",
    "Line",
    "Page",
    "Plane",
    "Points",
    "Section",
    "Series",
    "Step",
    "Table",
]


@dataclass(frozen=True)
class Cell:
    """An entry of a table.

    Attributes
    ----------
    text : str
    emphasis : {"", "best", "close", "optimistic", "miss"}
        The best of those compared; not significantly different from it; chosen with the test part in view; away from
        the reference value.
    """

    text: str
    emphasis: Literal["", "best", "close", "optimistic", "miss"] = ""


@dataclass(frozen=True)
class Table:
    """A table; the first column names the rows.

    Attributes
    ----------
    name : str
        A short identifier, unique in the page: letters, digits, hyphens.
    title : str
    columns : sequence of str
    rows : sequence of sequences of Cell
        As wide as ``columns``.
    note : str
        How to read it.
    """

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""


@dataclass(frozen=True)
class Series:
    """A line of a chart, with an optional band around it.

    Attributes
    ----------
    name : str
    x, y : sequence of float
    low, high : sequence of float
        The band, as long as ``y``; empty for none.
    role : {"maximum", "average", "atk", "balanced", "reference", "other"}
        What it stands for; the same role has the same colour and dash everywhere.
    labels : sequence of str
        What to write at the points, as many as there are; empty for nothing.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    role: str = "other"
    labels: Sequence[str] = ()


@dataclass(frozen=True)
class Chart:
    """Lines over one axis.

    Attributes
    ----------
    name : str
        A short identifier, unique in the page; also the name of the picture files.
    title, x_title, y_title : str
    series : sequence of Series
    log_x : bool
    marks : sequence of (float, str)
        Vertical lines with their labels.
    note : str
        What the chart shows, in a sentence: its caption and its text for screen readers.
    """

    name: str
    title: str
    x_title: str
    y_title: str
    series: Sequence[Series]
    log_x: bool = False
    marks: Sequence[tuple[float, str]] = ()
    note: str = ""


@dataclass(frozen=True)
class Points:
    """Samples in the plane that belong together.

    Attributes
    ----------
    name : str
    x, y : sequence of float
    role : {"positive", "negative", "outlier"}
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    role: Literal["positive", "negative", "outlier"]


@dataclass(frozen=True)
class Line:
    """A decision boundary ``a x + b y + c = 0``; a = b = 0 means that there is none (a collapsed model)."""

    name: str
    a: float
    b: float
    c: float
    role: str = "other"


@dataclass(frozen=True)
class Plane:
    """Two-dimensional data with decision boundaries.

    Attributes
    ----------
    name : str
        A short identifier, unique in the page; also the name of the picture files.
    title, x_title, y_title : str
    points : sequence of Points
    lines : sequence of Line
        Boundaries that are always shown.
    shaded : Line or None
        The Bayes boundary: the side where ``a x + b y + c > 0`` is shaded as positive, the other as negative.
    note : str
        As in :class:`Chart`.
    same_units : bool
        Whether both axes may have one scale.
    """

    name: str
    title: str
    x_title: str
    y_title: str
    points: Sequence[Points]
    lines: Sequence[Line] = ()
    shaded: Line | None = None
    note: str = ""
    same_units: bool = True


@dataclass(frozen=True)
class Step:
    """One position of a slider.

    Attributes
    ----------
    x : float
        Where this step is on the axis of the chart, which is k.
    label : str
        Read out and shown next to the slider, such as ``"k = 10 (5 % of the samples): error 0.5 %"``.
    line : Line or None
        The boundary at this step, if there is a plane.
    """

    x: float
    label: str
    line: Line | None = None


@dataclass(frozen=True)
class Explorer:
    """A chart with a slider along its axis; for two-dimensional data the slider moves a boundary, too.

    Attributes
    ----------
    chart : Chart
    steps : sequence of Step
        In the order of x.
    start : int
        The step shown first.
    plane : Plane or None
    """

    chart: Chart
    steps: Sequence[Step]
    start: int = 0
    plane: Plane | None = None


Block: TypeAlias = str | Table | Chart | Plane | Explorer
"""A part of a section; a string is a paragraph."""


@dataclass(frozen=True)
class Section:
    """A headed part of a page.

    Attributes
    ----------
    name : str
        A short identifier, unique in the page.
    title : str
    blocks : sequence of Block
    """

    name: str
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Page:
    """A report.

    Attributes
    ----------
    title : str
    verdict : str
        The answer in a few words.
    headline : str
        The answer in a sentence or two.
    outcome : {"helps", "hurts", "same", "undecided", "summary"}
        How they are to be taken; shown by more than a colour. A summary has no verdict.
    sections : sequence of Section
    provenance : sequence of (str, str)
        How it was run: names and values, shown at the end.
    warnings : sequence of str
        What to look at before the answer is believed, shown beside it.
    """

    title: str
    verdict: str
    headline: str
    outcome: Literal["helps", "hurts", "same", "undecided", "summary"]
    sections: Sequence[Section]
    provenance: Sequence[tuple[str, str]] = field(default_factory=tuple)
    warnings: Sequence[str] = ()
