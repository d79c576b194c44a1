"""The paper's theory as tools: what k is large enough, what error to expect, and whether a fit keeps its promises.

=============================  ====================================================================
:func:`calibration_interval`   Theorem 1: where the switch from degenerate to calibrated k/n lies
:func:`excess_error_bound`     Theorem 2: the bound on the excess error of the AT_k-SVM
:func:`required_samples`       Theorem 2 solved for the number of samples
:func:`nu_property`            k bounds margin errors from above and support vectors from below
:func:`check_nu_property`      the same for a fitted classifier
:func:`hinge_equivalent`       the ordinary SVM that a fitted AT_k-SVM is a multiple of
:func:`equivalent_C`           its C, from k, C and the threshold
:func:`k_for_outliers`         the interval for k when the share of outliers is known
:func:`trim_for_outliers`      how many samples to set aside when it is
:func:`paper_C`                the C of the paper's objective, from C and k of this library
=============================  ====================================================================

What the paper proves, where these tools go beyond it or stay behind it, and simulations: ``docs/theory.md``.
"""

from atklearn.theory.calibration import calibration_interval
from atklearn.theory.excess_error import ErrorBound, excess_error_bound, paper_C, required_samples
from atklearn.theory.hinge import NuProperty, check_nu_property, equivalent_C, hinge_equivalent, nu_property
from atklearn.theory.outliers import k_for_outliers, trim_for_outliers

__all__ = [
    "ErrorBound",
    "NuProperty",
    "calibration_interval",
    "check_nu_property",
    "equivalent_C",
    "excess_error_bound",
    "hinge_equivalent",
    "k_for_outliers",
    "nu_property",
    "paper_C",
    "required_samples",
    "trim_for_outliers",
]
