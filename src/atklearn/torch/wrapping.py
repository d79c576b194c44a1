"""From a criterion to its average top-k form in one line."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from atklearn.torch.module import AverageTopKLoss

__all__ = ["wrap"]


def wrap(
    criterion: nn.Module | Callable[..., Tensor], k: float, *, ignore_index: int | None = None, **settings: Any
) -> WrappedCriterion:
    """Return a criterion that takes the mean of the k largest losses where the given one takes the mean of all.

    With ``k=1.0`` it is the given criterion (with ``reduction="mean"``): elements whose target is ``ignore_index`` do
    not count, and class weights of cross entropy count as mass, as there.

    Parameters
    ----------
    criterion : module with an attribute ``reduction``, or function with such an argument
        ``torch.nn.CrossEntropyLoss(...)``, ``torch.nn.functional.mse_loss``, your own.
    k : float or int
        See :class:`AverageTopKLoss`.
    ignore_index : int, optional
        Targets of this value are ignored; that of the criterion by default, if it has one.
    **settings
        For :class:`AverageTopKLoss`: ``scope``, ``dim``, ...

    Returns
    -------
    criterion : module
        Called as ``criterion(input, target, mask=None, weight=None, group=None, count=None)``.

    Examples
    --------
    >>> import torch
    >>> from atklearn.torch import wrap
    >>> generator = torch.Generator().manual_seed(0)
    >>> logits = torch.randn(2, 5, 8, 8, generator=generator)  # of five classes, for every pixel of two images
    >>> target = torch.randint(5, (2, 8, 8), generator=generator)
    >>> hard = wrap(torch.nn.CrossEntropyLoss(), 0.25, ignore_index=255)
    >>> bool(hard(logits, target) > torch.nn.CrossEntropyLoss()(logits, target))  # the hardest quarter of the pixels
    True
    >>> same = wrap(torch.nn.CrossEntropyLoss(), 1.0)
    >>> torch.allclose(same(logits, target), torch.nn.CrossEntropyLoss()(logits, target))
    True
    """
    return WrappedCriterion(criterion, AverageTopKLoss(k, **settings), ignore_index)


class WrappedCriterion(nn.Module):
    """A criterion and the average top-k loss that reduces it; see :func:`wrap`.

    Attributes
    ----------
    criterion : the given one, with ``reduction="none"``
    average_top_k : AverageTopKLoss
    """

    def __init__(
        self, criterion: nn.Module | Callable[..., Tensor], average_top_k: AverageTopKLoss, ignore_index: int | None
    ) -> None:
        super().__init__()
        self.criterion, self.average_top_k = _unreduced(criterion), average_top_k
        self.ignore_index = getattr(criterion, "ignore_index", None) if ignore_index is None else ignore_index
        if hasattr(self.criterion, "ignore_index"):
            self.criterion.ignore_index = self.ignore_index

    def forward(
        self,
        input: Tensor,  # noqa: A002 - the name that PyTorch's criteria have
        target: Tensor,
        *others: Any,
        mask: Tensor | None = None,
        weight: Tensor | None = None,
        group: Tensor | None = None,
        count: float | Tensor | None = None,
    ) -> Tensor:
        """Return the loss; for the arguments by keyword see :meth:`AverageTopKLoss.forward`."""
        has_classes = isinstance(self.criterion, _OF_CLASSES)
        is_index = not target.is_floating_point()
        if self.ignore_index is not None and (is_index or not has_classes):
            kept = target != self.ignore_index
            mask = kept if mask is None else mask & kept
            target = torch.where(kept, target, 0)  # any value will do: the element does not count
        losses = self.criterion(input, target, *others)
        class_weight = getattr(self.criterion, "weight", None) if has_classes and is_index else None
        if class_weight is not None:
            mass = class_weight[target]
            losses = losses / torch.where(mass > 0, mass, 1.0)
            weight = mass if weight is None else weight * mass
        return self.average_top_k(losses, mask=mask, weight=weight, group=group, count=count)


_OF_CLASSES = (nn.CrossEntropyLoss, nn.NLLLoss)


def _unreduced(criterion: Any) -> Any:
    """Return the criterion, or a copy of it, that leaves the losses as they are."""
    if isinstance(criterion, nn.Module):
        if hasattr(criterion, "reduction"):
            unreduced = copy.deepcopy(criterion)
            unreduced.reduction = "none"
            return unreduced
    elif callable(criterion) and "reduction" in inspect.signature(criterion).parameters:
        return _Function(criterion)
    raise ValueError(
        "criterion is expected to have a setting `reduction`, as those of PyTorch; for another one, "
        f"pass its losses to AverageTopKLoss instead. Got {criterion!r}."
    )


class _Function(nn.Module):
    """A function with an argument ``reduction``."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arguments: Any) -> Tensor:
        return self.function(*arguments, reduction="none")
