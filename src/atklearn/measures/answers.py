"""What fits say about samples, beside the truth: all that a measure looks at."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from atklearn.losses.individual import Array, IndividualLoss, LogLoss, Task, resolve_individual_loss
from atklearn.losses.labels import chosen_labels, class_probabilities, one_versus_rest

__all__ = ["TAIL_SHARE", "Answers"]

TAIL_SHARE = 0.1


@dataclass(frozen=True)
class Answers:
    """What one fit, or any number of them along leading axes, says about the same samples.

    What several measures need, such as the error of every class, is computed once.

    Attributes
    ----------
    y : ndarray of shape (n_samples,)
        The truth.
    predictions : ndarray of shape (..., n_samples)
        Labels, or targets in the units of y.
    classes : ndarray of shape (n_classes,) or None
        None for a regression.
    decisions : ndarray of shape (..., n_problems, n_samples) or None
        Decision values, or the predictions of a regression as its one problem; None where only labels are known.
    loss : str, IndividualLoss or None
        The individual loss of the fits.
    sample_weight : ndarray of shape (n_samples,) or (..., n_samples), or None
        Those with leading axes are broadcast against those of the fits, to measure under many weightings at once.
    groups : ndarray of shape (n_samples,) or None
        The group of every sample.
    probabilities : ndarray of shape (..., n_classes, n_samples) or None
        Of the classes; None where the fits offer none.
    tail : float
        The part of the samples that is the tail of the errors.

    Examples
    --------
    >>> import numpy as np
    >>> from atklearn.measures import MEASURES, Answers
    >>> decisions = np.array([[[-1.0, 2.0, 3.0]], [[-1.0, -2.0, 3.0]]])  # of two fits
    >>> answers = Answers.from_decisions(decisions, np.array([0, 0, 1]), np.array([0, 1]))
    >>> MEASURES["error"].evaluate(answers).round(2)
    array([0.33, 0.  ])
    """

    y: npt.NDArray[Any]
    predictions: npt.NDArray[Any]
    classes: npt.NDArray[np.generic] | None = None
    decisions: Array | None = None
    loss: str | IndividualLoss | None = None
    sample_weight: Array | None = None
    groups: npt.NDArray[np.generic] | None = None
    probabilities: Array | None = None
    tail: float = TAIL_SHARE

    def __post_init__(self) -> None:
        per_sample = (self.predictions, self.decisions, self.probabilities, self.sample_weight, self.groups)
        shapes = [each.shape for each in per_sample if each is not None]
        if self.y.ndim != 1 or self.y.size == 0 or any(shape[-1:] != self.y.shape for shape in shapes):
            raise ValueError(
                "Answers are expected about one sample at least, and as many as there are true values, got a truth of "
                f"shape {self.y.shape} and arrays of shapes {', '.join(map(str, shapes))}."
            )

    @classmethod
    def from_decisions(
        cls, decisions: Array, y: npt.NDArray[np.generic], classes: npt.NDArray[np.generic] | None, **known: Any
    ) -> Answers:
        """Return the answers of fits from their decision values, or from the predictions of a regression.

        Parameters
        ----------
        decisions : ndarray of shape (..., n_problems, n_samples)
        y : ndarray of shape (n_samples,)
        classes : ndarray of shape (n_classes,) or None
            None for a regression.
        **known
            The other attributes; probabilities need not be named where the loss is log loss.

        Returns
        -------
        answers : Answers
        """
        if classes is None:
            return cls(y, decisions[..., 0, :], None, decisions, **known)
        if isinstance(known.get("loss"), LogLoss) or known.get("loss") == "log_loss":
            known.setdefault("probabilities", class_probabilities(decisions))
        return cls(y, chosen_labels(decisions, classes), classes, decisions, **known)

    @property
    def task(self) -> Task:
        """What the fits are for."""
        return "regression" if self.classes is None else "classification"

    @cached_property
    def wrong(self) -> npt.NDArray[np.bool_]:
        """Whether each label is wrong, shape (..., n_samples)."""
        return np.asarray(self.predictions != self.y)

    @cached_property
    def residuals(self) -> Array:
        """Prediction minus truth, shape (..., n_samples)."""
        return np.asarray(self.predictions - self.y)

    @cached_property
    def class_errors(self) -> Array:
        """The error rate of every class of the truth, NaN for one without weight, shape (n_present_classes, ...)."""
        return np.stack([self.mean(self.wrong, self.y == label) for label in np.unique(self.y)])

    @cached_property
    def absolute_residuals(self) -> Array:
        """The size of every error, shape (..., n_samples)."""
        return np.abs(self.residuals)

    @cached_property
    def told_apart(self) -> list[tuple[Array, npt.NDArray[np.bool_]]]:
        """Decision values, shape (..., n_samples), and whom they mean: per problem with samples of both kinds."""
        if self.decisions is None or self.classes is None:
            raise ValueError("Classes are expected to be told apart by answers with decision values.")
        means = one_versus_rest(self.y, self.classes) > 0.0
        return [
            (self.decisions[..., index, :], positive)
            for index, positive in enumerate(means)
            if 0 < positive.sum() < positive.size
        ]

    @cached_property
    def probability_of_truth(self) -> Array:
        """What each fit thought of the class of every sample, shape (..., n_samples)."""
        if self.probabilities is None or self.classes is None:
            raise ValueError("Answers with probabilities are expected.")
        codes = np.minimum(np.searchsorted(self.classes, self.y), self.classes.size - 1)
        known = self.classes[codes] == self.y  # a class that no fit has seen has no probability
        return np.where(known, self.probabilities[..., codes, np.arange(self.y.size)], 0.0)

    @cached_property
    def losses(self) -> Array:
        """The individual loss of every sample, summed over one class against the rest, shape (..., n_samples)."""
        if self.decisions is None or self.loss is None:
            raise ValueError("Losses are expected to be asked of answers with decision values and a loss.")
        individual = resolve_individual_loss(self.loss, self.task)
        if self.classes is None:
            return individual(self.predictions, np.asarray(self.y, dtype=np.float64))
        total = np.zeros(self.predictions.shape)
        for index, target in enumerate(one_versus_rest(self.y, self.classes)):
            total += individual(self.decisions[..., index, :], target)
        return total

    def mean(self, values: Array | npt.NDArray[np.bool_], rows: npt.NDArray[np.bool_] | None = None) -> Array:
        """Return the weighted mean over the samples, or over some of them.

        Parameters
        ----------
        values : ndarray of shape (..., n_samples)
        rows : bool ndarray of shape (n_samples,), default=None
            Which samples; all by default.

        Returns
        -------
        means : ndarray of shape (...)
            NaN where there is no weight.
        """
        weight = self.sample_weight
        if rows is not None:
            values, weight = values[..., rows], None if weight is None else weight[..., rows]
        if weight is None:
            return np.asarray(values.mean(axis=-1))
        total = np.einsum("...n,...n->...", values, weight)
        with np.errstate(invalid="ignore"):
            return np.asarray(total / weight.sum(axis=-1))

    def falling(self, values: Array) -> tuple[Array, Array]:
        """Return values from the largest to the smallest, and the weights in that order.

        Parameters
        ----------
        values : ndarray of shape (..., n_samples)

        Returns
        -------
        values, weights : ndarray of shape (..., n_samples)
        """
        order = np.argsort(-values, axis=-1, kind="stable")
        weight = np.ones(values.shape) if self.sample_weight is None else self.sample_weight
        shape = np.broadcast_shapes(values.shape, weight.shape)
        order = np.broadcast_to(order, shape)
        return (
            np.take_along_axis(np.broadcast_to(values, shape), order, axis=-1),
            np.take_along_axis(np.broadcast_to(weight, shape), order, axis=-1),
        )

    def by_group(self) -> dict[str, Answers]:
        """Return the answers about each group that has weight.

        Returns
        -------
        answers : dict of Answers
            By the groups' names; empty if no groups are known.
        """
        if self.groups is None:
            return {}
        return {str(group): self.about(self.groups == group) for group in self._with_weight(self.groups)}

    def about(self, rows: npt.NDArray[np.bool_]) -> Answers:
        """Return the answers about some of the samples.

        Parameters
        ----------
        rows : bool ndarray of shape (n_samples,)

        Returns
        -------
        answers : Answers
            Without groups.
        """
        return replace(
            self,
            y=self.y[rows],
            predictions=self.predictions[..., rows],
            decisions=None if self.decisions is None else self.decisions[..., rows],
            probabilities=None if self.probabilities is None else self.probabilities[..., rows],
            sample_weight=None if self.sample_weight is None else self.sample_weight[..., rows],
            groups=None,
        )

    def _with_weight(self, values: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """Return the distinct values among the samples that have weight, in any weighting."""
        weight = self.sample_weight
        return np.unique(values if weight is None else values[(weight > 0.0).reshape(-1, weight.shape[-1]).any(axis=0)])
