"""The figures of the paper, recomputed: toy cases, the shifted loss, the error against k."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from atklearn.report.content import Block, Cell, Chart, Explorer, Line, Plane, Points, Section, Series, Step, Table
from atklearn.report.paper_numbers import APPENDIX_RANGES
from atklearn.report.wording import LOSS_TITLES
from atklearn.study.methods import PAPER_LOSSES, in_order
from atklearn.study.results import Record

__all__ = ["error_against_k", "number_ranges", "shifted_losses", "toy_cases"]


def toy_cases(planes: list[Record], points: list[Record], config: dict[str, Any]) -> list[Section]:
    """Return Figure 1: an explorer per toy case and loss, and the ranges of k beside the appendix's."""
    if not planes:
        return []
    fits: dict[tuple[str, str], list[Record]] = {}
    for point in points:
        fits.setdefault((point["dataset"], point["loss"]), []).append(point)
    rows, blocks = [], []
    for plane in sorted(planes, key=lambda plane: (plane["dataset"], in_order(plane["loss"]))):
        path = sorted(fits[plane["dataset"], plane["loss"]], key=lambda point: float(point["k"]))
        blocks.append(_toy_explorer(plane, path))
        case = int(plane["dataset"].removeprefix("case "))
        first, last = APPENDIX_RANGES[case][plane["loss"]]
        least = min(point["error"] for point in path)
        shown, average = path[_place_of(plane["shown_k"], path)]["error"], path[-1]["error"]
        rows.append([
            Cell(f"{case}, {LOSS_TITLES[plane['loss']]}"), Cell(f"{100 * least:.1f}"),
            Cell(number_ranges([int(point["k"]) for point in path if point["error"] == least])),
            Cell(f"{first}-{last}"), Cell(f"{100 * shown:.1f}"), Cell(f"{100 * average:.1f}"),
        ])  # fmt: skip
    shown_k, largest_k, C = planes[0]["shown_k"], path[-1]["k"], path[-1]["C"]
    solver = "Exact optima" if config["solver"] == "exact" else "Stochastic descent with the settings of the paper"
    intercept = "a penalised" if config["protocol"]["penalize_intercept"] else "an"
    table = Table(
        "toy-ranges",
        "The k that classify best",
        ["case, loss", "least error %", "at k", "appendix: k", f"k = {shown_k}: error %", "k = n: error %"],
        rows,
        f"{solver} at C = {C:g} with {intercept} intercept, all k from {path[0]['k']} to {largest_k}, error on the "
        "sample itself as in the paper. Where the range of exact optima starts later than the appendix's, the optimum "
        "at smaller k is w = 0.",
    )
    introduction = (
        f"Move the slider to change k; maximum, average and AT_{shown_k} stay. The Bayes classifier is shaded."
    )
    return [Section("figure-1", "Figure 1: six toy cases", [table, introduction, *blocks])]


def _toy_explorer(plane: Record, path: list[Record]) -> Explorer:
    name = f"{plane['dataset'].replace(' ', '-')}-{plane['loss'].replace('_', '-')}"
    title = f"{plane['dataset'].capitalize()}, {LOSS_TITLES[plane['loss']]}"
    x, y, labels = np.array(plane["x"]), np.array(plane["y"]), np.array(plane["label"])
    outlying = np.isin(np.arange(len(x)), plane["outliers"])
    groups = {
        "positive": (labels > 0) & ~outlying, "negative": (labels < 0) & ~outlying, "outlier": outlying,
    }  # fmt: skip
    points = [
        Points("outlier, positive" if role == "outlier" else role, x[rows].tolist(), y[rows].tolist(), role)  # type: ignore[arg-type]
        for role, rows in groups.items()
        if rows.any()
    ]
    start = _place_of(plane["shown_k"], path)
    shown = f"AT_{plane['shown_k']}"
    fixed = {"maximum": path[0], "average": path[-1], shown: path[start]}
    roles = ("maximum", "average", "reference")
    lines = [_line(label, fit, role) for (label, fit), role in zip(fixed.items(), roles, strict=True)]
    ks, errors = [float(fit["k"]) for fit in path], [100.0 * fit["error"] for fit in path]
    chart = Chart(
        f"{name}-error", f"{title}: error against k", "k", "error, %", [Series("AT_k", ks, errors, role="atk")],
        log_x=True, note="Error on the sample, in percent, for every k.",
    )  # fmt: skip
    steps = [
        Step(k, f"k = {k:.0f}: error {error:.1f} %", _line("AT_k", fit, "atk"))
        for k, error, fit in zip(ks, errors, path, strict=True)
    ]
    drawn = Plane(f"{name}-plane", f"{title}: boundaries", "first feature", "second feature", points, lines,
                  Line("Bayes", *plane["bayes"]), f"Boundaries of maximum, average, {shown}, and of the k of the "
                  "slider on the sample; shaded is the Bayes classifier.")  # fmt: skip
    return Explorer(chart, steps, start, drawn)


def _line(name: str, fit: Record, role: str) -> Line:
    a, b = fit["coef"]
    return Line(name, a, b, fit["intercept"], role)


def shifted_losses(curves: list[Record]) -> list[Section]:
    """Return Figure 2: the individual losses, and as AT_k sees them."""
    charts: list[Block] = []
    for loss in sorted({curve["loss"] for curve in curves}, key=in_order):
        series = [
            Series(
                LOSS_TITLES[loss] if curve["lambda"] == 0.0 else f"shifted by {curve['lambda']:g}, cut at 0",
                curve["x"], curve["y"], role="average" if curve["lambda"] == 0.0 else "other",
            )
            for curve in curves if curve["loss"] == loss
        ]  # fmt: skip
        charts.append(
            Chart(
                f"shifted-{loss.replace('_', '-')}", f"{LOSS_TITLES[loss].capitalize()} as AT_k sees it", "y f(x)",
                "loss", series, marks=[(0.0, "correct to the right")],
                note="AT_k lowers the individual loss by lambda and cuts it at zero: samples that are classified well "
                "enough no longer count.",
            )
        )  # fmt: skip
    return [Section("figure-2", "Figure 2: the shifted, truncated loss", charts)] if charts else []


def error_against_k(curves: list[Record], data: dict[str, Record]) -> list[Section]:
    """Return Figure 3: a chart per data set, the error on the test parts against k."""
    charts: list[Block] = []
    for dataset in dict.fromkeys(curve["dataset"] for curve in curves):
        series = []
        for loss, role in zip(PAPER_LOSSES["classification"], ("atk", "balanced"), strict=True):
            chosen = [curve for curve in curves if (curve["dataset"], curve["loss"]) == (dataset, loss)]
            errors = 100.0 * np.array([curve["y"] for curve in sorted(chosen, key=lambda curve: int(curve["split"]))])
            mean = errors.mean(axis=0)
            half = errors.std(axis=0, ddof=1) / np.sqrt(len(errors)) if len(errors) > 1 else np.zeros(mean.size)
            low, high = (mean - half).tolist(), (mean + half).tolist()
            series.append(Series(LOSS_TITLES[loss], chosen[0]["x"], mean.tolist(), low, high, role))
        charts.append(
            Chart(
                f"error-against-k-{dataset}", data[dataset]["title"], "k", "error on the test part, %", series,
                log_x=True,
                note=f"Mean over the splits and one standard error, C = {curves[0]['C']:g}. At small k the exact "
                "optimum is w = 0, which predicts one class.",
            )
        )  # fmt: skip
    return [Section("figure-3", "Figure 3: error against k", charts)] if charts else []


def _place_of(k: int, path: list[Record]) -> int:
    """Return where the fit of a k is among all."""
    return [int(fit["k"]) for fit in path].index(k)


def number_ranges(numbers: Sequence[int]) -> str:
    """Return ascending numbers as ranges.

    Examples
    --------
    >>> number_ranges([1, 2, 3, 7, 9, 10])
    '1-3, 7, 9-10'
    """
    parts: list[list[int]] = []
    for value in numbers:
        if parts and parts[-1][-1] == value - 1:
            parts[-1].append(value)
        else:
            parts.append([value])
    return ", ".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)
