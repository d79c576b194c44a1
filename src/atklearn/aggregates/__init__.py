"""How the losses of all samples become one number: value, weights and threshold of every aggregate."""

from atklearn.losses.aggregate import Average, AverageBottomK, AverageTopK, Maximum, RankedRange, Tilted, TopK

__all__ = ["Average", "AverageBottomK", "AverageTopK", "Maximum", "RankedRange", "Tilted", "TopK"]
