"""The comparison on a table: nothing of the test part is seen, any number of processes, any kind of table."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from tables import mixed_table

from atklearn import ATkClassifier
from atklearn.datasets import make_toy
from atklearn.report.comparison_findings import comparison_summary
from atklearn.report.comparison_page import comparison_page
from atklearn.report.content import Explorer, Table
from atklearn.study.comparison import Settings, SplitGrids, run_comparison
from atklearn.study.last_fit import fit_recommended
from atklearn.study.results import ResultsFile, read_results
from atklearn.study.running import Task, run_experiment
from atklearn.study.tabular import TabularData, monk_table, read_table, take_rows

SMALL = {"n_splits": 3, "n_ks": 3, "n_Cs": 2, "n_folds": 3}


def small(task, **changes):
    return Settings.for_task(task, **{**SMALL, **changes})


def table(X, y, task="classification", groups=None):
    frame = X if isinstance(X, csr_array) else pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    return TabularData("made", frame, y, task, "y", groups, None if groups is None else "town",
                       np.arange(1, len(y) + 1), "made here", [])  # fmt: skip


def made(n=200, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4))
    return X, np.array(["a", "b", "c"])[(X[:, 0] > 0.0).astype(int) + (n_classes == 3) * (X[:, 1] > 0.7)]


def run(data, path, settings=None, **options):
    run_comparison(data, settings or small(data.task), path, **options)
    return list(read_results(path))


def parts_of(taken):
    """Return the rows of the table in the training and in the test part."""
    return [taken.rows[places] for places in taken.places]


def without_header(records):
    return sorted(json.dumps(record, sort_keys=True) for record in records if record["record"] != "run")


def test_nothing_of_the_test_part_is_seen():
    X, y = made()
    grids = SplitGrids(table(X, y), small("classification"))
    train, test = parts_of(grids.take(0))
    assert not set(train) & set(test)
    X_other = X.copy()
    X_other[test] = 1e6 * np.random.default_rng(1).standard_normal((test.size, 4))
    others = SplitGrids(table(X_other, y), small("classification"))
    np.testing.assert_array_equal(parts_of(others.take(0))[0], train)
    others.y[test] = 1 - others.y[test]  # after the split, which is stratified
    for task in grids.tasks():
        if task.key is not None and task.key[0] == 0:
            one, other = grids.run(task), others.run(task)
            for field in ("k", "C", "validation", "gap", "fold_gap"):
                assert [record[field] for record in one] == [record[field] for record in other]
            assert [record["test"] for record in one] != [record["test"] for record in other]


def test_not_even_the_vocabulary_of_the_test_part_is_seen():
    """Columns of few texts and of many become different features: the training part decides."""
    X, y = made(400)
    data = table(X, y)
    train, test = parts_of(SplitGrids(data, small("classification")).take(0))
    words = np.where(X[:, 0] > 0.0, "up", "down").astype(object)
    for names in (words, np.array([f"street {i}" for i in range(400)], dtype=object)):
        mixed = words.copy()
        mixed[test] = names[test]
        frame = data.features.assign(town=pd.Series(mixed, dtype="string"))
        grids = SplitGrids(replace(data, features=frame), small("classification"))
        taken = grids.take(0)
        np.testing.assert_array_equal(parts_of(taken)[0], train)
        assert taken.X.shape == (400, 4 + 2)


def test_cells_are_the_fits_they_name():
    X, y = made()
    data = table(X, y)
    grids = SplitGrids(data, small("classification"))
    taken = grids.take(1)
    (train, test), (X_train, X_test) = parts_of(taken), (taken.X[places] for places in taken.places)
    record = next(r for r in grids.run(grids.tasks()[5]) if r["aggregate"] == "atk" and r["C"] > 1.0)
    assert record["split"] == 1
    weight = "balanced" if record["weights"] == "balanced" else None
    model = ATkClassifier(record["loss"], k=record["share"], C=record["C"], class_weight=weight, tol=1e-3)
    error = (model.fit(X_train, y[train]).predict(X_test) != y[test]).mean()
    assert record["test"]["error"] == pytest.approx(error, abs=0.021)  # at a gap of 1e-3 one row may differ
    assert record["gap"] <= 1e-3


def test_fits_that_missed_their_tolerance_are_recorded_and_warn_of_nothing(tmp_path):
    records = run(table(*made()), tmp_path / "results.jsonl", small("classification", n_splits=2, tol=1e-16))
    cells = [record for record in records if record["record"] == "cell"]
    assert sum(record["n_missed"] for record in cells) > 0.1 * sum(record["n_fits"] for record in cells)


def test_processes_do_not_change_the_results(tmp_path):
    data = table(*made())
    one, two = run(data, tmp_path / "one.jsonl"), run(data, tmp_path / "two.jsonl", n_jobs=2)
    assert without_header(one) == without_header(two)


def test_a_finished_run_is_not_run_again(tmp_path, monkeypatch):
    data, path = table(*made()), tmp_path / "results.jsonl"
    run(data, path)
    before = path.read_bytes()
    monkeypatch.setattr(SplitGrids, "run", lambda *_: pytest.fail("a finished task was run again"))
    told = []
    run(data, path, on_task=told.append)
    assert path.read_bytes() == before
    assert len(told) == 1 + 4 * 4 + 1


def test_an_interrupt_keeps_what_is_finished(tmp_path):
    data, path = table(*made()), tmp_path / "results.jsonl"
    finished = []

    def stop(task):
        finished.append(task.name)
        if len(finished) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(data, path, on_task=stop)
    with ResultsFile(path, "compare", next(read_results(path))["config"]) as results:
        assert results.finished == set(finished)
    resumed = without_header(run(data, path))
    assert resumed == without_header(run(data, tmp_path / "whole.jsonl"))


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


def tables_of(page):
    return {block.name: block for section in page.sections for block in section.blocks if isinstance(block, Table)}


def explorer_of(page):
    return next(block for section in page.sections for block in section.blocks if isinstance(block, Explorer))


def test_two_features_show_their_boundary(tmp_path):
    X, y = make_toy(4, random_state=0)
    X = X * [10.0, 0.1] + [5.0, -3.0]
    records = run(table(X, np.where(y > 0, "yes", "no")), tmp_path / "toy.jsonl")
    explorer = explorer_of(comparison_page(records))
    assert explorer.plane is not None
    line = explorer.steps[-1].line  # of the average, in units of the table
    said = np.where(X @ [line.a, line.b] + line.c > 0.0, 1.0, -1.0)
    point = [record for record in records if record["record"] == "point"][-1]
    assert (said != y).mean() == pytest.approx(point["error"])
    assert len(explorer.steps) == SMALL["n_ks"]
    assert len({step.line for step in explorer.steps}) == len(explorer.steps)


def test_a_part_of_two_features_shows_the_boundary_of_all(tmp_path):
    X, y = (np.concatenate(parts) for parts in zip(*(make_toy(6, random_state=seed) for seed in range(4)), strict=True))
    data = table(X, np.where(y > 0, "yes", "no"))
    settings = small("classification", losses=("log_loss",), weights=("balanced",), max_rows=400)
    explorer = explorer_of(comparison_page(run(data, tmp_path / "part.jsonl", settings)))
    assert all(step.line is not None for step in explorer.steps)


def test_groups(tmp_path):
    X, y = made()
    groups = np.where(X[:, 2] > 0.0, "north", "south")
    y = np.where((groups == "south") & (np.random.default_rng(0).random(200) < 0.4), "b", y)
    page = comparison_page(run(table(X, y, groups=groups), tmp_path / "groups.jsonl"))
    found = tables_of(page)
    assert [row[0].text for row in found["groups"].rows] == ["north", "south", "worst on each split"]
    assert {row[0].text for row in found["top-by-group"].rows} == {"north", "south"}
    north, south, worst = (float(row[1].text.split("±")[0]) for row in found["groups"].rows)
    assert north < south <= worst + 1e-9


@pytest.mark.parametrize("kind", ["three classes", "regression", "sparse"])
def test_kinds_of_problems(tmp_path, kind):
    X, y = made(n_classes=3 if kind == "three classes" else 2)
    data = table(csr_array(np.where(X > 0.0, X, 0.0)) if kind == "sparse" else X, y)
    if kind == "regression":
        data = table(X, 1000.0 + 50.0 * X[:, 0] + np.random.default_rng(0).standard_t(2, 200), "regression")
    records = run(data, tmp_path / "results.jsonl")
    summary, page = comparison_summary(records), comparison_page(records)
    assert summary["verdict"] in ("helps", "hurts", "none")
    json.dumps(summary, allow_nan=False)
    explorer = explorer_of(page)
    assert explorer.plane is None
    if kind == "regression":
        average = next(m for m in summary["methods"] if (m["aggregate"], m["loss"]) == ("average", "squared_error"))
        assert 1.0 < average["rmse"]["mean"] < 10.0  # in units of the target
        assert "worst_class_error" not in average
    rows = tables_of(page)["hardest-rows"].rows
    losses = [float(row[1].text) for row in rows]
    assert losses == sorted(losses, reverse=True)
    assert all(1 <= int(row[0].text) <= 200 for row in rows)


def test_a_mixed_table_and_its_model(tmp_path):
    frame = mixed_table()
    frame.to_csv(tmp_path / "rides.csv", index=False)
    data = read_table(tmp_path / "rides.csv", "rides", drop=["comment"])
    advice = run_comparison(data, small("classification", losses=("log_loss",)), tmp_path / "results.jsonl")
    model = fit_recommended(data, advice)
    assert model.score(data.features, data.target) > 0.75
    hard = [record for record in read_results(tmp_path / "results.jsonl") if record["record"] == "hard_row"]
    row = hard[0]["row"] - 1
    assert hard[0]["target"] == data.target[row]
    assert hard[0]["prediction"] == model.predict(take_rows(data.features, np.array([row])))[0]


def test_hidden_errors_are_the_hardest_rows(tmp_path):
    X, y = made(400)
    wrong = np.random.default_rng(3).choice(np.flatnonzero(np.abs(X[:, 0]) > 1.0), 5, replace=False)
    y[wrong] = np.where(y[wrong] == "a", "b", "a")
    records = run(table(X, y), tmp_path / "results.jsonl")
    hardest = [record["row"] - 1 for record in records if record["record"] == "hard_row"][:5]
    assert set(hardest) == set(wrong)


def test_quick_compares_on_a_part_in_proportion():
    X, y = made(3000)
    y[:300] = "c"
    settings = replace(Settings.for_task("classification", quick=True), max_rows=1000)
    grids = SplitGrids(table(X, y), settings)
    assert grids.used.size == pytest.approx(1000, abs=2)
    assert np.mean(y[grids.used] == "c") == pytest.approx(0.1, abs=0.005)
    assert len(grids.tasks()) == 1 + 6 * 2
    y[:300], y[:12] = "a", "c"  # so few are taken as they are
    assert np.sum(y[SplitGrids(table(X, y), settings).used] == "c") == 12


def test_monk_is_what_is_compared_on_by_default():
    data = monk_table()
    counts = dict(zip(*np.unique(data.target, return_counts=True), strict=True))
    assert counts == {"monk": 228, "other": 204}
    assert data.features.shape == (432, 6)
