"""Fits outlive workers that die, end soon if no cluster is left, and leave nothing behind if they are stopped."""

from __future__ import annotations

import signal
import threading
import time
from types import SimpleNamespace

import dask.array as da
import numpy as np
import pytest
from chunk_cases import before_queries
from dask_problems import (
    N_ROWS,
    die,
    engine_on,
    kill_one,
    lazy_array,
    loaded,
    made_data,
    oldest,
    remembers,
    rows_of,
    solved_by,
)
from distributed import Client, LocalCluster
from distributed.core import Status

from atklearn import ATkClassifierCV
from atklearn.dask import DaskChunks
from atklearn.dask.cluster import Cluster, ClusterLostError
from atklearn.dask.engine import ClusterEngine

pytestmark = pytest.mark.usefixtures("little_room")
SOON = 20.0  # seconds, on a busy machine


def tasks_of(client):
    """Return our tasks that the scheduler knows of."""
    keys = client.run_on_scheduler(lambda dask_scheduler: [str(key) for key in dask_scheduler.tasks])
    return [key for key in keys if key.startswith("atk-")]


def is_soon(condition):
    end = time.monotonic() + SOON
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("persist", [True, False])
def test_a_fit_outlives_its_workers(doomed_client, data, expected, persist, monkeypatch):
    X, y, _ = data
    engine = engine_on(lazy_array(X, 250), y, client=doomed_client, persist=persist)
    asked = before_queries(monkeypatch, ClusterEngine, (1, 30, 80), lambda: kill_one(doomed_client))
    found, _ = solved_by(engine)
    assert len(asked) > 80
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-6)


def test_a_worker_may_die_at_work(doomed_client, data):
    X, y, _ = data
    rows = rows_of(engine_on(lazy_array(X, 250, seconds=0.5), y, client=doomed_client, persist=False))
    expected = rows.point(np.ones(5), 0.5 * N_ROWS).gradient()
    killed = []

    def kill(*_):
        kill_one(doomed_client)
        killed.append(1)

    signal.signal(signal.SIGALRM, kill)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    found = rows.point(np.ones(5), 0.5 * N_ROWS).gradient()
    assert killed
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_data_that_kill_every_worker_end_the_fit(doomed_client, monkeypatch):
    monkeypatch.setattr("atklearn.dask.engine._MOST_DEATHS", 1)
    X, y, _ = made_data(20)
    engine = engine_on(lazy_array(X, 10, function=die), y, client=doomed_client, persist=False)
    with pytest.raises(ClusterLostError, match="Workers died one after the other at the same chunk"):
        solved_by(engine)


def test_data_that_nobody_can_make_again_end_the_fit(doomed_client, data, monkeypatch):
    X, y, _ = data
    future = doomed_client.scatter(X, workers=[oldest(doomed_client)[0]])
    blocks = da.from_delayed(future, shape=X.shape, dtype=X.dtype)
    engine = engine_on(blocks, y, client=doomed_client, persist=True)
    before_queries(monkeypatch, ClusterEngine, [5], lambda: kill_one(doomed_client))
    with pytest.raises(ClusterLostError, match="The cluster has lost data or tasks of this fit"):
        solved_by(engine)


def test_a_fit_that_is_stopped_leaves_no_tasks(client, data):
    X, y, _ = data
    engine = engine_on(lazy_array(X, 75, seconds=0.5), y, client=client, persist=False)
    client.run(loaded)

    def interrupt(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.7)
    with pytest.raises(KeyboardInterrupt):
        rows_of(engine)
    assert is_soon(lambda: tasks_of(client) == [])
    assert sum(loads for _, loads in client.run(loaded).values()) < 20  # of 40


def test_workers_forget_a_fit_that_has_ended(client, data):
    X, y, _ = data
    rows = rows_of(engine_on(lazy_array(X, 250), y, client=client))
    rows.point(np.ones(5), 0.5 * N_ROWS).gradient()
    assert any(client.run(remembers, rows.coordinator.fit).values())
    rows.coordinator.close()
    assert not any(client.run(remembers, rows.coordinator.fit).values())


@pytest.fixture
def small_cluster(monkeypatch):
    monkeypatch.setattr(Cluster, "PATIENCE", 1.0)
    options = {"processes": False, "n_workers": 1, "threads_per_worker": 1, "memory_limit": 0}
    with LocalCluster(dashboard_address=":0", silence_logs="CRITICAL", **options) as cluster:
        yield cluster


@pytest.mark.parametrize("persist", [True, False])
def test_without_workers_a_fit_ends(small_cluster, data, persist, monkeypatch):
    X, y, _ = data
    with Client(small_cluster, set_as_default=False) as client:
        engine = engine_on(lazy_array(X, 1000), y, client=client, persist=persist)
        before_queries(monkeypatch, ClusterEngine, [5], lambda: small_cluster.scale(0))
        begin = time.monotonic()
        with pytest.raises(ClusterLostError, match="no workers for 1 seconds: start some, and fit again"):
            solved_by(engine)
        assert time.monotonic() - begin < SOON


def test_without_scheduler_a_fit_ends(small_cluster, data, monkeypatch):
    X, y, _ = data
    with Client(small_cluster, set_as_default=False) as client:
        engine = engine_on(lazy_array(X, 1000), y, client=client, persist=False)
        before_queries(monkeypatch, ClusterEngine, [5], small_cluster.close)
        begin = time.monotonic()
        with pytest.raises(ClusterLostError, match="fit again"):
            solved_by(engine)
        assert time.monotonic() - begin < SOON


def test_a_scheduler_that_closes_during_a_search_is_told(small_cluster, tmp_path, monkeypatch):
    """Also while queries are taken back, which a client that is closed refuses to do."""
    X, y, _ = made_data(600)
    closing = threading.Timer(0.1, small_cluster.close)
    before_queries(monkeypatch, ClusterEngine, [40], closing.start)
    with Client(small_cluster, set_as_default=False) as client:
        blocks = lazy_array(X, 200, seconds=0.02)
        chunks = DaskChunks(blocks, client=client, persist=False, checkpoint=tmp_path / "search")
        with pytest.raises(ClusterLostError, match="fit again"):
            ATkClassifierCV(ks=[0.5, 1.0], Cs=[1.0, 10.0], cv=3).fit(chunks, da.from_array(y > 0.0, chunks=200))


@pytest.mark.parametrize("moment", ["persisting", "fitting"])
def test_workers_without_memory_for_what_is_kept_end_the_fit(small_cluster, data, monkeypatch, moment):
    """Dask pauses workers whose memory is full, and they stay paused where nothing can be given back."""
    monkeypatch.setattr(Cluster, "STALL", 1.0)
    X, y, _ = data

    def pause(dask_worker):
        dask_worker.status = Status.paused

    with Client(small_cluster, set_as_default=False) as client:
        if moment == "persisting":
            client.run(pause)
        before_queries(monkeypatch, ClusterEngine, [5], lambda: client.run(pause))
        begin = time.monotonic()
        with pytest.raises(ClusterLostError, match=r"1 of 1 workers have no memory left .*persist=False"):
            solved_by(engine_on(lazy_array(X, 1000), y, client=client, persist=True))
        assert time.monotonic() - begin < SOON


def test_a_client_must_not_be_asynchronous(data):
    X, y, _ = data
    with pytest.raises(ValueError, match="The client is expected not to be asynchronous, got one that is"):
        engine_on(lazy_array(X, 1000), y, client=SimpleNamespace(asynchronous=True))
