"""Proximal point on the sample weights, semismooth Newton inside.

Symbols: ``z`` = (w, b), ``f = X z``, ``s(f)`` the smooth part of the losses, ``r`` the density of the sample weights,
``centre`` the density of the last proximal step, ``mu`` the smoothing, ``lam`` the threshold.

The smoothed objective phi(z) = |w|^2/(2C) + max over r of sum(u (r s - mu/2 (r - centre)^2)) is minimised by Newton's
method. When its gradient is small against the slack that the smoothing leaves, the centre moves to ``r`` and ``mu``
shrinks; where Newton's method labours, ``mu`` grows. The gap ``C/2 |grad phi|^2 + slack`` bounds the distance from the
optimum all along, so it alone decides when to stop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from atklearn.losses.individual import Array
from atklearn.problems.objective import Certificate, Problem, bound_and_slack, intercept_balance
from atklearn.problems.solution import Solution, StopReason
from atklearn.solvers.exact.system import NewtonSystem, newton_system
from atklearn.solvers.exact.smoothing import Point, density_start, spread

# Called after every move with the Newton steps so far, the objective and the gap; a true answer stops the solver.
Progress: TypeAlias = Callable[[int, float, float], bool | None]

_SHRINK = 0.2  # of mu after a quick inner solve
_GROW = 5.0  # of mu after a slow one
_QUICK = 6  # Newton steps
_SLOW = 12
_MAX_TRIALS = 30  # of the line search
_DAMPING = (1e-13, 1e-3)  # least and most, of the pivot of a free intercept
_PATIENCE = 20  # moves that change nothing before giving up
_FLOOR = 1e-15  # gap, relative to the first objective, below which rounding rules


class ProximalNewton:
    """One solve of one problem; :meth:`run` is the algorithm, the other methods are its moves."""

    def __init__(self, problem: Problem, start: Array, density: Array | None, smoothing: float | None) -> None:
        self.problem = problem
        self.z = start
        self.centre = density_start(problem.two_sided, problem.u) if density is None else density
        self.damping = _DAMPING[0]
        self.system: NewtonSystem | None = None  # as long as it holds
        self.rng = np.random.default_rng(0)  # the Hessian sample is drawn afresh each step but the same way each run
        self.point, self.trial = Point(problem.n_rows), Point(problem.n_rows)
        self.point.f[:] = problem.design.predict(start) if start.any() else 0.0
        self.drift = 0.0  # how far rounding can have moved f from X z
        self._expand(self.point)
        self.guess_smoothing = smoothing is None
        self.mu = self._spread() if smoothing is None else smoothing
        self._smooth()

    def run(self, tol: float, max_iter: int, progress: Progress | None = None) -> Solution:
        """Minimise until the gap is at most ``tol`` times the objective."""
        problem = self.problem
        first = self._measure()
        target_share = 1.0  # tightened if the exact certificate falls short of the running estimate
        inner = steps = stalls = refreshes = 0
        reason = StopReason.MAX_ITER
        while True:
            objective, stationarity, slack = self._measure()
            target = tol * objective + _FLOOR * first[0]
            stopped = progress is not None and bool(progress(steps, objective, stationarity + slack))
            if stationarity + slack <= target_share * target:
                certificate = self._certify(target)
                if certificate.gap <= target:
                    reason = StopReason.CONVERGED
                    break
                target_share *= 0.3
                self._refresh()
                refreshes += 1
            if stopped or steps >= max_iter or stalls >= _PATIENCE or refreshes >= _PATIENCE:
                certificate = self._certify(target)
                if stopped:
                    reason = StopReason.CALLBACK
                elif steps < max_iter:
                    reason = StopReason.STALLED
                break
            if stationarity <= max(0.3 * slack, 0.1 * target_share * target):
                stalls = stalls + 1 if inner == 0 else 0
                self._recentre(_SHRINK if inner <= _QUICK else 1.0)
                inner = 0
            elif inner >= _SLOW:
                self.mu *= _GROW
                self._smooth()
                inner = 0
            else:
                stalls = 0 if self._step() else stalls + 1
                steps += 1
                inner += 1
                if self.guess_smoothing and steps == 2:  # the losses at the start say little about their spread
                    self.mu = max(self._spread(), 1e-3 * self.mu)
                    self._smooth()
                    inner = 0
        return Solution(
            coef=self.z,
            threshold=certificate.threshold,
            sample_weights=problem.u * np.abs(certificate.density),
            density=certificate.density,
            objective=certificate.objective,
            dual_gap=certificate.gap,
            smoothing=self.mu,
            n_iter=steps,
            stop_reason=reason,
        )

    def _measure(self) -> tuple[float, float, float]:
        """Return an upper bound of the objective, and the two parts of the gap."""
        problem, point = self.problem, self.point
        bound, slack = bound_and_slack(point.s, point.r, problem.u, point.lam, problem.two_sided)
        stationarity = problem.stationarity(self.gradient)
        if problem.has_free_intercept:
            stationarity += intercept_balance(point.s, point.r, problem.u, point.a)[2]
        return bound + problem.penalty(self.z), stationarity, slack

    def _certify(self, target: float) -> Certificate:
        """Return the exact certificate, from fresh predictions unless rounding cannot have moved them."""
        drifted = self.drift * np.abs(self.point.slope).max() > 1e-5 * target
        expanded = None if drifted else (self.point.s, self.point.slope)
        return self.problem.certify(self.z, self.point.r, expanded)

    def _step(self) -> bool:
        """Take one Newton step; return whether it moved."""
        problem, point = self.problem, self.point
        # A free intercept may have to move across all predictions and targets, hardly further.
        reach = 2.0 * (max(point.f.max(), problem.y.max()) - min(point.f.min(), problem.y.min()))
        fresh = self.system is None
        if self.system is None:
            self.system = newton_system(problem, point, self.gradient, self.mu, reach, self.damping, self.rng)
        direction = self.system.solve(-self.gradient)
        f_direction = problem.design.predict(direction)
        t = self._line_search(direction, f_direction)
        if t == 0.0:
            self.system = None
            return False
        self.drift += 1e-15 * (np.abs(point.f).max() + t * np.abs(f_direction).max())
        if t == 1.0:
            self.damping = max(1e-3 * self.damping, _DAMPING[0])
        elif t < 0.01:  # the intercept wants to move too far
            self.damping = min(1e3 * self.damping, _DAMPING[1])
        self.z = self.z + t * direction
        self.point, self.trial = self.trial, self.point
        if self.system.lasting and problem.has_free_intercept:
            self._correct_intercept(self.system.last)
        before = np.linalg.norm(self.gradient)
        self._differentiate()
        if not (fresh and self.system.lasting and t == 1.0 and np.linalg.norm(self.gradient) < 0.1 * before):
            self.system = None
        return True

    def _correct_intercept(self, curvature: float) -> None:
        """Take one more Newton step along the intercept: no pass over X, and the gap is linear in its derivative."""
        shift = -self.point.a.sum() / curvature
        self.z[-1] += shift
        self.point.f += shift
        self._expand(self.point)
        self.point.smooth(self.centre, self.problem.u, self.mu, self.problem.two_sided)

    def _line_search(self, direction: Array, f_direction: Array) -> float:
        """Leave in ``self.trial`` a point where the slope of phi has halved; it is convex, so a bracket finds it.

        Return its distance, or 0 if the direction does not descend.
        """
        problem, trial = self.problem, self.trial
        slope = float(self.gradient @ direction)
        if not slope < 0.0:
            return 0.0
        low, high, slope_low, slope_high = 0.0, 1.0, slope, 0.0
        tried = t = 1.0
        for _ in range(_MAX_TRIALS):
            np.multiply(f_direction, t, out=trial.f)
            trial.f += self.point.f
            self._expand(trial)
            trial.lam = self.point.lam
            trial.smooth(self.centre, problem.u, self.mu, problem.two_sided)
            slope_t = float((problem.ridge * (self.z + t * direction)) @ direction)
            slope_t += float(trial.a @ f_direction)
            if abs(slope_t) <= 0.5 * abs(slope) or (t == 1.0 and slope_t < 0.0):
                return t
            if slope_t > 0.0:
                high, slope_high = t, slope_t
            else:
                low, slope_low = t, slope_t
            width = high - low
            secant = low - width * slope_low / (slope_high - slope_low)
            tried, t = t, min(max(secant, low + 0.1 * width), high - 0.1 * width)
        return tried

    def _refresh(self) -> None:
        """Recompute the predictions, which drift from X z as steps are added up."""
        self.point.f[:] = self.problem.design.predict(self.z)
        self.drift = 0.0
        self._expand(self.point)
        self._smooth()

    def _recentre(self, shrink: float) -> None:
        """Take the proximal step: the densities become the centre."""
        self.centre = self.point.r.copy()
        # Below 1e-7 of the losses, the threshold has too few digits left to place the densities.
        self.mu = max(self.mu * shrink, 1e-7 * max(self.point.lam, self._spread()))
        self._smooth()

    def _expand(self, point: Point) -> None:
        self.problem.expand(point.f, point.s, point.slope)

    def _smooth(self) -> None:
        """Find threshold, densities and gradient of phi at the point."""
        self.point.smooth(self.centre, self.problem.u, self.mu, self.problem.two_sided)
        self.system = None
        self._differentiate()

    def _differentiate(self) -> None:
        self.gradient = self.problem.ridge * self.z + self.problem.design.pull_back(self.point.a)

    def _spread(self) -> float:
        """Return the standard deviation of the losses, or their mean size where they are all alike."""
        deviation, size = spread(self.point.s, self.problem.u)
        return float(deviation if deviation > 1e-3 * size else max(size, 1e-300))
