"""What holds for all tests."""

from __future__ import annotations

import signal
from importlib.util import find_spec

import pytest
from dask_clusters import CALM, started_cluster

from atklearn.study import settings

# Started in the background, a shell's child ignores Ctrl-C for good, and so would everything tests send it to.
signal.signal(signal.SIGINT, signal.default_int_handler)

if find_spec("distributed") is not None:  # tests without it are collected all the same
    import dask

    dask.config.set(CALM)  # for the clusters that tests start in this process


@pytest.fixture
def three_folds(monkeypatch):
    """Quick comparisons with three folds instead of ten, where it matters only that they are run."""
    monkeypatch.setitem(settings._QUICK, "n_folds", 3)


@pytest.fixture(scope="session")
def scheduler():
    """The address of a Dask cluster with two workers, of two threads each."""
    with started_cluster(n_workers=2, threads_per_worker=2) as (address, _):
        yield address


@pytest.fixture
def client(scheduler):
    """A client of that cluster."""
    from distributed import Client

    with Client(scheduler, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60)
        yield client
