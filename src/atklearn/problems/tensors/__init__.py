"""Rows as torch tensors, computed where they lie: imported only where someone passes a tensor, and without Numba."""
