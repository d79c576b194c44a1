"""The stochastic solver over scikit-learn's, ten passes each."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import SGDClassifier

from atklearn import SGDATkClassifier
from claims.claim import Claim, Contest, Setting, shape
from claims.data import linear_data

DENSE, SPARSE = (200_000, 20), (100_000, 20_000)


def sparse_data(n: int, d: int) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(0)
    X = sp.random_array((n, d), density=2e-3, format="csr", rng=rng)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return X, np.where(X @ rng.standard_normal(d) + 0.1 * rng.standard_normal(n) > 0, 1.0, -1.0)


def against_sgd(setting: Setting, *, size: tuple[int, int], k: float) -> Contest:
    n, d = setting.rows(size[0]), size[1]
    X, y = sparse_data(n, d) if size == SPARSE else linear_data("log_loss", n, d)
    return Contest(
        lambda: SGDATkClassifier("log_loss", k=k, max_iter=10, tol=None, average=None, random_state=0).fit(X, y),
        lambda: SGDClassifier(loss="log_loss", alpha=0.01, max_iter=10, tol=None, random_state=0).fit(X, y),
    )


CLAIMS = [
    Claim(
        f"stochastic/{name}-{k:g}",
        f"log loss, {'k = n' if k == 1.0 else f'k = {k:g} n'}, ten passes{note}",
        shape(*size),
        "`SGDClassifier` (k = n), ten passes",
        partial(against_sgd, size=size, k=k),
    )
    for name, size, k, note in (
        ("dense", DENSE, 1.0, ""),
        ("dense", DENSE, 0.3, ""),
        ("sparse", SPARSE, 1.0, ", 40 entries a row"),
    )
]
