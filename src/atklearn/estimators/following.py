"""What is fitted follows X: arrays of its library, on its device, until they are called back to the host."""

from __future__ import annotations

from typing import Any, Self

from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import Tags

from atklearn.problems.namespaces import Home, on_host

__all__ = ["FollowsX", "ScoredClassifierMixin", "ScoredRegressorMixin"]


class FollowsX(BaseEstimator):
    """Base of the estimators that are computed where X lies."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        return tags

    def to_numpy(self) -> Self:
        """Return a copy with all that is fitted as NumPy arrays on the host, to predict from arrays there.

        Returns
        -------
        copy : estimator
            Without the state that a warm start goes on from.
        """
        copy: Self = clone(self)
        for name, value in self._fitted():
            setattr(copy, name, value.to_numpy() if isinstance(value, FollowsX) else on_host(value))
        return copy

    def _follow(self, home: Home | None) -> None:
        """Move what is fitted to where X lies; None is the host."""
        for name, value in self._fitted():
            if isinstance(value, FollowsX):
                value._follow(home)
            else:
                setattr(self, name, on_host(value) if home is None else home.publish(value))

    def _fitted(self) -> list[tuple[str, Any]]:
        return [(name, value) for name, value in vars(self).items() if name.endswith("_") and not name.startswith("_")]


class ScoredClassifierMixin(ClassifierMixin):
    """Accuracy, wherever predictions and truth lie."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of the predictions.

        Parameters
        ----------
        X : {array-like, sparse matrix, tensor} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        score : float
        """
        said = on_host(self.predict(X))
        return float(accuracy_score(on_host(y), said, sample_weight=on_host(sample_weight)))


class ScoredRegressorMixin(RegressorMixin):
    """R2, wherever predictions and truth lie."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the R2 of the predictions.

        Parameters
        ----------
        X : {array-like, sparse matrix, tensor} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        score : float
        """
        said = on_host(self.predict(X))
        return float(r2_score(on_host(y), said, sample_weight=on_host(sample_weight)))
