"""Metrics for the early stopping of boosting libraries: AT_k itself, or a measure by name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from atklearn.losses.aggregate import AverageTopK
from atklearn.losses.individual import IndividualLoss, resolve_individual_loss, task_of
from atklearn.losses.labels import one_versus_rest
from atklearn.measures.answers import Answers
from atklearn.measures.catalogue import MEASURES, names_of_measures

__all__ = ["ATK", "ATkMetric"]

ATK = "atk"
LIBRARIES = ("lightgbm", "xgboost")


@dataclass(frozen=True)
class ATkMetric:
    """What LightGBM's and XGBoost's scikit-learn classes take as ``eval_metric``, computed from raw predictions.

    Parameters
    ----------
    measure : str, default="atk"
        "atk" is the average of the k largest losses; else the name of a measure for the task of the loss.
    loss : str or IndividualLoss, default="squared_error"
        The individual loss; it says whether targets are classes or numbers.
    k : int or float, default=0.2
        Of "atk": an int counts rows, a float is the fraction of them.
    library : {"lightgbm", "xgboost"}, default="lightgbm"
        LightGBM expects a name, a value and whether higher is better; XGBoost a value that is to fall, so that a
        measure that should rise comes with a minus sign.

    Examples
    --------
    >>> import numpy as np
    >>> from atklearn.boosting import ATkMetric
    >>> ATkMetric("max_error")(np.array([0.0, 1.0]), np.array([0.5, 3.0]))
    ('max_error', 2.0, False)
    >>> ATkMetric("atk", k=1, library="xgboost")(np.array([0.0, 1.0]), np.array([0.5, 3.0]))
    4.0
    """

    measure: str = ATK
    loss: str | IndividualLoss = "squared_error"
    k: float = 0.2
    library: str = "lightgbm"

    def __post_init__(self) -> None:
        task = task_of(self.loss)
        known = [ATK, *(name for name in names_of_measures(task) if not MEASURES[name].by_group)]
        if self.measure not in known:
            raise ValueError(f"A metric for {task} is expected to be one of {known}, got {self.measure!r}.")
        if self.library not in LIBRARIES:
            raise ValueError(f"library is expected to be one of {LIBRARIES}, got {self.library!r}.")

    @property
    def __name__(self) -> str:
        """What XGBoost calls it in its records."""
        return self.measure

    @property
    def higher_is_better(self) -> bool:
        """Whether it should rise."""
        return self.measure != ATK and MEASURES[self.measure].higher_is_better

    def __call__(
        self, y_true: npt.ArrayLike, y_pred: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
    ) -> tuple[str, float, bool] | float:
        """Return what the library expects, from truth and raw predictions as the objective gets them.

        Parameters
        ----------
        y_true : array-like of shape (n,)
        y_pred : array-like of shape (n,) or (n, n_classes)
        sample_weight : array-like of shape (n,), default=None

        Returns
        -------
        answer : float, or tuple of str, float and bool
        """
        value = self.value(y_true, y_pred, sample_weight)
        if self.library == "xgboost":
            return -value if self.higher_is_better else value
        return self.measure, value, self.higher_is_better

    def value(self, y_true: npt.ArrayLike, y_pred: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None) -> float:
        """Return the measure of raw predictions.

        Parameters
        ----------
        y_true : array-like of shape (n,)
        y_pred : array-like of shape (n,) or (n, n_classes)
        sample_weight : array-like of shape (n,), default=None

        Returns
        -------
        value : float
        """
        y, decisions = np.asarray(y_true, dtype=np.float64), np.asarray(y_pred, dtype=np.float64)
        weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        if task_of(self.loss) == "regression":
            answers = Answers.from_decisions(decisions[None], y, None, loss=self.loss, sample_weight=weight)
            return self._of(answers)
        # one column is about the second of two classes, whatever both are called; several have theirs from 0
        classes = np.arange(2.0 if decisions.ndim == 1 else float(decisions.shape[1]))
        decisions = np.atleast_2d(decisions.T)
        answers = Answers.from_decisions(decisions, np.maximum(y, 0.0), classes, loss=self.loss, sample_weight=weight)
        if self.measure != ATK or len(decisions) == 1:
            return self._of(answers)
        targets = one_versus_rest(answers.y, classes)
        loss = resolve_individual_loss(self.loss, "classification")
        top = AverageTopK(self.k)
        return float(np.mean([top.value(loss(f, sign), weight) for f, sign in zip(decisions, targets, strict=True)]))

    def _of(self, answers: Answers) -> float:
        if self.measure == ATK:
            return AverageTopK(self.k).value(answers.losses, answers.sample_weight)
        return float(MEASURES[self.measure].evaluate(answers))
