"""X, y and sample weights as chunks that are cut at the same rows."""

from __future__ import annotations

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from dask import delayed

from atklearn.dask.dask_chunks import split_rows

X = np.arange(30.0).reshape(10, 3)
Y = np.arange(10)
FRAME = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=Y)


def unknown(array):
    """Return a Dask array whose chunk sizes are not known."""
    return array[da.from_array(np.ones(array.shape[0], dtype=bool), chunks=(array.chunks[0],))]


def computed(column):
    return [np.asarray(each.compute()).reshape(-1).tolist() for each in column]


@pytest.mark.parametrize(
    "y",
    [
        da.from_array(Y, chunks=3),
        da.from_array(Y[:, None], chunks=(10, 1)),
        da.from_array(Y, chunks=4),
        Y,
        Y.tolist(),
        pd.Series(Y, index=Y + 7),
    ],
    ids=["cut otherwise", "one column", "cut alike", "numpy", "list", "pandas"],
)
def test_targets_are_cut_where_features_are(y):
    blocks = split_rows(da.from_array(X, chunks=(4, 2)), y, y)
    assert [each.compute().tolist() for each in blocks.X] == [X[:4].tolist(), X[4:8].tolist(), X[8:].tolist()]
    assert computed(blocks.y) == computed(blocks.weight) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert (len(blocks), blocks.n_features, blocks.feature_names, blocks.nbytes) == (3, 3, None, X.nbytes)


@pytest.mark.parametrize("choose", [lambda f: f["y"], lambda f: f[["y"]], lambda f: f["y"].to_dask_array()])
def test_a_dataframe_keeps_its_partitions(choose):
    frame = dd.from_pandas(FRAME, npartitions=3, sort=False)
    blocks = split_rows(frame[["a", "b", "c"]], choose(frame))
    assert [label for part in computed(blocks.y) for label in part] == Y.tolist()
    assert [len(each.compute()) for each in blocks.X] == [len(each) for each in computed(blocks.y)]
    assert (blocks.n_features, blocks.feature_names, blocks.weight, blocks.nbytes) == (3, ["a", "b", "c"], None, None)


def test_chunks_of_unknown_sizes_belong_together_one_by_one():
    blocks = split_rows(unknown(da.from_array(X, chunks=(4, 2))), unknown(da.from_array(Y, chunks=4)))
    assert computed(blocks.y) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert blocks.X[2].compute().tolist() == X[8:].tolist()
    assert blocks.nbytes is None


def test_sparse_blocks_stay_sparse_and_tell_no_size():
    make = delayed(sp.csr_array)
    halves = [da.from_delayed(make(X[:, j]), (10, 1 + (j == slice(0, 2))), meta=sp.csr_array((0, 0)))
              for j in (slice(0, 2), slice(2, 3))]  # fmt: skip
    blocks = split_rows(da.concatenate(halves, axis=1), Y)
    whole = blocks.X[0].compute()
    assert sp.issparse(whole)
    assert whole.toarray().tolist() == X.tolist()
    assert blocks.nbytes is None


@pytest.mark.parametrize(
    ("X", "y", "told"),
    [
        (X, Y, "X is expected to be a Dask array or dataframe, got numpy.ndarray; pass data in memory"),
        (FRAME, Y, "got pandas.DataFrame"),
        (da.ones(10), Y, r"two dimensions and a known number of columns, got shape \(10,\)"),
        (da.from_array(X), Y[:9], "y is expected to have an entry for every row of X, got 9 for 10 rows"),
        (da.from_array(X), da.from_array(X), "y is expected to be one column, got 3"),
        (dd.from_pandas(FRAME, npartitions=2), dd.from_pandas(FRAME, npartitions=2)[["a", "y"]], "one column, got 2"),
        (dd.from_pandas(FRAME, npartitions=2), Y, "got numpy.ndarray; take it from the same dataframe"),
        (dd.from_pandas(FRAME, npartitions=2), da.from_array(Y, chunks=4), "as many chunks as X .* got 3 for 2"),
        (unknown(da.from_array(X, chunks=(4, 3))), dd.from_pandas(FRAME["y"], npartitions=2), "got 2 for 3"),
    ],
)
def test_what_cannot_be_cut_is_told(X, y, told):
    with pytest.raises(ValueError, match=told):
        split_rows(X, y)
