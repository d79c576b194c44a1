"""Charts and planes as picture files, drawn with Matplotlib in the colours of the page."""

from __future__ import annotations

import io
import os
import re
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from atklearn.report.content import Chart, Explorer, Page, Plane
from atklearn.report.geometry import half_plane, segment, window_of
from atklearn.report.style import (
    DASHES,
    GUIDE,
    LONGEST_LABEL,
    LONGEST_MARK,
    MANY_POINTS,
    POINTS,
    SYMBOLS,
    line_styles,
    log_ticks,
    place_marks,
    plain,
    shown_x,
)

__all__ = ["pictures_of", "png_of", "write_figures"]


def write_figures(page: Page, folder: str | os.PathLike[str]) -> list[Path]:
    """Write a PNG and an SVG of every chart and plane of a page, also of those with a slider.

    Parameters
    ----------
    page : Page
    folder : path
        Made if it does not exist.

    Returns
    -------
    paths : list of Path
        The files, named like their blocks.

    Raises
    ------
    ValueError
        If a block's name cannot be the name of a file.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for block in pictures_of(page):
        if not re.fullmatch(r"[A-Za-z0-9-]+", block.name):
            raise ValueError(
                f"write_figures expects names of letters, digits and hyphens, as they name files, got {block.name!r}; "
                "rename the block."
            )
        figure = _drawn(block)
        for ending in ("png", "svg"):
            path = folder / f"{block.name}.{ending}"
            # Without its date, the same report is the same file.
            _save(figure, path, dpi=150, metadata={"Date": None} if ending == "svg" else None)
            paths.append(path)
    return paths


def png_of(block: Chart | Plane, dpi: int = 80) -> bytes:
    """Return the picture of a chart or a plane as the content of a PNG file."""
    content = io.BytesIO()
    _save(_drawn(block), content, dpi=dpi, format="png")
    return content.getvalue()


def _drawn(block: Chart | Plane) -> Figure:
    return _draw_chart(block) if isinstance(block, Chart) else _draw_plane(block)


def _save(figure: Figure, place: Any, **how: Any) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # shown as a box
        figure.savefig(place, **how)


def pictures_of(page: Page) -> Iterator[Chart | Plane]:
    """Yield the charts and planes of a page, those with a slider as it is at first."""
    for section in page.sections:
        for block in section.blocks:
            if isinstance(block, Chart | Plane):
                yield block
            elif isinstance(block, Explorer):
                yield block.chart
                line = block.steps[block.start].line if block.steps else None
                if block.plane is not None:
                    yield block.plane if line is None else replace(block.plane, lines=[*block.plane.lines, line])


def _draw_chart(chart: Chart) -> Figure:
    figure = Figure(figsize=(6.8, 4.2), layout="constrained")
    ax = figure.subplots()
    styles = line_styles([series.role for series in chart.series])
    for series, style in zip(chart.series, styles, strict=True):
        ax.plot(
            series.x,
            series.y,
            color=style.color,
            linestyle=DASHES[style.dash],
            marker=SYMBOLS[style.symbol] if len(series.x) < MANY_POINTS else "",
            markersize=4.5,
            label=_label(series.name),
        )
        for x, y, text in zip(series.x, series.y, series.labels, strict=False):
            ax.annotate(_label(text), (x, y), (0.0, 5.0), textcoords="offset points", ha="center", fontsize=8)
        if len(series.low):
            ax.fill_between(series.x, series.low, series.high, color=style.color, alpha=0.16, linewidth=0.0)
    if chart.log_x:
        _log_axis(ax, chart)
    for mark in place_marks(chart):
        ax.axvline(mark.x, color=GUIDE, linestyle=":", linewidth=1.0, zorder=0)
        side = 0.0 if mark.to_the_right else 1.0
        stem = {"arrowstyle": "-", "color": GUIDE, "linewidth": 0.8, "shrinkA": 0.0, "shrinkB": 0.0}
        ax.annotate(
            plain(mark.text, LONGEST_MARK),
            (mark.x, 1.0),
            (0.0, 5.0 + 12.0 * mark.row),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            ha="left" if mark.to_the_right else "right",
            fontsize=8,
            arrowprops=stem | {"relpos": (side, 0.0)},
        )
    return _finish(figure, ax, chart)


def _draw_plane(plane: Plane) -> Figure:
    figure = Figure(figsize=(5.2, 5.2), layout="constrained")
    ax = figure.subplots()
    window = window_of(plane)
    for side, role in ((1.0, "positive"), (-1.0, "negative")):
        half = None if plane.shaded is None else half_plane(plane.shaded, window, side)
        if half is not None:
            ax.fill(half.x, half.y, color=POINTS[role].color, alpha=0.09, linewidth=0.0)
    for points in plane.points:
        spot = POINTS[points.role]
        ax.scatter(
            points.x,
            points.y,
            s=0.5 * spot.size_for(len(points.x)) ** 2,
            marker=SYMBOLS[spot.symbol],
            facecolor="none" if spot.symbol == "circle-open" else spot.color,
            edgecolor=spot.color if spot.symbol == "circle-open" else None,
            linewidth=2.0 if points.role == "outlier" else 0.9,
            label=_label(points.name),
        )
    for line, style in zip(plane.lines, line_styles([line.role for line in plane.lines]), strict=True):
        ends = segment(line, window)
        x, y = ([], []) if ends is None else ends
        ax.plot(x, y, color=style.color, linestyle=DASHES[style.dash], linewidth=1.8, label=_label(line.name))
    ax.set(xlim=(window.left, window.right), ylim=(window.bottom, window.top))
    ax.set_aspect("equal" if window.equal and plane.same_units else "auto")
    return _finish(figure, ax, plane)


def _finish(figure: Figure, ax: Axes, block: Chart | Plane) -> Figure:
    """Set the titles and the legend; no name is read as mathematics."""
    ax.set_xlabel(_label(block.x_title))
    ax.set_ylabel(_label(block.y_title))
    figure.suptitle(_label(block.title), fontsize=11)
    ax.spines[["top", "right"]].set_visible(False)
    labels = ax.get_legend_handles_labels()[1]
    if len(labels) > 1:
        letters = 12 * figure.get_figwidth()  # that fit side by side
        ncols = max(1, min(len(labels), int(letters / (6 + max(map(len, labels))))))
        figure.legend(loc="outside lower center", ncols=ncols, frameon=False, fontsize=9)
    for text in figure.findobj(Text):
        text.set_parse_math(False)
        text.set_usetex(False)
    return figure


def _log_axis(ax: Axes, chart: Chart) -> None:
    ax.set_xscale("log")
    shown = shown_x(chart)
    ticks = log_ticks(min(shown), max(shown)) if shown else []
    if len(ticks) > 1:
        ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda tick, _: f"{tick:,.9g}"))
    ax.xaxis.set_minor_locator(NullLocator())


def _label(text: str) -> str:
    return plain(text, LONGEST_LABEL)
