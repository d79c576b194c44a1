"""Hard, rare or wrong: what fits that set the largest losses aside say about a table."""

from __future__ import annotations

import numpy as np

from atklearn.measures import MEASURES
from atklearn.report.comparison_findings import Findings
from atklearn.report.comparison_rows import rows_table
from atklearn.report.content import Block, Cell, Table
from atklearn.report.wording import AGGREGATE_TITLES, ANSWER_TITLES, LOSS_TITLES, number, percent, span
from atklearn.study.results import Record
from atklearn.study.setting_aside import SettingAside

__all__ = ["hard_or_wrong"]


def hard_or_wrong(found: Findings) -> list[Block]:
    """Return whether to set rows aside helps, and the rows that the best such fit leaves out."""
    if found.data["model"] != "linear":
        return ["Linear models can set the largest losses aside, and list the rows: --model linear --robust."]
    if found.aside is None:
        return [
            "Fits that set the largest losses aside were not compared: --robust does, and lists what they leave out."
        ]
    return [_sides(found, found.aside["loss"]), *_rows(found, found.aside)]


def _sides(found: Findings, loss: str) -> Table:
    aside, name = SettingAside(found.outcome), found.score
    rows = []
    for side, choices in aside.sides.items():
        verdict = aside.verdicts.get(side)
        value = found.outcome.rows.measure(name, choices)
        drop = float(np.median([choice.drop for choice in choices]))
        share = float(np.median([choice.share for choice in choices]))
        rows.append(
            [
                Cell(AGGREGATE_TITLES[side]),
                Cell(number(value, name)),
                *(
                    [Cell(""), Cell("")]
                    if verdict is None
                    else [
                        Cell(span(verdict.low, verdict.high, name, verdict.average)),
                        Cell(ANSWER_TITLES[verdict.answer]),
                    ]
                ),
                Cell(f"{drop:.2g}"),
                Cell(f"{share:.2g}"),
            ]
        )
    return Table(
        "aside",
        f"Setting the largest losses aside: {MEASURES[name].heading}",
        ["aggregate", MEASURES[name].heading, "difference to the average", "answer", "trim/n", "k/n"],
        rows,
        "The average takes all losses, AT_k the largest, the trimmed average all but the largest, the ranked range "
        "those between. On the splits of one repeat, every test row with the label or number that it has, right or "
        f"wrong; the part to trim and k are chosen within each training part, with {LOSS_TITLES[loss]}, "
        "and the average is kept unless that leads by more than half a standard error. Each interval is for its line "
        "alone. trim/n and k/n are medians of what was chosen.",
    )


def _rows(found: Findings, record: Record) -> list[Block]:
    what = "targets" if found.data["task"] == "regression" else "labels"
    if record["asked_for"]:
        title, say = f"Rows whose {what} are probably wrong", "Validation on all rows prefers to leave them out"
    else:
        title = "Rows that do not fit the others"
        say = (
            "Validation on all rows does not ask to leave them out, so that they may be hard or rare rather than wrong"
        )
    differ = (
        f"{say}. A fit that listens to every row is pulled towards a wrong one, and its loss shrinks; this fit has set "
        f"{percent(record['drop'])} of the rows aside, {record['n_rows']}, those it found largest without listening to "
        f"them. {record['also_hardest']} of them are among the {record['n_rows']} hardest of the recommended fit; "
        "those of the hardest that are not here may be hard or rare, and AT_k is for them."
    )
    if record["most_of_class"] is not None:
        name, share = record["most_of_class"]
        differ += f" But {share:.0%} of {name} are among them: a class that is rare, and not wrong, looks like this."
    return [
        differ,
        rows_table(found, found.aside_rows, "aside-rows", title, "Those with the largest losses come first."),
    ]
