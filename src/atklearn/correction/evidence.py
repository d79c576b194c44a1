"""What a correction brings and costs, on rows that neither the models nor the choice have seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from atklearn.correction.layer import Target, mean_of_worst
from atklearn.losses.aggregate import ranked_loss
from atklearn.losses.individual import Array

__all__ = ["SHARES", "TailProfile", "lead_of"]

SHARES = (0.2, 0.1, 0.05, 0.02, 0.01)


@dataclass(frozen=True)
class TailProfile:
    """The worst errors, and the mean ones, of the model as it was, corrected, and stacked with k = n.

    All are of rows left out: models have not seen them, and k and C were chosen without them.

    Attributes
    ----------
    shares : tuple of float
        Of the rows.
    worst : dict of ndarray of shape (n_shares + 1,)
        For "plain", "corrected" and "average" (the same layer with k = n): the mean of each share of the worst errors,
        and the largest error.
    costs : dict of dict
        For the same three, "rmse" and "mae", or of classes "log_loss" and "error".
    lead, lead_error : float
        By how much the mean of the worst errors asked for is below that of the model as it was, and its standard error.

    Examples
    --------
    >>> from atklearn.correction import TailCorrectedRegressor
    >>> from sklearn.linear_model import Ridge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 2))
    >>> y = X[:, 0] + rng.exponential(size=500)
    >>> profile = TailCorrectedRegressor(Ridge(), experts=None, k=0.1, C=1.0).fit(X, y).profile_
    >>> profile.shares
    (0.2, 0.1, 0.05, 0.02, 0.01)
    >>> bool(profile.worst["corrected"][-1] < profile.worst["plain"][-1]), bool(profile.price("plain")["mae"] > 0.0)
    (True, True)
    """

    shares: tuple[float, ...]
    worst: Mapping[str, Array]
    costs: Mapping[str, Mapping[str, float]]
    lead: float
    lead_error: float

    @classmethod
    def of(cls, target: Target, mass: Array, predicted: Mapping[str, Array], tail: float) -> TailProfile:
        """Return the profile of predictions.

        Parameters
        ----------
        target : Target
        mass : ndarray of shape (n_samples,)
        predicted : dict of ndarray of shape (n_problems, n_samples)
        tail : float
            The share that was asked for; it is among those of the profile.

        Returns
        -------
        profile : TailProfile
        """
        worst, costs, sizes = {}, {}, {}
        shares = tuple(sorted({*SHARES, tail}, reverse=True))
        for name, values in predicted.items():
            errors = sizes[name] = target.errors(values)
            means = [mean_of_worst(errors, mass, share) for share in shares]
            worst[name] = np.array([*means, errors[mass > 0.0].max()])
            costs[name] = target.costs(values, mass)
        return cls(shares, worst, costs, *lead_of(sizes["plain"], sizes["corrected"], mass, tail))

    def uncorrected(self) -> TailProfile:
        """Return the profile of the model that was kept as it was: nothing is brought, nothing paid.

        Returns
        -------
        profile : TailProfile
        """
        worst, costs = dict(self.worst), dict(self.costs)
        worst["corrected"], costs["corrected"] = worst["plain"], costs["plain"]
        return replace(self, worst=worst, costs=costs)

    def price(self, beside: str) -> dict[str, float]:
        """Return by how much the mean errors of the corrected model are above another's, relative to them.

        Parameters
        ----------
        beside : {"plain", "average"}

        Returns
        -------
        price : dict of float
            By the names of the means.
        """
        return self.rises("corrected", beside)

    def rises(self, of: str, beside: str) -> dict[str, float]:
        """Return by how much the mean errors of one are above another's, relative to them.

        Parameters
        ----------
        of, beside : {"plain", "corrected", "average"}

        Returns
        -------
        rises : dict of float
            By the names of the means.
        """
        costs, base = self.costs[of], self.costs[beside]
        return {name: _rise(costs[name], base[name]) for name in costs}

    def __str__(self) -> str:
        names = [*(f"worst {100 * share:g} %" for share in self.shares), "largest", *self.costs["plain"]]
        rows = {name: [*self.worst[name], *self.costs[name].values()] for name in self.worst}
        lines = [f"{'':12}{'plain':>10}{'corrected':>12}{'':>9}{'k = n':>10}"]
        for place, name in enumerate(names):
            plain, corrected, average = (rows[each][place] for each in ("plain", "corrected", "average"))
            rise = f"({_rise(corrected, plain):+.1%})"
            lines.append(f"{name:12}{plain:>10.3g}{corrected:>12.3g}{rise:>9}{average:>10.3g}")
        return "\n".join(lines)


def lead_of(before: Array, after: Array, mass: Array, share: float) -> tuple[float, float]:
    r"""Return by how much the mean of the worst errors fell, and the standard error of that, from rows seen by nothing.

    The mean of the worst share a is an average over rows, of :math:`\lambda + \max(e_i - \lambda, 0) / a` with the
    (1 - a)-quantile :math:`\lambda`; so is the difference of two, whose rows are paired. Chance is counted in rows: one
    of weight 2 is one.

    Parameters
    ----------
    before, after, mass : ndarray of shape (n_samples,)
    share : float

    Examples
    --------
    >>> errors = np.array([1.0, 2.0, 3.0, 4.0])
    >>> lead_of(errors, 0.5 * errors, np.ones(4), 0.5)
    (1.75, 0.21650635094610965)
    """
    rows = []
    for errors in (before, after):
        threshold = ranked_loss(errors, mass, share * float(mass.sum()))
        rows.append(threshold + np.maximum(errors - threshold, 0.0) / share)
    differences, total = rows[0] - rows[1], float(mass.sum())
    lead = float(mass @ differences) / total
    return lead, float(np.sqrt(mass**2 @ (differences - lead) ** 2)) / total


def _rise(value: float, base: float) -> float:
    return value / base - 1.0 if base > 0.0 else (np.inf if value > 0.0 else 0.0)
