"""Learning with the average top-k loss: scikit-learn estimators on an exact, certified solver."""

from atklearn.comparing import Comparison, compare
from atklearn.core.collapse import CollapseWarning
from atklearn.core.problem import paper_C
from atklearn.estimators.blocks import RowBlocks
from atklearn.estimators.linear import ATkClassifier, ATkRegressor
from atklearn.estimators.search import ATkClassifierCV, ATkRegressorCV
from atklearn.estimators.streaming_classifier import SGDATkClassifier
from atklearn.estimators.streaming_regressor import SGDATkRegressor
from atklearn.estimators.svm import ATkSVC, ATkSVR
from atklearn.losses.aggregate import (
    RankedRange,
    average,
    average_bottom_k,
    average_top_k,
    maximum,
    ranked_range,
    top_k,
)
from atklearn.losses.elementwise import elementwise
from atklearn.losses.individual import (
    AbsoluteError,
    Hinge,
    Huber,
    IndividualLoss,
    LogLoss,
    SquaredError,
    SquaredHinge,
)
from atklearn.losses.tilting import TiltedLoss, tilted
from atklearn.selection.choosing import Selection
from atklearn.selection.display import KCurveDisplay
from atklearn.selection.paths import ATkPath, atk_path
from atklearn.selection.trimming import TrimAtJump, TrimChoice, choose_trim, trim_at_jump

__version__ = "0.1.0"

__all__ = [
    "ATkClassifier",
    "ATkClassifierCV",
    "ATkPath",
    "ATkRegressor",
    "ATkRegressorCV",
    "ATkSVC",
    "ATkSVR",
    "AbsoluteError",
    "CollapseWarning",
    "Comparison",
    "Hinge",
    "Huber",
    "IndividualLoss",
    "KCurveDisplay",
    "LogLoss",
    "RankedRange",
    "RowBlocks",
    "SGDATkClassifier",
    "SGDATkRegressor",
    "Selection",
    "SquaredError",
    "SquaredHinge",
    "TiltedLoss",
    "TrimAtJump",
    "TrimChoice",
    "atk_path",
    "average",
    "average_bottom_k",
    "average_top_k",
    "choose_trim",
    "compare",
    "elementwise",
    "maximum",
    "paper_C",
    "ranked_range",
    "tilted",
    "top_k",
    "trim_at_jump",
]
