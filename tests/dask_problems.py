"""Fits on Dask to be compared with fits in memory, and data that count what happens to them."""

from __future__ import annotations

import os
import signal
import threading
import time
import weakref

import dask.array as da
import numpy as np
from dask import delayed

from atklearn.chunked import engine as chunked_engine
from atklearn.chunked.chunk import RowView
from atklearn.chunked.chunk_store import ChunkedRows
from atklearn.chunked.chunks import summarize
from atklearn.chunked.engine import Coordinator
from atklearn.core.problem import Problem
from atklearn.core.solve import solve_linear
from atklearn.dask.dask_chunks import split_rows
from atklearn.dask.engine import dask_engine
from atklearn.losses.individual import LogLoss
from atklearn.stores.compiled import CompiledRows

N_ROWS, N_FEATURES = 3000, 4
TOL = 1e-10


def made_data(n=N_ROWS, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, N_FEATURES))
    y = np.where(X @ rng.standard_normal(N_FEATURES) + 0.3 + 2.0 * rng.standard_normal(n) > 0.0, 1.0, -1.0)
    return X, y, rng.choice([0.5, 1.0, 2.0], n)


def solve(rows, share):
    return solve_linear(Problem(rows, share * rows.total, rows.total, "free"), tol=TOL)


def solved_in_memory(X, y, weight=None, share=0.7):
    """Return the solution; the average of all losses, a share of 1, takes the fewest queries."""
    return solve(CompiledRows(X, y, np.ones(y.size) if weight is None else weight, LogLoss(), True), share).coef


def rows_of(engine, n_features=N_FEATURES):
    coordinator = Coordinator(engine)
    counted = summarize(coordinator, n_features, has_labels=False).counted()
    return ChunkedRows(coordinator, RowView(0, LogLoss(), True), counted)


def solved_by(engine, share=0.7):
    """Return the solution that an engine leads to, and the coordinator that asked for it."""
    rows = rows_of(engine)
    try:
        solution = solve(rows, share)
    finally:
        rows.coordinator.close()
    return solution.coef, rows.coordinator


class Tracked(np.ndarray):
    """An array that is counted as long as it lives."""


_alive = _peak = _loads = 0
_lock = threading.Lock()


def _gone():
    global _alive
    with _lock:
        _alive -= 1


def load(block, seconds=0.0):
    """Return an array, and count it."""
    global _alive, _peak, _loads
    time.sleep(seconds)
    array = np.array(block).view(Tracked)
    with _lock:
        _alive, _loads = _alive + 1, _loads + 1
        _peak = max(_peak, _alive)
    weakref.finalize(array, _gone)
    return array


def loaded():
    """Return how many arrays there were at a time, at most, and in all, since it was asked last."""
    global _peak, _loads
    with _lock:
        told = _peak, _loads
        _peak, _loads = _alive, 0
    return told


def remembers(fit):
    """Say whether this process remembers a fit."""
    return fit in chunked_engine._memories


def die(_):
    os._exit(1)


def spoil(_):
    raise ZeroDivisionError("bad data")


def lazy_array(X, size, function=load, **options):
    """Return an array whose blocks are made by a function, every time that they are needed."""
    parts = [X[i : i + size] for i in range(0, len(X), size)]
    blocks = [da.from_delayed(delayed(function)(part, **options), shape=part.shape, dtype=part.dtype) for part in parts]
    return da.concatenate(blocks)


def engine_on(X, y, weight=None, **options):
    return dask_engine(split_rows(X, y, weight), **options)


def oldest(client):
    """Return address and process of a worker; nannies give up those that die in the moment they are born."""
    return min(client.run(os.getpid).items(), key=lambda each: each[1])


def kill_one(client):
    """Kill a worker, as a system does that runs out of memory."""
    os.kill(oldest(client)[1], signal.SIGKILL)
