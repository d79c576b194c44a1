"""How models are judged on rows they have not seen: by the measure to lower, and by the mean of the loss they train."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from sklearn.base import is_classifier
from sklearn.metrics import check_scoring

from atklearn.encoding.encoded import Encoded, class_factors
from atklearn.losses.individual import Array, IndividualLoss, Task, resolve_individual_loss
from atklearn.measures.answers import Answers
from atklearn.measures.scores import MeasureScorer
from atklearn.runtime.namespaces import on_host

__all__ = ["Decides", "Judge", "Unseen", "WorstLosses", "lend_coefficients"]


class Decides(Protocol):
    """A fitted model, whatever it is made of."""

    def decision(self, X: Any) -> Array:
        """Return decision values, or predictions of a regression, shape (n_problems, n_samples)."""


@dataclass(frozen=True)
class WorstLosses:
    """The mean of the largest losses, of the loss that is trained: the tail of a classifier.

    Attributes
    ----------
    share : float
        The share of the weight that the largest losses are.
    """

    share: float


@dataclass(frozen=True)
class Judge:
    """Scores models by a measure; with a scorer that is not ours by lending them an estimator.

    Attributes
    ----------
    template : estimator
        Unfitted but for ``n_features_in_`` and, of a classifier, ``classes_``; it names the loss and the class weights.
    scorer : WorstLosses, MeasureScorer or callable
        Higher is better.
    lend : callable
        Takes the template and a model, and makes the one predict as the other.
    """

    template: Any
    scorer: Any
    lend: Callable[[Any, Any], None]

    @classmethod
    def of(
        cls, template: Any, scoring: Any, n_features: int, classes: npt.NDArray[Any] | None, lend: Callable[..., None]
    ) -> Judge:
        """Return a judge that keeps an unfitted estimator; classes are None for a regression."""
        template.n_features_in_ = n_features
        if classes is not None:
            template.classes_ = classes
        is_own = isinstance(scoring, WorstLosses | MeasureScorer)
        return cls(template, scoring if is_own else check_scoring(template, scoring=scoring), lend)

    @cached_property
    def loss(self) -> IndividualLoss:
        """The individual loss that is trained."""
        task: Task = "classification" if is_classifier(self.template) else "regression"
        return resolve_individual_loss(self.template.loss, task)

    @property
    def takes_tensors(self) -> bool:
        """Whether X may lie on a device; a scorer that is not ours gets arrays."""
        return isinstance(self.scorer, WorstLosses | MeasureScorer)

    def on(self, rows: Encoded) -> Unseen:
        """Return the rows to judge on, their targets read once for all models; balanced classes are so among them."""
        mass = rows.weight
        if rows.classes is not None and rows.encoder.class_weight is not None:
            counts = np.bincount(on_host(rows.y), weights=on_host(rows.weight), minlength=rows.classes.size)
            present = counts.astype(np.float64)
            if np.count_nonzero(present) > 1:
                factors = class_factors(rows.classes, present, rows.encoder.class_weight, rows.encoder.owner)
                mass = replace(rows, factors=factors).mass
        values = rows.values
        targets = np.array([on_host(each) for each in values], dtype=np.float64)
        return Unseen(self, rows.X, on_host(rows.labels), on_host(rows.sample_weight), targets, on_host(mass))


@dataclass(frozen=True)
class Unseen:
    """Rows that models have not seen.

    Attributes
    ----------
    judge : Judge
    X, y : array-like
    sample_weight : ndarray of shape (n_samples,) or None
    targets : ndarray of shape (n_problems, n_samples)
        As the loss takes them.
    mass : ndarray of shape (n_samples,)
        Sample weights times class weights, as in training.
    """

    judge: Judge
    X: Any
    y: Any
    sample_weight: Array | None
    targets: Array
    mass: Array

    @property
    def is_of_classes(self) -> bool:
        """Whether targets are classes."""
        return self.judge.loss.task == "classification"

    def score(self, model: Decides) -> tuple[float, float]:
        """Return the score of a model, higher being better, and its mean loss."""
        decisions = model.decision(self.X)
        losses = sum(self.judge.loss(values, target) for values, target in zip(decisions, self.targets, strict=True))
        return self._measure(model, decisions, np.asarray(losses)), float(np.average(losses, weights=self.mass))

    def _measure(self, model: Decides, decisions: Array, losses: Array) -> float:
        template, scorer = self.judge.template, self.judge.scorer
        if isinstance(scorer, WorstLosses):
            return -_mean_of_worst(losses, self.mass, scorer.share)
        if isinstance(scorer, MeasureScorer):
            classes = template.classes_ if self.is_of_classes else None
            known = {"loss": self.judge.loss, "sample_weight": self.sample_weight}
            return scorer.of(Answers.from_decisions(decisions, self.y, classes, **known), template)
        self.judge.lend(template, model)
        weighted = {}
        if self.sample_weight is not None and _takes_weight(scorer):
            weighted = {"sample_weight": self.sample_weight}
        return float(scorer(template, self.X, self.y, **weighted))


def _mean_of_worst(losses: Array, mass: Array, share: float) -> float:
    """Return the mean of the largest losses; of few rows, to sort them all is the quickest."""
    order = np.argsort(-losses)
    weight = mass[order]
    reached = weight.cumsum()
    worst = share * reached[-1]
    return float(np.clip(worst - (reached - weight), 0.0, weight) @ losses[order] / worst)


def lend_coefficients(template: Any, model: Any) -> None:
    """Make a linear estimator predict as the linear models of a cell."""
    weights, intercepts = model
    classifies = is_classifier(template)
    template.coef_ = weights if classifies else weights[0]
    template.intercept_ = intercepts if classifies else intercepts[0]


def _takes_weight(scorer: Any) -> bool:
    """Return whether a scorer, or the metric it wraps, knows sample weights."""
    if type(scorer).__name__ == "_PassthroughScorer":  # scikit-learn's stand-in for the estimator's own score
        return True
    return "sample_weight" in inspect.signature(getattr(scorer, "_score_func", scorer)).parameters
