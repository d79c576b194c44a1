"""The recommended model on all rows, and the one beside it: what they weigh, whom they find hard, how they look."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.compose import TransformedTargetRegressor
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from atklearn.losses.individual import Array
from atklearn.measures import Answers
from atklearn.study.families import FAMILIES, Family
from atklearn.study.methods import CLASS_WEIGHTS
from atklearn.study.outcome import Outcome, Recommendation
from atklearn.study.planes import plane_records
from atklearn.study.recalibration import Map, apply_map
from atklearn.study.results import Record, certificate, short
from atklearn.study.running import Task, recorded_misses
from atklearn.study.setting_aside import SettingAside
from atklearn.tables.features import feature_names, feature_sources, make_features, take_rows
from atklearn.tables.tabular import TabularData

__all__ = ["LastFit", "MappedScaler", "fit_recommended"]

_N_HARD_ROWS = 15
_N_VALUES = 6
_N_WEIGHTS = 15
_MOST = 0.5  # of a class
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
    pipeline = Pipeline([("features", make_features(data)), ("model", _model(data, recommendation))])
    with recorded_misses():
        pipeline.fit(data.features, data.target)
    pipeline.target_name_ = data.target_name  # kept in a saved model, to find the truth beside new rows
    return pipeline


def _model(data: TabularData, recommendation: Recommendation, drop: float = 0.0) -> Any:
    """Return a model of the made features, not fitted."""
    model = FAMILIES[recommendation.model]().setting_aside(drop).estimator(
        data.task, loss=recommendation.loss, k=recommendation.share, strength=recommendation.strength,
        class_weight=CLASS_WEIGHTS[recommendation.weights],
    )  # fmt: skip
    unmapped: Map = (1.0, 0.0)
    slope, shift = recommendation.map or unmapped
    if data.task == "classification":
        if recommendation.map is None:
            return model
        return FixedThresholdClassifier(model, threshold=-shift, response_method="decision_function")
    # as in the comparison, losses are in units of the target's spread
    scaler = MappedScaler(slope=slope, shift=shift)
    # a map is not undone on the way back
    return TransformedTargetRegressor(model, transformer=scaler, check_inverse=False)


class LastFit:
    """One task: fit the recommendation on all rows, and what stands beside it, and describe them."""

    def __init__(self, data: TabularData, outcome: Outcome, family: Family, task: Task) -> None:
        self.data, self.outcome, self.family, self.task = data, outcome, family, task
        self.recommendation = outcome.recommendation

    def tasks(self) -> Sequence[Task]:
        """Return the task."""
        return [self.task]

    def run(self, task: Task) -> list[Record]:
        """Fit and describe."""
        fitted = fit_recommended(self.data, self.recommendation)
        maker, last = fitted["features"], fitted["model"]
        X = maker.transform(self.data.features)
        beside = self.outcome.beside
        models = [(self.recommendation, last)]
        if beside is not None:
            models.append((beside, _model(self.data, beside).fit(X, self.data.target)))
        losses = self._losses(last, X, self.recommendation.loss)
        share = self.recommendation.share if self.recommendation.share < 1.0 else _HARD_SHARE
        order = np.argsort(-losses, kind="stable")
        top = order[: max(1, round(share * losses.size))]
        shown = order[:_N_HARD_ROWS]
        said = fitted.predict(take_rows(self.data.features, shown))
        weights = [self._weights(model) for _, model in models]
        names = feature_names(maker)
        columns = self._columns(feature_sources(maker), weights[0])
        heaviest = _heaviest(weights, comparable=self.data.task == "regression")
        asked = self.outcome.question
        records = [
            {
                "record": "answer",
                "score": asked.score,
                "margin": asked.margin,
                "n_splits": len(self.outcome.splits),
                "traced": [self.outcome.traced.loss, self.outcome.traced.weights],
            },
            *(
                {"record": kind, **self._model_record(chosen, model, names, of_model, heaviest)}
                for kind, (chosen, model), of_model in zip(("model", "other"), models, weights, strict=False)
            ),
            *self._row_records("hard_row", shown, losses, said, columns),
            *self._aside_records(X, losses, columns),
            *self._plane_records(last, maker, X, weights[0][0]),
        ]
        records[1] |= {"top_share": share, "top": self._top(top)}
        return [{**record, "question": task.name} for record in records]

    def _aside_records(self, X: Any, losses: Array, columns: Mapping[str, int]) -> list[Record]:
        """Return the rows that the best fit which sets some aside leaves out, if such fits were compared."""
        aside = SettingAside(self.outcome)
        chosen = aside.on_all_rows
        if chosen is None:
            return []
        robust = Recommendation(chosen.loss, chosen.weights, 1.0, chosen.strength, None, "", self.family.name)
        model = _model(self.data, robust, chosen.drop)
        with recorded_misses(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"trim=.* sets .* aside", UserWarning)  # the report says so
            model.fit(X, self.data.target)
        rows = _inner(model).set_aside_
        hardest = np.argsort(-losses, kind="stable")[: rows.size]
        shown = rows[:_N_HARD_ROWS]
        record = {
            "record": "aside", "dataset": self.data.name, "drop": chosen.drop, "n_rows": int(rows.size),
            "loss": chosen.loss, "strength": chosen.strength, "asked_for": aside.is_asked_for,
            "also_hardest": int(np.isin(rows, hardest).sum()), "most_of_class": self._most_of_class(rows),
            **certificate(self.family.gaps(_inner(model)), _inner(model).tol),
        }  # fmt: skip
        if rows.size == 0:  # so few that not half a row is to be set aside
            return [record]
        said, losses_there = model.predict(X[shown]), self._losses(model, X, robust.loss)
        return [record, *self._row_records("aside_row", shown, losses_there, said, columns)]

    def _most_of_class(self, rows: npt.NDArray[np.intp]) -> list[Any] | None:
        """Return the class of which more than half is among some rows, and which part; None if there is none."""
        if self.data.task == "regression":
            return None
        classes, codes = np.unique(self.data.target, return_inverse=True)
        shares = np.bincount(codes[rows], minlength=classes.size) / np.bincount(codes)
        worst = int(shares.argmax())
        return [_shown(classes[worst]), short(shares[worst])] if shares[worst] > _MOST else None

    def _losses(self, model: Any, X: Any, loss: str) -> Array:
        """Return the loss of every row, summed over the problems of one class against the rest."""
        target = self.data.target
        if self.data.task == "regression":
            said, target = (model.transformer_.transform(v[:, None])[:, 0] for v in (model.predict(X), target))
            return Answers.from_decisions(said[None], target, None, loss=loss).losses
        decisions = np.atleast_2d(model.decision_function(X).T)
        return Answers.from_decisions(decisions, target, model.classes_, loss=loss).losses

    def _weights(self, model: Any) -> Array:
        """Return the weights of the made features, a line per problem; for numbers, in units of the target."""
        scale = 1.0 if self.data.task == "classification" else _scale(model)
        return self.family.feature_weights(_inner(model), scale)

    def _plane_records(self, model: Any, maker: Any, X: Any, coef: Array) -> list[Record]:
        """Return the records of a picture, where fits are lines."""
        if not self.family.has_lines or self.family.tol is None:
            return []
        return plane_records(self.data, self.outcome, maker, X, self.family.tol, (coef, self._intercept(model)))

    def _intercept(self, model: Any) -> float:
        """Return what the first problem says where all made features are zero, mapped if it is."""
        first = float(np.ravel(_inner(model).intercept_)[0])
        if self.data.task == "classification":
            return first + (self.recommendation.map or (1.0, 0.0))[1]
        return float(model.transformer_.inverse_transform(np.array([[first]]))[0, 0])

    def _model_record(
        self,
        chosen: Recommendation,
        model: Any,
        names: Sequence[str],
        weights: Array,
        shown: npt.NDArray[np.intp],
    ) -> Record:
        """Return the record of a fit: what it is, how exact, and what its features weigh."""
        inner = _inner(model)
        unit = "standard deviation" if hasattr(self.data.features, "columns") else "largest absolute value"
        return {
            "dataset": self.data.name, "model": chosen.model, "loss": chosen.loss, "weights": chosen.weights,
            "k": short(chosen.share * len(self.data.target)), "share": chosen.share, "strength": chosen.strength,
            "map": chosen.map, "reason": chosen.reason, "objective": short(float(np.mean(inner.objective_))),
            **certificate(self.family.gaps(inner), getattr(inner, "tol", None)), "n_features": len(names),
            "feature_unit": unit, "weight_sums": [short(value) for value in np.abs(weights).sum(axis=1)],
            "feature_weights": [[names[i], *(short(value) for value in weights[:, i])] for i in shown],
        }  # fmt: skip

    def _top(self, top: npt.NDArray[np.intp]) -> Record:
        """Return who is in the top k: per class and per group, its rows and those of them in the top."""
        kinds = {"class": self.data.target} if self.data.task == "classification" else {}
        if self.data.groups is not None:
            kinds["group"] = self.data.groups
        return {
            kind: [
                [str(value), int((values == value).sum()), int((values[top] == value).sum())]
                for value in np.unique(values)
            ]
            for kind, values in kinds.items()
        }

    def _columns(self, sources: Sequence[str], weights: Array) -> dict[str, int]:
        """Return the columns with the largest weight, summed over the features made of each, and their places."""
        sums: dict[str, float] = {}
        for source, weight in zip(sources, np.abs(weights).max(axis=0), strict=True):
            sums[source] = sums.get(source, 0.0) + float(weight)
        names = [str(name) for name in getattr(self.data.features, "columns", sources)]
        return {name: names.index(name) for name in sorted(sums, key=lambda name: -sums[name])[:_N_VALUES]}

    def _row_records(
        self, kind: str, rows: npt.NDArray[np.intp], losses: Array, said: npt.NDArray[Any], columns: Mapping[str, int]
    ) -> list[Record]:
        """Return the records of some rows, with the columns that matter as they are in the table."""
        records = []
        for row, guess in zip(rows, said, strict=True):
            record = {
                "record": kind, "dataset": self.data.name, "row": int(self.data.rows[row]),
                "loss": short(losses[row]), "target": _shown(self.data.target[row]), "prediction": _shown(guess),
                "values": {name: _shown(self._value(int(row), place)) for name, place in columns.items()},
            }  # fmt: skip
            if self.data.task == "regression":
                record["error"] = short(guess - self.data.target[row])
            records.append(record)
        return records

    def _value(self, row: int, place: int) -> Any:
        features = self.data.features
        return features.iat[row, place] if hasattr(features, "iat") else float(features[row, place])


def _heaviest(weights: Sequence[Array], *, comparable: bool) -> npt.NDArray[np.intp]:
    """Return the features with the largest weight in any of two models, or the largest change between them."""
    scaled = weights if comparable else [of / np.maximum(np.abs(of).sum(axis=1), 1e-300)[:, None] for of in weights]
    sizes = np.abs([*scaled, scaled[0] - scaled[-1]]).max(axis=(0, 1))
    return np.argsort(-sizes, kind="stable")[:_N_WEIGHTS]


def _shown(value: Any) -> str:
    """Return a value of the table as text that fits a table of the report."""
    if pd.isna(value):
        return "missing"
    return f"{value:.6g}" if isinstance(value, float) else str(value)[:60]


def _inner(model: Any) -> Any:
    """Return the fit inside a model with a threshold or a scaled target."""
    return getattr(model, "regressor_", getattr(model, "estimator_", model))


def _scale(model: Any) -> float:
    """Return what a standardised and mapped target has for one unit of what the fit inside says."""
    scaler = model.transformer_
    return float(scaler.slope * scaler.scale_[0])
