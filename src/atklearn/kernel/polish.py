"""Polish of a nearly optimal kernel machine: the optimality conditions, solved on the free support vectors.

LIBSVM stops within its tolerance of the optimum. There it has found out, nearly always, which samples are at zero,
which at their cap and which are free in between; given that, the free coefficients, the bias b and the threshold
lambda follow from a linear system:

    y_i - f(x_i) - b = lambda sign(beta_i)   for the free i,     sum(beta) = 0,     sum(|beta|) = C.

Samples whose solution leaves their interval are moved to its end; when none does, samples at an end whose loss says
that they should not be there are freed; when none should, the point is optimal to rounding. Moving all that leave at
once takes few rounds but may run in circles; if it does, a second attempt stops at the first sample to leave, which
never makes the dual value worse.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.linalg

from atklearn.kernel.problem import KernelProblem
from atklearn.losses.aggregate import ranked_loss
from atklearn.losses.individual import Array

__all__ = ["n_free", "polish"]

_ROUNDS = 50
# Multiplications the factorisations of one attempt may take: about a second.
_WORK = 3e9
# Coefficients this close to an end of their interval, relative to its length, are at that end.
_SNAP = 1e-8
# Added to the diagonal of the linear system, relative to the kernel, in the manner of a proximal point step: repeated
# samples and low-rank kernels leave the free coefficients undetermined, their predictions not; and with free samples
# of one class alone, b and lambda act alike.
_PROX = 1e-11
# Solutions are repeated this often to remove what the proximal term leaves.
_REFINEMENTS = 3
_ROUNDING = 1e-13


@dataclass
class _State:
    """Where the active-set method stands: ``sign`` is the side each sample is on, or would enter."""

    beta: Array
    residual: Array
    sign: Array
    free: npt.NDArray[np.bool_]
    sum_is_active: bool
    rounding: float = 0.0
    refinements: int = 0
    is_verified: bool = False  # whether the residual has been computed anew


def n_free(problem: KernelProblem, beta: Array) -> int:
    """Count the samples strictly inside their interval: the size of the linear systems to come."""
    return int(np.count_nonzero(_is_free(problem, beta)))


def polish(problem: KernelProblem, beta: Array, residual: Array) -> Array | None:
    """Return the optimal ``beta``, or None where the optimality conditions were not met.

    Parameters
    ----------
    problem : KernelProblem
    beta : ndarray of shape (n_rows,)
        Nearly optimal dual coefficients.
    residual : ndarray of shape (n_rows,)
        ``y - K beta``.
    """
    floor = _dual(problem, _start(problem, beta, residual)) - 1e-9 * problem.C
    for cautious in (False, True):
        state = _start(problem, beta, residual)
        size = int(np.count_nonzero(state.free))
        rounds = min(_ROUNDS + cautious * size, 5 + int(_WORK / max(size, 1) ** 3))
        # the dual value cannot fall, except where the kernel is indefinite: then LIBSVM's point is the better one
        if _reaches_optimum(problem, state, cautious, rounds) and _dual(problem, state) >= floor:
            return state.beta
    return None


def _start(problem: KernelProblem, beta: Array, residual: Array) -> _State:
    """Split the samples into free ones and those at an end."""
    sign = np.sign(beta) if problem.two_sided else problem.y
    slack = problem.C - float(np.abs(beta).sum())
    state = _State(beta, residual.copy(), sign, _is_free(problem, beta), slack <= 1e-6 * problem.C)
    _move(problem, state, np.where(np.abs(beta) < 0.5 * problem.cap, 0.0, sign * problem.cap), ~state.free)
    return state


def _reaches_optimum(problem: KernelProblem, state: _State, cautious: bool, rounds: int) -> bool:
    """Advance the state until the optimality conditions hold to rounding; say whether they do."""
    for _ in range(rounds):
        solved = _solve_on_free(problem, state)
        if solved is None:
            return False
        step, b, lam = solved
        if cautious and _stop_at_first(problem, state, step):
            continue
        _move(problem, state, state.beta + step, state.free)
        if _clip(problem, state):
            continue
        if not state.sum_is_active and np.abs(state.beta).sum() > problem.C * (1.0 + 1e-13):
            state.sum_is_active = True
        elif state.sum_is_active and lam < -state.rounding:
            state.sum_is_active = False
        elif not _release(problem, state, b, lam):
            if state.is_verified:
                return True
            # large steps that cancel leave their rounding in a residual that is carried along
            state.residual, state.is_verified = problem.y - problem.gram.times(state.beta), True
    return False


def _dual(problem: KernelProblem, state: _State) -> float:
    """Return ``sum(beta y) - beta' K beta / 2``."""
    return 0.5 * float(state.beta @ (problem.y + state.residual))


def _is_free(problem: KernelProblem, beta: Array) -> npt.NDArray[np.bool_]:
    fill = np.abs(beta) / problem.cap
    return (fill > _SNAP) & (fill < 1.0 - _SNAP)


def _move(problem: KernelProblem, state: _State, target: Array, where: npt.NDArray[np.bool_]) -> None:
    """Set the coefficients of some samples, and keep the residual true."""
    change = np.where(where, target - state.beta, 0.0)
    if change.any():
        state.residual -= problem.gram.times(change)
        state.beta = np.where(where, target, state.beta)


def _solve_on_free(problem: KernelProblem, state: _State) -> tuple[Array, float, float] | None:
    """Return the step to the solution on the free samples, b and lambda; None if there is none."""
    rows = np.flatnonzero(state.free)
    if rows.size == 0:  # b and lambda may then lie in an interval, and any value in it tells who should be free
        b = problem.best_intercept(state.residual) if problem.intercept else 0.0
        lam = ranked_loss(problem.losses(state.residual - b), problem.mass, problem.k)
        return np.zeros_like(state.beta), b, lam if state.sum_is_active else 0.0
    border, lacking = [], []
    if problem.intercept:
        border.append(np.ones(rows.size))
        lacking.append(-float(state.beta.sum()))
    if state.sum_is_active:
        border.append(state.sign[rows])
        lacking.append(problem.C - float(np.abs(state.beta).sum()))
    system = np.zeros((rows.size + len(border), rows.size + len(border)))
    system[: rows.size, : rows.size] = problem.gram.block(rows)
    scale = max(float(np.abs(system).max()), 1e-300)
    system[: rows.size, rows.size :] = np.array(border).T.reshape(rows.size, len(border))
    system[rows.size :, : rows.size] = system[: rows.size, rows.size :].T
    system.flat[:: system.shape[0] + 1] += np.repeat([_PROX * scale, -_PROX / scale], [rows.size, len(border)])
    right = np.append(state.residual[rows], lacking)
    solution, info = scipy.linalg.lapack.dsysv(system, right, lower=1, overwrite_a=1)[2:]
    if info != 0 or not np.isfinite(solution).all():
        return None
    step, multipliers = solution[: rows.size], solution[rows.size :]
    state.rounding = _ROUNDING * (float(np.abs(problem.y).max()) + scale * float(np.abs(state.beta).sum()))
    whole = np.zeros_like(state.beta)
    whole[rows] = step
    b = float(multipliers[0]) if problem.intercept else 0.0
    lam = float(multipliers[-1]) if state.sum_is_active else 0.0
    return whole, b, lam


def _stop_at_first(problem: KernelProblem, state: _State, step: Array) -> bool:
    """Go along the step until the first sample reaches an end of its interval, or the sum its limit; say whether."""
    along, ahead = state.sign * state.beta, state.sign * step
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = np.where(ahead > 0.0, (problem.cap - along) / ahead, np.where(ahead < 0.0, along / -ahead, np.inf))
    reach = np.where(state.free, np.maximum(reach, 0.0), np.inf)
    first = int(np.argmin(reach))
    growth = float(ahead.sum())
    room = np.inf
    if not state.sum_is_active and growth > 0.0:
        room = max(problem.C - float(along.sum()), 0.0) / growth
    length = min(float(reach[first]), room)
    if length >= 1.0:
        return False
    target = state.beta + length * step
    if room < reach[first]:
        state.sum_is_active = True
        _move(problem, state, target, state.free)
    else:
        target[first] = state.sign[first] * problem.cap[first] if ahead[first] > 0.0 else 0.0
        _move(problem, state, target, state.free)
        state.free[first] = False
    return True


def _clip(problem: KernelProblem, state: _State) -> bool:
    """Move the samples that left their interval to its end, no longer free; say whether there were any."""
    along = state.sign * state.beta
    below = state.free & (along < 0.0)
    above = state.free & (along > problem.cap)
    if not (below.any() or above.any()):
        return False
    _move(problem, state, np.where(above, state.sign * problem.cap, 0.0), below | above)
    state.free &= ~(below | above)
    return True


def _release(problem: KernelProblem, state: _State, b: float, lam: float) -> bool:
    """Free the samples at an end whose loss contradicts it; say whether anything is left to do."""
    shifted = state.residual - b
    at_zero = ~state.free & (state.beta == 0.0)
    if problem.two_sided:
        state.sign = np.where(at_zero, np.sign(shifted), state.sign)
    excess = state.sign * shifted - lam
    wrong = (at_zero & (excess > state.rounding)) | (~state.free & ~at_zero & (excess < -state.rounding))
    if wrong.any():
        state.free |= wrong
        return True
    state.refinements += 1
    lacking = abs(float(state.beta.sum())) if problem.intercept else 0.0
    if state.sum_is_active:
        lacking = max(lacking, abs(problem.C - float(np.abs(state.beta).sum())))
    inexact = np.abs(excess[state.free]).max(initial=0.0) > state.rounding or lacking > _ROUNDING * problem.C
    return state.refinements <= _REFINEMENTS and bool(inexact)
