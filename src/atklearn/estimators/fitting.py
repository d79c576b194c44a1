"""What every fit does around its solver: keep the old state if it fails, say how far it got."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from atklearn.problems.solution import Solution, StopReason

__all__ = ["keeping_fitted_state", "warn_unless_converged"]


def warn_unless_converged(solutions: Sequence[Solution], tol: float, C: float) -> None:
    """Say how far each fit got that did not reach its tolerance, and what to do."""
    for solution in solutions:
        if solution.reaches(tol) or solution.stop_reason is StopReason.CALLBACK:
            continue
        first = "raise max_iter" if solution.stop_reason is StopReason.MAX_ITER else "raise tol"
        warnings.warn(
            f"The fit stopped after {solution.n_iter} steps because {solution.stop_reason}: the objective "
            f"{solution.objective:.6g} is certified to within {solution.dual_gap:.1e} of the optimum, "
            f"{tol * solution.objective:.1e} was asked for. To go on, {first}, standardise the features or lower "
            f"C={C:g}.",
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
