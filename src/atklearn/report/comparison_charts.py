"""The charts of a comparison: the trade-off along k, the score against k, and the boundary of two features."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from atklearn.losses.individual import Array
from atklearn.measures import MEASURES
from atklearn.report.comparison_findings import Findings
from atklearn.report.content import Chart, Explorer, Line, Plane, Points, Series, Step
from atklearn.report.wording import LOSS_TITLES, WEIGHT_TITLES
from atklearn.study.evidence import Grid

__all__ = ["score_against_k", "trade_off"]

# What is weighed against each other: how all rows fare, and how the worst off do.
_TRADED = {"classification": ("error", "worst_class_error"), "regression": ("rmse", "tail_error")}


def trade_off(found: Findings) -> Chart:
    """Return the mean against the tail, along k: the cross-validation on all rows, at the best C of each k."""
    mean, tail = (MEASURES[name] for name in _TRADED[found.data["task"]])
    grid = _traded_grid(found)
    places = np.flatnonzero(grid.ks > 1.0)
    best = grid.scores(found.score).mean(axis=0)[places].argmax(axis=1)
    x, y = (
        (measure.factor * grid.validation[measure.name].mean(axis=0)[places, best]).tolist() for measure in (mean, tail)
    )
    model = found.model
    drawn = (model["loss"], model["weights"]) == (grid.loss, grid.weights)
    average = "the average, k = n" + (", recommended" if drawn and model["share"] == 1.0 else "")
    series = [
        Series(_name(grid), x, y, role="atk", labels=[f"{100.0 * share:.3g} %" for share in grid.shares[places]]),
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
        note=f"Each point is a k, written as part of the rows, for {_name(grid)}: cross-validation on all rows, at the "
        f"C that is best for {MEASURES[found.score].title}. Down is better for the worst off, left on the whole. It "
        "shows what is on offer; whether a difference is more than chance is said by the table of answers alone.",
    )


def _traded_grid(found: Findings) -> Grid:
    """Return the grid of the recommended loss and weights, or the first with a path if that has the average only."""
    chosen = found.model["loss"], found.model["weights"]
    grids = sorted(found.outcome.all_rows, key=lambda grid: (grid.loss, grid.weights) != chosen)
    return next((grid for grid in grids if len(grid.ks) > 1), grids[0])


def score_against_k(found: Findings) -> Explorer:
    """Return the cross-validated score of all rows against k, with a slider; it moves the boundary of 2-D data."""
    measure, shown = MEASURES[found.score], _traded_grid(found)
    grids = [grid for grid in found.outcome.all_rows if found.score in grid.validation]
    if found.score not in shown.validation:
        shown = next((grid for grid in grids if len(grid.ks) > 1), grids[0])
    best_average = max(float(_at_best_C(grid, found.score).mean(axis=0)[-1] * measure.sign) for grid in grids)
    series = []
    for grid in grids:
        if len(grid.ks) == 1:
            continue
        folds = measure.factor * _at_best_C(grid, found.score)
        mean, error = folds.mean(axis=0), folds.std(axis=0, ddof=1) / np.sqrt(len(folds))
        curve = Series(_name(grid), _ks(grid), mean.tolist())
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
        f"{measure.heading} against k",
        "k, rows in the top",
        measure.heading,
        series,
        log_x=bool(ends[-1] > 10.0 * ends[0]),
        marks=marks,
        note="Cross-validation on all rows, at the best C of each k; the band is one standard error. A curve that gets "
        "better to the left says that AT_k mends its own average; only where it is better than the line of the best "
        "average, with any loss and weights, would it gain what class weights or another loss do not.",
    )
    values = measure.factor * _at_best_C(shown, found.score).mean(axis=0)
    # the fits of the plane are those of the grid, in the same order; the first is the maximum
    fits = sorted(found.points, key=lambda point: float(point["k"]))[1:] if found.planes else []
    steps = []
    for place, (k, share, value) in enumerate(zip(_ks(shown), _shares(shown), values, strict=True)):
        line = None
        if len(fits) == len(values):
            a, b = fits[place]["coef"]
            line = Line(f"k = {k:.0f}", a, b, fits[place]["intercept"], role="atk")
        label = f"k = {k:.0f} ({100 * share:.3g} % of the rows): {measure.title} {value:.4g}{measure.unit}"
        steps.append(Step(float(k), label, line))
    start = int(np.argmin(np.abs(_shares(shown) - found.model["share"])))
    return Explorer(chart, steps, start, _plane(found) if len(fits) == len(values) else None)


def _name(grid: Grid) -> str:
    return ", ".join(part for part in (LOSS_TITLES[grid.loss], WEIGHT_TITLES[grid.weights]) if part)


def _ks(grid: Grid) -> list[float]:
    return [float(k) for k in grid.ks if k > 1.0]


def _shares(grid: Grid) -> Array:
    return grid.shares[grid.ks > 1.0]


def _at_best_C(grid: Grid, score: str) -> Array:
    """Return the score of every fold and k but the maximum's, at the best C of each k; shape (n_folds, n_ks)."""
    places = np.flatnonzero(grid.ks > 1.0)
    best = grid.scores(score).mean(axis=0)[places].argmax(axis=1)
    return grid.validation[score][:, places, best]


def _plane(found: Findings) -> Plane:
    plane = found.planes[0]
    labels = np.array(plane["label"])
    x, y = np.array(plane["x"]), np.array(plane["y"])
    points = [
        Points(
            str(label),
            x[labels == label].tolist(),
            y[labels == label].tolist(),
            "positive" if label == plane["positive"] else "negative",
        )
        for label in np.unique(labels)
    ]
    first, second = plane["names"]
    note = "Fits on all rows; move the slider to change k."
    return Plane("boundary", "The boundary at the chosen k", first, second, points, note=note)
