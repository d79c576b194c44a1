"""The tail correction of any classifier with probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import logit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.utils.validation import _check_y

from atklearn.correction.corrected import CS, FEWEST_ROWS, Splitter, TailCorrected
from atklearn.correction.layer import ClassTarget, OutOfFold
from atklearn.encoding.encoded import ProblemEncoder, class_targets, n_problems
from atklearn.estimators.documentation import CLASSES, documented
from atklearn.losses.individual import Array, IndividualLoss, resolve_individual_loss
from atklearn.losses.labels import chosen_labels, class_probabilities
from atklearn.runtime.messages import shown
from atklearn.selection.folds import Split

__all__ = ["CAPS", "CERTAIN", "TailCorrectedClassifier"]

# The most that a class may be given, of those to choose among; the last is no cap.
CAPS = (0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99, 0.995, 1.0)
# Probabilities of 0 and 1 are taken to be this far from them.
CERTAIN = 1e-6


@documented("correction", CLASSES)
@dataclass(eq=False, repr=False)
class TailCorrectedClassifier(ClassifierMixin, TailCorrected):
    r"""A classifier, and a correction that makes its confident mistakes fewer, at a price that is told.

    .. math:: \min_{w, b} \; \mathrm{AT}_k\big(\log(1 + e^{-y_i (a f_i + x_i \cdot w + b)})\big) +
        \frac{\lVert w \rVert^2}{2 C}

    :math:`f_i` is the logit of the probability that the model gives to a row that it has not seen. The layer is exact
    and certified; the penalty is on what X adds, so that it pulls to the model's own logit, recalibrated. Then
    probabilities are capped. k, C and the cap are those with the least mean of the worst ``tail`` of the log losses
    within a budget of their mean, and the model is kept as it is unless that leads by more than chance.

    It promises fewer *confident* mistakes, not fewer mistakes.

    Parameters
    ----------
    estimator : classifier or None, default=None
        The model: any classifier with ``predict_proba``. None is
        :class:`sklearn.ensemble.HistGradientBoostingClassifier`.
    tail : float, default=0.1
        The share of the worst log losses whose mean is lowered.
    at_most, loss, k, C
    cap : float or "auto", default="auto"
        The most that one class may be given, as a probability; 1.0 is no cap. "auto" chooses.
    experts : "auto", list of classifiers or None, default="auto"
        Other classifiers whose logits the layer sees beside the model's. "auto" is none: they hardly help here.
    features, cv, n_jobs, random_state

    Attributes
    ----------
    estimator_, experts_
    correction_ : ATkClassifier or None
        The certified layer, of standardised logits and features; None if the model is kept as it is.
    cap_ : float
        The cap on decision values; infinity if the model is kept as it is.
    selection_, is_corrected_, tail_before_, tail_after_, price_, profile_, layer_, encoder_
    classes_, n_features_in_, feature_names_in_

    See Also
    --------
    TailCorrectedRegressor : The same for numbers.
    TailFrontDisplay : Draws what the choice saw, and what it brings.

    Notes
    -----
    With more than two classes, one layer is fitted per class against the rest, with one k, C and cap for all, and
    probabilities are scaled to sum to one.

    Examples
    --------
    >>> from atklearn.correction import TailCorrectedClassifier
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = TailCorrectedClassifier(GaussianNB()).fit(X, y)
    >>> bool(model.tail_after_ < model.tail_before_)
    True
    """

    _errors = "log losses"

    estimator: BaseEstimator | None = None
    _: KW_ONLY
    tail: float = 0.1
    at_most: float | None = 0.02
    loss: str | IndividualLoss = "log_loss"
    k: float | str = "auto"
    C: float | None = None
    cap: float | str = "auto"
    experts: str | Sequence[BaseEstimator] | None = "auto"
    features: str | Sequence[str | int] | BaseEstimator = "all"
    cv: Splitter = 5
    n_jobs: int | None = None
    random_state: int | np.random.RandomState | None = 0

    @property
    def cap_(self) -> float:
        """The cap on decision values; infinity if the model is kept as it is."""
        return np.inf if self.layer_ is None else self.layer_.bounds[1]

    def decision_function(self, X: Any) -> Array:
        """Return the corrected, capped logits; of two classes, those of the second.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)

        Returns
        -------
        decisions : ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        decisions = self._corrected(X)
        return np.asarray(decisions[0] if len(decisions) == 1 else decisions.T)

    def predict_proba(self, X: Any) -> Array:
        """Return the corrected, capped probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
        """
        return np.asarray(class_probabilities(self._corrected(X)).T)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the class with the largest corrected probability.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        return np.asarray(chosen_labels(self._corrected(X), self.classes_))

    @property
    def _n_problems(self) -> int:
        return n_problems(self.classes_)

    def _default_estimator(self) -> BaseEstimator:
        return HistGradientBoostingClassifier(random_state=self.random_state)

    def _experts(self, n_samples: int) -> list[BaseEstimator]:  # noqa: ARG002
        return [] if isinstance(self.experts, str) else list(self.experts or [])

    def _checked(self, y: Any, mass: Array) -> npt.NDArray[Any]:
        labels = np.asarray(_check_y(y, estimator=self))
        classes = class_targets(labels, owner=type(self).__name__).classes
        assert classes is not None
        absent = np.setdiff1d(classes, labels[mass > 0.0])
        if absent.size:
            raise ValueError(
                f"Every class is expected to have rows with weight, got none of {shown(list(absent))}; leave out the "
                "rows of that class."
            )
        self.classes_ = classes
        self._caps()  # says what is wrong with the parameter before anything is fitted
        return labels

    def _target(self, y: npt.NDArray[Any], mass: Array) -> ClassTarget:
        individual = resolve_individual_loss(self.loss, "classification")
        encoder = ProblemEncoder(individual, "free", owner=type(self).__name__)
        targets = class_targets(y, mass, owner=type(self).__name__)
        return ClassTarget(encoder, targets.y, self.classes_.size)

    def _predict(self, model: BaseEstimator, X: Any) -> Array:
        if not hasattr(model, "predict_proba"):
            raise ValueError(
                f"{type(self).__name__} expects classifiers with predict_proba, got {type(model).__name__}; put it "
                "into sklearn.calibration.CalibratedClassifierCV."
            )
        unknown = np.setdiff1d(model.classes_, self.classes_)
        if unknown.size:
            raise ValueError(
                f"y is expected to hold every class that the model knows, got none of {shown(list(unknown))}; correct "
                "it on rows of all classes."
            )
        given = np.asarray(model.predict_proba(X), dtype=np.float64)
        probabilities = np.zeros((len(given), self.classes_.size))
        probabilities[:, np.searchsorted(self.classes_, model.classes_)] = given
        return np.asarray(logit(np.clip(probabilities[:, -self._n_problems :], CERTAIN, 1.0 - CERTAIN)))

    def _bounds(self) -> tuple[float, float]:
        return -np.inf, np.inf

    def _Cs(self, rows: OutOfFold) -> Array:  # noqa: ARG002
        return CS if self.C is None else np.array([float(self.C)])

    def _caps(self) -> Sequence[float]:
        caps = CAPS if self.cap == "auto" else (self.cap,)
        if not all(isinstance(cap, Real) and 0.5 < cap <= 1.0 for cap in caps):
            raise ValueError(
                f'cap is expected to be "auto" or a probability above 0.5 and at most 1, got {shown(self.cap)}.'
            )
        return list(logit(np.array(caps, dtype=np.float64)))

    def _is_enough(self, rows: OutOfFold, split: Split) -> bool:
        assert isinstance(rows.target, ClassTarget)
        present = np.unique(rows.target.codes[split[0]]).size
        return split[0].size >= FEWEST_ROWS and split[1].size > 0 and present == self.classes_.size
