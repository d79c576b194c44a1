"""Frames of pandas, polars and Arrow go in with their names, and the numbers are those of arrays."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from atklearn import (
    ATkClassifier,
    ATkClassifierCV,
    ATkRegressor,
    ATkRegressorCV,
    ATkSVC,
    ATkSVR,
    SGDATkClassifier,
    SGDATkRegressor,
)
from atklearn.boosting import ATkBoostingClassifier, ATkBoostingRegressor

SMALL_GRID = {"ks": [0.8, 1.0], "Cs": [1.0, 100.0], "cv": 2}
FEW_TREES = {"n_estimators": 5, "n_jobs": 1}
ESTIMATORS = [
    ATkClassifier(k=0.8),
    ATkRegressor(k=0.5),
    ATkClassifierCV(**SMALL_GRID),
    ATkRegressorCV(**SMALL_GRID),
    SGDATkClassifier(random_state=0),
    SGDATkRegressor(max_iter=40, random_state=0),
    ATkSVC(),
    ATkSVR(),
    ATkBoostingClassifier(**FEW_TREES),
    ATkBoostingRegressor(**FEW_TREES),
]
FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}
COLUMNS = {"pandas": pd.Series, "polars": pl.Series, "arrow": lambda values: pa.chunked_array([pa.array(values)])}


def assert_same(one, other):
    """Labels are equal; numbers up to rounding, since frames lie in memory column by column and sums have an order."""
    if np.asarray(other).dtype.kind == "f":
        assert_allclose(one, other, rtol=1e-12)
    else:
        assert_array_equal(one, other)


def named(X):
    return {f"x{i}": X[:, i] for i in range(X.shape[1])}


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_names_come_out_and_numbers_are_those_of_arrays(flowers, diabetes, estimator, kind):
    X, y = flowers if is_classifier(estimator) else diabetes
    weight = np.linspace(0.5, 1.5, len(y))
    frame, column = FRAMES[kind](named(X)), COLUMNS[kind]
    model = clone(estimator).fit(frame, column(y), sample_weight=column(weight))
    of_arrays = clone(estimator).fit(X, y, sample_weight=weight)
    assert model.feature_names_in_.tolist() == list(named(X))
    assert_same(model.predict(frame), of_arrays.predict(X))
    assert model.score(frame, column(y)) == pytest.approx(of_arrays.score(X, y), rel=1e-12)


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_columns_in_another_order_or_of_other_names_are_refused(flowers, diabetes, estimator, kind):
    X, y = flowers if is_classifier(estimator) else diabetes
    model = clone(estimator).fit(FRAMES[kind](named(X)), y)
    swapped = FRAMES[kind](dict(reversed(named(X).items())))
    with pytest.raises(ValueError, match="must be in the same order as they were in fit"):
        model.predict(swapped)
    renamed = FRAMES[kind]({f"{name}!": values for name, values in named(X).items()})
    with pytest.raises(ValueError, match="Feature names unseen at fit time"):
        model.predict(renamed)


@pytest.mark.parametrize("kind", FRAMES)
def test_names_go_through_a_pipeline(flowers, kind):
    X, y = flowers
    frame = FRAMES[kind]({"long": X[:, 0], "wide": X[:, 1]})
    steps = [PolynomialFeatures(2, include_bias=False), StandardScaler(), ATkClassifier(k=0.9)]
    model = make_pipeline(*steps).set_output(transform="pandas").fit(frame, y)
    assert model.feature_names_in_.tolist() == ["long", "wide"]
    assert model[-1].feature_names_in_.tolist() == ["long", "wide", "long^2", "long wide", "wide^2"]
    of_arrays = make_pipeline(*map(clone, steps)).fit(X[:, :2], y)
    assert_array_equal(model.predict(frame), of_arrays.predict(X[:, :2]))


def test_whole_numbers_and_single_precision_stand_side_by_side(diabetes):
    X, y = diabetes
    mixed = {"a": np.round(9.0 * X[:, 2]).astype(np.int64), "b": X[:, 3].astype(np.float32), "c": X[:, 8]}
    together = np.column_stack([np.asarray(column, dtype=np.float64) for column in mixed.values()])
    expected = ATkRegressor(k=0.5).fit(together, y).predict(together)
    for frame in (make(mixed) for make in FRAMES.values()):
        assert_same(ATkRegressor(k=0.5).fit(frame, y).predict(frame), expected)


def test_what_is_missing_in_arrow_is_missing(diabetes):
    table = pa.table({"a": pa.array([None, *diabetes[0][1:, 0]]), "b": diabetes[0][:, 1]})
    with pytest.raises(ValueError, match="Input X contains NaN"):
        ATkRegressor(k=0.5).fit(table, diabetes[1])


@pytest.mark.parametrize("categorical_features", ["from_dtype", ["town"], [1]])
def test_trees_take_categories_and_gaps_of_every_frame(diabetes, categorical_features):
    X, y = diabetes
    towns = np.resize(["b", "a", "c"], len(y))
    y = y + 3.0 * (towns == "a")
    table = pa.table(
        {
            "bmi": pa.array([None, *X[1:, 2]]),
            "town": pa.array([*towns[:-1], None]).dictionary_encode(),
            "number": np.arange(len(y)) % 7,
        }
    )
    answers = []
    for frame in (table, table.to_pandas(), pl.from_arrow(table)):
        model = ATkBoostingRegressor(**FEW_TREES, categorical_features=categorical_features).fit(frame, y)
        assert model.columns_.categorical == [1]
        assert model.feature_names_in_.tolist() == ["bmi", "town", "number"]
        answers.append(model.predict(frame))
    assert np.corrcoef(answers[0], towns == "a")[0, 1] > 0.5
    assert_array_equal(answers[0], answers[1])
    assert_array_equal(answers[0], answers[2])
