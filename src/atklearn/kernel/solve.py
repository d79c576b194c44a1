"""From a kernel problem to its solution: LIBSVM finds the support vectors, the polish their exact coefficients.

The certificate judges both. Where LIBSVM takes too long and there are few rows, or the kernel is linear, the linear
solver takes over: with ``K = Z Z'`` the problem is the linear one on the rows of Z.

In LIBSVM's terms (see :mod:`atklearn.kernel.problem` for the dual; ``c = C / k``, ``sum(|beta|) <= C``):

==============  =====  ==========================================================================================
loss            bias   reduction
==============  =====  ==========================================================================================
hinge           yes    ``SVC(C=c)`` if its ``sum(|beta|) <= C``; else ``NuSVC(nu=k/n)`` scaled to ``sum(|beta|) = C``
hinge           no     ``OneClassSVM`` on ``y_i y_j K`` and one slack row
absolute error  yes    ``NuSVR(C=c, nu=k/n)``
absolute error  no     ``OneClassSVM`` on ``K`` twice, with both signs, and one slack row
==============  =====  ==========================================================================================

The scale of the second line is the paper's rho = 1 - lambda; it exceeds one exactly where the first applies. All four
take sample weights as multiples of the caps, with n the total weight.

The slack row makes one-class machines, which fix ``sum(a) = k`` and have no linear term, solve

    minimise   a' Q a / 2 - p' a      subject to   0 <= a_i <= mass_i,   sum(a) <= k.

The row's own variable takes up ``k - sum(a)``. And where all variables sum to k, adding ``-(p_i + p_j) / k`` to
``Q_ij`` adds exactly the linear term ``-p' a``.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, NuSVC, NuSVR, OneClassSVM

from atklearn.core.problem import Certificate, InterceptKind, Problem, Solution, StopReason
from atklearn.core.solve import solve_linear
from atklearn.core.store import PlainStore
from atklearn.kernel.polish import n_free, polish
from atklearn.kernel.problem import KernelName, KernelProblem, Rows
from atklearn.losses.aggregate import AverageTopK
from atklearn.losses.individual import AbsoluteError, Array, Hinge
from atklearn.runtime.compiling import HAS_NUMBA
from atklearn.stores.compiled import CompiledRows

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
# The iterations allowed by default: LIBSVM's own limit, which scikit-learn lifts, or so many per row.
_ITERATIONS = 10_000_000
_ITERATIONS_PER_ROW = 100
# Where the linear solver can take over, LIBSVM is left earlier: about when it has cost as much as that will.
_ITERATIONS_BEFORE_LINEAR = 100_000
_ITERATIONS_PER_PAIR = 2
# The gap at which the linear solver stops: what is left of it is for the polish.
_LINEAR_TOL = 1e-10


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
        The iterations allowed to each call of LIBSVM. -1 is LIBSVM's own limit, before which the linear solver takes
        over where it can.
    cache_size : float
        LIBSVM's cache in megabytes.
    verbose : bool
        Whether LIBSVM prints.
    report : callable, default=None
        Called after each attempt with LIBSVM's iterations so far, the objective and the gap.

    Returns
    -------
    Solution
        With a certified duality gap, however LIBSVM stopped.
    """
    n = problem.n_rows
    has_linear_form = max_iter == -1 and problem.gram.has_factor
    if max_iter == -1:
        max_iter = max(_ITERATIONS, _ITERATIONS_PER_ROW * n)
    if has_linear_form:
        max_iter = min(max_iter, max(_ITERATIONS_BEFORE_LINEAR, _ITERATIONS_PER_PAIR * n * n))
    call = LibsvmCall(max_iter, cache_size, verbose)

    def attempt(solver: Callable[[KernelProblem, LibsvmCall], Array], polish_up_to: int) -> Certificate:
        found = _certified(problem, solver(problem, call), tol, polish_up_to)
        if report is not None:
            report(call.n_iter, found.objective, found.dual_gap)
        return found

    best = attempt(reduce_to_libsvm, _CHEAP)
    for call.tol in _STRICTER:
        if call.stopped_early or best.reaches(tol):
            break
        best = _tighter(best, attempt(reduce_to_libsvm, _DEAR))
    if has_linear_form and not best.reaches(tol):
        best = _tighter(best, attempt(_by_linear_solver, _DEAR))
    if not problem.two_sided and not best.beats(problem.loss_at_zero):
        # Too small a k makes f = 0 the optimum. Any point near it is optimal to the tolerance, with signs that are
        # rounding noise; zero itself is better, and the same whatever the order or the weighting of the samples.
        best = problem.zero(best)
    otherwise = StopReason.MAX_ITER if call.stopped_early and not has_linear_form else StopReason.STALLED
    return Solution.of(best, tol=tol, n_iter=call.n_iter, otherwise=otherwise)


def _certified(problem: KernelProblem, beta: Array, tol: float, polish_up_to: int) -> Certificate:
    """Return dual coefficients with their certificate, polished where that is cheap or needed."""
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
    # from the coefficients alone: the residual that the polish carries along is off where large steps have cancelled
    certificate = problem.certify(problem.feasible(polished))
    if certificate.reaches(tol):
        return certificate
    return _tighter(certificate, problem.certify(beta, residual))


def _tighter(one: Certificate, other: Certificate) -> Certificate:
    return one if one.dual_gap <= other.dual_gap else other


def _by_linear_solver(problem: KernelProblem, _: LibsvmCall) -> Array:
    """Return the dual coefficients that the linear solver finds on rows whose products are the kernel values."""
    loss = AbsoluteError() if problem.two_sided else Hinge()
    store = CompiledRows if HAS_NUMBA else PlainStore
    rows = store(problem.gram.factor(), problem.y, problem.mass, loss, problem.intercept)
    kind: InterceptKind = "free" if problem.intercept else "none"
    density = solve_linear(Problem(rows, problem.k, problem.C, kind), tol=_LINEAR_TOL).density
    beta: Array = problem.cap * (density if problem.two_sided else problem.y * np.abs(density))
    return beta


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


# From this many rows on, a sample of them tells whether SVC or NuSVC is the one to call first.
_LARGE = 1000
_SAMPLE = 2000


@dataclass
class LibsvmCall:
    """How to call LIBSVM, and the iterations it took so far."""

    max_iter: int
    cache_size: float
    verbose: bool
    tol: float = 1e-3
    n_iter: int = 0
    stopped_early: bool = False

    def fit(self, machine: BaseEstimator, X: Rows, y: Array | None, mass: Array) -> BaseEstimator:
        """Fit one of scikit-learn's machines; its early stop is noted, not warned of: the certificate decides."""
        machine.set_params(max_iter=self.max_iter, cache_size=self.cache_size, verbose=self.verbose)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            _interruptibly(lambda: machine.fit(X, y, sample_weight=mass))
        self.n_iter += int(np.sum(machine.n_iter_))
        self.stopped_early |= machine.fit_status_ == 1
        return machine


def reduce_to_libsvm(problem: KernelProblem, call: LibsvmCall) -> Array:
    """Return the dual coefficients ``beta`` of the AT_k problem, shape (n_rows,), as exact as ``call.tol``."""
    if not problem.intercept:
        return _bias_free(problem, call)
    if problem.two_sided:
        return _nu_svr(problem, call)
    if np.unique(problem.y).size == 1:  # the bias alone does it
        return np.zeros(problem.n_rows)
    return _svc_or_nu_svc(problem, call)


def _svc_or_nu_svc(problem: KernelProblem, call: LibsvmCall) -> Array:
    """Call SVC or NuSVC, the likelier first, and the other if that one proves not to apply."""
    smaller = min(problem.mass[problem.y > 0].sum(), problem.mass[problem.y < 0].sum())
    always_slack = problem.k >= 2.0 * smaller * (1.0 - 1e-9)  # sum(beta) = 0 keeps sum(|beta|) <= 2 c smaller
    if always_slack:
        return _svc(problem, call)
    nearly_always = problem.k >= 1.7 * smaller
    if nearly_always or _is_probably_slack(problem, call):
        beta = _svc(problem, call)
        return beta if np.abs(beta).sum() <= problem.C else _scaled(problem, _nu_svc(problem, call))
    beta = _nu_svc(problem, call)
    return _scaled(problem, beta) if np.abs(beta).sum() >= problem.C else _svc(problem, call)


def _is_probably_slack(problem: KernelProblem, call: LibsvmCall) -> bool:
    """Guess from a sample of the rows whether the plain SVM respects ``sum(|beta|) <= C``; wrong only costs time."""
    n = problem.n_rows
    if n < _LARGE:
        return False
    rows = np.sort(np.random.default_rng(0).choice(n, min(n // 10, _SAMPLE), replace=False))
    thinned = problem.take(rows)
    if np.unique(thinned.y).size == 1:
        return False
    sketch = LibsvmCall(call.max_iter, call.cache_size, False)
    return float(np.abs(_svc(thinned, sketch)).sum()) < problem.C


def _svc(problem: KernelProblem, call: LibsvmCall) -> Array:
    """Return the plain SVM's coefficients."""
    machine = SVC(C=problem.c, tol=call.tol, **_kernel_arguments(problem))
    return _coefficients(problem, call.fit(machine, problem.gram.X, problem.y, problem.mass))


def _nu_svc(problem: KernelProblem, call: LibsvmCall) -> Array:
    """Return the nu-SVM's coefficients, which have margin one (rho = 1)."""
    nu = min(problem.k / problem.mass.sum(), 1.0)
    # LIBSVM solves nu-problems in units of f / c
    machine = NuSVC(nu=nu, tol=call.tol * min(1.0, 1.0 / problem.c), **_kernel_arguments(problem))
    try:
        call.fit(machine, problem.gram.X, problem.y, problem.mass)
    except ValueError:
        if np.isfinite(np.asarray(_coefficients(problem, machine))).all():
            raise
        # f = 0 is optimal, and to have margin one LIBSVM divides by zero. A ridge gives it something to scale, just
        # large enough to count in the single precision of its kernel values.
        ridge = 1e-5 * max(problem.gram.diagonal_mean(), 1e-300)
        matrix = problem.gram.fill(np.empty((problem.n_rows, problem.n_rows)))
        matrix.flat[:: problem.n_rows + 1] += ridge
        call.fit(machine.set_params(kernel="precomputed"), matrix, problem.y, problem.mass)
    return _coefficients(problem, machine)


def _scaled(problem: KernelProblem, beta: Array) -> Array:
    """Scale the coefficients of a nu-SVM by rho, and make them point the right way where its rho is about zero."""
    scaled: Array = problem.y * np.abs(beta) * (problem.C / np.abs(beta).sum())
    return scaled


def _nu_svr(problem: KernelProblem, call: LibsvmCall) -> Array:
    """Return nu-support vector regression's coefficients."""
    nu = min(problem.k / problem.mass.sum(), 1.0)
    machine = NuSVR(C=problem.c, nu=nu, tol=call.tol * _spread(problem.y), **_kernel_arguments(problem))
    return _coefficients(problem, call.fit(machine, problem.gram.X, problem.y, problem.mass))


def _bias_free(problem: KernelProblem, call: LibsvmCall) -> Array:
    """Return the coefficients without a bias, by the one-class machine of the module's last formula.

    A row pulls its prediction up or pushes it down: up or down by its label for the hinge loss, a copy of the row for
    each for the absolute error.
    """
    n = problem.n_rows
    signs = np.repeat([1.0, -1.0], n) if problem.two_sided else problem.y
    copies = signs.size // n
    # The slack row comes first because LIBSVM starts by filling the first variables: at a = 0.
    p = np.append(0.0, signs * np.tile(problem.y, copies))
    matrix = np.zeros((p.size, p.size))
    problem.gram.fill(matrix[1 : n + 1, 1 : n + 1])
    if copies == 2:
        matrix[1 : n + 1, n + 1 :] = matrix[n + 1 :, 1 : n + 1] = matrix[1 : n + 1, 1 : n + 1]
        matrix[n + 1 :, n + 1 :] = matrix[1 : n + 1, 1 : n + 1]
    matrix[1:, 1:] *= problem.c * signs  # in place, here and below: the matrix is large
    matrix[1:, 1:] *= signs[:, None]
    matrix -= (p / problem.k)[:, None]
    matrix -= p / problem.k
    mass = np.append(problem.k, np.tile(problem.mass, copies))
    tol = call.tol * (_spread(problem.y) if problem.two_sided else 1.0)
    machine = OneClassSVM(kernel="precomputed", nu=problem.k / mass.sum(), tol=tol)
    call.fit(machine, matrix, None, mass)
    a = np.zeros(p.size)
    a[machine.support_] = machine.dual_coef_.ravel()
    beta: Array = problem.c * (signs * a[1:]).reshape(copies, n).sum(axis=0)
    return beta


def _interruptibly(work: Callable[[], object]) -> None:
    """Run in a thread of its own, so that Ctrl-C is heard while LIBSVM, which is deaf to it, is at work.

    An interrupted LIBSVM goes on unseen until it is done or the program ends; nobody waits for it.
    """
    failure: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # raised again below, where the caller can see it
            failure.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive():  # in short waits: a signal just before a wait without end would be heard only after it
        thread.join(0.1)
    if failure:
        raise failure[0]


def _spread(y: Array) -> float:
    """Return the scale of regression targets, which tolerances on predictions are relative to."""
    spread = float(np.abs(y - y.mean()).mean())
    return spread if spread > 0.0 else 1.0


def _kernel_arguments(problem: KernelProblem) -> dict[str, KernelName | float]:
    return {"kernel": problem.gram.kernel.name, **problem.gram.kernel.parameters}


def _coefficients(problem: KernelProblem, machine: BaseEstimator) -> Array:
    """Spread the support vectors' coefficients over all rows."""
    values = machine.dual_coef_
    beta = np.zeros(problem.n_rows)
    beta[machine.support_] = np.ravel(values.toarray() if sp.issparse(values) else values)
    return beta
