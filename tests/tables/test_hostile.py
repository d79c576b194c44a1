"""Files of any width, with odd characters, or that expand to gigabytes: read, or refused for the true cause."""

from __future__ import annotations

import csv
import gzip
import json

import numpy as np
import openpyxl
import pandas as pd
import pytest

from atklearn.tables.predicting import predict_table
from atklearn.tables.reading import read_raw
from atklearn.tables.tabular import make_table, read_table

N = 40
PLAIN = {"x": np.random.default_rng(0).standard_normal(N), "y": np.arange(N) % 2}


def refused(path, target="y", **options):
    with pytest.raises(ValueError, match=r"\A[^\n]+\.\Z") as caught:
        read_table(path, target, **options)
    return str(caught.value)


class TestWidth:
    @pytest.mark.parametrize("suffix", ["csv", "tsv"])
    def test_a_header_may_be_of_any_length(self, tmp_path, suffix):
        separator = "\t" if suffix == "tsv" else ","
        names = [f"{'gene' * 30}_{i}" for i in range(12_000)]  # 1.5 million characters
        line = separator.join(["0.5"] * len(names))
        path = tmp_path / f"genes.{suffix}"
        path.write_text("\n".join([separator.join(names), *[line] * 3]), encoding="utf-8")
        before = csv.field_size_limit()
        assert read_raw(path).frame.columns.tolist() == names
        assert csv.field_size_limit() == before

    def test_so_may_a_cell_be_beside_a_code(self, tmp_path):
        frame = pd.DataFrame(PLAIN).assign(code=[f"{i % 7:03d}" for i in range(N)], note="short")
        frame.loc[3, "note"] = "long " * 50_000
        frame.to_csv(tmp_path / "t.csv", index=False)
        data = read_table(tmp_path / "t.csv", "y")
        assert data.features["code"][1] == "001"
        assert len(data.features["note"][3]) == 249_999

    @pytest.mark.parametrize("suffix", ["tsv", "jsonl", "parquet"])
    def test_there_are_not_more_columns_than_a_frame_can_bear(self, tmp_path, monkeypatch, suffix):
        monkeypatch.setattr("atklearn.tables.reading._MOST_COLUMNS", 1)
        path = tmp_path / f"t.{suffix}"
        frame = pd.DataFrame(PLAIN)
        if suffix == "tsv":
            frame.to_csv(path, sep="\t")
        elif suffix == "parquet":
            frame.to_parquet(path)
        else:
            frame.to_json(path, orient="records", lines=True)
        assert f"has {3 if suffix == 'tsv' else 2} columns, and at most 1 are expected; leave" in refused(path)


class TestCharacters:
    @pytest.mark.parametrize("suffix", ["csv", "parquet", "frame"])
    def test_a_nul_at_the_end_of_a_name_is_no_part_of_it(self, tmp_path, suffix):
        frame = pd.DataFrame({"x\0": PLAIN["x"], "y": PLAIN["y"]})
        path = tmp_path / f"t.{suffix}"
        if suffix == "frame":
            data = make_table(frame, "y", name="t")
        else:
            frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
            data = read_table(path, "y")
        assert list(data.features) == ["x"]

    def test_names_that_differ_by_it_are_equal(self, tmp_path):
        pd.DataFrame(PLAIN).assign(**{"x\0": 1}).to_csv(tmp_path / "t.csv", index=False)
        assert "more than one column named 'x'" in refused(tmp_path / "t.csv")

    def test_labels_that_differ_by_it_are_one_class(self):
        labels = np.array(["p", "p\0", "q"] * N, dtype=object)
        data = make_table({"x": np.random.default_rng(0).standard_normal(3 * N)}, labels, name="t")
        assert np.unique(data.target).tolist() == ["p", "q"]
        with pytest.raises(ValueError, match="one class only, 'p'"):
            make_table({"x": PLAIN["x"]}, labels[labels != "q"][:N], name="t")

    def test_half_a_surrogate_pair_is_named_with_its_line(self, tmp_path):
        lines = [json.dumps({"x": float(i % 7), "note": "\U0001f600", "y": i % 2}) for i in range(N)]
        path = tmp_path / "t.jsonl"
        path.write_text("\n".join(lines), encoding="utf-8")
        assert read_table(path, "y", keep=["note"]).features["note"][0] == "\U0001f600"
        path.write_text("\n".join([*lines, '{"note": "\\uD800"}']), encoding="utf-8")
        assert f"line {N + 1} escapes one half of a surrogate pair" in refused(path)


def test_a_target_that_is_too_large_is_the_cause():
    with pytest.raises(ValueError, match=r"0 rows to learn from.*; 40 have a target .* beyond 1e\+150; divide"):
        make_table({"x": PLAIN["x"]}, 1e308 * (0.1 + 0.02 * np.arange(N)), name="t")


class TestMemory:
    """What a file would take is estimated before it is expanded."""

    @pytest.mark.parametrize("name", ["t.csv.gz", "t.jsonl.gz", "t.svm.gz", "t.csv", "t.parquet", "t.xlsx"])
    def test_is_limited_in_one_sentence(self, tmp_path, name, monkeypatch):
        path = tmp_path / name
        rows = 60_000 if name != "t.xlsx" else 1000
        if name.endswith(".gz"):
            line = {"t.csv.gz": b"1,0\n", "t.jsonl.gz": b'{"x": 1}\n', "t.svm.gz": b"1 0:1\n"}[name]
            path.write_bytes(gzip.compress(b"x,y\n" * (name == "t.csv.gz") + rows * line))
        else:
            frame = pd.DataFrame({"x": np.zeros(rows), "y": 0})
            write = {"t.csv": frame.to_csv, "t.parquet": frame.to_parquet, "t.xlsx": frame.to_excel}[name]
            write(path, index=False)
        target = None if name.endswith(".svm.gz") else "y"
        with monkeypatch.context() as patched:
            for parser in ("pandas.read_csv", "pandas.read_excel", "pyarrow.parquet.ParquetFile.read", "json.loads"):
                patched.setattr(parser, None)  # which is not come to
            patched.setattr("atklearn.tables.reading.load_svmlight_file", None)
            message = refused(path, target, max_memory=1e-4)
        assert "would take about" in message
        assert "allow more by max_memory (--max-memory)" in message
        assert "would take" not in refused(path, target, max_memory=1.0), "it has one class, or no such column"

    def test_of_a_cell_far_away_counts_all_between(self, tmp_path):
        book = openpyxl.Workbook()
        book.active["XFD1048576"] = 1
        book.save(tmp_path / "far.xlsx")
        assert "would take about 1,718 GB of memory" in refused(tmp_path / "far.xlsx")
        book = openpyxl.Workbook()
        for row in [["x", "y"], *([value, label] for value, label in zip(PLAIN["x"], PLAIN["y"], strict=True))]:
            book.active.append(row)
        book.create_sheet("far away")["XFD1048576"] = 1  # in a sheet that is not read
        book.save(tmp_path / "near.xlsx")
        assert read_table(tmp_path / "near.xlsx", "y", max_memory=0.1).features.shape == (N, 1)

    def test_is_a_number_above_zero(self, tmp_path):
        pd.DataFrame(PLAIN).to_csv(tmp_path / "t.csv", index=False)
        for wrong in (0, -1, float("nan")):
            assert "a number of GB above 0, got" in refused(tmp_path / "t.csv", max_memory=wrong)

    def test_of_new_rows_is_limited_too(self, tmp_path, fitted):
        pd.DataFrame(PLAIN).to_csv(tmp_path / "t.csv", index=False)
        model = fitted(pd.DataFrame(PLAIN))
        with pytest.raises(ValueError, match="allow more by max_memory"):
            predict_table(model, tmp_path / "t.csv", max_memory=1e-9)
