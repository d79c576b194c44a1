"""How the fits of a grid do on rows they have not seen: all cells at once, every measure."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from atklearn.losses.individual import Array, resolve_individual_loss
from atklearn.selection.paths import ATkPath

__all__ = ["LOSSES", "MEASURES", "grid_measures", "group_measures", "summed_losses"]

LOSSES = {"classification": ("log_loss", "hinge"), "regression": ("squared_error", "absolute_error")}
"""Per task, the two individual losses of the paper."""

MEASURES = {
    "classification": ("error", "balanced_error", "g_mean", "worst_class_error", "tail_loss"),
    "regression": ("rmse", "mae", "tail_loss"),
}
"""Per task, the measures; lower is better but for the G-mean."""

_TAIL = 0.1


def grid_measures(path: ATkPath, loss: str, scores: Array, y: npt.NDArray[Any]) -> dict[str, Array]:
    """Return every measure in every cell, each of shape (n_ks, n_Cs).

    Parameters
    ----------
    path : ATkPath
    loss : str
        The individual loss of the fits, for the mean of its largest tenth.
    scores : ndarray of shape (n_ks, n_Cs, n_problems, n_samples)
        What the fits say, in the units of y for a regression.
    y : ndarray of shape (n_samples,)
        The truth.

    Examples
    --------
    >>> from atklearn import atk_path
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 1])
    >>> path = atk_path(X, y, ks=[0.5, 1.0], Cs=[100.0])
    >>> grid_measures(path, "log_loss", path.scores(X), y)["error"]
    array([[0.],
           [0.]])
    """
    n_tail = max(1, round(_TAIL * y.size))
    losses = summed_losses(loss, scores, y, path.classes)
    tail = np.partition(losses, y.size - n_tail, axis=-1)[..., y.size - n_tail :].mean(axis=-1)
    if path.classes is None:
        residuals = scores[:, :, 0] - y
        return {
            "rmse": np.sqrt((residuals**2).mean(axis=-1)),
            "mae": np.abs(residuals).mean(axis=-1),
            "tail_loss": tail,
        }
    wrong = predictions(path, scores) != y
    by_class = np.stack([wrong[..., y == label].mean(axis=-1) for label in path.classes if (y == label).any()])
    return {
        "error": wrong.mean(axis=-1),
        "balanced_error": by_class.mean(axis=0),
        "g_mean": np.prod(1.0 - by_class, axis=0) ** (1.0 / len(by_class)),
        "worst_class_error": by_class.max(axis=0),
        "tail_loss": tail,
    }


def group_measures(path: ATkPath, scores: Array, y: npt.NDArray[Any], groups: npt.NDArray[np.str_]) -> dict[str, Array]:
    """Return the error rate (the RMSE for a regression) of every group in every cell, each of shape (n_ks, n_Cs)."""
    if path.classes is None:
        squares = (scores[:, :, 0] - y) ** 2
        return {str(name): np.sqrt(squares[..., groups == name].mean(axis=-1)) for name in np.unique(groups)}
    wrong = predictions(path, scores) != y
    return {str(name): wrong[..., groups == name].mean(axis=-1) for name in np.unique(groups)}


def summed_losses(loss: str, scores: Array, y: npt.NDArray[Any], classes: npt.NDArray[Any] | None) -> Array:
    """Return the loss of every sample, summed over the problems of one class against the rest.

    Parameters
    ----------
    loss : str
    scores : ndarray of shape (..., n_problems, n_samples)
    y : ndarray of shape (n_samples,)
    classes : ndarray of shape (n_classes,) or None
        None for a regression.

    Returns
    -------
    losses : ndarray of shape (..., n_samples)
    """
    if classes is None:
        return resolve_individual_loss(loss, "regression")(scores[..., 0, :], np.asarray(y, dtype=np.float64))
    individual = resolve_individual_loss(loss, "classification")
    total = np.zeros((*scores.shape[:-2], y.size))
    for index, label in enumerate(classes[-scores.shape[-2] :]):
        total += individual(scores[..., index, :], np.where(y == label, 1.0, -1.0))
    return total


def predictions(path: ATkPath, scores: Array) -> npt.NDArray[Any]:
    """Return the classes the fits choose, shape (n_ks, n_Cs, n_samples)."""
    classes = np.asarray(path.classes)
    chosen = (scores[:, :, 0] > 0.0).astype(np.intp) if scores.shape[2] == 1 else scores.argmax(axis=2)
    return np.asarray(classes[chosen])
