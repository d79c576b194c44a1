"""Dask clusters of this machine, in processes of their own, and what the tests have their workers do."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

from threadpoolctl import threadpool_info

from atklearn.runtime.threads import thread_count
from atklearn.study.running import Task

# Clusters wait for most of the time that tests take; as Dask is set up, watching themselves wait takes 3% of a core for
# each of their processes.
CALM = {"distributed.admin.tick.interval": "1s", "distributed.worker.profile.enabled": False}

# not in the process of the tests: Dask leaves sockets of its scheduler open, of which pytest would complain
START = """
import dask
from distributed import LocalCluster
if __name__ == "__main__":
    dask.config.set({})
    with LocalCluster(n_workers={}, threads_per_worker={}, processes=True, dashboard_address=None) as cluster:
        print(cluster.scheduler_address, flush=True)
        input()
"""


@contextmanager
def started_cluster(n_workers, threads_per_worker, path=Path(__file__).parent):
    """Yield the address of a cluster and the process of its scheduler; the cluster ends with the context.

    Its workers can import this module, or what else is at the path.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", START.format(CALM, n_workers, threads_per_worker)],
        env=os.environ | {"PYTHONPATH": str(path)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    with process:
        yield process.stdout.readline().strip(), process
        if process.poll() is None:
            process.communicate("\n")


def tasks_of(dask_scheduler):
    """Return the names of the tasks that a scheduler knows, and whether each can be done again."""
    return {name: task.run_spec is not None for name, task in dask_scheduler.tasks.items()}


class Alone:
    """Work that fails if two threads have the same object; says which thread did it."""

    def __init__(self):
        self.busy = False

    def __call__(self, seconds):
        assert not self.busy
        self.busy = True
        time.sleep(seconds)
        self.busy = False
        return threading.get_ident()


class CountThreads:
    """An experiment that records how many threads each of its tasks may use."""

    def tasks(self):
        return [Task(f"task {number}", number) for number in range(8)]

    def run(self, task):
        time.sleep(0.05)
        counts = {each["num_threads"] for each in threadpool_info()} | {thread_count()}
        return [{"record": "curve", "x": task.key, "threads": sorted(counts)}]
