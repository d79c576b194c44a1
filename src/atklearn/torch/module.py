"""The average top-k loss as a module: from the losses of a batch to the one number to call ``backward`` on."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn

from atklearn.losses.aggregate import AverageTopK, check_k
from atklearn.runtime.messages import shown
from atklearn.torch.slices import ALONE, Dims, Elements, Team, fitting, mean_of, positive, wide
from atklearn.torch.tracking import Groups, LearntThreshold, TrackedThreshold

__all__ = ["AverageTopKLoss"]


class AverageTopKLoss(nn.Module):
    r"""The mean of the k largest losses: of each batch, or of the whole data set.

    ``scope="batch"`` takes the k largest of every batch, which is what hard example mining does. The mean of that over
    batches is *not* the average top-k of the data set: small batches pull it towards the average.
    ``scope="dataset"`` minimises the data set's own, ``mean of lambda + [l_i - lambda]_+ / k`` (Eq. 2 of the paper
    with k as a share): lambda is a buffer that follows the losses in training mode, and is held in evaluation mode.

    Parameters
    ----------
    k : float or int
        A float is the share of the losses that count. An int counts them, in ``scope="batch"`` or of groups; it is
        at most all there are.
    scope : {"batch", "dataset"}, default="batch"
        Whose largest losses count.
    dim : int or tuple of int, default=None
        In ``scope="batch"``: take the k largest along these dimensions only (per image, say), and the mean of that
        over those places that have anything to count.
    n_groups : int, default=None
        Make it the average top-k of the mean losses of groups; ``forward`` then needs ``group``.
    window : float, default=None
        In ``scope="dataset"``: how many losses to look back on; by default ``64 / k``, so that some 64 of the
        largest are remembered (of groups: 256 losses per group).
    accumulation_steps : int, default=1
        In ``scope="dataset"``: calls per step of the optimiser (gradient accumulation). What is tracked is held over
        them, so that their mean is exactly the loss of one large batch.
    learn_threshold : bool, default=False
        In ``scope="dataset"``: make lambda a parameter for the optimiser to move. It obeys the learning rate and
        weight decay, and has to be part of what is trained data-parallel.
    sync : bool, default=True
        In training mode under ``torch.distributed``: take the batches of all processes as one. Some numbers are
        exchanged, never losses; every process returns the loss of all, with gradients to be *averaged* over the
        processes, as data-parallel training does, also where batches are unequal or empty. In evaluation mode
        nothing is exchanged.
    process_group : ProcessGroup, default=None
        The processes to exchange with; all by default.

    See Also
    --------
    wrap : The same for a criterion of PyTorch, in one line.
    average_top_k : The function, without what a module remembers.

    Examples
    --------
    >>> import torch
    >>> from atklearn.torch import AverageTopKLoss
    >>> losses = torch.tensor([3.0, 0.0, 2.0, 2.0])
    >>> AverageTopKLoss(0.5)(losses).item()
    2.5
    >>> loss = AverageTopKLoss(0.5, scope="dataset")
    >>> for batch in torch.rand(2000, 8, generator=torch.Generator().manual_seed(0)):
    ...     value = loss(batch)
    >>> round(loss.threshold.item(), 1)  # half of the losses are above
    0.5
    """

    share: Tensor

    def __init__(
        self,
        k: float,
        scope: Literal["batch", "dataset"] = "batch",
        dim: Dims = None,
        *,
        n_groups: int | None = None,
        window: float | None = None,
        accumulation_steps: int = 1,
        learn_threshold: bool = False,
        sync: bool = True,
        process_group: dist.ProcessGroup | None = None,
    ) -> None:
        super().__init__()
        if scope not in ("batch", "dataset"):
            raise ValueError(f"scope is expected to be 'batch' or 'dataset', got {shown(scope)}.")
        if dim is not None and (scope == "dataset" or n_groups is not None):
            raise ValueError("dim is expected only with scope='batch' and without groups; leave it out.")
        if n_groups is not None and n_groups < 1:
            raise ValueError(f"n_groups is expected to be at least 1, got {shown(n_groups)}.")
        if scope == "batch" and (window is not None or accumulation_steps != 1 or learn_threshold):
            raise ValueError("window, accumulation_steps and learn_threshold are for scope='dataset'; leave them out.")
        if learn_threshold and (n_groups is not None or window is not None or accumulation_steps != 1):
            raise ValueError("learn_threshold is expected alone: without n_groups, window and accumulation_steps.")
        if (window is not None and not window > 0) or accumulation_steps < 1:
            raise ValueError(
                f"window > 0 and accumulation_steps >= 1 are expected, got window={shown(window)}, "
                f"accumulation_steps={shown(accumulation_steps)}."
            )
        self.scope, self.dim, self.n_groups = scope, dim, n_groups
        self.sync, self.process_group = sync, process_group
        self.register_buffer("share", torch.ones(1, dtype=torch.float64))
        self.k = k
        self.tracked: nn.Module | None = None
        if n_groups is not None:
            self.tracked = Groups(n_groups, scope == "dataset", window, accumulation_steps)
        elif scope == "dataset":
            self.tracked = LearntThreshold() if learn_threshold else TrackedThreshold(window, accumulation_steps)

    @property
    def k(self) -> float:
        """The count or share, which may be set while training; a share is kept in the buffer ``share``."""
        return float(self.share) if self._count is None else self._count

    @k.setter
    def k(self, k: float) -> None:
        check_k(k)
        if self.scope == "dataset" and self.n_groups is None and isinstance(k, Integral):
            raise ValueError(
                f"k is expected as a share in (0, 1] with scope='dataset', got the count {k}; "
                "divide it by the number of losses in the data set."
            )
        self._count = int(k) if isinstance(k, Integral) else None
        self.share.fill_(1.0 if isinstance(k, Integral) else float(k))

    @property
    def threshold(self) -> Tensor:
        """The lambda of ``scope="dataset"``; of groups and batches none is kept."""
        return self.tracked.threshold.squeeze()  # type: ignore[union-attr]

    def forward(
        self,
        losses: Tensor,
        mask: Tensor | None = None,
        weight: Tensor | None = None,
        group: Tensor | None = None,
        count: float | Tensor | None = None,
    ) -> Tensor:
        """Return the loss.

        Parameters
        ----------
        losses : Tensor
            One per element: ``reduction="none"`` of any criterion.
        mask : Tensor of bool, optional
            False where an element is to be ignored: it counts neither towards k nor towards the mean.
        weight : Tensor, optional
            How much each element counts: weight 2 is the same as twice.
        group : Tensor of int, optional
            The group of each element, from 0 to ``n_groups - 1``.
        count : float or Tensor, optional
            The mass of all batches that the caller adds up before a step of the optimiser, such as the
            ``num_items_in_batch`` of Hugging Face's Trainer: return this batch's part of a mean over all of them. The
            caller then neither divides by the number of batches nor averages over processes.

        Returns
        -------
        loss : Tensor
            Of no dimension, to call ``backward`` on.
        """
        k = self._amount()
        team = Team.of(self.process_group) if self.sync and self.training else ALONE
        elements = Elements.of(losses, weight, mask, self.dim)
        if self.scope == "dataset" and self.share.device != losses.device:
            raise ValueError(f"loss and losses are expected on one device: call loss.to({str(losses.device)!r}) first.")
        if self.n_groups is None and group is not None:
            raise ValueError("group is expected only with n_groups: pass AverageTopKLoss(..., n_groups=G).")
        if self.tracked is not None and self.n_groups is not None:
            part, mass = self.tracked(elements, _checked_group(group, losses), k, team)
        elif self.tracked is not None:
            part, mass = self.tracked(elements, self.share, team)
        elif self.dim is not None:
            part, mass = _mean_of_rows(elements, mean_of(AverageTopK(k), elements), team)
        else:
            part, mass = mean_of(AverageTopK(k), elements, team), team.sum_of(elements.total(), losses)
        if count is not None:
            return (part * (mass / count)).to(part.dtype)
        return team.joined(part)

    def _amount(self) -> float | Tensor:
        """Return k: plain where that waits for nothing, as a tensor where a graph would hold on to the number."""
        if self._count is not None:
            return self._count
        waits = self.share.device.type != "cpu" or torch.compiler.is_compiling()
        return self.share[0] if waits else float(self.share)

    def extra_repr(self) -> str:
        """Return what was set, for ``print(module)``.

        Returns
        -------
        text : str
        """
        return f"k={self.k:g}, scope={self.scope!r}" + (f", dim={self.dim}" if self.dim is not None else "")

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> AverageTopKLoss:
        """Follow to a device, but never to half precision: what is tracked would be lost in its rounding."""

        def moved(tensor: Tensor) -> Tensor:
            device = fn(tensor).device
            return tensor.to(device, torch.float32 if device.type == "mps" and tensor.is_floating_point() else None)

        return super()._apply(moved, recurse)  # type: ignore[no-any-return]


def _mean_of_rows(elements: Elements, values: Tensor, team: Team) -> tuple[Tensor, Tensor | float]:
    """Return the mean over the rows that have anything to count."""
    total = elements.total()
    if not isinstance(total, Tensor):
        total = torch.full_like(values, total, dtype=wide(values.device))
    rows, mass = team.sum(torch.stack([(total > 0).sum(), total.sum()]))
    return (values.sum() / positive(rows)).to(values.dtype), mass


def _checked_group(group: Tensor | None, losses: Tensor) -> Tensor:
    if group is None or group.is_floating_point() or group.dtype == torch.bool:
        found = "none" if group is None else group.dtype
        raise ValueError(f"group is expected as an integer tensor, a number from 0 for each loss, got {found}.")
    return fitting(group, losses, "group").reshape(-1).long()
