"""Classes and the targets of two-class losses: one class against the rest, and back from decision values to labels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from atklearn.losses.individual import Array

__all__ = ["chosen_labels", "class_probabilities", "one_versus_rest"]


def one_versus_rest(labels: npt.ArrayLike, classes: npt.ArrayLike) -> Array:
    """Return +1 and -1, a row per problem: the second of two classes against the first, else each against the rest.

    Parameters
    ----------
    labels : array-like of shape (n_samples,)
    classes : array-like of shape (n_classes,)

    Returns
    -------
    targets : ndarray of shape (n_problems, n_samples)

    Examples
    --------
    >>> one_versus_rest(["a", "b", "b"], ["a", "b"])
    array([[-1.,  1.,  1.]])
    """
    positives = np.asarray(classes)
    if positives.size == 2:
        positives = positives[1:]
    signs: Array = (np.asarray(labels) == positives[:, None]).astype(np.float64)
    signs *= 2.0
    signs -= 1.0
    return signs


def chosen_labels(decisions: Array, classes: npt.ArrayLike) -> npt.NDArray[np.generic]:
    """Return the labels that fits choose: by the sign of their decision values for two classes, else by the largest.

    Parameters
    ----------
    decisions : ndarray of shape (..., n_problems, n_samples)
        One problem for two classes, else one per class against the rest.
    classes : array-like of shape (n_classes,)

    Returns
    -------
    labels : ndarray of shape (..., n_samples)

    Examples
    --------
    >>> import numpy as np
    >>> chosen_labels(np.array([[-0.5, 0.0, 0.5]]), ["no", "yes"])
    array(['no', 'no', 'yes'], dtype='<U3')
    >>> chosen_labels(np.array([[1.0, 0.0], [0.0, 2.0], [0.5, 1.0]]), ["a", "b", "c"])
    array(['a', 'b'], dtype='<U1')
    """
    single = decisions.shape[-2] == 1
    codes = (decisions[..., 0, :] > 0.0).astype(np.intp) if single else decisions.argmax(axis=-2)
    labels: npt.NDArray[np.generic] = np.asarray(classes)[codes]
    return labels


def class_probabilities(decisions: Array) -> Array:
    """Return the logistic function of decision values, scaled to sum to one over the classes.

    Parameters
    ----------
    decisions : ndarray of shape (..., n_problems, n_samples)
        One problem for two classes, else one per class against the rest.

    Returns
    -------
    probabilities : ndarray of shape (..., n_classes, n_samples)

    Examples
    --------
    >>> import numpy as np
    >>> class_probabilities(np.array([[0.0, np.log(3.0)]])).round(2)
    array([[0.5 , 0.25],
           [0.5 , 0.75]])
    """
    positive = expit(decisions)
    if decisions.shape[-2] == 1:
        return np.concatenate([1.0 - positive, positive], axis=-2)
    total = positive.sum(axis=-2, keepdims=True)
    # a sample that every class rejects without a trace left belongs to all alike
    shares: Array = np.where(total > 0.0, positive / np.where(total > 0.0, total, 1.0), 1.0 / positive.shape[-2])
    return shares
