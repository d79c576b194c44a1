"""A yardstick for linear models: gradient boosting with the defaults of scikit-learn, on the splits of one repeat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.special import logit
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from atklearn.losses.individual import Array
from atklearn.study.results import Record, short
from atklearn.study.running import Task
from atklearn.study.split_grids import SplitGrids

__all__ = ["Yardstick"]

_MOST_TRAINED = 50_000  # more rows would cost much and change little
_MOST_NUMBERS = 20_000_000  # of a sparse matrix that is written out
_LEAST_PROBABILITY = 1e-12
_COST = 1.3  # times that of a grid, as measured on 1,000 rows of 20 columns


class Yardstick:
    """A task per split of the first repeat: fit gradient boosting to its training part, ask it about its test part.

    Parameters
    ----------
    grids : SplitGrids
        Whose splits, features and rows it has.
    """

    def __init__(self, grids: SplitGrids) -> None:
        self.grids = grids

    def tasks(self) -> Sequence[Task]:
        """Return a task per split of the first repeat; none where sparse features are too many to be written out."""
        features = self.grids.data.features
        if sp.issparse(features) and self.grids.used.size * features.shape[1] > _MOST_NUMBERS:
            return []
        return [Task(f"yardstick {split}", split, _COST) for split in range(self.grids.n_folds)]

    def run(self, task: Task) -> list[Record]:
        """Fit, and record what it says."""
        taken = self.grids.take(task.key)
        y, (train, test) = self.grids.y[taken.rows], taken.places
        places = self.grids.place_judged[taken.rows[test]]
        test = test[places >= 0]
        if train.size > _MOST_TRAINED:
            rng = np.random.default_rng(self.grids.settings.random_state)
            train = np.sort(rng.choice(train, _MOST_TRAINED, replace=False))
        decisions, prior = self._said(_dense(taken.X[train]), y[train], _dense(taken.X[test]))
        return [
            {
                "record": "yardstick", "dataset": self.grids.data.name, "split": task.key,
                "rows": places[places >= 0].tolist(), "decisions": [[short(f) for f in row] for row in decisions],
                "prior": [short(share) for share in prior], "n_train": int(train.size),
                "rounds": self.grids.settings.boosting_rounds,
            }
        ]  # fmt: skip

    def _said(self, X: Array, y: npt.NDArray[Any], unseen: Array) -> tuple[Array, Array]:
        """Return log-odds or predictions of unseen rows, shape (n_problems, n_rows), and the shares of the classes."""
        settings = self.grids.settings
        options = {"max_iter": settings.boosting_rounds, "random_state": settings.random_state}
        if not self.grids.classification:
            return HistGradientBoostingRegressor(**options).fit(X, y).predict(unseen)[None], np.empty(0)
        n_classes = len(self.grids.labels)
        model = HistGradientBoostingClassifier(**options).fit(X, y)
        probabilities = np.zeros((n_classes, len(unseen)))
        probabilities[model.classes_] = model.predict_proba(unseen).T
        odds = logit(np.clip(probabilities, _LEAST_PROBABILITY, 1.0 - _LEAST_PROBABILITY))
        counts = np.bincount(y, minlength=n_classes)
        # a class that the training part lacks is never said, however rare it is
        prior = np.where(counts > 0, counts / y.size, 1.0)
        return odds[1:] if n_classes == 2 else odds, prior


def _dense(X: Any) -> Array:
    return np.asarray(X.toarray() if sp.issparse(X) else X)
