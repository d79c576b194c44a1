"""Learning with the average top-k loss: drop-in scikit-learn estimators on an exact, certified solver."""

from atklearn.aggregate import (
    RankedRange,
    average,
    average_bottom_k,
    average_top_k,
    maximum,
    ranked_range,
    top_k,
)
from atklearn.blocks import RowBlocks
from atklearn.collapse import CollapseWarning
from atklearn.display import KCurveDisplay
from atklearn.individual import (
    AbsoluteError,
    Hinge,
    Huber,
    IndividualLoss,
    LogLoss,
    SquaredError,
    SquaredHinge,
)
from atklearn.linear import ATkClassifier, ATkRegressor
from atklearn.objective import paper_C
from atklearn.path import ATkPath, atk_path
from atklearn.selection import ATkClassifierCV, ATkRegressorCV
from atklearn.solvers.sgd import SGD
from atklearn.streaming import SGDATkClassifier, SGDATkRegressor
from atklearn.svm import ATkSVC, ATkSVR

__version__ = "0.1.0"

__all__ = [
    "SGD",
    "ATkClassifier",
    "ATkClassifierCV",
    "ATkPath",
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
    "RankedRange",
    "RowBlocks",
    "SGDATkClassifier",
    "SGDATkRegressor",
    "SquaredError",
    "SquaredHinge",
    "atk_path",
    "average",
    "average_bottom_k",
    "average_top_k",
    "maximum",
    "paper_C",
    "ranked_range",
    "top_k",
]
