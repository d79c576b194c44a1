"""What is wrong with data in chunks, or goes wrong while they are read, is said in a sentence."""

from __future__ import annotations

import numpy as np
import pytest

from atklearn import ATkClassifier, ATkClassifierCV, ATkRegressor
from atklearn.ondisk import ArrayChunks


def draw(n=3000, d=5):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    return X, X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n) ** 3


def spoiled(array, place, value):
    out = array.copy()
    out[place] = value
    return out


X, F = draw()
Y = F > 0.0
ONES = np.ones(F.size)
BAD = {
    "NaN": (spoiled(X, (2500, 1), np.nan), Y, None, r"Chunk 2 of the data: Input X contains NaN"),
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
    cls = ATkRegressor if what == "infinite target" else ATkClassifier
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
