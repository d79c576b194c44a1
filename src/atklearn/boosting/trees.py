"""Boosting one problem with LightGBM: from the best constant on, by the average top-k objective."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from atklearn.boosting.atk_objective import ATkObjective
from atklearn.boosting.metric import ATkMetric
from atklearn.losses.individual import Array

__all__ = ["BoostedTrees", "HeldOut", "Recipe", "boost", "lightgbm_is_there", "load_lightgbm"]

# Entries of a table from which on LightGBM gets more than one thread. Its threads wait for each other many times in a
# tree: for small tables that takes as long as the work, and where others compute, a hundred times as long.
_WORTH_THREADS = 200_000


def load_lightgbm() -> ModuleType:
    """Return LightGBM, or say how to install it."""
    try:
        import lightgbm
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "Boosted trees need LightGBM, which comes with: pip install 'atklearn[boosting]'", name="lightgbm"
        ) from error
    except OSError as error:  # a library of the system that it needs is not there
        raise ImportError(
            f"LightGBM is installed but cannot be loaded ({error}); on Debian and Ubuntu: apt install libgomp1",
            name="lightgbm",
        ) from error
    module: ModuleType = lightgbm
    return module


def lightgbm_is_there() -> bool:
    """Return whether trees can be boosted here."""
    try:
        load_lightgbm()
    except ImportError:
        return False
    return True


@dataclass(frozen=True)
class HeldOut:
    """Rows that are not boosted on, to stop early by.

    Attributes
    ----------
    X, y, mass : array-like
    metric : ATkMetric
    patience : int
        The rounds without a better value after which it ends.
    """

    X: Any
    y: Array
    mass: Array
    metric: ATkMetric
    patience: int


@dataclass(frozen=True)
class Recipe:
    """How trees are grown, apart from the objective.

    Attributes
    ----------
    rounds : int
        At most.
    parameters : dict
        Of LightGBM.
    categorical : sequence of int
        The places of columns whose numbers are codes of categories.
    """

    rounds: int
    parameters: dict[str, Any]
    categorical: Sequence[int] = ()


@dataclass(frozen=True)
class BoostedTrees:
    """A constant and the trees that were added to it.

    Attributes
    ----------
    start : float
    booster : lightgbm.Booster
    rounds : int
        How many trees count.
    """

    start: float
    booster: Any
    rounds: int

    def raw(self, X: Any, rounds: int | None = None) -> Array:
        """Return raw predictions, shape (n_rows,), after all rounds that count or after fewer."""
        number = self.rounds if rounds is None else min(rounds, self.rounds)
        said: Array = self.booster.predict(_as_read(X), raw_score=True, num_iteration=number, **_threads_for(X))
        return self.start + said

    @property
    def gains(self) -> Array:
        """What the splits on every column gained, shape (n_columns,)."""
        gains: Array = self.booster.feature_importance("gain", iteration=self.rounds)
        return gains


def boost(
    X: Any,
    y: Array,
    mass: Array,
    objective: ATkObjective,
    recipe: Recipe,
    held_out: HeldOut | None = None,
    on_round: Callable[[int, int], None] | None = None,
) -> BoostedTrees:
    """Boost one problem.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_rows, n_columns)
        Missing values are NaN.
    y : ndarray of shape (n_rows,)
        Targets, or -1 and +1.
    mass : ndarray of shape (n_rows,)
        Positive sample weights.
    objective : ATkObjective
    recipe : Recipe
    held_out : HeldOut, default=None
        To stop early by.
    on_round : callable, default=None
        Told of the rounds done, and of how many there will be at most.
    """
    lightgbm = load_lightgbm()
    start = objective.start(y, mass)
    given = {**_threads_for(X), **recipe.parameters}
    options = {"categorical_feature": list(recipe.categorical), "params": given}
    rows = lightgbm.Dataset(_as_read(X), y, init_score=np.full(y.size, start), **options)
    callbacks: list[Callable[[Any], None]] = []
    others: dict[str, Any] = {}
    if held_out is not None:
        others["valid_sets"] = [
            lightgbm.Dataset(
                _as_read(held_out.X), held_out.y, init_score=np.full(held_out.y.size, start), reference=rows
            )
        ]
        others["feval"] = partial(_measure, held_out)
        callbacks.append(lightgbm.early_stopping(held_out.patience, verbose=False))
    if on_round is not None:
        callbacks.append(lambda env: on_round(env.iteration + 1, env.end_iteration))
    # LightGBM keeps labels and weights as float32; here they are at hand as they were given
    weight = None if (mass == 1.0).all() else mass
    parameters = {**given, "objective": lambda said, _: objective(y, said, weight), "metric": "None"}
    booster = lightgbm.train(parameters, rows, recipe.rounds, callbacks=callbacks, **others)
    return BoostedTrees(start, booster, int(booster.current_iteration()))  # of early stopping, the best


def _as_read(X: Any) -> Any:
    """Return rows as LightGBM reads them: of what is sparse it knows matrices, not arrays."""
    return sp.csr_matrix(X) if sp.issparse(X) else X


def _threads_for(X: Any) -> dict[str, int]:
    """Return the parameter for one thread where there is too little to share: waiting for others takes longer."""
    return {"num_threads": 1} if X.shape[0] * X.shape[1] < _WORTH_THREADS else {}


def _measure(held_out: HeldOut, said: npt.NDArray[Any], _: Any) -> tuple[str, float, bool]:
    """Return what LightGBM expects of a metric."""
    value = held_out.metric.value(held_out.y, said, held_out.mass)
    return held_out.metric.measure, value, held_out.metric.higher_is_better
