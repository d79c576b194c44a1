"""Dask: two workers over dask-ml on the same two, and over our own fit in memory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from atklearn import ATkClassifier
from claims.accuracy import Yardstick
from claims.claim import Claim, Contest, Setting, shape, share

D = 50
N_DASK_ML, N_IN_MEMORY = 300_000, 1_000_000
WORKERS = 2


def labelled(rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    w = np.random.default_rng(1).standard_normal(X.shape[1]) * 1.5 / np.sqrt(X.shape[1])
    return rng.random(len(X)) < 1.0 / (1.0 + np.exp(-2.0 * (X @ w + 0.3)))


def ends_of_chunks(n: int) -> list[int]:
    return list(np.linspace(0, n, max(n // 100_000, 8) + 1).astype(int)[1:])


def made_block(begin: int, end: int) -> np.ndarray:
    return np.random.default_rng(begin).standard_normal((end - begin, D))


def made_labels(block: np.ndarray) -> np.ndarray:
    return labelled(np.random.default_rng(len(block)), block)


def made_here(n: int) -> tuple[np.ndarray, np.ndarray]:
    blocks = [made_block(begin, end) for begin, end in pairwise([0, *ends_of_chunks(n)])]
    return np.concatenate(blocks), np.concatenate([made_labels(block) for block in blocks])


def generated(n: int) -> tuple[Any, Any]:
    """Return the same data, which every worker generates for itself, in its memory."""
    import dask
    import dask.array as da
    from distributed import wait

    blocks = [
        da.from_delayed(dask.delayed(made_block)(begin, end), (end - begin, D), np.float64)
        for begin, end in pairwise([0, *ends_of_chunks(n)])
    ]
    X = da.concatenate(blocks)
    X, y = dask.persist(X, X.map_blocks(made_labels, drop_axis=1, dtype=bool))
    wait([X, y])
    return X, y


def workers(count: int, stack: ExitStack) -> None:
    """Start a cluster of processes with one thread each, which ends with the stack."""
    from distributed import Client, LocalCluster

    options = {"n_workers": count, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": "CRITICAL"}
    stack.enter_context(Client(stack.enter_context(LocalCluster(**options))))


def on_the_cluster(
    setting: Setting, n: int, k: float, theirs: Callable[[Any, Any, Any, Any], Callable[[], Any]]
) -> Contest:
    """Return a contest of fits on a cluster; ``theirs`` is given the collections and the arrays."""
    n = setting.rows(n)
    stack = ExitStack()
    try:
        workers(WORKERS, stack)
        X, y = generated(n)
        X_here, y_here = made_here(n)
        signs = np.where(y_here, 1.0, -1.0)
        average = Yardstick("log_loss", X_here, signs, 1.0, float(n))
        own = average if k == 1.0 else Yardstick("log_loss", X_here, signs, k, float(n))
        other = theirs(X, y, X_here, y_here)
    except BaseException:
        stack.close()
        raise

    def excess(model: Any, fitted: Any) -> tuple[float, float]:
        return own.of(model), (own if isinstance(fitted, ATkClassifier) else average).of(fitted)

    return Contest(lambda: ATkClassifier(k=k, C=float(n)).fit(X, y), other, excess, close=stack.close)


def against_dask_ml(setting: Setting, *, solver: str) -> Contest:
    def theirs(X: Any, y: Any, _X: Any, _y: Any) -> Callable[[], Any]:
        from dask_ml.linear_model import LogisticRegression

        return lambda: LogisticRegression(solver=solver, tol=1e-8).fit(X, y)

    return on_the_cluster(setting, N_DASK_ML, 1.0, theirs)


def against_memory(setting: Setting, *, k: float) -> Contest:
    def theirs(_X: Any, _y: Any, X: np.ndarray, y: np.ndarray) -> Callable[[], Any]:
        return lambda: ATkClassifier(k=k, C=float(len(y))).fit(X, y)

    return on_the_cluster(setting, N_IN_MEMORY, k, theirs)


CLAIMS = [
    *(
        Claim(
            f"clusters/dask-ml-{solver}",
            "log loss, k = n, two workers",
            shape(N_DASK_ML, D),
            f"dask-ml `LogisticRegression` ({solver})",
            partial(against_dask_ml, solver=solver),
            ("dask-ml", "dask"),
            ("dask_ml", "distributed"),
            threads="all",
        )
        for solver in ("newton", "lbfgs")
    ),
    *(
        Claim(
            f"clusters/in-memory-{k:g}",
            f"log loss, {share(k)}, two workers",
            shape(N_IN_MEMORY, D),
            "our own in memory, all threads",
            partial(against_memory, k=k),
            ("dask",),
            ("distributed",),
            threads="all",
        )
        for k in (1.0, 0.7)
    ),
]
