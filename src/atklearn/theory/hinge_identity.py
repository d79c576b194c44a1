"""For the hinge, k is a second name for C: the AT_k-SVM is a multiple of an ordinary SVM at another C.

With n the total mass, lambda the threshold (the k-th largest loss of the solution) and rho = 1 - lambda > 0: if

    (w, b) minimises           AT_k([1 - y f]_+)         + |w|^2 / (2 C),
    (w, b) / rho minimises     the mean of [1 - y f]_+   + |w|^2 / (2 C'),      C' = C n / (rho k).

Proof. For lambda >= 0, [[1 - y f]_+ - lambda]_+ = [rho - y f]_+, so the objective is the smallest value over rho of

    1 - rho + sum_i mass_i [rho - y_i f_i]_+ / k + |w|^2 / (2 C).

Put f = rho f': for the optimal rho > 0 what is left to minimise is (rho n / k) times the average hinge loss of f' plus
rho^2 |w'|^2 / (2 C), which is (rho n / k) times the objective of the average at C'. QED.

Only f = x . w + b being linear in (w, b) is used: the proof is the same with a penalised intercept, without one, and
for functions of a kernel. For rho = 0 the objective is at least 1, its value at zero, and w = 0: the fit is collapsed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from atklearn.runtime.messages import shown
from atklearn.theory.fitted_hinge import check_two_class_hinge

__all__ = ["HingeEquivalent", "equivalent_C", "hinge_equivalent"]


class HingeEquivalent(NamedTuple):
    """The ordinary SVM with the boundary of an AT_k-SVM: what :func:`atklearn.theory.hinge_equivalent` returns.

    Attributes
    ----------
    rho : float
        The margin ``1 - threshold``: coefficients and scores of the AT_k fit are rho times those of the SVM.
    C : float
        Of the SVM: the C of this library at ``k=1.0``. Scikit-learn's C is this number over the total mass.

    Examples
    --------
    >>> from atklearn import ATkClassifier
    >>> from atklearn.datasets import make_toy
    >>> from atklearn.theory import hinge_equivalent
    >>> X, y = make_toy(4, random_state=0)
    >>> rho, C = hinge_equivalent(ATkClassifier("hinge", k=1.0, C=1.0).fit(X, y))
    >>> round(rho, 2), round(C, 2)  # the average is its own equivalent
    (1.0, 1.0)
    """

    rho: float
    C: float


def equivalent_C(C: float, *, share: float, threshold: float) -> float:
    r"""Return the C at which the average hinge loss has the boundary of an AT_k fit.

    .. math:: C' = \frac{C\,n}{\rho\,k}, \qquad \rho = 1 - \lambda

    Parameters
    ----------
    C : float
        Of the AT_k fit.
    share : float
        k over the total mass n, as in ``k_share_`` of a fitted model.
    threshold : float
        The k-th largest hinge loss lambda of the fit, as in ``loss_threshold_``.

    Returns
    -------
    float

    Examples
    --------
    >>> from atklearn.theory import equivalent_C
    >>> equivalent_C(1.0, share=0.5, threshold=0.75)
    8.0
    """
    if not C > 0.0:
        raise ValueError(f"C is expected to be positive, got {shown(C)}; pass the C of the fit.")
    if not 0.0 < share <= 1.0:
        raise ValueError(
            f"share is expected in (0, 1], got {shown(share)}; pass k_share_ of the fitted model, k over n."
        )
    if not 0.0 <= threshold < 1.0:
        raise ValueError(
            f"threshold is expected in [0, 1), got {shown(threshold)}; a fit with threshold 1 is collapsed (w = 0) "
            "and like no other: fit with a larger k."
        )
    return C / ((1.0 - threshold) * share)


def hinge_equivalent(model: Any) -> HingeEquivalent:
    r"""Return the ordinary SVM that a fitted AT_k-SVM is a multiple of.

    .. math:: (w, b) = \rho \, (w', b'), \qquad (w', b') \text{ the fit with } k = n \text{ at } C' = C n / (\rho k)

    Same data, same weights, same boundary: beside a C that is chosen well, k adds no classifier to the hinge.

    Parameters
    ----------
    model : fitted ATkClassifier with ``loss="hinge"``, or fitted ATkSVC
        With two classes. Of a model that was searched for, its ``best_estimator_`` is taken.

    Returns
    -------
    equivalent : HingeEquivalent
        The named tuple ``(rho, C)``: the margin ``1 - loss_threshold_``, by which coefficients and scores of the SVM
        are multiplied in the AT_k fit; and the C of the SVM, of this library at ``k=1.0``. Scikit-learn's C is this
        number over the total mass.

    Examples
    --------
    >>> import numpy as np
    >>> from atklearn import ATkClassifier
    >>> from atklearn.datasets import make_toy
    >>> from atklearn.theory import hinge_equivalent
    >>> X, y = make_toy(4, random_state=0)
    >>> model = ATkClassifier("hinge", k=0.25, C=1.0, tol=1e-10).fit(X, y)
    >>> rho, C = hinge_equivalent(model)
    >>> average = ATkClassifier("hinge", k=1.0, C=C, tol=1e-10).fit(X, y)
    >>> rho < 1.0 < C, np.allclose(model.coef_, rho * average.coef_)
    (True, True)
    """
    model = getattr(model, "best_estimator_", model)
    check_two_class_hinge(
        model, "hinge_equivalent", "the identity holds for each class against the rest: call equivalent_C for each"
    )
    used = getattr(model, "C_", model.C)  # a kernel machine has the C it was given
    C = equivalent_C(used, share=model.k_share_, threshold=model.loss_threshold_)
    return HingeEquivalent(float(1.0 - model.loss_threshold_), float(C))
