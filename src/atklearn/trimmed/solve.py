"""Solve on the rows that are left, set the largest losses aside, again and again.

Neither half of a round can raise the objective (:mod:`atklearn.trimmed.problem`), so it ends. The end is *critical*:
the rows set aside are those with the largest losses, and the model is optimal for the rows that are left, by the
certificate of the convex problem. It need not be the least value there is, which is why there are several starts.

A model of the average is where the outliers pull it, and the largest losses there need not be theirs. A model of a few
rows that happens to have no outlier among them shows them all, if roughly: the regression on the rows that it leaves
tells whether it is worth more. Many are cheap to make and to compare, as in the fast least trimmed squares of Rousseeuw
and Van Driessen (2006).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from atklearn.core.problem import Problem, Progress, Solution, StopReason
from atklearn.core.solve import solve_linear
from atklearn.losses.aggregate import ranked_loss
from atklearn.losses.individual import Array
from atklearn.runtime.namespaces import Features
from atklearn.runtime.threads import steady_blas
from atklearn.stores.compiled import CompiledRows, Places
from atklearn.trimmed.problem import Outside, TrimmedProblem

__all__ = ["TrimmedFit", "random_starts", "solve_trimmed"]

# Starts are tried on about so many rows, more where there are many columns.
_FEW_ROWS = 300
_ROWS_PER_COLUMN = 10
# Of many times more rows than these, one in so many is tried next.
_MANY = 30
_THINNING = 10
# Of the random starts so many are tried in earnest, for so many rounds, to a gap of so much.
_BEST = 2
_ROUNDS = 2
_ROUGH = 1e-2
_COARSE = 1e-3
# A round is solved to this part of what the last one gained.
_FINER = 0.3
# Solved to this part of the tolerance, there is no more to tell.
_FINEST = 1e-3
_MOST_ROUNDS = 100
# Moves that shrink from round to round by this factor at least are taken to go on like this.
_SHRINKS = 0.9
# The smoothing that a round starts from, as a multiple of the last one's: the rows are nearly the same.
_RELAX = 5.0
# Rows of a model: as many as it has columns and some more, and no more than this.
_MORE_ROWS = 2
_MOST_ROWS = 30
# Their ridge, in parts of the mean square of a row.
_RIDGE = 1e-3
_TINY = 1e-12
# For every one that is returned, so many of the models of few rows are candidates as they are.
_AS_THEY_ARE = 5
# So many numbers may be held at once: of sparse features with many columns there are fewer models.
_NUMBERS = 5_000_000
# So many products may be spent on the regressions on the rows that models leave.
_WORK = 50_000_000
# A few rows with targets -1 and +1 tell the direction of a classifier; its length is one of these times theirs.
_LENGTHS = (1.0, 4.0)


@dataclass(frozen=True)
class TrimmedFit:
    """What the alternation ends with.

    Attributes
    ----------
    outside : Outside
        The convex problems on the rows that are left.
    solutions : list of Solution
        One per problem, on the rows that are left: their gap is that of the convex problem.
    ranked : ndarray of int
        The rows of which at least half is set aside, those with the largest losses first.
    class_shares : ndarray of shape (n_classes,)
        The part of every class that is set aside; empty for a regression.
    values : list of float
        The objective, that of several classes added up, at the start and after every round: it never rises.
    """

    outside: Outside
    solutions: list[Solution]
    ranked: Places
    class_shares: Array
    values: list[float]


class _State:
    """Models, and the rows that are best set aside with them; ``solved`` is where they come from, unless given."""

    def __init__(
        self, problem: TrimmedProblem, coefs: Sequence[Array], solved: tuple[Outside, list[Solution]] | None = None
    ) -> None:
        self.coefs = coefs
        parts = problem.smooth_parts(coefs)
        losses = problem.rows.kink.loss(parts)
        if solved is None:
            self.solutions: list[Solution] = []
            thresholds = [ranked_loss(loss, problem.rows.mass, problem.k) for loss in losses]
        else:
            outside, found = solved
            thresholds = [solution.threshold for solution in found]
            # rows that were set aside have large losses: if one comes back, it is with its whole weight
            whole = np.sign(parts) if problem.rows.two_sided else np.ones_like(parts)
            self.solutions = [
                replace(solution, coef=coef, density=outside.extend(solution.density, full))
                for solution, coef, full in zip(found, coefs, whole, strict=True)
            ]
        self.aside = problem.largest(losses, thresholds)
        self.value = problem.value(coefs, losses, self.aside)

    @classmethod
    def near(cls, problem: TrimmedProblem, solutions: Sequence[Solution]) -> _State:
        """Return the state with the models of a neighbouring problem, on other rows or with other settings."""
        state = cls(problem, [solution.coef for solution in solutions])
        state.solutions = [replace(solution, density=None) for solution in solutions]
        return state

    def among(self, problem: TrimmedProblem) -> _State:
        """Return the state with these models on more rows."""
        return _State.near(problem, self.solutions) if self.solutions else _State(problem, self.coefs)

    def starts(self, outside: Outside) -> list[Solution | None]:
        """Return what there is to start from on the rows that are left."""
        return [outside.restrict(each) for each in self.solutions] or [None] * len(self.coefs)


@steady_blas()
def solve_trimmed(
    problems: Sequence[Problem],
    trim: float,
    *,
    tol: float = 1e-6,
    max_iter: int = 1000,
    starts: Sequence[Solution | None] | None = None,
    n_init: int = 50,
    progress: Sequence[Progress | None] | None = None,
) -> TrimmedFit:
    """Minimise the mean of the losses ranked ``trim`` to k, and the penalty, to a critical point.

    Parameters
    ----------
    problems : sequence of Problem
        Of AT_k, one or one per class, on the same rows in memory.
    trim : float
        The mass set aside, below k.
    tol : float
        The duality gap allowed in the last convex problem, relative to its objective.
    max_iter : int
        The Newton steps allowed per convex problem.
    starts : sequence of Solution, default=None
        Solutions of neighbouring problems: the only start, if they are given.
    n_init : int
        Number of random starts beside the solution of AT_k: models of a few rows each.
    progress : sequence of callables, default=None
        One per problem: see :func:`atklearn.core.solve.solve_linear`.
    """
    inside = [problem.conditioned() or problem for problem in problems]
    ranged = TrimmedProblem(inside, trim)
    given = [] if starts is None else [start for start in starts if start is not None]
    if len(given) == len(problems):
        begin = _State.near(
            ranged,
            [replace(start, coef=problem.inward(start.coef)) for problem, start in zip(inside, given, strict=True)],
        )
    else:
        begin = _best_start(ranged, tol, max_iter, n_init)
    listeners = [None] * len(problems) if progress is None else progress
    outside, solutions, values = _Descent(ranged, tol, max_iter, listeners).run(begin)
    if any(problem.units is not None for problem in inside):
        ranged = TrimmedProblem(problems, trim)
        outside = Outside(ranged, outside.aside)
        solutions = _in_the_users_units(outside, inside, solutions, tol, max_iter)
    ranked = np.flatnonzero(outside.aside >= 0.5 * ranged.rows.mass)
    totals = ranged.rows.kink.loss(ranged.smooth_parts([each.coef for each in solutions])).sum(axis=0)
    ranked = ranked[np.argsort(-totals[ranked], kind="stable")]
    return TrimmedFit(outside, solutions, ranked, ranged.shares_aside(outside.aside), values)


def _best_start(whole: TrimmedProblem, tol: float, max_iter: int, n_init: int) -> _State:
    """Return the models to start from: found on few of the rows, then on more of them, where there are many."""
    n_rows = whole.rows.n_rows
    enough = max(_FEW_ROWS, _ROWS_PER_COLUMN * whole.rows.n_columns)
    problem = whole.thinned(enough) if n_rows > enough else whole
    top = [solve_linear(each, tol=max(tol, _ROUGH), max_iter=max_iter).coef for each in problem.problems]
    states = [_State(problem, models) for models in [top, *random_starts(problem, n_init, _BEST)]]
    tried = [_after_rough_rounds(problem, state, max_iter) for state in states]
    best = min(tried, key=lambda state: state.value)
    if n_rows >= _MANY * enough:
        problem = whole.thinned(n_rows // _THINNING)
        descent = _Descent(problem, max(tol, _COARSE), max_iter, [None] * len(problem.problems))
        return _State.near(whole, descent.run(best.among(problem))[1])
    return best if problem is whole else best.among(whole)


def _after_rough_rounds(problem: TrimmedProblem, state: _State, max_iter: int) -> _State:
    """Return where a few rough rounds lead."""
    for _ in range(_ROUNDS):
        outside = Outside(problem, state.aside)
        found = [solve_linear(each, tol=_ROUGH, max_iter=max_iter) for each in outside.problems]
        after = _State(problem, [each.coef for each in found], (outside, found))
        gained = state.value - after.value
        state = after if gained > 0.0 else state
        if gained <= _ROUGH * state.value:
            break
    return state


class _Descent:
    """Rounds of both halves, from a state to one that is critical."""

    def __init__(
        self, problem: TrimmedProblem, tol: float, max_iter: int, listeners: Sequence[Progress | None]
    ) -> None:
        self.problem, self.tol, self.max_iter, self.listeners = problem, tol, max_iter, listeners
        self.steps = np.zeros(len(listeners), dtype=int)

    def run(self, state: _State) -> tuple[Outside, list[Solution], list[float]]:
        """Return the problems on the rows that are left in the end, their solutions, and the values on the way."""
        accuracy, values, last_move = max(self.tol, _ROUGH), [state.value], np.inf
        outside = Outside(self.problem, state.aside)
        for _ in range(_MOST_ROUNDS):
            found = self._solve(outside, state, accuracy)
            after = _State(self.problem, [each.coef for each in found], (outside, found))
            is_solved = all(each.reaches(self.tol) for each in found)
            is_halted = any(each.stop_reason in (StopReason.MAX_ITER, StopReason.CALLBACK) for each in found)
            if is_solved and np.array_equal(after.aside, state.aside):
                return self._conclude(outside, found, [*values, min(after.value, state.value)])
            if sum(each.lower_bound for each in found) >= (1.0 - self.tol) * state.value or after.value >= state.value:
                # what bounds the models found bounds those before, on the same rows
                stood = [
                    solution.moved_to(problem.certify(coef, solution.density), self.tol)
                    for problem, coef, solution in zip(outside.problems, state.coefs, found, strict=True)
                ]
                is_over = is_halted or accuracy <= _FINEST * self.tol
                if is_over or all(each.reaches(self.tol) for each in stood):
                    return self._conclude(outside, stood, values)
                accuracy = min(self.tol, _FINER * accuracy)  # too roughly solved to tell
                continue
            accuracy = float(np.clip(_FINER * (state.value - after.value) / state.value, self.tol, accuracy))
            moves = [new - old for new, old in zip(after.coefs, state.coefs, strict=True)]
            move = float(np.linalg.norm(np.concatenate(moves)))
            ratio = move / last_move if last_move > 0.0 else np.inf
            state, last_move = self._further(after, moves, ratio, (outside, found)), move
            values.append(state.value)
            del outside  # a copy of the rows, before the next is made
            outside = Outside(self.problem, state.aside)
            if is_halted:
                break
        return self._cut_short(outside, state, values)

    def _further(
        self, state: _State, moves: Sequence[Array], ratio: float, solved: tuple[Outside, list[Solution]]
    ) -> _State:
        """Return the state where moves that shrink by a ratio would end, if it is better."""
        if not 0.0 < ratio < _SHRINKS:
            return state
        coefs = [coef + ratio / (1.0 - ratio) * move for coef, move in zip(state.coefs, moves, strict=True)]
        there = _State(self.problem, coefs, solved)
        return there if there.value < state.value else state

    def _solve(self, outside: Outside, state: _State, accuracy: float) -> list[Solution]:
        """Solve the convex problems from where the last round ended."""
        work = zip(outside.problems, state.starts(outside), self.listeners, strict=True)
        found = [
            solve_linear(problem, tol=accuracy, max_iter=self.max_iter, start=start, relax=_RELAX, progress=listener)
            for problem, start, listener in work
        ]
        self.steps += [each.n_iter for each in found]
        return found

    def _cut_short(
        self, outside: Outside, state: _State, values: list[float]
    ) -> tuple[Outside, list[Solution], list[float]]:
        """Return a state that need not be critical, with the certificates of its own convex problems."""
        found = []
        for problem, solution in zip(outside.problems, state.solutions, strict=True):
            certificate = problem.certify(solution.coef, outside.restrict(solution).density)
            stopped = solution.stop_reason is not StopReason.CONVERGED
            reason = solution.stop_reason if stopped else StopReason.MAX_ITER
            found.append(Solution.of(certificate, tol=self.tol, n_iter=0, otherwise=reason))
        return self._conclude(outside, found, values)

    def _conclude(
        self, outside: Outside, found: Sequence[Solution], values: list[float]
    ) -> tuple[Outside, list[Solution], list[float]]:
        """Return the end, with all steps that led to it; where the start was the end, that counts as one."""
        solutions = [replace(each, n_iter=max(int(steps), 1)) for each, steps in zip(found, self.steps, strict=True)]
        return outside, solutions, values


def _in_the_users_units(
    outside: Outside, inside: Sequence[Problem], solutions: Sequence[Solution], tol: float, max_iter: int
) -> list[Solution]:
    """Return solutions in the user's coordinates; what rounding has cost is regained there."""
    out = []
    for problem, there, solution in zip(outside.problems, inside, solutions, strict=True):
        coef = there.outward(solution.coef)
        found = replace(solution, coef=coef, dual_gap=solution.objective).moved_to(
            problem.certify(coef, solution.density), tol
        )
        if solution.reaches(tol) and not found.reaches(tol):
            found = solve_linear(problem, tol=tol, max_iter=max_iter, start=found, relax=_RELAX)
            found = replace(found, n_iter=found.n_iter + solution.n_iter)
        out.append(found)
    return out


def random_starts(problem: TrimmedProblem, count: int, best: int) -> list[list[Array]]:
    """Return the coefficients of the best of ``count`` random models, each a list with an array per problem."""
    if count == 0:
        return []
    rows = problem.rows
    size = min(rows.n_columns + _MORE_ROWS, rows.n_rows, _MOST_ROWS)
    count = min(count, max(_NUMBERS // (size * rows.n_columns), 1))
    ends = np.cumsum(rows.mass)
    drawn = np.searchsorted(ends, np.random.default_rng(0).random((count, size)) * ends[-1], side="right")
    drawn = np.minimum(drawn, rows.n_rows - 1)
    few = [_of_few_rows(each, drawn) for each in problem.rows_of_problems]
    lengths = _LENGTHS if rows.loss.task == "classification" else _LENGTHS[:1]
    models = _Models.judged(problem, np.array(few), _LENGTHS[:1])
    first = _Models.judged(problem, models.best(_AS_THEY_ARE * best).coefs, lengths)
    n_refined = min(_WORK // (rows.n_rows * rows.n_columns**2), -(-count // 2))
    if n_refined >= best:
        left = models.best(n_refined).left
        refined = np.array([_of_weighted_rows(each, left) for each in problem.rows_of_problems])
        second = _Models.judged(problem, refined, lengths)
        first = _Models(
            np.concatenate([first.coefs, second.coefs], axis=1),
            np.append(first.values, second.values),
            np.concatenate([first.left, second.left]),
        )
    return [list(model) for model in first.best(best).coefs.swapaxes(0, 1)]


def _of_few_rows(rows: CompiledRows, drawn: Places) -> Array:
    """Return the ridge regressions on the rows drawn, shape (n_models, n_columns)."""
    count, size = drawn.shape
    X = _with_ones(rows, rows.X[drawn.ravel()]).reshape(count, size, -1)
    gram = X @ X.transpose(0, 2, 1)
    ridge = _RIDGE * np.trace(gram, axis1=1, axis2=2)[:, None, None] / size + _TINY
    alpha = np.linalg.solve(gram + ridge * np.eye(size), rows.y[drawn][:, :, None])
    return np.asarray((X.transpose(0, 2, 1) @ alpha)[:, :, 0])


def _of_weighted_rows(rows: CompiledRows, weights: Array) -> Array:
    """Return the ridge regressions on all rows with some weights, shape (n_models, n_columns)."""
    X = _with_ones(rows, rows.X)
    grams = np.array([(X * each[:, None]).T @ X for each in weights])
    ridge = _RIDGE * np.trace(grams, axis1=1, axis2=2)[:, None, None] / X.shape[1] + _TINY
    pulls = (weights * rows.y) @ X
    return np.asarray(np.linalg.solve(grams + ridge * np.eye(X.shape[1]), pulls[:, :, None])[:, :, 0])


def _with_ones(rows: CompiledRows, X: Features) -> Array:
    """Return features as a dense array, with the column of ones if there is one."""
    dense = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    return dense if rows.ones is None else np.column_stack([dense, np.ones(len(dense))])


class _Models(NamedTuple):
    """Models with about what the objective is at each, and the mass of each row that each does not set aside.

    Models have the shape (n_problems, n_models, n_columns), values (n_models,) and masses (n_models, n_rows).
    """

    coefs: Array
    values: Array
    left: Array

    @classmethod
    def judged(cls, problem: TrimmedProblem, coefs: Array, lengths: Sequence[float]) -> _Models:
        """Return models, each times the best of some lengths."""
        found = [_values_and_left(problem, coefs * length) for length in lengths]
        values = np.array([value for value, _ in found])
        which, places = values.argmin(axis=0), np.arange(coefs.shape[1])
        left = np.array([left for _, left in found])[which, places]
        return cls(coefs * np.take(lengths, which)[None, :, None], values[which, places], left)

    def best(self, count: int) -> _Models:
        """Return those with the least values, the least first."""
        places = np.argsort(self.values, kind="stable")[:count]
        return _Models(self.coefs[:, places], self.values[places], self.left[places])


def _values_and_left(problem: TrimmedProblem, models: Array) -> tuple[Array, Array]:
    """Return the range of the losses of all problems added up, and the mass outside of the largest, for each model."""
    n_models = models.shape[1]
    totals, penalties = np.zeros((n_models, problem.rows.n_rows)), np.zeros(n_models)
    for each, rows, coefs in zip(problem.problems, problem.rows_of_problems, models, strict=True):
        weights, shifts = (coefs, 0.0) if rows.ones is None else (coefs[:, :-1], coefs[:, -1:])
        predictions = np.asarray(rows.X @ weights.T).T + shifts
        totals += rows.loss(predictions.ravel(), np.tile(rows.y, n_models)).reshape(totals.shape)
        penalties += 0.5 * (coefs**2 @ each.ridge)
    order = np.argsort(-totals, axis=1)
    mass = problem.rows.mass[order]
    ends = np.cumsum(mass, axis=1)
    # of each row, counted from the top: what lies beyond the rows set aside, and of that what lies before k
    beyond = np.clip(ends - problem.trim, 0.0, mass)
    counted = beyond - np.clip(ends - problem.k, 0.0, mass)
    sums = (counted * np.take_along_axis(totals, order, axis=1)).sum(axis=1)
    left = np.empty_like(beyond)
    np.put_along_axis(left, order, beyond, axis=1)
    return np.asarray(sums / (problem.k - problem.trim) + penalties), left
