"""Aggregate losses: how the individual losses of a data set become one number.

Every aggregate here is the mean of a slice of the losses in descending order:

========================  ==================  ==============
aggregate                 slice               convex
========================  ==================  ==============
:class:`Average`          ``[0 : n]``         yes
:class:`Maximum`          ``[0 : 1]``         yes
:class:`AverageTopK`      ``[0 : k]``         yes
:class:`TopK`             ``[k - 1 : k]``     only k = 1
:class:`AverageBottomK`   ``[n - k : n]``     only k = n
:class:`RankedRange`      ``[start : stop]``  only start = 0
========================  ==================  ==============

With sample weights, counts become mass: a sample of weight 2 fills two places of the list, and a slice that ends
inside a sample takes it in part. Their smooth relative, which is no slice, is :class:`Tilted`.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
import numpy.typing as npt

from atklearn.losses.individual import Array
from atklearn.runtime.messages import shown, stack_level

__all__ = [
    "Average",
    "AverageBottomK",
    "AverageTopK",
    "Maximum",
    "OneRowWarning",
    "RankedRange",
    "SlicedMean",
    "Tilted",
    "TopK",
    "average_top_k",
    "check_k",
    "check_losses",
    "ranked_loss",
    "resolve_k",
    "resolve_trim",
    "top_sum",
    "warn_of_one_row",
]

# Fractions such as 0.07 * 100 miss the whole number they mean; a slice end this close to a sample's end is that end.
# Shares below this are lost in the rounding of sums.
_LEAST_SHARE = 1e-12
_ROUNDING = 1e-12


class OneRowWarning(UserWarning):
    """Warned of where k is the int 1, which is one sample, since 1.0 is often meant, which is all of them.

    ``k="max"`` is one sample without a warning.

    Examples
    --------
    >>> import warnings
    >>> from atklearn import ATkRegressor, OneRowWarning
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0.0, 1.0, 1.0, 4.0]
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always", OneRowWarning)
    ...     model = ATkRegressor(k=1).fit(X, y)
    >>> print(caught[0].message)
    k=1 is an int and counts samples: one row, the largest loss alone. Write k=1.0 for all, k='max' for one.
    >>> bool((model.coef_ == ATkRegressor(k="max").fit(X, y).coef_).all())
    True
    """


def warn_of_one_row(*ks: object) -> None:
    """Warn, once for all ``ks``, if one of them is the int 1; beside other counts it is meant as one."""
    counts = [k for k in ks if isinstance(k, Integral)]
    if 1 in counts and (len(ks) == 1 or len(counts) < len(ks)):
        warnings.warn(
            "k=1 is an int and counts samples: one row, the largest loss alone. Write k=1.0 for all, k='max' for one.",
            OneRowWarning,
            stacklevel=stack_level(),
        )


def resolve_k(k: float | str, total: float) -> float:
    """Turn ``k`` into an amount of sample weight, above 0 and up to the total: an int counts, a float is a fraction.

    ``1`` and ``"max"`` are one sample, ``1.0`` is all of them.

    Examples
    --------
    >>> resolve_k(3, 10), resolve_k(0.25, 10), resolve_k(1.0, 10), resolve_k("max", 10)
    (3.0, 2.5, 10.0, 1.0)
    """
    k = 1 if isinstance(k, str) and k == "max" else k
    check_k(k, total)
    return min(float(k), float(total)) if isinstance(k, Integral) else float(k) * float(total)


def resolve_trim(trim: float, k: float, total: float) -> float:
    """Turn ``trim`` into an amount of sample weight: an int counts, a float is a fraction of the total.

    ``0`` trims nothing, ``1`` one sample, ``0.1`` a tenth of them. The range ends at ``k`` units of weight, and has to
    begin before.

    Examples
    --------
    >>> resolve_trim(2, 10.0, 10.0), resolve_trim(0.25, 10.0, 10.0)
    (2.0, 2.5)
    """
    if isinstance(trim, bool | np.bool_) or not isinstance(trim, Real) or not trim >= 0:
        raise ValueError(
            "trim is expected to be an int >= 0 (a count of samples) or a float in [0, 1) (a fraction of them), "
            f"got {shown(trim)}."
        )
    if not isinstance(trim, Integral) and trim >= 1.0:
        raise ValueError(
            f"trim as a float is a fraction of the samples and is expected in [0, 1), got {shown(trim)}; "
            "pass an int to count samples."
        )
    amount = float(trim) if isinstance(trim, Integral) else float(trim) * float(total)
    if amount >= least_mass(k):
        raise ValueError(
            f"trim is expected to leave a range that ends at k: below {k:g} of {total:g} samples, got "
            f"trim={shown(trim)}, which is {amount:g}; lower trim or raise k."
        )
    return amount


def check_k(k: float | str, total: float | None = None) -> None:
    """Raise ValueError unless ``k`` is a count from one to the total, or a fraction in (0, 1]."""
    if isinstance(k, bool | np.bool_) or not isinstance(k, Real):
        raise ValueError(
            f"k is expected to be an int (a count of samples) or a float (a fraction of them), got {shown(k)}."
        )
    if isinstance(k, Integral) and (k < 1 or (total is not None and k > total * (1 + _ROUNDING))):
        range_of_k = "to be at least 1" if total is None else f"in [1, {total:g}]"
        raise ValueError(
            f"k as an int counts samples (units of sample weight) and is expected {range_of_k}, got {k}; "
            "pass a float in (0, 1] for a fraction of the samples."
        )
    if not isinstance(k, Integral) and not 0.0 < k <= 1.0:
        raise ValueError(
            f"k as a float is a fraction of the samples and is expected in (0, 1], got {shown(k)}; "
            "pass an int to count samples."
        )
    if k < _LEAST_SHARE:
        raise ValueError(
            f"k as a float is expected to be at least {_LEAST_SHARE:g}, a smaller part of the samples is lost in "
            f'rounding, got {shown(k)}; pass k="max" for the largest loss alone.'
        )


class SlicedMean(ABC):
    """The mean of a slice of the losses in descending order."""

    @property
    @abstractmethod
    def ends(self) -> tuple[float, float, bool]:
        """Where the slice begins and ends, as a count or a share; True if ranks count from the smallest loss."""

    @property
    def is_convex(self) -> bool:
        """Whether the aggregate is convex in the losses whatever their number."""
        start, stop, from_bottom = self.ends
        return start == 0 and (not from_bottom or (stop == 1.0 and isinstance(stop, float)))

    def value(self, losses: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None) -> float:
        """Return the aggregate loss.

        Parameters
        ----------
        losses : array-like of shape (n,)
        sample_weight : array-like of shape (n,), default=None

        Returns
        -------
        value : float
        """
        loss, shares = self._shares(losses, sample_weight)
        return float(shares @ loss / shares.sum())

    def weights(self, losses: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None) -> Array:
        """Return the weight of every loss in the aggregate, shape (n,), summing to one.

        For a convex aggregate this is a subgradient: ties at an end of the slice share what is left of it.

        Parameters
        ----------
        losses, sample_weight
            As in :meth:`value`.

        Returns
        -------
        weights : ndarray of shape (n,)
        """
        shares = self._shares(losses, sample_weight)[1]
        return np.asarray(shares / shares.sum())

    def threshold(self, losses: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None) -> float:
        """Return the smallest loss in the slice: the paper's lambda, ``l_[k]`` for the average top-k.

        Parameters
        ----------
        losses, sample_weight
            As in :meth:`value`.

        Returns
        -------
        threshold : float
        """
        loss, shares = self._shares(losses, sample_weight)
        return float(loss[shares > 0.0].min())

    def _shares(self, losses: npt.ArrayLike, sample_weight: npt.ArrayLike | None) -> tuple[Array, Array]:
        """Return the losses, and how much of each lies in the slice."""
        loss, weight = check_losses(losses, sample_weight)
        weight, unit = _summable(np.ones_like(loss) if weight is None else weight)
        total = float(weight.sum())

        def amount(k: float | str) -> float:
            return resolve_k(k, total / unit) * unit if isinstance(k, Integral | str) else resolve_k(k, total)

        first, last, from_bottom = self.ends
        stop, start = amount(last), 0.0 if first == 0 else amount(first)
        if not start < least_mass(stop):
            raise ValueError(
                f"A ranked range is expected to have start < stop, got [{start / unit:g}, {stop / unit:g}] of "
                f"{total / unit:g} samples."
            )
        ranked = -loss if from_bottom else loss
        shares = _top_shares(ranked, weight, stop)
        return loss, shares - _top_shares(ranked, weight, start) if start > 0.0 else shares


@dataclass(frozen=True)
class Average(SlicedMean):
    """The mean of all losses.

    Examples
    --------
    >>> from atklearn.aggregates import Average
    >>> Average().value([3.0, 0.0, 2.0, 2.0])
    1.75
    """

    @property
    def ends(self) -> tuple[float, float, bool]:
        """All losses."""
        return 0, 1.0, False


@dataclass(frozen=True)
class Maximum(SlicedMean):
    """The largest loss (with sample weights: the mean of the largest one unit of weight).

    Examples
    --------
    >>> from atklearn.aggregates import Maximum
    >>> Maximum().value([3.0, 0.0, 2.0, 2.0])
    3.0
    """

    @property
    def ends(self) -> tuple[float, float, bool]:
        """The largest loss."""
        return 0, 1, False


@dataclass(frozen=True)
class AverageTopK(SlicedMean):
    """The mean of the k largest losses, AT_k (Eq. 1 of the paper).

    Lemma 1: ``AT_k(l) = min over lambda of lambda + sum([l_i - lambda]_+) / k``, attained at the threshold.

    Parameters
    ----------
    k : int or float
        An int counts samples, a float is the fraction of them.

    Examples
    --------
    >>> from atklearn.aggregates import AverageTopK
    >>> losses = [3.0, 0.0, 2.0, 2.0]
    >>> at2 = AverageTopK(2)
    >>> at2.value(losses), at2.threshold(losses), at2.is_convex
    (2.5, 2.0, True)
    >>> at2.weights(losses)  # the tie shares its place
    array([0.5 , 0.  , 0.25, 0.25])
    """

    k: float

    @property
    def ends(self) -> tuple[float, float, bool]:
        """The k largest losses."""
        return 0, self.k, False


@dataclass(frozen=True)
class TopK(SlicedMean):
    """The k-th largest loss.

    Parameters
    ----------
    k : int

    Examples
    --------
    >>> from atklearn.aggregates import TopK
    >>> TopK(2).value([3.0, 0.0, 2.0, 1.0])
    2.0
    """

    k: int

    @property
    def ends(self) -> tuple[float, float, bool]:
        """The k-th largest loss."""
        if not isinstance(self.k, Integral):
            raise ValueError(f"k is expected to be an int, the rank of a loss from 1 on, got {shown(self.k)}.")
        return self.k - 1, self.k, False


@dataclass(frozen=True)
class AverageBottomK(SlicedMean):
    """The mean of the k smallest losses, the aggregate of self-paced learning.

    Parameters
    ----------
    k : int or float
        An int counts samples, a float is the fraction of them.

    Examples
    --------
    >>> from atklearn.aggregates import AverageBottomK
    >>> AverageBottomK(3).value([3.0, 0.0, 2.0, 1.0])
    1.0
    """

    k: float

    @property
    def ends(self) -> tuple[float, float, bool]:
        """The k smallest losses."""
        return 0, self.k, True


@dataclass(frozen=True)
class RankedRange(SlicedMean):
    """The mean of the losses ranked ``start + 1`` to ``stop`` from the top (average of ranked range, AoRR).

    Parameters
    ----------
    start, stop : int or float
        An int counts samples, a float is the fraction of them; 0 is the top.

    Examples
    --------
    >>> from atklearn.aggregates import RankedRange
    >>> RankedRange(1, 3).value([900.0, 3.0, 2.0, 0.0])  # the largest is set aside
    2.5
    """

    start: float
    stop: float

    @property
    def ends(self) -> tuple[float, float, bool]:
        """The losses ranked ``start + 1`` to ``stop``."""
        return self.start, self.stop, False


@dataclass(frozen=True)
class Tilted:
    r"""The tilted empirical risk of TERM, with a tilt t.

    .. math:: \frac{1}{t} \log \Big( \frac{1}{n} \sum_i e^{t \ell_i} \Big)

    ============  =====================================
    t             the aggregate is
    ============  =====================================
    -> -inf       the smallest loss
    0             the average
    -> +inf       the largest loss
    ============  =====================================

    It grows with t, and with every loss. For t >= 0 it is convex in the losses, for t <= 0 concave.

    It is the smooth relative of :class:`atklearn.aggregates.RankedRange`. For t > 0 it turns to the hardest samples as
    AT_k does: AT_k is the largest weighted mean of the losses under weights of at most 1 / k, the tilted loss under
    weights that pay for their distance from equal ones, KL(q || 1/n) / t. Hence ``AT_k <= tilted + log(n / k) / t``.
    For t < 0 it turns away from them as the trimmed mean does, but no sample is ever out: an outlier has a small weight
    in place of none.

    The estimators here do not train with it; the aggregate is for looking at losses, and ``weights`` is its gradient.

    Parameters
    ----------
    t : float
        Of the reciprocal unit of the losses; infinite ones are the limits.

    References
    ----------
    Li, Beirami, Sanjabi, Smith. Tilted Empirical Risk Minimization. ICLR 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from atklearn.aggregates import Tilted
    >>> losses = np.array([0.0, 1.0, 2.0, 9.0])
    >>> [round(Tilted(t).value(losses), 2) for t in (-50.0, -1.0, 0.0, 1.0, 50.0)]
    [0.03, 0.98, 3.0, 7.62, 8.97]
    >>> Tilted(-1.0).weights(losses).round(3)  # the outlier hardly counts
    array([0.665, 0.245, 0.09 , 0.   ])
    """

    t: float

    def __post_init__(self) -> None:
        if isinstance(self.t, bool | np.bool_) or not isinstance(self.t, Real) or math.isnan(self.t):
            raise ValueError(
                f"The tilt t is expected to be a number, got {shown(self.t)}; 0.0 is the average, above it the large "
                "losses count more, below it less."
            )

    @property
    def is_convex(self) -> bool:
        """Whether the aggregate is convex in the losses."""
        return self.t >= 0

    def value(self, losses: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None) -> float:
        """Return the aggregate loss.

        Parameters
        ----------
        losses : array-like of shape (n,)
        sample_weight : array-like of shape (n,), default=None

        Returns
        -------
        value : float
        """
        loss, mass = self._shares(losses, sample_weight)
        if self.t == 0:
            return float(mass @ loss)
        extreme = self._extreme(loss, mass)
        if math.isinf(self.t):
            return extreme
        exponents = self._exponents(loss, mass)
        below_one = float(mass @ np.expm1(exponents))
        # near one the logarithm of a mean loses the digits that a small t then divides by; far from it, log1p would
        logarithm = math.log1p(below_one) if below_one > -0.5 else math.log(float(mass @ np.exp(exponents)))
        return extreme + logarithm / float(self.t)

    def weights(self, losses: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None) -> Array:
        """Return the weight of every loss: the gradient of the value, summing to one.

        Parameters
        ----------
        losses, sample_weight
            As in :meth:`value`.

        Returns
        -------
        weights : ndarray of shape (n,)
        """
        loss, mass = self._shares(losses, sample_weight)
        if self.t == 0:
            return mass
        tilts = loss == self._extreme(loss, mass) if math.isinf(self.t) else np.exp(self._exponents(loss, mass))
        weighted = mass * tilts
        return np.asarray(weighted / weighted.sum())

    def _shares(self, losses: npt.ArrayLike, sample_weight: npt.ArrayLike | None) -> tuple[Array, Array]:
        """Return the losses and which part of the weight each has."""
        loss, weight = check_losses(losses, sample_weight)
        mass = _summable(np.ones_like(loss) if weight is None else weight)[0]
        return loss, mass / mass.sum()

    def _extreme(self, loss: Array, mass: Array) -> float:
        """Return the loss that the tilt is towards, of those that have weight."""
        return float(loss[mass > 0].max() if self.t > 0 else loss[mass > 0].min())

    def _exponents(self, loss: Array, mass: Array) -> Array:
        """Return t times the distance from the extreme, at most 0 where there is weight, so that nothing overflows."""
        with np.errstate(over="ignore"):  # minus infinity is as good an exponent as any that is large
            return np.asarray(np.minimum(float(self.t) * (loss - self._extreme(loss, mass)), 0.0))


def average_top_k(losses: npt.ArrayLike, k: float, sample_weight: npt.ArrayLike | None = None) -> float:
    """Return the mean of the k largest losses, AT_k (Eq. 1 of the paper).

    Parameters
    ----------
    losses : array-like of shape (n,)
    k : int or float
        An int counts samples, a float is the fraction of them.
    sample_weight : array-like of shape (n,), default=None
        Weights count as repetitions do.

    Returns
    -------
    value : float

    See Also
    --------
    atklearn.aggregates.AverageTopK : the threshold and the weight of every loss, too.

    Examples
    --------
    >>> from atklearn import average_top_k
    >>> average_top_k([3.0, 0.0, 2.0, 1.0], 3), average_top_k([3.0, 0.0, 2.0, 1.0], 0.5)
    (2.0, 2.5)
    """
    return AverageTopK(k).value(losses, sample_weight)


def check_losses(losses: npt.ArrayLike, sample_weight: npt.ArrayLike | None) -> tuple[Array, Array | None]:
    """Return losses and sample weights as vectors of floats; raise ValueError where they are not, or do not fit."""
    loss = np.asarray(losses, dtype=np.float64)
    if loss.ndim != 1 or loss.size == 0 or not np.isfinite(loss).all():
        raise ValueError(f"losses are expected as a non-empty vector of finite numbers, got shape {loss.shape}.")
    if sample_weight is None:
        return loss, None
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != loss.shape or not np.isfinite(weight).all() or weight.min() < 0 or weight.max() == 0:
        raise ValueError(
            f"sample_weight is expected as {loss.size} finite numbers >= 0, not all zero, got shape {weight.shape} "
            f"with range [{weight.min(initial=np.inf):g}, {weight.max(initial=-np.inf):g}]."
        )
    return loss, weight


def ranked_loss(loss: Array, weight: Array | None, mass: float) -> float:
    """Return the loss at which the mass counted from the top reaches ``mass``, in O(n)."""
    if weight is None or weight.min() == weight.max():
        rank = rank_of(mass if weight is None else mass / weight[0], loss.size)
        if rank == loss.size:
            return float(loss.min())
        return float(np.partition(loss, loss.size - rank)[loss.size - rank])
    keep = weight > 0
    return select(loss[keep], weight[keep], least_mass(mass))


def rank_of(count: float, n: int) -> int:
    """Return which of n losses, counted from the top, completes a number of them that need not be whole."""
    return min(max(int(np.ceil(least_mass(count))), 1), n)


def least_mass(mass: float) -> float:
    """Return what a sum must reach to count as ``mass``, rounded as it is."""
    return mass * (1 - _ROUNDING)


def select(loss: Array, weight: Array, wanted: float) -> float:
    """Return the loss at which the positive weights counted from the top reach what is wanted, in O(n)."""
    while True:  # quickselect: the median halves the candidates
        pivot = np.partition(loss, loss.size // 2)[loss.size // 2]
        above = loss > pivot
        mass_above = weight[above].sum()
        if mass_above >= wanted and mass_above > 0:
            loss, weight = loss[above], weight[above]
            continue
        below = loss < pivot
        mass_to_pivot = mass_above + weight[~above & ~below].sum()
        if mass_to_pivot >= wanted or not below.any():
            return float(pivot)
        wanted -= mass_to_pivot
        loss, weight = loss[below], weight[below]


def _summable(weight: Array) -> tuple[Array, float]:
    """Return weights whose sum does not overflow, and what one unit of the given ones is in them: a power of two."""
    unit = 2.0 ** -max(int(np.frexp(weight.max())[1]) + 64 - 1024, 0)
    return weight * unit, unit


def _top_shares(loss: Array, weight: Array, mass: float) -> Array:
    """Return how much of each sample lies in the top ``mass``; ties share by weight.

    A top that ends within rounding of a sample's end takes all of it: the rest could be the rest of an outlier.
    """
    threshold = ranked_loss(loss, weight, mass)
    shares = np.where(loss > threshold, weight, 0.0)
    tied = loss == threshold
    above, at = shares.sum(), weight[tied].sum()
    shares[tied] = weight[tied] * (1.0 if mass >= least_mass(above + at) else max(mass - above, 0.0) / at)
    return shares


def top_sum(loss: Array, weight: Array | None, mass: float) -> float:
    """Return the sum of the top ``mass`` of losses by Lemma 1; of checked arrays."""
    if mass == 0.0:
        return 0.0
    threshold = ranked_loss(loss, weight, mass)
    excess = np.maximum(loss - threshold, 0.0)
    return mass * threshold + float(excess.sum() if weight is None else weight @ excess)
