"""Is a difference more than luck, and does it matter: helps, hurts, the same, or undecided.

The luck of the rows gives a difference the standard deviation s, from drawing them with replacement
(:mod:`atklearn.study.pooling`). Other training parts would have given other models, and those of a cross-validation
overlap; so s is widened, by sqrt(K (1 / J + 1 / (K - 1))) for J splits in repeats of K folds. That is the correction of
Nadeau and Bengio (2003) for the mean over splits, of which the correlated Bayesian t-test of Corani and Benavoli (2015)
makes the posterior distribution: Student's t with J - 1 degrees of freedom. Differences within a margin do not matter,
a region of practical equivalence (Benavoli, Corani, Demsar, Zaffalon, JMLR 2017).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from scipy import stats

from atklearn.losses.individual import Array
from atklearn.measures import MEASURES
from atklearn.selection.choosing import corrected_standard_error
from atklearn.study.pooling import Pair

__all__ = ["SIGNIFICANCE", "Answer", "Difference", "Remedy", "Verdict", "judge", "paired_difference"]

Answer: TypeAlias = Literal["helps", "hurts", "same", "undecided"]

SIGNIFICANCE = 0.05
_MOST_REPEATS = 50
_MOST_ROWS = 100.0  # times those there are: more would settle nothing that matters


@dataclass(frozen=True)
class Difference:
    """A paired difference over splits whose training parts overlap.

    Attributes
    ----------
    mean, error : float
        Of the difference; its corrected standard error, infinite for a single split.
    n_splits : int
    test_to_train : float
        Size of a test part over that of its training part.
    """

    mean: float
    error: float
    n_splits: int
    test_to_train: float

    @property
    def p_value(self) -> float:
        """Of no difference at all, two-sided."""
        if not np.isfinite(self.error):
            return 1.0
        if self.error == 0.0:  # the same on every split: no doubt, either way
            return 1.0 if self.mean == 0.0 else 0.0
        return float(2.0 * stats.t.sf(abs(self.mean) / self.error, self.n_splits - 1))

    def half_width(self, level: float) -> float:
        """Return half the length of the interval that misses the true difference with this probability."""
        if not np.isfinite(self.error) or self.error == 0.0:
            return self.error
        return float(stats.t.isf(0.5 * level, self.n_splits - 1)) * self.error

    def within(self, margin: float) -> float:
        """Return the probability that the true difference is no larger than the margin, either way."""
        if not np.isfinite(self.error):
            return 0.0
        if self.error == 0.0:
            return float(abs(self.mean) <= margin)
        spread = stats.t(self.n_splits - 1, self.mean, self.error)
        return float(spread.cdf(margin) - spread.cdf(-margin))

    def with_splits(self, n_splits: int) -> Difference:
        """Return what more splits of the same rows would show, mean and spread being as they are."""
        factor = np.sqrt((1.0 / n_splits + self.test_to_train) / (1.0 / self.n_splits + self.test_to_train))
        return Difference(self.mean, self.error * float(factor), n_splits, self.test_to_train)


@dataclass(frozen=True)
class Remedy:
    """What would settle what is undecided: so many repeats of the cross-validation, or so many rows, or neither."""

    repeats: int | None = None
    rows: int | None = None


@dataclass(frozen=True)
class Verdict:
    """What a comparison says about one measure, in its own units and with its own sign.

    Attributes
    ----------
    measure : str
    answer : {"helps", "hurts", "same", "undecided"}
    difference : Difference
        AT_k minus average.
    low, high : float
        The interval of the difference, at a level that holds for all measures looked at.
    level : float
        With this probability the interval misses the true difference.
    margin : float
        Differences up to this do not matter.
    average, atk : float
        Means over the test parts.
    k_share : float
        The median of k/n that AT_k chose.
    remedy : Remedy or None
        If undecided.
    """

    measure: str
    answer: Answer
    difference: Difference
    low: float
    high: float
    level: float
    margin: float
    average: float
    atk: float
    k_share: float
    remedy: Remedy | None = None

    @property
    def relative(self) -> float:
        """The gain over the scale of the measure: positive where AT_k is better."""
        measure = MEASURES[self.measure]
        scale = measure.scale(self.average)
        return measure.sign * self.difference.mean / scale if scale > 0.0 else 0.0

    @property
    def detectable(self) -> float:
        """The smallest difference that this comparison could have told from none."""
        return 0.5 * (self.high - self.low)


def paired_difference(differences: Sequence[float] | Array, test_to_train: float) -> Difference:
    """Return mean and error of differences, one per split.

    Parameters
    ----------
    differences : sequence of float
    test_to_train : float
        Size of a test part over that of its training part.

    Examples
    --------
    >>> paired_difference([-2.0, -1.5, -2.5, -2.0], 1 / 3).p_value < 0.05
    True
    """
    values = np.asarray(differences, dtype=np.float64)
    error = float(corrected_standard_error(values, test_to_train)) if values.size > 1 else float("inf")
    return Difference(float(values.mean()), error, values.size, test_to_train)


def judge(
    pairs: Mapping[str, Pair],
    shares: Mapping[str, Sequence[float]],
    *,
    margin: float,
    n_rows: int,
    n_splits: int,
    n_folds: int,
    repeatable: bool = True,
) -> dict[str, Verdict]:
    """Return the verdict about every measure, corrected for looking at many (Holm, 1979).

    A measure's interval is as wide as Holm's procedure asks for when it comes to that measure, so that the interval is
    without zero exactly if the procedure finds a difference. *Same* is said of an interval within the margin, *helps*
    and *hurts* of one without zero around a mean beyond the margin, *undecided* of all else.

    Parameters
    ----------
    pairs : mapping of str to Pair
        Per measure, what average and AT_k have.
    shares : mapping of str to sequence
        Per measure, the k/n that AT_k chose on each split.
    margin : float
        As part of the measure's own scale.
    n_rows, n_splits, n_folds : int
        That the comparison had; folds of a repeat.
    repeatable : bool, default=True
        Whether there could be more repeats.

    Examples
    --------
    >>> found = judge({"error": Pair(0.3, 0.2, 0.02)}, {"error": [0.4] * 20}, margin=0.01, n_rows=500, n_splits=20,
    ...               n_folds=10)
    >>> found["error"].answer, round(found["error"].high, 3)
    ('helps', -0.047)
    """
    ratio = 1.0 / (n_folds - 1)
    widening = np.sqrt(n_folds * (1.0 / n_splits + ratio))
    differences = {
        name: Difference(pair.atk - pair.average, float(widening) * pair.error, n_splits, ratio)
        for name, pair in pairs.items()
    }
    return {
        name: _verdict(
            name, difference, level, margin, pairs[name], shares[name], n_rows, n_folds if repeatable else None
        )
        for name, (difference, level) in _with_levels(differences).items()
    }


def _with_levels(differences: Mapping[str, Difference]) -> dict[str, tuple[Difference, float]]:
    """Return every difference with the level of its interval: Holm's steps up to the first that finds nothing."""
    order = sorted(differences, key=lambda name: differences[name].p_value)
    levels, level, stopped = {}, SIGNIFICANCE, False
    for step, name in enumerate(order):
        if not stopped:
            level = SIGNIFICANCE / (len(order) - step)
            stopped = differences[name].p_value >= level
        levels[name] = level
    return {name: (difference, levels[name]) for name, difference in differences.items()}


def _verdict(
    name: str,
    difference: Difference,
    level: float,
    margin: float,
    pair: Pair,
    shares: Sequence[float],
    n_rows: int,
    n_folds: int | None,
) -> Verdict:
    allowed = margin * MEASURES[name].scale(pair.average)
    half = difference.half_width(level)
    low, high = difference.mean - half, difference.mean + half
    answer: Answer = "undecided"
    if -allowed <= low and high <= allowed:
        answer = "same"
    elif (low > 0.0 or high < 0.0) and abs(difference.mean) > allowed:
        answer = "helps" if MEASURES[name].sign * difference.mean > 0.0 else "hurts"
    remedy = _remedy(difference, level, allowed, n_rows, n_folds) if answer == "undecided" else None
    share = float(np.median(shares))
    return Verdict(name, answer, difference, low, high, level, allowed, pair.average, pair.atk, share, remedy)


def _remedy(difference: Difference, level: float, allowed: float, n_rows: int, n_folds: int | None) -> Remedy:
    """Return what would tell a difference of this size from none, or one this small from any that matters.

    Without a number of folds there can be no more repeats.
    """
    wanted = abs(difference.mean) if abs(difference.mean) > allowed else allowed - abs(difference.mean)
    now = difference.half_width(level)
    if not np.isfinite(now) or wanted <= 0.0:
        return Remedy()
    if n_folds is not None:
        for repeats in range(difference.n_splits // n_folds + 1, _MOST_REPEATS + 1):
            if difference.with_splits(repeats * n_folds).half_width(level) < wanted:
                return Remedy(repeats=repeats)
    factor = (now / wanted) ** 2  # the variance of a difference is inverse to the rows
    return Remedy(rows=round(factor * n_rows)) if factor <= _MOST_ROWS else Remedy()
