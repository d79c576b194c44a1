"""Boosting the problems of a task, and reading them off after several numbers of rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from atklearn.boosting.atk_objective import ATkObjective
from atklearn.boosting.metric import ATkMetric
from atklearn.boosting.trees import BoostedTrees, HeldOut, Recipe, boost
from atklearn.encoding.encoded import Targets, class_targets, regression_targets
from atklearn.losses.individual import Array, IndividualLoss

__all__ = ["boost_path", "boost_problems", "lightgbm_parameters", "raw_predictions"]


def lightgbm_parameters(random_state: int, **parameters: Any) -> dict[str, Any]:
    """Return parameters for LightGBM whose trees do not depend on the number of threads, and are grown silently.

    Examples
    --------
    >>> lightgbm_parameters(0, num_leaves=7)["num_leaves"]
    7
    """
    # unless its features stay, LightGBM fails where none of them can be split, but only with a custom objective
    steady = {"deterministic": True, "force_col_wise": True, "feature_pre_filter": False}
    return {
        **steady,
        "verbosity": -1,
        "seed": random_state,
        **{name: value for name, value in parameters.items() if value is not None},
    }


def boost_problems(
    X: Any,
    targets: Targets,
    loss: str | IndividualLoss,
    k: float,
    recipe: Recipe,
    *,
    held_out: tuple[Any, Targets, ATkMetric, int] | None = None,
    on_round: Callable[[str, int, int], None] | None = None,
) -> list[BoostedTrees]:
    """Boost every problem of a task: one for numbers and two classes, else each class against the rest.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_rows, n_columns)
    targets : Targets
        All with mass.
    loss : str or IndividualLoss
    k : float
        As :class:`ATkObjective` takes it.
    recipe : Recipe
    held_out : tuple, default=None
        X, targets, metric and patience of rows to stop early by.
    on_round : callable, default=None
        Told of the problem, the rounds done, and how many there will be at most.
    """
    found = []
    for place, (values, name) in enumerate(zip(targets.values, targets.names, strict=True)):
        aside = None
        if held_out is not None:
            other_X, others, metric, patience = held_out
            aside = HeldOut(other_X, others.values[place], others.mass, metric, patience)
        tell = None if on_round is None else _telling(on_round, name)
        found.append(boost(X, values, targets.mass, ATkObjective(loss, k), recipe, aside, tell))
    return found


def raw_predictions(trees: Sequence[BoostedTrees], X: Any, rounds: int | None = None) -> Array:
    """Return what the trees of every problem say, shape (n_problems, n_rows)."""
    return np.stack([each.raw(X, rounds) for each in trees])


def boost_path(
    X: Any,
    y: npt.NDArray[Any],
    unseen: Any,
    *,
    loss: str | IndividualLoss,
    ks: Sequence[float],
    rounds: Sequence[int],
    classification: bool = False,
    class_weight: Any = None,
    random_state: int = 0,
    **parameters: Any,
) -> tuple[Array, npt.NDArray[Any] | None]:
    """Boost with every k; return what is said about unseen rows after several numbers of rounds.

    Parameters
    ----------
    X, y : array-like
        The rows to boost on.
    unseen : {array-like, sparse matrix} of shape (n_unseen, n_columns)
    loss : str or IndividualLoss
    ks : sequence of float
    rounds : sequence of int
    classification : bool, default=False
    class_weight : dict, "balanced" or None, default=None
    random_state : int, default=0
    **parameters
        Of LightGBM.

    Returns
    -------
    decisions : ndarray of shape (n_ks, n_rounds, n_problems, n_unseen)
        Log-odds or predictions.
    classes : ndarray of shape (n_classes,) or None
        None for a regression.
    """
    targets = class_targets(y, None, class_weight) if classification else regression_targets(y)
    if not targets.is_whole:
        X, targets = X[targets.kept], targets.take(targets.kept)
    recipe = Recipe(max(rounds), lightgbm_parameters(random_state, **parameters))
    paths = [boost_problems(X, targets, loss, k, recipe) for k in ks]
    decisions = np.array([[raw_predictions(trees, unseen, number) for number in rounds] for trees in paths])
    return decisions, targets.classes


def _telling(on_round: Callable[[str, int, int], None], name: str) -> Callable[[int, int], None]:
    return lambda done, most: on_round(name, done, most)
