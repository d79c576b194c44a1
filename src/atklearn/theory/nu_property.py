"""The nu-property of the AT_k-SVM: what k says about support vectors and margin errors.

The sample weights q of the optimum satisfy ``0 <= q_i <= mass_i / k`` and ``sum(q) <= 1``, with equality if the
threshold lambda is positive. A sample whose loss exceeds lambda (a margin error, ``y f < rho = 1 - lambda``) sits at
its cap. Summing the caps of the margin errors, and of the samples with q > 0 (the support vectors), gives

    mass of margin errors <= k,   and, if rho < 1,   k <= mass of support vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from atklearn.losses.labels import one_versus_rest
from atklearn.runtime.messages import shown
from atklearn.theory.fitted_hinge import check_two_class_hinge

__all__ = ["NuProperty", "check_nu_property", "nu_property"]

# Margins are recomputed from the data, so that they match rho to rounding only.
_ROUNDING = 1e-9


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
    m = np.ones_like(yf) if mass is None else np.asarray(mass, dtype=np.float64)
    if yf.ndim != 1 or yf.shape != q.shape or yf.shape != m.shape:
        raise ValueError(
            "margins, top_weights and mass are expected as vectors of one length, got shapes "
            f"{yf.shape}, {q.shape} and {m.shape}; pass one binary classifier at a time."
        )
    if not -_ROUNDING <= rho <= 1.0 + _ROUNDING:
        raise ValueError(
            f"rho = 1 - threshold of a hinge fit is expected in [0, 1], got {shown(rho)}; pass 1 - loss_threshold_."
        )
    if not 0.0 < k <= m.sum() * (1.0 + _ROUNDING):
        raise ValueError(
            f"k is expected in (0, {m.sum():g}], the total mass, got {shown(k)}; pass k_ of the fitted model."
        )
    slack = _ROUNDING * max(1.0, float(np.abs(yf).max()))
    return NuProperty(float(m[yf < rho - slack].sum()), float(k), float(m[q > 0.0].sum()), float(rho))


def check_nu_property(model: Any, X: Any, y: Any, sample_weight: npt.ArrayLike | None = None) -> NuProperty:
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
    check_two_class_hinge(model, "check_nu_property", "check each class against the rest with nu_property")
    if getattr(model, "class_weight", None) is not None:
        raise ValueError(
            f"check_nu_property expects class_weight=None, got {shown(model.class_weight)}; "
            "pass nu_property the mass, which is sample_weight times class weight."
        )
    margins = one_versus_rest(y, model.classes_)[0] * model.decision_function(X)
    return nu_property(margins, model.top_weights_, rho=1.0 - model.loss_threshold_, k=model.k_, mass=sample_weight)
