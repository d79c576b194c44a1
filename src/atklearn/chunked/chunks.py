"""Features in chunks of rows, as what users pass for X: where they lie, and what only their engine has to know."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from typing import Any

from atklearn.chunked.chunk_store import ChunkedWeights
from atklearn.chunked.fleet import Engine
from atklearn.runtime.messages import shown

__all__ = ["ChunkedData", "Chunks"]


@dataclass(frozen=True)
class ChunkedData:
    """Features, targets and weights as an engine holds them.

    Attributes
    ----------
    engine : Engine
    n_features : int
    names : list of str or None
        Of the features.
    spread : callable
        Takes one way to make weights per problem, returns them for all samples, in the form that users expect.
    n_reads_to_spread : int
        How often that reads the data.
    """

    engine: Engine
    n_features: int
    names: list[str] | None
    spread: Callable[[list[ChunkedWeights]], Any]
    n_reads_to_spread: int = 0


class Chunks(ABC):
    """The X of a fit whose rows are read, and asked, chunk by chunk.

    Estimators take it in the place of an array: ``ATkClassifier().fit(chunks, y)``. A subclass says by :meth:`open`
    what engine has the rows, and by :meth:`map_rows` how to predict from them.

    Parameters
    ----------
    checkpoint : path-like, default=None
        A file to note in what a fit has reached: see :class:`atklearn.ondisk.ArrayChunks`.
    """

    def __init__(self, *, checkpoint: str | PathLike[str] | None = None) -> None:
        if checkpoint is not None and not isinstance(checkpoint, str | PathLike):
            raise ValueError(f"checkpoint is expected to be the path of a file, or None, got {shown(checkpoint)}.")
        self.checkpoint = checkpoint

    @abstractmethod
    def open(self, y: Any, sample_weight: Any = None) -> ChunkedData:
        """Return the rows beside their targets and weights, as an engine holds them.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,) or None
        """

    @abstractmethod
    def map_rows(self, function: Callable[[Any], Any]) -> Any:
        """Return what a function of some rows, such as ``model.predict``, gives for all of them, in their order.

        The function need not know what to do with no rows.
        """
