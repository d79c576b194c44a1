"""Pictures of models along k: boundaries between two classes of two features, lines of predictions of a number."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from atklearn.losses.individual import Array
from atklearn.measures import MEASURES, Answers
from atklearn.selection.paths import atk_path
from atklearn.study.methods import CLASS_WEIGHTS
from atklearn.study.outcome import Outcome
from atklearn.study.results import Record, certificate, relative_gaps, short
from atklearn.tables.features import feature_names
from atklearn.tables.tabular import TabularData

__all__ = ["plane_records"]

_N_POINTS = 2000
_MOST_FEATURES = 3  # of a regression: the others are held at their means
LinearFit: TypeAlias = tuple[Array, float]
"""Weights of the made features, and intercept; of a regression in units of the target."""


def plane_records(
    data: TabularData, outcome: Outcome, maker: Any, X: Any, tol: float, recommended: LinearFit
) -> list[Record]:
    """Return the rows of a picture and the fits along k; none if the columns are too many, or not used as they are.

    Parameters
    ----------
    data : TabularData
    outcome : Outcome
    maker : Pipeline or MaxAbsScaler
        What made the features, fitted.
    X : ndarray of shape (n_rows, n_features)
        The made features.
    tol : float
        Of the fits.
    recommended : (ndarray of shape (n_features,), float)
        The recommended fit, which need not be one along k.
    """
    names = feature_names(maker)
    as_they_are = names == [str(name) for name in getattr(data.features, "columns", ())]
    if not as_they_are or not _fits_a_plane(data, len(names)):
        return []
    path = _Path(data, outcome, X, tol)
    if data.task == "regression":
        # along which feature the lines turn most
        turn = int(np.argmax(np.abs(path.coefs - path.coefs[-1]).max(axis=0)))
        axes, scaler = [turn], maker["scale"]
    else:
        axes, scaler = [0, 1], maker["scale"]
    rows = np.random.default_rng(0).permutation(len(X))[:_N_POINTS]
    raw = scaler.inverse_transform(X[rows])[:, axes].T.tolist()
    if data.task == "regression":
        raw.append(data.target[rows].tolist())

    def line(coef: Array, intercept: float) -> list[float]:
        """Return a, b and c of a x + b y + c = 0 in units of the table, where the other features have their means."""
        slopes = coef[axes] / scaler.scale_[axes]
        shift = intercept - slopes @ scaler.mean_[axes]
        return [short(value) for value in (*slopes, *([-1.0] if data.task == "regression" else []), shift)]

    chosen = outcome.recommendation
    on_path = (chosen.loss, chosen.weights, chosen.map) == (path.grid.loss, path.grid.weights, None)
    plane = {
        "record": "plane", "dataset": data.name, "n_features": len(names),
        "names": [*(names[axis] for axis in axes), *([data.target_name] if data.task == "regression" else [])],
        "x": [short(value) for value in raw[0]], "y": [short(value) for value in raw[1]], **_labels(data, rows),
        "loss": path.grid.loss, "weights": path.grid.weights,
        "recommended": None if on_path else line(*recommended),
    }  # fmt: skip
    points = [
        {"record": "point", "dataset": data.name, **fit, "line": line(coef, intercept)}
        for fit, coef, intercept in zip(path.fits, path.coefs, path.intercepts, strict=True)
    ]
    return [plane, *points]


def _fits_a_plane(data: TabularData, n_features: int) -> bool:
    if data.task == "regression":
        return n_features <= _MOST_FEATURES
    return n_features == 2 and np.unique(data.target).size == 2


def _labels(data: TabularData, rows: npt.NDArray[np.intp]) -> Record:
    """Return what tells rows apart: their classes, or whether they are of the smallest group."""
    if data.task == "classification":
        return {"label": [str(label) for label in data.target[rows]], "positive": str(np.unique(data.target)[1])}
    if data.groups is None:
        return {"label": [""] * rows.size, "smallest": None}
    groups, counts = np.unique(data.groups, return_counts=True)
    return {"label": [str(group) for group in data.groups[rows]], "smallest": str(groups[counts.argmin()])}


class _Path:
    """The fits on all rows along k, each at the C that is best for it in validation, the maximum left out."""

    def __init__(self, data: TabularData, outcome: Outcome, X: Any, tol: float) -> None:
        self.grid = grid = outcome.traced
        places = np.flatnonzero(grid.ks > 1.0)
        best = grid.scores(outcome.question.score).mean(axis=0)[places].argmax(axis=1)
        used, which = np.unique(best, return_inverse=True)
        target, centre, spread = data.target, 0.0, 1.0
        if data.task == "regression":
            centre, spread = float(target.mean()), float(target.std()) or 1.0
            target = (target - centre) / spread
        weight = CLASS_WEIGHTS[grid.weights]
        path = atk_path(
            X, target, ks=[float(share) for share in grid.shares[places]], Cs=[float(C) for C in grid.strengths[used]],
            loss=grid.loss, class_weight=weight, tol=tol,
        )  # fmt: skip
        at = np.arange(places.size), which
        self.coefs = spread * path.coefs[at][:, 0]
        self.intercepts = centre + spread * path.intercepts[at][:, 0]
        decisions = centre + spread * path.decision(X)[at]
        measure = MEASURES["error" if data.task == "classification" else "rmse"]
        errors = measure.evaluate(Answers.from_decisions(decisions, data.target, path.classes))
        gaps = relative_gaps(path.dual_gaps, path.objectives)[at]
        self.fits: list[Record] = [
            {
                "loss": grid.loss, "weights": grid.weights, "k": short(grid.shares[place] * len(X)),
                "share": float(grid.shares[place]), "strength": float(grid.strengths[best[i]]), "measure": measure.name,
                "error": short(errors[i]), **certificate(gaps[i], tol),
            }
            for i, place in enumerate(places)
        ]  # fmt: skip
