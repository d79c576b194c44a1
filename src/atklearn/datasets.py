"""Data sets the library can generate: no download, no files."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from atklearn.individual import Array

__all__ = ["make_toy"]

_SPREAD = 0.22


def make_toy(case: int = 4, *, random_state: Any = None) -> tuple[Array, Array]:
    """Generate one of the paper's six two-dimensional toy cases: 200 points in Gaussian clusters, labels -1 and +1.

    ====  ============================================================================
    case  points
    ====  ============================================================================
    1     100 positive around (0, 0), 100 negative around (2, 2)
    2     case 1, with the first positive moved to (2, 2.5): an outlier
    3     case 1, with 10 of the positive around (1, 1): a rare group
    4     case 3, with the outlier of case 2
    5     196 positive around (0, 0), 4 negative around (1, 1): imbalance
    6     case 5, with the first positive moved to (1, 1.15): an outlier
    ====  ============================================================================

    Parameters
    ----------
    case : int, default=4
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    X : ndarray of shape (200, 2)
    y : ndarray of shape (200,)

    Examples
    --------
    >>> X, y = make_toy(6, random_state=0)
    >>> X[0].tolist(), int((y < 0).sum())
    ([1.0, 1.15], 4)
    """
    if case not in range(1, 7):
        raise ValueError(f"case is expected to be one of the paper's toy cases 1 to 6, got {case!r}.")
    n_negative = 100 if case <= 4 else 4
    y = np.repeat([1.0, -1.0], [200 - n_negative, n_negative])
    centre = np.where(y[:, None] > 0, 0.0, 2.0 if case <= 4 else 1.0) * np.ones(2)
    if case in (3, 4):
        centre[90:100] = 1.0
    X: Array = centre + _SPREAD * check_random_state(random_state).standard_normal((200, 2))
    if case in (2, 4):
        X[0] = (2.0, 2.5)
    if case == 6:
        X[0] = (1.0, 1.15)
    return X, y
