"""The boosted estimators: scikit-learn's rules, LightGBM's trees, and what they say of the top k."""

from __future__ import annotations

import subprocess
import sys

import lightgbm
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from atklearn import Huber, SquaredError
from atklearn.aggregates import AverageTopK
from atklearn.boosting import ATkBoostingClassifier, ATkBoostingRegressor
from atklearn.boosting.trees import boost_path, boost_problems
from atklearn.measures import MeasureScorer

FEW = {"n_estimators": 20, "min_child_samples": 5}


@parametrize_with_checks(
    [ATkBoostingRegressor(), ATkBoostingClassifier(), ATkBoostingRegressor(k=0.3), ATkBoostingClassifier(k=0.5)]
)
@pytest.mark.filterwarnings("ignore:The samples of")
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
        model = ATkBoostingRegressor(k=1.0, n_estimators=30).fit(X, y)
        assert_allclose(model.predict(X), own.predict(X), rtol=1e-5)

    def test_is_lightgbms_classifier(self, classes):
        X, y = classes
        own = lightgbm.LGBMClassifier(n_estimators=30, verbosity=-1, n_jobs=1).fit(X, y)
        model = ATkBoostingClassifier(k=1.0, n_estimators=30).fit(X, y)
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
    @pytest.mark.parametrize(
        ("asked", "budget"), [({}, 0.02), ({"at_most": 0.3}, 0.3), ({"scoring": "tail_error"}, np.inf)], ids=str
    )
    def test_lowers_the_tail_within_the_budget(self, tailed, asked, budget):
        X, y = tailed
        model = ATkBoostingRegressor(**asked, n_estimators=40).fit(X, y)
        chosen = model.selection_
        assert chosen.at_most == budget
        assert chosen.k == model.k_share_
        assert (chosen.k < 1.0) == (budget > 0.02)
        assert chosen.value == model.n_iter_ <= 40
        assert chosen.measured(chosen.chosen) <= chosen.measured(chosen.average)
        assert chosen.price <= chosen.at_most
        fixed = ATkBoostingRegressor(k=model.k_share_, n_estimators=model.n_iter_).fit(X, y)
        assert_allclose(model.predict(X), fixed.predict(X))
        mine, own = (
            cross_val_score(each, X, y, scoring=MeasureScorer("tail_error"), cv=3).mean()
            for each in (clone(model), lightgbm.LGBMRegressor(n_estimators=40, verbosity=-1, n_jobs=1))
        )
        assert mine > 1.02 * own  # both are negative

    def test_depends_neither_on_the_order_of_rows_nor_on_how_repetition_is_written(self, tailed):
        X, y = tailed[0][:200], tailed[1][:200]
        order = np.random.default_rng(0).permutation(np.repeat(np.arange(200), 2))
        weighted = ATkBoostingRegressor(**FEW).fit(X, y, sample_weight=np.full(200, 2.0)).selection_
        repeated = ATkBoostingRegressor(**FEW).fit(X[order], y[order]).selection_
        assert_allclose(weighted.scores, repeated.scores)

    def test_without_anything_to_validate_with_keeps_the_average(self):
        model = ATkBoostingClassifier(**FEW).fit([[0.0], [1.0], [2.0]], [0, 1, 1])
        assert (model.k_share_, model.selection_.value) == (1.0, 20.0)
        assert "nothing to validate with" in model.selection_.reason

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

        model = ATkBoostingClassifier(scoring=scorer, n_estimators=2, class_weight={0: 50.0})
        for heaviest in (1.0, 3.0):  # a row that lies on the cut between two folds has a part of its weight in each
            model.fit(X, y, sample_weight=np.where(np.arange(y.size) % 2, heaviest, 1.0))
            assert max(weight.max() for weight in seen) == pytest.approx(heaviest)
            seen.clear()

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

        def spying(data, k, recipe, stopping, on_round):
            seen.append(set(stopping.data.mass))
            return boost_problems(data, k, recipe, stopping, on_round)

        monkeypatch.setattr("atklearn.boosting.boosted.boost_problems", spying)
        ATkBoostingClassifier(
            k=0.8, scoring=scoring, n_estimators=3, early_stopping=True, class_weight={0: 50.0}, random_state=0
        ).fit(*classes)
        assert seen == [weights]

    def test_says_what_it_can_stop_by(self, numbers):
        with pytest.raises(ValueError, match="Early stopping expects scoring"):
            ATkBoostingRegressor(early_stopping=True, scoring="neg_max_error").fit(*numbers)


class TestUnits:
    """Targets and weights of any size: LightGBM by itself counts in single precision."""

    @pytest.mark.parametrize("unit", [2.0**-300, 2.0**-100, 2.0**-10, 2.0**20, 2.0**70, 2.0**300])
    @pytest.mark.parametrize("loss", ["squared_error", "absolute_error", Huber(20.0)], ids=str)
    def test_of_targets_are_those_of_predictions(self, numbers, loss, unit):
        X, y = numbers
        here = ATkBoostingRegressor(loss, k=0.2, **FEW).fit(X, y)
        there = clone(here)
        power = 2 if loss == "squared_error" else 1
        if isinstance(loss, Huber):
            there, power = there.set_params(loss=Huber(20.0 * unit)), 2
        there.fit(X, y * unit)
        assert_allclose(there.predict(X) / unit, here.predict(X), rtol=1e-6)
        assert_allclose(there.feature_importances_, here.feature_importances_, rtol=1e-3)
        assert_allclose(there.objective_ / unit**power, here.objective_, rtol=1e-6)
        assert_allclose(there.top_weights_, here.top_weights_, atol=1e-6)

    @pytest.mark.parametrize("scoring", [None, "tail_error", "r2"])
    def test_of_targets_leave_early_stopping_as_it_is(self, tailed, scoring):
        X, y = tailed
        model = ATkBoostingRegressor(k=0.3, scoring=scoring, early_stopping=True, n_estimators=300, random_state=0)
        here, there = (clone(model).fit(X, y * unit) for unit in (1.0, 2.0**100))
        assert here.n_iter_ == there.n_iter_ < 300

    def test_of_huber_are_without_end(self, numbers):
        """Far below the targets nothing of its parabola is seen, far above nothing else."""
        X, y = numbers
        for delta, other in ((1e-300, Huber(1e-7)), (1e300, "squared_error")):
            huber, plain = (ATkBoostingRegressor(each, k=0.2, **FEW).fit(X, y) for each in (Huber(delta), other))
            assert_allclose(huber.predict(X), plain.predict(X), rtol=1e-6)

    @pytest.mark.parametrize("unit", [2.0**-300, 2.0**-30, 2.0**40, 2.0**300])
    @pytest.mark.parametrize("kind", [ATkBoostingRegressor, ATkBoostingClassifier])
    def test_of_weights_change_nothing_for_a_share(self, numbers, classes, kind, unit):
        X, y = numbers if kind is ATkBoostingRegressor else classes
        weight = np.random.default_rng(0).uniform(0.5, 1.0, y.size)
        here, there = (kind(k=0.2, **FEW).fit(X, y, sample_weight=weight * each) for each in (1.0, unit))
        assert_allclose(there.predict(X), here.predict(X), rtol=1e-6)
        assert_allclose(there.objective_, here.objective_, rtol=1e-6)
        assert_allclose(there.k_, unit * here.k_)

    @pytest.mark.parametrize("size", [1e-170, 1e-310, 1e150, 1e300])
    def test_beyond_squares_are_refused(self, numbers, size):
        X, y = numbers
        with pytest.raises(ValueError, match=r"y is expected to hold numbers whose squares float64 can add up"):
            ATkBoostingRegressor(k=0.2).fit(X, y / y.max() * size)
        with pytest.raises(ValueError, match=r"Sample weights are expected to be 1e-100|cannot add up"):
            ATkBoostingRegressor(k=0.2).fit(X, y, sample_weight=np.full(y.size, size))

    @pytest.mark.parametrize("size", [1e-30, 1e30])
    def test_that_a_loss_does_not_have_are_refused(self, numbers, size):
        X, y = numbers
        own = type("Own", (SquaredError,), {})()
        with pytest.raises(ValueError, match=r"With Own.* single precision"):
            ATkBoostingRegressor(own, k=0.2).fit(X, y * size)

    @pytest.mark.parametrize("size", [1e-30, 1e154, 1e300])
    def test_of_features_do_not_matter(self, numbers, size):
        X, y = numbers
        here, there = (ATkBoostingRegressor(k=0.2, **FEW).fit(scaled, y).predict(scaled) for scaled in (X, X * size))
        assert_allclose(here, there)

    @pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
    def test_of_features_that_lightgbm_takes_for_zero_are_refused(self, numbers, kind):
        X, y = numbers
        X = X * np.where(np.arange(X.shape[1]) == 3, 1e-40, 1.0)
        with pytest.raises(ValueError, match="column 3; multiply"):
            ATkBoostingRegressor(k=0.2).fit(kind(X), y)

    @pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
    @pytest.mark.parametrize("entry", [0.0, 1.0, np.nan])
    def test_of_features_that_say_nothing_leave_the_constant(self, entry, kind):
        y = np.arange(50.0)
        model = ATkBoostingRegressor(k=1.0, **FEW).fit(kind(np.full((50, 2), entry)), y)
        assert_allclose(model.predict(kind(np.ones((3, 2)))), y.mean())


class TestColumns:
    rng = np.random.default_rng(1)
    city = rng.choice(["Bern", "Genf", "Zug"], 400)
    size = rng.standard_normal(400)
    y = np.select([city == "Bern", city == "Genf"], [3.0, -2.0], 0.5) + 0.1 * size

    def test_of_categories_are_taken_as_such(self):
        frame = pd.DataFrame({"size": self.size, "city": pd.Categorical(self.city)})
        same = pd.DataFrame({"size": self.size, "city": pd.Categorical(self.city, categories=["Zug", "Genf", "Bern"])})
        model = ATkBoostingRegressor(k=0.5, **FEW).fit(frame, self.y)
        assert np.abs(model.predict(frame) - self.y).max() < 0.8
        assert_allclose(model.predict(same), model.predict(frame))

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
    decisions, labels = boost_path(X[:400], y[:400], X[400:], loss="log_loss", ks=[0.4, 1.0], rounds=[5, 20])
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
