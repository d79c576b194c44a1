"""Rows and models for the tests of corrections."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin


class Affine(RegressorMixin, BaseEstimator):
    """Says the same affine function of a function of the first column, whatever it is fitted to."""

    def __init__(self, slope=1.0, intercept=0.0, of=np.asarray):
        self.slope, self.intercept, self.of = slope, intercept, of

    def fit(self, X=None, y=None):  # noqa: ARG002
        self.is_fitted_ = True
        return self

    def predict(self, X):
        return self.intercept + self.slope * self.of(np.asarray(X)[:, 0])


def biased_group(n=600, seed=0):
    """A line, and one row of ten far above it, told by the third column."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    X[:, 2] = rng.random(n) < 0.1
    return X, X[:, 0] + 5.0 * X[:, 2] + 0.5 * rng.standard_normal(n)


def noisy_classes(n=600, seed=0):
    """Two classes that the first feature tells, said three times, so that naive Bayes is far too sure of itself."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    X = X[:, [0, 0, 0, 1]] + 0.1 * rng.standard_normal((n, 4))
    return X, (X[:, 0] + rng.logistic(size=n) > 0.0).astype(int)
