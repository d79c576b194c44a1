"""Fits in chunks: on data larger than memory, and on a Dask cluster beside the fit in memory and beside dask-ml.

Usage: ./run bench dask                              all of it
       ./run bench dask disk [GIGABYTES]             passes, bytes and memory of a fit on files, 8 GB unless told
       ./run bench dask cluster [ROWS] [COUNT ...]   over the fit in memory; bytes per step; speed-up
       ./run bench dask dask_ml [ROWS]               beside dask-ml's LogisticRegression at k = n

Memory is that of the process without pages of files. Times are of one run each, the second of two where a first one
compiles. The cluster is a LocalCluster of processes with one thread each.
"""

from __future__ import annotations

import sys

# this file is called like the library that it imports
sys.path = [path for path in sys.path if not path.endswith("benchmarks")]

import subprocess
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, wait
from threadpoolctl import threadpool_limits

import atklearn
import atklearn.dask as on_dask
from atklearn import ondisk
from atklearn.chunked.fleet import Fleet

D_DISK, D = 100, 50
CHUNK_ROWS = 80_000


def labelled(rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    w = np.random.default_rng(1).standard_normal(X.shape[1]) * 1.5 / np.sqrt(X.shape[1])
    return rng.random(len(X)) < 1.0 / (1.0 + np.exp(-2.0 * (X @ w + 0.3)))


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
    cls: Any = ondisk.ATkClassifier
    if engine == "threads of Dask":
        X, y, cls = lazy(folder / "X.npy"), lazy(folder / "y.npy"), on_dask.ATkClassifier
    seconds, model = timed(lambda: cls(k=k, tol=1e-3).fit(X, y))
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
def workers(count: int) -> Iterator[Client]:
    options = {"n_workers": count, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": "CRITICAL"}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        yield client


def ends_of_chunks(n: int) -> list[int]:
    return list(np.linspace(0, n, max(n // 100_000, 8) + 1).astype(int)[1:])


def made_block(begin: int, end: int) -> np.ndarray:
    return np.random.default_rng(begin).standard_normal((end - begin, D))


def made_labels(block: np.ndarray) -> np.ndarray:
    return labelled(np.random.default_rng(len(block)), block)


def made_here(n: int) -> tuple[np.ndarray, np.ndarray]:
    blocks = [made_block(begin, end) for begin, end in pairwise([0, *ends_of_chunks(n)])]
    return np.concatenate(blocks), np.concatenate([made_labels(block) for block in blocks])


def generated(n: int) -> tuple[da.Array, da.Array]:
    """Return the same data, which every worker generates for itself, in memory."""
    blocks = [
        da.from_delayed(dask.delayed(made_block)(begin, end), (end - begin, D), np.float64)
        for begin, end in pairwise([0, *ends_of_chunks(n)])
    ]
    X = da.concatenate(blocks)
    y = X.map_blocks(made_labels, drop_axis=1, dtype=bool)
    X, y = dask.persist(X, y)
    wait([X, y])
    return X, y


asked: list[str] = []


@contextmanager
def weighing(counts: Counter[str]) -> Iterator[None]:
    """Count the bytes of every kind of question, with its answers."""
    ask = Fleet.ask

    def weigh(fleet: Fleet, question: Any, *vectors: Any) -> Any:
        engine: Any = fleet.engine
        before = engine.bytes_sent + engine.bytes_received
        told = ask(fleet, question, *vectors)
        asked.append(question.name)
        counts[question.name] += engine.bytes_sent + engine.bytes_received - before
        return told

    Fleet.ask = weigh  # type: ignore[method-assign]
    try:
        yield
    finally:
        Fleet.ask = ask  # type: ignore[method-assign]


def bench_cluster(n: int = 4_000_000, *counts: int) -> None:
    print(f"log loss, {D} columns, gap 1e-6, chunks of 100,000 rows in memory; bytes without the sample at the start")
    print(
        f"{'rows':>10}{'k/n':>6}{'workers':>9}{'seconds':>9}{'over memory':>13}{'speed-up':>10}{'steps':>7}"
        f"{'passes':>8}{'kB a step':>11}{'questions':>11}",
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
        with workers(count) as client:
            for rows in sizes:
                X, y = generated(rows)
                for k in shares:
                    on_dask.ATkClassifier(k=k, tol=1e-2).fit(X, y)  # compiles
                    traffic: Counter[str] = Counter()
                    with weighing(traffic):
                        seconds, model = timed(lambda X=X, y=y, k=k: on_dask.ATkClassifier(k=k).fit(X, y))
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


# Beside dask-ml


def bench_dask_ml(n: int = 1_000_000) -> None:
    from dask_ml.linear_model import LogisticRegression
    from sklearn.linear_model import LogisticRegression as InMemory

    print(f"k = n, log loss, {n:,} x {D}, two workers; excess is that of the objective over the best found")
    print(f"{'':<30}{'seconds':>9}{'excess':>10}", flush=True)
    with workers(2), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        X, y = generated(n)
        X_here, y_here = made_here(n)

        def objective(w: np.ndarray, b: float) -> float:
            margins = np.where(y_here, 1.0, -1.0) * (X_here @ w + b)
            return float(np.logaddexp(0.0, -margins).mean() + w @ w / (2 * n))

        best = InMemory(tol=1e-10, max_iter=1000).fit(X_here, y_here)
        least = objective(best.coef_[0], float(best.intercept_[0]))
        models: dict[str, Any] = {
            f"atklearn.dask, tol {tol:g}": on_dask.ATkClassifier(k=1.0, tol=tol) for tol in (1e-4, 1e-8)
        }
        for solver, options in (
            ("lbfgs", {"tol": 1e-4}), ("lbfgs", {"tol": 1e-8}), ("newton", {"tol": 1e-8}), ("proximal_grad", {}),
            ("admm", {"max_iter": 10}),
        ):  # fmt: skip
            told = ", ".join(f"{name} {value:g}" for name, value in options.items())
            models[f"dask-ml, {solver} {told}"] = LogisticRegression(solver=solver, **options)
        first = on_dask.ATkClassifier(k=1.0, tol=1e-2).fit(X, y)
        assert first.classes_.tolist() == [False, True]
        for name, model in models.items():
            try:
                seconds, fitted = timed(lambda model=model: model.fit(X, y))
            except Exception as error:  # it has not kept up with SciPy
                print(f"{name:<30}{type(error).__name__}: {error}", flush=True)
                continue
            w, b = np.ravel(fitted.coef_), float(np.ravel(fitted.intercept_)[0])
            print(f"{name:<30}{seconds:>9.2f}{objective(w, b) / least - 1.0:>10.1e}", flush=True)


if __name__ == "__main__":
    chosen, *arguments = sys.argv[1:] or ["all"]
    if chosen == "fit":
        fit_on_disk(arguments[0], float(arguments[1]), Path(arguments[2]))
    if chosen in ("all", "disk"):
        bench_disk(*(float(each) for each in arguments))
    if chosen in ("all", "cluster"):
        bench_cluster(*(int(float(each)) for each in arguments))
    if chosen in ("all", "dask_ml"):
        bench_dask_ml(*(int(float(each)) for each in arguments))
