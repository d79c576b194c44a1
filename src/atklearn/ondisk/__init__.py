"""Data larger than memory, read chunk by chunk from files, on one machine."""

from atklearn.ondisk.array_chunks import ArrayChunks

__all__ = ["ArrayChunks"]
