"""A fit on Dask finds what a fit in memory finds, wherever and however the data are."""

from __future__ import annotations

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from dask import delayed
from dask_problems import (
    N_FEATURES,
    N_ROWS,
    engine_on,
    lazy_array,
    loaded,
    made_data,
    rows_of,
    solved_by,
    solved_in_memory,
    spoil,
)  # fmt: skip
from distributed.utils import key_split

from atklearn.chunked import queries
from atklearn.dask.dask_chunks import split_rows
from atklearn.dask.engine import Readers, allot

pytestmark = pytest.mark.usefixtures("little_room")
QUERIES = [each.name for each in vars(queries).values() if hasattr(each, "name")]
NEAR = {"rtol": 0.0, "atol": 1e-6}


@pytest.fixture(params=["here", "held", "lazy"])
def where(request):
    """How an engine is told where to work: in this process, in the memory of a cluster, lazily on a cluster."""
    if request.param == "here":
        return {}
    return {"client": request.getfixturevalue("client"), "persist": request.param == "held"}


def array(X, size):
    return da.from_array(X, chunks=(size, -1))


def as_frame(X, y):
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abcd")).assign(y=y), chunksize=700, sort=False)
    return frame[list("abcd")], frame["y"]


def as_sparse(X, y):
    parts = [X[i : i + 700] for i in range(0, len(X), 700)]
    blocks = [da.from_delayed(delayed(sp.csr_matrix)(part), part.shape, meta=sp.csr_matrix((0, 0))) for part in parts]
    return da.concatenate(blocks), y


def depending_on_all(X, y):
    X = array(X, 700)
    return (X - X.mean(axis=0)) + X.mean(axis=0), y


FORMS = {"frame": as_frame, "sparse": as_sparse, "depending on all": depending_on_all}


def test_the_optimum_is_that_in_memory(where, data):
    X, y, weight = data
    engine = engine_on(array(X, 400), array(y[:, None], 700), weight, **where)
    found, coordinator = solved_by(engine)
    np.testing.assert_allclose(found, solved_in_memory(X, y, weight), **NEAR)
    assert engine.is_lazy == (where.get("persist") is not True)
    assert (engine.bytes_sent > 0) == (engine.bytes_received > 0) == ("client" in where)
    assert coordinator.rounds > 50


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_blocks_may_have_any_form(where, form, data):
    X, y, _ = data
    found, _ = solved_by(engine_on(*form(X, y), **where), share=1.0)
    np.testing.assert_allclose(found, solved_in_memory(X, y, share=1.0), **NEAR)


def test_chunks_may_be_empty(where, data):
    X, y, _ = data
    part = np.arange(N_ROWS) // 500
    frame = pd.DataFrame(X, columns=list("abcd")).assign(y=y, part=part)
    frame = dd.from_pandas(frame, chunksize=500, sort=False)
    frame = frame[~frame["part"].isin([0, 3])]
    kept = ~np.isin(part, [0, 3])
    found, _ = solved_by(engine_on(frame[list("abcd")], frame["y"], **where), share=1.0)
    np.testing.assert_allclose(found, solved_in_memory(X[kept], y[kept], share=1.0), **NEAR)


def test_chunks_may_be_single_rows(where):
    X, y, _ = made_data(50)
    found, _ = solved_by(engine_on(array(X, 1), y, **where), share=1.0)
    np.testing.assert_allclose(found, solved_in_memory(X, y, share=1.0), **NEAR)


def held_array(client, X):
    return client.persist(lazy_array(X, 500))


def held_frame(client, X):
    return client.persist(dd.from_pandas(pd.DataFrame(X), npartitions=6, sort=False))


@pytest.mark.parametrize("hold", [held_array, held_frame])
def test_data_that_lie_in_memory_are_used_as_they_are(client, data, hold):
    X, y, _ = data
    expected = solved_in_memory(X, y, share=1.0)
    held, y = hold(client, X), da.from_array(y, chunks=500)
    found, coordinator = solved_by(engine_on(held, y, client=client, persist=False), share=1.0)
    np.testing.assert_allclose(found, expected, **NEAR)
    assert not coordinator.engine.is_lazy
    found, coordinator = solved_by(engine_on(held + 1.0 - 1.0, y, client=client, persist=False), share=1.0)
    np.testing.assert_allclose(found, expected, **NEAR)
    assert coordinator.engine.is_lazy


@pytest.mark.parametrize(("size", "is_lazy"), [(0.4, False), (0.6, True)])
@pytest.mark.parametrize("is_known", [True, False])
def test_data_are_kept_in_memory_if_they_take_half_of_it_at_most(client, monkeypatch, size, is_lazy, is_known):
    X = lazy_array(np.ones((40, N_FEATURES)), 10)
    if not is_known:
        X = X[X[:, 0] > 0.0]
    monkeypatch.setattr("atklearn.dask.cluster.Cluster.memory", lambda _: X.itemsize * 40 * N_FEATURES / size)
    y = lazy_array(np.ones(40), 10)
    monkeypatch.setattr("atklearn.dask.engine.sizeof", lambda block: block.nbytes)
    assert engine_on(X, y if is_known else y[y > 0.0], client=client).is_lazy == is_lazy


def test_the_memory_of_all_workers_is_known(client):
    engine = engine_on(array(np.ones((4, 1)), 2), np.ones(4), client=client)
    assert engine.cluster.memory() == 2 * 2**30


@pytest.mark.parametrize("n_threads", [1, 2])
def test_no_more_chunks_are_in_memory_than_threads_work(n_threads, data):
    X, y, _ = data
    loaded()
    with dask.config.set(num_workers=n_threads):
        found, coordinator = solved_by(engine_on(lazy_array(X, 100), y), share=1.0)
    peak, loads = loaded()
    np.testing.assert_allclose(found, solved_in_memory(X, y, share=1.0), **NEAR)
    assert peak <= n_threads
    assert loads == 30 * coordinator.reads
    assert coordinator.reads < coordinator.rounds


def test_no_more_chunks_are_in_memory_of_a_worker_than_its_threads(client, data):
    X, y, _ = data
    client.run(loaded)
    found, coordinator = solved_by(engine_on(lazy_array(X, 100), y, client=client, persist=False), share=1.0)
    told = client.run(loaded).values()
    np.testing.assert_allclose(found, solved_in_memory(X, y, share=1.0), **NEAR)
    assert max(peak for peak, _ in told) <= 2
    assert sum(loads for _, loads in told) == 30 * coordinator.reads


def test_queries_take_as_much_of_the_network_whatever_the_number_of_rows(client):
    sent = []
    for n in (4000, 40_000):
        X, y, _ = made_data(n)
        engine = engine_on(array(X, n // 40), y, client=client)  # so many that every worker has some
        point = rows_of(engine).point(np.zeros(N_FEATURES + 1), 0.5 * n)
        before = engine.bytes_sent, engine.bytes_received
        point.gradient()
        sent.append((engine.bytes_sent - before[0], engine.bytes_received - before[1]))
    np.testing.assert_allclose(sent[0], sent[1], rtol=0.05)


def test_what_one_chunk_needs_is_read_by_it_and_what_all_need_is_not():
    X = lazy_array(np.ones((40, N_FEATURES)), 10)
    alone = Readers(split_rows(X * 2.0, np.ones(40)))
    assert alone.common == {}
    assert all(reader.borrowed == [] for reader in alone.readers)
    centred = Readers(split_rows(X - X.mean(axis=0), np.ones(40)))
    assert {key_split(key) for reader in centred.readers for key in reader.borrowed} > {"mean_agg-aggregate"}
    assert not any("mean" in str(key) for reader in centred.readers for key in reader.graph)


def test_homes_are_kept_and_even():
    workers = {"a": 2, "b": 1}
    homes = allot([None] * 9, workers)
    assert (homes.count("a"), homes.count("b")) == (6, 3)
    assert allot(homes, workers) == homes
    more = allot(homes, {"a": 2, "b": 1, "c": 3})
    assert more.count("c") in (4, 5)
    assert all(now in (before, "c") for now, before in zip(more, homes, strict=True))
    assert set(allot(homes, {"b": 1})) == {"b"}
    assert allot(homes, {}) == [None] * 9


def test_tasks_say_what_they_do(client, data):
    X, y, _ = data
    solved_by(engine_on(array(X, 500), y, client=client, persist=False), share=1.0)
    names = client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.task_prefixes))
    ours = {name for name in names if name.startswith("atk-")}
    assert {"atk-summary", "atk-gradient", "atk-threshold", "atk-certificate"} <= ours
    assert ours <= {f"atk-{name}" for name in QUERIES} | {"atk-targets", "atk-size"}


def test_errors_of_the_data_come_as_they_are(where, data):
    X, y, _ = data
    with pytest.raises(ZeroDivisionError, match="bad data"):
        solved_by(engine_on(lazy_array(X, 500, function=spoil), y, **where))
    X = X.copy()
    X[1700, 2] = np.nan
    with pytest.raises(ValueError, match=r"Chunk 3 of the data: .*NaN"):
        solved_by(engine_on(array(X, 500), y, **where))
