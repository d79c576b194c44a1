"""Rows in chunks as what users pass for X, as what a fit takes its problems from, and as folds.

:class:`Chunks` says where rows lie; :class:`EncodedChunks` is them summarised once, in the place of
:class:`atklearn.encoding.encoded.Encoded`; a :class:`ChunkedFold` is a part of them to fit, another one to judge on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from atklearn.chunked import chunk_store
from atklearn.chunked.checkpoint import Checkpoint, described
from atklearn.chunked.chunk import FoldPart, Labels, Rows, RowView, Values
from atklearn.chunked.chunk_store import ChunkedRows, ChunkedWeights, Counted
from atklearn.chunked.engine import Coordinator, Engine
from atklearn.chunked.queries import DrawByMark, Extremes, Pieces, Summarize, Sums, merged_pieces
from atklearn.core.problem import Problem
from atklearn.core.store import spread_places
from atklearn.encoding.encoded import Encoded, ProblemEncoder, Problems, class_factors
from atklearn.losses.aggregate import resolve_k
from atklearn.losses.individual import Array
from atklearn.runtime.messages import shown
from atklearn.selection.distribution import few_marked, merged
from atklearn.selection.folds import GRID_TOL, Judge, Places, fill_cells
from atklearn.selection.paths import grid_cells

__all__ = [
    "ChunkedData", "ChunkedFold", "Chunks", "EncodedChunks", "Summary", "fold_parts", "refuse_for_chunks", "summarize",
]  # fmt: skip

_SUMMARY, _DRAW = -1, -2  # tokens of views that are no problem's


# What users pass


@dataclass(frozen=True)
class ChunkedData:
    """Features, targets and weights as an engine holds them.

    Attributes
    ----------
    engine : Engine
    n_features : int
    names : list of str or None
        Of the features.
    spread : callable
        Takes one way to make weights per problem, returns them for all samples, in the form that users expect.
    n_reads_to_spread : int
        How often that reads the data.
    """

    engine: Engine
    n_features: int
    names: list[str] | None
    spread: Callable[[list[ChunkedWeights]], Any]
    n_reads_to_spread: int = 0


class Chunks(ABC):
    """The X of a fit whose rows are read, and asked, chunk by chunk.

    Estimators take it in the place of an array: ``ATkClassifier().fit(chunks, y)``. A subclass says by :meth:`open`
    what engine has the rows, and by :meth:`map_rows` how to predict from them.

    Parameters
    ----------
    checkpoint : path-like, default=None
        A file to note in what a fit has reached: see :class:`atklearn.ondisk.ArrayChunks`.
    """

    def __init__(self, *, checkpoint: str | PathLike[str] | None = None) -> None:
        if checkpoint is not None and not isinstance(checkpoint, str | PathLike):
            raise ValueError(f"checkpoint is expected to be the path of a file, or None, got {shown(checkpoint)}.")
        self.checkpoint = checkpoint

    @abstractmethod
    def open(self, y: Any, sample_weight: Any = None) -> ChunkedData:
        """Return the rows beside their targets and weights, as an engine holds them.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,) or None
        """

    @abstractmethod
    def map_rows(self, function: Callable[[Rows], Array]) -> Any:
        """Return what a function of some rows, such as ``model.predict``, gives for all of them, in their order.

        The function need not know what to do with no rows.
        """


# What is known of all rows


@dataclass(frozen=True)
class Summary:
    """What all chunks hold, label by label.

    Attributes
    ----------
    sums : Sums
        The answers of all chunks to :class:`atklearn.chunked.queries.Summarize`.
    sample : tuple
        Features, targets and weights of some rows, each as likely.
    n_features : int
    has_labels : bool
    """

    sums: Sums
    sample: tuple[Rows, Values, Array]
    n_features: int
    has_labels: bool

    @property
    def by_label(self) -> list[Sums]:
        """The sums of each label, sorted."""
        return [self.sums["labels"][name] for name in sorted(self.sums["labels"])]

    @property
    def classes(self) -> Values:
        """The labels that have mass, sorted, as an array of their own kind."""
        return np.array(sorted(self.sums["labels"]), dtype=object if "O" in self.sums["kinds"] else None)

    @property
    def masses(self) -> Array:
        """The mass of each label."""
        return np.array([label["mass"] for label in self.by_label])

    @property
    def sizes(self) -> npt.NDArray[np.intp]:
        """How many rows with mass there are of each label."""
        return np.array([sum(label["counts"].values()) for label in self.by_label])

    @property
    def fingerprint(self) -> int:
        """A number that other data would hardly have, where it was asked for."""
        return sum((place + 1) * int(label.get("marks", 0)) for place, label in enumerate(self.by_label)) % 2**64

    def with_classes(self, classes: Values) -> Summary:
        """Return the summary of a part of the rows with all classes, of which it may have no rows."""
        nothing = Sums(counts=Sums(), mass=0.0, squares=0.0, weights=Extremes.of(np.zeros(0)))
        labels = Sums(dict.fromkeys(classes.tolist(), nothing)) + self.sums["labels"]
        return replace(self, sums=Sums(self.sums | {"labels": labels}))

    def counted(self, labels: Labels | None = None) -> Counted:
        """Return what counts once the classes have their weights."""
        weights = np.ones(len(self.by_label)) if labels is None or labels.weights is None else labels.weights
        present = [(weight, sums) for weight, sums in zip(weights, self.by_label, strict=True) if weight * sums["mass"]]
        sizes = sum((sums["counts"] for _, sums in present), Sums())
        total = float(sum(weight * sums["mass"] for weight, sums in present))
        mass = [Extremes(weight * sums["weights"].low, weight * sums["weights"].high) for weight, sums in present]
        return Counted(
            n_rows=sum(sizes.values()),
            n_features=self.n_features,
            total=total,
            mass=sum(mass[1:], mass[0]),
            targets=self.sums["targets"],
            reach=self.sums["reach"],
            mean_square=float(sum(weight * sums["squares"] for weight, sums in present)) / total,
            is_sparse=self.sums["sparse"] > 0,
            bytes_per_row=max(self.sums["bytes"] / max(sum(self.sums["sizes"].values()), 1), 1.0),
            sizes=dict(sizes),
            sample=self.sampled(labels),
        )

    def sampled(self, labels: Labels | None = None) -> tuple[Rows, Array, Array]:
        """Return the sample with targets, of labels their codes, and mass."""
        X, y, weight = self.sample
        view = RowView(_SUMMARY, labels=labels)
        mass = view.mass(y, weight)
        kept = mass > 0.0
        if not kept.all():
            X, y, mass = X[kept], y[kept], mass[kept]
        return X, view.targets(y), mass


def summarize(
    coordinator: Coordinator,
    n_features: int,
    *,
    has_labels: bool,
    part: FoldPart | None = None,
    fingerprint: bool = False,
) -> Summary:
    """Look at all chunks, or at a part of the rows of each."""
    n_sampled = max(chunk_store.FETCHED_BYTES // (8 * n_features * max(coordinator.engine.n_chunks, 1)), 1)
    view = RowView(_SUMMARY, part=part)
    sums = coordinator.ask(Summarize(view, n_features, has_labels, n_sampled, fingerprint))
    if sums is None or not any(label["mass"] > 0.0 for label in sums["labels"].values()):
        raise ValueError("At least one row with positive weight is expected, got none; check X, y and sample_weight.")
    return Summary(sums, _even(sums.pop("sample"), sums["sizes"]), n_features, has_labels)


def _even(pieces: Pieces, sizes: dict[int, int]) -> tuple[Rows, Values, Array]:
    """Return features, targets and weights of rows, each as likely, from samples of chunks of any size."""
    share = min(piece[0].size / sizes[int(piece[0][0])] for piece in pieces)
    drawn = []
    for piece in pieces:
        index, size = int(piece[0][0]), piece[0].size
        expected = share * sizes[index]
        count = int(expected) + int(np.random.default_rng(index).random() < expected % 1.0)
        if count >= size:
            drawn.append(piece)
        elif count:
            places = spread_places(size, count, index)
            drawn.append(tuple(column[places] for column in piece))
    _, X, y, weight = merged_pieces(tuple(drawn) or pieces[:1])
    return X, y, weight


# What a fit takes its problems from


@dataclass(frozen=True)
class EncodedChunks:
    """Features, targets and weights in chunks, summarised once.

    Attributes
    ----------
    encoder : ProblemEncoder
    data : ChunkedData
    coordinator : Coordinator
    summary : Summary
    checkpoint : path-like or None
    is_weighted : bool
        Whether there are sample weights.
    part : FoldPart or None
        The rows that count; None for all of them.
    checkpoints : list of Checkpoint
        Those that were opened.
    """

    encoder: ProblemEncoder
    data: ChunkedData
    coordinator: Coordinator
    summary: Summary
    checkpoint: str | PathLike[str] | None = None
    is_weighted: bool = False
    part: FoldPart | None = None
    checkpoints: list[Checkpoint] = field(default_factory=list)

    @classmethod
    def of(cls, encoder: ProblemEncoder, chunks: Chunks, y: Any, sample_weight: Any) -> EncodedChunks:
        """Open chunks, and look at all of them once; whoever calls has to :meth:`close` them."""
        data, path = chunks.open(y, sample_weight), chunks.checkpoint
        coordinator = Coordinator(data.engine)
        try:
            has_labels, fingerprint = encoder.is_classification, path is not None
            summary = summarize(coordinator, data.n_features, has_labels=has_labels, fingerprint=fingerprint)
            return cls(encoder, data, coordinator, summary, path, sample_weight is not None)
        except BaseException:
            coordinator.close()
            raise

    def close(self) -> None:
        """Let the chunks forget the fit, and other fits have the checkpoints."""
        for checkpoint in self.checkpoints:
            checkpoint.release()
        self.coordinator.close()

    @property
    def n_features(self) -> int:
        """How many columns there are."""
        return self.data.n_features

    @property
    def n_samples(self) -> int:
        """How many rows with weight there are."""
        return int(self.summary.sizes.sum())

    @property
    def classes(self) -> Values | None:
        """The labels, sorted; None for a regression."""
        return self.summary.classes if self.encoder.is_classification else None

    @cached_property
    def labels(self) -> Labels | None:
        """The classes with their weights, of which two have to have mass; None for a regression."""
        classes = self.classes
        if classes is None:
            return None
        encoder = self.encoder
        return Labels(classes, class_factors(classes, self.summary.masses, encoder.class_weight, encoder.owner))

    @cached_property
    def counted(self) -> Counted:
        """What is known of the rows that count."""
        return self.summary.counted(self.labels)

    @property
    def total(self) -> float:
        """The mass of all samples, which k counts in."""
        return self.counted.total

    def problems(self, *, k: float = 1.0, C: float = 1.0, first_token: int = 0) -> Problems:
        """Return the problems on these rows; k is a count or a share.

        Names of what chunks remember count from ``first_token``: a fit that is resumed calls them as it did before.
        """
        positives: list[int | None] = [None]
        if self.labels is not None:
            n_classes = self.labels.classes.size
            positives = [1] if n_classes == 2 else list(range(n_classes))
        amount, intercept = resolve_k(k, self.total), self.encoder.intercept
        problems = []
        for token, positive in enumerate(positives, first_token):
            view = RowView(token, self.encoder.loss, intercept != "none", self.labels, positive, self.part)
            problems.append(Problem(ChunkedRows(self.coordinator, view, self.counted), amount, float(C), intercept))

        def spread(columns: Any) -> Any:
            return self.data.spread([ChunkedWeights.of(column) for column in columns])

        return Problems(problems, self.classes, self.total, spread)

    def few(self, at_most: int) -> Encoded:
        """Return about that many samples at most, in memory: the same ones however rows are cut."""
        view = RowView(_DRAW, labels=None if self.classes is None else Labels(self.classes))
        X, codes, mass = few_marked(
            lambda limits: merged(*merged_pieces(self.coordinator.ask(DrawByMark(view, limits)))),
            lambda y: np.zeros(y.size, dtype=np.intp) if view.labels is None else y.astype(np.intp),
            self.summary.sizes,
            self.summary.masses,
            at_most,
        )
        return self._in_memory(X, codes, mass, is_weighted=True)

    def among(self, part: FoldPart) -> EncodedChunks:
        """Return a part of the rows, summarised, with all classes even where it has not all of them."""
        summary = summarize(self.coordinator, self.n_features, has_labels=self.classes is not None, part=part)
        if self.classes is not None:
            summary = summary.with_classes(self.classes)
        return replace(self, summary=summary, part=part)

    def sampled(self) -> Encoded:
        """Return at most 64 MB of these rows, each as likely as any other."""
        labels = None if self.classes is None else Labels(self.classes)
        return self._in_memory(*self.summary.sampled(labels), is_weighted=self.is_weighted)

    def _in_memory(self, X: Rows, codes: Array, mass: Array, *, is_weighted: bool) -> Encoded:
        y = codes if self.classes is None else codes.astype(np.intp)
        return Encoded(y, mass, self.classes, X=X, encoder=self.encoder, is_weighted=is_weighted)

    @property
    def n_passes(self) -> int:
        """How often X was read, with what it takes to publish."""
        return self.coordinator.reads + self.data.n_reads_to_spread

    def opened_checkpoint(self, parameters: dict[str, Any], **more: float | Array) -> Checkpoint | None:
        """Return the checkpoint of a fit with some parameters, if one is asked for: what it has reached is in it."""
        if self.checkpoint is None:
            return None
        problem = described(parameters, self.counted, self.summary.fingerprint, **more)
        self.checkpoints.append(Checkpoint(self.checkpoint, problem))
        return self.checkpoints[-1]

    @property
    def reached(self) -> list[str]:
        """The checkpoints that have something in them."""
        return [str(checkpoint.path) for checkpoint in self.checkpoints if checkpoint.entries]

    def note(self, checkpoint: Checkpoint, problem: str) -> None:
        """Write down what the solver has reached."""
        point = None if self.coordinator.latest is None else self.coordinator.latest()
        # where zero may be optimal the hinge stands in for the loss: what it has reached is no start for this one
        if point is not None and type(point.store.loss) is type(self.encoder.loss):
            checkpoint.note(problem, point)


# Folds: where a row belongs is drawn from its values, so it does not matter how rows are cut


def fold_parts(n_rows: int, cv: int, random_state: int | np.random.RandomState | None) -> list[FoldPart]:
    """Return the training parts of so many folds."""
    if not 2 <= cv <= n_rows:
        raise ValueError(f"cv is expected to be between 2 and the number of samples, {n_rows}, got {cv}.")
    seed = int(check_random_state(random_state).randint(1, 2**31 - 1))
    return [FoldPart(cv, fold, seed) for fold in range(cv)]


def refuse_for_chunks(cv: object, groups: object, n_jobs: int | None) -> None:
    """Say what chunks do not know how to do, if that is asked for."""
    if groups is not None or not (cv is None or isinstance(cv, Integral)) or n_jobs not in (None, 1):
        raise ValueError(
            "On chunks of rows, cv is expected to be a number of folds or None, n_jobs and groups None, got "
            f"cv={shown(cv)}, n_jobs={shown(n_jobs)}, groups={shown(groups)}; folds are drawn row by row, and every "
            "fit has all the workers."
        )


@dataclass(frozen=True)
class ChunkedFold:
    """A grid of fits on the rows outside a fold, to be judged on those inside; of many, on a sample of them.

    Attributes
    ----------
    data : EncodedChunks
        All rows.
    part : FoldPart
        The rows to fit.
    number : int
        Of the fold.
    ks, Cs : ndarray
    max_iter : int
    checkpoint : Checkpoint or None
        The scores of folds that are finished are in it.
    most_loss : float
        See :func:`atklearn.selection.folds.fill_cells`.
    """

    data: EncodedChunks
    part: FoldPart
    number: int
    ks: Array
    Cs: Array
    max_iter: int
    checkpoint: Checkpoint | None
    most_loss: float = np.inf

    def over(self, ks: Places, values: Places, most_loss: float) -> ChunkedFold:
        """Return the fold with some k and C of its grid, by their places."""
        return replace(self, ks=self.ks[ks], Cs=self.Cs[values], most_loss=most_loss)

    def fill(self, out: Array, judge: Judge) -> Array:
        """Write score and mean loss of every cell into ``out``, as soon as it is known; return it."""
        name = f"fold {self.number}"
        known = None if self.checkpoint is None else self.checkpoint.scores(name, out.shape)
        if known is not None:
            out[:] = known
            return out
        unseen = judge.on(self.data.among(replace(self.part, is_held_out=True)).sampled())
        n_classes = 1 if self.data.classes is None else self.data.classes.size
        problems = self.data.among(self.part).problems(first_token=(1 + self.number) * n_classes)
        cells = grid_cells(problems, self.ks, self.Cs, GRID_TOL, self.max_iter)
        models = ((i, j, problems.coefficients(solutions)) for i, j, solutions in cells)
        fill_cells(out, models, unseen.score, self.most_loss)
        if self.checkpoint is not None:
            self.checkpoint.keep_scores(name, out.copy())
        return out
