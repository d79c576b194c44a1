"""Data in chunks, surveyed once: what a fit takes its problems from; and weights of all rows, made chunk by chunk."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from atklearn.chunked.checkpoint import Checkpoint, subject_of
from atklearn.chunked.chunk import FoldPart, Labels, Sight, View
from atklearn.chunked.chunk_store import ChunkedRows, ChunkedWeights
from atklearn.chunked.chunks import ChunkedData, Chunks
from atklearn.chunked.fleet import Fleet
from atklearn.chunked.survey import Counted, Surveyed, few_rows, survey
from atklearn.core.problem import Problem, Solution
from atklearn.encoding.encoded import Encoded, ProblemEncoder, Problems, class_factors, n_problems
from atklearn.losses.aggregate import resolve_k

__all__ = ["EncodedChunks", "starts_of"]


@dataclass(frozen=True)
class EncodedChunks:
    """Features, targets and weights in chunks, surveyed once: what :class:`atklearn.encoding.encoded.Encoded` is.

    Attributes
    ----------
    encoder : ProblemEncoder
    data : ChunkedData
    fleet : Fleet
        It asks the chunks.
    surveyed : Surveyed
    checkpoint : path-like or None
    is_weighted : bool
        Whether there are sample weights.
    part : FoldPart or None
        The rows that count; None for all of them.
    """

    encoder: ProblemEncoder
    data: ChunkedData
    fleet: Fleet
    surveyed: Surveyed
    checkpoint: Any = None
    is_weighted: bool = False
    part: FoldPart | None = None

    @classmethod
    def of(cls, encoder: ProblemEncoder, chunks: Chunks, y: Any, sample_weight: Any) -> EncodedChunks:
        """Open chunks, and look at all of them once; whoever calls has to :meth:`close` them."""
        data = chunks.open(y, sample_weight)
        fleet = Fleet(data.engine)
        try:
            surveyed = survey(fleet, data.n_features, has_labels=encoder.is_classification)
            return cls(encoder, data, fleet, surveyed, chunks.checkpoint, sample_weight is not None)
        except BaseException:
            fleet.close()
            raise

    def close(self) -> None:
        """Let the chunks forget the fit."""
        self.fleet.close()

    @property
    def n_features(self) -> int:
        """How many columns there are."""
        return self.data.n_features

    @property
    def n_samples(self) -> int:
        """How many rows with weight there are."""
        return int(self.surveyed.sizes.sum())

    @property
    def classes(self) -> npt.NDArray[Any] | None:
        """The labels, sorted; None for a regression."""
        return self.surveyed.classes if self.encoder.is_classification else None

    @property
    def n_problems(self) -> int:
        """One for a regression or two classes, else one per class against the rest."""
        return n_problems(self.classes)

    @cached_property
    def labels(self) -> Labels | None:
        """The classes with their weights, of which two have to have mass; None for a regression."""
        classes = self.classes
        if classes is None:
            return None
        encoder = self.encoder
        return Labels(classes, class_factors(classes, self.surveyed.masses, encoder.class_weight, encoder.owner))

    @cached_property
    def counted(self) -> Counted:
        """What is known of the rows that count."""
        return self.surveyed.counted(self.labels)

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
        amount = resolve_k(k, self.total)
        intercept = self.encoder.intercept
        problems = []
        for place, positive in enumerate(positives):
            sight = Sight(first_token + place, self.labels, positive, self.part)
            rows = ChunkedRows(self.fleet, View(sight, self.encoder.loss, intercept != "none"), self.counted)
            problems.append(Problem(rows, amount, float(C), intercept))

        def spread(columns: Any) -> Any:
            return self.data.spread([ChunkedWeights.of(column) for column in columns])

        return Problems(problems, self.classes, self.total, spread)

    def few(self, at_most: int) -> Encoded:
        """Return about that many samples at most, in memory: the same ones however rows are cut."""
        X, codes, mass = few_rows(self.fleet, self.surveyed, at_most)
        y = codes if self.classes is None else codes.astype(np.intp)
        return Encoded(y, mass, self.classes, X=X, encoder=self.encoder, is_weighted=True)

    def among(self, part: FoldPart) -> EncodedChunks:
        """Return a part of the rows, surveyed, with all classes even where it has not all of them."""
        surveyed = survey(self.fleet, self.n_features, has_labels=self.classes is not None, part=part)
        if self.classes is not None:
            surveyed = surveyed.among(self.classes)
        return replace(self, surveyed=surveyed, part=part)

    def sampled(self) -> Encoded:
        """Return at most 64 MB of these rows, each as likely as any other."""
        X, y, mass = self.surveyed.sampled(None if self.classes is None else Labels(self.classes))
        codes = y if self.classes is None else y.astype(np.intp)
        return Encoded(codes, mass, self.classes, X=X, encoder=self.encoder, is_weighted=self.is_weighted)

    def opened_checkpoint(self, parameters: dict[str, Any], **more: Any) -> Checkpoint | None:
        """Return the checkpoint of a fit with some parameters, if one is asked for: what it has reached is in it."""
        if self.checkpoint is None:
            return None
        return Checkpoint.at(self.checkpoint, subject_of(parameters, self.counted, **more))

    @property
    def n_passes(self) -> int:
        """How often X was read, with what it takes to publish."""
        return self.fleet.reads + self.data.n_reads_to_spread

    def note(self, checkpoint: Checkpoint, problem: str) -> None:
        """Write down what the solver has reached."""
        point = self.fleet.latest() if self.fleet.latest is not None else None
        # where zero may be optimal the hinge stands in for the loss: what it has reached is no start for this one
        if point is not None and type(point.rows.loss) is type(self.encoder.loss):
            checkpoint.note(problem, point)


def starts_of(checkpoint: Checkpoint, problems: Problems) -> list[Solution | None]:
    """Return where a checkpoint has got to in each problem."""
    rows: list[Any] = [problem.rows for problem in problems.problems]
    return [checkpoint.start(name, each) for name, each in zip(problems.names, rows, strict=True)]
