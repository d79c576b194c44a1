"""What k says of the hinge loss: the AT_k-SVM is a multiple of an ordinary SVM, and a nu-SVM.

**For the hinge, k is a second name for C.** With n the total mass, lambda the threshold (the k-th largest loss of the
solution) and rho = 1 - lambda > 0: if

    (w, b) minimises           AT_k([1 - y f]_+)         + |w|^2 / (2 C),
    (w, b) / rho minimises     the mean of [1 - y f]_+   + |w|^2 / (2 C'),      C' = C n / (rho k).

Proof. For lambda >= 0, [[1 - y f]_+ - lambda]_+ = [rho - y f]_+, so the objective is the smallest value over rho of

    1 - rho + sum_i mass_i [rho - y_i f_i]_+ / k + |w|^2 / (2 C).

Put f = rho f': for the optimal rho > 0 what is left to minimise is (rho n / k) times the average hinge loss of f' plus
rho^2 |w'|^2 / (2 C), which is (rho n / k) times the objective of the average at C'. QED.

Only f = x . w + b being linear in (w, b) is used: the proof is the same with a penalised intercept, without one, and
for functions of a kernel. For rho = 0 the objective is at least 1, its value at zero, and w = 0: the fit is collapsed.

**The nu-property.** The sample weights q of the optimum satisfy ``0 <= q_i <= mass_i / k`` and ``sum(q) <= 1``, with
equality if the threshold lambda is positive. A sample whose loss exceeds lambda (a margin error, ``y f < rho = 1 -
lambda``) sits at its cap. Summing the caps of the margin errors, and of the samples with q > 0 (the support vectors),
gives

    mass of margin errors <= k,   and, if rho < 1,   k <= mass of support vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils.validation import check_is_fitted

from atklearn.encoding.encoded import check_mass
from atklearn.losses.individual import Hinge
from atklearn.losses.labels import one_versus_rest
from atklearn.runtime.messages import shown
from atklearn.theory.checks import check_finite

__all__ = ["HingeEquivalent", "NuProperty", "check_nu_property", "equivalent_C", "hinge_equivalent", "nu_property"]

# Margins are recomputed from the data, so that they match rho to rounding only.
_ROUNDING = 1e-9


class HingeEquivalent(NamedTuple):
    """The ordinary SVM with the boundary of an AT_k-SVM, described in :func:`atklearn.theory.hinge_equivalent`."""

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
    check_finite("C", C, "pass the C of the fit")
    if not 0.0 < share <= 1.0:
        raise ValueError(
            f"share is expected in (0, 1], got {shown(share)}; pass k_share_ of the fitted model, k over n."
        )
    if not 0.0 <= threshold < 1.0:
        raise ValueError(
            f"threshold is expected in [0, 1), got {shown(threshold)}; a fit with threshold 1 is collapsed (w = 0) "
            "and like no other: fit with a larger k."
        )
    return check_finite("C n / (rho k)", C / (1.0 - threshold) / share, "fit with a larger k or a smaller C")


def hinge_equivalent(model: BaseEstimator) -> HingeEquivalent:
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
    _check_two_class_hinge(
        model, "hinge_equivalent", "the identity holds for each class against the rest: call equivalent_C for each"
    )
    used = getattr(model, "C_", model.C)  # a kernel machine has the C it was given
    C = equivalent_C(used, share=model.k_share_, threshold=model.loss_threshold_)
    return HingeEquivalent(float(1.0 - model.loss_threshold_), float(C))


@dataclass(frozen=True)
class NuProperty:
    """Mass of margin errors and of support vectors of a fitted SVM, against k.

    It is what :func:`atklearn.theory.nu_property` and :func:`atklearn.theory.check_nu_property` return; :func:`print`
    shows it in words.

    Attributes
    ----------
    margin_errors : float
        Mass of the samples with ``y f < rho``.
    k : float
        In units of mass.
    support_vectors : float
        Mass of the samples with positive weight.
    rho : float
        The margin, ``1 - threshold``.

    Examples
    --------
    >>> from atklearn import ATkSVC
    >>> from atklearn.datasets import make_toy
    >>> from atklearn.theory import check_nu_property
    >>> X, y = make_toy(4, random_state=0)
    >>> found = check_nu_property(ATkSVC(k=20, C=1.0).fit(X, y), X, y)
    >>> found.margin_errors <= found.k <= found.support_vectors, found.is_two_sided, found.holds
    (True, True, True)
    """

    margin_errors: float
    k: float
    support_vectors: float
    rho: float

    @property
    def is_two_sided(self) -> bool:
        """Whether the lower bound on the support vectors is promised: rho < 1, that is a positive threshold."""
        return self.rho < 1.0 - _ROUNDING

    @property
    def holds(self) -> bool:
        """Whether every promised inequality holds."""
        errors_bounded = self.margin_errors <= self.k * (1.0 + _ROUNDING)
        return errors_bounded and (not self.is_two_sided or self.support_vectors >= self.k * (1.0 - _ROUNDING))

    def __str__(self) -> str:
        right = "<=" if self.support_vectors >= self.k * (1.0 - _ROUNDING) else ">"
        left = "<=" if self.margin_errors <= self.k * (1.0 + _ROUNDING) else ">"
        promise = "" if self.is_two_sided else ", the right side not promised at rho = 1"
        return (
            f"nu-property {'holds' if self.holds else 'VIOLATED'}: margin errors {self.margin_errors:g} {left} "
            f"k = {self.k:g} {right} support vectors {self.support_vectors:g} (rho = {self.rho:.4g}{promise})"
        )


def nu_property(
    margins: npt.ArrayLike,
    top_weights: npt.ArrayLike,
    *,
    rho: float,
    k: float,
    mass: npt.ArrayLike | None = None,
) -> NuProperty:
    """Check the nu-property from margins and sample weights.

    Parameters
    ----------
    margins : array-like of shape (n,)
        ``y_i f(x_i)`` with y in {-1, +1}.
    top_weights : array-like of shape (n,)
        The weights (or dual variables) of the solution, positive exactly for support vectors.
    rho : float
        The margin, ``1 - threshold``.
    k : float
        In units of mass, as in ``k_`` of a fitted model.
    mass : array-like of shape (n,), default=None
        The ``sample_weight`` of the fit, times class weights.

    Returns
    -------
    NuProperty

    Examples
    --------
    >>> from atklearn.theory import nu_property
    >>> print(nu_property([-1.0, 0.5, 0.5, 2.0], [0.5, 0.25, 0.25, 0.0], rho=0.5, k=2))
    nu-property holds: margin errors 1 <= k = 2 <= support vectors 3 (rho = 0.5)
    """
    yf, q = np.asarray(margins, dtype=np.float64), np.asarray(top_weights, dtype=np.float64)
    if yf.ndim != 1 or yf.size == 0 or yf.shape != q.shape or not (np.isfinite(yf).all() and np.isfinite(q).all()):
        raise ValueError(
            "margins and top_weights are expected as vectors of finite numbers of one length, got shapes "
            f"{yf.shape} and {q.shape}; pass one binary classifier at a time."
        )
    m = check_mass(mass, yf.size)
    with np.errstate(over="ignore"):
        total = check_finite("The sum of mass", float(m.sum()), "divide it by its largest, and k, too")
    if not -_ROUNDING <= rho <= 1.0 + _ROUNDING:
        raise ValueError(
            f"rho = 1 - threshold of a hinge fit is expected in [0, 1], got {shown(rho)}; pass 1 - loss_threshold_."
        )
    if not 0.0 < k <= total * (1.0 + _ROUNDING):
        raise ValueError(
            f"k is expected in (0, {total:g}], the total mass, got {shown(k)}; pass k_ of the fitted model."
        )
    slack = _ROUNDING * max(1.0, float(np.abs(yf).max()))
    return NuProperty(float(m[yf < rho - slack].sum()), float(k), float(m[q > 0.0].sum()), float(rho))


def check_nu_property(
    model: BaseEstimator,
    X: npt.ArrayLike | sp.spmatrix | sp.sparray,
    y: npt.ArrayLike,
    sample_weight: npt.ArrayLike | None = None,
) -> NuProperty:
    """Check the nu-property of a fitted classifier with the hinge loss on its training data.

    Parameters
    ----------
    model : fitted classifier
        With two ``classes_``, ``decision_function``, ``loss_threshold_``, ``top_weights_`` and ``k_``.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        The data of the fit.
    y : array-like of shape (n_samples,)
    sample_weight : array-like of shape (n_samples,), default=None
        As passed to ``fit``.

    Returns
    -------
    NuProperty

    Examples
    --------
    >>> from atklearn import ATkClassifier
    >>> from atklearn.datasets import make_toy
    >>> from atklearn.theory import check_nu_property
    >>> X, y = make_toy(4, random_state=0)
    >>> model = ATkClassifier("hinge", k=20).fit(X, y)
    >>> check_nu_property(model, X, y).holds
    True
    """
    _check_two_class_hinge(model, "check_nu_property", "check each class against the rest with nu_property")
    if getattr(model, "class_weight", None) is not None:
        raise ValueError(
            f"check_nu_property expects class_weight=None, got {shown(model.class_weight)}; "
            "pass nu_property the mass, which is sample_weight times class weight."
        )
    margins = one_versus_rest(y, model.classes_)[0] * model.decision_function(X)
    return nu_property(margins, model.top_weights_, rho=1.0 - model.loss_threshold_, k=model.k_, mass=sample_weight)


def _check_two_class_hinge(model: BaseEstimator, caller: str, otherwise: str) -> None:
    """Raise ValueError unless the model is a fitted classifier of two classes with the hinge loss."""
    check_is_fitted(model)
    loss = getattr(model, "loss", "hinge")
    if not is_classifier(model) or (loss != "hinge" and not isinstance(loss, Hinge)):
        raise ValueError(f"{caller} expects a classifier with the hinge loss, got {model!r}; fit with loss='hinge'.")
    if model.classes_.size != 2:
        raise ValueError(f"{caller} expects two classes, got {model.classes_.size}; {otherwise}.")
