"""The yardstick: a model of the other family on the splits of one repeat, read as the measures ask."""

from __future__ import annotations

import numpy as np
import pytest
from comparisons import in_any_order, made, made_numbers, parts_of, run, small, table
from numpy.testing import assert_allclose
from scipy.sparse import csr_array
from scipy.special import expit
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import balanced_accuracy_score, log_loss
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from atklearn import ATkRegressor
from atklearn.boosting import ATkBoostingClassifier
from atklearn.study.comparison import run_comparison
from atklearn.study.families import BoostedModels
from atklearn.study.outcome import Outcome, Question
from atklearn.study.results import read_results
from atklearn.study.running import Task
from atklearn.study.split_grids import SplitGrids
from atklearn.study.yardstick import Yardstick


def few(task="classification", **changes):
    losses = {"classification": ("log_loss",), "regression": ("squared_error",)}
    return small(task, losses=losses[task], **{"boosting_rounds": 10, **changes})


def rare(n=300):
    """Rows of which few are of the second class, and hard to tell."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 3))
    return X, np.where(X[:, 0] + rng.standard_normal(n) > 1.6, "rare", "common")


def yardsticks(records):
    return [record for record in records if record["record"] == "yardstick"]


def outcome(records, score):
    return Outcome.from_records(records, Question(score), 1)


@pytest.mark.parametrize("kind", ["two", "three", "numbers", "sparse"])
def test_every_row_is_said_once_by_a_model_that_had_not_seen_it(kind):
    X, y = {"two": made(), "three": made(n_classes=3), "numbers": made_numbers(), "sparse": made()}[kind]
    task = "regression" if kind == "numbers" else "classification"
    data = table(csr_array(X) if kind == "sparse" else X, y, task)
    grids = SplitGrids(data, few(task))
    yardstick = Yardstick(grids)
    assert [task.name for task in yardstick.tasks()] == ["yardstick 0", "yardstick 1", "yardstick 2"]
    rows = []
    for task in yardstick.tasks():
        (record,) = yardstick.run(task)
        _, test = parts_of(grids.take(record["split"]))
        assert record["rows"] == test.tolist()
        assert np.array(record["decisions"]).shape == ({"three": 3}.get(kind, 1), test.size)
        assert np.isfinite(record["decisions"]).all()
        rows += record["rows"]
    assert sorted(rows) == list(range(len(y)))


@pytest.mark.parametrize(
    ("installed", "library", "model"),
    [
        (True, "LightGBM", ATkBoostingClassifier(k=1.0, n_estimators=10, random_state=0)),
        (False, "scikit-learn", HistGradientBoostingClassifier(max_iter=10, random_state=0)),
    ],
)
def test_it_is_gradient_boosting_as_it_comes(installed, library, model, monkeypatch):
    """Decision values are log-odds of its probabilities, fitted to the training part alone; the record says whose."""
    monkeypatch.setattr("atklearn.study.yardstick.has_boosting", lambda: installed)
    grids = SplitGrids(table(*rare()), few())
    with threadpool_limits(1):
        (record,) = Yardstick(grids).run(Task("yardstick 1", 1))
        taken = grids.take(1)
        train, test = taken.places
        y = grids.y[taken.rows]
        model.fit(taken.X[train], y[train])
    assert (record["model"], record["library"], record["rounds"]) == ("boosting", library, 10)
    assert_allclose(expit(record["decisions"][0]), model.predict_proba(taken.X[test])[:, 1], rtol=1e-5)
    assert_allclose(record["prior"], np.bincount(y[train]) / train.size, rtol=1e-6)


def test_beside_trees_it_is_the_average_of_a_linear_model(tmp_path):
    X, y = made_numbers()
    settings = small("regression", family=BoostedModels((0.5, 1.0), (3, 6)))
    records = run(table(X, y, "regression"), tmp_path / "trees.jsonl", settings)
    grids = SplitGrids(table(X, y, "regression"), settings)
    for record in yardsticks(records):
        assert (record["model"], record["library"], record["rounds"]) == ("linear", "atklearn", None)
        train, test = parts_of(grids.take(record["split"]))
        scaler = StandardScaler().fit(X[train])
        mean, spread = y[train].mean(), y[train].std()
        own = ATkRegressor(k=1.0).fit(scaler.transform(X[train]), (y[train] - mean) / spread)
        assert_allclose(record["decisions"][0], mean + spread * own.predict(scaler.transform(X[test])), rtol=1e-5)
    assert outcome(records, "rmse").yardstick["rmse"] < np.std(y)


def test_measures_that_count_classes_alike_allow_for_their_shares(tmp_path):
    records = run(table(*rare()), tmp_path / "rare.jsonl", few())
    found = outcome(records, "balanced_error").yardstick
    y = np.array(next(record for record in records if record["record"] == "data")["truth"])
    odds, prior = np.empty(y.size), np.empty(y.size)
    for record in yardsticks(records):
        odds[record["rows"]], prior[record["rows"]] = record["decisions"][0], record["prior"][1]
    alike = 1.0 - balanced_accuracy_score(y, expit(odds) > prior)
    assert found["balanced_error"] == pytest.approx(alike)
    assert found["balanced_error"] < 1.0 - balanced_accuracy_score(y, odds > 0.0)
    assert found["error"] == pytest.approx(((odds > 0.0) != y).mean())
    assert found["log_loss"] == pytest.approx(log_loss(y, expit(odds)))


def test_of_several_classes_the_one_that_is_likelier_than_its_share_is_said(tmp_path):
    records = run(table(*made(n_classes=3)), tmp_path / "three.jsonl", few())
    data = next(record for record in records if record["record"] == "data")
    labels = np.empty(200, dtype=int)
    for record in yardsticks(records):
        shares = expit(np.array(record["decisions"])) / np.array(record["prior"])[:, None]
        labels[record["rows"]] = shares.argmax(axis=0)
    expected = 1.0 - balanced_accuracy_score(data["truth"], labels)
    assert outcome(records, "balanced_error").yardstick["balanced_error"] == pytest.approx(expected)


def test_longer_runs_and_other_questions_do_not_repeat_it(tmp_path, monkeypatch):
    data, path, asked = table(*made()), tmp_path / "results.jsonl", []
    honest = Yardstick.run
    monkeypatch.setattr(Yardstick, "run", lambda self, task: asked.append(task.name) or honest(self, task))
    first = yardsticks(run(data, path, few()))
    assert asked == ["yardstick 0", "yardstick 1", "yardstick 2"]
    longer = run(data, path, few(repeats=2))
    run(data, path, few(repeats=2), Question("error"))
    assert len(asked) == 3
    assert in_any_order(yardsticks(longer)) == in_any_order(first)


def test_of_another_library_it_is_another_run(tmp_path, monkeypatch):
    data, path = table(*made()), tmp_path / "run" / "results.jsonl"
    run_comparison(data, few(), Question("error"), path)
    monkeypatch.setattr("atklearn.study.yardstick.has_boosting", lambda: False)
    finished = run_comparison(data, few(), Question("error"), path)
    assert "(with other yardstick)" in finished.moved
    assert {record["library"] for record in yardsticks(read_results(finished.path))} == {"scikit-learn"}


def test_many_rows_are_thinned(monkeypatch):
    monkeypatch.setattr("atklearn.study.yardstick._MOST_TRAINED", 50)
    grids = SplitGrids(table(*made()), few())
    (record,) = Yardstick(grids).run(Task("yardstick 0", 0))
    assert record["n_train"] == 50
    assert len(record["rows"]) == parts_of(grids.take(0))[1].size


def test_a_run_without_it_has_no_yardstick(tmp_path):
    records = run(table(*made()), tmp_path / "results.jsonl", few())
    assert outcome([r for r in records if r["record"] != "yardstick"], "error").yardstick == {}
