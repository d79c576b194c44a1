"""What samples pay, for predictions that are tensors: the built-in losses where the tensors lie, others on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from atklearn.losses.individual import (
    AbsoluteError,
    Hinge,
    Huber,
    IndividualLoss,
    Kink,
    LogLoss,
    SquaredError,
    SquaredHinge,
)

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
        A built-in one is computed on the device; for one that exists in Python only, predictions travel to the host
        and back.

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
        self.delta = loss.delta if isinstance(loss, Huber) else 1.0
        self._expand = _BUILT_IN.get(type(loss))  # not isinstance: a subclass may change the loss
        self.code = list(_BUILT_IN).index(type(loss)) if self.is_built_in else -1  # as kernels know it

    @property
    def is_built_in(self) -> bool:
        """Whether it is computed where the tensors lie."""
        return self._expand is not None

    def expand(self, f: Tensor, y: Tensor) -> Expansion:
        """Return smooth part, slope and curvature at predictions ``f``, shape (n,)."""
        if self._expand is not None:
            return Expansion(*self._expand(f, y, self.delta))
        told = self.loss.expand(f.cpu().numpy(), y.cpu().double().numpy())
        s, slope, curvature = (torch.as_tensor(part, dtype=torch.float64).to(f.device) for part in told)
        return Expansion(s, slope, curvature)


_Parts = tuple[Tensor, Tensor, Tensor]


def _log_loss(f: Tensor, y: Tensor, _delta: float) -> _Parts:
    margin = y * f
    decay = torch.exp(-margin.abs())
    wrong = torch.where(margin >= 0.0, decay, 1.0) / (1.0 + decay)  # P(-y | f), without overflow
    return torch.log1p(decay) - margin.clamp(max=0.0), -y * wrong, wrong * (1.0 - wrong)


def _hinge(f: Tensor, y: Tensor, _delta: float) -> _Parts:
    return 1.0 - y * f, -y.to(f.dtype), torch.zeros_like(f)


def _squared_hinge(f: Tensor, y: Tensor, _delta: float) -> _Parts:
    violation = (1.0 - y * f).clamp(min=0.0)
    return violation**2, -2.0 * y * violation, 2.0 * (violation > 0.0).to(f.dtype)


def _squared_error(f: Tensor, y: Tensor, _delta: float) -> _Parts:
    error = f - y
    return error**2, 2.0 * error, torch.full_like(error, 2.0)


def _absolute_error(f: Tensor, y: Tensor, _delta: float) -> _Parts:
    error = y - f
    return error, torch.full_like(error, -1.0), torch.zeros_like(error)


def _huber(f: Tensor, y: Tensor, delta: float) -> _Parts:
    error = f - y
    slope = error.clamp(-delta, delta)
    return slope * (error - 0.5 * slope), slope, (error.abs() <= delta).to(f.dtype)


_BUILT_IN: dict[type[IndividualLoss], Callable[[Tensor, Tensor, float], _Parts]] = {
    LogLoss: _log_loss,
    Hinge: _hinge,
    SquaredHinge: _squared_hinge,
    SquaredError: _squared_error,
    AbsoluteError: _absolute_error,
    Huber: _huber,
}
