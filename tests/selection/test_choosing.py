"""Many items, here or elsewhere: the same results in the same order, and processes only for much work."""

from __future__ import annotations

import os

import joblib
import pytest

from atklearn.selection import choosing
from atklearn.selection.choosing import map_jobs


def where_squared(number):
    return number**2, os.getpid()


@pytest.mark.parametrize("n_jobs", [None, 1, 2])
def test_little_work_is_done_in_this_process(n_jobs):
    assert list(map_jobs(where_squared, range(5), n_jobs)) == [(number**2, os.getpid()) for number in range(5)]


def test_much_work_goes_to_processes_after_a_look_at_some_items(monkeypatch):
    monkeypatch.setattr(choosing, "_WORTH_PROCESSES", 0.0)
    # a function without a module of its own travels whole: processes need not find the tests
    results, places = zip(*map_jobs(lambda number: (number**2, os.getpid()), range(6), 2), strict=True)
    assert results == (0, 1, 4, 9, 16, 25)
    assert places[:2] == (os.getpid(), os.getpid())
    assert os.getpid() not in places[2:]


def test_another_backend_gets_all_items():
    with joblib.parallel_config(backend="threading"):
        assert [result for result, _ in map_jobs(where_squared, range(4), 2)] == [0, 1, 4, 9]


def test_what_is_done_before_a_stop_is_all_that_is_done():
    done = []
    for result in map_jobs(lambda number: done.append(number) or number, range(9), 2):
        if result == 2:
            break
    assert done == [0, 1, 2]
