"""Parquet files are read as they are, row group by row group, their columns by name."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

import numpy as np
import pandas as pd
import pyarrow.dataset
import pytest
from chunk_cases import assert_same_fit, before_queries

from atklearn import ATkClassifier, ATkRegressor
from atklearn.ondisk import ArrayChunks
from atklearn.ondisk.array_chunks import ExecutorEngine

FEATURES = ["distance", "weight kg", "hour"]


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((3000, 2)), columns=FEATURES[:2])
    frame["hour"] = rng.integers(0, 24, 3000)
    frame["minutes"] = 3.0 * frame["distance"] + 0.1 * frame["hour"] + rng.gumbel(size=3000)
    frame["late"] = pd.Categorical(np.where(frame["minutes"] > 2.0, "late", "on time"))
    frame["times"] = rng.integers(0, 3, 3000)
    return frame


@pytest.fixture
def folder(tmp_path, frame):
    """Three files, of row groups of 250 rows, with X, numbers as targets and weights."""
    for part in range(3):
        path = tmp_path / "deliveries" / f"part-{part}.parquet"
        path.parent.mkdir(exist_ok=True)
        rows = frame.drop(columns="late").iloc[1000 * part : 1000 * (part + 1)]
        rows.to_parquet(path, row_group_size=250, index=False)
    return tmp_path / "deliveries"


OPTIONS = {"k": 0.3, "tol": 1e-9}


@pytest.mark.parametrize(
    ("how", "size"), [("folder", None), ("folder", 100), ("a file", 600), ("dataset", 600), ("processes", 600)]
)
def test_fits_are_those_in_memory(folder, frame, how, size):
    expected = ATkRegressor(**OPTIONS).fit(frame[FEATURES], frame["minutes"], frame["times"])
    source = folder
    if how == "a file":
        source = folder.parent / "all.pq"
        frame.drop(columns="late").to_parquet(source, row_group_size=700)
    if how == "dataset":
        source = pyarrow.dataset.dataset(folder)
    if how == "processes":
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
            chunks = ArrayChunks(source, executor=executor, chunk_size=600)
            model = ATkRegressor(**OPTIONS).fit(chunks, "minutes", "times")
    else:
        model = ATkRegressor(**OPTIONS).fit(ArrayChunks(source, chunk_size=size), "minutes", "times")
    assert_same_fit(model, expected)
    assert model.feature_names_in_.tolist() == FEATURES
    np.testing.assert_allclose(model.top_weights_, expected.top_weights_, atol=1e-6)


def test_chunks_are_whole_row_groups(folder):
    assert ArrayChunks(folder, chunk_size=600).ends() == [500, 1000, 1500, 2000, 2500, 3000]
    assert ArrayChunks(folder, chunk_size=100).ends() == list(range(250, 3001, 250))
    assert ArrayChunks(folder).ends() == [3000]


def test_predictions_find_their_columns_by_name(folder, frame):
    """A folder of new rows may have others beside them, in another order."""
    model = ATkRegressor(**OPTIONS).fit(ArrayChunks(folder), "minutes", "times")
    chunks = ArrayChunks(folder, chunk_size=250)
    np.testing.assert_allclose(model.predict(chunks), model.predict(frame[FEATURES]), rtol=1e-12)
    assert model.score(chunks, frame["minutes"]) == pytest.approx(model.score(frame[FEATURES], frame["minutes"]))
    frame[["hour", "minutes", "weight kg", "distance"]].to_parquet(folder.parent / "other.parquet")
    found = model.predict(ArrayChunks(folder.parent / "other.parquet"))
    np.testing.assert_allclose(found, model.predict(frame[FEATURES]), rtol=1e-12)


def test_labels_may_be_text_categories_or_lie_elsewhere(tmp_path, frame):
    path = tmp_path / "late.parquet"
    expected = ATkClassifier(**OPTIONS).fit(frame[FEATURES], frame["late"].astype(str))
    for labels in (frame["late"], frame["late"].astype(str)):
        frame[FEATURES].assign(late=labels).to_parquet(path, row_group_size=400)
        assert_same_fit(ATkClassifier(**OPTIONS).fit(ArrayChunks(path, chunk_size=900), "late"), expected)
    frame[FEATURES].to_parquet(path, row_group_size=400)
    assert_same_fit(ATkClassifier(**OPTIONS).fit(ArrayChunks(path), frame["late"].astype(str)), expected)


@pytest.mark.parametrize(("kind", "told"), [("category", "dictionary"), ("str", "string")])
def test_columns_of_text_are_named(tmp_path, frame, kind, told):
    frame.assign(late=frame["late"].astype(kind)).to_parquet(tmp_path / "X.parquet")
    with pytest.raises(ValueError, match=f"Column 'late' of X is expected to hold numbers, got .*{told}.*; encode it"):
        ATkRegressor(k=0.5).fit(ArrayChunks(tmp_path / "X.parquet"), "minutes")
    schema = pyarrow.dataset.dataset(tmp_path / "X.parquet").schema
    chosen = pyarrow.schema([schema.field(name) for name in (*FEATURES, "minutes")])
    model = ATkRegressor(**OPTIONS).fit(
        ArrayChunks(pyarrow.dataset.dataset(tmp_path / "X.parquet", schema=chosen)), "minutes"
    )
    assert_same_fit(model, ATkRegressor(**OPTIONS).fit(frame[FEATURES], frame["minutes"]))


def test_missing_numbers_are_told_with_their_chunk(tmp_path, frame):
    frame.loc[1300, "hour"] = None
    frame[[*FEATURES, "minutes"]].to_parquet(tmp_path / "X.parquet", row_group_size=500)
    with pytest.raises(ValueError, match=r"Chunk 2 of the data: .*NaN"):
        ATkRegressor(k=0.5).fit(ArrayChunks(tmp_path / "X.parquet", chunk_size=500), "minutes")


def test_files_that_change_while_they_are_read_are_told(folder, monkeypatch):
    cut = partial(os.truncate, folder / "part-1.parquet", 1000)
    before_queries(monkeypatch, ExecutorEngine, [10], cut)
    with pytest.raises(
        ValueError, match=r"Chunk \d of the data: The file '.*part-1.parquet' is expected to stay as it is"
    ):
        ATkRegressor(k=0.5).fit(ArrayChunks(folder, chunk_size=500), "minutes")


def test_what_is_no_parquet_is_told(folder):
    (folder / "part-1.parquet").write_bytes(b"something else")
    with pytest.raises(ValueError, match=r"\.npy or Parquet file, or of a folder of the latter, got '.*deliveries'"):
        ArrayChunks(folder)


def test_pyarrow_that_is_missing_is_told(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.dataset", None)
    with pytest.raises(
        ModuleNotFoundError, match="take pyarrow, which is not installed: pip install pyarrow, or write"
    ):
        ArrayChunks(folder)
