"""A grid fitted on some rows and judged on others, by the measure to lower and by the mean of the loss that is trained.

This is the one place that does so: every choice of k and C goes over folds.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, is_classifier
from sklearn.metrics import check_scoring

from atklearn.encoding.encoded import Coefficients, Encoded, Problems, class_factors
from atklearn.losses.aggregate import top_sum
from atklearn.losses.individual import Array, IndividualLoss, Task, resolve_individual_loss
from atklearn.measures.answers import Answers
from atklearn.measures.scores import MeasureScorer
from atklearn.runtime.namespaces import Features, Labels, Vector, on_host
from atklearn.runtime.threads import steady_blas
from atklearn.selection.paths import ATkPath, grid_cells, solve_path

__all__ = [
    "GRID_TOL", "Decides", "FilledFold", "Fold", "Judge", "Places", "Scoring", "Split", "Unseen", "WorstLosses",
    "cv_results", "fill_cells", "lend_coefficients",
]  # fmt: skip

Places: TypeAlias = npt.NDArray[np.intp]
Split: TypeAlias = tuple[Places, Places]

# Cells are compared, not published: their gap, relative to the objective, need not be finer than this.
GRID_TOL = 1e-3


_Model = TypeVar("_Model")


class Decides(Protocol):
    """A fitted model, whatever it is made of."""

    def decision(self, X: Features) -> Array:
        """Return decision values, or predictions of a regression, shape (n_problems, n_samples)."""


@dataclass(frozen=True)
class WorstLosses:
    """The mean of the largest losses, of the loss that is trained: the tail of a classifier.

    Attributes
    ----------
    share : float
        The share of the weight that the largest losses are.
    """

    share: float


Scorer: TypeAlias = WorstLosses | MeasureScorer | Callable[..., float]
Scoring: TypeAlias = Scorer | str | None


@dataclass(frozen=True)
class Judge:
    """Scores models by a measure; with a scorer that is not ours by lending them an estimator.

    Attributes
    ----------
    template : estimator
        Unfitted but for ``n_features_in_`` and, of a classifier, ``classes_``; it names the loss and the class weights.
    scorer : WorstLosses, MeasureScorer or callable
        Higher is better.
    lend : callable
        Takes the template and a model, and makes the one predict as the other.
    """

    template: BaseEstimator
    scorer: Scorer
    lend: Callable[..., None]

    @classmethod
    def of(
        cls,
        template: BaseEstimator,
        scoring: Scoring,
        n_features: int,
        classes: Labels | None,
        lend: Callable[..., None],
    ) -> Judge:
        """Return a judge that keeps an unfitted estimator; classes are None for a regression."""
        template.n_features_in_ = n_features
        if classes is not None:
            template.classes_ = classes
        if isinstance(scoring, WorstLosses | MeasureScorer):
            return cls(template, scoring, lend)
        return cls(template, check_scoring(template, scoring=scoring), lend)

    @cached_property
    def loss(self) -> IndividualLoss:
        """The individual loss that is trained."""
        task: Task = "classification" if is_classifier(self.template) else "regression"
        return resolve_individual_loss(self.template.loss, task)

    @property
    def takes_tensors(self) -> bool:
        """Whether X may lie on a device; a scorer that is not ours gets arrays."""
        return isinstance(self.scorer, WorstLosses | MeasureScorer)

    def on(self, rows: Encoded) -> Unseen:
        """Return the rows to judge on, their targets read once for all models; balanced classes are so among them."""
        mass = rows.weight
        if rows.classes is not None and rows.encoder.class_weight is not None:
            counts = np.bincount(on_host(rows.y), weights=on_host(rows.weight), minlength=rows.classes.size)
            present = counts.astype(np.float64)
            if np.count_nonzero(present) > 1:
                factors = class_factors(rows.classes, present, rows.encoder.class_weight, rows.encoder.owner)
                mass = replace(rows, factors=factors).mass
        values = rows.values
        targets = np.array([on_host(each) for each in values], dtype=np.float64)
        return Unseen(self, rows.X, on_host(rows.labels), on_host(rows.sample_weight), targets, on_host(mass))


@dataclass(frozen=True)
class Unseen:
    """Rows that models have not seen.

    Attributes
    ----------
    judge : Judge
    X, y : array-like
    sample_weight : ndarray of shape (n_samples,) or None
    targets : ndarray of shape (n_problems, n_samples)
        As the loss takes them.
    mass : ndarray of shape (n_samples,)
        Sample weights times class weights, as in training.
    """

    judge: Judge
    X: Features
    y: Vector
    sample_weight: Array | None
    targets: Array
    mass: Array

    def score(self, model: Decides) -> tuple[float, float]:
        """Return the score of a model, higher being better, and its mean loss."""
        decisions = model.decision(self.X)
        losses = sum(self.judge.loss(values, target) for values, target in zip(decisions, self.targets, strict=True))
        return self._measure(model, decisions, np.asarray(losses)), float(np.average(losses, weights=self.mass))

    def _measure(self, model: Decides, decisions: Array, losses: Array) -> float:
        template, scorer = self.judge.template, self.judge.scorer
        if isinstance(scorer, WorstLosses):
            worst = scorer.share * float(self.mass.sum())
            return -top_sum(losses, self.mass, worst) / worst
        if isinstance(scorer, MeasureScorer):
            classes = template.classes_ if self.judge.loss.task == "classification" else None
            known = {"loss": self.judge.loss, "sample_weight": self.sample_weight}
            return scorer.of(Answers.from_decisions(decisions, self.y, classes, **known), template)
        self.judge.lend(template, model)
        weighted = {}
        if self.sample_weight is not None and _takes_weight(scorer):
            weighted = {"sample_weight": self.sample_weight}
        return float(scorer(template, self.X, self.y, **weighted))


def lend_coefficients(template: BaseEstimator, model: Coefficients) -> None:
    """Make a linear estimator predict as the linear models of a cell."""
    weights, intercepts = model
    classifies = is_classifier(template)
    template.coef_ = weights if classifies else weights[0]
    template.intercept_ = intercepts if classifies else intercepts[0]


def _takes_weight(scorer: Callable[..., float]) -> bool:
    """Return whether a scorer, or the metric it wraps, knows sample weights."""
    if type(scorer).__name__ == "_PassthroughScorer":  # scikit-learn's stand-in for the estimator's own score
        return True
    return "sample_weight" in inspect.signature(getattr(scorer, "_score_func", scorer)).parameters


class FilledFold(Protocol):
    """A part of the data on which a grid of k and of C, or of rounds, is fitted, to be judged on another part."""

    def fill(self, out: Array, judge: Any) -> Array:
        """Write score and mean loss of every cell into ``out``, shape (n_ks, n_values, 2), as soon as it is known."""

    def over(self, ks: Places, values: Places, most_loss: float) -> Self:
        """Return the fold with some of its grid, by places; it ends at a k not worth going on from: see fill_cells."""


def fill_cells(
    out: Array,
    cells: Iterable[tuple[int, int, _Model]],
    score: Callable[[_Model], tuple[float, float]],
    most_loss: float,
) -> Array:
    """Write score and mean loss of cells as soon as they are fitted, from the largest k down; return all.

    Parameters
    ----------
    out : ndarray of shape (n_ks, n_values, 2)
        k ascending.
    cells : iterable of tuples
        Place of k, place of the other parameter, model.
    score : callable
        Returns the score of a model and its mean loss.
    most_loss : float
        The first k ends it that has no cell whose mean loss is at most this times the least of the largest k.
    """
    for i, j, model in cells:
        larger = out[i + 1 :, :, 1]
        if larger.size and larger[0].min() / most_loss > larger[-1].min():
            break
        out[i, j] = score(model)
    return out


@dataclass(frozen=True)
class Fold:
    """A grid of fits on one part of the rows, to be judged on another; it can be sent to another process.

    Attributes
    ----------
    data : Encoded
        All samples; X, y and weights are None until they are :meth:`given`.
    split : tuple of ndarrays
        The rows to fit and the rows to judge on.
    ks, Cs : sequence of float
        The grid; k as counts or shares.
    tol, max_iter : float, int
        Of every fit.
    trim : float
        A count or a share of the largest losses that every fit sets aside.
    most_loss : float
        See :func:`fill_cells`.
    """

    data: Encoded
    split: Split
    ks: Sequence[float] | Array
    Cs: Sequence[float] | Array
    tol: float = GRID_TOL
    max_iter: int = 1000
    trim: float = 0
    most_loss: float = np.inf

    def given(self, X: Features, y: Vector, weight: Vector) -> Fold:
        """Return the fold with its arrays, which many folds have in common and which travel once."""
        return replace(self, data=replace(self.data, X=X, y=y, weight=weight))

    def problems(self) -> Problems:
        """Return the problems on the rows to fit."""
        return self.data.part(self.split[0]).problems(on_the_host=bool(self.trim))

    def path(self) -> ATkPath:
        """Fit all cells."""
        return solve_path(self.problems(), self.ks, self.Cs, self.tol, self.max_iter, trim=self.trim)

    def cells(self) -> Iterator[tuple[int, int, Coefficients]]:
        """Fit cell by cell; yield its place in the grid and its models."""
        problems = self.problems()
        for i, j, solutions in grid_cells(problems, self.ks, self.Cs, self.tol, self.max_iter, trim=self.trim):
            yield i, j, problems.coefficients(solutions)

    def over(self, ks: Places, values: Places, most_loss: float) -> Fold:
        """Return the fold with some k and C of its grid, by their places."""
        return replace(self, ks=np.asarray(self.ks)[ks], Cs=np.asarray(self.Cs)[values], most_loss=most_loss)

    @steady_blas()
    def fill(self, out: Array, judge: Judge) -> Array:
        """Write score and mean loss of every cell into ``out``, shape (n_ks, n_Cs, 2), as soon as it is known."""
        part = self.data.take(self.split[1])
        unseen = judge.on(part if judge.takes_tensors else part.on_host())
        return fill_cells(out, self.cells(), unseen.score, self.most_loss)


def cv_results(scores: Array, ks: Array, Cs: Array) -> dict[str, object]:
    """Return scores of shape (n_splits, n_ks, n_Cs) in the format of GridSearchCV; means are over finite scores."""
    flat = scores.reshape(len(scores), -1)
    k, C = (grid.ravel() for grid in np.meshgrid(ks, Cs, indexing="ij"))
    finished = np.ma.masked_invalid(flat)
    mean = finished.mean(axis=0).filled(np.nan)
    rank = rankdata(np.where(np.isnan(mean), np.inf, -mean), method="min")  # an unfinished cell comes last
    return {
        "params": [{"k": float(a), "C": float(b)} for a, b in zip(k, C, strict=True)],
        "param_k": k,
        "param_C": C,
        **{f"split{fold}_test_score": row for fold, row in enumerate(flat)},
        "mean_test_score": mean,
        "std_test_score": finished.std(axis=0).filled(np.nan),
        "rank_test_score": rank.astype(np.int32),
    }
