"""How k and C are chosen: the grids, and the rule that reads the scores of a cross-validation.

The scores of k are noisy and their differences small, so the cell with the best mean is often luck. The rule prefers
the average loss: it moves to a smaller k only as far as the scores ask for it by more than their standard error.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold

from atklearn.solvers.exact.collapse import largest_collapsing_k
from atklearn.problems.design import Rows
from atklearn.losses.individual import Array
from atklearn.problems.objective import Problem
from atklearn.solvers.exact.grid import solve_path

__all__ = [
    "auto_k",
    "calibration_share",
    "choose_best",
    "choose_within_error",
    "corrected_standard_error",
    "default_Cs",
    "default_folds",
    "default_ks",
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
_AUTO_TOL = 1e-3
_AUTO_ERRORS = 1.5  # few folds know their own spread but roughly
_AUTO_REPEATS = 2


def calibration_share(problems: list[Problem]) -> float:
    """Return the fraction k/n at or below which a classifier collapses; with several, the largest of theirs."""
    return max(largest_collapsing_k(problem) / float(problem.mass.sum()) for problem in problems)


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


def auto_k(problems: list[Problem]) -> float:
    """Return the fraction k/n for given data, loss and C: cross-validation, twice 5-fold, over k alone.

    The grid is that of :func:`default_ks`, the rule :func:`choose_within_error` at 1.5 standard errors, the
    score the accuracy or the negative mean squared error, both weighted by the mass of the samples.

    Parameters
    ----------
    problems : list of Problem
        One for a regression or two classes, else one per class against the rest, on the same rows.
    """
    classification = problems[0].loss.task == "classification"
    ks = default_ks(_AUTO_KS, calibration_share(problems) if classification else None)
    targets = np.array([problem.y for problem in problems])
    codes = (targets[0] > 0.0).astype(int) if len(targets) == 1 else targets.argmax(axis=0)
    rarest = int(np.bincount(codes).min()) if classification else targets.shape[1]
    folds = min(_AUTO_FOLDS, rarest)
    if folds < 2:  # a class, or the data, of a single sample: nothing to validate with
        return 1.0
    splitter = (RepeatedStratifiedKFold if classification else RepeatedKFold)(
        n_splits=folds, n_repeats=_AUTO_REPEATS, random_state=0
    )
    scores = [_fold_scores(problems, ks, train, test) for train, test in splitter.split(codes, codes)]
    chosen, _ = choose_within_error(np.array(scores)[:, :, None], 1.0 / (folds - 1), _AUTO_ERRORS)
    return float(ks[chosen])


def _fold_scores(problems: list[Problem], ks: Array, train: Rows, test: Rows) -> Array:
    """Return the score on the test rows of the fits on the train rows, one per k."""
    predictions = np.empty((len(ks), len(problems), test.size))
    for index, problem in enumerate(problems):
        part = problem.take(train, 1.0)
        amounts = ks * float(part.mass.sum())
        rows = problem.design.take(test)
        limit = partial(largest_collapsing_k, part)
        for i, _, solution in solve_path(part, amounts, [problem.C], tol=_AUTO_TOL, collapsing_k=limit):
            predictions[i, index] = rows.predict(solution.coef)
    mass = problems[0].mass[test]
    target = np.array([problem.y[test] for problem in problems])
    if problems[0].loss.task == "regression":
        cost = (predictions[:, 0] - target[0]) ** 2
    elif len(problems) == 1:
        cost = 1.0 * ((predictions[:, 0] > 0.0) != (target[0] > 0.0))
    else:
        cost = 1.0 * (predictions.argmax(axis=1) != target.argmax(axis=0))
    return np.asarray(-(cost @ mass) / mass.sum())
