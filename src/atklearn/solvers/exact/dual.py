"""A start from the dual, for losses with a kink on wide data.

Hinge and absolute error have no curvature, and on data with many columns most rows end on the kink: Newton's method
then has hundreds of ties to sort out. Coordinate ascent on the dual, which LIBLINEAR made the standard, sorts them
one by one, and its densities certify what it has reached like any others. It knows no bound on the sum of the
densities; where the top k is so small that this matters, or where ascent gets slow, Newton's method goes on from
there.
"""

from __future__ import annotations

from dataclasses import replace

from atklearn.core.store import Density
from atklearn.problems.objective import Problem
from atklearn.problems.solution import Solution, StopReason
from atklearn.solvers.exact.newton import Progress

__all__ = ["climb"]

# Sweeps before the first certificate, and between two of them: as many, or a part of those made.
_SWEEPS = 5
_PART = 0.2
# Ascent is slow where the gap does not fall by this factor, so many certificates in a row.
_GAIN = 0.8
_PATIENCE = 3
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
        exceeded = mass > _EXCEEDED and sweeps > _SWEEPS
        if best.reaches(tol) or slow >= _PATIENCE or sweeps >= max_iter or exceeded:
            return best
