"""The estimators on Dask collections: the fits in memory; predictions that wait; fits that survive."""

from __future__ import annotations

import pickle
import warnings

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from chunk_cases import CUTS, N_PROBLEMS, assert_same_fit, before_queries, cuts, draw, draw_case
from dask import delayed
from distributed import Client, LocalCluster
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from atklearn import ATkClassifier, ATkClassifierCV, ATkRegressor, CollapseWarning
from atklearn.dask import ClusterLostError, DaskChunks
from atklearn.dask.cluster import Cluster
from atklearn.dask.engine import ClusterEngine

CLASSES = {True: ATkClassifier, False: ATkRegressor}


def cut_array(X, ends):
    """Return a Dask array with blocks that end at given rows; of a sparse matrix, sparse blocks."""
    parts = [X[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
    meta = sp.csr_array((0, 0)) if sp.issparse(X) else np.empty((0,) * X.ndim, X.dtype)
    blocks = [da.from_delayed(delayed(part), part.shape, meta=meta) for part in parts]
    return da.concatenate(blocks)


def as_tables(X, y, weight, ends):
    """Return a dataframe, whose partitions tell no size, and two of its columns."""
    names = [f"x{j}" for j in range(X.shape[1])]
    frame = pd.DataFrame(X.toarray() if sp.issparse(X) else X, columns=names)
    frame["y"], frame["weight"] = y, 1.0 if weight is None else weight
    parts = [frame.iloc[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
    table = dd.from_delayed([delayed(part) for part in parts], meta=frame.iloc[:0])
    return table[names], table["y"], None if weight is None else table["weight"]


def quietly(fit):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # both go as far as floats allow
        warnings.simplefilter("ignore", CollapseWarning)
        return fit()


@pytest.mark.parametrize("seed", range(N_PROBLEMS))
def test_coefficients_are_those_in_memory_however_rows_are_cut(seed):
    how = (*CUTS, "a table")[seed % 5]
    case, ends = cuts(draw_case(seed), "single rows" if how == "a table" else how)
    if how == "a table":
        X, y, weight = as_tables(case.X, case.y, case.weight, ends)
    else:
        X, y, weight = (None if each is None else cut_array(each, ends) for each in (case.X, case.y, case.weight))
    with dask.config.set(scheduler="threads" if seed < 5 else "synchronous"):  # each way of cutting once on threads
        model = quietly(lambda: CLASSES[case.is_classification](**case.options).fit(X, y, weight))
    assert_same_fit(model, quietly(case.in_memory))
    if how == "a table":
        assert model.feature_names_in_.tolist() == list(X.columns)


def test_predictions_are_lazy_and_those_in_memory():
    X, f = draw(2000)
    y = np.where(f > 1.0, "high", np.where(f > -1.0, "middle", "low"))
    ends = [0, 300, 300, 1500, 2000]
    array, (table, labels, _) = cut_array(X, ends), as_tables(X, y, None, ends)
    for collection, targets in ((array, y), (table, labels)):
        model, known = ATkClassifier(k=0.9).fit(collection, targets), collection.compute()
        for method in ("predict", "decision_function", "predict_proba", "predict_log_proba"):
            found, expected = getattr(model, method)(collection), getattr(model, method)(known)
            assert isinstance(found, da.Array)
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found.compute(), expected)
        assert model.score(known, y) == model.score(collection, targets) > 0.5
    regressor = ATkRegressor(k=0.9).fit(array, f)
    np.testing.assert_allclose(regressor.score(array, f), regressor.score(X, f), rtol=1e-12)


@pytest.mark.parametrize("columns", [["x0", "x1"], [f"x{j}" for j in range(8)]])
@pytest.mark.parametrize("as_array", [False, True])
def test_small_files_of_parquet_are_cut_alike(tmp_path, columns, as_array):
    """Dask reads several of them as one partition, how many depends on the columns: other ones for X than for y."""
    X, f = draw(800, 12)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(12)]).assign(y=f, weight=np.arange(800) % 3)
    for part in range(8):
        frame.iloc[100 * part : 100 * (part + 1)].to_parquet(tmp_path / f"part-{part}.parquet")
    table = dd.read_parquet(tmp_path)
    X, y, weight = table[columns], table["y"], table["weight"]
    assert len({len(each.to_delayed()) for each in (X, y, weight)}) > 1
    if as_array:
        X = da.from_array(frame[columns].to_numpy(), chunks=(100, -1))
    model = ATkRegressor("absolute_error", k=0.3, tol=1e-9).fit(X, y, weight)
    expected = ATkRegressor("absolute_error", k=0.3, tol=1e-9).fit(frame[columns], frame["y"], frame["weight"])
    assert_same_fit(model, expected)
    if not as_array:
        np.testing.assert_allclose(model.predict(X).compute(), expected.predict(frame[columns]), rtol=1e-6)
        assert model.score(X, y) == pytest.approx(expected.score(frame[columns], frame["y"]))


def test_columns_of_text_are_named():
    frame = pd.DataFrame({"size": [1.0, 2.0, 3.0, 4.0], "city": ["Rome", "Oslo", "Rome", "Bonn"]})
    table = dd.from_pandas(frame, npartitions=2)
    y = dd.from_pandas(pd.Series([1.0, 2.0, 3.0, 5.0]), npartitions=2)
    with pytest.raises(ValueError, match="columns of numbers, got text in 'city'"):
        ATkRegressor(k=1.0).fit(table, y)
    for kind in (object, "category"):
        others = table.map_partitions(
            lambda part, kind: part.astype({"city": kind}), kind, meta=frame.iloc[:0].astype({"city": kind})
        )
        with pytest.raises(ValueError, match=r"Chunk \d of the data: Column 'city' of X is expected to hold numbers"):
            ATkRegressor(k=1.0).fit(others, y)


def test_weights_of_samples_are_lazy_and_those_in_memory():
    X, f = draw(500)
    weight = np.random.default_rng(1).integers(0, 3, f.size).astype(float)
    ends = [0, 200, 200, 500]
    model = ATkRegressor(k=0.3, tol=1e-12).fit(cut_array(X, ends), f, weight)
    expected = ATkRegressor(k=0.3, tol=1e-12).fit(X, f, weight).top_weights_
    assert isinstance(model.top_weights_, da.Array)
    np.testing.assert_allclose(model.top_weights_.compute(), expected, atol=1e-6)


def test_what_was_fitted_on_a_cluster_clones_and_travels(client):
    X, f = draw(300)
    model = clone(ATkRegressor(k=0.5)).fit(DaskChunks(cut_array(X, [100, 300]), client=client), f)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(X), model.predict(X))
    light = model.to_predict()
    assert not hasattr(light, "top_weights_")
    np.testing.assert_array_equal(light.predict(X), model.predict(X))


def test_k_and_C_are_chosen_on_a_cluster(client):
    X, f = draw(200)
    grid = {"ks": [0.5, 1.0], "Cs": [10.0], "cv": 2, "scoring": "balanced_error"}
    model = ATkClassifierCV(**grid).fit(DaskChunks(cut_array(X, [80, 200]), client=client), f > 0.0)
    here = ATkClassifierCV(**grid).fit(cut_array(X, [120, 200]), f > 0.0)
    np.testing.assert_allclose(model.cv_results_["mean_test_score"], here.cv_results_["mean_test_score"], atol=5e-3)
    assert_same_fit(model.best_estimator_, here.best_estimator_, rtol=1e-2)
    assert isinstance(model.predict_proba(cut_array(X, [80, 200])), da.Array)


@pytest.mark.parametrize(
    ("options", "told"), [({"persist": "yes"}, "persist is expected"), ({"checkpoint": 1}, "a file")]
)
def test_wrong_options_are_told_at_once(options, told):
    with pytest.raises(ValueError, match=told):
        DaskChunks(da.ones((3, 2)), **options)


def test_a_lost_cluster_is_told_and_the_fit_resumed(monkeypatch, tmp_path):
    X, f = draw(4000)
    path = tmp_path / "fit.checkpoint"
    options = {"k": 0.6, "tol": 1e-10}
    blocks, y = da.from_array(X, chunks=(500, 5)), da.from_array(f > 0.0, chunks=500)
    whole = ATkClassifier(**options).fit(DaskChunks(blocks, checkpoint=path), y)
    assert not path.exists()
    monkeypatch.setattr(Cluster, "PATIENCE", 2.0)
    with monkeypatch.context() as patched:
        cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs="CRITICAL")
        with cluster, Client(cluster, set_as_default=False) as client:
            before_queries(patched, ClusterEngine, [45], lambda: cluster.scale(0))
            with pytest.raises(ClusterLostError, match=r"no workers") as lost:
                ATkClassifier(**options).fit(DaskChunks(blocks, client=client, persist=True, checkpoint=path), y)
    assert "goes on from there" in lost.value.__notes__[0]
    resumed = ATkClassifier(**options).fit(DaskChunks(blocks, checkpoint=path), y)
    assert resumed.n_iter_ < whole.n_iter_
    assert_same_fit(resumed, whole)
    assert not path.exists()
