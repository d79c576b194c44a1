"""The command line with boosted trees: from a table to predictions, and one sentence where LightGBM is missing."""

from __future__ import annotations

import json
import sys

import pandas as pd
import pytest
from commands import QUICK, call, rides


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("three_folds")
def test_from_a_table_to_predictions_with_trees(folder):
    """The same command goes on with what is there, and fits nothing anew."""
    frame = rides(folder, n=120)
    arguments = ["compare", "rides.csv", "--target", "rides", "--model", "boosting", "--json", *QUICK]
    result = call(*arguments, "--save-model", "rides.skops")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert answer["recommendation"]["model"] == "boosting"
    assert answer["recommendation"]["rounds"] in (10, 30, 90, 180)
    assert "C" not in answer["recommendation"]
    assert set(answer["yardstick"]) == set(answer["verdicts"])
    out = folder / "atklearn-out" / "compare-rides-rides-model-boosting-quick"
    assert folder / answer["report"] == out / "report.html"
    assert {path.suffix for path in (out / "figures").iterdir()} == {".png", ".svg"}
    written = (out / "results.jsonl").read_bytes()
    assert json.loads(call(*arguments).stdout) == answer
    assert (out / "results.jsonl").read_bytes() == written
    result = call("predict", "rides.skops", "rides.csv", "--out", "said.csv")
    assert result.exit_code == 0, result.output
    said = pd.read_csv(folder / "said.csv")
    assert (said["prediction"] == frame["rides"]).mean() > 0.75
    assert list(said) == ["prediction", "probability_few", "probability_many"]


def test_without_lightgbm_trees_are_one_sentence(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    result = call("compare", "absent.csv", "--target", "rides", "--model", "boosting")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == ("Error: Boosted trees need LightGBM, which comes with: pip install 'atklearn[boosting]'\n")
    assert list(folder.iterdir()) == []
