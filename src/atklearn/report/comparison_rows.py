"""All methods of a comparison in one table, the groups of rows, and the rows that are hardest."""

from __future__ import annotations

from collections.abc import Sequence

from atklearn.measures import MEASURES
from atklearn.measures.catalogue import GROUP_MEASURES
from atklearn.report.comparison_findings import Findings
from atklearn.report.content import Block, Cell, Table
from atklearn.report.wording import AGGREGATE_TITLES, LOSS_TITLES, amount, model_in_words, number
from atklearn.study.methods import AGGREGATES, AVERAGE_ONLY, in_order
from atklearn.study.results import Record

__all__ = ["all_methods", "hardest_rows", "rows_table"]


def all_methods(found: Findings) -> list[Block]:
    """Return every loss and kind of class weights by itself, and the groups of rows if there are any."""
    return [_methods_table(found), *_group_tables(found)]


def _methods_table(found: Findings) -> Table:
    outcome = found.outcome
    methods = outcome.methods()
    ordered = sorted(
        methods, key=lambda method: (*in_order(method.loss, method.weights), AGGREGATES.index(method.aggregate))
    )
    values = {
        method: {name: outcome.rows.measure(name, methods[method]) for name in outcome.measures_of(method.loss)}
        for method in ordered
    }
    best = {
        name: max(MEASURES[name].sign * of_method[name] for of_method in values.values() if name in of_method)
        for name in outcome.measures
    }
    rows = [
        [
            Cell(f"{AGGREGATE_TITLES[method.aggregate]}, {model_in_words(method.loss, method.weights)}"),
            *(
                Cell(
                    number(of_method[name], name), "best" if MEASURES[name].sign * of_method[name] >= best[name] else ""
                )
                if name in of_method
                else Cell("")
                for name in outcome.measures
            ),
        ]
        for method, of_method in values.items()
    ]
    average_only = [LOSS_TITLES[loss] for loss in sorted(AVERAGE_ONLY) if any(m.loss == loss for m in ordered)]
    return Table(
        "methods",
        f"Each loss and kind of class weights by itself, k and {found.words.axis} chosen by "
        f"{MEASURES[found.score].title}",
        ["method", *(MEASURES[name].heading for name in outcome.measures)],
        rows,
        " ".join(
            [
                "Of the same rows as above; columns beside the first say what that choice means for other measures.",
                *(f"For the {loss}, k is a second name for C, so it has the average only." for loss in average_only),
            ]
        ),
    )


def _group_tables(found: Findings) -> list[Block]:
    """Return the error of every group of rows, if groups were given."""
    sides = found.outcome.sides(found.score)
    average, ours = (found.outcome.rows.by_group(side) for side in sides)
    if not average:
        return []
    measure = GROUP_MEASURES[found.data["task"]]
    rows = [[Cell(name), *(Cell(number(side[name], measure)) for side in (average, ours))] for name in average]
    return [
        Table(
            "groups",
            f"By {found.data['group']}: {MEASURES[measure].heading}",
            ["group", "best average", "best AT_k"],
            rows,
            f"Of the choices by {MEASURES[found.score].title}.",
        )
    ]


def hardest_rows(found: Findings) -> list[Block]:
    """Return who is in the top k, and the rows with the largest losses."""
    blocks: list[Block] = []
    share = found.model["top_share"]
    what = "the top k of the recommended fit" if found.model["share"] < 1.0 else f"the {share:.0%} largest losses"
    for kind, entries in found.model["top"].items():
        rows = [
            [Cell(value), Cell(str(n)), Cell(str(top)), Cell(f"{100.0 * top / n:.0f}")] for value, n, top in entries
        ]
        title = f"Who is in {what}, by {found.data['target'] if kind == 'class' else found.data['group']}"
        blocks.append(Table(f"top-by-{kind}", title, [kind, "rows", "in the top", "% of them"], rows))
    blocks.append(
        rows_table(
            found,
            found.hard_rows,
            "hardest-rows",
            f"The rows with the largest {'errors' if found.data['task'] == 'regression' else 'losses'} in the "
            "recommended fit",
            "Look here for mislabelled rows, and for groups the model does not reach.",
        )
    )
    return blocks


def rows_table(found: Findings, records: Sequence[Record], name: str, title: str, note: str) -> Table:
    """Return a table of some rows: the truth, the prediction, and the columns that weigh most."""
    numbers = found.data["task"] == "regression"
    names = list(records[0]["values"]) if records else []
    largest = max((abs(row["error"]) for row in records), default=1.0) if numbers else 1.0
    rows = [
        [
            Cell(str(row["row"])), Cell(row["target"]), Cell(row["prediction"]),
            Cell(amount(row["error"], largest, signed=True) if numbers else f"{row['loss']:.3g}"),
            *(Cell(row["values"][name]) for name in names),
        ]
        for row in records
    ]  # fmt: skip
    said = f"The error is prediction minus {found.data['target']}. " if numbers else ""
    weigh = f"Beside it stand the {len(names)} columns that weigh most in the fit. " if names else ""
    return Table(
        name,
        title,
        ["row", found.data["target"], "prediction", "error" if numbers else "loss", *names],
        rows,
        f"Row 1 is the first of the data. {said}{weigh}{note}",
    )
