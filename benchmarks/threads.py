"""Speed of one large fit on several threads: against one thread, and against LogisticRegression on as many.

n = 1,000,000, d = 50, log loss, C = 100, k = n and 0.7 n, tolerance 1e-6 against lbfgs with its default 1e-4. Times are
the best of some runs, all counts of threads in turn; "the same" says whether the coefficients have the same bits as on
one thread.

Usage: ./run bench threads [COUNT ...]    counts of threads; without any: 1, 2, 4, ... up to the cores there are
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from atklearn import ATkClassifier

N, D, C = 1_000_000, 50, 100.0
REPEATS = 5


def make_data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D))
    w = rng.standard_normal(D)
    return X, np.sign(X @ (w / np.linalg.norm(w)) + 0.3 + 0.1 * rng.standard_normal(N))


def timed(run: Callable[[], Any], count: int) -> tuple[float, Any]:
    with threadpool_limits(count):
        start = time.perf_counter()
        result = run()
        return time.perf_counter() - start, result


def main(counts: list[int]) -> None:
    X, y = make_data()
    competitor = LogisticRegression(C=C / N)
    fits: dict[str, Any] = {
        "k = n": ATkClassifier(k=1.0, C=C),
        "k = 0.7 n": ATkClassifier(k=0.7, C=C),
        "lbfgs": competitor,
    }
    seconds: dict[tuple[str, int], float] = {}
    bits: dict[tuple[str, int], bytes] = {}
    for name, model in fits.items():  # one after the other: threads of BLAS spin for a while after their work is done
        for _ in range(REPEATS):
            for count in counts:
                spent, _ = timed(lambda model=model: model.fit(X, y), count)
                seconds[name, count] = min(spent, seconds.get((name, count), np.inf))
                bits[name, count] = model.coef_.tobytes()
    print(f"{'threads':<9}" + "".join(f"{name:>12} s{'speed-up':>10}{'the same':>10}" for name in fits), end="")
    print("   k = n over lbfgs   0.7 n over lbfgs")
    for count in counts:
        print(f"{count:<9}", end="")
        for name in fits:
            gain = seconds[name, counts[0]] / seconds[name, count]
            same = "yes" if bits[name, count] == bits[name, counts[0]] else "no"
            print(f"{seconds[name, count]:>14.3f}{gain:>10.2f}{same:>10}", end="")
        for name in ("k = n", "k = 0.7 n"):
            print(f"{seconds[name, count] / seconds['lbfgs', count]:>19.2f}", end="")
        print()


if __name__ == "__main__":
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = [int(argument) for argument in sys.argv[1:]]
    main(asked or [2**i for i in range(cores.bit_length()) if 2**i <= cores])
