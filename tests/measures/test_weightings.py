"""Measures under many weightings at once are those under each of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from atklearn.measures import Answers
from atklearn.measures.catalogue import evaluate_by_group, evaluate_measures, names_of_measures

N, N_WEIGHTINGS = 40, 6
# A class without weight is told apart all the same; one that is not there is not asked about.
RANKING = {"roc_auc", "average_precision"}


def weightings(y=None, groups=None, seed=1):
    """Return draws with replacement, fractions, and draws without a class and without a group."""
    rng = np.random.default_rng(seed)
    weights = rng.multinomial(N, np.full(N, 1.0 / N), N_WEIGHTINGS).astype(np.float64)
    weights[1] = rng.random(N)
    if y is not None:
        weights[2, y == 0] = 0.0
    if groups is not None:
        weights[3, groups == "a"] = 0.0
    return weights


def answers_about(kind, fits=(2, 3), seed=0):
    rng = np.random.default_rng(seed)
    groups = rng.choice(["a", "b", "c"], N)
    if kind == "numbers":
        return Answers.from_decisions(rng.standard_normal((*fits, 1, N)), rng.standard_normal(N), None, groups=groups)
    y = rng.integers(0, kind, N)
    decisions = rng.integers(-3, 4, (*fits, 1 if kind == 2 else kind, N)) + 0.5  # with ties
    return Answers.from_decisions(decisions, y, np.arange(kind), loss="log_loss", groups=groups)


@pytest.mark.parametrize("kind", [2, 3, "numbers"])
@pytest.mark.parametrize("fits", [(), (2, 3)])
def test_all_at_once_is_one_by_one(kind, fits):
    answers = answers_about(kind, fits)
    weights = weightings(None if kind == "numbers" else answers.y, answers.groups)
    at_once = replace(answers, sample_weight=weights.reshape(N_WEIGHTINGS, *[1] * len(fits), N))
    found, groups_found = evaluate_measures(at_once), evaluate_by_group(at_once)
    assert set(found) == set(names_of_measures(answers.task))
    for place, weight in enumerate(weights):
        alone = replace(answers, sample_weight=weight)
        for name, values in evaluate_measures(alone).items():
            assert found[name].shape == (N_WEIGHTINGS, *fits)
            assert np.isfinite(values).all(), name
            assert_allclose(found[name][place], values, rtol=1e-12, err_msg=f"{name}, weighting {place}")
        for group, values in evaluate_by_group(alone).items():
            assert_allclose(groups_found[group][place], values, rtol=1e-12, err_msg=group)


@pytest.mark.parametrize("kind", [2, 3, "numbers"])
def test_samples_without_weight_are_not_there(kind):
    answers = answers_about(kind)
    weights = weightings(None if kind == "numbers" else answers.y, answers.groups)
    found = evaluate_measures(replace(answers, sample_weight=weights[:, None, None]))
    for place, weight in enumerate(weights):
        there = weight > 0.0
        left = replace(answers.about(there), sample_weight=weight[there], groups=answers.groups[there])
        for name, values in evaluate_measures(left).items():
            if name not in RANKING or place != 2:
                assert_allclose(found[name][place], values, rtol=1e-12, err_msg=f"{name}, weighting {place}")


@pytest.mark.parametrize("kind", [2, 3, "numbers"])
def test_whole_weights_are_repetitions(kind):
    answers = answers_about(kind)
    draws = weightings()[[0, 4, 5]]
    found = evaluate_measures(replace(answers, sample_weight=draws[:, None, None]))
    for place, draw in enumerate(draws):
        rows = np.arange(N).repeat(draw.astype(int))
        repeated = replace(
            answers,
            y=answers.y[rows],
            predictions=answers.predictions[..., rows],
            decisions=answers.decisions[..., rows],
            probabilities=None if answers.probabilities is None else answers.probabilities[..., rows],
            groups=answers.groups[rows],
        )
        for name, values in evaluate_measures(repeated).items():
            assert_allclose(found[name][place], values, rtol=1e-12, err_msg=name)


def test_a_class_alone_has_a_value_for_every_weighting():
    decisions = np.random.default_rng(0).standard_normal((2, 1, N))
    alone = Answers.from_decisions(decisions, np.ones(N, dtype=int), np.array([0, 1]))
    found = evaluate_measures(replace(alone, sample_weight=weightings()[:, None]))
    assert {values.shape for values in found.values()} == {(N_WEIGHTINGS, 2)}
    assert (found["roc_auc"] == 0.5).all()
