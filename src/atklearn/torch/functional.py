"""Aggregates of tensors of losses: the mean of a slice of the losses in descending order, with its subgradient.

Each function takes losses of any shape and returns their aggregate; with ``dim``, one per remaining place. ``weight``
turns counts into mass, ``mask`` (True: counts) takes elements out: they count neither towards k nor towards the mean.
``k`` is an int count (at most all there are) or a float share; a share of few elements is a fraction of the largest,
never nothing. Where nothing is left to count, or a mask leaves nothing in a slice, the aggregate is 0 with a zero
gradient; a slice that is empty whatever the mask is an error.

The gradient is what :meth:`atklearn.aggregates.AverageTopK.weights` returns: ties at the end of the slice share what is
left of it.
Weights are constants. Half precision is reduced in float32, which is also what comes out.
"""

from __future__ import annotations

from torch import Tensor

from atklearn.losses import aggregate as ranges
from atklearn.torch.slices import Dims, Elements, amount_of, level_of, mean_of

__all__ = ["average", "average_bottom_k", "average_top_k", "maximum", "ranked_range", "threshold", "top_k"]


def average_top_k(
    losses: Tensor, k: float | Tensor, weight: Tensor | None = None, mask: Tensor | None = None, dim: Dims = None
) -> Tensor:
    """Return the mean of the k largest losses, AT_k (Eq. 1 of the paper).

    Parameters
    ----------
    losses : Tensor
        One per element, of any shape: ``reduction="none"`` of any criterion.
    k : int, float or Tensor of no dimension
        An int counts elements (units of weight), a float in (0, 1] is a share of them. So does a tensor, by its dtype;
        what it holds is not looked at, and taken as the nearest number allowed.
    weight, mask : Tensor, optional
        Of a shape that broadcasts to that of the losses; ``mask`` is False where an element does not count.
    dim : int or tuple of int, optional
        What to aggregate over; all by default.

    Returns
    -------
    value : Tensor
        Of no dimension; with ``dim``, one per remaining place.

    Examples
    --------
    >>> import torch
    >>> from atklearn.torch import average_top_k
    >>> losses = torch.tensor([3.0, 0.0, 2.0, 2.0], requires_grad=True)
    >>> value = average_top_k(losses, 2)
    >>> value.backward()
    >>> value.item(), losses.grad
    (2.5, tensor([0.5000, 0.0000, 0.2500, 0.2500]))
    >>> average_top_k(losses.detach(), 0.5, mask=torch.tensor([False, True, True, True])).item()
    2.0
    """
    return mean_of(ranges.AverageTopK(k), Elements.of(losses, weight, mask, dim))


def average(losses: Tensor, weight: Tensor | None = None, mask: Tensor | None = None, dim: Dims = None) -> Tensor:
    """Return the mean of all losses that count.

    Parameters
    ----------
    losses, weight, mask, dim
        As in :func:`average_top_k`.

    Returns
    -------
    value : Tensor

    Examples
    --------
    >>> import torch
    >>> from atklearn.torch import average
    >>> average(torch.tensor([3.0, 0.0, 2.0, 2.0]), mask=torch.tensor([True, True, False, False])).item()
    1.5
    """
    return mean_of(ranges.Average(), Elements.of(losses, weight, mask, dim))


def maximum(losses: Tensor, weight: Tensor | None = None, mask: Tensor | None = None, dim: Dims = None) -> Tensor:
    """Return the largest loss (with weights: the mean of the largest one unit of weight).

    Parameters
    ----------
    losses, weight, mask, dim
        As in :func:`average_top_k`.

    Returns
    -------
    value : Tensor

    Examples
    --------
    >>> import torch
    >>> from atklearn.torch import maximum
    >>> maximum(torch.tensor([[3.0, 0.0], [2.0, 5.0]]), dim=1)
    tensor([3., 5.])
    """
    return mean_of(ranges.Maximum(), Elements.of(losses, weight, mask, dim))


def top_k(losses: Tensor, k: int, weight: Tensor | None = None, mask: Tensor | None = None, dim: Dims = None) -> Tensor:
    """Return the k-th largest loss.

    Parameters
    ----------
    losses : Tensor
    k : int
    weight, mask, dim
        As in :func:`average_top_k`.

    Returns
    -------
    value : Tensor

    Examples
    --------
    >>> import torch
    >>> from atklearn.torch import top_k
    >>> top_k(torch.tensor([3.0, 0.0, 2.0]), 2).item()
    2.0
    """
    return mean_of(ranges.TopK(k), Elements.of(losses, weight, mask, dim))


def average_bottom_k(
    losses: Tensor, k: float, weight: Tensor | None = None, mask: Tensor | None = None, dim: Dims = None
) -> Tensor:
    """Return the mean of the k smallest losses: what is left when the largest are taken for wrong.

    Parameters
    ----------
    losses, k, weight, mask, dim
        As in :func:`average_top_k`.

    Returns
    -------
    value : Tensor

    Examples
    --------
    >>> import torch
    >>> from atklearn.torch import average_bottom_k
    >>> average_bottom_k(torch.tensor([3.0, 0.0, 2.0, 900.0]), 2).item()
    1.0
    """
    return mean_of(ranges.AverageBottomK(k), Elements.of(losses, weight, mask, dim))


def ranked_range(
    losses: Tensor,
    start: float,
    stop: float,
    weight: Tensor | None = None,
    mask: Tensor | None = None,
    dim: Dims = None,
) -> Tensor:
    """Return the mean of the losses ranked ``start + 1`` to ``stop`` from the top (AoRR).

    Parameters
    ----------
    losses : Tensor
    start, stop : int or float
        Counts, or shares of the elements; 0 is the top.
    weight, mask, dim
        As in :func:`average_top_k`.

    Returns
    -------
    value : Tensor

    Examples
    --------
    >>> import torch
    >>> from atklearn.torch import ranked_range
    >>> ranked_range(torch.tensor([3.0, 0.0, 2.0, 900.0]), 1, 3).item()
    2.5
    """
    return mean_of(ranges.RankedRange(start, stop), Elements.of(losses, weight, mask, dim))


def threshold(
    losses: Tensor, k: float | Tensor, weight: Tensor | None = None, mask: Tensor | None = None, dim: Dims = None
) -> Tensor:
    """Return the smallest of the k largest losses, the paper's lambda, without gradient.

    Parameters
    ----------
    losses, k, weight, mask, dim
        As in :func:`average_top_k`.

    Returns
    -------
    threshold : Tensor

    Examples
    --------
    >>> import torch
    >>> from atklearn.torch import threshold
    >>> threshold(torch.tensor([3.0, 0.0, 2.0, 2.0]), 0.5).item()
    2.0
    """
    elements = Elements.of(losses.detach(), weight, mask, dim)
    return level_of(elements, amount_of(k, elements.total(), losses.device))
