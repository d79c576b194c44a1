"""Fits on Dask collections: dataframes and arrays, on one machine or a cluster, in memory or larger than it."""

try:
    import dask.array
    import dask.dataframe  # noqa: F401
    import distributed  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"Fits on Dask need {error.name}, which comes with: pip install 'atklearn[dask]'", name=error.name
    ) from error

from atklearn.dask.cluster import ClusterLostError
from atklearn.dask.estimators_dask import ATkClassifier, ATkClassifierCV, ATkRegressor, ATkRegressorCV

__all__ = ["ATkClassifier", "ATkClassifierCV", "ATkRegressor", "ATkRegressorCV", "ClusterLostError"]
