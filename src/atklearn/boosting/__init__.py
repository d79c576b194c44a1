"""Boosted trees with the average top-k loss: an objective for LightGBM and XGBoost, and estimators on LightGBM."""

from atklearn.boosting.boosted import ATkBoostingClassifier, ATkBoostingRegressor
from atklearn.boosting.metric import ATkMetric
from atklearn.boosting.objective import ATkObjective

__all__ = ["ATkBoostingClassifier", "ATkBoostingRegressor", "ATkMetric", "ATkObjective"]
