"""Boosted trees with the average top-k loss: an objective for LightGBM and XGBoost, and estimators on LightGBM."""

from atklearn.boosting.atk_objective import ATkMetric, ATkObjective
from atklearn.boosting.boosted import ATkBoostingClassifier, ATkBoostingRegressor

__all__ = ["ATkBoostingClassifier", "ATkBoostingRegressor", "ATkMetric", "ATkObjective"]
