"""Tables: what is the target, bad files are told in one sentence, features are plain numbers."""

from __future__ import annotations

import gzip
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_tables import mixed_table
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import dump_svmlight_file
from sklearn.pipeline import make_pipeline

from atklearn import ATkClassifier
from atklearn.tables.features import feature_names, make_features
from atklearn.tables.tabular import make_table, read_table


@pytest.fixture
def write(tmp_path):
    """Return a function that writes a table or text to a file."""

    def writer(content, name="table.csv", **options):
        path = tmp_path / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif isinstance(content, str):
            path.write_text(content, encoding="utf-8")
        elif name.endswith(".parquet"):
            content.to_parquet(path, **options)
        else:
            content.to_csv(path, index=False, **options)
        return path

    return writer


def numbers(n=40, **columns):
    """Return a table of numbers with a target of two classes, its columns replaced by those given."""
    rng = np.random.default_rng(0)
    table = {"a": rng.standard_normal(n), "b": rng.integers(0, 9, n), "y": np.arange(n) % 2}
    return pd.DataFrame(table | columns)


class TestNames:
    def test_hostile_names(self, write):
        names = ['quo"te', "new\nline", "<script>", "ünï 😀", "numbers__x", "", "a,b;c"]
        rng = np.random.default_rng(0)
        frame = pd.DataFrame(rng.standard_normal((40, 7)), columns=names).assign(y=np.arange(40) % 2)
        data = read_table(write(frame), "y")
        expected = [name or "Unnamed: 5" for name in names]
        assert list(data.features) == expected
        assert feature_names(make_features(data).fit(data.features)) == expected
        parquet = read_table(write(frame, "table.parquet"), "y")
        assert list(parquet.features) == names

    def test_names_that_are_numbers(self, write):
        frame = pd.DataFrame(np.random.default_rng(0).standard_normal((40, 3)))
        assert list(read_table(write(frame, "table.parquet"), "2").features) == ["0", "1"]


class TestTarget:
    @pytest.mark.parametrize(
        ("values", "task", "kind"),
        [
            (np.arange(40) % 2 == 0, "classification", "b"),
            (np.arange(40) % 20 - 5, "classification", "i"),
            (np.where(np.arange(40) % 2, "yes", "no"), "classification", "U"),
            (np.arange(40), "regression", "f"),
            (np.arange(40) / 8, "regression", "f"),
            (np.arange(40) % 2 / 2, "regression", "f"),
        ],
    )
    def test_tells_the_task(self, write, monkeypatch, values, task, kind):
        monkeypatch.setattr("atklearn.tables.tabular._MIN_CLASS_ROWS", 2)
        data = read_table(write(numbers(y=values)), "y")
        assert (data.task, data.target.dtype.kind) == (task, kind)
        assert_array_equal(data.target, values)

    def test_the_task_may_be_said(self, write):
        halves = read_table(write(numbers(y=np.arange(40) % 2 / 2)), "y", task="classification")
        assert set(halves.target) == {"0.0", "0.5"}
        assert read_table(write(numbers()), "y", task="regression").target.dtype == np.float64

    @pytest.mark.parametrize("suffix", ["csv", "parquet"])
    @pytest.mark.parametrize("values", [np.arange(40) % 2, np.arange(40) % 2 == 0, np.arange(40) % 2 * 1.5])
    def test_rows_without_one_are_left_out(self, write, values, suffix):
        values = pd.Series(values).convert_dtypes()
        values[[0, 7]] = None
        data = read_table(write(numbers(y=values), f"table.{suffix}"), "y")
        assert_array_equal(data.rows, np.delete(np.arange(1, 41), [0, 7]))
        assert_array_equal(data.target, values.dropna().to_numpy(dtype=data.target.dtype))
        assert data.health["rows_left_out"] == [[2, "no target"]]
        assert (data.health["rows_read"], data.health["rows_used"]) == (40, 38)
        assert len(data.features) == 38

    def test_groups_are_not_features(self, write):
        group = pd.array(np.arange(40) % 3, dtype="Int64")
        group[4] = None
        data = read_table(write(numbers(g=group)), "y", group="g", drop=["b"])
        assert list(data.features) == ["a"]
        assert data.groups[:6].tolist() == ["0", "1", "2", "0", "missing", "2"]
        assert ["g", "group", "1 value missing"] in data.health["columns"]

    def test_there_are_not_more_groups_than_a_report_can_show(self, write):
        with pytest.raises(ValueError, match=r"'g' has 60 distinct values.*coarser"):
            read_table(write(numbers(n=60, g=np.arange(60))), "y", group="g")


class TestWhatIsWrong:
    """Every bad file or request is one sentence that names it and says what to do."""

    @pytest.mark.parametrize(
        ("columns", "words"),
        [
            ({"y": 1}, ["'y'", "one class only", "'1'"]),
            ({"y": [0] * 39 + [1]}, ["'1'", "at least 5", "merge"]),
            ({"y": np.repeat(np.arange(120), 5), "n": 600}, ["120 classes", "100", "merge"]),
            ({"n": 12}, ["12 rows", "20", "add rows"]),
            ({"b": np.nan, "a": np.inf}, ["no column left"]),
            ({"y": [None] * 39 + [1]}, ["1 rows", "20"]),
        ],
    )
    def test_in_the_table(self, write, columns, words):
        task = "classification" if "n" in columns else None
        self.check(words, write(numbers(**columns)), "y", task=task)

    @pytest.mark.parametrize(
        ("request_", "words"),
        [
            ({}, ["'a', 'b', 'y'", "--target 'y'"]),
            ({"target": "z"}, ["'z'", "choose one of 'a', 'b', 'y'"]),
            ({"target": "bb"}, ["'bb'", "did you mean 'b'?"]),
            ({"target": "y", "group": "zz"}, ["'zz'", "choose one of"]),
            ({"target": "y", "drop": ["zz"]}, ["'zz'", "choose one of"]),
            ({"target": "y", "group": "y"}, ["'y'", "both target and group"]),
            ({"target": "y", "drop": ["y"]}, ["'y'", "do not --drop"]),
            ({"target": "y", "drop": ["a", "b"]}, ["no column left"]),
            ({"target": "y", "task": "ranking"}, ["'ranking'", "choose one"]),
        ],
    )
    def test_in_the_request(self, write, request_, words):
        self.check(words, write(numbers()), **request_)

    @pytest.mark.parametrize(
        ("name", "content", "words"),
        [
            ("bad.csv", b"", ["empty"]),
            ("bad.csv", b"\n\n", ["cannot be read as CSV"]),
            ("bad.csv", b"a,y\n", ["no rows"]),
            ("bad.csv", b"a,a,y\n1,2,3\n", ["'a'", "rename"]),
            ("bad.csv", b"a,y\n1,2\n1,2,3\n", ["cannot be read as CSV", "line 3"]),
            ("bad.csv", b"a,y\n1,2,3\n1,2,3\n", ["cannot be read as CSV", "header"]),
            ("bad.csv", b'a,y\n"1,2\n', ["cannot be read as CSV", "EOF"]),
            ("bad.csv", b"a,y\n\x81,2\n", ["UTF-8", "--encoding"]),
            ("bad.csv.gz", gzip.compress(b"a,y\n1,2\n" * 999, mtime=0)[:-20], ["cannot be read as CSV"]),
            ("bad.parquet", b"PAR1 and no more", ["cannot be read as Parquet"]),
            ("bad.svm", b"1 2:x\n", ["cannot be read as SVMlight"]),
            ("bad.svm", b"1 2:inf\n", ["finite"]),
            ("bad.svm", b"1 99999999999:1\n", ["cannot be read as SVMlight"]),
            ("bad.svm", b"# nothing\n", ["no rows"]),
            ("bad.xlsx", b"PK", ["cannot be read as Excel"]),
            ("bad.jsonl", b'{"a": 1}\n{"a"\n', ["cannot be read as JSON lines", "line 2"]),
            ("bad.jsonl", b"[1]\n", ["line 1 is not an object"]),
            ("bad.doc", b"PK", [".csv", "convert"]),
        ],
    )
    def test_in_the_file(self, write, name, content, words):
        target = None if name.endswith(".svm") else "y"
        self.check([name, *words], write(content, name), target)

    def test_no_file(self, tmp_path):
        self.check(["absent.csv", "check the path"], tmp_path / "absent.csv", "y")
        self.check(["folder", "name a file"], tmp_path, "y")

    def test_truncated_parquet(self, write):
        path = write(numbers(), "bad.parquet")
        path.write_bytes(path.read_bytes()[:-100])
        self.check(["bad.parquet", "repair"], path, "y")

    def test_parquet_of_lists_and_of_equal_names(self, tmp_path):
        y = pa.array(np.arange(40) % 2)
        pq.write_table(pa.table({"a": pa.array([[1]] * 40), "y": y}), tmp_path / "lists.parquet")
        self.check(["'a'", "list", "--drop 'a'"], tmp_path / "lists.parquet", "y")
        pq.write_table(pa.table([y, y, y], names=["a", "a", "y"]), tmp_path / "equal.parquet")
        self.check(["'a'", "rename"], tmp_path / "equal.parquet", "y")

    def test_svmlight_has_its_own_target(self, write):
        self.check(["give no target"], write(b"1 0:2\n", "bad.svm"), "y")

    def test_regression_needs_numbers_that_differ(self, write):
        values = np.linspace(0.0, 1.0, 40).astype(object)
        values[0] = "text"
        self.check(["'y'", "numbers"], write(numbers(y=values)), "y", task="regression")
        self.check(["'y'", "single value"], write(numbers(y=0.5)), "y")

    @staticmethod
    def check(words, *request_, **options):
        with pytest.raises(ValueError, match=r"\A[^\n]+[.?]\Z") as caught:
            read_table(*request_, **options)
        for word in words:
            assert word in str(caught.value)


@pytest.fixture(scope="module")
def data():
    return make_table(mixed_table(), "rides", name="mixed")


class TestFeatures:
    def test_are_finite_dense_and_named(self, data):
        before = data.features.copy()
        transformer = make_features(data)
        X = transformer.fit_transform(data.features)
        pd.testing.assert_frame_equal(data.features, before)
        assert X.dtype == np.float64
        assert X.flags.c_contiguous
        assert np.isfinite(X).all()
        assert_allclose(X.mean(axis=0), 0.0, atol=1e-5)
        names = feature_names(transformer)
        assert len(names) == X.shape[1]
        assert {"number", "number is missing", "town_Ulm", "town_nan", "written_year", "day_year"} < set(names)
        assert "comment_00" in names

    def test_names_are_the_same_at_every_fit(self, write):
        code = np.where(np.arange(40) % 2, "x", "z")
        data = read_table(write(pd.DataFrame({"a": code, "a_x": code, "y": code})), "y", keep=["a_x"])
        names = [feature_names(make_features(data).fit(data.features)) for _ in range(2)]
        assert names[0] == names[1] == ["a_x", "a_z", "a_x_x", "a_x_z"]

    def test_codes_are_names_not_numbers(self, write):
        data = read_table(write(numbers(zip=np.where(np.arange(40) % 2, "01067", "20095"))), "y")
        assert feature_names(make_features(data).fit(data.features)) == ["a", "b", "zip_01067", "zip_20095"]

    def test_numbers_keep_their_precision(self, write):
        value = 1e9 + np.arange(40) ** 2
        data = read_table(write(numbers(a=value)), "y")
        X = make_features(data).fit_transform(data.features)
        assert_allclose(X[:, 0], (value - value.mean()) / value.std(), rtol=1e-10)

    def test_of_a_row_do_not_depend_on_the_others(self, data):
        transformer = make_features(data).fit(data.features[:120])
        together = transformer.transform(data.features[120:])
        for row in (0, 50, 119):
            alone = transformer.transform(data.features[120 + row : 121 + row])
            assert_allclose(alone[0], together[row], atol=1e-5)

    def test_take_what_was_not_seen(self, data):
        transformer = make_features(data).fit(data.features[20:])
        new = data.features[:8].copy()
        new["town"] = pd.array(["Rome"] * 8, dtype="string")
        new["comment"] = pd.array(["", "unheard of", None, "case"] * 2, dtype="string")
        for name in ("number", "whole", "flag", "day"):
            new[name] = new[name].mask(new.index >= 0)
        assert np.isfinite(transformer.transform(new)).all()
        new["written"] = pd.NaT
        assert np.isfinite(transformer.transform(new)).all()

    def test_of_dates_take_them_as_they_were_written(self, data):
        transformer = make_features(data).fit(data.features)
        as_written = data.features.assign(written=mixed_table()["written"], day=mixed_table()["day"].astype("string"))
        assert_array_equal(transformer.transform(as_written), transformer.transform(data.features))

    def test_of_columns_that_are_empty_in_one_part(self, data):
        empty = data.features.copy()
        empty.loc[:100, ["number", "town", "written", "day"]] = None
        transformer = make_features(data)
        transformer.fit(empty[:100])
        assert np.isfinite(transformer.transform(empty)).all()

    @pytest.mark.parametrize("column", ["number", "flag", "town", "comment", "written", "day"])
    def test_of_one_column(self, column):
        data = make_table(mixed_table()[[column, "rides"]], "rides", name="t")
        X = make_features(data).fit_transform(data.features)
        assert np.isfinite(X).all()
        assert X.dtype == np.float64
        assert X.flags.c_contiguous

    def test_of_a_sparse_table_stay_sparse(self, write):
        X, y = np.eye(4)[np.arange(40) % 3, :2] * 5.0, np.arange(40) % 2
        path = write("", "table.svm")
        dump_svmlight_file(X, y, str(path), zero_based=False)
        data = read_table(path)
        transformer = make_features(data)
        X = transformer.fit_transform(data.features)
        assert X.nnz == data.features.nnz
        assert np.abs(X).max() == 1.0
        assert len(feature_names(transformer)) == X.shape[1] == 3

    def test_feed_the_estimators(self, data):
        model = make_pipeline(make_features(data), ATkClassifier(k=0.9)).fit(data.features, data.target)
        assert model.score(data.features, data.target) > 0.8


def test_the_library_does_without():
    code = "import sys, atklearn; print({'skrub', 'skops', 'atklearn.tables'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"
