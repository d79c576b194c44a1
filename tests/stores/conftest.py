"""Every law of rows is tried on every kind of them, with every loss, with and without a column of ones."""

from __future__ import annotations

import pytest
from rows_cases import KINDS, LOSSES, Stand, make_stand


@pytest.fixture(params=[False, True], ids=["", "ones"])
def ones(request) -> bool:
    return request.param


@pytest.fixture(params=LOSSES)
def loss(request) -> str:
    return request.param


@pytest.fixture(params=KINDS)
def stand(request, loss, ones) -> Stand:
    return make_stand(request.param, loss, ones)
