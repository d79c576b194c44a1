"""The report of a comparison says what its records say, and nothing that another part of it denies."""

from __future__ import annotations

import json
import re

import pytest
from compared_pages import (
    ALL_KINDS,
    UNUSUAL,
    blocks_of,
    compared,
    explorer_of,
    late_rows,
    of_kind,
    page_of,
    said,
    summary_of,
    tables_of,
    texts_of,
)
from comparisons import made, settings_with, table

from atklearn.losses.individual import INDIVIDUAL_LOSSES
from atklearn.measures import MEASURES, Measure
from atklearn.report.comparison_findings import Findings, would_settle
from atklearn.report.content import Chart
from atklearn.report.wording import LOSS_TITLES, WEIGHT_TITLES, certified, number
from atklearn.study.methods import CLASS_WEIGHTS
from atklearn.study.outcome import Question
from atklearn.study.split_grids import SplitGrids


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_every_number_is_that_of_the_summary(records, kind):
    """Table, headline and plain data are three views of the same verdicts."""
    found, summary, page = records(kind), summary_of(records(kind)), page_of(records(kind))
    json.dumps(summary, allow_nan=False)
    assert f"{summary['verdict']} {summary['headline']}" == f"{page.verdict} {page.headline}"
    words = {"same": "the same"}
    for name, block in (("verdicts", "verdicts"), ("with_maps", "with-maps"), ("within_log_loss", "within-log-loss")):
        rows = tables_of(page)[block].rows if summary[name] else []
        assert len(rows) == len(summary[name])
        for row, (measure, verdict) in zip(rows, summary[name].items(), strict=True):
            assert row[0].text == MEASURES[measure].heading
            assert row[1].text == number(verdict["average"], measure)
            assert row[2].text == number(verdict["atk"], measure)
            assert row[5].text == words.get(verdict["answer"], verdict["answer"])
    score = summary["verdicts"][summary["score"]]
    assert page.outcome == score["answer"]
    assert f"{len(of_kind(found, 'data')[0]['truth'])} rows" in tables_of(page)["verdicts"].note


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_nothing_is_said_that_the_answers_deny(records, kind):
    """A measure is said to be helped only if its answer says so, and the recommendation follows the answer."""
    summary, page = summary_of(records(kind)), page_of(records(kind))
    answers = {MEASURES[name].title: verdict["answer"] for name, verdict in summary["verdicts"].items()}
    for word in ("helps", "hurts"):
        named = re.findall(rf"AT_k {word} on ([^;]*)", page.verdict)
        for title in [title for group in named for title in re.split(r", | and ", group)]:
            assert answers[title] == word
    score = summary["verdicts"][summary["score"]]
    share, reason = summary["recommendation"]["share"], summary["recommendation"]["reason"]
    if score["answer"] == "helps" and "better still" not in reason:
        assert share < 1.0
    if score["answer"] in ("same", "hurts"):
        assert share == 1.0
    assert ("undecided on the test parts" in reason) == (score["answer"] == "undecided")
    if score["answer"] == "undecided":
        assert "This run could have told" in page.headline
    recommended = texts_of(page, "answer")[0]
    assert ("k = n, the average" in recommended) == (share == 1.0)


def test_the_tail_is_found_where_the_mean_has_nothing(records):
    summary = summary_of(records("late"))
    assert summary["score"] == "rmse"
    assert summary["verdicts"]["rmse"]["answer"] in ("same", "undecided")
    assert summary["verdicts"]["tail_error"]["answer"] == "helps"
    assert "helps on" in summary["verdict"]
    assert "tail error" in summary["verdict"]
    text = " ".join(block for block in blocks_of(page_of(records("late"))) if isinstance(block, str))
    assert "--scoring tail_error" in text
    assert "an affine map of the predictions is what one would try instead" in text.lower()


def test_same_model_same_numbers(records):
    for kind in ALL_KINDS:
        outcome = Findings(records(kind)).outcome
        for name, verdict in outcome.verdicts.items():
            if outcome.kept_average(name) == len(outcome.splits):
                assert (verdict.average, verdict.low, verdict.high) == (verdict.atk, 0.0, 0.0)
                assert verdict.answer == "same"


def test_the_trade_off_is_read_off_the_validation(records):
    found = Findings(records("late"))
    chart = next(block for block in blocks_of(page_of(records("late"))) if isinstance(block, Chart))
    path, average = chart.series[:2]
    assert (chart.x_title, chart.y_title) == ("RMSE", "tail error")
    assert path.labels[-1] == "100 %"
    assert (path.x[-1], path.y[-1]) == (average.x[0], average.y[0])
    assert min(path.y) < path.y[-1], "along k the tail gets better"
    assert min(path.x) > 0.95 * path.x[-1], "and the mean does not"
    grid = next(grid for grid in found.outcome.all_rows if LOSS_TITLES[grid.loss] == path.name)
    best = grid.scores("rmse").mean(axis=0)[-1].argmax()
    assert path.x[-1] == pytest.approx(grid.validation["rmse"].mean(axis=0)[-1, best])


def test_another_question_moves_the_recommended_point(tmp_path):
    data = table(*late_rows(), "regression")
    records = compared(data, tmp_path / "late.jsonl", question=Question("tail_error"))
    chart = next(block for block in blocks_of(page_of(records)) if isinstance(block, Chart))
    assert chart.series[-1].name == "recommended"
    assert chart.series[-1].y[0] < chart.series[1].y[0]


def test_the_curve_stands_beside_the_best_average(records):
    """So that a curve that falls towards small k is not taken for a gain that class weights have, too."""
    chart = explorer_of(page_of(records("groups"))).chart
    line = next(series for series in chart.series if series.role == "average")
    found = Findings(records("groups")).outcome
    best = min(grid.validation["balanced_error"].mean(axis=0)[-1].min() for grid in found.all_rows)
    assert line.y[0] == pytest.approx(100.0 * best)


def test_groups(records):
    found = tables_of(page_of(records("groups")))
    assert [row[0].text for row in found["groups"].rows] == ["north", "south"]
    assert {row[0].text for row in found["top-by-group"].rows} == {"north", "south"}
    north, south = (float(row[1].text) for row in found["groups"].rows)
    assert north < south
    summary = summary_of(records("groups"))
    assert summary["verdicts"]["worst_group_error"]["average"] >= summary["verdicts"]["error"]["average"]


def test_numbers_are_in_units_of_the_target(records):
    summary = summary_of(records("late"))
    average = next(m for m in summary["methods"] if (m["aggregate"], m["loss"]) == ("average", "squared_error"))
    assert 1.0 < average["values"]["rmse"] < 4.0
    assert "error" not in average["values"]


def test_losses_without_probabilities_leave_their_cells_empty(records):
    methods = tables_of(page_of(records("three")))["methods"]
    place = methods.columns.index("log loss")
    assert {bool(row[place].text) for row in methods.rows if "hinge" in row[0].text} == {False}
    assert all(row[place].text for row in methods.rows if "log loss" in row[0].text)
    assert "second name for C" in methods.note


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_the_hardest_rows_come_first(records, kind):
    rows = tables_of(page_of(records(kind)))["hardest-rows"].rows
    sizes = [abs(float(row[3].text)) for row in rows]
    assert sizes == sorted(sizes, reverse=True)
    assert all(1 <= int(row[0].text) <= 240 for row in rows)


def test_the_settings_are_those_of_the_run(records):
    found = said(records("toy"))
    assert found["Splits"] == "3-fold cross-validation, twice"
    assert found["Choice of loss, weights, k and C"] == (
        "within each training part, 4-fold cross-validation, by each measure for itself"
    )
    assert found["Grids"] == "3 values of k and the maximum, 2 of C from 0.1 to 10000"
    assert found["Features"].endswith("then standardised")
    assert "Left out" not in found


def test_a_quick_look_says_what_it_leaves_out(tmp_path):
    records = compared(table(*made(100)), tmp_path / "quick.jsonl", quick=True, n_folds=2)
    assert "finer grids" in said(records)["Left out"]
    assert {grid.loss for grid in Findings(records).outcome.all_rows} == {"log_loss", "squared_hinge", "hinge"}


def test_gaps_are_those_that_were_reached(records):
    found, lines = said(records("toy")), records("toy")
    largest = max(gap for cell in of_kind(lines, "cell") for gap in (cell["gap"], cell["fold_gap"]) if gap is not None)
    assert 0.0 < largest <= 0.02
    assert found["Fits of the grids"] == (
        f"every fit is certified to a relative duality gap of at most {largest:.2g} (0.02 was asked for)"
    )
    assert found["Fits on all rows"].endswith("(1e-06 was asked for)")
    assert all(
        record["gap"] <= record["tol"] for kind in ("model", "other", "point") for record in of_kind(lines, kind)
    )
    for cell in of_kind(lines, "cell"):
        assert (cell["gap"] is None) == (cell["split"] is None), "no gap is recorded where there was no fit"
        assert 0.0 <= cell["fold_gap"] <= cell["tol"] == 0.02


def test_other_records_are_another_report(records):
    """What is said of the run is read, number by number."""
    lines = records("toy")
    of_kind(lines, "data")[0]["features"] = "as they came"
    for cell in of_kind(lines, "cell"):
        cell["tol"], cell["n_folds"] = 0.5, 2
    of_kind(lines, "cell")[0] |= {"fold_gap": 0.75, "n_missed": 2}
    of_kind(lines, "model")[0] |= {"gap": 0.003, "tol": 0.004, "reason": "it rained"}
    of_kind(lines, "other")[0] |= {"gap": 0.001, "tol": 0.004}
    found = said(lines)
    n_fits = sum(cell["n_fits"] for cell in of_kind(lines, "cell"))
    assert "2-fold cross-validation, repeated 2 times" in found["Choice of loss, weights, k and C"]
    assert found["Features"].endswith(": as they came")
    assert found["Fits of the grids"] == (
        f"{n_fits - 2} of {n_fits} fits are certified to a relative duality gap of 0.5, as asked for; the largest gap "
        "is 0.75"
    )
    assert found["Fits on all rows"].endswith("of at most 0.003 (0.004 was asked for)")
    assert "it rained" in texts_of(page_of(lines), "answer")[0]


def test_sparse_features_are_not_said_to_be_standardised(records):
    assert "largest absolute value" in said(records("sparse"))["Features"]


def test_an_interrupted_comparison_has_no_report(records):
    with pytest.raises(ValueError, match="was interrupted"):
        page_of([record for record in records("toy") if record["record"] != "answer"])


def test_what_is_open_says_what_would_settle_it(records):
    found = Findings(records("groups")).outcome
    for verdict in found.verdicts.values():
        assert (verdict.remedy is not None) == (verdict.answer == "undecided")
        assert number(verdict.detectable, verdict.measure, like=verdict.average) in would_settle(verdict)


def test_one_entry_adds_a_measure(tmp_path, monkeypatch):
    """It is computed, may choose, gives the verdict and is shown, and nothing but the catalogue knows it."""
    accuracy = Measure(
        "accuracy", "accuracy", ("classification",), lambda answers: 1.0 - answers.mean(answers.wrong),
        higher_is_better=True, percent=True, digits=2,
    )  # fmt: skip
    monkeypatch.setitem(MEASURES, "accuracy", accuracy)
    question = Question.about("classification", has_groups=False, score="accuracy")
    records = compared(table(*made(90)), tmp_path / "results.jsonl", question=question, repeats=1)
    summary, page = summary_of(records), page_of(records)
    assert summary["verdicts"]["accuracy"]["atk"] == pytest.approx(1.0 - summary["verdicts"]["error"]["atk"], abs=0.05)
    assert page.headline.startswith("Accuracy ")
    assert tables_of(page)["methods"].columns[1] == "accuracy %"
    assert explorer_of(page).chart.y_title == "accuracy %"


def test_everything_that_is_compared_has_a_title():
    assert {*INDIVIDUAL_LOSSES} == {*LOSS_TITLES}
    assert {*CLASS_WEIGHTS} == {*WEIGHT_TITLES}


def test_without_fits_nothing_is_certified():
    assert certified([]) == ""


def test_a_part_of_the_rows_may_be_judged(tmp_path, monkeypatch):
    monkeypatch.setattr("atklearn.study.split_grids._MOST_JUDGED", 60)
    data = table(*late_rows(), "regression")
    records = compared(data, tmp_path / "part.jsonl", repeats=1)
    assert said(records)["Rows judged on"] == "60 of them"
    assert SplitGrids(data, settings_with("regression", 240, **UNUSUAL)).judged.size == 60
