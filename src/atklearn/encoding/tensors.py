"""Tensors that users pass, checked and encoded where they lie; and what linear models say of them.

What holds for arrays holds for them, in scikit-learn's words. Shapes are shown to scikit-learn by a stand-in without
memory of its own; values are looked at where they lie. Whatever has an entry per sample stays on the device; the host
sees the labels and the mass of each class.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import assert_all_finite, check_array, check_consistent_length, check_X_y, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from atklearn.runtime.messages import refuse_extremes, refuse_weights
from atklearn.runtime.namespaces import Features, Home, Labels, Tensor, Vector, has_home, is_tensor, on_host

__all__ = [
    "TensorDecisions",
    "as_floats",
    "check_tensor_features",
    "check_tensor_mass",
    "check_tensor_training",
    "class_masses",
    "classes_and_codes",
    "tensor_scores",
]

# Entries that are looked at at a time, for those that are not finite.
_BLOCK = 10_000_000
_FLOATS = (torch.float32, torch.float64)
# Whole numbers that PyTorch stores, and hardly computes with.
_HARDLY_COMPUTED = (torch.uint16, torch.uint32, torch.uint64)


def check_tensor_training(
    estimator: BaseEstimator, home: Home, X: Features, y: Vector, **checks: object
) -> tuple[Tensor, Vector]:
    """Return X as a tensor of float32 or float64, and y as a tensor beside it; labels that are no numbers as an array.

    The arguments are those of :func:`atklearn.encoding.encoded.check_training`, and where X lies.
    """
    X = _features(home, X)
    seen = _stand_in(X)
    options: dict[str, object] = {"dtype": None, "ensure_all_finite": False} | checks
    if has_home(y):
        y = _enter(home, y, "y")
        options.pop("y_numeric", None)
        check_array(seen, **options) if estimator is None else validate_data(estimator, seen, **options)
        return _squarable(_finite(as_floats(X), "X", estimator)), _checked_targets(home.enter(y), len(X), estimator)
    given = (seen, y) if estimator is None else (estimator, seen, y)
    y = (check_X_y if estimator is None else validate_data)(*given, **options)[1]
    if checks.get("y_numeric"):
        y = np.asarray(y, dtype=np.float64)
    X = _squarable(_finite(as_floats(X), "X", estimator))
    return X, home.enter(y) if y.dtype.kind in "biuf" else y


def _squarable(X: Tensor) -> Tensor:
    """Return X, or say that its entries cannot be squared; those of shorter floats always can."""
    if X.dtype == torch.float64:
        length = float(torch.linalg.vector_norm(X))
        refuse_extremes("X", length * length)
    return X


def check_tensor_features(estimator: BaseEstimator, home: Home, X: Features) -> Tensor:
    """Return X to predict from, checked against the features of the fit."""
    X = _features(home, X)
    validate_data(estimator, _stand_in(X), reset=False, dtype=None, ensure_all_finite=False)
    return _finite(as_floats(X), "X", estimator)


def check_tensor_mass(sample_weight: Vector, X: Tensor) -> Tensor:
    """Return the sample weights as a tensor of numbers >= 0 beside X, or say what is wrong with them."""
    n_samples = len(X)
    if sample_weight is None:
        return torch.ones(1, dtype=torch.float64, device=X.device).expand(n_samples)
    mass = _enter(Home("torch", X.device, X.device, torch), sample_weight, "sample_weight").to(torch.float64)
    if mass.ndim == 0:
        mass = mass.reshape(1).expand(n_samples)
    low, high = (float(end) for end in torch.aminmax(mass)) if mass.shape == (n_samples,) else (0.0, 0.0)
    refuse_weights(n_samples, tuple(mass.shape), low, high)
    return mass


def _checked_targets(y: Tensor, n_samples: int, estimator: BaseEstimator) -> Tensor:
    """Return targets as a vector of as many real numbers as there are samples."""
    # only its shape is looked at, and one sample of a good one is enough: more would be copied
    is_good = y.ndim == 1 or (y.ndim == 2 and y.shape[1] == 1)
    column_or_1d(_stand_in(y[:1] if is_good else y), warn=True)
    check_consistent_length(range(n_samples), range(len(y)))
    return _finite(y.reshape(-1), "y", estimator)


def _stand_in(tensor: Tensor) -> npt.NDArray[np.int8]:
    """Return an array of the same shape, all of whose entries are one and the same zero."""
    return np.broadcast_to(np.int8(0), tuple(tensor.shape))


def _features(home: Home, X: Features) -> Tensor:
    """Return X as a tensor at home, or say why it cannot be computed with."""
    X = _enter(home, X, "X")
    problem = None
    if not _has_float64(X.device):
        problem = f"one on {X.device}, which has no float64; move it to the CPU or a CUDA device"
    elif X.ndim != 2:
        problem = (
            f"one of shape {tuple(X.shape)}; use X.reshape(-1, 1) for one feature, X.reshape(1, -1) for one sample"
        )
    if problem is not None:
        raise ValueError(f"X is expected to be a dense tensor of real numbers in 2 dimensions, got {problem}.")
    return X


def _enter(home: Home, values: Vector, name: str) -> Tensor:
    """Return numbers as a tensor at home, or say why there is no computing with them, wherever they are."""
    tensor = values if is_tensor(values) else home.enter(values)
    problem = None
    if tensor.layout != torch.strided:
        advice = ", or a sparse matrix of SciPy" if name == "X" else ""
        problem = f"one of layout {tensor.layout}; pass {name}.to_dense(){advice}"
    elif tensor.is_complex():  # in scikit-learn's words, which its checks look for
        problem = f"one of {tensor.dtype}: Complex data not supported; pass {name}.real"
    elif tensor.is_meta:
        problem = "one on the device meta, which holds no numbers; pass a tensor on the CPU or on a GPU"
    if problem is not None:
        raise ValueError(f"{name} is expected to be a dense tensor of real numbers, got {problem}.")
    if tensor.is_floating_point() and tensor.element_size() == 1:  # which PyTorch stores, and hardly computes with
        tensor = tensor.float()
    return home.enter(tensor)


def _has_float64(device: torch.device) -> bool:
    """Say whether a device computes in float64."""
    return bool(device.type != "mps")


def as_floats(X: Tensor) -> Tensor:
    """Return X in the float that scikit-learn would take: short ones as float32, whole numbers as float64."""
    return X if X.dtype in _FLOATS else X.to(torch.float32 if X.is_floating_point() else torch.float64)


def _finite(values: Tensor, name: str, estimator: BaseEstimator) -> Tensor:
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


def classes_and_codes(y: Vector, device: torch.device) -> tuple[Labels, Tensor]:
    """Return the sorted labels, on the host, and which of them every sample has; of two numbers unsorted."""
    if not is_tensor(y) or y.dtype in _HARDLY_COMPUTED:
        y = on_host(y)
        check_classification_targets(y)
        classes, codes = np.unique(y, return_inverse=True)
        return classes, torch.as_tensor(codes, device=device)
    if y.dtype != torch.bool:
        low, high = torch.aminmax(y)
        if bool((low < high) & ((y == low) | (y == high)).all()):
            classes = on_host(torch.stack([low, high]))
            check_classification_targets(classes)
            return classes, (y == high).to(torch.int8)
    labels, codes = torch.unique(y, return_inverse=True)
    classes = on_host(labels)
    # as if of the samples: labels alone look like a regression, of which each is its own class
    check_classification_targets(np.resize(classes, min(len(y), 2 * classes.size)))
    return classes, codes


def class_masses(codes: Tensor, mass: Tensor, n_classes: int) -> npt.NDArray[np.float64]:
    """Return the mass that the samples of each class have; sums in an order that does not change."""
    if mass.stride() == (0,):  # all alike
        return np.array([float((codes == each).sum()) for each in range(n_classes)]) * float(mass[0])
    return np.array([float(torch.where(codes == each, mass, 0.0).sum()) for each in range(n_classes)])


def tensor_scores(home: Home, X: Tensor, coef: Vector, intercept: Vector) -> Tensor:
    """Return ``X w + b`` in the precision of X, a column per row of the coefficients if these have rows."""
    weights, shift = (home.enter(part).to(X.dtype) for part in (coef, intercept))
    return X @ weights.T + shift if weights.ndim == 2 else X @ weights + shift


@dataclass(frozen=True)
class TensorDecisions:
    """Decision values of tensors, and what follows from them in the library of X.

    Attributes
    ----------
    home : Home
        Of X.
    scores : tensor of shape (n_samples,) or (n_samples, n_problems)
    """

    home: Home
    scores: Tensor

    def values(self) -> Tensor:
        """Return the scores, without a second axis for two classes."""
        scores = self.scores
        return self.home.leave(scores[:, 0] if scores.ndim == 2 and scores.shape[1] == 1 else scores)

    def labels(self, classes: Vector) -> Vector:
        """Return the chosen labels, in the library of X if they are numbers."""
        single = self.scores.shape[1] == 1
        codes = (self.scores[:, 0] > 0.0).long() if single else self.scores.argmax(dim=1)
        if has_home(classes):
            return self.home.leave(self.home.enter(classes)[codes])
        return classes[on_host(codes)]

    def probabilities(self) -> Tensor:
        """Return the logistic function of the scores, scaled to sum to one over the classes."""
        return self.home.leave(self._shares())

    def log_probabilities(self) -> Tensor:
        """Return the logarithm of the probabilities."""
        return self.home.leave(self._shares().log())

    def _shares(self) -> Tensor:
        positive = torch.sigmoid(self.scores)
        if positive.shape[1] == 1:
            return torch.cat([1.0 - positive, positive], dim=1)
        total = positive.sum(dim=1, keepdim=True)
        # a sample that every class rejects without a trace left belongs to all alike
        return torch.where(total > 0.0, positive / total, 1.0 / positive.shape[1])
