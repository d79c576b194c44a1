"""What a comparison found, from the records of its results file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from atklearn.measures import MEASURES
from atklearn.report.wording import number, p_value
from atklearn.study.evidence import Comparison, collect_grids, compare_methods, ratio_of_parts
from atklearn.study.methods import ANY, Method
from atklearn.study.results import Record

__all__ = ["Findings", "comparison_summary", "headline"]


class Findings:
    """The records of a comparison, sorted by kind, and what they say."""

    def __init__(self, records: Iterable[Record]) -> None:
        kinds: dict[str, list[Record]] = {}
        for record in records:
            kinds.setdefault(record["record"], []).append(record)
        if "data" not in kinds or "model" not in kinds:
            raise ValueError(
                "The results file is expected to hold a finished comparison, but this one was interrupted."
            )
        self.run, self.data, self.model = kinds["run"][0], kinds["data"][0], kinds["model"][0]
        self.cells = kinds["cell"]
        self.hard_rows, self.planes = kinds.get("hard_row", []), kinds.get("plane", [])
        self.points = kinds.get("point", [])
        self.score: str = self.run["config"]["score"]
        self.grids = collect_grids(self.cells, self.data["dataset"])
        self.outcome: Comparison = compare_methods(self.grids, self.score, ratio_of_parts(self.data["shares"]))

    @property
    def measures(self) -> list[str]:
        """The measures on the test parts, the one that counts first."""
        found = next(iter(self.outcome.choices.values()))[0].test
        return [self.score, *(name for name in found if name != self.score)]


def comparison_summary(records: Iterable[Record]) -> dict[str, Any]:
    """Return the answer as plain data, for programs."""
    found = Findings(records)
    outcome, model = found.outcome, found.model
    return {
        "dataset": found.data["dataset"],
        "task": found.data["task"],
        "score": found.score,
        "verdict": outcome.verdict,
        "headline": headline(found),
        "difference": {
            "mean": outcome.difference.mean, "standard_error": outcome.difference.error,
            "p_value": outcome.difference.p_value,
        },
        "recommendation": {
            name: model[name] for name in ("loss", "weights", "k", "share", "C", "reason")
        },
        "methods": [
            {
                "aggregate": method.aggregate, "loss": method.loss, "weights": method.weights,
                "k_shares": [choice.share for choice in choices],
                **{
                    measure: {
                        "mean": float(np.mean([choice.test[measure] for choice in choices])),
                        "standard_deviation": float(np.std([choice.test[measure] for choice in choices], ddof=1)),
                    }
                    for measure in found.measures
                },
            }
            for method, choices in outcome.choices.items()
        ],
        "hardest_rows": [row["row"] for row in found.hard_rows],
    }  # fmt: skip


def headline(found: Findings) -> str:
    """Return the answer in one sentence."""
    outcome, score = found.outcome, found.score
    average, ours = (
        float(np.mean([choice.test[score] for choice in outcome.choices[Method(aggregate, ANY, ANY)]]))
        for aggregate in ("average", "atk")
    )
    measure = MEASURES[score]
    what, unit = measure.title, measure.unit
    points = " percentage points" if measure.percent else ""
    difference = number(outcome.difference.mean, score, signed=True)
    return (
        f"{what[0].upper()}{what[1:]} {number(ours, score)}{unit} with AT_k, {number(average, score)}{unit} with "
        f"the average; difference {difference} ± {number(outcome.difference.error, score)}{points}, "
        f"{p_value(outcome.difference.p_value)}."
    )
