"""A program of a user who has a type checker: each line passes, and types are those asserted."""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np
import numpy.typing as npt

from atklearn import (
    ATkClassifier,
    ATkClassifierCV,
    ATkRegressor,
    ATkSVC,
    CollapseWarning,
    SGDATkRegressor,
    atk_path,
    average_top_k,
)
from atklearn.aggregates import AverageTopK
from atklearn.theory import paper_C

X = np.random.default_rng(0).normal(size=(60, 3))
y = np.where(X[:, 0] > 0, 1, 0)

# scikit-learn's decorator of `fit` has no types: what comes back is what it is declared to be, or anything.
classifier: ATkClassifier = ATkClassifier(k=0.2, loss="hinge").fit(X, y)
regressor: ATkRegressor = ATkRegressor().fit(X, X[:, 0])
machine: ATkSVC = ATkSVC(k=0.5).fit(X, y)
searched: ATkClassifierCV = ATkClassifierCV().fit(X, y)
streamed: SGDATkRegressor = SGDATkRegressor(k=0.5, tol=None, random_state=0).fit(X, X[:, 0])
labels: np.ndarray[Any, Any] = classifier.predict(X)
path = atk_path(X, y, ks=[0.2, 1.0], Cs=[1.0])
assert_type(path.dual_gaps, npt.NDArray[np.float64])

losses = np.abs(X[:, 1])
assert_type(average_top_k(losses, 0.2), float)
assert_type(AverageTopK(0.2).weights(losses), npt.NDArray[np.float64])
assert_type(paper_C(1.0, k=10, n_samples=60), float)
kind: type[UserWarning] = CollapseWarning
