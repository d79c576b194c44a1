"""From tensors to problems: classes, one-versus-rest targets and mass mean what they mean for arrays.

Whatever has an entry per sample stays on the device; the host sees the labels and the mass of each class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils.multiclass import check_classification_targets

from atklearn.losses.individual import IndividualLoss
from atklearn.problems.class_weights import class_factors, problem_names
from atklearn.problems.namespaces import Tensor, is_tensor, on_host
from atklearn.problems.tensors.tensor_checks import check_tensor_mass
from atklearn.stores.tensors.tensor_store import TensorRows

__all__ = ["TensorTargets", "class_masses", "classes_and_codes", "tensor_targets"]


@dataclass(frozen=True)
class TensorTargets:
    """What y and the weights say: see :class:`atklearn.problems.posing.SeenTargets`.

    Attributes
    ----------
    values : list of tensors of shape (n_samples,)
        For classes +1 and -1, a tensor per problem; for a regression y itself.
    mass : tensor of shape (n_samples,)
        Sample weights times class weights; 0 leaves a sample out.
    classes : ndarray of shape (n_classes,) or None
        On the host; None for a regression.
    total : float
        The mass of all samples, as the rows sum it up.
    """

    values: Sequence[Tensor]
    mass: Tensor
    classes: npt.NDArray[Any] | None = None
    total: float = 0.0

    @property
    def names(self) -> list[str]:
        """What each problem is about."""
        return problem_names(self.classes)

    def rows(self, X: Tensor, loss: IndividualLoss, has_ones: bool) -> tuple[TensorTargets, list[TensorRows]]:
        """Return these targets, their mass summed up, and the rows of X that have mass, aiming at each of them."""
        values, mass = self.values, self.mass
        if float(mass.min()) == 0.0:
            kept = mass > 0.0
            X, values, mass = X[kept], [value[kept] for value in values], mass[kept]
        first = TensorRows(X, values[0], mass, loss, has_ones)
        rows = [first, *(first.aiming_at(value) for value in values[1:])]
        return replace(self, total=first.total), rows

    def spread(self, columns: Sequence[Tensor]) -> Tensor:
        """Return numbers of the samples that have mass, a tensor per problem, as columns for all; zero for others."""
        together = columns[0][:, None] if len(columns) == 1 else torch.stack(list(columns), dim=1)
        if len(together) == len(self.mass):
            return together
        out = together.new_zeros((len(self.mass), len(columns)))
        out[self.mass > 0.0] = together
        return out


def tensor_targets(
    X: Tensor, y: Any, sample_weight: Any, class_weight: Any, owner: str, loss: IndividualLoss
) -> TensorTargets:
    """Return the targets of a classification, making sure that two classes have mass, or of a regression.

    Parameters
    ----------
    X : tensor of shape (n_samples, n_features)
    y : tensor or ndarray of shape (n_samples,)
    sample_weight : array-like of shape (n_samples,) or None
    class_weight : dict, "balanced" or None
    owner : str
        Who asks, for messages.
    loss : IndividualLoss
        It decides between classification and regression.
    """
    mass = check_tensor_mass(sample_weight, X)
    if loss.task == "regression":
        return TensorTargets([torch.as_tensor(y, dtype=torch.float64, device=X.device)], mass)
    classes, codes = classes_and_codes(y, X.device)
    present = class_masses(codes, mass, classes.size)
    factors = class_factors(classes, present, class_weight, owner)
    if factors is not None:
        mass = mass * torch.as_tensor(factors, dtype=torch.float64, device=X.device)[codes.long()]
    positives = [1] if classes.size == 2 else range(classes.size)
    return TensorTargets([(codes == each).to(torch.int8) * 2 - 1 for each in positives], mass, classes)


def classes_and_codes(y: Any, device: Any) -> tuple[npt.NDArray[Any], Tensor]:
    """Return the sorted labels, on the host, and which of them every sample has; of two numbers unsorted."""
    if not is_tensor(y):
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
