"""Without Numba, PyTorch fits arrays: the same fits, and nobody sees a tensor."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch_for_numba
from numpy.testing import assert_allclose, assert_array_equal


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What a process says in which Numba cannot be imported."""
    file = tmp_path_factory.mktemp("without") / "told.pickle"
    script = Path(torch_for_numba.__file__)
    subprocess.run([sys.executable, "-W", "error", str(script), str(file)], check=True, cwd=script.parent)
    return pickle.loads(file.read_bytes())


def test_the_same_is_fitted(told):
    compiled = torch_for_numba.fitted()
    assert compiled.keys() == told[0].keys()
    for name, value in compiled.items():
        other = told[0][name]
        assert type(other) is type(value), name
        if np.asarray(value).dtype.kind == "f":
            assert_allclose(other, value, atol=1e-4, err_msg=name)
        else:
            assert_array_equal(other, value, err_msg=name)


def test_what_needs_numba_says_so(told):
    assert told[1] == {
        "stochastic": "Stochastic steps are compiled, which needs numba: pip install numba",
    }
