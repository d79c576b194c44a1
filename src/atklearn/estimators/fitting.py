"""What every fit does around its solver: keep the old state if it fails, say how far it got."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from atklearn.core.problem import Solution, StopReason
from atklearn.encoding.encoded import ProblemEncoder, intercept_kind
from atklearn.losses.individual import Array, Task, resolve_individual_loss
from atklearn.runtime.messages import shown, stack_level

__all__ = ["encoder_of", "keeping_fitted_state", "warn_of_classes_aside", "warn_unless_converged"]

_MOST_OF_CLASS = 0.5


def encoder_of(estimator: Any, task: Task) -> ProblemEncoder:
    """Return what makes the problems of a linear estimator."""
    return ProblemEncoder(
        resolve_individual_loss(estimator.loss, task),
        intercept_kind(estimator.fit_intercept, estimator.penalize_intercept),
        getattr(estimator, "class_weight", None),
        type(estimator).__name__,
    )


def warn_unless_converged(solutions: Sequence[Solution], names: Sequence[str], tol: float, C: float) -> None:
    """Say, once for all problems of a fit, how far the worst got that did not reach its tolerance, and what to do."""
    missed = [
        (solution, name)
        for solution, name in zip(solutions, names, strict=True)
        if not solution.reaches(tol) and solution.stop_reason is not StopReason.CALLBACK
    ]
    if not missed:
        return
    worst, name = max(missed, key=lambda of: of[0].dual_gap / max(of[0].objective, 1e-300))
    others = "" if len(solutions) == 1 else f"{len(missed)} of {len(solutions)} classes missed the tolerance. "
    whose = "" if len(solutions) == 1 else f" of {name}, the worst,"
    first = "raise max_iter" if worst.stop_reason is StopReason.MAX_ITER else "raise tol"
    warnings.warn(
        f"{others}The fit{whose} stopped after {worst.n_iter} steps because {worst.stop_reason}: the objective "
        f"{worst.objective:.6g} is certified to within {worst.dual_gap:.1e} of the optimum, "
        f"{tol * worst.objective:.1e} was asked for. To go on, {first}, standardise the features or lower "
        f"C={C:g}.",
        ConvergenceWarning,
        stacklevel=stack_level(),
    )


def warn_of_classes_aside(shares: Array, classes: Any, trim: float) -> None:
    """Say so if most of a class is set aside: it may be rare rather than wrong."""
    if shares.size and shares.max() > _MOST_OF_CLASS:
        worst = int(shares.argmax())
        warnings.warn(
            f"trim={shown(trim)} sets {shares[worst]:.0%} of class {shown(classes[worst])} aside. If its rows are rare "
            'and not wrong, lower trim, or take class_weight="balanced", with which trim counts all classes alike.',
            UserWarning,
            stacklevel=stack_level(),
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
