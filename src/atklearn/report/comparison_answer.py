"""The answer of a comparison: what to use, a verdict about every measure, and what one would try instead."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from atklearn.measures import MEASURES
from atklearn.report.comparison_findings import Findings
from atklearn.report.content import Block, Cell, Table
from atklearn.report.wording import ANSWER_TITLES, LOSS_TITLES, listed, number, percent, sentence, span, times, units
from atklearn.study.verdicts import SIGNIFICANCE, Verdict

__all__ = ["the_answer", "tried_instead"]

_VERDICT_COLUMNS = ["measure", "average", "AT_k", "change", "interval", "answer", "k/n"]


def the_answer(found: Findings) -> list[Block]:
    """Return the recommendation, what else there is to say, and the table of verdicts."""
    return [_recommendation(found), *_ends_of_grids(found), *_further_answers(found), _verdict_table(found)]


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
        f"{found.words.valued(model['strength'])}{mapped}: {model['reason']}."
    )


def _ends_of_grids(found: Findings) -> list[Block]:
    """Say what it means where the strength or the k of the recommended model is at the end of what was tried."""
    model, words, notes = found.model, found.words, []
    grid = found.grid_of(model["loss"], model["weights"])
    if len(grid.strengths) > 1 and model["strength"] == grid.strengths[-1]:
        notes.append(f"{words.valued(model['strength'])} {words.at_largest}")
    if len(grid.strengths) > 1 and model["strength"] == grid.strengths[0]:
        notes.append(f"{words.valued(model['strength'])} {words.at_smallest}")
    average = found.outcome.sides(found.score)[0]
    at_end = sum(choice.strength == grid.strengths[-1] for choice in average)
    if not words.is_linear and 2 * at_end > len(average) > found.outcome.kept_average(found.score):
        notes.append(
            f"On {at_end} of {len(average)} splits the average chose {words.valued(grid.strengths[-1])}, the most that "
            "were tried: more might be better. AT_k needs fewer, so a part of the difference may be no more than that."
        )
    smallest = grid.shares[grid.below_all][:1]
    if np.isclose(smallest, model["share"]).any():
        notes.append("This k is the smallest that was tried: a smaller one might be better still.")
    return [" ".join(notes)] if notes else []


def _further_answers(found: Findings) -> list[Block]:
    """Return what else there is to say: by other measures, against what one would try, within log loss."""
    outcome, paragraphs = found.outcome, []
    others = [MEASURES[verdict.measure] for verdict in found.most_changed if verdict.answer == "helps"]
    if others:
        options = listed([f"--scoring {measure.name}" for measure in others], "or")
        paragraphs.append(
            f"If {listed([measure.title for measure in others], 'or')} is what counts, ask for it: "
            f"{options} recommends a model from the same fits."
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
        f"{MEASURES[name].title} is {average} with the average and {atk} with AT_k: {ANSWER_TITLES[verdict.answer]} "
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
            Cell(ANSWER_TITLES[verdict.answer]),
            Cell(f"{verdict.k_share:.2g}"),
        ]
        for name, verdict in verdicts.items()
    ]


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
                f"Loss, class weights, {found.words.axis} and k are chosen within each training part by the measure of "
                f"the line; AT_k keeps the average unless a smaller k leads by more than half a standard error. Values "
                f"are of all {len(data['truth'])} rows, each predicted {times(found.repeats)} by a fit that had not "
                f"seen it. Intervals hold for all lines together at {percent(1.0 - SIGNIFICANCE)} (Holm). The same: "
                f"the interval is within the margin, {percent(found.margin)} of the measure's own scale. Helps, hurts: "
                f"it is without zero, and the difference is beyond the margin. k/n: the median of what AT_k chose.",
                *notes,
                *([f"Here the tail is {percent(tail)} of the rows."] if data["task"] == "regression" else []),
            ]
        ),
    )


def tried_instead(found: Findings) -> list[Block]:
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
