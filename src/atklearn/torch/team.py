"""The processes that share a batch: what they add up, and whose gradient is whose."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

__all__ = ["ALONE", "Team"]


class Team:
    """The processes of a group, of which each has a part of the batch.

    Parameters
    ----------
    group : process group of torch.distributed, or None
        None stands for this process alone.
    """

    def __init__(self, group: Any = None) -> None:
        self.group = group
        self.size = 1 if group is None else dist.get_world_size(group)

    @classmethod
    def of(cls, group: Any = None) -> Team:
        """Return the team of a group, of all processes by default; without processes to share with, one alone."""
        if not dist.is_available() or not dist.is_initialized():
            return ALONE
        team = cls(group if group is not None else dist.group.WORLD)
        return team if team.size > 1 else ALONE

    @property
    def is_alone(self) -> bool:
        """Whether there is nobody to exchange with."""
        return self.size == 1

    def sum(self, tensor: Tensor) -> Tensor:
        """Return the sum of all processes' tensors, without gradient."""
        if self.is_alone:
            return tensor
        total = tensor.detach().clone()
        dist.all_reduce(total, group=self.group)
        return total

    def sum_of(self, number: Tensor | float, beside: Tensor) -> Tensor | float:
        """Return the sum of all processes' numbers, plain ones or tensors beside another tensor."""
        if self.is_alone:
            return number
        return self.sum(torch.as_tensor(number, dtype=torch.float64, device=beside.device))

    def largest(self, tensor: Tensor) -> Tensor:
        """Return the largest of all processes' tensors, place by place, without gradient."""
        if self.is_alone:
            return tensor
        largest = tensor.detach().clone()
        dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=self.group)
        return largest

    def joined(self, part: Tensor) -> Tensor:
        """Return the sum of all processes' parts, whose gradient reaches this process's part, times their number.

        Data parallel training averages gradients over the processes; so it ends with the gradient of the sum.
        """
        if self.is_alone:
            return part
        total = self.sum(part.to(torch.float64)).to(part.dtype)
        return _Joined.apply(part, total, self.size)


class _Joined(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: Tensor, total: Tensor, size: int) -> Tensor:  # noqa: ARG004
        ctx.size = size
        return total.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return grad * ctx.size, None, None


ALONE = Team()
