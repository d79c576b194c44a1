"""Comparisons that the tests of reports share."""

from __future__ import annotations

import json

import pytest
from compared_pages import compared, many_kinds


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Comparisons of every kind, as lines."""
    folder = tmp_path_factory.mktemp("compare")
    return {
        name: list(map(json.dumps, compared(data, folder / f"{name}.jsonl"))) for name, data in many_kinds().items()
    }


@pytest.fixture
def records(runs):
    def of(name):
        return [json.loads(line) for line in runs[name]]

    return of
