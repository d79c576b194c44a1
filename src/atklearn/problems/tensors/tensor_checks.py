"""Checking tensors that users pass: what scikit-learn says of arrays is said of them, in the same words.

Shapes are shown to scikit-learn by a stand-in without memory of its own; values are looked at where they lie.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.utils import assert_all_finite, check_X_y
from sklearn.utils.validation import validate_data

from atklearn.problems.arrays import refuse_weights
from atklearn.problems.namespaces import Home, Tensor, has_home, on_host

__all__ = ["check_tensor_features", "check_tensor_mass", "check_tensor_training"]

# Entries that are looked at at a time, for those that are not finite.
_BLOCK = 10_000_000
_FLOATS = (torch.float32, torch.float64)


def check_tensor_training(estimator: Any, home: Home, X: Any, y: Any, **checks: Any) -> tuple[Tensor, Any]:
    """Return X as a tensor of float32 or float64, and y as a tensor beside it; labels that are no numbers as an array.

    Parameters
    ----------
    estimator : estimator or None
        Gets ``n_features_in_``; None where a function is called, not an estimator.
    home : Home
        Of X.
    X, y : array-like
    **checks
        What else scikit-learn's ``validate_data`` should see to.
    """
    X = _real_and_dense(home.enter(X))
    seen, there = _stand_in(X), _numbers(y, home)
    options: dict[str, Any] = {"dtype": None, "ensure_all_finite": False} | checks
    told = y if there is None else _stand_in(there)
    arguments = (seen, told) if estimator is None else (estimator, seen, told)
    y = (check_X_y if estimator is None else validate_data)(*arguments, **options)[1]
    if there is None and checks.get("y_numeric"):
        y = np.asarray(y, dtype=np.float64)
    if there is None and y.dtype.kind in "biuf":  # on the host so far
        there = home.enter(y)
    X = _finite_floats(X, "X", estimator)
    if there is None:
        return X, y
    return X, _finite(there.reshape(-1), "y", estimator)


def check_tensor_features(estimator: Any, home: Home, X: Any) -> Tensor:
    """Return X to predict from, checked against the features of the fit."""
    X = _real_and_dense(home.enter(X))
    validate_data(estimator, _stand_in(X), reset=False, dtype=None, ensure_all_finite=False)
    return _finite_floats(X, "X", estimator)


def check_tensor_mass(sample_weight: Any, X: Tensor) -> Tensor:
    """Return the sample weights as a tensor of numbers >= 0 beside X, or say what is wrong with them."""
    n_samples = len(X)
    if sample_weight is None:
        return torch.ones(1, dtype=torch.float64, device=X.device).expand(n_samples)
    mass = Home("torch", X.device, X.device, torch).enter(sample_weight).to(torch.float64)
    if mass.ndim == 0:
        mass = mass.reshape(1).expand(n_samples)
    low, high = (float(end) for end in torch.aminmax(mass)) if mass.shape == (n_samples,) else (0.0, 0.0)
    refuse_weights(n_samples, tuple(mass.shape), low, high)
    return mass


def _numbers(y: Any, home: Home) -> Tensor | None:
    """Return targets that lie on a device as a tensor beside X, None for those on the host."""
    return home.enter(y) if has_home(y) else None


def _stand_in(tensor: Tensor) -> np.ndarray[Any, Any]:
    """Return an array of the same shape, all of whose entries are one and the same zero."""
    zero = np.zeros((), dtype=np.complex64 if tensor.is_complex() else np.int8)
    return np.broadcast_to(zero, tuple(tensor.shape))


def _real_and_dense(X: Tensor) -> Tensor:
    """Return X, or say why it cannot be computed with."""
    problem = None
    if X.layout != torch.strided:
        problem = f"one of layout {X.layout}; pass X.to_dense(), or a sparse matrix of SciPy"
    elif X.is_complex():
        problem = f"one of {X.dtype}; pass its real and imaginary parts as features"
    elif X.is_meta or not _has_float64(X.device):
        problem = f"one on {X.device}, which has no float64; move it to the CPU or a CUDA device"
    elif X.ndim != 2:
        problem = (
            f"one of shape {tuple(X.shape)}; use X.reshape(-1, 1) for one feature, X.reshape(1, -1) for one sample"
        )
    if problem is not None:
        raise ValueError(f"X is expected to be a dense tensor of real numbers in 2 dimensions, got {problem}.")
    return X


def _has_float64(device: Any) -> bool:
    """Say whether a device computes in float64."""
    return bool(device.type != "mps")


def _finite_floats(X: Tensor, name: str, estimator: Any) -> Tensor:
    """Return X in the float that scikit-learn would take: short ones as float32, whole numbers as float64."""
    if X.dtype not in _FLOATS:
        X = X.to(torch.float32 if X.is_floating_point() else torch.float64)
    return _finite(X, name, estimator)


def _finite(values: Tensor, name: str, estimator: Any) -> Tensor:
    """Return values, or say which of NaN and infinity is among them; no copy of all of them is made."""
    if not values.is_floating_point() or bool(torch.isfinite(values.sum())):
        return values
    owner = None if estimator is None else type(estimator).__name__
    step = max(_BLOCK // max(values[:1].numel(), 1), 1)
    for block in values.split(step):
        wrong = block[~block.isfinite()]
        if wrong.numel():
            # in scikit-learn's words, which tell NaN from infinity
            assert_all_finite(on_host(wrong[:1]), estimator_name=owner, input_name=name)
    return values  # their sum is beyond the largest float, and none of them
