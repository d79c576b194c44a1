"""Every measure, once: its name, tasks, direction, title, digits, and the function that computes it.

To add a measure is to add an entry to :data:`MEASURES`. The functions take the answers of any number of fits at once,
so that the numbers of a single model and those of a whole grid are the same code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from atklearn.losses.aggregate import average_top_k
from atklearn.losses.individual import Array, Task
from atklearn.measures.answers import Answers

__all__ = [
    "DEFAULT_MEASURES",
    "GROUP_MEASURES",
    "MEASURES",
    "Measure",
    "evaluate_by_group",
    "evaluate_measures",
    "mean_of_largest_losses",
    "selectable_measures",
]

TAIL_SHARE = 0.1


@dataclass(frozen=True)
class Measure:
    """How good answers are, as one number.

    Attributes
    ----------
    name : str
        What results files and options call it.
    title : str
        What people call it.
    tasks : tuple of {"classification", "regression"}
        Where it makes sense.
    evaluate : callable
        Takes :class:`Answers` with leading axes of any shape, returns an array of that shape.
    higher_is_better : bool
    percent : bool
        Whether it is shown as a percentage.
    digits : int
        Behind the decimal point, where it is shown.
    selectable : bool
        Whether it may choose k and C.
    across_losses : bool
        Whether fits with different individual losses can be compared by it.
    applies : callable
        Says of :class:`Answers` of a fitting task whether they hold what the function needs.
    note : str
        A sentence for those who read a table of it; empty if the title says it all.

    Examples
    --------
    >>> measure = MEASURES["g_mean"]
    >>> measure.heading, measure.sign, measure.factor
    ('G-mean %', 1.0, 100.0)
    """

    name: str
    title: str
    tasks: tuple[Task, ...]
    evaluate: Callable[[Answers], Array]
    higher_is_better: bool = False
    percent: bool = False
    digits: int = 4
    selectable: bool = True
    across_losses: bool = True
    applies: Callable[[Answers], bool] = lambda _: True
    note: str = ""

    @property
    def sign(self) -> float:
        """What to multiply values with, so that higher is better."""
        return 1.0 if self.higher_is_better else -1.0

    @property
    def factor(self) -> float:
        """What to multiply values with to show them."""
        return 100.0 if self.percent else 1.0

    @property
    def unit(self) -> str:
        """What to write behind a value that is shown."""
        return " %" if self.percent else ""

    @property
    def heading(self) -> str:
        """Title and unit."""
        return self.title + self.unit


def mean_of_largest_losses(answers: Answers, k: float = TAIL_SHARE) -> Array:
    """Return the average top-k of the losses: an int k counts samples, a float is the fraction of them."""
    value = average_top_k(k).value
    return np.asarray(np.apply_along_axis(value, -1, answers.losses, answers.sample_weight))


def _geometric_mean_of_recalls(answers: Answers) -> Array:
    recalls = 1.0 - answers.class_errors
    return np.asarray(np.prod(recalls, axis=0) ** (1.0 / len(recalls)))


def _worst_group(answers: Answers) -> Array:
    return np.asarray(np.max(list(evaluate_by_group(answers).values()), axis=0))


def _has_groups(answers: Answers) -> bool:
    return answers.groups is not None


def _has_losses(answers: Answers) -> bool:
    return answers.loss is not None and answers.decisions is not None


_CLASSES: tuple[Task, ...] = ("classification",)
_NUMBERS: tuple[Task, ...] = ("regression",)

MEASURES: dict[str, Measure] = {
    measure.name: measure
    for measure in (
        Measure("error", "error", _CLASSES, lambda answers: answers.mean(answers.wrong), percent=True, digits=1),
        Measure(
            "balanced_error",
            "balanced error",
            _CLASSES,
            lambda answers: np.asarray(answers.class_errors.mean(axis=0)),
            percent=True,
            digits=1,
        ),
        Measure(
            "g_mean", "G-mean", _CLASSES, _geometric_mean_of_recalls, higher_is_better=True, percent=True, digits=1
        ),
        Measure(
            "worst_class_error",
            "worst class error",
            _CLASSES,
            lambda answers: np.asarray(answers.class_errors.max(axis=0)),
            percent=True,
            digits=1,
        ),
        Measure("rmse", "RMSE", _NUMBERS, lambda answers: np.sqrt(answers.mean(answers.residuals**2))),
        Measure("mae", "MAE", _NUMBERS, lambda answers: answers.mean(np.abs(answers.residuals))),
        Measure(
            "tail_loss",
            "tail loss",
            ("classification", "regression"),
            mean_of_largest_losses,
            digits=2,
            selectable=False,  # on noisy data it is smallest at w = 0, where all losses are equal
            across_losses=False,
            applies=_has_losses,
            note=f"The tail loss is the mean of the largest {TAIL_SHARE:.0%} of the losses, in units of each loss: to "
            "compare within a loss only.",
        ),
        Measure(
            "worst_group_error",
            "worst group error",
            _CLASSES,
            _worst_group,
            percent=True,
            digits=1,
            selectable=False,  # validation folds need not have rows of every group
            applies=_has_groups,
        ),
        Measure("worst_group_rmse", "worst group RMSE", _NUMBERS, _worst_group, selectable=False, applies=_has_groups),
    )
}
"""Every measure by its name, in the order in which reports show them."""

DEFAULT_MEASURES: dict[Task, str] = {"classification": "balanced_error", "regression": "rmse"}
"""Per task, what chooses k and C unless another measure is asked for."""

GROUP_MEASURES: dict[Task, str] = {"classification": "error", "regression": "rmse"}
"""Per task, what is reported of every group of samples."""


def selectable_measures(task: Task | None = None) -> list[str]:
    """Return the names of the measures that may choose k and C, for a task or for any.

    Examples
    --------
    >>> selectable_measures("regression")
    ['rmse', 'mae']
    """
    return [
        name for name, measure in MEASURES.items() if measure.selectable and (task is None or task in measure.tasks)
    ]


def evaluate_measures(answers: Answers) -> dict[str, Array]:
    """Return every measure that these answers allow, by name.

    Parameters
    ----------
    answers : Answers
        With leading axes of any shape, such as (n_ks, n_Cs).

    Returns
    -------
    values : dict of ndarrays of that shape

    Examples
    --------
    >>> found = evaluate_measures(Answers(np.array([0.0, 0.0]), np.array([[3.0, 4.0], [1.0, -1.0]])))
    >>> {name: values.round(2).tolist() for name, values in found.items()}
    {'rmse': [3.54, 1.0], 'mae': [3.5, 1.0]}
    """
    return {
        name: measure.evaluate(answers)
        for name, measure in MEASURES.items()
        if answers.task in measure.tasks and measure.applies(answers)
    }


def evaluate_by_group(answers: Answers) -> dict[str, Array]:
    """Return what is reported of groups, for every group that has weight: see :data:`GROUP_MEASURES`."""
    measure = MEASURES[GROUP_MEASURES[answers.task]]
    return {group: measure.evaluate(part) for group, part in answers.by_group().items()}
