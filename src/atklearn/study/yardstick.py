"""A yardstick for a family of models: the average loss of the other family as it comes, on the splits of one repeat.

Linear models stand beside gradient boosting, of LightGBM where it is installed and else of scikit-learn; boosted trees
stand beside a linear model. So one sees whether the family is sensible on these data at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.special import logit
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.preprocessing import StandardScaler

from atklearn.estimators.linear import ATkClassifier, ATkRegressor
from atklearn.losses.individual import Array
from atklearn.study.families import has_boosting
from atklearn.study.results import Record, short
from atklearn.study.running import Task
from atklearn.study.settings import Settings
from atklearn.study.split_grids import SplitGrids

__all__ = ["Yardstick"]

_MOST_TRAINED = 50_000  # more rows would cost much and change little
_MOST_NUMBERS = 20_000_000  # of a sparse matrix that is written out
_LEAST_PROBABILITY = 1e-12


class Yardstick:
    """A task per split of the first repeat: fit one model to its training part, ask it about its test part.

    Parameters
    ----------
    grids : SplitGrids
        Whose splits, features and rows it has.
    """

    def __init__(self, grids: SplitGrids) -> None:
        self.grids = grids
        self.standard = _standard_beside(grids.settings, classification=grids.classification)

    def tasks(self) -> Sequence[Task]:
        """Return a task per split of the first repeat; none where sparse features are too many to be written out."""
        features = self.grids.data.features
        numbers = self.grids.used.size * features.shape[1]
        if self.standard.is_dense and sp.issparse(features) and numbers > _MOST_NUMBERS:
            return []
        return [Task(f"yardstick {split}", split, self.standard.cost) for split in range(self.grids.n_folds)]

    def run(self, task: Task) -> list[Record]:
        """Fit, and record what it says."""
        taken = self.grids.take(task.key)
        y, (train, test) = self.grids.y[taken.rows], taken.places
        places = self.grids.place_judged[taken.rows[test]]
        test = test[places >= 0]
        if train.size > _MOST_TRAINED:
            rng = np.random.default_rng(self.grids.settings.random_state)
            train = np.sort(rng.choice(train, _MOST_TRAINED, replace=False))
        X, unseen = (_dense(part) if self.standard.is_dense else part for part in (taken.X[train], taken.X[test]))
        decisions, prior = self._said(X, y[train], unseen)
        return [
            {
                "record": "yardstick", "dataset": self.grids.data.name, "split": task.key,
                "model": self.standard.model, "library": self.standard.library, "rounds": self.standard.rounds,
                "rows": places[places >= 0].tolist(), "decisions": [[short(f) for f in row] for row in decisions],
                "prior": [short(share) for share in prior], "n_train": int(train.size),
            }
        ]  # fmt: skip

    def _said(self, X: Any, y: npt.NDArray[Any], unseen: Any) -> tuple[Array, Array]:
        """Return log-odds or predictions of unseen rows, shape (n_problems, n_rows), and the shares of the classes."""
        model = self.standard.estimator.fit(X, y)
        if not self.grids.classification:
            return model.predict(unseen)[None], np.empty(0)
        n_classes = len(self.grids.labels)
        probabilities = np.zeros((n_classes, unseen.shape[0]))
        probabilities[model.classes_] = model.predict_proba(unseen).T
        odds = logit(np.clip(probabilities, _LEAST_PROBABILITY, 1.0 - _LEAST_PROBABILITY))
        counts = np.bincount(y, minlength=n_classes)
        # a class that the training part lacks is never said, however rare it is
        prior = np.where(counts > 0, counts / y.size, 1.0)
        return odds[1:] if n_classes == 2 else odds, prior


@dataclass(frozen=True)
class _Standard:
    """A model to measure by.

    Attributes
    ----------
    model : {"linear", "boosting"}
    library : str
        Whose it is.
    estimator : estimator
        Not fitted.
    rounds : int or None
        Of trees, at most.
    cost : float
        Times that of a grid, as measured on 1,000 rows of 20 columns.
    is_dense : bool
        Whether sparse features have to be written out.
    """

    model: str
    library: str
    estimator: Any
    rounds: int | None
    cost: float
    is_dense: bool


def _standard_beside(settings: Settings, *, classification: bool) -> _Standard:
    """Return the model to measure a family of models by."""
    if settings.family.name != "linear":
        # as in the comparison, losses are in units of the target's spread
        numbers = TransformedTargetRegressor(ATkRegressor(k=1.0), transformer=StandardScaler())
        estimator = ATkClassifier(k=1.0) if classification else numbers
        return _Standard("linear", "atklearn", estimator, None, 0.1, is_dense=False)
    rounds, seed = settings.boosting_rounds, settings.random_state
    if has_boosting():
        from atklearn.boosting import ATkBoostingClassifier, ATkBoostingRegressor

        boosted = ATkBoostingClassifier if classification else ATkBoostingRegressor
        estimator = boosted(k=1.0, n_estimators=rounds, random_state=seed, n_jobs=1)
        return _Standard("boosting", "LightGBM", estimator, rounds, 1.3, is_dense=True)
    histogram = HistGradientBoostingClassifier if classification else HistGradientBoostingRegressor
    return _Standard(
        "boosting", "scikit-learn", histogram(max_iter=rounds, random_state=seed), rounds, 1.3, is_dense=True
    )


def _dense(X: Any) -> Array:
    return np.asarray(X.toarray() if sp.issparse(X) else X)
