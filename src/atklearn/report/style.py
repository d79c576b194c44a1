"""How a report looks in every view: colours, dashes and markers by role, words by outcome, letters by emphasis.

Nothing is told by colour alone: lines differ in dash and marker, too, so that a page printed in grey can be read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from atklearn.report.content import Chart, Table

__all__ = [
    "DASHES", "EMPHASES", "GUIDE", "LONGEST_LABEL", "LONGEST_MARK", "MANY_POINTS", "MARKED", "OUTCOMES", "POINTS",
    "STYLED", "SYMBOLS", "Mark", "PointStyle", "Style", "column_classes", "emphasis_key", "line_styles",
    "log_ticks", "numeric_columns", "place_marks", "plain", "shown_x",
]  # fmt: skip

OUTCOMES = {"helps": "▲", "hurts": "▼", "same": "◆", "undecided": "◇", "summary": "●"}
"""Symbol of each outcome."""

EMPHASES = {
    "best": "the best",
    "close": "not significantly different from the best",
    "optimistic": "chosen with the test part in view",
    "miss": "away from the reference value",
}
"""What each emphasis of a cell means, for the legend of its table."""

STYLED = {"best": "Bold", "close": "Underlined", "optimistic": "Italic", "miss": "†"}
"""How each emphasis looks where letters have styles."""

MARKED = {"": "", "best": "*", "close": "~", "optimistic": "°", "miss": "†"}
"""What stands behind a cell with each emphasis where they have none."""

DASHES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}
"""Plotly's names of dashes, and Matplotlib's."""

SYMBOLS = {
    "circle": "o",
    "circle-open": "o",
    "square": "s",
    "diamond": "D",
    "triangle-up": "^",
    "triangle-down": "v",
    "cross": "P",
    "x": "X",
    "cross-thin-open": "+",
    "x-thin-open": "x",
}
"""Plotly's names of markers, and Matplotlib's."""

GUIDE = "#808080"
"""Cursors, marks and anything else that is no data: seen on white and on black."""

LONGEST_LABEL, LONGEST_MARK = 60, 32
LONGEST_UNBROKEN = 22
FEW_POINTS, CROWDED = 10, 8.0  # markers in the plane that may be large, and how large those of more are
MANY_POINTS = 40  # of a line: from here on markers would run into one another
NUMBER = re.compile(r"[\W\d_e]*|nan|n/a|-?inf", re.IGNORECASE)  # no letters but that of an exponent
# C0 and C1 controls could drive a terminal and are not allowed in SVG; direction overrides could reorder a line;
# lone surrogates cannot be encoded.
UNSHOWN = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True)
class Style:
    """A line and its markers, in Plotly's words; :data:`DASHES` and :data:`SYMBOLS` have Matplotlib's."""

    color: str
    dash: str
    symbol: str


@dataclass(frozen=True)
class PointStyle:
    """A marker in the plane; ``size`` in pixels, that of a few."""

    color: str
    symbol: str
    size: float

    def size_for(self, n: int) -> float:
        """Return the size of so many markers: large ones would hide one another."""
        return self.size if n <= FEW_POINTS else min(self.size, CROWDED)


# The hues of Okabe and Ito, which the colour-blind tell apart; purple and grey are darker, for thin lines on white.
ROLES = {
    "maximum": Style("#D55E00", "dot", "triangle-up"),
    "average": Style("#B5568F", "dash", "square"),
    "atk": Style("#009E73", "solid", "circle"),
    "balanced": Style("#0072B2", "dashdot", "diamond"),
    "reference": Style("#777777", "dash", "x"),
}
OTHERS = (
    Style("#3A8FC4", "solid", "triangle-down"),
    Style("#C98A00", "dashdot", "cross"),
    Style("#0072B2", "dot", "square"),
    Style("#B5568F", "solid", "diamond"),
    Style("#D55E00", "dash", "x"),
)

POINTS = {
    "positive": PointStyle("#CC3333", "cross-thin-open", 8.0),
    "negative": PointStyle("#0072B2", "circle-open", 6.0),
    "outlier": PointStyle("#CC3333", "x-thin-open", 15.0),
}


@dataclass(frozen=True)
class Mark:
    """A vertical line of a chart with its label, which stands above the chart.

    Attributes
    ----------
    x : float
    text : str
    row : int
        Of the label, counted upwards.
    to_the_right : bool
        Whether the label begins at the line; else it ends there.
    """

    x: float
    text: str
    row: int
    to_the_right: bool


def line_styles(roles: Sequence[str]) -> list[Style]:
    """Return the style of each line of one chart: by role, or the next of the other styles for any other name.

    Examples
    --------
    >>> [style.color for style in line_styles(["atk", "other", "other"])]
    ['#009E73', '#3A8FC4', '#C98A00']
    """
    styles, others = [], 0
    for role in roles:
        if role in ROLES:
            styles.append(ROLES[role])
        else:
            styles.append(OTHERS[others % len(OTHERS)])
            others += 1
    return styles


def log_ticks(low: float, high: float) -> list[float]:
    """Return the ticks of a logarithmic axis: 1, 2, 5, 10 and so on, only powers of ten where that would be many.

    Examples
    --------
    >>> log_ticks(1, 200)
    [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0]
    >>> log_ticks(1e-3, 1e3)
    [0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0]
    """
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    heads = (1, 2, 5) if math.log10(high / low) <= 3.5 else (1,)
    ticks = [float(f"{head}e{power}") for power in range(first, last + 1) for head in heads]
    return [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]


def shown_x(chart: Chart) -> list[float]:
    """Return every x of the lines and the marks that the axis can show."""
    xs = [float(x) for series in chart.series for x in series.x] + [float(x) for x, _ in chart.marks]
    return [x for x in xs if math.isfinite(x) and (x > 0 or not chart.log_x)]


def place_marks(chart: Chart) -> list[Mark]:
    """Place the labels of the marks: each on its own row, such that no vertical line goes through another's label.

    Labels lean towards the middle of the chart. The nearer to the edge, the higher; the left half is above the right.
    """
    shown = shown_x(chart)
    marks = sorted((float(x), text) for x, text in chart.marks if float(x) in shown)
    if not marks:
        return []
    low, high = min(shown), max(shown)
    middle = math.sqrt(low * high) if chart.log_x else (low + high) / 2
    left = [(x, text, True) for x, text in marks if x < middle]
    right = [(x, text, False) for x, text in marks if x >= middle]
    return [Mark(x, text, row, side) for row, (x, text, side) in enumerate(right + left[::-1])]


def emphasis_key(table: Table, looks: Mapping[str, str] = STYLED) -> list[str]:
    """Return what the emphases that occur in a table mean, each after how it looks."""
    used = {cell.emphasis for row in table.rows for cell in row if cell.text}
    return [f"{looks[emphasis]}: {meaning}." for emphasis, meaning in EMPHASES.items() if emphasis in used]


def numeric_columns(table: Table) -> list[bool]:
    """Say which columns hold numbers and are aligned to the right."""
    columns = [[row[i].text.strip() for row in table.rows] for i in range(len(table.columns))]
    return [
        any(re.search(r"\d", text) for text in column) and all(NUMBER.fullmatch(text) for text in column)
        for column in columns
    ]


def column_classes(table: Table) -> list[str]:
    """Return how the page sets each column: numbers to the right, short texts such as intervals on one line."""
    short = [all(len(row[i].text) <= LONGEST_UNBROKEN for row in table.rows) for i in range(len(table.columns))]
    numeric = numeric_columns(table)
    return [
        "number" if is_number else "short" if is_short else ""
        for is_number, is_short in zip(numeric, short, strict=True)
    ]


def plain(text: str, longest: int | None = None) -> str:
    r"""Return ``text`` on one line, without characters that steer a display; cut to ``longest`` characters.

    Examples
    --------
    >>> plain("two\nlines", longest=6)
    'two l…'
    """
    line = UNSHOWN.sub("\ufffd", " ".join(text.split()))
    return line if longest is None or len(line) <= longest else line[: longest - 1] + "…"
