"""The comparison as a function: the same answers as on the command line, and fit for scripts and notebooks."""

from __future__ import annotations

import json
import subprocess
import sys

import nbclient
import nbformat
import numpy as np
import pandas as pd
import pytest
from made_tables import messy_table, mixed_table
from typer.testing import CliRunner

from atklearn import compare
from atklearn.cli import app
from atklearn.study import settings
from atklearn.study.saving import load_model
from atklearn.study.split_grids import SplitGrids

pytestmark = pytest.mark.usefixtures("three_folds")

FEW = {"quick": True, "loss": "log_loss", "n_jobs": 1, "verbose": False}


def rides(n=150):
    return mixed_table(n).drop(columns=["comment"])


@pytest.fixture(scope="module")
def result():
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(settings._QUICK, "n_folds", 3)
        return compare(rides(), target="rides", group="town", **FEW)


def test_a_frame_and_its_file_have_the_same_answer(tmp_path, monkeypatch, result):
    monkeypatch.chdir(tmp_path)
    rides().to_csv("rides.csv", index=False)
    arguments = ["--target", "rides", "--group", "town", "--quick", "--loss", "log_loss", "--jobs", "1", "--json"]
    printed = CliRunner().invoke(app, ["compare", "rides.csv", *arguments], catch_exceptions=False)
    ours, theirs = result.summary, json.loads(printed.stdout)
    for key in ("verdicts", "with_maps", "methods", "recommendation", "hardest_rows", "headline"):
        assert json.loads(json.dumps(ours[key])) == theirs[key]


def test_the_verdicts_are_a_table(result):
    assert result.verdicts.index[0] == "balanced_error"
    assert result.verdicts.loc["error", "answer"] == result.summary["verdicts"]["error"]["answer"]
    difference = result.verdicts["atk"] - result.verdicts["average"]
    assert np.allclose(difference, result.verdicts["difference"])


def test_the_model_predicts_and_is_saved(tmp_path, result):
    frame = rides()
    assert (result.model.predict(frame.drop(columns=["rides"])) == frame["rides"]).mean() > 0.7
    result.save_model(tmp_path / "rides.skops")
    again = load_model(tmp_path / "rides.skops")
    assert np.array_equal(again.predict(frame), result.model.predict(frame))


def test_the_report_is_written_where_one_asks_for_it(tmp_path, result):
    page = result.write(tmp_path / "report")
    assert page.read_text(encoding="utf-8").lstrip().startswith("<!DOCTYPE html>")
    assert result.page.verdict in repr(result)


def test_in_a_notebook_it_shows_the_answer_and_the_pictures(result):
    html = result._repr_html_()
    assert result.page.verdict in html
    assert html.count("data:image/png;base64,") >= 2
    assert "<script" not in html
    assert "balanced error" in html.lower()


def test_hostile_names_stay_text():
    frame = rides()[["number", "town", "rides"]].rename(columns={"number": "<script>alert(1)</script>"})
    html = compare(frame, "rides", **FEW)._repr_html_()
    assert "<script" not in html


def test_another_question_is_answered_from_the_same_fits(monkeypatch, result):
    def fail(*_):
        raise AssertionError("nothing is fitted again")

    monkeypatch.setattr(SplitGrids, "run", fail)
    again = compare(rides(), target="rides", group="town", scoring="error", **FEW)
    assert again.verdicts.index[0] == "error"
    assert again.verdicts.sort_index().equals(result.verdicts.sort_index())


def test_arrays_are_tables():
    X = np.random.default_rng(0).standard_normal((60, 2))
    result = compare(X, pd.Series(X[:, 0] > 0.0, name="late"), **FEW)
    assert result.data.target_name == "late"
    assert list(result.data.features.columns) == ["x0", "x1"]


def test_bad_input_is_one_sentence():
    for arguments, options in [
        ((None, "rides"), {}),
        ((3, "rides"), {}),
        ((rides(), "no such column"), {}),
        ((rides(), "rides"), {"scoring": "rmse"}),
        ((rides().assign(day=range(150)), "rides"), {"time": "day", "repeats": 2}),
    ]:
        with pytest.raises(ValueError, match=r"expected|no column|none is named") as error:
            compare(*arguments, **options, **FEW)
        assert "\n" not in str(error.value)


def test_another_encoding_is_another_run_and_it_says_where(tmp_path, capsys):
    rides(60)[["number", "town", "rides"]].to_csv(tmp_path / "rides.csv", index=False)
    runs = [
        compare(tmp_path / "rides.csv", "rides", encoding=encoding, out=tmp_path / "run", **FEW)
        for encoding in (None, "latin-1")
    ]
    assert [result.folder.name for result in runs] == ["run", "run-2"]
    assert "Köln" in set(runs[0].data.features["town"])
    assert "Köln" not in set(runs[1].data.features["town"])
    assert "holds another run (with other data), so this one is in" in capsys.readouterr().err
    with pytest.raises(ValueError, match="about a file of text"):
        compare(rides(60), "rides", encoding="latin-1", **FEW)


SCRIPT = """
print("begun")
import numpy as np
import atklearn.study.running, atklearn.study.settings
from atklearn import compare
atklearn.study.running._WORTH_PROCESSES = 0.0
atklearn.study.settings._QUICK["n_folds"] = 2
X = np.random.default_rng(0).standard_normal((60, 2))
print(compare(X, X[:, 0] + X[:, 1] ** 2, quick=True, loss="squared_error", n_jobs=2, verbose=False))
"""


def test_a_script_without_a_guard_runs_once(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.count("begun") == 1
    assert "RMSE" in done.stdout
    assert done.stderr == ""
    assert [path.name for path in tmp_path.iterdir()] == ["script.py"], "nothing is left behind"


def test_a_notebook_runs_without_a_screen(tmp_path):
    rides(80)[["number", "whole", "rides"]].to_csv(tmp_path / "rides.csv", index=False)
    cell = 'from atklearn import compare\ncompare("rides.csv", target="rides", quick=True, loss="log_loss", n_jobs=1)'
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
    nbclient.NotebookClient(notebook, resources={"metadata": {"path": str(tmp_path)}}, timeout=300).execute()
    shown = [output for output in notebook.cells[0].outputs if output.output_type == "execute_result"]
    assert len(shown) == 1
    assert "data:image/png;base64," in shown[0].data["text/html"]
    assert "on balanced error" in shown[0].data["text/plain"]


def test_without_the_extra_it_says_what_to_install():
    code = "import sys; sys.modules['pandas'] = None\nfrom atklearn import compare\ncompare()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last == "ModuleNotFoundError: compare needs pandas, which comes with: pip install 'atklearn[cli]'"


def test_a_messy_table_goes_through_from_end_to_end():
    frame = messy_table(300)[0]
    result = compare(frame, "bleibt", **FEW)
    assert any("a possible leak" in warning for warning in result.page.warnings)
    assert {"left out", "number", "date", "text", "category"} <= {use for _, use, _ in result.data.health["columns"]}
    shown = result.findings.hard_rows[0]["values"]
    assert set(shown) <= set(result.data.features.columns)
    assert len(result.predict(frame.head(5))) == 5
