"""Data for the estimators."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris, make_classification
from sklearn.preprocessing import scale

from atklearn.encoding import encoded as encoding


@pytest.fixture
def as_tensors(monkeypatch):
    """Tensors are computed as such, also where compiled code is quicker: all that a GPU does but for its kernels."""
    monkeypatch.setattr(encoding, "is_quicker_on_host", lambda *_: False)


@pytest.fixture(scope="module")
def flowers():
    X, y = load_iris(return_X_y=True)
    return scale(X), np.array(["setosa", "versicolor", "virginica"])[y]


@pytest.fixture(scope="module")
def binary():
    X, y = make_classification(n_samples=400, n_features=8, flip_y=0.02, class_sep=1.5, random_state=0)
    return scale(X), y


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return scale(X), y
