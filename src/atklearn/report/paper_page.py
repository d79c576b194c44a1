"""The report of a reproduction: the paper's tables and figures, ours beside the printed ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from atklearn.selection.choosing import choose_best
from atklearn.study.evidence import SIGNIFICANCE, Grid, collect_grids, paired_difference, sign
from atklearn.losses.individual import Array
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
from atklearn.report.paper_numbers import APPENDIX_RANGES, PAPER_TABLES, Printed
from atklearn.report.wording import LOSSES, MEASURES
from atklearn.study.results import Record

__all__ = ["paper_page", "paper_summary"]

_TITLES = {
    "error": ("Table 1", "misclassification, %"),
    "rmse": ("Table 2", "RMSE, targets scaled to [0, 1]"),
    "g_mean": ("Table 3", "G-mean, %"),
    "mae": ("Table 4", "MAE, targets scaled to [0, 1]"),
}
_SHORT = {"log_loss": "logistic", "hinge": "hinge", "squared_error": "square", "absolute_error": "absolute"}
_TEST_TO_TRAIN = 0.25 / 0.5
_SHOWN_K = 10  # the AT_k of Figure 1


def paper_page(records: Iterable[Record]) -> Page:
    """Return the report of a reproduction, of as much as its results file holds.

    Parameters
    ----------
    records : iterable of Record
    """
    kinds: dict[Any, list[Record]] = {}
    for record in records:
        kinds.setdefault((record["record"], record.get("figure")), []).append(record)
    run = kinds["run", None][0]
    data = {record["dataset"]: record for record in kinds.get(("data", None), [])}
    results = _collect(kinds.get(("cell", None), []), list(data))
    sections = [
        *_table_sections(results, data),
        *_figure_1(kinds.get(("plane", 1), []), kinds.get(("point", 1), []), run["config"]["solver"]),
        *_figure_2(kinds.get(("curve", 2), [])),
        *_figure_3(kinds.get(("curve", 3), []), data),
        *_skipped(kinds.get(("skipped", None), [])),
    ]
    return Page(
        "Learning with Average Top-k Loss: tables and figures, recomputed",
        _headline(results),
        "summary",
        sections,
        _provenance(run, data),
    )


def paper_summary(records: Iterable[Record]) -> dict[str, Any]:
    """Return the tables as plain data, for programs."""
    kept = list(records)
    data = [record["dataset"] for record in kept if record["record"] == "data"]
    results = _collect([record for record in kept if record["record"] == "cell"], data)
    return {
        "headline": _headline(results),
        "tables": {
            measure: {
                dataset: {
                    loss: {
                        column: {"mean": float(values.mean()), "standard_deviation": _spread(values)}
                        for column, values in columns.items()
                    }
                    for loss, columns in by_loss.items()
                }
                for dataset, by_loss in by_dataset.items()
            }
            for measure, by_dataset in results.items()
        },
    }


# Per measure, data set, loss and column: the value on every split.
_Results = dict[str, dict[str, dict[str, dict[str, Array]]]]


def _collect(cells: list[Record], datasets: list[str]) -> _Results:
    """Return what the paper's protocol gives: choices by validation, and the best k in hindsight."""
    results: _Results = {measure: {} for measure in _TITLES}
    for dataset in datasets:
        grids = collect_grids(cells, dataset)
        for measure, printed in PAPER_TABLES.items():
            if dataset not in printed or not grids:
                continue
            for loss in printed[dataset]:
                rows = [_columns(grid, measure) for split in grids.values() for grid in split if grid.loss == loss]
                columns = {name: MEASURES[measure][1] * np.array([row[name] for row in rows]) for name in rows[0]}
                results[measure].setdefault(dataset, {})[loss] = columns
    return results


def _columns(grid: Grid, measure: str) -> dict[str, float]:
    """Return the test values of one split: of maximum, average and AT_k, and with k in hindsight."""
    scores, test = sign(measure) * grid.validation[measure], grid.test[measure]
    best_C = scores[0].argmax(axis=1)
    at_best_C = test[np.arange(len(grid.ks)), best_C]
    return {
        "maximum": float(test[0, choose_best(scores[:, :1])[1]]),
        "average": float(test[-1, choose_best(scores[:, -1:])[1]]),
        "atk": float(test[choose_best(scores)]),
        "hindsight": sign(measure) * float((sign(measure) * at_best_C).max()),
    }


def _misses(results: _Results) -> list[tuple[str, str, str, float]]:
    """Return the averages of Tables 1 and 2 away from the paper's by more than two of its standard deviations."""
    found = []
    for measure in ("error", "rmse"):
        for dataset, by_loss in results[measure].items():
            for loss, columns in by_loss.items():
                mean, spread = PAPER_TABLES[measure][dataset][loss].average
                away = (float(columns["average"].mean()) - mean) / spread
                if abs(away) > 2.0:
                    found.append((measure, dataset, loss, away))
    return found


def _headline(results: _Results) -> str:
    cells = [
        columns for measure in ("error", "rmse") for sets in results[measure].values() for columns in sets.values()
    ]
    if not cells:
        return "Figures only."
    misses = _misses(results)
    named = ", ".join(f"{dataset} {LOSSES[loss]} ({away:+.1f})" for _, dataset, loss, away in misses)
    honest, hindsight = (
        sum(
            (difference := paired_difference(columns[name] - columns["average"], _TEST_TO_TRAIN)).mean < 0.0
            and difference.p_value < SIGNIFICANCE
            for columns in cells
        )
        for name in ("atk", "hindsight")
    )
    return (
        f"{len(cells) - len(misses)} of {len(cells)} averages of Tables 1 and 2 lie within two of the paper's standard "
        f"deviations{f'; away: {named}' if named else ''}. AT_k with k chosen on the validation part is significantly "
        f"better than the average in {honest} of {len(cells)}; with the best k in hindsight it would seem so in "
        f"{hindsight}."
    )


def _table_sections(results: _Results, data: dict[str, Record]) -> list[Section]:
    tables = [_table(measure, by_dataset, data) for measure, by_dataset in results.items() if by_dataset]
    if not tables:
        return []
    introduction = (
        "Each data set has two rows per loss: ours, and the paper's. k and C are chosen on the validation part by the "
        "measure shown. The last column, hindsight, takes the k that is best on the test part itself: optimistic, and "
        "no method anyone could use. The exact optimum of the maximum loss on noisy data is w = 0, which predicts one "
        "class; the paper's maximum column shows stochastic descent that had not got there."
    )
    return [Section("tables", "Tables 1 to 4", [introduction, *tables])]


def _table(measure: str, by_dataset: dict[str, dict[str, dict[str, Array]]], data: dict[str, Record]) -> Table:
    number, what = _TITLES[measure]
    digits = 2 if MEASURES[measure][1] == 100.0 else 4
    rows = []
    for dataset, by_loss in by_dataset.items():
        emphasis = _emphasis(by_loss, measure)
        for loss, columns in by_loss.items():
            printed: Printed = PAPER_TABLES[measure][dataset][loss]
            ours = [Cell(f"{data[dataset]['title']}, {_SHORT[loss]}")]
            for column, values in columns.items():
                text = _entry(float(values.mean()), _spread(values), digits)
                away = column == "average" and abs(values.mean() - printed.average[0]) > 2.0 * printed.average[1]
                kind: Any = "optimistic" if column == "hindsight" else "miss" if away else emphasis[loss, column]
                ours.append(Cell(text, kind))
            theirs = [Cell(_entry(mean, spread, digits)) for mean, spread in printed]
            rows += [ours, [Cell("paper"), *theirs, Cell("")]]
    return Table(
        f"table-{measure.replace('_', '-')}",
        f"{number}: {what}",
        ["data set, loss", "maximum", "average", "AT_k", "hindsight"],
        rows,
        "Mean (standard deviation) over the splits. Bold and underlined are ours, over both losses of a data set, by "
        "the paired t-test at 5 %, corrected for training parts that overlap (Nadeau and Bengio, 2003); the dagger "
        "marks an average away from the paper's by more than two of its standard deviations.",
    )


def _entry(mean: float, spread: float, digits: int) -> str:
    """Return mean and standard deviation as the paper prints them, such as 20.46(2.02) or 0.1147(.0060)."""
    return f"{mean:.{digits}f}({f'{spread:.{digits}f}'.removeprefix('0' if digits == 4 else '')})"


def _emphasis(by_loss: dict[str, dict[str, Array]], measure: str) -> dict[tuple[str, str], str]:
    """Return which of the honest columns is best, and which are not significantly different from it."""
    values = {
        (loss, column): columns[column] for loss, columns in by_loss.items() for column in ("maximum", "average", "atk")
    }
    best = max(values, key=lambda key: sign(measure) * float(values[key].mean()))
    found = {}
    for key, column in values.items():
        if float(column.mean()) == float(values[best].mean()):
            found[key] = "best"
        else:
            test = paired_difference(column - values[best], _TEST_TO_TRAIN)
            found[key] = "close" if test.p_value >= SIGNIFICANCE else ""
    return found


def _figure_1(planes: list[Record], points: list[Record], solver: str) -> list[Section]:
    """Return an explorer per toy case and loss, and the ranges of k beside the appendix's."""
    if not planes:
        return []
    fits: dict[tuple[str, str], list[Record]] = {}
    for point in points:
        fits.setdefault((point["dataset"], point["loss"]), []).append(point)
    rows, blocks = [], []
    for plane in sorted(planes, key=lambda plane: (plane["dataset"], plane["loss"] != "log_loss")):
        path = sorted(fits[plane["dataset"], plane["loss"]], key=lambda point: float(point["k"]))
        blocks.append(_toy_explorer(plane, path))
        case = int(plane["dataset"].removeprefix("case "))
        first, last = APPENDIX_RANGES[case][plane["loss"]]
        least = min(point["error"] for point in path)
        at_10, average = path[_SHOWN_K - 1]["error"], path[-1]["error"]
        rows.append([
            Cell(f"{case}, {LOSSES[plane['loss']]}"), Cell(f"{100 * least:.1f}"),
            Cell(_ranges([int(point["k"]) for point in path if point["error"] == least])), Cell(f"{first}-{last}"),
            Cell(f"{100 * at_10:.1f}"), Cell(f"{100 * average:.1f}"),
        ])  # fmt: skip
    table = Table(
        "toy-ranges",
        "The k that classify best",
        ["case, loss", "least error %", "at k", "appendix: k", "k = 10: error %", "k = n: error %"],
        rows,
        f"{'Exact optima' if solver == 'exact' else 'Stochastic descent with the settings of the paper'} at C = 100 "
        "with a penalised intercept, all k from 1 to 200, error on the sample itself as in the paper. Where the range "
        "of exact optima starts later than the appendix's, the optimum at smaller k is w = 0.",
    )
    introduction = "Move the slider to change k; maximum, average and AT_10 stay. The Bayes classifier is shaded."
    return [Section("figure-1", "Figure 1: six toy cases", [table, introduction, *blocks])]


def _toy_explorer(plane: Record, path: list[Record]) -> Explorer:
    name = f"{plane['dataset'].replace(' ', '-')}-{plane['loss'].replace('_', '-')}"
    title = f"{plane['dataset'].capitalize()}, {LOSSES[plane['loss']]}"
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
    fixed = {"maximum": path[0], "average": path[-1], f"AT_{_SHOWN_K}": path[_SHOWN_K - 1]}
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
                  Line("Bayes", *plane["bayes"]), "Boundaries of maximum, average, AT_10, and of the k of the slider "
                  "on the sample; shaded is the Bayes classifier.")  # fmt: skip
    return Explorer(chart, steps, _SHOWN_K - 1, drawn)


def _line(name: str, fit: Record, role: str) -> Line:
    a, b = fit["coef"]
    return Line(name, a, b, fit["intercept"], role)


def _figure_2(curves: list[Record]) -> list[Section]:
    charts: list[Block] = []
    for loss in sorted({curve["loss"] for curve in curves}, key=lambda loss: loss != "log_loss"):
        series = [
            Series(
                LOSSES[loss] if curve["lambda"] == 0.0 else f"shifted by {curve['lambda']:g}, cut at 0",
                curve["x"], curve["y"], role="average" if curve["lambda"] == 0.0 else "other",
            )
            for curve in curves if curve["loss"] == loss
        ]  # fmt: skip
        charts.append(
            Chart(
                f"shifted-{loss.replace('_', '-')}", f"{LOSSES[loss].capitalize()} as AT_k sees it", "y f(x)", "loss",
                series, marks=[(0.0, "correct to the right")],
                note="AT_k lowers the individual loss by lambda and cuts it at zero: samples that are classified well "
                "enough no longer count.",
            )
        )  # fmt: skip
    return [Section("figure-2", "Figure 2: the shifted, truncated loss", charts)] if charts else []


def _figure_3(curves: list[Record], data: dict[str, Record]) -> list[Section]:
    charts: list[Block] = []
    for dataset in dict.fromkeys(curve["dataset"] for curve in curves):
        series = []
        for loss, role in (("log_loss", "atk"), ("hinge", "balanced")):
            chosen = [curve for curve in curves if (curve["dataset"], curve["loss"]) == (dataset, loss)]
            errors = 100.0 * np.array([curve["y"] for curve in sorted(chosen, key=lambda curve: int(curve["split"]))])
            mean = errors.mean(axis=0)
            half = errors.std(axis=0, ddof=1) / np.sqrt(len(errors)) if len(errors) > 1 else np.zeros(mean.size)
            series.append(
                Series(
                    LOSSES[loss], chosen[0]["x"], mean.tolist(), (mean - half).tolist(), (mean + half).tolist(), role
                )
            )
        charts.append(
            Chart(
                f"error-against-k-{dataset}", data[dataset]["title"], "k", "error on the test part, %", series,
                log_x=True, note="Mean over the splits and one standard error, C = 100. At small k the exact optimum "
                "is w = 0, which predicts one class.",
            )
        )  # fmt: skip
    return [Section("figure-3", "Figure 3: error against k", charts)] if charts else []


def _skipped(records: list[Record]) -> list[Section]:
    if not records:
        return []
    return [Section("skipped", "Not run", [f"{record['dataset']}: {record['reason']}" for record in records])]


def _provenance(run: Record, data: dict[str, Record]) -> list[tuple[str, str]]:
    config = run["config"]
    return [
        *((record["title"], f"{record['n']} samples, {record['d']} features, {record['source']}")
          for record in data.values()),
        ("Protocol", f"{config['n_splits']} random splits, 50 % to train, 25 % to choose, 25 % to test; C from 1e-5 to "
         "1e5, extended while the best is at an end; k log-spaced from 1 to n; penalised intercept; features scaled to "
         "[-1, 1] on the training part; Sinc drawn anew for every split"),
        ("Solver", config["solver"]),
        ("Rerun", f"atklearn reproduce all --data DIR --solver {config['solver']}"),
        ("Started", run["started"]),
        ("Versions", ", ".join(f"{name} {version}" for name, version in run["versions"].items())),
    ]  # fmt: skip


def _spread(values: Array) -> float:
    return float(values.std(ddof=1)) if values.size > 1 else 0.0


def _ranges(numbers: Sequence[int]) -> str:
    """Return ascending numbers as ranges.

    Examples
    --------
    >>> _ranges([1, 2, 3, 7, 9, 10])
    '1-3, 7, 9-10'
    """
    parts: list[list[int]] = []
    for value in numbers:
        if parts and parts[-1][-1] == value - 1:
            parts[-1].append(value)
        else:
            parts.append([value])
    return ", ".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)
