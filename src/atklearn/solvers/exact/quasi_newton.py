"""The same proximal point iteration with limited-memory quasi-Newton steps, for many columns.

A Newton step solves a system by conjugate gradients, each iteration two passes over X; a quasi-Newton step (L-BFGS) is
two passes in all. On data with thousands of columns there are some three of them for one of Newton's, and they are the
faster by far.
"""

from __future__ import annotations

import numpy as np

from atklearn.losses.compiling import njit_if_there
from atklearn.losses.individual import Array
from atklearn.problems.objective import Problem
from atklearn.solvers.exact.newton import ProximalNewton, Start

__all__ = ["ProximalQuasiNewton"]

_MEMORY = 20  # pairs of a step and the change of the gradient along it
_CURVED = 1e-12  # what a pair must show of curvature to be kept, relative
_LOOKS = 5  # at most, for the best intercept
_FLATTEST = 1e-3  # relative to the curvature last seen
_BALANCED = 1e-2  # of the other parts of the gap: an imbalance that is small enough


class ProximalQuasiNewton(ProximalNewton):
    """One solve of one problem with steps of L-BFGS."""

    shrinks = ((3, 0.1), (20, 0.5))
    slow = 1000
    width = 0.15

    def __init__(self, problem: Problem, begin: Start) -> None:
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
