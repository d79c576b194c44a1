"""The k-th largest of any number of losses, exactly, wherever they are: few of them are ever looked at together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from atklearn.losses.aggregate import rank_of, select
from atklearn.losses.individual import Array

__all__ = ["Between", "Ranked", "rank"]

_SAMPLE = 4096  # losses that bracket the one that is sought
_DEVIATIONS = 4.0  # of the rank in a sample, to both sides, that a bracket reaches
_MAX_ROUNDS = 60


@dataclass(frozen=True)
class Between:
    """What losses say of an interval from ``low`` to ``high``, its ends included.

    Attributes
    ----------
    above, inside : float
        The amounts (mass, or number) above the interval and inside.
    count : int
        How many losses are inside.
    values : ndarray of shape (n,)
        Those inside, or some of them.
    weights : ndarray of shape (n,)
        The amounts that these stand for.
    is_partial : bool
        Whether there are others inside.
    least, most : float
        The smallest and the largest loss inside.
    """

    above: float
    inside: float
    count: int
    values: Array
    weights: Array
    is_partial: bool
    least: float
    most: float

    @classmethod
    def of(cls, losses: Array, amounts: Array, low: float, high: float, share: float, fewest: int = 1) -> Between:
        """Look at losses in memory; only about a ``share`` of those inside is handed over, spread evenly.

        Examples
        --------
        >>> seen = Between.of(np.array([3.0, 1.0, 2.0, 5.0]), np.ones(4), 2.0, 4.0, 1.0)
        >>> seen.above, seen.inside, seen.values
        (1.0, 2.0, array([3., 2.]))
        """
        inside = (losses >= low) & (losses <= high)
        values, weights = losses[inside], amounts[inside]
        return cls.inside_of(float(amounts[losses > high].sum()), values, weights, share, fewest)

    @classmethod
    def inside_of(cls, above: float, values: Array, weights: Array, share: float, fewest: int = 1) -> Between:
        """Hand over about a ``share`` of the losses inside, which are all given, but not less than the ``fewest``."""
        inside, count = float(weights.sum()), values.size
        ends = (float(values.min()), float(values.max())) if count else (np.inf, -np.inf)
        step = -(-count // max(int(share * count), fewest))
        if step > 1:
            values = values[::step]
            weights = np.full(values.size, inside / values.size)
        return cls(above, inside, count, values, weights, values.size < count, *ends)


@dataclass(frozen=True)
class Ranked:
    """The loss at which the amount counted from the top reaches what is wanted, and the amount above it."""

    value: float
    above: float


def rank(look: Callable[[float, float, float], Between], wanted: float, n: int, most: int = _SAMPLE) -> Ranked:
    """Find a ranked loss.

    A sample brackets it; what lies above the bracket is counted, and what lies inside is handed over, until that is
    all there is.

    Parameters
    ----------
    look : callable
        Takes the ends of an interval and which share of the losses inside should be handed over, returns a `Between`.
    wanted : float
        The amount, counted from the top.
    n : int
        How many losses there are.
    most : int
        Losses that may be handed over at a time.

    Examples
    --------
    >>> losses = np.arange(10.0)
    >>> rank(lambda low, high, share: Between.of(losses, np.ones(10), low, high, share), 3.0, 10)
    Ranked(value=7.0, above=2.0)
    """
    bounds = [-np.inf, np.inf]  # what the answer is certain to lie between
    low, high, expected = *bounds, float(n)
    for _ in range(_MAX_ROUNDS):
        few = most if high < np.inf or low > -np.inf else 2 * _SAMPLE  # of all losses a sample, unless there are few
        seen = look(low, high, 1.0 if expected <= few else _SAMPLE / expected)
        if seen.above >= wanted and high < np.inf:
            bounds[0] = high
            low, high, expected = *bounds, float(n)
            continue
        if seen.above + seen.inside < wanted and low > -np.inf:
            bounds[1] = low
            low, high, expected = *bounds, float(n)
            continue
        bounds = [low, high]
        if seen.least == seen.most:
            return Ranked(seen.least, seen.above)
        values, weights = seen.values, seen.weights
        if not seen.is_partial:
            value = _completing(values, weights, wanted - seen.above)
            return Ranked(value, seen.above + float(weights[values > value].sum()))
        low, high = _bracket(values, weights, wanted - seen.above, bounds)
        expected = 1.5 * seen.count * float(weights[(values >= low) & (values <= high)].sum()) / seen.inside
    raise RuntimeError(f"No loss was found of rank {wanted:g} between {low:g} and {high:g}.")


def _completing(values: Array, weights: Array, wanted: float) -> float:
    """Return the loss that completes an amount, counted from the top."""
    if weights.min() < weights.max():
        return select(values, weights, wanted)
    place = values.size - rank_of(wanted / float(weights[0]), values.size)
    return float(np.partition(values, place)[place])


def _bracket(values: Array, weights: Array, wanted: float, bounds: list[float]) -> tuple[float, float]:
    """Return what the answer lies between, most likely, by a sample of losses and what each stands for."""
    order = np.argsort(-values)
    place = int(np.searchsorted(np.cumsum(weights[order]), wanted))
    margin = int(_DEVIATIONS * 0.5 * np.sqrt(order.size)) + 2
    high = values[order[place - margin]] if place >= margin else bounds[1]
    low = values[order[place + margin]] if place + margin < order.size else bounds[0]
    if [low, high] == bounds:  # no narrower: ties fill it, or there are as many chunks as losses handed over
        middle = float(values[order[min(place, order.size - 1)]])
        return middle, middle
    return float(low), float(high)
