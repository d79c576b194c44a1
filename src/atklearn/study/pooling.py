"""What two sides said about every row when they had not seen it, measured as a whole, and how sure the difference is.

Each repeat of the cross-validation predicts every row once. A measure is taken over all rows of a repeat together, so
that the largest error is that of all rows and the worst tenth is a tenth of them, and averaged over the repeats. How
much of a difference is luck of the rows is told by drawing them with replacement, the same for both sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from atklearn.losses.individual import Array
from atklearn.measures import MEASURES, Answers
from atklearn.measures.catalogue import evaluate_by_group

__all__ = ["JudgedRows", "OnPart", "Pair"]

# How many times the rows are drawn: fewer of many, which also bounds the memory.
_MOST_DRAWS, _LEAST_DRAWS = 1000, 200
_NUMBERS_AT_ONCE = 4_000_000
Part: TypeAlias = tuple[Answers, npt.NDArray[np.intp]]
"""Answers, one line per repeat, and the rows they are about."""


class OnPart(Protocol):
    """What a model said about the rows of a test part that it had not seen, such as a choice of a split."""

    @property
    def rows(self) -> npt.NDArray[np.intp]:
        """The rows, as places among those that are judged."""

    @property
    def said(self) -> Array:
        """Decision values, or predictions, of shape (n_problems, n_rows)."""


@dataclass(frozen=True)
class Pair:
    """A measure of two sides.

    Attributes
    ----------
    average, atk : float
        Over all rows, averaged over the repeats.
    error : float
        The standard deviation of the difference over draws of the rows.
    """

    average: float
    atk: float
    error: float


@dataclass(frozen=True)
class JudgedRows:
    """The rows that a comparison is judged on: what is true of them.

    Attributes
    ----------
    y : ndarray of shape (n_rows,)
        Codes of the classes, or targets.
    classes : ndarray or None
        All codes; None for a regression.
    groups : ndarray of shape (n_rows,) or None
    tail : float
    n_folds : int
        Of a repeat.
    clusters : ndarray of int of shape (n_rows,) or None
        Rows that were kept together: they are drawn together, too.
    """

    y: npt.NDArray[Any]
    classes: npt.NDArray[Any] | None
    groups: npt.NDArray[Any] | None
    tail: float
    n_folds: int
    clusters: npt.NDArray[np.intp] | None = None

    @cached_property
    def draws(self) -> Array:
        """How often each row is drawn, shape (n_draws, n_rows)."""
        n_draws = int(np.clip(5_000_000 // self.y.size, _LEAST_DRAWS, _MOST_DRAWS))
        lots = np.arange(self.y.size) if self.clusters is None else np.unique(self.clusters, return_inverse=True)[1]
        n = int(lots.max()) + 1
        drawn = np.random.default_rng(0).multinomial(n, np.full(n, 1.0 / n), size=n_draws)
        return drawn.astype(np.float64)[:, lots]

    def compare(self, measure: str, average: Sequence[OnPart], atk: Sequence[OnPart]) -> Pair:
        """Return a measure of two sides.

        Parameters
        ----------
        measure : str
        average, atk : sequence of OnPart
            On every split, the splits of a repeat in a row.
        """
        one = self._answers(measure, average)
        if all(a is b for a, b in zip(average, atk, strict=True)):
            value = self._value(measure, one)
            return Pair(value, value, 0.0)
        other = self._answers(measure, atk)
        differences = self._drawn(measure, other) - self._drawn(measure, one)
        return Pair(self._value(measure, one), self._value(measure, other), float(differences.std(ddof=1)))

    def measure(self, measure: str, choices: Sequence[OnPart]) -> float:
        """Return a measure of one side, averaged over the repeats."""
        return self._value(measure, self._answers(measure, choices))

    def by_group(self, choices: Sequence[OnPart]) -> dict[str, float]:
        """Return what is reported of every group of rows, averaged over the repeats; empty without groups."""
        ((answers, _),) = self._answers("error", choices)
        return {name: float(values.mean()) for name, values in evaluate_by_group(answers).items()}

    def _value(self, measure: str, parts: Sequence[Part]) -> float:
        return float(np.mean([MEASURES[measure].evaluate(answers).mean() for answers, _ in parts]))

    def _drawn(self, measure: str, parts: Sequence[Part]) -> Array:
        """Return a measure, averaged over the repeats, for every draw of the rows; shape (n_draws,)."""
        total = np.zeros(len(self.draws))
        for answers, rows in parts:
            size = max(1, _NUMBERS_AT_ONCE // answers.predictions.size)
            for first in range(0, len(self.draws), size):
                drawn = replace(answers, sample_weight=self.draws[first : first + size, None, rows])
                total[first : first + size] += MEASURES[measure].evaluate(drawn).mean(axis=-1)
        return total / len(parts)

    def repeats(self, choices: Sequence[OnPart]) -> Array:
        """Return what a side said about all rows, a line per repeat: shape (n_repeats, n_problems, n_rows)."""
        shape = (len(choices) // self.n_folds, *choices[0].said.shape[:-1], self.y.size)
        decisions = np.empty(shape)
        for place, choice in enumerate(choices):
            decisions[place // self.n_folds][..., choice.rows] = choice.said
        return decisions

    def _answers(self, measure: str, choices: Sequence[OnPart]) -> list[Part]:
        """Return what a side said: a line per repeat about all rows, or every split by itself for an order of rows."""
        if MEASURES[measure].sees == "order":  # decision values of one fit cannot be compared with those of another
            return [self._part(measure, choice.said[None], choice.rows) for choice in choices]
        return [self._part(measure, self.repeats(choices), np.arange(self.y.size))]

    def _part(self, measure: str, decisions: Array, rows: npt.NDArray[np.intp]) -> Part:
        loss = "log_loss" if MEASURES[measure].sees == "probabilities" else None
        groups = None if self.groups is None else self.groups[rows]
        known = {"loss": loss, "groups": groups, "tail": self.tail}
        return Answers.from_decisions(decisions, self.y[rows], self.classes, **known), rows
