"""What is compared: aggregate losses, individual losses and class weights, under one name each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from atklearn.losses.individual import INDIVIDUAL_LOSSES

__all__ = ["AGGREGATES", "ANY", "CLASS_WEIGHTS", "PAPER_LOSSES", "Aggregate", "Method", "in_order"]

Aggregate: TypeAlias = Literal["maximum", "average", "atk"]

ANY = "chosen"
"""Stands for an individual loss, or class weights, that are chosen by validation."""

# In this order where order matters: the first of equals is chosen.
AGGREGATES: tuple[Aggregate, ...] = ("maximum", "average", "atk")

CLASS_WEIGHTS = {"plain": None, "balanced": "balanced"}
"""What kinds of class weights are called here, and by scikit-learn."""

PAPER_LOSSES: dict[str, tuple[str, str]] = {
    "classification": ("log_loss", "hinge"),
    "regression": ("squared_error", "absolute_error"),
}
"""Per task, the two individual losses of the paper."""


@dataclass(frozen=True)
class Method:
    """What is compared; ``loss`` and ``weights`` are "chosen" if validation chooses them."""

    aggregate: Aggregate
    loss: str
    weights: str


def in_order(loss: str, weights: str = ANY) -> tuple[int, int]:
    """Return a key that sorts by individual loss, then by class weights, the chosen ones last.

    Examples
    --------
    >>> sorted([("hinge", "balanced"), ("chosen", "chosen"), ("hinge", "plain")], key=lambda pair: in_order(*pair))
    [('hinge', 'plain'), ('hinge', 'balanced'), ('chosen', 'chosen')]
    """
    return [*INDIVIDUAL_LOSSES, ANY].index(loss), [*CLASS_WEIGHTS, ANY].index(weights)
