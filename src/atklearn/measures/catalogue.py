"""Every measure, once: its name, tasks, direction, title, digits, and the function that computes it.

To add a measure is to add an entry to :data:`MEASURES`. The functions take the answers of any number of fits at once,
so that the numbers of a single model and those of a whole grid are the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from atklearn.losses.individual import Array, Task
from atklearn.measures.answers import Answers

__all__ = [
    "DEFAULT_MEASURES",
    "GROUP_MEASURES",
    "MEASURES",
    "Measure",
    "area_under_roc",
    "average_precision",
    "evaluate_by_group",
    "evaluate_measures",
    "names_of_measures",
]

_SMALLEST_PROBABILITY = float(np.finfo(np.float64).eps)
_HIGH_QUANTILE = 0.95


@dataclass(frozen=True)
class Measure:
    """How good answers are, as one number: a value of :data:`atklearn.measures.MEASURES`.

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
    relative : bool
        Whether differences matter in proportion to the value; else the scale of the measure is one.
    sees : {"labels", "order", "probabilities", "numbers"}
        What it looks at: labels, decision values within one fit, probabilities, or predicted numbers.
    by_group : bool
        Whether it needs to know the groups of the samples.
    classes_alike : bool
        Whether every class counts the same, however few samples it has.
    meaning : str
        What it is, in words that need no other: the end of a sentence that begins with its title.
    note : str
        A sentence for those who read a table of it; empty if the title says it all.

    Examples
    --------
    >>> import numpy as np
    >>> from atklearn.measures import MEASURES, Answers
    >>> measure = MEASURES["g_mean"]
    >>> measure.heading, measure.sign, measure.factor
    ('G-mean %', 1.0, 100.0)
    >>> answers = Answers(y=np.array([0, 0, 1, 1]), predictions=np.array([0, 0, 1, 0]), classes=np.array([0, 1]))
    >>> measure.applies(answers), round(float(measure.evaluate(answers)), 3)
    (True, 0.707)
    """

    name: str
    title: str
    tasks: tuple[Task, ...]
    evaluate: Callable[[Answers], Array]
    higher_is_better: bool = False
    percent: bool = False
    digits: int = 4
    relative: bool = False
    sees: Literal["labels", "order", "probabilities", "numbers"] = "labels"
    by_group: bool = False
    classes_alike: bool = False
    meaning: str = ""
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

    def applies(self, answers: Answers) -> bool:
        """Return whether answers are of a task that it is for, and hold what it looks at.

        Parameters
        ----------
        answers : Answers

        Returns
        -------
        applies : bool
        """
        held = {"order": answers.decisions is not None, "probabilities": answers.probabilities is not None}
        known = held.get(self.sees, True) and (answers.groups is not None or not self.by_group)
        return answers.task in self.tasks and known

    def scale(self, value: float) -> float:
        """Return what a difference is to be seen against, where the value is this.

        Parameters
        ----------
        value : float

        Returns
        -------
        scale : float
            The size of the value for a relative measure, else 1.
        """
        return abs(value) if self.relative else 1.0


def _geometric_mean_of_recalls(answers: Answers) -> Array:
    # not one minus the errors, whose rounding a root would make large
    recalls = np.stack([answers.mean(~answers.wrong, answers.y == label) for label in np.unique(answers.y)])
    return np.asarray(np.nanprod(recalls, axis=0) ** (1.0 / np.isfinite(recalls).sum(axis=0)))


def _mean_over_problems(answers: Answers, measure: Callable[..., Array], alone: float) -> Array:
    """Return the mean of a measure over the problems that have samples of both kinds; a fixed value if none has."""
    found = [measure(decisions, positive, answers.sample_weight) for decisions, positive in answers.told_apart]
    if found:
        return np.asarray(np.mean(found, axis=0))
    weight = answers.sample_weight
    shape = np.broadcast_shapes(answers.predictions.shape, () if weight is None else weight.shape)
    return np.full(shape[:-1], alone)


def area_under_roc(decisions: Array, positive: npt.NDArray[np.bool_], weight: Array | None = None) -> Array:
    """Return the probability that a positive sample has a larger decision value than a negative one, ties half.

    Where a kind has no weight, 0.5.

    Examples
    --------
    >>> area_under_roc(np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True]))
    array(0.75)
    """
    hits, misses, last = _descending(decisions, positive, weight)
    found = hits.cumsum(axis=-1)
    at_end = np.take_along_axis(found, last, axis=-1)
    first = _first_of_run(last)
    before = np.take_along_axis(found - hits, first, axis=-1)
    total = 2.0 * found[..., -1] * misses.sum(axis=-1)
    area = (misses * (at_end + before)).sum(axis=-1)
    return np.asarray(np.divide(area, total, out=np.full(area.shape, 0.5), where=total > 0.0))


def average_precision(decisions: Array, positive: npt.NDArray[np.bool_], weight: Array | None = None) -> Array:
    """Return the mean over the positive samples of the precision where each is found, ties found together.

    Zero without positive weight.

    Examples
    --------
    >>> average_precision(np.array([0.1, 0.4, 0.3, 0.8, 0.2]), np.array([False, False, False, True, True]))
    array(0.75)
    """
    hits, misses, last = _descending(decisions, positive, weight)
    found, taken = hits.cumsum(axis=-1), (hits + misses).cumsum(axis=-1)
    precision = np.divide(found, taken, out=np.zeros_like(found), where=taken > 0.0)
    total, mean = found[..., -1], (hits * np.take_along_axis(precision, last, axis=-1)).sum(axis=-1)
    return np.asarray(np.divide(mean, total, out=np.zeros(mean.shape), where=total > 0.0))


def _descending(
    decisions: Array, positive: npt.NDArray[np.bool_], weight: Array | None
) -> tuple[Array, Array, npt.NDArray[np.intp]]:
    """Return the weights of positives and negatives by falling decision, and where the run of equals of each ends."""
    order = np.argsort(-decisions, axis=-1, kind="stable")
    ranked = np.take_along_axis(decisions, order, axis=-1)
    ends = np.ones(ranked.shape, dtype=bool)
    ends[..., :-1] = ranked[..., 1:] != ranked[..., :-1]
    places = np.where(ends, np.arange(positive.size), positive.size)
    last = np.minimum.accumulate(places[..., ::-1], axis=-1)[..., ::-1]
    mass = np.ones(positive.size) if weight is None else weight
    shape = np.broadcast_shapes(decisions.shape, mass.shape)
    order, last = np.broadcast_to(order, shape), np.broadcast_to(last, shape)
    mass, found = np.take_along_axis(np.broadcast_to(mass, shape), order, axis=-1), positive[order]
    return np.where(found, mass, 0.0), np.where(found, 0.0, mass), last


def _first_of_run(last: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Return where the run of equals of each place begins, from where it ends."""
    starts = np.ones(last.shape, dtype=bool)
    starts[..., 1:] = last[..., 1:] != last[..., :-1]
    begun: npt.NDArray[np.intp] = np.maximum.accumulate(np.where(starts, np.arange(last.shape[-1]), 0), axis=-1)
    return begun


def _brier(answers: Answers) -> Array:
    """Half the squared distance of the probabilities to the truth: for two classes, (p - y)^2."""
    assert answers.probabilities is not None
    squares = (answers.probabilities**2).sum(axis=-2) - 2.0 * answers.probability_of_truth + 1.0
    return answers.mean(0.5 * squares)


def _tail_error(answers: Answers) -> Array:
    """Return the average top-k of the sizes of errors, of which the last counts in part if k ends inside it."""
    sizes, weights = answers.falling(answers.absolute_residuals)
    reached = weights.cumsum(axis=-1)
    k = answers.tail * reached[..., -1]
    taken = np.clip(k[..., None] - (reached - weights), 0.0, weights)
    return np.asarray((taken * sizes).sum(axis=-1) / k)


def _high_quantile(answers: Answers) -> Array:
    """Return the smallest size of error that 95 % of the weight does not exceed."""
    sizes, weights = answers.falling(answers.absolute_residuals)
    above = weights.cumsum(axis=-1) - weights  # the weight before each, which exceeds it or is equal
    allowed = (1.0 - _HIGH_QUANTILE + 1e-12) * weights.sum(axis=-1, keepdims=True)
    place = ((above <= allowed) & (weights > 0.0)).cumsum(axis=-1).argmax(axis=-1)  # the last that may be
    return np.asarray(np.take_along_axis(sizes, place[..., None], axis=-1)[..., 0])


def _largest_error(answers: Answers) -> Array:
    sizes = answers.absolute_residuals
    if answers.sample_weight is not None:
        sizes = np.where(answers.sample_weight > 0.0, sizes, -np.inf)
    return np.asarray(sizes.max(axis=-1))


def _explained(answers: Answers) -> Array:
    """One minus the mean squared error over the variance; as in scikit-learn, 1 or 0 where there is no variance."""
    left = answers.mean(answers.residuals**2)
    centre = answers.mean(np.asarray(answers.y, dtype=np.float64))
    variance = answers.mean((answers.y - centre[..., None]) ** 2)
    without = np.where(left == 0.0, 1.0, 0.0)
    return np.where(variance > 0.0, 1.0 - left / np.where(variance > 0.0, variance, 1.0), without)


def _worst_group(answers: Answers) -> Array:
    return np.asarray(np.nanmax(list(evaluate_by_group(answers).values()), axis=0))


_CLASSES: tuple[Task, ...] = ("classification",)
_NUMBERS: tuple[Task, ...] = ("regression",)

MEASURES: dict[str, Measure] = {
    measure.name: measure
    for measure in (
        Measure(
            "error", "error", _CLASSES, lambda answers: answers.mean(answers.wrong), percent=True, digits=1,
            meaning="the share of rows that get a wrong label",
        ),
        Measure(
            "balanced_error", "balanced error", _CLASSES,
            lambda answers: np.asarray(np.nanmean(answers.class_errors, axis=0)),
            percent=True, digits=1, classes_alike=True,
            meaning="the share of wrong labels within each class, averaged over the classes: all count the same",
        ),
        Measure(
            "worst_class_error", "worst-class error", _CLASSES,
            lambda answers: np.asarray(np.nanmax(answers.class_errors, axis=0)),
            percent=True, digits=1, classes_alike=True,
            meaning="the share of wrong labels in the class where it is largest",
        ),
        Measure(
            "g_mean", "G-mean", _CLASSES, _geometric_mean_of_recalls, higher_is_better=True, percent=True, digits=1,
            note="G-mean: the geometric mean of the accuracies of the classes.", classes_alike=True,
            meaning="the share of right labels within each class, averaged such that one class always wrong makes it 0",
        ),
        Measure(
            "roc_auc", "ROC AUC", _CLASSES, lambda answers: _mean_over_problems(answers, area_under_roc, 0.5),
            higher_is_better=True, percent=True, digits=1, sees="order",
            meaning="how often a row of a class is ranked before one of another; 100 % is perfect, 50 % is chance",
        ),
        Measure(
            "average_precision", "average precision", _CLASSES,
            lambda answers: _mean_over_problems(answers, average_precision, 0.0),
            higher_is_better=True, percent=True, digits=1, sees="order",
            meaning="how pure the list of rows is that are ranked highest, averaged over the rows that belong there",
        ),
        Measure(
            "log_loss", "log loss", _CLASSES,
            lambda answers: answers.mean(-np.log(np.maximum(answers.probability_of_truth, _SMALLEST_PROBABILITY))),
            relative=True, digits=3, sees="probabilities",
            meaning="how surprised the predicted probabilities are by the truth",
        ),
        Measure(
            "brier", "Brier score", _CLASSES, _brier, relative=True, digits=3, sees="probabilities",
            meaning="the squared distance of the predicted probabilities from the truth",
        ),
        Measure(
            "worst_group_error", "worst-group error", _CLASSES, _worst_group, percent=True, digits=1,
            by_group=True,
            meaning="the share of wrong labels in the group where it is largest",
        ),
        Measure(
            "rmse", "RMSE", _NUMBERS, lambda answers: np.sqrt(answers.mean(answers.residuals**2)), relative=True,
            sees="numbers",
            meaning="the typical size of an error, in units of the target; large errors count by their square",
        ),
        Measure(
            "mae", "MAE", _NUMBERS, lambda answers: answers.mean(answers.absolute_residuals), relative=True,
            sees="numbers",
            meaning="the mean size of an error, in units of the target",
        ),
        Measure(
            "tail_error", "tail error", _NUMBERS, _tail_error, relative=True, sees="numbers",
            note="Tail error: the mean of the largest errors, by default of a tenth of them.",
            meaning="the mean size of the largest errors, in units of the target",
        ),
        Measure(
            "p95_error", "95 % quantile", _NUMBERS, _high_quantile, relative=True, sees="numbers",
            note="95 % quantile: the size of error that 95 % of the rows do not exceed.",
            meaning="the size of error that 95 % of the rows do not exceed, in units of the target",
        ),
        Measure(
            "max_error", "largest error", _NUMBERS, _largest_error, relative=True, sees="numbers",
            meaning="the size of the largest error of all, in units of the target",
        ),
        Measure(
            "r2", "R²", _NUMBERS, _explained, higher_is_better=True, sees="numbers",
            meaning="the part of the target's variation that is explained; 1 is perfect, 0 no better than a constant",
        ),
        Measure(
            "worst_group_rmse", "worst-group RMSE", _NUMBERS, _worst_group, relative=True, sees="numbers",
            by_group=True,
            meaning="the typical size of an error in the group where it is largest, in units of the target",
        ),
    )
}  # fmt: skip
"""Every measure by its name, in the order in which reports show them."""

DEFAULT_MEASURES: dict[Task, str] = {"classification": "balanced_error", "regression": "rmse"}
"""Per task, what chooses unless another measure is asked for."""

GROUP_MEASURES: dict[Task, str] = {"classification": "error", "regression": "rmse"}
"""Per task, what is reported of every group of samples."""


def names_of_measures(task: Task | None = None) -> list[str]:
    """Return the names of the measures, for a task or for any.

    Examples
    --------
    >>> names_of_measures("regression")
    ['rmse', 'mae', 'tail_error', 'p95_error', 'max_error', 'r2', 'worst_group_rmse']
    """
    return [name for name, measure in MEASURES.items() if task is None or task in measure.tasks]


def evaluate_measures(answers: Answers, names: Collection[str] | None = None) -> dict[str, Array]:
    """Return every measure that these answers allow, by name.

    Parameters
    ----------
    answers : Answers
        With leading axes of any shape, such as (n_ks, n_Cs).
    names : collection of str, default=None
        Only these.

    Returns
    -------
    values : dict of ndarrays of that shape

    Examples
    --------
    >>> found = evaluate_measures(Answers(np.array([0.0, 0.0]), np.array([[3.0, 4.0], [1.0, -1.0]])), ["rmse", "mae"])
    >>> {name: values.round(2).tolist() for name, values in found.items()}
    {'rmse': [3.54, 1.0], 'mae': [3.5, 1.0]}
    """
    return {
        name: measure.evaluate(answers)
        for name, measure in MEASURES.items()
        if (names is None or name in names) and measure.applies(answers)
    }


def evaluate_by_group(answers: Answers) -> dict[str, Array]:
    """Return what is reported of groups, for every group that has weight: see :data:`GROUP_MEASURES`."""
    measure = MEASURES[GROUP_MEASURES[answers.task]]
    return {group: measure.evaluate(part) for group, part in answers.by_group().items()}
