"""Comparisons that are resumed, extended and asked again: no fit is made twice, and the end is the same."""

from __future__ import annotations

import re

import numpy as np
import pytest
from comparisons import in_any_order, made, made_numbers, run, small, table

from atklearn.report.comparison_findings import Findings, comparison_summary
from atklearn.study.outcome import Outcome, Question
from atklearn.study.results import ResultsFile, read_results
from atklearn.study.running import Task, run_experiment
from atklearn.study.split_grids import SplitGrids, split_of

LOSSES = {"classification": ("log_loss",), "regression": ("squared_error",)}


def few(task="classification", **changes):
    return small(task, losses=LOSSES[task], **changes)


@pytest.fixture
def tasks_run(monkeypatch):
    """The names of the grids that are fitted from now on."""
    names = []
    honest = SplitGrids.run

    def counted(self, task):
        names.append(task.name)
        return honest(self, task)

    monkeypatch.setattr(SplitGrids, "run", counted)
    return names


def last_question(records):
    return [record for record in records if record["record"] == "answer"][-1]["question"]


def verdicts(path, question, repeats):
    return Outcome.from_records(read_results(path), question, repeats).verdicts


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_an_extended_run_is_the_long_run(tmp_path, tasks_run, task):
    data = table(*made()) if task == "classification" else table(*made_numbers(), "regression")
    path = tmp_path / "extended.jsonl"
    run(data, path, few(task))
    tasks_run.clear()
    extended = run(data, path, few(task, repeats=2))
    assert {split_of(name) for name in tasks_run} == {3, 4, 5}
    assert len(tasks_run) == 3 * len(few(task).weights)
    tasks_run.clear()
    whole = run(data, tmp_path / "whole.jsonl", few(task, repeats=2))
    assert len(tasks_run) == 1 + 7 * len(few(task).weights)
    question = last_question(whole)
    assert last_question(extended) == question
    assert in_any_order(extended, question) == in_any_order(whole, question)


def test_fewer_repeats_than_there_are_keeps_them(tmp_path, tasks_run):
    data, path = table(*made()), tmp_path / "results.jsonl"
    run(data, path, few(repeats=2))
    before = path.read_bytes()
    tasks_run.clear()
    records = run(data, path, few(repeats=1))
    assert tasks_run == []
    assert path.read_bytes() == before
    assert [record["n_splits"] for record in records if record["record"] == "answer"] == [6]


def test_another_question_needs_no_fit_of_a_grid(tmp_path, tasks_run):
    data, path = table(*made()), tmp_path / "results.jsonl"
    run(data, path, few())
    tasks_run.clear()
    for question in (Question("error"), Question("error", 0.2), Question("roc_auc")):
        records = run(data, path, few(), question)
        answer = [record for record in records if record["record"] == "answer"][-1]
        assert (answer["score"], answer["margin"]) == (question.score, question.margin)
        models = [record for record in records if record["record"] == "model"]
        assert models[-1]["question"] == answer["question"]
    assert tasks_run == []
    # ... and is answered as if it had been asked first
    first = run(data, tmp_path / "first.jsonl", few(), Question("roc_auc"))
    assert in_any_order(records, last_question(records)) == in_any_order(first, last_question(first))


def test_other_fits_are_another_run(tmp_path):
    data, path = table(*made(60)), tmp_path / "run" / "results.jsonl"
    run(data, path, few())
    before = path.read_bytes()
    for number, changed in enumerate([{"n_ks": 4}, {"tol": 1e-4}, {"random_state": 1}, {"tail": 0.2}], start=2):
        run(data, path, few(**changed))
        assert (tmp_path / f"run-{number}" / "results.jsonl").is_file()
    assert path.read_bytes() == before


def test_processes_do_not_change_the_results(tmp_path, monkeypatch):
    monkeypatch.setattr("atklearn.study.running._WORTH_PROCESSES", 0.0)
    data, settings = table(*made_numbers(60), "regression"), few("regression")
    one, two = (run(data, tmp_path / f"{n_jobs}.jsonl", settings, n_jobs=n_jobs) for n_jobs in (1, 2))
    assert in_any_order(one) == in_any_order(two)


def test_a_finished_run_is_not_run_again(tmp_path, tasks_run):
    data, path = table(*made()), tmp_path / "results.jsonl"
    run(data, path, few())
    before = path.read_bytes()
    tasks_run.clear()
    told, started = [], []
    run(data, path, few(), on_task=told.append, on_start=started.extend)
    assert tasks_run == []
    assert path.read_bytes() == before
    assert told == started
    assert len(told) == 1 + 2 * (3 + 1) + 3 + 1  # the data, the grids, the yardsticks, the answer


@pytest.mark.parametrize("stop_after", [1, 4, 9])
def test_an_interrupt_keeps_what_is_finished(tmp_path, stop_after):
    data, path = table(*made()), tmp_path / "results.jsonl"
    finished = []

    def stop(task):
        finished.append(task.name)
        if len(finished) == stop_after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(data, path, few(), on_task=stop)
    with ResultsFile(path, "compare", next(read_results(path))["config"]) as results:
        assert results.finished == set(finished)
    assert in_any_order(run(data, path, few())) == in_any_order(run(data, tmp_path / "whole.jsonl", few()))


def test_a_killed_run_goes_on_from_its_last_whole_task(tmp_path, tasks_run):
    data, path = table(*made()), tmp_path / "results.jsonl"
    whole = in_any_order(run(data, path, few()))
    content = path.read_bytes()
    for cut in (0.2, 0.5, 0.9):
        path.write_bytes(content[: int(cut * len(content))])
        done = len(re.findall(rb'\{"record":"done","task":"(?:data|split|all rows)', path.read_bytes()))
        tasks_run.clear()
        assert in_any_order(run(data, path, few())) == whole
        assert len(tasks_run) in (9 - done, 10 - done)  # the line that closes a task may be the one cut


def test_an_interrupted_extension_still_answers_for_what_is_whole(tmp_path, tasks_run):
    data, path = table(*made()), tmp_path / "results.jsonl"
    before = run(data, path, few())
    question = Question("balanced_error")
    short = verdicts(path, question, 1)
    tasks_run.clear()

    def stop(task):
        if split_of(task.name) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(data, path, few(repeats=2), on_task=stop)
    tasks_run.clear()
    after = run(data, path, few())
    assert tasks_run == []
    assert last_question(after) == last_question(before)
    assert verdicts(path, question, 1) == short
    extended = run(data, path, few(repeats=2))
    assert {split_of(name) for name in tasks_run} == {4, 5}
    whole = run(data, tmp_path / "whole.jsonl", few(repeats=2))
    assert in_any_order(extended, last_question(whole)) == in_any_order(whole, last_question(whole))


def test_a_task_that_fails_says_so(tmp_path):
    class Failing:
        def tasks(self):
            return [Task("one"), Task("two")]

        def run(self, task):
            raise ValueError(f"{task.name} went wrong")

    for n_jobs in (1, 2):
        with ResultsFile(tmp_path / "failing.jsonl", "compare", {}) as results:
            # a local class cannot be sent to a process: that is an error, too, and not a hang
            with pytest.raises((ValueError, AttributeError, TypeError), match=r"went wrong|pickle"):
                run_experiment(Failing(), results, n_jobs=n_jobs)
            assert results.finished == set()


def test_the_order_in_which_tasks_finish_has_no_say_in_the_answer(tmp_path):
    (X, y), path = made(), tmp_path / "results.jsonl"
    noise = np.random.default_rng(0).permutation(y)  # so that no measure is a round number
    run(table(X, noise), path, small("classification", n_folds=7))
    header, *lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    tasks = re.findall(r'.*?\{"record":"done"[^\n]*\n', "".join(lines), re.DOTALL)
    assert "".join(tasks) == "".join(lines)
    other = tmp_path / "other.jsonl"
    summary = comparison_summary(Findings(read_results(path)))
    for seed in range(5):
        shuffled = np.random.default_rng(seed).permutation(tasks)
        other.write_text(header + "".join(shuffled), encoding="utf-8")
        assert comparison_summary(Findings(read_results(other))) == summary
