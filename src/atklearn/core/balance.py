"""Weights that balance the samples at w = 0, and so prove that zero is optimal.

At w = 0 all losses of a classifier are equal, and every density r with ``sum(u r) = 1`` attains AT_k. So zero is
optimal if one of them has no gradient: ``sum(u r y x) = 0``. Which loss is paid does not matter, so the hinge may
stand in for it, whose gradient is the same everywhere: smoothed around equal densities c,

    phi(w) = max over r of sum(u (r (1 - y x . w) - mu/2 (r - c)^2)),   0 <= r <= 1,  sum(u r) <= 1,

has the gradient ``-sum(u r y x)``. Its minimiser therefore has the balancing weights nearest to c. It is piecewise
quadratic, so a few Newton steps find it; the further k is below the switch, the fewer bounds are met on the way.

If k is above the switch there are no such weights. Then some w has a top-k hinge loss below 1, the one of w = 0, and
is met on the same way: so the search ends early for either answer.
"""

from __future__ import annotations

import numpy as np

from atklearn.core.newton import ProximalNewton
from atklearn.core.problem import THINNING, Certificate, Problem, Start
from atklearn.core.store import Density
from atklearn.losses.individual import Hinge

__all__ = ["certify_zero"]

_LOOK = 1000  # rows that tell the units of the features
_NEARLY_FREE = 1e7  # C of the hinge, in units of the features
_PENALISED = 1e3  # C up to which the penalty may make zero optimal, in the same units
_MU = 1.0  # the smoothing at first: in the hinge, 1 is the loss at zero
_SHRINK = 0.2
_ROUGH = 1e-3  # relative gap that is enough on a part of the rows, and to see that the smoothing is too wide
_MAX_STEPS = 25
_ROUNDING = 1e-12


def certify_zero(
    problem: Problem, tol: float, max_iter: int, density: Density | None = None
) -> tuple[Certificate | None, int]:
    """Prove that w = 0 is optimal to ``tol``, whatever C, if it is.

    Parameters
    ----------
    problem : Problem
    tol : float
    max_iter : int
        The number of Newton steps allowed.
    density : Density, default=None
        Densities that may balance already: those of a neighbour, at another k or C, that collapsed.

    Returns
    -------
    certificate : Certificate or None
        Of zero; None if k is above the switch, or so close below it that it could not be told.
    steps : int
        Newton steps taken on the rows of the problem.
    """
    strict = _strict(problem)
    if density is not None:
        density = problem.rows.blend([(1.0, density)], problem.k)
        certificate = _certify(problem, strict, density, tol)
        if certificate is not None:
            return certificate, 0
    newton = _balance(strict, tol, min(_MAX_STEPS, max_iter))
    if _is_above(newton) or newton.reading.threshold == 0.0:
        return None, newton.steps
    return _certify(problem, strict, newton.point.densities(), tol), newton.steps


def _strict(problem: Problem) -> Problem:
    """Return the problem with so large a C that zero is optimal by k alone, not by the penalty."""
    return problem.at(problem.k, max(problem.C, _PENALISED / _unit(problem)))


def _unit(problem: Problem) -> float:
    """Return the mean of ``|x|^2``, from some rows."""
    return max(problem.rows.sample(_LOOK).mean_square(), 1e-100)


def _certify(problem: Problem, strict: Problem, density: Density, tol: float) -> Certificate | None:
    """Return the certificate of zero with given densities, if these prove it even where the penalty does not count."""
    zero = np.zeros(problem.rows.n_columns)
    proof = problem.rows.point(zero, problem.k, density).prove(balanced=problem.free is not None)
    return problem.conclude(zero, proof) if strict.conclude(zero, proof).reaches(tol) else None


def _balance(problem: Problem, tol: float, max_steps: int) -> ProximalNewton:
    """Walk until the weights leave a gap of at most ``tol`` at zero, or are seen not to exist.

    On many rows the way begins where it ended on a part of them.
    """
    start, mu = np.zeros(problem.rows.n_columns), _MU
    if problem.is_large:
        sketch = _balance(problem.thinned(problem.rows.n_rows // THINNING), max(tol, _ROUGH), max_steps)
        start, mu = sketch.point.z, sketch.mu
    nearly_free = max(_NEARLY_FREE / _unit(problem), 1e4 * problem.C)
    hinge = Problem(problem.rows.paying(Hinge()), problem.k, nearly_free, problem.intercept, problem.units)
    newton = ProximalNewton(hinge, Start(start, None, mu))
    while not _is_above(newton) and newton.steps < max_steps:
        gap = _relative_gap(problem, newton)
        if newton.reading.threshold > 0.0:
            if gap <= 0.5 * tol:
                break
        elif gap <= _ROUGH:  # the weights sum to less than k: they are held too near to equal
            newton.resume(_SHRINK * newton.mu)
        if not newton.advance():
            break
    return newton


def _is_above(newton: ProximalNewton) -> bool:
    """Say whether k is above the switch: the hinge prefers this point to zero."""
    return newton.reading.bound < 1.0 - _ROUNDING


def _relative_gap(problem: Problem, newton: ProximalNewton) -> float:
    """Return about what the weights leave of a gap at zero, relative to the loss there.

    The derivative of the loss at zero, times that of the hinge, is that of the weights; what is out of balance along
    an unpenalised intercept is given up on the heavier side.
    """
    slope = problem.loss.expand(np.zeros(1), np.ones(1))[1][0]
    gradient = newton.gradient - newton.problem.ridge * newton.point.z
    gap = problem.stationarity(slope * gradient) / problem.rows.loss_at_zero
    return float(gap if problem.free is None else gap + abs(gradient[problem.free]))
