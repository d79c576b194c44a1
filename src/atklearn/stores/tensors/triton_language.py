# mypy: disable-error-code="no-untyped-def, import-not-found, import-untyped"
"""Triton where there is one, as in PyTorch for GPUs; elsewhere kernels are plain functions that nobody calls."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:
    HAS_TRITON = False
    tl = None

    def jit(kernel):
        """Return what cannot be compiled as it is."""
        return kernel

    def constant(value):
        """Return a constant of kernels, a number like any other."""
        return value

else:
    HAS_TRITON = True
    jit, constant = triton.jit, tl.constexpr
# Kernels are then run by Python, on tensors of the CPU: which tests do where there is no GPU.
INTERPRETED = HAS_TRITON and os.environ.get("TRITON_INTERPRET") == "1"

__all__ = ["HAS_TRITON", "INTERPRETED", "constant", "jit", "launch", "on", "processors", "serves", "tl"]


def serves(tensor: Tensor) -> bool:
    """Say whether there are kernels for where a tensor lies: on an NVIDIA GPU; under Triton's interpreter, a CPU."""
    if INTERPRETED:
        return not tensor.is_cuda
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
    """Return how many multiprocessors a GPU has; as an interpreter, some."""
    if device.type == "cpu":
        return 2
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def _as_double(number: float) -> object:
    """Return a number as the interpreter has those that are declared ``tl.float64``: others it may round to float32."""
    handle = import_module("triton.runtime.interpreter").TensorHandle(np.array([number]), tl.float64)
    return tl.tensor(handle, tl.float64)


def on(device: torch.device) -> AbstractContextManager[object]:
    """Return a context in which a device is the current one."""
    is_current = device.type == "cpu" or device.index in (None, torch.cuda.current_device())
    return nullcontext() if is_current else torch.cuda.device(device)


def launch(kernel: Any, grid: tuple[int, ...], device: torch.device, *arguments: object, warps: int = 4) -> None:
    """Launch a kernel on a device, be it the current one or not."""
    if 0 in grid:  # nothing to do
        return
    if INTERPRETED:
        arguments = tuple(_as_double(each) if isinstance(each, float) else each for each in arguments)
    with on(device):
        kernel[grid](*arguments, num_warps=warps)
