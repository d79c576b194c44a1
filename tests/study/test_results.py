"""The results file: whatever cuts it short, it holds whole tasks and goes on from there."""

from __future__ import annotations

import pytest

from atklearn.study.results import SCHEMA, ResultsFile, cell_record, read_results

TASKS = {
    f"task {i}": [{"record": "curve", "x": [i, j], "name": "naïve\n</script>"} for j in range(3)] for i in range(4)
}


def write(path, tasks=TASKS, config=None):
    """Run what is not finished; return the names of what was run."""
    with ResultsFile(path, "compare", {"seed": 0} if config is None else config) as results:
        missing = [name for name in tasks if name not in results.finished]
        for name in missing:
            results.add(name, tasks[name])
    return missing


def contents(path):
    return [record for record in read_results(path) if record["record"] != "run"]


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "deep" / "results.jsonl"
    assert write(path) == list(TASKS)
    assert contents(path) == [record for records in TASKS.values() for record in records]
    header = next(read_results(path))
    assert header["schema"] == SCHEMA
    assert header["kind"] == "compare"
    assert header["config"] == {"seed": 0}
    assert {"python", "numpy", "scikit-learn", "atklearn"} <= set(header["versions"])


def test_a_file_cut_anywhere_goes_on_to_the_same_end(tmp_path):
    path = tmp_path / "results.jsonl"
    write(path)
    whole = path.read_bytes()
    ends = [end for end in range(len(whole)) if whole[:end].endswith(b"\n")]
    for cut in [*range(0, len(whole), 37), *ends]:
        path.write_bytes(whole[:cut])
        kept = sum(line.startswith(b'{"record":"done"') for line in whole[:cut].split(b"\n")[:-1])
        assert len(write(path)) == len(TASKS) - kept, "no finished task is repeated"
        assert contents(path) == [record for records in TASKS.values() for record in records]


def test_the_beginning_of_a_task_is_cut_off(tmp_path):
    path = tmp_path / "results.jsonl"
    write(path)
    whole = path.read_bytes()
    with path.open("ab") as file:
        file.write(b'{"record":"curve","x":[9]}\n' * 50 + b'{"record":"cu')
    write(path)
    assert path.read_bytes() == whole


def test_a_reader_sees_whole_tasks_only(tmp_path):
    path = tmp_path / "results.jsonl"
    write(path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]) + b'{"record":"done","ta')
    assert contents(path) == [record for name in list(TASKS)[:-1] for record in TASKS[name]]


def test_other_files_are_no_results(tmp_path):
    path = tmp_path / "other.jsonl"
    path.write_text('{"a": 1}\n', encoding="utf-8")
    with pytest.raises(ValueError, match="results file of schema"):
        list(read_results(path))


@pytest.mark.parametrize(("k", "aggregate"), [(1, "maximum"), (2, "atk"), (10, "average")])
def test_the_aggregate_is_named(k, aggregate):
    record = cell_record(dataset="a", loss="hinge", weights="plain", split=0, k=k, n=10.0, strength=1.0, tol=1e-3,
                         gaps=[0.0], validation={}, test={})  # fmt: skip
    assert record["aggregate"] == aggregate
