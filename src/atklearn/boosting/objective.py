"""The average top-k loss as an objective of gradient boosting: derivatives for LightGBM and XGBoost alike.

AT_k is a maximum over densities, so its gradient is the loss's own, weighted by who is in the top k. Boosting needs
more: a weight that does not jump from round to round, and a curvature for every row of a leaf. With masses ``m`` that
sum to ``n``, the objective of a round is the smoothed

    A(f) = max over 0 <= r <= 1, sum(m r) = k of sum(m r l) / k - mu / (2 k) * sum(m (r - k / n)**2)

whose maximiser is a clipped line in the losses. Wide smoothing gives every row the density ``k / n``, which is the
average; as it narrows, the objective goes over to AT_k. So one schedule, that of ``mu``, leads from k = n to k.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar
from scipy.special import logit

from atklearn.boosting.metric import ATkMetric
from atklearn.losses.aggregate import average_top_k, resolve_k
from atklearn.losses.individual import Array, IndividualLoss, Kink, LogLoss, resolve_individual_loss, task_of
from atklearn.losses.messages import shown
from atklearn.problems.arrays import check_mass
from atklearn.problems.smoothing import fill_top

__all__ = ["ATkObjective", "SmoothedTop", "curvature_to_boost_with"]

# Where a loss has a kink its curvature is that of a parabola above it, which touches it where the prediction is; closer
# to the kink than this part of the mean distance the parabola gets no narrower.
_NEAR_KINK = 1.0
# Scores between which the best constant of a classifier is looked for.
_FAR = 30.0


@dataclass(frozen=True)
class SmoothedTop:
    """The smoothed average of the k largest losses, for a fixed width.

    Attributes
    ----------
    k : float
        In units of mass.
    mu : float
        The width: a row goes from not in the top to fully in it as its loss rises by this much.

    Examples
    --------
    >>> losses, mass = np.array([0.0, 1.0, 4.0]), np.ones(3)
    >>> SmoothedTop(1.0, 1e-9).densities(losses, mass)
    array([0., 0., 1.])
    >>> SmoothedTop(1.0, 1e9).densities(losses, mass).round(3)
    array([0.333, 0.333, 0.333])
    """

    k: float
    mu: float

    def densities(self, losses: Array, mass: Array, guess: float = 0.0) -> Array:
        """Return how much of every row is in the top, between 0 and 1: ``sum(mass * densities) = k``."""
        return self.find(losses, mass, guess)[1]

    def find(self, losses: Array, mass: Array, guess: float = 0.0) -> tuple[float, Array]:
        """Return the threshold and the densities, from a guess of the threshold."""
        u = mass / self.k
        densities = np.empty_like(losses)
        lam = fill_top(losses, np.full_like(losses, self.k / mass.sum()), u, self.mu, guess, densities)
        return lam, densities

    def value(self, losses: Array, mass: Array) -> float:
        """Return the smoothed average; it is at most AT_k, which it tends to with a narrow width."""
        r = self.densities(losses, mass)
        away = r - self.k / mass.sum()
        return float((mass * (r * losses - 0.5 * self.mu * away**2)).sum() / self.k)


@dataclass
class ATkObjective:
    r"""The average of the k largest losses, for ``objective=`` of LightGBM's and XGBoost's scikit-learn classes.

    Called with truth and raw predictions, it returns per row

    .. math:: g_i = m_i \frac{n}{k} r_i \, \ell'(f_i, y_i), \qquad
        h_i = m_i \max\big(\tfrac{n}{k} r_i, 1\big) \, \ell''(f_i, y_i)

    with densities r of the smoothed top k (see :mod:`atklearn.boosting.objective`) and sample weights m. So a row
    outside the top does not pull, but weighs in the value of its leaf as it does for the average. For k = n these are
    the derivatives of the libraries' own objectives. Where a loss has no curvature, that of a parabola above the loss
    takes its place, so that the absolute error and the hinge can be boosted as well.

    Neither library starts a custom objective from a sensible constant; :meth:`start` is the one to pass.

    Parameters
    ----------
    loss : str or IndividualLoss, default="squared_error"
        Any individual loss, also your own. The squared error is halved, as the libraries do.
    k : int or float, default=0.2
        An int counts rows (units of weight), a float is the fraction of them; ``1.0`` is the average.
    smoothing : float or tuple of two floats, default=(3.0, 0.1)
        The width of the smoothing in standard deviations of the losses: at first and at last.
    rounds : int, default=100
        The rounds over which the width goes, evenly on a logarithmic scale, from first to last.

    Notes
    -----
    A fit is a sequence of calls; the object counts them, and begins anew when it is given predictions that are all
    equal, as they are in the first round. Copies and pickles begin anew, too.

    Several columns of predictions are several classes, one against the rest, each with a top k of its own.

    Examples
    --------
    >>> import numpy as np
    >>> objective = ATkObjective(k=2)
    >>> objective
    ATkObjective(loss='squared_error', k=2, smoothing=(3.0, 0.1), rounds=100)
    >>> gradient, hessian = ATkObjective(k=2, smoothing=1e-6)(np.array([0.0, 1.0, 5.0, 9.0]), np.full(4, 4.0))
    >>> gradient.round(), hessian
    (array([  8.,   0.,  -0., -10.]), array([2., 1., 1., 2.]))
    """

    loss: str | IndividualLoss = "squared_error"
    k: float = 0.2
    smoothing: float | tuple[float, float] = (3.0, 0.1)
    rounds: int = 100
    _round: int = field(default=0, init=False, repr=False, compare=False)
    _guesses: dict[int, float] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        task_of(self.loss)
        resolve_k(self.k, np.inf)
        widths = np.atleast_1d(np.asarray(self.smoothing, dtype=np.float64))
        if widths.size not in (1, 2) or not (np.isfinite(widths).all() and (widths > 0.0).all()):
            raise ValueError(
                f"smoothing is expected to be one or two widths > 0, first and last, got {shown(self.smoothing)}."
            )
        if not isinstance(self.rounds, Integral) or self.rounds < 1:
            raise ValueError(f"rounds is expected to be an int >= 1, got {shown(self.rounds)}.")

    def __call__(
        self, y_true: npt.ArrayLike, y_pred: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
    ) -> tuple[Array, Array]:
        """Return gradient and hessian of the round, each of the shape of the predictions.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Targets; for classes 0 and 1, or -1 and +1; for several columns of predictions their numbers from 0.
        y_pred : array-like of shape (n,) or (n, n_classes)
            Raw predictions.
        sample_weight : array-like of shape (n,), default=None
        """
        predictions = np.asarray(y_pred, dtype=np.float64)
        y = np.asarray(y_true, dtype=np.float64)
        if y.ndim != 1 or predictions.shape[:1] != y.shape or predictions.ndim > 2 or y.size == 0:
            raise ValueError(
                f"Truth and predictions are expected for the same rows, got shapes {y.shape} and {predictions.shape}."
            )
        mass = check_mass(sample_weight, y.size)
        if (predictions == predictions[:1]).all():
            self._round = 0
            self._guesses.clear()
        width = self.width_at(self._round)
        self._round += 1
        if predictions.ndim == 1:
            return self._derivatives(_signs(y) if self._classifies else y, predictions, mass, width, 0)
        gradient, hessian = np.empty((2, *predictions.shape))
        for column in range(predictions.shape[1]):
            target = np.where(y == column, 1.0, -1.0)
            found = self._derivatives(target, np.ascontiguousarray(predictions[:, column]), mass, width, column)
            gradient[:, column], hessian[:, column] = found
        return gradient, hessian

    def width_at(self, number: int) -> float:
        """Return the width of the smoothing in a round, counted from 0, in standard deviations of the losses."""
        first, last = self.smoothing if isinstance(self.smoothing, tuple | list) else (self.smoothing, self.smoothing)
        return float(first * (last / first) ** min(number / self.rounds, 1.0))

    def start(self, y_true: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None) -> float:
        """Return the constant with the smallest AT_k: the mean for squared error and k = n, the log-odds for log loss.

        It is ``init_score`` for every row in LightGBM, to be added to what its model predicts, and ``base_score`` in
        XGBoost.

        Examples
        --------
        >>> ATkObjective(k=1.0).start([0.0, 1.0, 5.0]), round(ATkObjective(k=1).start([0.0, 1.0, 5.0]), 4)
        (2.0, 2.5)
        """
        y = np.asarray(y_true, dtype=np.float64)
        mass = check_mass(sample_weight, y.size)
        y, mass = y[mass > 0.0], mass[mass > 0.0]
        loss, k = self._individual, resolve_k(self.k, float(mass.sum()))
        low, high = float(y.min()), float(y.max())
        average = k >= mass.sum()
        if self._classifies:  # two kinds of rows are all there is to know
            y = _signs(y)
            positive = float(mass[y > 0.0].sum() / mass.sum())
            if not 0.0 < positive < 1.0:
                return 0.0
            if average and isinstance(loss, LogLoss):
                return float(logit(positive))
            mass = np.array([1.0 - positive, positive]) * mass.sum()
            y, low, high = np.array([-1.0, 1.0]), -_FAR, _FAR
        elif average and loss.quadratic:
            return float(np.average(y, weights=mass))
        if low == high:
            return low
        top = average_top_k(k / float(mass.sum()))

        def cost(constant: float) -> float:
            return top.value(loss(np.full_like(y, constant), y), mass)

        found = minimize_scalar(cost, bounds=(low, high), method="bounded", options={"xatol": 1e-9 * (high - low)})
        return float(found.x)

    def eval_metric(self, measure: str = "atk", library: str = "lightgbm") -> ATkMetric:
        """Return the metric for ``eval_metric=``, to stop early by.

        Parameters
        ----------
        measure : str, default="atk"
            "atk" is the average of the k largest losses itself, not smoothed; else the name of a measure such as
            "tail_error" or "max_error": see :data:`atklearn.measures.MEASURES`.
        library : {"lightgbm", "xgboost"}, default="lightgbm"
            Which library calls it: they expect different answers.
        """
        return ATkMetric(measure, self.loss, self.k, library)

    @property
    def _individual(self) -> IndividualLoss:
        return resolve_individual_loss(self.loss, task_of(self.loss))

    @property
    def _classifies(self) -> bool:
        return task_of(self.loss) == "classification"

    def _derivatives(self, y: Array, f: Array, mass: Array, width: float, column: int) -> tuple[Array, Array]:
        """Return the derivatives of one problem, in a round with a width."""
        loss = self._individual
        losses, slope, curvature = curvature_to_boost_with(loss, f, y)
        unit = 0.5 if loss.quadratic else 1.0  # libraries boost half the squared error: so penalties mean the same
        total = float(mass.sum())
        k = resolve_k(self.k, total)
        deviation = _deviation(losses, mass, total)
        if k >= total or deviation == 0.0:  # all alike: so is the top
            return unit * mass * slope, unit * mass * curvature
        guess, density = SmoothedTop(k, width * deviation).find(losses, mass, self._guesses.get(column, 0.0))
        self._guesses[column] = guess
        density *= total / k
        return unit * mass * density * slope, unit * mass * np.maximum(density, 1.0) * curvature

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_round": 0, "_guesses": {}}


def curvature_to_boost_with(loss: IndividualLoss, prediction: Array, target: Array) -> tuple[Array, Array, Array]:
    """Return the losses, their slopes, and curvatures that are never zero, each of shape (n,).

    A boosted leaf takes the step ``-sum(slope) / sum(curvature)``, so that rows without curvature would let it go
    anywhere. Beside a kink, and on the straight part of a robust loss, the curvature is that of the parabola that
    touches the loss at the prediction and lies above it elsewhere; other rows without any have the mean of the rest.

    Examples
    --------
    >>> from atklearn import Huber
    >>> curvature_to_boost_with(Huber(1.0), np.array([0.5, 4.0]), np.zeros(2))[2]
    array([1.  , 0.25])
    """
    s, slope, curvature = loss.expand(prediction, target)
    kink = Kink(loss.kink)
    losses, slope = kink.loss(s), kink.slope(s, slope)
    if kink is not Kink.NONE:
        distance = np.abs(s)
        distance = np.maximum(distance, _NEAR_KINK * distance.mean() or 1.0)
        curvature = curvature + slope**2 / (distance if kink.is_two_sided else 2.0 * distance)
    elif loss.task == "regression" and not loss.quadratic:
        error = prediction - target
        curvature = np.maximum(curvature, np.divide(slope, error, out=np.zeros_like(error), where=error != 0.0))
    curved = curvature > 0.0
    if not curved.all():
        curvature = np.where(curved, curvature, curvature[curved].mean() if curved.any() else 1.0)
    return losses, slope, curvature


def _signs(y: Array) -> Array:
    """Return labels 0 and 1, or -1 and +1, as -1 and +1."""
    positive = y == 1.0
    if not (positive | (y == 0.0) | (y == -1.0)).all():
        raise ValueError(f"Labels are expected to be 0 and 1, or -1 and +1, got {np.unique(y)[:5]}; encode them.")
    return np.where(positive, 1.0, -1.0)


def _deviation(losses: Array, mass: Array, total: float) -> float:
    """Return the standard deviation of the losses."""
    away = losses - float(mass @ losses) / total
    return float(np.sqrt(mass @ (away * away) / total))
