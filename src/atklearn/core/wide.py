"""Wide data, where a Newton step costs many passes over X: cheaper steps first, as long as these get on.

**A start from the dual**, for losses with a kink. Hinge and absolute error have no curvature, and on data with many
columns most rows end on the kink: Newton's method then has hundreds of ties to sort out. Coordinate ascent on the dual,
which LIBLINEAR made the standard, sorts them one by one, and its densities certify what it has reached like any others.
It knows no bound on the sum of the densities; where the top k is so small that this matters, or where ascent gets slow,
other steps go on from there.

**Quasi-Newton steps.** A Newton step solves a system by conjugate gradients, each iteration two passes over X; a step
of limited-memory quasi-Newton (L-BFGS) is two passes in all. On data with thousands of columns there are some three of
them for one of Newton's, and they are the faster by far.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from atklearn.core.newton import ProximalNewton, can_go_inside, go_on_inside, solve_newton
from atklearn.core.problem import Problem, Progress, Solution, Start, StopReason
from atklearn.core.store import Density
from atklearn.losses.individual import Array
from atklearn.runtime.compiling import njit_if_there

__all__ = ["ProximalQuasiNewton", "climb", "solve_wide"]

# So many of these, or one for so many columns, cost as much as some fifteen of Newton's.
_QUASI_STEPS = 200
_COLUMNS_A_STEP = 2


def solve_wide(problem: Problem, begin: Start, tol: float, max_iter: int, progress: Progress | None) -> Solution:
    """Solve by coordinate ascent on the dual if the loss has a kink, then by quasi-Newton steps, then by Newton's."""
    climbed = climb(problem, begin.density, tol, max_iter, progress)
    if climbed is not None:
        if climbed.is_final:
            return climbed
        begin = Start(climbed.coef, climbed.density)
    affordable = max(_QUASI_STEPS, problem.rows.n_columns // _COLUMNS_A_STEP)
    steps = min(affordable, max(max_iter // 2, 1))  # some are left for Newton's
    quick = ProximalQuasiNewton(problem, begin).run(tol, steps, progress)
    if quick.is_final or quick.n_iter >= max_iter:
        return quick
    if can_go_inside(problem):
        return go_on_inside(problem, quick, tol, max_iter, progress)
    begin = Start(quick.coef, quick.density, quick.smoothing)
    solution = solve_newton(problem, begin, tol, max_iter - quick.n_iter, progress)
    return replace(solution, n_iter=quick.n_iter + solution.n_iter)


_MEMORY = 20  # pairs of a step and the change of the gradient along it
_CURVED = 1e-12  # what a pair must show of curvature to be kept, relative
_LOOKS = 5  # at most, for the best intercept
_FLATTEST = 1e-3  # relative to the curvature last seen
_BALANCED = 1e-2  # of the other parts of the gap: an imbalance that is small enough
_LABOURS_A_COLUMN = 0.3  # steps before an interior point, where the top is everything


class ProximalQuasiNewton(ProximalNewton):
    """One solve of one problem with steps of L-BFGS."""

    shrinks = ((3, 0.1), (20, 0.5))
    slow = 1000
    labours = 15
    width = 0.15

    def __init__(self, problem: Problem, begin: Start) -> None:
        # A step of an interior point costs the more of these, the more columns there are; and the larger the top, the
        # less is tied, which is what they labour at.
        top = problem.k / problem.rows.total
        self.labours = max(self.labours, int(_LABOURS_A_COLUMN * top * problem.rows.n_columns))
        self.memory = _Memory(problem.rows.n_columns)
        self.free_curvature = 0.0  # along the column of ones, as last seen
        super().__init__(problem, begin)

    def _step(self) -> bool:
        """Take one quasi-Newton step; return whether it moved."""
        point, before, gradient = self.point, self.point.z, self.gradient
        # the first step goes where the objective would vanish, were it linear
        scale = min(self.problem.C, self.reading.bound / max(float(gradient @ gradient), 1e-300))
        direction = self.memory.direction(gradient, scale)
        _, reading = self._line_search(direction, point.towards(direction))
        if reading is None:
            self.memory.forget()
            return False
        self.reading = reading
        if isinstance(self.problem.free, int):
            self._balance()
        self._differentiate()
        self.memory.learn(self.point.z - before, self.gradient - gradient)
        return True

    def _balance(self) -> None:
        """Move along the column of ones to where the derivative vanishes, by secants: no pass over X.

        The gap is linear in that derivative and quadratic in all others, so it would be the last to fall.
        """
        point, others = self.point, self.problem.stationarity(self.gradient)
        for _ in range(_LOOKS):
            push = self.reading.push
            if self.reading.imbalance <= _BALANCED * (others + self.reading.slack):
                return
            curvature = self.free_curvature or self.reading.size
            point.shift(-push / curvature)
            self.reading = point.smooth(self.mu)
            change = push - self.reading.push
            # where the derivative hardly changes, the next step must not be too far
            self.free_curvature = curvature * (max(change / push, _FLATTEST) if change * push > 0.0 else 4.0)


class _Memory:
    """The last steps, and how the gradient changed along them: an inverse Hessian to multiply with."""

    def __init__(self, size: int) -> None:
        self.steps, self.changes = np.empty((2, _MEMORY, size))
        self.inverse = np.empty(_MEMORY)  # 1 / (step . change)
        self.count = 0

    def forget(self) -> None:
        """Start afresh."""
        self.count = 0

    def learn(self, step: Array, change: Array) -> None:
        """Keep a pair, in the place of the oldest, if it shows curvature."""
        product = float(step @ change)
        if product > _CURVED * np.sqrt(float(step @ step) * float(change @ change)):
            place = self.count % _MEMORY
            self.steps[place], self.changes[place], self.inverse[place] = step, change, 1.0 / product
            self.count += 1

    def direction(self, gradient: Array, scale: float) -> Array:
        """Return minus the inverse Hessian times the gradient; ``scale`` times it as long as nothing is known."""
        out: Array = _two_loops(self.steps, self.changes, self.inverse, self.count, gradient, scale)
        return out


@njit_if_there(cache=True)
def _two_loops(steps, changes, inverse, count, gradient, scale):  # type: ignore[no-untyped-def]
    """Return ``-H gradient`` by the recursion of L-BFGS; the pairs are in a ring."""
    known = min(count, len(inverse))
    out = -gradient
    weights = np.empty(known)
    for back in range(known):
        place = (count - 1 - back) % len(inverse)
        weights[back] = inverse[place] * (steps[place] @ out)
        out -= weights[back] * changes[place]
    if known > 0:
        last = (count - 1) % len(inverse)
        out /= inverse[last] * (changes[last] @ changes[last])
    else:
        out *= scale
    for back in range(known - 1, -1, -1):
        place = (count - 1 - back) % len(inverse)
        out += (weights[back] - inverse[place] * (changes[place] @ out)) * steps[place]
    return out


# Sweeps before the first certificate, and between two of them: as many, or a part of those made.
_SWEEPS = 5
_PART = 0.2
# Ascent is slow where the gap does not fall by this factor, so many certificates in a row.
_GAIN = 0.8
_PATIENCE = 3
_MOST_SWEEPS = 50  # where an interior point is at hand
_EXCEEDED = 1.0 + 1e-6  # what the densities may sum to


def climb(
    problem: Problem, density: Density | None, tol: float, max_iter: int, progress: Progress | None
) -> Solution | None:
    """Return what coordinate ascent on the dual reaches: the solution, or a start; None where there is no such ascent.

    Examples
    --------
    >>> import numpy as np
    >>> from atklearn.losses.individual import Hinge
    >>> from atklearn.stores.compiled import CompiledRows
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.standard_normal((50, 80)), np.sign(rng.standard_normal(50))
    >>> rows = CompiledRows(X, y, np.ones(50), Hinge(), intercept=True)
    >>> climb(Problem(rows, k=50.0, C=10.0, intercept="free"), None, 1e-3, 1000, None).reaches(1e-3)
    True
    """
    if problem.units is not None and (problem.units.scale != 1.0).any():
        return None  # coordinates that pay different penalties
    ascent = problem.rows.ascent(problem.k, problem.C, density, balanced=problem.free is not None)
    if ascent is None:
        return None
    best: Solution | None = None
    most = min(max_iter, _MOST_SWEEPS) if can_go_inside(problem) else max_iter
    sweeps = slow = 0
    while True:
        following = sweeps + max(_SWEEPS, int(_PART * sweeps))
        while sweeps < following:
            mass = ascent.sweep()
            sweeps += 1
        certificate = problem.certify(ascent.z, ascent.density)
        gained = best is None or certificate.dual_gap <= _GAIN * best.dual_gap
        slow = 0 if gained else slow + 1
        if best is None or certificate.dual_gap < best.dual_gap:
            best = Solution.of(certificate, tol=tol, n_iter=sweeps, otherwise=StopReason.MAX_ITER)
        stopped = progress is not None and bool(progress(sweeps, certificate.objective, certificate.dual_gap))
        if stopped:
            return replace(best, stop_reason=StopReason.CALLBACK)
        if best.is_exhausted(tol):
            return replace(best, stop_reason=StopReason.ROUNDING)
        exceeded = mass > _EXCEEDED and sweeps > _SWEEPS
        if best.reaches(tol) or slow >= _PATIENCE or sweeps >= most or exceeded:
            return best
