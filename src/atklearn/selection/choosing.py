"""How k and C are chosen: the grids, and the rule that reads the scores of a cross-validation.

The scores of k are noisy and their differences small, so the cell with the best mean is often luck. The rule prefers
the average loss: it moves to a smaller k only as far as the scores ask for it by more than their standard error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold

from atklearn.core.collapse import collapse_share
from atklearn.losses.individual import Array
from atklearn.problems.encoding import Encoded
from atklearn.selection.distribution import Distribution
from atklearn.selection.folds import Fold, Judging

__all__ = [
    "AUTO_ROWS",
    "auto_k",
    "choose_best",
    "choose_within_error",
    "corrected_standard_error",
    "default_Cs",
    "default_folds",
    "default_ks",
    "default_ks_above",
]

# Without noise there is no calibration bound; fewer samples than this part of them make an unstable top.
_SMALLEST_SHARE = 0.01
_SMALLEST_SHARE_REGRESSION = 0.02
_LARGEST_BOUND = 0.9
# The default splitter: five folds, repeated the more the fewer samples there are to score.
_FOLDS = 5
_FEW_SAMPLES = 1500
_REPEATS = (5, 2)
# Of the cheap choice of k alone.
_AUTO_FOLDS = 5
_AUTO_KS = 8
_AUTO_ERRORS = (1.0, 1.5)  # once 5-fold keeps the average within 1 error; only where it does not, twice within 1.5
AUTO_ROWS = 5000


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


def default_ks_above(drop: float, n_ks: int, bound: float | None) -> Array:
    """Return fractions k/n where a part of the samples is set aside: the grid of :func:`default_ks` on those left.

    Samples set aside lie on the wrong side as a rule, and no longer count in the calibration bound.

    Parameters
    ----------
    drop : float
        The part set aside.
    n_ks : int
    bound : float or None
        The calibration bound of all samples.

    Examples
    --------
    >>> default_ks_above(0.5, 2, 0.625)
    array([0.75, 1.  ])
    """
    left = 1.0 - drop
    of_rest = None if bound is None else max(bound - drop, 0.0) / left
    return drop + left * default_ks(n_ks, of_rest)


def default_Cs(n_Cs: int) -> Array:
    """Return C log-spaced between 0.1 and 10,000, shape (n_Cs,): for standardised features."""
    return np.logspace(-1.0, 4.0, n_Cs)


def default_folds(
    y: npt.NDArray[Any], *, classification: bool, random_state: Any
) -> RepeatedKFold | RepeatedStratifiedKFold:
    """Return the splitter for choosing k and C on these targets: five folds, stratified for classes, repeated."""
    repeats = _REPEATS[0] if y.size < _FEW_SAMPLES else _REPEATS[1]
    if not classification:
        return RepeatedKFold(n_splits=min(_FOLDS, y.size), n_repeats=repeats, random_state=random_state)
    rarest = int(np.unique(y, return_counts=True)[1].min())
    folds = min(_FOLDS, max(rarest, 2))
    return RepeatedStratifiedKFold(n_splits=folds, n_repeats=repeats, random_state=random_state)


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


def choose_within_error(scores: Array, test_to_train: float, errors: float = 1.0) -> tuple[int, int]:
    """Return the cell closest to the average that is not clearly worse than the best.

    Parameters
    ----------
    scores : ndarray of shape (n_splits, n_ks, n_Cs)
        Higher is better; k and C ascending.
    test_to_train : float
        Size of a test fold over that of its training part.
    errors : float, default=1.0
        How many standard errors of the difference make a cell clearly worse.
    """
    best = choose_best(scores)
    behind = scores[:, best[0], best[1]][:, None, None] - scores
    close = behind.mean(axis=0) <= errors * corrected_standard_error(behind, test_to_train)
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


def auto_k(data: Encoded, Cs_of: Callable[[float], list[float]], judge: Judging) -> tuple[float, int]:
    """Return the share k/n for given data and loss, and which C: cross-validation over k and a few C.

    The grid is that of :func:`default_ks`, the rule :func:`choose_within_error`: at 1 standard error on 5 folds, which
    ends it where the average is kept, else at 1.5 on twice 5. Many samples are thinned out first. The choice depends on
    the samples as a distribution, neither on their order nor on whether they are repeated or weighted. With fewer than
    two distinct samples in a class it is the average.

    Parameters
    ----------
    data : Encoded
        On the host.
    Cs_of : callable
        Takes the mass of samples, returns the C to try, ascending.
    judge : callable
        See :meth:`Fold.fill`.
    """
    classification = data.classes is not None
    samples = Distribution.of(data.X, data.y, data.weight, classification=classification).thinned(AUTO_ROWS)
    folds = min(_AUTO_FOLDS, samples.rarest)
    if folds < 2:  # nothing to validate with
        return 1.0, 0
    problems = data.part(samples.rows, samples.mass).problems()
    ks = default_ks(_AUTO_KS, collapse_share(problems.problems) if classification else None)
    Cs = Cs_of(problems.total)
    scores = np.empty((0, ks.size, len(Cs)))
    for seed, errors in enumerate(_AUTO_ERRORS):
        rows, mass, splits = samples.cut(folds, seed)
        pieces = data.part(rows, mass)
        grids = [Fold(pieces, split, ks, Cs) for split in splits]
        scores = np.concatenate([scores, [grid.fill(np.empty((ks.size, len(Cs))), judge) for grid in grids]])
        chosen, which = choose_within_error(scores, 1.0 / (folds - 1), errors)
        if chosen == ks.size - 1:
            break
    return float(ks[chosen]), which
