"""The score against k, drawn."""

from __future__ import annotations

from typing import Any

import numpy as np

from atklearn.losses.individual import Array

__all__ = ["KCurveDisplay"]

# A grid whose ends differ by more than this factor is drawn on a log axis.
_WIDE = 5.0
# In lengths of the curve: how far off a mark may be to be drawn, and how far the axis goes on at either end.
_NEARBY = 0.5
_PADDING = 0.05


class KCurveDisplay:
    """Cross-validated score against k, with its spread over the folds.

    For every k the curve takes the best C. Vertical lines mark the choice, the calibration bound, all samples (k = n,
    the average loss) and one of them (k = 1, the maximum loss); not those so far off that they would squeeze the curve.
    The axis of k is logarithmic if the grid spans more than a factor of five. Make one with :meth:`from_estimator` or
    :meth:`from_cv_results`.

    Parameters
    ----------
    ks : ndarray of shape (n_ks,)
        Fractions of the samples, ascending.
    mean_score, standard_error : ndarray of shape (n_ks,)
        Of the best C of each k.
    chosen_k : float, default=None
        The choice, to mark it.
    calibration_bound : float, default=None
        The fraction at or below which classifiers collapse to w = 0.
    n_samples : int, default=None
        To mark k = 1.
    score_name : str, default="score"
        What to write at the axis.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib line
        The curve.
    band_ : matplotlib collection
        One standard error to either side.
    marks_ : dict of matplotlib artists
        By the names "k = 1", "k = n", "chosen" and "calibration bound", those that are drawn.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from atklearn import ATkClassifierCV, KCurveDisplay
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> display = KCurveDisplay.from_estimator(ATkClassifierCV(ks=4, Cs=[1.0], cv=3).fit(scale(X), y))
    >>> sorted(display.marks_)
    ['calibration bound', 'chosen', 'k = n']
    """

    def __init__(
        self,
        *,
        ks: Array,
        mean_score: Array,
        standard_error: Array,
        chosen_k: float | None = None,
        calibration_bound: float | None = None,
        n_samples: int | None = None,
        score_name: str = "score",
    ) -> None:
        self.ks = ks
        self.mean_score = mean_score
        self.standard_error = standard_error
        self.chosen_k = chosen_k
        self.calibration_bound = calibration_bound
        self.n_samples = n_samples
        self.score_name = score_name

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **line: Any) -> KCurveDisplay:
        """Draw the curve of a fitted :class:`atklearn.ATkClassifierCV` or :class:`atklearn.ATkRegressorCV`.

        Parameters
        ----------
        estimator : estimator
            Its fit may have been interrupted.
        ax : matplotlib Axes, default=None
            None makes a new figure.
        **line : dict
            Passed to ``Axes.plot``.

        Returns
        -------
        display : KCurveDisplay
        """
        if not hasattr(estimator, "cv_results_"):
            raise ValueError(
                "KCurveDisplay expects an ATkClassifierCV or ATkRegressorCV with scores, got "
                f"{type(estimator).__name__} without cv_results_; call fit first."
            )
        scoring = estimator.scoring
        name = scoring if isinstance(scoring, str) else getattr(scoring, "__name__", "score")
        return cls.from_cv_results(
            estimator.cv_results_,
            ax=ax,
            chosen_k=getattr(estimator, "k_share_", None),
            calibration_bound=getattr(estimator, "calibration_bound_", None),
            n_samples=getattr(estimator, "n_samples_", None),
            score_name=name,
            **line,
        )

    @classmethod
    def from_cv_results(
        cls,
        cv_results: dict[str, Any],
        *,
        ax: Any = None,
        chosen_k: float | None = None,
        calibration_bound: float | None = None,
        n_samples: int | None = None,
        score_name: str = "score",
        **line: Any,
    ) -> KCurveDisplay:
        """Draw the curve of a ``cv_results_``, also of a ``GridSearchCV`` over fractions ``k`` (and anything else).

        Parameters
        ----------
        cv_results : dict
            With ``param_k``, ``mean_test_score``, ``std_test_score`` and ``split0_test_score`` and so on.
        ax : matplotlib Axes, default=None
            None makes a new figure.
        chosen_k, calibration_bound : float, default=None
            Fractions to mark, as in the class.
        n_samples : int, default=None
            To mark k = 1.
        score_name : str, default="score"
            What to write at the axis.
        **line : dict
            Passed to ``Axes.plot``.

        Returns
        -------
        display : KCurveDisplay
        """
        k = np.asarray(cv_results["param_k"], dtype=float)
        mean, std = np.asarray(cv_results["mean_test_score"]), np.asarray(cv_results["std_test_score"])
        n_splits = sum(name.startswith("split") for name in cv_results)
        cells = [
            np.flatnonzero(k == value)[np.argmax(mean[k == value])]
            for value in np.unique(k[np.isfinite(mean)])
            if np.isfinite(mean[k == value]).all()
        ]
        display = cls(
            ks=k[cells],
            mean_score=mean[cells],
            standard_error=std[cells] / np.sqrt(max(n_splits - 1, 1)),
            chosen_k=chosen_k,
            calibration_bound=calibration_bound,
            n_samples=n_samples,
            score_name=score_name,
        )
        return display.plot(ax=ax, **line)

    def plot(self, ax: Any = None, **line: Any) -> KCurveDisplay:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure.
        **line : dict
            Passed to ``Axes.plot``.

        Returns
        -------
        display : KCurveDisplay
        """
        if ax is None:
            _, ax = _pyplot().subplots()
        self.ax_, self.figure_ = ax, ax.figure
        (self.line_,) = ax.plot(self.ks, self.mean_score, **{"marker": "o", "label": "mean over the folds"} | line)
        self.band_ = ax.fill_between(
            self.ks,
            self.mean_score - self.standard_error,
            self.mean_score + self.standard_error,
            color=self.line_.get_color(),
            alpha=0.2,
            linewidth=0.0,
            label="one standard error",
        )
        marks = {
            "k = 1": (None if self.n_samples is None else 1.0 / self.n_samples, {"color": "0.7", "linestyle": ":"}),
            "k = n": (1.0, {"color": "0.7", "linestyle": "-"}),
            "calibration bound": (self.calibration_bound, {"color": "tab:red", "linestyle": "--"}),
            "chosen": (self.chosen_k, {"color": "tab:green", "linestyle": "-."}),
        }
        scale, limits = _axis_of(self.ks, [place for place, _ in marks.values() if place is not None])
        self.marks_ = {
            name: ax.axvline(place, label=name, zorder=0, **style)
            for name, (place, style) in marks.items()
            if place is not None and limits[0] < place < limits[1]
        }
        ax.set(xscale=scale, xlim=limits, xlabel="k / n", ylabel=self.score_name)
        if scale == "log":  # the ticks of a log axis are powers of ten by default, of which there may be one or none
            from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

            ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            ax.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:g}"))
            ax.xaxis.set_minor_locator(NullLocator())
        ax.legend()
        return self


def _axis_of(ks: Array, places: list[float]) -> tuple[str, tuple[float, float]]:
    """Return the scale and the limits of an axis that shows all of some ks, and of other places those nearby."""
    low, high = float(min(ks, default=1.0)), float(max(ks, default=1.0))
    scale = "log" if high > _WIDE * low else "linear"
    forth, back = (np.log, np.exp) if scale == "log" else (np.asarray, np.asarray)
    first, last = float(forth(low)), float(forth(high))
    length = last - first or 1.0
    reach = (1.0 + 1e-9) * _NEARBY * length  # the bound below a grid of three is just so far, give or take rounding
    near = [at for at in forth(np.array(places)).tolist() if first - reach <= at <= last + reach]
    ends = np.array([min([first, *near]) - _PADDING * length, max([last, *near]) + _PADDING * length])
    left, right = back(ends).tolist()
    return scale, (left, right)


def _pyplot() -> Any:
    """Import matplotlib when a figure is asked for."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            "KCurveDisplay draws with matplotlib, which is not installed: pip install matplotlib."
        ) from error
    return pyplot
