"""Answers that add up: what chunks say is added, wherever they are, until one answer is left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from atklearn.core.ranking import Between

__all__ = ["BetweenChunks", "Extremes", "Picked", "Sums", "Together", "stacked"]


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


class Together(list[Any]):
    """Several amounts, added each to its own."""

    def __add__(self, other: Together) -> Together:  # type: ignore[override]
        return Together(one + more for one, more in zip(self, other, strict=True))


@dataclass(frozen=True)
class Extremes:
    """The smallest and the largest of numbers; those of two collections are added to those of both."""

    low: float
    high: float

    def __add__(self, other: Extremes) -> Extremes:
        return Extremes(min(self.low, other.low), max(self.high, other.high))

    @classmethod
    def of(cls, values: npt.NDArray[Any]) -> Extremes:
        """Return those of an array, of none as of nothing."""
        return cls(float(values.min()), float(values.max())) if values.size else cls(np.inf, -np.inf)


@dataclass(frozen=True)
class BetweenChunks:
    """What the losses of chunks say of an interval, and how many of each chunk are inside."""

    parts: tuple[Between, ...]
    counts: tuple[tuple[int, int], ...]

    def __add__(self, other: BetweenChunks) -> BetweenChunks:
        return BetweenChunks(self.parts + other.parts, self.counts + other.counts)

    @property
    def above(self) -> float:
        """The amount above the interval."""
        return sum(part.above for part in self.parts)

    def of_all(self) -> Between:
        """Return what all of them say together."""
        parts = self.parts
        return Between(
            above=self.above,
            inside=sum(part.inside for part in parts),
            count=sum(part.count for part in parts),
            values=np.concatenate([part.values for part in parts]),
            weights=np.concatenate([part.weights for part in parts]),
            is_partial=any(part.is_partial for part in parts),
            least=min(part.least for part in parts),
            most=max(part.most for part in parts),
        )


@dataclass(frozen=True)
class Picked:
    """Rows taken out of their chunks: a list of pieces, each the ids of its rows and what belongs to them."""

    pieces: tuple[tuple[Any, ...], ...] = ()

    def __add__(self, other: Picked) -> Picked:
        return Picked(self.pieces + other.pieces)

    def together(self) -> tuple[Any, ...]:
        """Return the columns of all pieces, each as one array, in the order of the ids."""
        ids, *columns = (stacked(list(parts)) for parts in zip(*self.pieces, strict=True))
        if np.all(ids[1:] >= ids[:-1]):
            return ids, *columns
        order = np.argsort(ids, kind="stable")
        return ids[order], *(column[order] for column in columns)


def stacked(parts: list[Any]) -> Any:
    """Return arrays, or sparse matrices, one below the other."""
    if len(parts) == 1:
        return parts[0]
    return sp.vstack(parts, format="csr") if any(map(sp.issparse, parts)) else np.concatenate(parts)
