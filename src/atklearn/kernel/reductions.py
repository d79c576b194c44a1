"""Exact reductions of the AT_k kernel machines to LIBSVM.

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
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, NuSVC, NuSVR, OneClassSVM

from atklearn.kernel.problem import KernelProblem
from atklearn.losses.individual import Array

__all__ = ["LibsvmCall", "reduce_to_libsvm"]

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

    def fit(self, machine: Any, X: Any, y: Array | None, mass: Array) -> Any:
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


def _interruptibly(work: Callable[[], Any]) -> None:
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


def _kernel_arguments(problem: KernelProblem) -> dict[str, Any]:
    return {"kernel": problem.gram.kernel.name, **problem.gram.kernel.parameters}


def _coefficients(problem: KernelProblem, machine: Any) -> Array:
    """Spread the support vectors' coefficients over all rows."""
    values = machine.dual_coef_
    beta = np.zeros(problem.n_rows)
    beta[machine.support_] = np.ravel(values.toarray() if sp.issparse(values) else values)
    return beta
