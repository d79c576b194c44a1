"""What the theorems about the hinge loss expect of a fitted model."""

from __future__ import annotations

from typing import Any

from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from atklearn.losses.individual import Hinge

__all__ = ["check_two_class_hinge"]


def check_two_class_hinge(model: Any, caller: str, otherwise: str) -> None:
    """Raise ValueError unless the model is a fitted classifier of two classes with the hinge loss.

    Parameters
    ----------
    model : estimator
    caller : str
        Who asks, for the message.
    otherwise : str
        What to do with more than two classes.
    """
    check_is_fitted(model)
    loss = getattr(model, "loss", "hinge")
    if not is_classifier(model) or (loss != "hinge" and not isinstance(loss, Hinge)):
        raise ValueError(f"{caller} expects a classifier with the hinge loss, got {model!r}; fit with loss='hinge'.")
    if model.classes_.size != 2:
        raise ValueError(f"{caller} expects two classes, got {model.classes_.size}; {otherwise}.")
