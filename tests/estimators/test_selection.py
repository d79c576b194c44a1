"""Choosing k: cross-validation against plain loops, the rule on made-up scores, interruption, scikit-learn's checks."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scikit_learn_checks import parametrized_with_checks
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_diabetes, load_iris, make_classification, make_friedman1
from sklearn.exceptions import NotFittedError
from sklearn.metrics import get_scorer, log_loss
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    RepeatedStratifiedKFold,
    StratifiedKFold,
)
from sklearn.preprocessing import scale

from atklearn import ATkClassifier, ATkClassifierCV, ATkRegressor, ATkRegressorCV
from atklearn.datasets import make_toy
from atklearn.measures import MeasureScorer, g_mean_scorer, worst_class_error
from atklearn.selection.choosing import choose_best, choose_within_error, corrected_standard_error, default_ks
from atklearn.selection.distribution import Distribution


@pytest.fixture(scope="module")
def noisy():
    X, y = make_classification(
        n_samples=240, n_features=6, n_informative=4, flip_y=0.1, weights=[0.7], class_sep=1.5, random_state=0
    )
    return scale(X), np.array(["no", "yes"])[y]


@parametrized_with_checks([ATkClassifierCV(ks=2, Cs=2, cv=2), ATkRegressorCV(ks=2, Cs=2, cv=2)])
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


class TestScores:
    """The scores of a grid are those of plain fits on scikit-learn's folds."""

    def test_equal_a_plain_loop(self, noisy):
        X, y = noisy
        ks, Cs = [0.6, 1.0], [0.1, 10.0]
        cv = StratifiedKFold(4, shuffle=True, random_state=0)
        model = ATkClassifierCV(ks=ks, Cs=Cs, cv=cv, scoring="neg_log_loss").fit(X, y)
        results = model.cv_results_
        for fold, (train, test) in enumerate(cv.split(X, y)):
            for cell, parameters in enumerate(results["params"]):
                plain = ATkClassifier(**parameters).fit(X[train], y[train])
                expected = -log_loss(y[test], plain.predict_proba(X[test]))
                assert_allclose(results[f"split{fold}_test_score"][cell], expected, atol=0.01)

    def test_equal_grid_search(self):
        X, y = load_diabetes(return_X_y=True)
        X, y = scale(X), scale(y)
        ks, Cs = [0.3, 1.0], [0.1, 10.0]
        ours = ATkRegressorCV("absolute_error", ks=ks, Cs=Cs, cv=KFold(3), scoring="neg_mean_absolute_error").fit(X, y)
        search = GridSearchCV(
            ATkRegressor("absolute_error"), {"k": ks, "C": Cs}, cv=KFold(3), scoring="neg_mean_absolute_error"
        ).fit(X, y)
        theirs = {(p["k"], p["C"]): i for i, p in enumerate(search.cv_results_["params"])}
        order = [theirs[p["k"], p["C"]] for p in ours.cv_results_["params"]]
        for name in ("split1_test_score", "mean_test_score", "std_test_score"):
            assert_allclose(ours.cv_results_[name], search.cv_results_[name][order], atol=5e-3)
        assert ours.cv_results_["rank_test_score"].min() == 1
        assert set(ours.cv_results_) <= set(search.cv_results_)

    def test_of_many_classes(self):
        X, y = load_iris(return_X_y=True)
        model = ATkClassifierCV("hinge", ks=[0.8, 1.0], Cs=[10.0], cv=3, scoring="accuracy").fit(scale(X), y)
        assert model.best_score_ > 0.85
        assert model.decision_function(scale(X)).shape == (150, 3)
        assert not hasattr(model, "predict_proba")

    def test_are_the_same_in_two_processes(self, noisy):
        X, y = noisy
        one, two = (ATkClassifierCV(ks=3, Cs=2, cv=3, scoring=g_mean_scorer, n_jobs=n).fit(X, y) for n in (1, 2))
        assert_array_equal(one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"])
        assert one.best_params_ == two.best_params_

    def test_with_weights_are_those_of_repeated_samples(self, noisy):
        X, y = noisy
        weight = np.random.default_rng(0).integers(1, 4, y.size)
        owner = np.arange(y.size).repeat(weight)
        folds = list(StratifiedKFold(3).split(X, y))
        repeated_folds = [tuple(np.flatnonzero(np.isin(owner, part)) for part in fold) for fold in folds]
        options = {"ks": [0.7, 1.0], "Cs": [1.0], "scoring": "balanced_accuracy"}
        weighted = ATkClassifierCV(cv=folds, **options).fit(X, y, sample_weight=weight)
        repeated = ATkClassifierCV(cv=repeated_folds, **options).fit(X[owner], y[owner])
        assert_allclose(weighted.cv_results_["mean_test_score"], repeated.cv_results_["mean_test_score"])
        assert_allclose(weighted.coef_, repeated.coef_, atol=1e-5)

    def test_on_folds_of_groups(self, noisy):
        X, y = noisy
        groups = np.arange(y.size) % 6
        model = ATkClassifierCV(ks=[1.0], Cs=[1.0], cv=GroupKFold(3), scoring="accuracy").fit(X, y, groups=groups)
        search = GridSearchCV(ATkClassifier(k=1.0), {"C": [1.0]}, cv=GroupKFold(3)).fit(X, y, groups=groups)
        assert_allclose(model.best_score_, search.best_score_, atol=0.01)

    def test_take_weights_only_where_the_metric_does(self):
        X, y = load_diabetes(return_X_y=True)
        weight = np.random.default_rng(0).random(y.size)
        model = ATkRegressorCV(ks=[1.0], Cs=[1.0], cv=2, scoring="neg_max_error").fit(scale(X), scale(y), weight)
        assert model.best_score_ < 0.0


class TestRule:
    @pytest.mark.parametrize(
        ("means", "noise", "chosen"),
        [
            ([[0.81], [0.80]], 0.1, (1, 0)),  # the average, within the noise
            ([[0.85, 0.8], [0.9, 0.7], [0.8, 0.6]], 0.01, (1, 0)),  # a clear gain
            ([[0.901], [0.9], [0.6]], 0.02, (1, 0)),  # no further than the scores ask
            ([[0.5, 0.5, 0.5], [0.7, 0.9, 0.8]], 0.01, (1, 1)),  # the best C of the average
        ],
    )
    def test_leaves_the_average_as_far_as_the_scores_ask(self, means, noise, chosen):
        scores = np.asarray(means) + noise * np.random.default_rng(0).standard_normal((20, *np.shape(means)))
        assert choose_within_error(scores, 0.25) == chosen

    def test_equal_scores_go_to_the_average_and_the_stronger_penalty(self):
        assert choose_best(np.ones((5, 3, 2))) == (2, 0)
        assert choose_within_error(np.ones((5, 3, 2)), 0.25) == (2, 0)
        assert choose_within_error(np.ones((1, 3, 2)), 0.25) == (2, 0)

    def test_repeating_the_same_folds_does_not_sharpen_the_error(self):
        differences = np.random.default_rng(0).standard_normal((5, 1))
        once = corrected_standard_error(differences, 0.25)
        often = corrected_standard_error(np.tile(differences, (100, 1)), 0.25)
        assert 0.6 * once < often < once

    def test_is_what_the_estimator_applies(self, noisy):
        X, y = noisy
        cv = RepeatedStratifiedKFold(n_splits=4, n_repeats=2, random_state=0)
        model = ATkClassifierCV(ks=4, Cs=3, cv=cv, scoring="error").fit(X, y)
        scores = np.array([model.cv_results_[f"split{fold}_test_score"] for fold in range(8)]).reshape(8, 4, 3)
        i, j = choose_within_error(scores, 1.0 / 3.0)
        assert (model.k_share_, model.C_) == (model.ks_[i], model.Cs_[j])
        assert model.cv_results_["params"][model.best_index_] == model.best_params_
        best = clone(model).set_params(rule="best").fit(X, y)
        assert best.cv_results_["rank_test_score"][best.best_index_] == 1


class TestGrid:
    def test_starts_above_the_calibration_bound(self, noisy):
        X, y = noisy
        model = ATkClassifierCV(ks=5, Cs=[1e4], cv=2).fit(X, y)
        assert 0.05 < model.calibration_bound_ < model.ks_[0] < 0.9
        assert model.ks_[-1] == 1.0
        assert ATkClassifier(k=float(model.ks_[0]), C=1e4).fit(X, y).coef_.any()

    def test_is_as_given(self, noisy):
        X, y = noisy
        model = ATkClassifierCV(ks=[240, 120, 0.75], Cs=[5.0, 1.0], cv=2).fit(X, y)
        assert_allclose(model.ks_, [0.5, 0.75, 1.0])
        assert_allclose(model.Cs_, [1.0, 5.0])

    def test_of_separable_data_has_a_floor(self):
        assert_allclose(default_ks(3, 0.0), [0.12, 0.45, 1.0])

    @pytest.mark.parametrize("n_Cs", [1, 2, 3, 6])
    def test_of_C_has_the_default_in_it_whatever_the_number_of_samples(self, noisy, n_Cs):
        X, y = noisy
        for n in (100, 240):
            model = ATkClassifierCV(ks=[1.0], Cs=n_Cs, cv=2).fit(X[:n], y[:n])
            assert np.isclose(model.Cs_, n).any()
            assert model.Cs_.size == n_Cs
            assert_allclose(model.Cs_[[0, -1]], {1: [n, n], 2: [n, 10 * n]}.get(n_Cs, [n / 1000, 10 * n]))

    def test_says_what_is_wrong(self, noisy):
        with pytest.raises(ValueError, match="every C > 0"):
            ATkClassifierCV(Cs=[0.0]).fit(*noisy)


class TestInterrupt:
    @staticmethod
    def interrupting(after):
        """Return a scorer that is interrupted at a call."""
        calls = []

        def scorer(estimator, X, y):
            calls.append(None)
            if len(calls) > after:
                raise KeyboardInterrupt
            return get_scorer("accuracy")(estimator, X, y)

        return scorer

    def test_leaves_the_estimator_as_it_was(self, noisy):
        X, y = noisy
        model = ATkClassifierCV(ks=3, Cs=2, cv=3, scoring="accuracy").fit(X, y)
        before = dict(vars(model))
        model.scoring = self.interrupting(after=8)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X[:, :-1], y)
        after = dict(vars(model)) | {"scoring": before["scoring"]}
        assert after.keys() == before.keys()
        assert all(after[name] is before[name] for name in before)


class Watch:
    """A callback that counts folds and stops after some."""

    def __init__(self, stop_after):
        self.folds, self.stop_after = 0, stop_after

    def setup(self, estimator, context): ...

    def on_fit_task_begin(self, estimator, context): ...

    def on_fit_task_end(self, estimator, context):  # noqa: ARG002
        self.folds += context.task_name == "fold"
        return self.folds >= self.stop_after

    def teardown(self, estimator, context): ...


class TestHabits:
    def test_refit_is_the_plain_estimator(self, noisy):
        X, y = noisy
        model = ATkClassifierCV(ks=2, Cs=2, cv=2, class_weight="balanced").fit(X, y)
        plain = ATkClassifier(k=model.k_share_, C=model.C_, class_weight="balanced").fit(X, y)
        assert_allclose(model.predict_proba(X), plain.predict_proba(X))
        assert_allclose(model.predict_log_proba(X), plain.predict_log_proba(X))
        assert model.dual_gap_ <= 1e-6 * model.objective_

    def test_without_refit_there_is_only_the_choice(self, noisy):
        X, y = noisy
        model = ATkClassifierCV(ks=2, Cs=2, cv=2, refit=False).fit(X, y)
        assert 0.0 < model.k_share_ <= 1.0
        with pytest.raises(NotFittedError):
            model.predict(X)

    def test_verbose_tells_the_folds(self, noisy, capsys):
        ATkClassifierCV(ks=2, Cs=2, cv=2, verbose=1).fit(*noisy)
        assert "fold 2 of 2: 4 fits" in capsys.readouterr().out

    def test_a_score_that_is_never_defined_is_an_error(self, noisy):
        with pytest.raises(ValueError, match="check that the score"):
            ATkClassifierCV(ks=2, Cs=2, cv=2, scoring=lambda *_: np.nan).fit(*noisy)

    def test_callbacks_see_every_fold_and_can_stop(self, noisy):
        pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")
        watch = Watch(stop_after=2)
        model = ATkClassifierCV(ks=2, Cs=2, cv=4)
        model.set_callbacks(watch)
        model.fit(*noisy)
        assert watch.folds == 2
        assert np.isnan(model.cv_results_["split2_test_score"]).all()
        assert model.best_estimator_.coef_.any()


class TestNames:
    """Measures are scores by their names, beside those of scikit-learn."""

    @pytest.mark.parametrize(
        ("ours", "theirs"), [("balanced_error", "balanced_accuracy"), ("log_loss", "neg_log_loss")]
    )
    def test_of_measures_rank_as_scikit_learns_do(self, noisy, ours, theirs):
        X, y = noisy
        weight = np.random.default_rng(0).random(y.size)
        named, known = (
            ATkClassifierCV(ks=3, Cs=2, cv=3, scoring=scoring).fit(X, y, weight) for scoring in (ours, theirs)
        )
        shift = 1.0 if ours == "balanced_error" else 0.0
        assert_allclose(named.cv_results_["mean_test_score"], known.cv_results_["mean_test_score"] - shift)
        assert named.best_params_ == known.best_params_

    @pytest.mark.parametrize("name", ["rmse", "mae", "tail_error", "p95_error", "max_error", "r2"])
    def test_of_numbers(self, name):
        X, y = load_diabetes(return_X_y=True)
        model = ATkRegressorCV(ks=2, Cs=[1.0], cv=2, scoring=name).fit(scale(X), scale(y))
        expected = MeasureScorer(name)(model, scale(X), scale(y))
        assert model.best_score_ == pytest.approx(expected, abs=0.7)
        assert 0.0 < ATkRegressor(k="auto", scoring=name).fit(scale(X), scale(y)).k_share_ <= 1.0

    @pytest.mark.parametrize("model", [ATkClassifier(k="auto"), ATkClassifierCV(ks=2, Cs=2, cv=2)])
    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("rmse", "for classification"),
            ("worst_group_error", "groups"),
            ("balance_error", "did you mean 'balanced_error'"),
        ],
    )
    def test_of_something_else_are_one_clear_error(self, noisy, model, name, message):
        with pytest.raises(ValueError, match=message):
            clone(model).set_params(scoring=name).fit(*noisy)

    def test_that_need_probabilities_say_so(self, noisy):
        with pytest.raises(ValueError, match="ATkClassifier has no probabilities"):
            ATkClassifier("hinge", k="auto", scoring="brier").fit(*noisy)


class TestChoice:
    """k = "auto" answers the question asked, on folds of mass: by plain loops over plain fits."""

    @staticmethod
    def plain_loop(model, X, y, ks, n_folds, n_draws, measure):
        """Return measure and mean loss of every k on every fold, shape (n_folds, n_ks, 2)."""
        samples = Distribution.of(X, y, np.ones(y.size), classification=is_classifier(model))
        found = []
        for seed in np.random.RandomState(0).randint(2**31 - 1, size=n_draws):
            rows, mass, splits = samples.cut(n_folds, int(seed))
            for train, test in splits:
                fits = [
                    clone(model).set_params(k=float(k)).fit(X[rows[train]], y[rows[train]], mass[train]) for k in ks
                ]
                found.append([measure(fit, X[rows[test]], y[rows[test]], mass[test]) for fit in fits])
        return np.array(found)

    @staticmethod
    def losses(model, X, y):
        if is_classifier(model):
            return np.logaddexp(0.0, -np.where(y == model.classes_[1], 1.0, -1.0) * model.decision_function(X))
        return (y - model.predict(X)) ** 2

    @staticmethod
    def worst(values, mass, share):
        """Return the mean of the largest values, taken from a fine repetition of them by their mass."""
        repeated = np.sort(np.repeat(values, np.round(mass * 1000).astype(int)))
        return repeated[-round(share * repeated.size) :].mean()

    @pytest.mark.filterwarnings("ignore::atklearn.CollapseWarning")
    @pytest.mark.parametrize(("scoring", "known"), [("balanced_error", "balanced_accuracy"), ("r2", "r2")])
    def test_by_a_measure_is_that_of_a_plain_loop(self, noisy, scoring, known):
        X, y = noisy if scoring == "balanced_error" else map(scale, load_diabetes(return_X_y=True))
        kind = ATkClassifier if scoring == "balanced_error" else partial(ATkRegressor, "absolute_error")
        model = kind(C=10.0, scoring=scoring).fit(X, y)
        seen = self.plain_loop(
            kind(C=10.0), X, y, model.selection_.ks, 5, 2,
            lambda fit, X, y, mass: [get_scorer(known)(fit, X, y, sample_weight=mass), 0.0],
        )  # fmt: skip
        assert_allclose(model.k_share_, model.selection_.ks[choose_within_error(seen[:, :, :1], 0.25)[0]])

    @pytest.mark.filterwarnings("ignore::atklearn.CollapseWarning")
    @pytest.mark.parametrize("task", ["classification", "regression"])
    def test_within_a_budget_is_that_of_a_plain_loop(self, noisy, task):
        X, y = noisy
        if task == "regression":
            rng = np.random.default_rng(0)
            X = rng.standard_normal((800, 3))
            y = X[:, 0] + 0.3 * rng.standard_normal(800) + 2.0 * (rng.random(800) < 0.2)
        kind = ATkClassifier if task == "classification" else ATkRegressor

        def measure(fit, X, y, mass):
            losses = self.losses(fit, X, y)
            sizes = losses if task == "classification" else np.sqrt(losses)
            return [-self.worst(sizes, mass, 0.2), np.average(losses, weights=mass)]

        model = kind(C=10.0, tail=0.2, at_most=0.1).fit(X, y)
        found = model.selection_
        seen = self.plain_loop(kind(C=10.0), X, y, found.ks, 5, 1, measure)
        mean = seen[..., 1].mean(axis=0) ** (1.0 if task == "classification" else 0.5)
        prices = mean / mean[-1] - 1.0
        kept = np.isfinite(found.means[:, 0])
        assert_allclose(found.prices[kept, 0], prices[kept], atol=0.02)
        assert (prices[~kept] > 0.1).all()
        within = np.flatnonzero(prices <= 0.1)
        place = choose_within_error(seen[:, within, :1], 0.25)[0]
        assert_allclose(found.k, found.ks[within[place]])
        assert found.k < 1.0
        assert found.price <= 0.1

    def test_the_budget_is_kept_and_buys_something(self, noisy):
        X, y = noisy
        chosen = [ATkClassifier(tail=0.1, at_most=most).fit(X, y).selection_ for most in (0.0, 0.02, 0.1, 0.5)]
        for selection in chosen:
            assert selection.price <= selection.at_most + 1e-9
            assert selection.measured(selection.chosen) <= selection.measured(selection.average)
        assert chosen[-1].k < 1.0

    def test_says_why_and_what_is_at_the_end_of_its_grid(self, noisy):
        X, y = noisy
        average = ATkClassifier(at_most=0.0).fit(X, y)
        assert average.selection_.reason.startswith("The average")
        assert str(average.selection_).startswith(average.selection_.reason)
        moved = ATkClassifier(tail=0.1, at_most=0.5).fit(X, y).selection_
        assert f"k = {moved.k:.2g} n" in moved.reason
        assert moved.is_at_end == ("tried" in moved.reason) == (moved.chosen[1] in (0, 2))

    def test_nothing_that_was_not_chosen_is_published(self, noisy):
        model = ATkClassifier().fit(*noisy)
        assert model.selection_.value == model.C_
        assert not hasattr(model.set_params(k=0.8).fit(*noisy), "selection_")

    @pytest.mark.parametrize("task", ["two classes", "three classes", "numbers"])
    def test_all_that_choose_by_default_choose_alike(self, task):
        X, y = load_iris(return_X_y=True) if "classes" in task else make_friedman1(400, n_features=6, random_state=0)
        X, y = (scale(X)[50:], y[50:]) if task == "two classes" else (scale(X), y)
        plain, searched = (ATkRegressor, ATkRegressorCV) if task == "numbers" else (ATkClassifier, ATkClassifierCV)
        plain, searched = plain().fit(X, y), searched().fit(X, y)
        assert (plain.k_share_, plain.C_) == (searched.k_share_, searched.C_)
        assert plain.selection_.reason == searched.selection_.reason
        assert_array_equal(plain.selection_.scores, searched.selection_.scores)
        assert_allclose(plain.coef_, searched.coef_)

    def test_of_scoring_and_tail_is_by_one(self, noisy):
        with pytest.raises(ValueError, match="One of scoring and tail"):
            ATkClassifier(scoring="error", tail=0.1).fit(*noisy)

    def test_takes_a_tail_of_any_size_by_both_its_names(self):
        X, y = make_friedman1(300, n_features=6, random_state=0)
        one = ATkRegressor(tail=0.03, at_most=np.inf).fit(X, y).selection_
        other = ATkRegressor(scoring=MeasureScorer("tail_error", tail=0.03)).fit(X, y).selection_
        assert_allclose(one.means[:, 0].max(), other.means[:, 0].max(), rtol=0.1)  # on other folds
        assert other.at_most == np.inf

    @pytest.mark.parametrize("class_weight", [None, "balanced"])
    def test_weights_are_repetition_and_order_is_nothing(self, noisy, class_weight):
        X, y = noisy
        rng = np.random.default_rng(0)
        weight = rng.integers(0, 4, y.size)
        owner = rng.permutation(np.arange(y.size).repeat(weight))
        weighted = ATkClassifier(k="auto", class_weight=class_weight, tol=1e-9).fit(X, y, sample_weight=weight)
        repeated = ATkClassifier(k="auto", class_weight=class_weight, tol=1e-9).fit(X[owner], y[owner])
        assert weighted.k_share_ == pytest.approx(repeated.k_share_, rel=1e-9)
        assert_allclose(weighted.coef_, repeated.coef_, atol=1e-5)

    def test_follows_the_score(self):
        X, y = make_toy(5, random_state=0)  # four of two hundred are of one class
        by_error, by_class = (
            ATkClassifier(k="auto", C=1.0, scoring=scoring).fit(X, y) for scoring in ("error", "worst_class_error")
        )
        assert by_class.k_share_ <= by_error.k_share_
        assert worst_class_error(y, by_class.predict(X)) <= worst_class_error(y, by_error.predict(X))

    def test_takes_any_scorer_of_scikit_learn(self, noisy):
        for scoring in ("f1_macro", g_mean_scorer, lambda model, X, y: model.score(X, y)):
            assert 0.0 < ATkClassifier(k="auto", scoring=scoring).fit(*noisy).k_share_ <= 1.0

    def test_of_many_samples_looks_at_some(self):
        X, y = make_classification(30_000, 4, n_informative=3, n_redundant=0, flip_y=0.2, random_state=0)
        seen = []

        def scorer(model, X, y):
            seen.append(y.size)
            return model.score(X, y)

        ATkClassifier(k="auto", scoring=scorer).fit(X, y)
        assert 900 < max(seen) < 1100

    def test_of_many_classes_and_weights(self):
        X, y = load_iris(return_X_y=True)
        weight = np.where(y == 1, 2.0, 1.0)
        model = ATkClassifier(k="auto").fit(scale(X), y, sample_weight=weight)
        assert 0.0 < model.k_ <= weight.sum()

    @pytest.mark.filterwarnings("ignore:The samples of")
    def test_of_a_class_without_weight_is_that_of_the_others(self):
        X, y = load_iris(return_X_y=True)
        weight = (y < 2).astype(float)
        model = ATkClassifier(k="auto").fit(scale(X), y, sample_weight=weight)
        assert model.k_share_ == pytest.approx(ATkClassifier(k="auto").fit(scale(X)[:100], y[:100]).k_share_, rel=0.05)

    def test_of_a_class_of_one_sample_is_the_average(self):
        X = np.array([[0.0], [1.0], [2.0], [3.0]])
        assert ATkClassifier(k="auto").fit(X, [0, 0, 0, 1]).k_ == 4.0
