"""Fits of arrays where PyTorch is installed and Numba is not: ``python tests/torch_for_numba.py FILE`` writes them."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    sys.modules["numba"] = sys.modules["llvmlite"] = None  # as if not installed

import pickle
from pathlib import Path

import numpy as np
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
    """Return what is said of arrays that need Numba."""
    X, y = np.eye(6), np.arange(6) % 2
    found = {}
    for name, fit in {
        "stochastic": lambda: solve_sgd(ProblemEncoder(LogLoss(), "free").on(X, y).problems[0]),
    }.items():
        try:
            fit()
        except ModuleNotFoundError as error:
            found[name] = str(error)
    return found


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(pickle.dumps((fitted(), refused())))
