"""What changes between the average and AT_k: rows that flip, errors by size of the target, weights side by side."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from atklearn.losses.individual import Array
from atklearn.losses.labels import chosen_labels
from atklearn.measures import MEASURES
from atklearn.report.comparison_findings import Contrast, Findings
from atklearn.report.content import Block, Cell, Table
from atklearn.report.family_words import FamilyWords
from atklearn.report.wording import amount, listed, model_in_words, sentence
from atklearn.study.results import Record

__all__ = ["what_changes"]

_N_WEIGHTS = 15
_FIFTHS = (0.2, 0.4, 0.6, 0.8)
Mask = npt.NDArray[np.bool_]


def what_changes(found: Findings) -> list[Block]:
    """Return what differs between the two models on rows they had not seen, and in what they weigh."""
    contrast = found.contrast
    if contrast is None:
        return ["No k below n was tried, so there is nothing to compare.", *_weights(found)]
    changed = _flips(found, contrast) if found.data["task"] == "classification" else _errors(found, contrast)
    return [_who_is_meant(found, contrast), *changed, *_weights(found)]


def _who_is_meant(found: Findings, contrast: Contrast) -> str:
    """Say which two models are put side by side."""
    n = len(found.outcome.splits)
    title = MEASURES[found.score].title
    average, atk = (_most_frequent(contrast, side) for side in ("average", "atk"))
    share = float(np.median([choice.share for choice in contrast.choices["atk"]]))
    text = (
        f"Side by side: the average and AT_k that were chosen by {title} on each split, and what they said about rows "
        f"they had not seen. The average is mostly that of {average}; AT_k has mostly {atk} and a median k/n of "
        f"{share:.2g}."
    )
    if contrast.kept == n:
        return (
            f"AT_k kept the average on all {n} splits, so nothing changes. To show what a smaller k would do, AT_k "
            f"stands here for the best k below n. {text}"
        )
    return f"{text} On {contrast.kept} of {n} splits AT_k kept the average." if contrast.kept else text


def _most_frequent(contrast: Contrast, side: str) -> str:
    names = [model_in_words(choice.loss, choice.weights) for choice in contrast.choices[side]]
    return max(dict.fromkeys(names), key=names.count)


def _parts(found: Findings) -> Iterator[tuple[str, Mask]]:
    """Yield the groups of rows, if there are any, by name."""
    groups = found.outcome.rows.groups
    if groups is not None:
        for group in np.unique(groups):
            yield f"{found.data['group']}: {group}", groups == group


def _count(values: Mask, rows: Mask) -> float:
    """Return how many of some rows it is true of, averaged over the repeats."""
    return float(values[:, rows].sum(axis=1).mean())


def _shown(count: float, repeats: int) -> Cell:
    return Cell(f"{count:.0f}" if repeats == 1 else f"{count:.1f}")


def _averaged(found: Findings) -> str:
    return "" if found.repeats == 1 else f" Counts are averages over the {found.repeats} repeats."


def _flips(found: Findings, contrast: Contrast) -> list[Block]:
    """Return how many rows get another label, and what becomes of them."""
    y, codes = found.truth, np.arange(len(found.data["classes"]))
    average, atk = (chosen_labels(contrast.said[side], codes) for side in ("average", "atk"))
    differ = average != atk
    right, wrong = differ & (atk == y), differ & (average == y)
    other = differ & ~right & ~wrong
    everyone = np.ones(y.size, dtype=bool)
    parts = [("all rows", everyone)]
    parts += [(f"{found.data['target']}: {name}", y == code) for code, name in enumerate(found.data["classes"])]
    parts += _parts(found)
    counted = [right, wrong, *([other] if codes.size > 2 else [])]
    rows = [
        [
            Cell(name), Cell(str(int(of.sum()))), _shown(_count(differ, of), found.repeats),
            *(_shown(_count(which, of), found.repeats) for which in counted),
        ]
        for name, of in parts
    ]  # fmt: skip
    total, better, worse = (cell.text for cell in rows[0][2:5])
    rest = f", {rows[0][5].text} another wrong one" if codes.size > 2 else ""
    said = (
        f"Of {y.size} rows, {total} get another label from AT_k than from the average: {better} a right one instead of "
        f"a wrong one, {worse} a wrong one instead of a right one{rest}.{_averaged(found)}"
    )
    columns = ["rows of", "rows", "other label", "become right", "become wrong"]
    columns += ["stay wrong"] if codes.size > 2 else []
    return [said, Table("flips", "Rows that get another label from AT_k", columns, rows)]


def _errors(found: Findings, contrast: Contrast) -> list[Block]:
    """Return the errors by fifths of the target and by group: how large, in which direction, for how many rows."""
    y, target = found.truth, found.data["target"]
    average, atk = (contrast.said[side][:, 0] - y for side in ("average", "atk"))
    smaller, larger = np.abs(atk) < np.abs(average), np.abs(atk) > np.abs(average)
    edges = np.unique(np.quantile(y, _FIFTHS))
    fifth = np.searchsorted(edges, y)
    size = float(np.abs(y).max())
    parts = [
        (f"{amount(float(y[of].min()), size)} to {amount(float(y[of].max()), size)}", of)
        for of in (fifth == code for code in range(edges.size + 1))
        if of.any()
    ]
    everyone = np.ones(y.size, dtype=bool)
    parts += [*_parts(found), ("all rows", everyone)]
    like = float(np.abs(average).mean())
    rows = [
        [
            Cell(name), Cell(str(int(of.sum()))),
            *(Cell(amount(float(np.abs(side[:, of]).mean()), like)) for side in (average, atk)),
            *(Cell(amount(float(side[:, of].mean()), like, signed=True)) for side in (average, atk)),
            *(_shown(_count(which, of), found.repeats) for which in (smaller, larger)),
        ]
        for name, of in parts
    ]  # fmt: skip
    columns = [target, "rows", "|error| average", "|error| AT_k", "bias average", "bias AT_k", "smaller", "larger"]
    said = (
        f"Of {y.size} rows, {rows[-1][6].text} have a smaller error with AT_k than with the average, "
        f"{rows[-1][7].text} a larger one.{_averaged(found)}"
    )
    note = (
        f"By fifths of {target}, from the smallest to the largest. |error|: the mean size of the errors. Bias: the "
        f"mean of prediction minus {target}; below zero is too low. Smaller, larger: the rows whose error gets smaller "
        "or larger with AT_k."
    )
    return [said, Table("errors-by-target", f"Errors by size of {target}", columns, rows, note)]


def _weights(found: Findings) -> list[Block]:
    """Return what the features weigh most in the two models that are fitted to all rows."""
    models = [found.model, *([] if found.other is None else [found.other])]
    models.sort(key=lambda model: -float(model["share"]))
    titles = ["average" if model["share"] == 1.0 else "AT_k" for model in models]
    words, task = found.words, found.data["task"]
    # in units of the target; all else is a part of what the model weighs in all
    numbers = words.is_linear and task == "regression"
    classes = found.data.get("classes", []) if words.is_linear else []
    values = np.array([_scaled(model, numbers) for model in models])  # (n_models, n_features, n_problems)
    sizes = np.abs([*values, values[0] - values[-1]]).max(axis=0)
    order = np.argsort(-sizes, axis=None, kind="stable")[:_N_WEIGHTS]
    like = float(sizes.max()) if numbers else 10.0
    rows = []
    for i, j in zip(*np.unravel_index(order, sizes.shape), strict=True):
        name = Cell(models[0]["feature_weights"][i][0])
        which = [Cell(classes[j])] if len(classes) > 2 else []
        rows.append([name, *which, *(Cell(_weight(value, like, numbers, words)) for value in values[:, i, j])])
    unit = found.model["feature_unit"]
    if not words.is_linear:
        note = "In per cent of what all splits of a model's trees gain, by the feature that they split by."
    elif numbers:
        note = (
            f"How much the prediction of {found.data['target']} changes with one {unit} of the feature, in units of "
            f"{found.data['target']}."
        )
    else:
        note = (
            f"In per cent of all weights of the model, since models with other losses have weights of another size; "
            f"the features are scaled to their {unit}. A weight above zero speaks for "
            f"{'the class that is named' if len(classes) > 2 else classes[1]}."
        )
    described = [_described(*pair, words) for pair in zip(titles, models, strict=True)]
    n_weights = found.model["n_features"] * values.shape[2]
    part = f"the {len(rows)} largest {words.weights} or changes" if len(rows) < n_weights else f"all {words.weights}"
    return [
        Table(
            "weights",
            f"What the models weigh, fitted to all rows: {part}",
            ["feature", *(["class"] if len(classes) > 2 else []), *titles],
            rows,
            f"{sentence(listed(described))}. {note}",
        )
    ]


def _scaled(model: Record, numbers: bool) -> Array:
    """Return weights, shape (n_features, n_problems): as they are for numbers, else in per cent of their sum."""
    weights = np.array([values for _, *values in model["feature_weights"]], dtype=np.float64)
    sums = np.array(model["weight_sums"])
    return weights if numbers else 100.0 * weights / np.where(sums > 0.0, sums, 1.0)


def _weight(value: float, like: float, numbers: bool, words: FamilyWords) -> str:
    if numbers:
        return amount(value, like, signed=True)
    return f"{value + 0.0:+.1f}" if words.is_linear else f"{value:.1f}"


def _described(title: str, model: Record, words: FamilyWords) -> str:
    k = "" if title == "average" else f"k/n = {model['share']:.3g}, "
    return f"{title}: {model_in_words(model['loss'], model['weights'])}, {k}{words.valued(model['strength'])}"
