"""What one would try before another loss: mapping the decision values of a fit, fitted to the measure that counts.

For two classes the map is f - t, a tuned decision threshold; for numbers it is a f + b. Both are fitted to predictions
of rows that the fit has not seen, those of a cross-validation, as scikit-learn's ``TunedThresholdClassifierCV`` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from atklearn.losses.individual import Array
from atklearn.measures import MEASURES, Answers
from atklearn.selection.paths import atk_path

__all__ = ["Map", "MapKind", "Recalibration", "apply_map", "map_kind"]

Map: TypeAlias = tuple[float, float]
"""Slope and shift of a map of decision values."""
MapKind: TypeAlias = Literal["threshold", "affine"]

_N_THRESHOLDS = 100
_MAP_C = 1e4  # one slope, of standardised predictions: next to no penalty


def map_kind(measure: str, n_classes: int | None) -> MapKind | None:
    """Return what kind of map could improve a measure: none that depends on the order of decision values alone.

    Examples
    --------
    >>> map_kind("error", 2), map_kind("error", 3), map_kind("roc_auc", 2), map_kind("tail_error", None)
    ('threshold', None, None, 'affine')
    """
    if n_classes is None:
        return "affine"
    return "threshold" if n_classes == 2 and MEASURES[measure].sees == "labels" else None


def apply_map(decisions: Array, values: Map) -> Array:
    """Return mapped decision values."""
    slope, shift = values
    return slope * decisions + shift


@dataclass(frozen=True)
class Unseen:
    """What fits say about rows they have not seen, or how maps of it do: decisions of shape (..., 1, n_rows)."""

    decisions: Array
    y: npt.NDArray[Any]
    groups: npt.NDArray[Any] | None

    @classmethod
    def together(cls, parts: Sequence[Unseen]) -> Unseen:
        """Return several of them as one."""
        groups = [part.groups for part in parts if part.groups is not None]
        return cls(
            np.concatenate([part.decisions for part in parts], axis=-1),
            np.concatenate([part.y for part in parts]),
            np.concatenate(groups) if groups else None,
        )


class Recalibration:
    """Maps of the decision values of one fit, fitted to any measure on what it says in a cross-validation.

    Parameters
    ----------
    folds : sequence of (decisions, y, groups)
        Per fold, what was said about its rows, shape (1, n_rows), and the truth; the folds of a repetition in a row.
    n_folds : int
        Of a repetition.
    classes : ndarray or None
    tail : float
        As in :class:`atklearn.measures.Answers`.
    """

    def __init__(
        self,
        folds: Sequence[tuple[Array, npt.NDArray[Any], npt.NDArray[Any] | None]],
        n_folds: int,
        classes: npt.NDArray[Any] | None,
        tail: float,
    ) -> None:
        self.folds = [Unseen(*fold) for fold in folds]
        self.n_folds, self.classes, self.tail = n_folds, classes, tail

    def fitted_to(self, measure: str) -> Map:
        """Return the map that is best on all folds."""
        maps, answers = self._whole
        return self._best(measure, maps, answers)[0]

    def validation(self, measure: str) -> list[float]:
        """Return the measure on every fold, with the map that is best on the others of its repetition."""
        values = []
        for (maps, on_others), on_fold in self._crossed:
            _, best = self._best(measure, maps, on_others)
            values.append(float(MEASURES[measure].evaluate(on_fold)[best]))
        return values

    @cached_property
    def _whole(self) -> tuple[Array, Answers]:
        return self._mapped(Unseen.together(self.folds))

    @cached_property
    def _crossed(self) -> list[tuple[tuple[Array, Answers], Answers]]:
        """Per fold: the maps of the others with what they say there, and what they say about the fold."""
        crossed = []
        for place, fold in enumerate(self.folds):
            first = place - place % self.n_folds
            others = [part for i, part in enumerate(self.folds) if first <= i < first + self.n_folds and i != place]
            maps, answers = self._mapped(Unseen.together(others))
            crossed.append(((maps, answers), self._answers(fold, maps)))
        return crossed

    def _mapped(self, said: Unseen) -> tuple[Array, Answers]:
        """Return candidates for the map, shape (n_maps, 2), those that change least first, and what each says."""
        maps = _affine_maps(said, self.tail) if self.classes is None else _shifts(said)
        return maps, self._answers(said, maps)

    def _answers(self, said: Unseen, maps: Array) -> Answers:
        decisions = maps[:, 0, None, None] * said.decisions + maps[:, 1, None, None]
        return Answers.from_decisions(decisions, said.y, self.classes, groups=said.groups, tail=self.tail)

    @staticmethod
    def _best(measure: str, maps: Array, answers: Answers) -> tuple[Map, int]:
        best = int(np.argmax(MEASURES[measure].sign * MEASURES[measure].evaluate(answers)))
        return (float(maps[best, 0]), float(maps[best, 1])), best


def _shifts(said: Unseen) -> Array:
    """Return the maps f - t for thresholds between decision values, spread evenly over the rows."""
    values = np.unique(said.decisions)
    between = 0.5 * (values[1:] + values[:-1])
    if between.size > _N_THRESHOLDS:
        places = np.searchsorted(between, np.quantile(said.decisions, np.linspace(0.0, 1.0, _N_THRESHOLDS)))
        between = between[np.unique(np.minimum(places, between.size - 1))]
    shifts = np.concatenate([[0.0], -between[np.argsort(np.abs(between), kind="stable")]])
    return np.column_stack([np.ones(shifts.size), shifts])


def _affine_maps(said: Unseen, tail: float) -> Array:
    """Return the identity, and the affine maps of least squares and of least maximum, tail and mean of |error|."""
    f, y = said.decisions[0], np.asarray(said.y, dtype=np.float64)
    centre, spread = float(f.mean()), float(f.std()) or 1.0
    middle, scale = float(y.mean()), float(y.std()) or 1.0
    z, target = (f - centre) / spread, (y - middle) / scale
    path = atk_path(
        z[:, None], target, ks=["max", tail, 1.0], Cs=[_MAP_C], loss="absolute_error", tol=1e-3
    )  # fmt: skip
    slopes = np.concatenate([[float(z @ target) / max(float(z @ z), 1e-300)], path.coefs[:, 0, 0, 0]])
    shifts = np.concatenate([[0.0], path.intercepts[:, 0, 0]])
    slopes, shifts = slopes * scale / spread, middle + scale * shifts
    return np.vstack([[1.0, 0.0], np.column_stack([slopes, shifts - slopes * centre])])
