"""A process remembers the chunks of a few fits; the one that has not been asked for longest is forgotten first."""

from __future__ import annotations

import numpy as np

from atklearn.chunked import engine
from atklearn.chunked.chunk import Block, Constant, RowView
from atklearn.chunked.engine import Request, answer
from atklearn.chunked.queries import FetchVector
from atklearn.losses.individual import SquaredError

VIEW = RowView(0, SquaredError())
BLOCK = Block(np.ones((3, 1)), np.zeros(3))


def ask(fit, block=None):
    """Ask for a vector: whoever remembers it needs neither data nor how to make it; return who does not."""
    steps = () if block is None else (Constant(1, VIEW, 0.5),)
    return answer(Request(fit, FetchVector(VIEW, 1), steps, frozenset({0, 1})), [(0, block)]).missing


def test_the_fit_that_goes_on_is_remembered_and_the_idle_one_is_not(monkeypatch):
    monkeypatch.setattr(engine, "_memories", {})
    ask("running", BLOCK)
    for other in range(3 * engine._MOST_FITS):
        ask(f"idle {other}", BLOCK)
        assert ask("running") == ()
    assert ask("idle 0") == (0,)
