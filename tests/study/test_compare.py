"""The comparison on a table: nothing of the test part is seen, cells are the fits they name, any kind of table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from comparisons import made, made_numbers, parts_of, run, small, table
from made_tables import mixed_table
from scipy.sparse import csr_array
from sklearn.model_selection import KFold, StratifiedKFold

from atklearn import ATkClassifier, ATkRegressor
from atklearn.measures.catalogue import names_of_measures
from atklearn.study.comparison import run_comparison
from atklearn.study.evidence import choose, collect_grids
from atklearn.study.last_fit import fit_recommended
from atklearn.study.outcome import Outcome, Question
from atklearn.study.recalibration import map_kind
from atklearn.study.results import read_results
from atklearn.study.settings import Settings
from atklearn.study.split_grids import SplitGrids, split_of
from atklearn.tables.features import take_rows
from atklearn.tables.tabular import demonstration_table, read_table


def of_kind(records, kind):
    return [record for record in records if record["record"] == kind]


def tasks_of(grids, split):
    return [task for task in grids.tasks() if split_of(task.name) == split and task.key is not None]


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_nothing_of_the_test_part_is_seen(task):
    X, y = made() if task == "classification" else made_numbers()
    grids = SplitGrids(table(X, y, task), small(task))
    train, test = parts_of(grids.take(0))
    assert not set(train) & set(test)
    X_other = X.copy()
    X_other[test] = 1e6 * np.random.default_rng(1).standard_normal((test.size, X.shape[1]))
    others = SplitGrids(table(X_other, y, task), small(task))
    np.testing.assert_array_equal(parts_of(others.take(0))[0], train)
    others.y = others.y.copy()
    others.y[test] = 1 - others.y[test]  # after the split, which is stratified
    for of_split in tasks_of(grids, 0):
        one, other = grids.run(of_split), others.run(of_split)
        for field in ("k", "strength", "validation", "gap", "fold_gap"):
            assert [r[field] for r in of_kind(one, "cell")] == [r[field] for r in of_kind(other, "cell")]
        assert [r["test"] for r in of_kind(one, "cell")] != [r["test"] for r in of_kind(other, "cell")]
        assert of_kind(one, "map") == of_kind(other, "map") != []
        (said,), (said_other) = of_kind(one, "said"), of_kind(other, "said")[0]
        assert [(cell["k"], cell["strength"]) for cell in said["cells"]] == [
            (c["k"], c["strength"]) for c in said_other["cells"]
        ]
        assert said["cells"] != said_other["cells"]


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


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_cells_are_the_fits_they_name(task):
    """Test values, validation and decision values of every cell, against estimators that are fitted one by one."""
    X, y = made(120) if task == "classification" else made_numbers(120)
    grids = SplitGrids(table(X, y, task), small(task, tol=1e-7))
    taken = grids.take(1)
    (train, test), (X_train, X_test) = parts_of(taken), (taken.X[places] for places in taken.places)
    folds = (StratifiedKFold if task == "classification" else KFold)(3, shuffle=True, random_state=0)

    def say(record, X_fit, y_fit, X_new):
        k = "max" if record["k"] == 1.0 else record["share"]
        options = {"k": k, "C": record["strength"], "tol": 1e-7}
        if task == "classification":
            weight = "balanced" if record["weights"] == "balanced" else None
            model = ATkClassifier(record["loss"], class_weight=weight, **options).fit(X_fit, y_fit)
            return model.decision_function(X_new)
        centre, spread = y_fit.mean(), y_fit.std()
        model = ATkRegressor(record["loss"], **options).fit(X_fit, (y_fit - centre) / spread)
        return centre + spread * model.predict(X_new)

    def measure(said, truth):
        if task == "classification":
            return np.mean((said > 0.0) != (truth == "b"))
        return np.sqrt(np.mean((said - truth) ** 2))

    name, slack = ("error", 0.026) if task == "classification" else ("rmse", 1e-2)  # one row of a part
    seen = 0
    for of_split in tasks_of(grids, 1):
        records = grids.run(of_split)
        said = {(cell["k"], cell["strength"]): cell["decisions"][0] for cell in of_kind(records, "said")[0]["cells"]}
        assert np.array_equal(grids.judged[of_kind(records, "said")[0]["rows"]], test)
        for record in of_kind(records, "cell"):
            assert (record["split"], record["gap"] <= 1e-7) == (1, True)
            if (record["k"], record["strength"]) not in said:
                continue
            seen += 1
            own = say(record, X_train, y[train], X_test)
            np.testing.assert_allclose(said[record["k"], record["strength"]], own, rtol=0.01, atol=0.01 * np.std(own))
            assert record["test"][name] == pytest.approx(measure(own, y[test]), abs=slack)
            for place, (fitted, unseen) in enumerate(folds.split(X_train, y[train])):
                found = measure(say(record, X_train[fitted], y[train][fitted], X_train[unseen]), y[train][unseen])
                assert record["validation"][name][place] == pytest.approx(found, abs=1.5 * slack)
    assert seen >= 4


def test_the_hinge_is_compared_as_an_average():
    grids = SplitGrids(table(*made()), small("classification"))
    for task in tasks_of(grids, 0):
        cells = of_kind(grids.run(task), "cell")
        ks = {record["k"] for record in cells}
        assert {record["aggregate"] for record in cells if record["share"] == 1.0} == {"average"}
        if task.key[1] == "hinge":
            assert len(ks) == 1
        else:
            assert len(ks) == 3 + (task.key[2] == "plain")  # the one largest loss does not know weights
            assert (min(ks) == 1.0) == (task.key[2] == "plain")


def test_every_row_is_predicted_once_per_repeat():
    for data in (table(*made()), table(*made_numbers(100), "regression")):
        settings = small(data.task, repeats=3, losses=("log_loss",) if data.task == "classification" else ("huber",))
        grids = SplitGrids(data, settings)
        tests = [parts_of(grids.take(split))[1] for split in range(9)]
        repeats = [np.concatenate(tests[first : first + 3]) for first in (0, 3, 6)]
        for rows in repeats:
            assert sorted(rows) == list(range(len(data.target)))
        assert len({tuple(map(tuple, tests[first : first + 3])) for first in (0, 3, 6)}) == 3
        again = SplitGrids(data, replace(settings, repeats=1))
        for split in range(3):  # the same whatever the number of repeats
            np.testing.assert_array_equal(parts_of(again.take(split))[1], tests[split])


@pytest.mark.parametrize("kind", ["two classes", "three classes", "regression", "sparse", "groups", "few numbers"])
def test_what_is_chosen_is_recorded(tmp_path, kind):
    """Of any kind of table: every measure has a verdict, and all that is chosen has said something."""
    X, y = made(150, n_classes=3 if kind == "three classes" else 2)
    groups = np.where(X[:, 2] > 0.0, "north", "south") if kind == "groups" else None
    data = table(csr_array(np.where(X > 0.0, X, 0.0)) if kind == "sparse" else X, y, groups=groups)
    if kind == "regression":
        data = table(*made_numbers(), "regression")
    if kind == "few numbers":  # of which the smallest parts are less than one row
        rng = np.random.default_rng(0)
        X = rng.standard_normal((20, 2))
        data = table(X, X[:, 0] + rng.uniform(-1.0, 1.0, 20), "regression")
    settings = small(data.task, **({"n_ks": 8, "n_folds": 5} if kind == "few numbers" else {}))
    records = run(data, tmp_path / "results.jsonl", settings)
    question = Question.about(data.task, has_groups=groups is not None)
    outcome = Outcome.from_records(records, question, 1)
    known = [name for name in names_of_measures(data.task) if groups is not None or "group" not in name]
    assert set(outcome.verdicts) == set(known)
    n_classes = None if data.task == "regression" else len(np.unique(data.target))
    assert set(outcome.contests) == {name for name in known if map_kind(name, n_classes)}
    for verdict in [*outcome.verdicts.values(), *outcome.contests.values()]:
        assert np.isfinite([verdict.low, verdict.high, verdict.average, verdict.atk]).all()
    for grids in outcome.splits:
        for measure in known:
            for choice in choose(grids, measure):
                assert choice.said.shape[-1] == choice.rows.size > 0
    for grids in collect_grids(records, "made").values():
        for grid in grids:
            assert (np.diff(grid.ks) > 0.0).all()
            assert (grid.ks[grid.below_all] > 1.0).all()
    hard = of_kind(records, "hard_row")
    losses = [record["loss"] for record in hard]
    assert losses == sorted(losses, reverse=True)


def test_few_numbers_can_be_judged_by_their_largest_error(tmp_path):
    """Where the smallest parts of the rows are less than one, and the maximum would be chosen."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((20, 2))
        data = table(X, X[:, 0] + rng.uniform(-1.0, 1.0, 20), "regression")
        run(data, tmp_path / f"{seed}.jsonl", small("regression", n_ks=8, n_folds=5), Question("max_error"))


def test_fits_that_missed_their_tolerance_are_recorded_and_warn_of_nothing(tmp_path):
    settings = small("classification", losses=("log_loss",), n_folds=2, last_repeats=1, tol=1e-16)
    records = run(table(*made()), tmp_path / "results.jsonl", settings)
    cells = of_kind(records, "cell")
    assert sum(record["n_missed"] for record in cells) > 0.1 * sum(record["n_fits"] for record in cells)


def test_a_mixed_table_and_its_model(tmp_path):
    frame = mixed_table()
    frame.to_csv(tmp_path / "rides.csv", index=False)
    data = read_table(tmp_path / "rides.csv", "rides", drop=["comment"])
    settings = small("classification", losses=("log_loss",))
    finished = run_comparison(data, settings, Question("balanced_error"), tmp_path / "results.jsonl")
    model = fit_recommended(data, finished.recommendation)
    assert model.score(data.features, data.target) > 0.75
    hard = of_kind(read_results(tmp_path / "results.jsonl"), "hard_row")
    row = hard[0]["row"] - 1
    assert hard[0]["target"] == data.target[row]
    assert hard[0]["prediction"] == model.predict(take_rows(data.features, np.array([row])))[0]


def test_hidden_errors_are_the_hardest_rows(tmp_path):
    X, y = made(400)
    wrong = np.random.default_rng(3).choice(np.flatnonzero(np.abs(X[:, 0]) > 1.0), 5, replace=False)
    y[wrong] = np.where(y[wrong] == "a", "b", "a")
    records = run(table(X, y), tmp_path / "results.jsonl")
    hardest = [record["row"] - 1 for record in of_kind(records, "hard_row")][:5]
    assert set(hardest) == set(wrong)


def test_a_part_is_compared_on_in_proportion():
    X, y = made(3000)
    y[:300] = "c"
    settings = Settings.for_task("classification", 3000, quick=True, max_rows=1000)
    grids = SplitGrids(table(X, y), settings)
    assert grids.used.size == pytest.approx(1000, abs=2)
    assert np.mean(y[grids.used] == "c") == pytest.approx(0.1, abs=0.005)
    assert len(grids.tasks()) == 1 + 6 * (10 + 1)
    y[:300], y[:12] = "a", "c"  # so few are taken as they are
    assert np.sum(y[SplitGrids(table(X, y), settings).used] == "c") == 12


def test_fewer_rows_are_split_more_often():
    repeats = [Settings.for_task("regression", n).repeats for n in (100, 3000, 10**6)]
    assert repeats == sorted(repeats, reverse=True)
    assert repeats[0] > repeats[-1] == 1
    with pytest.raises(ValueError, match="tail is expected"):
        Settings.for_task("regression", 100, tail=1.0)


def test_deliveries_are_what_is_compared_on_by_default():
    data = demonstration_table()
    assert data.task == "regression"
    assert set(data.groups) == {"van", "scooter", "bike"}
    assert list(data.features.columns) == ["distance_km", "climb_m"]
    assert "generated" in data.notes[0]
