"""The command line on a Dask cluster: the same answer, or one sentence and nothing written."""

from __future__ import annotations

import json
import sys

import pytest
from commands import call, few_columns, rides

FEW = ["compare", "rides.csv", "--target", "rides", "--quick", "--loss", "log_loss", "--json"]


@pytest.mark.usefixtures("three_folds")
def test_a_cluster_gives_the_same_answer(tmp_path, monkeypatch, scheduler):
    monkeypatch.chdir(tmp_path)
    few_columns(tmp_path, n=100)
    results = [
        call(*FEW, "--out", name, *options)
        for name, options in (("here", ["--jobs", 1]), ("there", ["--scheduler", scheduler]))
    ]
    assert [result.exit_code for result in results] == [0, 0]
    here, there = (json.loads(result.stdout) for result in results)
    assert here | {"report": ""} == there | {"report": ""}


def test_no_scheduler_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("atklearn.study.clusters._PATIENCE", 0.5)
    rides(tmp_path)
    for command in (FEW, ["reproduce", "figures", "--offline"]):
        result = call(*command, "--scheduler", "tcp://127.0.0.1:1")
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith("Error: The address of a Dask scheduler is expected")
        assert result.stderr.count("\n") == 1
        assert [path.name for path in tmp_path.iterdir()] == ["rides.csv"], "nothing is written"


def test_without_the_extra_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "distributed", None)
    result = call("reproduce", "--offline", "--scheduler", "tcp://127.0.0.1:1")
    assert result.exit_code == 1
    assert result.stderr == "Error: A scheduler needs distributed, which comes with: pip install 'atklearn[dask]'\n"
