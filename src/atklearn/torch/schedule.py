"""From the average down to the average top-k while training goes on: at first the largest losses say little."""

from __future__ import annotations

from collections.abc import Callable
from math import cos, pi
from typing import Any, Literal

from torch import nn

from atklearn.runtime.messages import shown
from atklearn.torch.module import AverageTopKLoss

__all__ = ["KSchedule"]

_SHAPES: dict[str, Callable[[float], float]] = {
    "linear": lambda progress: progress,
    "cosine": lambda progress: (1.0 - cos(pi * progress)) / 2.0,
}
_ACCURACIES = (0.70, 0.80, 0.90, 0.95, 0.995)  # Kawaguchi and Lu 2020: the share halves as each of these is passed


class KSchedule:
    """Lower the share of a loss step by step to the one that it was made with, as a learning-rate schedule would.

    "10 % from the first step on does not converge" is what users of hard example mining report: the largest losses of
    an untrained model say little. So begin with the average.

    Parameters
    ----------
    loss : AverageTopKLoss, or what ``wrap`` returns
        Its ``k``, a share, is where the schedule ends; it is set to ``start`` at once.
    steps : int, default=None
        Calls of :meth:`step` from ``start`` to the end; of ``shape="accuracy"`` not needed.
    shape : {"linear", "cosine", "accuracy"}, default="linear"
        With "accuracy" the share falls by equal factors as the training accuracy given to :meth:`step` passes 70, 80,
        90, 95 and 99.5 %; with an end of 1/32 it halves each time.
    start : float, default=1.0
        The share to begin with; 1.0 is the average.

    Examples
    --------
    >>> from atklearn.torch import AverageTopKLoss, KSchedule
    >>> loss = AverageTopKLoss(0.2, scope="dataset")
    >>> schedule = KSchedule(loss, steps=4)
    >>> for _ in range(5):
    ...     print(round(loss.k, 2))
    ...     schedule.step()  # after optimizer.step()
    1.0
    0.8
    0.6
    0.4
    0.2
    """

    def __init__(
        self,
        loss: nn.Module,
        steps: int | None = None,
        shape: Literal["linear", "cosine", "accuracy"] = "linear",
        start: float = 1.0,
    ) -> None:
        target = getattr(loss, "average_top_k", loss)
        if not isinstance(target, AverageTopKLoss) or not isinstance(target.k, float):
            raise ValueError(f"loss is expected to be an AverageTopKLoss whose k is a share, got {loss!r}.")
        if shape not in (*_SHAPES, "accuracy"):
            raise ValueError(f"shape is expected to be 'linear', 'cosine' or 'accuracy', got {shown(shape)}.")
        if shape != "accuracy" and (steps is None or steps < 1):
            raise ValueError(f"steps is expected to be at least 1 for shape={shown(shape)}, got {shown(steps)}.")
        if not target.k <= start <= 1.0:
            raise ValueError(f"start is expected between the loss's k = {target.k:g} and 1, got {shown(start)}.")
        self.loss, self.steps, self.shape, self.start, self.end = target, steps, shape, float(start), target.k
        self.progress = 0.0
        self.n_steps = 0
        self._set()

    def step(self, accuracy: float | None = None) -> None:
        """Go one step further.

        Parameters
        ----------
        accuracy : float, default=None
            On the training data, between 0 and 1; with ``shape="accuracy"`` alone.
        """
        if (accuracy is None) == (self.shape == "accuracy"):
            raise ValueError(f"accuracy is expected with shape='accuracy' alone; shape is {shown(self.shape)}.")
        self.n_steps += 1
        if accuracy is not None:
            passed = sum(float(accuracy) >= level for level in _ACCURACIES) / len(_ACCURACIES)
            self.progress = max(self.progress, passed)
        elif self.steps is not None:
            self.progress = min(self.n_steps / self.steps, 1.0)
        self._set()

    def get_last_k(self) -> float:
        """Return the share now in use.

        Returns
        -------
        k : float
        """
        if self.shape == "accuracy":
            return self.start * float((self.end / self.start) ** self.progress)
        return self.start + (self.end - self.start) * _SHAPES[self.shape](self.progress)

    def state_dict(self) -> dict[str, Any]:
        """Return how far it got, for a checkpoint.

        Returns
        -------
        state_dict : dict
        """
        return {"n_steps": self.n_steps, "progress": self.progress}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from where another schedule had got to.

        Parameters
        ----------
        state_dict : dict
            From :meth:`state_dict`.
        """
        self.n_steps, self.progress = state_dict["n_steps"], state_dict["progress"]
        self._set()

    def _set(self) -> None:
        self.loss.k = self.get_last_k()
