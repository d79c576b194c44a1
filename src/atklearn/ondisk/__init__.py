"""Fits on data larger than memory, read chunk by chunk from files, on one machine and without further packages."""

from atklearn.ondisk.estimators_ondisk import ATkClassifier, ATkClassifierCV, ATkRegressor, ATkRegressorCV

__all__ = ["ATkClassifier", "ATkClassifierCV", "ATkRegressor", "ATkRegressorCV"]
