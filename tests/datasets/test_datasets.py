"""The paper's data sets from files and OpenML: what is loaded is checked."""

from __future__ import annotations

import gzip
import os
import re
from collections import Counter
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
from sklearn.utils import Bunch

from atklearn.datasets import (
    DATASETS,
    DatasetUnavailable,
    describe_datasets,
    load_dataset,
    make_monk,
    make_titanic,
)

REAL = os.environ.get("ATKLEARN_DATA") or None
real_data = pytest.mark.skipif(REAL is None, reason="ATKLEARN_DATA does not name a folder with the real data files")


def write(folder: Path, name: str, X, y, *, gz: bool = True) -> Path:
    header = ",".join([*(f"f{j + 1}" for j in range(X.shape[1])), "target"])
    lines = [header, *(",".join(f"{value:.17g}" for value in row) for row in np.column_stack([X, y]))]
    path = folder / (f"{name}.csv.gz" if gz else f"{name}.csv")
    content = ("\n".join(lines) + "\n").encode()
    path.write_bytes(gzip.compress(content, mtime=0) if gz else content)
    return path


def stand_in(name: str, seed: int = 0):
    """Random data with the shape and the class counts of the real data."""
    entry, rng = DATASETS[name], np.random.default_rng(seed)
    X = rng.standard_normal((entry.n_samples, entry.n_features))
    if entry.class_counts is None:
        return X, rng.standard_normal(entry.n_samples)
    return X, rng.permutation(np.repeat([-1.0, 1.0], entry.class_counts))


def bunch(data, target, names=None, categories=None) -> Bunch:
    """What fetch_openml gives without pandas: nominal features as positions, the target as strings."""
    names = names or [f"V{j + 1}" for j in range(data.shape[1])]
    return Bunch(data=data, target=np.asarray(target, dtype=object), feature_names=names, categories=categories or {})


@pytest.fixture
def openml(monkeypatch):
    """Lets a test say what OpenML answers; keeps every other test off the network."""
    asked = []

    def answer(result) -> list[int]:
        def fetch(*, data_id, as_frame, parser):
            assert (as_frame, parser) == (False, "liac-arff")  # pandas is not needed
            asked.append(data_id)
            if isinstance(result, Exception):
                raise result
            return result

        monkeypatch.setattr("atklearn.datasets.registry.fetch_openml", fetch)
        return asked

    return answer


# Files.


@pytest.mark.parametrize("gz", [True, False])
@pytest.mark.parametrize("name", ["phoneme", "housing"])
def test_a_file_is_read_as_written(name, gz, tmp_path, openml):
    asked = openml(AssertionError("a file should do"))
    X, y = stand_in(name)
    write(tmp_path, name, X, y, gz=gz)
    dataset = load_dataset(name, data_dir=str(tmp_path))
    np.testing.assert_array_equal(dataset.X, X)
    np.testing.assert_array_equal(dataset.y, y)
    assert (dataset.title, dataset.feature_names[0]) == (name.title(), "f1")
    assert dataset.source == f"file {name}.csv" + (".gz (sha256 differs from the known copy)" if gz else "")
    assert asked == []


def test_the_compressed_file_comes_first(tmp_path):
    write(tmp_path, "housing", *stand_in("housing", seed=1), gz=False)
    X, y = stand_in("housing", seed=2)
    write(tmp_path, "housing", X, y)
    np.testing.assert_array_equal(load_dataset("housing", data_dir=tmp_path).X, X)


def test_a_file_of_another_shape_is_refused(tmp_path):
    X, y = stand_in("german")
    write(tmp_path, "german", X[1:], y[1:])
    with pytest.raises(ValueError, match=r"german\.csv\.gz .* 1000 samples with 24 features .* found 999 with 24"):
        load_dataset("german", data_dir=tmp_path)
    write(tmp_path, "german", X[:, 1:], y)
    with pytest.raises(ValueError, match="found 1000 with 23"):
        load_dataset("german", data_dir=tmp_path)


def test_a_file_with_other_classes_is_refused(tmp_path):
    X, y = stand_in("german")
    write(tmp_path, "german", X, -y)
    with pytest.raises(ValueError, match=r"700 labels -1 and 300 labels \+1, found 300 of -1, 700 of 1"):
        load_dataset("german", data_dir=tmp_path)
    write(tmp_path, "german", X, (y + 1) / 2)
    with pytest.raises(ValueError, match="found 700 of 0, 300 of 1; recode"):
        load_dataset("german", data_dir=tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "found 0 rows"),
        (b"f1,target\n", "found 0 rows"),
        (b"1,2\n3,4\n", "last 'target'"),
        (b"f1,target\n1,apple\n", "a table of numbers, and is none"),
        (b"f1,target\n1,2\n3\n", "a table of numbers, and is none"),
        (b"f1,f2,target\n1,2\n", "names 3 columns, the rows have 2"),
        (b"f1,target\n\xff,2\n", "text in UTF-8, and byte 10 is not"),
    ],
)
def test_a_malformed_file_is_refused(content, message, tmp_path):
    (tmp_path / "housing.csv").write_bytes(content)
    with pytest.raises(ValueError, match=rf"^housing\.csv .*{message}"):
        load_dataset("housing", data_dir=tmp_path)


@pytest.mark.parametrize("damage", [lambda content: b"not gzip" + content, lambda content: content[:-40]])
def test_a_damaged_archive_is_refused(damage, tmp_path):
    path = write(tmp_path, "housing", *stand_in("housing"))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"housing\.csv\.gz .* gzip archive, and is damaged or none; make or download"):
        load_dataset("housing", data_dir=tmp_path)


def test_a_locked_file_is_said_to_be_locked(tmp_path, monkeypatch):
    path = write(tmp_path, "housing", *stand_in("housing"))
    monkeypatch.setattr(Path, "read_bytes", lambda _: os.open("/", os.O_WRONLY))
    with pytest.raises(ValueError, match=rf"^'{path}' .* cannot be opened \(Is a directory\); check who may read it"):
        load_dataset("housing", data_dir=tmp_path)


def test_values_must_be_finite(tmp_path):
    X, y = stand_in("housing")
    X[3, 3] = np.nan
    write(tmp_path, "housing", X, y)
    with pytest.raises(ValueError, match="finite"):
        load_dataset("housing", data_dir=tmp_path)


def test_what_is_missing_is_said_to_be_missing(tmp_path, openml):
    asked = openml(AssertionError("not to be asked"))
    with pytest.raises(
        DatasetUnavailable, match=r"no folder .* no copy of it on OpenML .* --data DIR.*german\.csv\.gz"
    ):
        load_dataset("german")
    with pytest.raises(DatasetUnavailable, match=re.escape(f"{str(tmp_path)!r} does not hold it")):
        load_dataset("german", data_dir=tmp_path)
    with pytest.raises(DatasetUnavailable, match=r"OpenML 1489 may not be asked .* allow the network"):
        load_dataset("phoneme", data_dir=tmp_path, network=False)
    with pytest.raises(DatasetUnavailable, match="not a folder"):
        load_dataset("phoneme", data_dir=tmp_path / "nowhere")
    for name in ("iris", None, ["monk"]):
        with pytest.raises(ValueError, match=rf"one of \['monk', .*'cpusmall'\], got {re.escape(repr(name))}"):
            load_dataset(name)
    assert issubclass(DatasetUnavailable, LookupError)
    assert asked == []


# OpenML.


@pytest.mark.parametrize(("name", "labels"), [("phoneme", "12"), ("spambase", "01"), ("australian", "01")])
def test_openml_classes_become_signs(name, labels, openml, tmp_path):
    X, y = stand_in(name)
    asked = openml(bunch(X, np.where(y > 0, labels[1], labels[0])))
    dataset = load_dataset(name, data_dir=tmp_path)
    np.testing.assert_array_equal(dataset.X, X)
    np.testing.assert_array_equal(dataset.y, y)
    assert asked == [DATASETS[name].openml.data_id]
    assert dataset.source.startswith(f"OpenML {asked[0]}")
    assert dataset.feature_names[0] == "V1"


@pytest.mark.parametrize("negative", ["1", "2"])
def test_the_first_row_of_madelon_tells_its_classes_apart(negative, openml):
    X, y = stand_in("madelon")
    y *= -y[0]  # the first is negative
    X[0, :5] = (485, 477, 537, 479, 452)
    openml(bunch(X, np.where(y < 0, negative, {"1": "2", "2": "1"}[negative])))
    np.testing.assert_array_equal(load_dataset("madelon").y, y)
    openml(bunch(X[::-1], np.where(y < 0, "1", "2")))
    with pytest.raises(ValueError, match="OpenML 1485 is no longer the copy"):
        load_dataset("madelon")


def test_splice_loses_its_ambiguous_rows_and_its_identifier(openml):
    rng = np.random.default_rng(0)
    letters = rng.choice(list("AGCT"), size=(3190, 60))
    classes = np.repeat(["N", "EI", "IE"], [1655, 767, 768])
    for row in [*range(7), *range(3182, 3190)]:  # 7 of N, 8 of the others
        letters[row, rng.integers(60)] = "DNRS"[row % 4]
    categories = list("CAGTNRSD")
    positions = np.vectorize(categories.index)(letters).astype(float)
    names = ["Instance_name", *(f"attribute_{j}" for j in range(1, 61))]
    data = np.column_stack([np.arange(3190.0), positions])
    listed = {"Instance_name": [f"HUM-{i}" for i in range(3190)], **dict.fromkeys(names[1:], categories)}
    openml(bunch(data, classes, names, listed))
    splice = load_dataset("splice")
    kept = letters[7:3182]
    for letter, code in zip("AGCT", (1, 2, 3, 4), strict=True):
        assert (splice.X[kept == letter] == code).all()
    np.testing.assert_array_equal(splice.y > 0, classes[7:3182] == "N")
    assert splice.feature_names == names[1:]


def test_nominal_features_become_the_numbers_they_mean(openml):
    X, y = stand_in("abalone")
    sex = np.random.default_rng(1).integers(3, size=len(X))
    X[:, 0] = sex
    openml(bunch(X, y.astype(str), ["Sex", *"bcdefgh"], {"Sex": ["F", "I", "M"]}))
    abalone = load_dataset("abalone")
    np.testing.assert_array_equal(abalone.X[:, 0], np.array([2.0, 3.0, 1.0])[sex])
    np.testing.assert_array_equal(abalone.y, y)

    X, y = stand_in("housing")
    X[:, 8] = np.arange(506) % 3
    openml(bunch(X, y, categories={"V9": ["24", "1", "5"]}))
    np.testing.assert_array_equal(load_dataset("housing").X[:3, 8], [24.0, 1.0, 5.0])


def test_missing_values_are_refused(openml):
    X, y = stand_in("housing")
    X[0, 8] = np.nan
    X[1:, 8] = 0
    openml(bunch(X, y, categories={"V9": ["24"]}))
    with pytest.raises(ValueError, match="OpenML 531 is expected to hold finite numbers"):
        load_dataset("housing")


def test_a_changed_copy_on_openml_is_refused(openml):
    X, y = stand_in("phoneme")
    openml(bunch(X[1:], np.where(y > 0, "2", "1")[1:]))
    with pytest.raises(ValueError, match="OpenML 1489 is expected to hold the 5404 samples"):
        load_dataset("phoneme")
    openml(bunch(X, np.where(y > 0, "oral", "nasal")))
    with pytest.raises(ValueError, match="found 5404 of -1"):
        load_dataset("phoneme")


@pytest.mark.parametrize("error", [URLError(OSError(-2, "no route")), TimeoutError("too slow"), ValueError("HTTP 412")])
def test_a_network_failure_is_an_unavailable_dataset(error, openml):
    openml(error)
    with pytest.raises(
        DatasetUnavailable, match=r"1489 could not be fetched \((no route|too slow|HTTP 412)\)"
    ) as caught:
        load_dataset("phoneme")
    assert caught.value.__cause__ is error


# The list of all.


def test_the_registry_says_what_the_paper_says():
    ratios = {entry.title: entry.imbalance_ratio for entry in DATASETS.values() if entry.task == "classification"}
    assert {title: f"{ratio:.2f}" for title, ratio in ratios.items()} == {
        "Monk": "1.12",
        "Australian": "1.25",
        "Madelon": "1.00",
        "Splice": "1.08",
        "Spambase": "1.54",
        "German": "2.33",
        "Titanic": "2.10",
        "Phoneme": "2.41",
    }
    assert [entry.title for entry in DATASETS.values() if entry.task == "regression"] == [
        "Sinc",
        "Housing",
        "Abalone",
        "Cpusmall",
    ]
    for entry in DATASETS.values():
        assert entry.class_counts is None or sum(entry.class_counts) == entry.n_samples
        assert (entry.generator is None) == (entry.sha256 is not None)


def test_describing_tells_where_the_data_would_come_from(tmp_path, openml):
    asked = openml(AssertionError("describing must not use the network"))
    (tmp_path / "phoneme.csv").touch()
    where = {summary.name: summary.source for summary in describe_datasets(tmp_path)}
    assert list(where) == list(DATASETS)
    assert where["monk"] == where["sinc"] == "generated"
    assert where["phoneme"] == "file phoneme.csv"
    assert where["abalone"] == "OpenML 183 (needs the network)"
    assert where["german"].startswith("not available: needs german.csv.gz")
    assert {summary.name for summary in describe_datasets() if summary.source.startswith("not")} == {"german"}
    nowhere = {summary.name: summary.source for summary in describe_datasets(tmp_path / "nowhere")}
    assert nowhere["titanic"] == "generated"
    assert "there is no folder" in nowhere["abalone"]
    assert asked == []


# The real files, where there are some.


@real_data
@pytest.mark.parametrize("name", [name for name, entry in DATASETS.items() if entry.generator is None])
def test_the_real_files_are_the_known_ones(name):
    if not Path(REAL, f"{name}.csv.gz").exists():
        pytest.skip(f"ATKLEARN_DATA has no {name}.csv.gz")
    dataset = load_dataset(name, data_dir=REAL, network=False)
    assert dataset.source == f"file {name}.csv.gz (sha256 verified)"


@real_data
@pytest.mark.parametrize(("name", "make"), [("monk", make_monk), ("titanic", make_titanic)])
def test_the_generated_sets_are_those_of_the_files(name, make):
    path = Path(REAL, f"{name}.csv.gz")
    if not path.exists():
        pytest.skip(f"ATKLEARN_DATA has no {path.name}")
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    X, y = make()
    for theirs, ours in zip(table.T[:-1], X.T, strict=True):
        # The file may standardise a column, to three digits: its values are as far apart as ours, on another scale.
        values, ranks = np.unique(theirs, return_inverse=True)
        np.testing.assert_allclose(np.diff(values, 2), 0, atol=0.01)
        theirs[:] = np.unique(ours)[ranks]
    assert Counter(map(tuple, table.tolist())) == Counter(map(tuple, np.column_stack([X, y]).tolist()))
