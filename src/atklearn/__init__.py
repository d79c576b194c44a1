"""Learning with the average top-k loss: scikit-learn estimators on an exact, certified solver."""

from atklearn.comparing import compare
from atklearn.core.collapse import CollapseWarning
from atklearn.estimators.linear import ATkClassifier, ATkRegressor
from atklearn.estimators.search import ATkClassifierCV, ATkRegressorCV
from atklearn.estimators.streaming import RowBlocks, SGDATkClassifier, SGDATkRegressor
from atklearn.estimators.svm import ATkSVC, ATkSVR
from atklearn.losses.aggregate import OneRowWarning, average_top_k
from atklearn.losses.individual import (
    AbsoluteError,
    Hinge,
    Huber,
    IndividualLoss,
    LogLoss,
    SquaredError,
    SquaredHinge,
    elementwise,
)
from atklearn.selection.choosing import Selection
from atklearn.selection.display import KCurveDisplay
from atklearn.selection.paths import atk_path
from atklearn.selection.trimming import choose_trim, trim_at_jump

__version__ = "0.1.0"

__all__ = [
    "ATkClassifier",
    "ATkClassifierCV",
    "ATkRegressor",
    "ATkRegressorCV",
    "ATkSVC",
    "ATkSVR",
    "AbsoluteError",
    "CollapseWarning",
    "Hinge",
    "Huber",
    "IndividualLoss",
    "KCurveDisplay",
    "LogLoss",
    "OneRowWarning",
    "RowBlocks",
    "SGDATkClassifier",
    "SGDATkRegressor",
    "Selection",
    "SquaredError",
    "SquaredHinge",
    "atk_path",
    "average_top_k",
    "choose_trim",
    "compare",
    "elementwise",
    "trim_at_jump",
]
