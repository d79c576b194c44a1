"""Predictions on new files: rows keep their names, columns their kinds, and the truth is used where it is known."""

from __future__ import annotations

from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pandas as pd
import pytest
import skops.io
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import dump_svmlight_file
from sklearn.pipeline import Pipeline

from atklearn.measures import balanced_error
from atklearn.study.last_fit import fit_recommended
from atklearn.study.outcome import Recommendation
from atklearn.study.saving import load_model, save_model
from atklearn.tables.predicting import predict_table
from atklearn.tables.tabular import read_table


def frame(n=80):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(n).round(3)
    price = (5.0 + 2.0 * x + rng.standard_normal(n)).round(2)
    y = np.where(x + rng.standard_normal(n) > 0.0, "yes", "no")
    return pd.DataFrame({"x": x, "price": [f"{value}".replace(".", ",") for value in price], "y": y})


def csv(table, tmp_path):
    table.to_csv(tmp_path / "new.csv", index=False)
    return tmp_path / "new.csv"


class TestScores:
    def test_are_those_of_the_rows_with_a_target(self, tmp_path, fitted):
        model = fitted(frame(), tmp_path=tmp_path)
        new = frame()
        new.loc[:9, "y"] = None
        predicted = predict_table(model, csv(new, tmp_path))
        known = predicted.table["prediction"][10:]
        assert predicted.n_scored == 70
        assert predicted.scores["balanced_error"] == pytest.approx(balanced_error(new["y"][10:], known))
        assert {"error", "roc_auc", "log_loss"} < set(predicted.scores)
        words = predicted.scores_in_words()
        assert words.startswith("On the 70 rows with a value of 'y': error ")
        assert f"balanced error {100 * predicted.scores['balanced_error']:.1f} %" in words

    def test_need_the_target(self, tmp_path, fitted):
        model = fitted(frame())
        assert predict_table(model, csv(frame().drop(columns="y"), tmp_path)).scores == {}
        assert predict_table(model, csv(frame().assign(y=None), tmp_path)).scores == {}
        other = csv(frame().rename(columns={"y": "truth"}), tmp_path)
        assert predict_table(model, other).scores == {}
        named = predict_table(model, other, target="truth")
        assert (named.target, named.n_scored) == ("truth", 80)
        with pytest.raises(ValueError, match="are asked for, 'z'; add them"):
            predict_table(model, other, target="z")

    @pytest.mark.parametrize("labels", [[3, 7], [False, True], ["01", "02"], ["0.5", "1.0"]])
    @pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
    def test_know_the_labels_whatever_their_type(self, tmp_path, labels, suffix, fitted):
        table = frame()
        table["y"] = np.array(labels)[(table["y"] == "yes").astype(int)]
        model = fitted(table, task="classification")
        path = tmp_path / f"new.{suffix}"
        if suffix == "csv":
            table.to_csv(path, index=False)
        elif suffix == "parquet":
            table.to_parquet(path)
        else:
            table.to_json(path, orient="records", lines=True)
        predicted = predict_table(model, path)
        truth = np.array(model.classes_)[(frame()["y"] == "yes").astype(int)]
        assert predicted.scores["error"] == pytest.approx((predicted.table["prediction"] != truth).mean())
        assert predicted.scores["error"] < 0.4

    def test_of_numbers(self, tmp_path, fitted):
        model = fitted(frame().drop(columns="y"), "price", loss="squared_error", tmp_path=tmp_path)
        predicted = predict_table(model, csv(frame(), tmp_path))
        truth = frame()["price"].str.replace(",", ".").astype(float)
        assert predicted.scores["mae"] == pytest.approx((predicted.table["prediction"] - truth).abs().mean())
        with pytest.raises(ValueError, match=r"'price' is expected to hold numbers, and holds 'much' in row 1"):
            predict_table(model, csv(frame().assign(price="much"), tmp_path))

    @pytest.mark.parametrize("share", [1.0, 0.3])
    def test_of_an_svmlight_file(self, tmp_path, share):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((60, 4)) * (rng.uniform(size=(60, 4)) < share)
        X[:, 0] += np.where(X[:, 0] > 0.0, 1.0, 0.0)
        dump_svmlight_file(X, (X[:, 0] > 0).astype(int), str(tmp_path / "t.svm"))
        dump_svmlight_file(X, np.zeros(60), str(tmp_path / "new.svm"))
        model = fit_recommended(
            read_table(tmp_path / "t.svm"), Recommendation("log_loss", "plain", 1.0, 100.0, None, "")
        )
        assert predict_table(model, tmp_path / "t.svm").scores["error"] < 0.2
        assert predict_table(model, tmp_path / "new.svm").scores == {}, "one label for all stands for none"
        dump_svmlight_file(X[:, :2], np.zeros(60), str(tmp_path / "zero.svm"))
        padded = np.column_stack([X[:, :2], np.zeros((60, 2))])
        dump_svmlight_file(padded, np.zeros(60), str(tmp_path / "padded.svm"))
        assert predict_table(model, tmp_path / "zero.svm").table.equals(
            predict_table(model, tmp_path / "padded.svm").table
        )
        with pytest.raises(ValueError, match="no named columns"):
            predict_table(model, tmp_path / "t.svm", ids=["a"])

    def test_of_a_file_that_does_not_fit(self, tmp_path, fitted):
        X = np.random.default_rng(0).standard_normal((60, 2))
        dump_svmlight_file(X, X[:, 0] > 0.0, str(tmp_path / "t.svm"))
        with pytest.raises(ValueError, match="fitted on named columns"):
            predict_table(fitted(frame()), tmp_path / "t.svm")


class TestColumns:
    def test_to_carry_through_stand_in_front_as_they_are(self, tmp_path, fitted):
        new = frame().assign(nr=[f"{i:04d}" for i in range(80)], note="a, b")
        table = predict_table(fitted(frame()), csv(new, tmp_path), ids=["note", "nr"]).table
        assert list(table)[:3] == ["note", "nr", "prediction"]
        assert table["nr"].tolist() == new["nr"].tolist()
        with pytest.raises(ValueError, match="'prediction' has the name of one that is predicted"):
            predict_table(fitted(frame()), csv(new.rename(columns={"nr": "prediction"}), tmp_path), ids=["prediction"])

    def test_keep_the_way_they_were_read(self, tmp_path, fitted):
        model = fitted(frame(), tmp_path=tmp_path)
        expected = predict_table(model, csv(frame(), tmp_path)).table["probability_yes"]
        typed = frame()
        typed["price"] = typed["price"].str.replace(",", ".").astype(float)
        assert_allclose(predict_table(model, csv(typed, tmp_path)).table["probability_yes"], expected)
        typed.to_parquet(tmp_path / "new.parquet")
        assert_allclose(predict_table(model, tmp_path / "new.parquet").table["probability_yes"], expected)

    def test_with_a_decimal_comma_keep_it_where_new_rows_leave_it_open(self, tmp_path, fitted):
        model = fitted(frame(), tmp_path=tmp_path)
        one, other = (
            predict_table(model, csv(pd.DataFrame({"x": [0.5], "price": [price]}), tmp_path)).table["probability_yes"][
                0
            ]
            for price in ("4,125", 4.125)
        )
        assert one == pytest.approx(other)

    def test_may_hold_infinite_numbers(self, tmp_path, fitted):
        model = fitted(frame())
        infinite, missing = (
            predict_table(model, csv(frame().assign(x=value), tmp_path)).table["probability_yes"]
            for value in (np.inf, None)
        )
        assert_array_equal(infinite, missing)

    def test_in_other_formats_of_dates_are_read_as_they_were(self, tmp_path, fitted):
        days = pd.date_range("2001-01-01", periods=80, freq="9D")
        model = fitted(frame().assign(day=days.strftime("%d/%m/%Y")), tmp_path=tmp_path)
        new = frame()[:1].assign(day="02/03/2001")  # which alone would be the third of February
        written = predict_table(model, csv(new, tmp_path)).table["probability_yes"]
        typed = predict_table(model, new.assign(day=pd.Timestamp("2001-03-02"))).table["probability_yes"]
        assert_array_equal(written, typed)
        with pytest.raises(ValueError, match=r"'day' is expected to hold dates such as %d/%m/%Y, and holds 'soon'"):
            predict_table(model, csv(new.assign(day="soon"), tmp_path))

    def test_that_are_not_used_and_categories_that_are_new_are_named(self, tmp_path, fitted):
        town = np.where(np.arange(80) % 3, "Ulm", "Bonn")
        model = fitted(frame().assign(town=town), tmp_path=tmp_path)
        assert predict_table(model, csv(frame().assign(town=town), tmp_path)).notes == []
        new = frame().assign(town=np.where(np.arange(80) % 2, "Ulm", "Rome"), nr=1, other=2)
        assert predict_table(model, csv(new, tmp_path), ids=["nr"]).notes == [
            "Not used by the model: 'other'.",
            "'town' holds what the model has not seen, in 40 of 80 rows: 'Rome'.",
        ]

    def test_that_are_called_otherwise_are_asked_about(self, tmp_path, fitted):
        new = csv(frame().rename(columns={"price": "Price"}), tmp_path)
        with pytest.raises(ValueError, match=r"fitted on, 'price'; did you mean 'Price', which is there\?"):
            predict_table(fitted(frame()), new)


class TestThreshold:
    @pytest.mark.parametrize("loss", ["log_loss", "hinge"])
    def test_is_where_the_second_class_begins(self, tmp_path, loss, fitted):
        model = fitted(frame(), loss=loss)
        path = csv(frame(), tmp_path)
        column = "probability_yes" if loss == "log_loss" else "score"
        for threshold in (0.3, 0.7):
            predicted = predict_table(model, path, threshold=threshold)
            expected = np.where(predicted.table[column] >= threshold, "yes", "no")
            assert_array_equal(predicted.table["prediction"], expected)
            assert predicted.scores["error"] == pytest.approx((expected != frame()["y"]).mean())

    def test_is_for_two_classes(self, tmp_path, fitted):
        path = csv(frame(), tmp_path)
        with pytest.raises(ValueError, match=r"from 0 to 1, got 1\.5"):
            predict_table(fitted(frame()), path, threshold=1.5)
        with pytest.raises(ValueError, match="this one predicts numbers"):
            predict_table(fitted(frame(), "x", loss="squared_error"), path, threshold=0.5)
        with pytest.raises(ValueError, match="this one has 4 classes"):
            predict_table(fitted(frame().assign(y=np.arange(80) % 4)), path, threshold=0.5)


def test_a_model_is_in_a_file_that_says_so(tmp_path, fitted):
    model = fitted(frame())
    for act in (lambda path: save_model(model, path), load_model):
        with pytest.raises(ValueError, match=r"ends in \.skops, got '.*model\.pkl'"):
            act(tmp_path / "model.pkl")
    assert list(tmp_path.iterdir()) == []


def test_a_pipeline_without_steps_is_no_model(tmp_path):
    skops.io.dump(Pipeline([]), tmp_path / "model.skops")
    with pytest.raises(ValueError, match=r"\AThe model is a pipeline without steps, .*\.\Z"):
        predict_table(load_model(tmp_path / "model.skops"), frame())


def test_a_model_is_not_expanded_beyond_the_memory_allowed(tmp_path, fitted):
    save_model(fitted(frame()), tmp_path / "model.skops")
    with ZipFile(tmp_path / "model.skops", "a", ZIP_DEFLATED) as file:
        file.writestr("bomb", bytes(10_000_000))
    assert (tmp_path / "model.skops").stat().st_size < 100_000
    with pytest.raises(ValueError, match=r"would take about 0 GB of memory.* allow more by max_memory"):
        load_model(tmp_path / "model.skops", max_memory=0.01)
    load_model(tmp_path / "model.skops", max_memory=1.0)
