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
from atklearn.selection.distribution import row_marks

__all__ = ["few_rows"]

# How many more marks are asked for than are wanted, at first and again if they are too few.
_MORE = 1.5
_AGAIN = 8.0


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
        distinct, first, which = np.unique(marks[below], return_index=True, return_inverse=True)
        together = np.bincount(which, weights=mass[below], minlength=distinct.size)
        places = below[first]
        return Picked(((distinct, X[places], y[places], together),)) if places.size else Picked()


def few_rows(fleet: Fleet, surveyed: Surveyed, at_most: int) -> tuple[Any, Any, Array]:
    """Return features, targets and mass of about that many samples at most.

    Parameters
    ----------
    fleet : Fleet
    surveyed : Surveyed
    at_most : int
    """
    labels = Labels(surveyed.classes) if surveyed.has_labels else None
    sight = Sight(-2, labels)
    counted = surveyed.counted()
    sizes = surveyed.sizes
    each = max(at_most // sizes.size, 1)
    factor = _MORE
    while True:
        limits = np.minimum(factor * each / np.maximum(sizes, 1), 1.0)
        if counted.n_rows <= at_most:
            limits = np.ones(sizes.size)
        marks, X, y, mass = _merged(fleet.ask(Marked(sight, limits)))
        codes = _codes(sight, y)
        found = np.bincount(codes, minlength=sizes.size)
        if ((found >= each) | (limits == 1.0)).all():
            break
        factor *= _AGAIN
    if marks.size > at_most:
        order = np.argsort(marks)
        kept = np.sort(np.concatenate([order[codes[order] == code][:each] for code in np.unique(codes)]))
        X, y, mass, codes = X[kept], y[kept], mass[kept], codes[kept]
        share = surveyed.masses / np.maximum(np.bincount(codes, weights=mass, minlength=sizes.size), 1e-300)
        mass = mass * share[codes] * (kept.size / counted.n_rows)
    return X, y if labels is None else labels.classes[codes], mass


def _codes(sight: Sight, y: Array) -> Any:
    """Return the class of every target; of a regression, all are of one."""
    return np.zeros(y.size, dtype=np.intp) if sight.labels is None else y.astype(np.intp)


def _merged(picked: Picked) -> tuple[Any, ...]:
    """Return the samples of all chunks, equal ones as one."""
    marks, X, y, mass = picked.together()
    distinct, first, which = np.unique(marks, return_index=True, return_inverse=True)
    return distinct, X[first], y[first], np.bincount(which, weights=mass)
