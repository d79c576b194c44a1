"""The kernel solver: LIBSVM finds the support vectors, the polish their exact coefficients, the certificate judges."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from atklearn.core.problem import Certificate, Solution, StopReason
from atklearn.kernel.polish import n_free, polish
from atklearn.kernel.problem import KernelProblem
from atklearn.kernel.reductions import LibsvmCall, reduce_to_libsvm
from atklearn.losses.aggregate import AverageTopK
from atklearn.losses.individual import Array

__all__ = ["kernel_collapse_limit", "solve_kernel"]

Report: TypeAlias = Callable[[int, float, float], None]

# LIBSVM's own tolerances, tried in turn where its default, 1e-3, does not reach the gap asked for. It keeps kernel
# values in single precision, so that still smaller ones gain nothing.
_STRICTER = (1e-5, 1e-7)
# Up to this many free support vectors a polish costs next to nothing and is done whether or not `tol` needs it.
_CHEAP = 200
# Up to this many it is done if `tol` needs it and LIBSVM has been exact enough for it to take few rounds.
_DEAR = 4000
# LIBSVM takes very long over large C; as many iterations give a good enough estimate.
_ESTIMATE_ITERATIONS = 100_000


def solve_kernel(
    problem: KernelProblem,
    *,
    tol: float = 1e-3,
    max_iter: int = -1,
    cache_size: float = 200,
    verbose: bool = False,
    report: Report | None = None,
) -> Solution:
    """Minimise ``AT_k + |f|^2 / (2 C)``.

    Parameters
    ----------
    problem : KernelProblem
    tol : float
        The duality gap allowed, relative to the objective.
    max_iter : int
        The iterations allowed to each call of LIBSVM, -1 for no limit.
    cache_size : float
        LIBSVM's cache in megabytes.
    verbose : bool
        Whether LIBSVM prints.
    report : callable, default=None
        Called after each call of LIBSVM with its iterations so far, the objective and the gap.

    Returns
    -------
    Solution
        With a certified duality gap, however LIBSVM stopped.
    """
    call = LibsvmCall(max_iter, cache_size, verbose)

    def attempt(polish_up_to: int) -> Certificate:
        found = _certified(problem, reduce_to_libsvm(problem, call), tol, polish_up_to)
        if report is not None:
            report(call.n_iter, found.objective, found.dual_gap)
        return found

    best = attempt(_CHEAP)
    for call.tol in _STRICTER:
        if call.stopped_early or best.reaches(tol):
            break
        best = _tighter(best, attempt(_DEAR))
    if not problem.two_sided and not best.beats(problem.loss_at_zero):
        # Too small a k makes f = 0 the optimum. Any point near it is optimal to the tolerance, with signs that are
        # rounding noise; zero itself is better, and the same whatever the order or the weighting of the samples.
        best = problem.zero(best)
    otherwise = StopReason.MAX_ITER if call.stopped_early else StopReason.STALLED
    return Solution.of(best, tol=tol, n_iter=call.n_iter, otherwise=otherwise)


def _certified(problem: KernelProblem, beta: Array, tol: float, polish_up_to: int) -> Certificate:
    """Return what LIBSVM found with its certificate, polished where that is cheap or needed."""
    beta = problem.feasible(beta)
    residual = problem.y - problem.gram.times(beta)
    size = n_free(problem, beta)
    if size > _CHEAP:
        found = problem.certify(beta, residual)
        if size > polish_up_to or found.reaches(tol):
            return found
    polished = polish(problem, beta, residual)
    if polished is None:
        return problem.certify(beta, residual)
    certificate = _certify_feasible(problem, *polished)
    if certificate.reaches(tol):
        return certificate
    return _tighter(certificate, problem.certify(beta, residual))


def _certify_feasible(problem: KernelProblem, beta: Array, residual: Array) -> Certificate:
    """Certify a point that may miss the constraints by more than rounding."""
    feasible = problem.feasible(beta)
    return problem.certify(feasible, residual - problem.gram.times(feasible - beta))


def _tighter(one: Certificate, other: Certificate) -> Certificate:
    return one if one.dual_gap <= other.dual_gap else other


def kernel_collapse_limit(problem: KernelProblem) -> float:
    """Estimate the amount of mass at or below which f = 0 is optimal: the total hinge loss of an all but free fit.

    See :mod:`atklearn.core.collapse` for the reason, which does not depend on what the function is linear in.
    """
    total = float(problem.mass.sum())
    nearly_free = 1e5 / max(problem.gram.diagonal_mean(), 1e-300)
    average = KernelProblem(
        problem.gram, problem.y, problem.mass, total, nearly_free, two_sided=False, intercept=problem.intercept
    )
    solution = solve_kernel(average, tol=1e-3, max_iter=_ESTIMATE_ITERATIONS)
    residual = problem.y - problem.gram.times(solution.coef) - solution.intercept
    return total * AverageTopK(1.0).value(average.losses(residual), problem.mass)
