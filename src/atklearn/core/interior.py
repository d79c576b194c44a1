"""A primal-dual interior point, for problems on which Newton's method labours.

Rows that share x but not y (categorical features, designed experiments, bootstrap samples) with a small k tie in more
ways than the smoothing of :mod:`atklearn.core.newton` can tell apart: it swings between growing and shrinking ``mu``.
An interior point does not see ties. It solves

    minimise over z, lam >= 0, t >= 0:   lam + sum(u t) + sum(ridge z^2) / 2,      s_i = t_i - (l_i(z) - lam) >= 0

with multipliers ``u r`` for ``s``, ``u q`` for ``t`` (``q = 1 - r``) and ``nu = 1 - sum(u r)`` for ``lam``, following
the path ``r s = q t = nu lam = mu`` down. Eliminating s, t and r leaves one system in z and lam, of the very shape of
Newton's: with ``theta = 1 / (s / r + t / q)``

    [ ridge + X^T diag(u (r l'' + theta l'^2)) X    -X^T (u theta l')       ]
    [ -(u theta l')^T X                              sum(u theta) + nu / lam ]

so a step costs one weighted Gram matrix. Mehrotra's corrector sets how far mu falls. Losses |s| are two rows for each
sample, one for either side. For curved losses the step is halved until complementarity and residual have not grown
together, and where that was needed, the next Gram matrix has at least the curvature that was met on the way. ``r`` are
densities like any others, so the certificate is that of every solver.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from atklearn.core.point import Point
from atklearn.core.problem import Certificate, Problem, Progress, Solution, StopReason
from atklearn.core.store import Expanded
from atklearn.losses.individual import Array

__all__ = ["solve_interior"]

_TO_THE_BOUNDARY = 0.995  # of the way there, a step may go
_MAX_HALVINGS = 12
_BISECTIONS = 20  # for the first threshold, which need not be fine
_SHORTEST = 1e-9  # a step that is as good as none
_PATIENCE = 15  # steps without a smaller gap before giving up
_NEAR = 3.0  # times the tolerance: an estimate of the gap that is worth to be certified
_FORGET = 0.5  # what of a curvature met on the way is kept after each step


class _Interior(NamedTuple):
    """Where a solve has got to; arrays of the sides of the samples have the shape (n_sides, n)."""

    z: Array
    lam: float
    nu: float
    r: Array
    q: Array
    s: Array
    t: Array
    at: Expanded


class _Residuals(NamedTuple):
    """What is missing from the optimum: ``sum(u (r s + q t)) + nu lam``, and the derivatives in z and in lam."""

    complementarity: float
    in_z: Array
    in_lam: float
    cost: float
    """What the residual in z costs the bound, ``C/2 |in_z|^2``."""

    @property
    def gap(self) -> float:
        """How far this is from the optimum, about."""
        return self.complementarity + self.cost


class _Step(NamedTuple):
    """How everything moves, to first order."""

    z: Array
    predictions: Array
    lam: float
    nu: float
    r: Array
    s: Array
    t: Array


def solve_interior(
    problem: Problem, coef: Array, width: float, tol: float, max_iter: int, progress: Progress | None = None
) -> Solution:
    """Minimise until the gap is at most ``tol`` times the objective.

    Parameters
    ----------
    problem : Problem
        On rows that can be gathered, with few enough columns for a Gram matrix at every step.
    coef : ndarray of shape (n_columns,)
        Where to begin.
    width : float
        How far from the boundary to begin, in units of the loss: about the gap at ``coef``, but not above the losses.
    tol, max_iter, progress
        See :func:`atklearn.core.solve.solve_linear`.
    """
    return InteriorPoint(problem).run(coef, width, tol, max_iter, progress)


class InteriorPoint:
    """One solve of one problem; :meth:`run` is the algorithm, the other methods are its moves."""

    def __init__(self, problem: Problem) -> None:
        self.rows, self.extend = problem.rows.gathered()
        self.problem = problem if self.rows is problem.rows else problem.on(self.rows, problem.k)
        self.u = self.rows.mass / problem.k
        self.sides = np.array([[1.0], [-1.0]] if self.rows.kink.is_two_sided else [[1.0]])
        self.pairs = 2.0 * len(self.sides) * float(self.u.sum()) + 1.0  # of complementary numbers, weighted
        self.point: Point | None = None
        self.met = np.zeros(self.rows.n_rows)  # curvature of the losses that steps have met

    def run(self, coef: Array, width: float, tol: float, max_iter: int, progress: Progress | None) -> Solution:
        """Follow the path from near ``coef``."""
        now, missing = self._begin(coef, width)
        best: Certificate | None = None
        least, since, steps, stopped = float("inf"), 0, 0, False
        while True:
            objective = now.lam + float(self.u @ _both(now.t)) + self.problem.penalty(now.z)
            if missing.gap < 0.9 * least:
                least, since = missing.gap, steps
            if progress is not None:  # which may look at where the solver stands
                self.point = self.rows.point(now.z, self.problem.k, _both(self.sides * now.r))
                stopped = bool(progress(steps, objective, missing.gap))
            is_over = stopped or steps >= max_iter or steps - since >= _PATIENCE
            if is_over or missing.gap <= _NEAR * tol * objective:
                found = self.problem.certify(now.z, _both(self.sides * now.r))
                best = found if best is None or found.dual_gap < best.dual_gap else best
                if is_over or best.reaches(tol) or best.is_exhausted(tol):
                    break
            following = self._advance(now, missing)
            if following is None:
                best = best or self.problem.certify(now.z, _both(self.sides * now.r))
                break
            now, missing = following
            steps += 1
        reason = StopReason.MAX_ITER if steps >= max_iter else StopReason.STALLED
        best = replace(best, density=self.extend(best.density))
        return Solution.of(best, tol=tol, n_iter=steps, otherwise=StopReason.CALLBACK if stopped else reason)

    def _begin(self, coef: Array, width: float) -> tuple[_Interior, _Residuals]:
        """Go near the path, so far from the boundary that complementarity is no less than what the residual costs."""
        at = self.rows.expand_at(coef)
        losses = self.sides * at.s
        sizes = np.abs(losses).max(axis=0)
        mean = float(self.u @ sizes) / float(self.u.sum())
        width = max(min(mean, width), 1e-12 * mean, 1e-300)
        while True:
            now = self._at_width(coef, at, losses, width)
            missing = self._missing(now)
            if width >= mean or missing.complementarity >= missing.cost:
                return now, missing
            width = min(10.0 * width, mean)  # so near the boundary, so long a way would end soon

    def _at_width(self, coef: Array, at: Expanded, losses: Array, width: float) -> _Interior:
        """Go where ``s t = width^2`` for all, and lam is such that ``sum(u r) + width / lam = 1``."""

        def interior(lam: float) -> tuple[Array, Array, Array, Array]:
            above = losses - lam
            root = np.hypot(above, 2.0 * width)
            large = 0.5 * (np.abs(above) + root)
            small = width * (width / large)
            t, s = np.where(above > 0.0, large, small), np.where(above > 0.0, small, large)
            return t / (s + t), s / (s + t), s, t

        low, high = 0.0, 2.0 * float(np.abs(losses).max()) + width
        while self._mass(interior(high)[0]) + width / high > 1.0:
            low, high = high, 2.0 * high
        for _ in range(_BISECTIONS):
            lam = 0.5 * (low + high)
            if self._mass(interior(lam)[0]) + width / lam > 1.0:
                low = lam
            else:
                high = lam
        r, q, s, t = interior(high)
        return _Interior(coef.copy(), high, max(1.0 - self._mass(r), width / high), r, q, s, t, at)

    def _mass(self, r: Array) -> float:
        return float(self.u @ _both(r))

    def _missing(self, now: _Interior) -> _Residuals:
        in_z = self.problem.ridge * now.z + self.rows.pull_of(self.u * _both(self.sides * now.r) * now.at.slope)
        pairs = float(self.u @ _both(now.r * now.s + now.q * now.t)) + now.nu * now.lam
        return _Residuals(pairs, in_z, 1.0 - self._mass(now.r) - now.nu, self.problem.stationarity(in_z))

    def _advance(self, now: _Interior, missing: _Residuals) -> tuple[_Interior, _Residuals] | None:
        """Take one step, and return what is missing there; None if there is no way."""
        system = _System(self, now, missing)
        first = system.step(-now.r * now.s, -now.q * now.t, -now.nu * now.lam)
        reach = min(1.0, self._reach(now, first))
        left = self._complementarity(now, first, reach)
        mu = missing.complementarity / self.pairs * min(max(left / missing.complementarity, 0.0), 1.0) ** 3
        step = system.step(
            mu - now.r * now.s - first.r * first.s,
            mu - now.q * now.t + first.r * first.t,
            mu - now.nu * now.lam - first.nu * first.lam,
        )
        if not np.isfinite(step.z).all():
            return None
        length = min(1.0, _TO_THE_BOUNDARY * self._reach(now, step))
        met: Array | None = None
        for _ in range(_MAX_HALVINGS):
            there, rise = self._move(now, step, length)
            residuals = self._missing(there)
            if residuals.gap <= missing.gap:
                break
            if met is None:  # not of a rise that is rounding
                moved = np.abs(length * step.predictions)
                is_rise = (rise > 1e-9 * np.abs(there.at.s)) & (moved > 1e-6 * moved.max())
                met = np.where(is_rise, 2.0 * rise / np.where(is_rise, moved, 1.0) ** 2, 0.0)
            length *= 0.5
        else:
            if not np.isfinite(residuals.complementarity):
                return None
        self.met *= _FORGET
        if met is not None:
            self.met = np.maximum(self.met, met)
        return (there, residuals) if length > _SHORTEST else None

    def _reach(self, now: _Interior, step: _Step) -> float:
        """Return how far the step may go until something is zero."""
        falls = max(
            float((-step.s / now.s).max()), float((-step.t / now.t).max()), -step.lam / now.lam,
            float((-step.r / now.r).max()), float((step.r / now.q).max()), -step.nu / now.nu,
        )  # fmt: skip
        return 1.0 / falls if falls > 0.0 else np.inf

    def _complementarity(self, now: _Interior, step: _Step, length: float) -> float:
        r, s, t = length * step.r, now.s + length * step.s, now.t + length * step.t
        pairs = float(self.u @ _both((now.r + r) * s + (now.q - r) * t))
        return pairs + (now.nu + length * step.nu) * (now.lam + length * step.lam)

    def _move(self, now: _Interior, step: _Step, length: float) -> tuple[_Interior, Array]:
        """Return where a step leads, and by how much the losses are above their tangents there.

        What they are above is added to t, or taken from s where r is small: so ``s = t - (l - lam)`` holds all along.
        """
        z, lam = now.z + length * step.z, now.lam + length * step.lam
        r, q = now.r + length * step.r, now.q - length * step.r
        s, t = now.s + length * step.s, now.t + length * step.t
        at = self.rows.expand_at(z)
        rise = (self.sides * at.s - lam) - (t - s)
        taken = np.where(rise < 0.0, rise, np.where(r < 0.5, np.minimum(rise, 0.9 * s), 0.0))
        moved = _Interior(z, lam, now.nu + length * step.nu, r, q, s - taken, t + (rise - taken), at)
        return moved, np.maximum(rise, 0.0).max(axis=0)


def _both(sides: Array) -> Array:
    """Return the sum over the sides of the samples."""
    total: Array = sides[0] if len(sides) == 1 else sides[0] + sides[1]
    return total


class _System:
    """The linear system at a point, factored."""

    def __init__(self, solver: InteriorPoint, now: _Interior, missing: _Residuals) -> None:
        self.solver, self.now, self.missing = solver, now, missing
        problem, rows, u, sides = solver.problem, solver.rows, solver.u, solver.sides
        slope = now.at.slope
        self.theta = u / (now.s / now.r + now.t / now.q)
        bend = np.maximum(now.at.bend, solver.met)
        H = rows.gram_of(_both(self.theta) * slope**2 + u * (_both(now.r) * bend))
        self.pull = rows.pull_of(_both(sides * self.theta) * slope)
        self.stiffness = float(self.theta.sum()) + now.nu / now.lam
        H -= np.outer(self.pull / self.stiffness, self.pull)
        diagonal = np.diagonal(H) + problem.ridge
        self.scale = 1.0 / np.sqrt(np.maximum(diagonal, 1e-300))
        H *= self.scale[:, None]
        H *= self.scale
        jitter = 1e-13
        while True:
            np.fill_diagonal(H, diagonal * self.scale**2 + jitter)
            self.factor, info = dpotrf(H.T, lower=True)
            if info == 0 or not jitter < 1.0:
                break
            jitter *= 100.0  # rounding made it indefinite

    def step(self, in_s: Array, in_t: Array, in_lam: float) -> _Step:
        """Return the step that changes ``r s``, ``q t`` and ``nu lam`` by what is given, to first order."""
        now, rows, sides = self.now, self.solver.rows, self.solver.sides
        slope = now.at.slope
        rise = in_s / now.r - in_t / now.q
        lifted = self.theta * rise
        of_z = -self.missing.in_z - rows.pull_of(_both(sides * lifted) * slope)
        of_lam = -self.missing.in_lam + float(lifted.sum()) + in_lam / now.lam
        target = self.scale * (of_z + self.pull * (of_lam / self.stiffness))
        z = self.scale * dpotrs(self.factor, target, lower=True)[0]
        lam = (of_lam + float(self.pull @ z)) / self.stiffness
        predictions = rows.predictions(z)
        r = (self.theta / self.solver.u) * (sides * (slope * predictions) - lam + rise)
        nu = (in_lam - now.nu * lam) / now.lam
        return _Step(z, predictions, lam, nu, r, (in_s - now.s * r) / now.r, (in_t + now.t * r) / now.q)
