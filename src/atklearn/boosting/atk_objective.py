"""The average top-k loss as an objective of gradient boosting, for LightGBM and XGBoost alike.

AT_k is a maximum over densities, so its gradient is the loss's own, weighted by who is in the top k. Boosting needs
more: weights that do not jump from round to round, hence the smoothing, and a curvature for every row of a leaf: both
are in :mod:`atklearn.boosting.derivatives`. Wide smoothing is the average and narrow smoothing AT_k, so that the
schedule of its width leads from k = n towards k. Early stopping asks for AT_k itself, or for a measure by name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar
from scipy.special import logit

from atklearn.boosting.derivatives import derivatives
from atklearn.encoding.encoded import check_mass
from atklearn.losses.aggregate import AverageTopK, resolve_k
from atklearn.losses.individual import Array, IndividualLoss, LogLoss, resolve_individual_loss, task_of
from atklearn.losses.labels import one_versus_rest
from atklearn.measures.answers import Answers
from atklearn.measures.catalogue import MEASURES, names_of_measures
from atklearn.runtime import threads
from atklearn.runtime.messages import shown

__all__ = ["ATK", "ATkMetric", "ATkObjective", "check_sizes"]

ATK = "atk"
LIBRARIES = ("lightgbm", "xgboost")

# Scores between which the best constant of a classifier is looked for.
_FAR = 30.0
# Beyond these, squares of targets times sample weights leave the range of floats.
_SMALLEST, _LARGEST = 1e-100, 1e100
# Beyond this, what splits gain leaves the range of single precision, which the libraries count in.
_LARGEST_GAIN = 1e37


def check_sizes(what: str, values: Array) -> float:
    """Return the largest absolute value, or say that it is too far from one to square."""
    if not values.size:
        return 0.0
    largest = max(abs(end) for end in threads.extremes(values))
    if largest and not _SMALLEST <= largest <= _LARGEST:
        raise ValueError(
            f"{what} are expected to be {_SMALLEST:g} to {_LARGEST:g} at the largest, since boosting adds up their "
            f"squares, got {largest:g}; divide them by their largest."
        )
    return largest


@dataclass
class ATkObjective:
    r"""The average of the k largest losses, for ``objective=`` of LightGBM's and XGBoost's scikit-learn classes.

    Called with truth and raw predictions, it returns per row

    .. math:: g_i = m_i \frac{n}{k} r_i \, \ell'(f_i, y_i), \qquad
        h_i = m_i \max\big(\tfrac{n}{k} r_i, 1\big) \, \ell''(f_i, y_i)

    with densities r of the smoothed top k (see ``atklearn.boosting.derivatives``) and sample weights m. So a row
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
    smoothing : float or tuple of two floats, default=(3.0, 0.5)
        The width of the smoothing in standard deviations of the losses: at first and at last. From 30 on the objective
        is nearly the average, at 0.1 nearly AT_k.
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
    >>> from atklearn.boosting import ATkObjective
    >>> objective = ATkObjective(k=2)
    >>> objective
    ATkObjective(loss='squared_error', k=2, smoothing=(3.0, 0.5), rounds=100)
    >>> gradient, hessian = ATkObjective(k=2, smoothing=1e-6)(np.array([0.0, 1.0, 5.0, 9.0]), np.full(4, 4.0))
    >>> gradient.round(), hessian
    (array([  8.,   0.,  -0., -10.]), array([2., 1., 1., 2.]))

    With LightGBM, from the best constant on:

    >>> from lightgbm import LGBMRegressor
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> objective = ATkObjective(k=0.2, rounds=30)
    >>> start = np.full(len(y), objective.start(y))
    >>> model = LGBMRegressor(objective=objective, n_estimators=30, n_jobs=1, verbosity=-1)
    >>> model = model.fit(X, y, init_score=start)
    >>> bool(abs(y - model.predict(X) - start).max() < abs(y - start).max())
    True
    """

    loss: str | IndividualLoss = "squared_error"
    k: float = 0.2
    smoothing: float | tuple[float, float] = (3.0, 0.5)
    rounds: int = 100
    _round: int = field(default=0, init=False, repr=False, compare=False)
    _guesses: dict[int, float] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        task_of(self.loss)
        resolve_k(self.k, np.inf)
        widths = np.atleast_1d(np.asarray(self.smoothing, dtype=np.float64))
        if widths.size not in (1, 2) or not ((widths >= _SMALLEST) & (widths <= _LARGEST)).all():
            raise ValueError(
                f"smoothing is expected to be one or two widths > 0, first and last, of {_SMALLEST:g} to {_LARGEST:g}, "
                f"got {shown(self.smoothing)}."
            )
        if not isinstance(self.rounds, Integral) or self.rounds < 1:
            raise ValueError(f"rounds is expected to be an int >= 1, got {shown(self.rounds)}.")

    def __call__(
        self, y_true: npt.ArrayLike, y_pred: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
    ) -> tuple[Array, Array]:
        """Return gradient and hessian of the round.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Targets; for classes 0 and 1, or -1 and +1; for several columns of predictions their numbers from 0.
        y_pred : array-like of shape (n,) or (n, n_classes)
            Raw predictions.
        sample_weight : array-like of shape (n,), default=None

        Returns
        -------
        gradient, hessian : ndarray of the shape of the predictions
        """
        predictions, y = _doubles(y_pred), _doubles(y_true)
        if y.ndim != 1 or predictions.shape[:1] != y.shape or predictions.ndim > 2 or y.size == 0:
            raise ValueError(
                f"Truth and predictions are expected for the same rows, got shapes {y.shape} and {predictions.shape}."
            )
        mass = None if sample_weight is None else check_mass(sample_weight, y.size)
        if np.array_equal(predictions[0], predictions[-1]) and (predictions == predictions[:1]).all():
            self._round = 0
            self._guesses.clear()
        is_first, width = self._round == 0, self.width_at(self._round)
        several = predictions.ndim == 2
        if is_first:
            self._check_sizes(y, mass)
            if self._classifies and not several:
                _signs(y)
        self._round += 1
        total = float(y.size if mass is None else mass.sum())
        k, found = resolve_k(self.k, total), []
        for place, f in enumerate(predictions.T if several else [predictions]):
            positive = None if not self._classifies else float(place) if several else 1.0
            gradient, hessian, self._guesses[place] = derivatives(
                self._individual, np.ascontiguousarray(f), y, mass, total, k, width, self._guesses.get(place, 0.0),
                positive,
            )  # fmt: skip
            found.append((gradient, hessian))
            steepest = float(np.abs(gradient).max()) if is_first else 0.0
            if steepest / float(hessian.max()) * steepest * y.size > _LARGEST_GAIN:
                raise ValueError(
                    "Gradients are expected whose squares boosting libraries can add up in single precision, got "
                    f"{y.size} of up to {steepest:g}; divide the targets, or the sample weights, by their largest."
                )
        if not several:
            return found[0]
        gradients, hessians = (np.column_stack(each) for each in zip(*found, strict=True))
        return gradients, hessians

    def _check_sizes(self, y: Array, mass: Array | None) -> None:
        if mass is not None:
            check_sizes("Sample weights", mass)
        if not self._classifies:
            check_sizes("Targets", y)

    def width_at(self, number: int) -> float:
        """Return the width of the smoothing in a round, in standard deviations of the losses.

        Parameters
        ----------
        number : int
            Of the round, counted from 0.

        Returns
        -------
        width : float
        """
        first, last = self.smoothing if isinstance(self.smoothing, tuple | list) else (self.smoothing, self.smoothing)
        return float(first * (last / first) ** min(number / self.rounds, 1.0))

    def start(self, y_true: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None) -> float:
        """Return the constant with the smallest AT_k: the mean for squared error and k = n, the log-odds for log loss.

        It is ``init_score`` for every row in LightGBM, to be added to what its model predicts, and ``base_score`` in
        XGBoost.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Targets; for classes 0 and 1, or -1 and +1.
        sample_weight : array-like of shape (n,), default=None

        Returns
        -------
        constant : float

        Examples
        --------
        >>> ATkObjective(k=1.0).start([0.0, 1.0, 5.0]), round(ATkObjective(k=1).start([0.0, 1.0, 5.0]), 4)
        (2.0, 2.5)
        """
        y = np.asarray(y_true, dtype=np.float64)
        mass = check_mass(sample_weight, y.size)
        y, mass = y[mass > 0.0], mass[mass > 0.0]
        self._check_sizes(y, mass)
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
        top = AverageTopK(k / float(mass.sum()))

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

        Returns
        -------
        metric : ATkMetric
        """
        return ATkMetric(measure, self.loss, self.k, library)

    @property
    def _individual(self) -> IndividualLoss:
        return resolve_individual_loss(self.loss, task_of(self.loss))

    @property
    def _classifies(self) -> bool:
        return task_of(self.loss) == "classification"

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_round": 0, "_guesses": {}}


def _doubles(values: npt.ArrayLike) -> Array:
    """Return numbers in double precision: the libraries keep labels, and one of them predictions, in single."""
    given = np.asarray(values)
    if given.dtype == np.float64 or given.ndim != 1:
        return np.ascontiguousarray(given, dtype=np.float64)  # loops would be compiled anew for gaps between rows
    return threads.fill(np.empty(given.size), np.positive, given)


def _signs(y: Array) -> Array:
    """Return labels 0 and 1, or -1 and +1, as -1 and +1."""
    positive = y == 1.0
    if not (positive | (y == 0.0) | (y == -1.0)).all():
        raise ValueError(f"Labels are expected to be 0 and 1, or -1 and +1, got {np.unique(y)[:5]}; encode them.")
    return np.where(positive, 1.0, -1.0)


@dataclass(frozen=True)
class ATkMetric:
    """What LightGBM's and XGBoost's scikit-learn classes take as ``eval_metric``, computed from raw predictions.

    Parameters
    ----------
    measure : str, default="atk"
        "atk" is the average of the k largest losses; else the name of a measure for the task of the loss.
    loss : str or IndividualLoss, default="squared_error"
        The individual loss; it says whether targets are classes or numbers.
    k : int or float, default=0.2
        Of "atk": an int counts rows, a float is the fraction of them.
    library : {"lightgbm", "xgboost"}, default="lightgbm"
        LightGBM expects a name, a value and whether higher is better; XGBoost a value that is to fall, so that a
        measure that should rise comes with a minus sign.

    Examples
    --------
    >>> import numpy as np
    >>> from atklearn.boosting import ATkMetric
    >>> ATkMetric("max_error")(np.array([0.0, 1.0]), np.array([0.5, 3.0]))
    ('max_error', 2.0, False)
    >>> ATkMetric("atk", k=1, library="xgboost")(np.array([0.0, 1.0]), np.array([0.5, 3.0]))
    4.0
    """

    measure: str = ATK
    loss: str | IndividualLoss = "squared_error"
    k: float = 0.2
    library: str = "lightgbm"

    def __post_init__(self) -> None:
        task = task_of(self.loss)
        known = [ATK, *(name for name in names_of_measures(task) if not MEASURES[name].by_group)]
        if self.measure not in known:
            raise ValueError(f"A metric for {task} is expected to be one of {known}, got {self.measure!r}.")
        if self.library not in LIBRARIES:
            raise ValueError(f"library is expected to be one of {LIBRARIES}, got {self.library!r}.")

    @property
    def __name__(self) -> str:
        """What XGBoost calls it in its records."""
        return self.measure

    @property
    def higher_is_better(self) -> bool:
        """Whether it should rise."""
        return self.measure != ATK and MEASURES[self.measure].higher_is_better

    def __call__(
        self, y_true: npt.ArrayLike, y_pred: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
    ) -> tuple[str, float, bool] | float:
        """Return what the library expects, from truth and raw predictions as the objective gets them.

        Parameters
        ----------
        y_true : array-like of shape (n,)
        y_pred : array-like of shape (n,) or (n, n_classes)
        sample_weight : array-like of shape (n,), default=None

        Returns
        -------
        answer : float, or tuple of str, float and bool
        """
        value = self.value(y_true, y_pred, sample_weight)
        if self.library == "xgboost":
            return -value if self.higher_is_better else value
        return self.measure, value, self.higher_is_better

    def value(self, y_true: npt.ArrayLike, y_pred: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None) -> float:
        """Return the measure of raw predictions.

        Parameters
        ----------
        y_true : array-like of shape (n,)
        y_pred : array-like of shape (n,) or (n, n_classes)
        sample_weight : array-like of shape (n,), default=None

        Returns
        -------
        value : float
        """
        y, decisions = np.asarray(y_true, dtype=np.float64), np.asarray(y_pred, dtype=np.float64)
        weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        task = task_of(self.loss)
        classes = None
        if task == "classification":
            # one column is about the second of two classes, whatever both are called; several have theirs from 0
            classes = np.arange(2.0 if decisions.ndim == 1 else float(decisions.shape[1]))
            y = np.maximum(y, 0.0)
        decisions = np.atleast_2d(decisions.T)
        if self.measure != ATK:
            answers = Answers.from_decisions(decisions, y, classes, loss=self.loss, sample_weight=weight)
            return float(MEASURES[self.measure].evaluate(answers))
        targets = [y] if classes is None else one_versus_rest(y, classes)
        loss, top = resolve_individual_loss(self.loss, task), AverageTopK(self.k)
        return float(np.mean([top.value(loss(f, each), weight) for f, each in zip(decisions, targets, strict=True)]))
