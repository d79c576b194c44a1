"""The report of a comparison, from what its records say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from atklearn.measures import MEASURES
from atklearn.measures.catalogue import GROUP_MEASURES
from atklearn.report.comparison_charts import score_against_k, trade_off
from atklearn.report.comparison_findings import Findings, headline, verdict_in_words
from atklearn.report.content import Block, Cell, Page, Section, Table
from atklearn.report.wording import (
    AGGREGATE_TITLES,
    LOSS_TITLES,
    WEIGHT_TITLES,
    certified,
    listed,
    number,
    percent,
    sentence,
    span,
    units,
)
from atklearn.study.evidence import Grid
from atklearn.study.methods import AGGREGATES, AVERAGE_ONLY, Method, in_order
from atklearn.study.verdicts import SIGNIFICANCE, Verdict

__all__ = ["comparison_page"]

_ANSWERS = {"helps": "helps", "hurts": "hurts", "same": "the same", "undecided": "undecided"}


def comparison_page(found: Findings) -> Page:
    """Return the report of what a comparison found.

    Parameters
    ----------
    found : Findings
    """
    sections = [
        Section("answer", "The answer", [_recommendation(found), *_further_answers(found), _verdict_table(found)]),
        Section("trade-off", "What k trades", [trade_off(found)]),
        Section("instead", "What one would try instead", _instead(found)),
        Section("methods", "All methods", [_methods_table(found), *_group_tables(found)]),
        Section("curve", "The score against k", [score_against_k(found)]),
        Section("hard", "The hardest rows", _hard_rows(found)),
    ]
    title = f"Maximum, average and AT_k on {found.data['dataset']}"
    return Page(title, verdict_in_words(found), headline(found), found.verdict.answer, sections, _provenance(found))


def _recommendation(found: Findings) -> str:
    model = found.model
    weights = " and balanced class weights" if model["weights"] == "balanced" else ""
    what = (
        f"k = {model['share']:.3g} ({model['k']:.0f} of {found.data['n']} rows)"
        if model["share"] < 1.0
        else f"k = n, the average (all {found.data['n']} rows)"
    )
    mapped = ""
    if model["map"] is not None:
        slope, shift = model["map"]
        mapped = (
            f", decisions at a threshold of {-shift:.4g}"
            if found.data["task"] == "classification"
            else f", predictions f mapped to {slope:.4g} f {shift:+.4g}"
        )
    return (
        f"Recommended for {MEASURES[found.score].title}: {what}, with {LOSS_TITLES[model['loss']]}{weights} and "
        f"C = {model['C']:g}{mapped}: {model['reason']}."
    )


def _further_answers(found: Findings) -> list[Block]:
    """Return what else there is to say: by other measures, against what one would try, within log loss."""
    outcome, paragraphs = found.outcome, []
    others = [MEASURES[verdict.measure] for verdict in found.most_changed if verdict.answer == "helps"]
    if others:
        paragraphs.append(
            f"If {listed([measure.title for measure in others])} is what counts, ask for it: "
            f"{listed([f'--score {measure.name}' for measure in others])} recommends a model from the same fits."
        )
    told = dict.fromkeys([found.score, *(measure.name for measure in others)])
    contests = [_outcome_of(outcome.contests[name]) for name in told if name in outcome.contests]
    if contests:
        paragraphs.append(
            f"{sentence(outcome.map_words)} is what one would try instead. With that allowed on both sides, "
            f"{'; '.join(contests)}."
        )
    if found.score in outcome.within_log_loss:
        within = _outcome_of(outcome.within_log_loss[found.score])
        paragraphs.append(f"Within log loss, for those who need probabilities, {within}.")
    if found.run["config"]["left_out"]:
        paragraphs.append(f"This was {found.run['config']['left_out']}.")
    return list(paragraphs)


def _outcome_of(verdict: Verdict) -> str:
    """Return a verdict as a part of a sentence."""
    name, unit = verdict.measure, MEASURES[verdict.measure].unit
    average, atk = (f"{number(value, name)}{unit}" for value in (verdict.average, verdict.atk))
    if verdict.low == verdict.high == 0.0:
        return f"{MEASURES[name].title} is {average} and AT_k keeps the average"
    interval = f"{span(verdict.low, verdict.high, name, verdict.average)}{units(name)}"
    return (
        f"{MEASURES[name].title} is {average} with the average and {atk} with AT_k: {_ANSWERS[verdict.answer]} "
        f"({interval})"
    )


def _verdict_rows(verdicts: Mapping[str, Verdict]) -> list[list[Cell]]:
    return [
        [
            Cell(MEASURES[name].heading),
            Cell(number(verdict.average, name)),
            Cell(number(verdict.atk, name)),
            Cell(number(verdict.difference.mean, name, signed=True, like=verdict.average)),
            Cell(span(verdict.low, verdict.high, name, verdict.average)),
            Cell(_ANSWERS[verdict.answer]),
            Cell(f"{verdict.k_share:.2g}"),
        ]
        for name, verdict in verdicts.items()
    ]


_VERDICT_COLUMNS = ["measure", "average", "AT_k", "change", "interval", "answer", "k/n"]


def _verdict_table(found: Findings) -> Table:
    data = found.data
    notes = [MEASURES[name].note for name in found.outcome.verdicts if MEASURES[name].note]
    tail = data["tail"]
    return Table(
        "verdicts",
        "Every measure: the best average against the best AT_k",
        _VERDICT_COLUMNS,
        _verdict_rows(found.outcome.verdicts),
        " ".join(
            [
                f"Loss, class weights, C and k are chosen within each training part by the measure of the line; AT_k "
                f"keeps the average unless a smaller k leads by more than half a standard error. Values are of all "
                f"{len(data['truth'])} rows, each predicted {_times(found.repeats)} by a fit that had not seen it. "
                f"Intervals hold for all lines together at {percent(1.0 - SIGNIFICANCE)} (Holm). The same: the "
                f"interval is within the margin, {percent(found.margin)} of the measure's own scale. Helps, hurts: it "
                f"is without zero, and the difference is beyond the margin. k/n: the median of what AT_k chose.",
                *notes,
                *([f"Here the tail is {percent(tail)} of the rows."] if data["task"] == "regression" else []),
            ]
        ),
    )


def _times(n: int) -> str:
    return "once" if n == 1 else "twice" if n == 2 else f"{n} times"


def _instead(found: Findings) -> list[Block]:
    """Return the same comparison with mapped decision values, and within log loss."""
    outcome = found.outcome
    blocks: list[Block] = []
    if outcome.contests:
        blocks.append(
            Table(
                "with-maps",
                f"With {outcome.map_words} allowed on both sides",
                _VERDICT_COLUMNS,
                _verdict_rows(outcome.contests),
                f"{sentence(outcome.map_words)} is fitted to the measure on validation rows of each training part, and "
                "taken by either side where it validates better on rows it was not fitted to. What AT_k gains above "
                "and not here, one gets from the average as well.",
            )
        )
    if outcome.within_log_loss:
        blocks.append(
            Table(
                "within-log-loss",
                "Within log loss",
                _VERDICT_COLUMNS,
                _verdict_rows(outcome.within_log_loss),
                "Other losses have no probabilities: who needs them compares the average and AT_k of log loss.",
            )
        )
    return blocks or ["Nothing else applies to these data."]


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
            Cell(_name(method)),
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
        f"Each loss and kind of class weights by itself, k and C chosen by {MEASURES[found.score].title}",
        ["method", *(MEASURES[name].heading for name in outcome.measures)],
        rows,
        " ".join(
            [
                "Of the same rows as above; columns beside the first say what that choice means for other measures.",
                *(f"For the {loss}, k is a second name for C, so it has the average only." for loss in average_only),
            ]
        ),
    )


def _name(method: Method) -> str:
    parts = [AGGREGATE_TITLES[method.aggregate], LOSS_TITLES[method.loss], WEIGHT_TITLES[method.weights]]
    return ", ".join(part for part in parts if part)


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
        *([("Rows judged on", f"{len(data['truth'])} of them")] if len(data["truth"]) < data["n_used"] else []),
        *(("Note", note) for note in data["notes"]),
        ("Splits", _splits(found)),
        ("Choice of loss, weights, k and C", f"within each training part, {_folds(found)}, by each measure for itself"),
        ("Grids", _sizes(found.outcome.all_rows)),
        *([("Left out", config["left_out"])] if config["left_out"] else []),
        ("Features", f"made by a pipeline fitted to each training part: {data['features']}"),
        ("Fits of the grids", certified(found.cells)),
        ("Recommended fit", certified([found.model])),
        *([("Fits of the boundaries", certified(found.points))] if found.points else []),
        ("Started", run["started"]),
        ("Fingerprint of the data", config["data"]),
        ("Versions", ", ".join(f"{name} {version}" for name, version in run["versions"].items())),
    ]  # fmt: skip


def _splits(found: Findings) -> str:
    """Say how rows were split into training and test parts."""
    data = found.data
    if data["time"] is not None:
        return (
            f"the later half of the rows by {data['time']}, in {data['n_folds']} parts, each predicted by fits on all "
            "rows before it; folds to choose by are made in the same way"
        )
    together = "" if data["split_by"] is None else f", the rows of one {data['split_by']} always together"
    return f"{data['n_folds']}-fold cross-validation, {_times(found.repeats)}{together}"


def _folds(found: Findings) -> str:
    """Say how the training parts were cross-validated, each in its way: its rarest class decides."""
    rounds = {
        (grid.n_folds, len(next(iter(grid.validation.values()))) // grid.n_folds)
        for grids in found.outcome.splits
        for grid in grids
        if grid.n_folds
    }
    return " or ".join(
        f"{folds}-fold cross-validation{f', repeated {times} times' if times > 1 else ''}"
        for folds, times in sorted(rounds)
    )


def _sizes(grids: Sequence[Grid]) -> str:
    """Say how large the grids are."""
    largest = max(grids, key=lambda grid: len(grid.ks))
    maximum = " and the maximum" if largest.ks[0] <= 1.0 < largest.ks[-1] else ""
    n_ks = int(np.sum(largest.ks > 1.0)) if largest.ks[-1] > 1.0 else len(largest.ks)
    Cs = largest.Cs
    return f"{n_ks} values of k{maximum}, {len(Cs)} of C from {Cs[0]:g} to {Cs[-1]:g}"
