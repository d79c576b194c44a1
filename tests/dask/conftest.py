"""What tests on Dask share: one cluster, and chunks that do not fit into memory."""

from __future__ import annotations

import dask
import pytest
from dask_problems import made_data, solved_in_memory
from distributed import Client, LocalCluster
from distributed.utils import get_mp_context

from atklearn.chunked import chunk_store


def workers(number):
    options = {"n_workers": number, "threads_per_worker": 2, "memory_limit": "1GiB", "silence_logs": "CRITICAL"}
    return LocalCluster(dashboard_address=":0", **options)


@pytest.fixture(scope="session")
def cluster():
    # Workers that are born with all modules imported are there at once, again and again.
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context().set_forkserver_preload(["atklearn.dask.engine", "dask_problems"])
        with workers(2) as cluster:
            yield cluster


@pytest.fixture
def doomed_client(cluster):  # noqa: ARG001
    """A client of a cluster that nobody needs afterwards.

    A worker that was killed comes back as a rule, but on a busy machine not always: there are more than a test kills.
    """
    with workers(4) as doomed, Client(doomed, set_as_default=False) as client:
        yield client


@pytest.fixture(scope="session")
def client(cluster):
    """A client of the cluster that the tests share: none of them kills its workers."""
    with Client(cluster, set_as_default=False) as client:
        yield client


@pytest.fixture
def little_room(monkeypatch):
    """Let few rows be too many to fetch: all of them have to be asked where they are."""
    monkeypatch.setattr(chunk_store, "FETCHED_BYTES", 1 << 14)


@pytest.fixture(scope="session")
def data():
    return made_data()


@pytest.fixture(scope="session")
def expected(data):
    return solved_in_memory(*data[:2])
