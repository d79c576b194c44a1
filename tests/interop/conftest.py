"""Data for the tests of working together with others."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.preprocessing import scale


@pytest.fixture(scope="session")
def flowers():
    X, y = load_iris(return_X_y=True)
    return scale(X), np.array(["setosa", "versicolor", "virginica"])[y]


@pytest.fixture(scope="session")
def two_flowers(flowers):
    X, y = flowers
    return X, y == "virginica"


@pytest.fixture(scope="session")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return scale(X)[:200], y[:200] / 100.0
