"""Generated data that several claims share; the last ones made are kept for the next claim."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import scipy.sparse as sp

from claims.accuracy import is_of_classes

CATEGORIES = (2, 3, 5, 8, 12, 15, 20, 35)  # of each column before it becomes columns of 0 and 1


@lru_cache(maxsize=1)
def linear_data(loss: str, n: int, d: int, noise: float = 0.1, flipped: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Return independent normal columns; labels of a line with noise, or numbers with heavy tails around it."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    w = rng.standard_normal(d)
    score = X @ (w / np.linalg.norm(w)) + 0.3
    if is_of_classes(loss):
        y = np.sign(score + noise * rng.standard_normal(n))
        return X, np.where(rng.random(n) < flipped, -y, y)
    heavy = np.where(rng.random(n) < 0.1, 3.0, 0.5)
    return X, score + heavy * rng.standard_normal(n)


@lru_cache(maxsize=1)
def wide_data(n: int, d: int, kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return X, labels and numbers; columns are independent ("plain") or mixtures of few, like embeddings ("mixed")."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    if kind == "mixed":
        rank = min(n, d) // 4
        few = rng.standard_normal((n, rank)) * np.arange(1, rank + 1) ** -0.5
        X = few @ rng.standard_normal((rank, d)) / 3 + 0.3 * X
    score = X @ rng.standard_normal(d)
    score /= score.std()
    return X, np.sign(score + 0.3 + 0.3 * rng.standard_normal(n)), score + rng.standard_normal(n)


@lru_cache(maxsize=1)
def text_data(n: int, d: int, per_row: int) -> tuple[sp.csr_matrix, np.ndarray]:
    """Return rows of unit length with some entries each, columns as frequent as words are, and labels."""
    rng = np.random.default_rng(0)
    popularity = 1 / np.arange(1, d + 1) ** 0.8
    columns = rng.choice(d, size=n * per_row, p=popularity / popularity.sum())
    X = sp.csr_matrix((rng.random(n * per_row) + 0.1, (np.repeat(np.arange(n), per_row), columns)), shape=(n, d))
    X = sp.csr_matrix(sp.diags(1 / np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())) @ X)
    return X, np.where(X @ (3 * rng.standard_normal(d)) + 0.5 * rng.standard_normal(n) > 0, 1.0, -1.0)


def one_hot_data(n: int) -> tuple[sp.csr_matrix, np.ndarray]:
    """Return eight categories a row, as 100 columns of 0 and 1, and labels."""
    rng = np.random.default_rng(0)
    starts = np.concatenate([[0], np.cumsum(CATEGORIES)[:-1]])
    chosen = [rng.choice(size, n, p=rng.dirichlet(np.full(size, 1.5))) for size in CATEGORIES]
    columns = (np.column_stack(chosen) + starts).ravel()
    ends = np.arange(0, columns.size + 1, len(CATEGORIES))
    X = sp.csr_matrix((np.ones(columns.size), columns, ends), (n, sum(CATEGORIES)))
    score = X @ rng.standard_normal(sum(CATEGORIES))
    return X, np.where(score - np.median(score) + rng.logistic(size=n) > 0.0, 1.0, -1.0)


@lru_cache(maxsize=1)
def curved_data(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return ten columns, labels of a curved boundary with a tenth of them flipped, and a noisy curve."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 10))
    curve = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2]
    labels = np.where((curve > 0.0) ^ (rng.random(n) < 0.1), 1.0, -1.0)
    return X, labels, curve + 0.3 * rng.standard_normal(n)
