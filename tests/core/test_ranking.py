"""The k-th largest of many losses, exactly, from few of them, on every kind of rows."""

from __future__ import annotations

import numpy as np
import pytest
from rows_cases import KINDS, as_array

from atklearn.core.ranking import Between, rank
from atklearn.losses.individual import AbsoluteError

N = 150_000
DRAWS = {
    "even": lambda rng: rng.random(N),
    "heavy": lambda rng: rng.standard_t(1.0, N),
    "few values": lambda rng: rng.integers(0, 5, N).astype(float),
    "all alike": lambda _rng: np.ones(N),
    "nearly sorted": lambda rng: np.arange(N) + rng.random(N),
    # every so-manieth loss is a large one: what is looked at first misleads
    "odd": lambda rng: np.where(np.arange(N) % (N // 4096) == 0, 10.0 + rng.random(N), rng.random(N)),
}


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_ranked_loss_is_that_of_a_sort_and_few_rounds_of_few_losses_find_it(draw, weighted):
    rng = np.random.default_rng(0)
    losses = np.abs(DRAWS[draw](rng))
    amounts = rng.uniform(0.5, 2.0, N) if weighted else np.ones(N)
    looks = []

    def look(low, high, share):
        seen = Between.of(losses, amounts, low, high, share)
        looks.append(seen.values.size)
        return seen

    order = np.argsort(-losses)
    filled = np.cumsum(amounts[order])
    for share in (1e-4, 0.01, 0.3, 0.7, 0.999):
        looks.clear()
        wanted = share * filled[-1] if weighted else np.floor(share * N)
        ranked = rank(look, wanted, N)
        assert ranked.value == losses[order[min(np.searchsorted(filled, wanted), N - 1)]]
        assert ranked.above == pytest.approx(amounts[losses > ranked.value].sum(), rel=1e-9)
        assert len(looks) <= 7
        assert max(looks) <= 2 * 4096


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("draw", ["heavy", "few values", "odd"])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_store_ranks_its_losses_and_finds_the_largest(kind, draw, weighted):
    rng = np.random.default_rng(1)
    y = DRAWS[draw](rng)
    losses, mass = np.abs(y), rng.integers(1, 4, N).astype(float) if weighted else np.full(N, 2.0)
    rows = KINDS[kind](np.ones((N, 1), dtype=np.float32), y, mass, AbsoluteError(), False)
    order = np.argsort(-losses, kind="stable")
    filled = np.cumsum(mass[order])
    point = rows.point(np.zeros(1), 1.0)
    for share in (1e-5, 0.3, 0.999, 1.0):
        k = share * filled[-1]
        expected = losses[order[min(np.searchsorted(filled, k * (1 - 1e-12)), N - 1)]]
        assert rows.ranked(point.state, k) == expected
    places = as_array(point.largest(1234).restrict(np.arange(N, dtype=float)))
    np.testing.assert_array_equal(np.sort(losses[places.astype(int)]), np.sort(losses)[-1234:])
    assert (np.diff(places) > 0).all()
