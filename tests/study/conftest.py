"""What the tests of studies share."""

from __future__ import annotations

import pytest

from atklearn.study.reproduction import run_reproduction


@pytest.fixture(scope="session")
def results(tmp_path_factory):
    """The path of a small reproduction of the paper, and what was skipped."""
    path = tmp_path_factory.mktemp("reproduce") / "results.jsonl"
    reproduced = run_reproduction("all", path, names=("monk", "titanic", "sinc", "german"), network=False, n_splits=2)
    return path, reproduced.skipped
