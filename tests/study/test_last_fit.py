"""The fits on all rows: what they weigh, of which columns, and what stands beside the recommendation."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from comparisons import made_numbers, run, small, table
from made_tables import mixed_table

from atklearn.tables.features import feature_names, feature_sources, make_features
from atklearn.tables.tabular import make_table, read_table


def records_of(records, kind):
    return [record for record in records if record["record"] == kind]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    path = tmp_path_factory.mktemp("mixed") / "mixed.parquet"
    frame = mixed_table().rename(columns={"written": "town_B"})  # its features begin like those of another column
    frame.to_parquet(path)
    return read_table(path, "rides")


def test_every_feature_comes_from_a_column(mixed):
    transformer = make_features(mixed).fit(mixed.features)
    names, sources = feature_names(transformer), feature_sources(transformer)
    assert len(names) == len(sources)
    assert {*sources} == {*mixed.features.columns}
    assert all(name.startswith(source) for name, source in zip(names, sources, strict=True))
    assert {name for name, source in zip(names, sources, strict=True) if source == "town"} == {
        "town_Bonn", "town_Köln", "town_Ulm", "town_nan",
    }  # fmt: skip


def test_categories_of_several_columns_are_told_apart():
    n = np.arange(120)
    frame = pd.DataFrame({
        "b": np.array(["x", "y", "z"])[n % 3], "a": np.array(["p", "q"])[n % 2], "x": n % 7, "y": n % 5 > 1,
        "long": [f"word {i % 60} more" for i in n],
        "day": pd.date_range("2020-01-01", periods=120).strftime("%d/%m/%Y"),
    })  # fmt: skip
    data = make_table(frame, "y", name="made")
    transformer = make_features(data).fit(data.features)
    names, sources = feature_names(transformer), feature_sources(transformer)
    assert len(names) == transformer.transform(data.features).shape[1]
    assert all(name.startswith(source) for name, source in zip(names, sources, strict=True))
    assert {*sources} == {"b", "a", "x", "long", "day"}


def test_hard_rows_have_the_columns_that_weigh_most(mixed, tmp_path):
    records = run(mixed, tmp_path / "mixed.jsonl", small("classification", losses=("log_loss",)))
    rows = records_of(records, "hard_row")
    columns = list(rows[0]["values"])
    assert len(columns) == 6
    assert {*columns} <= {*mixed.features.columns}
    places = {int(number): place for place, number in enumerate(mixed.rows)}
    for row in rows:
        values = mixed.features.iloc[places[row["row"]]]
        assert row["values"]["number"] in ("missing", f"{values['number']:.6g}")
        assert "error" not in row, "labels are right or wrong"


def test_weights_are_in_units_of_the_target(tmp_path):
    """A target ten times as large has ten times the weights and errors, and the same certificate."""
    X, y = made_numbers()
    found = []
    for scale in (1.0, 10.0):
        data = table(X, scale * y, "regression")
        found.append(run(data, tmp_path / f"{scale}.jsonl", small("regression", losses=("squared_error",))))
    for kind in ("model", "other"):
        one, ten = (records_of(records, kind)[0] for records in found)
        for (name, weight), (other_name, other_weight) in zip(
            one["feature_weights"], ten["feature_weights"], strict=True
        ):
            assert name == other_name
            assert other_weight == pytest.approx(10.0 * weight, rel=1e-3)
    errors = [[row["error"] for row in records_of(records, "hard_row")] for records in found]
    np.testing.assert_allclose(errors[1], 10.0 * np.array(errors[0]), rtol=1e-3)
    assert {records_of(found[0], kind)[0]["share"] < 1.0 for kind in ("model", "other")} == {True, False}
