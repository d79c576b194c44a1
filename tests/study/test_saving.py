"""Saved models: what comes back predicts the same, what is foreign stays out, and new tables are read as old."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import skops.io
from lightgbm import LGBMRegressor
from made_tables import mixed_table
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import dump_svmlight_file
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from atklearn import ATkClassifier, ATkClassifierCV, ATkRegressor, Huber
from atklearn.correction import TailCorrectedClassifier, TailCorrectedRegressor
from atklearn.study.last_fit import fit_recommended
from atklearn.study.outcome import Recommendation
from atklearn.study.saving import load_model, save_model
from atklearn.tables.features import make_features
from atklearn.tables.predicting import predict_table
from atklearn.tables.tabular import read_table


def fitted(data, estimator):
    return make_pipeline(make_features(data), estimator).fit(data.features, data.target)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("tables") / "mixed.csv"
    mixed_table().to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def model(table):
    return fitted(read_table(table, "rides"), ATkClassifier(k=0.9))


class Foreign(TransformerMixin, BaseEstimator):
    """A step that is not ours."""

    def fit(self, X, y=None):  # noqa: ARG002
        self.n_ = len(X)
        return self

    def transform(self, X):
        return X


def foreign(X):
    return X


def there_and_back(model, tmp_path):
    save_model(model, tmp_path / "model.skops")
    return load_model(tmp_path / "model.skops")


class TestRoundTrip:
    def test_predicts_the_same(self, model, table, tmp_path):
        features = read_table(table, "rides").features
        again = there_and_back(model, tmp_path)
        assert_array_equal(again.predict(features), model.predict(features))
        assert_array_equal(again.predict_proba(features), model.predict_proba(features))
        assert [path.name for path in tmp_path.iterdir()] == ["model.skops"]

    @pytest.mark.parametrize("labels", [["no", "yes"], [3, 7], [False, True], ["a", "b", "c"]])
    def test_keeps_the_labels(self, tmp_path, labels):
        frame = mixed_table()[["number", "town"]].assign(y=np.array(labels)[np.arange(240) % len(labels)])
        frame.to_csv(tmp_path / "table.csv", index=False)
        data = read_table(tmp_path / "table.csv", "y")
        again = there_and_back(fitted(data, ATkClassifier(k=1.0)), tmp_path)
        assert again.classes_.tolist() == labels
        assert again.classes_.dtype == np.array(labels).dtype
        assert again.predict(data.features).dtype == again.classes_.dtype

    @pytest.mark.parametrize(
        "estimator",
        [
            ATkRegressor(k=np.float64(0.5)),
            ATkRegressor(Huber(0.5)),
            TransformedTargetRegressor(ATkRegressor("absolute_error"), transformer=StandardScaler()),
        ],
    )
    def test_of_a_regression(self, table, tmp_path, estimator):
        data = read_table(table, "whole", task="regression")
        model = fitted(data, estimator)
        again = there_and_back(model, tmp_path)
        assert_array_equal(again.predict(data.features), model.predict(data.features))
        assert list(predict_table(again, table).table) == ["prediction"]

    def test_of_a_chosen_model(self, table, tmp_path):
        data = read_table(table, "rides", drop=["comment"])
        features = make_features(data).fit(data.features)
        search = ATkClassifierCV(ks=2, Cs=2, cv=2).fit(features.transform(data.features), data.target)
        model = Pipeline([("features", features), ("model", search.best_estimator_)])
        again = there_and_back(model, tmp_path)
        assert_array_equal(again.predict(data.features), model.predict(data.features))

    @pytest.mark.parametrize("shift", [-0.75, 0.5])
    def test_carries_its_threshold(self, table, tmp_path, shift):
        data = read_table(table, "rides", drop=["comment"])
        plain, mapped = (
            fit_recommended(data, Recommendation("log_loss", "balanced", 0.8, 1.0, values, ""))
            for values in (None, (1.0, shift))
        )
        decisions = plain.decision_function(data.features)
        expected = np.where(decisions + shift > 0.0, "many", "few")
        assert (expected != plain.predict(data.features)).any()
        again = there_and_back(mapped, tmp_path)
        for model in (mapped, again):
            assert_array_equal(model.predict(data.features), expected)
        predictions = predict_table(again, table).table
        assert_array_equal(predictions["prediction"], expected)
        assert_allclose(predictions["probability_many"], plain.predict_proba(data.features)[:, 1])

    def test_carries_its_affine_map(self, table, tmp_path):
        data = read_table(table, "whole", task="regression", drop=["comment"])
        plain, mapped = (
            fit_recommended(data, Recommendation("squared_error", "plain", 0.5, 10.0, values, ""))
            for values in (None, (1.25, -3.0))
        )
        expected = 1.25 * plain.predict(data.features) - 3.0
        for model in (mapped, there_and_back(mapped, tmp_path)):
            assert_allclose(model.predict(data.features), expected)

    @pytest.mark.parametrize(
        ("base", "task", "asked"),
        [
            (None, "regression", {}),
            (LGBMRegressor(n_estimators=5, verbosity=-1), "regression", {"k": 0.9, "C": 1.0, "experts": None}),
            (LogisticRegression(), "classification", {"k": 0.9, "C": 1.0}),
        ],
        ids=["default", "LightGBM", "classes"],
    )
    def test_of_a_corrected_model_in_a_fresh_process(self, table, tmp_path, base, task, asked):
        kind, target = (TailCorrectedRegressor, "whole") if task == "regression" else (TailCorrectedClassifier, "rides")
        data = read_table(table, target, task=task, drop=["comment"])
        model = fitted(data, kind(base, **asked))
        save_model(model, tmp_path / "model.skops")
        code = (
            "import sys\n"
            "from atklearn.study.saving import load_model\n"
            "from atklearn.tables.predicting import predict_table\n"
            "predict_table(load_model(sys.argv[1]), sys.argv[2]).table.to_csv(sys.argv[3], index=False)"
        )
        paths = [str(tmp_path / "model.skops"), str(table), str(tmp_path / "predictions.csv")]
        subprocess.run([sys.executable, "-c", code, *paths], check=True)
        assert_array_equal(pd.read_csv(paths[2])["prediction"], model.predict(data.features))

    def test_of_a_sparse_table(self, tmp_path):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((60, 5)) * (rng.random((60, 5)) < 0.4)
        path = str(tmp_path / "table.svm")
        dump_svmlight_file(X, X[:, 0] > 0, path)
        model = fitted(read_table(path), ATkClassifier("hinge", k=1.0))
        again = there_and_back(model, tmp_path)
        narrow = str(tmp_path / "narrow.svm")
        dump_svmlight_file(X[:, :3] * [0, 1, 1], np.zeros(60), narrow)
        scores = predict_table(again, narrow).table["score"]
        assert_allclose(scores, model.decision_function(np.hstack([X[:, :3] * [0, 1, 1], np.zeros((60, 2))])))


class TestRefusal:
    @pytest.mark.parametrize("step", [Foreign(), FunctionTransformer(foreign)])
    def test_of_what_is_foreign(self, step, tmp_path):
        X, y = np.arange(40.0)[:, None], np.arange(40) % 2
        model = make_pipeline(step, ATkClassifier(k=1.0)).fit(X, y)
        name = "Foreign" if isinstance(step, Foreign) else "foreign"
        with pytest.raises(ValueError, match=rf"\AThe pipeline holds \S*{name}, .*\.\Z"):
            save_model(model, tmp_path / "model.skops")
        assert not list(tmp_path.iterdir())
        skops.io.dump(model, tmp_path / "model.skops")
        with pytest.raises(ValueError, match=rf"\ARefusing to load .*{name}; .*\.\Z"):
            load_model(tmp_path / "model.skops")

    def test_of_what_is_no_model(self, model, tmp_path):
        save_model(model, tmp_path / "whole.skops")
        path = tmp_path / "model.skops"
        for content in (b"", b"text", (tmp_path / "whole.skops").read_bytes()[:5000]):
            path.write_bytes(content)
            with pytest.raises(ValueError, match=r"\A.*model\.skops is expected to be a model .*; save it again\.\Z"):
                load_model(path)
        skops.io.dump([1, 2], path)
        with pytest.raises(ValueError, match="holds a list"):
            load_model(path)
        with pytest.raises(ValueError, match="check the path"):
            load_model(tmp_path / "absent.skops")
        with pytest.raises(ValueError, match="make the folder first"):
            save_model(model, tmp_path / "absent" / "model.skops")
        with pytest.raises(ValueError, match="A Pipeline is expected"):
            save_model(model[-1], path)

    def test_an_old_model_survives_a_failed_save(self, model, tmp_path, monkeypatch):
        path = tmp_path / "model.skops"
        save_model(model, path)
        before = path.read_bytes()

        def full(self, target):  # noqa: ARG001
            raise OSError("disk full")

        monkeypatch.setattr("pathlib.Path.replace", full)
        with pytest.raises(OSError, match="disk full"):
            save_model(model, path)
        assert path.read_bytes() == before
        assert list(tmp_path.iterdir()) == [path]


class TestPrediction:
    def test_is_that_of_the_pipeline(self, model, table):
        features = read_table(table, "rides").features
        predictions = predict_table(model, table).table
        assert list(predictions) == ["prediction", "probability_few", "probability_many"]
        assert_array_equal(predictions["prediction"], model.predict(features))
        assert_allclose(predictions[["probability_few", "probability_many"]], model.predict_proba(features))

    @pytest.mark.parametrize("suffix", ["csv", "parquet"])
    @pytest.mark.parametrize("fitted_on", ["csv", "parquet"])
    def test_takes_csv_for_parquet(self, tmp_path, fitted_on, suffix):
        frame = mixed_table()
        frame.to_csv(tmp_path / "table.csv", index=False)
        frame.to_parquet(tmp_path / "table.parquet")
        data = read_table(tmp_path / f"table.{fitted_on}", "rides")
        model = fitted(data, ATkClassifier(k=0.9))
        predictions = predict_table(model, tmp_path / f"table.{suffix}").table
        assert_allclose(predictions["probability_many"], model.predict_proba(data.features)[:, 1], rtol=1e-6)

    def test_keeps_the_order_and_ignores_other_columns(self, model, table, tmp_path):
        frame = pd.read_csv(table)
        frame.iloc[::-1, ::-1].drop(columns="rides").assign(other=1).to_csv(tmp_path / "new.csv", index=False)
        reverse = predict_table(model, tmp_path / "new.csv").table
        assert_allclose(
            reverse["probability_few"], predict_table(model, table).table["probability_few"][::-1], rtol=1e-5
        )

    def test_of_few_rows_whose_columns_look_otherwise(self, model, tmp_path):
        rows = "town,comment,written,day,number,whole,flag\n1,2,,,,,\n,,01/02/2020,2020-02-01,1,2,True\n"
        (tmp_path / "new.csv").write_text(rows, encoding="utf-8")
        assert np.isfinite(predict_table(model, tmp_path / "new.csv").table["probability_few"]).all()

    def test_codes_stay_text(self, tmp_path):
        code = np.where(np.arange(60) % 2, "01", "x")
        pd.DataFrame({"code": code, "y": code}).to_csv(tmp_path / "table.csv", index=False)
        model = fitted(read_table(tmp_path / "table.csv", "y"), ATkClassifier(k=1.0))
        (tmp_path / "new.csv").write_text("code\n01\n01\n", encoding="utf-8")
        assert (predict_table(model, tmp_path / "new.csv").table["probability_01"] > 0.9).all()

    def test_of_many_classes_without_probabilities_has_scores(self, table):
        data = read_table(table, "town")
        predictions = predict_table(fitted(data, ATkClassifier("hinge", k=1.0)), table).table
        assert list(predictions) == ["prediction", "score_Bonn", "score_Köln", "score_Ulm"]

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (lambda frame: frame.drop(columns=["town", "day"]), ["'town', 'day'", "add them"]),
            (lambda frame: frame.assign(number="many"), ["'number'", "'many' in row 1", "leave it empty"]),
            (lambda frame: frame.iloc[:0], ["no rows"]),
        ],
    )
    def test_says_what_is_wrong(self, model, table, tmp_path, change, words):
        change(pd.read_csv(table)).to_csv(tmp_path / "new.csv", index=False)
        with pytest.raises(ValueError, match=r"\A[^\n]+\.\Z") as caught:
            predict_table(model, tmp_path / "new.csv")
        for word in words:
            assert word in str(caught.value)

    def test_says_which_date_is_none(self, tmp_path):
        mixed_table().to_parquet(tmp_path / "table.parquet")
        model = fitted(read_table(tmp_path / "table.parquet", "rides"), ATkClassifier(k=0.9))
        mixed_table().assign(day="soon").to_csv(tmp_path / "new.csv", index=False)
        with pytest.raises(ValueError, match=r"'day' is expected to hold dates, and holds 'soon' in row 1"):
            predict_table(model, tmp_path / "new.csv")
        (tmp_path / "new.svm").write_text("1 0:1\n", encoding="utf-8")
        with pytest.raises(ValueError, match="named columns"):
            predict_table(model, tmp_path / "new.svm")
