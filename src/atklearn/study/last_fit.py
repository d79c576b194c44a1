"""The recommended model on all rows: whom it finds hard, and how it looks if there are two features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.compose import TransformedTargetRegressor
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from atklearn.estimators.linear import ATkClassifier, ATkRegressor
from atklearn.losses.individual import Array
from atklearn.measures import MEASURES, Answers
from atklearn.selection.paths import atk_path
from atklearn.study.methods import CLASS_WEIGHTS
from atklearn.study.outcome import Outcome, Recommendation
from atklearn.study.recalibration import Map, apply_map
from atklearn.study.results import Record, certificate, relative_gaps, short
from atklearn.study.running import Task, recorded_misses
from atklearn.study.tabular import TabularData, feature_names, make_features, take_rows

__all__ = ["LastFit", "MappedScaler", "fit_recommended"]

_N_HARD_ROWS = 15
_N_VALUES = 5
_N_POINTS = 2000
_HARD_SHARE = 0.1  # of the rows, where all are in the top k


class MappedScaler(StandardScaler):
    """Standardises a target, and maps what is predicted of it: ``slope * prediction + shift``, in its own units.

    Parameters
    ----------
    slope, shift : float

    Examples
    --------
    >>> y = np.array([[1.0], [3.0]])
    >>> scaler = MappedScaler(slope=2.0, shift=1.0).fit(y)
    >>> scaler.transform(y).ravel(), scaler.inverse_transform(scaler.transform(y)).ravel()
    (array([-1.,  1.]), array([3., 7.]))
    """

    def __init__(self, *, slope: float = 1.0, shift: float = 0.0) -> None:
        super().__init__()
        self.slope = slope
        self.shift = shift

    def inverse_transform(self, X: Any, copy: bool | None = None) -> Array:
        """Return predictions in units of the target, mapped."""
        return apply_map(super().inverse_transform(X, copy), (self.slope, self.shift))


def fit_recommended(data: TabularData, recommendation: Recommendation) -> Pipeline:
    """Fit the recommended model on all rows: one pipeline from the columns of the table to the target."""
    options: dict[str, Any] = {"loss": recommendation.loss, "k": recommendation.share, "C": recommendation.C}
    unmapped: Map = (1.0, 0.0)
    slope, shift = recommendation.map or unmapped
    model: Any
    if data.task == "classification":
        model = ATkClassifier(**options, class_weight=CLASS_WEIGHTS[recommendation.weights])
        if recommendation.map is not None:
            model = FixedThresholdClassifier(model, threshold=-shift, response_method="decision_function")
    else:  # as in the comparison, C weighs losses in units of the target's spread
        scaler = MappedScaler(slope=slope, shift=shift)
        # a map is not undone on the way back
        model = TransformedTargetRegressor(ATkRegressor(**options), transformer=scaler, check_inverse=False)
    with recorded_misses():
        fitted = Pipeline([("features", make_features(data)), ("model", model)]).fit(data.features, data.target)
    fitted.target_name_ = data.target_name  # kept in a saved model, to find the truth beside new rows
    return fitted


class LastFit:
    """One task: fit the recommendation on all rows and describe it."""

    def __init__(self, data: TabularData, outcome: Outcome, tol: float, task: Task) -> None:
        self.data, self.outcome, self.task = data, outcome, task
        self.tol = tol  # of the fits whose boundaries are drawn
        self.recommendation = outcome.recommendation

    def tasks(self) -> Sequence[Task]:
        """Return the task."""
        return [self.task]

    def run(self, task: Task) -> list[Record]:
        """Fit and describe."""
        fitted = fit_recommended(self.data, self.recommendation)
        maker, last = fitted["features"], fitted["model"]
        X = maker.transform(self.data.features)
        losses = self._losses(last, X)
        share = self.recommendation.share if self.recommendation.share < 1.0 else _HARD_SHARE
        order = np.argsort(-losses, kind="stable")
        top = order[: max(1, round(share * losses.size))]
        shown = order[:_N_HARD_ROWS]
        said = fitted.predict(take_rows(self.data.features, shown))
        asked = self.outcome.question
        records = [
            {"record": "answer", "score": asked.score, "margin": asked.margin, "n_splits": len(self.outcome.splits)},
            self._model_record(_linear(last), maker, share, top),
            *(self._row_record(row, losses[row], guess) for row, guess in zip(shown, said, strict=True)),
            *self._plane_records(X, maker),
        ]
        return [{**record, "question": task.name} for record in records]

    def _losses(self, model: Any, X: Any) -> Array:
        """Return the loss of every row, summed over the problems of one class against the rest."""
        loss, target = self.recommendation.loss, self.data.target
        if self.data.task == "regression":
            said, target = (model.transformer_.transform(v[:, None])[:, 0] for v in (model.predict(X), target))
            return Answers.from_decisions(said[None], target, None, loss=loss).losses
        decisions = np.atleast_2d(model.decision_function(X).T)
        return Answers.from_decisions(decisions, target, model.classes_, loss=loss).losses

    def _model_record(self, model: Any, maker: Any, share: float, top: npt.NDArray[np.intp]) -> Record:
        """Return the record of the fit: what it is, how exact, its weights, who is in the top k."""
        names, coef = feature_names(maker), np.atleast_2d(model.coef_)
        heaviest = np.argsort(-np.abs(coef).max(axis=0), kind="stable")[:20]
        kinds = {"class": self.data.target} if self.data.task == "classification" else {}
        if self.data.groups is not None:
            kinds["group"] = self.data.groups
        return {
            "record": "model", "dataset": self.data.name, "loss": self.recommendation.loss,
            "weights": self.recommendation.weights, "k": short(self.recommendation.share * len(self.data.target)),
            "share": self.recommendation.share, "C": self.recommendation.C, "map": self.recommendation.map,
            "reason": self.recommendation.reason,
            "objective": short(float(np.mean(model.objective_))),
            **certificate(relative_gaps(model.dual_gap_, model.objective_), model.tol), "n_features": len(names),
            "coefficients": [[names[i], *(short(value) for value in coef[:, i])] for i in heaviest],
            "top_share": share,
            "top": {
                kind: [
                    [str(value), int((values == value).sum()), int((values[top] == value).sum())]
                    for value in np.unique(values)
                ]
                for kind, values in kinds.items()
            },
        }  # fmt: skip

    def _row_record(self, row: int, loss: float, guess: Any) -> Record:
        """Return the record of a hard row, with some of its values as they are in the table."""
        values = {}
        if hasattr(self.data.features, "columns"):
            values = {
                str(name): _shown(self.data.features[name].iloc[row]) for name in self.data.features.columns[:_N_VALUES]
            }
        return {
            "record": "hard_row", "dataset": self.data.name, "row": int(self.data.rows[row]), "loss": short(loss),
            "target": _shown(self.data.target[row]), "prediction": _shown(guess), "values": values,
        }  # fmt: skip

    def _shares(self) -> Array:
        """Return the grid of k/n of the recommended loss and weights."""
        chosen = self.recommendation.loss, self.recommendation.weights
        grid = next(grid for grid in self.outcome.all_rows if (grid.loss, grid.weights) == chosen)
        return grid.shares[grid.ks > 1.0]

    def _columns(self) -> list[str] | None:
        """Return the names of the columns if there are two."""
        columns = getattr(self.data.features, "columns", ())
        return list(columns) if len(columns) == 2 else None

    def _plane_records(self, X: Any, maker: Any) -> list[Record]:
        """Return data and boundaries for drawing, if the table has two columns that are used as they are."""
        labels = np.unique(self.data.target)
        if self.data.task == "regression" or labels.size > 2 or feature_names(maker) != self._columns():
            return []
        scaler = maker["scale"]
        rows = np.random.default_rng(0).permutation(len(X))[:_N_POINTS]
        raw = scaler.inverse_transform(X[rows])
        weight = CLASS_WEIGHTS[self.recommendation.weights]
        ks: list[float] = [1, *self._shares()]
        path = atk_path(
            X, self.data.target, ks=ks, Cs=[self.recommendation.C], loss=self.recommendation.loss, class_weight=weight,
            tol=self.tol,
        )  # fmt: skip
        errors = MEASURES["error"].evaluate(Answers.from_decisions(path.decision(X), self.data.target, path.classes))
        gaps = relative_gaps(path.dual_gaps, path.objectives)
        coefs = path.coefs[:, 0, 0] / scaler.scale_
        intercepts = path.intercepts[:, 0, 0] - coefs @ scaler.mean_
        plane = {
            "record": "plane", "dataset": self.data.name, "names": feature_names(maker),
            "x": [short(value) for value in raw[:, 0]], "y": [short(value) for value in raw[:, 1]],
            "label": [str(label) for label in self.data.target[rows]], "positive": str(labels[1]),
        }  # fmt: skip
        return [
            plane,
            *(
                {
                    "record": "point", "dataset": self.data.name, "loss": self.recommendation.loss,
                    "k": 1.0 if i == 0 else short(ks[i] * len(X)), "share": short(path.ks[i] / len(X)),
                    "C": self.recommendation.C, "coef": [short(value) for value in coefs[i]],
                    "intercept": short(intercepts[i]), "error": short(errors[i, 0]),
                    **certificate(gaps[i, 0], self.tol),
                }
                for i in range(len(ks))
            ),
        ]  # fmt: skip


def _shown(value: Any) -> str:
    """Return a value of the table as text that fits a table of the report."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)[:60]


def _linear(model: Any) -> Any:
    """Return the linear fit inside a model with a threshold or a scaled target."""
    return getattr(model, "regressor_", getattr(model, "estimator_", model))
