"""The few samples that a choice of k looks at, the same ones in chunks as in memory, and however chunks are cut.

See :class:`atklearn.selection.distribution.Distribution`: every sample has a mark that is drawn from its values, equal
samples are one, and those with the smallest marks are taken, of every class as many.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from atklearn.chunked.chunk import Chunk
from atklearn.chunked.fleet import Fleet
from atklearn.chunked.sights import Labels, Sight
from atklearn.chunked.sums import Picked
from atklearn.chunked.survey import Surveyed
from atklearn.losses.individual import Array
from atklearn.selection.distribution import few_marked, merged, row_marks

__all__ = ["few_rows"]


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
