"""How the linear models of a grid are scored: by a measure of this library, or by any scorer of scikit-learn."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
from sklearn.base import is_classifier
from sklearn.metrics import accuracy_score, check_scoring, r2_score

from atklearn.losses.individual import Array
from atklearn.losses.labels import chosen_labels
from atklearn.measures.answers import Answers
from atklearn.measures.scores import MeasureScorer, resolve_scoring
from atklearn.problems.encoding import Coefficients

__all__ = ["Judge", "make_judge", "takes_weight"]


@dataclass(frozen=True)
class Judge:
    """Scores the models of a cell: from their decision values, or with a scorer that is not ours, lending an estimator.

    Attributes
    ----------
    template : estimator
        Unfitted but for ``n_features_in_`` and, of a classifier, ``classes_``.
    scorer : callable or None
        None is the estimator's own ``score``: accuracy, or R2.
    """

    template: Any
    scorer: Callable[..., float] | None

    @property
    def takes_tensors(self) -> bool:
        """Whether X may lie on a device; a scorer that is not ours gets arrays."""
        return self.scorer is None or isinstance(self.scorer, MeasureScorer)

    def __call__(self, models: Coefficients, X: Any, y: Any, sample_weight: Array | None) -> float:
        """Return the score; sample weights are passed on if the scorer takes them."""
        classes = self.template.classes_ if is_classifier(self.template) else None
        if isinstance(self.scorer, MeasureScorer):
            known = {"loss": self.template.loss, "sample_weight": sample_weight}
            return self.scorer.of(Answers.from_decisions(models.decision(X), y, classes, **known), self.template)
        if self.scorer is None:
            decisions = models.decision(X)
            if classes is None:
                return float(r2_score(y, decisions[0], sample_weight=sample_weight))
            return float(accuracy_score(y, chosen_labels(decisions, classes), sample_weight=sample_weight))
        weights, intercepts = models
        self.template.coef_ = weights[0] if classes is None else weights
        self.template.intercept_ = intercepts[0] if classes is None else intercepts
        weighted = {}
        if sample_weight is not None and takes_weight(self.scorer):
            weighted = {"sample_weight": sample_weight}
        return self.scorer(self.template, X, y, **weighted)


def make_judge(template: Any, scoring: Any, n_features: int, classes: npt.NDArray[Any] | None) -> Judge:
    """Return who judges linear models.

    Parameters
    ----------
    template : estimator
        An unfitted one to be lent to scorers; it is kept.
    scoring : str, callable or None
        The name of a measure, or what scikit-learn accepts; None is the estimator's own ``score``.
    n_features : int
    classes : ndarray of shape (n_classes,) or None
        None for a regression.
    """
    template.n_features_in_ = n_features
    if classes is not None:
        template.classes_ = classes
    if scoring is None:
        return Judge(template, None)
    scorer = resolve_scoring(scoring, "regression" if classes is None else "classification")
    return Judge(template, check_scoring(template, scoring=scorer))


def takes_weight(scorer: Any) -> bool:
    """Return whether a scorer, or the metric it wraps, knows sample weights."""
    if type(scorer).__name__ == "_PassthroughScorer":  # scikit-learn's stand-in for the estimator's own score
        return True
    return "sample_weight" in inspect.signature(getattr(scorer, "_score_func", scorer)).parameters
