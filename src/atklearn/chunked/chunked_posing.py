"""From chunks to problems: classes, one-versus-rest targets, mass and k mean what they mean in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from atklearn.chunked.chunk_store import ChunkedDensity, ChunkedRows
from atklearn.chunked.fleet import Engine, Fleet
from atklearn.chunked.sights import FoldPart, Labels, Sight, View
from atklearn.chunked.survey import Surveyed
from atklearn.chunked.weights import ChunkedWeights
from atklearn.core.problem import Problem
from atklearn.losses.aggregate import resolve_k
from atklearn.problems.class_weights import class_factors, problem_names
from atklearn.problems.posing import Posed, Posing

__all__ = ["ChunkedData", "ChunkedTargets", "pose"]


@dataclass(frozen=True)
class ChunkedData:
    """Data as an engine holds them.

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


@dataclass(frozen=True)
class ChunkedTargets:
    """What has to be known of targets that lie with the chunks: see :class:`atklearn.problems.posing.SeenTargets`."""

    classes: npt.NDArray[Any] | None
    total: float
    data: ChunkedData

    @property
    def names(self) -> list[str]:
        """What each problem is about."""
        return problem_names(self.classes)

    def spread(self, columns: Sequence[ChunkedDensity]) -> Any:
        """Return the weights of all samples, a column per problem."""
        return self.data.spread([ChunkedWeights.of(column) for column in columns])


def pose(
    posing: Posing,
    fleet: Fleet,
    data: ChunkedData,
    surveyed: Surveyed,
    *,
    k: float = 1.0,
    C: float = 1.0,
    part: FoldPart | None = None,
    first_token: int = 0,
) -> Posed:
    """State the problems on chunks; k is a count or a share.

    Parameters
    ----------
    posing : Posing
    fleet : Fleet
    data : ChunkedData
    surveyed : Surveyed
        Of the same part of the rows.
    k, C : float
    part : FoldPart, default=None
        Of the rows; all if None.
    first_token : int
        Names of sights count from here: a fit that is resumed calls them the same.
    """
    labels: Labels | None = None
    positives: list[int | None] = [None]
    if posing.is_classification:
        classes = surveyed.classes
        labels = Labels(classes, class_factors(classes, surveyed.masses, posing.class_weight, posing.owner))
        positives = [1] if classes.size == 2 else list(range(classes.size))
    counted = surveyed.counted(labels)
    amount = resolve_k(k, counted.total)
    ones = posing.intercept != "none"
    problems = []
    for place, positive in enumerate(positives):
        view = View(Sight(first_token + place, labels, positive, part), posing.loss, ones)
        problems.append(Problem(ChunkedRows(fleet, view, counted), amount, float(C), posing.intercept))
    return Posed(ChunkedTargets(None if labels is None else labels.classes, counted.total, data), problems)
