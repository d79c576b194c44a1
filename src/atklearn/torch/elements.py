"""Losses as rows of elements, each with the mass it stands for: what every aggregate of tensors starts from."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

__all__ = ["Dims", "Elements", "positive", "wide"]

Dims = int | tuple[int, ...] | None


@dataclass(frozen=True)
class Elements:
    """Losses in rows of shape (..., n): every row is aggregated by itself.

    Attributes
    ----------
    losses : Tensor of shape (..., n)
        As they came: any floating type, ignored elements included.
    mask : bool Tensor of shape (..., n) or None
        False where an element is ignored.
    weight : Tensor of shape (..., n) or None
    """

    losses: Tensor
    mask: Tensor | None
    weight: Tensor | None

    @classmethod
    def of(cls, losses: Tensor, weight: Tensor | None, mask: Tensor | None, dim: Dims = None) -> Elements:
        """Check and lay out: the dimensions to aggregate go last, as one."""
        _check_losses(losses)
        if mask is not None and mask.dtype != torch.bool:
            raise ValueError(f"mask is expected as a bool tensor, True where an element counts, got {mask.dtype}.")
        return cls(
            _in_rows(losses, dim),
            _beside(losses, mask, "mask", dim),
            _beside(losses, weight if weight is None else weight.detach(), "weight", dim),
        )

    def values(self) -> Tensor:
        """Return the losses in float32 or wider, and 0 in the place of those that do not exist."""
        values = self.losses.to(self._kind())
        exists = self.exists()
        return values if exists is None else torch.where(exists, values, 0.0)

    def mass(self) -> Tensor | None:
        """Return what each element counts for, shape (..., n); None when all count for one."""
        if self.weight is None:
            return None if self.mask is None else self.mask.to(self._kind())
        weight = self.weight.to(torch.promote_types(self.weight.dtype, self._kind()))
        return weight if self.mask is None else torch.where(self.mask, weight, 0.0)

    def exists(self) -> Tensor | None:
        """Return where there is something to count; None when everywhere."""
        if self.weight is None:
            return self.mask
        return self.weight > 0 if self.mask is None else self.mask & (self.weight > 0)

    def total(self) -> Tensor | float:
        """Return the mass of every row, shape (...): plain numbers where it is known without looking."""
        mass = self.mass()
        return float(self.losses.shape[-1]) if mass is None else mass.sum(-1, dtype=wide(mass.device))

    def _kind(self) -> torch.dtype:
        return torch.promote_types(self.losses.dtype, torch.float32)


def wide(device: torch.device) -> torch.dtype:
    """Return the type that sums are made in: counts are exact in it far beyond any batch."""
    return torch.float32 if device.type == "mps" else torch.float64


def positive(amount: Tensor | float) -> Tensor | float:
    """Return an amount to divide by: where there is none, 1, since what is divided is nothing, too."""
    return torch.where(amount > 0, amount, 1.0) if isinstance(amount, Tensor) else amount or 1.0


def _check_losses(losses: Tensor) -> None:
    if not isinstance(losses, Tensor) or not losses.is_floating_point():
        found = losses.dtype if isinstance(losses, Tensor) else type(losses).__name__
        raise ValueError(f"losses are expected as a tensor of floating-point numbers, got {found}.")
    if losses.ndim == 0:
        raise ValueError(
            "losses are expected one per element, got a single number, already reduced: "
            "pass reduction='none' to the criterion."
        )


def _in_rows(tensor: Tensor, dim: Dims) -> Tensor:
    if dim is None:
        return tensor.reshape(-1)
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if len({place % tensor.ndim for place in dims}) != len(dims) or any(
        not -tensor.ndim <= place < tensor.ndim for place in dims
    ):
        raise ValueError(f"dim is expected to name dimensions of losses of shape {tuple(tensor.shape)}, got {dim}.")
    moved = tensor.movedim(dims, tuple(range(-len(dims), 0)))
    kept = moved.shape[: moved.ndim - len(dims)]
    return moved.reshape(*kept, prod(moved.shape[moved.ndim - len(dims) :]))


def _beside(losses: Tensor, other: Tensor | None, name: str, dim: Dims) -> Tensor | None:
    if other is None:
        return None
    try:
        whole = torch.broadcast_to(other, losses.shape)
    except RuntimeError as error:
        raise ValueError(
            f"{name} is expected to fit losses of shape {tuple(losses.shape)}, got shape {tuple(other.shape)}."
        ) from error
    return _in_rows(whole, dim)
