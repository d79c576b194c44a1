"""Dask collections as data: dataframes and arrays, on one machine or a cluster, in memory or larger than it."""

try:
    import dask.array
    import dask.dataframe  # noqa: F401
    import distributed  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"Fits on Dask need {error.name}, which comes with: pip install 'atklearn[dask]'", name=error.name
    ) from error

from atklearn.dask.cluster import ClusterLostError
from atklearn.dask.dask_chunks import DaskChunks

__all__ = ["ClusterLostError", "DaskChunks"]
