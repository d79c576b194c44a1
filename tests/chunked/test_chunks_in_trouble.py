"""What is wrong with data in chunks, or goes wrong while they are read, is said in a sentence."""

from __future__ import annotations

import os

import numpy as np
import pytest
from chunk_cases import before_queries, draw

from atklearn import ATkClassifier, ATkClassifierCV, ATkRegressor, RowBlocks, SGDATkRegressor
from atklearn.ondisk import ArrayChunks
from atklearn.ondisk.array_chunks import ExecutorEngine, FileRows, read_rows


def spoiled(array, place, value):
    out = array.copy()
    out[place] = value
    return out


X, F = draw()
Y = F > 0.0
ONES = np.ones(F.size)
BAD = {
    "NaN": (spoiled(X, (2500, 1), np.nan), Y, None, r"Chunk 2 of the data: Input X contains NaN"),
    "large": (spoiled(X, (2500, 1), 1e200), Y, None, r"Chunk 2 of the data: X is expected to hold numbers whose"),
    "large target": (X, spoiled(F, 1500, 1e200), None, r"Chunk 1 of the data: y is expected to hold numbers whose"),
    "infinite target": (X, spoiled(F, 1500, np.inf), None, r"Chunk 1 of the data: Input y contains infinity"),
    "negative weight": (X, Y, spoiled(ONES, 10, -1.0), r"Chunk 0 of the data: sample_weight is expected.*-1"),
    "no weight": (X, Y, 0.0 * ONES, r"At least one row with positive weight is expected"),
    "one class": (X, np.zeros(F.size, int), None, r"at least 2 classes"),
    "numbers as labels": (X, F, None, r"Unknown label type: continuous"),
    "too few targets": (X, Y[:-1], None, r"y is expected to be as long as X, which has 3000 rows, got shape \(2999,\)"),
    "one weight": (X, Y, ONES[:1], r"sample_weight is expected to be as long as X"),
    "no targets": (X, None, None, r"y is expected to be as long as X, .* got shape \(\)"),
    "no rows": (X[:0], Y[:0], None, r"expected to have rows and columns"),
    "a vector": (X[:, 0], Y, None, r"two dimensions"),
    "a list": (X[:3].tolist(), Y[:3], None, r"two dimensions, .* got list"),
    "a folder": ("folder/", Y, None, r"expected to be that of a \.npy or Parquet file, .*got 'folder/'"),
    "a name as targets": (X, "y", None, r"expected to be that of a \.npy or Parquet file, .*got 'y'"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_data_are_told_with_the_chunk_they_are_in(what):
    X, y, weight, told = BAD[what]
    cls = ATkRegressor if what in ("infinite target", "large target") else ATkClassifier
    with pytest.raises(ValueError, match=told):
        cls(k=0.5).fit(ArrayChunks(X, chunk_size=1000), y, weight)


def test_what_chunks_cannot_do_is_told():
    chunks = ArrayChunks(X)
    with pytest.raises(ValueError, match=r"trim is expected to be 0, got 0.1"):
        ATkClassifier(trim=0.1).fit(chunks, Y)
    with pytest.raises(ValueError, match=r"cv is expected to be a number of folds"):
        ATkClassifierCV(cv=[(np.arange(10), np.arange(10, 20))]).fit(chunks, Y)
    with pytest.raises(ValueError, match=r"between 2 and the number of samples"):
        ATkClassifierCV(cv=5000).fit(chunks, Y)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"chunk_size": 0}, "chunk_size is expected to be an int >= 1, or None, got 0"),
        ({"chunk_size": 1.5}, "got 1.5"),
        ({"executor": 4}, "executor is expected to be one of concurrent.futures, or None, got 4"),
        ({"checkpoint": 3}, "checkpoint is expected to be the path of a file, or None, got 3"),
    ],
)
def test_wrong_options_are_told_at_once(options, told):
    with pytest.raises(ValueError, match=told):
        ArrayChunks(X, **options)


def test_a_memory_mapped_array_as_it_is_is_an_array_in_memory(tmp_path):
    np.save(tmp_path / "X.npy", X)
    model = ATkClassifier(k=0.5).fit(np.load(tmp_path / "X.npy", mmap_mode="r"), Y)
    assert not hasattr(model, "n_passes_")


def replace(path):
    np.save(path.with_name("other.npy"), X[::-1])
    path.with_name("other.npy").replace(path)


def write_nan(path):
    array = np.load(path, mmap_mode="r+")
    array[2000, 3] = np.nan
    array.flush()


CHANGES = {
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "cut to nothing": lambda path: os.truncate(path, 0),
    "replaced": replace,
    "removed": os.unlink,
    "written to": write_nan,
}


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_file_that_changes_while_it_is_read_is_told(monkeypatch, tmp_path, what, order):
    """A file that is mapped, and shrinks, ends the process."""
    path = tmp_path / "X.npy"
    np.save(path, np.asarray(X, order=order))
    before_queries(monkeypatch, ExecutorEngine, [20], lambda: CHANGES[what](path))
    with pytest.raises(ValueError, match=r"Chunk \d of the data: The file '.*X.npy' is expected to stay as it is"):
        ATkClassifier(k=0.5).fit(ArrayChunks(np.load(path, mmap_mode="r"), chunk_size=1000), Y)


def test_blocks_of_a_file_that_was_cut_are_told(tmp_path):
    np.save(tmp_path / "X.npy", X)
    blocks = RowBlocks(np.load(tmp_path / "X.npy", mmap_mode="r"), F, chunk_size=1000)
    os.truncate(tmp_path / "X.npy", 60_000)
    with pytest.raises(ValueError, match="is expected to stay as it is while it is read"):
        SGDATkRegressor(k=1.0).fit_blocks(blocks)


@pytest.mark.parametrize("loss", ["log_loss", "hinge"])
@pytest.mark.parametrize("number", [2, 10, 25])
def test_nan_that_is_written_during_a_fit_is_told_with_its_chunk(monkeypatch, loss, number):
    rows = X.copy()
    before_queries(monkeypatch, ExecutorEngine, [number], lambda: rows.__setitem__((1500, 2), np.nan))
    with pytest.raises(ValueError, match=r"Chunk 1 of the data: X is expected to stay finite in a fit, got NaN"):
        ATkClassifier(loss, k=0.8).fit(ArrayChunks(rows, chunk_size=1000), Y)


@pytest.mark.parametrize("name", ["y", "sample_weight"])
def test_targets_and_weights_that_turn_into_nan_are_told(monkeypatch, name):
    y, weight = F.copy(), ONES.copy()
    spoil = {"y": y, "sample_weight": weight}[name]
    before_queries(monkeypatch, ExecutorEngine, [2], lambda: spoil.__setitem__(2500, np.nan))
    with pytest.raises(ValueError, match=rf"Chunk 2 of the data: {name} is expected to stay finite"):
        ATkRegressor(k=0.8).fit(ArrayChunks(X, chunk_size=1000), y, weight)


@pytest.mark.parametrize("cut", ["rows", "columns", "both", "Fortran", "every second", "one column", "reversed"])
@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_parts_of_mapped_arrays_are_read_from_their_files(tmp_path, cut, mode):
    np.save(tmp_path / "X.npy", np.asarray(X[:50], dtype=">f4", order="F" if cut == "Fortran" else "C"))
    mapped = np.load(tmp_path / "X.npy", mmap_mode=mode)
    if mode != "r":
        mapped[7, 1] = 3.0  # in memory alone for a copy on write
    parts = {
        "rows": mapped[10:40], "columns": mapped[:, 1:4], "both": mapped[5:, :2], "Fortran": mapped[:, 1:],
        "every second": mapped[::2, ::2], "one column": mapped[:, 2], "reversed": mapped[::-1],
    }  # fmt: skip
    part = parts[cut]
    for begin, end in ((0, 9), (3, 3), (8, 100)):
        found = read_rows(part, slice(begin, end))
        np.testing.assert_array_equal(found, np.array(part[begin:end]))
        assert found.dtype.newbyteorder("=") == part.dtype.newbyteorder("=")
    assert isinstance(FileRows.of(part), np.memmap) == (mode == "c" or cut == "reversed")
