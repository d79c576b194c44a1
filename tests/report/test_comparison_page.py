"""The report of a comparison says what its records say, and nothing else about how it was run."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from atklearn.datasets import make_toy
from atklearn.losses.individual import INDIVIDUAL_LOSSES
from atklearn.measures import MEASURES, Measure
from atklearn.report.comparison_page import comparison_page
from atklearn.report.content import Explorer, Table
from atklearn.report.wording import LOSS_TITLES, WEIGHT_TITLES, certified, number
from atklearn.study.comparison import Settings, SplitGrids, run_comparison
from atklearn.study.methods import CLASS_WEIGHTS
from atklearn.study.results import read_results
from atklearn.study.tabular import TabularData

UNUSUAL = {"n_splits": 3, "n_ks": 3, "n_Cs": 2, "n_folds": 4, "test_share": 0.4, "tol": 0.02, "losses": ("hinge",)}


def toy_table():
    X, y = make_toy(4, random_state=0)
    frame = pd.DataFrame(X, columns=["x", "y"])
    rows = np.arange(1, len(y) + 1)
    labels = np.where(y > 0, "yes", "no")
    return TabularData("toy", frame, labels, "classification", "label", None, None, rows, "made here")


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    path = tmp_path_factory.mktemp("compare") / "results.jsonl"
    run_comparison(toy_table(), Settings.for_task("classification", **UNUSUAL), path)
    return [json.dumps(record) for record in read_results(path)]


@pytest.fixture
def records(lines):
    return [json.loads(line) for line in lines]


def of_kind(records, kind):
    return [record for record in records if record["record"] == kind]


def said(records):
    return dict(comparison_page(records).provenance)


def test_the_settings_are_those_of_the_run(records):
    found = said(records)
    assert found["Splits"] == "3 random splits, 60 % to train, 40 % to test"
    assert found["Choice of k and C"] == "within each training part, 4-fold cross-validation, by balanced error"
    assert found["Grids"] == "3 values of k and the maximum, 2 of C from 0.1 to 10000"
    assert found["Features"].endswith("then standardised")


def test_the_parts_are_as_large_as_asked_for():
    grids = SplitGrids(toy_table(), Settings.for_task("classification", **UNUSUAL))
    task = next(task for task in grids.tasks() if task.key is not None and task.key[0] == 0)
    assert {record["k"] for record in grids.run(task) if record["aggregate"] == "average"} == {120.0}


def test_gaps_are_those_that_were_reached(records):
    found = said(records)
    largest = max(
        gap for cell in of_kind(records, "cell") for gap in (cell["gap"], cell["fold_gap"]) if gap is not None
    )
    assert 0.0 < largest <= 0.02
    assert found["Fits of the grids"] == (
        f"every fit is certified to a relative duality gap of at most {largest:.2g} (0.02 was asked for)"
    )
    assert found["Recommended fit"].endswith("(1e-06 was asked for)")
    assert found["Fits of the boundaries"].endswith("(0.02 was asked for)")
    assert all(record["gap"] <= record["tol"] for kind in ("model", "point") for record in of_kind(records, kind))


def test_no_gap_is_recorded_where_there_was_no_fit(records):
    for cell in of_kind(records, "cell"):
        assert (cell["gap"] is None) == (cell["split"] is None)
        assert 0.0 <= cell["fold_gap"] <= cell["tol"] == 0.02
        assert cell["n_fits"] == 4 + (cell["split"] is not None)
        assert cell["n_missed"] == 0


def test_other_records_are_another_report(records):
    """What is said of the run is read, number by number."""
    data = of_kind(records, "data")[0]
    data["shares"], data["features"] = {"train": 0.9, "test": 0.1}, "as they came"
    records[0]["config"]["n_splits"] = 17
    for cell in of_kind(records, "cell"):
        cell["tol"], cell["n_folds"] = 0.5, 2
    of_kind(records, "cell")[0] |= {"fold_gap": 0.75, "n_missed": 2}
    of_kind(records, "model")[0] |= {"gap": 0.003, "tol": 0.004}
    found = said(records)
    n_fits = sum(cell["n_fits"] for cell in of_kind(records, "cell"))
    assert found["Splits"] == "17 random splits, 90 % to train, 10 % to test"
    assert "2-fold cross-validation, repeated 2 times" in found["Choice of k and C"]
    assert found["Features"].endswith(": as they came")
    assert found["Fits of the grids"] == (
        f"{n_fits - 2} of {n_fits} fits are certified to a relative duality gap of 0.5, as asked for; the largest gap "
        "is 0.75"
    )
    assert found["Recommended fit"].endswith("of at most 0.003 (0.004 was asked for)")


def test_a_larger_test_part_makes_the_verdict_more_cautious(records):
    rng = np.random.default_rng(0)
    for cell in of_kind(records, "cell"):
        cell["test"] = {name: value + 0.1 * rng.random() for name, value in cell["test"].items()}

    def error(train, test):
        of_kind(records, "data")[0]["shares"] = {"train": train, "test": test}
        blocks = [block for section in comparison_page(records).sections for block in section.blocks]
        table = next(block for block in blocks if isinstance(block, Table) and block.name == "differences")
        return [float(row[1].text.split("±")[1]) for row in table.rows]

    assert sum(error(0.9, 0.1)) < sum(error(0.1, 0.9))


def test_sparse_features_are_not_said_to_be_standardised():
    data = toy_table()
    sparse = replace(data, features=csr_array(data.features.to_numpy()))
    grids = SplitGrids(sparse, Settings.for_task("classification", **UNUSUAL))
    (record,) = grids.run(next(task for task in grids.tasks() if task.name == "data"))
    assert "largest absolute value" in record["features"]


def test_titles_and_notes_are_those_of_the_measures(records):
    page = comparison_page(records)
    tables = {block.name: block for section in page.sections for block in section.blocks if isinstance(block, Table)}
    names = list(of_kind(records, "cell")[0]["test"])
    assert {"error", "balanced_error", "g_mean", "worst_class_error", "tail_loss"} == set(names)
    assert set(tables["measures"].columns[1:]) == {MEASURES[name].heading for name in names}
    assert MEASURES["tail_loss"].note in tables["measures"].note
    assert MEASURES["tail_loss"].heading not in tables["verdict"].columns
    explorer = next(block for section in page.sections for block in section.blocks if isinstance(block, Explorer))
    assert explorer.chart.y_title == MEASURES["balanced_error"].heading
    assert number(0.125, "g_mean") == "12.5"


def test_one_entry_adds_a_measure(tmp_path, monkeypatch):
    """It is computed, may choose, gives the verdict and is shown, and nothing but the catalogue knows it."""
    accuracy = Measure(
        "accuracy", "accuracy", ("classification",), lambda answers: 1.0 - answers.mean(answers.wrong),
        higher_is_better=True, percent=True, digits=2,
    )  # fmt: skip
    monkeypatch.setitem(MEASURES, "accuracy", accuracy)
    settings = Settings.for_task("classification", **{**UNUSUAL, "score": "accuracy", "n_splits": 2})
    run_comparison(toy_table(), settings, tmp_path / "results.jsonl")
    records = list(read_results(tmp_path / "results.jsonl"))
    for cell in of_kind(records, "cell"):
        if cell["test"]:
            assert cell["test"]["accuracy"] == pytest.approx(1.0 - cell["test"]["error"], abs=1e-6)
    page = comparison_page(records)
    assert page.headline.startswith("Accuracy ")
    tables = {block.name: block for section in page.sections for block in section.blocks if isinstance(block, Table)}
    assert tables["measures"].columns[1] == "accuracy %"


def test_everything_that_is_compared_has_a_title():
    assert {*INDIVIDUAL_LOSSES} < {*LOSS_TITLES}
    assert {*CLASS_WEIGHTS} < {*WEIGHT_TITLES}


def test_without_fits_nothing_is_certified():
    assert certified([]) == ""
