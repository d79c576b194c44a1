"""The generalised Hessian of the smoothed loss: which rows go in, their weights, the matrix or its products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from atklearn.core.packed import PackedSymmetric
from atklearn.losses.individual import Array
from atklearn.stores import passes, threads
from atklearn.stores.expansion import Losses, Paying
from atklearn.stores.features import Features
from atklearn.stores.picking import Places, sample_by_weight, sample_runs, tell_enough

__all__ = ["gram", "operator", "packed_gram", "weighted_rows"]

# Rows scaled at once for the Hessian: few enough for the cache, enough for BLAS.
GRAM_BLOCK = 2048
# Rows whose sum is kept apart, at least, and the number of such sums at most.
_APART = 4
_MOST_PARTS = 64
# Of a large Hessian's rows, so few are scaled at once that their copy is small beside X.
_SMALL_BLOCK = 256

_Weighed: TypeAlias = tuple[Places, Array, Array, float]
"""Rows that have weight, their weights and pulls, and the mass of the tied."""


def weighted_rows(
    paid: Paying, at: Losses, u: Array, mu: float, n_columns: int, *, cautious: bool, most: int | None, seed: int
) -> tuple[Places, Array, Array, float, bool]:
    """Return the rows that go into the Hessian, all or up to ``most`` of either kind, their weights and pulls.

    With them the mass of the tied ones, each standing for those left out, and whether there are such: see
    :meth:`atklearn.core.point.Point.curvature`.
    """
    picked, n_tied = _strata(at.r)

    def weigh(rows: Places, scale: Array) -> _Weighed:
        return _weigh(rows, scale, at.r, at.slope, paid.curvatures(at, rows, cautious=cautious), u, mu)

    if most is None or picked.size <= most:
        return *weigh(picked, np.ones(picked.size)), False
    rng = np.random.default_rng(seed)
    strata = picked[:n_tied], picked[n_tied:]
    parts = [_weigh_some(stratum, most, n_columns, rng, weigh) for stratum in strata]
    kept, h, pulls = (np.concatenate([part[place] for part in parts]) for place in range(3))
    return kept, h, pulls, parts[0][3] + parts[1][3], True


def _weigh_some(
    rows: Places, most: int, n_columns: int, rng: np.random.Generator, weigh: Callable[[Places, Array], _Weighed]
) -> _Weighed:
    """Weigh up to ``most`` of the rows, each for as many as it stands for.

    Neighbours are quick to read and mostly as good as any others. Where few rows carry the weight, as on labels that
    are well separated, these have to be found: every row is weighed then.
    """
    if rows.size <= most:
        return weigh(rows, np.ones(rows.size))
    drawn = sample_runs(rows, most, rng)
    weighed = weigh(drawn, np.full(drawn.size, rows.size / drawn.size))
    h = weighed[1]
    if tell_enough(drawn.size, n_columns, drawn.size, float(h.sum()), float(h @ h)):
        return weighed
    kept, h, *_ = weigh(rows, np.ones(rows.size))
    places, scale = sample_by_weight(h, most, rng)
    return weigh(kept[places], scale)


def _strata(r: Array) -> tuple[Places, int]:
    """Return the rows of positive density, those strictly between its bounds first, and how many these are."""
    if r.size <= threads.BLOCK:
        return passes.few_strata(r)  # type: ignore[no-any-return]
    counts = np.empty((threads.count_blocks(r.size, threads.BLOCK), 2), dtype=np.intp)
    threads.over_rows(passes.count_strata, r.size, 0.5, r, counts)
    ends = np.cumsum(counts, axis=0)
    n_tied, n_full = (int(end) for end in ends[-1])
    rows = np.empty(n_tied + n_full, dtype=np.intp)
    threads.over_rows(passes.fill_strata, r.size, 1.0, r, ends - counts + [0, n_tied], rows)
    return rows, n_tied


def _weigh(
    picked: Places, scale: Array, r: Array, slope: Array, curvatures: Array, u: Array, mu: float
) -> _Weighed:  # fmt: skip
    """Return the rows that have weight, their weights and pulls, and the mass of the tied: see ``passes.weigh``."""
    n = picked.size
    kept, (h, pulls) = np.empty(n, dtype=np.intp), np.empty((2, n))
    n_blocks = 1 if n <= threads.BLOCK else threads.count_blocks(n, threads.BLOCK)
    sums = np.empty((n_blocks, 2))
    threads.over_rows(passes.weigh, n, 4.0, picked, scale, r, slope, curvatures, u, mu, kept, h, pulls, sums)
    if n_blocks == 1:
        count = int(sums[0, 0])
        return kept[:count], h[:count], pulls[:count], float(sums[0, 1])
    starts = np.concatenate([[0], np.cumsum(sums[:, 0].astype(np.intp))])
    count = int(starts[-1])
    if count < n:
        gaps = kept, h, pulls
        kept, (h, pulls) = np.empty(count, dtype=np.intp), np.empty((2, count))
        threads.over_rows(passes.close_gaps, n, 1.0, starts, *gaps, kept, h, pulls)
    return kept, h, pulls, float(np.add.reduce(sums[:, 1]))


def gram(features: Features, picked: Places, h: Array) -> Array:
    """Return ``sum(h_i x_i x_i^T)`` over the picked rows, by products ``B^T B``, which BLAS does half of."""
    d, n = features.n_columns, picked.size
    if n <= GRAM_BLOCK and not features.is_sparse:
        scaled = np.empty((n, d))
        passes.scale_rows(features.X, picked, h, scaled)
        return np.asarray(scaled.T @ scaled)
    size = GRAM_BLOCK * max(_APART, -(-n // (GRAM_BLOCK * _MOST_PARTS)), -(-4 * d // GRAM_BLOCK))
    n_parts = threads.count_blocks(n, size)
    if features.is_sparse:
        squares = features.entries_per_row**2 + 1.0
        if n * squares < 4.0 * n_parts * d * d:  # so few entries that several sums would cost more than they save
            size, n_parts = max(n, 1), 1
        parts = np.empty((n_parts, d, d))
        threads.run(passes.sparse_gram, n_parts, n * squares, size, features.readable, picked, h, features.d, parts)
    else:
        plain = n == features.n_rows > GRAM_BLOCK and features.X.dtype == h.dtype and h.min() == h.max()
        parts = np.zeros((n_parts, d, d))
        add_grams = _add_plain_grams if plain else _add_grams
        threads.run(add_grams, n_parts, 0.05 * n * d * d, size, features, picked, h, parts)
        if plain:
            parts *= h[0]
    return threads.add_up(parts.reshape(n_parts, d * d)).reshape(d, d)


def _add_grams(first: int, last: int, size: int, features: Features, picked: Places, h: Array, parts: Array) -> None:
    scaled = np.empty((min(GRAM_BLOCK, picked.size), features.n_columns))
    for part in range(first, last):
        end = min((part + 1) * size, picked.size)
        for begin in range(part * size, end, GRAM_BLOCK):
            some = slice(begin, min(begin + GRAM_BLOCK, end))
            block = scaled[: some.stop - begin]
            passes.scale_rows(features.X, picked[some], h[some], block)
            parts[part] += block.T @ block


def _add_plain_grams(
    first: int, last: int, size: int, features: Features, _picked: Places, _h: Array, parts: Array
) -> None:  # fmt: skip
    """Do the same where all rows count and are alike, as in ridge regression: without a scaled copy."""
    d, ones = features.d, np.ones(GRAM_BLOCK)
    for part in range(first, last):
        H, end = parts[part], min((part + 1) * size, features.n_rows)
        for begin in range(part * size, end, GRAM_BLOCK):
            block = features.X[begin : min(begin + GRAM_BLOCK, end)]
            H[:d, :d] += block.T @ block
            H[d:, :d] += ones[: len(block)] @ block
            H[d:, d:] += len(block)
        H[:d, d:] = H[d:, :d].T


def packed_gram(features: Features, picked: Places, h: Array) -> PackedSymmetric:
    """Return ``sum(h_i x_i x_i^T)`` over the picked rows of an array, for many columns."""
    total = PackedSymmetric(features.n_columns)
    size = min(max(picked.size // 8, _SMALL_BLOCK), GRAM_BLOCK)
    scaled = np.empty((min(size, picked.size), features.n_columns))
    for begin in range(0, picked.size, size):
        part = slice(begin, begin + size)
        block = scaled[: picked.size - begin]
        passes.scale_rows(features.X, picked[part], h[part], block)
        total.add_gram(block)
    return total


def operator(features: Features, picked: Places, h: Array) -> tuple[Any, Array]:
    """Return the function v -> H v, one pass over the picked rows, and the diagonal of H."""
    if 2 * picked.size < features.n_rows:  # conjugate gradients pass over them many times: worth a copy
        features, picked = Features(features.take(picked), features.has_ones), np.arange(picked.size)
    diagonal = features.column_squares(picked, h)

    def product(v: Array) -> Array:
        return features.gram_product(picked, h, v[: features.d], float(v[-1]) if features.has_ones else 0.0)

    return product, diagonal
