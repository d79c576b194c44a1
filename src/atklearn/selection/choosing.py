"""How k and C are chosen: folds, a grid, and one rule. Every estimator that chooses does it here.

The question is the user's: **a measure to lower**, and **a budget**: by how much the mean of the loss may rise, out of
fold, against the best average. The rule answers it: among the cells of the grid within the budget, every k with its
best C, take the largest k that is behind the best by no more than the standard error of their difference. Scores of k
are noisy and their differences small, so the cell with the best mean is often luck; the rule moves to a smaller k only
as far as the scores ask for it.

Where a model is there already (the *incumbent*), the budget is over its mean loss, and the choice says whether it is
ahead.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from joblib import effective_n_jobs
from joblib.parallel import get_active_backend
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed

from atklearn.encoding.encoded import Encoded
from atklearn.losses.individual import Array, SquaredError, Task
from atklearn.measures.catalogue import MEASURES
from atklearn.measures.scores import MeasureScorer, resolve_scoring
from atklearn.runtime.namespaces import Vector
from atklearn.selection.distribution import Distribution
from atklearn.selection.folds import GRID_TOL, FilledFold, Fold, Judge, Scoring, WorstLosses
from atklearn.selection.paths import grid_cells

__all__ = [
    "AUTO_ROWS",
    "N_CS",
    "N_KS",
    "Criterion",
    "Search",
    "Selection",
    "choose_best",
    "choose_within_error",
    "corrected_standard_error",
    "default_Cs",
    "default_ks",
    "default_search",
    "map_jobs",
]

# What is asked unless something else is: the mean of the worst tenth, at most this much above the best average's mean
# (docs/decisions/0026).
_TAIL = 0.1
_BUDGET = 0.02
# The grid: how many k and C.
N_KS = 6
N_CS = 3
# Without noise there is no calibration bound; fewer samples than this part of them make an unstable top.
_SMALLEST_SHARE = 0.01
_SMALLEST_SHARE_REGRESSION = 0.02
_LARGEST_BOUND = 0.9
_SCALES = 2.0 ** np.arange(-3.0, 6.0)
# The default folds: how many, for few samples and for more; and cut from how many at most.
_FEW_SAMPLES = 1500
_FOLDS = 5
_FOLDS_OF_MANY = 3  # with a budget, which leaves few cells to tell apart
_DRAWS = 2  # without
AUTO_ROWS = 5000
_TOL = 1e-2  # cells are compared, not published
_BOUND_STEPS = 100
# What the first fold finds this far beyond the budget, or two half as far, is not tried on the others.
_FAR_BEYOND = 0.03
_ROUNDING = 1e-9
# Processes have to start and to import before they help: for less work than this, in seconds, they do not pay.
_WORTH_PROCESSES = 20.0
# A first item this quick may have been slowed down by what happens once only: another one is looked at.
_QUICK = 1.0

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Criterion:
    """What is asked of a choice: a measure to lower, what that may cost, and the rule.

    Attributes
    ----------
    measure : str
        What the measure is called.
    scoring : WorstLosses, MeasureScorer, str or callable
        Higher is better.
    at_most : float
        By how much the mean of the loss may rise against the best average's, relative to it; infinity is no limit.
    rule : {"one_standard_error", "best"}
    """

    measure: str
    scoring: Scoring
    at_most: float
    rule: str = "one_standard_error"

    @classmethod
    def asked(
        cls,
        task: Task,
        scoring: Scoring,
        tail: float | None,
        at_most: float | None,
        rule: str = "one_standard_error",
    ) -> Criterion:
        """Return the criterion from the parameters of an estimator.

        Of ``scoring`` and ``tail`` one may be given. By default, the measure is the worst tenth, for 2 % of the mean; a
        ``scoring`` that is given has no budget unless that is given, too.

        Examples
        --------
        >>> Criterion.asked("regression", None, 0.05, None)  # doctest: +NORMALIZE_WHITESPACE
        Criterion(measure='worst 5 % of the errors', scoring=MeasureScorer(name='tail_error', tail=0.05), at_most=0.02,
                  rule='one_standard_error')
        >>> Criterion.asked("classification", "balanced_error", None, None).at_most
        inf
        """
        if scoring is not None and tail is not None:
            raise ValueError(
                f"One of scoring and tail is expected, got scoring={scoring!r} and tail={tail!r}: scoring names the "
                "measure to choose by, tail is the share of the worst errors to choose by."
            )
        if scoring is not None:
            resolved = resolve_scoring(scoring, task)
            name = (
                scoring if isinstance(scoring, str) else getattr(scoring, "name", getattr(scoring, "__name__", "score"))
            )
            return cls(str(name), resolved, np.inf if at_most is None else float(at_most), rule)
        share = _TAIL if tail is None else float(tail)
        budget = _BUDGET if at_most is None else float(at_most)
        if task == "regression":
            return cls(f"worst {100 * share:g} % of the errors", MeasureScorer("tail_error", share), budget, rule)
        return cls(f"worst {100 * share:g} % of the losses", WorstLosses(share), budget, rule)

    @property
    def lowers(self) -> bool:
        """Whether the measure is better where it is lower, so that scores are minus the measure."""
        if isinstance(self.scoring, MeasureScorer):
            return not MEASURES[self.scoring.name].higher_is_better
        return isinstance(self.scoring, WorstLosses)


@dataclass(frozen=True)
class Selection:
    """What a choice of k saw: what estimators publish as ``selection_``.

    Every array of cells has the shape (n_ks, n_values). Cells that were left out, since the first fold found them far
    beyond the budget, are NaN.

    Attributes
    ----------
    measure : str
        What was to be lowered.
    at_most : float
        The budget: by how much the mean of the loss was allowed to rise, relative to the best average's.
    ks : ndarray of shape (n_ks,)
        Shares of the samples, ascending.
    parameter : str
        What was chosen along with k: "C", or "n_estimators" of boosted trees.
    values : ndarray of shape (n_values,)
        Those that were tried of it, ascending.
    scores : ndarray of shape (n_splits, n_ks, n_values)
        Of every cell on every fold, higher being better: minus the measure if that is to be low.
    lowers : bool
        Whether scores are minus the measure.
    means : ndarray of shape (n_ks, n_values)
        Of the scores, over the folds.
    standard_errors : ndarray of shape (n_ks, n_values)
        Of how far each cell is behind the best within the budget, corrected for training parts that overlap.
    prices : ndarray of shape (n_ks, n_values)
        By how much the mean of the loss is above the best average's, relative to it: of the root of the mean for the
        squared error (RMSE), of the mean loss for others.
    chosen, average : tuple of int
        The cells chosen and of the best average, by their places in ``ks`` and ``values``.
    reason : str
        Why, in a sentence.
    incumbent : ndarray of shape (n_splits,) or None
        The scores of the model that was there already, which prices are relative to then.
    is_ahead : bool
        Whether the cell chosen is ahead of it; if not, it is kept.

    Examples
    --------
    >>> from atklearn import ATkRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((400, 2))
    >>> y = X[:, 0] + rng.exponential(size=400)
    >>> selection = ATkRegressor(tail=0.1, at_most=0.05).fit(X, y).selection_
    >>> bool(selection.k < 1.0 and selection.price <= 0.05)
    True
    """

    measure: str
    at_most: float
    ks: Array
    parameter: str
    values: Array
    scores: Array
    lowers: bool
    means: Array
    standard_errors: Array
    prices: Array
    chosen: tuple[int, int]
    average: tuple[int, int]
    reason: str
    incumbent: Array | None = None
    is_ahead: bool = True

    @property
    def k(self) -> float:
        """The share chosen."""
        return float(self.ks[self.chosen[0]])

    @property
    def value(self) -> float:
        """The C, or number of rounds, chosen."""
        return float(self.values[self.chosen[1]])

    @property
    def price(self) -> float:
        """By how much the mean of the loss is above the best average's, relative to it."""
        return float(self.prices[self.chosen])

    @property
    def score(self) -> float:
        """The mean score of the cell chosen."""
        return float(self.means[self.chosen])

    @property
    def is_at_end(self) -> bool:
        """Whether the C, or number of rounds, chosen is the smallest or largest of several."""
        return self.values.size > 1 and self.chosen[1] in (0, self.values.size - 1)

    def measured(self, cell: tuple[int, int]) -> float:
        """Return the mean of the measure itself in a cell.

        Parameters
        ----------
        cell : tuple of int
            Its places in ``ks`` and ``values``.

        Returns
        -------
        measure : float
        """
        return float(-self.means[cell] if self.lowers else self.means[cell])

    def scaled_to(self, value: float) -> Selection:
        """Return the selection with all values in proportion, the one chosen being this.

        Parameters
        ----------
        value : float

        Returns
        -------
        selection : Selection
        """
        return replace(self, values=self.values * (value / self.value))

    def __str__(self) -> str:
        lines = [self.reason, f"{'k/n':>8}  {self.parameter:>12}  {self.measure:>24}  {'± error':>9}  {'price':>7}"]
        for i, share in enumerate(self.ks):
            seen = np.where(np.isfinite(self.means[i]), self.means[i], -np.inf)
            cell = self.chosen if i == self.chosen[0] else (i, int(seen.argmax()))
            note = "  chosen" if cell == self.chosen else ""
            if np.isfinite(self.means[cell]):
                lines.append(
                    f"{share:>8.3g}  {self.values[cell[1]]:>12.4g}  {self.measured(cell):>24.4g}  "
                    f"{self.standard_errors[cell]:>9.2g}  {self.prices[cell]:>+7.1%}{note}"
                )
        return "\n".join(lines)


@dataclass
class Search:
    """Folds, a grid, a judge and a criterion: :meth:`run` scores the cells, :meth:`selection` applies the rule.

    Attributes
    ----------
    folds : sequence of FilledFold
        None if there is nothing to validate with: then the average is kept.
    judge : Judge or None
        None if folds have their own.
    criterion : Criterion
    ks, values : ndarray
        The grid, both ascending; k as shares.
    test_to_train : float
        The size of the part that judges over that of the part that trains.
    parameter : str, default="C"
        What ``values`` are of.
    fallback : int, default=0
        The place in ``values`` that is taken if there is nothing to validate with.
    narrows : bool, default=False
        Whether the cells that the first fold finds far beyond the budget are left out of the others.
    incumbent : ndarray of shape (n_folds, 2) or None, default=None
        Score and mean loss, on every fold, of the model that is there already.
    """

    folds: Sequence[FilledFold]
    judge: Judge | None
    criterion: Criterion
    ks: Array
    values: Array
    test_to_train: float
    parameter: str = "C"
    fallback: int = 0
    narrows: bool = False
    incumbent: Array | None = None

    @cached_property
    def cells(self) -> Array:
        """Score and mean loss of every cell on every fold, NaN until known, shape (n_folds, n_ks, n_values, 2)."""
        return np.full((len(self.folds), self.ks.size, self.values.size, 2), np.nan)

    def run(
        self,
        n_jobs: int | None = None,
        shared: Sequence[Vector] = (),
        on_fold: Callable[[int, Array], bool] | None = None,
    ) -> None:
        """Score the folds.

        ``shared`` are the data, if folds have none by themselves; ``on_fold`` is called with the number of a fold and
        its scores, and returns whether to stop.
        """
        fill = partial(_fill_fold, self.judge)
        if self.narrows and self.folds and np.isfinite(self.criterion.at_most):
            self._run_narrowing(fill, shared, on_fold)
            return
        work = list(zip(self.folds, self.cells, strict=True))
        for fold, filled in enumerate(map_jobs(fill, work, n_jobs, shared=shared)):
            self.cells[fold] = filled
            if on_fold is not None and on_fold(fold, filled[..., 0]):
                return

    def _run_narrowing(
        self, fill: Callable[..., Array], shared: Sequence[Vector], on_fold: Callable[[int, Array], bool] | None
    ) -> None:
        """Score the folds in turn, each on the cells that those before have not found far beyond the budget.

        The averages of the first fold come before all else: a C that is wrong for them is not tried for smaller k.
        """
        ks, values = np.arange(self.ks.size), np.arange(self.values.size)
        averages = np.full((1, values.size, 2), np.nan)
        fill((self.folds[0].over(ks[-1:], values, np.inf), averages), *shared)
        values = _places_within(averages[..., 1], self._most_loss(_FAR_BEYOND))[1]
        for number, fold in enumerate(self.folds):
            limit = self._most_loss(_FAR_BEYOND / (number + 1))
            out = np.full((ks.size, values.size, 2), np.nan)
            grid = np.ix_(ks, values)
            self.cells[number][grid] = fill((fold.over(ks, values, limit), out), *shared)
            if on_fold is not None and on_fold(number, self.cells[number, ..., 0]):
                return
            losses = self.cells[: number + 1][:, ks][:, :, values, 1].mean(axis=0)
            kept = _places_within(losses, limit)
            ks, values = ks[kept[0]], values[kept[1]]

    def _most_loss(self, beyond: float) -> float:
        """Return how large a mean loss may be, over the best average's, for a price so far beyond the budget."""
        ratio = 1.0 + self.criterion.at_most + beyond
        return ratio**2 if self._takes_root else ratio

    @property
    def _takes_root(self) -> bool:
        """Whether it is the root of the mean loss that prices are of."""
        return self.judge is not None and isinstance(self.judge.loss, SquaredError)

    def selection(self, without: int | None = None) -> Selection:
        """Apply the rule to the cells that were scored on all the folds reached, but the one to do without."""
        if not self.folds:
            return self._selection_without_folds()
        known = np.isfinite(self.cells[..., 0]) & np.isfinite(self.cells[..., 1])
        reached = np.asarray(known.reshape(len(known), -1).any(axis=1))  # an interrupt may have left folds untouched
        if without is not None:
            reached[without] = False
        scores, losses = self.cells[reached, ..., 0], self.cells[reached, ..., 1]
        complete = np.asarray(known[reached].all(axis=0))
        if not reached.any() or not complete[-1].any():
            raise ValueError(
                f"A finite score of the largest k is expected on at least one fold, got none on {len(self.cells)}; "
                "check that the score is defined on every fold."
            )
        means, costs = scores.mean(axis=0), losses.mean(axis=0)
        costs = np.sqrt(costs) if self._takes_root else costs
        average = self.ks.size - 1, int(np.where(complete[-1], costs[-1], np.inf).argmin())
        there = None if self.incumbent is None else self.incumbent[reached]
        prices = _relative_rise(costs, costs[average] if there is None else float(there[:, 1].mean()))
        within = complete & (prices <= self.criterion.at_most + _ROUNDING)
        is_affordable = bool(within.any())  # the best average always is, beside another model perhaps nothing
        within = within if is_affordable else complete
        best = choose_best(scores, within)
        errors = corrected_standard_error(scores[:, best[0], best[1]][:, None, None] - scores, self.test_to_train)
        rule = choose_best if self.criterion.rule == "best" else partial(_largest_close, errors=errors)
        found = Selection(
            self.criterion.measure, self.criterion.at_most, self.ks, self.parameter, self.values, scores,
            self.criterion.lowers, means, errors, prices, rule(scores, within), average, "",
        )  # fmt: skip
        if there is None:
            return replace(found, reason=_reason(found, best))
        lead = scores[(slice(None), *found.chosen)] - there[:, 0]
        is_ahead = bool(is_affordable and lead.mean() > 0.0)
        found = replace(found, incumbent=there[:, 0], is_ahead=is_ahead)
        return replace(found, reason=_reason_beside_incumbent(found, is_affordable=is_affordable))

    def _selection_without_folds(self) -> Selection:
        """Return the average, chosen by nothing."""
        cells, unknown = (self.ks.size, self.values.size), np.full((self.ks.size, self.values.size), np.nan)
        average = self.ks.size - 1, self.fallback
        return Selection(
            self.criterion.measure, self.criterion.at_most, self.ks, self.parameter, self.values, np.empty((0, *cells)),
            self.criterion.lowers, unknown, unknown, unknown, average, average,
            "The average: a class has fewer than two distinct samples, so there is nothing to validate with.",
        )  # fmt: skip


def default_search(
    data: Encoded,
    judge: Judge,
    criterion: Criterion,
    *,
    ks: int | Array = N_KS,
    Cs_of: Callable[[float], Array],
    default_C: Callable[[float], float],
    trim: float = 0.0,
    max_iter: int = 1000,
    random_state: int | np.random.RandomState | None = 0,
) -> Search:
    """Return the search on the default folds: five, of some thousand samples, cut from their distribution.

    The choice depends on the samples as a distribution: neither on their order nor on whether they are repeated or
    weighted.

    ``ks`` are shares of the data, which are on the host, ascending, or how many. ``Cs_of`` and ``default_C`` take the
    mass of the samples, and return the C to try, ascending, and the one to take without a trial. ``trim`` is the part
    of the largest losses that every fit sets aside; ``random_state`` is of the folds.
    """
    classification = data.classes is not None
    samples = Distribution.of(data.X, data.y, data.weight, classification=classification).thinned(AUTO_ROWS)
    every = data.part(samples.rows, samples.mass)
    total = every.total
    Cs, default = Cs_of(total), default_C(total)
    nearest = int(np.abs(np.log(Cs / default)).argmin())
    has_budget = bool(np.isfinite(criterion.at_most))
    n_folds = _FOLDS_OF_MANY if has_budget and samples.rows.size >= _FEW_SAMPLES else _FOLDS
    n_folds = min(n_folds, samples.rarest)
    if n_folds < 2:
        return Search([], judge, criterion, np.ones(1), Cs, 1.0, fallback=nearest)
    if not isinstance(ks, np.ndarray):
        ks = default_ks(ks, _collapse_at_most(every, default) if classification else None, trim)
    folds = []
    for seed in check_random_state(random_state).randint(2**31 - 1, size=1 if has_budget else _DRAWS):
        rows, parts, splits = samples.cut(n_folds, int(seed))
        pieces = data.part(rows, parts)
        folds += [
            Fold(pieces, split, ks, Cs, tol=_TOL if has_budget else GRID_TOL, max_iter=max_iter, trim=trim)
            for split in splits
        ]
    return Search(folds, judge, criterion, ks, Cs, 1.0 / (n_folds - 1), fallback=nearest, narrows=True)


def default_ks(n_ks: int, bound: float | None, trim: float = 0.0) -> Array:
    """Return shares k/n above the calibration bound and up to 1, the denser the smaller they are, shape (n_ks,).

    Where a part of the samples is set aside, it is the grid on those left: samples set aside lie on the wrong side as a
    rule, and no longer count in the calibration bound.

    Parameters
    ----------
    n_ks : int
    bound : float or None
        The calibration bound of all samples, itself not part of the grid; None for regression, which has none.
    trim : float, default=0.0
        The part set aside.

    Examples
    --------
    >>> default_ks(2, 0.2), default_ks(2, 0.6, trim=0.5)
    (array([0.4, 1. ]), array([0.7, 1. ]))
    """
    left = 1.0 - trim
    lowest = _SMALLEST_SHARE_REGRESSION
    if bound is not None:
        lowest = float(np.clip((bound - trim) / left, _SMALLEST_SHARE, _LARGEST_BOUND))
    return np.asarray(trim + left * (lowest + (1.0 - lowest) * (np.arange(1.0, n_ks + 1.0) / n_ks) ** 2))


def default_Cs(n_Cs: int, default: float) -> Array:
    """Return C from a thousandth of the default C up to it, log-spaced, and ten times it; shape (n_Cs,).

    Examples
    --------
    >>> default_Cs(3, 200.0), default_Cs(5, 200.0), default_Cs(1, 200.0)
    (array([2.e-01, 2.e+02, 2.e+03]), array([2.e-01, 2.e+00, 2.e+01, 2.e+02, 2.e+03]), array([200.]))
    """
    if n_Cs == 1:
        return np.array([default])
    return default * np.append(np.logspace(0.0, -3.0, n_Cs - 1)[::-1], 10.0)


def choose_best(scores: Array, allowed: npt.NDArray[np.bool_] | None = None) -> tuple[int, int]:
    """Return the cell with the best mean, the largest k and then the smallest C among equals.

    Scores have the shape (n_splits, n_ks, n_Cs), k and C ascending; all cells are ``allowed`` by default.
    """
    means = scores.mean(axis=0)
    if allowed is not None:
        means = np.where(allowed, means, -np.inf)
    ks, Cs = np.nonzero(means == means.max())
    return int(ks[-1]), int(Cs[ks == ks[-1]][0])


def choose_within_error(scores: Array, test_to_train: float, errors: float = 1.0) -> tuple[int, int]:
    """Return the cell closest to the average that is not clearly worse than the best.

    Scores are those of :func:`choose_best`; ``test_to_train`` is the size of a test fold over that of its training
    part, and so many standard ``errors`` of the difference make a cell clearly worse.
    """
    best = choose_best(scores)
    behind = scores[:, best[0], best[1]][:, None, None] - scores
    spread = errors * corrected_standard_error(behind, test_to_train)
    return _largest_close(scores, np.ones(behind.shape[1:], dtype=bool), spread)


def _largest_close(scores: Array, allowed: npt.NDArray[np.bool_], errors: Array) -> tuple[int, int]:
    """Return the largest k whose best allowed C is behind the best cell by no more than its error, and that C.

    It is no k that is worse than the largest one, however large its error.
    """
    means = np.where(allowed, scores.mean(axis=0), -np.inf)
    Cs, rows = means.argmax(axis=1), np.arange(len(means))
    of_ks = means[rows, Cs]
    close = (of_ks.max() - of_ks <= errors[rows, Cs]) & (of_ks >= of_ks[-1])
    largest = int(np.flatnonzero(close)[-1])
    return largest, int(Cs[largest])


def corrected_standard_error(differences: Array, test_to_train: float) -> Array:
    """Return the standard error of a mean over splits whose training parts overlap.

    The plain ``std / sqrt(n_splits)`` takes splits for independent and shrinks with every repetition. The correction of
    Nadeau and Bengio (2003), ``std * sqrt(1 / n_splits + test_to_train)``, does not.
    """
    n = len(differences)
    deviation = differences.std(axis=0, ddof=1) if n > 1 else np.zeros(differences.shape[1:])
    return np.asarray(deviation * np.sqrt(1.0 / n + test_to_train))


def _relative_rise(costs: Array, base: float) -> Array:
    """Return how far costs are above one of them, relative to it; of one that is zero, infinitely far."""
    rise = costs - base
    return np.divide(rise, base, out=np.where(rise > 0.0, np.inf, rise), where=np.full(costs.shape, base > 0.0))


def _places_within(losses: Array, limit: float) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the rows and columns that have a loss of at most so many times the least of the last row."""
    within = losses <= limit * np.min(losses[-1], initial=np.inf, where=np.isfinite(losses[-1]))
    if not within.any():  # losses are no numbers
        within = np.ones(losses.shape, dtype=bool)
    return np.flatnonzero(within.any(axis=1)), np.flatnonzero(within.any(axis=0))


def _collapse_at_most(samples: Encoded, C: float) -> float:
    """Return a bound from above of the calibration bound, quickly.

    The calibration bound is the least mean hinge loss of a linear model: it is at most that of the average, rescaled.
    """
    problems = samples.problems()
    ((_, _, solutions),) = grid_cells(problems, [1.0], [C], _TOL, _BOUND_STEPS)
    margins = samples.values * problems.coefficients(solutions).decision(samples.X)
    hinges = np.maximum(1.0 - _SCALES[:, None, None] * margins, 0.0) @ samples.mass / samples.mass.sum()
    return float(np.minimum(hinges.min(axis=0), 1.0).max())


def _reason(found: Selection, best: tuple[int, int]) -> str:
    """Say why a cell was chosen."""
    i, n_ks = found.chosen[0], found.ks.size
    limit = "" if np.isinf(found.at_most) else f" within {100 * found.at_most:g} % of the best average's mean"
    end = (
        f" That {found.parameter} is the {'largest' if found.chosen[1] else 'smallest'} tried."
        if found.is_at_end
        else ""
    )
    if i == n_ks - 1:
        if best[0] == i:
            return f"The average, k = {found.k:g} n: no smaller k{limit} does better by the {found.measure}.{end}"
        return (
            f"The average, k = {found.k:g} n: by the {found.measure}, k = {found.ks[best[0]]:.2g} n{limit} does better "
            f"by no more than a standard error.{end}"
        )
    return (
        f"k = {found.k:.2g} n: {found.measure} {found.measured(found.chosen):.4g} instead of "
        f"{found.measured(found.average):.4g}, at {100 * found.price:+.1f} % of the best average's mean; no larger "
        f"k{limit} is as good to within a standard error.{end}"
    )


def _reason_beside_incumbent(found: Selection, *, is_affordable: bool) -> str:
    """Say why the model that was there already is kept or not."""
    assert found.incumbent is not None
    before = float(found.incumbent.mean()) * (-1.0 if found.lowers else 1.0)
    limit = "" if np.isinf(found.at_most) else f" within {100 * found.at_most:g} % of the model's mean"
    if not is_affordable:
        return f"The model as it was: no correction stays{limit}."
    if not found.is_ahead:
        return (
            f"The model as it was: {found.measure} {before:.4g}; with the best correction{limit} "
            f"{found.measured(found.chosen):.4g}."
        )
    return (
        f"Corrected with k = {found.k:.2g} n: {found.measure} {found.measured(found.chosen):.4g} instead of "
        f"{before:.4g}, at {100 * found.price:+.1f} % of the model's mean."
    )


def _fill_fold(judge: Any, work: tuple[FilledFold, Array], *shared: Vector) -> Array:
    """Write the scores of a fold where they belong, in this process, and return them for where another one is asked."""
    fold, out = work
    return (fold.given(*shared) if shared and isinstance(fold, Fold) else fold).fill(out, judge)


def map_jobs(
    function: Callable[..., _Result], items: Sequence[_Item], n_jobs: int | None, shared: Sequence[Vector] = ()
) -> Iterator[_Result]:
    """Yield ``function(item, *shared)`` for all items, in their order.

    Joblib's own processes start only when items done here have shown that there is much to do; other backends, set by
    ``joblib.parallel_config``, are there already or were asked for, and get all items. What is shared are arguments of
    their own, so that a backend can send them to a place once.
    """
    done = 0
    if effective_n_jobs(n_jobs) == 1:
        done = len(items)
        yield from (function(item, *shared) for item in items)
    elif _starts_processes():
        least = float("inf")
        while done < len(items):
            begin = time.perf_counter()
            result = function(items[done], *shared)
            seconds = time.perf_counter() - begin
            yield result
            done += 1
            least = min(least, seconds)
            if (done > 1 or seconds > _QUICK) and least * (len(items) - done) > _WORTH_PROCESSES:
                break
    if done < len(items):
        work = Parallel(n_jobs=n_jobs, return_as="generator")
        yield from work(delayed(function)(item, *shared) for item in items[done:])


def _starts_processes() -> bool:
    """Whether the backend in charge is joblib's default, which starts processes when it is first used."""
    return type(get_active_backend()[0]).__name__ == "LokyBackend"
