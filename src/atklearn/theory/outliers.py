"""The outlier argument: the share of outliers narrows the search for k, and says how many samples to set aside."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.stats import binom

from atklearn.runtime.messages import shown
from atklearn.theory.checks import check_count, check_share

__all__ = ["OutlierRange", "k_for_outliers", "trim_for_outliers"]

_MOST_SAMPLES = 1e15  # which floats count one by one


@dataclass(frozen=True)
class OutlierRange:
    """The interval of k that suits a number of outliers, described in :func:`atklearn.theory.k_for_outliers`."""

    lower: int
    upper: int
    n_outliers: int
    n_samples: int

    def outlier_weight(self, k: float) -> float:
        """Return the largest weight ``min(1, m / k)`` that m outliers can have in AT_k."""
        return min(1.0, self.n_outliers / k)

    def looseness(self, k: float) -> float:
        """Return the factor ``k / (m + 1)``: all losses but m are at most this times AT_k; infinite for k <= m."""
        if k <= self.n_outliers:
            return math.inf
        return k / (self.n_outliers + 1)

    def __str__(self) -> str:
        return (
            f"k in [{self.lower}, {self.upper}] for {self.n_outliers} outliers among {self.n_samples} samples: "
            f"outliers weigh at most {self.outlier_weight(self.lower):.2f} at the lower end, "
            f"{self.outlier_weight(self.upper):.2f} at the upper"
        )


def k_for_outliers(
    outlier_share: float, n_samples: int, *, max_weight: float = 0.5, max_looseness: float | None = None
) -> OutlierRange:
    r"""Return the interval of k when the share of outliers is known.

    With ``m = ceil(outlier_share * n)`` outliers that can have any loss, the loss to make small is the top-k loss
    :math:`\ell_{[m+1]}`: no outlier can lift it above the largest loss of the inliers, and all samples but m lie at or
    below it. It is not convex; AT_k is its convex upper bound. For k > m

    .. math:: \ell_{[k]} \le \mathrm{AT}_k, \qquad \ell_{[m+1]} \le \frac{k}{m+1} \, \mathrm{AT}_k,

    the second because the m + 1 largest losses are part of the sum of the k largest. This bounds k on both sides:

    - **Below.** The sample weights of AT_k are at most 1/k each, so the outliers weigh at most m/k together. At k <= m
      they can fill the top by themselves: the fit then sees no inlier. A largest weight ``max_weight`` asks for
      k >= m / max_weight; the default of one half says that the inliers have the majority. Theorem 1 asks for the same:
      if the outliers are labels flipped at random in data that are separable otherwise, R* is their share, and the
      switch to calibration is at 2 R*, that is at k = 2 m.
    - **Above.** The bound on all losses but m loosens by k / (m + 1). A largest factor ``max_looseness`` asks for
      k <= max_looseness * (m + 1); without it, the upper end is n.

    Parameters
    ----------
    outlier_share : float
        In [0, 1).
    n_samples : int
    max_weight : float, default=0.5
        The weight in (0, 1) that all outliers together must stay below.
    max_looseness : float, default=None
        At least ``1 / max_weight``, or the interval is empty for many outliers.

    Returns
    -------
    interval : OutlierRange
        ``lower`` and ``upper`` are its ends, both included. ``outlier_weight(k)`` is the largest weight
        ``min(1, m / k)`` that the ``n_outliers`` can have in AT_k, and ``looseness(k)`` the factor ``k / (m + 1)``:
        all losses but m are at most so many times AT_k. :func:`print` shows it in words.

    Examples
    --------
    >>> from atklearn.theory import k_for_outliers
    >>> print(k_for_outliers(0.05, 1000, max_looseness=4))
    k in [101, 204] for 50 outliers among 1000 samples: outliers weigh at most 0.50 at the lower end, 0.25 at the upper
    >>> interval = k_for_outliers(0.05, 1000, max_looseness=4)
    >>> interval.lower, interval.upper, interval.outlier_weight(200), round(interval.looseness(200), 2)
    (101, 204, 0.25, 3.92)
    """
    _check_share(outlier_share, n_samples)
    check_share("max_weight", max_weight, "0.5 gives the inliers the majority")
    if max_looseness is not None and not max_looseness > 0.0:
        raise ValueError(
            f"max_looseness is expected to be above 0, got {shown(max_looseness)}; it is k over the outliers and one."
        )
    # 0.07 * 100 is a little above 7 and means 7.
    outliers = math.ceil(outlier_share * n_samples * (1.0 - 1e-12))
    lower = math.floor(min(outliers / max_weight * (1.0 + 1e-12), n_samples)) + 1
    upper = n_samples if max_looseness is None else math.floor(min(max_looseness * (outliers + 1), n_samples))
    if lower > upper:
        remedy = "raise max_looseness or max_weight" if upper < n_samples else "clean the data or raise max_weight"
        raise ValueError(
            f"{outliers} outliers among {n_samples} samples are expected to leave a k that keeps their weight below "
            f"{max_weight:g}, got the empty interval [{lower}, {upper}]; {remedy}."
        )
    return OutlierRange(lower, upper, outliers, n_samples)


def trim_for_outliers(outlier_share: float, n_samples: int, *, confidence: float = 0.95) -> int:
    """Return how many samples to set aside when the share of outliers is known.

    If every sample is an outlier with the same probability, whatever the others are, their number is binomial. The
    answer is its ``confidence`` quantile: the smallest count that the outliers exceed with probability
    ``1 - confidence`` at most. It lies above the mean, as the two mistakes do not cost the same: an outlier that is
    left in pulls the fit with all its loss, while a clean sample that is set aside is one of the hardest of many.

    It needs a share that is known, such as that of the wrong labels in a part of the data that was audited; an audit
    of few rows knows it only roughly, and then the upper end of what it allows is the share to pass. That the outliers
    are among the largest losses is for the fit to bring about: see ``trim`` in :class:`atklearn.ATkClassifier`.

    With K classes trained one-versus-rest the same samples are set aside for all classes. So it is the share of the
    rows that counts, not K times that or a part of it.

    Parameters
    ----------
    outlier_share : float
        In [0, 1).
    n_samples : int
        Of the training set: a count found for all samples is too large for the training part of a fold.
    confidence : float, default=0.95
        In (0, 1).

    Returns
    -------
    trim : int
        For the parameter ``trim`` of the estimators.

    Examples
    --------
    >>> from atklearn.theory import trim_for_outliers
    >>> trim_for_outliers(0.05, 1000), trim_for_outliers(0.05, 1000, confidence=0.5)
    (62, 50)

    Labels of which a tenth was exchanged:

    >>> import numpy as np
    >>> from atklearn import ATkClassifier
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.choice([-1, 1], size=200)
    >>> X = truth[:, None] + 0.3 * rng.standard_normal((200, 2))
    >>> y = np.where(rng.random(200) < 0.1, -truth, truth)
    >>> model = ATkClassifier(trim=trim_for_outliers(0.1, 200)).fit(X, y)
    >>> bool(np.isin(np.flatnonzero(y != truth), model.set_aside_).all())
    True
    """
    _check_share(outlier_share, n_samples)
    check_share("confidence", confidence, "0.95 leaves outliers in once in twenty times")
    trim = int(binom.ppf(confidence, n_samples, outlier_share))
    if trim >= n_samples:
        raise ValueError(
            f"The outliers are expected to leave some of the {n_samples} samples, got a share of "
            f"{shown(outlier_share)}, which may be all of them; clean the data or lower confidence."
        )
    return trim


def _check_share(outlier_share: float, n_samples: int) -> None:
    """Raise ValueError unless there is a share of some samples."""
    if not 0.0 <= outlier_share < 1.0:
        raise ValueError(
            f"outlier_share is expected in [0, 1), got {shown(outlier_share)}; divide a count of outliers by n."
        )
    check_count("n_samples", n_samples, "pass the size of the training set", _MOST_SAMPLES)
