"""The outcome: what is recommended follows from the answer, and from what was seen on the test parts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from comparisons import grid

from atklearn.study.evidence import Mapped
from atklearn.study.outcome import Outcome, Question
from atklearn.study.pooling import Pair
from atklearn.study.verdicts import judge

N, FOLDS, REPEATS = 400, 5, 2
N_TRAIN, K = 320.0, 80.0
TRUTH = np.arange(N) % 2
NOISE = 0.001 * np.random.default_rng(0).standard_normal(3)
# Rows of the second class come first in these: wrong ones from the start, so that sides share them.
NEGATIVES = np.random.default_rng(1).permutation(np.flatnonzero(TRUTH == 0))


def said_with(wrong, fixable):
    """Return decisions wrong on so many rows, and on so many that a threshold of 1 puts right."""
    decisions = 3.0 * (2.0 * TRUTH - 1.0)
    decisions[NEGATIVES[:wrong]] = 3.0
    decisions[NEGATIVES[wrong : wrong + fixable]] = 0.5
    return decisions


def sides(average, atk, lead, rows, loss="log_loss", shift=-1.0, mapped_lead=None):
    """Return a grid whose average and AT_k say this; k leads in validation by so much, mapped sides as they are."""
    validation = np.full((3, 2, 1), 0.3) + NOISE[:, None, None]
    validation[:, 0] -= lead
    said = {(K, 1.0): atk[None, rows], (N_TRAIN, 1.0): average[None, rows]}
    mapped = {}
    for name, k, decisions in (("average", N_TRAIN, average), ("atk", K, atk)):
        errors = ((decisions + shift > 0.0) != TRUTH).mean() + NOISE
        if mapped_lead is not None:
            errors = 0.1 + NOISE - mapped_lead * (name == "atk")
        mapped[name, "error"] = Mapped(k, 1.0, (1.0, shift), errors)
    return grid(loss, "plain", {"error": validation}, N_TRAIN, [K, N_TRAIN], [1.0], mapped, said, rows)


def data_record():
    return {"task": "classification", "classes": ["no", "yes"], "truth": TRUTH.tolist(), "groups": None, "tail": 0.1,
            "clusters": None, "time": None, "n_folds": FOLDS, "n_used": N, "dataset": "made",
            "model": "linear"}  # fmt: skip


def parts():
    rng = np.random.default_rng(2)
    return [rows for _ in range(REPEATS) for rows in np.array_split(rng.permutation(N), FOLDS)]


def outcome(average, atk, lead=0.1, lead_on_all=None, shift=-1.0, others=(), mapped_lead=None):
    """Return the outcome where average and AT_k are wrong on so many rows and on so many that a map puts right."""
    said = said_with(*average), said_with(*atk)
    grids = {}
    for split, rows in [*enumerate(parts()), (None, np.arange(0))]:
        of_split = lead if split is not None or lead_on_all is None else lead_on_all
        grids[split] = [sides(*said, of_split, rows, shift=shift, mapped_lead=mapped_lead)]
        grids[split] += [replace(other, rows=rows, said={at: f[:, rows] for at, f in other.said.items()})
                         for other in others]  # fmt: skip
    return Outcome(grids, data_record(), Question("error"))


HELPS, HURTS, SAME, UNDECIDED = ((80, 0), (20, 0)), ((20, 0), (80, 0)), ((40, 0), (40, 0)), ((40, 0), (34, 0))


@pytest.mark.parametrize(
    ("counts", "lead_on_all", "answer", "share"),
    [
        (HELPS, 0.1, "helps", 0.25),
        (HELPS, -0.1, "helps", 0.25),  # which is what was seen
        (HURTS, 0.1, "hurts", 1.0),
        (SAME, 0.1, "same", 1.0),
        (UNDECIDED, 0.1, "undecided", 0.25),
        (UNDECIDED, -0.1, "undecided", 1.0),
    ],
)
def test_the_recommendation_follows_the_answer(counts, lead_on_all, answer, share):
    found = outcome(*counts, lead_on_all=lead_on_all)
    verdict = found.verdicts["error"]
    assert verdict.answer == answer
    assert (verdict.average, verdict.atk) == (counts[0][0] / N, counts[1][0] / N)
    assert found.recommendation.share == share
    assert found.recommendation.map is None
    assert {"helps": "better", "hurts": "worse", "same": "no better", "undecided": "a lean and no more"}[answer] in (
        found.recommendation.reason
    )


def test_where_validation_keeps_the_average_there_is_no_difference():
    found = outcome(*HELPS, lead=-0.1)
    verdict = found.verdicts["error"]
    assert (verdict.answer, verdict.difference.mean, verdict.k_share) == ("same", 0.0, 1.0)
    assert found.recommendation.share == 1.0


@pytest.mark.parametrize(("mapped_lead", "answer"), [(0.05, "hurts"), (None, "same")])
def test_a_map_that_beats_atk_is_recommended_with_the_average(mapped_lead, answer):
    """Whether AT_k led in validation and lost, or kept the mapped average itself."""
    found = outcome((0, 80), (20, 0), mapped_lead=mapped_lead)
    assert (found.verdicts["error"].answer, found.contests["error"].answer) == ("helps", answer)
    assert (found.recommendation.share, found.recommendation.map) == (1.0, (1.0, -1.0))
    assert {"hurts": "better still", "same": "nothing to gain"}[answer] in found.recommendation.reason
    verdict = found.map_verdicts["average"]
    assert (verdict.answer, verdict.average, verdict.atk) == ("helps", 0.2, 0.0)


@pytest.mark.parametrize(("mapped_lead", "answer"), [(0.05, "hurts"), (None, "same")])
def test_a_lean_towards_atk_yields_to_a_map_that_was_seen_to_be_enough(mapped_lead, answer):
    found = outcome((0, 40), (34, 0), mapped_lead=mapped_lead)
    assert (found.verdicts["error"].answer, found.contests["error"].answer) == ("undecided", answer)
    assert (found.recommendation.share, found.recommendation.map) == (1.0, (1.0, -1.0))
    assert "undecided on the test parts" in found.recommendation.reason
    assert {"hurts": "better still", "same": "nothing to gain"}[answer] in found.recommendation.reason


def test_a_map_that_helps_goes_with_the_winner():
    found = outcome((60, 20), (0, 20))
    assert (found.verdicts["error"].answer, found.contests["error"].answer) == ("helps", "helps")
    assert (found.recommendation.share, found.recommendation.map) == (0.25, (1.0, -1.0))
    found = outcome((20, 40), (20, 40))
    assert found.verdicts["error"].answer == "same"
    assert (found.recommendation.share, found.recommendation.map) == (1.0, (1.0, -1.0))


@pytest.mark.parametrize(("shift", "answer"), [(1.0, "same"), (4.0, "hurts")])
def test_no_map_is_recommended_that_was_not_seen_to_help(shift, answer):
    for counts in (HELPS, HURTS, SAME, UNDECIDED):
        found = outcome(*counts, shift=shift)
        assert {verdict.answer for verdict in found.map_verdicts.values()} == {answer}
        assert found.recommendation.map is None


@pytest.mark.parametrize("answer", ["helps", "hurts", "same", "undecided"])
@pytest.mark.parametrize("contest", ["helps", "hurts", "same", "undecided"])
@pytest.mark.parametrize("seen", ["helps", "same", "undecided"])
def test_of_all_that_may_be_seen(answer, contest, seen):
    """Whatever the three families say, what is recommended is what they saw to be no worse than the rest."""
    found = outcome(*SAME)
    verdict = judge({"error": Pair(0.3, 0.2, 0.01)}, {"error": [0.25]}, margin=0.01, n_rows=N, n_splits=10, n_folds=5)
    found.verdicts, found.contests = ({"error": replace(verdict["error"], answer=of)} for of in (answer, contest))
    found.map_verdicts = {side: replace(verdict["error"], answer=seen) for side in ("average", "atk")}
    advice = found.recommendation
    beaten = answer in ("helps", "undecided") and contest == "hurts"
    assert (advice.share < 1.0) == (answer in ("helps", "undecided") and not beaten)
    assert (advice.map is not None) == (seen == "helps" or beaten)


def test_within_log_loss_other_losses_are_not_asked():
    """Another loss whose average is best of all leaves AT_k nothing to win, but for those who need probabilities."""
    everything = np.arange(N)
    best = sides(said_with(0, 0), said_with(0, 0), -0.1, everything, loss="squared_hinge")
    best.validation["error"][:] -= 0.25
    found = outcome(*HELPS, others=[best])
    assert found.verdicts["error"].answer == "same"
    assert found.verdicts["error"].average == 0.0
    within = found.within_log_loss["error"]
    assert (within.answer, within.average, within.atk) == ("helps", 0.2, 0.05)
    assert outcome(*HELPS).within_log_loss == {}
    assert found.recommendation.loss == "squared_hinge"


def test_the_score_comes_first_and_counts():
    found = outcome(*HELPS)
    for of in (*found.splits, found.all_rows):
        of[0].validation["g_mean"] = 1.0 - of[0].validation["error"]
        of[0].test["g_mean"] = 1.0 - of[0].test["error"]
    assert found.measures == ["error", "g_mean"]
    found = Outcome(dict(enumerate(found.splits)) | {None: found.all_rows}, found.data, Question("g_mean"))
    assert found.measures == ["g_mean", "error"]
    assert list(found.verdicts) == ["g_mean", "error"]
    assert "G-mean" in found.recommendation.reason


def test_a_wider_margin_asks_for_more():
    found = outcome(*HELPS)
    grids = dict(enumerate(found.splits)) | {None: found.all_rows}
    wide = Outcome(grids, found.data, Question("error", 0.3))
    assert (wide.verdicts["error"].answer, wide.recommendation.share) == ("same", 1.0)


def test_questions_are_checked():
    assert Question.about("regression", has_groups=False) == Question("rmse", 0.01)
    assert Question.about("classification", has_groups=True, score="worst_group_error", margin=0.0).margin == 0.0
    for wrong in ({"score": "rmse"}, {"score": "worst_group_error"}, {"margin": 1.0}, {"margin": -0.1}):
        with pytest.raises(ValueError, match="expected to be"):
            Question.about("classification", has_groups=False, **wrong)
