"""Losses at predictions that are tensors: formulas run where the tensors lie, other losses on the host."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from atklearn.losses.individual import Formula, IndividualLoss, Kink, formula_of
from atklearn.stores.tensors.triton_losses import KernelLoss

__all__ = ["Expansion", "TensorLoss"]


class Expansion(NamedTuple):
    """The smooth part of losses, its slope and its curvature in the prediction: a number per sample each."""

    s: Tensor
    slope: Tensor
    curvature: Tensor


class TensorLoss:
    """An individual loss that takes tensors.

    Parameters
    ----------
    loss : IndividualLoss
        A formula is computed on the device; for a loss that exists in Python only, predictions travel to the host and
        back.

    Examples
    --------
    >>> import torch
    >>> from atklearn.losses.individual import Hinge
    >>> TensorLoss(Hinge()).expand(torch.tensor([0.5, 2.0]), torch.tensor([1.0, 1.0])).s
    tensor([ 0.5000, -1.0000])
    """

    def __init__(self, loss: IndividualLoss) -> None:
        self.loss = loss
        self.kink = Kink(loss.kink)
        self.formula = formula_of(loss)
        self._for_kernels: dict[torch.device, KernelLoss | None] = {}

    def for_kernels(self, device: torch.device) -> KernelLoss | None:
        """Return what kernels on a device take of it, or None if they cannot compute it."""
        if device not in self._for_kernels:
            self._for_kernels[device] = KernelLoss.of(self.loss, device)
        return self._for_kernels[device]

    def expand(self, f: Tensor, y: Tensor) -> Expansion:
        """Return smooth part, slope and curvature at predictions ``f``, shape (n,)."""
        if self.formula is None:
            found = self.loss.expand(f.cpu().numpy(), y.cpu().double().numpy())
            s, slope, curvature = (torch.as_tensor(part, dtype=torch.float64).to(f.device) for part in found)
            return Expansion(s, slope, curvature)
        return Expansion(*(_numbers(part, f) for part in _on_tensors(self.formula)(self.loss, f, y)))


def _numbers(part: Any, f: Tensor) -> Tensor:
    """Return what a formula says as one number per prediction, of their type."""
    return part.to(f.dtype) if isinstance(part, Tensor) else torch.full_like(f, part)


def _maximum(a: Any, b: Any) -> Any:
    if not isinstance(a, Tensor):
        a, b = b, a
    return a.clamp(min=b) if isinstance(a, Tensor) else max(a, b)


def _minimum(a: Any, b: Any) -> Any:
    if not isinstance(a, Tensor):
        a, b = b, a
    return a.clamp(max=b) if isinstance(a, Tensor) else min(a, b)


def _clip(x: Any, low: Any, high: Any) -> Any:
    return _minimum(_maximum(x, low), high)


def _logaddexp(a: Any, b: Any) -> Any:
    return _maximum(a, b) + torch.log1p(torch.exp(-abs(a - b)))


def _where(condition: Tensor, one: Any, other: Any) -> Tensor:
    if isinstance(one, Tensor) or isinstance(other, Tensor):
        return torch.where(condition, one, other)
    return torch.full_like(condition, other, dtype=torch.float64).masked_fill(condition, one)


def _of_one(name: str) -> Any:
    """Return a function of one tensor; of numbers, which a loss may have, it is NumPy's."""
    return lambda x: getattr(torch if isinstance(x, Tensor) else np, name)(x)


_FUNCTIONS: dict[str, Any] = {
    "abs": abs, "clip": _clip, "logaddexp": _logaddexp, "maximum": _maximum, "minimum": _minimum, "where": _where,
} | {name: _of_one(name) for name in ("exp", "log", "log1p", "sign", "sqrt", "square", "tanh")}  # fmt: skip


@cache
def _on_tensors(formula: Formula) -> Any:
    return formula.bound_to(_FUNCTIONS)
