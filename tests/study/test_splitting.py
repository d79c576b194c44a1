"""Rows that belong together stay together, rows are tested by fits on earlier ones, and no class is ever missing."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from comparisons import choice, made, made_numbers, run, small, table

from atklearn.study.outcome import Outcome, Question
from atklearn.study.pooling import JudgedRows
from atklearn.study.split_grids import SplitGrids
from atklearn.study.splitting import Splitting

LOSSES = {"classification": ("log_loss",), "regression": ("squared_error",)}


def classes_of(n, n_classes, seed):
    return np.random.default_rng(seed).integers(0, n_classes, n)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("classification", [True, False])
def test_a_cluster_is_never_on_both_sides(seed, classification):
    rng = np.random.default_rng(seed)
    clusters = rng.integers(0, 25, 300)
    y = classes_of(300, 3, seed) if classification else rng.standard_normal(300)
    splitting = Splitting(y, classification, clusters, seed=seed)
    rows = rng.permutation(300)[:250]
    n_folds = splitting.n_folds(rows, 5)
    assert n_folds == 5
    for repeat in range(3):
        folds = splitting.folds(rows, n_folds, repeat)
        assert sorted(np.concatenate([test for _, test in folds])) == list(range(250))
        for train, test in folds:
            assert not set(clusters[rows[train]]) & set(clusters[rows[test]])
            if classification:
                assert set(y[rows[train]]) == {0, 1, 2}


@pytest.mark.parametrize("seed", range(5))
def test_what_is_tested_comes_later(seed):
    rng = np.random.default_rng(seed)
    time = rng.integers(0, 60, 200)  # with ties
    splitting = Splitting(classes_of(200, 2, seed + 100), True, time=time)
    rows = rng.permutation(200)[:150]
    folds = splitting.folds(rows, splitting.n_folds(rows, 10))
    assert len(folds) == 10
    for (train, test), (_, later) in zip(folds, [*folds[1:], (None, None)], strict=True):
        assert time[rows[train]].max() < time[rows[test]].min()
        if later is not None:
            assert time[rows[test]].max() < time[rows[later]].min()
    tested = np.concatenate([test for _, test in folds])
    assert np.unique(tested).size == tested.size
    assert 0.4 * 150 < tested.size <= 0.5 * 150
    assert time[rows[tested]].max() == time[rows].max()


def test_without_either_every_fold_is_stratified_and_repeats_differ():
    y = np.repeat([0, 1], [40, 10])
    splitting = Splitting(y, True)
    rows = np.arange(50)
    assert splitting.n_folds(rows, 20) == 10  # as many as the rarest class has rows
    first, second = (splitting.folds(rows, 10, repeat) for repeat in range(2))
    assert all((y[test] == 1).sum() == 1 for _, test in first)
    assert any(not np.array_equal(a, b) for (_, a), (_, b) in zip(first, second, strict=True))


@pytest.mark.parametrize(
    ("splitting", "sentence"),
    [
        (Splitting(np.repeat([0, 1], 20), True, np.repeat([0, 1], 20)), "several groups of every class"),
        (Splitting(np.arange(40.0), False, np.zeros(40, dtype=int)), "several groups are expected"),
        (Splitting(np.arange(40.0), False, time=np.zeros(40)), "a few distinct times are expected"),
        (Splitting(np.repeat([0, 1], 20), True, time=np.arange(40)), "every class among the earliest rows"),
    ],
)
def test_what_cannot_be_split_is_said(splitting, sentence):
    with pytest.raises(ValueError, match=sentence):
        splitting.n_folds(np.arange(40), 5)


def test_what_cannot_be_split_is_said_before_anything_is_run(tmp_path):
    X, y = made(60)
    together = np.where(y == "a", "x", np.arange(60).astype(str))
    together[np.flatnonzero(y == "a")[0]] = "z"  # clusters enough to test, too few to choose within a training part
    data = replace(table(X, y), split_by=together, split_by_name="house")
    with pytest.raises(ValueError, match="enough to train, to choose and to test"):
        run(data, tmp_path / "results.jsonl")
    assert not (tmp_path / "results.jsonl").exists() or (tmp_path / "results.jsonl").read_bytes().count(b"\n") <= 1


def test_clusters_are_drawn_once_for_what_is_asked_often(monkeypatch):
    """Thousands of them take seconds; every loss and kind of class weights asks for the same folds."""
    drawn = []
    honest = Splitting._draw
    monkeypatch.setattr(Splitting, "_draw", lambda *asked: drawn.append(asked[2:]) or honest(*asked))
    splitting = Splitting(classes_of(100, 2, 0), True, np.arange(100) % 20)
    rows = np.arange(80)
    folds = [splitting.folds(rows, splitting.n_folds(rows, 4)) for _ in range(3)]
    assert len(drawn) == 1
    other = pickle.loads(pickle.dumps(splitting)).folds(rows, 4)
    assert len(drawn) == 2, "they are not sent to other processes"
    for found in (*folds[1:], other):
        assert all(
            np.array_equal(a, b)
            for one, two in zip(found, folds[0], strict=True)
            for a, b in zip(one, two, strict=True)
        )
    splitting.folds(rows[1:], 4)
    splitting.folds(rows, 4, repeat=1)
    assert len(drawn) == 4


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_comparison_with_clusters_judges_every_row_once(tmp_path, task):
    X, y = made(120) if task == "classification" else made_numbers(120)
    house = np.random.default_rng(0).integers(0, 20, 120).astype(str)
    data = replace(table(X, y, task), split_by=house, split_by_name="house")
    records = run(
        data,
        tmp_path / "results.jsonl",
        small(task, losses=("log_loss",) if task == "classification" else ("squared_error",)),
    )
    about = next(record for record in records if record["record"] == "data")
    assert about["split_by"] == "house"
    assert len(set(about["clusters"])) == 20
    outcome = Outcome.from_records(records, Question.about(task, has_groups=False), 1)
    average, _ = outcome.sides(outcome.question.score)
    seen = [set(house[one.rows]) for one in average]
    assert sum(map(len, seen)) == len(set.union(*seen)) == 20


def test_a_comparison_in_time_judges_the_later_half_and_cannot_be_repeated(tmp_path):
    X, y = made_numbers(120)
    time = np.random.default_rng(0).permutation(120).astype(float)
    data = replace(table(X, y, "regression"), time=time, time_name="day")
    records = run(
        data, tmp_path / "results.jsonl", small("regression", losses=("squared_error",), repeats=1, last_repeats=1)
    )
    about = next(record for record in records if record["record"] == "data")
    assert sorted(about["truth"]) == pytest.approx(sorted(y[time >= 60]))
    outcome = Outcome.from_records(records, Question.about("regression", has_groups=False), 1)
    assert len(outcome.splits) == about["n_folds"]
    for verdict in outcome.verdicts.values():
        assert verdict.remedy is None or verdict.remedy.repeats is None
    grids = SplitGrids(data, small("regression"))
    for split in range(grids.n_folds):
        taken = grids.take(split)
        train, test = (time[taken.rows[part]] for part in taken.places)
        assert train.max() < test.min()


def test_rows_that_depend_on_each_other_make_the_interval_wider():
    """Ten copies of every row tell no more than the row, if they are drawn together."""
    rng = np.random.default_rng(0)
    y = rng.standard_normal(100)
    sides = rng.standard_normal((2, 100))
    once = JudgedRows(y, None, None, 0.1, 1)
    alone = once.compare("mae", [choice(sides[0], np.arange(100))], [choice(sides[1], np.arange(100))])
    many, rows = np.repeat(np.arange(100), 10), np.arange(1000)
    pairs = [choice(sides[0][many], rows)], [choice(sides[1][many], rows)]
    apart = JudgedRows(y[many], None, None, 0.1, 1).compare("mae", *pairs)
    together = JudgedRows(y[many], None, None, 0.1, 1, clusters=many).compare("mae", *pairs)
    assert together.error == pytest.approx(alone.error, rel=0.15)
    assert apart.error == pytest.approx(alone.error / np.sqrt(10.0), rel=0.15)
