"""Dask collections as chunks of rows."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import Any, Literal

from distributed import Client

from atklearn.chunked.chunks import ChunkedData, Chunks
from atklearn.dask.dask_blocks import split_rows
from atklearn.dask.dask_engine import dask_engine
from atklearn.dask.lazy import lazy_prediction, lazy_weights
from atklearn.runtime.messages import shown

__all__ = ["DaskChunks"]


class DaskChunks(Chunks):
    """A Dask array or dataframe as X, with the cluster that a fit is to use.

    ``ATkClassifier().fit(X, y)`` takes collections as they are; in here, they come with what only Dask has to know. The
    optimum and the certificate are those of all rows. Rows stay where they are; sums travel.

    Parameters
    ----------
    X : dask.array.Array or dask.dataframe.DataFrame of shape (n_samples, n_features)
        Blocks are arrays or SciPy's sparse matrices.
    client : distributed.Client, default=None
        The cluster. If None, that of this process, if it has one, else a scheduler in this process: that of Dask's
        configuration, or threads.
    persist : bool or "auto", default="auto"
        Whether a cluster keeps the data in memory during the fit: "auto" if they take at most half of what all workers
        have. Data that were persisted before are used as they are; what is not in memory is read again for every pass.
    checkpoint : path-like, default=None
        A file to note in what was reached: a fit that was interrupted, or lost its cluster, goes on from there if it is
        started again. It is removed when the fit ends.

    Examples
    --------
    >>> import dask.array as da
    >>> from atklearn import ATkClassifier
    >>> from atklearn.dask import DaskChunks
    >>> X = da.random.default_rng(0).standard_normal((1000, 5), chunks=(250, 5))
    >>> model = ATkClassifier(k=0.5).fit(DaskChunks(X, persist=True), X[:, 0] > 0.0)
    >>> bool(model.dual_gap_ <= 1e-6 * model.objective_), model.predict(X)
    (True, dask.array<atk-predict, shape=(1000,), dtype=bool, chunksize=(250,), chunktype=numpy.ndarray>)
    """

    def __init__(
        self,
        X: Any,
        *,
        client: Client | None = None,
        persist: bool | Literal["auto"] = "auto",
        checkpoint: str | PathLike[str] | None = None,
    ) -> None:
        super().__init__(checkpoint=checkpoint)
        if persist not in (True, False, "auto"):
            raise ValueError(f"persist is expected to be True, False or 'auto', got {shown(persist)}.")
        self.X, self.client, self.persist = X, client, persist

    def open(self, y: Any, sample_weight: Any = None) -> ChunkedData:
        """Return X beside targets and weights, as Dask computes them.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            A Dask array or series that is cut as X is, or has known sizes of chunks; so are the weights.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        data : ChunkedData
        """
        blocks = split_rows(self.X, y, sample_weight)
        engine = dask_engine(blocks, self.client, self.persist)
        return ChunkedData(
            engine, blocks.n_features, blocks.feature_names, lambda columns: lazy_weights(blocks, columns)
        )

    def map_rows(self, function: Callable[[Any], Any]) -> Any:
        """Return what a function of rows gives for all of them, to be computed when it is wanted.

        Parameters
        ----------
        function : callable
            Takes rows of X, returns an array with an entry for each, such as ``model.predict``.

        Returns
        -------
        values : dask.array.Array of shape (n_samples, ...)
        """
        return lazy_prediction(function, self.X)
