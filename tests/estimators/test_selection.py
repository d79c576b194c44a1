"""Choosing k: cross-validation against plain loops, the rule on made-up scores, interruption, scikit-learn's checks."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scikit_learn_checks import parametrized_with_checks
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris, make_classification
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
        model = ATkClassifierCV("hinge", ks=[0.8, 1.0], Cs=[10.0], cv=3).fit(scale(X), y)
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
        model = ATkClassifierCV(ks=[1.0], Cs=[1.0], cv=GroupKFold(3)).fit(X, y, groups=groups)
        search = GridSearchCV(ATkClassifier(k=1.0), {"C": [1.0]}, cv=GroupKFold(3)).fit(X, y, groups=groups)
        assert_allclose(model.best_score_, search.best_score_, atol=0.01)

    def test_take_weights_only_where_the_metric_does(self):
        X, y = load_diabetes(return_X_y=True)
        weight = np.random.default_rng(0).random(y.size)
        model = ATkRegressorCV(ks=[1.0], Cs=[1.0], cv=2, scoring="neg_max_error").fit(scale(X), scale(y), weight)
        assert model.best_score_ < 0.0


class TestRule:
    @staticmethod
    def scores(means, noise, n_splits=20):
        """Return scores whose cells differ by their means and by independent noise."""
        rng = np.random.default_rng(0)
        return np.asarray(means)[None] + noise * rng.standard_normal((n_splits, *np.shape(means)))

    def test_keeps_the_average_within_the_noise(self):
        scores = self.scores([[0.81], [0.80]], noise=0.1)
        assert choose_within_error(scores, 0.25) == (1, 0)

    def test_leaves_the_average_for_a_clear_gain(self):
        scores = self.scores([[0.85, 0.8], [0.9, 0.7], [0.8, 0.6]], noise=0.01)
        assert choose_best(scores) == (1, 0)
        assert choose_within_error(scores, 0.25) == (1, 0)

    def test_goes_no_further_than_the_scores_ask(self):
        scores = self.scores([[0.901], [0.9], [0.6]], noise=0.02)
        assert choose_within_error(scores, 0.25) == (1, 0)

    def test_takes_the_best_C_of_the_average(self):
        scores = self.scores([[0.5, 0.5, 0.5], [0.7, 0.9, 0.8]], noise=0.01)
        assert choose_within_error(scores, 0.25) == (1, 1)

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
        model = ATkClassifierCV(ks=4, Cs=3, cv=cv).fit(X, y)
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
        assert_allclose(default_ks(2, 0.0), [0.1, 1.0])

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
        model = ATkClassifierCV(ks=2, Cs=2, cv=2).fit(X, y)
        before = dict(vars(model))
        model.scoring = self.interrupting(after=5)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X[:, :-1], y)
        after = dict(vars(model)) | {"scoring": None}
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
        ("name", "message"), [("rmse", "for classification"), ("worst_group_error", "groups"), ("nonsense", "nonsense")]
    )
    def test_of_something_else_are_one_clear_error(self, noisy, model, name, message):
        with pytest.raises(ValueError, match=message):
            clone(model).set_params(scoring=name).fit(*noisy)

    def test_that_need_probabilities_say_so(self, noisy):
        with pytest.raises(ValueError, match="ATkClassifier has no probabilities"):
            ATkClassifier("hinge", k="auto", scoring="brier").fit(*noisy)


class TestAuto:
    """k = "auto" chooses from the same grid by the same rule, at the C given, on folds of mass."""

    @staticmethod
    def careful_choice(model, X, y, scorer, bound):
        """Return the choice of a plain loop: within 1 standard error on 5 folds, if that is below n 1.5 on ten."""
        samples = Distribution.of(X, y, np.ones(y.size), classification=bound is not None)
        ks, scores = default_ks(8, bound), []
        for seed, errors in enumerate((1.0, 1.5)):
            rows, mass, splits = samples.cut(5, seed)
            for train, test in splits:
                fits = [
                    clone(model).set_params(k=float(k)).fit(X[rows[train]], y[rows[train]], mass[train]) for k in ks
                ]
                scores.append([scorer(fit, X[rows[test]], y[rows[test]], sample_weight=mass[test]) for fit in fits])
            chosen = ks[choose_within_error(np.array(scores)[:, :, None], 0.25, errors)[0]]
            if chosen == 1.0:
                break
        return chosen

    @pytest.mark.parametrize(("scoring", "known"), [(None, "balanced_accuracy"), ("log_loss", "neg_log_loss")])
    def test_is_the_choice_of_a_plain_loop(self, noisy, scoring, known):
        X, y = noisy
        model = ATkClassifier(k="auto", C=10.0, scoring=scoring).fit(X, y)
        bound = ATkClassifierCV(Cs=[10.0], ks=2, cv=2).fit(X, y).calibration_bound_
        expected = self.careful_choice(ATkClassifier(C=10.0), X, y, get_scorer(known), bound)
        assert_allclose(model.k_share_, expected, rtol=1e-2)

    def test_of_a_regression(self):
        X, y = load_diabetes(return_X_y=True)
        X, y = scale(X), scale(y)
        model = ATkRegressor("absolute_error", k="auto", C=10.0).fit(X, y)
        scorer = get_scorer("neg_root_mean_squared_error")
        expected = self.careful_choice(ATkRegressor("absolute_error", C=10.0), X, y, scorer, None)
        assert_allclose(model.k_share_, expected)

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

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # a class of nobody against the rest
    def test_of_a_class_without_weight_is_that_of_the_others(self):
        X, y = load_iris(return_X_y=True)
        weight = (y < 2).astype(float)
        model = ATkClassifier(k="auto").fit(scale(X), y, sample_weight=weight)
        assert model.k_share_ == pytest.approx(ATkClassifier(k="auto").fit(scale(X)[:100], y[:100]).k_share_, rel=0.05)

    def test_of_a_class_of_one_sample_is_the_average(self):
        X = np.array([[0.0], [1.0], [2.0], [3.0]])
        assert ATkClassifier(k="auto").fit(X, [0, 0, 0, 1]).k_ == 4.0
