"""Without Numba, PyTorch fits arrays: the same fits, and nobody sees a tensor.

``python tests/estimators/test_tensors_for_arrays.py FILE`` writes such fits to a file.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    sys.modules["numba"] = sys.modules["llvmlite"] = None  # as if not installed

import pickle
import subprocess
from pathlib import Path

import numpy as np
import torch  # noqa: F401, without which there is nothing to test
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris

import atklearn
from atklearn.encoding.encoded import ProblemEncoder
from atklearn.losses.individual import LogLoss
from atklearn.stochastic.sgd import solve_sgd

SHORT = {"tol": 1e-9, "C": 5.0}


def fitted():
    """Fit arrays that nobody may write to; return what is fitted, and what is said of them."""
    X, flowers = load_iris(return_X_y=True)
    X, y, weight = X - X.mean(axis=0), flowers > 0, np.arange(150) % 3 * 1.0
    X.setflags(write=False)
    models = {
        "classes": atklearn.ATkClassifier(k=0.7, **SHORT).fit(X, flowers),
        "labels": atklearn.ATkClassifier("hinge", k=0.5, **SHORT).fit(
            X, np.array(["no", "yes"])[y.astype(int)], weight
        ),
        "regression": atklearn.ATkRegressor("huber", k=0.5, **SHORT).fit(X[:, :3], X[:, 3], weight),
        "choice": atklearn.ATkClassifier(tol=1e-9).fit(X.astype(np.float32), flowers == 1),
        "search": atklearn.ATkClassifierCV(ks=[0.5, 1.0], Cs=[1.0, 9.0], cv=3, tol=1e-9).fit(X, y, weight),
    }
    found = {
        f"{name} {attribute}": value
        for name, model in models.items()
        for attribute, value in vars(model).items()
        if attribute in ("coef_", "intercept_", "classes_", "top_weights_", "loss_threshold_", "k_", "C_", "ks_")
    }
    path = atklearn.atk_path(X, y, ks=[0.5, 1.0], Cs=[1.0, 9.0], tol=1e-9)
    return found | {"path": path.coefs, "decisions": path.decision(X), "said": models["classes"].predict_proba(X)}


def refused():
    """Return what is said of stochastic steps, which need Numba."""
    problem = ProblemEncoder(LogLoss(), "free").on(np.eye(6), np.arange(6) % 2).problems[0]
    try:
        solve_sgd(problem)
    except ModuleNotFoundError as error:
        return str(error)


def test_the_same_is_fitted_and_what_needs_numba_says_so(tmp_path):
    subprocess.run([sys.executable, "-W", "error", __file__, str(tmp_path / "told")], check=True)
    told, said = pickle.loads((tmp_path / "told").read_bytes())
    assert said == "Stochastic steps are compiled, which needs numba: pip install numba"
    compiled = fitted()
    assert compiled.keys() == told.keys()
    for name, value in compiled.items():
        other = told[name]
        assert type(other) is type(value), name
        if np.asarray(value).dtype.kind == "f":
            assert_allclose(other, value, atol=1e-4, err_msg=name)
        else:
            assert_array_equal(other, value, err_msg=name)


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(pickle.dumps((fitted(), refused())))
