"""Corrections of the tail: an exact, certified AT_k layer on top of a model that people already have."""

from atklearn.correction.classifier import TailCorrectedClassifier
from atklearn.correction.display import TailFrontDisplay
from atklearn.correction.evidence import TailProfile
from atklearn.correction.regressor import TailCorrectedRegressor

__all__ = ["TailCorrectedClassifier", "TailCorrectedRegressor", "TailFrontDisplay", "TailProfile"]
