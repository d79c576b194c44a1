"""The objective on a ranked range: the largest losses are set aside, the mean of the next ones is what counts.

With ``a`` the mass set aside of each row, ``0 <= a_i <= mass_i`` and ``sum(a) = m``, the problem of a range that begins
at m and ends at k is

    minimise over a and w, b:   AT_(k-m)(l_1, ..., l_n; mass - a) + |w|^2 / (2 C),

because the sum of the losses ranked m to k is the least, over all a, of the top-(k-m) sum of what a leaves. For a given
``a`` this is an AT_(k-m) problem on the rows that are left, convex and certified; for given w the best ``a`` are the m
largest losses. Several classes set the same rows aside: their objectives are added up, and since

    AT_(k-m)(l; mass - a) = min over lam of lam + sum((mass - a)_i [l_i - lam]_+) / (k - m)      (Lemma 1),

the best ``a`` for given models and thresholds are the m largest of ``sum over classes of [l_i - lam]_+``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from atklearn.core.problem import Problem, Solution
from atklearn.core.store import spread_places
from atklearn.losses.aggregate import ranked_loss, top_sum
from atklearn.losses.individual import Array
from atklearn.stores.compiled import CompiledRows, Places

__all__ = ["Outside", "TrimmedProblem", "largest_amounts"]

# A share of a row's mass that is rounding.
_ROUNDING = 1e-12
# So much of a class stays, whatever its losses: without it there would be nothing to tell from the others.
_LEAST_OF_CLASS = 0.1
# So many rows of every class are in a random part, or all it has.
_SOME_OF_CLASS = 10
# By so many standard deviations of their number, outliers in a random part may be more than their share.
_DEVIATIONS = 2.0


def largest_amounts(values: Array, mass: Array, amount: float, classes: npt.NDArray[np.intp] | None = None) -> Array:
    """Return how much mass of each row makes up an amount of those with the largest values; the last one in part.

    Of equal values the first rows are taken. Of no class more than nine tenths are.

    Examples
    --------
    >>> largest_amounts(np.array([1.0, 5.0, 3.0, 5.0]), np.array([1.0, 1.0, 2.0, 1.0]), 2.5)
    array([0. , 1. , 0.5, 1. ])
    """
    if amount <= 0.0:
        return np.zeros_like(mass)
    threshold = ranked_loss(values, mass, amount)
    out = np.where(values > threshold, mass, 0.0)
    tied = np.flatnonzero(values == threshold)
    out[tied] = _first(mass[tied], amount - float(out.sum()))
    if classes is not None:
        most = np.asarray((1.0 - _LEAST_OF_CLASS) * np.bincount(classes, weights=mass), dtype=np.float64)
        if (np.bincount(classes, weights=out) > most).any():
            out = _within(most, values, mass, amount, classes)
    # what is all but whole, or all but nothing, is that
    out = np.where(out > mass * (1.0 - _ROUNDING), mass, out)
    return np.where(out < mass * _ROUNDING, 0.0, out)


def _within(most: Array, values: Array, mass: Array, amount: float, classes: npt.NDArray[np.intp]) -> Array:
    """Return the amounts of the largest values with so much of each class at most."""
    order = np.argsort(-values, kind="stable")
    free = mass[order]
    for code, limit in enumerate(most):
        of_class = classes[order] == code
        free[of_class] = _first(free[of_class], float(limit))
    out = np.empty_like(mass)
    out[order] = _first(free, amount)
    return out


def _first(amounts: Array, total: float) -> Array:
    """Return what of each amount lies in the first ``total`` of them."""
    return np.asarray(np.clip(total - (np.cumsum(amounts) - amounts), 0.0, amounts))


class TrimmedProblem:
    """Problems of AT_k on the same rows in memory, one or one per class, that set the same mass aside, below k."""

    def __init__(self, problems: Sequence[Problem], trim: float) -> None:
        self.problems, self.trim = list(problems), trim
        self.k = problems[0].k

    @property
    def rows(self) -> CompiledRows:
        """The rows, as the first problem sees them."""
        return self.rows_of_problems[0]

    @cached_property
    def rows_of_problems(self) -> list[CompiledRows]:
        """The rows as each problem sees them, with targets of its own."""
        rows = [problem.rows for problem in self.problems]
        if not all(isinstance(each, CompiledRows) for each in rows):
            raise ValueError(
                "To set rows aside, rows are expected in the host's memory, got others; Numba has to be installed: "
                "pip install numba."
            )
        return rows  # type: ignore[return-value]

    @cached_property
    def classes(self) -> npt.NDArray[np.intp] | None:
        """The class of each row, as a number; None for a regression."""
        if self.problems[0].loss.task == "regression":
            return None
        targets = np.array([rows.y for rows in self.rows_of_problems])
        return np.asarray(targets[0] > 0.0, dtype=np.intp) if len(targets) == 1 else targets.argmax(axis=0)

    def thinned(self, count: int) -> TrimmedProblem:
        """Return the problems on a random part of the rows, in proportion, with some of every class."""
        rng = np.random.default_rng(0)
        chosen = np.zeros(self.rows.n_rows, dtype=bool)
        chosen[spread_places(self.rows.n_rows, count)] = True
        if self.classes is not None:
            for code in range(int(self.classes.max()) + 1):
                own = np.flatnonzero(self.classes == code)
                if np.count_nonzero(chosen[own]) < _SOME_OF_CLASS:
                    chosen[rng.permutation(own)[:_SOME_OF_CLASS]] = True
        places = np.flatnonzero(chosen)
        parts = self.part(places, self.rows.mass[places])
        share = parts[0].total / self.rows.total
        k = min(self.k * share, parts[0].total)
        return TrimmedProblem(
            [problem.on(part, k) for problem, part in zip(self.problems, parts, strict=True)],
            self._trim_of_part(places.size, parts[0].total, k),
        )

    def _trim_of_part(self, n_rows: int, total: float, k: float) -> float:
        """Return what to set aside of a random part: a little more than its share, or by chance outliers are left in.

        One that is left in can turn the model of the part, and all that starts from it.
        """
        share = self.trim / self.rows.total
        chance = _DEVIATIONS * float(np.sqrt(share * (1.0 - share) / n_rows))
        trim = min((share + chance) * total, 0.5 * (share * total + k))
        each = self.rows.each
        return trim if each is None or trim < each else trim // each * each  # whole rows are quicker to rank

    def part(self, places: Places, mass: Array) -> list[CompiledRows]:
        """Return some of the rows with other mass, as each problem sees them."""
        first = self.rows.lighter(places, mass)
        return [first] + [
            # classes share the features
            first.aiming_at(rows.y[places]) if rows.X is self.rows.X else rows.lighter(places, mass)
            for rows in self.rows_of_problems[1:]
        ]

    def shares_aside(self, aside: Array) -> Array:
        """Return the part of every class that is set aside; of a regression none."""
        if self.classes is None:
            return np.zeros(0)
        masses = np.bincount(self.classes, weights=self.rows.mass)
        return np.asarray(np.bincount(self.classes, weights=aside) / np.where(masses > 0.0, masses, 1.0))

    def smooth_parts(self, coefs: Sequence[Array]) -> Array:
        """Return ``s`` of all rows, shape (n_problems, n_rows)."""
        return np.array([rows.smooth_parts(coef) for rows, coef in zip(self.rows_of_problems, coefs, strict=True)])

    def largest(self, losses: Array, thresholds: Sequence[float]) -> Array:
        """Return the mass to set aside of each row, for given losses and thresholds."""
        # of one problem whatever the threshold
        excess = losses[0] if len(losses) == 1 else np.maximum(losses - np.c_[thresholds], 0.0).sum(axis=0)
        return largest_amounts(excess, self.rows.mass, self.trim, self.classes)

    def value(self, coefs: Sequence[Array], losses: Array, aside: Array) -> float:
        """Return the objective, that of several classes added up."""
        left = self.rows.mass - aside
        count = self.k - self.trim
        if self.k < self.rows.total:
            kept = left > 0.0
            sums = [top_sum(loss, left[kept], count) for loss in losses[:, kept]]
        else:
            sums = list(losses @ left)
        penalties = [problem.penalty(coef) for problem, coef in zip(self.problems, coefs, strict=True)]
        return float(sum(sums)) / count + sum(penalties)


class Outside:
    """The convex problems on the rows that are not set aside, or not as a whole.

    Attributes
    ----------
    places : ndarray of int
        Which rows these are.
    problems : list of Problem
    """

    def __init__(self, whole: TrimmedProblem, aside: Array) -> None:
        self.n_rows = whole.rows.n_rows
        self.aside = aside
        self.places = np.flatnonzero(aside < whole.rows.mass)
        left = (whole.rows.mass - aside)[self.places]
        self.problems = [
            problem.on(rows, min(whole.k - whole.trim, rows.total))
            for problem, rows in zip(whole.problems, whole.part(self.places, left), strict=True)
        ]

    def restrict(self, solution: Solution) -> Solution:
        """Return a solution on all rows as one to start from here."""
        density = None if solution.density is None else solution.density[self.places]
        return replace(solution, density=density)

    def extend(self, values: Array, others: Array | None = None) -> Array:
        """Return numbers of these rows as numbers of all; those of others as given, or else zero."""
        out = np.zeros(self.n_rows) if others is None else others.copy()
        out[self.places] = values
        return out
