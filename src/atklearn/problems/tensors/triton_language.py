# mypy: disable-error-code="no-untyped-def, import-not-found, import-untyped"
"""Triton where there is one, as in PyTorch for GPUs; elsewhere kernels are plain functions that nobody calls."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
    from triton.language.extra import libdevice
except ImportError:
    HAS_TRITON = False
    tl: Any = None  # type: ignore[no-redef]
    libdevice: Any = None  # type: ignore[no-redef]

    def jit(kernel):
        """Return what cannot be compiled as it is."""
        return kernel

    def constant(value):
        """Return a constant of kernels, a number like any other."""
        return value

else:
    HAS_TRITON = True
    jit, constant = triton.jit, tl.constexpr

__all__ = ["HAS_TRITON", "constant", "jit", "libdevice", "processors", "serves", "tl"]


def serves(tensor: Tensor) -> bool:
    """Say whether there are kernels for where a tensor lies: on an NVIDIA GPU."""
    return HAS_TRITON and tensor.is_cuda and torch.version.cuda is not None


def processors(device: torch.device) -> int:
    """Return how many multiprocessors a GPU has."""
    return int(torch.cuda.get_device_properties(device).multi_processor_count)
