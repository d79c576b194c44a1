"""The report of a reproduction: the paper's tables and figures, ours beside the printed ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from atklearn.losses.individual import Array
from atklearn.measures import MEASURES
from atklearn.report.content import Cell, Page, Section, Table
from atklearn.report.paper_charts import error_against_k, shifted_losses, toy_cases
from atklearn.report.paper_numbers import PAPER_TABLES, TABLE_NUMBERS, Printed
from atklearn.report.wording import LOSS_TITLES, certified, percent
from atklearn.selection.choosing import choose_best
from atklearn.study.evidence import Grid, collect_grids, ratio_of_parts
from atklearn.study.results import Record
from atklearn.study.verdicts import SIGNIFICANCE, paired_difference

__all__ = ["paper_page", "paper_summary"]


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
    config = run["config"]
    data = {record["dataset"]: record for record in kinds.get(("data", None), [])}
    results = _collect(kinds.get(("cell", None), []), list(data))
    sections = [
        *_table_sections(results, data, config["protocol"]),
        *toy_cases(kinds.get(("plane", 1), []), kinds.get(("point", 1), []), config),
        *shifted_losses(kinds.get(("curve", 2), [])),
        *error_against_k(kinds.get(("curve", 3), []), data),
        *_skipped(kinds.get(("skipped", None), [])),
    ]
    fits = {
        "Fits of the tables": kinds.get(("cell", None), []),
        "Fits of Figure 1": kinds.get(("point", 1), []),
        "Fits of Figure 3": kinds.get(("curve", 3), []),
    }
    return Page(
        "Learning with Average Top-k Loss: tables and figures, recomputed",
        "In short",
        _headline(results, ratio_of_parts(config["protocol"]["shares"])),
        "summary",
        sections,
        _provenance(run, data, fits),
    )


def paper_summary(records: Iterable[Record]) -> dict[str, Any]:
    """Return the tables as plain data, for programs."""
    kept = list(records)
    data = [record["dataset"] for record in kept if record["record"] == "data"]
    shares = kept[0]["config"]["protocol"]["shares"]
    results = _collect([record for record in kept if record["record"] == "cell"], data)
    return {
        "headline": _headline(results, ratio_of_parts(shares)),
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
    results: _Results = {measure: {} for measure in TABLE_NUMBERS}
    for dataset in datasets:
        grids = collect_grids(cells, dataset)
        for measure, printed in PAPER_TABLES.items():
            if dataset not in printed or not grids:
                continue
            for loss in printed[dataset]:
                rows = [_columns(grid, measure) for split in grids.values() for grid in split if grid.loss == loss]
                columns = {name: MEASURES[measure].factor * np.array([row[name] for row in rows]) for name in rows[0]}
                results[measure].setdefault(dataset, {})[loss] = columns
    return results


def _columns(grid: Grid, measure: str) -> dict[str, float]:
    """Return the test values of one split: of maximum, average and AT_k, and with k in hindsight."""
    sign, test = MEASURES[measure].sign, grid.test[measure]
    scores = sign * grid.validation[measure]
    best_C = scores[0].argmax(axis=1)
    at_best_C = test[np.arange(len(grid.ks)), best_C]
    return {
        "maximum": float(test[0, choose_best(scores[:, :1])[1]]),
        "average": float(test[-1, choose_best(scores[:, -1:])[1]]),
        "atk": float(test[choose_best(scores)]),
        "hindsight": sign * float((sign * at_best_C).max()),
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


def _headline(results: _Results, test_to_train: float) -> str:
    cells = [
        columns for measure in ("error", "rmse") for sets in results[measure].values() for columns in sets.values()
    ]
    if not cells:
        return "Figures only."
    misses = _misses(results)
    named = ", ".join(f"{dataset} {LOSS_TITLES[loss]} ({away:+.1f})" for _, dataset, loss, away in misses)
    honest, hindsight = (
        sum(
            (difference := paired_difference(columns[name] - columns["average"], test_to_train)).mean < 0.0
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


def _table_sections(results: _Results, data: dict[str, Record], protocol: dict[str, Any]) -> list[Section]:
    tables = [_table(measure, by_dataset, data, protocol) for measure, by_dataset in results.items() if by_dataset]
    if not tables:
        return []
    introduction = (
        "Each data set has two rows per loss: ours, and the paper's. k and C are chosen on the validation part by the "
        "measure shown. The last column, hindsight, takes the k that is best on the test part itself: optimistic, and "
        "no method anyone could use. The exact optimum of the maximum loss on noisy data is w = 0, which predicts one "
        "class; the paper's maximum column shows stochastic descent that had not got there."
    )
    return [Section("tables", "Tables 1 to 4", [introduction, *tables])]


def _table(
    measure: str,
    by_dataset: dict[str, dict[str, dict[str, Array]]],
    data: dict[str, Record],
    protocol: dict[str, Any],
) -> Table:
    """Return a table of the paper with our rows in it."""
    digits = 2 if MEASURES[measure].percent else 4  # as the paper prints them
    targets = f", targets {protocol['targets']}" if "regression" in MEASURES[measure].tasks else ""
    rows = []
    for dataset, by_loss in by_dataset.items():
        emphasis = _emphasis(by_loss, measure, ratio_of_parts(protocol["shares"]))
        for loss, columns in by_loss.items():
            printed: Printed = PAPER_TABLES[measure][dataset][loss]
            ours = [Cell(f"{data[dataset]['title']}, {LOSS_TITLES[loss]}")]
            for column, values in columns.items():
                text = _entry(float(values.mean()), _spread(values), digits)
                away = column == "average" and abs(values.mean() - printed.average[0]) > 2.0 * printed.average[1]
                kind: Any = "optimistic" if column == "hindsight" else "miss" if away else emphasis[loss, column]
                ours.append(Cell(text, kind))
            theirs = [Cell(_entry(mean, spread, digits)) for mean, spread in printed]
            rows += [ours, [Cell("paper"), *theirs, Cell("")]]
    return Table(
        f"table-{measure.replace('_', '-')}",
        f"{TABLE_NUMBERS[measure]}: {MEASURES[measure].heading}{targets}",
        ["data set, loss", "maximum", "average", "AT_k", "hindsight"],
        rows,
        "Mean (standard deviation) over the splits. Bold and underlined are ours, over both losses of a data set, by "
        f"the paired t-test at {percent(SIGNIFICANCE)}, corrected for training parts that overlap (Nadeau and Bengio, "
        "2003); the dagger marks an average away from the paper's by more than two of its standard deviations.",
    )


def _entry(mean: float, spread: float, digits: int) -> str:
    """Return mean and standard deviation as the paper prints them, such as 20.46(2.02) or 0.1147(.0060)."""
    return f"{mean:.{digits}f}({f'{spread:.{digits}f}'.removeprefix('0' if digits == 4 else '')})"


def _emphasis(by_loss: dict[str, dict[str, Array]], measure: str, test_to_train: float) -> dict[tuple[str, str], str]:
    """Return which of the honest columns is best, and which are not significantly different from it."""
    values = {
        (loss, column): columns[column] for loss, columns in by_loss.items() for column in ("maximum", "average", "atk")
    }
    best = max(values, key=lambda key: MEASURES[measure].sign * float(values[key].mean()))
    found = {}
    for key, column in values.items():
        if float(column.mean()) == float(values[best].mean()):
            found[key] = "best"
        else:
            test = paired_difference(column - values[best], test_to_train)
            found[key] = "close" if test.p_value >= SIGNIFICANCE else ""
    return found


def _skipped(records: list[Record]) -> list[Section]:
    if not records:
        return []
    return [Section("skipped", "Not run", [f"{record['dataset']}: {record['reason']}" for record in records])]


def _provenance(run: Record, data: dict[str, Record], fits: dict[str, list[Record]]) -> list[tuple[str, str]]:
    config = run["config"]
    return [
        *((record["title"], f"{record['n']} samples, {record['d']} features, {record['source']}")
          for record in data.values()),
        ("Protocol", _protocol(config)),
        ("Solver", config["solver"]),
        *((name, certified(records)) for name, records in fits.items() if records),
        ("Rerun", f"atklearn reproduce all --data DIR --splits {config['n_splits']} --solver {config['solver']}"),
        ("Started", run["started"]),
        ("Versions", ", ".join(f"{name} {version}" for name, version in run["versions"].items())),
    ]  # fmt: skip


def _protocol(config: dict[str, Any]) -> str:
    protocol = config["protocol"]
    (low, high), (lowest, highest) = protocol["Cs"], protocol["most_extended_Cs"]
    train, validation, test = (percent(protocol["shares"][part]) for part in ("train", "validation", "test"))
    return "; ".join([
        f"{config['n_splits']} random splits, {train} to train, {validation} to choose, {test} to test",
        f"C from {low:g} to {high:g}, extended while the best is at an end, at most to {lowest:g} and {highest:g}",
        f"{protocol['n_ks']} k log-spaced from 1 to n, as far as they differ",
        f"{'a penalised' if protocol['penalize_intercept'] else 'an'} intercept",
        f"features {protocol['features']}",
        f"Sinc {protocol['sinc']}",
    ])  # fmt: skip


def _spread(values: Array) -> float:
    return float(values.std(ddof=1)) if values.size > 1 else 0.0
