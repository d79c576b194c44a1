"""What a choice of k saw, drawn: the measure against its price."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from atklearn.losses.individual import Array
from atklearn.selection.choosing import Selection

__all__ = ["KCurveDisplay", "pyplot"]

# Cells dearer than this many budgets, or than this price if there is no budget, would squeeze the rest of the picture.
_BUDGETS = 4.0
_DEAREST = 0.5


class KCurveDisplay:
    """The measure that k was chosen by, against the price in the mean of the loss.

    A dot is a cell of the grid of k and C. The line joins the front, the cells that no other beats in both measure and
    price, and says their k/n. The best average, the choice and the budget are marked; cells far beyond the budget are
    not drawn. Make one with :meth:`from_estimator`.

    Parameters
    ----------
    selection : Selection
        The ``selection_`` of an estimator that chose k.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    cells_ : matplotlib collection
        The dots.
    front_ : matplotlib line
    marks_ : dict of matplotlib artists
        By the names "average", "chosen" and "budget", those that are drawn.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from atklearn import ATkRegressor, KCurveDisplay
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((400, 2))
    >>> y = X[:, 0] + rng.exponential(size=400)
    >>> display = KCurveDisplay.from_estimator(ATkRegressor(tail=0.1, at_most=0.05).fit(X, y))
    >>> sorted(display.marks_)
    ['average', 'budget', 'chosen']
    """

    def __init__(self, selection: Selection) -> None:
        self.selection = selection

    @classmethod
    def from_estimator(cls, estimator: BaseEstimator, *, ax: Any = None, **line: Any) -> KCurveDisplay:
        """Draw what a fitted estimator chose its k from.

        Parameters
        ----------
        estimator : estimator
            With ``selection_``.
        ax : matplotlib Axes, default=None
            None makes a new figure.
        **line : dict
            Passed to ``Axes.plot`` for the front.

        Returns
        -------
        display : KCurveDisplay
        """
        selection = getattr(estimator, "selection_", None)
        if selection is None:
            raise ValueError(
                f"KCurveDisplay expects an estimator that chose its k, got {type(estimator).__name__} without "
                'selection_; call fit first, with k="auto" or an estimator whose name ends with CV.'
            )
        return cls(selection).plot(ax=ax, **line)

    def plot(self, ax: Any = None, **line: Any) -> KCurveDisplay:
        """Draw the front.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure.
        **line : dict
            Passed to ``Axes.plot`` for the front.

        Returns
        -------
        display : KCurveDisplay
        """
        chosen = self.selection
        if len(chosen.scores) == 0:
            raise ValueError(f"KCurveDisplay has nothing to draw. {chosen.reason}")
        if ax is None:
            _, ax = pyplot("KCurveDisplay").subplots()
        self.ax_, self.figure_ = ax, ax.figure
        budgeted = bool(np.isfinite(chosen.at_most))
        dearest = max(_BUDGETS * chosen.at_most if budgeted else _DEAREST, chosen.price)
        prices, measures = 100.0 * chosen.prices, -chosen.means if chosen.lowers else chosen.means
        drawn = np.isfinite(chosen.means) & (chosen.prices <= dearest)
        self.cells_ = ax.scatter(prices[drawn], measures[drawn], color="0.75", s=12, zorder=1, label="cells")
        front = _front(prices, chosen.means, drawn)
        x, y = (values[front[:, 0], front[:, 1]] for values in (prices, measures))
        (self.front_,) = ax.plot(x, y, **{"marker": "o", "label": "front, by k/n", "zorder": 2} | line)
        for (i, _), at_x, at_y in zip(front, x, y, strict=True):
            place = {"xytext": (4, 4), "textcoords": "offset points", "fontsize": "small"}
            ax.annotate(f"{chosen.ks[i]:.2g}", (at_x, at_y), **place)
        if chosen.incumbent is not None:
            before = float(-chosen.incumbent.mean() if chosen.lowers else chosen.incumbent.mean())
            ax.scatter(0.0, before, marker="D", color="tab:blue", zorder=3, label="the model as it was")
        self.marks_ = {
            name: ax.scatter(prices[cell], measures[cell], label=label, **style)
            for name, cell, label, style in (
                ("average", chosen.average, "best average", {"marker": "s", "color": "0.3", "zorder": 3}),
                ("chosen", chosen.chosen, "chosen", {"marker": "*", "color": "tab:green", "s": 160, "zorder": 4}),
            )
        }
        if budgeted:
            self.marks_["budget"] = ax.axvline(100.0 * chosen.at_most, color="tab:red", linestyle="--", label="budget")
        base = "the best average's" if chosen.incumbent is None else "the model's"
        ax.set(xlabel=f"mean loss above {base}, %", ylabel=chosen.measure)
        ax.legend()
        return self


def _front(prices: Array, means: Array, drawn: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp]:
    """Return the places of the cells that no other beats, from the cheapest on, shape (n_front, 2)."""
    places = np.argwhere(drawn)
    order = np.lexsort((-means[drawn], prices[drawn]))
    scores = means[drawn][order]
    best_before = np.append(-np.inf, np.maximum.accumulate(scores)[:-1])
    return places[order[scores > best_before]]


def pyplot(owner: str) -> ModuleType:
    """Import matplotlib when a display draws a figure."""
    try:
        from matplotlib import pyplot as plots
    except ImportError as error:
        raise ImportError(f"{owner} draws with matplotlib, which is not installed: pip install matplotlib.") from error
    return plots
