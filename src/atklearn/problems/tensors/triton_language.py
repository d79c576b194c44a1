# mypy: disable-error-code="no-untyped-def, import-not-found, import-untyped"
"""Triton where there is one, as in PyTorch for GPUs; elsewhere kernels are plain functions that nobody calls."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:
    HAS_TRITON = False
    tl: Any = None  # type: ignore[no-redef]

    def jit(kernel):
        """Return what cannot be compiled as it is."""
        return kernel

    def constant(value):
        """Return a constant of kernels, a number like any other."""
        return value

else:
    HAS_TRITON = True
    jit, constant = triton.jit, tl.constexpr

__all__ = ["HAS_TRITON", "N_SUMS", "add_up", "constant", "jit", "launch", "processors", "serves", "tl"]

N_SUMS = 16  # that a program leaves, the last two of them maxima
_PARTS = 128  # of them added up at a time


def serves(tensor: Tensor) -> bool:
    """Say whether there are kernels for where a tensor lies: on an NVIDIA GPU."""
    return HAS_TRITON and tensor.is_cuda and torch.version.cuda is not None and _takes_doubles(tensor.device)


@jit
def _repeat(number: tl.float64, out):
    tl.store(out, number)


@cache
def _takes_doubles(device: torch.device) -> bool:
    """Say whether numbers that kernels are given keep all their digits: a Triton that rounds them is no help."""
    number = 1.0 / 3.0
    out = torch.zeros(1, dtype=torch.float64, device=device)
    try:
        launch(_repeat, (1,), device, number, out)
    except Exception:  # no compiler on this machine, say
        return False
    return bool(out.item() == number)


@cache
def processors(device: torch.device) -> int:
    """Return how many multiprocessors a GPU has."""
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def launch(kernel: Any, grid: tuple[int, ...], device: torch.device, *arguments: Any, warps: int = 4) -> None:
    """Launch a kernel on a device, be it the current one or not."""
    if 0 in grid:  # nothing to do
        return
    if device.index in (None, torch.cuda.current_device()):
        kernel[grid](*arguments, num_warps=warps)
    else:
        with torch.cuda.device(device):
            kernel[grid](*arguments, num_warps=warps)


@jit
def _add_up(partial, out, n_parts, n_sums: tl.constexpr, parts: tl.constexpr):
    columns = tl.arange(0, n_sums)
    total = tl.zeros([parts, n_sums], dtype=tl.float64)
    most = tl.full([parts, n_sums], float("-inf"), dtype=tl.float64)
    for begin in range(0, n_parts, parts):
        rows = begin + tl.arange(0, parts)
        inside = (rows < n_parts)[:, None]
        found = tl.load(partial + rows[:, None] * n_sums + columns[None, :], mask=inside, other=0.0)
        total += found
        most = tl.maximum(most, tl.where(inside, found, float("-inf")))
    tl.store(out + columns, tl.where(columns < n_sums - 2, tl.sum(total, 0), tl.max(most, 0)))


def add_up(partial: Tensor) -> Tensor:
    """Return the sums of what programs have left, shape (16,); of the last two columns the maxima.

    Parameters
    ----------
    partial : Tensor of shape (n_programs, 16)
    """
    out = torch.empty(N_SUMS, dtype=torch.float64, device=partial.device)
    launch(_add_up, (1,), partial.device, partial, out, len(partial), N_SUMS, _PARTS)
    return out
