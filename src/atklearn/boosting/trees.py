"""Boosting with LightGBM: the problems of a task, each from the best constant on, by the average top-k objective."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import frexp
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from atklearn.boosting.atk_objective import ATkMetric, ATkObjective
from atklearn.encoding.encoded import Encoded, ProblemEncoder
from atklearn.losses.individual import (
    AbsoluteError,
    Array,
    Huber,
    IndividualLoss,
    SquaredError,
    resolve_individual_loss,
    task_of,
)

if TYPE_CHECKING:
    import lightgbm
    from lightgbm.callback import CallbackEnv

__all__ = [
    "BoostedTrees", "EarlyStopping", "Recipe", "Rows", "after", "boost_path", "boost_problems", "lightgbm_is_there",
    "lightgbm_parameters", "load_lightgbm", "raw_predictions", "rows_with_mass",
]  # fmt: skip

Rows: TypeAlias = npt.NDArray[np.floating] | sp.csr_matrix | sp.csr_array

# Entries of a table from which on LightGBM gets more than one thread. Its threads wait for each other many times in a
# tree: for small tables that takes as long as the work, and where others compute, a hundred times as long.
_WORTH_THREADS = 200_000
# LightGBM squares derivatives in single precision: targets larger than this, or smaller than its inverse, are brought
# near one, and so are larger weights.
_LARGE = 2.0**30
_LARGE_WEIGHT = 2.0**20
# It splits no leaf whose curvatures sum up to less than a thousandth (`min_sum_hessian_in_leaf`), in whatever units.
_LITTLE_CURVATURE = 2.0**-10
# Where a loss has no known units, what LightGBM can do with it; Huber's delta is rounding, or none, this far from y.
_FAR = 2.0**50


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


def lightgbm_parameters(random_state: int, **parameters: object) -> dict[str, object]:
    """Return parameters for LightGBM whose trees do not depend on the number of threads, and are grown silently.

    Examples
    --------
    >>> lightgbm_parameters(0, num_leaves=7)["num_leaves"]
    7
    """
    # unless its features stay, LightGBM fails where none of them can be split, but only with a custom objective
    steady = {"deterministic": True, "force_col_wise": True, "feature_pre_filter": False}
    given = {name: value for name, value in parameters.items() if value is not None}
    return {**steady, "verbosity": -1, "seed": random_state, **given}


@dataclass(frozen=True)
class Recipe:
    """How trees are grown: for how many rounds, by which parameters of LightGBM, and which columns are categories."""

    rounds: int
    parameters: dict[str, object]
    categorical: Sequence[int] = ()


@dataclass(frozen=True)
class EarlyStopping:
    """Rows that are not boosted on, and after how many rounds without a better metric it ends."""

    data: Encoded
    metric: ATkMetric
    patience: int


@dataclass(frozen=True)
class BoostedTrees:
    """A constant and the trees that were added to it, how many of these count, and the unit of both."""

    start: float
    booster: lightgbm.Booster
    rounds: int
    unit: float = 1.0

    def raw(self, X: Rows) -> Array:
        """Return raw predictions, shape (n_rows,)."""
        grown = self.booster.predict(_readable(X), raw_score=True, num_iteration=self.rounds, **_threads_for(X))
        return self.unit * (self.start + np.asarray(grown))

    @property
    def gains(self) -> Array:
        """What the splits on every column gained, shape (n_columns,)."""
        gains: Array = self.booster.feature_importance("gain", iteration=self.rounds)
        return gains


def boost_problems(
    data: Encoded,
    k: float,
    recipe: Recipe,
    stopping: EarlyStopping | None = None,
    on_round: Callable[[str, int, int], None] | None = None,
) -> list[BoostedTrees]:
    """Boost every problem of a task: one for numbers and two classes, else each class against the rest.

    All rows have mass. ``on_round`` is told of the problem, the rounds done, and how many there will be at most.
    """
    return [
        _boost(data, place, k, recipe, stopping, None if on_round is None else partial(on_round, name))
        for place, name in enumerate(data.names)
    ]


def raw_predictions(trees: Sequence[BoostedTrees], X: Rows) -> Array:
    """Return the raw predictions of the trees of every problem, shape (n_problems, n_rows)."""
    return np.stack([each.raw(X) for each in trees])


def boost_path(
    X: Rows,
    y: npt.NDArray[np.generic],
    unseen: Rows,
    *,
    loss: str | IndividualLoss,
    ks: Sequence[float],
    rounds: Sequence[int],
    class_weight: dict[object, float] | str | None = None,
    random_state: int = 0,
    **parameters: object,
) -> tuple[Array, npt.NDArray[np.generic] | None]:
    """Boost with every k; return what is said about unseen rows after several numbers of rounds.

    These are log-odds or predictions, shape (n_ks, n_rounds, n_problems, n_unseen), and come with the classes, None for
    a regression. Further parameters are LightGBM's.
    """
    encoder = ProblemEncoder(resolve_individual_loss(loss, task_of(loss)), "none", class_weight)
    data = rows_with_mass(encoder.encode(X, y))
    recipe = Recipe(max(rounds), lightgbm_parameters(random_state, **parameters))
    paths = [boost_problems(data, k, recipe) for k in ks]
    decisions = [[raw_predictions(after(trees, number), unseen) for number in rounds] for trees in paths]
    return np.array(decisions), data.classes


def rows_with_mass(data: Encoded) -> Encoded:
    """Return the rows that are boosted on: one without weight is as if it were not there."""
    return data if data.is_whole else data.take(np.flatnonzero(data.kept))


def after(trees: Sequence[BoostedTrees], rounds: int) -> list[BoostedTrees]:
    """Return the trees of every problem as they were after so many rounds."""
    return [replace(each, rounds=min(rounds, each.rounds)) for each in trees]


def _boost(
    data: Encoded,
    place: int,
    k: float,
    recipe: Recipe,
    stopping: EarlyStopping | None,
    on_round: Callable[[int, int], None] | None,
) -> BoostedTrees:
    """Boost one problem, by its place among those of the task."""
    lightgbm = load_lightgbm()
    loss, unit = _in_units(data.encoder.loss, data.values[place])
    y, objective = data.values[place] / unit, ATkObjective(loss, k)
    start = objective.start(y, data.mass)
    mass = _steady_mass(objective, y, data.mass, start)
    given = {**_threads_for(data.X), **recipe.parameters}
    options = {"categorical_feature": list(recipe.categorical), "params": given}
    says_nothing = not (data.X.nnz if sp.issparse(data.X) else data.X.any())
    X = np.ones(data.X.shape) if says_nothing else data.X  # LightGBM fails where all entries are zero
    rows = lightgbm.Dataset(_readable(X), y, init_score=np.full(y.size, start), **options)
    callbacks: list[Callable[[CallbackEnv], None]] = []
    others: dict[str, object] = {}
    if stopping is not None:
        held = stopping.data
        base = np.full(held.n_samples, start)
        others["valid_sets"] = [lightgbm.Dataset(_readable(held.X), held.y, init_score=base, reference=rows)]
        others["feval"] = partial(_measured, stopping, place, unit)
        callbacks.append(lightgbm.early_stopping(stopping.patience, verbose=False))
    if on_round is not None:
        callbacks.append(lambda env: on_round(env.iteration + 1, env.end_iteration))
    # LightGBM keeps labels and weights as float32; here they are at hand as they were given
    weight = None if (mass == 1.0).all() else mass
    parameters = {**given, "objective": lambda raw, _: objective(y, raw, weight), "metric": "None"}
    booster = lightgbm.train(parameters, rows, recipe.rounds, callbacks=callbacks, **others)
    return BoostedTrees(start, booster, int(booster.current_iteration()), unit)  # of early stopping, the best


def _in_units(loss: IndividualLoss, y: Array) -> tuple[IndividualLoss, float]:
    """Return the loss of targets in the unit returned, a power of two; 1 unless they are very large or small.

    Targets and predictions in another unit have the same losses but for a factor, if Huber's delta is in it, too.
    """
    size = float(np.abs(y).max())
    unit = 1.0 if not size or 1.0 / _LARGE <= size <= _LARGE else 2.0 ** frexp(size)[1]
    if type(loss) is Huber and size:
        return Huber(float(np.clip(loss.delta, size / _FAR, size * _FAR)) / unit), unit
    if type(loss) in (SquaredError, AbsoluteError):
        return loss, unit
    if size and not 1.0 / _FAR <= size <= _FAR:
        raise ValueError(
            f"With {loss!r}, targets of boosted trees are expected to be {1.0 / _FAR:.0e} to {_FAR:.0e} at the "
            f"largest, since LightGBM counts in single precision, got {size:g}; divide them by their largest."
        )
    return loss, 1.0


def _steady_mass(objective: ATkObjective, y: Array, mass: Array, start: float) -> Array:
    """Return the masses times a power of two, of which AT_k does not depend, where LightGBM would not split otherwise.

    It leaves rows alone whose weights times curvatures are all tiny: weights that sum up to one, and the absolute
    error of large targets, of which the curvature is one over the error.
    """
    heaviest = float(mass.max())
    if not _LITTLE_CURVATURE <= heaviest <= _LARGE_WEIGHT:
        mass = np.ldexp(mass, -frexp(heaviest)[1])
    if task_of(objective.loss) == "regression":
        curvature = float(objective(y, np.full(y.size, start), mass)[1].mean())
        if curvature < _LITTLE_CURVATURE:
            mass = np.ldexp(mass, -frexp(curvature)[1])
    return mass


def _readable(X: Rows) -> Rows:
    """Return rows as LightGBM reads them: of what is sparse it knows matrices, not arrays."""
    return sp.csr_matrix(X) if sp.issparse(X) else X


def _threads_for(X: Rows) -> dict[str, Any]:
    """Return the parameter for one thread where there is too little to share: waiting for others takes longer."""
    return {"num_threads": 1} if X.shape[0] * X.shape[1] < _WORTH_THREADS else {}


def _measured(
    stopping: EarlyStopping, place: int, unit: float, raw: Array, _: lightgbm.Dataset
) -> tuple[str, float, bool]:
    """Return what LightGBM expects of a metric."""
    metric, held = stopping.metric, stopping.data
    return metric.measure, metric.value(held.values[place], unit * raw, held.mass), metric.higher_is_better
