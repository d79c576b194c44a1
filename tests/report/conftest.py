"""Comparisons that the tests of reports share."""

from __future__ import annotations

import json
from functools import cache

import pytest
from compared_pages import compared, many_kinds


@pytest.fixture(scope="session")
def records(tmp_path_factory):
    """Comparisons of every kind by name, each made once, when first asked for."""
    folder, kinds = tmp_path_factory.mktemp("compare"), many_kinds()

    @cache
    def lines(name):
        return list(map(json.dumps, compared(kinds[name], folder / f"{name}.jsonl")))

    return lambda name: [json.loads(line) for line in lines(name)]
