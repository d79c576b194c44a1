"""Scores that look at what the average top-k is for: the class, the group or the samples that fare worst.

Each is a function of labels (or losses) and, where that makes sense, a scikit-learn scorer for model selection, higher
being better; :data:`atklearn.measures.MEASURES` says what they compute. :func:`tail_loss` has no scorer on purpose: on
noisy data the model with the smallest tail loss is w = 0, where all losses are equal, so it may be reported but must
not choose k.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import make_scorer

from atklearn.losses.individual import INDIVIDUAL_LOSSES, Array, IndividualLoss
from atklearn.measures.answers import Answers
from atklearn.measures.catalogue import MEASURES, mean_of_largest_losses

__all__ = [
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


def balanced_error(
    y_true: npt.ArrayLike, y_pred: npt.ArrayLike, *, sample_weight: npt.ArrayLike | None = None
) -> float:
    """Return the error rate averaged over the classes.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
    y_pred : array-like of shape (n_samples,)
    sample_weight : array-like of shape (n_samples,), default=None

    Examples
    --------
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

    Examples
    --------
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

    Examples
    --------
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

    Examples
    --------
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
    k : int or float, default=0.1
        An int counts samples, a float is the fraction of them.
    sample_weight : array-like of shape (n_samples,), default=None

    Examples
    --------
    >>> tail_loss([0.0, 0.0, 0.0, 0.0], [1.0, 3.0, 2.0, 0.0], loss="absolute_error", k=2)
    2.5
    """
    target = np.asarray(y_true, dtype=np.float64)
    scores = np.asarray(prediction, dtype=np.float64)
    if target.ndim != 1 or target.shape != scores.shape:
        raise ValueError(
            f"y_true and prediction are expected as vectors of one length, got {target.shape} and {scores.shape}."
        )
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
    answers = Answers.from_decisions(scores[None], target, classes, loss=loss, sample_weight=weight)
    return float(mean_of_largest_losses(answers, k))


def _measure_labels(
    name: str,
    y_true: npt.ArrayLike,
    y_pred: npt.ArrayLike,
    sample_weight: npt.ArrayLike | None,
    groups: npt.ArrayLike | None = None,
) -> float:
    """Return a measure of labels, or say what is wrong with them."""
    truth, guess = np.asarray(y_true), np.asarray(y_pred)
    group = None if groups is None else np.asarray(groups)
    shapes = [array.shape for array in (truth, guess, group) if array is not None]
    if truth.ndim != 1 or truth.size == 0 or len(set(shapes)) > 1:
        raise ValueError(
            f"Labels, predictions and groups are expected as vectors of one length > 0, got shapes {shapes}."
        )
    weight = _check_weight(sample_weight, truth.size)
    answers = Answers(truth, guess, np.unique(truth), sample_weight=weight, groups=group)
    return float(MEASURES[name].evaluate(answers))


def _check_weight(sample_weight: npt.ArrayLike | None, n_samples: int) -> Array | None:
    """Return the sample weights as numbers, or say what is wrong with them."""
    if sample_weight is None:
        return None
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (n_samples,) or not np.isfinite(weight).all() or weight.min() < 0.0 or weight.max() == 0.0:
        raise ValueError(
            f"sample_weight is expected as {n_samples} finite numbers >= 0, not all zero, got shape {weight.shape}."
        )
    return weight


balanced_error_scorer = make_scorer(balanced_error, greater_is_better=False)
worst_class_error_scorer = make_scorer(worst_class_error, greater_is_better=False)
g_mean_scorer = make_scorer(g_mean)


def worst_group_error_scorer(group_of: Callable[[Any], npt.ArrayLike]) -> Callable[..., float]:
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
    >>> from sklearn.dummy import DummyClassifier
    >>> X, y = np.array([[0.0], [0.0], [1.0], [1.0]]), np.array([0, 0, 0, 1])
    >>> scorer = worst_group_error_scorer(lambda X: X[:, 0])
    >>> scorer(DummyClassifier().fit(X, y), X, y)
    -0.5
    """

    def scorer(estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        return -worst_group_error(y, estimator.predict(X), groups=group_of(X), sample_weight=sample_weight)

    return scorer
