"""Verdicts: Holm's procedure and its intervals, a margin within which nothing matters, and what would settle it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from atklearn.measures import MEASURES
from atklearn.study.pooling import Pair
from atklearn.study.verdicts import SIGNIFICANCE, Difference, judge, paired_difference

SPLITS, FOLDS = 20, 10
DEFAULTS = {"margin": 0.01, "n_rows": 1000, "n_splits": SPLITS, "n_folds": FOLDS}


def judged(pairs, **changes):
    return judge(pairs, {name: [0.2, 0.3, 0.9] for name in pairs}, **{**DEFAULTS, **changes})


def alone(average, atk, error, measure="error", **changes):
    return judged({measure: Pair(average, atk, error)}, **changes)[measure]


def many_pairs(seed):
    rng = np.random.default_rng(seed)
    return {name: Pair(0.5, 0.5 + 0.08 * rng.standard_normal(), 0.02) for name in MEASURES}


def test_with_independent_splits_it_is_the_t_test():
    differences = np.random.default_rng(0).standard_normal(12) + 0.4
    assert paired_difference(differences, 0.0).p_value == pytest.approx(stats.ttest_1samp(differences, 0.0).pvalue)


def test_overlap_makes_the_test_cautious():
    differences = [-2.0, -1.0, -1.5, -2.5, -0.5]
    plain, corrected = (paired_difference(differences, ratio) for ratio in (0.0, 1 / 3))
    # Nadeau and Bengio (2003): the variance of the mean is s^2 (1/J + n_test/n_train)
    assert corrected.error == pytest.approx(np.std(differences, ddof=1) * np.sqrt(1 / 5 + 1 / 3))
    assert corrected.p_value > plain.p_value


def test_no_difference_is_no_evidence():
    assert paired_difference([0.0] * 5, 1 / 3).p_value == 1.0
    assert paired_difference([0.7], 1 / 3).p_value == 1.0


def test_errors_over_rows_and_over_folds_tell_the_same():
    """The spread over rows, widened, is the corrected standard error of the means over random folds."""
    rng = np.random.default_rng(0)
    of_rows = 0.1 + rng.standard_normal(2000)
    over_folds = [
        paired_difference([part.mean() for part in np.split(rng.permutation(of_rows), FOLDS)], 1 / (FOLDS - 1)).error
        for _ in range(200)
    ]
    found = alone(0.0, 0.1, of_rows.std() / np.sqrt(2000), n_splits=FOLDS)
    assert found.difference.error == pytest.approx(np.sqrt(np.mean(np.square(over_folds))), rel=0.05)


@pytest.mark.parametrize("seed", range(5))
def test_intervals_are_without_zero_exactly_where_holm_finds_a_difference(seed):
    pairs = many_pairs(seed)
    error = 0.02 * np.sqrt(FOLDS * (1 / SPLITS + 1 / (FOLDS - 1)))
    p_values = {name: 2 * stats.t(SPLITS - 1).sf(abs(pair.atk - pair.average) / error) for name, pair in pairs.items()}
    rejected = set()
    for step, name in enumerate(sorted(p_values, key=p_values.get)):
        if p_values[name] >= SIGNIFICANCE / (len(p_values) - step):
            break
        rejected.add(name)
    assert 0 < len(rejected) < len(pairs)
    found = judged(pairs, margin=0.0)
    for name, verdict in found.items():
        assert verdict.difference.p_value == pytest.approx(p_values[name])
        assert (verdict.low > 0.0 or verdict.high < 0.0) == (name in rejected)
        assert (verdict.answer in ("helps", "hurts")) == (name in rejected)
        width = stats.t(SPLITS - 1).isf(verdict.level / 2) * error
        mean = pairs[name].atk - pairs[name].average
        np.testing.assert_allclose([verdict.low, verdict.high, verdict.detectable], [mean - width, mean + width, width])


def test_after_the_first_that_is_not_found_none_is():
    """Two that would each be found at a later step are not, as Holm's procedure has ended before them."""
    widened = np.sqrt(FOLDS * (1 / SPLITS + 1 / (FOLDS - 1)))
    pairs = {
        name: Pair(0.0, stats.t(SPLITS - 1).isf(p / 2) * widened * 0.01, 0.01)
        for name, p in {"error": 0.02, "balanced_error": 0.022, "worst_class_error": 0.03}.items()
    }
    found = judged(pairs, margin=0.0)
    assert [verdict.difference.p_value for verdict in found.values()] == pytest.approx([0.02, 0.022, 0.03])
    assert {verdict.answer for verdict in found.values()} == {"undecided"}
    assert all(verdict.low < 0.0 < verdict.high for verdict in found.values())


def test_more_measures_need_more_evidence():
    pair = Pair(0.3, 0.27, 0.01)
    assert alone(0.3, 0.27, 0.01).answer == "helps"
    among = judged({"error": pair, **{name: Pair(0.5, 0.5, 0.01) for name in list(MEASURES)[1:10]}})
    assert among["error"].answer == "undecided"
    assert among["error"].level == pytest.approx(SIGNIFICANCE / 10)


@pytest.mark.parametrize(
    ("average", "atk", "error", "measure", "answer"),
    [
        (0.30, 0.20, 0.010, "error", "helps"),
        (0.20, 0.30, 0.010, "error", "hurts"),
        (0.70, 0.80, 0.010, "g_mean", "helps"),
        (0.80, 0.70, 0.010, "g_mean", "hurts"),
        (0.30, 0.302, 0.001, "error", "same"),
        (0.30, 0.295, 0.0001, "error", "same"),  # sure, but too small to matter
        (0.30, 0.28, 0.020, "error", "undecided"),
        (0.30, 0.30, 0.020, "error", "undecided"),
        (0.30, 0.291, 0.002, "error", "undecided"),  # more than none, perhaps less than what matters
        (50.0, 45.0, 1.0, "rmse", "helps"),
        (50.0, 49.9, 0.1, "rmse", "same"),  # a margin of one hundredth of 50
        (0.30, 0.30, 0.0, "error", "same"),
    ],
)
def test_the_four_answers(average, atk, error, measure, answer):
    verdict = alone(average, atk, error, measure)
    assert verdict.answer == answer
    assert (verdict.average, verdict.atk, verdict.k_share) == (average, atk, 0.3)
    assert (verdict.remedy is None) == (answer != "undecided")
    assert (verdict.relative > 0.0) == (MEASURES[measure].sign * (atk - average) > 0.0)


def test_without_a_margin_only_the_same_is_the_same():
    assert alone(0.3, 0.3, 0.0, margin=0.0).answer == "same"
    for difference in (0.0, 1e-9, 0.01):
        for error in (1e-12, 1e-3, 0.1):
            assert alone(0.3, 0.3 + difference, error, margin=0.0).answer != "same"
    assert alone(0.3, 0.3 + 1e-9, 0.0, margin=0.0).answer == "hurts"


def test_wider_margins_make_more_the_same():
    order = ["helps", "undecided", "same"]
    answers = [alone(0.3, 0.28, 0.004, margin=margin).answer for margin in np.linspace(0.0, 0.1, 50)]
    assert set(answers) == set(order)
    assert answers == sorted(answers, key=order.index)


def test_more_splits_are_what_the_formula_says():
    rng = np.random.default_rng(0)
    spread = rng.standard_normal(8)
    difference = paired_difference(spread, 1 / 9)
    for n_splits in (8, 16, 80):
        more = difference.with_splits(n_splits)
        assert more.error == pytest.approx(spread.std(ddof=1) * np.sqrt(1 / n_splits + 1 / 9))
        assert (more.mean, more.n_splits) == (difference.mean, n_splits)
    judged_then = alone(0.3, 0.28, 0.02).difference.with_splits(60)
    assert judged_then.error == pytest.approx(alone(0.3, 0.28, 0.02, n_splits=60).difference.error)


def test_the_interval_holds_what_it_says():
    difference = Difference(0.0, 0.3, 12, 1 / 9)
    for level in (0.05, 0.2):
        assert difference.within(difference.half_width(level)) == pytest.approx(1.0 - level)
    assert Difference(0.2, 0.0, 12, 1 / 9).within(0.1) == 0.0
    assert Difference(0.2, float("inf"), 1, 1 / 9).within(0.1) == 0.0


@pytest.mark.parametrize(
    ("atk", "error", "settled"),
    [(0.27, 0.0118, "helps"), (0.27, 0.0128, "helps"), (0.33, 0.0128, "hurts"), (0.301, 0.0039, "same")],
)
def test_the_repeats_that_are_named_settle_it_and_fewer_do_not(atk, error, settled):
    verdict = alone(0.3, atk, error)
    assert verdict.answer == "undecided"
    repeats = verdict.remedy.repeats
    assert repeats > SPLITS // FOLDS
    assert alone(0.3, atk, error, n_splits=repeats * FOLDS).answer == settled
    assert alone(0.3, atk, error, n_splits=(repeats - 1) * FOLDS).answer == "undecided"


def test_where_repeats_cannot_settle_it_rows_may():
    verdict = alone(0.3, 0.28, 0.02)
    assert verdict.remedy.repeats is None
    rows = verdict.remedy.rows
    assert alone(0.3, 0.28, 0.02, n_splits=50 * FOLDS).answer == "undecided"
    for factor, answer in ((1.02, "helps"), (0.98, "undecided")):  # errors fall with the root of the rows
        assert alone(0.3, 0.28, 0.02 * np.sqrt(DEFAULTS["n_rows"] / (factor * rows))).answer == answer


def test_nothing_settles_what_is_far_too_small():
    assert alone(0.3, 0.3 - 0.0101, 0.5).remedy.repeats is None
    assert alone(0.3, 0.3 - 0.0101, 0.5).remedy.rows is None
    assert alone(0.3, 0.3, 0.5, margin=0.0).remedy.rows is None
