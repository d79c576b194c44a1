"""The measures for scikit-learn: scorers by name, and those of the worst off as functions of labels.

:data:`atklearn.measures.MEASURES` says what each computes; as scorers, higher is better. :func:`tail_loss` has no
scorer on purpose: on noisy data the model with the smallest tail loss is w = 0, where all losses are equal, so it may
be reported but must not choose k. In regression there is no such collapse, and ``tail_error`` may.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, is_classifier
from sklearn.metrics import get_scorer_names, make_scorer

from atklearn.losses.aggregate import AverageTopK
from atklearn.losses.individual import INDIVIDUAL_LOSSES, Array, IndividualLoss, Task
from atklearn.measures.answers import TAIL_SHARE, Answers
from atklearn.measures.catalogue import MEASURES, names_of_measures
from atklearn.runtime.messages import most_alike, refuse_weights

__all__ = [
    "MeasureScorer",
    "answers_of",
    "balanced_error",
    "balanced_error_scorer",
    "g_mean",
    "g_mean_scorer",
    "resolve_scoring",
    "tail_loss",
    "worst_class_error",
    "worst_class_error_scorer",
    "worst_group_error",
    "worst_group_error_scorer",
]


@dataclass(frozen=True)
class MeasureScorer:
    """Scores an estimator by a measure, as scikit-learn's scorers do: higher is better.

    Parameters
    ----------
    name : str
        Of :data:`atklearn.measures.MEASURES`, but for those that need to know groups.
    tail : float, default=0.1
        The share of the samples, those with the largest errors, that "tail_error" is the mean of.

    Examples
    --------
    >>> from atklearn.measures import MeasureScorer
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> ridge = Ridge().fit(X, y)
    >>> worst, tenth = MeasureScorer("tail_error", tail=0.02), MeasureScorer("tail_error")
    >>> bool(worst(ridge, X, y) < tenth(ridge, X, y) < MeasureScorer("mae")(ridge, X, y) < 0)
    True
    """

    name: str
    tail: float = TAIL_SHARE

    def __post_init__(self) -> None:
        if self.name not in MEASURES:
            raise ValueError(
                f"A measure is expected to be one of {names_of_measures()}, got {self.name!r}"
                f"{_did_you_mean(self.name, names_of_measures())}."
            )
        if not 0.0 < self.tail <= 1.0:
            raise ValueError(f"tail is expected to be a share of the samples in (0, 1], got {self.tail!r}.")
        if MEASURES[self.name].by_group:
            raise ValueError(
                f"{self.name} needs to know the groups, which no scorer is told; "
                "worst_group_error_scorer reads them from the features."
            )

    def __call__(
        self, estimator: BaseEstimator, X: object, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
    ) -> float:
        """Return the measure on these samples, negative where lower is better.

        Parameters
        ----------
        estimator : fitted estimator
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        score : float
        """
        return self.of(answers_of(estimator, X, y, sample_weight), estimator)

    def of(self, answers: Answers, estimator: BaseEstimator) -> float:
        """Return the measure of the answers of an estimator, negative where lower is better.

        Parameters
        ----------
        answers : Answers
        estimator : estimator
            Named in the message if the measure is not for it.

        Returns
        -------
        score : float
        """
        measure = MEASURES[self.name]
        if not measure.applies(answers):
            raise ValueError(
                f"{self.name} is a measure of {measure.tasks[0]} that {type(estimator).__name__} "
                f"{'has no probabilities or decision values for' if answers.task in measure.tasks else 'is not for'}; "
                "choose by another one."
            )
        return measure.sign * float(measure.evaluate(replace(answers, tail=self.tail)))


def resolve_scoring(scoring: Any, task: Task) -> Any:
    """Return the scorer of a measure that is named for a task; anything else is scikit-learn's and returned as it is.

    Examples
    --------
    >>> resolve_scoring("tail_error", "regression"), resolve_scoring("neg_log_loss", "classification")
    (MeasureScorer(name='tail_error', tail=0.1), 'neg_log_loss')
    >>> resolve_scoring("balanced", "classification")  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
        ...
    ValueError: scoring is expected to name a measure, ..., got 'balanced'; did you mean 'balanced_error'.
    """
    if not isinstance(scoring, str) or (scoring not in MEASURES and scoring in get_scorer_names()):
        return scoring
    names = names_of_measures(task)
    if scoring not in MEASURES:
        raise ValueError(
            f"scoring is expected to name a measure, one of {names}, or a scorer of scikit-learn, or to be a callable, "
            f"got {scoring!r}{_did_you_mean(scoring, names)}."
        )
    if scoring not in names:
        raise ValueError(f"scoring for {task} is expected to be one of {names}, got {scoring!r}.")
    return MeasureScorer(scoring)


def _did_you_mean(name: str, names: list[str]) -> str:
    """Return the end of a sentence that names what is spelt most alike, if anything is."""
    close = most_alike(name, names)
    return "" if close is None else f"; did you mean {close!r}"


def balanced_error(
    y_true: npt.ArrayLike, y_pred: npt.ArrayLike, *, sample_weight: npt.ArrayLike | None = None
) -> float:
    """Return the error rate averaged over the classes.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
    y_pred : array-like of shape (n_samples,)
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    error : float
        Between 0 and 1.

    Examples
    --------
    >>> from atklearn.measures import balanced_error
    >>> balanced_error([0, 0, 0, 1], [0, 0, 0, 0])
    0.5
    """
    return _measure_labels("balanced_error", y_true, y_pred, sample_weight)


def worst_class_error(
    y_true: npt.ArrayLike, y_pred: npt.ArrayLike, *, sample_weight: npt.ArrayLike | None = None
) -> float:
    """Return the error rate of the class that fares worst.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
    y_pred : array-like of shape (n_samples,)
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    error : float
        Between 0 and 1.

    Examples
    --------
    >>> from atklearn.measures import worst_class_error
    >>> worst_class_error([0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 0, 1])
    0.5
    """
    return _measure_labels("worst_class_error", y_true, y_pred, sample_weight)


def g_mean(y_true: npt.ArrayLike, y_pred: npt.ArrayLike, *, sample_weight: npt.ArrayLike | None = None) -> float:
    """Return the geometric mean of the accuracies of the classes; zero if one of them is never right.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
    y_pred : array-like of shape (n_samples,)
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    g_mean : float
        Between 0 and 1; higher is better.

    Examples
    --------
    >>> from atklearn.measures import g_mean
    >>> round(g_mean([0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 0, 1]), 3)
    0.612
    """
    return _measure_labels("g_mean", y_true, y_pred, sample_weight)


def worst_group_error(
    y_true: npt.ArrayLike,
    y_pred: npt.ArrayLike,
    *,
    groups: npt.ArrayLike,
    sample_weight: npt.ArrayLike | None = None,
) -> float:
    """Return the error rate of the group that fares worst.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
    y_pred : array-like of shape (n_samples,)
    groups : array-like of shape (n_samples,)
        The group of every sample.
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    error : float
        Between 0 and 1.

    Examples
    --------
    >>> from atklearn.measures import worst_group_error
    >>> worst_group_error([0, 1, 0, 1], [0, 1, 1, 1], groups=["a", "a", "b", "b"])
    0.5
    """
    return _measure_labels("worst_group_error", y_true, y_pred, sample_weight, groups)


def tail_loss(
    y_true: npt.ArrayLike,
    prediction: npt.ArrayLike,
    *,
    loss: str | IndividualLoss,
    k: float = 0.1,
    sample_weight: npt.ArrayLike | None = None,
) -> float:
    """Return the mean of the k largest losses: to report, not to select by.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels -1 and +1 for a classification loss, targets for a regression loss.
    prediction : array-like of shape (n_samples,)
        Values of the decision function, or predicted targets.
    loss : str or IndividualLoss
        The individual loss, by name or as an object.
    k : int or float, default=0.1
        An int counts samples, a float is the fraction of them.
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    loss : float

    Examples
    --------
    >>> from atklearn.measures import tail_loss
    >>> tail_loss([0.0, 0.0, 0.0, 0.0], [1.0, 3.0, 2.0, 0.0], loss="absolute_error", k=2)
    2.5
    """
    target, scores = (array.astype(np.float64) for array in _vectors(y_true=y_true, prediction=prediction))
    if isinstance(loss, str):
        if loss not in INDIVIDUAL_LOSSES:
            raise ValueError(
                f"loss is expected to be one of {list(INDIVIDUAL_LOSSES)} or an IndividualLoss, got {loss!r}."
            )
        loss = INDIVIDUAL_LOSSES[loss]()
    if loss.task == "classification" and not set(np.unique(target)) <= {-1.0, 1.0}:
        raise ValueError(f"{loss!r} expects labels -1 and +1, got {np.unique(target)[:5]}; recode the classes.")
    classes = np.array([-1.0, 1.0]) if loss.task == "classification" else None
    weight = _check_weight(sample_weight, target.size)
    losses = Answers.from_decisions(scores[None], target, classes, loss=loss).losses
    return AverageTopK(k).value(losses, weight)


def answers_of(
    estimator: BaseEstimator, X: object, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
) -> Answers:
    """Return what a fitted estimator says of samples; a classifier with decision values and probabilities if it can."""
    truth, predictions = _vectors(y=y, predictions=estimator.predict(X))
    weight = _check_weight(sample_weight, truth.size)
    if not is_classifier(estimator):
        return Answers(truth, predictions, sample_weight=weight)
    classes = np.asarray(estimator.classes_)
    probabilities = estimator.predict_proba(X).T if hasattr(estimator, "predict_proba") else None
    decisions = None
    if hasattr(estimator, "decision_function"):
        decisions = np.atleast_2d(np.asarray(estimator.decision_function(X)).T)
    elif probabilities is not None:
        decisions = probabilities[1:] if classes.size == 2 else probabilities
    return Answers(truth, predictions, classes, decisions, None, weight, probabilities=probabilities)


def _measure_labels(
    name: str,
    y_true: npt.ArrayLike,
    y_pred: npt.ArrayLike,
    sample_weight: npt.ArrayLike | None,
    groups: npt.ArrayLike | None = None,
) -> float:
    """Return a measure of labels, or say what is wrong with them."""
    given = {"y_true": y_true, "y_pred": y_pred} | ({} if groups is None else {"groups": groups})
    truth, guess, *rest = _vectors(**given)
    weight = _check_weight(sample_weight, truth.size)
    answers = Answers(truth, guess, np.unique(truth), sample_weight=weight, groups=rest[0] if rest else None)
    return float(MEASURES[name].evaluate(answers))


def _vectors(**given: npt.ArrayLike) -> list[npt.NDArray[Any]]:
    """Return vectors of one length without NaN or infinity, or say which of them is none."""
    arrays = {name: np.asarray(values) for name, values in given.items()}
    shapes = [array.shape for array in arrays.values()]
    if len(shapes[0]) != 1 or shapes[0] == (0,) or len(set(shapes)) > 1:
        raise ValueError(f"{', '.join(given)} are expected as vectors of one length > 0, got shapes {shapes}.")
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            first = np.flatnonzero(~np.isfinite(array))[0]
            raise ValueError(
                f"{name} is expected to be finite, got {array[first]:g} for sample {first}; correct it or leave such "
                "samples out."
            )
    return list(arrays.values())


def _check_weight(sample_weight: npt.ArrayLike | None, n_samples: int) -> Array | None:
    """Return the sample weights as numbers, or say what is wrong with them."""
    if sample_weight is None:
        return None
    weight = np.asarray(sample_weight, dtype=np.float64)
    refuse_weights(n_samples, weight.shape, weight.min(initial=np.inf), weight.max(initial=-np.inf))
    return weight


balanced_error_scorer = make_scorer(balanced_error, greater_is_better=False)
"""Minus :func:`balanced_error`, for ``scoring=`` of scikit-learn."""

worst_class_error_scorer = make_scorer(worst_class_error, greater_is_better=False)
"""Minus :func:`worst_class_error`, for ``scoring=`` of scikit-learn."""

g_mean_scorer = make_scorer(g_mean)
"""The :func:`g_mean`, for ``scoring=`` of scikit-learn."""


def worst_group_error_scorer(group_of: Callable[..., npt.ArrayLike]) -> Callable[..., float]:
    """Return a scorer of the worst group's error, the groups read from the features.

    Parameters
    ----------
    group_of : callable
        Takes X, returns the group of every row.

    Returns
    -------
    scorer : callable
        With the signature ``(estimator, X, y, sample_weight=None)``; higher is better.

    Examples
    --------
    >>> import numpy as np
    >>> from atklearn.measures import worst_group_error_scorer
    >>> from sklearn.dummy import DummyClassifier
    >>> X, y = np.array([[0.0], [0.0], [1.0], [1.0]]), np.array([0, 0, 0, 1])
    >>> scorer = worst_group_error_scorer(lambda X: X[:, 0])
    >>> scorer(DummyClassifier().fit(X, y), X, y)
    -0.5
    """

    def scorer(
        estimator: BaseEstimator, X: object, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
    ) -> float:
        return -worst_group_error(y, estimator.predict(X), groups=group_of(X), sample_weight=sample_weight)

    return scorer
