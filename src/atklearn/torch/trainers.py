"""The average top-k loss as Hugging Face's Trainer wants it: from a model's outputs and labels to one number."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from atklearn.torch.module import AverageTopKLoss

__all__ = ["TrainerLoss"]


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

    def forward(self, outputs: Any, labels: Tensor, num_items_in_batch: float | Tensor | None = None) -> Tensor:
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
