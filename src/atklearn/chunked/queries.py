"""What is asked of chunks: each answers a query alone, and the answers of all add up.

A query has a ``name``, which tasks carry, and says by ``reads`` whether it needs the features; vectors are named by
their tokens. Symbols as in :mod:`atklearn.core.point`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array
from sklearn.utils.extmath import row_norms
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from atklearn.chunked.chunk import Block, Chunk, Rows, RowView, Values, settle
from atklearn.core.point import Form
from atklearn.core.ranking import Between
from atklearn.core.store import spread_places
from atklearn.encoding.encoded import check_mass, refuse_malformed, sum_of_squares
from atklearn.losses.individual import Array
from atklearn.runtime import threads
from atklearn.runtime.messages import refuse_extremes
from atklearn.selection.distribution import merged, row_marks
from atklearn.stores import compiled, passes
from atklearn.stores.compiled import Features, Losses, Paying, Places

__all__ = [
    "Answer",
    "Curvature",
    "DensityMass",
    "DrawByMark",
    "Extremes",
    "FetchRows",
    "FetchVector",
    "GramProduct",
    "LossesBetween",
    "Pieces",
    "ProofSums",
    "Pull",
    "Query",
    "Reach",
    "SideSums",
    "StateRef",
    "Summarize",
    "Sums",
    "ThresholdSums",
    "TopThreshold",
    "merged_pieces",
]  # fmt: skip

# What a chunk hands over at least, where only a share is asked for: losses of a bracket, and rows for a curvature.
_FEWEST_LOSSES = 16
_FEWEST_ROWS = 64
_NO_LABEL = "all"  # the only label of a regression


# Answers


class Sums(dict[Any, Any]):
    """Named amounts; the sum of two has the sums of equal names.

    Examples
    --------
    >>> Sums(count=1, total=2.0) + Sums(count=3)
    {'count': 4, 'total': 2.0}
    """

    def __add__(self, other: Sums) -> Sums:
        out = Sums(self)
        for name, amount in other.items():
            out[name] = out[name] + amount if name in out else amount
        return out


@dataclass(frozen=True)
class Extremes:
    """The smallest and the largest of numbers; those of two collections are added to those of both."""

    low: float
    high: float

    def __add__(self, other: Extremes) -> Extremes:
        return Extremes(min(self.low, other.low), max(self.high, other.high))

    @classmethod
    def of(cls, values: Values) -> Extremes:
        """Return those of an array, of none as of nothing."""
        return cls(float(values.min()), float(values.max())) if values.size else cls(np.inf, -np.inf)


@dataclass(frozen=True)
class Reach:
    """How far columns reach: the largest entry of each, and of its negative."""

    ends: Array  # of shape (2, n_features)

    def __add__(self, other: Reach) -> Reach:
        return Reach(np.maximum(self.ends, other.ends))

    @classmethod
    def of(cls, X: Rows) -> Reach:
        """Return the reach of the columns of a matrix."""
        if X.shape[0] == 0:
            return cls(np.full((2, X.shape[1]), -np.inf))
        ends = [end.toarray().ravel() if sp.issparse(end) else end for end in (X.max(axis=0), -X.min(axis=0))]
        return cls(np.array(ends, dtype=np.float64))


Pieces: TypeAlias = tuple[tuple[Rows, ...], ...]
"""Rows taken out of their chunks: from each chunk ids, ascending, and the columns that belong to them."""
Answer: TypeAlias = Sums | Pieces


def merged_pieces(pieces: Pieces) -> tuple[Rows, ...]:
    """Return the columns of all pieces, each as one array, in the order of the ids, which are the first.

    Examples
    --------
    >>> one, other = (np.array([4]), np.array([0.5])), (np.array([1, 2]), np.array([2.0, 3.0]))
    >>> merged_pieces((one, other))
    (array([1, 2, 4]), array([2. , 3. , 0.5]))
    """
    ids, *columns = (_stacked(list(parts)) for parts in zip(*pieces, strict=True))
    if np.all(ids[1:] >= ids[:-1]):
        return ids, *columns
    order = np.argsort(ids, kind="stable")
    return ids[order], *(column[order] for column in columns)


def _stacked(parts: list[Rows]) -> Rows:
    if len(parts) == 1:
        return parts[0]
    return sp.vstack(parts, format="csr") if any(map(sp.issparse, parts)) else np.concatenate(parts)


# Queries about the state of a solver


@dataclass(frozen=True)
class StateRef:
    """A state of the solver by the names of its vectors: predictions, and densities.

    Densities are given, or those of losses smoothed around a centre.
    """

    k: float
    f: int
    centre: int
    mu: float = 1.0
    threshold: float = 0.0
    density: int | None = None

    def losses(self, chunk: Chunk, view: RowView) -> tuple[Array, Losses, Paying]:
        """Return ``u``, and the losses with densities and pulls."""
        u, losses, paying = chunk.losses(view, self.k, chunk.vector(self.f))
        if self.density is None:
            centre = chunk.vector(self.centre)
            settle(losses, centre, u, self.mu, self.threshold, paying.kink.is_two_sided, losses.f)
        else:
            losses.r[:] = chunk.vector(self.density)
            np.multiply(u, losses.r, out=losses.a)
            losses.a *= losses.slope
        return u, losses, paying


@dataclass(frozen=True)
class Query(ABC):
    """What chunks can be asked about the rows of a view."""

    name: ClassVar[str]
    reads: ClassVar[bool] = False
    view: RowView

    @abstractmethod
    def answer(self, chunk: Chunk) -> Answer:
        """Return the answer of one chunk, which has rows."""


@dataclass(frozen=True)
class ThresholdSums(Query):
    """What the losses add up to at a threshold, here or along a ray: :class:`atklearn.core.point.SettledSums`."""

    name: ClassVar[str] = "threshold"
    at: StateRef
    threshold: float
    t: float = 0.0
    along: int | None = None

    def answer(self, chunk: Chunk) -> Sums:
        """Return the sums, and the range of the predictions."""
        along = None if self.along is None else chunk.vector(self.along)
        u, losses, paying = chunk.losses(self.view, self.at.k, chunk.vector(self.at.f), self.t, along)
        two_sided, centre = paying.kink.is_two_sided, chunk.vector(self.at.centre)
        sums = settle(losses, centre, u, self.at.mu, self.threshold, two_sided, losses.f if along is None else along)
        return Sums(sums=sums, range=Extremes(*threads.extremes(losses.f)))


@dataclass(frozen=True)
class TopThreshold(Query):
    """The threshold above which every density is zero, here or along a ray."""

    name: ClassVar[str] = "top"
    at: StateRef
    t: float = 0.0
    along: int | None = None

    def answer(self, chunk: Chunk) -> Sums:
        """Return it as the larger of two extremes."""
        along = None if self.along is None else chunk.vector(self.along)
        _, losses, paying = chunk.losses(self.view, self.at.k, chunk.vector(self.at.f), self.t, along)
        tops = np.empty(threads.count_blocks(losses.s.size, threads.BLOCK))
        arguments = losses.s, chunk.vector(self.at.centre), self.at.mu, paying.kink.is_two_sided, tops
        threads.over_rows(passes.top_blocks, losses.s.size, 1.0, *arguments)
        return Sums(top=Extremes(0.0, float(tops.max())))


@dataclass(frozen=True)
class Curvature:
    """Which curvature is wanted: see :meth:`atklearn.core.point.Point.curvature`."""

    form: Form
    cautious: bool
    share: float | None  # of the rows that may go in, of either kind; None for all
    seed: int

    def is_like(self, other: Curvature | None) -> bool:
        """Say whether another one differs by chance alone."""
        return other is not None and replace(self, seed=0) == replace(other, seed=0)

    def rows(
        self, n_columns: int, u: Array, losses: Losses, paying: Paying, mu: float
    ) -> tuple[Places, Array, Array, float, bool]:  # fmt: skip
        """Return the rows of a chunk that go in: see :func:`atklearn.stores.compiled.weighted_rows`."""
        most = None if self.share is None else max(int(np.ceil(self.share * losses.f.size)), _FEWEST_ROWS)
        return compiled.weighted_rows(
            paying, losses, u, mu, n_columns, cautious=self.cautious, most=most, seed=self.seed
        )  # fmt: skip

    def of(self, features: Features, u: Array, losses: Losses, paying: Paying, mu: float) -> Sums:
        """Return the sums that make a generalised Hessian."""
        picked, h, pulls, tied, is_sampled = self.rows(features.n_columns, u, losses, paying, mu)
        sums = Sums(pulls=features.pull_back_rows(picked, pulls), tied=tied, sampled=int(is_sampled))
        if self.form == "matrix":
            sums["matrix"] = compiled.gram_matrix(features, picked, h)
        elif self.form == "packed":
            sums["packed"] = compiled.packed_gram(features, picked, h).numbers
        else:
            sums["diagonal"] = features.column_squares(picked, h)
        return sums


@dataclass(frozen=True)
class Pull(Query):
    """Gradients of several states from one pass, with curvatures if wanted."""

    name: ClassVar[str] = "gradient"
    reads: ClassVar[bool] = True
    at: tuple[StateRef, ...]
    curvature: Curvature | None = None
    gradient: bool = True

    def answer(self, chunk: Chunk) -> Sums:
        """Return sums for the number of every state."""
        matrix = chunk.matrix(self.view)
        states = [at.losses(chunk, self.view) for at in self.at]
        answers = Sums({number: Sums() for number in range(len(states))})
        if self.gradient:
            gradients = matrix.pull_back_all([losses.a for _, losses, _ in states])
            chunk.refuse_spoiled(*gradients)
            for number, gradient in enumerate(gradients):
                answers[number]["gradient"] = gradient
        if self.curvature is not None:
            for number, (at, (u, losses, paying)) in enumerate(zip(self.at, states, strict=True)):
                answers[number]["curvature"] = sums = self.curvature.of(matrix, u, losses, paying, at.mu)
                chunk.refuse_spoiled(*(amount for amount in sums.values() if isinstance(amount, np.ndarray)))
        return answers


@dataclass(frozen=True)
class GramProduct(Query):
    """The curvature times a vector."""

    name: ClassVar[str] = "hessian-product"
    reads: ClassVar[bool] = True
    at: StateRef
    curvature: Curvature
    v: Array

    def answer(self, chunk: Chunk) -> Sums:
        """Return ``X^T diag(h) X v``."""
        matrix = chunk.matrix(self.view)
        u, losses, paying = self.at.losses(chunk, self.view)
        picked, h, *_ = self.curvature.rows(matrix.n_columns, u, losses, paying, self.at.mu)
        product = matrix.gram_product(picked, h, *matrix.split(self.v))
        chunk.refuse_spoiled(product)
        return Sums(product=product)


@dataclass(frozen=True)
class SideSums(Query):
    """How hard the samples pull up and down, and the mass of either side: :class:`atklearn.core.point.Sides`."""

    name: ClassVar[str] = "balance"
    at: StateRef

    def answer(self, chunk: Chunk) -> Sums:
        """Return the sums."""
        u, losses, _ = self.at.losses(chunk, self.view)
        return Sums(sides=threads.block_sums(passes.weigh_sides, 5, u.size, 1.0, u, losses.r, losses.slope))


@dataclass(frozen=True)
class ProofSums(Query):
    """What feasible densities prove, of losses computed anew: :class:`atklearn.core.point.Bound`."""

    name: ClassVar[str] = "certificate"
    at: StateRef
    fresh: int
    density: int
    threshold: float

    def answer(self, chunk: Chunk) -> Sums:
        """Return the sums."""
        u, then, paying = chunk.losses(self.view, self.at.k, chunk.vector(self.at.f))
        r, f = chunk.vector(self.density), chunk.vector(self.fresh)
        _, now, _ = chunk.losses(self.view, self.at.k, f)
        sums = threads.block_sums(
            passes.bound_blocks, 6, f.size, 2.0, now.s, now.f, then.s, then.slope, then.f, r, u, self.threshold,
            paying.kink.is_two_sided,
        )  # fmt: skip
        return Sums(sums=sums)


# Queries about vectors, and for rows


@dataclass(frozen=True)
class LossesBetween(Query):
    """What the losses say of an interval: :class:`atklearn.core.ranking.Between`."""

    name: ClassVar[str] = "ranking"
    f: int
    low: float
    high: float
    share: float  # of the losses inside that are handed over
    by_count: bool = False
    without: int | None = None  # densities; only rows where these are zero are meant

    def answer(self, chunk: Chunk) -> Sums:
        """Return it in a tuple, and how many losses of the chunk are inside."""
        losses, amounts = _losses(chunk, self.view, self.f), chunk.targets(self.view)[1]
        if self.without is not None:
            others = chunk.vector(self.without) == 0.0
            losses, amounts = losses[others], amounts[others]
        if self.by_count:
            amounts = np.ones(losses.size)
        seen = Between.of(losses, amounts, self.low, self.high, self.share, fewest=_FEWEST_LOSSES)
        return Sums(parts=(seen,), counts=Sums({chunk.index: seen.count}))


@dataclass(frozen=True)
class FetchRows(Query):
    """The rows with the largest losses: all above a value, and so many of those that are equal to it."""

    name: ClassVar[str] = "working-set"
    reads: ClassVar[bool] = True
    f: int
    above: float
    ties: dict[int, int]  # by chunk
    without: int | None = None

    def answer(self, chunk: Chunk) -> Pieces:
        """Return ids, features, targets and mass."""
        losses = _losses(chunk, self.view, self.f)
        if self.without is not None:
            losses = np.where(chunk.vector(self.without) == 0.0, losses, -np.inf)
        equal = np.flatnonzero(losses == self.above)[: self.ties.get(chunk.index, 0)]
        places = np.sort(np.append(np.flatnonzero(losses > self.above), equal))
        if places.size == 0:
            return ()
        y, mass = chunk.targets(self.view)
        return ((chunk.ids(self.view)[places], chunk.features(self.view)[places], y[places], mass[places]),)


def _losses(chunk: Chunk, view: RowView, f: int) -> Array:
    """Return the losses of all rows at given predictions."""
    _, losses, paying = chunk.losses(view, 1.0, chunk.vector(f))
    return np.asarray(paying.kink.loss(losses.s))


@dataclass(frozen=True)
class FetchVector(Query):
    """A vector itself; or the sample weights ``mass / k |r|`` that go with densities."""

    name: ClassVar[str] = "values"
    vector: int
    k: float | None = None

    def answer(self, chunk: Chunk) -> Pieces:
        """Return the ids of the rows, and the numbers."""
        values = chunk.vector(self.vector)
        if self.k is not None:
            values = chunk.targets(self.view)[1] / self.k * np.abs(values)
        return ((chunk.ids(self.view), values),)


@dataclass(frozen=True)
class DensityMass(Query):
    """The mass of densities."""

    name: ClassVar[str] = "mass"
    density: int

    def answer(self, chunk: Chunk) -> Sums:
        """Return ``sum(mass |r|)``."""
        _, mass = chunk.targets(self.view)
        return Sums(mass=float(mass @ np.abs(chunk.vector(self.density))))


@dataclass(frozen=True)
class DrawByMark(Query):
    """The samples whose marks are below the limit of their class."""

    name: ClassVar[str] = "choice"
    reads: ClassVar[bool] = True
    limits: Array  # of the marks of each class, as parts of the largest

    def answer(self, chunk: Chunk) -> Pieces:
        """Return distinct samples: marks, features, targets and the mass of all that are equal."""
        (y, mass), X = chunk.targets(self.view), chunk.features(self.view)
        marks = row_marks(X, y)
        codes = np.zeros(y.size, dtype=np.intp) if self.view.labels is None else y.astype(np.intp)
        below = np.flatnonzero(marks.astype(np.float64) <= self.limits[codes] * 2.0**64)
        return (merged(marks[below], X[below], y[below], mass[below]),) if below.size else ()


@dataclass(frozen=True)
class Summarize(Query):
    """The first look at the data, label by label, with some rows; an error if they are not in order."""

    name: ClassVar[str] = "summary"
    reads: ClassVar[bool] = True
    n_features: int
    has_labels: bool
    n_sampled: int  # of every chunk, at most
    fingerprint: bool = False  # whether a number is wanted that other data would hardly have

    def answer(self, chunk: Chunk) -> Sums:
        """Return the sums and the rows."""
        X, y, weight = self.checked(chunk.given(), chunk.index)
        kept = weight > 0.0
        if self.view.part is not None:
            kept &= self.view.part.of(X)
        names = np.unique(y) if self.has_labels else np.array([_NO_LABEL])
        if not kept.all():
            X, y, weight = X[kept], y[kept], weight[kept]
        codes = np.searchsorted(names, y) if self.has_labels else np.zeros(y.size, dtype=np.intp)
        counts = np.bincount(codes, minlength=names.size)
        masses = np.bincount(codes, weights=weight, minlength=names.size)
        squares = np.bincount(codes, weights=weight * row_norms(X, squared=True), minlength=names.size)
        labels = Sums()
        for code, name in enumerate(names.tolist()):
            mine = codes == code
            labels[name] = Sums(
                counts=Sums({chunk.index: int(counts[code])}),
                mass=float(masses[code]),
                squares=float(squares[code]),
                weights=Extremes.of(weight[mine]),
            )
            if self.fingerprint:  # sums of marks do not depend on the order of rows, nor on how these are cut
                marks = row_marks(X[mine], weight[mine])
                if not self.has_labels:
                    marks = marks ^ row_marks(X, y, seed=1)
                labels[name]["marks"] = int(marks.sum())
        places = spread_places(y.size, self.n_sampled, chunk.index)
        sample = (np.full(places.size, chunk.index), X[places], y[places], weight[places])
        return Sums(
            labels=labels,
            targets=Extremes(0.0, 0.0) if self.has_labels else Extremes.of(y),
            reach=Reach.of(X),
            sizes=Sums({chunk.index: y.size}),
            sparse=int(sp.issparse(X)),
            bytes=X.data.nbytes if sp.issparse(X) else X.nbytes,
            kinds=y.dtype.kind,
            sample=(sample,) if places.size else (),
        )

    def checked(self, block: Block, index: int) -> tuple[Rows, Values, Array]:
        """Return the data as arrays, or say what is wrong with them."""
        try:
            refuse_malformed(block.X)
            X = check_array(
                block.X,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                order="C",
                ensure_min_samples=0,
                input_name="X",
            )
            y = column_or_1d(block.y, warn=False)
            n = X.shape[0]
            if y.shape[0] != n or X.shape[1] != self.n_features:
                raise ValueError(
                    f"X is expected to have as many rows as y, and {self.n_features} columns, got shape {X.shape} and "
                    f"{y.shape[0]} targets; X and y have to be cut at the same rows."
                )
            weight = None if block.weight is None else np.asarray(block.weight).reshape(-1)
            mass = check_mass(weight, n) if weight is None or weight.any() else np.zeros(n)
            if self.has_labels:
                check_classification_targets(y[:1] if n and isinstance(y[0], str) else y)
            else:
                y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y", ensure_min_samples=0)
                refuse_extremes("y", sum_of_squares(y))
            refuse_extremes("X", sum_of_squares(X.data if sp.issparse(X) else X))
        except ValueError as error:
            raise ValueError(f"Chunk {index} of the data: {_column_of_text(block.X)}{error}") from error
        return X, y, mass


def _column_of_text(X: Rows) -> str:
    """Return the beginning of a message that names the first column of a table that holds text, if one does."""
    for name in getattr(X, "columns", ()):
        try:
            np.asarray(X[name], dtype=np.float64)
        except (TypeError, ValueError):
            return f"Column {name!r} of X is expected to hold numbers; encode it, or leave it out: "
    return ""
