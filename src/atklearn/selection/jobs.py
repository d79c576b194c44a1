"""Doing the same for many items, in other processes where that is the quicker way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from joblib import effective_n_jobs
from joblib.parallel import get_active_backend
from sklearn.utils.parallel import Parallel, delayed

__all__ = ["map_jobs"]

Item = TypeVar("Item")
Result = TypeVar("Result")

# Processes have to start and to import before they help: for less work than this, in seconds, they do not pay.
_WORTH_PROCESSES = 20.0
# A first item this quick may have been slowed down by what happens once only: another one is looked at.
_QUICK = 1.0


def map_jobs(
    function: Callable[..., Result], items: Sequence[Item], n_jobs: int | None, shared: Sequence[Any] = ()
) -> Iterator[Result]:
    """Yield ``function(item, *shared)`` for all items, in their order.

    Joblib's own processes start only when items done here have shown that there is much to do; other backends, set by
    ``joblib.parallel_config``, are there already or were asked for, and get all items. What is shared are arguments of
    their own, so that a backend can send them to a place once.
    """
    done = 0
    if effective_n_jobs(n_jobs) == 1:
        done = len(items)
        yield from (function(item, *shared) for item in items)
    elif _starts_processes():
        least = float("inf")
        while done < len(items):
            begin = time.perf_counter()
            result = function(items[done], *shared)
            seconds = time.perf_counter() - begin
            yield result
            done += 1
            least = min(least, seconds)
            if (done > 1 or seconds > _QUICK) and least * (len(items) - done) > _WORTH_PROCESSES:
                break
    if done < len(items):
        work: Any = Parallel(n_jobs=n_jobs, return_as="generator")
        yield from work(delayed(function)(item, *shared) for item in items[done:])


def _starts_processes() -> bool:
    """Whether the backend in charge is joblib's default, which starts processes when it is first used."""
    return type(get_active_backend()[0]).__name__ == "LokyBackend"
