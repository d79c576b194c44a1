"""The few samples that a choice of k looks at: the same ones of tensors as of arrays, and all that the host sees of X.

The marks of :func:`atklearn.selection.distribution.row_marks`, in numbers with a sign: PyTorch has no others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from atklearn.encoding.encoded import Encoded
from atklearn.encoding.tensors import class_masses
from atklearn.losses.individual import Array
from atklearn.runtime.namespaces import Tensor, on_host
from atklearn.selection.distribution import Marked, few_marked, merged, row_factors

__all__ = ["few_tensor_rows", "tensor_marks"]

# Entries that are looked at at a time.
_BLOCK = 10_000_000


def few_tensor_rows(data: Encoded, at_most: int) -> Encoded:
    """Return about that many samples of tensors at most, on the host."""
    if data.n_samples <= at_most:
        return data.on_host()
    X, mass = data.X, data.weight
    has_labels = data.classes is not None
    n_classes = 1 if data.classes is None else data.classes.size
    codes = data.y.long() if has_labels else torch.zeros(1, dtype=torch.long, device=X.device).expand(len(X))
    target = data.y.double()
    parts = tensor_marks(X, target).double()
    parts = torch.where(parts < 0.0, parts + 2.0**64, parts) / 2.0**64  # as numbers without a sign
    present = mass > 0.0
    sizes = class_masses(codes, present.double(), n_classes)

    def below(limits: Array) -> Marked:
        limit = torch.as_tensor(limits, device=X.device)[codes]
        places = torch.nonzero((parts <= limit) & present)[:, 0]
        rows, targets = X[places], target[places]
        marks = on_host(tensor_marks(rows, targets)).view(np.uint64)
        return merged(marks, on_host(rows), on_host(targets), on_host(mass[places]))

    def codes_of(targets: Array) -> Any:
        return targets.astype(np.intp) if has_labels else np.zeros(targets.size, dtype=np.intp)

    few, targets, few_mass = few_marked(below, codes_of, sizes, class_masses(codes, mass, n_classes), at_most)
    y = codes_of(targets) if has_labels else targets
    return Encoded(y, few_mass, data.classes, X=few, encoder=data.encoder, is_weighted=True)


def tensor_marks(X: Tensor, target: Tensor) -> Tensor:
    """Return a number for every sample, the same for equal ones and as good as random for others."""
    factors = torch.as_tensor(row_factors(X.shape[1]).view(np.int64), device=X.device)
    marks = _mixed(_bits(target)) * factors[-1]
    step = max(_BLOCK // X.shape[1], 1)
    for start in range(0, len(X), step):
        marks[start : start + step] += (_mixed(_bits(X[start : start + step])) * factors[:-1]).sum(dim=1)
    return _mixed(marks)


def _bits(values: Tensor) -> Tensor:
    """Return the bits of numbers; zero for zero, whatever its sign."""
    return (values.double() + 0.0).view(torch.int64)


def _mixed(bits: Tensor) -> Tensor:
    """Return numbers in which every bit depends on every bit of these: the last steps of SplitMix64."""
    bits = (bits ^ _shifted(bits, 30)) * _signed(0xBF58476D1CE4E5B9)
    bits = (bits ^ _shifted(bits, 27)) * _signed(0x94D049BB133111EB)
    return bits ^ _shifted(bits, 31)


def _shifted(bits: Tensor, by: int) -> Tensor:
    """Shift to the right, zeros from the left."""
    return (bits >> by) & ((1 << (64 - by)) - 1)


def _signed(number: int) -> int:
    return number - (1 << 64)
