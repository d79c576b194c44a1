"""What the report shows beside the answer: the data, what changes, how good it is, the hardest rows."""

from __future__ import annotations

from io import StringIO

import numpy as np
import pytest
from compared_pages import (
    ALL_KINDS,
    UNUSUAL,
    charts_of,
    compared,
    explorer_of,
    many_kinds,
    of_kind,
    page_of,
    summary_of,
    tables_of,
    texts_of,
)
from comparisons import table
from pages import HOSTILE
from rich.console import Console

from atklearn.datasets import make_toy
from atklearn.losses.labels import chosen_labels
from atklearn.measures import MEASURES
from atklearn.report.comparison_findings import Findings
from atklearn.report.comparison_page import comparison_page
from atklearn.report.markdown import render_markdown
from atklearn.report.notebook import render_fragment
from atklearn.report.page import render_page
from atklearn.report.terminal import print_headline
from atklearn.report.wording import number
from atklearn.study.outcome import Question

CLASSES = ["toy", "groups", "three", "sparse"]
HEALTH = {
    "rows_read": 210, "rows_used": 200, "rows_left_out": [[7, "no target"], [3, "<b>twice</b>"]],
    "columns": [["y", "target", ""], ["x0", "number", ""], ["x1", "category", "3 values"], ["id", "left out", "an id"]],
    "warnings": ["the column <img src=x> tells the target", "few rows"],
}  # fmt: skip


def values(row, start=1):
    return [float(cell.text) for cell in row[start:]]


# What is compared, and on which data


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_a_newcomer_is_told_what_is_compared(records, kind):
    found, page = records(kind), page_of(records(kind))
    n = of_kind(found, "data")[0]["n_used"]
    what, counts = texts_of(page, "compared")
    assert f"“y” is fitted by making its errors on the {n} rows small" in what
    assert f"With k = {n}, all rows, that is the usual average; with k = 1 it is the maximum" in what
    score = MEASURES[of_kind(found, "answer")[0]["score"]]
    assert f"What counts here is {score.title}: {score.meaning}. A lower one is better." in counts


def test_every_measure_is_explained():
    assert not [name for name, measure in MEASURES.items() if not measure.meaning]


def with_health(records, **changes):
    of_kind(records, "data")[0]["health"] = {**HEALTH, **changes}
    return page_of(records)


def test_warnings_come_before_all_else(records):
    page = with_health(records("toy"))
    assert page.warnings == ["The column <img src=x> tells the target", "Few rows"]
    assert texts_of(page, "data")[0] == "Of 210 rows, 200 are used; left out are 7 (no target) and 3 (<b>twice</b>)."
    assert [[cell.text for cell in row] for row in tables_of(page)["columns"].rows] == HEALTH["columns"]
    html = render_page(page)
    assert html.index("Few rows") < html.index("What is compared")
    console = Console(file=StringIO(), width=80)
    print_headline(page, console)
    for text in (console.file.getvalue(), render_fragment(page), render_markdown(page, "figures")):
        assert "Few rows" in text
    assert "<img src=x>" not in html
    assert "&lt;b&gt;twice&lt;/b&gt;" in html


def test_many_columns_are_counted(records):
    columns = HEALTH["columns"] + [[f"n{i}", "number", ""] for i in range(20)] + [["when", "date", ""]]
    page = with_health(records("toy"), columns=columns, rows_used=210, rows_left_out=[])
    assert "All 210 rows are used." in texts_of(page, "data")
    assert [row[0].text for row in tables_of(page)["columns"].rows] == ["x1", "id"]
    assert texts_of(page, "data")[-1] == "The other columns are used as they are: 1 target, 21 numbers and 1 date."
    page = with_health(records("sparse"), columns=[])
    assert texts_of(page, "data")[-1] == "The 4 columns have no names and are used as numbers."
    assert "columns" not in tables_of(page)


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_the_target_is_described(records, kind):
    data = of_kind(records(kind), "data")[0]
    text = next(text for text in texts_of(page_of(records(kind)), "data") if "target" in text)
    if kind == "late":
        assert f"from {min(data['truth']):.1f} to {max(data['truth']):.1f}" in text
    else:
        assert f"one of {len(data['classes'])} classes" in text
        assert all(f"{name} ({n} rows)" in text for name, n in zip(data["classes"], data["counts"], strict=True))


# The answer


def test_the_end_of_a_grid_is_explained(records):
    lines = records("late")
    model = of_kind(lines, "model")[0]
    grid = Findings(lines).grid_of(model["loss"], model["weights"])
    for strength, share, words in [
        (grid.strengths[-1], 1.0, ["hardly any regularisation"]),
        (grid.strengths[0], 1.0, ["nearly constant"]),
        (2.0, float(grid.shares[grid.below_all][0]), ["a smaller one might be better still"]),
        (2.0, 1.0, []),
    ]:
        model |= {"strength": float(strength), "share": share}
        text = " ".join(texts_of(page_of(lines), "answer"))
        for phrase in ("hardly any regularisation", "nearly constant", "a smaller one might be better still"):
            assert (phrase in text) == (phrase in words)


# What changes


@pytest.mark.parametrize("kind", CLASSES)
def test_flips_add_up(records, kind):
    found = Findings(records(kind))
    rows = tables_of(page_of(records(kind)))["flips"].rows
    n_classes = len(found.data["classes"])
    everyone, of_class, of_group = values(rows[0]), rows[1 : 1 + n_classes], rows[1 + n_classes :]
    np.testing.assert_allclose(np.sum([values(row) for row in of_class], axis=0), everyone, atol=0.11 * n_classes)
    if of_group:
        np.testing.assert_allclose(np.sum([values(row) for row in of_group], axis=0), everyone, atol=0.21)
    for row in rows:
        _, differ, *what = values(row)
        assert sum(what) == pytest.approx(differ, abs=0.21)
    y, codes = found.truth, np.arange(n_classes)
    average, atk = (chosen_labels(found.contrast.said[side], codes) for side in ("average", "atk"))
    assert everyone[1] == pytest.approx((average != atk).sum(axis=1).mean(), abs=0.06)
    gained = (average != y).sum(axis=1).mean() - (atk != y).sum(axis=1).mean()
    assert everyone[2] - everyone[3] == pytest.approx(gained, abs=0.11)


def test_errors_by_fifths_are_those_of_the_predictions(records):
    found = Findings(records("late"))
    rows = tables_of(page_of(records("late")))["errors-by-target"].rows
    fifths, groups, everyone = rows[:5], rows[5:7], rows[-1]
    assert [row[0].text for row in groups] == ["town: in time", "town: late"]
    counts = [float(row[1].text) for row in fifths]
    assert sum(counts) == sum(float(row[1].text) for row in groups) == found.truth.size
    assert max(counts) - min(counts) <= 1
    for place, side in ((2, "average"), (3, "atk")):
        error = found.contrast.said[side][:, 0] - found.truth
        assert float(everyone[place].text) == pytest.approx(np.abs(error).mean(), abs=1e-3)
        assert float(everyone[place + 2].text) == pytest.approx(error.mean(), abs=1e-3)
        assert np.average([float(row[place].text) for row in fifths], weights=counts) == pytest.approx(
            np.abs(error).mean(), abs=2e-3
        )
    smaller, larger = float(everyone[6].text), float(everyone[7].text)
    assert smaller + larger <= found.truth.size


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_where_atk_kept_the_average_a_smaller_k_stands_in(records, kind):
    found = Findings(records(kind))
    text = texts_of(page_of(records(kind)), "changes")[0]
    kept = found.outcome.kept_average(found.score)
    assert ("kept the average on all" in text) == (kept == len(found.outcome.splits))
    if 0 < kept < len(found.outcome.splits):
        assert f"On {kept} of {len(found.outcome.splits)} splits AT_k kept the average." in text
    shares = {choice.share for choice in found.contrast.choices["atk"]}
    assert min(shares) < 1.0


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_weights_are_those_of_the_records(records, kind):
    lines = records(kind)
    model, other = of_kind(lines, "model")[0], of_kind(lines, "other")[0]
    average, atk = (model, other) if model["share"] == 1.0 else (other, model)
    assert average["share"] == 1.0 > atk["share"]
    shown = tables_of(page_of(lines))["weights"]
    classes = of_kind(lines, "data")[0].get("classes", [])
    several = len(classes) > 2
    assert shown.columns == ["feature", *(["class"] if several else []), "average", "AT_k"]
    n_weights = model["n_features"] * len(model["weight_sums"])
    assert len(shown.rows) == min(15, n_weights)
    assert shown.title.endswith("all weights") == (len(shown.rows) == n_weights)
    for row in shown.rows:
        place = 1 + (classes.index(row[1].text) if several else 0)
        for cell, of in zip(row[-2:], (average, atk), strict=True):
            weight = next(entry for entry in of["feature_weights"] if entry[0] == row[0].text)[place]
            scale = 1.0 if kind == "late" else 100.0 / of["weight_sums"][place - 1]
            assert float(cell.text) == pytest.approx(scale * weight, abs=0.051)


def test_without_a_smaller_k_nothing_is_put_side_by_side(tmp_path):
    data = many_kinds()["toy"]
    lines = compared(data, tmp_path / "hinge.jsonl", losses=("hinge",), repeats=1)
    page = page_of(lines)
    assert "No k below n was tried" in texts_of(page, "changes")[0]
    assert tables_of(page)["weights"].columns == ["feature", "average"]
    assert "flips" not in tables_of(page)
    assert "roc" not in charts_of(page)


# How good it is


@pytest.mark.parametrize("kind", CLASSES)
def test_confusions_are_of_a_hundred_rows(records, kind):
    found, tables = Findings(records(kind)), tables_of(page_of(records(kind)))
    for side in ("average", "atk"):
        rows = tables[f"confusion-{side}"].rows
        assert all(sum(values(row)) == pytest.approx(100.0, abs=0.16) for row in rows)
        right = np.mean([values(row)[place] for place, row in enumerate(rows)])
        error = found.outcome.rows.measure("balanced_error", found.contrast.choices[side])
        assert right == pytest.approx(100.0 * (1.0 - error), abs=0.06)


def test_many_classes_say_what_they_are_taken_for(records, monkeypatch):
    monkeypatch.setattr("atklearn.report.comparison_quality._MOST_CLASSES", 2)
    found = Findings(records("three"))
    tables = tables_of(comparison_page(found))
    assert "confusion-average" not in tables
    rows = tables["confusion"].rows
    error = found.outcome.rows.measure("balanced_error", found.contrast.choices["average"])
    assert np.mean([float(row[1].text) for row in rows]) == pytest.approx(100.0 * error, abs=0.06)
    assert all(row[2].text.split(" (")[0] != row[0].text for row in rows), "a class is not taken for itself"


@pytest.mark.parametrize("kind", CLASSES)
def test_the_area_of_the_averaged_curve_is_the_mean_of_the_splits(records, kind):
    found, charts = Findings(records(kind)), charts_of(page_of(records(kind)))
    for series, side in zip(charts["roc"].series[:2], ("average", "atk"), strict=True):
        area = np.trapezoid(series.y, series.x) / 1e4
        assert area == pytest.approx(found.outcome.rows.measure("roc_auc", found.contrast.choices[side]), abs=0.01)
    for series, side in zip(charts["precision-recall"].series, ("average", "atk"), strict=True):
        precision = found.outcome.rows.measure("average_precision", found.contrast.choices[side])
        assert np.mean(series.y) / 100.0 == pytest.approx(precision, abs=0.01)


def test_calibration_keeps_the_share_of_the_class(records):
    found, chart = Findings(records("groups")), charts_of(page_of(records("groups")))["calibration"]
    for series in chart.series[:2]:
        assert len(series.x) == 10
        assert np.mean(series.y) == pytest.approx(100.0 * (found.truth == 1).mean())
    assert "calibration" not in charts_of(page_of(records("late")))


def test_the_largest_error_is_at_the_left(records):
    found, charts = Findings(records("late")), charts_of(page_of(records("late")))
    for series, side in zip(charts["error-sizes"].series, ("average", "atk"), strict=True):
        assert series.y[0] == pytest.approx(found.outcome.rows.measure("max_error", found.contrast.choices[side]))
    for series in charts["predicted-observed"].series[:2]:
        assert np.mean(series.y) == pytest.approx(found.truth.mean())


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_the_yardstick_stands_beside_the_verdicts(records, kind):
    summary, page = summary_of(records(kind)), page_of(records(kind))
    assert [*summary["yardstick"]] == [*summary["verdicts"]]
    for row, (name, verdict) in zip(tables_of(page)["yardstick"].rows, summary["verdicts"].items(), strict=True):
        shown = [verdict["average"], verdict["atk"], summary["yardstick"][name]]
        assert [cell.text for cell in row[1:]] == [number(value, name, like=verdict["average"]) for value in shown]
        best = max(MEASURES[name].sign * value for value in shown)
        assert [cell.emphasis == "best" for cell in row[1:]] == [MEASURES[name].sign * v == best for v in shown]
    score = summary["score"]
    verdict, sign = summary["verdicts"][score], MEASURES[score].sign
    gain = sign * summary["yardstick"][score] - max(sign * verdict["average"], sign * verdict["atk"])
    text = texts_of(page, "quality")[0]
    assert text.startswith("A non-linear model is better here") == (gain > verdict["margin"])


def test_sparse_features_that_are_too_many_have_no_yardstick(tmp_path, monkeypatch):
    monkeypatch.setattr("atklearn.study.yardstick._MOST_NUMBERS", 10)
    lines = compared(many_kinds()["sparse"], tmp_path / "wide.jsonl", losses=("log_loss",), repeats=1)
    assert "was not fitted" in texts_of(page_of(lines), "quality")[0]
    assert summary_of(lines)["yardstick"] == {}


# The hardest rows


def test_hard_rows_show_what_matters_in_units_of_the_table(records):
    """The columns are those that weigh most; values, predictions and errors are those of the table."""
    data, lines = many_kinds()["late"], records("late")
    shown = tables_of(page_of(lines))["hardest-rows"]
    assert shown.columns == ["row", "y", "prediction", "error", "x0", "x1"]
    for row in shown.rows:
        place = int(row[0].text) - 1
        target, prediction, error, x0, x1 = values(row)
        assert target == pytest.approx(data.target[place], rel=1e-5)
        assert error == pytest.approx(prediction - target, abs=2e-3)
        assert (x0, x1) == pytest.approx(tuple(data.features.iloc[place]), rel=1e-5)


# Pictures


def test_two_features_show_their_boundary(records):
    X, y = make_toy(4, random_state=0)
    X = X * [10.0, 0.1] + [5.0, -3.0]
    explorer, found = explorer_of(page_of(records("toy"))), Findings(records("toy"))
    assert len(explorer.steps) == UNUSUAL["n_ks"] == len(found.points)
    for step, point in zip(explorer.steps, found.points, strict=True):
        said_of = np.where(X @ [step.line.a, step.line.b] + step.line.c > 0.0, 1.0, -1.0)
        assert (said_of != y).mean() == pytest.approx(point["error"])
    assert explorer.plane.lines[0].name == "average, k = n"


def test_a_hinge_has_its_boundary_beside_those_of_the_path(tmp_path):
    data = many_kinds()["toy"]
    lines = compared(data, tmp_path / "hinge.jsonl", losses=("hinge", "log_loss"), weights=("plain",), repeats=1,
                     random_state=1, question=Question("error"))  # fmt: skip
    plane, model = of_kind(lines, "plane")[0], of_kind(lines, "model")[0]
    assert model["loss"] == "hinge"
    drawn = [line.name for line in explorer_of(page_of(lines)).plane.lines]
    assert plane["loss"] == "log_loss"
    assert drawn == ["average, k = n", "recommended: hinge"]
    a, b, c = plane["recommended"]
    labels = np.where(data.features.to_numpy() @ [a, b] + c > 0.0, "yes", "no")
    assert (labels != data.target).mean() <= 0.1


def test_a_number_shows_the_line_of_its_predictions(records):
    """Along the feature that turns most, with the other at its mean; at k = n it is the average's."""
    data, lines = many_kinds()["late"], records("late")
    explorer, plane = explorer_of(page_of(lines)), of_kind(lines, "plane")[0]
    assert explorer.plane.name == "predictions"
    assert plane["names"][1] == "y"
    assert [points.role for points in explorer.plane.points] == ["negative", "outlier"]
    assert explorer.plane.points[1].name == "town: late"
    assert sum(len(points.x) for points in explorer.plane.points) == 240
    model = next(m for m in of_kind(lines, "model") + of_kind(lines, "other") if m["share"] == 1.0)
    line = explorer.steps[-1].line
    middle = -(line.a * data.features[plane["names"][0]].mean() + line.c) / line.b
    if model["loss"] == plane["loss"]:
        weight = dict(map(tuple, model["feature_weights"]))[plane["names"][0]]
        spread = data.features[plane["names"][0]].std(ddof=0)
        assert -line.a / line.b * spread == pytest.approx(weight, rel=0.05)
    assert middle == pytest.approx(data.target.mean(), abs=0.5)


def test_hostile_columns_stay_text(tmp_path):
    X, y = make_toy(4, random_state=0)
    data = table(X, np.where(y > 0, HOSTILE[0], HOSTILE[2]))
    data.features.columns = list(HOSTILE[:2])
    page = page_of(compared(data, tmp_path / "hostile.jsonl", losses=("log_loss",), repeats=1))
    html = render_page(page)
    assert html.count("<script") == render_page(page_of(compared(
        table(X, np.where(y > 0, "yes", "no")), tmp_path / "tame.jsonl", losses=("log_loss",), repeats=1
    ))).count("<script")  # fmt: skip
    assert "<img src=x" not in html
    assert "<img src=x" not in render_markdown(page, "figures").replace("\\<", "")
    assert HOSTILE[0] in tables_of(page)["hardest-rows"].columns
