"""The first look at all chunks: whether the data are in order, what they hold, and some rows to start from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils import check_array
from sklearn.utils.extmath import row_norms
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from atklearn.chunked.chunk import Block, Chunk, Extremes, FoldPart, Labels, Picked, Sight, Sums
from atklearn.chunked.fleet import Fleet
from atklearn.core.store import spread_places
from atklearn.encoding.encoded import check_mass
from atklearn.losses.individual import Array
from atklearn.selection.distribution import few_marked, merged, row_marks

__all__ = ["ROOM", "Counted", "Survey", "Surveyed", "few_rows", "survey"]

# Bytes that rows may take which are put together in memory: the sample to start from, a working set.
ROOM = 1 << 26
_NONE = "all"  # the only label of a regression


@dataclass(frozen=True)
class Survey:
    """What a chunk holds, label by label, and some of its rows; an error if its data are not in order."""

    name: ClassVar[str] = "survey"
    reads: ClassVar[bool] = True
    n_features: int
    has_labels: bool
    n_sampled: int  # of every chunk, at most
    part: FoldPart | None = None

    @property
    def sight(self) -> Sight:
        """Nothing that is to be remembered."""
        return Sight(-1, part=self.part)

    def answer(self, chunk: Chunk) -> Sums:
        """Return the sums and the rows."""
        X, y, weight = self.checked(chunk.given(), chunk.index)
        names = np.unique(y) if self.has_labels else np.array([_NONE])
        kept = weight > 0.0
        if self.part is not None:
            kept &= self.part.of(X)
        if not kept.all():
            X, y, weight = X[kept], y[kept], weight[kept]
        codes = np.searchsorted(names, y) if self.has_labels else np.zeros(y.size, dtype=np.intp)
        counts = np.bincount(codes, minlength=names.size)
        masses = np.bincount(codes, weights=weight, minlength=names.size)
        squares = np.bincount(codes, weights=weight * row_norms(X, squared=True), minlength=names.size)
        labels = Sums()
        for code, name in enumerate(names.tolist()):
            extremes = Extremes.of(weight[codes == code])
            labels[name] = Sums(
                counts=Sums({chunk.index: int(counts[code])}),
                mass=float(masses[code]),
                squares=float(squares[code]),
                weights=extremes,
            )
        places = spread_places(y.size, self.n_sampled, chunk.index)
        sample = (np.full(places.size, chunk.index), X[places], y[places], weight[places])
        return Sums(
            labels=labels,
            targets=Extremes(0.0, 0.0) if self.has_labels else Extremes.of(y),
            sizes=Sums({chunk.index: y.size}),
            sparse=int(sp.issparse(X)),
            bytes=X.data.nbytes if sp.issparse(X) else X.nbytes,
            kinds=y.dtype.kind,
            sample=Picked((sample,)) if places.size else Picked(),
        )

    def checked(self, block: Block, index: int) -> tuple[Any, npt.NDArray[Any], Array]:
        """Return the data as arrays, or say what is wrong with them."""
        try:
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
        except ValueError as error:
            raise ValueError(f"Chunk {index} of the data: {_column_of_text(block.X)}{error}") from error
        return X, y, mass


def _column_of_text(X: Any) -> str:
    """Return the beginning of a message that names the first column of a table that holds text, if one does."""
    for name in getattr(X, "columns", ()):
        try:
            np.asarray(X[name], dtype=np.float64)
        except (TypeError, ValueError):
            return f"Column {name!r} of X is expected to hold numbers; encode it, or leave it out: "
    return ""


@dataclass(frozen=True)
class Counted:
    """What is known of the rows that count: numbers, and a sample of the rows themselves.

    ``sample`` holds features, targets (of classes their codes) and mass; ``sizes`` how many rows of each chunk count.
    """

    n_rows: int
    n_features: int
    total: float
    mass: Extremes
    targets: Extremes
    mean_square: float
    is_sparse: bool
    bytes_per_row: float
    sizes: dict[int, int]
    sample: tuple[Any, Array, Array]


@dataclass(frozen=True)
class Surveyed:
    """The answers of all chunks."""

    told: Sums
    sample: tuple[Any, ...]  # features, targets, weights of some rows, each as likely
    n_features: int
    has_labels: bool

    @property
    def classes(self) -> npt.NDArray[Any]:
        """The labels that have mass, sorted, as an array of their own kind."""
        names = sorted(self.told["labels"])
        return np.array(names, dtype=object if "O" in self.told["kinds"] else None)

    def among(self, classes: npt.NDArray[Any]) -> Surveyed:
        """Return the same with all of the classes, of which a part of the rows may have none."""
        nothing = Sums(counts=Sums(), mass=0.0, squares=0.0, weights=Extremes(np.inf, -np.inf))
        labels = Sums(dict.fromkeys(classes.tolist(), nothing)) + self.told["labels"]
        return replace(self, told=Sums(self.told | {"labels": labels}))

    @property
    def masses(self) -> Array:
        """The mass of each label."""
        return np.array([self.told["labels"][name]["mass"] for name in sorted(self.told["labels"])])

    @property
    def sizes(self) -> npt.NDArray[np.intp]:
        """How many rows with mass there are of each label."""
        return np.array([sum(self.told["labels"][name]["counts"].values()) for name in sorted(self.told["labels"])])

    def counted(self, labels: Labels | None = None) -> Counted:
        """Return what counts once the classes have their weights."""
        by_label = [self.told["labels"][name] for name in sorted(self.told["labels"])]
        weights = np.ones(len(by_label)) if labels is None or labels.weights is None else labels.weights
        present = [
            (weight, told) for weight, told in zip(weights, by_label, strict=True) if weight * told["mass"] > 0.0
        ]
        sizes = dict(sum((told["counts"] for _, told in present), Sums()))
        total = float(sum(weight * told["mass"] for weight, told in present))
        mass = [Extremes(weight * told["weights"].low, weight * told["weights"].high) for weight, told in present]
        return Counted(
            n_rows=sum(sizes.values()),
            n_features=self.n_features,
            total=total,
            mass=sum(mass[1:], mass[0]),
            targets=self.told["targets"],
            mean_square=float(sum(weight * told["squares"] for weight, told in present)) / total,
            is_sparse=self.told["sparse"] > 0,
            bytes_per_row=max(self.told["bytes"] / max(sum(self.told["sizes"].values()), 1), 1.0),
            sizes=sizes,
            sample=self.sampled(labels),
        )

    def sampled(self, labels: Labels | None = None) -> tuple[Any, Array, Array]:
        """Return rows in which every one is as likely: features, targets or codes of classes, mass."""
        X, y, weight = self.sample
        sight = Sight(-1, labels)
        mass = sight.mass(y, weight)
        kept = mass > 0.0
        if not kept.all():
            X, y, mass = X[kept], y[kept], mass[kept]
        return X, sight.numbers(y), mass


def _even(picked: Picked, sizes: dict[int, int]) -> tuple[Any, ...]:
    """Return features, targets and weights of rows, each as likely, from samples of chunks of any size."""
    share = min(piece[0].size / sizes[int(piece[0][0])] for piece in picked.pieces)
    drawn = []
    for piece in picked.pieces:
        index, size = int(piece[0][0]), piece[0].size
        expected = share * sizes[index]
        count = int(expected) + int(np.random.default_rng(index).random() < expected % 1.0)
        if count >= size:
            drawn.append(piece)
        elif count:
            places = spread_places(size, count, index)
            drawn.append(tuple(column[places] for column in piece))
    return Picked(tuple(drawn or picked.pieces[:1])).together()[1:]


def survey(fleet: Fleet, n_features: int, *, has_labels: bool, part: FoldPart | None = None) -> Surveyed:
    """Look at all chunks, or at a part of the rows of each."""
    n_sampled = max(ROOM // (8 * n_features * max(fleet.engine.n_chunks, 1)), 1)
    told = fleet.ask(Survey(n_features, has_labels, n_sampled, part))
    if told is None or not any(label["mass"] > 0.0 for label in told["labels"].values()):
        raise ValueError("At least one row with positive weight is expected, got none; check X, y and sample_weight.")
    sample = _even(told.pop("sample"), told["sizes"])
    return Surveyed(told, sample, n_features, has_labels)


@dataclass(frozen=True)
class Marked:
    """The samples whose marks are below the limit of their class."""

    name: ClassVar[str] = "choice"
    reads: ClassVar[bool] = True
    sight: Sight
    limits: Array  # of the marks of each class, as parts of the largest

    def answer(self, chunk: Chunk) -> Picked:
        """Return distinct samples: marks, features, targets and the mass of all that are equal."""
        (y, mass), X = chunk.targets(self.sight), chunk.features(self.sight)
        marks = row_marks(X, y)
        below = np.flatnonzero(marks.astype(np.float64) <= self.limits[_codes(self.sight, y)] * 2.0**64)
        return Picked((merged(marks[below], X[below], y[below], mass[below]),)) if below.size else Picked()


def few_rows(fleet: Fleet, surveyed: Surveyed, at_most: int) -> tuple[Any, Any, Array]:
    """Return features, targets, of labels their codes, and mass of about that many samples at most.

    Parameters
    ----------
    fleet : Fleet
    surveyed : Surveyed
    at_most : int
    """
    labels = Labels(surveyed.classes) if surveyed.has_labels else None
    sight = Sight(-2, labels)
    return few_marked(
        lambda limits: merged(*fleet.ask(Marked(sight, limits)).together()),
        lambda y: _codes(sight, y),
        surveyed.sizes,
        surveyed.masses,
        at_most,
    )


def _codes(sight: Sight, y: Array) -> Any:
    """Return the class of every target; of a regression, all are of one."""
    return np.zeros(y.size, dtype=np.intp) if sight.labels is None else y.astype(np.intp)
