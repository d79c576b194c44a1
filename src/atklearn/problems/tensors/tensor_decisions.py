"""What linear models say of tensors, computed where these lie; in the words of :mod:`atklearn.losses.labels`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from atklearn.problems.namespaces import Home, Tensor, has_home, on_host

__all__ = ["TensorDecisions", "tensor_scores"]


def tensor_scores(home: Home, X: Tensor, coef: Any, intercept: Any) -> Tensor:
    """Return ``X w + b`` in the precision of X, a column per row of the coefficients if these have rows."""
    weights, shift = (home.enter(part).to(X.dtype) for part in (coef, intercept))
    return X @ weights.T + shift if weights.ndim == 2 else X @ weights + shift


@dataclass(frozen=True)
class TensorDecisions:
    """Decision values of tensors, and what follows from them in the library of X.

    Attributes
    ----------
    home : Home
        Of X.
    scores : tensor of shape (n_samples,) or (n_samples, n_problems)
    """

    home: Home
    scores: Tensor

    def values(self) -> Any:
        """Return the scores, without a second axis for two classes."""
        scores = self.scores
        return self.home.leave(scores[:, 0] if scores.ndim == 2 and scores.shape[1] == 1 else scores)

    def labels(self, classes: Any) -> Any:
        """Return the chosen labels, in the library of X if they are numbers."""
        single = self.scores.shape[1] == 1
        codes = (self.scores[:, 0] > 0.0).long() if single else self.scores.argmax(dim=1)
        if has_home(classes):
            return self.home.leave(self.home.enter(classes)[codes])
        return classes[on_host(codes)]

    def probabilities(self) -> Any:
        """Return the logistic function of the scores, scaled to sum to one over the classes."""
        return self.home.leave(self._shares())

    def log_probabilities(self) -> Any:
        """Return the logarithm of the probabilities."""
        return self.home.leave(self._shares().log())

    def _shares(self) -> Tensor:
        positive = torch.sigmoid(self.scores)
        if positive.shape[1] == 1:
            return torch.cat([1.0 - positive, positive], dim=1)
        total = positive.sum(dim=1, keepdim=True)
        # a sample that every class rejects without a trace left belongs to all alike
        return torch.where(total > 0.0, positive / total, 1.0 / positive.shape[1])
