"""Fits in chunks: what they read, send and keep in memory, on files larger than memory and on a Dask cluster.

Usage: ./run bench on_disk                              all of it
       ./run bench on_disk disk [GIGABYTES]             passes, bytes and memory of a fit on files, 8 GB unless told
       ./run bench on_disk cluster [ROWS] [COUNT ...]   over the fit in memory; bytes per step; speed-up
Beside dask-ml: ./run bench suite clusters

Memory is that of the process without pages of files. Times are of one run each, the second of two where a first one
compiles. The cluster is a LocalCluster of processes with one thread each.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from claims.clusters import D, generated, labelled, made_here, workers
from distributed import Client, get_client
from threadpoolctl import threadpool_limits

import atklearn
from atklearn.chunked.engine import Coordinator
from atklearn.ondisk import ArrayChunks

D_DISK = 100
CHUNK_ROWS = 80_000


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result


# On disk


def write_files(folder: Path, gigabytes: float) -> None:
    n = int(gigabytes * 1e9 / (8 * D_DISK))
    X = np.lib.format.open_memmap(folder / "X.npy", mode="w+", dtype=np.float64, shape=(n, D_DISK))
    y = np.lib.format.open_memmap(folder / "y.npy", mode="w+", dtype=np.float64, shape=(n,))
    rng = np.random.default_rng(0)
    for begin in range(0, n, CHUNK_ROWS):
        block = rng.standard_normal((min(CHUNK_ROWS, n - begin), D_DISK))
        X[begin : begin + len(block)], y[begin : begin + len(block)] = block, labelled(rng, block)


def read(path: str, begin: int, end: int) -> np.ndarray:
    return np.array(np.load(path, mmap_mode="r")[begin:end])


def lazy(path: Path) -> da.Array:
    """Return a file as a Dask array whose blocks are read when they are needed."""
    array = np.load(path, mmap_mode="r")
    blocks = []
    for begin in range(0, len(array), CHUNK_ROWS):
        end = min(begin + CHUNK_ROWS, len(array))
        block = dask.delayed(read)(str(path), begin, end)
        blocks.append(da.from_delayed(block, (end - begin, *array.shape[1:]), array.dtype))
    return da.concatenate(blocks)


def own_memory() -> float:
    """Return the gigabytes of this process, pages of files aside."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024 / 1e9
    return float("nan")


def fit_on_disk(engine: str, k: float, folder: Path) -> None:
    """Fit in a process of its own, and say what it took."""
    peak = own_memory()

    def watch() -> None:
        nonlocal peak
        while True:
            peak = max(peak, own_memory())
            time.sleep(0.02)

    threading.Thread(target=watch, daemon=True).start()
    X: Any = np.load(folder / "X.npy", mmap_mode="r")
    y: Any = np.load(folder / "y.npy", mmap_mode="r")
    nbytes = X.nbytes
    X = ArrayChunks(X)
    if engine == "threads of Dask":
        X, y = lazy(folder / "X.npy"), lazy(folder / "y.npy")
    seconds, model = timed(lambda: atklearn.ATkClassifier(k=k, tol=1e-3).fit(X, y))
    print(
        f"{engine:<18}{k:>6.2g}{model.n_passes_:>8}{model.n_iter_:>7}{model.n_passes_ * nbytes / 1e9:>9.1f}"
        f"{model.dual_gap_ / model.objective_:>10.1e}{peak:>10.2f}{seconds:>9.1f}",
        flush=True,
    )


def bench_disk(gigabytes: float = 8.0) -> None:
    with tempfile.TemporaryDirectory() as name:
        write_files(Path(name), gigabytes)
        n = int(gigabytes * 1e9 / (8 * D_DISK))
        print(f"{gigabytes:g} GB on disk, {n:,} x {D_DISK}, log loss, gap 1e-3")
        print(
            f"{'engine':<18}{'k/n':>6}{'passes':>8}{'steps':>7}{'GB read':>9}{'gap':>10}{'peak GB':>10}{'seconds':>9}"
        )
        for k in (1.0, 0.7):
            for engine in ("executor", "threads of Dask"):
                subprocess.run([sys.executable, __file__, "fit", engine, str(k), name], check=True)


# On a cluster


@contextmanager
def cluster_of(count: int) -> Iterator[Client]:
    with ExitStack() as stack:
        workers(count, stack)
        yield get_client()


asked: list[str] = []


@contextmanager
def weighing(counts: Counter[str]) -> Iterator[None]:
    """Count the bytes of every kind of query, with its answers."""
    ask = Coordinator.ask

    def weigh(coordinator: Coordinator, query: Any, *vectors: Any) -> Any:
        engine: Any = coordinator.engine
        before = engine.bytes_sent + engine.bytes_received
        told = ask(coordinator, query, *vectors)
        asked.append(query.name)
        counts[query.name] += engine.bytes_sent + engine.bytes_received - before
        return told

    Coordinator.ask = weigh  # type: ignore[method-assign]
    try:
        yield
    finally:
        Coordinator.ask = ask  # type: ignore[method-assign]


def bench_cluster(n: int = 4_000_000, *counts: int) -> None:
    print(f"log loss, {D} columns, gap 1e-6, chunks of 100,000 rows in memory; bytes without the sample at the start")
    print(
        f"{'rows':>10}{'k/n':>6}{'workers':>9}{'seconds':>9}{'over memory':>13}{'speed-up':>10}{'steps':>7}"
        f"{'passes':>8}{'kB a step':>11}{'queries':>11}",
        flush=True,
    )
    counts = counts or (1, 2)
    sizes, shares = (n // 4, n), (1.0, 0.7)
    in_memory: dict[tuple[int, float, int], float] = {}
    for rows in sizes:  # on as many threads as there will be workers
        X, y = made_here(rows)
        for k in shares:
            atklearn.ATkClassifier(k=k, tol=1e-2).fit(X, y)
            for count in counts:
                with threadpool_limits(count):
                    in_memory[rows, k, count], _ = timed(lambda X=X, y=y, k=k: atklearn.ATkClassifier(k=k).fit(X, y))
        del X, y
    first: dict[tuple[int, float], float] = {}
    for count in counts:
        with cluster_of(count) as client:
            for rows in sizes:
                X, y = generated(rows)
                for k in shares:
                    atklearn.ATkClassifier(k=k, tol=1e-2).fit(X, y)  # compiles
                    traffic: Counter[str] = Counter()
                    with weighing(traffic):
                        seconds, model = timed(lambda X=X, y=y, k=k: atklearn.ATkClassifier(k=k).fit(X, y))
                    first.setdefault((rows, k), seconds)
                    per_step = (traffic.total() - traffic["survey"]) / model.n_iter_ / 1e3
                    print(
                        f"{rows:>10,}{k:>6.2g}{count:>9}{seconds:>9.2f}{seconds / in_memory[rows, k, count]:>13.2f}"
                        f"{first[rows, k] / seconds:>10.2f}{model.n_iter_:>7}{model.n_passes_:>8}{per_step:>11.0f}"
                        f"{len(asked):>11}",
                        flush=True,
                    )
                    asked.clear()
                del X, y
            waiting = [timed(client.submit(abs, -number, pure=False).result)[0] for number in range(200)]
            print(f"{count} workers, there and back with a task that does nothing: {1e3 * np.median(waiting):.1f} ms")


if __name__ == "__main__":
    chosen, *arguments = sys.argv[1:] or ["all"]
    if chosen == "fit":
        fit_on_disk(arguments[0], float(arguments[1]), Path(arguments[2]))
    if chosen in ("all", "disk"):
        bench_disk(*(float(each) for each in arguments))
    if chosen in ("all", "cluster"):
        bench_cluster(*(int(float(each)) for each in arguments))
