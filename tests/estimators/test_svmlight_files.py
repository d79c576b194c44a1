"""Every estimator takes the matrix that scikit-learn reads from an SVMlight file, as it is: CSR with 64-bit indices."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from atklearn import (
    ATkClassifier,
    ATkClassifierCV,
    ATkRegressor,
    ATkRegressorCV,
    ATkSVC,
    ATkSVR,
    SGDATkClassifier,
    SGDATkRegressor,
)

GRIDS = {"ks": [0.6, 1.0], "Cs": [1.0, 100.0], "cv": 3, "random_state": 0, "tol": 1e-10}
ESTIMATORS = [
    ATkClassifier(k=0.6, tol=1e-10),
    ATkClassifier("hinge", k="auto", tol=1e-10),
    ATkRegressor(k=0.4, tol=1e-10),
    ATkRegressor("absolute_error", k="auto", tol=1e-10),
    ATkSVC(k=0.6, tol=1e-8),
    ATkSVC("linear", k=0.6, tol=1e-8),
    ATkSVR(k=0.4, tol=1e-8),
    ATkSVR("poly", k=0.4, tol=1e-8),
    SGDATkClassifier(k=0.6, random_state=0, max_iter=5, tol=None),
    SGDATkRegressor(k=0.4, random_state=0, max_iter=5, tol=None),
    ATkClassifierCV(**GRIDS),
    ATkRegressorCV(**GRIDS),
]


def read(folder, *, labels):
    """Write a table with many zeros to a file and return what comes back, sparse and dense."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((120, 6)) < 0.5, rng.standard_normal((120, 6)), 0.0)
    score = X @ [2.0, -1.0, 1.0, 0.0, 0.5, 0.0] + 0.3 * rng.standard_normal(120)
    path = str(folder / "rows.svmlight")
    dump_svmlight_file(X, (score > 0.0).astype(float) + (labels == 3) * (score > 1.0) if labels else score, path)
    sparse, y = load_svmlight_file(path)
    assert sparse.indices.dtype == sparse.indptr.dtype == np.int64
    return sparse, sparse.toarray(), y


CASES = [
    (estimator, labels) for estimator in ESTIMATORS for labels in ((2, 3) if is_classifier(estimator) else (None,))
]


@pytest.mark.parametrize(("estimator", "labels"), CASES, ids=str)
def test_a_file_is_the_same_as_its_dense_array(estimator, labels, tmp_path):
    classifier = labels is not None
    sparse, dense, y = read(tmp_path, labels=labels)
    from_file, from_array = clone(estimator).fit(sparse, y), clone(estimator).fit(dense, y)
    answer = "decision_function" if classifier else "predict"
    wanted = getattr(from_array, answer)(dense)
    for model, X in ((from_file, sparse), (from_file, dense), (from_array, sparse)):
        np.testing.assert_allclose(getattr(model, answer)(X), wanted, atol=1e-3 * np.abs(wanted).max())
    if classifier:
        differing = from_file.predict(sparse) != from_array.predict(dense)
        assert differing.sum() <= 2 * (labels == 3)  # rows for which two of three classes tie
    assert from_file.k_share_ == pytest.approx(from_array.k_share_, rel=1e-9)


@pytest.mark.parametrize(
    "estimator", [SGDATkClassifier(k=0.6, random_state=0), SGDATkRegressor(k=0.4, random_state=0)], ids=str
)
def test_blocks_of_a_file(estimator, tmp_path):
    classifier = is_classifier(estimator)
    sparse, dense, y = read(tmp_path, labels=2 if classifier else None)
    classes = {"classes": [0.0, 1.0]} if classifier else {}
    coefs = []
    for X in (sparse, dense):
        model = clone(estimator).fit_blocks(iter([(X[:50], y[:50]), (X[50:], y[50:])]), **classes)
        coefs.append(model.partial_fit(X, y).coef_)
    np.testing.assert_allclose(*coefs, rtol=1e-9, atol=1e-12)
