"""The worst-case weights of the samples, made chunk by chunk where they are wanted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from atklearn.chunked.chunk import Block, Chunk, Memory
from atklearn.chunked.chunk_store import ChunkedDensity
from atklearn.chunked.sights import View
from atklearn.chunked.vectors import Step, history
from atklearn.losses.individual import Array

__all__ = ["ChunkedWeights"]


@dataclass(frozen=True)
class ChunkedWeights:
    """How to make ``q = u |r|`` from the data of a chunk."""

    view: View
    k: float
    token: int
    steps: tuple[Step, ...]

    @classmethod
    def of(cls, weights: ChunkedDensity) -> ChunkedWeights:
        """Return how weights are made that lie with the chunks of a fit."""
        assert weights.k is not None
        return cls(weights.rows.view, weights.k, weights.vector.token, history([weights.vector]))

    def make(self, block: Block, index: int) -> Array:
        """Return the weights of all rows of a chunk, zero for those that do not count."""
        out = np.zeros(block.X.shape[0])
        if out.size == 0:
            return out
        chunk = Chunk(block, Memory(), self.steps, index)
        _, mass = chunk.targets(self.view.sight)
        out[chunk.kept(self.view.sight)] = mass / self.k * np.abs(chunk.vector(self.token))
        return out
