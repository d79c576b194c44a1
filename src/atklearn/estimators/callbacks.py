"""Progress of a fit: printed lines, and scikit-learn's callbacks where the installed version has them."""

from __future__ import annotations

from typing import Any

from atklearn.chunked.checkpoint import Checkpoint
from atklearn.chunked.encoded_chunks import EncodedChunks
from atklearn.core.newton import Progress

try:
    from sklearn.callback import CallbackSupportMixin
except ImportError:  # scikit-learn < 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stand-in for estimators under a scikit-learn without callbacks."""


__all__ = ["CallbackSupportMixin", "FitProgress"]


class FitProgress:
    """Reports one fit of an estimator, step by step.

    With ``verbose`` it prints; callbacks set by ``estimator.set_callbacks`` get one task per Newton step, and may stop
    the fit.
    """

    def __init__(self, estimator: Any, X: Any, y: Any, sample_weight: Any) -> None:
        self.estimator = estimator
        self.chunks: EncodedChunks | None = None
        self.checkpoint: Checkpoint | None = None
        self.task: dict[str, Any] = {"estimator": estimator, "X": X, "y": y}
        if sample_weight is not None:
            self.task["metadata"] = {"sample_weight": sample_weight}
        self.context = None
        if X is not None and hasattr(estimator, "_init_callback_context"):  # None: a part of another fit
            self.context = estimator._init_callback_context(max_subtasks=None)
            self.context.call_on_fit_task_begin(**self.task)

    def watch(self, chunks: EncodedChunks, checkpoint: Checkpoint | None) -> None:
        """Note in a checkpoint what a fit on chunks has reached, and say how often it has read them."""
        self.chunks, self.checkpoint = chunks, checkpoint

    @property
    def listened(self) -> bool:
        """Whether callbacks are set."""
        return bool(getattr(self.estimator, "_skl_callbacks", None))

    def following(self, problem: str) -> Progress | None:
        """Return what the solver calls while it works on the named problem, or None if nobody listens."""
        if not self.listened and not self.estimator.verbose and self.checkpoint is None:
            return None
        reported = -1

        def report(step: int, objective: float, gap: float) -> bool:
            nonlocal reported
            if self.chunks is not None and self.checkpoint is not None:
                self.chunks.note(self.checkpoint, problem)
            if step == reported:  # a move of the centre, not a Newton step
                return False
            reported = step
            if self.estimator.verbose:
                passes = "" if self.chunks is None else f", {self.chunks.fleet.reads} passes over the data"
                print(f"{problem} step {step}: objective {objective:.6g}, duality gap {gap:.1e}{passes}", flush=True)
            return self.passed("newton-step")

        return report

    def passed(self, task_name: str) -> bool:
        """Tell the callbacks that a part of the fit is done; return whether one of them asks to stop."""
        if not self.listened or self.context is None:
            return False
        context = self.context.subcontext(task_name=task_name)
        context.call_on_fit_task_begin(**self.task)
        return bool(context.call_on_fit_task_end(**self.task))

    def finish(self) -> None:
        """Tell the callbacks that the estimator is fitted."""
        if self.context is not None:
            self.context.call_on_fit_task_end(**self.task, reconstruction_attributes={})
