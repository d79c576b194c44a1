"""The k-th largest loss of all chunks, exactly: a few thousand losses travel, whatever their number."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from atklearn.chunked.sums import Sums
from atklearn.losses.aggregate import select
from atklearn.losses.individual import Array

__all__ = ["Ranked", "rank"]

# Losses that are told at a time, about.
_TOLD = 4096
_MOST_ROUNDS = 60
_DEVIATIONS = 4.0  # of the rank in a sample, to both sides, that a bracket reaches


class Ranked(NamedTuple):
    """The loss at which the amount counted from the top reaches what is wanted, and the amount above it."""

    value: float
    above: float


def rank(ask: Callable[[float, float, float], Sums], wanted: float, n_rows: int) -> Ranked:
    """Find a ranked loss.

    Some losses of every chunk bracket it; what lies above the bracket is counted, and what lies inside is told in its
    turn, until that is all there is.

    Parameters
    ----------
    ask : callable
        Takes the ends of a bracket and which part of the losses inside should be told, returns the answers to
        :class:`atklearn.chunked.questions.Losing`.
    wanted : float
        The amount, counted from the top.
    n_rows : int
        How many losses there are.

    Examples
    --------
    >>> from atklearn.chunked.sums import Extremes
    >>> losses = np.arange(10.0)
    >>> def ask(low, high, share):
    ...     inside = losses[(losses >= low) & (losses <= high)]
    ...     told = Sums(values=[inside], weights=[np.ones(inside.size)], partial=0)
    ...     return told + Sums(above=float((losses > high).sum()), inside=float(inside.size),
    ...                        range=Extremes.of(inside), n_inside=[(0, inside.size)])
    >>> rank(ask, 3.0, 10)
    Ranked(value=7.0, above=2.0)
    """
    bounds = [-np.inf, np.inf]  # what the answer is certain to lie between
    low, high, expected = *bounds, float(n_rows)
    for _ in range(_MOST_ROUNDS):
        told = ask(low, high, min(_TOLD / max(expected, 1.0), 1.0))
        above, inside, n_inside = told["above"], told["inside"], float(sum(n for _, n in told["n_inside"]))
        if above >= wanted and high < np.inf:
            bounds[0] = high
            low, high, expected = *bounds, float(n_rows)
            continue
        if above + inside < wanted and low > -np.inf:
            bounds[1] = low
            low, high, expected = *bounds, float(n_rows)
            continue
        bounds = [low, high]
        values, weights = np.concatenate(told["values"]), np.concatenate(told["weights"])
        if told["range"].low == told["range"].high:
            return Ranked(told["range"].low, above)
        if not told["partial"]:
            value = select(values, weights, wanted - above)
            return Ranked(value, above + float(weights[values > value].sum()))
        low, high = _bracket(values, weights, wanted - above, bounds)
        expected = 1.5 * n_inside * float(weights[(values >= low) & (values <= high)].sum()) / inside
    raise RuntimeError(f"No loss was found of rank {wanted:g} between {low:g} and {high:g}.")


def _bracket(values: Array, weights: Array, wanted: float, bounds: list[float]) -> tuple[float, float]:
    """Return what the answer lies between, most likely, by a sample of losses and what each stands for."""
    order = np.argsort(-values)
    place = int(np.searchsorted(np.cumsum(weights[order]), wanted))
    margin = int(_DEVIATIONS * 0.5 * np.sqrt(order.size)) + 2
    high = values[order[place - margin]] if place >= margin else bounds[1]
    low = values[order[place + margin]] if place + margin < order.size else bounds[0]
    if [low, high] == bounds:  # no narrower: ties fill it, or there are as many chunks as losses told
        middle = float(values[order[min(place, order.size - 1)]])
        return middle, middle
    return float(low), float(high)
