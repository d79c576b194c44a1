"""What tests on Dask share: one cluster, and chunks that do not fit into memory."""

from __future__ import annotations

import pytest
from dask_problems import made_data, solved_in_memory
from distributed import Client, LocalCluster

from atklearn.chunked import chunked_rows, survey


@pytest.fixture(scope="session")
def cluster():
    with LocalCluster(
        n_workers=2, threads_per_worker=2, memory_limit="1GiB", dashboard_address=":0", silence_logs="CRITICAL"
    ) as cluster:  # fmt: skip
        yield cluster


@pytest.fixture(scope="session")
def session_client(cluster):
    with Client(cluster, set_as_default=False) as client:
        yield client


@pytest.fixture
def client(session_client):
    """A client whose workers are all there."""
    session_client.wait_for_workers(2, timeout=60)
    return session_client


@pytest.fixture(autouse=True)
def little_room(monkeypatch):
    """Let few rows be too many to fetch: all of them have to be asked where they are."""
    for module in (survey, chunked_rows):
        monkeypatch.setattr(module, "ROOM", 1 << 14)


@pytest.fixture(scope="session")
def data():
    return made_data()


@pytest.fixture(scope="session")
def expected(data):
    return solved_in_memory(*data[:2])
