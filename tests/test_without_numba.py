"""Without Numba everything can be imported, and the exact algorithm is the same; only loops over arrays are missing."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numba_free
import numpy as np
import pytest


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What a process says in which neither Numba nor llvmlite can be imported."""
    file = tmp_path_factory.mktemp("without") / "told.pickle"
    script = Path(numba_free.__file__)
    subprocess.run([sys.executable, str(script), str(file)], check=True, cwd=script.parent)
    return pickle.loads(file.read_bytes())


def assert_close(one, other, rounding):
    """Check that two answers are alike but for rounding, relative to the largest number of each array."""
    if isinstance(one, tuple):
        assert len(one) == len(other)
        for part, other_part in zip(one, other, strict=True):
            assert_close(part, other_part, rounding)
    elif isinstance(one, str):
        assert one == other
    else:
        size = np.max(np.abs(one), initial=0.0, where=np.isfinite(one))
        np.testing.assert_allclose(one, other, rtol=0.0, atol=rounding * size)


def test_no_module_needs_numba_to_be_imported(told):
    assert [name for name, lacks in told["missing"].items() if lacks in ("None", "numba", "llvmlite")] == []


def test_arrays_are_fitted_on_plain_stores(told):
    compiled = numba_free.fits()
    assert compiled.keys() == told["fits"].keys()
    for name, fit in compiled.items():
        assert_close(fit, told["fits"][name], 1e-5)


def test_what_takes_loops_over_rows_says_what_to_install(told):
    sentence = "Fits on arrays run compiled code, which needs numba: pip install numba; torch tensors need none."
    assert told["refusals"] == {estimator.__name__: sentence for estimator in numba_free.REFUSED}


def test_what_the_algorithm_computes_is_the_same(told):
    compiled = numba_free.answers()
    assert compiled.keys() == told["answers"].keys()
    for question, answer in compiled.items():
        try:
            assert_close(answer, told["answers"][question], 1e-12)
        except AssertionError as error:
            raise AssertionError(question) from error


def test_the_exact_solver_finds_the_same_solutions(told):
    compiled = numba_free.solutions()
    assert compiled.keys() == told["solutions"].keys()
    for name, solution in compiled.items():
        try:
            assert_close(solution, told["solutions"][name], 1e-9)
        except AssertionError as error:
            raise AssertionError(name) from error
