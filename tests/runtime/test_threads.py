"""Several threads: the same bits as on one, no more of them than allowed, and none of the parent's after a fork."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import threading

import numpy as np
import pytest
import scipy.sparse as sp
from threadpoolctl import threadpool_info, threadpool_limits

from atklearn.core.problem import Problem
from atklearn.core.solve import solve_linear
from atklearn.losses.individual import INDIVIDUAL_LOSSES
from atklearn.runtime import threads
from atklearn.stores import compiled as features
from atklearn.stores.compiled import CompiledRows


@pytest.fixture
def small_blocks(monkeypatch):
    """Cut small data into many blocks, and find every block worth a thread."""
    monkeypatch.setattr(threads, "BLOCK", 128)
    monkeypatch.setattr(threads, "WORTH", 1.0)
    monkeypatch.setattr(features, "ENTRIES", 1000)


KINDS = {
    "dense64": lambda X: X,
    "dense32": lambda X: X.astype(np.float32),
    "csr": lambda X: sp.csr_array(np.where(np.abs(X) > 1.0, X, 0.0)),
}


def make_problem(loss, kind="dense64", n=3000, d=8, share=0.6):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    score = X @ rng.standard_normal(d) + 0.5 + rng.standard_normal(n)
    y = np.sign(score) if INDIVIDUAL_LOSSES[loss].task == "classification" else score
    mass = rng.uniform(0.5, 2.0, n)
    rows = CompiledRows(KINDS[kind](X), y, mass, INDIVIDUAL_LOSSES[loss](), True)
    return Problem(rows, share * rows.total, 10.0, "free")


def bits(solution):
    return solution.coef.tobytes(), solution.density.tobytes(), solution.objective, solution.dual_gap


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", ["log_loss", "hinge", "absolute_error", "huber"])
def test_bits_do_not_depend_on_the_number_of_threads(loss, kind, monkeypatch):
    assert len(bits_by_threads(monkeypatch, loss, kind)) == 1


def test_nor_with_conjugate_gradients(monkeypatch):
    assert len(bits_by_threads(monkeypatch, "log_loss", n=800, d=700)) == 1


def bits_by_threads(monkeypatch, *data, **sizes):
    found = set()
    for count in (1, 2, 3):
        monkeypatch.setattr(threads, "thread_count", lambda count=count: count)
        found.add(bits(solve_linear(make_problem(*data, **sizes))))
    return found


@pytest.mark.parametrize("d", [50, 300])
def test_nor_do_they_depend_on_the_threads_of_blas(d):
    found = set()
    for count in (1, 2, 3):
        with threadpool_limits(count):
            found.add(bits(solve_linear(make_problem("log_loss", n=2500, d=d, share=1.0))))
    assert len(found) == 1


@pytest.mark.usefixtures("small_blocks")
def test_limits_on_threads_are_respected(monkeypatch):
    def share(*_):
        raise AssertionError("a pass was shared")

    monkeypatch.setattr(threads._Crew, "share", share)
    with threadpool_limits(1):
        assert threads.thread_count() == 1
        solve_linear(make_problem("log_loss"))


def test_blas_gets_its_threads_back():
    def blas_threads():
        return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]

    before = blas_threads()
    with threads.steady_blas():
        with threads.steady_blas():
            assert set(blas_threads()) == {1}
        assert set(blas_threads()) == {1}
    assert blas_threads() == before


@pytest.mark.usefixtures("small_blocks")
def test_errors_in_other_threads_arrive(monkeypatch):
    def work(first, last):
        if first > 0:
            raise ValueError(f"blocks {first} to {last}")

    monkeypatch.setattr(threads, "thread_count", lambda: 2)
    with pytest.raises(ValueError, match="blocks 2 to 4"):
        threads.run(work, 4, 100.0)
    done = []
    threads.run(lambda first, last: done.append((first, last)), 4, 100.0)  # they work on
    assert sorted(done) == [(0, 2), (2, 4)]


def test_first_calls_at_the_same_time_find_all_types_known():
    """Numba would look types up in one thread while another adds to them: all are there once atklearn is imported."""
    script = (
        "import atklearn, numpy as np; from numba.core.typing.typeof import typeof_impl; "
        "from atklearn.runtime import threads; "
        "known = len(typeof_impl.registry); threads.extremes(np.ones(4)); print(len(typeof_impl.registry) - known)"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "0"


@pytest.mark.usefixtures("small_blocks")
def test_fits_at_the_same_time_agree(monkeypatch):
    monkeypatch.setattr(threads, "thread_count", lambda: 2)
    found = []
    fits = [
        threading.Thread(target=lambda: found.append(bits(solve_linear(make_problem("log_loss"))))) for _ in range(4)
    ]
    for fit in fits:
        fit.start()
    for fit in fits:
        fit.join()
    assert len(found) == 4
    assert len(set(found)) == 1


def send_bits(connection):
    connection.send(bits(solve_linear(make_problem("log_loss"))))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="forks")
@pytest.mark.skipif(sys.platform == "darwin", reason="the system's own libraries do not survive a fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.usefixtures("small_blocks")
def test_forked_children_have_threads_of_their_own(monkeypatch):
    monkeypatch.setattr(threads, "thread_count", lambda: 2)
    expected = bits(solve_linear(make_problem("log_loss")))
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=send_bits, args=(theirs,))
    child.start()
    assert ours.poll(60)
    assert ours.recv() == expected
    child.join()
