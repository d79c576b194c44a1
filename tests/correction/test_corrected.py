"""Tail corrections: what they bring, when they leave a model alone, and that nothing but the rows matters."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from correction_problems import Affine, biased_group, noisy_classes
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import KFold, RepeatedKFold, StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler

from atklearn.correction import TailCorrectedClassifier, TailCorrectedRegressor

PREFIT = {"experts": None, "features": "prediction", "cv": "prefit"}


@pytest.fixture(scope="module")
def group():
    return biased_group()


@pytest.fixture(scope="module")
def classes():
    return noisy_classes()


def worst(errors, share):
    """The mean of the largest errors, the last one in part."""
    ranked, left = np.sort(errors)[::-1], share * errors.size
    shares = np.clip(left - np.arange(errors.size), 0.0, 1.0)
    return ranked @ shares / left


class TestTheLayer:
    def test_of_a_prediction_alone_with_all_rows_is_affine_recalibration(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((200, 1))
        y = 3.0 * X[:, 0] - 2.0 + rng.standard_normal(200)
        model = TailCorrectedRegressor(Affine(0.5, 10.0).fit(), k=1.0, C=1e8, at_most=None, **PREFIT).fit(X, y)
        f = model.estimator.predict(X)
        known = LinearRegression().fit(f[:, None], y)
        assert_allclose(model.predict(X), known.predict(f[:, None]), atol=1e-6)

    def test_of_logits_alone_with_all_rows_is_platt_scaling(self, classes):
        X, y = classes
        base = GaussianNB().fit(X, y)
        model = TailCorrectedClassifier(base, k=1.0, C=1e10, cap=1.0, **PREFIT).fit(X, y)
        odds = np.clip(base.predict_proba(X)[:, 1], 1e-6, 1.0 - 1e-6)
        logits = np.log(odds / (1.0 - odds))[:, None]
        known = LogisticRegression(C=1e8, tol=1e-10, max_iter=1000).fit(logits, y)
        assert_allclose(model.predict_proba(X), known.predict_proba(logits), atol=1e-4)

    def test_adds_no_more_far_out_than_on_the_rows_it_was_fitted_on(self, group):
        X, y = group
        model = TailCorrectedRegressor(Ridge(1e4), experts=None, at_most=0.5).fit(X, y)
        least, most = (limit.item() for limit in model.layer_.limits)
        far = 1e6 * np.random.default_rng(0).standard_normal((500, X.shape[1]))
        added = model.predict(far) - model.estimator_.predict(far)
        assert model.is_corrected_
        assert added.min() >= least - 1e-6
        assert added.max() <= most + 1e-6

    def test_does_not_predict_below_zero_what_never_is(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((300, 2))
        y = np.maximum(X[:, 0] + rng.exponential(size=300), 0.0)
        for asked in ({"k": 0.1, "C": 1.0}, {}):
            model = TailCorrectedRegressor(Ridge(), experts=None, **asked).fit(X, y)
            assert model.estimator_.predict(5.0 * X).min() < 0.0 == model.predict(5.0 * X).min()
        assert TailCorrectedRegressor(Ridge(), experts=None, k=0.1, C=1.0).fit(X, y - 1.0).predict(5.0 * X).min() < 0.0

    @pytest.mark.parametrize("cap", [0.7, 0.95, 1.0])
    def test_gives_no_class_more_than_the_cap(self, classes, cap):
        X, y = classes
        for labels in (y, y + (X[:, 1] > 1.0)):
            model = TailCorrectedClassifier(GaussianNB(), k=0.9, C=1.0, cap=cap).fit(X, labels)
            assert model.predict_proba(100.0 * X).max() <= cap + 1e-12
            assert model.cap_ == pytest.approx(np.log(cap / (1.0 - cap)) if cap < 1.0 else np.inf)

    def test_takes_the_forty_columns_that_follow_the_residual(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((400, 60))
        y = 5.0 * X[:, 50] + rng.standard_normal(400)
        for given in (X, sp.csr_array(X)):
            view = TailCorrectedRegressor(DummyRegressor(), experts=None, k=1.0, C=100.0).fit(given, y).layer_.view
            assert view.columns.size == 40
            assert 50 in view.columns


class TestWhatItBrings:
    def test_a_bias_of_a_group_that_can_be_recognised_is_removed(self, group):
        X, y = group
        new_X, new_y = biased_group(seed=1)
        model = TailCorrectedRegressor(Ridge(1e4), experts=None, at_most=None).fit(X, y)
        before, after = (worst(np.abs(new_y - each.predict(new_X)), 0.02) for each in (model.estimator_, model))
        assert model.is_corrected_
        assert after < 0.8 * before

    @pytest.mark.parametrize("at_most", [0.0, 0.02, 0.1])
    def test_comes_at_no_more_than_the_budget(self, at_most):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((600, 2))
        y = X[:, 0] + rng.exponential(size=600)
        chosen = TailCorrectedRegressor(Ridge(), tail=0.05, experts=None, at_most=at_most).fit(X, y).selection_
        assert chosen.price <= at_most + 1e-9
        within = chosen.prices <= at_most + 1e-9
        assert chosen.score == chosen.means[within].max()

    def test_without_a_budget_is_as_good_as_the_best_tail(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((600, 2))
        y = X[:, 0] + rng.exponential(size=600)
        model = TailCorrectedRegressor(Ridge(), experts=None, at_most=None).fit(X, y)
        chosen, best = model.selection_, np.nanmax(model.selection_.means)
        assert best - chosen.score <= chosen.standard_errors[chosen.chosen]
        assert model.tail_after_ < 0.9 * model.tail_before_

    def test_is_applied_in_any_case_where_k_and_C_are_given(self):
        rng = np.random.default_rng(0)
        X, y = rng.standard_normal((300, 2)), rng.standard_normal(300)
        for k in (0.3, 30, "max", 1.0):
            model = TailCorrectedRegressor(Ridge(), experts=None, k=k, C=1.0, at_most=0.0).fit(X, y)
            assert model.is_corrected_
            assert "k and C were given" in model.selection_.reason
            assert model.correction_.k_share_ == pytest.approx({30: 0.1, "max": 1 / 300}.get(k, k))
            assert model.correction_.C == 1.0

    def test_without_it_the_model_predicts_as_it_does_alone(self):
        rng = np.random.default_rng(0)
        X, y = rng.standard_normal((300, 2)), rng.standard_normal(300)
        model = TailCorrectedRegressor(Affine(0.0)).fit(X, y)
        assert not model.is_corrected_
        assert model.correction_ is model.layer_ is None
        assert model.experts_ == []
        assert model.tail_after_ == model.tail_before_
        assert_array_equal(model.predict(X), 0.0)

    def test_with_experts_sees_what_they_know(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((500, 2))
        y = 4.0 * np.abs(X[:, 0]) + 0.1 * rng.standard_normal(500)
        alone, auto, own = (
            TailCorrectedRegressor(Ridge(), experts=experts).fit(X, y)
            for experts in (None, "auto", [Ridge(2.0), Affine(1.0, 0.0, np.abs)])
        )
        assert auto.tail_after_ < 0.5 * alone.tail_after_
        assert own.tail_after_ < 0.5 * alone.tail_after_
        assert [type(each) for each in own.experts_] == [Ridge, Affine]


class TestWhatIsSaid:
    def test_the_tail_before_is_that_of_predictions_out_of_fold(self, group, classes):
        cv = KFold(4, shuffle=True, random_state=3)
        X, y = group
        model = TailCorrectedRegressor(Ridge(1e4), tail=0.05, experts=None, cv=cv).fit(X, y)
        errors = np.abs(y - cross_val_predict(Ridge(1e4), X, y, cv=cv))
        assert model.tail_before_ == pytest.approx(worst(errors, 0.05))
        assert model.profile_.worst["plain"][-1] == pytest.approx(errors.max())
        assert model.profile_.costs["plain"]["mae"] == pytest.approx(errors.mean())
        assert model.profile_.costs["plain"]["rmse"] == pytest.approx(np.sqrt((errors**2).mean()))
        X, y = classes
        cv = StratifiedKFold(4, shuffle=True, random_state=3)
        model = TailCorrectedClassifier(LogisticRegression(), cv=cv).fit(X, y)
        given = cross_val_predict(LogisticRegression(), X, y, cv=cv, method="predict_proba")
        losses = -np.log(given[np.arange(y.size), y])
        assert model.tail_before_ == pytest.approx(worst(losses, 0.1))
        assert model.profile_.costs["plain"]["log_loss"] == pytest.approx(losses.mean())
        assert model.profile_.costs["plain"]["error"] == pytest.approx((given.argmax(axis=1) != y).mean())

    def test_the_price_is_the_rise_of_the_means(self, group):
        model = TailCorrectedRegressor(Ridge(1e4), experts=None).fit(*group)
        costs = model.profile_.costs
        for beside in ("plain", "average"):
            for name in ("rmse", "mae"):
                rise = costs["corrected"][name] / costs[beside][name] - 1.0
                assert model.price_[beside][name] == model.profile_.price(beside)[name] == pytest.approx(rise)
        assert "worst 2 %" in str(model.profile_)

    def test_a_model_without_errors_has_nothing_to_gain(self):
        X = np.arange(100.0)[:, None]
        model = TailCorrectedRegressor(Affine(2.0, 1.0).fit(), **PREFIT).fit(X, 2.0 * X[:, 0] + 1.0)
        assert not model.is_corrected_
        assert model.tail_before_ == model.tail_after_ == model.price_["plain"]["rmse"] == 0.0


class TestConstants:
    @pytest.mark.parametrize("asked", [{}, {"k": 0.2, "C": 1.0}], ids=str)
    def test_change_nothing(self, asked):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((200, 2))
        y = X[:, 0] + rng.exponential(size=200)
        wide = np.column_stack([X, np.full(200, 7.0), np.zeros(200)])
        one, other = (TailCorrectedRegressor(Ridge(), experts=None, **asked).fit(each, y) for each in (X, wide))
        assert_allclose(one.predict(X), other.predict(wide), rtol=1e-6)

    def test_are_predicted_where_nothing_else_is_known(self):
        X = np.random.default_rng(0).standard_normal((100, 2))
        model = TailCorrectedRegressor(Ridge(), experts=None, k=0.5, C=1.0).fit(X, np.full(100, 3.0))
        assert_allclose(model.predict(X), 3.0)

    def test_as_predictions_leave_what_X_tells(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((200, 2))
        y = X[:, 0] + 5.0
        model = TailCorrectedRegressor(Affine(0.0, 0.0).fit(), experts=None, cv="prefit", k=0.5, C=1e6).fit(X, y)
        assert_allclose(model.predict(X), y, atol=1e-3)


class TestRows:
    """What matters of rows is their distribution."""

    def fitted(self, kind, X, y, splits, sample_weight=None, **asked):
        base = Ridge() if kind is TailCorrectedRegressor else LogisticRegression(tol=1e-10, max_iter=1000)
        return kind(base, experts=None, cv=splits, **asked).fit(X, y, sample_weight)

    def problem(self, kind, n=90):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((n, 2))
        y = X[:, 0] + rng.exponential(size=n)
        return X, y if kind is TailCorrectedRegressor else (y > 1.0).astype(int)

    kinds = pytest.mark.parametrize("kind", [TailCorrectedRegressor, TailCorrectedClassifier])
    ways = pytest.mark.parametrize("asked", [{}, {"k": 0.9, "C": 1.0}, {"at_most": None}], ids=str)

    @kinds
    @ways
    def test_may_come_in_any_order(self, kind, asked):
        X, y = self.problem(kind)
        splits = list(KFold(4, shuffle=True, random_state=0).split(X))
        order = np.random.default_rng(1).permutation(len(y))
        place = np.argsort(order)
        moved = [(place[train], place[test]) for train, test in splits]
        one, other = self.fitted(kind, X, y, splits, **asked), self.fitted(kind, X[order], y[order], moved, **asked)
        assert (one.is_corrected_, one.selection_.chosen) == (other.is_corrected_, other.selection_.chosen)
        assert_allclose(one.predict(X), other.predict(X), rtol=1e-6)
        assert one.tail_after_ == pytest.approx(other.tail_after_)

    @kinds
    @ways
    def test_weigh_as_much_as_so_many(self, kind, asked):
        X, y = self.problem(kind)
        weight = np.random.default_rng(2).integers(0, 4, len(y))
        splits = list(KFold(4, shuffle=True, random_state=0).split(X))
        rows = np.repeat(np.arange(len(y)), weight)
        repeated = [tuple(np.flatnonzero(np.isin(rows, part)) for part in split) for split in splits]
        one = self.fitted(kind, X, y, splits, weight, **asked)
        other = self.fitted(kind, X[rows], y[rows], repeated, **asked)
        assert one.selection_.chosen == other.selection_.chosen
        assert_allclose(one.selection_.scores, other.selection_.scores, rtol=1e-4)
        assert one.profile_.lead == pytest.approx(other.profile_.lead, rel=1e-3)
        if one.is_corrected_ == other.is_corrected_:  # chance is counted in rows
            assert_allclose(one.predict(X), other.predict(X), rtol=1e-4, atol=1e-4)
            assert one.tail_after_ == pytest.approx(other.tail_after_, rel=1e-4)

    @kinds
    def test_without_weight_are_not_there(self, kind):
        X, y = self.problem(kind)
        weight = (np.arange(len(y)) % 4 > 0).astype(float)
        wild = np.where(weight[:, None] > 0.0, X, 1e3)
        wild_y = np.where(weight > 0.0, y, 0 if kind is TailCorrectedClassifier else -1e3)
        splits = list(KFold(3).split(X))
        one, other = (self.fitted(kind, *rows, splits, weight, k=0.9, C=1.0) for rows in ((X, y), (wild, wild_y)))
        assert_allclose(one.predict(5.0 * X), other.predict(5.0 * X), rtol=1e-6)

    def test_left_out_several_times_count_once_with_the_mean(self, group):
        X, y = group
        cv = RepeatedKFold(n_splits=2, n_repeats=3, random_state=0)
        model = TailCorrectedRegressor(Ridge(), experts=None, cv=cv, k=0.2, C=10.0).fit(X, y)
        assert len(model.selection_.scores) == 6
        assert model.correction_.k_ == pytest.approx(0.2 * len(y))


class TestClasses:
    def test_share_what_there_is(self):
        X, y = load_iris(return_X_y=True)
        names = np.array(["setosa", "versicolor", "virginica"])[y]
        model = TailCorrectedClassifier(GaussianNB(), k=0.5, C=1.0).fit(X, names)
        assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
        assert model.decision_function(X).shape == (150, 3)
        assert_array_equal(model.classes_[model.predict_proba(X).argmax(axis=1)], model.predict(X))
        assert model.score(X, names) > 0.9

    @pytest.mark.parametrize("labels", [["no", "yes"], [3, 7], [False, True], [-1, 1]], ids=str)
    def test_may_be_called_anything(self, classes, labels):
        X, y = classes
        plain, named = (TailCorrectedClassifier(GaussianNB()).fit(X, each) for each in (y, np.array(labels)[y]))
        assert_array_equal(named.predict(X), np.array(labels)[plain.predict(X)])
        assert_array_equal(named.predict_proba(X), plain.predict_proba(X))

    def test_are_given_with_less_confidence_where_that_was_wrong(self, classes):
        X, y = classes
        model = TailCorrectedClassifier(GaussianNB()).fit(X, y)
        new_X, new_y = noisy_classes(seed=1)
        losses = [
            -np.log(each.predict_proba(new_X)[np.arange(new_y.size), new_y]) for each in (model.estimator_, model)
        ]
        assert worst(losses[1], 0.1) < 0.8 * worst(losses[0], 0.1)


def test_what_X_is_seen_may_be_said(group):
    X, y = group

    def fitted(**asked):
        return TailCorrectedRegressor(Ridge(1e4), experts=None, k=0.2, C=100.0, **asked).fit(X, y)

    everything, third, nothing = fitted(), fitted(features=[2]), fitted(features="prediction")
    scaled = fitted(features=StandardScaler())
    assert everything.correction_.n_features_in_ == 1 + X.shape[1]
    assert third.correction_.n_features_in_ == 2
    assert nothing.correction_.n_features_in_ == 1
    assert nothing.encoder_ is None
    assert_allclose(scaled.predict(X), everything.predict(X), rtol=1e-5)
    assert_array_equal(clone(third).fit(sp.csr_array(X), y).layer_.view.columns, [0])
