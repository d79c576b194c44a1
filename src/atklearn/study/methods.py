"""What is compared: aggregate losses, individual losses and class weights, under one name each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from atklearn.losses.individual import INDIVIDUAL_LOSSES

__all__ = [
    "AGGREGATES",
    "AVERAGE_ONLY",
    "CLASS_WEIGHTS",
    "COMPARED_LOSSES",
    "PAPER_LOSSES",
    "ROBUST",
    "Aggregate",
    "Method",
    "in_order",
]

Aggregate: TypeAlias = Literal["maximum", "average", "atk", "trimmed", "range"]

# In this order where order matters: the first of equals is chosen.
AGGREGATES: tuple[Aggregate, ...] = ("maximum", "average", "atk", "trimmed", "range")

ROBUST: tuple[Aggregate, ...] = ("trimmed", "range")
"""Those that set the largest losses aside: the mean of all others, and of those up to k."""

CLASS_WEIGHTS = {"plain": None, "balanced": "balanced"}
"""What kinds of class weights are called here, and by scikit-learn."""

PAPER_LOSSES: dict[str, tuple[str, str]] = {
    "classification": ("log_loss", "hinge"),
    "regression": ("squared_error", "absolute_error"),
}
"""Per task, the two individual losses of the paper."""

COMPARED_LOSSES: dict[str, tuple[str, ...]] = {
    "classification": ("log_loss", "squared_hinge", "hinge"),
    "regression": PAPER_LOSSES["regression"],
}
"""Per task, the individual losses that a comparison tries."""

AVERAGE_ONLY = frozenset({"hinge"})
"""Losses for which k is a second name for C: AT_k has nothing to add to their average."""


@dataclass(frozen=True)
class Method:
    """What is compared."""

    aggregate: Aggregate
    loss: str
    weights: str


def in_order(loss: str, weights: str = "plain") -> tuple[int, int]:
    """Return a key that sorts by individual loss, then by class weights.

    Examples
    --------
    >>> sorted([("hinge", "balanced"), ("log_loss", "balanced"), ("hinge", "plain")], key=lambda pair: in_order(*pair))
    [('log_loss', 'balanced'), ('hinge', 'plain'), ('hinge', 'balanced')]
    """
    return [*INDIVIDUAL_LOSSES].index(loss), [*CLASS_WEIGHTS].index(weights)
