"""Compiled code needs no place to be cached in: it says so, and goes on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import atklearn

CODE = """
import numpy as np
import atklearn
from atklearn.core.problem import weighted_square
print(atklearn.__file__, weighted_square(np.ones(2), np.array([3.0, 4.0])))
"""


@pytest.fixture
def sealed_copy(tmp_path):
    """A copy of the package beside which nothing can be cached, not even by the user who may write everywhere."""
    copy = tmp_path / "atklearn"
    shutil.copytree(Path(atklearn.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [copy, *(path for path in copy.rglob("*") if path.is_dir())]:
        (folder / "__pycache__").touch()
    return tmp_path


def run(folder, cache):
    environment = os.environ | {"PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": str(cache)}
    environment |= {"HOME": "/proc/nowhere", "XDG_CACHE_HOME": "/proc/nowhere"}
    return subprocess.run(
        [sys.executable, "-c", CODE], env=environment, cwd=folder, capture_output=True, text=True, check=True
    )


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs a folder that nobody can write to")
def test_without_a_place_for_the_cache_one_warning_says_what_to_do(sealed_copy):
    done = run(sealed_copy, "/proc/nowhere")
    assert done.stdout.split() == [str(sealed_copy / "atklearn" / "__init__.py"), "25.0"]
    assert done.stderr.count("UserWarning") == 1
    assert "NUMBA_CACHE_DIR" in done.stderr


def test_a_folder_that_can_be_written_is_used_in_silence(sealed_copy, tmp_path):
    done = run(sealed_copy, tmp_path / "cache")
    assert not done.stderr
    assert list((tmp_path / "cache").rglob("*.nbi"))
