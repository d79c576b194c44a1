"""What all linear estimators share: predictions from scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from atklearn.losses.individual import LogLoss
from atklearn.losses.labels import chosen_labels, class_probabilities
from atklearn.problems.arrays import check_features

__all__ = ["LinearClassifierMixin", "linear_scores"]


class LinearClassifierMixin(ClassifierMixin):
    """Predictions of linear classifiers, one-vs-rest with more than two classes."""

    def decision_function(self, X: Any) -> npt.NDArray[Any]:
        """Return the scores ``x . w + b``, shape (n_samples,) for two classes, else (n_samples, n_classes)."""
        scores = linear_scores(self, X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the predicted class labels, shape (n_samples,)."""
        return chosen_labels(linear_scores(self, X).T, self.classes_)

    @available_if(lambda self: self.loss == "log_loss" or isinstance(self.loss, LogLoss))
    def predict_proba(self, X: Any) -> npt.NDArray[Any]:
        """Return the logistic function of the scores, shape (n_samples, n_classes); mind the note on calibration."""
        return class_probabilities(linear_scores(self, X).T).T

    @available_if(lambda self: self.loss == "log_loss" or isinstance(self.loss, LogLoss))
    def predict_log_proba(self, X: Any) -> npt.NDArray[Any]:
        """Return the logarithm of :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            logarithms: npt.NDArray[Any] = np.log(self.predict_proba(X))
        return logarithms


def linear_scores(estimator: Any, X: Any) -> npt.NDArray[Any]:
    """Return ``X w + b`` of a fitted estimator."""
    check_is_fitted(estimator)
    X = check_features(estimator, X)
    # In the precision of X: NumPy would copy all of a float32 X to multiply it by float64 coefficients.
    coef, intercept = (np.asarray(part, dtype=X.dtype) for part in (estimator.coef_, estimator.intercept_))
    scores: npt.NDArray[Any] = safe_sparse_dot(X, coef.T) + intercept
    return scores
