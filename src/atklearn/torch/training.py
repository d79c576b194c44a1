"""The average top-k loss in training loops: around a criterion, in Hugging Face's Trainer, and with a k that falls."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from functools import partial
from math import cos, pi
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from atklearn.runtime.messages import shown
from atklearn.torch.module import AverageTopKLoss

__all__ = ["KSchedule", "TrainerLoss", "wrap"]

_OF_CLASSES = (nn.CrossEntropyLoss, nn.NLLLoss)
_SHAPES: dict[str, Callable[[float], float]] = {
    "linear": lambda progress: progress,
    "cosine": lambda progress: (1.0 - cos(pi * progress)) / 2.0,
}
_ACCURACIES = (0.70, 0.80, 0.90, 0.95, 0.995)  # Kawaguchi and Lu 2020: the share halves as each of these is passed


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
        *others: Tensor,
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


def _unreduced(criterion: nn.Module | Callable[..., Tensor]) -> nn.Module | Callable[..., Tensor]:
    """Return the criterion, or a copy of it, that leaves the losses as they are."""
    if isinstance(criterion, nn.Module):
        if hasattr(criterion, "reduction"):
            unreduced = copy.deepcopy(criterion)
            unreduced.reduction = "none"
            return unreduced
    elif callable(criterion) and "reduction" in inspect.signature(criterion).parameters:
        return partial(criterion, reduction="none")
    raise ValueError(
        "criterion is expected to have a setting `reduction`, as those of PyTorch; for another one, "
        f"pass its losses to AverageTopKLoss instead. Got {criterion!r}."
    )


class TrainerLoss(nn.Module):
    """The average top-k of cross entropy, for ``Trainer(compute_loss_func=...)``: per sample or per token.

    With ``k=1.0`` it is the mean over all labels that count, in however many micro-batches they come.

    The Trainer calls it in training and in evaluation. So it follows the gradient mode, with which the Trainer tells
    them apart (lambda moves in training only), and the device of the logits. Lambda is in the Trainer's checkpoints
    when the loss is an attribute of the model: ``model.average_top_k = loss``.

    Parameters
    ----------
    k : float or int
        See :class:`AverageTopKLoss`.
    shift : bool, default=False
        Causal models: the logits at a token are for the label of the next one.
    ignore_index : int, default=-100
        Labels of this value do not count. The Trainer counts all labels but -100.
    **settings
        For :class:`AverageTopKLoss`: ``scope``, ``dim``, ...; with ``scope="dataset"``, ``accumulation_steps`` is
        expected to be the Trainer's ``gradient_accumulation_steps``.

    Attributes
    ----------
    average_top_k : AverageTopKLoss
        What reduces the losses.

    Examples
    --------
    >>> import torch
    >>> from atklearn.torch import TrainerLoss
    >>> loss = TrainerLoss(0.5)  # trainer = Trainer(model, ..., compute_loss_func=loss)
    >>> outputs = {"logits": torch.tensor([[[2.0, 0.0], [2.0, 0.0], [2.0, 0.0]]])}
    >>> labels = torch.tensor([[0, 1, -100]])
    >>> round(loss(outputs, labels).item(), 3)  # the larger one of two losses
    2.127
    >>> round(loss(outputs, labels, num_items_in_batch=4).item(), 3)  # its part, when another two are to come
    1.063
    """

    def __init__(self, k: float, *, shift: bool = False, ignore_index: int = -100, **settings: Any) -> None:
        super().__init__()
        self.average_top_k = AverageTopKLoss(k, **settings)
        self.shift, self.ignore_index = shift, ignore_index

    def forward(
        self,
        outputs: dict[str, Tensor] | tuple[Tensor, ...],
        labels: Tensor,
        num_items_in_batch: float | Tensor | None = None,
    ) -> Tensor:
        """Return this micro-batch's part of the loss of all those of one step of the optimiser.

        Parameters
        ----------
        outputs : dict with "logits", or tuple that begins with them, of shape (..., n_classes)
        labels : Tensor of int of shape (...)
        num_items_in_batch : float or Tensor, optional
            Labels that count in all micro-batches; those of this one by default.

        Returns
        -------
        loss : Tensor
            Of no dimension.
        """
        logits = outputs["logits"] if isinstance(outputs, dict) else outputs[0]
        if self.shift:
            logits, labels = logits[..., :-1, :], labels[..., 1:]
        if logits.shape[:-1] != labels.shape:
            raise ValueError(
                f"labels are expected as one class per place of logits of shape {tuple(logits.shape)}, "
                f"got shape {tuple(labels.shape)}; for other losses, pass them to AverageTopKLoss."
            )
        self.to(logits.device).train(torch.is_grad_enabled())
        labels = labels.to(logits.device)
        wide = logits.to(torch.promote_types(logits.dtype, torch.float32)).reshape(-1, logits.shape[-1])
        losses = cross_entropy(wide, labels.reshape(-1), ignore_index=self.ignore_index, reduction="none")
        mask = labels != self.ignore_index
        return self.average_top_k(losses.reshape(labels.shape), mask=mask, count=num_items_in_batch)


class KSchedule:
    """Lower the share of a loss step by step to the one that it was made with, as a learning-rate schedule would.

    "10 % from the first step on does not converge" is what users of hard example mining report: the largest losses of
    an untrained model say little. So begin with the average.

    Parameters
    ----------
    loss : AverageTopKLoss, or what ``wrap`` returns
        Its ``k``, a share, is where the schedule ends; it is set to ``start`` at once.
    steps : int, default=None
        Calls of :meth:`step` from ``start`` to the end; of ``shape="accuracy"`` not needed.
    shape : {"linear", "cosine", "accuracy"}, default="linear"
        With "accuracy" the share falls by equal factors as the training accuracy given to :meth:`step` passes 70, 80,
        90, 95 and 99.5 %; with an end of 1/32 it halves each time.
    start : float, default=1.0
        The share to begin with; 1.0 is the average.

    Examples
    --------
    >>> from atklearn.torch import AverageTopKLoss, KSchedule
    >>> loss = AverageTopKLoss(0.2, scope="dataset")
    >>> schedule = KSchedule(loss, steps=4)
    >>> for _ in range(5):
    ...     print(round(loss.k, 2))
    ...     schedule.step()  # after optimizer.step()
    1.0
    0.8
    0.6
    0.4
    0.2
    """

    def __init__(
        self,
        loss: nn.Module,
        steps: int | None = None,
        shape: Literal["linear", "cosine", "accuracy"] = "linear",
        start: float = 1.0,
    ) -> None:
        target = getattr(loss, "average_top_k", loss)
        if not isinstance(target, AverageTopKLoss) or not isinstance(target.k, float):
            raise ValueError(f"loss is expected to be an AverageTopKLoss whose k is a share, got {loss!r}.")
        if shape not in (*_SHAPES, "accuracy"):
            raise ValueError(f"shape is expected to be 'linear', 'cosine' or 'accuracy', got {shown(shape)}.")
        if shape != "accuracy" and (steps is None or steps < 1):
            raise ValueError(f"steps is expected to be at least 1 for shape={shown(shape)}, got {shown(steps)}.")
        if not target.k <= start <= 1.0:
            raise ValueError(f"start is expected between the loss's k = {target.k:g} and 1, got {shown(start)}.")
        self.loss, self.steps, self.shape, self.start, self.end = target, steps, shape, float(start), target.k
        self.progress = 0.0
        self.n_steps = 0
        self._set()

    def step(self, accuracy: float | None = None) -> None:
        """Go one step further.

        Parameters
        ----------
        accuracy : float, default=None
            On the training data, between 0 and 1; with ``shape="accuracy"`` alone.
        """
        if (accuracy is None) == (self.shape == "accuracy"):
            raise ValueError(f"accuracy is expected with shape='accuracy' alone; shape is {shown(self.shape)}.")
        self.n_steps += 1
        if accuracy is not None:
            passed = sum(float(accuracy) >= level for level in _ACCURACIES) / len(_ACCURACIES)
            self.progress = max(self.progress, passed)
        elif self.steps is not None:
            self.progress = min(self.n_steps / self.steps, 1.0)
        self._set()

    def get_last_k(self) -> float:
        """Return the share now in use.

        Returns
        -------
        k : float
        """
        if self.shape == "accuracy":
            return self.start * float((self.end / self.start) ** self.progress)
        return self.start + (self.end - self.start) * _SHAPES[self.shape](self.progress)

    def state_dict(self) -> dict[str, float]:
        """Return how far it got, for a checkpoint.

        Returns
        -------
        state_dict : dict
        """
        return {"n_steps": self.n_steps, "progress": self.progress}

    def load_state_dict(self, state_dict: dict[str, float]) -> None:
        """Go on from where another schedule had got to.

        Parameters
        ----------
        state_dict : dict
            From :meth:`state_dict`.
        """
        self.n_steps, self.progress = int(state_dict["n_steps"]), state_dict["progress"]
        self._set()

    def _set(self) -> None:
        self.loss.k = self.get_last_k()
