"""Columns are read as numbers or dates if all that they hold can be, and in one way."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from atklearn.tables.columns import as_dates, as_numbers, as_text, read_column


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["$1,234.50", "$0.99", "-$5", "($7.25)"], [1234.5, 0.99, -5.0, -7.25]),
        (["1.234,50 €", "12,3 €", "EUR 5"], None),  # a sign and a code are two ways to say it
        (["1.234,50 €", "12,3 €", "-5 €"], [1234.5, 12.3, -5.0]),
        (["1,234", "2,000"], [1234.0, 2000.0]),
        (["1,234", "12,5"], [1.234, 12.5]),
        (["0,123", "1,234"], [0.123, 1.234]),
        (["1.234", "2.5"], [1.234, 2.5]),
        (["1.234.567", "1.000"], [1234567.0, 1000.0]),
        (["1 234,5", "2\u00a0000"], [1234.5, 2000.0]),
        (["1'234.5", "3"], [1234.5, 3.0]),
        (["12.3 %", "4%"], [12.3, 4.0]),
        (["+1", "\u22122", "3e2"], [1.0, -2.0, 300.0]),
        (["1", "-", "n/a", "?", "null", ""], [1.0, np.nan, np.nan, np.nan, np.nan, np.nan]),
        (["True", "FALSE", "true"], [1.0, 0.0, 1.0]),
        (["1", "inf", "-1e200"], [1.0, np.nan, np.nan]),
        (["12.5", "12,5"], None),
        (["$5", "€5"], None),
        (["01234", "99999"], None),
        (["1", "two"], None),
        (["10:30", "11:00"], None),
        (["5-6", "7-8"], None),
        (["192.168.1.1", "10.0.0.1"], None),
        (["-", "?"], None),
    ],
)
def test_numbers_are_read_by_the_whole_column(texts, values):
    column = read_column(pd.Series(texts, name="c"))
    assert (column.values.dtype == np.float64) == (values is not None)
    if values is not None:
        assert_array_equal(column.values, values)


def test_what_the_column_leaves_open_is_decided_by_the_file():
    texts = pd.Series(["1,234", "2,500"])
    assert read_column(texts).values.tolist() == [1234.0, 2500.0]
    assert read_column(texts, comma=True).values.tolist() == [1.234, 2.5]


@pytest.mark.parametrize("kind", ["category", "object", "str"])
def test_only_categories_that_are_called_so_stay_text(kind):
    column = read_column(pd.Series(["1", "2", "1"], dtype=kind))
    assert (column.kind == "text") == (kind == "category")


def test_a_column_that_was_meant_to_be_numbers_or_dates_is_told_of():
    texts = [str(value) for value in range(30)]
    assert "because of 'many'; if it holds numbers" in read_column(pd.Series([*texts, "many"], name="c")).warning
    dates = pd.date_range("1998-05-12", periods=30).strftime("%b %d %Y")
    assert "because of 'soon'; if it holds dates" in read_column(pd.Series([*dates, "soon"], name="c")).warning
    assert "mixes '$' and '€'" in read_column(pd.Series(["$5", "€5"], name="c")).warning
    assert read_column(pd.Series(["Ulm", "5"], name="c")).warning is None


def test_where_numbers_are_expected_each_row_is_read():
    values, wrong = as_numbers(pd.Series(["$5", "7", "007", "-", "true", "many", "1e999"]))
    assert_array_equal(values, [5.0, 7.0, 7.0, np.nan, 1.0, np.nan, np.nan])
    assert wrong.tolist() == [False, False, False, False, False, True, False]


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (pd.Series([1.0, 2.5, None]), ["1", "2.5", pd.NA]),
        (pd.Series([True, None]), ["True", pd.NA]),
        (pd.to_datetime(pd.Series(["2020-01-31"])), ["2020-01-31"]),
        (pd.Series([1, "x", 2.0]), ["1", "x", "2"]),
    ],
)
def test_text_is_what_a_text_file_has(column, text):
    assert as_text(column).tolist() == text


DAYS = pd.to_datetime(["1998-06-12", "1999-05-03", "2001-12-31", "2000-05-24"])


@pytest.mark.parametrize(
    "style",
    [
        "%b %d %Y", "%B %d, %Y", "%d %b %Y", "%d-%b-%Y", "%A, %B %d, %Y", "%d.%m.%Y", "%m/%d/%Y", "%Y/%m/%d",
        "%Y-%m-%d", "%d %B %Y %H:%M",
    ],
)  # fmt: skip
def test_dates_are_read_in_any_format_that_a_column_shares(style):
    text = pd.Series([*DAYS.strftime(style), None, "n/a"])
    column = read_column(text)
    assert column.kind == "date"
    assert column.values.dropna().tolist() == DAYS.tolist()
    assert (column.date_format, column.example) == ((None, None) if style == "%Y-%m-%d" else (style, text[0]))
    if column.date_format is not None:
        again, wrong = as_dates(pd.Series(["2024-02-29", *text[:1], "soon"]), column.date_format)
        assert again.tolist() == [pd.Timestamp("2024-02-29"), DAYS[0], pd.NaT]
        assert wrong.tolist() == [False, False, True]


@pytest.mark.parametrize("texts", [["Jun 12 1998", "soon"], ["12.06.1998", "06/12/1998"], ["May", "June"], ["10:30"]])
def test_what_is_not_all_dates_is_text(texts):
    assert read_column(pd.Series(texts)).kind == "text"


def test_as_labels_dates_are_what_was_written():
    assert read_column(pd.Series(["12/31/2001", None])).as_labels().tolist() == ["12/31/2001", pd.NA]
    assert read_column(pd.Series(["2001-12-31", None])).as_labels().tolist() == ["2001-12-31", pd.NA]
