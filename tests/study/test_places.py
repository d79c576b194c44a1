"""A run is gone on with where it is, and never written over another."""

from __future__ import annotations

import json

import pytest

from atklearn.study.places import check_place, find_place
from atklearn.study.results import ResultsFile, read_results


def begin(path, config, **options):
    with ResultsFile(path, "compare", config, **options) as results:
        results.add("task", [{"record": "curve", "x": [0]}])
    return results


def test_the_same_run_goes_on_and_others_stand_beside_it(tmp_path):
    path = tmp_path / "run" / "results.jsonl"
    for seed in (0, 1, 2, 1, 0):
        results = begin(path, {"random_state": seed})
        assert results.path.parent.name == ("run" if seed == 0 else f"run-{seed + 1}")
        assert (results.moved == "") == (seed == 0)
    assert "(with other --seed), so this one is in" in begin(path, {"random_state": 3}).moved
    assert next(read_results(path))["config"] == {"random_state": 0}


def test_foreign_folders_beside_it_are_passed_over(tmp_path):
    path = tmp_path / "run" / "results.jsonl"
    begin(path, {"random_state": 0})
    for name in ("run-2", "run-3"):
        (tmp_path / name).mkdir()
    (tmp_path / "run-2" / "results.jsonl").write_text("mine", encoding="utf-8")
    (tmp_path / "run-3" / "other.txt").write_text("mine", encoding="utf-8")
    assert begin(path, {"random_state": 1}).path.parent.name == "run-4"
    assert (tmp_path / "run-2" / "results.jsonl").read_text(encoding="utf-8") == "mine"


def test_other_versions_are_another_run(tmp_path):
    path = tmp_path / "run" / "results.jsonl"
    begin(path, {})
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    header = json.loads(lines[0])
    header["versions"]["numpy"] = "0.1"
    path.write_text(json.dumps(header) + "\n" + "".join(lines[1:]), encoding="utf-8")
    before = path.read_bytes()
    results = begin(path, {})
    assert "(with numpy 0.1)" in results.moved
    assert results.path.parent.name == "run-2"
    assert path.read_bytes() == before


def test_fresh_starts_this_run_anew_and_no_other(tmp_path):
    path = tmp_path / "run" / "results.jsonl"
    begin(path, {"random_state": 0})
    first = path.read_bytes()
    other = begin(path, {"random_state": 1}).path
    with ResultsFile(path, "compare", {"random_state": 1}, fresh=True) as results:
        assert results.path == other
        assert results.finished == set()
    assert path.read_bytes() == first


@pytest.mark.parametrize("content", [b"", b'{"rec', b'{"record":"run","schema":3'])
def test_a_run_that_was_killed_at_once_is_begun_again(tmp_path, content):
    path = tmp_path / "run" / "results.jsonl"
    path.parent.mkdir()
    path.write_bytes(content)
    check_place(path)
    assert find_place(path, {"record": "run"}) == (path, "")


@pytest.mark.parametrize("content", [b"results of somebody else\n", b'{"a": 1}\n', b"[1]\n"])
def test_results_of_others_are_foreign(tmp_path, content):
    path = tmp_path / "run" / "results.jsonl"
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(ValueError, match="holds files that no run wrote"):
        check_place(path)


def test_what_is_hidden_or_ours_is_not_foreign(tmp_path):
    path = tmp_path / "run" / "results.jsonl"
    check_place(path)
    path.parent.mkdir()
    (path.parent / ".gitignore").write_text("*", encoding="utf-8")
    check_place(path)
    begin(path, {})
    (path.parent / "report.html").write_text("", encoding="utf-8")
    check_place(path)
