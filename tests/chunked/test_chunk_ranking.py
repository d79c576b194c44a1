"""The k-th largest loss of many chunks, exactly, from few of the losses."""

from __future__ import annotations

import numpy as np
import pytest

from atklearn.chunked.chunk import Block, Chunk, Memory
from atklearn.chunked.chunk_ranking import rank
from atklearn.chunked.questions import Losing
from atklearn.chunked.sights import Sight, View
from atklearn.chunked.vectors import Alike
from atklearn.losses.individual import AbsoluteError

DRAWS = {
    "even": lambda rng, n: rng.random(n),
    "heavy": lambda rng, n: rng.standard_t(1.0, n),
    "few values": lambda rng, n: rng.integers(0, 3, n).astype(float),
    "all alike": lambda _rng, n: np.ones(n),
    "nearly sorted": lambda rng, n: np.arange(n) + rng.random(n),
}


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("by_count", [True, False])
def test_the_ranked_loss_is_that_of_a_sort_and_few_rounds_of_few_losses_find_it(draw, by_count):
    rng = np.random.default_rng(0)
    n, n_chunks, few = 200_000, 50, 4096
    y, mass = DRAWS[draw](rng, n), rng.uniform(0.5, 2.0, n)
    view = View(Sight(0), AbsoluteError(), ones=False)
    chunks = [
        Chunk(Block(np.empty((part.size, 1)), y[part], mass[part]), Memory(), [Alike(1, view, 0.0)], index)
        for index, part in enumerate(np.array_split(np.arange(n), n_chunks))
    ]
    rounds, told = 0, []

    def ask(low, high, share):
        nonlocal rounds
        rounds += 1
        answers = [Losing(view, 1, low, high, share, by_count).answer(chunk) for chunk in chunks]
        total = sum(answers[1:], answers[0])
        told.append(sum(values.size for values in total["values"]))
        return total

    losses = np.abs(y)
    amounts = np.ones(n) if by_count else mass
    order = np.argsort(-losses)
    filled = np.cumsum(amounts[order])
    for share in (1e-4, 0.01, 0.3, 0.7, 0.999):
        wanted = np.floor(share * n) if by_count else share * filled[-1]
        rounds = 0
        ranked = rank(ask, wanted, n)
        assert ranked.value == losses[order[min(np.searchsorted(filled, wanted), n - 1)]]
        assert ranked.above == pytest.approx(amounts[losses > ranked.value].sum(), rel=1e-9)
        assert rounds <= 6
    assert max(told) <= 2 * few
