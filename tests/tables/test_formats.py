"""One table is one problem, whatever file or frame holds it."""

from __future__ import annotations

import gzip
import hashlib
import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from made_tables import mixed_table
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import dump_svmlight_file

from atklearn.tables.tabular import make_table, read_table

FILES = [
    "t.csv", "t.tsv", "t.csv.gz", "t.tsv.gz", "t.parquet", "t.pq", "t.xlsx", "t.jsonl", "t.ndjson", "t.jsonl.gz",
    "t.ndjson.gz",
]  # fmt: skip
FRAMES = {"pandas": lambda frame: frame, "objects": lambda frame: frame.astype(object), "polars": pl.from_pandas,
          "dict": lambda frame: frame.to_dict("list")}  # fmt: skip


def table():
    frame = mixed_table().drop(columns=["written"])
    rng = np.random.default_rng(0)
    n = len(frame)
    frame["moment"] = frame["day"] + pd.Timedelta("06:30:00")
    frame["price"] = [f"${value:,.2f}" for value in rng.gamma(2.0, 900.0, n)]
    frame["zip"] = [f"{value:05d}" for value in rng.choice([1067, 20095, 4109], n)]
    frame["count"] = pd.array(np.where(rng.random(n) < 0.1, None, rng.integers(0, 9, n)), dtype="Int64")
    frame["size"] = rng.standard_normal(n)
    frame["maybe"] = pd.array(np.where(rng.random(n) < 0.1, None, rng.random(n) < 0.5), dtype="boolean")
    frame['Straße, "Nr"\n;'] = rng.integers(0, 5, n)
    frame["nothing"] = None
    frame["who"] = [f"u{i}" for i in rng.permutation(n)]
    frame["group"] = rng.integers(0, 3, n)
    return frame


def write(frame, path):
    name = path.name.removesuffix(".gz")
    if name.endswith((".parquet", ".pq")):
        frame.to_parquet(path)
    elif name.endswith(".xlsx"):
        frame.to_excel(path, index=False)
    elif name.endswith("l") or name.endswith(".ndjson"):
        plain = frame.astype(object).where(frame.notna(), None)
        lines = [json.dumps(record, default=str) for record in plain.to_dict("records")]
        content = "\n".join(lines).encode()
        path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    else:
        frame.to_csv(path, index=False, sep="\t" if ".tsv" in name else ",")
    return path


def assert_same(data, expected):
    pd.testing.assert_frame_equal(data.features, expected.features, rtol=1e-14)
    if data.task == "regression":
        assert_allclose(data.target, expected.target, rtol=1e-14)  # a spreadsheet has sixteen digits
    else:
        assert_array_equal(data.target, expected.target)
    assert_array_equal(data.groups, expected.groups)
    assert (data.task, data.health, data.decimal_commas) == (expected.task, expected.health, expected.decimal_commas)
    assert data.notes == expected.notes


@pytest.mark.parametrize("target", ["rides", "size", "flag"])
@pytest.mark.parametrize("name", FILES)
def test_every_format_gives_the_same(tmp_path, name, target):
    expected = make_table(table(), target, name="t", group="group")
    assert expected.features["price"].dtype == np.float64
    assert_same(read_table(write(table(), tmp_path / name), target, group="group"), expected)


@pytest.mark.parametrize("kind", FRAMES)
def test_every_frame_gives_the_same(kind):
    expected = make_table(table(), "rides", name="t", group="group")
    assert_same(make_table(FRAMES[kind](table()), "rides", name="t", group="group"), expected)


def test_a_target_beside_the_table_is_one_of_its_columns():
    frame = table()
    frame["rides"] = frame.pop("rides")
    expected = make_table(frame, "rides", name="t")
    for y in (frame["rides"], pl.Series("rides", frame["rides"]), frame[["rides"]]):
        assert_same(make_table(frame.drop(columns="rides"), y, name="t"), expected)
    data = make_table(np.random.default_rng(0).standard_normal((40, 3)), np.arange(40) % 2, name="t")
    assert (list(data.features), data.target_name) == (["x0", "x1", "x2"], "target")
    assert data.health["columns"][-1] == ["target", "target", ""]


def test_the_fingerprint_is_of_values_and_names_not_of_the_index():
    frame = table()
    prints = {
        make_table(other, "rides", name="t").fingerprint
        for other in (frame, frame.set_index(frame.index[::-1]), frame.iloc[::-1], frame.rename(columns={"size": "s"}))
    }
    assert len(prints) == 3


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        ([[1, 2]], "y", "DataFrame.*got list"),
        (np.zeros(3), "y", r"two dimensions, got an array of shape \(3,\)"),
        ({"a": [1, 2], "b": [1]}, "a", "columns of one length"),
        ({"a": [1, 2]}, [1, 2, 3], "2 values, one per row, and has 3"),
        ({"a": [1, 2]}, np.zeros((2, 2)), "vector"),
        ({"y": [1, 2]}, pd.Series([1, 2], name="y"), "'y' like the target"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "a", "more than one column named 'a'"),
        ({"a": [1, 2]}, "b", "no column 'b'"),
    ],
)
def test_what_is_no_table_is_told_in_a_sentence(X, y, words):
    with pytest.raises(ValueError, match=words) as caught:
        make_table(X, y, name="t")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("encoding", "asked", "note"),
    [("utf-8", None, False), ("utf-8-sig", None, False), ("utf-16", None, False), ("cp1252", None, True),
     ("latin-1", "latin-1", False), ("utf-16-le", "utf-16-le", False), ("utf-8", "utf-8", False)],
)  # fmt: skip
@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("zipped", [False, True])
def test_encodings_are_found_out_or_named(tmp_path, encoding, asked, note, separator, zipped):
    frame = mixed_table()
    path = tmp_path / ("t.csv.gz" if zipped else "t.csv")
    content = frame.to_csv(index=False, sep=separator).encode(encoding)
    path.write_bytes(gzip.compress(content, mtime=0) if zipped else content)
    data = read_table(path, "rides", encoding=asked)
    pd.testing.assert_frame_equal(data.features, make_table(frame, "rides", name="t").features)
    assert ["Windows-1252" in text and "--encoding" in text for text in data.notes] == [True] * note


def test_an_encoding_is_one_of_text(tmp_path):
    path = write(table(), tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="text only"):
        read_table(path, "rides", encoding="utf-8")
    with pytest.raises(ValueError, match="No encoding is called 'utf8000'"):
        read_table(write(table(), tmp_path / "t.csv"), "rides", encoding="utf8000")


def test_the_first_sheet_is_read_and_others_are_noted(tmp_path):
    with pd.ExcelWriter(tmp_path / "t.xlsx") as book:
        table().to_excel(book, sheet_name="Data", index=False)
        pd.DataFrame({"z": [1]}).to_excel(book, sheet_name="More", index=False)
    data = read_table(tmp_path / "t.xlsx", "rides")
    assert data.notes == ["the first of 2 sheets was read, 'Data'"]
    pd.testing.assert_frame_equal(data.features, make_table(table(), "rides", name="t").features)


def test_an_svmlight_file_that_is_not_sparse_is_a_table_too(tmp_path):
    X, y = np.random.default_rng(0).standard_normal((40, 2)), np.arange(40) % 2
    dump_svmlight_file(X, y, str(tmp_path / "t.svm"))
    data = read_table(tmp_path / "t.svm")
    assert_allclose(data.features, X)
    assert (list(data.features), data.name, data.task) == (["0", "1"], "t", "classification")
    assert_array_equal(data.target, y)
    assert_array_equal(data.rows, np.arange(1, 41))
    assert data.fingerprint == hashlib.sha256((tmp_path / "t.svm").read_bytes()).hexdigest(), "of the bytes"


def test_sparse_files_may_be_compressed(tmp_path):
    X, y = np.eye(40)[:, :7], np.arange(40) % 2
    dump_svmlight_file(X, y, str(tmp_path / "t.svm"))
    (tmp_path / "t.svm.gz").write_bytes(gzip.compress((tmp_path / "t.svm").read_bytes(), mtime=0))
    plain, zipped = read_table(tmp_path / "t.svm"), read_table(tmp_path / "t.svm.gz")
    assert_array_equal(zipped.features.toarray(), plain.features.toarray())
    assert zipped.name == plain.name == "t"
    assert zipped.health["columns"] == [["target", "target", ""], ["0 to 6", "number", "numbered features"]]


def test_decimal_commas_are_found_out(tmp_path):
    frame = table()[["size", "count", "town", "rides"]].assign(price=[f"{i},5" for i in range(240)])
    frame.to_csv(tmp_path / "t.csv", index=False, sep=";", decimal=",")
    data = read_table(tmp_path / "t.csv", "rides")
    assert_array_equal(data.features["size"], frame["size"])
    assert data.features["price"].tolist() == [i + 0.5 for i in range(240)]
