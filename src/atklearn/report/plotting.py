"""Charts and planes as Plotly figures: plain dictionaries, ready for JSON.

Plotly reads some HTML in its texts, links among it; every text goes through :func:`label`, which leaves it plain.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from atklearn.report.content import Chart, Explorer, Line, Plane, Series, Step
from atklearn.report.geometry import half_plane, segment, window_of
from atklearn.report.style import (
    GUIDE,
    LONGEST_LABEL,
    LONGEST_MARK,
    MANY_POINTS,
    POINTS,
    Mark,
    Style,
    line_styles,
    log_ticks,
    place_marks,
    plain,
    shown_x,
)

__all__ = ["chart_figure", "explorer_figures", "label", "plane_figure"]

Figure = dict[str, Any]

N_TICKS = 7
LEFT_OF_PLANE = 64
ROW_OF_MARKS = 17  # pixels
INK, RULE = "#1c2024", "#d9dce1"


def label(text: str) -> str:
    """Return ``text`` such that Plotly shows it letter by letter.

    Examples
    --------
    >>> label("<b>bold</b> & co")
    '&lt;b&gt;bold&lt;/b&gt; &amp; co'
    """
    return plain(text, LONGEST_LABEL).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def chart_figure(chart: Chart) -> Figure:
    """Return the figure of a chart.

    Parameters
    ----------
    chart : Chart

    Returns
    -------
    figure : dict
        With ``data`` and ``layout``. The title is not part of it: HTML can break a long one.
    """
    styles = line_styles([series.role for series in chart.series])
    bands = [_band(i, series, style) for i, (series, style) in enumerate(zip(chart.series, styles, strict=True))]
    lines = [_curve(i, series, style) for i, (series, style) in enumerate(zip(chart.series, styles, strict=True))]
    marks = place_marks(chart)
    layout = _layout(chart.x_title, chart.y_title, legend=len(chart.series) > 1)
    layout["height"] = 380 + ROW_OF_MARKS * len(marks)
    layout["margin"]["t"] = 14 + ROW_OF_MARKS * len(marks)
    layout["hovermode"] = "closest" if any(series.labels for series in chart.series) else "x unified"
    layout["shapes"] = [_upright(mark.x, "dot", 1.2) for mark in marks]
    layout["annotations"] = [_mark(mark, chart.log_x) for mark in marks]
    layout["xaxis"].update(_x_axis(chart))
    return {"data": [band for band in bands if band] + lines, "layout": layout}


def plane_figure(plane: Plane) -> Figure:
    """Return the figure of a plane, with its lines cut to the window of the data.

    Parameters
    ----------
    plane : Plane

    Returns
    -------
    figure : dict
        With ``data`` and ``layout``.
    """
    window = window_of(plane)
    data: list[Figure] = []
    for side, role in ((1.0, "positive"), (-1.0, "negative")):
        half = None if plane.shaded is None else half_plane(plane.shaded, window, side)
        if half is not None:
            data.append(
                {
                    "type": "scatter",
                    "x": half.x,
                    "y": half.y,
                    "mode": "lines",
                    "line": {"width": 0},
                    "fill": "toself",
                    "fillcolor": _translucent(POINTS[role].color, 0.09),
                    "hoverinfo": "skip",
                    "showlegend": False,
                }
            )
    for points in plane.points:
        spot = POINTS[points.role]
        marker = {"color": spot.color, "symbol": spot.symbol, "size": spot.size_for(len(points.x)), "opacity": 0.85}
        marker["line"] = {"color": spot.color, "width": 2.5 if points.role == "outlier" else 1.2}
        trace = {"type": "scatter", "mode": "markers", "name": label(points.name), "marker": marker}
        data.append(trace | {"x": _numbers(points.x), "y": _numbers(points.y)})
    for line, style in zip(plane.lines, line_styles([line.role for line in plane.lines]), strict=True):
        data.append(_boundary(line, plane, style, width=2.0))
    layout = _layout(plane.x_title, plane.y_title, legend=len(data) > 1)
    layout["hovermode"] = "closest"
    layout["height"] = 440
    layout["xaxis"].update({"range": [window.left, window.right], "constrain": "domain"})
    layout["yaxis"].update({"range": [window.bottom, window.top], "constrain": "domain", "automargin": False})
    layout["margin"]["l"] = LEFT_OF_PLANE
    if window.equal and plane.same_units:
        layout["yaxis"].update({"scaleanchor": "x", "scaleratio": 1})
    return {"data": data, "layout": layout}


def explorer_figures(explorer: Explorer) -> tuple[Figure, Figure | None, Figure]:
    """Return the chart with its cursor, the plane with the boundary that moves, and how the slider moves them.

    Parameters
    ----------
    explorer : Explorer

    Returns
    -------
    chart, plane : figures
        The plane is None where the explorer has none.
    motion : dict
        ``cursor``, the shape of the chart, and ``boundary``, the trace of the plane, by their places; ``steps``, each
        with ``x``, ``label``, the ``name`` of its boundary and its ends, also named ``x`` and ``y``, under ``line``.
    """
    chart, start = chart_figure(explorer.chart), explorer.steps[explorer.start]
    cursor = len(chart["layout"]["shapes"])
    chart["layout"]["shapes"].append(_upright(start.x, "solid", 3.0))
    plane, boundary = None, None
    if explorer.plane is not None:
        plane = plane_figure(explorer.plane)
        boundary = len(plane["data"])
        line = start.line or next((step.line for step in explorer.steps if step.line), Line("", 0.0, 0.0, 0.0))
        shown = line if start.line else Line(line.name, 0.0, 0.0, 0.0, line.role)
        plane["data"].append(_boundary(shown, explorer.plane, line_styles([line.role])[0], width=3.5))
        plane["layout"]["showlegend"] = True
    steps = [_step(step, explorer.plane) for step in explorer.steps]
    return chart, plane, {"cursor": cursor, "boundary": boundary, "steps": steps}


def _step(step: Step, plane: Plane | None) -> Figure:
    moved: Figure = {"x": float(step.x), "label": step.label}
    if plane is not None:
        line = step.line or Line("", 0.0, 0.0, 0.0)
        ends = segment(line, window_of(plane))
        moved["name"] = label(line.name)
        moved["line"] = _ends(line, plane)
        if step.line is not None and ends is None:
            collapsed = line.a == line.b == 0
            moved["label"] += "; no boundary: collapsed" if collapsed else "; the boundary is outside the picture"
    return moved


def _ends(line: Line, plane: Plane) -> Figure:
    """Return the ends of the boundary; without one, missing values, which keep its place in the legend."""
    ends = segment(line, window_of(plane))
    return {"x": [None, None], "y": [None, None]} if ends is None else {"x": ends.x, "y": ends.y}


def _boundary(line: Line, plane: Plane, style: Style, width: float) -> Figure:
    stroke = {"color": style.color, "dash": style.dash, "width": width}
    trace = {"type": "scatter", "mode": "lines", "name": label(line.name), "line": stroke, "hoverinfo": "name"}
    return trace | _ends(line, plane)


def _curve(place: int, series: Series, style: Style) -> Figure:
    mode = "lines+markers" if len(series.x) < MANY_POINTS else "lines"
    written = {"text": [label(text) for text in series.labels], "textposition": "top center", "textfont": {"size": 11}}
    return (written if series.labels else {}) | {
        "type": "scatter",
        "cliponaxis": not series.labels,
        "mode": f"{mode}+text" if series.labels else mode,
        "name": label(series.name),
        "legendgroup": f"series-{place}",
        "x": _numbers(series.x),
        "y": _numbers(series.y),
        "line": {"color": style.color, "dash": style.dash, "width": 2},
        "marker": {"symbol": style.symbol, "size": 7},
    }


def _band(place: int, series: Series, style: Style) -> Figure | None:
    rows = [row for row in zip(series.x, series.low, series.high, strict=False) if all(map(math.isfinite, row))]
    if not rows:
        return None
    return {
        "type": "scatter",
        "mode": "lines",
        "legendgroup": f"series-{place}",
        "x": [float(x) for x, _, _ in rows] + [float(x) for x, _, _ in reversed(rows)],
        "y": [float(low) for _, low, _ in rows] + [float(high) for _, _, high in reversed(rows)],
        "line": {"width": 0},
        "fill": "toself",
        "fillcolor": _translucent(style.color, 0.16),
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _layout(x_title: str, y_title: str, legend: bool) -> Figure:
    axis = {"gridcolor": RULE, "linecolor": GUIDE, "zeroline": False, "ticks": "outside", "tickcolor": GUIDE}
    # The margins follow the ticks. If the ticks followed the margins, too, Plotly would not come to rest on a phone.
    axis |= {"automargin": True, "nticks": N_TICKS, "tickangle": 0, "hoverformat": ".6~g"}
    return {
        "xaxis": {**axis, "showgrid": False, "showline": True, "title": {"text": label(x_title), "standoff": 8}},
        "yaxis": {**axis, "title": {"text": label(y_title), "standoff": 8}},
        "font": {"family": "system-ui, -apple-system, 'Segoe UI', sans-serif", "size": 13, "color": INK},
        # White where a picture is downloaded; the style sheet lets the page show through.
        "paper_bgcolor": "#ffffff",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 10, "r": 14, "t": 14, "b": 10},
        "showlegend": legend,
        "legend": {
            "orientation": "h",
            # In a width of its own: in that of the plot, which depends on its height, Plotly may not come to rest.
            "xref": "container",
            "yref": "container",
            "y": 0,
            "yanchor": "bottom",
            "x": 0,
            "bgcolor": "rgba(0,0,0,0)",
        },
        "hoverlabel": {"bgcolor": "#ffffff", "font": {"color": INK}, "namelength": -1},
        "modebar": {"orientation": "h", "bgcolor": "rgba(0,0,0,0)", "color": GUIDE, "activecolor": "#0072B2"},
    }


def _x_axis(chart: Chart) -> Figure:
    """Return the range, which Plotly would stretch to make room for long labels of marks, and the ticks."""
    shown = shown_x(chart)
    if not shown:
        return {"type": "log" if chart.log_x else "linear"}
    low, high = min(shown), max(shown)
    ends = (math.log10(low), math.log10(high)) if chart.log_x else (low, high)
    room = 0.08 if any(series.labels for series in chart.series) else 0.04
    margin = room * (ends[1] - ends[0]) or 0.5
    axis: Figure = {"type": "log" if chart.log_x else "linear", "range": [ends[0] - margin, ends[1] + margin]}
    ticks = log_ticks(low, high) if chart.log_x else []
    if len(ticks) > 1:
        axis |= {"tickvals": ticks, "ticktext": [f"{tick:,.9g}" for tick in ticks]}
    return axis


def _upright(x: float, dash: str, width: float) -> Figure:
    stroke = {"color": GUIDE, "dash": dash, "width": width}
    place = {"xref": "x", "yref": "paper", "x0": float(x), "x1": float(x), "y0": 0, "y1": 1}
    return {"type": "line", "layer": "between", "line": stroke} | place


def _mark(mark: Mark, log_x: bool) -> Figure:
    return {
        "xref": "x",
        "yref": "paper",
        "x": math.log10(mark.x) if log_x else mark.x,  # unlike in shapes
        "y": 1,
        "text": label(plain(mark.text, LONGEST_MARK)),
        "font": {"size": 12},
        "showarrow": True,
        "arrowhead": 0,
        "arrowwidth": 1,
        "arrowcolor": GUIDE,
        "ax": 0,
        "ay": -ROW_OF_MARKS * (mark.row + 0.6),
        "xanchor": "left" if mark.to_the_right else "right",
    }


def _numbers(values: Iterable[float]) -> list[float | None]:
    """Return plain floats; JSON has no others than finite ones."""
    return [float(value) if math.isfinite(value) else None for value in values]


def _translucent(color: str, opacity: float) -> str:
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"
