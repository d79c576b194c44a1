"""The labels that decision values stand for."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from atklearn.losses.individual import Array

__all__ = ["chosen_labels"]


def chosen_labels(decisions: Array, classes: npt.ArrayLike) -> npt.NDArray[Any]:
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
    labels: npt.NDArray[Any] = np.asarray(classes)[codes]
    return labels
