"""What cells say: choices by validation alone, a test that knows that splits overlap, a verdict that follows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from atklearn.study.evidence import collect_grids, compare_methods, paired_difference, ratio_of_parts, recommend
from atklearn.study.methods import ANY, Method
from atklearn.study.results import cell_record

N, KS, CS = 100.0, [1.0, 20.0, 50.0, 100.0], [1.0, 10.0]
LOSSES, WEIGHTS = ("log_loss", "hinge"), ("plain", "balanced")


def cells(validation, test, n_splits=6, n_folds=5, seed=0):
    """Return the cells of a comparison whose errors are given by k and C, with a little noise."""
    rng = np.random.default_rng(seed)
    records = []
    for split, loss, weights in itertools.product([*range(n_splits), None], LOSSES, WEIGHTS):
        noise = 0.01 * rng.standard_normal(n_folds)  # of the folds, alike for all fits on them
        for k, C in itertools.product(KS, CS):
            on_folds = validation(k, C) + noise
            on_test = {} if split is None else {"error": test(k, C) + 0.001 * rng.standard_normal()}
            records.append(
                cell_record(dataset="a", loss=loss, weights=weights, split=split, k=k, n=N, C=C, tol=1e-3,
                            gaps=None, validation={"error": on_folds.tolist()}, test=on_test, n_folds=n_folds)
            )  # fmt: skip
    return records


def outcome(records):
    grids = collect_grids(records, "a")
    return grids, compare_methods(grids, "error", ratio_of_parts({"train": 0.75, "test": 0.25}))


def better_at_50(k, C):
    return 0.3 - 0.1 * (k == 50.0) - 0.01 * (C == 10.0)


def flat(k, C):
    return 0.3 - 0.01 * (C == 10.0) + 0.2 * (k == 1.0)


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


@pytest.mark.parametrize(
    ("validation", "test", "verdict"),
    [
        (better_at_50, better_at_50, "helps"),
        (flat, flat, "none"),
        (better_at_50, lambda k, C: 0.5 - better_at_50(k, C), "hurts"),
        (flat, better_at_50, "none"),
    ],
)
def test_the_verdict(validation, test, verdict):
    _, found = outcome(cells(validation, test))
    assert found.verdict == verdict


def test_choices_do_not_look_at_the_test_part():
    _, first = outcome(cells(better_at_50, better_at_50))
    _, second = outcome(cells(better_at_50, lambda k, _: k / N))
    for method, choices in first.choices.items():
        assert [(c.k, c.C) for c in choices] == [(c.k, c.C) for c in second.choices[method]]


def test_maximum_and_average_choose_C_alone():
    _, found = outcome(cells(better_at_50, better_at_50))
    for loss in LOSSES:
        assert {(c.k, c.C) for c in found.choices[Method("maximum", loss, "plain")]} == {(1.0, 10.0)}
        for weights in WEIGHTS:
            assert {(c.k, c.C) for c in found.choices[Method("average", loss, weights)]} == {(N, 10.0)}
            assert {c.k for c in found.choices[Method("atk", loss, weights)]} == {50.0}


def test_the_average_is_kept_where_nothing_is_gained():
    _, found = outcome(cells(flat, flat))
    assert all(choice.share == 1.0 for choice in found.choices[Method("atk", "log_loss", "plain")])


def test_the_order_of_the_records_does_not_matter():
    records = cells(better_at_50, better_at_50)
    _, first = outcome(records)
    _, second = outcome([records[i] for i in np.random.default_rng(1).permutation(len(records))])
    assert first == second
    assert list(first.choices) == list(second.choices)


@pytest.mark.parametrize(("shape", "share"), [(better_at_50, 0.5), (flat, 1.0)])
def test_the_recommendation_follows_the_verdict(shape, share):
    grids, found = outcome(cells(shape, shape))
    advice = recommend(found, grids[None])
    assert advice.share == share
    assert advice.C == 10.0
    assert ("no better" in advice.reason) == (share == 1.0)


def test_the_best_of_a_kind_is_chosen_by_validation():
    _, found = outcome(cells(better_at_50, better_at_50))
    for i, choice in enumerate(found.choices[Method("atk", ANY, ANY)]):
        own = [c[i] for m, c in found.choices.items() if m.aggregate == "atk" and m.loss != ANY]
        assert choice.validation == min(c.validation for c in own)
