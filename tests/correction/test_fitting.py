"""How corrections are fitted: what models, splitters and weights see, what frames may hold, and what is refused."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import sklearn
from correction_problems import Affine, biased_group, noisy_classes
from numpy.testing import assert_allclose, assert_array_equal
from scikit_learn_checks import parametrized_with_checks
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV, GroupKFold, TimeSeriesSplit, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from atklearn.correction import TailCorrectedClassifier, TailCorrectedRegressor

FIXED = {"k": 0.5, "C": 1.0, "experts": None}  # always applied


@pytest.fixture(scope="module")
def group():
    return biased_group(300)


@pytest.fixture(scope="module")
def classes():
    return noisy_classes(300)


class Spy(RegressorMixin, BaseEstimator):
    """Predicts the mean and keeps what it is fitted to."""

    seen: list = []  # noqa: RUF012 - clones share it

    def fit(self, X, y, sample_weight=None):
        self.seen.append((np.asarray(X)[:, 0], sample_weight))
        self.mean_ = np.average(y, weights=sample_weight)
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


class Unfittable(Affine):
    """Is fitted already, and cannot be fitted."""

    def __sklearn_is_fitted__(self):
        return True

    def fit(self, X=None, y=None):  # noqa: ARG002
        raise AssertionError


@pytest.fixture
def seen(monkeypatch):
    monkeypatch.setattr(Spy, "seen", [])
    return Spy.seen


@parametrized_with_checks(
    [
        TailCorrectedRegressor(Ridge(), experts=None),
        TailCorrectedClassifier(LogisticRegression()),
        # what they take for None, but for the number of rounds
        TailCorrectedRegressor(HistGradientBoostingRegressor(max_iter=10, random_state=0)),
        TailCorrectedClassifier(HistGradientBoostingClassifier(max_iter=10, random_state=0)),
    ]
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_scikit_learn_checks(estimator, check):
    boosts = isinstance(estimator.estimator, (HistGradientBoostingRegressor, HistGradientBoostingClassifier))
    if boosts and check.func.__name__.startswith("check_sample_weight_equivalence"):
        pytest.xfail("gradient boosting and extra trees draw other trees for rows that are repeated")
    check(estimator)


@pytest.mark.parametrize("estimator", [TailCorrectedRegressor(Ridge()), TailCorrectedClassifier(GaussianNB())])
def test_clones_and_pickles_are_the_same(group, classes, estimator):
    X, y = group if isinstance(estimator, TailCorrectedRegressor) else classes
    model = clone(estimator).fit(X, y)
    for same in (clone(model).fit(X, y), pickle.loads(pickle.dumps(model))):
        assert_array_equal(same.predict(X), model.predict(X))
        assert same.selection_.reason == model.selection_.reason


def test_tails_can_be_searched_over(group):
    search = GridSearchCV(
        TailCorrectedRegressor(Ridge(), experts=None), {"tail": [0.05, 0.2], "estimator__alpha": [1.0]}, cv=2
    )
    assert search.fit(*group).best_params_["tail"] in (0.05, 0.2)


class TestModels:
    def test_that_are_fitted_already_are_never_fitted_again(self, group):
        X, y = group
        for model, cv in ((Unfittable(), "prefit"), (FrozenEstimator(Unfittable()), 5)):
            corrected = TailCorrectedRegressor(model, cv=cv, **FIXED).fit(X, y)
            assert np.isfinite(corrected.predict(X)).all()

    def test_that_are_to_be_have_to_be_there(self, group):
        with pytest.raises(ValueError, match="expects the fitted model as estimator, got None; pass it"):
            TailCorrectedRegressor(cv="prefit").fit(*group)
        with pytest.raises(NotFittedError):
            TailCorrectedRegressor(Ridge(), cv="prefit").fit(*group)

    def test_see_no_row_that_they_predict(self, seen):
        X, y = np.arange(60.0)[:, None], np.arange(60.0)
        splits = [(np.arange(30), np.arange(30, 60)), (np.arange(30, 60), np.arange(30))]
        TailCorrectedRegressor(Spy(), cv=splits, **FIXED).fit(X, y)
        assert_array_equal([rows for rows, _ in seen[:2]], [X[train, 0] for train, _ in splits])
        assert_array_equal(seen[-1][0], X[:, 0])

    @pytest.mark.parametrize("base", [Spy(), make_pipeline(StandardScaler(with_std=False, with_mean=False), Spy())])
    def test_get_their_part_of_the_weights(self, seen, base):
        X = np.arange(60.0)[:, None]
        TailCorrectedRegressor(base, experts=[Spy()], k=0.5, C=1.0, cv=3).fit(X, X[:, 0], X[:, 0] + 1.0)
        assert len(seen) == 14  # two models: three folds, their three pairs, all rows
        for rows, weight in seen:
            assert_array_equal(weight, rows + 1.0)

    def test_without_probabilities_are_told_what_to_do(self, classes):
        with pytest.raises(
            ValueError, match=r"with predict_proba, got LinearSVC; put it into .*CalibratedClassifierCV"
        ):
            TailCorrectedClassifier(LinearSVC()).fit(*classes)

    def test_that_know_more_classes_need_rows_of_all(self, classes):
        X, y = classes
        base = GaussianNB().fit(X, y + (X[:, 1] > 1.0))
        with pytest.raises(ValueError, match=r"got none of \[2\]; correct it on rows of all classes"):
            TailCorrectedClassifier(base, cv="prefit").fit(X, y)


class TestSplits:
    def test_of_groups_keep_them_together(self, group):
        X, y = group
        groups = np.arange(len(y)) % 7
        model = TailCorrectedRegressor(Ridge(), cv=GroupKFold(3), **FIXED).fit(X, y, groups=groups)
        parts = list(GroupKFold(3).split(X, y, groups))
        assert_allclose(
            model.predict(X), TailCorrectedRegressor(Ridge(), cv=parts, **FIXED).fit(X, y).predict(X), rtol=1e-9
        )

    def test_of_time_leave_the_first_rows_to_the_models(self, group):
        X, y = group
        with pytest.warns(UserWarning, match="cv leaves 50 of 300 rows without out-of-fold predictions"):
            model = TailCorrectedRegressor(Ridge(), cv=TimeSeriesSplit(5), **FIXED).fit(X, y)
        assert len(model.correction_.top_weights_) == 250
        assert len(model.selection_.scores) == 4

    def test_that_leave_too_few_rows_are_refused(self, group):
        X, y = group
        few = r"expected to leave at least 8 rows with out-of-fold predictions.* got 10 rows in"
        with pytest.raises(ValueError, match=few):
            TailCorrectedRegressor(Ridge(), experts=None, cv=2).fit(X[:10], y[:10])
        with pytest.raises(ValueError, match=few), pytest.warns(UserWarning, match="cv leaves 290 of 300 rows"):
            TailCorrectedRegressor(Ridge(), experts=None, cv=[(np.arange(290), np.arange(290, 300))]).fit(X, y)

    def test_are_by_default_drawn_with_the_random_state(self, group):
        X, y = group
        one, same, other = (
            TailCorrectedRegressor(Ridge(), random_state=seed, **FIXED).fit(X, y).predict(X) for seed in (0, 0, 1)
        )
        assert_array_equal(one, same)
        assert (one != other).any()

    def test_may_be_done_by_several_workers(self, group):
        X, y = group
        one, two = (
            TailCorrectedRegressor(Ridge(), n_jobs=n_jobs, **FIXED).fit(X, y).predict(X) for n_jobs in (None, 2)
        )
        assert_allclose(one, two)


class TestRouting:
    @pytest.fixture(autouse=True)
    def enabled(self):
        with sklearn.config_context(enable_metadata_routing=True):
            yield

    def test_brings_weights_and_groups_where_they_are_asked_for(self, group, seen):
        X, y = group
        groups, weight = np.arange(len(y)) % 5, X[:, 0] + 10.0
        for base, routed in ((Spy().set_fit_request(sample_weight=True), True),
                             (Spy().set_fit_request(sample_weight=False), False)):  # fmt: skip
            seen.clear()
            model = TailCorrectedRegressor(base, cv=GroupKFold(5), **FIXED)
            model.fit(X, y, sample_weight=weight, groups=groups)
            assert len(seen) == 16  # five folds, their ten pairs, all rows
            for rows, given in seen:
                assert_array_equal(given, rows + 10.0) if routed else given is None
            assert model.correction_.k_ == pytest.approx(0.5 * weight.sum())

    def test_passes_through_what_is_around(self, group, seen):
        X, y = group
        base = Spy().set_fit_request(sample_weight=True)
        model = TailCorrectedRegressor(base, cv=3, **FIXED).set_fit_request(sample_weight=True)
        scorer = get_scorer("neg_mean_absolute_error").set_score_request(sample_weight=False)
        cross_val_score(model, X, y, params={"sample_weight": X[:, 0] + 10.0}, cv=2, scoring=scorer)
        assert all((given == rows + 10.0).all() for rows, given in seen)

    def test_is_not_needed_for_models_fitted_already(self, group):
        X, y = group
        model = TailCorrectedRegressor(Unfittable(), cv="prefit", **FIXED)
        weighted = model.fit(X, y, sample_weight=np.full(len(y), 2.0))
        assert weighted.correction_.k_ == pytest.approx(len(y))
        assert np.isfinite(clone(model).fit(X, y).predict(X)).all()


def test_other_metadata_need_routing(group):
    with pytest.raises(TypeError, match=r"got \['price'\], .*enable_metadata_routing=True"):
        TailCorrectedRegressor(Ridge()).fit(*group, price=1.0)


class TestFrames:
    """Columns of all kinds; what the correction makes of them is numbers."""

    n = 240
    rng = np.random.default_rng(0)
    town = rng.choice(["Ulm", "Bonn", "Köln"], n)
    size = np.where(np.arange(n) == 3, np.nan, rng.standard_normal(n))
    day = pd.date_range("2020-01-01", periods=n)
    y = np.select([town == "Ulm", town == "Bonn"], [3.0, -2.0]) + np.arange(n) / n + 0.1 * rng.standard_normal(n)

    def pandas(self):
        frame = pd.DataFrame({"size": self.size, "town": self.town, "kind": pd.Categorical(self.town), "day": self.day})
        return frame.assign(
            flag=pd.array([True, None] * (self.n // 2), dtype="boolean"),
            zone=self.day.tz_localize("Europe/Berlin"),
            note=[None if i % 5 == 0 else f"n{i % 3}" for i in range(self.n)],
        )

    def polars(self):
        frame = pl.DataFrame({"size": self.size, "town": self.town.tolist(), "day": self.day.to_numpy()})
        return frame.with_columns(
            kind=pl.col("town").cast(pl.Categorical),
            short=pl.col("day").cast(pl.Date),
            flag=pl.Series([True, None] * (self.n // 2)),
            note=pl.Series([None if i % 5 == 0 else f"n{i % 3}" for i in range(self.n)]),
        )

    @pytest.mark.parametrize("library", ["pandas", "polars"])
    def test_of_any_library_are_told_apart_by_their_kinds(self, library):
        frame = getattr(self, library)()
        numbers = make_column_transformer((StandardScaler(), ["size"]))
        base = make_pipeline(numbers, HistGradientBoostingRegressor(max_iter=5))
        model = TailCorrectedRegressor(base, at_most=None).fit(frame, self.y)
        assert model.is_corrected_
        assert model.tail_after_ < 0.5 * model.tail_before_
        assert model.feature_names_in_.tolist() == list(frame.columns)
        some = TailCorrectedRegressor(base, features=["town", "day"], **FIXED).fit(frame, self.y)
        assert some.layer_.view.columns.size == 4
        assert np.isfinite(some.predict(frame)).all()

    def test_may_show_what_is_missing_or_new(self):
        frame = self.pandas()[["size", "kind"]]
        model = TailCorrectedRegressor(HistGradientBoostingRegressor(max_iter=5), **FIXED).fit(frame, self.y)
        news = pd.DataFrame({"size": [0.0, np.nan], "kind": pd.Categorical(["Rom", None])})
        assert np.isfinite(model.predict(news)).all()

    def test_of_other_columns_are_refused(self):
        frame = self.pandas()[["size", "kind"]]
        model = TailCorrectedRegressor(HistGradientBoostingRegressor(max_iter=5), **FIXED).fit(frame, self.y)
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(frame.rename(columns={"size": "length"}))

    def test_of_classes_may_hold_anything_too(self):
        frame = self.pandas()[["size", "kind", "day", "note"]]
        base = make_pipeline(
            make_column_transformer((OneHotEncoder(), ["kind"])), HistGradientBoostingClassifier(max_iter=5)
        )
        model = TailCorrectedClassifier(base, k=0.9, C=1.0).fit(frame, self.y > 1.0)
        assert_allclose(model.predict_proba(frame).sum(axis=1), 1.0)

    def test_may_be_sparse(self, group):
        X, y = group
        for kind in (sp.csr_array, sp.coo_matrix):
            for asked in ({}, {"features": [0, 2]}, {"features": StandardScaler(with_mean=False)}):
                dense, sparse = (
                    TailCorrectedRegressor(Ridge(solver="lsqr", tol=1e-12), k=0.5, C=1.0, **asked).fit(each, y)
                    for each in (X, kind(X))
                )
                assert_allclose(sparse.predict(kind(X)), dense.predict(X), atol=1e-4)

    def test_may_be_texts_of_which_a_correction_sees_predictions_or_what_a_transformer_sees(self):
        texts = pd.Series(self.town)
        base = make_pipeline(CountVectorizer(max_features=1), Ridge())
        alone, seeing = (
            TailCorrectedRegressor(base, features=features, **FIXED).fit(texts, self.y)
            for features in ("prediction", CountVectorizer())
        )
        assert alone.predict(list(texts[:3])).shape == (3,)
        assert np.abs(seeing.predict(texts) - self.y).max() < np.abs(alone.predict(texts) - self.y).max()
        with pytest.raises(ValueError, match="expected to have rows and columns"):
            TailCorrectedRegressor(base).fit(texts, self.y)


class TestTrouble:
    @pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
    def test_leaves_the_former_fit(self, group, error):
        X, y = group
        model = TailCorrectedRegressor(Ridge(), **FIXED).fit(X, y)
        before, state = model.predict(X), set(vars(model))

        class Broken(Ridge):
            def predict(self, X):  # noqa: ARG002
                raise error("stop")

        model.estimator, kept = Broken(), model.estimator
        with pytest.raises(error, match="stop"):
            model.fit(2.0 * X[:, :2], y)
        model.estimator = kept
        assert set(vars(model)) == state
        assert_array_equal(model.predict(X), before)

    @pytest.mark.parametrize(
        ("asked", "sentence"),
        [
            ({"k": -1}, r"k as an int counts samples .* at least 1|in \[1, 300\], got -1"),
            ({"k": 2.0}, r"k as a float .* in \(0, 1\], got 2.0"),
            ({"k": "all"}, "The 'k' parameter"),
            ({"C": 0.0}, "The 'C' parameter"),
            ({"tail": 0.0}, "The 'tail' parameter"),
            ({"at_most": -0.1}, "The 'at_most' parameter"),
            ({"features": ["absent"]}, r"names or places of the 3 columns of X, got \['absent'\]; check them"),
            ({"features": [3]}, "names or places of the 3 columns of X"),
            ({"loss": "hinge"}, "loss"),
            ({"cv": 1}, "n_splits"),
        ],
        ids=str,
    )
    def test_is_told_before_a_model_is_fitted(self, group, seen, asked, sentence):
        with pytest.raises(ValueError, match=sentence):
            TailCorrectedRegressor(Spy(), **({"experts": None} | asked)).fit(*group)
        assert seen == []

    @pytest.mark.parametrize("cap", [0.3, 0.5, 1.1, "most", None, np.nan])
    def test_with_caps_is_told(self, classes, cap):
        with pytest.raises(ValueError, match=r'"auto" or a probability above 0.5 and at most 1, got'):
            TailCorrectedClassifier(GaussianNB(), cap=cap).fit(*classes)

    def test_with_rows_is_told(self, group, classes):
        X, y = group
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            TailCorrectedRegressor(Ridge()).fit(X, y[:-1])
        with pytest.raises(ValueError, match="weight"):
            TailCorrectedRegressor(Ridge()).fit(X, y, sample_weight=-np.ones(len(y)))
        X, y = classes
        with pytest.raises(ValueError, match=r"class\(es\) in y"):
            TailCorrectedClassifier(GaussianNB()).fit(X, np.zeros(len(y)))
        with pytest.raises(ValueError, match=r"Every class is expected to have rows with weight, got none of \[1\]"):
            TailCorrectedClassifier(GaussianNB()).fit(X, y, sample_weight=1.0 - y)

    def test_without_a_fit_is_told(self, group):
        with pytest.raises(NotFittedError):
            TailCorrectedRegressor().predict(group[0])
