"""What a comparison says about setting rows aside: the sides are judged like AT_k, and wrong labels are named."""

from __future__ import annotations

import numpy as np
import pytest
from comparisons import run, small, table

from atklearn.report.comparison_aside import hard_or_wrong
from atklearn.report.comparison_findings import Findings, comparison_summary
from atklearn.report.content import Table
from atklearn.study.outcome import Outcome, Question
from atklearn.study.setting_aside import SettingAside
from atklearn.study.settings import Settings

SCORES = {"classification": "error", "regression": "mae"}


def noisy(task):
    """Return a table with a tenth of its targets wrong, far from the others, and which these are."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 3))
    f = X @ [3.0, -2.0, 0.0]
    bad = np.sort(rng.choice(150, 15, replace=False))
    if task == "regression":
        y = f + 0.1 * rng.standard_normal(150)
        y[bad] += 40.0
    else:
        X += np.sign(f)[:, None] * np.array([0.8, -0.5, 0.0])
        y = np.where(f > 0.0, 1, 0)
        y[bad] = 1 - y[bad]
        y = np.array(["no", "yes"])[y]
    return table(X, y, task), bad


@pytest.fixture(scope="module", params=["classification", "regression"])
def compared(request, tmp_path_factory):
    data, bad = noisy(request.param)
    loss = "log_loss" if request.param == "classification" else "squared_error"
    settings = small(request.param, robust=True, losses=[loss])
    question = Question.about(request.param, has_groups=False, score=SCORES[request.param])
    records = run(data, tmp_path_factory.mktemp("aside") / "results.jsonl", settings, question)
    return records, bad, question


def test_every_part_has_a_grid_on_the_splits_of_one_repeat(compared):
    records, _, question = compared
    outcome = Outcome.from_records(records, question, 1)
    assert [len(grids) for grids in outcome.splits_aside] == [4, 4, 4]
    assert sorted(grid.drop for grid in outcome.all_rows_aside) == [0.02, 0.05, 0.1, 0.2]
    assert all(grid.drop == 0.0 for grids in [*outcome.splits, outcome.all_rows] for grid in grids)
    cells = [record for record in records if record["record"] == "cell" and record["drop"] > 0.0]
    assert {cell["aggregate"] for cell in cells} == {"trimmed", "range"}
    assert max(cell["fold_gap"] for cell in cells) <= 1e-3


def test_sides_keep_the_average_unless_they_lead(compared):
    records, _, question = compared
    aside = SettingAside(Outcome.from_records(records, question, 1))
    assert list(aside.sides) == ["average", "atk", "trimmed", "range"]
    for side in ("trimmed", "range"):
        for choice, average in zip(aside.sides[side], aside.sides["average"], strict=True):
            assert choice is average or (choice.drop > 0.0 and choice.scores.mean() > average.scores.mean())
    # the verdict is about the rows that nothing had seen
    for side, verdict in aside.verdicts.items():
        measured = aside.outcome.rows.measure(question.score, aside.sides[side])
        assert verdict.atk == pytest.approx(measured)


def test_broken_numbers_are_seen_to_be_worth_leaving_out(compared):
    records, _, question = compared
    if question.score == "mae":
        aside = SettingAside(Outcome.from_records(records, question, 1))
        assert aside.verdicts["trimmed"].difference.mean < 0.0
        assert all(choice.drop >= 0.05 for choice in aside.sides["trimmed"])
        assert aside.is_asked_for


def test_rows_that_are_wrong_are_named(compared):
    records, bad, _ = compared
    found = Findings(records)
    named = np.array([row["row"] for row in found.aside_rows]) - 1
    assert np.isin(named, bad).mean() >= 0.9
    summary = comparison_summary(found)["setting_aside"]
    assert summary["rows"] == (named + 1).tolist()
    blocks = hard_or_wrong(found)
    sides, words, rows = blocks
    assert isinstance(sides, Table)
    assert isinstance(rows, Table)
    assert [row[0].text for row in sides.rows] == ["average", "AT_k", "trimmed average", "ranked range (AoRR)"]
    assert f"{found.aside['also_hardest']} of them are among" in words
    assert ("probably wrong" in rows.title) == found.aside["asked_for"]


def test_a_first_look_says_what_was_not_tried(tmp_path):
    data, _ = noisy("classification")
    found = Findings(run(data, tmp_path / "results.jsonl", small("classification", losses=["log_loss"])))
    assert found.aside is None
    assert comparison_summary(found)["setting_aside"] == {}
    assert "--robust does" in hard_or_wrong(found)[0]


def test_it_is_tried_unless_this_is_a_first_look():
    drops = [
        Settings.for_task("regression", 100, **options).drops for options in ({}, {"quick": True}, {"robust": False})
    ]
    assert [len(each) for each in drops] == [4, 0, 0]
    assert len(Settings.for_task("regression", 100, quick=True, robust=True).drops) == 4
    assert Settings.for_task("regression", 100, model="boosting").drops == ()
    with pytest.raises(ValueError, match="--robust is about linear models, got boosting"):
        Settings.for_task("regression", 100, model="boosting", robust=True)


def test_a_rare_class_that_is_set_aside_is_not_called_wrong_without_a_word(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((200, 3)), np.repeat(["rare", "usual"], [5, 195])
    X[:5] += 0.5
    question = Question.about("classification", has_groups=False, score="error")
    settings = small("classification", robust=True, losses=["log_loss"])
    found = Findings(run(table(X, y), tmp_path / "results.jsonl", settings, question))
    named, share = found.aside["most_of_class"]
    assert named == "rare"
    assert share > 0.5
    assert "of rare are among them" in hard_or_wrong(found)[1]
