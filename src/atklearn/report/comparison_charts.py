"""The charts of a comparison: the trade-off along k, the score against k, and the boundary of two features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import compress
from typing import Literal, TypeAlias

import numpy as np

from atklearn.losses.individual import Array
from atklearn.measures import MEASURES
from atklearn.report.comparison_findings import Findings
from atklearn.report.content import Chart, Explorer, Line, Plane, Points, Series, Step
from atklearn.report.wording import model_in_words, sentence
from atklearn.study.evidence import Grid
from atklearn.study.results import Record

__all__ = ["score_against_k", "trade_off"]

PointRole: TypeAlias = Literal["positive", "negative", "outlier"]
# What is weighed against each other: how all rows fare, and how the worst off do.
_TRADED = {"classification": ("error", "worst_class_error"), "regression": ("rmse", "tail_error")}


def trade_off(found: Findings) -> Chart:
    """Return the mean against the tail, along k: the cross-validation on all rows, at the best strength of each k."""
    mean, tail = (MEASURES[name] for name in _TRADED[found.data["task"]])
    grid = found.traced
    name = model_in_words(grid.loss, grid.weights)
    places = np.flatnonzero(grid.ks > 1.0)
    best = grid.scores(found.score).mean(axis=0)[places].argmax(axis=1)
    x, y = (
        (measure.factor * grid.validation[measure.name].mean(axis=0)[places, best]).tolist() for measure in (mean, tail)
    )
    model = found.model
    drawn = (model["loss"], model["weights"]) == (grid.loss, grid.weights)
    average = "the average, k = n" + (", recommended" if drawn and model["share"] == 1.0 else "")
    series = [
        Series(
            model_in_words(grid.loss, grid.weights),
            x,
            y,
            role="atk",
            labels=[f"{100.0 * share:.3g} %" for share in grid.shares[places]],
        ),
        Series(average, x[-1:], y[-1:], role="average"),
    ]
    if drawn and model["share"] < 1.0:
        chosen = int(np.argmin(np.abs(grid.shares[places] - model["share"])))
        series.append(Series("recommended", x[chosen : chosen + 1], y[chosen : chosen + 1], role="balanced"))
    return Chart(
        "trade-off",
        f"What k trades: {mean.title} against {tail.title}",
        mean.heading,
        tail.heading,
        series,
        note=f"Each point is a k, written as part of the rows, for {name}: cross-validation on all rows, at the "
        f"{found.words.axis} that is best for {MEASURES[found.score].title}. Down is better for the worst off, left on "
        "the whole. It shows what is on offer; whether a difference is more than chance is said by the table of "
        "answers alone.",
    )


def score_against_k(found: Findings) -> Explorer:
    """Return the cross-validated score of all rows against k, with a slider; it moves the boundary of 2-D data."""
    measure, shown = MEASURES[found.score], found.traced
    grids = [grid for grid in found.outcome.all_rows if found.score in grid.validation]
    best_average = max(float(_at_best_strength(grid, found.score).mean(axis=0)[-1] * measure.sign) for grid in grids)
    series = []
    for grid in grids:
        if len(grid.ks) == 1:
            continue
        folds = measure.factor * _at_best_strength(grid, found.score)
        mean, error = folds.mean(axis=0), folds.std(axis=0, ddof=1) / np.sqrt(len(folds))
        curve = Series(model_in_words(grid.loss, grid.weights), _ks(grid), mean.tolist())
        if grid is shown:
            curve = replace(curve, low=(mean - error).tolist(), high=(mean + error).tolist(), role="atk")
        series.append(curve)
    level = measure.factor * measure.sign * best_average
    ends = [_ks(shown)[0], _ks(shown)[-1]]
    series.append(Series("best average, any loss and weights", ends, [level] * len(ends), role="average"))
    marks = [(ends[-1], "average")]
    if found.model["share"] < 1.0 and found.model["loss"] == shown.loss and found.model["weights"] == shown.weights:
        marks.insert(0, (_ks(shown)[int(np.argmin(np.abs(_shares(shown) - found.model["share"])))], "recommended"))
    chart = Chart(
        "score-against-k",
        f"{sentence(measure.heading)} against k",
        "k, rows in the top",
        measure.heading,
        series,
        log_x=bool(ends[-1] > 10.0 * ends[0]),
        marks=marks,
        note=f"Cross-validation on all rows, at the best {found.words.axis} of each k; the band is one standard error. "
        "A curve that gets better to the left says that AT_k mends its own average; only where it is better than the "
        "line of the best average, with any loss and weights, would it gain what class weights or another loss do not.",
    )
    values = measure.factor * _at_best_strength(shown, found.score).mean(axis=0)
    # the fits of the plane are those of the grid, each at its best C
    lines = [_line(f"AT_k, k = {point['k']:.0f}", point["line"], "atk") for point in found.points]
    steps = []
    for place, (k, share, value) in enumerate(zip(_ks(shown), _shares(shown), values, strict=True)):
        label = f"k = {k:.0f} ({100 * share:.3g} % of the rows): {measure.title} {value:.4g}{measure.unit}"
        steps.append(Step(float(k), label, lines[place] if lines else None))
    start = int(np.argmin(np.abs(_shares(shown) - found.model["share"])))
    return Explorer(chart, steps, start, _plane(found) if lines else None)


def _ks(grid: Grid) -> list[float]:
    return [float(k) for k in grid.ks if k > 1.0]


def _shares(grid: Grid) -> Array:
    return grid.shares[grid.ks > 1.0]


def _at_best_strength(grid: Grid, score: str) -> Array:
    """Return the score of every fold and k but the maximum's, at the best strength of each k; shape (n_folds, n_ks)."""
    places = np.flatnonzero(grid.ks > 1.0)
    best = grid.scores(score).mean(axis=0)[places].argmax(axis=1)
    return grid.validation[score][:, places, best]


def _line(name: str, values: Sequence[float], role: str) -> Line:
    a, b, c = values
    return Line(name, a, b, c, role=role)


def _plane(found: Findings) -> Plane:
    """Return the rows in the plane, with the average and, where the slider does not get there, what is recommended."""
    plane = found.planes[0]
    lines = [_line("average, k = n", found.points[-1]["line"], "average")]
    if plane["recommended"] is not None:
        name = model_in_words(found.model["loss"], found.model["weights"])
        lines.append(_line(f"recommended: {name}", plane["recommended"], "balanced"))
    x_title, y_title = plane["names"]
    of_path = f"Fits of {model_in_words(plane['loss'], plane['weights'])} on all rows, at the C that is best for each k"
    if found.data["task"] == "classification":
        title = "The boundary at the chosen k"
        note = f"{of_path}; move the slider to change k. On one side of the line rows get one label, on the other side \
the other."
        points = [
            _points(plane, label, label, "positive" if label == plane["positive"] else "negative")
            for label in sorted(set(plane["label"]))
        ]
        return Plane("boundary", title, x_title, y_title, points, lines, note=note)
    others = plane["n_features"] - 1
    means = ["", " The other feature is at its mean.", f" The other {others} features are at their means."][
        min(others, 2)
    ]
    note = f"Each point is a row, the line what is predicted. {of_path}; move the slider to change k.{means}"
    points = [_points(plane, None, "rows", "negative")]
    if plane["smallest"] is not None:
        smallest = f"{found.data['group']}: {plane['smallest']}"
        points = [
            _points(plane, plane["smallest"], "other rows", "negative", but=True),
            _points(plane, plane["smallest"], smallest, "outlier"),
        ]
        note += f" Crosses are the rows of the smallest group, {smallest}."
    title = f"What is predicted of {y_title} at the chosen k"
    return Plane("predictions", title, x_title, y_title, points, lines, note=note, same_units=False)


def _points(plane: Record, label: str | None, name: str, role: PointRole, *, but: bool = False) -> Points:
    """Return the rows with a label, or all but these; None is any."""
    kept = [label is None or (of == label) != but for of in plane["label"]]
    return Points(name, list(compress(plane["x"], kept)), list(compress(plane["y"], kept)), role)
