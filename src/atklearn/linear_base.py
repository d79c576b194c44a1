"""What all linear estimators share: the mass of samples, prediction, and a state that survives failure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from atklearn.individual import Array, LogLoss

__all__ = ["LinearClassifierMixin", "check_mass", "keeping_fitted_state", "linear_scores"]


class LinearClassifierMixin(ClassifierMixin):
    """Class weights and predictions of linear classifiers, one-vs-rest with more than two classes."""

    def decision_function(self, X: Any) -> npt.NDArray[Any]:
        """Return the scores ``x . w + b``, shape (n_samples,) for two classes, else (n_samples, n_classes)."""
        scores = linear_scores(self, X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the predicted class labels, shape (n_samples,)."""
        scores = self.decision_function(X)
        codes = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        labels: npt.NDArray[Any] = self.classes_[codes]
        return labels

    @available_if(lambda self: self.loss == "log_loss" or isinstance(self.loss, LogLoss))
    def predict_proba(self, X: Any) -> npt.NDArray[Any]:
        """Return the logistic function of the scores, shape (n_samples, n_classes); mind the note on calibration."""
        positive = expit(linear_scores(self, X))
        if positive.shape[1] == 1:
            return np.hstack([1.0 - positive, positive])
        total = positive.sum(axis=1, keepdims=True)
        # a sample that every class rejects without a trace left belongs to all alike
        shares: npt.NDArray[Any] = np.where(
            total > 0.0, positive / np.where(total > 0.0, total, 1.0), 1.0 / positive.shape[1]
        )
        return shares

    @available_if(lambda self: self.loss == "log_loss" or isinstance(self.loss, LogLoss))
    def predict_log_proba(self, X: Any) -> npt.NDArray[Any]:
        """Return the logarithm of :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            logarithms: npt.NDArray[Any] = np.log(self.predict_proba(X))
        return logarithms

    def _class_mass(self, codes: npt.NDArray[np.intp], mass: Array) -> Array:
        """Return sample weights times class weights, and make sure that two classes have any."""
        present = np.bincount(codes, weights=mass, minlength=self.classes_.size)
        if np.count_nonzero(present) < 2:
            raise ValueError(
                f"{type(self).__name__} expects samples of at least 2 classes with positive weight, got "
                f"{self.classes_.size} class(es) in y, {np.count_nonzero(present)} of them with weight; "
                "check y and sample_weight."
            )
        if self.class_weight is None:
            return mass
        if self.class_weight == "balanced":  # by weight, so that weighting and repeating samples agree
            factors = np.divide(present.sum() / np.count_nonzero(present), present, where=present > 0, out=present * 0)
        else:
            factors = compute_class_weight(self.class_weight, classes=self.classes_, y=self.classes_[codes])
        weighted: Array = mass * factors[codes]
        if weighted.min() < 0.0 or np.count_nonzero(np.bincount(codes, weights=weighted)) < 2:
            raise ValueError(
                f"class_weight is expected to give weights >= 0 and a positive one to at least 2 classes, "
                f"got {self.class_weight!r}."
            )
        return weighted


def check_mass(sample_weight: Any, n_samples: int) -> Array:
    """Return the sample weights as a vector of numbers >= 0, or say what is wrong with them."""
    if sample_weight is None:
        return np.ones(n_samples)
    mass = np.asarray(sample_weight, dtype=np.float64)
    if mass.ndim == 0:
        mass = np.full(n_samples, float(mass))
    problem = None
    if mass.shape != (n_samples,):
        problem = f"an array of shape {mass.shape}; pass one weight per sample"
    elif not np.isfinite(mass).all():
        problem = "NaN or infinity; replace or drop these samples"
    elif mass.min() < 0.0:
        problem = f"a weight of {mass.min():g}; use 0 to leave a sample out"
    elif mass.max() == 0.0:
        problem = "all-zero weights; at least one sample needs a positive weight"
    if problem is not None:
        raise ValueError(f"sample_weight is expected to be {n_samples} finite numbers >= 0, got {problem}.")
    return mass


def linear_scores(estimator: Any, X: Any) -> npt.NDArray[Any]:
    """Return ``X w + b`` of a fitted estimator."""
    check_is_fitted(estimator)
    X = validate_data(estimator, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32])
    scores: npt.NDArray[Any] = safe_sparse_dot(X, estimator.coef_.T) + estimator.intercept_
    return scores


@contextmanager
def keeping_fitted_state(estimator: Any) -> Iterator[None]:
    """Put the fitted attributes back as they were if the fit inside fails or is interrupted."""

    def fitted() -> dict[str, Any]:
        return {
            name: value
            for name, value in vars(estimator).items()
            if name in ("_solutions", "_stream") or (name.endswith("_") and not name.startswith("_"))
        }

    before = fitted()
    try:
        yield
    except BaseException:
        for name in fitted():
            delattr(estimator, name)
        vars(estimator).update(before)
        raise
