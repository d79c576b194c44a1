"""How a claim is measured: competitors take turns, and every round has a ratio of its own."""

from __future__ import annotations

import gc
import os
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from statistics import median
from typing import Any

from threadpoolctl import threadpool_limits

from claims.claim import Claim, Contest, Setting
from claims.results import Result, today, versions_of

# Seconds before a run on several threads: those of BLAS spin for a while after their work is done, and take a core
# from whoever comes next. They are waited for awake: a processor that has slept is slow at first.
PAUSE = 0.06


def cores() -> int:
    """Return the number of processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def seconds(run: Callable[[], Any], settle: Callable[[], None], pause: float) -> tuple[float, Any]:
    """Return the time of one run, and what it returned."""
    settle()
    awake = time.perf_counter() + pause
    while (start := time.perf_counter()) < awake:
        pass
    result = run()
    settle()
    return time.perf_counter() - start, result


def one_round(contest: Contest, first: int, pause: float) -> tuple[list[float], list[Any]]:
    """Return the least time of both, ours first, and what they returned; ``first`` has the first turn."""
    runs, times, results = (contest.ours, contest.theirs), [float("inf")] * 2, [None, None]
    for _ in range(contest.turns):
        for place in (first, 1 - first):
            spent, results[place] = seconds(runs[place], contest.settle, pause)
            times[place] = min(times[place], spent)
    return times, results


def measure(claim: Claim, *, tiny: bool = False) -> Result:
    """Return what a claim comes to on this machine."""
    threads = cores() if claim.threads == "all" else claim.threads
    rounds = 1 if tiny else claim.rounds
    limits = threadpool_limits(1) if threads == 1 else nullcontext()
    pause = PAUSE if threads > 1 and not tiny else 0.0
    times: list[list[float]] = []
    with limits, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fits that are cut short, or collapse, on purpose
        prepared = claim.prepare(Setting(threads, tiny))
        gc.collect()
        if isinstance(prepared, Contest):
            try:
                if not prepared.warm:
                    one_round(prepared, 0, pause)  # does not count: what is compiled, read and allocated on first use
                for number in range(rounds):
                    spent, returned = one_round(prepared, number % 2, pause)
                    times.append(spent)
                excess = prepared.excess(*returned)
            finally:
                prepared.close()
            ratios = [ours / theirs for ours, theirs in times]
        else:
            ratios = [prepared.read() for _ in range(rounds)]
            excess = prepared.excess
    return Result(
        id=claim.id,
        task=claim.task,
        sizes=claim.sizes,
        over=claim.over,
        threads=threads,
        versions=versions_of(claim.packages),
        date=today(),
        ratios=[rounded(ratio) for ratio in ratios],
        seconds=[rounded(median(column)) for column in zip(*times, strict=True)] if times else None,
        excess=[None if each is None else rounded(each, 2) for each in excess],
    )


def rounded(number: float, digits: int = 4) -> float:
    """Return a number as the results file holds it."""
    return float(f"{number:.{digits}g}")
