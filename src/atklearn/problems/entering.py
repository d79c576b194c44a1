"""The door for what users pass: arrays and sparse matrices are checked on the host, tensors where they lie."""

from __future__ import annotations

from typing import Any

from atklearn.problems.arrays import check_features, check_mass, check_training
from atklearn.problems.namespaces import home_of, is_tensor

__all__ = ["enter_features", "enter_mass", "enter_training"]


def enter_training(estimator: Any, X: Any, y: Any, **checks: Any) -> tuple[Any, Any]:
    """Return X and y to fit on: see :func:`check_training`, and :func:`check_tensor_training` for tensors."""
    home = home_of(X)
    if home is None:
        return check_training(estimator, X, y, **checks)
    from atklearn.problems.tensors.tensor_checks import check_tensor_training

    return check_tensor_training(estimator, home, X, y, **checks)


def enter_features(estimator: Any, X: Any) -> Any:
    """Return X to predict from, checked against the features of the fit."""
    home = home_of(X)
    if home is None:
        return check_features(estimator, X)
    from atklearn.problems.tensors.tensor_checks import check_tensor_features

    return check_tensor_features(estimator, home, X)


def enter_mass(sample_weight: Any, X: Any) -> Any:
    """Return the sample weights, checked, beside an X that has been."""
    if not is_tensor(X):
        return check_mass(sample_weight, X.shape[0])
    from atklearn.problems.tensors.tensor_checks import check_tensor_mass

    return check_tensor_mass(sample_weight, X)
