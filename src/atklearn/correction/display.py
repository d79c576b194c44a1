"""What a correction was chosen from and what it brings, drawn."""

from __future__ import annotations

from typing import Any

import numpy as np

from atklearn.correction.corrected import TailCorrected
from atklearn.correction.evidence import TailProfile
from atklearn.selection.choosing import Selection
from atklearn.selection.display import KCurveDisplay, pyplot

__all__ = ["TailFrontDisplay"]


class TailFrontDisplay:
    """The tail against its price, and the worst errors before and after.

    On the left, every cell of the grid of k and C, as in :class:`atklearn.KCurveDisplay`, with the model as it was. On
    the right the tail profile: the mean of the worst 20, 10, 5, 2 and 1 % of the errors and the largest, relative to
    the model as it was. Make one with :meth:`from_estimator`.

    Parameters
    ----------
    selection : Selection
        The ``selection_`` of an estimator.
    profile : TailProfile
        Its ``profile_``.

    Attributes
    ----------
    figure_ : matplotlib Figure
    front_ : KCurveDisplay
        The left side.
    bars_ : dict of matplotlib containers
        The right side, by "corrected" and "average".

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import numpy as np
    >>> from atklearn.correction import TailCorrectedRegressor, TailFrontDisplay
    >>> from sklearn.linear_model import Ridge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> y = X[:, 0] + rng.exponential(size=300)
    >>> display = TailFrontDisplay.from_estimator(TailCorrectedRegressor(Ridge(), experts=None).fit(X, y))
    >>> sorted(display.bars_)
    ['average', 'corrected']
    """

    def __init__(self, selection: Selection, profile: TailProfile) -> None:
        self.selection = selection
        self.profile = profile

    @classmethod
    def from_estimator(cls, estimator: TailCorrected, *, axes: Any = None) -> TailFrontDisplay:
        """Draw what a fitted estimator chose from, and what it brings.

        Parameters
        ----------
        estimator : TailCorrectedRegressor or TailCorrectedClassifier
            Fitted.
        axes : sequence of two matplotlib Axes, default=None
            None makes a new figure.

        Returns
        -------
        display : TailFrontDisplay
        """
        if not hasattr(estimator, "profile_"):
            raise ValueError(
                f"TailFrontDisplay expects a fitted tail correction, got {type(estimator).__name__} without profile_; "
                "call fit first."
            )
        return cls(estimator.selection_, estimator.profile_).plot(axes=axes)

    def plot(self, axes: Any = None) -> TailFrontDisplay:
        """Draw both sides.

        Parameters
        ----------
        axes : sequence of two matplotlib Axes, default=None
            None makes a new figure.

        Returns
        -------
        display : TailFrontDisplay
        """
        if axes is None:
            _, axes = pyplot("TailFrontDisplay").subplots(1, 2, figsize=(11.0, 4.2), layout="constrained")
        front, profile = axes
        self.figure_ = front.figure
        self.front_ = KCurveDisplay(self.selection).plot(ax=front)
        names = [*(f"{100 * share:g} %" for share in self.profile.shares), "largest"]
        places = range(len(names))
        plain = self.profile.worst["plain"]
        self.bars_ = {}
        for name, label, shift, color in (
            ("corrected", "corrected", -0.2, "tab:green"),
            ("average", "the same with k = n", 0.2, "0.7"),
        ):
            rise = self.profile.worst[name] - plain
            change = 100.0 * np.divide(rise, plain, out=np.zeros(plain.shape), where=plain > 0.0)
            costs = ", ".join(f"{key} {value:+.1%}" for key, value in self.profile.rises(name, "plain").items())
            at = [place + shift for place in places]
            self.bars_[name] = profile.bar(at, change, width=0.4, color=color, label=f"{label}: {costs}")
        profile.axhline(0.0, color="0.3", linewidth=0.8)
        profile.set_xticks(list(places), names)
        profile.set(xlabel="worst errors on rows left out", ylabel="change beside the model as it was, %")
        profile.legend()
        return self
