"""The families of models that a comparison is about: what is tried of each, how it is fitted, and what it weighs.

A grid has two axes. One is k; the other is the *strength*, how closely a fit may follow its training part: the C of a
linear model, or the rounds of boosted trees. What the report calls them is in :mod:`atklearn.report.family_words`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from atklearn.core.collapse import collapse_share
from atklearn.encoding.encoded import ProblemEncoder
from atklearn.estimators.linear import ATkClassifier, ATkRegressor
from atklearn.losses.individual import Array, Task, resolve_individual_loss
from atklearn.selection.folds import Fold, Split
from atklearn.study.methods import AVERAGE_ONLY, COMPARED_LOSSES
from atklearn.study.results import relative_gaps

__all__ = ["FAMILIES", "BoostedModels", "Family", "LinearModels", "family_named", "has_boosting"]


class Family(ABC):
    """A family of models, with the grid that is tried of it.

    Attributes
    ----------
    name : str
        Of the option ``--model``.
    axis : str
        What the strength is called.
    has_lines : bool
        Whether a fit is a weight per feature and an intercept, which can be drawn as a line.
    tol : float or None
        The duality gap allowed in every fit of the grid, relative to its objective; None if the fits know none.
    """

    name: ClassVar[str]
    axis: ClassVar[str]
    has_lines: ClassVar[bool]
    tol: float | None

    @classmethod
    @abstractmethod
    def check_installed(cls) -> None:
        """Raise in one sentence if what the models need is not there."""

    @abstractmethod
    def coarse(self) -> Self:
        """Return the family with the grid of a quick look."""

    @abstractmethod
    def losses(self, task: Task, asked: Sequence[str] = ()) -> tuple[str, ...]:
        """Return the individual losses to compare: those asked for, if they can be had, else the usual ones."""

    @abstractmethod
    def repeats(self, repeats: int) -> int:
        """Return how many repeats to make where linear models have so many."""

    @property
    @abstractmethod
    def strengths(self) -> npt.NDArray[Any]:
        """The second axis of the grid, ascending."""

    @property
    def drops(self) -> tuple[float, ...]:
        """The parts of the largest losses to set aside, in grids of their own; none if the models cannot do that."""
        return ()

    def setting_aside(self, drop: float) -> Self:
        """Return the family whose fits set a part of the largest losses aside."""
        if drop > 0.0:
            raise ValueError(f"Models that set rows aside are expected to be linear, got {self.name}.")
        return self

    @abstractmethod
    def ks(self, encoder: ProblemEncoder, loss: str, weights: str, X: Any, y: npt.NDArray[Any]) -> list[float]:
        """Return the first axis for a training part: shares of its rows, ascending to 1.0, and perhaps 1 before them.

        Parameters
        ----------
        encoder : ProblemEncoder
            The loss and the class weights.
        loss, weights : str
            What these are called.
        X, y : array-like
            The training part.
        """

    @abstractmethod
    def answer(
        self, encoder: ProblemEncoder, X: Any, y: npt.NDArray[Any], split: Split, ks: Sequence[float]
    ) -> tuple[Array, npt.NDArray[Any] | None, Array | None]:
        """Fit the grid on some rows and ask it about others.

        Parameters
        ----------
        encoder : ProblemEncoder
        X, y : array-like
        split : tuple of ndarrays
            The rows to fit, and the others.
        ks : sequence of float

        Returns
        -------
        decisions : ndarray of shape (n_ks, n_strengths, n_problems, n_others)
            Log-odds, other decision values, or predictions.
        classes : ndarray or None
            None for a regression.
        gaps : ndarray of shape (n_ks, n_strengths, n_problems) or None
            Relative duality gaps; None if the fits know none.
        """

    @abstractmethod
    def estimator(self, task: Task, *, loss: str, k: float, strength: float, class_weight: Any = None) -> Any:
        """Return a model of the made features, not fitted."""

    @abstractmethod
    def feature_weights(self, fitted: Any, scale: float = 1.0) -> Array:
        """Return what the features weigh in a fit, shape (n_problems, n_features).

        Parameters
        ----------
        fitted : estimator
            As :meth:`estimator` returns it, fitted.
        scale : float, default=1.0
            Units of the target for one unit of what the fit says.
        """

    @abstractmethod
    def gaps(self, fitted: Any) -> Array | None:
        """Return the relative duality gaps of a fit; None if it knows none."""


@dataclass(frozen=True)
class LinearModels(Family):
    """Linear models: k against C, each fit with a certificate.

    Attributes
    ----------
    n_ks, n_Cs : int
        Sizes of the grid. A smaller k regularises, too: with few C to try, it would gain what another C has.
    tol : float
    drop : float
        The part of the largest losses that every fit sets aside.

    Examples
    --------
    >>> LinearModels().coarse().strengths
    array([1.e-01, 1.e+00, 1.e+01, 1.e+02, 1.e+03, 1.e+04])
    """

    n_ks: int = 6
    n_Cs: int = 11
    tol: float = 1e-3
    drop: float = 0.0

    name = "linear"
    axis = "C"
    has_lines = True

    @classmethod
    def check_installed(cls) -> None:
        """Do nothing: all is there."""

    def coarse(self) -> Self:
        """Return the family with the grid of a quick look."""
        return replace(self, n_ks=3, n_Cs=6)

    def losses(self, task: Task, asked: Sequence[str] = ()) -> tuple[str, ...]:
        """Return the individual losses to compare."""
        for loss in asked:
            resolve_individual_loss(loss, task)
        return tuple(asked) or COMPARED_LOSSES[task]

    def repeats(self, repeats: int) -> int:
        """Return as many."""
        return repeats

    @property
    def strengths(self) -> npt.NDArray[Any]:
        """The C to try: every other one, down from the largest, where rows are set aside: a fit is several then."""
        Cs = np.logspace(-1.0, 4.0, self.n_Cs)
        return Cs[1 - Cs.size % 2 :: 2] if self.drop else Cs

    @property
    def drops(self) -> tuple[float, ...]:
        """The parts to set aside: some wrong labels or broken sensors, up to many."""
        return 0.02, 0.05, 0.1, 0.2

    def setting_aside(self, drop: float) -> Self:
        """Return the family whose fits set a part of the largest losses aside."""
        return replace(self, drop=drop)

    def ks(self, encoder: ProblemEncoder, loss: str, weights: str, X: Any, y: npt.NDArray[Any]) -> list[float]:
        """Return the grid of k: the maximum, and parts of the rows, for classes above the calibration bound of these.

        The one largest loss does not know weights. For the hinge k is a second name for C (docs/theory.md), so that
        the average is all there is to try.
        """
        if loss in AVERAGE_ONLY:
            return [1.0]
        bound = collapse_share(encoder.on(X, y).problems) if encoder.is_classification else None
        if self.drop > 0.0:  # all rows that are left, and a part of them
            return [float(share) for share in _log_spaced_above(self.drop, 2, bound)]
        shares = _log_spaced(self.n_ks, bound)
        if shares[0] * y.size <= 1.0:  # a part of one row is the maximum again
            shares = _log_spaced(self.n_ks, 1.0 / y.size)
        return [1, *shares.tolist()] if weights == "plain" else shares.tolist()

    def answer(
        self, encoder: ProblemEncoder, X: Any, y: npt.NDArray[Any], split: Split, ks: Sequence[float]
    ) -> tuple[Array, npt.NDArray[Any] | None, Array | None]:
        """Fit the grid as one warm-started path."""
        fold = Fold(encoder.encode(X, y), split, ks, self.strengths, self.tol, trim=self.drop)
        path = fold.path()
        return path.decision(fold.data.take(split[1]).X), path.classes, relative_gaps(path.dual_gaps, path.objectives)

    def estimator(self, task: Task, *, loss: str, k: float, strength: float, class_weight: Any = None) -> Any:
        """Return a linear model."""
        if task == "classification":
            return ATkClassifier(loss=loss, k=k, C=strength, class_weight=class_weight, trim=self.drop)
        return ATkRegressor(loss=loss, k=k, C=strength, trim=self.drop)

    def feature_weights(self, fitted: Any, scale: float = 1.0) -> Array:
        """Return the coefficients, in units of the target."""
        return np.asarray(np.atleast_2d(fitted.coef_) * scale)

    def gaps(self, fitted: Any) -> Array | None:
        """Return the relative duality gaps of a fit."""
        return relative_gaps(fitted.dual_gap_, fitted.objective_)


@dataclass(frozen=True)
class BoostedModels(Family):
    """Boosted trees of LightGBM: k against the number of rounds; no certificate, and no maximum.

    Attributes
    ----------
    shares : tuple of float
        The k to try, as parts of the rows; the last is 1.0.
    rounds : tuple of int

    Examples
    --------
    >>> BoostedModels().losses("regression"), BoostedModels().coarse().rounds
    (('squared_error',), (10, 30, 90, 180))
    >>> BoostedModels().losses("classification", ["hinge"])
    Traceback (most recent call last):
        ...
    ValueError: Boosted trees for classification expect --loss to be log_loss, got 'hinge'; try it with --model linear.
    """

    shares: tuple[float, ...] = (0.1, 0.2, 0.4, 0.7, 1.0)
    rounds: tuple[int, ...] = (5, 10, 20, 40, 80, 160, 320)

    name = "boosting"
    axis = "rounds"
    has_lines = False
    tol = None
    # for the few thousand rows that most tables have: smaller trees are better, fewer bins are faster
    _TREES: ClassVar[dict[str, Any]] = {"num_leaves": 15, "max_bin": 127}
    # the first is what is compared unless others are asked for
    _LOSSES: ClassVar[dict[str, tuple[str, ...]]] = {
        "classification": ("log_loss",),
        "regression": ("squared_error", "absolute_error"),
    }

    @classmethod
    def check_installed(cls) -> None:
        """Raise in one sentence if LightGBM is not there."""
        from atklearn.boosting.trees import load_lightgbm

        load_lightgbm()

    def coarse(self) -> Self:
        """Return the family with the grid of a quick look."""
        return replace(self, shares=(0.2, 0.5, 1.0), rounds=(10, 30, 90, 180))

    def losses(self, task: Task, asked: Sequence[str] = ()) -> tuple[str, ...]:
        """Return the individual losses to compare: a fit costs more than a linear one, so one unless asked."""
        known = self._LOSSES[task]
        for loss in asked:
            if loss not in known:
                raise ValueError(
                    f"Boosted trees for {task} expect --loss to be {' or '.join(known)}, got {loss!r}; try it with "
                    "--model linear."
                )
        return tuple(asked) or known[:1]

    def repeats(self, repeats: int) -> int:
        """Return half as many, since a fit costs more."""
        return max(1, repeats // 2)

    @property
    def strengths(self) -> npt.NDArray[Any]:
        """The numbers of rounds to try."""
        return np.array(self.rounds)

    def ks(self, encoder: ProblemEncoder, loss: str, weights: str, X: Any, y: npt.NDArray[Any]) -> list[float]:  # noqa: ARG002
        """Return the parts that are more than one row.

        The bound of linear models, below which they say nothing about classes, is not that of trees: it is as large as
        the loss of the best linear model, and trees may do better. Validation sees a k that is too small.
        """
        return [share for share in self.shares if share * y.size > 1.0 or share == 1.0]

    def answer(
        self, encoder: ProblemEncoder, X: Any, y: npt.NDArray[Any], split: Split, ks: Sequence[float]
    ) -> tuple[Array, npt.NDArray[Any] | None, Array | None]:
        """Fit one ensemble per k, and read it off at every number of rounds."""
        from atklearn.boosting.trees import boost_path

        fitted, unseen = split
        decisions, classes = boost_path(
            X[fitted], y[fitted], X[unseen], loss=encoder.loss, ks=list(ks), rounds=list(self.rounds),
            class_weight=encoder.class_weight, num_threads=1, **self._TREES,
        )  # fmt: skip
        return decisions, classes, None

    def estimator(self, task: Task, *, loss: str, k: float, strength: float, class_weight: Any = None) -> Any:
        """Return an ensemble of as many rounds."""
        from atklearn.boosting import ATkBoostingClassifier, ATkBoostingRegressor

        options: dict[str, Any] = {"loss": loss, "k": k, "n_estimators": int(strength), "random_state": 0, "n_jobs": 1}
        trees = dict(self._TREES)
        options["lightgbm_params"] = {"max_bin": trees.pop("max_bin")}
        if task == "classification":
            return ATkBoostingClassifier(**options, **trees, class_weight=class_weight)
        return ATkBoostingRegressor(**options, **trees)

    def feature_weights(self, fitted: Any, scale: float = 1.0) -> Array:  # noqa: ARG002
        """Return the share of the gain that the splits of each feature have."""
        return np.atleast_2d(fitted.feature_importances_)

    def gaps(self, fitted: Any) -> Array | None:  # noqa: ARG002
        """Return nothing: a sum of trees that are grown greedily is no optimum."""
        return None


FAMILIES: dict[str, type[LinearModels | BoostedModels]] = {
    family.name: family for family in (LinearModels, BoostedModels)
}


def family_named(name: str) -> Family:
    """Return the family of models of an option, with its usual grid.

    Examples
    --------
    >>> family_named("linear").axis
    'C'
    >>> family_named("bikes.skops")
    Traceback (most recent call last):
        ...
    ValueError: --model is expected to be linear or boosting, got 'bikes.skops'; to save a model, use --save-model.
    """
    if name not in FAMILIES:
        raise ValueError(
            f"--model is expected to be {' or '.join(FAMILIES)}, got {str(name)!r}; to save a model, use --save-model."
        )
    FAMILIES[name].check_installed()
    return FAMILIES[name]()


def has_boosting() -> bool:
    """Return whether trees can be boosted here."""
    from atklearn.boosting.trees import lightgbm_is_there

    return lightgbm_is_there()


def _log_spaced(n_ks: int, bound: float | None) -> Array:
    """Return shares k/n, log-spaced above the calibration bound and up to 1; the bound is None for a regression."""
    lowest = 0.02 if bound is None else min(max(bound, 0.01), 0.9)
    return np.geomspace(lowest, 1.0, n_ks + 1)[1:]


def _log_spaced_above(drop: float, n_ks: int, bound: float | None) -> Array:
    """Return shares log-spaced on the samples that are left where a part is set aside."""
    left = 1.0 - drop
    return drop + left * _log_spaced(n_ks, None if bound is None else max(bound - drop, 0.0) / left)
