"""Which rows train and which test: folds at random, folds that keep rows together, or what comes later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

from atklearn.selection.folds import Split

__all__ = ["Splitting"]

Rows = npt.NDArray[np.intp]

_EARLY = 0.5  # the part of the rows, by time, that trains only
_DRAWS = 20  # of folds of whole clusters, until every training part has every class
_BETWEEN_REPEATS = 1000
_KEPT = 4  # folds of whole clusters, which take seconds where there are thousands: those of a repeat and of its splits


@dataclass(frozen=True)
class Splitting:
    """How the rows of a table are split, again and again.

    Attributes
    ----------
    y : ndarray of shape (n_rows,)
        Codes of classes from zero, or targets.
    classification : bool
    clusters : ndarray of int of shape (n_rows,) or None
        Rows of one cluster stay together.
    time : ndarray of shape (n_rows,) or None
        Rows are tested by fits on earlier ones.
    seed : int

    Examples
    --------
    >>> splitting = Splitting(np.arange(8.0), False, time=np.array([5, 1, 1, 2, 7, 3, 8, 6]))
    >>> for train, test in splitting.folds(np.arange(8), 2):
    ...     print(splitting.time[train], splitting.time[test])
    [1 1 2 3] [5 6]
    [1 1 2 3 5 6] [7 8]
    """

    y: npt.NDArray[Any]
    classification: bool
    clusters: npt.NDArray[np.intp] | None = None
    time: npt.NDArray[Any] | None = None
    seed: int = 0
    _kept: dict[tuple[int, int, int], list[Split] | None] = field(default_factory=dict, init=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": {}}

    def n_folds(self, rows: Rows, wanted: int) -> int:
        """Return into how many folds the rows can be split: those wanted, or fewer if these are too many."""
        rarest = self._rarest(rows)
        if self.clusters is None and self.time is None:
            rarest = max(2, rarest)
        for n_folds in range(min(wanted, rarest), 1, -1):
            if self._folds(rows, n_folds, 0) is not None:
                return n_folds
        raise ValueError(self._impossible())

    def folds(self, rows: Rows, n_folds: int, repeat: int = 0) -> list[Split]:
        """Return folds of some rows of the table, as pairs of places among these.

        A repeat is the same whatever the number of repeats, so that a run can be extended.
        """
        found = self._folds(rows, n_folds, repeat)
        if found is None:
            raise ValueError(
                f"None of {_DRAWS} draws of repeat {repeat + 1} has every class in every training part; ask for fewer "
                "--repeats, or merge rare classes."
            )
        return found

    def tested(self, rows: Rows, n_folds: int) -> Rows:
        """Return those of the rows that a repeat tests, each in one fold."""
        return np.sort(rows[np.concatenate([test for _, test in self.folds(rows, n_folds)])])

    def _folds(self, rows: Rows, n_folds: int, repeat: int) -> list[Split] | None:
        """Return folds with every class in every training part and two in every test part, or None."""
        y, seed = self.y[rows], self.seed + _BETWEEN_REPEATS * repeat
        if self.time is not None:
            found = _forward(self.time[rows], n_folds)
            return found if len(found) == n_folds and self._usable(y, found) else None
        if self.clusters is None:
            kind = StratifiedKFold if self.classification else KFold
            return list(kind(n_folds, shuffle=True, random_state=seed).split(rows, y))
        key = hash(rows.tobytes()), n_folds, seed
        kept = self._kept.pop(key) if key in self._kept else self._draw(rows, n_folds, seed)
        while len(self._kept) >= _KEPT:
            self._kept.pop(next(iter(self._kept)))
        self._kept[key] = kept
        return kept

    def _draw(self, rows: Rows, n_folds: int, seed: int) -> list[Split] | None:
        """Return folds of whole clusters, drawn until they can be used, or None."""
        assert self.clusters is not None
        grouped = StratifiedGroupKFold if self.classification else GroupKFold
        for draw in range(_DRAWS):
            folds = grouped(n_folds, shuffle=True, random_state=seed + draw)
            found = list(folds.split(rows, self.y[rows], self.clusters[rows]))
            if self._usable(self.y[rows], found):
                return found
        return None

    def _usable(self, y: npt.NDArray[Any], folds: Sequence[Split]) -> bool:
        """Return whether all classes can be learned in every fold, and some told apart."""
        if not self.classification:
            return True
        n_classes = np.unique(y).size
        return all(np.unique(y[train]).size == n_classes and np.unique(y[test]).size > 1 for train, test in folds)

    def _impossible(self) -> str:
        """Say why the rows cannot be split."""
        if self.time is not None:
            wanted = "a few distinct times"
            if self.classification:
                wanted += " and every class among the earliest rows"
            return f"To test on the later part, {wanted} are expected; choose another column, or split without --time."
        of_classes = " of every class" if self.classification else ""
        return (
            f"To keep rows together, several groups{of_classes} are expected, enough to train, to choose and to test; "
            "merge rare classes, or choose a finer column than that of --split-by."
        )

    def _rarest(self, rows: Rows) -> int:
        """Return of how many rows, or clusters, there are least: of a class, or of all numbers."""
        y = self.y[rows] if self.classification else np.zeros(rows.size, dtype=np.intp)
        if self.time is not None:
            return rows.size
        if self.clusters is None:
            return int(np.bincount(y).min())
        clusters = self.clusters[rows]
        return min(np.unique(clusters[y == label]).size for label in np.unique(y))


def _forward(time: npt.NDArray[Any], n_blocks: int) -> list[Split]:
    """Return the later rows in blocks, each with all rows before it; rows of the same time are in one block."""
    order = np.argsort(time, kind="stable")
    ranked = time[order]
    begins = np.append(np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1])), time.size)
    wanted = time.size * (_EARLY + (1.0 - _EARLY) * np.arange(n_blocks + 1) / n_blocks)
    edges = np.unique(begins[np.searchsorted(begins, np.round(wanted))])
    return [(order[:begin], order[begin:end]) for begin, end in pairwise(edges) if begin > 0]
