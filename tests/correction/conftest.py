"""Boosted trees of scikit-learn wait for each other where two processes want two threads each of two cores."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="package")
def one_thread_of_openmp() -> Iterator[None]:
    """Let every process do with one thread."""
    with threadpool_limits(1, user_api="openmp"):
        yield
