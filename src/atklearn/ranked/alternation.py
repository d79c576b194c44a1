"""The solver for ranked ranges: solve on the rows that are left, set the largest losses aside, again and again.

Neither half of a round can raise the objective (:mod:`atklearn.ranked.ranged`), so it ends. The end is *critical*:
the rows set aside are those with the largest losses, and the model is optimal for the rows that are left, by the
certificate of the convex problem. It need not be the least value there is, which is why there are several starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from atklearn.core.newton import Progress
from atklearn.core.problem import Problem, Solution, StopReason
from atklearn.core.solve import solve_linear
from atklearn.losses.individual import Array
from atklearn.ranked.random_starts import random_starts
from atklearn.ranked.ranged import Outside, RangedProblem
from atklearn.runtime.threads import steady_blas
from atklearn.stores.compiled import Places

__all__ = ["RankedFit", "solve_ranked"]

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


@dataclass(frozen=True)
class RankedFit:
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
    """Models, and the rows that are best set aside with them.

    Parameters
    ----------
    problem : RangedProblem
    coefs : sequence of ndarray
    solved : tuple of Outside and list of Solution, default=None
        Where the models come from, if they were not given.
    """

    def __init__(
        self, problem: RangedProblem, coefs: Sequence[Array], solved: tuple[Outside, list[Solution]] | None = None
    ) -> None:
        self.coefs = coefs
        parts = problem.smooth_parts(coefs)
        losses = problem.losses(parts)
        if solved is None:
            self.solutions: list[Solution] = []
            thresholds = problem.first_thresholds(losses)
        else:
            outside, found = solved
            thresholds = [solution.threshold for solution in found]
            # rows that were set aside have large losses: if one comes back, it is with its whole weight
            self.solutions = [
                replace(solution, coef=coef, density=outside.extend(solution.density, full))
                for solution, coef, full in zip(found, coefs, problem.full_densities(parts), strict=True)
            ]
        self.aside = problem.largest(losses, thresholds)
        self.value = problem.value(coefs, losses, self.aside)

    @classmethod
    def near(cls, problem: RangedProblem, solutions: Sequence[Solution]) -> _State:
        """Return the state with the models of a neighbouring problem, on other rows or with other settings."""
        state = cls(problem, [solution.coef for solution in solutions])
        state.solutions = [replace(solution, density=None) for solution in solutions]
        return state

    def among(self, problem: RangedProblem) -> _State:
        """Return the state with the same models on more rows."""
        return _State.near(problem, self.solutions) if self.solutions else _State(problem, self.coefs)

    def starts(self, outside: Outside) -> list[Solution | None]:
        """Return what there is to start from on the rows that are left."""
        return [outside.restrict(each) for each in self.solutions] or [None] * len(self.coefs)


@steady_blas()
def solve_ranked(
    problems: Sequence[Problem],
    trim: float,
    *,
    tol: float = 1e-6,
    max_iter: int = 1000,
    starts: Sequence[Solution | None] | None = None,
    n_init: int = 50,
    progress: Sequence[Progress | None] | None = None,
) -> RankedFit:
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

    Returns
    -------
    RankedFit
    """
    inside = [problem.conditioned() or problem for problem in problems]
    ranged = RangedProblem(inside, trim)
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
        ranged = RangedProblem(problems, trim)
        outside = ranged.outside(outside.aside)
        solutions = _in_the_users_units(outside, inside, solutions, tol, max_iter)
    ranked = np.flatnonzero(outside.aside >= 0.5 * ranged.rows.mass)
    totals = ranged.losses(ranged.smooth_parts([each.coef for each in solutions])).sum(axis=0)
    ranked = ranked[np.argsort(-totals[ranked], kind="stable")]
    return RankedFit(outside, solutions, ranked, ranged.shares_aside(outside.aside), values)


def _best_start(whole: RangedProblem, tol: float, max_iter: int, n_init: int) -> _State:
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


def _after_rough_rounds(problem: RangedProblem, state: _State, max_iter: int) -> _State:
    """Return where a few rough rounds lead."""
    for _ in range(_ROUNDS):
        outside = problem.outside(state.aside)
        found = [solve_linear(each, tol=_ROUGH, max_iter=max_iter) for each in outside.problems]
        after = _State(problem, [each.coef for each in found], (outside, found))
        gained = state.value - after.value
        state = after if gained > 0.0 else state
        if gained <= _ROUGH * state.value:
            break
    return state


class _Descent:
    """Rounds of both halves, from a state to one that is critical."""

    def __init__(self, problem: RangedProblem, tol: float, max_iter: int, listeners: Sequence[Progress | None]) -> None:
        self.problem, self.tol, self.max_iter, self.listeners = problem, tol, max_iter, listeners
        self.steps = np.zeros(len(listeners), dtype=int)

    def run(self, state: _State) -> tuple[Outside, list[Solution], list[float]]:
        """Return the problems on the rows that are left in the end, their solutions, and the values on the way."""
        accuracy, values, last_move = max(self.tol, _ROUGH), [state.value], np.inf
        outside = self.problem.outside(state.aside)
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
            outside = self.problem.outside(state.aside)
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
