"""How many samples to set aside: cross-validation against scikit-learn's own, jumps against a definition by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.dummy import DummyRegressor
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from atklearn import ATkClassifier, ATkRegressor, choose_trim, trim_at_jump
from atklearn.selection.trimming import TrimChoice


@pytest.fixture(scope="module")
def broken_sensors():
    """A line with 8 % of the targets far off."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2))
    y = X @ [1.0, 2.0] + 0.1 * rng.standard_normal(200)
    y[:16] += 50.0
    order = rng.permutation(200)
    return X[order], y[order]


@pytest.fixture(scope="module")
def exchanged_labels():
    """Two separate classes, and some exchanged labels of points far out."""
    rng = np.random.default_rng(1)
    truth = rng.choice(["no", "yes"], 200)
    X = np.where(truth == "yes", 1.0, -1.0)[:, None] * [1.5, 0.0] + 0.4 * rng.standard_normal((200, 2))
    wrong = rng.random(200) < 0.1
    X[wrong, 0] *= 10.0  # far out, so that they turn the fit
    return X, np.where(wrong, np.where(truth == "yes", "no", "yes"), truth)


class TestChoosing:
    TRIMS = (0.0, 0.1, 0.2)

    def test_scores_are_those_of_a_grid_search(self, broken_sensors):
        X, y = broken_sensors
        model, cv = ATkRegressor(k=1.0, n_init=0), KFold(4, shuffle=True, random_state=3)
        choice = choose_trim(model, X, y, trims=self.TRIMS, cv=cv, scoring="r2", rule="best")
        search = GridSearchCV(model, {"trim": self.TRIMS}, cv=cv, scoring="r2").fit(X, y)
        assert_allclose(choice.means, search.cv_results_["mean_test_score"])
        assert_allclose(choice.scores.std(axis=0), search.cv_results_["std_test_score"])
        assert choice.trim == search.best_params_["trim"]
        assert choice.scores.shape == (4, 3)
        assert not hasattr(model, "coef_")

    def test_broken_sensors_are_set_aside_and_no_more(self, broken_sensors):
        X, y = broken_sensors
        choice = choose_trim(ATkRegressor(k=1.0, n_init=0), X, y, trims=self.TRIMS, cv=5)
        assert choice.trim == 0.1
        by_mean_of_squares = choose_trim(ATkRegressor(k=1.0, n_init=0), X, y, trims=self.TRIMS, cv=5, scoring="rmse")
        assert by_mean_of_squares.trim == 0.0  # hostage to the outliers that judge

    def test_exchanged_labels_in_a_pipeline(self, exchanged_labels):
        X, y = exchanged_labels
        model = make_pipeline(StandardScaler(), ATkClassifier(k=1.0))
        named = {"trims": self.TRIMS, "parameter": "atkclassifier__trim"}
        choice = choose_trim(model, X, y, cv=4, **named)
        assert choice.trim == 0.1  # 7.5 % of the labels are wrong
        splits = list(StratifiedKFold(4).split(X, y))
        assert_array_equal(choose_trim(model, X, y, cv=splits, scoring="accuracy", **named).scores, choice.scores)
        assert_allclose(choose_trim(model, X, y, cv=4, scoring="error", **named).scores, choice.scores - 1.0)

    def test_clean_data_keep_all_samples(self, broken_sensors):
        X, _ = broken_sensors
        y = X @ [1.0, 2.0] + np.random.default_rng(5).standard_normal(200)
        assert choose_trim(ATkRegressor(k=1.0, n_init=0), X, y, trims=self.TRIMS).trim == 0.0

    def test_splits_are_the_same_for_all_and_repeat_with_the_seed(self, broken_sensors):
        X, y = broken_sensors
        model = ATkRegressor(k=1.0, n_init=0)
        first, again = (choose_trim(model, X, y, trims=(0.0,), random_state=7).scores for _ in range(2))
        assert_array_equal(first, again)
        assert first.shape == (25, 1)
        assert (first != choose_trim(model, X, y, trims=(0.0,), random_state=8).scores).any()

    @pytest.mark.parametrize("rule", ["best", "one_standard_error"])
    def test_the_rules_by_hand(self, rule):
        """A stand-in whose scores are known: best at 0.2, and at 0.1 close to it but for the rows it is judged on."""
        X, y = np.zeros((20, 1)), np.arange(20.0)

        def score(model, X, y):  # noqa: ARG001
            return -abs(model.quantile - 0.2) + (0.01 * y.mean() if model.quantile == 0.1 else 0.0)

        choice = choose_trim(
            DummyRegressor(strategy="quantile"), X, y, trims=(0.3, 0.1, 0.2, 0.2), cv=4, scoring=score, rule=rule,
            parameter="quantile",
        )  # fmt: skip
        assert choice.trims == (0.1, 0.2, 0.3)
        folds = 0.01 * np.array([2.0, 7.0, 12.0, 17.0])
        expected = np.column_stack([folds - 0.1, np.zeros(4), np.full(4, -0.1)])
        assert_allclose(choice.scores, expected, atol=1e-15)
        assert_allclose(choice.means, [-0.005, 0.0, -0.1], atol=1e-15)
        assert_allclose(choice.errors, [folds.std(ddof=1) * np.sqrt(1 / 4 + 5 / 15), 0.0, 0.0], atol=1e-15)
        assert choice.trim == {"best": 0.2, "one_standard_error": 0.1}[rule]

    def test_equals_go_to_the_smallest(self):
        choice = choose_trim(DummyRegressor(quantile=0.5), np.zeros((9, 1)), np.zeros(9), cv=3, parameter="quantile")
        assert choice.trim == 0.0
        assert choice.trims == (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3)

    def test_counts_stay_counts(self, broken_sensors):
        X, y = broken_sensors
        choice = choose_trim(ATkRegressor(k=1.0, n_init=0), X, y, trims=(0, 16), cv=3)
        assert choice.trim == 16
        assert isinstance(choice.trim, int)

    def test_the_table(self):
        table = str(TrimChoice(0.0, (0.0, 0.25), np.zeros((2, 2)), np.array([-1e5 / 3, -1e-5]), np.array([2.5, 0.0])))
        lines = table.splitlines()
        assert len(lines) == 3
        assert lines[1].split() == ["0", "-33333", "3.33e+04", "2.5", "chosen"]
        assert lines[2].split() == ["0.25", "-1e-05", "0", "0", "best"]
        assert max(map(len, lines)) <= 80

    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            ({"rule": "median"}, "one_standard_error"),
            ({"parameter": "trimm"}, "try 'trim'"),
            ({"trims": ()}, "got none"),
            ({"trims": (0.1, 5)}, "all shares"),
            ({"trims": (-0.1,)}, "trim is expected"),
            ({"trims": (1.0,)}, "fraction"),
            ({"trims": (150,), "cv": 4}, "below 150"),
            ({"scoring": "balanced_error"}, "regression"),
            ({"scoring": lambda model, X, y: np.nan, "trims": (0.0,), "cv": 2}, "finite"),  # noqa: ARG005
        ],
    )
    def test_refusals(self, broken_sensors, arguments, expected):
        with pytest.raises(ValueError, match=expected):
            choose_trim(ATkRegressor(k=1.0), *broken_sensors, **arguments)

    def test_an_estimator_that_trims_nothing(self, broken_sensors):
        with pytest.raises(ValueError, match="none of its parameters"):
            choose_trim(DummyRegressor(), *broken_sensors)


def prominences_by_hand(losses, small):
    """Return i log(l_i / l_{i+1}) over the median of the 25 below, for all that have as many; losses all different."""
    ordered = np.sort(losses)[::-1] + small
    sizes = np.arange(1, losses.size) * np.log(ordered[:-1] / ordered[1:])
    return np.array([sizes[i] / np.median(sizes[i + 1 : i + 26]) for i in range(sizes.size - 25)])


TAILS = {
    "squared gauss": lambda rng: rng.standard_normal(400) ** 2,
    "absolute gauss": lambda rng: abs(rng.standard_normal(400)),
    "squared student": lambda rng: rng.standard_t(3, 400) ** 2,
    "squared cauchy": lambda rng: rng.standard_cauchy(400) ** 2,
    "logistic": lambda rng: np.logaddexp(0.0, -logistic_margins(rng, 1.0)),
    "steep logistic": lambda rng: np.logaddexp(0.0, -logistic_margins(rng, 10.0)),
    "hinge": lambda rng: np.maximum(1.0 - logistic_margins(rng, 2.0), 0.0),
}


def logistic_margins(rng, slope):
    scores = slope * abs(rng.standard_normal(400))
    return np.where(rng.random(400) < 1.0 / (1.0 + np.exp(-scores)), scores, -scores)


def far_outliers(rng, n=400, share=0.1):
    residuals = rng.standard_normal(n)
    count = round(share * n)
    residuals[:count] = rng.uniform(10.0, 30.0, count)
    return residuals**2


class TestJump:
    def test_prominence_is_the_definition(self):
        losses = np.random.default_rng(2).exponential(size=300)
        found = prominences_by_hand(losses, np.sort(losses)[30])  # which a tenth of them lies below
        jump = trim_at_jump(losses)
        assert jump.prominence == pytest.approx(found[:150].max())
        assert trim_at_jump(losses, most=0.1).prominence == pytest.approx(found[:30].max())

    def test_what_is_needed_is_what_smooth_tails_exceed_that_often(self):
        """The product formula against a simulation at 5 times the median; what is needed makes it 1e-3 in all."""
        rng = np.random.default_rng(0)
        exceeded = rng.exponential(size=200_000) > 5.0 * np.median(rng.exponential(size=(200_000, 25)), axis=1)
        rates = 25.0 - np.arange(13)
        assert np.prod(rates / (rates + 5.0)) == pytest.approx(exceeded.mean(), rel=0.05)
        jump = trim_at_jump(rng.exponential(size=300))
        assert 150 * np.prod(rates / (rates + jump.needed)) == pytest.approx(1e-3)

    @pytest.mark.parametrize("tail", TAILS)
    def test_without_outliers_nothing_is_trimmed(self, tail):
        for seed in range(10):
            jump = trim_at_jump(TAILS[tail](np.random.default_rng(seed)))
            assert not jump.is_clear
            assert (jump.trim, jump.count, jump.threshold) == (0.0, 0, np.inf)
            assert 0.0 < jump.prominence <= jump.needed

    @pytest.mark.parametrize("share", [0.05, 0.2, 0.45])
    def test_far_outliers_are_counted(self, share):
        for seed in range(10):
            losses = far_outliers(np.random.default_rng(seed), share=share)
            jump = trim_at_jump(losses)
            assert jump.is_clear
            assert jump.count == round(share * 400)
            assert jump.trim == pytest.approx(share)
            assert (losses > jump.threshold).sum() == jump.count
            assert losses[jump.count :].max() < jump.threshold < losses[: jump.count].min()

    @pytest.mark.parametrize("loss", [lambda m: np.logaddexp(0.0, -m), lambda m: np.maximum(1.0 - m, 0.0)])
    def test_exchanged_labels_of_separated_classes_are_counted(self, loss):
        margins = 1.0 + 2.0 * abs(np.random.default_rng(3).standard_normal(400))
        margins[:40] *= -1.0
        assert trim_at_jump(loss(margins)).count == 40

    def test_a_fit_that_sets_much_aside_shows_the_jump(self, broken_sensors):
        X, y = broken_sensors
        model = ATkRegressor(trim=0.3, n_init=0).fit(X, y)
        assert trim_at_jump((y - model.predict(X)) ** 2).count == 16

    def test_it_does_not_look_beyond_the_most(self):
        losses = far_outliers(np.random.default_rng(0), share=0.2)
        assert trim_at_jump(losses, most=0.2).count == 80
        assert trim_at_jump(losses, most=0.15).count == 0

    def test_units_and_order_do_not_matter(self):
        losses = far_outliers(np.random.default_rng(4))
        jump, scaled = trim_at_jump(losses), trim_at_jump(1e-6 * losses[::-1])
        assert (scaled.count, scaled.prominence) == (jump.count, pytest.approx(jump.prominence))
        assert scaled.threshold == pytest.approx(1e-6 * jump.threshold)

    @pytest.mark.parametrize("draw", [far_outliers, TAILS["hinge"], TAILS["logistic"]])
    def test_weighting_is_repeating(self, draw):
        rng = np.random.default_rng(6)
        losses = draw(rng)
        counts = rng.integers(0, 4, losses.size)
        weighted, repeated = trim_at_jump(losses, sample_weight=counts), trim_at_jump(np.repeat(losses, counts))
        assert weighted.count is None
        for name in ("trim", "threshold", "prominence", "needed"):
            assert getattr(weighted, name) == pytest.approx(getattr(repeated, name))
        light = trim_at_jump(losses, sample_weight=counts / 1e3)
        assert (light.trim, light.prominence) == (pytest.approx(weighted.trim), pytest.approx(weighted.prominence))

    @pytest.mark.parametrize("losses", [np.zeros(50), np.ones(50), [0.0, 1.0], [3.0], np.repeat([0.1, 5.0], [90, 10])])
    def test_too_few_different_losses_have_no_jump(self, losses):
        jump = trim_at_jump(losses)
        assert (jump.trim, jump.prominence, jump.needed, jump.is_clear) == (0.0, 0.0, np.inf, False)

    def test_it_says_what_it_found(self):
        clear = str(trim_at_jump(far_outliers(np.random.default_rng(0))))
        assert clear.startswith("trim 0.1, above a loss of ")
        assert str(trim_at_jump(np.linspace(0.0, 1.0, 100))).startswith("no clear jump: ")

    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            ({"losses": [-1.0, 2.0]}, "at least 0"),
            ({"losses": []}, "non-empty"),
            ({"losses": [1.0, 2.0], "most": 0.0}, "most"),
            ({"losses": [1.0, 2.0], "most": 0.6}, "most"),
            ({"losses": [1.0, 2.0], "sample_weight": [1.0]}, "sample_weight"),
        ],
    )
    def test_refusals(self, arguments, expected):
        with pytest.raises(ValueError, match=expected):
            trim_at_jump(**arguments)
