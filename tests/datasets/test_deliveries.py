"""The deliveries: the average fits the many, and the few come late."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import StandardScaler

from atklearn import ATkRegressor
from atklearn.datasets import make_deliveries
from atklearn.measures import MeasureScorer


def features(table):
    return np.column_stack([table["distance_km"], table["climb_m"]])


def test_deliveries_are_plausible():
    table = make_deliveries(20_000)
    assert {name: column.dtype.kind for name, column in table.items()} == {
        "distance_km": "f", "climb_m": "f", "vehicle": "U", "minutes": "f",
    }  # fmt: skip
    assert table["minutes"].min() > 0
    assert np.mean(table["vehicle"] == "bike") == pytest.approx(0.12, abs=0.01)
    for vehicle, per_m in (("van", 0.01), ("scooter", 0.01), ("bike", 0.25)):
        rows = table["vehicle"] == vehicle
        line = LinearRegression().fit(features(table)[rows], table["minutes"][rows])
        np.testing.assert_allclose(line.coef_, [4.0, per_m], atol=0.02)
        assert np.std(table["minutes"][rows] - line.predict(features(table)[rows])) == pytest.approx(1.0, rel=0.05)


def test_deliveries_repeat_themselves():
    np.testing.assert_array_equal(make_deliveries(50)["minutes"], make_deliveries(50, random_state=0)["minutes"])
    assert (make_deliveries(50)["minutes"] != make_deliveries(50, random_state=1)["minutes"]).any()
    with pytest.raises(ValueError, match="at least 1, got 0"):
        make_deliveries(0)


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error"])
@pytest.mark.parametrize("seed", range(4))
def test_a_smaller_k_sees_the_climb_that_the_average_does_not(loss, seed):
    known, fresh = make_deliveries(random_state=seed), make_deliveries(20_000, random_state=100)
    scaler = StandardScaler().fit(features(known))
    error = {}
    climb = {}
    for k in (0.2, 1.0):
        model = ATkRegressor(loss, k=k).fit(scaler.transform(features(known)), known["minutes"])
        answers = scaler.transform(features(fresh)), fresh["minutes"]
        error[k] = {name: -MeasureScorer(name)(model, *answers) for name in ("tail_error", "max_error", "rmse")}
        climb[k] = model.coef_[1] / scaler.scale_[1]
    assert 0.01 < climb[1.0] < 0.6 * climb[0.2] < 0.6 * 0.25
    assert error[0.2]["tail_error"] < 0.85 * error[1.0]["tail_error"]
    assert error[0.2]["max_error"] < 0.9 * error[1.0]["max_error"]
    assert error[0.2]["rmse"] < 1.15 * error[1.0]["rmse"]
