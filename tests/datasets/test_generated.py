"""Data sets that are generated: they obey their rules."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import StandardScaler

from atklearn import ATkRegressor
from atklearn.datasets import (
    bayes_boundary,
    load_dataset,
    load_toy,
    make_deliveries,
    make_monk,
    make_sinc,
    make_titanic,
    make_toy,
)
from atklearn.measures import MeasureScorer


def test_monk_is_the_factorial_labelled_by_its_rule():
    X, y = make_monk()
    assert {tuple(row) for row in X.tolist()} == {
        (a + 1, b + 1, c + 1, d + 1, e + 1, f + 1) for a, b, c, d, e, f in np.ndindex(3, 3, 2, 3, 4, 2)
    }
    assert X.shape == (432, 6)
    assert X.tolist() == sorted(X.tolist())
    for row, label in zip(X.tolist(), y.tolist(), strict=True):
        _, second, _, fourth, fifth, _ = row
        rule = fourth == 1 if fifth == 3 and second == 3 else fifth <= 3 and second <= 2
        assert label == (1 if rule else -1)
    assert Counter(y.tolist()) == {1.0: 228, -1.0: 204}


def test_titanic_has_the_margins_of_its_table():
    X, y = make_titanic()
    ship_class, child, male = X.T
    assert X.shape == (2201, 3)
    assert (y == 1).sum() == 711
    assert (y == -1).sum() == 1490
    assert Counter(ship_class.tolist()) == {1: 325, 2: 285, 3: 706, 4: 885}
    assert Counter(child.tolist()) == {1: 109, 0: 2092}
    assert Counter(male.tolist()) == {1: 1731, 0: 470}
    assert not ((child == 1) & (ship_class == 4)).any()
    survivors = y == 1
    assert Counter(ship_class[survivors].tolist()) == {1: 203, 2: 118, 3: 178, 4: 212}
    assert (child[survivors] == 1).sum() == 57
    assert (male[survivors] == 0).sum() == 344


def test_sinc_is_a_noisy_curve_seen_through_ten_bumps():
    X, y = make_sinc(20_000, random_state=0)
    assert ((X > 0) & (X <= 1)).all()
    # The distances to the first two centres, 20 / 9 apart, give x back.
    centres = np.linspace(-10, 10, 10)
    first, second = -np.log(X[:, 0]), -np.log(X[:, 1])
    x = ((first - second) / (centres[1] - centres[0]) + centres[0] + centres[1]) / 2
    np.testing.assert_allclose(np.exp(-((x[:, None] - centres) ** 2)), X, rtol=1e-6, atol=1e-12)
    assert x.min() == pytest.approx(-10, abs=0.01)
    assert x.max() == pytest.approx(10, abs=0.01)
    assert x.mean() == pytest.approx(0, abs=0.15)
    residual = y - np.sin(x) / x
    assert residual.std() == pytest.approx(0.2, rel=0.03)
    assert residual.mean() == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize("make", [make_sinc, make_deliveries])
@pytest.mark.parametrize("size", [0, -1, 2.5, np.nan, np.inf, "9", None])
def test_a_size_is_a_whole_number(make, size):
    with pytest.raises(ValueError, match=rf"\An_samples is .* at least 1, got {re.escape(repr(size))}\.\Z"):
        make(size)


@pytest.mark.parametrize("make", [make_toy, bayes_boundary, load_toy])
@pytest.mark.parametrize("case", [0, 7, 1.5, np.nan, "4", None, []])
def test_a_toy_case_is_one_of_six(make, case):
    with pytest.raises(ValueError, match=rf"\Acase is .* 1 to 6, got {re.escape(repr(case))}\.\Z"):
        make(case)


def test_generators_repeat_themselves():
    for first, second in zip(make_sinc(50, random_state=3), make_sinc(50, random_state=3), strict=True):
        np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(load_dataset("sinc").X, make_sinc(random_state=0)[0])
    np.testing.assert_allclose(make_toy(4, random_state=0)[0][1], [0.215322, 0.492997], atol=1e-6)


@pytest.mark.parametrize("name", ["monk", "titanic", "sinc"])
def test_generated_sets_need_neither_file_nor_network(name, tmp_path):
    dataset = load_dataset(name, data_dir=tmp_path / "nowhere", network=False)
    assert dataset.source == "generated"
    assert dataset.X.dtype == dataset.y.dtype == np.float64
    assert len(dataset.feature_names) == dataset.X.shape[1]


# The deliveries: the average fits the many, and the few come late.


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
