"""What a comparison found, from the records of its results file: the answers, in words and as plain data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from atklearn.losses.individual import Array
from atklearn.measures import MEASURES
from atklearn.report.family_words import FAMILY_WORDS
from atklearn.report.wording import listed, number, sentence, span, units
from atklearn.study.evidence import Choice, Grid
from atklearn.study.outcome import Outcome, Question
from atklearn.study.results import Record
from atklearn.study.setting_aside import SettingAside
from atklearn.study.verdicts import Verdict

__all__ = ["Contrast", "Findings", "comparison_summary", "headline", "verdict_in_words", "would_settle"]

_N_NAMED = 2  # of the measures that change most


@dataclass(frozen=True)
class Contrast:
    """What average and AT_k, chosen by the measure that counts, said about every row when they had not seen it.

    Attributes
    ----------
    choices : dict of lists of Choice
        Per side, "average" and "atk", one per split.
    said : dict of ndarrays of shape (n_repeats, n_problems, n_rows)
        Per side, decision values, or predictions.
    kept : int
        On how many splits AT_k kept the average; if on all, the side of AT_k is the best k below all rows instead.
    """

    choices: dict[str, list[Choice]]
    said: dict[str, Array]
    kept: int


class Findings:
    """The records of a comparison, sorted by kind, and what they say.

    Parameters
    ----------
    records : iterable of Record
        Of the results file.
    question : str, default=None
        Which of the questions that were asked of it; None is the last.
    """

    def __init__(self, records: Iterable[Record], question: str | None = None) -> None:
        kept = list(records)
        asked = [record for record in kept if record["record"] == "answer"]
        if not asked:
            raise ValueError(
                "The results file is expected to hold a finished comparison, but this one was interrupted."
            )
        answer = next((record for record in asked if record["question"] == question), asked[-1])
        kinds: dict[str, list[Record]] = {}
        for record in kept:
            if record.get("question", answer["question"]) == answer["question"]:
                kinds.setdefault(record["record"], []).append(record)
        self.run, self.data, self.model = kinds["run"][0], kinds["data"][0], kinds["model"][0]
        self.cells = kinds["cell"]
        self.other: Record | None = next(iter(kinds.get("other", [])), None)
        self.aside: Record | None = next(iter(kinds.get("aside", [])), None)
        self.aside_rows = kinds.get("aside_row", [])
        self.hard_rows, self.planes = kinds.get("hard_row", []), kinds.get("plane", [])
        self.points = kinds.get("point", [])
        self.words = FAMILY_WORDS[self.data["model"]]
        self.score: str = answer["score"]
        self.traced_names: list[str] = answer["traced"]
        self.margin: float = answer["margin"]
        self.repeats: int = answer["n_splits"] // self.data["n_folds"]
        self.outcome = Outcome.from_records(kept, Question(self.score, self.margin), self.repeats)

    @cached_property
    def contrast(self) -> Contrast | None:
        """The two sides by the measure that counts; None where there is no k below all rows."""
        found = self.outcome.contrast
        if found is None:
            return None
        choices = dict(zip(("average", "atk"), found, strict=True))
        said = {side: self.outcome.rows.repeats(of_side) for side, of_side in choices.items()}
        return Contrast(choices, said, self.outcome.kept_average(self.score))

    @property
    def traced(self) -> Grid:
        """The grid on all rows whose k the pictures go along."""
        return self.grid_of(*self.traced_names)

    def grid_of(self, loss: str, weights: str) -> Grid:
        """Return a grid on all rows."""
        return next(grid for grid in self.outcome.all_rows if (grid.loss, grid.weights) == (loss, weights))

    @property
    def truth(self) -> Array:
        """The codes of the classes, or the targets, of the rows that are judged."""
        return np.asarray(self.outcome.rows.y)

    @property
    def verdict(self) -> Verdict:
        """About the measure that counts."""
        return self.outcome.verdicts[self.score]

    @property
    def most_changed(self) -> list[Verdict]:
        """The other measures on which AT_k helps or hurts, those that change most first."""
        others = [verdict for name, verdict in self.outcome.verdicts.items() if name != self.score]
        changed = [verdict for verdict in others if verdict.answer in ("helps", "hurts")]
        return sorted(changed, key=lambda verdict: -abs(verdict.relative))


def verdict_in_words(found: Findings) -> str:
    """Return the answer in a few words: about the measure that counts, and those that change most."""
    title = MEASURES[found.score].title
    words = {
        "helps": f"AT_k helps on {title}",
        "hurts": f"AT_k hurts on {title}",
        "same": f"The same on {title}",
        "undecided": f"Undecided on {title}",
    }
    parts = [words[found.verdict.answer]]
    for answer in ("helps", "hurts"):
        names = [MEASURES[v.measure].title for v in found.most_changed[:_N_NAMED] if v.answer == answer]
        if names:
            parts.append(f"AT_k {answer} on {listed(names)}")
    return "; ".join(parts)


def headline(found: Findings) -> str:
    """Return the answer in a few sentences, each with its numbers."""
    said = [_about(found, found.verdict), *(_about(found, verdict) for verdict in found.most_changed[:_N_NAMED])]
    rest = [v for v in found.outcome.verdicts.values() if v is not found.verdict and v not in found.most_changed]
    open_ones = [MEASURES[verdict.measure].title for verdict in rest if verdict.answer == "undecided"]
    if not found.most_changed:
        if open_ones:
            said.append(f"Undecided, too: {listed(open_ones)}; all other measures are the same."
                        if found.verdict.answer == "undecided" else
                        f"Undecided: {listed(open_ones)}; all other measures are the same.")  # fmt: skip
        else:
            said.append("All other measures are the same.")
    return " ".join(said)


def _about(found: Findings, verdict: Verdict) -> str:
    """Return what was found on one measure."""
    name = verdict.measure
    measure, unit = MEASURES[name], MEASURES[name].unit
    kept = found.outcome.kept_average(name)
    n_splits = len(found.outcome.splits)
    values = f"{number(verdict.average, name)}{unit} with the average, {number(verdict.atk, name)}{unit} with AT_k"
    if kept == n_splits:
        return (
            f"{sentence(measure.title)} {number(verdict.average, name)}{unit}: AT_k kept the average on all "
            f"{n_splits} splits."
        )
    percents = round(100.0 * measure.sign * verdict.relative, 1)
    change = f" ({percents:+.1f} %)" if measure.relative and percents else ""
    interval = f"a difference of {span(verdict.low, verdict.high, name, verdict.average)}{units(name)}"
    text = f"{sentence(measure.title)} {values}{change}, {interval}."
    if verdict.answer == "undecided":
        text += f" {would_settle(verdict)}"
    return text


def would_settle(verdict: Verdict) -> str:
    """Say what a comparison could have seen, and what would settle what it leaves open."""
    name, remedy = verdict.measure, verdict.remedy
    least = number(verdict.detectable, name, like=verdict.average)
    seen = f"This run could have told a difference of {least}{units(name)} from none"
    if remedy is None:
        return f"{seen}."
    if remedy.repeats is not None:
        return f"{seen}; if all stays as it is, --repeats {remedy.repeats} would settle it."
    if remedy.rows is not None:
        return f"{seen}; no number of repeats would settle it, about {remedy.rows} rows like these would."
    return f"{seen}; not even a hundred times the rows would settle it, so near it is to the margin."


def comparison_summary(found: Findings) -> dict[str, Any]:
    """Return the answer as plain data, for programs; docs/compare.md describes it."""
    outcome = found.outcome
    return {
        "dataset": found.data["dataset"],
        "data": {**found.data["health"], "notes": found.data["notes"]},
        "task": found.data["task"],
        "score": found.score,
        "margin": found.margin,
        "n_rows": found.data["n_used"],
        "n_folds": found.data["n_folds"],
        "repeats": found.repeats,
        "verdict": verdict_in_words(found),
        "headline": headline(found),
        "verdicts": {name: _plain(verdict) for name, verdict in outcome.verdicts.items()},
        "with_maps": {
            name: {"map": outcome.map_kind, **_plain(verdict)} for name, verdict in outcome.contests.items()
        },
        "within_log_loss": {name: _plain(verdict) for name, verdict in outcome.within_log_loss.items()},
        "recommendation": _recommendation(found),
        "methods": [
            {"aggregate": method.aggregate, "loss": method.loss, "weights": method.weights,
             "k_shares": [choice.share for choice in choices],
             "values": {name: outcome.rows.measure(name, choices) for name in outcome.measures_of(method.loss)}}
            for method, choices in outcome.methods().items()
        ],
        "yardstick": outcome.yardstick,
        "hardest_rows": [row["row"] for row in found.hard_rows],
        "setting_aside": _setting_aside(found),
    }  # fmt: skip


def _setting_aside(found: Findings) -> dict[str, Any]:
    """Return what setting rows aside does, and which rows, as plain data; empty where it was not tried."""
    if found.aside is None:
        return {}
    aside = SettingAside(found.outcome)
    return {
        "verdicts": {name: _plain(verdict) for name, verdict in aside.verdicts.items()},
        "drops": {name: [choice.drop for choice in choices] for name, choices in aside.sides.items()},
        "drop": found.aside["drop"],
        "asked_for": found.aside["asked_for"],
        "rows": [row["row"] for row in found.aside_rows],
    }


def _recommendation(found: Findings) -> dict[str, Any]:
    """Return what to use, as plain data; the strength has the name that the family has for it."""
    model = found.model
    names = ("model", "loss", "weights", "k", "share", "strength", "map", "reason")
    return {found.words.field if name == "strength" else name: model[name] for name in names}


def _plain(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as plain data."""
    remedy = verdict.remedy
    return {
        "answer": verdict.answer,
        "difference": verdict.difference.mean,
        "low": verdict.low,
        "high": verdict.high,
        "average": verdict.average,
        "atk": verdict.atk,
        "k_share": verdict.k_share,
        "margin": verdict.margin,
        "level": verdict.level,
        "probability_same": verdict.difference.within(verdict.margin),
        "remedy": None if remedy is None else {"repeats": remedy.repeats, "rows": remedy.rows},
    }
