"""Classes with their mass: what class weights make of it, and what the problems are called."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.class_weight import compute_class_weight

from atklearn.losses.individual import Array
from atklearn.losses.messages import shown

__all__ = ["class_factors", "problem_names"]


def problem_names(classes: npt.NDArray[Any] | None) -> list[str]:
    """Return what each problem is about: the fit, the larger of two classes, or each class against the rest."""
    if classes is None:
        return ["fit"]
    return [f"class {label}" for label in (classes[-1:] if classes.size == 2 else classes)]


def class_factors(classes: npt.NDArray[Any], present: Array, class_weight: Any, owner: str) -> Array | None:
    """Return what class weights multiply the mass of each class with, None for nothing; two classes must have mass.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
    present : ndarray of shape (n_classes,)
        The mass that the samples of each class have.
    class_weight : dict, "balanced" or None
    owner : str
        Who asks, for messages.

    Examples
    --------
    >>> class_factors(np.array(["a", "b"]), np.array([1.0, 3.0]), "balanced", "A classifier")
    array([2.        , 0.66666667])
    """
    if np.count_nonzero(present) < 2:
        raise ValueError(
            f"{owner} expects samples of at least 2 classes with positive weight, got {classes.size} class(es) in y, "
            f"{np.count_nonzero(present)} of them with weight; check y and sample_weight."
        )
    if class_weight is None:
        return None
    factors: Array
    if isinstance(class_weight, str):  # balanced
        mean = present.sum() / np.count_nonzero(present)
        factors = np.divide(mean, present, where=present > 0, out=np.zeros_like(present))
    else:
        factors = np.asarray(compute_class_weight(class_weight, classes=classes, y=classes))
    if factors.min() < 0.0 or np.count_nonzero(factors * present) < 2:
        raise ValueError(
            f"class_weight is expected to give weights >= 0 and a positive one to at least 2 classes, "
            f"got {shown(class_weight)}."
        )
    return factors
