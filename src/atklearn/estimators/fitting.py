"""What every estimator does around its solver: sample weights, class weights, transaction, convergence message."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.class_weight import compute_class_weight

from atklearn.losses.individual import Array
from atklearn.problems.solution import StopReason

__all__ = ["check_mass", "class_mass", "keeping_fitted_state", "warn_unless_converged"]


def check_mass(sample_weight: Any, n_samples: int) -> Array:
    """Return the sample weights as a vector of numbers >= 0, or say what is wrong with them."""
    if sample_weight is None:
        return np.ones(n_samples)
    mass = np.asarray(sample_weight, dtype=np.float64)
    if mass.ndim == 0:
        mass = np.full(n_samples, float(mass))
    problem = None
    if mass.shape != (n_samples,):
        problem = f"an array of shape {mass.shape}; pass one weight per sample"
    elif not np.isfinite(mass).all():
        problem = "NaN or infinity; replace or drop these samples"
    elif mass.min() < 0.0:
        problem = f"a weight of {mass.min():g}; use 0 to leave a sample out"
    elif mass.max() == 0.0:
        problem = "all-zero weights; at least one sample needs a positive weight"
    if problem is not None:
        raise ValueError(f"sample_weight is expected to be {n_samples} finite numbers >= 0, got {problem}.")
    return mass


def class_mass(estimator: Any, codes: npt.NDArray[np.intp], mass: Array) -> Array:
    """Return sample weights times class weights, and make sure that two classes have any."""
    present = np.bincount(codes, weights=mass, minlength=estimator.classes_.size)
    if np.count_nonzero(present) < 2:
        raise ValueError(
            f"{type(estimator).__name__} expects samples of at least 2 classes with positive weight, got "
            f"{estimator.classes_.size} class(es) in y, {np.count_nonzero(present)} of them with weight; "
            "check y and sample_weight."
        )
    if estimator.class_weight is None:
        return mass
    if estimator.class_weight == "balanced":  # by weight, so that weighting and repeating samples agree
        factors = np.divide(present.sum() / np.count_nonzero(present), present, where=present > 0, out=present * 0)
    else:
        factors = compute_class_weight(estimator.class_weight, classes=estimator.classes_, y=estimator.classes_[codes])
    weighted: Array = mass * factors[codes]
    if weighted.min() < 0.0 or np.count_nonzero(np.bincount(codes, weights=weighted)) < 2:
        raise ValueError(
            f"class_weight is expected to give weights >= 0 and a positive one to at least 2 classes, "
            f"got {estimator.class_weight!r}."
        )
    return weighted


class _Outcome(Protocol):
    """What the convergence message reads from a solver's result."""

    @property
    def n_iter(self) -> int: ...
    @property
    def objective(self) -> float: ...
    @property
    def dual_gap(self) -> float: ...
    @property
    def stop_reason(self) -> StopReason: ...


def warn_unless_converged(solution: _Outcome, tol: float, remedy: str) -> None:
    """Say how far a fit got that did not reach its tolerance, and what to do."""
    if solution.stop_reason in (StopReason.CONVERGED, StopReason.CALLBACK):
        return
    first = "raise max_iter" if solution.stop_reason is StopReason.MAX_ITER else "raise tol"
    warnings.warn(
        f"The fit stopped after {solution.n_iter} steps because {solution.stop_reason}: the objective "
        f"{solution.objective:.6g} is certified to within {solution.dual_gap:.1e} of the optimum, "
        f"{tol * solution.objective:.1e} was asked for. To go on, {first}, {remedy}.",
        ConvergenceWarning,
        stacklevel=5,
    )


@contextmanager
def keeping_fitted_state(estimator: Any) -> Iterator[None]:
    """Put the fitted attributes back as they were if the fit inside fails or is interrupted."""

    def fitted() -> dict[str, Any]:
        return {
            name: value
            for name, value in vars(estimator).items()
            if name in ("_solutions", "_stream") or (name.endswith("_") and not name.startswith("_"))
        }

    before = fitted()
    try:
        yield
    except BaseException:
        for name in fitted():
            delattr(estimator, name)
        vars(estimator).update(before)
        raise
