"""Rows as tensors, where they lie; on a GPU the passes over them are Triton kernels."""
