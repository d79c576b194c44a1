"""The page of the paper's tables and figures says what the records say."""

from __future__ import annotations

import json

from atklearn.report.content import Explorer, Table
from atklearn.report.paper_charts import number_ranges
from atklearn.report.paper_numbers import PAPER_TABLES
from atklearn.report.paper_page import paper_page, paper_summary
from atklearn.study.results import read_results


def test_what_is_missing_is_named(results):
    path, skipped = results
    assert [record["dataset"] for record in skipped] == ["German"]
    page = paper_page(read_results(path))
    assert "German" in page.sections[-1].blocks[0]
    assert page.sections[-1].title == "Not run"


def test_tables_show_ours_and_the_papers(results):
    page = paper_page(read_results(results[0]))
    tables = {block.name: block for section in page.sections for block in section.blocks if isinstance(block, Table)}
    assert {"table-error", "table-g-mean", "table-rmse", "table-mae", "toy-ranges"} == set(tables)
    ours, theirs, *_ = tables["table-error"].rows
    assert ours[0].text == "Monk, log loss"
    assert [cell.text for cell in theirs] == ["paper", "22.41(2.95)", "20.46(2.02)", "16.76(2.29)", ""]
    assert ours[-1].emphasis == "optimistic"
    summary = paper_summary(read_results(results[0]))["tables"]["error"]["monk"]["log_loss"]
    assert ours[2].text.startswith(f"{summary['average']['mean']:.2f}(")
    assert summary["hindsight"]["mean"] <= summary["atk"]["mean"]


def test_every_table_of_the_paper_is_there():
    assert {measure: len(sets) for measure, sets in PAPER_TABLES.items()} == {
        "error": 8, "rmse": 4, "g_mean": 8, "mae": 4
    }  # fmt: skip


def test_figure_1_has_all_cases(results):
    page = paper_page(read_results(results[0]))
    explorers = [block for section in page.sections for block in section.blocks if isinstance(block, Explorer)]
    assert len(explorers) == 12
    assert all(len(explorer.steps) == 200 and explorer.plane.shaded is not None for explorer in explorers)
    outliers = [any(points.role == "outlier" for points in explorer.plane.points) for explorer in explorers]
    assert outliers == [False, False, True, True, False, False, True, True, False, False, True, True]


def said_by(page):
    """Return all that a page says outside of its charts: by name of the entry or of the table."""
    notes = {block.name: block for section in page.sections for block in section.blocks if isinstance(block, Table)}
    texts = [block for section in page.sections for block in section.blocks if isinstance(block, str)]
    return dict(page.provenance), notes, " ".join(texts)


def test_the_page_says_what_the_records_say(results):
    """Other numbers in the records are other numbers on the page: none of them is the page's own."""
    records = [json.loads(json.dumps(record)) for record in read_results(results[0])]
    before, tables, _ = said_by(paper_page(records))
    assert "50 % to train, 25 % to choose, 25 % to test; C from 1e-05 to 100000," in before["Protocol"]
    for name, tol in {"Fits of the tables": "0.001", "Fits of Figure 1": "1e-06", "Fits of Figure 3": "0.0001"}.items():
        assert f"({tol} was asked for)" in before[name] or f" {tol}, as asked for" in before[name]
    assert "k = 10: error %" in tables["toy-ranges"].columns
    assert tables["table-rmse"].title == "Table 2: RMSE, targets scaled to [0, 1]"
    config = records[0]["config"]
    config["protocol"] = {
        "shares": {"train": 0.6, "validation": 0.3, "test": 0.1}, "Cs": [0.5, 7.0], "most_extended_Cs": [0.125, 77.0],
        "n_ks": 13, "penalize_intercept": False, "features": "left alone", "targets": "upside down", "sinc": "kept",
    }  # fmt: skip
    config["n_splits"], config["solver"] = 3, "other"
    for record in records:
        if "n_fits" in record:
            record |= {"tol": 0.5, "gap": 0.25, "n_missed": 0}
        if record.get("figure") == 1:
            record["shown_k"], record["C"] = 7, 3.0
        if record.get("figure") == 3:
            record["C"], record["n_missed"] = 4.0, 1
    page = paper_page(records)
    after, tables, text = said_by(page)
    assert after["Protocol"] == (
        "3 random splits, 60 % to train, 30 % to choose, 10 % to test; C from 0.5 to 7, extended while the best is at "
        "an end, at most to 0.125 and 77; 13 k log-spaced from 1 to n, as far as they differ; an intercept; features "
        "left alone; Sinc kept"
    )
    assert after["Rerun"].endswith("--splits 3 --solver other")
    for name in ("Fits of the tables", "Fits of Figure 1"):
        assert after[name].endswith("a relative duality gap of at most 0.25 (0.5 was asked for)")
    n_curves = sum(record["record"] == "curve" and record["figure"] == 3 for record in records)
    assert after["Fits of Figure 3"].startswith(f"{n_curves * (curve_length(records) - 1)} of ")
    assert tables["table-rmse"].title == "Table 2: RMSE, targets upside down"
    assert "k = 7: error %" in tables["toy-ranges"].columns
    assert "at C = 3 with an intercept, all k from 1 to 200" in tables["toy-ranges"].note
    assert "AT_7 stay" in text
    explorer = next(block for section in page.sections for block in section.blocks if isinstance(block, Explorer))
    assert explorer.steps[explorer.start].x == 7.0
    chart = next(section for section in page.sections if section.name == "figure-3").blocks[0]
    assert "C = 4." in chart.note


def curve_length(records):
    return next(len(record["x"]) for record in records if record.get("figure") == 3)


def test_the_test_knows_how_large_the_parts_are(results):
    """A larger test part makes splits overlap more, and differences less sure."""
    records = [json.loads(json.dumps(record)) for record in read_results(results[0])]

    def sure(train, test):
        records[0]["config"]["protocol"]["shares"] = {"train": train, "validation": 0.0, "test": test}
        tables = said_by(paper_page(records))[1].values()
        return sum(cell.emphasis == "close" for table in tables for row in table.rows for cell in row)

    assert sure(0.999, 0.001) < sure(0.001, 0.999)


def test_ranges_are_short():
    assert number_ranges([4, 5, 6, 9]) == "4-6, 9"
