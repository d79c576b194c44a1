"""The tilted loss: an aggregate that turns smoothly from the smallest loss to the average, and on to the largest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real

import numpy as np
import numpy.typing as npt

from atklearn.losses.aggregate import check_losses, summable
from atklearn.losses.individual import Array
from atklearn.runtime.messages import shown

__all__ = ["Tilted"]


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
        losses : array-like of shape (n,)
        sample_weight : array-like of shape (n,), default=None

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
        mass = summable(np.ones_like(loss) if weight is None else weight)[0]
        return loss, mass / mass.sum()

    def _extreme(self, loss: Array, mass: Array) -> float:
        """Return the loss that the tilt is towards, of those that have weight."""
        return float(loss[mass > 0].max() if self.t > 0 else loss[mass > 0].min())

    def _exponents(self, loss: Array, mass: Array) -> Array:
        """Return t times the distance from the extreme, at most 0 where there is weight, so that nothing overflows."""
        with np.errstate(over="ignore"):  # minus infinity is as good an exponent as any that is large
            return np.asarray(np.minimum(float(self.t) * (loss - self._extreme(loss, mass)), 0.0))
