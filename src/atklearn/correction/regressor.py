"""The tail correction of any regressor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import _check_y

from atklearn.correction.corrected import CS, FEWEST_ROWS, Splitter, TailCorrected
from atklearn.correction.layer import NumberTarget, OutOfFold
from atklearn.correction.rows import RowEncoder
from atklearn.encoding.encoded import ProblemEncoder, regression_targets
from atklearn.estimators.documentation import NUMBERS, documented
from atklearn.losses.individual import Array, IndividualLoss, SquaredError, resolve_individual_loss
from atklearn.selection.folds import Split

__all__ = ["TailCorrectedRegressor"]

# The trees of the automatic expert are grown on so many rows at most, each on others: it should not be the slow part.
_EXPERT_ROWS = 20_000


@documented("correction", NUMBERS)
@dataclass(eq=False, repr=False)
class TailCorrectedRegressor(RegressorMixin, TailCorrected):
    r"""A regressor, and a correction that lowers its largest errors, at a price that is told.

    .. math:: \hat y(x) = f(x) + g(f(x), x), \qquad g = \arg\min_{g \text{ linear}} \;
        \mathrm{AT}_k\big(\ell(g(f_i, x_i), y_i - f_i)\big) + \frac{\lVert w \rVert^2}{2 C}

    f is any regressor, :math:`f_i` its prediction of a row that it has not seen. The correction is exact and certified;
    its penalty pulls it to zero, that is, to the model as it is. k and C are those with the least mean of the worst
    ``tail`` of the errors within a budget of RMSE, up to a standard error, and the model is kept as it is unless they
    lead by more than chance. Beside f, the correction sees what *experts* predict, by default extra trees.

    The ordinary row pays: expect a larger mean absolute error, which ``price_`` says.

    Parameters
    ----------
    estimator : regressor or None, default=None
        The model: any regressor of scikit-learn, a pipeline, LightGBM, XGBoost. None is
        :class:`sklearn.ensemble.HistGradientBoostingRegressor`.
    tail : float, default=0.02
        The share of the worst errors whose mean is lowered.
    at_most, loss, k, C
    experts : "auto", list of regressors or None, default="auto"
        Other regressors whose predictions the correction sees beside the model's. "auto" is
        :class:`sklearn.ensemble.ExtraTreesRegressor` on encoded rows.
    features, cv, n_jobs, random_state

    Attributes
    ----------
    estimator_, experts_
    correction_ : ATkRegressor or None
        The certified correction, of standardised predictions and features; None if the model is kept as it is.
    least_ : float
        No prediction is below it: zero, if no target is; otherwise minus infinity.
    selection_, is_corrected_, tail_before_, tail_after_, price_, profile_, layer_, encoder_
    n_features_in_, feature_names_in_

    See Also
    --------
    TailCorrectedClassifier : The same for classes.
    TailFrontDisplay : Draws what the choice saw, and what it brings.

    Notes
    -----
    What is added is kept within what was added to the rows it was fitted on, and predictions of a target that is never
    negative are not negative. With ``features="prediction"``, no experts and k = 1.0 it is an affine recalibration.
    It cannot help where large errors are noise that nobody can predict, as likely above as below.

    Examples
    --------
    >>> from atklearn.correction import TailCorrectedRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 3))
    >>> late = rng.random(1000) < 0.1
    >>> y = X[:, 0] + 0.3 * rng.normal(size=1000) + np.where(late, 3.0 + X[:, 1], 0.0)
    >>> model = TailCorrectedRegressor(at_most=0.2, experts=None).fit(X, y)
    >>> bool(model.tail_after_ < model.tail_before_), bool(model.price_["plain"]["mae"] > 0.0)
    (True, True)
    """

    _errors = "errors"
    _n_problems = 1

    estimator: BaseEstimator | None = None
    _: KW_ONLY
    tail: float = 0.02
    at_most: float | None = 0.02
    loss: str | IndividualLoss = "squared_error"
    k: float | str = "auto"
    C: float | None = None
    experts: str | Sequence[BaseEstimator] | None = "auto"
    features: str | Sequence[str | int] | BaseEstimator = "all"
    cv: Splitter = 5
    n_jobs: int | None = None
    random_state: int | np.random.RandomState | None = 0

    def predict(self, X: Any) -> Array:
        """Return the corrected predictions.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)

        Returns
        -------
        predictions : ndarray of shape (n_samples,)
        """
        return np.asarray(self._corrected(X)[0])

    def _default_estimator(self) -> BaseEstimator:
        return HistGradientBoostingRegressor(random_state=self.random_state)

    def _experts(self, n_samples: int) -> list[BaseEstimator]:
        if not isinstance(self.experts, str):
            return list(self.experts or [])
        some = {"bootstrap": True, "max_samples": _EXPERT_ROWS} if n_samples > 2 * _EXPERT_ROWS else {}
        trees = ExtraTreesRegressor(100, min_samples_leaf=3, random_state=self.random_state, n_jobs=self.n_jobs, **some)
        return [make_pipeline(RowEncoder(), trees)]

    def _checked(self, y: Any, mass: Array) -> npt.NDArray[Any]:
        values = np.asarray(_check_y(y, y_numeric=True, estimator=self))
        self.least_ = 0.0 if values[mass > 0.0].min() >= 0.0 else -np.inf
        return values

    def _target(self, y: npt.NDArray[Any], mass: Array) -> NumberTarget:
        individual = resolve_individual_loss(self.loss, "regression")
        encoder = ProblemEncoder(individual, "free", owner=type(self).__name__)
        return NumberTarget(encoder, regression_targets(y, mass).y, self.least_)

    def _predict(self, model: BaseEstimator, X: Any) -> Array:
        return np.asarray(model.predict(X), dtype=np.float64).reshape(-1, 1)

    def _bounds(self) -> tuple[float, float]:
        return self.least_, np.inf

    def _Cs(self, rows: OutOfFold) -> Array:
        if self.C is not None:
            return np.array([float(self.C)])
        # the penalty grows with the square of a residual, and so does one loss alone
        is_squared = isinstance(rows.target.encoder.loss, SquaredError)
        spread = 1.0 if is_squared else float(np.sqrt(np.mean(rows.target.residuals(rows.own) ** 2)))
        return CS * (spread if spread > 0.0 else 1.0)

    def _caps(self) -> Sequence[float]:
        return [np.inf]

    def _is_enough(self, rows: OutOfFold, split: Split) -> bool:  # noqa: ARG002
        return split[0].size >= FEWEST_ROWS and split[1].size > 0
