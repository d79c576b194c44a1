"""How k and C are chosen: the grids, and the rule that reads the scores of a cross-validation.

The scores of k are noisy and their differences small, so the cell with the best mean is often luck. The rule prefers
the average loss: it moves to a smaller k only as far as the scores ask for it by more than their standard error.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from atklearn.collapse import largest_collapsing_k
from atklearn.individual import Array
from atklearn.objective import Problem

__all__ = ["choose_best", "choose_one_standard_error", "default_Cs", "default_ks"]

# Without noise there is no calibration bound; fewer samples than this part of them make an unstable top.
_SMALLEST_SHARE = 0.01
_SMALLEST_SHARE_REGRESSION = 0.02
_LARGEST_BOUND = 0.9


def calibration_share(problems: list[Problem]) -> float:
    """Return the fraction k/n at or below which classifiers collapse; with several problems the least of them."""
    return min(largest_collapsing_k(problem) / float(problem.mass.sum()) for problem in problems)


def default_ks(n_ks: int, bound: float | None) -> Array:
    """Return fractions k/n, log-spaced above the calibration bound and up to 1, shape (n_ks,).

    Parameters
    ----------
    n_ks : int
    bound : float or None
        The calibration bound, itself not part of the grid; None for regression, which has none.

    Examples
    --------
    >>> default_ks(3, 0.125)
    array([0.25, 0.5 , 1.  ])
    """
    lowest = _SMALLEST_SHARE_REGRESSION if bound is None else min(max(bound, _SMALLEST_SHARE), _LARGEST_BOUND)
    return np.geomspace(lowest, 1.0, n_ks + 1)[1:]


def default_Cs(n_Cs: int) -> Array:
    """Return C log-spaced between 0.1 and 10,000, shape (n_Cs,): for standardised features."""
    return np.logspace(-1.0, 4.0, n_Cs)


def choose_best(scores: Array) -> tuple[int, int]:
    """Return the cell with the best mean, the largest k and then the smallest C among equals.

    Parameters
    ----------
    scores : ndarray of shape (n_splits, n_ks, n_Cs)
        Higher is better; k and C ascending.
    """
    means = scores.mean(axis=0)
    ks, Cs = np.nonzero(means == means.max())
    return int(ks[-1]), int(Cs[ks == ks[-1]][0])


def choose_one_standard_error(scores: Array, test_to_train: float) -> tuple[int, int]:
    """Return the cell closest to the average that is not clearly worse than the best.

    Parameters
    ----------
    scores : ndarray of shape (n_splits, n_ks, n_Cs)
        Higher is better; k and C ascending.
    test_to_train : float
        Size of a test fold over that of its training part.
    """
    best = choose_best(scores)
    behind = scores[:, best[0], best[1]][:, None, None] - scores
    close = behind.mean(axis=0) <= corrected_standard_error(behind, test_to_train)
    largest = int(np.flatnonzero(close.any(axis=1))[-1])
    means: npt.NDArray[np.float64] = np.where(close[largest], scores.mean(axis=0)[largest], -np.inf)
    return largest, int(means.argmax())


def corrected_standard_error(differences: Array, test_to_train: float) -> Array:
    """Return the standard error of a mean over splits whose training parts overlap.

    The plain ``std / sqrt(n_splits)`` takes splits for independent and shrinks with every repetition. The correction of
    Nadeau and Bengio (2003), ``std * sqrt(1 / n_splits + test_to_train)``, does not.
    """
    n = len(differences)
    deviation = differences.std(axis=0, ddof=1) if n > 1 else np.zeros(differences.shape[1:])
    return np.asarray(deviation * np.sqrt(1.0 / n + test_to_train))
