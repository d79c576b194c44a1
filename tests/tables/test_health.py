"""The health of a table: what tells nothing is left out and named, what tells too much is named and stays."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from atklearn.tables.tabular import make_table

N = 60
RNG = np.random.default_rng(0)
SHUFFLED = RNG.permutation(1000)[:N]
TEXTS = [" ".join(RNG.choice(["rye", "oats", "wheat", "malt"], 6)) + f" {i}" for i in range(N)]


def frame(**columns):
    rng = np.random.default_rng(1)
    plain = {"x": rng.standard_normal(N), "town": rng.choice(["Ulm", "Bonn"], N), "y": np.arange(N) % 2}
    return pd.DataFrame(columns | plain)


def uses(data):
    assert json.loads(json.dumps(data.health)) == data.health
    return {name: (use, how) for name, use, how in data.health["columns"]}


@pytest.mark.parametrize(
    ("name", "values", "why"),
    [
        ("c", 3, "the same value in every row"),
        ("c", "same", "the same value in every row"),
        ("c", None, "no values"),
        ("c", "", "no values"),
        ("c", np.arange(N), "counts the rows"),
        ("year", 1950 + np.arange(N), "counts the rows"),
        ("c", 10 * np.arange(N), "counts the rows"),
        ("c", [f"u{i}" for i in SHUFFLED], "different in every row, like an identifier"),
        ("customer_id", SHUFFLED, "different in every row, and named like an identifier"),
        ("orderId", SHUFFLED, "different in every row, and named like an identifier"),
        ("Kunden-Nr", SHUFFLED, "different in every row, and named like an identifier"),
        ("Unnamed: 0", np.tile(np.arange(N // 2), 2), "has no name, like the row labels of a saved table"),
        ("", RNG.permutation(N), "has no name, like the row labels of a saved table"),
    ],
)
def test_columns_that_tell_nothing_are_left_out_unless_kept(name, values, why):
    table = frame(**{name: values})
    assert uses(make_table(table, "y", name="t"))[name] == ("left out", why)
    assert name not in make_table(table, "y", name="t").features
    assert name in make_table(table, "y", name="t", keep=[name]).features


@pytest.mark.parametrize(
    ("name", "values", "use"),
    [
        ("c", SHUFFLED, "number"),
        ("id", RNG.standard_normal(N), "number"),
        ("id", SHUFFLED // 2, "number"),
        ("c", [3.0, None] * (N // 2), "number"),
        ("c", np.arange(N) ** 2, "number"),
        ("c", TEXTS, "text"),
        ("c", (pd.Timestamp("2020-01-01") + pd.to_timedelta(SHUFFLED, unit="D")).strftime("%d/%m/%Y"), "date"),
        ("c", pd.date_range("2020-01-01", periods=N), "date"),
        ("c", [f"{i:05d}" for i in SHUFFLED // 100], "category"),
    ],
)
def test_columns_that_may_tell_something_stay(name, values, use):
    assert uses(make_table(frame(**{name: values}), "y", name="t"))[name][0] == use


def test_equal_columns_are_one_whatever_they_are_written_in():
    price = RNG.uniform(1.0, 9.0, N).round(2)
    data = make_table(frame(price=price, shown=[f"${value}" for value in price]), "y", name="t")
    assert uses(data)["shown"] == ("left out", "the same as 'price'")


def test_rows_are_counted_whatever_is_left_out_of_them():
    table = frame(c=np.arange(N)).assign(y=[None, *np.arange(N - 1) % 2])
    data = make_table(table, "y", name="t")
    assert uses(data)["c"] == ("left out", "counts the rows")
    assert data.health["rows_left_out"] == [[1, "no target"]]
    assert (data.health["rows_read"], data.health["rows_used"]) == (N, N - 1)


def test_infinite_numbers_are_missing_and_infinite_targets_leave_the_row_out():
    table = frame().assign(y=np.linspace(0.0, 1.0, N))
    table.loc[3, "x"], table.loc[4, "x"], table.loc[5, "y"], table.loc[6, "y"] = np.inf, None, -np.inf, None
    data = make_table(table, "y", name="t")
    assert uses(data)["x"][1] == "1 infinite value taken as missing, 1 value missing"
    assert data.health["rows_left_out"] == [[1, "no target"], [1, "a target that is infinite or beyond 1e+150"]]
    assert np.isfinite(data.target).all()
    assert data.features["x"].isna().sum() == 2


class TestRoles:
    def test_a_column_may_group_and_split(self):
        table = frame(who=np.repeat(np.arange(N // 4), 4), day=pd.date_range("2020-01-01", periods=N)[::-1])
        table.loc[0, "day"] = None
        data = make_table(table, "y", name="t", group="who", split_by="who", time="day")
        assert list(data.features) == ["x", "town"]
        assert (data.split_by_name, data.time_name) == ("who", "day")
        assert uses(data)["who"] == ("group", "also split by")
        assert uses(data)["day"] == ("time", "")
        assert data.health["rows_left_out"] == [[1, "no time in 'day'"]]
        assert data.split_by.tolist() == data.groups.tolist() == [str(i // 4) for i in range(1, N)]
        assert (np.diff(data.time) == -86400e9).all()
        kept = make_table(table, "y", name="t", split_by="who", time="day", keep=["who", "day"])
        assert list(kept.features) == ["who", "day", "x", "town"]
        assert uses(kept)["who"] == ("split by", "also number")

    @pytest.mark.parametrize(
        "values", [np.arange(N) / 4, [f"{i % 28 + 1:02d}/{i // 28 + 1:02d}/2020" for i in range(N)]]
    )
    def test_time_is_numbers_or_dates_in_any_format(self, values):
        data = make_table(frame(when=values), "y", name="t", time="when")
        assert (np.diff(data.time) > 0.0).all()

    @pytest.mark.parametrize(
        ("request_", "words"),
        [
            ({"keep": ["x"], "drop": ["x"]}, "'x' is to be dropped .* do not --keep it"),
            ({"keep": ["y"]}, "'y' is the target .* do not --keep it"),
            ({"keep": ["z"]}, "no column 'z'"),
            ({"time": "town"}, "numbers or dates, and holds '(Ulm|Bonn)'"),
            ({"split_by": "y"}, "both target and split_by"),
            ({"drop": ["town"], "split_by": "town"}, "do not --drop"),
            ({"split_by": "one"}, "one value only"),
        ],
    )
    def test_what_does_not_go_together_is_told(self, request_, words):
        with pytest.raises(ValueError, match=words):
            make_table(frame(one=1), "y", name="t", **request_)


class TestTarget:
    @pytest.mark.parametrize(
        ("values", "task", "warned"),
        [
            (np.arange(N) % 2, "classification", False),
            (np.arange(N) % 12, "classification", "--task regression"),
            (np.arange(150) % 30, "regression", "--task classification"),
            (np.arange(N), "regression", False),
            ([f"${i},5" for i in range(N)], "regression", False),
            ([f"{i % 3},5" for i in range(N)], "classification", False),
        ],
    )
    def test_what_could_be_meant_otherwise_is_said(self, values, task, warned):
        data = make_table({"x": np.random.default_rng(0).standard_normal(len(values))}, values, name="t")
        assert data.task == task
        assert bool(data.health["warnings"]) == bool(warned)
        if warned:
            assert warned in data.health["warnings"][0]


class TestLeaks:
    n = 1500

    def leaks(self, y, **columns):
        noise = np.random.default_rng(1).standard_normal(self.n)
        data = make_table({"noise": noise, **columns}, y, name="t")
        assert set(columns) <= set(data.features), "a leak is never left out"
        return data.health["warnings"]

    @pytest.mark.parametrize("kind", ["number", "category", "missing number", "missing date", "missing text"])
    def test_of_classes(self, kind):
        rng = np.random.default_rng(0)
        y = rng.random(self.n) < 0.2
        values = {
            "number": np.where(y, 5.0, 1.0) + 0.1 * rng.standard_normal(self.n),
            "category": np.where(y, "refunded", "paid"),
            "missing number": np.where(y, rng.standard_normal(self.n), np.nan),
            "missing date": pd.Series(pd.date_range("2020-01-01", periods=self.n)).where(y),
            "missing text": pd.Series([f"note {i} of it" for i in range(self.n)]).where(y),
        }[kind]
        (warning,) = self.leaks(np.where(y, "gone", "there"), refund=values)
        assert warning.startswith("'refund' alone predicts 'target' almost perfectly (balanced accuracy 100 %)")
        assert "--drop 'refund'" in warning

    def test_of_numbers(self):
        y = np.random.default_rng(0).lognormal(0.0, 2.0, self.n)
        (warning,) = self.leaks(y, net=y / 1.19)
        assert "(R² 1.000)" in warning
        assert self.leaks(np.log(y), net=y)

    def test_good_columns_are_none(self):
        rng = np.random.default_rng(0)
        x = rng.standard_normal(self.n)
        assert self.leaks(x + 0.3 * rng.standard_normal(self.n), x=x) == []
        assert self.leaks(np.where(x + 0.3 * rng.standard_normal(self.n) > 0.0, "a", "b"), x=x) == []

    def test_few_rows_are_no_proof(self):
        y = np.arange(40) % 2
        assert make_table({"x": y + 1.0, "z": (np.arange(40) % 7) / 3}, y, name="t").health["warnings"] == []
