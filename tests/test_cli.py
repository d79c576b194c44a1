"""The command line: an answer with exit code 0, or one clear sentence with another and nothing half-written."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import BrokenExecutor

import numpy as np
import pandas as pd
import pytest
import skops.io
from commands import QUICK, call, few_columns, rides
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import atklearn
from atklearn.study.results import read_results

KILLS = int(os.environ.get("ATKLEARN_KILLS", "1"))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory):
    """A quick run on the generated set, and the folder where it was called."""
    place = tmp_path_factory.mktemp("quick")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(place)
        result = call("compare", "--out", "here", "--json", *QUICK)
    assert (result.exit_code, result.stderr) == (0, "")
    return json.loads(result.stdout), place


@pytest.fixture
def first(quick_run, folder):
    """The answer of a quick run that is finished, in the folder ``here``."""
    answer, place = quick_run
    shutil.copytree(place / "here", folder / "here")
    return answer


def one_class(folder):
    rides(folder, rides="many")


def identifiers(folder):
    count = np.arange(60)
    frame = pd.DataFrame({"who": np.char.add("u", count.astype(str)), "x": count, "rides": count % 2})
    frame.to_csv(folder / "rides.csv", index=False)


def empty(folder):
    (folder / "rides.csv").write_text("number,rides\n", encoding="utf-8")


def malformed(folder):
    (folder / "rides.parquet").write_bytes(b"PAR1 this is not a table PAR1")


@pytest.mark.parametrize(
    ("make", "arguments", "sentence"),
    [
        (None, ["rides.csv", "--target", "rides"], "rides.csv"),
        (rides, ["rides.csv", "--target", "ride"], "did you mean 'rides'?"),
        (rides, ["rides.csv"], "--target"),
        (empty, ["rides.csv", "--target", "rides"], "rows"),
        (one_class, ["rides.csv", "--target", "rides"], "one class only, 'many'"),
        (identifiers, ["rides.csv", "--target", "rides"], "--keep 'who'"),
        (malformed, ["rides.parquet", "--target", "rides"], "rides.parquet"),
        (rides, ["rides.csv", "--target", "rides", "--save-model", "no/such/model.skops"], "a folder that exists"),
        (rides, ["rides.csv", "--target", "rides", "--save-model", "model.pkl"], ".skops"),
        (
            rides,
            ["rides.csv", "--target", "rides", "--model", "model.skops"],
            "linear or boosting, got 'model.skops'; to",
        ),
        (rides, ["rides.csv", "--target", "rides", "--model", "boosting", "--loss", "hinge"], "to be log_loss, got"),
        (rides, ["rides.csv", "--target", "rides", "--split-by", "town", "--time", "number"], "got both"),
        (rides, ["rides.csv", "--target", "rides", "--time", "number", "--repeats", "2"], "one way to split"),
        (rides, ["rides.csv", "--target", "rides", "--scoring", "rmse"], "rmse"),
        (rides, ["rides.csv", "--target", "rides", "--scoring", "worst_group_error"], "without --group"),
        (rides, ["rides.csv", "--target", "rides", "--loss", "huber"], "huber"),
        (rides, ["rides.csv", "--target", "rides", "--tail", "2"], "between 0 and 1, got 2"),
        (rides, ["rides.csv", "--target", "rides", "--margin", "-1"], "below 1, got -1"),
        (None, ["--target", "rides"], "about a table, but none is named"),
    ],
)
def test_bad_input_is_one_sentence(folder, make, arguments, sentence):
    if make is not None:
        make(folder)
    before = set(folder.rglob("*"))
    result = call("compare", *arguments)
    assert result.exit_code == 1
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1, result.stderr
    assert result.stderr.startswith("Error: ")
    assert result.stdout == ""
    assert set(folder.rglob("*")) == before, "nothing is written"


def double(x):
    return 2 * x


def test_a_model_with_foreign_types_is_refused(folder):
    rides(folder)
    skops.io.dump(make_pipeline(FunctionTransformer(double)), folder / "evil.skops")
    result = call("predict", "evil.skops", "rides.csv", "--out", "said.csv")
    assert result.exit_code == 1
    assert "double" in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (folder / "said.csv").exists()


def test_a_model_is_a_skops_file(folder):
    rides(folder)
    (folder / "rides.pkl").write_bytes(b"anything")
    result = call("predict", "rides.pkl", "rides.csv")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "ends in .skops" in result.stderr


def test_version_and_help():
    assert call("--version").stdout == f"{atklearn.__version__}\n"
    assert "with which k" in call("--help").stdout


def test_what_no_command_takes_is_a_usage_error():
    assert call("compare", "--task", "ranking").exit_code == 2
    assert call("nonsense").exit_code == 2


@pytest.mark.usefixtures("three_folds")
def test_from_a_table_to_predictions(folder):
    frame = rides(folder)
    result = call("compare", "rides.csv", "--target", "rides", "--save-model", "rides.skops", "--group", "town", *QUICK)
    assert result.exit_code == 0, result.output
    out = folder / "atklearn-out" / "compare-rides-rides-by-town-quick"
    assert {path.name for path in out.iterdir()} == {"results.jsonl", "report.html", "figures"}
    assert {path.suffix for path in (out / "figures").iterdir()} == {".png", ".svg"}
    assert "Recommended for balanced error: k = " in " ".join(result.stdout.split())
    assert "Köln" in result.stdout
    assert all(len(line) <= 80 for line in result.stdout.splitlines() if "/" not in line)
    result = call("predict", "rides.skops", "rides.csv", "--id", "day", "--threshold", "0.5", "--out", "said.csv")
    assert result.exit_code == 0, result.output
    said = pd.read_csv(folder / "said.csv")
    assert (said["prediction"] == frame["rides"]).mean() > 0.75
    assert list(said) == ["day", "prediction", "probability_few", "probability_many"]
    assert "On the 200 rows with a value of 'rides': error " in result.stderr
    assert "Not used by the model: 'town'.\n" in result.stderr
    os.mkfifo(folder / "pipe")
    refused = call("predict", "rides.skops", "rides.csv", "--out", "pipe")
    assert refused.exit_code == 1
    assert "Error: pipe cannot be used, it is a device or a link and no plain file; choose another." in refused.stderr
    assert (folder / "pipe").is_fifo()
    shown = call("predict", "rides.skops", "rides.csv", "--id", "day", "--threshold", "0.5")
    assert shown.stdout == (folder / "said.csv").read_text(encoding="utf-8")


def test_the_default_and_json_and_quiet(folder, first):
    answer = first
    assert answer["dataset"] == "deliveries"
    assert answer["score"] == "tail_error"
    assert set(answer["verdicts"]) == {
        "rmse", "mae", "r2", "tail_error", "p95_error", "max_error", "worst_group_rmse",
    }  # fmt: skip
    assert answer["verdicts"]["tail_error"]["answer"] == answer["with_maps"]["tail_error"]["answer"] == "helps"
    assert answer["recommendation"]["share"] < 1.0
    assert ["climb_m", "number", ""] in answer["data"]["columns"]
    for verdict in answer["verdicts"].values():
        assert verdict["answer"] in ("helps", "hurts", "same", "undecided")
        assert verdict["low"] <= verdict["difference"] <= verdict["high"]
        assert verdict["atk"] - verdict["average"] == pytest.approx(verdict["difference"])
        assert 0.0 < verdict["k_share"] <= 1.0
    assert (folder / answer["report"]).is_file()
    quiet = call("compare", "--quiet", "--out", "here", *QUICK)  # finished before: read, not run
    assert quiet.exit_code == 0
    assert " ".join(quiet.stdout.split()) == f"{answer['verdict']}. {answer['headline']}"
    assert quiet.stderr == ""


def test_another_measure_is_answered_from_the_same_fits(folder, first):
    """So is another margin; and asked again for the first, the first answer comes back."""
    cells = [record for record in read_results(folder / "here" / "results.jsonl") if record["record"] == "cell"]
    other = json.loads(call("compare", "--out", "here", "--json", "--scoring", "r2", "--margin", "0.9", *QUICK).stdout)
    assert (other["score"], other["margin"]) == ("r2", 0.9)
    assert {verdict["answer"] for verdict in other["verdicts"].values()} == {"same"}
    assert {name: verdict["atk"] for name, verdict in other["verdicts"].items()} == {
        name: verdict["atk"] for name, verdict in first["verdicts"].items()
    }
    again = [record for record in read_results(folder / "here" / "results.jsonl") if record["record"] == "cell"]
    assert again == cells
    assert json.loads(call("compare", "--out", "here", "--json", *QUICK).stdout) == first


@pytest.mark.usefixtures("three_folds")
def test_a_finished_run_can_be_extended(folder):
    path = folder / "here" / "results.jsonl"
    assert call("compare", "--out", "here", "--quiet", *QUICK).exit_code == 0
    before = path.read_bytes()
    extended = json.loads(call("compare", "--out", "here", "--json", "--repeats", "2", *QUICK).stdout)
    assert path.read_bytes().startswith(before)
    assert extended["repeats"] == 2
    kept = json.loads(call("compare", "--out", "here", "--json", *QUICK).stdout)
    assert kept["repeats"] == 2, "what is there is used"


@pytest.mark.usefixtures("three_folds")
def test_a_changed_option_init_another_folder(folder):
    few_columns(folder, n=60)
    told = ["rides.csv", "--target", "rides", "--quiet", "--loss", "log_loss", *QUICK]
    for changed in ([], ["--drop", "whole", "--seed", "1"]):
        assert call("compare", *told, *changed).exit_code == 0
    names = {path.name for path in (folder / "atklearn-out").iterdir()}
    assert names == {
        "compare-rides-rides-loss-log_loss-quick", "compare-rides-rides-without-whole-loss-log_loss-seed-1-quick",
    }  # fmt: skip
    few_columns(folder, n=61)  # the file itself is another
    result = call("compare", *told)
    assert result.exit_code == 0
    assert "holds another run (with other data), so this one is in" in result.stderr
    assert len(list((folder / "atklearn-out").iterdir())) == 3


@pytest.mark.usefixtures("three_folds")
def test_another_run_in_the_folder_that_was_named_goes_beside_it(folder):
    assert call("compare", "--out", "here", "--quiet", *QUICK).exit_code == 0
    before = (folder / "here" / "results.jsonl").read_bytes()
    result = call("compare", "--out", "here", "--quiet", "--seed", "1", *QUICK)
    assert result.exit_code == 0
    assert "here holds another run (with other --seed), so this one is in here-2." in result.stderr
    assert (folder / "here" / "results.jsonl").read_bytes() == before
    assert (folder / "here-2" / "report.html").is_file()
    assert call("compare", "--out", "here", "--quiet", "--fresh", *QUICK).exit_code == 0
    assert (folder / "here" / "results.jsonl").read_bytes() != before, "begun anew, at another time"


@pytest.mark.parametrize("command", ["compare", "reproduce"])
def test_a_foreign_folder_is_not_written_into(folder, command):
    (folder / "thesis").mkdir()
    (folder / "thesis" / "thesis.tex").write_text("", encoding="utf-8")
    (folder / "file").write_text("", encoding="utf-8")
    for name in ("thesis", "file", "file/deeper"):
        result = call(command, "--out", name)
        assert result.exit_code == 1
        assert "choose another with --out" in result.stderr
        assert "Errno" not in result.stderr
    assert [path.name for path in (folder / "thesis").iterdir()] == ["thesis.tex"]


@pytest.mark.usefixtures("first")
def test_the_report_is_written_from_the_results_alone(folder):
    page = (folder / "here" / "report.html").read_bytes()
    (folder / "here" / "report.html").unlink()
    assert call("report", "here").exit_code == 0
    assert (folder / "here" / "report.html").read_bytes() == page
    result = call("report", "nowhere")
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1


@pytest.mark.usefixtures("three_folds")
def test_hostile_names_reach_the_report_as_text(folder):
    hostile = "<script>alert(1)</script>"
    few_columns(folder, n=120, name=hostile)
    result = call("compare", "rides.csv", "--target", "rides", "--out", "here", *QUICK)
    assert result.exit_code == 0, result.output
    assert hostile in result.stdout
    page = (folder / "here" / "report.html").read_text(encoding="utf-8")
    assert hostile not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_datasets():
    result = call("datasets")
    assert result.exit_code == 0
    assert "german" in result.stdout
    assert "not available" in " ".join(result.stdout.split())
    listed = json.loads(call("datasets", "--json").stdout)
    assert len(listed) == 12


def test_reproduce_what_is_there_and_name_what_is_not():
    result = call(
        "reproduce", "tables", "--offline", "--set", "monk", "--set", "german", "--splits", "2", "--jobs", "1"
    )
    assert result.exit_code == 0, result.output
    assert "Table 1" in result.stdout
    assert "Skipped German" in result.stderr
    assert call("reproduce", "--set", "nonsense").exit_code == 1
    assert call("reproduce", "--data", "nowhere").exit_code == 1


def start(folder, *arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "atklearn", *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True, text=True,
    )  # fmt: skip


def finished_lines(path):
    return [line for line in path.read_text(encoding="utf-8").splitlines() if '"record":"done"' in line]


def test_killed_at_any_moment_it_goes_on_to_the_same_table(folder):
    few_columns(folder, n=100)
    command = [
        "compare", "rides.csv", "--target", "number", "--quiet", "--quick", "--loss", "squared_error",
        "--repeats", str(2 * KILLS), "--jobs", "2", "--out",
    ]  # fmt: skip
    undisturbed = start(folder, *command, "whole")
    assert undisturbed.wait() == 0
    rng = np.random.default_rng(KILLS)
    path, kept, killed = folder / "cut" / "results.jsonl", [], 0
    while killed < KILLS:
        before = len(kept)
        process = start(folder, *command, "cut")
        until = time.monotonic() + 60.0
        # let it finish something new, then kill it at a random moment
        while time.monotonic() < until and process.poll() is None:
            if path.exists() and len(finished_lines(path)) > before:
                break
            time.sleep(0.05)
        time.sleep(rng.uniform(0.0, 1.0))
        assert process.poll() is None, "the run is long enough to be killed"
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        lines = finished_lines(path)
        assert lines[: len(kept)] == kept, "what was finished stays"
        kept = lines
        killed += 1
    last = start(folder, *command, "cut")
    assert last.wait() == 0
    lines = finished_lines(path)
    assert lines[: len(kept)] == kept
    assert len(lines) == len(set(lines)), "no task is done twice"
    cells = [
        {key: value for key, value in record.items() if key != "started"}
        for record in read_results(path)
        if record["record"] == "cell"
    ]
    keys = [(cell["loss"], cell["weights"], cell["split"], cell["k"], cell["strength"]) for cell in cells]
    assert len(keys) == len(set(keys)), "no cell is computed twice"
    assert last.stdout.read() == undisturbed.stdout.read()
    whole = [record for record in read_results(folder / "whole" / "results.jsonl") if record["record"] != "run"]
    cut = [record for record in read_results(path) if record["record"] != "run"]
    assert sorted(map(json.dumps, whole)) == sorted(map(json.dumps, cut))
    for process in (undisturbed, last):
        process.communicate()


def test_ctrl_c_says_how_to_go_on(folder):
    few_columns(folder, n=100)
    process = start(folder, "compare", "rides.csv", "--target", "number", "--jobs", "2", "--out", "here")
    path = folder / "here" / "results.jsonl"
    while process.poll() is None and not (path.exists() and len(finished_lines(path)) > 2):
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all processes
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command goes on from here" in errors
    assert "Traceback" not in errors
    assert len(finished_lines(path)) > 2


@pytest.mark.parametrize("error", [MemoryError(), BrokenExecutor("a process died")])
def test_too_little_memory_is_one_sentence(monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("atklearn.study.comparison.run_comparison", fail)
    result = call("compare", "--quiet")
    assert result.exit_code == 1
    assert "--quick" in result.stderr
    assert result.stderr.count("\n") == 1


def test_without_the_extra_it_says_what_to_install():
    code = "import sys; sys.modules['typer'] = None; from atklearn.__main__ import main; main()"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr.strip() == "The atklearn command needs typer, which comes with: pip install 'atklearn[cli]'"
