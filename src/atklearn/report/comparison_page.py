"""The report of a comparison, from the records of its results file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from atklearn.measures import MEASURES
from atklearn.measures.catalogue import GROUP_MEASURES
from atklearn.report.comparison_findings import Findings, headline
from atklearn.report.content import (
    Block,
    Cell,
    Chart,
    Explorer,
    Line,
    Page,
    Plane,
    Points,
    Section,
    Series,
    Step,
    Table,
)
from atklearn.report.wording import (
    AGGREGATE_TITLES,
    LOSS_TITLES,
    WEIGHT_TITLES,
    certified,
    mean_and_spread,
    number,
    p_value,
    percent,
)
from atklearn.study.evidence import SIGNIFICANCE, Comparison, Grid
from atklearn.study.methods import AGGREGATES, ANY, Method, in_order
from atklearn.study.results import Record

__all__ = ["comparison_page"]


def comparison_page(records: Iterable[Record]) -> Page:
    """Return the report of a finished comparison.

    Parameters
    ----------
    records : iterable of Record
        Of its results file.
    """
    found = Findings(records)
    sections = [
        Section("answer", "The answer", [_recommendation(found), _verdict_table(found)]),
        Section("measures", "All measures", [_measures_table(found), _differences_table(found), *_group_tables(found)]),
        Section("curve", "The score against k", _curves(found)),
        Section("hard", "The hardest rows", _hard_rows(found)),
    ]
    title = f"Maximum, average and AT_k on {found.data['dataset']}"
    return Page(title, headline(found), found.outcome.verdict, sections, _provenance(found))


def _recommendation(found: Findings) -> str:
    model = found.model
    weights = " and balanced class weights" if model["weights"] == "balanced" else ""
    what = (
        f"k = {model['share']:.3g} ({model['k']:.0f} of {found.data['n']} rows)"
        if model["share"] < 1.0
        else f"k = n, the average (all {found.data['n']} rows)"
    )
    return f"Recommended: {what}, with {LOSS_TITLES[model['loss']]}{weights} and C = {model['C']:g}: {model['reason']}."


def _ordered(outcome: Comparison) -> list[Method]:
    """Return the methods, those of a loss together."""
    return sorted(
        outcome.choices,
        key=lambda method: (in_order(method.loss), AGGREGATES.index(method.aggregate)),
    )


def _name(method: Method) -> str:
    parts = [AGGREGATE_TITLES[method.aggregate], LOSS_TITLES[method.loss], WEIGHT_TITLES[method.weights]]
    return ", ".join(part for part in parts if part)


def _verdict_table(found: Findings) -> Table:
    """Return the two methods the verdict is about, and what the difference costs or gains in other measures."""
    outcome = found.outcome
    average, ours = (outcome.choices[Method(aggregate, ANY, ANY)] for aggregate in ("average", "atk"))
    measures = [measure for measure in found.measures if MEASURES[measure].across_losses]
    rows = []
    for name, choices in (("best average", average), ("best AT_k", ours)):
        shares = [choice.share for choice in choices]
        spread = f"{min(shares):.2g} to {max(shares):.2g}" if min(shares) < max(shares) else f"{min(shares):.2g}"
        values = [mean_and_spread([choice.test[measure] for choice in choices], measure) for measure in measures]
        rows.append([Cell(name), *(Cell(value) for value in values), Cell(spread)])
    differences = [outcome.between(ours, average, measure) for measure in measures]
    entries = [
        f"{number(difference.mean, measure, signed=True)}±{number(difference.error, measure)}"
        for difference, measure in zip(differences, measures, strict=True)
    ]
    rows.append([Cell("difference"), *(Cell(entry) for entry in entries), Cell("")])
    return Table(
        "verdict",
        "What the verdict compares",
        ["method", *(MEASURES[measure].heading for measure in measures), "k/n"],
        rows,
        f"Mean and standard deviation over the test parts; corrected standard error of the difference. Loss, class "
        f"weights, C and k are chosen within each training part by {MEASURES[found.score].title}. AT_k "
        f"includes the average (k = n) and keeps it unless a smaller k is clearly better: it took a k below n on "
        f"{sum(choice.share < 1.0 for choice in ours)} of {len(ours)} splits. The test is the paired t-test, corrected "
        f"for training parts that overlap (Nadeau and Bengio, 2003), at {percent(SIGNIFICANCE)}.",
    )


def _measures_table(found: Findings) -> Table:
    outcome, rows = found.outcome, []
    methods = [method for method in _ordered(outcome) if method.loss != ANY]
    best = {
        measure: max(
            MEASURES[measure].sign * float(np.mean([choice.test[measure] for choice in outcome.choices[method]]))
            for method in methods
        )
        for measure in found.measures
    }
    for method in methods:
        choices = outcome.choices[method]
        cells = []
        for measure in found.measures:
            values = [choice.test[measure] for choice in choices]
            top = MEASURES[measure].sign * float(np.mean(values)) >= best[measure]
            cells.append(
                Cell(mean_and_spread(values, measure), "best" if top and MEASURES[measure].across_losses else "")
            )
        rows.append([Cell(_name(method)), *cells])
    return Table(
        "measures",
        "Test parts: mean ± standard deviation over the splits",
        ["method", *(MEASURES[measure].heading for measure in found.measures)],
        rows,
        " ".join(
            [
                f"k and C chosen by {MEASURES[found.score].title} within each training part.",
                *(MEASURES[measure].note for measure in found.measures if MEASURES[measure].note),
            ]
        ),
    )


def _differences_table(found: Findings) -> Table:
    rows = []
    for method in _ordered(found.outcome):
        if method.aggregate == "average" or method.loss == ANY:
            continue
        choices = found.outcome.choices[method]
        difference = found.outcome.against_average(method)
        shares = [choice.share for choice in choices]
        error = number(difference.error, found.score) if np.isfinite(difference.error) else "?"
        rows.append([
            Cell(_name(method)),
            Cell(f"{number(difference.mean, found.score, signed=True)}±{error}"),
            Cell(p_value(difference.p_value).removeprefix("p ").removeprefix("= ")),
            Cell(f"{np.median(shares):.2g}"),
            Cell(f"{sum(share < 1.0 for share in shares)} of {len(shares)}"),
        ])  # fmt: skip
    return Table(
        "differences",
        f"Difference to the average with the same loss and weights: {MEASURES[found.score].heading}",
        ["method", "difference", "p", "median k/n", "k < n"],
        rows,
        "Mean and corrected standard error over the splits; several comparisons, so a single small p is weak evidence.",
    )


def _group_tables(found: Findings) -> list[Block]:
    """Return the error of every group of rows, if groups were given."""
    average, ours = (found.outcome.choices[Method(aggregate, ANY, ANY)] for aggregate in ("average", "atk"))
    names = sorted({name for choice in ours for name in choice.groups})
    if not names:
        return []
    measure = GROUP_MEASURES[found.data["task"]]
    rows = []
    for name in names:
        cells = [
            Cell(mean_and_spread([choice.groups[name] for choice in choices if name in choice.groups], measure))
            for choices in (average, ours)
        ]
        rows.append([Cell(name), *cells])
    worst = [
        Cell(mean_and_spread([max(choice.groups.values()) for choice in choices], measure))
        for choices in (average, ours)
    ]
    rows.append([Cell("worst on each split"), *worst])
    return [
        Table(
            "groups",
            f"By {found.data['group']}: {MEASURES[measure].heading}",
            ["group", "best average", "best AT_k"],
            rows,
            "Mean ± standard deviation over the test parts that have rows of the group.",
        )
    ]


def _curves(found: Findings) -> list[Block]:
    """Return the cross-validated score of all rows against k, with a slider; it moves the boundary of 2-D data."""
    score, model = found.score, found.model
    series, shown = [], None
    for grid in found.grids[None]:
        x, y, low, high = _curve(grid, score)
        recommended = (grid.loss, grid.weights) == (model["loss"], model["weights"])
        name = ", ".join(part for part in (LOSS_TITLES[grid.loss], WEIGHT_TITLES[grid.weights]) if part)
        role = "atk" if recommended else "other"
        band = (low, high) if recommended else ((), ())
        series.append(Series(name, x, y, *band, role=role))
        if recommended:
            shown = grid, y
    assert shown is not None
    grid, values = shown
    unit = MEASURES[score].unit
    name = MEASURES[score].title
    marks = [(float(grid.ks[-1]), "average")]
    if model["share"] < 1.0:
        marks.insert(0, (float(model["share"] * grid.ks[-1]), "recommended"))
    chart = Chart(
        "score-against-k",
        f"{MEASURES[score].heading} against k",
        "k, rows in the top",
        MEASURES[score].heading,
        series,
        log_x=bool(grid.ks[-1] > 10.0 * grid.ks[1]),
        marks=marks,
        note="Cross-validation on all rows, at the best C of each k; the band is one standard error of the recommended "
        "loss and weights. The recommendation is read off here; the verdict is not, but off the test parts.",
    )
    # the fits of the plane are those of the grid, in the same order; the first is the maximum
    fits = sorted(found.points, key=lambda point: float(point["k"]))[1:] if found.planes else [None] * len(values)
    steps = []
    for k, share, value, fit in zip(grid.ks[1:], grid.shares[1:], values, fits, strict=True):
        line = None
        if fit is not None:
            a, b = fit["coef"]
            line = Line(f"k = {k:.0f}", a, b, fit["intercept"], role="atk")
        label = f"k = {k:.0f} ({100 * share:.3g} % of the rows): {name} {value:.4g}{unit}"
        steps.append(Step(float(k), label, line))
    start = int(np.argmin(np.abs(grid.shares[1:] - model["share"])))
    return [Explorer(chart, steps, start, _plane(found) if found.planes else None)]


def _curve(grid: Grid, score: str) -> tuple[Sequence[float], Sequence[float], Sequence[float], Sequence[float]]:
    """Return k, and mean and one standard error around it, at the best C of every k but the maximum's."""
    factor = MEASURES[score].factor
    folds = grid.validation[score][:, 1:]
    best = (MEASURES[score].sign * folds.mean(axis=0)).argmax(axis=1)
    at_best = factor * folds[:, np.arange(len(best)), best]
    mean, error = at_best.mean(axis=0), at_best.std(axis=0, ddof=1) / np.sqrt(len(folds))
    return [float(k) for k in grid.ks[1:]], mean.tolist(), (mean - error).tolist(), (mean + error).tolist()


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


def _hard_rows(found: Findings) -> list[Block]:
    blocks: list[Block] = []
    share = found.model["top_share"]
    what = "the top k of the recommended fit" if found.model["share"] < 1.0 else f"the {share:.0%} largest losses"
    for kind, entries in found.model["top"].items():
        rows = [
            [Cell(value), Cell(str(n)), Cell(str(top)), Cell(f"{100.0 * top / n:.0f}")] for value, n, top in entries
        ]
        title = f"Who is in {what}, by {found.data['target'] if kind == 'class' else found.data['group']}"
        blocks.append(Table(f"top-by-{kind}", title, [kind, "rows", "in the top", "% of them"], rows))
    names = list(found.hard_rows[0]["values"]) if found.hard_rows else []
    rows = [
        [
            Cell(str(row["row"])), Cell(f"{row['loss']:.3g}"), Cell(row["target"]), Cell(row["prediction"]),
            *(Cell(row["values"][name]) for name in names),
        ]
        for row in found.hard_rows
    ]  # fmt: skip
    blocks.append(
        Table(
            "hardest-rows",
            "The rows with the largest losses in the recommended fit",
            ["row", "loss", found.data["target"], "prediction", *names],
            rows,
            "Row 1 is the first of the data. Look here for mislabelled rows, and for groups the model does not reach.",
        )
    )
    return blocks


def _provenance(found: Findings) -> list[tuple[str, str]]:
    run, data, config = found.run, found.data, found.run["config"]
    classes = [f"{name}: {count}" for name, count in zip(data.get("classes", ()), data.get("counts", ()), strict=True)]
    return [
        ("Data", f"{data['dataset']}: {data['n']} rows, {data['d']} columns, target {data['target']}, {data['task']}"),
        *([("Classes", ", ".join(classes))] if classes else []),
        *([("Rows compared on", f"{data['n_used']}, drawn at random")] if data["n_used"] < data["n"] else []),
        *(("Note", note) for note in data["notes"]),
        ("Splits", f"{config['n_splits']} random splits, {percent(data['shares']['train'])} to train, "
         f"{percent(data['shares']['test'])} to test"),
        ("Choice of k and C", f"within each training part, {_folds(found)}, by {MEASURES[found.score].title}"),
        ("Grids", _sizes(found.grids[None])),
        ("Features", f"made by a pipeline fitted to each training part: {data['features']}"),
        ("Fits of the grids", certified(found.cells)),
        ("Recommended fit", certified([found.model])),
        *([("Fits of the boundaries", certified(found.points))] if found.points else []),
        ("Started", run["started"]),
        ("Fingerprint of the data", config["data"]),
        ("Versions", ", ".join(f"{name} {version}" for name, version in run["versions"].items())),
    ]  # fmt: skip


def _folds(found: Findings) -> str:
    """Say how the training parts were cross-validated, each in its way: its size and its rarest class decide."""
    grids = [grid for split, of_split in found.grids.items() if split is not None for grid in of_split]
    rounds = {(grid.n_folds, len(grid.validation[found.score]) // grid.n_folds) for grid in grids if grid.n_folds}
    return " or ".join(
        f"{folds}-fold cross-validation{f', repeated {times} times' if times > 1 else ''}"
        for folds, times in sorted(rounds)
    )


def _sizes(grids: Sequence[Grid]) -> str:
    """Say how many k and C there are; the first k is the maximum."""
    ks, Cs = grids[0].ks, grids[0].Cs
    return f"{len(ks) - 1} values of k and the maximum, {len(Cs)} of C from {Cs[0]:g} to {Cs[-1]:g}"
