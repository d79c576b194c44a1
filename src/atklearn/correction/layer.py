"""The layer that is put on a model: what it is fitted to, what it predicts, and how wrong that is.

:class:`NumberTarget` and :class:`ClassTarget` say what differs between regression and classification; all else is the
same for both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.special import log_expit, logsumexp

from atklearn.core.problem import Solution
from atklearn.correction.rows import SeenColumns
from atklearn.encoding.encoded import Coefficients, ProblemEncoder, Problems
from atklearn.losses.aggregate import top_sum
from atklearn.losses.individual import Array
from atklearn.runtime.namespaces import Labels
from atklearn.selection.folds import Places, Split, fill_cells
from atklearn.selection.paths import grid_cells

__all__ = ["ClassTarget", "CorrectionFold", "Layer", "NumberTarget", "OutOfFold", "Target", "mean_of_worst"]

_TOL = 1e-2  # cells are compared, not published
# The weight of a model's own score is all but free of the penalty, which so pulls to the model and not to no model.
_FREE = 100.0


def mean_of_worst(errors: Array, mass: Array, share: float) -> float:
    """Return the mean of the largest errors, of this share of the mass."""
    worst = share * float(mass.sum())
    return top_sum(errors, mass, worst) / worst


class Target(Protocol):
    """What is predicted, and how wrong a prediction is."""

    @property
    def encoder(self) -> ProblemEncoder:
        """What makes the problems of the layer."""

    @property
    def adds(self) -> bool:
        """Whether the layer is added to the model's own prediction; if not, it is in its place, and contains it."""

    def take(self, rows: Places) -> Target:
        """Return the target of some rows."""

    def response(self, own: Array) -> Any:
        """Return what the layer is fitted to, from the model's own predictions, shape (n_problems, n_samples)."""

    def residuals(self, own: Array) -> Array:
        """Return what is left by the model, shape (n_problems, n_samples)."""

    def reach(self, n_predictions: int) -> Array:
        """Return by how much more than a column of X each prediction counts before the penalty."""

    def bounds(self, cap: float) -> tuple[float, float]:
        """Return the limits of predictions."""

    def errors(self, predicted: Array) -> Array:
        """Return how wrong predictions are, one number per row."""

    def cost(self, errors: Array, mass: Array) -> float:
        """Return the mean that the budget is over."""

    def costs(self, predicted: Array, mass: Array) -> dict[str, float]:
        """Return what the price is told in: that mean, and another, by their names."""


@dataclass(frozen=True)
class NumberTarget:
    """A regression: the layer is fitted to the residual; errors are sizes, and the budget is over their RMSE."""

    encoder: ProblemEncoder
    y: Array
    least: float

    adds = True

    def take(self, rows: Places) -> NumberTarget:
        """Return the target of some rows."""
        return replace(self, y=self.y[rows])

    def response(self, own: Array) -> Array:
        """Return the residual."""
        return np.asarray(self.y - own[0])

    def residuals(self, own: Array) -> Array:
        """Return the residual, as a row."""
        return np.asarray(self.y - own)

    def reach(self, n_predictions: int) -> Array:
        """Return ones: the penalty pulls what is added to zero."""
        return np.ones(n_predictions)

    def bounds(self, cap: float) -> tuple[float, float]:  # noqa: ARG002
        """Return zero as the least prediction of what is never negative."""
        return self.least, np.inf

    def errors(self, predicted: Array) -> Array:
        """Return their sizes."""
        return np.asarray(np.abs(self.y - predicted[0]))

    def cost(self, errors: Array, mass: Array) -> float:
        """Return the RMSE."""
        return float(np.sqrt(np.average(errors**2, weights=mass)))

    def costs(self, predicted: Array, mass: Array) -> dict[str, float]:
        """Return RMSE and MAE."""
        errors = self.errors(predicted)
        return {"rmse": self.cost(errors, mass), "mae": float(np.average(errors, weights=mass))}


@dataclass(frozen=True)
class ClassTarget:
    """A classification: the layer is fitted to the classes; errors are log losses, the budget is over their mean."""

    encoder: ProblemEncoder
    codes: Labels
    n_classes: int

    adds = False

    def take(self, rows: Places) -> ClassTarget:
        """Return the target of some rows."""
        return replace(self, codes=self.codes[rows])

    def response(self, own: Array) -> Labels:  # noqa: ARG002
        """Return the classes."""
        return self.codes

    def residuals(self, own: Array) -> Array:
        """Return what the probabilities lack, a row per problem."""
        positives = np.arange(self.n_classes)[-len(own) :]
        return np.asarray((self.codes == positives[:, None]) - np.exp(log_expit(own)))

    def reach(self, n_predictions: int) -> Array:
        """Return large numbers: the penalty is for what X adds to the model's scores."""
        return np.full(n_predictions, _FREE)

    def bounds(self, cap: float) -> tuple[float, float]:
        """Return the cap on decision values."""
        return -cap, cap

    def errors(self, predicted: Array) -> Array:
        """Return the log losses."""
        if len(predicted) == 1:
            return np.asarray(np.logaddexp(0.0, np.where(self.codes == 1, -1.0, 1.0) * predicted[0]))
        logs = log_expit(predicted)
        return np.asarray(logsumexp(logs, axis=0) - logs[self.codes, np.arange(self.codes.size)])

    def cost(self, errors: Array, mass: Array) -> float:
        """Return the mean log loss."""
        return float(np.average(errors, weights=mass))

    def costs(self, predicted: Array, mass: Array) -> dict[str, float]:
        """Return the mean log loss and the error rate."""
        chosen = predicted[0] > 0.0 if len(predicted) == 1 else predicted.argmax(axis=0)
        return {
            "log_loss": self.cost(self.errors(predicted), mass),
            "error": float(np.average(chosen != self.codes, weights=mass)),
        }


class OutOfFold(NamedTuple):
    """Rows with predictions by models that have not seen them.

    The first predictions are those of the model that is corrected, one per problem.
    """

    predictions: Array  # shape (n_samples, n_predictions)
    X: Any
    target: Target
    mass: Array
    n_problems: int

    @property
    def own(self) -> Array:
        """What the model itself predicts, shape (n_problems, n_samples)."""
        return self.predictions[:, : self.n_problems].T

    def take(self, rows: Places) -> OutOfFold:
        """Return some rows."""
        return OutOfFold(self.predictions[rows], self.X[rows], self.target.take(rows), self.mass[rows], self.n_problems)

    def view(self) -> SeenColumns:
        """Return what a correction of these rows sees."""
        reach = self.target.reach(self.predictions.shape[1])
        return SeenColumns.fit(self.predictions, self.X, self.target.residuals(self.own), self.mass, reach)

    @property
    def plain(self) -> Array:
        """What the model predicts without a layer, within the bounds of predictions, shape (n_problems, n_samples)."""
        return np.clip(self.own, *self.target.bounds(np.inf))


@dataclass(frozen=True)
class Layer:
    """What turns predictions into corrected ones.

    What it adds stays within what it added to the rows it was fitted on, and the result within its bounds.

    Attributes
    ----------
    view : SeenColumns
    model : Coefficients
    adds : bool
        See :class:`Target`.
    limits : tuple of ndarrays of shape (n_problems, 1)
        The least and the most that it adds.
    bounds : tuple of float
        The least and the largest prediction.
    """

    view: SeenColumns
    model: Coefficients
    adds: bool
    limits: tuple[Array, Array]
    bounds: tuple[float, float]

    @classmethod
    def on(cls, rows: OutOfFold, view: SeenColumns, seen: Array, model: Coefficients, cap: float = np.inf) -> Layer:
        """Return the layer that a model fitted on rows is; ``seen`` is what the view shows of them."""
        added = model.decision(seen) - (0.0 if rows.target.adds else rows.own)
        limits = added.min(axis=1, keepdims=True), added.max(axis=1, keepdims=True)
        return cls(view, model, rows.target.adds, limits, rows.target.bounds(cap))

    def decision(self, predictions: Array, X: Any) -> Array:
        """Return corrected predictions, shape (n_problems, n_samples)."""
        return self.applied(self.view.transform(predictions, X), predictions[:, : len(self.model.intercepts)].T)

    def applied(self, seen: Array, own: Array) -> Array:
        """Return corrected predictions of rows, from what the view shows of them and what the model predicts."""
        added = self.model.decision(seen) - (0.0 if self.adds else own)
        return np.asarray(np.clip(own + np.clip(added, *self.limits), *self.bounds))


@dataclass(frozen=True)
class CorrectionFold:
    """A grid of corrections fitted on a part of the rows, to be judged on another.

    Attributes
    ----------
    rows : OutOfFold
        All of them.
    split : tuple of ndarrays
        The rows to fit and the rows to judge on.
    ks : ndarray
        Shares, ascending.
    pairs : ndarray of shape (n_pairs, 2)
        C and the cap on predictions, sorted.
    tail : float
        The share of the worst errors whose mean is the measure.
    most_loss : float
        See :func:`atklearn.selection.folds.fill_cells`.
    """

    rows: OutOfFold
    split: Split
    ks: Array
    pairs: Array
    tail: float
    most_loss: float = np.inf

    def over(self, ks: Places, values: Places, most_loss: float) -> CorrectionFold:
        """Return the fold with some k and pairs of its grid, by their places."""
        return replace(self, ks=self.ks[ks], pairs=self.pairs[values], most_loss=most_loss)

    def fill(self, out: Array, judge: None) -> Array:  # noqa: ARG002
        """Write the score and the cost of every cell into ``out``, as soon as they are known; return it."""
        return fill_cells(out, self.predicted(), self.score, self.most_loss)

    @cached_property
    def unseen(self) -> OutOfFold:
        """The rows to judge on."""
        return self.rows.take(self.split[1])

    def score(self, predicted: Array) -> tuple[float, float]:
        """Return minus the mean of the worst errors of predictions of the rows to judge on, and the cost."""
        errors = self.unseen.target.errors(predicted)
        return -mean_of_worst(errors, self.unseen.mass, self.tail), self.unseen.target.cost(errors, self.unseen.mass)

    def predicted(self) -> Iterator[tuple[int, int, Array]]:
        """Fit the grid; yield places of k and of the pair, and predictions of the rows to judge on."""
        rows, unseen = self.rows.take(self.split[0]), self.unseen
        view = rows.view()
        seen = view.transform(unseen.predictions, unseen.X)
        for i, j, layer in self._layers(rows, view):
            yield i, j, layer.applied(seen, unseen.own)

    def _layers(self, rows: OutOfFold, view: SeenColumns) -> Iterator[tuple[int, int, Layer]]:
        """Fit the grid; yield places of k and of the pair, and the layer."""
        seen = view.transform(rows.predictions, rows.X)
        problems = rows.target.encoder.on(seen, rows.target.response(rows.own), rows.mass)
        Cs, place_of_C = np.unique(self.pairs[:, 0], return_inverse=True)
        for i, place, solutions in grid_cells(problems, self.ks, Cs, _TOL, 1000):
            if i + 1 < self.ks.size and not rows.target.adds and not _tell_apart(problems, solutions):
                continue
            layer = Layer.on(rows, view, seen, problems.coefficients(solutions))
            for j in np.flatnonzero(place_of_C == place):
                yield i, int(j), replace(layer, bounds=rows.target.bounds(float(self.pairs[j, 1])))


def _tell_apart(problems: Problems, solutions: Sequence[Solution]) -> bool:
    """Say whether layers tell classes apart: with too small a k they collapse, and nothing has a better tail."""
    return all(
        solution.beats(problem.rows.loss_at_zero)
        for problem, solution in zip(problems.problems, solutions, strict=True)
    )
