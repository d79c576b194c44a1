"""What all linear estimators share: predictions from scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from atklearn.encoding.encoded import check_features, enter_features
from atklearn.estimators.following import FollowsX, ScoredClassifierMixin, each_chunk
from atklearn.losses.individual import LogLoss
from atklearn.losses.labels import chosen_labels, class_probabilities
from atklearn.runtime.namespaces import same_home

__all__ = ["LinearClassifierMixin", "linear_decisions"]


class Decisions(Protocol):
    """Decision values of samples, and what follows from them."""

    def values(self) -> Any:
        """Return the scores, without a second axis for two classes."""

    def labels(self, classes: Any) -> Any:
        """Return the chosen labels."""

    def probabilities(self) -> Any:
        """Return the logistic function of the scores, scaled to sum to one over the classes."""

    def log_probabilities(self) -> Any:
        """Return the logarithm of the probabilities."""


@dataclass(frozen=True)
class ArrayDecisions:
    """Decision values of arrays, shape (n_samples,) or (n_samples, n_problems)."""

    scores: npt.NDArray[Any]

    def values(self) -> npt.NDArray[Any]:
        """Return the scores, without a second axis for two classes."""
        return self.scores[:, 0] if self.scores.ndim == 2 and self.scores.shape[1] == 1 else self.scores

    def labels(self, classes: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the chosen labels."""
        return chosen_labels(self.scores.T, classes)

    def probabilities(self) -> npt.NDArray[Any]:
        """Return the logistic function of the scores, scaled to sum to one over the classes."""
        return class_probabilities(self.scores.T).T

    def log_probabilities(self) -> npt.NDArray[Any]:
        """Return the logarithm of the probabilities."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.probabilities()))


class LinearClassifierMixin(ScoredClassifierMixin):
    """Predictions of linear classifiers, one-vs-rest with more than two classes."""

    @each_chunk
    def decision_function(self, X: Any) -> Any:
        """Return the scores ``x . w + b``; of two classes, those of the second.

        Parameters
        ----------
        X : {array-like, sparse matrix, tensor, Dask collection, Chunks} of shape (n_samples, n_features)
            Of a Dask collection, predictions are computed when they are wanted.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            One column per class, if there are more than two.
        """
        return linear_decisions(self, X, "decision_function").values()

    @each_chunk
    def predict(self, X: Any) -> Any:
        """Return the predicted class labels.

        Parameters
        ----------
        X : {array-like, sparse matrix, tensor, Dask collection, Chunks} of shape (n_samples, n_features)
            Of a Dask collection, predictions are computed when they are wanted.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        return linear_decisions(self, X, "predict").labels(self.classes_)

    @available_if(lambda self: self.loss == "log_loss" or isinstance(self.loss, LogLoss))
    @each_chunk
    def predict_proba(self, X: Any) -> Any:
        """Return the logistic function of the scores, scaled to sum to one over the classes.

        These are no calibrated probabilities for k < n: see the notes of the class. Only with ``loss="log_loss"``.

        Parameters
        ----------
        X : {array-like, sparse matrix, tensor, Dask collection, Chunks} of shape (n_samples, n_features)
            Of a Dask collection, predictions are computed when they are wanted.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        return linear_decisions(self, X, "predict_proba").probabilities()

    @available_if(lambda self: self.loss == "log_loss" or isinstance(self.loss, LogLoss))
    @each_chunk
    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithm of :meth:`predict_proba`.

        Parameters
        ----------
        X : {array-like, sparse matrix, tensor, Dask collection, Chunks} of shape (n_samples, n_features)
            Of a Dask collection, predictions are computed when they are wanted.

        Returns
        -------
        logarithms : ndarray of shape (n_samples, n_classes)
        """
        return linear_decisions(self, X, "predict_log_proba").log_probabilities()


def linear_decisions(estimator: Any, X: Any, method: str) -> Decisions:
    """Return ``X w + b`` of a fitted estimator, which has been asked for it by a method."""
    check_is_fitted(estimator)
    coef, intercept = estimator.coef_, estimator.intercept_
    follows = isinstance(estimator, FollowsX)
    home = same_home(coef, X, f"{type(estimator).__name__}.{method}()") if follows else None
    if home is not None:
        from atklearn.encoding.tensors import TensorDecisions, tensor_scores

        return TensorDecisions(home, tensor_scores(home, enter_features(estimator, X), coef, intercept))
    X = check_features(estimator, X)
    # In the precision of X: NumPy would copy all of a float32 X to multiply it by float64 coefficients.
    coef, intercept = (np.asarray(part, dtype=X.dtype) for part in (coef, intercept))
    return ArrayDecisions(safe_sparse_dot(X, coef.T) + intercept)
