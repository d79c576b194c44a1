"""How good the models of a comparison are: which classes they mix up, how they rank, how large their errors are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from atklearn.losses.individual import Array
from atklearn.losses.labels import chosen_labels, class_probabilities
from atklearn.measures import MEASURES, Answers
from atklearn.report.comparison_findings import Contrast, Findings
from atklearn.report.content import Block, Cell, Chart, Series, Table
from atklearn.report.curves import binned, largest_errors, mean_curve, precision_at_recall, true_at_false_positives
from atklearn.report.wording import number, sentence
from atklearn.study.evidence import Choice

__all__ = ["how_good"]

_SIDES = {"average": "average", "atk": "AT_k"}
_MOST_CLASSES = 6  # of a matrix of confusions
_GRID = np.linspace(0.0, 1.0, 101)


def how_good(found: Findings) -> list[Block]:
    """Return what the two models get wrong, and a model of the other family beside them."""
    blocks: list[Block] = [*_yardstick(found)]
    if found.contrast is not None:
        of_task = _classes if found.data["task"] == "classification" else _numbers
        blocks += of_task(found, found.contrast)
    return blocks


def _classes(found: Findings, contrast: Contrast) -> list[Block]:
    few = len(found.data["classes"]) <= _MOST_CLASSES
    shares = {side: confusions(found, contrast.said[side]) for side in _SIDES}
    tables = [_confusion_table(found, shares[side], side) for side in _SIDES] if few else [_mixed_up(found, shares)]
    return [*tables, *_ranking(found, contrast), *_calibration(found)]


def confusions(found: Findings, said: Array) -> Array:
    """Return per 100 rows of each class how many get which label, averaged over the repeats; shape (true, said)."""
    codes = np.arange(len(found.data["classes"]))
    labels, y = chosen_labels(said, codes), found.truth
    return np.array(
        [
            [100.0 * (labels[:, y == true] == code).mean() if (y == true).any() else 0.0 for code in codes]
            for true in codes
        ]
    )


def _confusion_table(found: Findings, shares: Array, side: str) -> Table:
    classes = found.data["classes"]
    rows = [
        [Cell(f"{found.data['target']}: {name}"), *(Cell(f"{share:.1f}") for share in of_class)]
        for name, of_class in zip(classes, shares, strict=True)
    ]
    return Table(
        f"confusion-{side}",
        f"{sentence(_SIDES[side])}: what 100 rows of each class are taken for",
        ["rows of", *(f"as {name}" for name in classes)],
        rows,
        "" if side == "average" else "A line is a true class; right labels are on the diagonal.",
    )


def _mixed_up(found: Findings, shares: dict[str, Array]) -> Table:
    """Return the error of every class and what it is taken for most often: a matrix would be too large."""
    classes = found.data["classes"]
    rows = []
    for code, name in enumerate(classes):
        row = [Cell(name)]
        for of_side in shares.values():
            others = np.where(np.arange(len(classes)) == code, -1.0, of_side[code])
            most = int(others.argmax())
            row.append(Cell(f"{100.0 - of_side[code, code]:.1f}"))
            row.append(Cell(f"{classes[most]} ({others[most]:.1f})" if others[most] > 0.0 else ""))
        rows.append(row)
    columns = [column for title in _SIDES.values() for column in (f"wrong % {title}", f"mostly as, {title}")]
    return Table("confusion", "Which classes are taken for others", [found.data["target"], *columns], rows)


def _ranking(found: Findings, contrast: Contrast) -> list[Block]:
    """Return the ROC and the precision-recall curves, averaged over the splits."""
    roc, precision = [], []
    for side, title in _SIDES.items():
        told = [_told_apart(found, choice) for choice in contrast.choices[side]]
        hits = mean_curve(told, true_at_false_positives, _GRID)
        roc.append(Series(title, [0.0, *_percents(_GRID)], [0.0, *_percents(hits)], role=side))
        pure = mean_curve(told, precision_at_recall, _GRID[1:])
        precision.append(Series(title, _percents(_GRID[1:]), _percents(pure), role=side))
    classes = found.data["classes"]
    who = f"rows of {classes[1]}" if len(classes) == 2 else "rows of a class"
    against = (
        "" if len(classes) == 2 else " Each class is told from the rest, and curves are averaged over classes, too."
    )
    how = f"Rows are ranked by how sure the model is; curves are averaged over the splits.{against}"
    return [
        Chart(
            "roc",
            "Found against false alarms (ROC)",
            "false alarms, % of the others",
            f"found, % of {who}",
            [*roc, Series("chance", [0.0, 100.0], [0.0, 100.0], role="reference")],
            note=f"The higher, the better: how many {who} are found, and how many others are taken for them. {how}",
        ),
        Chart(
            "precision-recall",
            "Purity against found (precision and recall)",
            f"found, % of {who}",
            "of those taken for them, % that are",
            precision,
            note=f"The higher, the better: to find more {who}, one takes more others for them. {how}",
        ),
    ]


def _told_apart(found: Findings, choice: Choice) -> list[tuple[Array, npt.NDArray[np.bool_]]]:
    rows = found.outcome.rows
    return Answers.from_decisions(choice.said, rows.y[choice.rows], rows.classes).told_apart


def _percents(shares: Array) -> list[float]:
    return [float(100.0 * share) for share in shares]


def _calibration(found: Findings) -> list[Block]:
    """Return predicted against observed shares, of the models that were chosen by log loss, if it was compared."""
    if "log_loss" not in found.outcome.verdicts:
        return []
    codes = np.arange(len(found.data["classes"]))
    means = (found.truth == codes[:, None]).astype(np.float64)
    series = []
    for (side, title), choices in zip(_SIDES.items(), found.outcome.sides("log_loss"), strict=True):
        shares = class_probabilities(found.outcome.rows.repeats(choices))
        of, true = (shares[:, 1:], means[1:]) if codes.size == 2 else (shares, means)
        said, seen = binned(of.ravel(), np.broadcast_to(true, of.shape).ravel())
        series.append(Series(title, _percents(said), _percents(seen), role=side))
    who = f"{found.data['target']} = {found.data['classes'][1]}" if codes.size == 2 else "a class"
    return [
        Chart(
            "calibration",
            "Can the probabilities be trusted?",
            f"predicted probability of {who}, %",
            "rows of which it is true, %",
            [*series, _diagonal(series)],
            note="Each point is a tenth of the rows, by predicted probability. On the dashed line, of rows with a "
            "predicted probability of 30 %, 30 % are of that class. Log loss, "
            f"k and {found.words.axis} chosen by it; only log loss has probabilities.",
        )
    ]


def _diagonal(series: Sequence[Series]) -> Series:
    values = [value for one in series for value in one.x]
    ends = [min(values), max(values)]
    return Series("predicted = observed", ends, ends, role="reference")


def _numbers(found: Findings, contrast: Contrast) -> list[Block]:
    """Return the sizes of the errors, and predicted against observed."""
    y, target = found.truth, found.data["target"]
    sizes, told = [], []
    for side, title in _SIDES.items():
        said = contrast.said[side][:, 0]
        parts, errors = largest_errors(said - y)
        sizes.append(Series(title, _percents(parts), errors.tolist(), role=side))
        predicted, observed = binned(said.ravel(), np.broadcast_to(y, said.shape).ravel())
        told.append(Series(title, predicted.tolist(), observed.tolist(), role=side))
    return [
        Chart(
            "error-sizes",
            "How large the errors are",
            "rows with an error at least as large, %",
            f"size of the error, in units of {target}",
            sizes,
            log_x=True,
            note="The lower, the better. On the left are the few rows with the largest errors, the tail; at 10 % is "
            "the size of error that one row in ten reaches.",
        ),
        Chart(
            "predicted-observed",
            "Predicted and observed",
            f"mean prediction of {target}",
            f"mean {target}",
            [*told, _diagonal(told)],
            note="Each point is a tenth of the rows, by prediction. Above the dashed line predictions are too low, "
            "below it too high.",
        ),
    ]


def _yardstick(found: Findings) -> list[Block]:
    """Return the other family beside these models, by every measure, and what follows for the one that counts."""
    values, verdicts, words = found.outcome.yardstick, found.outcome.verdicts, found.words.yardstick
    if not values:
        return [f"{sentence(words.name)} was not fitted for comparison: the features are sparse and too many for it."]
    rows = []
    for name, verdict in verdicts.items():
        of_line = [verdict.average, verdict.atk, values[name]]
        best = max(MEASURES[name].sign * value for value in of_line)
        cells = [
            Cell(number(v, name, like=verdict.average), "best" if MEASURES[name].sign * v >= best else "")
            for v in of_line
        ]
        rows.append([Cell(MEASURES[name].heading), *cells])
    record = found.outcome.yardsticks[0]
    alike = [MEASURES[name].title for name in verdicts if MEASURES[name].classes_alike]
    rule = (
        " For measures that count all classes alike, its labels allow for how frequent each class is." if alike else ""
    )
    return [
        _is_family_sensible(found),
        Table(
            "yardstick",
            words.title,
            ["measure", "best average", "best AT_k", words.name],
            rows,
            f"{words.as_it_comes.format(**record)}, fitted to {record['n_train']} rows of each split of the first "
            f"repeat; nothing about it was tuned.{rule}",
        ),
    ]


def _is_family_sensible(found: Findings) -> str:
    """Say whether these models are sensible here, by the measure that counts."""
    measure, verdict, standard = MEASURES[found.score], found.verdict, found.outcome.yardstick[found.score]
    words = found.words.yardstick
    ours = max(verdict.average, verdict.atk, key=lambda value: measure.sign * value)
    one, other = (f"{number(v, found.score, like=verdict.average)}{measure.unit}" for v in (standard, ours))
    numbers = f"{measure.title} {one} with {words.with_it}, {other} with {words.with_ours}"
    gain = measure.sign * (standard - ours)
    said = words.better if gain > verdict.margin else words.worse if gain < -verdict.margin else words.same
    return said.format(numbers)
