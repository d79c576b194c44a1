"""The average top-k loss of large rows on a GPU: exact, in little more than one pass over the losses.

What the kernels do is told in `fused_kernels`. Here they are launched, and made known to PyTorch as operators: with
gradients, compiled without a break, captured in CUDA graphs, mapped over. Nothing waits for the device.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from atklearn.stores.tensors.triton_language import HAS_TRITON, INTERPRETED, on, processors
from atklearn.torch import fused_kernels as kernels

# The device is faster from 2**15 losses on, but the host needs longer for these launches than for those of topk.
SMALLEST_ROW, MOST_ROWS = 2**20, 64
DEVICES = ("cuda", "cpu") if INTERPRETED else "cuda"
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
DEVIATIONS = 4.5  # how far the sample may be off; a row in which it is off further takes far longer

# losses (or groups of 16 bytes) that a program takes at a time, its warps, and programs for each multiprocessor
GATHER_SIZE, GATHER_WARPS = 256, 8
BRACKET_OWN, BRACKET_WARPS = 4, 16
SCAN_GROUPS, SCAN_WARPS, SCAN_PROGRAMS, SCAN_STAGES = 256, 4, 6, 3
COUNT_LISTS, COUNT_WIDTH, COUNT_WARPS = 4, 512, 8
SETTLE_LISTS, SETTLE_WIDTH, SETTLE_WARPS = 4, 256, 8
SPREAD_SIZE, SPREAD_WARPS = 4096, 8


def pays(losses: Tensor) -> bool:
    """Return whether losses of shape (..., n), rows along the last dimension, are best put through the kernels.

    Examples
    --------
    >>> import torch
    >>> from atklearn.torch.fused_rows import pays
    >>> pays(torch.zeros(1000))  # few, and not on a GPU
    False
    """
    return (
        HAS_TRITON
        and (INTERPRETED or (losses.is_cuda and torch.version.cuda is not None))
        and losses.dtype in DTYPES
        and losses.shape[-1] >= SMALLEST_ROW
        and losses.numel() <= MOST_ROWS * losses.shape[-1]
    )


def average_top_k_rows(losses: Tensor, k: Tensor, counts: bool, mask: Tensor | None = None) -> Tensor:
    """Return the average top-k loss of every row, in float32.

    Parameters
    ----------
    losses : Tensor of shape (rows, n)
        For which `pays` holds.
    k : Tensor without dimensions
        On the device of the losses: a share of the losses that exist, or how many of them.
    counts : bool
        Whether ``k`` is a number of losses.
    mask : Tensor of bool and shape (rows, n), optional
        Which losses exist; all of them if not given.

    Returns
    -------
    values : Tensor of shape (rows,)
        0 for a row without losses, NaN for one with a NaN.
    """
    values: Tensor = _Average.apply(losses, k, counts, mask)[0]
    return values


def threshold_rows(losses: Tensor, k: Tensor, counts: bool, mask: Tensor | None = None) -> Tensor:
    """Return the threshold of every row, the smallest loss of its top k; parameters as of `average_top_k_rows`."""
    weights: Tensor = _average(losses.detach(), k, counts, mask)[1]
    return weights[:, 0]


@torch.library.custom_op(
    "atklearn::average_top_k_rows",
    mutates_args=(),
    device_types=DEVICES,
    schema="(Tensor losses, Tensor k, bool counts, Tensor? mask) -> (Tensor, Tensor)",
)
def _average(losses: Tensor, k: Tensor, counts: bool, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the value, and (threshold, cut, weight above the cut, weight at the cut), of each row."""
    losses, mask, k = losses.contiguous(), None if mask is None else mask.contiguous(), k.double()
    rows, n = losses.shape
    group = 16 // losses.element_size()
    block = SCAN_GROUPS * group
    n_blocks = ceil_div(n, block)
    n_lists = min(SCAN_PROGRAMS * ceil_div(processors(losses.device), rows), n_blocks)
    # The bracket holds some 4 % of a row, at most; of what one program sees of it, several times as much.
    n_seen = ceil_div(n_blocks, n_lists) * block
    capacity = min(n_seen, max(n_seen // 8, 4096))
    binned_capacity = n // 16 + 4096
    n_settles = ceil_div(n_lists, SETTLE_LISTS)

    def room(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=losses.device)

    sample, bins = room(rows, kernels.SAMPLE, dtype=torch.int32), room(rows, kernels.BINS, dtype=torch.int32)
    counters, lengths = room(rows, kernels.SLOTS, dtype=torch.int64), room(rows, n_lists, dtype=torch.int32)
    listed, binned = room(rows, n_lists, capacity), room(rows, binned_capacity)
    sums, more_sums = room(rows, n_lists, dtype=torch.float64), room(rows, n_settles, dtype=torch.float64)
    values, weights = room(rows), room(rows, 4)

    existing = losses if mask is None else mask.view(torch.uint8)  # some pointer is needed in any case
    masked = {"MASKED": mask is not None}
    many = {"COUNTS": counts}
    sizes = {"N_BINS": kernels.BINS, "N_SLOTS": kernels.SLOTS}
    ks = (k, k.stride(0) if k.ndim else 0)
    with on(losses.device):
        kernels.gather[kernels.SAMPLE // GATHER_SIZE, rows](
            losses, existing, sample, bins, counters, n,
            **masked, **sizes, SIZE=GATHER_SIZE, ALL=kernels.SAMPLE, num_warps=GATHER_WARPS,
        )  # fmt: skip
        kernels.bracket[kernels.PIVOTS // BRACKET_OWN, rows](
            sample, *ks, counters, n, DEVIATIONS, **many, N_SLOTS=kernels.SLOTS, ALL=kernels.SAMPLE, OWN=BRACKET_OWN,
            STRIDE=kernels.SAMPLE // kernels.PIVOTS, num_warps=BRACKET_WARPS,
        )  # fmt: skip
        kernels.scan[n_lists, rows](
            losses, existing, counters, listed, lengths, sums, n, capacity, **masked, N_SLOTS=kernels.SLOTS,
            GROUPS=SCAN_GROUPS, GROUP=group, STAGES=SCAN_STAGES, num_warps=SCAN_WARPS,
        )  # fmt: skip
        kernels.count_bins[ceil_div(n_lists, COUNT_LISTS), rows](
            listed, lengths, counters, bins, capacity, n_lists,
            **sizes, LISTS=COUNT_LISTS, WIDTH=COUNT_WIDTH, num_warps=COUNT_WARPS,
        )  # fmt: skip
        kernels.settle[n_settles, rows](
            losses, existing, *ks, counters, bins, listed, lengths, binned, sums, more_sums, values, weights, n,
            n_blocks * block, capacity, binned_capacity, n_lists, **many, **masked, **sizes,
            LISTS=SETTLE_LISTS, WIDTH=SETTLE_WIDTH, N_SUMS=next_power(n_lists), N_MORE=next_power(n_settles),
            num_warps=SETTLE_WARPS,
        )  # fmt: skip
    return values, weights


@torch.library.custom_op(
    "atklearn::average_top_k_rows_backward",
    mutates_args=(),
    device_types=DEVICES,
    schema="(Tensor incoming, Tensor losses, Tensor weights, Tensor? mask) -> Tensor",
)
def _average_backward(incoming: Tensor, losses: Tensor, weights: Tensor, mask: Tensor | None) -> Tensor:
    losses, mask, incoming = losses.contiguous(), None if mask is None else mask.contiguous(), incoming.contiguous()
    rows, n = losses.shape
    gradient = torch.empty_like(losses)
    existing = losses if mask is None else mask.view(torch.uint8)
    with on(losses.device):
        kernels.spread[ceil_div(n, SPREAD_SIZE), rows](
            losses, existing, weights, incoming, gradient, n,
            MASKED=mask is not None, SIZE=SPREAD_SIZE, num_warps=SPREAD_WARPS,
        )  # fmt: skip
    return gradient


def ceil_div(n: int, size: int) -> int:
    """Return how many parts of that size hold ``n``."""
    return -(-n // size)


def next_power(n: int) -> int:
    """Return the smallest power of two that is at least ``n``: Triton knows no other sizes."""
    return 1 << (n - 1).bit_length()


@_average.register_fake
def _(losses: Tensor, *_: object) -> tuple[Tensor, Tensor]:
    rows = losses.shape[0]
    return losses.new_empty(rows, dtype=torch.float32), losses.new_empty((rows, 4), dtype=torch.float32)


@_average_backward.register_fake
def _(_: Tensor, losses: Tensor, *__: object) -> Tensor:
    return torch.empty_like(losses, memory_format=torch.contiguous_format)


class _Average(torch.autograd.Function):
    """The value, with its gradient; a function of its own, for operators with gradients cannot be mapped over."""

    generate_vmap_rule = True

    @staticmethod
    def forward(losses: Tensor, k: Tensor, counts: bool, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        values, weights = _average(losses, k, counts, mask)
        return values, weights

    @staticmethod
    def setup_context(
        ctx: FunctionCtx, inputs: tuple[Tensor, Tensor, bool, Tensor | None], output: tuple[Tensor, Tensor]
    ) -> None:
        losses, _, _, mask = inputs
        ctx.save_for_backward(losses, output[1], mask)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: FunctionCtx, incoming: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        losses, weights, mask = ctx.saved_tensors
        return _Gradient.apply(incoming, losses, weights, mask), None, None, None


class _Gradient(torch.autograd.Function):
    """The gradient, linear in the incoming one, and constant in the losses between two kinks."""

    generate_vmap_rule = True

    @staticmethod
    def forward(incoming: Tensor, losses: Tensor, weights: Tensor, mask: Tensor | None) -> Tensor:
        return _average_backward(incoming, losses, weights, mask)

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Tensor | None, ...], output: Tensor) -> None:  # noqa: ARG004 (its name counts)
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: FunctionCtx, twice: Tensor) -> tuple[Tensor | None, ...]:
        losses, weights, mask = ctx.saved_tensors
        slopes = _average_backward(torch.ones_like(weights[:, 0]), losses, weights, mask)
        return (slopes.float() * twice.float()).sum(1), None, None, None


def _as_rows(x: Tensor, dim: int | None, batch: int) -> Tensor:
    """Return the rows of all members of a batch, one after the other."""
    x = x.unsqueeze(0).expand(batch, *x.shape) if dim is None else x.movedim(dim, 0)
    return x.flatten(0, 1)


@_average.register_vmap
def _(
    info: Any, in_dims: tuple[int | None, ...], losses: Tensor, k: Tensor, counts: bool, mask: Tensor | None
) -> tuple[tuple[Tensor, ...], tuple[int, int]]:
    losses_dim, k_dim, _, mask_dim = in_dims
    all_losses = _as_rows(losses, losses_dim, info.batch_size)
    rows = len(all_losses) // info.batch_size
    if k_dim is not None or k.ndim:  # else all rows have the same
        k = k if k_dim is None else k.movedim(k_dim, 0)
        k = (k if k.ndim == 2 else k.unsqueeze(1 if k_dim is not None else 0)).expand(info.batch_size, rows).flatten()
    all_mask = None if mask is None else _as_rows(mask, mask_dim, info.batch_size)
    outputs = _average(all_losses, k, counts, all_mask)
    return tuple(output.unflatten(0, (info.batch_size, rows)) for output in outputs), (0, 0)


@_average_backward.register_vmap
def _(info: Any, in_dims: tuple[int | None, ...], *inputs: Tensor | None) -> tuple[Tensor, int]:
    flat = [None if x is None else _as_rows(x, dim, info.batch_size) for x, dim in zip(inputs, in_dims, strict=True)]
    gradient = _average_backward(*flat)
    return gradient.unflatten(0, (info.batch_size, len(gradient) // info.batch_size)), 0
