"""How good predictions are: each measure with its name, task, direction, title and function."""

from atklearn.measures.answers import Answers
from atklearn.measures.catalogue import MEASURES, Measure
from atklearn.measures.scores import (
    MeasureScorer,
    balanced_error,
    balanced_error_scorer,
    g_mean,
    g_mean_scorer,
    tail_loss,
    worst_class_error,
    worst_class_error_scorer,
    worst_group_error,
    worst_group_error_scorer,
)

__all__ = [
    "MEASURES",
    "Answers",
    "Measure",
    "MeasureScorer",
    "balanced_error",
    "balanced_error_scorer",
    "g_mean",
    "g_mean_scorer",
    "tail_loss",
    "worst_class_error",
    "worst_class_error_scorer",
    "worst_group_error",
    "worst_group_error_scorer",
]
