"""What the boosted estimators share: parameters, k and rounds given or chosen, what is published of the trees."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, _fit_context, clone
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split
from sklearn.utils import Tags, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from atklearn.boosting.columns import Columns
from atklearn.boosting.metric import ATK, ATkMetric
from atklearn.boosting.rounds import boost_problems, lightgbm_parameters, raw_predictions
from atklearn.boosting.trees import BoostedTrees, Recipe, load_lightgbm
from atklearn.encoding.encoded import Encoded, ProblemEncoder, Targets
from atklearn.estimators.shared import published_at_once
from atklearn.losses.aggregate import AverageTopK, resolve_k, warn_of_one_row
from atklearn.losses.individual import Array, IndividualLoss, Task, resolve_individual_loss
from atklearn.measures.catalogue import MEASURES, names_of_measures
from atklearn.selection.choosing import Criterion, Search, Selection
from atklearn.selection.folds import Split, fill_cells
from atklearn.selection.judging import Judge

__all__ = ["BoostedATk"]

_SHARES = (0.1, 0.2, 0.4, 0.7, 1.0)
_FOLDS = 5
_STAGES = 8
_LAST_TO_FIRST_STAGE = 20.0


@dataclass(frozen=True)
class Boosted:
    """Trees after so many rounds."""

    trees: list[BoostedTrees]

    def decision(self, X: Any) -> Array:
        """Return what the trees say about rows, shape (n_problems, n_rows)."""
        return raw_predictions(self.trees, X)


@dataclass(frozen=True)
class BoostedFold:
    """Boosting with every k on a part of the rows, to be judged on another part after several numbers of rounds.

    Attributes
    ----------
    data : Encoded
        All samples.
    split : tuple of ndarrays
        The rows to fit and the rows to judge on.
    recipe : Recipe
    ks, numbers : ndarray
        Shares, and numbers of rounds, both ascending.
    most_loss : float
        See :func:`atklearn.selection.folds.fill_cells`.
    """

    data: Encoded
    split: Split
    recipe: Recipe
    ks: Array
    numbers: Array
    most_loss: float = np.inf

    def over(self, ks: Array, values: Array, most_loss: float) -> BoostedFold:
        """Return the fold with another grid of k and rounds."""
        return replace(self, ks=ks, numbers=values, most_loss=most_loss)

    def fill(self, out: Array, judge: Judge) -> Array:
        """Write score and mean loss of every cell into ``out``, as soon as it is known; return it."""
        return fill_cells(out, self._cells(), judge.on(self.data.take(self.split[1])), self.most_loss)

    def _cells(self) -> Iterator[tuple[int, int, Boosted]]:
        part, recipe = self.data.take(self.split[0]), replace(self.recipe, rounds=int(self.numbers[-1]))
        for i in range(self.ks.size)[::-1]:
            trees = boost_problems(part.X, part, self.data.encoder.loss, float(self.ks[i]), recipe)
            for j, number in enumerate(self.numbers):
                yield i, j, Boosted([replace(each, rounds=min(int(number), each.rounds)) for each in trees])


def _lend_trees(template: Any, model: Boosted) -> None:
    template.trees_ = model.trees


class BoostedATk(BaseEstimator, ABC):
    """Base of the boosted estimators."""

    _task: ClassVar[Task]
    selection_: Selection
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "loss": [str, IndividualLoss],
        "k": [Real, StrOptions({"auto", "max"})],
        "scoring": [str, callable, None],
        "tail": [Interval(Real, 0.0, 1.0, closed="right"), None],
        "at_most": [Interval(Real, 0.0, None, closed="both"), None],
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0.0, None, closed="neither")],
        "num_leaves": [Interval(Integral, 2, None, closed="left")],
        "min_child_samples": [Interval(Integral, 0, None, closed="left")],
        "reg_lambda": [Interval(Real, 0.0, None, closed="left")],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0.0, 1.0, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "categorical_features": [StrOptions({"from_dtype"}), "array-like", None],
        "lightgbm_params": [dict, None],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags

    @published_at_once
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)
            Missing values are NaN; columns of categories are taken as such.
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Weight 2 counts in the loss as the sample twice; weight 0 is the same as without it.

        Returns
        -------
        self : estimator
        """
        load_lightgbm()
        resolve_individual_loss(self.loss, self._task)
        metric = self._metric() if self.early_stopping else None
        columns = Columns(self.categorical_features)
        X, y = columns.fit_transform(self, X, y, y_numeric=self._task == "regression")
        every = self._targets(y, sample_weight)
        targets = every
        if not every.is_whole:  # a sample without weight is as if it were not there
            X, y, targets = X[every.kept], y[every.kept], every.take(every.kept)
        judged = replace(targets, factors=None)  # measures know sample weights, and no class weights
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        recipe = Recipe(self.n_estimators, self._lightgbm_parameters(seed), columns.categorical)
        if self.k == "auto":
            share = 1.0
            if (self.scoring, self.tail, self.at_most) != (None, None, None):  # else there is nothing to ask
                self.selection_ = self._choose(X, targets, recipe, seed)
                share, recipe = self.selection_.k, replace(recipe, rounds=int(self.selection_.value))
        else:
            warn_of_one_row(self.k)
            share = resolve_k(self.k, targets.total) / targets.total
        trees = self._boost(X, targets, judged, share, recipe, metric, seed)
        self._publish(X, every, targets, share, trees)
        self.columns_ = columns
        return self

    @abstractmethod
    def _targets(self, y: npt.NDArray[Any], sample_weight: Any) -> Targets:
        """Return the targets of the problems; a classifier sets its classes."""

    def _raw(self, X: Any) -> Array:
        """Return what the trees say about rows, shape (n_problems, n_rows)."""
        check_is_fitted(self)
        return raw_predictions(self.trees_, self.columns_.transform(self, X))

    def _lightgbm_parameters(self, seed: int) -> dict[str, Any]:
        return lightgbm_parameters(
            seed, learning_rate=self.learning_rate, num_leaves=self.num_leaves, reg_lambda=self.reg_lambda,
            min_child_samples=self.min_child_samples, num_threads=self.n_jobs, **(self.lightgbm_params or {}),
        )  # fmt: skip

    def _metric(self) -> ATkMetric:
        """Return what early stopping looks at, on rows that are held out."""
        measure = ATK if self.scoring is None else self.scoring
        if measure != ATK and measure not in MEASURES:
            raise ValueError(
                f"Early stopping expects scoring to be None, for the loss itself, or one of "
                f"{names_of_measures(self._task)}, got {self.scoring!r}; or pass early_stopping=False."
            )
        return ATkMetric(measure, self.loss, 1.0)

    def _boost(
        self,
        X: Any,
        targets: Targets,
        judged: Targets,
        share: float,
        recipe: Recipe,
        metric: ATkMetric | None,
        seed: int,
    ) -> list[BoostedTrees]:
        """Boost all problems, on all rows or with some held out to stop early by."""
        on_round = _print_round if self.verbose else None
        if metric is None:
            return boost_problems(X, targets, self.loss, share, recipe, on_round=on_round)
        rows = np.arange(targets.mass.size)
        train, test = train_test_split(
            rows, test_size=self.validation_fraction, random_state=seed, stratify=_strata(targets)
        )
        held = (targets if metric.measure == ATK else judged).take(test)
        held_out = (X[test], held, replace(metric, k=share), self.n_iter_no_change)
        return boost_problems(
            X[train], targets.take(train), self.loss, share, recipe, held_out=held_out, on_round=on_round
        )

    def _choose(self, X: Any, targets: Targets, recipe: Recipe, seed: int) -> Selection:
        """Choose the share k/n and the rounds by cross-validation.

        Each k has a number of rounds of its own that is best, so that both are chosen together.
        """
        loss = resolve_individual_loss(self.loss, self._task)
        encoder = ProblemEncoder(loss, "none", getattr(self, "class_weight", None), type(self).__name__)
        data = Encoded(
            targets.y, targets.weight, targets.classes, targets.factors, X=X, encoder=encoder, is_weighted=True
        )
        strata = _strata(targets)
        n_folds = min(_FOLDS, targets.y.size if strata is None else int(np.unique(strata, return_counts=True)[1].min()))
        rounds = np.geomspace(max(recipe.rounds / _LAST_TO_FIRST_STAGE, 1.0), recipe.rounds, _STAGES)
        grid = np.array(_SHARES), np.unique(rounds.round()).astype(np.float64)
        folds = []
        if n_folds > 1:
            splitter = (KFold if strata is None else StratifiedKFold)(n_folds, shuffle=True, random_state=seed)
            folds = [BoostedFold(data, split, recipe, *grid) for split in splitter.split(X, strata)]
        criterion = Criterion.asked(self._task, self.scoring, self.tail, self.at_most)
        lent = self._lent(X.shape[1])
        judge = Judge.of(lent, criterion.scoring, X.shape[1], getattr(lent, "classes_", None), _lend_trees)
        search = Search(
            folds, judge, criterion, *grid, 1.0 / max(n_folds - 1, 1), "n_estimators", fallback=grid[1].size - 1,
            narrows=True,
        )  # fmt: skip
        search.run()
        return search.selection()

    def _lent(self, n_columns: int) -> Any:
        """Return an estimator to be lent to scorers, which takes columns that are numbers already."""
        lent = clone(self)
        lent.n_features_in_, lent.columns_ = n_columns, Columns(None)
        if hasattr(self, "classes_"):
            lent.classes_ = self.classes_
        return lent

    def _publish(self, X: Any, every: Targets, targets: Targets, share: float, trees: list[BoostedTrees]) -> None:
        """Set the fitted attributes."""
        loss, top = resolve_individual_loss(self.loss, self._task), AverageTopK(share)
        losses = [loss(f, values) for f, values in zip(raw_predictions(trees, X), targets.values, strict=True)]
        weights = np.zeros((every.mass.size, len(trees)))
        weights[every.kept] = np.column_stack([top.weights(each, targets.mass) for each in losses])
        gains = np.sum([each.gains for each in trees], axis=0)
        self.trees_ = trees
        self.k_share_, self.k_ = float(share), float(share * targets.total)
        self.feature_importances_ = gains / (gains.sum() or 1.0)
        published = {
            "loss_threshold_": np.array([top.threshold(each, targets.mass) for each in losses]),
            "objective_": np.array([top.value(each, targets.mass) for each in losses]),
            "n_iter_": np.array([each.rounds for each in trees]),
        }
        for name, values in published.items():
            setattr(self, name, values[0].item() if len(trees) == 1 else values)
        self.top_weights_ = weights[:, 0] if len(trees) == 1 else weights


def _strata(targets: Targets) -> npt.NDArray[Any] | None:
    """Return which class every row is of; None for a regression."""
    if targets.classes is None:
        return None
    values = targets.values
    return np.asarray(values.argmax(axis=0) if len(values) > 1 else values[0] > 0.0)


def _print_round(problem: str, done: int, most: int) -> None:
    if done % max(most // 10, 1) == 0 or done == most:
        print(f"{problem}: round {done} of {most}", flush=True)
