"""Rows in memory, dense or CSR, with every pass over them compiled; they answer as the plain store does.

:class:`Features` cuts passes over X into blocks, :class:`Paying` those over the losses; then the weighted Gram matrix
(which rows go in, their weights, the matrix or its products), and the store. What is written in place belongs to a
:class:`Workspace`: a state borrows its arrays there, and gives them back when nobody holds it any more.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from atklearn.core.coordinates import Rotation, Units, convert, even_units, helpful_units, is_worth_rotating, rotate
from atklearn.core.packed import PackedSymmetric
from atklearn.core.point import Bound, Form, Gram, Proof, Reading, SettledSums, Sides
from atklearn.core.ranking import Between
from atklearn.core.store import ArrayStore, Expanded, Subset, spread_places
from atklearn.losses.aggregate import rank_of
from atklearn.losses.compiled import compiled
from atklearn.losses.individual import Array, IndividualLoss, Kink
from atklearn.runtime import threads
from atklearn.stores import passes
from atklearn.stores.ascent import CompiledAscent
from atklearn.stores.passes import readable

__all__ = [
    "CompiledRows",
    "CompiledState",
    "Features",
    "Losses",
    "Paying",
    "Places",
    "gram_matrix",
    "largest_places",
    "operator",
    "packed_gram",
    "sample_by_weight",
    "sample_runs",
    "tell_enough",
    "weighted_rows",
]

Places: TypeAlias = npt.NDArray[np.intp]

# Neighbouring rows drawn together.
_RUN = 8
# Rows drawn alike are good enough if at least this part of them carries the weight, or so many for every column.
_EVEN = 0.3
_FOR_A_COLUMN = 100


def tell_enough(n_drawn: int, n_columns: int, count: int, weight: float, square: float) -> bool:
    """Say whether rows drawn alike tell a weighted sum well.

    Parameters
    ----------
    n_drawn, n_columns : int
        How many are drawn, and how many numbers each has.
    count : int
    weight, square : float
        Sums of so many weights, and of their squares.

    Examples
    --------
    >>> tell_enough(100, 2, 4, 4.0, 4.0), tell_enough(100, 2, 4, 4.0, 16.0)  # 1 + 1 + 1 + 1, and 4 + 0 + 0 + 0
    (True, False)
    """
    return weight * weight * n_drawn >= min(_EVEN * n_drawn, _FOR_A_COLUMN * n_columns) * count * square


def sample_runs(rows: Places, most: int, rng: np.random.Generator) -> Places:
    """Draw ``most`` of the rows: short runs, one from each of as many equal parts; random, yet quick to read."""
    runs = most // _RUN
    starts = ((np.arange(runs) + rng.random(runs)) * ((rows.size - _RUN) / runs)).astype(np.intp)
    return np.asarray(rows[(starts[:, None] + np.arange(_RUN)).ravel()])


def sample_by_weight(weights: Array, most: int, rng: np.random.Generator) -> tuple[Places, Array]:
    """Draw ``most`` places, each as often as it weighs; return them, sorted, and how many places each stands for.

    Examples
    --------
    >>> places, scale = sample_by_weight(np.array([0.0, 2.0, 0.0, 6.0]), 4, np.random.default_rng(0))
    >>> places, scale
    (array([1, 3, 3, 3]), array([1.        , 0.33333333, 0.33333333, 0.33333333]))
    """
    ends = np.cumsum(weights)
    step = float(ends[-1]) / most
    if step == 0.0:  # nothing has weight
        return np.zeros(0, dtype=np.intp), np.zeros(0)
    # one from each of as many equal parts of the weight
    places = np.searchsorted(ends, (np.arange(most) + rng.random(most)) * step, side="right")
    places = np.minimum(places, np.flatnonzero(weights)[-1])  # rounding may reach beyond the last that has weight
    return places, step / weights[places]


def largest_places(losses: Array, count: int) -> Places:
    """Return the sorted places of the largest losses."""
    count = min(max(count, 1), losses.size)
    return np.sort(np.argpartition(losses, losses.size - count)[losses.size - count :])


# Entries in a block; and how many blocks there are at most, each with a sum for every column.
ENTRIES = 1 << 17
_MOST_BLOCKS = 256
_ENTRY_COST = 0.5  # nanoseconds


class Features:
    """A matrix in memory, with a column of ones that is never stored, or without.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (n_rows, d)
    has_ones : bool
        Whether there is a column of ones, the last.
    """

    def __init__(self, X: Any, has_ones: bool) -> None:
        self.X = X
        self.has_ones = has_ones
        self.readable = readable(X)
        self.is_sparse = bool(sp.issparse(X))
        self.n_rows, self.d = (int(size) for size in X.shape)
        self.n_columns = self.d + has_ones
        n_entries = X.nnz if self.is_sparse else X.size
        self.entries_per_row = n_entries / max(self.n_rows, 1)
        # A block has many enough entries for its sums, one per column, to be few beside them.
        least = max(ENTRIES, 4 * self.d, n_entries // _MOST_BLOCKS)
        self.block = max(int(least / max(self.entries_per_row, 1.0)), 1)

    def split(self, z: Array) -> tuple[Array, float]:
        """Return the weights of the features and the intercept."""
        return (z[:-1], float(z[-1])) if self.has_ones else (z, 0.0)

    def over(self, work: Callable[..., Any], n: int, *arguments: Any) -> None:
        """Do work on n rows, block by block: see :func:`atklearn.runtime.threads.run`."""
        if n <= self.block:
            work(0, 1, self.block, *arguments)
            return
        cost = _ENTRY_COST * n * self.entries_per_row
        threads.run(work, threads.count_blocks(n, self.block), cost, self.block, *arguments)

    def sums(self, work: Callable[..., Any], n: int, *arguments: Any, n_sums: int | None = None) -> Array:
        """Return what work on n rows, block by block, sums up: for every column, if nothing else is said."""
        if n <= self.block:
            sums = np.empty((1, n_sums or self.n_columns))
            work(0, 1, self.block, *arguments, sums)
            return np.asarray(sums[0])
        sums = np.empty((threads.count_blocks(n, self.block), n_sums or self.n_columns))
        self.over(work, n, *arguments, sums)
        return threads.add_up(sums)

    def take(self, places: Places) -> Any:
        """Return a copy of some rows."""
        if self.is_sparse:
            return self.X[places]
        out = np.empty((places.size, self.d), dtype=self.X.dtype)
        self.over(passes.copy_rows, places.size, self.X, places, out)
        return out

    def predict(self, w: Array, bias: float, out: Array) -> Array:
        """Fill ``out`` with ``X w + bias``."""
        self.over(passes.predict, self.n_rows, self.readable, w, bias, out)
        return out

    def pull_back(self, a: Array) -> Array:
        """Return ``X^T a``."""
        return self.sums(passes.pull_back, self.n_rows, self.readable, a, self.d)

    def pull_back_all(self, vectors: Sequence[Array]) -> list[Array]:
        """Return ``X^T a`` for several vectors, from one pass over X."""
        if len(vectors) == 1:
            return [self.pull_back(vectors[0])]
        n_sums = len(vectors) * self.n_columns
        sums = self.sums(passes.pull_back_all, self.n_rows, self.readable, np.array(vectors), self.d, n_sums=n_sums)
        return list(sums.reshape(len(vectors), self.n_columns))

    def pull_back_rows(self, rows: Places, a: Array) -> Array:
        """Return ``X^T a`` of some rows, ``a`` having one entry for each of these."""
        return self.sums(passes.pull_back_rows, rows.size, self.readable, rows, a, self.d)

    def gram_product(self, rows: Places, h: Array, w: Array, bias: float) -> Array:
        """Return ``sum(h_i (x_i . w + bias) x_i)`` over some rows."""
        return self.sums(passes.gram_product, rows.size, self.readable, rows, h, w, bias)

    def column_squares(self, rows: Places, h: Array) -> Array:
        """Return ``sum(h_i x_ij^2)`` over some rows, for every column."""
        return self.sums(passes.column_squares, rows.size, self.readable, rows, h, self.d)

    def largest_entries(self) -> Array:
        """Return the largest ``|x|`` of every column, the column of ones included."""
        sizes = np.empty((threads.count_blocks(self.n_rows, self.block), self.n_columns))
        self.over(passes.largest_entries, self.n_rows, self.readable, self.n_rows, self.d, sizes)
        return np.asarray(sizes.max(axis=0))

    def weighted_squares(self, mass: Array) -> float:
        """Return ``sum(mass_i |x_i|^2)``, without the column of ones."""
        return float(self.sums(passes.weighted_squares, self.n_rows, self.readable, mass, n_sums=1)[0])


# Predictions whose losses a loss without compiled code expands at once, so that its temporaries stay in the cache.
_BLOCK = 8192


class Losses:
    """What is known at one z: predictions, smooth parts and their slopes, densities and pulls ``a = u r s'``."""

    __slots__ = ("a", "f", "r", "s", "slope")

    def __init__(self, n_rows: int, numbers: Array | None = None) -> None:
        numbers = np.empty((5, n_rows)) if numbers is None else numbers
        self.f: Array = numbers[0]
        self.s: Array = numbers[1]
        self.slope: Array = numbers[2]
        self.r: Array = numbers[3]
        self.a: Array = numbers[4]


class Paying:
    """Targets and the loss they pay, without the features.

    Parameters
    ----------
    loss : IndividualLoss
    y : ndarray of shape (n_rows,)
    """

    def __init__(self, loss: IndividualLoss, y: Array) -> None:
        self.loss, self.y = loss, y
        self.kink = Kink(loss.kink)
        self.compiled_loss = compiled(loss)

    def expand(self, start: Array, t: float, direction: Array, into: Losses) -> None:
        """Fill in predictions ``start + t * direction``, ``s`` and its slope."""
        if self.compiled_loss is not None:
            arguments = self.compiled_loss, start, t, direction, self.y, into.f, into.s, into.slope
            threads.over_rows(passes.expand_along, self.y.size, 3.0, *arguments)
            return
        into.f[:] = start + t * direction
        for begin in range(0, self.y.size, _BLOCK):
            part = slice(begin, begin + _BLOCK)
            into.s[part], into.slope[part], _ = self.loss.expand(into.f[part], self.y[part])

    def curvatures(self, at: Losses, rows: Places, *, cautious: bool) -> Array:
        """Return the second derivatives of ``s`` for some rows: see :meth:`atklearn.core.point.Point.curvature`."""
        if self.compiled_loss is None:
            out = np.asarray(self.loss.expand(at.f[rows], self.y[rows])[2], dtype=np.float64)
        else:
            out = np.empty(rows.size)
            threads.over_rows(passes.curvatures, rows.size, 3.0, self.compiled_loss, at.f, self.y, rows, out)
        if cautious and self.kink is Kink.NONE:
            out = np.maximum(out, at.slope[rows] ** 2 / np.maximum(2.0 * at.s[rows], 1e-300))
        return out


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


def gram_matrix(features: Features, picked: Places, h: Array) -> Array:
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


# With more columns than this, what counts is that BLAS does half of a Hessian only.
_FEW_COLUMNS = 64
# From here on, a pass over X costs more than to look whether it is needed.
_MANY_ROWS = 10_000


class CompiledRows(ArrayStore):
    """Samples in memory.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (n_rows, n_features)
        An array is C-ordered, of float32 or float64; every sum is accumulated in float64.
    y : ndarray of shape (n_rows,)
        Targets; -1 and +1 for classification losses.
    mass : ndarray of shape (n_rows,)
        Sample weights > 0.
    loss : IndividualLoss
    intercept : bool
        Whether there is a column of ones, which is never stored; it is the last.
    """

    def __init__(
        self,
        X: Any,
        y: Array,
        mass: Array,
        loss: IndividualLoss,
        intercept: bool,
        rotations: dict[bool, Rotation | None] | None = None,
    ) -> None:
        self.X = X.astype(np.float64, copy=False) if sp.issparse(X) else X
        self.y = y
        self.mass = mass
        self.loss = loss
        self.n_rows, self.n_features = (int(size) for size in X.shape)
        self.n_columns = self.n_features + intercept
        self.ones = self.n_features if intercept else None
        self.total = float(mass.sum())
        self.max_subset_rows = self.n_rows
        least, most = threads.extremes(mass)
        self.each = least if least == most else None  # the mass of every row, if they are alike
        self.target_range = threads.extremes(y)
        self.paid = Paying(loss, y)
        self.compiled_loss = self.paid.compiled_loss
        self.two_sided = self.kink.is_two_sided
        self._workspace: weakref.ref[Workspace] | None = None
        self.features = Features(self.X, intercept)
        self.is_dense = not self.features.is_sparse
        self._conditioned: dict[bool, tuple[CompiledRows, Units | Rotation] | None] = {}
        self._rotations = {} if rotations is None else rotations  # shared by all rows of the same X
        # So small that several passes are made in one call: the calls cost more than the passes.
        is_short = self.n_rows <= GRAM_BLOCK and self.n_columns <= _FEW_COLUMNS
        self.is_small = is_short and self.is_dense and self.compiled_loss is not None

    # States

    @property
    def workspace(self) -> Workspace:
        """The arrays that states borrow, as long as there are states."""
        found = None if self._workspace is None else self._workspace()
        if found is None:
            found = Workspace(self.n_rows)
            self._workspace = weakref.ref(found)
        return found

    def stand(self, z: Array, k: float, density: Array | None) -> CompiledState:
        """Return the rows at z."""
        state = CompiledState(self.workspace, _Top(self.mass, k), density)
        if self.n_rows < _MANY_ROWS or z.any():
            self.predict_and_expand(z, state)
        else:  # where cold starts begin: no pass over X
            state.f.fill(0.0)
            self.paid.expand(state.f, 0.0, state.f, state)
        return state

    def predict_and_expand(self, z: Array, into: Any) -> None:
        """Fill in the predictions of z, ``s`` and its slope."""
        if self.is_small:
            passes.predict_and_expand(self.compiled_loss, self.X, *self.split(z), self.y, into.f, into.s, into.slope)
        else:
            self.paid.expand(self.features.predict(*self.split(z), into.f), 0.0, into.f, into)

    def smooth_parts(self, z: Array) -> Array:
        """Return ``s`` at z: the losses, but for the kink."""
        into = Losses(self.n_rows)
        self.predict_and_expand(z, into)
        return into.s

    def predict(self, direction: Array) -> Borrowed:
        """Return the predictions of a direction."""
        along = Borrowed(self.workspace)
        self.features.predict(*self.split(direction), along.f)
        return along

    def moved(self, state: CompiledState, t: float, along: Borrowed) -> CompiledState:
        """Return the rows at ``f + t along``."""
        there = state.like()
        self.paid.expand(state.f, t, along.f, there)
        return there

    def shifted(self, state: CompiledState, amount: float) -> CompiledState:
        """Return the rows at ``f + amount``: in the same arrays, which the state given loses."""
        threads.fill(state.f, np.add, state.f, amount)
        self.paid.expand(state.f, 0.0, state.f, state)
        return state

    def densities(self, state: CompiledState) -> Array:
        """Return the densities; nobody writes to them any more."""
        if state.density is None:
            if state.is_settled:
                state.density = threads.fill(np.empty(self.n_rows), np.positive, state.r)
            else:
                state.density = threads.fill(np.empty(self.n_rows), np.positive, self.alike(state.top.k))
        return state.density

    def prediction_range(self, state: CompiledState) -> tuple[float, float]:
        """Return the smallest and the largest prediction."""
        return threads.extremes(state.f)

    # Smoothing

    def settle(
        self, state: CompiledState, centre: Array, mu: float, lam: float, along: Borrowed | None
    ) -> tuple[SettledSums, CompiledState]:
        """Return the sums at a threshold; the state given has its densities."""
        way = state.f if along is None else along.f
        sums = threads.block_sums(
            passes.settle_blocks, passes.N_SUMS, self.n_rows, 4.0, state.s, state.slope, centre, state.top.u, mu,
            lam, self.two_sided, way, state.r, state.a,
        )  # fmt: skip
        return SettledSums(*sums.tolist()), state.settled()

    def top(self, state: CompiledState, centre: Array, mu: float) -> float:
        """Return the threshold above which every density is zero."""
        tops = np.empty(threads.count_blocks(self.n_rows, threads.BLOCK))
        threads.over_rows(passes.top_blocks, self.n_rows, 1.0, state.s, centre, mu, self.two_sided, tops)
        return float(tops.max())

    def smoothed(
        self, state: CompiledState, centre: Array, mu: float, guess: float, along: Borrowed | None = None
    ) -> tuple[Reading, CompiledState]:
        """Search in passes that sum up no more than the search asks for, of few rows in one call with the rest."""
        if self.n_rows > threads.BLOCK:
            lam = passes.find_threshold(state.s, centre, state.top.u, mu, guess, self.two_sided)
            sums, state = self.settle(state, centre, mu, lam, along)
            return Reading.of(lam, sums), state
        way = state.f if along is None else along.f
        reading = passes.settle_few(
            state.s, state.slope, centre, state.top.u, mu, guess, self.two_sided, way, state.r, state.a
        )
        return Reading(*reading), state.settled()

    def smoothed_along(
        self, state: CompiledState, t: float, along: Borrowed, centre: Array, mu: float, guess: float
    ) -> tuple[Reading, CompiledState]:
        """Move and smooth, in one call where the data are small."""
        if not self.is_small:
            return super().smoothed_along(state, t, along, centre, mu, guess)
        there = state.like()
        reading = passes.look(
            self.compiled_loss, state.f, t, along.f, self.y, there.f, there.s, there.slope, centre, state.top.u, mu,
            guess, self.two_sided, there.r, there.a,
        )  # fmt: skip
        return Reading(*reading), there.settled()

    # Derivatives

    def pull(self, state: CompiledState) -> Array:
        """Return ``X^T (u r s')``."""
        return self.features.pull_back(self._settled(state).a)

    def _settled(self, state: CompiledState) -> CompiledState:
        """Return the state with its densities and pulls written down, given ones, too."""
        if not state.is_settled:
            state.settle_for(self.densities(state))
        return state

    def gram(self, state: CompiledState, mu: float, *, form: Form, cautious: bool, most: int | None, seed: int) -> Gram:
        """Return the weighted Gram matrix, in one call where the data are small."""
        self._settled(state)
        if form == "matrix" and self.is_small and (most is None or self.n_rows <= most):
            H, pulls = np.empty((self.n_columns, self.n_columns)), np.empty(self.n_columns)
            tied = passes.hessian(
                self.compiled_loss, self.X, state.f, self.y, state.s, state.slope, state.r, state.top.u, mu,
                cautious and self.kink is Kink.NONE, H, pulls,
            )  # fmt: skip
            return Gram(pulls, tied, is_sampled=False, matrix=H)
        picked, h, pulls_of_rows, tied, is_sampled = weighted_rows(
            self.paid, state, state.top.u, mu, self.n_columns, cautious=cautious, most=most, seed=seed
        )
        gram = Gram(self.features.pull_back_rows(picked, pulls_of_rows), tied, is_sampled)
        if form == "product":
            product, diagonal = operator(self.features, picked, h)
            return gram._replace(product=product, diagonal=diagonal)
        if form == "packed":
            return gram._replace(packed=packed_gram(self.features, picked, h))
        return gram._replace(matrix=gram_matrix(self.features, picked, h))

    # Numbers of rows

    def expand_at(self, z: Array) -> Expanded:
        """Return the losses at z with their derivatives."""
        into = Losses(self.n_rows)
        self.predict_and_expand(z, into)
        return Expanded(into.s, into.slope, self.paid.curvatures(into, np.arange(self.n_rows), cautious=False))

    def predictions(self, direction: Array) -> Array:
        """Return ``X direction``."""
        return self.features.predict(*self.split(direction), np.empty(self.n_rows))

    def pull_of(self, pulls: Array) -> Array:
        """Return ``X^T pulls``."""
        return self.features.pull_back(pulls)

    def gram_of(self, weights: Array) -> Array:
        """Return ``X^T diag(weights) X``, of the rows that have weight."""
        places = np.flatnonzero(weights)
        return gram_matrix(self.features, places, weights[places])

    # Proof

    def prove_at_once(
        self, state: CompiledState, z: Array, k: float, is_fresh: bool, balanced: bool
    ) -> Proof | None:  # fmt: skip
        """Prove in one call where the data are small and all rows have the same mass."""
        if not self.is_small or self.each is None:
            return None
        density = state.density if state.density is not None else self._settled(state).r
        r, gradient = np.empty(self.n_rows), np.empty(self.n_columns)
        value, threshold, slack, steepness, pull = passes.prove(
            self.compiled_loss, self.X, *self.split(z), self.y, state.top.u, rank_of(k / self.each, self.n_rows),
            balanced, state.f, state.s, state.slope, is_fresh, density, r, gradient,
        )  # fmt: skip
        return Proof(value, threshold, slack, gradient, r, steepness, pull)

    @cached_property
    def largest_entries(self) -> Array:
        """The largest ``|x|`` of every column, the column of ones included."""
        return self.features.largest_entries()

    def sides(self, state: CompiledState) -> Sides:
        """Return pulls and masses."""
        r = self._settled(state).r
        sums = threads.block_sums(passes.weigh_sides, 5, self.n_rows, 1.0, state.top.u, r, state.slope)
        return Sides(*sums.tolist())

    def scaled(self, state: CompiledState, up: float, down: float, level: float) -> CompiledState:
        """Return the state with other densities."""
        there = state.beside()
        threads.over_rows(
            passes.scale_sides, self.n_rows, 1.5, state.top.u, state.r, state.slope, up, down, level, there.r,
            there.a,
        )  # fmt: skip
        return there

    def bound(self, exact: CompiledState, feasible: CompiledState, lam: float) -> Bound:
        """Return the sums over all rows."""
        sums = threads.block_sums(
            passes.bound_blocks, 6, self.n_rows, 2.0, exact.s, exact.f, feasible.s, feasible.slope, feasible.f,
            feasible.r, feasible.top.u, lam, self.two_sided,
        )  # fmt: skip
        return Bound(*sums.tolist())

    def least(self, state: CompiledState) -> float:
        """Return the smallest loss."""
        if self.two_sided:
            return float(np.abs(state.s).min())
        least = threads.extremes(state.s)[0]
        return max(least, 0.0) if self.kink is Kink.POSITIVE_PART else least

    def between(self, state: CompiledState, low: float, high: float, share: float, by_count: bool) -> Between:
        """Return what the losses say of an interval: at first a few of all, then what is inside."""
        amounts = None if by_count else self.mass
        n, s = self.n_rows, state.s
        if low == -np.inf and high == np.inf:
            step = max(int(1.0 / share), 1)
            losses = s[::step]
            losses = np.abs(losses) if self.two_sided else losses
            total = float(n) if by_count else self.total
            weights = np.full(losses.size, total / losses.size) if step > 1 or amounts is None else amounts
            least, most = threads.extremes(losses) if step == 1 else (-np.inf, np.inf)
            return Between(0.0, total, n, losses, weights, step > 1, least, most)
        n_blocks = threads.count_blocks(n, threads.BLOCK)
        counts, sums = np.empty((n_blocks, 2), dtype=np.intp), np.empty((n_blocks, 2))
        threads.over_rows(passes.count_between, n, 1.0, s, self.two_sided, low, high, self.mass, counts, sums)
        starts = np.concatenate([[0], np.cumsum(counts[:, 1])])
        losses, weights = np.empty((2, starts[-1]))
        threads.over_rows(passes.fill_between, n, 1.0, s, self.two_sided, low, high, self.mass, starts, losses, weights)
        if by_count:
            weights.fill(1.0)
        return Between.inside_of(float(np.add.reduce(counts if by_count else sums)[0]), losses, weights, share)

    # Parts, and other stores of the same rows

    def largest(self, state: CompiledState, count: int, beside: Any, above: float) -> Subset:
        """Return the rows with the largest losses."""
        losses = self.kink.loss(state.s).copy()
        if beside is None:
            return Subset(self, largest_places(losses, count))
        losses[beside.places] = -1.0
        count = min(count, int(np.count_nonzero(losses > above)))
        places = np.sort(np.concatenate([beside.places, largest_places(losses, count)])) if count else beside.places
        return Subset(self, places)

    def take(self, places: Places) -> CompiledRows:
        """Return some of the rows."""
        X = self.features.take(places)
        return CompiledRows(X, self.y[places], self.mass[places], self.loss, self.ones is not None)

    def lighter(self, places: Places, mass: Array) -> CompiledRows:
        """Return some of the rows with other mass; coordinates that are good enough for all are so for these."""
        rows = CompiledRows(self.features.take(places), self.y[places], mass, self.loss, self.ones is not None)
        rows._conditioned = {centred: None for centred, found in self._conditioned.items() if found is None}
        return rows

    def sample(self, count: int) -> CompiledRows:
        """Return one row from each of ``count`` equal parts, without shuffling all of them."""
        return self.take(spread_places(self.n_rows, count))

    def conditioned(self, *, centred: bool) -> tuple[CompiledRows, Units | Rotation] | None:
        """Return the same samples in better coordinates, or None if these are good enough."""
        if centred not in self._conditioned:
            units: Units | Rotation | None
            units = helpful_units(self.X, self.y, centred=centred, regression=self.loss.task == "regression")
            found: tuple[CompiledRows, Units | Rotation] | None = None
            rotation = self._rotation(units, centred)
            if rotation is not None:
                units = rotation.shifted(0.0 if units is None else units.shift)
                found = self._like(rotation.factor, self.y - units.shift, self.loss), units
            elif units is not None:
                found = self._like(*convert(self.X, self.y, units), self.loss), units
            self._conditioned[centred] = found
        return self._conditioned[centred]

    def in_even_units(self, *, centred: bool) -> tuple[CompiledRows, Units] | None:
        """Return the same samples with columns of one size."""
        units = even_units(self.X, self.y, centred=centred, regression=self.loss.task == "regression")
        return None if units is None else (self._like(*convert(self.X, self.y, units), self.loss), units)

    def _rotation(self, units: Units | None, centred: bool) -> Rotation | None:
        """Return the rotation into fewer columns, where that pays."""
        if not (self.is_dense and is_worth_rotating(self.n_rows, self.n_features)):
            return None
        if centred not in self._rotations:
            self._rotations[centred] = rotate(self.X, np.zeros(self.n_features) if units is None else units.centre)
        return self._rotations[centred]

    def paying(self, loss: IndividualLoss) -> CompiledRows:
        """Return the same samples with another loss."""
        return self._like(self.X, self.y, loss, self._rotations)

    def aiming_at(self, y: Array) -> CompiledRows:
        """Return the same samples with other targets."""
        return self._like(self.X, y, self.loss, self._rotations)

    def _like(
        self, X: Any, y: Array, loss: IndividualLoss, rotations: dict[bool, Rotation | None] | None = None
    ) -> CompiledRows:
        return CompiledRows(X, y, self.mass, loss, self.ones is not None, rotations)

    def mean_square(self) -> float:
        """Return the mean of ``|x|^2`` over the mass."""
        return self.features.weighted_squares(self.mass) / self.total + (self.ones is not None)

    def ascent(self, k: float, C: float, density: Array | None = None, *, balanced: bool) -> CompiledAscent | None:
        """Start a coordinate ascent on the dual, where there are losses and rows for it."""
        if not self.loss.linear or not self.is_dense:
            return None
        start = self.stand(np.zeros(self.n_columns), k, None)
        return CompiledAscent(
            self.X,
            start.s.copy(),
            start.slope.copy(),
            start.top.u,
            C,
            self.ones is not None,
            balanced,
            self.two_sided,
            density,
        )

    def holds(self, density: Array) -> bool:
        """Say whether densities are of as many rows."""
        return isinstance(density, np.ndarray) and density.shape == (self.n_rows,)

    def blend(self, terms: Sequence[tuple[float, Array]], k: float) -> Array:
        """Return a linear combination of densities, made feasible."""
        out = terms[0][0] * terms[0][1]
        for factor, density in terms[1:]:
            threads.over_rows(passes.add_scaled, self.n_rows, 1.0, factor, density, out)
        low = -1.0 if self.two_sided else 0.0
        size = float(threads.block_sums(passes.clip, 1, self.n_rows, 1.0, self.mass, low, out)[0])
        if size > k:
            out *= k / size
        return out

    def sample_weights(self, density: Array, k: float) -> Array:
        """Return ``u |r|``."""
        out = threads.fill(np.empty(self.n_rows), np.abs, density)
        threads.fill(out, np.multiply, out, self.mass)
        return threads.fill(out, np.divide, out, k)


class _Top:
    """How much mass is in the top, and ``u = mass / k``, computed when it is first needed."""

    def __init__(self, mass: Array, k: float) -> None:
        self.mass, self.k = mass, k

    @cached_property
    def u(self) -> Array:
        """Mass over k."""
        return threads.fill(np.empty(self.mass.size), np.divide, self.mass, self.k)


class Workspace:
    """Arrays of numbers per row that are written in place, and lent again as soon as they come back."""

    def __init__(self, n_rows: int) -> None:
        self.n_rows = n_rows
        self.of_states: list[tuple[Array, ...]] = []
        self.single: list[Array] = []


class Borrowed:
    """A number per row; the array goes back to its workspace when nobody holds this."""

    __slots__ = ("f", "workspace")

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.f: Array = workspace.single.pop() if workspace.single else np.empty(workspace.n_rows)

    def __del__(self) -> None:
        self.workspace.single.append(self.f)


class _Arrays:
    """Five numbers per row; the arrays go back to their workspace when nobody holds this."""

    __slots__ = ("arrays", "workspace")

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.arrays = workspace.of_states.pop() if workspace.of_states else tuple(np.empty((5, workspace.n_rows)))

    def __del__(self) -> None:
        self.workspace.of_states.append(self.arrays)


class CompiledState(Losses):
    """All rows at one z and one k: predictions ``f``, smooth parts ``s``, their slopes; densities ``r`` once settled.

    ``a`` are the pulls ``u r s'``. ``density`` are densities as they were given, or as they have been handed out.
    """

    __slots__ = ("borrowed", "density", "is_settled", "top")

    def __init__(self, workspace: Workspace, top: _Top, density: Array | None) -> None:
        self.borrowed: tuple[Any, ...] = (arrays := _Arrays(workspace),)
        self.f, self.s, self.slope, self.r, self.a = arrays.arrays
        self.top, self.density, self.is_settled = top, density, False

    def like(self) -> CompiledState:
        """Return a state of the same top, with nothing in it."""
        return CompiledState(self.borrowed[0].workspace, self.top, None)

    def beside(self) -> CompiledState:
        """Return a state at the same predictions, with densities and pulls of its own, to be filled."""
        other, pulls = object.__new__(CompiledState), Borrowed(self.borrowed[0].workspace)
        other.borrowed = (*self.borrowed, pulls)
        other.f, other.s, other.slope, other.top = self.f, self.s, self.slope, self.top
        other.r, other.a = np.empty(self.f.size), pulls.f
        other.density, other.is_settled = other.r, True
        return other

    def settled(self) -> CompiledState:
        """Return this state, whose densities have just been written."""
        self.density, self.is_settled = None, True
        return self

    def settle_for(self, density: Array) -> None:
        """Write down densities that were given, and their pulls."""
        threads.fill(self.r, np.positive, density)
        threads.fill(self.a, np.multiply, self.top.u, self.r)
        threads.fill(self.a, np.multiply, self.a, self.slope)
        self.is_settled = True
