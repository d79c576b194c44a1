"""What is asked of a chunk: every question is answered by a chunk alone, and the answers of all add up.

Each has a ``name``, which tasks carry, and says by ``reads`` whether it needs the features; vectors are named by their
tokens. Symbols as in :mod:`atklearn.core.point`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from atklearn.chunked.chunk import BetweenChunks, Chunk, Extremes, Picked, Sight, Sums, Together, View, settle
from atklearn.core.point import Form
from atklearn.core.ranking import Between
from atklearn.losses.individual import Array
from atklearn.runtime import threads
from atklearn.stores import compiled, passes
from atklearn.stores.compiled import Features, Losses, Paying, Places

__all__ = [
    "Curving", "Fetch", "GramProduct", "Losing", "Pull", "Question", "Settle", "Size", "Slack", "Standing", "Top",
    "Values", "Weigh",
]  # fmt: skip


@dataclass(frozen=True)
class Standing:
    """Where rows stand: predictions, and densities, which are given or those of losses smoothed around a centre."""

    view: View
    k: float
    f: int
    centre: int
    mu: float = 1.0
    threshold: float = 0.0
    density: int | None = None

    def losses(self, chunk: Chunk) -> tuple[Array, Losses, Paying]:
        """Return ``u``, and all that is known of the losses, densities and pulls included."""
        u, losses, paid = self.expanded(chunk)
        if self.density is None:
            centre = chunk.vector(self.centre)
            settle(losses, centre, u, self.mu, self.threshold, paid.kink.is_two_sided, losses.f)
        else:
            losses.r[:] = chunk.vector(self.density)
            np.multiply(u, losses.r, out=losses.a)
            losses.a *= losses.slope
        return u, losses, paid

    def expanded(self, chunk: Chunk, t: float = 0.0, along: int | None = None) -> tuple[Array, Losses, Paying]:
        """Return ``u`` and the losses, here or at a distance along other predictions; no densities yet."""
        f = chunk.vector(self.f)
        (u, losses), paid = chunk.losses(self.view, self.k), chunk.paid(self.view)
        paid.expand(f, t, f if along is None else chunk.vector(along), losses)
        return u, losses, paid


class Question(Protocol):
    """What can be asked."""

    name: ClassVar[str]
    reads: ClassVar[bool]

    @property
    def sight(self) -> Sight:
        """What it is about."""

    def answer(self, chunk: Chunk) -> Any:
        """Return the answer of one chunk, which has rows."""


class _AtOne:
    """A question about rows that stand somewhere."""

    at: Standing

    @property
    def sight(self) -> Sight:
        """What it is about."""
        return self.at.view.sight


class _OfView:
    """A question about rows as a problem sees them."""

    view: View

    @property
    def sight(self) -> Sight:
        """What it is about."""
        return self.view.sight


@dataclass(frozen=True)
class Settle(_AtOne):
    """What the losses say at a threshold, here or along a ray: the sums that make a reading."""

    name: ClassVar[str] = "threshold"
    reads: ClassVar[bool] = False
    at: Standing
    threshold: float
    t: float = 0.0
    along: int | None = None

    def answer(self, chunk: Chunk) -> Sums:
        """Return the sums, and the range of the predictions."""
        u, losses, paid = self.at.expanded(chunk, self.t, self.along)
        along = losses.f if self.along is None else chunk.vector(self.along)
        two_sided, centre = paid.kink.is_two_sided, chunk.vector(self.at.centre)
        sums = settle(losses, centre, u, self.at.mu, self.threshold, two_sided, along)
        return Sums(sums=sums, reach=Extremes(*threads.extremes(losses.f)))


@dataclass(frozen=True)
class Top(_AtOne):
    """The threshold above which every density is zero."""

    name: ClassVar[str] = "top"
    reads: ClassVar[bool] = False
    at: Standing
    t: float = 0.0
    along: int | None = None

    def answer(self, chunk: Chunk) -> Sums:
        """Return it as the larger of two extremes."""
        _, losses, paid = self.at.expanded(chunk, self.t, self.along)
        tops = np.empty(threads.count_blocks(losses.s.size, threads.BLOCK))
        arguments = losses.s, chunk.vector(self.at.centre), self.at.mu, paid.kink.is_two_sided, tops
        threads.over_rows(passes.top_blocks, losses.s.size, 1.0, *arguments)
        return Sums(top=Extremes(0.0, float(tops.max())))


@dataclass(frozen=True)
class Curving:
    """Which curvature goes along with a gradient."""

    form: Form
    cautious: bool
    share: float | None  # of the rows that may go in, of either kind; None for all
    seed: int

    _FEWEST: ClassVar[int] = 64

    def is_like(self, other: Curving | None) -> bool:
        """Say whether another one is the same but for chance."""
        return other is not None and replace(self, seed=0) == replace(other, seed=0)

    def rows(
        self, n_columns: int, u: Array, losses: Losses, paid: Paying, mu: float
    ) -> tuple[Places, Array, Array, float, bool]:  # fmt: skip
        """Return the rows of a chunk that go in: see :func:`atklearn.stores.compiled.weighted_rows`."""
        most = None if self.share is None else max(int(np.ceil(self.share * losses.f.size)), self._FEWEST)
        return compiled.weighted_rows(paid, losses, u, mu, n_columns, cautious=self.cautious, most=most, seed=self.seed)

    def of(self, features: Features, u: Array, losses: Losses, paid: Paying, mu: float) -> Sums:
        """Return the sums that make a generalised Hessian."""
        picked, h, pulls, tied, is_sampled = self.rows(features.n_columns, u, losses, paid, mu)
        sums = Sums(pulls=features.pull_back_rows(picked, pulls), tied=tied, sampled=int(is_sampled))
        if self.form == "matrix":
            sums["matrix"] = compiled.gram_matrix(features, picked, h)
        elif self.form == "packed":
            sums["packed"] = compiled.packed_gram(features, picked, h).numbers
        else:
            sums["diagonal"] = features.column_squares(picked, h)
        return sums


@dataclass(frozen=True)
class Pull:
    """Gradients from one pass, with curvatures if wanted."""

    name: ClassVar[str] = "gradient"
    reads: ClassVar[bool] = True
    at: tuple[Standing, ...]
    curving: Curving | None = None
    gradient: bool = True

    @property
    def sight(self) -> Sight:
        """What it is about."""
        return self.at[0].view.sight

    def answer(self, chunk: Chunk) -> Sums:
        """Return a sum for every standing."""
        matrix = chunk.matrix(self.at[0].view)
        stand = [at.losses(chunk) for at in self.at]
        pulled = [Sums() for _ in stand]
        if self.gradient:
            pulled = [
                Sums(gradient=gradient) for gradient in matrix.pull_back_all([losses.a for _, losses, _ in stand])
            ]
        if self.curving is not None:
            for sums, at, (u, losses, paid) in zip(pulled, self.at, stand, strict=True):
                sums["curvature"] = self.curving.of(matrix, u, losses, paid, at.mu)
        return Sums(pulled=Together(pulled))


@dataclass(frozen=True)
class GramProduct(_AtOne):
    """The curvature times a vector."""

    name: ClassVar[str] = "hessian-product"
    reads: ClassVar[bool] = True
    at: Standing
    curving: Curving
    v: Array

    def answer(self, chunk: Chunk) -> Sums:
        """Return ``X^T diag(h) X v``."""
        matrix = chunk.matrix(self.at.view)
        u, losses, paid = self.at.losses(chunk)
        picked, h, *_ = self.curving.rows(matrix.n_columns, u, losses, paid, self.at.mu)
        return Sums(product=matrix.gram_product(picked, h, *matrix.split(self.v)))


@dataclass(frozen=True)
class Weigh(_AtOne):
    """How hard the samples pull up and down, and the mass of either side: what makes densities feasible."""

    name: ClassVar[str] = "balance"
    reads: ClassVar[bool] = False
    at: Standing

    def answer(self, chunk: Chunk) -> Sums:
        """Return the sums of :class:`atklearn.core.point.Sides`."""
        u, losses, _ = self.at.losses(chunk)
        sums = threads.block_sums(passes.weigh_sides, 5, u.size, 1.0, u, losses.r, losses.slope)
        return Sums(sides=sums)


@dataclass(frozen=True)
class Slack(_AtOne):
    """What feasible densities prove, of losses computed anew: the sums of :class:`atklearn.core.point.Bound`."""

    name: ClassVar[str] = "certificate"
    reads: ClassVar[bool] = False
    at: Standing
    fresh: int
    density: int
    threshold: float

    def answer(self, chunk: Chunk) -> Sums:
        """Return the sums."""
        u, then, _ = self.at.expanded(chunk)
        r, f = chunk.vector(self.density), chunk.vector(self.fresh)
        (_, now), paid = chunk.losses(self.at.view, self.at.k), chunk.paid(self.at.view)
        paid.expand(f, 0.0, f, now)
        sums = threads.block_sums(
            passes.bound_blocks, 4, f.size, 2.0, now.s, now.f, then.s, then.slope, then.f, r, u, self.threshold,
            paid.kink.is_two_sided,
        )  # fmt: skip
        return Sums(sums=sums)


@dataclass(frozen=True)
class Losing(_OfView):
    """The losses inside a bracket, all of them if these are few, else some; what is above it only in sum."""

    name: ClassVar[str] = "ranking"
    reads: ClassVar[bool] = False
    view: View
    f: int
    low: float
    high: float
    share: float  # of the losses inside, that may be told
    by_count: bool = False
    without: int | None = None  # densities; only rows where these are zero are meant

    _FEWEST: ClassVar[int] = 16

    def answer(self, chunk: Chunk) -> Sums:
        """Return the amounts above and inside, and losses inside with what they stand for."""
        losses, amounts = _losses(chunk, self.view, self.f), chunk.targets(self.view.sight)[1]
        if self.without is not None:
            others = chunk.vector(self.without) == 0.0
            losses, amounts = losses[others], amounts[others]
        if self.by_count:
            amounts = np.ones(losses.size)
        seen = Between.of(losses, amounts, self.low, self.high, self.share, fewest=self._FEWEST)
        return Sums(between=BetweenChunks((seen,), ((chunk.index, seen.count),)))


@dataclass(frozen=True)
class Fetch(_OfView):
    """The rows with the largest losses: all above a value, and so many of those that are equal to it."""

    name: ClassVar[str] = "working-set"
    reads: ClassVar[bool] = True
    view: View
    f: int
    above: float
    ties: dict[int, int]  # by chunk
    without: int | None = None

    def answer(self, chunk: Chunk) -> Picked:
        """Return ids, features, targets and mass."""
        losses = _losses(chunk, self.view, self.f)
        if self.without is not None:
            losses = np.where(chunk.vector(self.without) == 0.0, losses, -np.inf)
        equal = np.flatnonzero(losses == self.above)[: self.ties.get(chunk.index, 0)]
        return _pick(chunk, self.view.sight, np.sort(np.append(np.flatnonzero(losses > self.above), equal)))


def _losses(chunk: Chunk, view: View, f: int) -> Array:
    """Return the losses of all rows at given predictions."""
    predictions = chunk.vector(f)
    (_, losses), paid = chunk.losses(view, 1.0), chunk.paid(view)
    paid.expand(predictions, 0.0, predictions, losses)
    return np.asarray(paid.kink.loss(losses.s))


def _pick(chunk: Chunk, sight: Sight, places: Places) -> Picked:
    """Return some rows of a chunk."""
    if places.size == 0:
        return Picked()
    y, mass = chunk.targets(sight)
    return Picked(((chunk.ids(sight)[places], chunk.features(sight)[places], y[places], mass[places]),))


@dataclass(frozen=True)
class Values(_OfView):
    """A vector itself, to be looked at elsewhere; or the sample weights ``mass / k |r|`` that go with densities."""

    name: ClassVar[str] = "values"
    reads: ClassVar[bool] = False
    view: View
    vector: int
    k: float | None = None

    def answer(self, chunk: Chunk) -> Picked:
        """Return the numbers with the ids of their rows."""
        values = chunk.vector(self.vector)
        if self.k is not None:
            values = chunk.targets(self.view.sight)[1] / self.k * np.abs(values)
        return Picked(((chunk.ids(self.view.sight), values),))


@dataclass(frozen=True)
class Size(_OfView):
    """The mass of densities."""

    name: ClassVar[str] = "mass"
    reads: ClassVar[bool] = False
    view: View
    density: int

    def answer(self, chunk: Chunk) -> Sums:
        """Return ``sum(mass |r|)``."""
        _, mass = chunk.targets(self.view.sight)
        return Sums(size=float(mass @ np.abs(chunk.vector(self.density))))
