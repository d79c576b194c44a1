"""Theorem 1: how large k/n has to be for the average top-k loss to tell the classes apart.

For a convex margin loss l with l'(0) < 0 and nu = lim k/n, the theorem says that

    (i)   nu > E*_l / l(0)   is enough for calibration, E*_l being the smallest l-risk,
    (ii)  nu >= R*           is necessary, R* being the Bayes error.

The switch lies in between, and can be named: it is the smallest *hinge* risk, whatever the loss. If nu is smaller, the
zero function is optimal; if it is larger, it is not. Over all functions the smallest hinge risk is 2 R*; over linear
functions on a sample it is k*/n of :func:`atklearn.core.collapse.collapse_limit`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.stats import beta, norm, skew
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.utils import check_random_state

from atklearn.core.collapse import CollapseWarning, collapse_limit
from atklearn.encoding.encoded import ProblemEncoder, check_training, intercept_kind
from atklearn.estimators.linear import ATkClassifier
from atklearn.losses.individual import Array, Hinge, IndividualLoss, resolve_individual_loss
from atklearn.losses.labels import one_versus_rest
from atklearn.theory.checks import check_share

__all__ = ["CalibrationInterval", "calibration_interval"]

Rows: TypeAlias = Array | sp.csr_matrix | sp.csr_array
Folds: TypeAlias = Sequence[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]

# The sample's switch is computed on at most so many rows: enough for two digits, and as many as collapse_limit takes.
_SWITCH_ROWS = 10_000


@dataclass(frozen=True)
class CalibrationInterval:
    """Where the switch from degenerate to calibrated lies: see :func:`atklearn.theory.calibration_interval`."""

    lower: float
    upper: float
    bayes_error: float
    risk: float
    switch: float
    switch_lower: float
    switch_upper: float
    confidence: float
    n_samples: int

    @property
    def degenerate_k(self) -> int:
        """The largest count k that is too small with the stated confidence (0 if there is none)."""
        return math.floor(self.lower * self.n_samples)

    @property
    def calibrated_k(self) -> int | None:
        """The smallest count k that is large enough with the stated confidence, or None if not even n is."""
        k = math.floor(self.upper * self.n_samples) + 1
        return k if k <= self.n_samples else None

    def __str__(self) -> str:
        few = "no k is known to be" if self.degenerate_k == 0 else f"k <= {self.degenerate_k} is"
        enough = "no k is known to be" if self.calibrated_k is None else f"k >= {self.calibrated_k} is"
        return (
            f"Calibration of AT_k on n = {self.n_samples} samples, confidence {self.confidence:g}:\n"
            f"  the switch lies at k/n in [{self.lower:.3f}, {self.upper:.3f}]; "
            f"{few} too small, {enough} large enough\n"
            f"  Bayes error (estimate)   {self.bayes_error:.3f}\n"
            f"  optimal risk (estimate)  {self.risk:.3f} in units of l(0)\n"
            f"  switch of this sample    {self.switch:.3f}; "
            f"of the population in [{self.switch_lower:.3f}, {self.switch_upper:.3f}]"
        )


def calibration_interval(
    X: npt.ArrayLike | sp.spmatrix | sp.sparray,
    y: npt.ArrayLike,
    loss: str | IndividualLoss = "log_loss",
    *,
    C: float = 100.0,
    fit_intercept: bool = True,
    cv: int = 5,
    confidence: float = 0.95,
    random_state: int | np.random.RandomState | None = None,
) -> CalibrationInterval:
    r"""Estimate the interval of k/n in which linear models turn from degenerate to calibrated (Theorem 1).

    .. math:: R^* \;\le\; \inf_f E[1 - y f(x)]_+ \;\le\; \inf_f E[\ell(y f(x))] / \ell(0)

    with f linear. The middle is the switch. Both ends err outwards: held-out risks of fitted models are above the
    optimal risk on average, and the smallest hinge risk on the sample, k*/n, is below that of the population.

    - ``upper``: upper confidence bound of the cross-validated l-risk, corrected for skewness; never below ``switch``.
    - ``switch_lower``: k*/n minus the margin of the hinge risk.
    - ``lower``: the Clopper-Pearson lower bound of the cross-validated error; never above ``switch_lower``. No sample
      can bound the Bayes error itself from below without assumptions: if a nonlinear rule is much better than every
      linear one, ``bayes_error`` is that of the linear rule. The switch of linear functions is bounded all the same.

    Each end has error probability ``(1 - confidence) / 2``, for large samples: no bound can know of losses that the
    sample does not show. The samples have to be independent draws from the distribution that k is chosen for.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Standardised, or otherwise of order one, so that C hardly restrains the fits.
    y : array-like of shape (n_samples,)
        Two classes.
    loss : str or IndividualLoss, default="log_loss"
        A classification loss.
    C : float, default=100.0
        Of the cross-validated fits, at k = n. A poor choice widens the interval and does no other harm.
    fit_intercept : bool, default=True
    cv : int, default=5
        The number of stratified folds.
    confidence : float, default=0.95
    random_state : int, RandomState instance or None, default=None
        Shuffles the folds.

    Returns
    -------
    interval : CalibrationInterval
        In units of k/n: ``lower`` and ``upper`` are confidence bounds of the two ends of Theorem 1, ``bayes_error`` and
        ``risk`` (of which the estimates are given, the latter in units of ``l(0)``). ``switch`` is that of this
        sample: at or below it the fit is w = 0; ``switch_lower`` and ``switch_upper`` are bounds of the population's.
        ``degenerate_k`` is the largest count that is too small with the stated confidence, 0 if there is none, and
        ``calibrated_k`` the smallest that is large enough, None if there is none. :func:`print` shows it in words.

    Examples
    --------
    >>> import numpy as np
    >>> from atklearn.theory import calibration_interval
    >>> rng = np.random.default_rng(0)
    >>> X = np.eye(2)[rng.integers(2, size=1000)]  # two points, one label in ten is wrong: the switch is at 0.2
    >>> y = np.where(rng.random(1000) < 0.1, X[:, 0], X[:, 1])
    >>> interval = calibration_interval(X, y, "hinge", fit_intercept=False, random_state=0)
    >>> interval.lower < 0.2 < interval.upper, round(interval.bayes_error, 2)
    (True, 0.1)
    """
    X, y = check_training(None, X, y, dtype=np.float64)
    target = _signs(np.asarray(y), cv)
    check_share("confidence", confidence, "0.95 is usual")
    rng = check_random_state(random_state)
    folds = list(StratifiedKFold(cv, shuffle=True, random_state=rng).split(X, target))
    loss = resolve_individual_loss(loss, "classification")

    margins = _held_out_margins(X, target, loss, C, fit_intercept, folds)
    hinge_margins = margins
    if not isinstance(loss, Hinge):
        hinge_margins = _held_out_margins(X, target, Hinge(), C, fit_intercept, folds)
    one_sided = 0.5 * (1.0 - confidence)
    risk, upper, _ = _mean_and_bound(loss, margins, one_sided)
    _, switch_upper, error = _mean_and_bound(Hinge(), hinge_margins, one_sided)

    n = target.size
    switch, rows = _switch(X, target, fit_intercept, rng)
    switch_lower = max(switch - float(norm.isf(one_sided)) * error * math.sqrt(n / rows), 0.0)
    errors = int(np.count_nonzero(margins <= 0.0))
    error_lower = float(beta.ppf(one_sided, errors, n - errors + 1)) if errors else 0.0
    return CalibrationInterval(
        lower=min(error_lower, switch_lower),
        upper=max(upper, switch),
        bayes_error=errors / n,
        risk=risk,
        switch=switch,
        switch_lower=switch_lower,
        switch_upper=max(switch_upper, switch),
        confidence=confidence,
        n_samples=n,
    )


def _signs(y: npt.NDArray[np.generic], cv: int) -> Array:
    """Return the two classes as -1 and +1, and make sure that every fold has both."""
    classes, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    if classes.size != 2:
        raise ValueError(
            f"calibration_interval expects y to hold two classes, got {classes.size}; "
            "for more, look at one class against the rest."
        )
    if counts.min() < cv:
        raise ValueError(
            f"calibration_interval expects at least cv={cv} samples of each class, got {counts.min()}; lower cv."
        )
    return np.asarray(one_versus_rest(codes, [0, 1])[0])


def _held_out_margins(X: Rows, y: Array, loss: IndividualLoss, C: float, fit_intercept: bool, folds: Folds) -> Array:
    """Return ``y f(x)`` of every sample, f being the average-loss fit that did not see its fold."""
    model = ATkClassifier(loss, k=1.0, C=C, fit_intercept=fit_intercept)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapseWarning)  # no better than chance: the risk of one says so
        scores: Array = cross_val_predict(model, X, y, cv=folds, method="decision_function")
    return y * scores


def _mean_and_bound(loss: IndividualLoss, margins: Array, one_sided: float) -> tuple[float, float, float]:
    """Return the mean of the losses in units of ``l(0)``, its upper confidence bound, and its standard error.

    Losses are skewed to the right: a sample short of the rare large ones has too small a mean and too small an error,
    and the normal bound is passed too often. Hall's correction for the skewness widens it, and one more sample with the
    largest loss stands for those not seen.
    """
    n = margins.size
    losses = loss(np.append(margins, -1.0), np.ones(n + 1)) / loss.at_zero
    mean = float(losses[:n].mean())
    losses[n] = losses.max()
    error = float(losses.std(ddof=1)) / math.sqrt(n)
    z = float(norm.isf(one_sided))
    stretched = z + float(skew(losses)) * (2.0 * z**2 + 1.0) / (6.0 * math.sqrt(n))
    return mean, float(losses.mean()) + max(stretched, z) * error, error


def _switch(X: Rows, y: Array, fit_intercept: bool, rng: np.random.RandomState) -> tuple[float, int]:
    """Return k*/n and the number of rows it was computed on."""
    rows = min(y.size, _SWITCH_ROWS)
    if rows < y.size:
        part = np.sort(rng.choice(y.size, rows, replace=False))
        X, y = X[part], y[part]
    encoder = ProblemEncoder(Hinge(), intercept_kind(fit_intercept, False))
    return collapse_limit(encoder.on(X, y).problems[0]) / rows, rows
