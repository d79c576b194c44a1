"""The boosted estimators: scikit-learn's rules, LightGBM's trees, and what they say of the top k."""

from __future__ import annotations

import pickle
import subprocess
import sys

import lightgbm
import numpy as np
import pandas as pd
import polars
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from atklearn import Huber
from atklearn.aggregates import AverageTopK
from atklearn.boosting import ATkBoostingClassifier, ATkBoostingRegressor
from atklearn.boosting.rounds import boost_path, boost_problems
from atklearn.measures import MeasureScorer

FEW = {"n_estimators": 20, "min_child_samples": 5}


@parametrize_with_checks(
    [
        ATkBoostingRegressor(),
        ATkBoostingClassifier(),
        ATkBoostingRegressor(k=0.3),
        ATkBoostingClassifier(k=0.5),
    ]
)
def test_follows_the_rules_of_scikit_learn(estimator, check, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # otherwise one check is skipped
    check(estimator)


@pytest.fixture(scope="module")
def numbers():
    return load_diabetes(return_X_y=True)


@pytest.fixture(scope="module")
def classes():
    return load_breast_cancer(return_X_y=True)


@pytest.fixture(scope="module")
def tailed():
    """A line with a rare, shifted group that the features tell apart: the average sacrifices it."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((800, 3))
    late = rng.random(800) < 0.1
    return X, X[:, 0] + np.where(late, 4.0, 0.0) + 0.3 * rng.standard_normal(800)


class TestTheAverage:
    def test_is_lightgbms_regressor(self, numbers):
        X, y = numbers
        own = lightgbm.LGBMRegressor(n_estimators=30, verbosity=-1, n_jobs=1).fit(X, y)
        for model in (ATkBoostingRegressor(k=1.0, n_estimators=30), ATkBoostingRegressor(n_estimators=30)):
            assert_allclose(model.fit(X, y).predict(X), own.predict(X), rtol=1e-5)

    def test_is_lightgbms_classifier(self, classes):
        X, y = classes
        own = lightgbm.LGBMClassifier(n_estimators=30, verbosity=-1, n_jobs=1).fit(X, y)
        model = ATkBoostingClassifier(n_estimators=30).fit(X, y)
        assert_allclose(model.predict_proba(X), own.predict_proba(X), atol=1e-5)
        assert_array_equal(model.predict(X), own.predict(X))

    def test_of_absolute_errors_is_no_worse_than_lightgbms(self, numbers):
        X, y = numbers
        own = lightgbm.LGBMRegressor(objective="l1", n_estimators=100, verbosity=-1, n_jobs=1).fit(X, y)
        model = ATkBoostingRegressor("absolute_error", k=1.0).fit(X, y)
        assert np.abs(model.predict(X) - y).mean() <= np.abs(own.predict(X) - y).mean()


class TestTheTop:
    @pytest.mark.parametrize("loss", ["squared_error", "absolute_error", Huber(20.0)])
    def test_goes_down_further_than_with_the_average(self, numbers, loss):
        X, y = numbers
        average, top = (ATkBoostingRegressor(loss, k=k).fit(X, y) for k in (1.0, 0.2))
        losses = average.predict(X) - y
        known = {"squared_error": losses**2, "absolute_error": np.abs(losses)}
        before = AverageTopK(0.2).value(known.get(loss, Huber(20.0)(average.predict(X), y)))
        assert top.objective_ < 0.85 * before

    def test_is_told_as_it_is(self, numbers):
        X, y = numbers
        weight = np.random.default_rng(0).integers(0, 3, y.size)
        model = ATkBoostingRegressor(k=0.1, **FEW).fit(X, y, sample_weight=weight)
        losses = (model.predict(X) - y) ** 2
        top = AverageTopK(0.1)
        assert_allclose(model.loss_threshold_, top.threshold(losses, weight))
        assert_allclose(model.objective_, top.value(losses, weight))
        assert_allclose(model.top_weights_, top.weights(losses, weight), atol=1e-12)
        assert (model.top_weights_[weight == 0] == 0.0).all()
        assert model.k_ == pytest.approx(0.1 * weight.sum())
        assert model.k_share_ == pytest.approx(0.1)

    def test_counts_samples_where_k_is_an_int(self, numbers):
        X, y = numbers
        one, other = (ATkBoostingRegressor(k=k, **FEW).fit(X, y) for k in (y.size // 2, 0.5))
        assert_allclose(one.predict(X), other.predict(X))

    def test_of_every_class_is_its_own(self):
        X, y = load_iris(return_X_y=True)
        names = np.array(["setosa", "versicolor", "virginica"])[y]
        model = ATkBoostingClassifier(k=0.6, **FEW).fit(X, names)
        assert model.score(X, names) > 0.95
        assert model.decision_function(X).shape == model.top_weights_.shape == (150, 3)
        assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
        assert_array_equal(model.classes_[model.predict_proba(X).argmax(axis=1)], model.predict(X))
        assert model.loss_threshold_.shape == model.n_iter_.shape == (3,)

    def test_feels_class_weights(self, classes):
        X, y = classes
        plain, heavy = (
            ATkBoostingClassifier(k=0.8, n_estimators=10, class_weight=weight).fit(X, y) for weight in (None, {0: 50.0})
        )
        assert (heavy.predict(X) == 0).sum() > (plain.predict(X) == 0).sum()

    def test_of_a_hinge_offers_no_probabilities(self, classes):
        X, y = classes
        model = ATkBoostingClassifier("squared_hinge", k=0.5, **FEW).fit(X, y)
        assert model.score(X, y) > 0.95
        assert not hasattr(model, "predict_proba")


class TestChoosing:
    def test_takes_a_smaller_k_where_the_tail_asks_for_it(self, tailed):
        X, y = tailed
        model = ATkBoostingRegressor(scoring="tail_error", n_estimators=40, random_state=0).fit(X, y)
        assert model.k_share_ < 1.0
        assert model.n_iter_ <= 40
        fixed = ATkBoostingRegressor(k=model.k_share_, n_estimators=model.n_iter_, random_state=0).fit(X, y)
        assert_allclose(model.predict(X), fixed.predict(X))

    def test_is_never_much_worse_off_on_the_measure_it_chose_by(self, tailed):
        X, y = tailed
        for model in (
            ATkBoostingRegressor(scoring="tail_error", n_estimators=40, random_state=0),
            ATkBoostingRegressor(n_estimators=40),
        ):
            mine, own = (
                cross_val_score(each, X, y, scoring=MeasureScorer("tail_error"), cv=3).mean()
                for each in (model, lightgbm.LGBMRegressor(n_estimators=40, verbosity=-1, n_jobs=1))
            )
            assert mine > 1.02 * own  # both are negative

    def test_keeps_the_average_for_the_mean(self, tailed):
        assert ATkBoostingRegressor(n_estimators=5).fit(*tailed).k_share_ == 1.0

    def test_takes_any_scorer(self, classes):
        X, y = classes
        model = ATkBoostingClassifier(scoring="neg_log_loss", n_estimators=12, random_state=0).fit(X, y)
        assert 0.0 < model.k_share_ <= 1.0

    def test_scores_by_sample_weights_and_not_by_class_weights(self, classes):
        X, y = classes
        seen = []

        def scorer(model, X, y, sample_weight=None):
            seen.append(sample_weight)
            return model.score(X, y, sample_weight)

        model = ATkBoostingClassifier(scoring=scorer, n_estimators=2, class_weight={0: 50.0}, random_state=0)
        model.fit(X, y)
        assert set(np.concatenate(seen)) == {1.0}
        seen.clear()
        model.fit(X, y, sample_weight=np.where(np.arange(y.size) % 2, 3.0, 1.0))
        assert set(np.concatenate(seen)) == {1.0, 3.0}

    def test_says_which_measures_there_are(self, numbers):
        with pytest.raises(ValueError, match="expected to be one of"):
            ATkBoostingRegressor(scoring="balanced_error").fit(*numbers)


class TestEarlyStopping:
    @pytest.mark.parametrize("scoring", [None, "tail_error", "max_error"])
    def test_ends_before_the_last_round(self, tailed, scoring):
        model = ATkBoostingRegressor(
            k=0.3, scoring=scoring, n_estimators=500, early_stopping=True, n_iter_no_change=5, random_state=0
        ).fit(*tailed)
        longer = clone(model).set_params(n_iter_no_change=20).fit(*tailed)
        assert model.n_iter_ <= longer.n_iter_ < 400  # rounds that were waited for in vain do not count
        if longer.n_iter_ == model.n_iter_:
            assert_allclose(longer.predict(tailed[0]), model.predict(tailed[0]))

    def test_works_for_several_classes(self):
        X, y = load_iris(return_X_y=True)
        model = ATkBoostingClassifier(k=0.5, n_estimators=200, early_stopping=True, random_state=0, min_child_samples=5)
        assert model.fit(X, y).score(X, y) > 0.9

    @pytest.mark.parametrize(("scoring", "weights"), [("error", {1.0}), (None, {1.0, 50.0})])
    def test_looks_at_class_weights_in_the_loss_alone(self, classes, monkeypatch, scoring, weights):
        seen = []

        def spying(*arguments, held_out, **options):
            seen.append(set(held_out[1].mass))
            return boost_problems(*arguments, held_out=held_out, **options)

        monkeypatch.setattr("atklearn.boosting.boosted_base.boost_problems", spying)
        ATkBoostingClassifier(
            k=0.8, scoring=scoring, n_estimators=3, early_stopping=True, class_weight={0: 50.0}, random_state=0
        ).fit(*classes)
        assert seen == [weights]

    def test_says_what_it_can_stop_by(self, numbers):
        with pytest.raises(ValueError, match="Early stopping expects scoring"):
            ATkBoostingRegressor(early_stopping=True, scoring="neg_max_error").fit(*numbers)


class TestColumns:
    rng = np.random.default_rng(1)
    city = rng.choice(["Bern", "Genf", "Zug"], 400)
    size = rng.standard_normal(400)
    y = np.select([city == "Bern", city == "Genf"], [3.0, -2.0], 0.5) + 0.1 * size

    def test_of_categories_are_taken_as_such(self):
        frame = pd.DataFrame({"size": self.size, "city": pd.Categorical(self.city)})
        same = pd.DataFrame({"size": self.size, "city": pd.Categorical(self.city, categories=["Zug", "Genf", "Bern"])})
        named = pd.DataFrame({"size": self.size, "city": self.city})
        other = polars.DataFrame({"size": self.size, "city": self.city}).cast({"city": polars.Categorical})
        model = ATkBoostingRegressor(k=0.5, **FEW).fit(frame, self.y)
        assert np.abs(model.predict(frame) - self.y).max() < 0.8
        assert_allclose(model.predict(same), model.predict(frame))
        assert list(model.feature_names_in_) == ["size", "city"]
        assert_allclose(ATkBoostingRegressor(k=0.5, **FEW).fit(other, self.y).predict(other), model.predict(frame))
        by_name = ATkBoostingRegressor(k=0.5, categorical_features=["city"], **FEW).fit(named, self.y)
        assert_allclose(by_name.predict(named), model.predict(frame))

    def test_may_hold_what_is_missing_or_new(self):
        frame = pd.DataFrame({"size": self.size, "city": pd.Categorical(self.city)})
        model = ATkBoostingRegressor(k=0.5, **FEW).fit(frame, self.y)
        news = pd.DataFrame({"size": [0.0, np.nan], "city": pd.Categorical(["Chur", None])})
        assert np.isfinite(model.predict(news)).all()

    def test_of_text_are_said_to_be_no_numbers(self):
        frame = pd.DataFrame({"city": self.city.astype(object)})
        with pytest.raises(ValueError, match="could not convert"):
            ATkBoostingRegressor(k=0.5).fit(frame, self.y)
        with pytest.raises(ValueError, match="names or places of columns"):
            ATkBoostingRegressor(k=0.5, categorical_features=["town"]).fit(frame, self.y)

    def test_may_be_sparse(self):
        X = sp.random_array((300, 10), density=0.2, random_state=0, format="csr")
        y = X.toarray()[:, 0]
        dense, sparse = (ATkBoostingRegressor(k=0.5, **FEW).fit(each, y) for each in (X.toarray(), X))
        assert_allclose(sparse.predict(X), dense.predict(X.toarray()))


class TestAmongOthers:
    def test_grids_search_over_k(self, numbers):
        grid = {"k": [0.1, 0.3, 1.0]}
        search = GridSearchCV(ATkBoostingRegressor(**FEW), grid, scoring=MeasureScorer("tail_error"), cv=3)
        assert search.fit(*numbers).best_params_["k"] in grid["k"]

    def test_pipelines_hold_it(self, classes):
        X, y = classes
        assert make_pipeline(StandardScaler(), ATkBoostingClassifier(k=0.5, **FEW)).fit(X, y).score(X, y) > 0.95

    def test_pickles_predict_the_same(self, numbers):
        X, y = numbers
        model = ATkBoostingRegressor(k=0.2, **FEW).fit(X, y)
        assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
        assert clone(model).get_params() == model.get_params()

    def test_threads_change_nothing(self, numbers):
        X, y = numbers
        one, two = (ATkBoostingRegressor(k=0.2, n_jobs=n_jobs, **FEW).fit(X, y).predict(X) for n_jobs in (1, 2))
        assert_array_equal(one, two)

    def test_rows_without_weight_are_as_if_they_were_not_there(self, numbers):
        X, y = numbers
        weight = np.ones(y.size)
        weight[::3] = 0.0
        kept = weight > 0.0
        one = ATkBoostingRegressor(k=0.2, **FEW).fit(X, np.where(kept, y, 1e6), sample_weight=weight)
        assert_allclose(one.predict(X), ATkBoostingRegressor(k=0.2, **FEW).fit(X[kept], y[kept]).predict(X))

    def test_a_failed_fit_keeps_the_last_one(self, numbers):
        X, y = numbers
        model = ATkBoostingRegressor(k=0.2, **FEW).fit(X, y)
        before = model.predict(X)
        with pytest.raises(ValueError, match="k as an int"):
            model.set_params(k=10_000).fit(X, y)
        assert_array_equal(model.predict(X), before)

    def test_other_parameters_reach_lightgbm(self, numbers):
        X, y = numbers
        model = ATkBoostingRegressor(k=1.0, lightgbm_params={"max_depth": 1}, **FEW).fit(X, y)
        assert model.trees_[0].booster.trees_to_dataframe()["node_depth"].max() == 2

    def test_tells_how_far_it_is(self, numbers, capsys):
        ATkBoostingRegressor(k=0.2, n_estimators=20, verbose=1).fit(*numbers)
        assert capsys.readouterr().out.splitlines()[-1] == "fit: round 20 of 20"


def test_a_path_is_a_fit_per_k_read_off_at_some_rounds(classes):
    X, y = classes
    decisions, labels = boost_path(
        X[:400], y[:400], X[400:], loss="log_loss", ks=[0.4, 1.0], rounds=[5, 20], classification=True
    )
    assert decisions.shape == (2, 2, 1, 169)
    assert_array_equal(labels, [0, 1])
    for i, k in enumerate([0.4, 1.0]):
        for j, rounds in enumerate([5, 20]):
            model = ATkBoostingClassifier(k=k, n_estimators=rounds).fit(X[:400], y[:400])
            assert_allclose(decisions[i, j, 0], model.decision_function(X[400:]), rtol=1e-9)


def test_without_lightgbm_one_sentence_says_how_to_get_it():
    code = (
        "import sys; sys.modules['lightgbm'] = None\n"
        "from atklearn.boosting import ATkBoostingRegressor\n"
        "ATkBoostingRegressor().fit([[0.0], [1.0]], [0.0, 1.0])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = run.stderr.splitlines()[-1]
    assert last == (
        "ModuleNotFoundError: Boosted trees need LightGBM, which comes with: pip install 'atklearn[boosting]'"
    )


def test_the_core_does_not_import_it():
    code = "import sys, atklearn; print({'lightgbm', 'xgboost', 'atklearn.boosting'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"
