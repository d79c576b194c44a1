"""The report of a comparison, from what its records say."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atklearn.report.comparison_answer import the_answer, tried_instead
from atklearn.report.comparison_aside import hard_or_wrong
from atklearn.report.comparison_changes import what_changes
from atklearn.report.comparison_charts import score_against_k, trade_off
from atklearn.report.comparison_findings import Findings, headline, verdict_in_words
from atklearn.report.comparison_intro import about_the_data, what_is_compared
from atklearn.report.comparison_quality import how_good
from atklearn.report.comparison_rows import all_methods, hardest_rows
from atklearn.report.content import Page, Section
from atklearn.report.wording import certified, sentence, times
from atklearn.study.evidence import Grid

__all__ = ["comparison_page"]


def comparison_page(found: Findings) -> Page:
    """Return the report of what a comparison found.

    Parameters
    ----------
    found : Findings
    """
    sections = [
        Section("compared", "What is compared", what_is_compared(found)),
        Section("data", "The data", about_the_data(found)),
        Section("answer", "The answer", the_answer(found)),
        Section("trade-off", "What k trades", [trade_off(found), score_against_k(found)]),
        Section("changes", "What changes", what_changes(found)),
        Section("quality", "How good is it", how_good(found)),
        Section("instead", "What one would try instead", tried_instead(found)),
        Section("methods", "All methods", all_methods(found)),
        Section("hard", "The hardest rows", hardest_rows(found)),
        Section("wrong", "Hard or wrong", hard_or_wrong(found)),
    ]
    title = f"{found.words.title} on {found.data['dataset']}"
    answer = verdict_in_words(found), headline(found), found.verdict.answer
    warnings = [sentence(warning) for warning in found.data["health"]["warnings"]]
    return Page(title, *answer, sections, _provenance(found), warnings)


def _provenance(found: Findings) -> list[tuple[str, str]]:
    run, data, config = found.run, found.data, found.run["config"]
    classes = [f"{name}: {count}" for name, count in zip(data.get("classes", ()), data.get("counts", ()), strict=True)]
    return [
        ("Data", f"{data['dataset']}: {data['n']} rows, {data['d']} columns, target {data['target']}, {data['task']}"),
        *([("Classes", ", ".join(classes))] if classes else []),
        *([("Rows compared on", f"{data['n_used']}, drawn at random")] if data["n_used"] < data["n"] else []),
        *([("Rows judged on", f"{len(data['truth'])} of them")] if len(data["truth"]) < data["n_used"] else []),
        ("Splits", _splits(found)),
        (
            f"Choice of loss, weights, k and {found.words.axis}",
            f"within each training part, {_folds(found)}, by each measure for itself",
        ),
        ("Grids", _sizes(found.outcome.all_rows, found.words.field)),
        *([("Left out", config["left_out"])] if config["left_out"] else []),
        ("Features", f"made by a pipeline fitted to each training part: {data['features']}"),
        *((name, how) for name, how in _certificates(found) if how),
        ("Started", run["started"]),
        ("Fingerprint of the data", config["data"]),
        ("Versions", ", ".join(f"{name} {version}" for name, version in run["versions"].items())),
    ]  # fmt: skip


def _certificates(found: Findings) -> list[tuple[str, str]]:
    """Say how exact the fits are; empty of those that know no certificate."""
    return [
        ("Fits of the grids", certified(found.cells)),
        ("Fits on all rows", certified([found.model, *([] if found.other is None else [found.other])])),
        ("Fits of the pictures", certified(found.points)),
    ]


def _splits(found: Findings) -> str:
    """Say how rows were split into training and test parts."""
    data = found.data
    if data["time"] is not None:
        return (
            f"the later half of the rows by {data['time']}, in {data['n_folds']} parts, each predicted by fits on all "
            "rows before it; folds to choose by are made in the same way"
        )
    together = "" if data["split_by"] is None else f", the rows of one {data['split_by']} always together"
    return f"{data['n_folds']}-fold cross-validation, {times(found.repeats)}{together}"


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


def _sizes(grids: Sequence[Grid], axis: str) -> str:
    """Say how large the grids are."""
    largest = max(grids, key=lambda grid: len(grid.ks))
    maximum = " and the maximum" if largest.ks[0] <= 1.0 < largest.ks[-1] else ""
    n_ks = int(np.sum(largest.ks > 1.0)) if largest.ks[-1] > 1.0 else len(largest.ks)
    strengths = largest.strengths
    return f"{n_ks} values of k{maximum}, {len(strengths)} of {axis} from {strengths[0]:g} to {strengths[-1]:g}"
