"""Tasks on a Dask cluster: the same records as here, whoever dies, or one sentence and nothing lost."""

from __future__ import annotations

import json
import logging
import os
import signal
import time
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer

import dask
import numpy as np
import pytest
from comparisons import in_any_order, made_numbers, run, small, table
from dask_clusters import Alone, CountThreads, started_cluster, tasks_of
from threadpoolctl import threadpool_info

from atklearn.study.clusters import connected, on_cluster
from atklearn.study.reproduction import run_reproduction
from atklearn.study.results import ResultsFile, read_results
from atklearn.study.running import run_experiment
from atklearn.study.split_grids import SplitGrids
from atklearn.study.yardstick import Yardstick


def few():
    return small("regression", losses=("squared_error",))


@pytest.fixture(scope="module")
def data():
    return table(*made_numbers(60), "regression")


@pytest.fixture(scope="module")
def here(tmp_path_factory, data):
    """What a run in this process finds."""
    return in_any_order(run(data, tmp_path_factory.mktemp("here") / "results.jsonl", few()))


def test_workers_find_what_is_found_here(tmp_path, monkeypatch, client, data, here):
    def refused(*_):
        raise AssertionError("a task was run in this process")

    for experiment in (SplitGrids, Yardstick):
        monkeypatch.setattr(experiment, "run", refused)
    assert in_any_order(run(data, tmp_path / "there.jsonl", few(), client=client)) == here


def test_figures_of_the_paper_are_the_same(tmp_path, client):
    paths = [tmp_path / name for name in ("here.jsonl", "there.jsonl")]
    for path, there in zip(paths, (None, client), strict=True):
        run_reproduction("figures", path, names=(), network=False, client=there)
    one, other = (in_any_order(read_results(path)) for path in paths)
    assert one == other


def test_the_data_are_sent_once_and_not_with_every_task(client):
    with (
        dask.config.set({"distributed.admin.large-graph-warning-threshold": "50kB"}),
        on_cluster(partial(np.add, np.zeros(100_000)), client) as submit,
    ):
        assert [submit(number).result()[0] for number in range(3)] == [0.0, 1.0, 2.0]


def test_threads_of_a_worker_share_nothing(client):
    with on_cluster(Alone(), client) as submit:
        futures = [submit(0.05) for _ in range(12)]
        assert len({future.result() for future in futures}) > 2


def count_threads(path, **options):
    """Run an experiment of few imports; return its records."""
    with ResultsFile(path, "compare", {}) as results:
        run_experiment(CountThreads(), results, **options)
    return in_any_order(read_results(path))


def test_a_task_has_one_thread_wherever_it_runs(tmp_path, client):
    before = threadpool_info()
    here, there = (count_threads(tmp_path / str(at is None) / "results.jsonl", client=at) for at in (None, client))
    assert here == there
    assert [json.loads(record)["threads"] for record in here] == [[1]] * 8
    assert threadpool_info() == before


def test_an_interrupt_leaves_nothing_on_the_cluster(tmp_path, client, data, here):
    def stop(_):
        raise KeyboardInterrupt

    path = tmp_path / "results.jsonl"
    with pytest.raises(KeyboardInterrupt):
        run(data, path, few(), client=client, on_task=stop)
    end = time.monotonic() + 20.0
    while client.run_on_scheduler(tasks_of) and time.monotonic() < end:
        time.sleep(0.05)
    assert client.run_on_scheduler(tasks_of) == {}
    assert in_any_order(run(data, path, few(), client=client)) == here


def test_a_killed_worker_does_not_change_the_results(tmp_path, client):
    finished, before = [], client.run(os.getpid)

    def kill(task):
        finished.append(task)
        if len(finished) == 2:
            os.kill(next(iter(before.values())), signal.SIGKILL)

    there = count_threads(tmp_path / "there" / "results.jsonl", client=client, on_task=kill)
    assert there == count_threads(tmp_path / "here" / "results.jsonl")
    client.wait_for_workers(2, timeout=60)
    assert next(iter(before.values())) not in client.run(os.getpid).values()


def test_all_that_workers_hold_can_be_made_again(client):
    with on_cluster(abs, client) as submit:
        assert submit(-1).result() == 1
        held = client.run_on_scheduler(tasks_of)
    assert held
    assert all(held.values())


def test_a_lost_scheduler_is_one_sentence_and_what_is_finished_is_kept(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("distributed"), "propagate", True)  # to where caplog listens
    path, finished = tmp_path / "lost" / "results.jsonl", []
    with started_cluster(n_workers=1, threads_per_worker=1) as (address, process):

        def lose(task):
            finished.append(task.name)
            if len(finished) == 2:
                process.kill()

        with pytest.raises(ValueError, match="is lost") as error, connected(address) as client:
            count_threads(path, client=client, on_task=lose)
    assert "\n" not in str(error.value)
    assert address in str(error.value)
    assert caplog.messages == []
    with ResultsFile(path, "compare", {}) as results:
        assert results.finished == set(finished)
    assert count_threads(path) == count_threads(tmp_path / "whole" / "results.jsonl")


def test_a_cluster_without_us_is_one_sentence(tmp_path):
    (tmp_path / "atklearn.py").write_text("raise ModuleNotFoundError(name='atklearn')", encoding="utf-8")
    with (
        started_cluster(n_workers=1, threads_per_worker=1, path=tmp_path) as (address, _),
        connected(address) as client,
        pytest.raises(ValueError, match="lack atklearn; install the same") as error,
        on_cluster(abs, client) as submit,
    ):
        submit(-1).result()
    assert "\n" not in str(error.value)


def test_workers_with_other_versions_are_refused(monkeypatch, client):
    monkeypatch.setattr("atklearn.study.clusters.versions", lambda: {"numpy": "0.1"})
    with (
        pytest.raises(ValueError, match=rf"numpy {np.__version__} in the place of 0\.1") as error,
        on_cluster(abs, client) as submit,
    ):
        submit(-1).result()
    assert "\n" not in str(error.value)


class TestConnecting:
    @pytest.fixture(autouse=True)
    def _in_a_hurry(self, monkeypatch):
        monkeypatch.setattr("atklearn.study.clusters._PATIENCE", 0.5)

    @pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "127.0.0.1", "no address", "mail://me", "", 8786])
    def test_nobody_there_is_one_sentence(self, capfd, address):
        self.is_refused(capfd, address)

    def test_so_is_something_else_that_answers(self, capfd, client):
        with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as page:
            self.is_refused(capfd, f"tcp://127.0.0.1:{page.server_port}")
        self.is_refused(capfd, next(iter(client.scheduler_info()["workers"])))

    @staticmethod
    def is_refused(capfd, address):
        begin = time.monotonic()
        with pytest.raises(ValueError, match="none answers at") as error, connected(address):
            pass
        assert time.monotonic() - begin < 5.0
        assert repr(address) in str(error.value)
        assert "\n" not in str(error.value)
        assert capfd.readouterr() == ("", "")

    def test_an_address_is_left_and_a_client_stays_open(self, scheduler, client):
        with connected(scheduler) as own:
            assert own.submit(abs, -1).result() == 1
        assert own.status == "closed"
        with connected(client) as same:
            assert same is client
        assert client.status == "running"
        with pytest.raises(ValueError, match="got one that is closed"), connected(own):
            pass

    def test_processes_and_a_cluster_exclude_each_other(self):
        with pytest.raises(ValueError, match="One of --jobs and --scheduler"), connected("tcp://127.0.0.1:1", 2):
            pass
