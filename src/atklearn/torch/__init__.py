"""The average top-k loss for PyTorch: exact on tensors, right on minibatches, across devices and processes."""

try:
    import torch  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"Losses for PyTorch need {error.name}, which comes with: pip install 'atklearn[torch]'", name=error.name
    ) from error

from atklearn.torch.functional import (
    average,
    average_bottom_k,
    average_top_k,
    maximum,
    ranked_range,
    threshold,
    top_k,
)
from atklearn.torch.module import AverageTopKLoss
from atklearn.torch.training import KSchedule, TrainerLoss, wrap

__all__ = [
    "AverageTopKLoss",
    "KSchedule",
    "TrainerLoss",
    "average",
    "average_bottom_k",
    "average_top_k",
    "maximum",
    "ranked_range",
    "threshold",
    "top_k",
    "wrap",
]
