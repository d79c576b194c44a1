"""Choices: by validation alone, each measure for itself, and the average unless a smaller k leads."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from comparisons import grid

from atklearn.study.evidence import Mapped, best_below_all, choose, collect_grids, leads, method_choices
from atklearn.study.methods import Method
from atklearn.study.results import cell_record

N, KS, CS = 100.0, [1.0, 20.0, 50.0, 100.0], [1.0, 10.0]
LOSSES, WEIGHTS = ("log_loss", "squared_hinge"), ("plain", "balanced")
NOISE = 0.01 * np.random.default_rng(0).standard_normal(5)  # of the folds, alike for all fits on them


def shaped(of_cell, noise=NOISE):
    """Return validation of shape (n_folds, n_ks, n_Cs) from a value for every k and C."""
    return noise[:, None, None] + np.array([[of_cell(k, C) for C in CS] for k in KS])


def better_at_50(k, C):
    return 0.3 - 0.1 * (k == 50.0) - 0.01 * (C == 10.0)


def flat(k, C):
    return 0.3 - 0.01 * (C == 10.0) + 0.2 * (k == 1.0)


def leading_by(errors, n_folds=5):
    """Return a grid whose k = 50 leads the average by so many corrected standard errors."""
    lead = np.random.default_rng(1).standard_normal(n_folds)
    error = lead.std(ddof=1) * np.sqrt(1.0 / n_folds + 1.0 / (n_folds - 1))
    lead += errors * error - lead.mean()
    values = np.full((n_folds, 4, 2), 10.0)
    values[:, 2] -= lead[:, None]
    values[:, :2] += 100.0
    return grid("log_loss", "plain", {"rmse": values})


def test_atk_that_keeps_the_average_is_the_average():
    average, atk, below = choose([grid("log_loss", "plain", {"error": shaped(flat)})], "error")
    assert atk is average
    assert average.share == 1.0
    assert below.share < 1.0


@pytest.mark.parametrize(("errors", "moves"), [(-1.0, False), (0.0, False), (0.49, False), (0.51, True), (2.0, True)])
def test_it_takes_a_lead_of_half_a_standard_error(errors, moves):
    average, atk, below = choose([leading_by(errors)], "rmse")
    assert (atk is below) == moves
    assert (atk is average) == (not moves)
    assert leads(below, average) == moves
    assert below.k == 50.0


def test_of_smaller_k_the_largest_within_half_a_standard_error_is_taken():
    rng = np.random.default_rng(0)
    for distance, chosen in ((0.45, 2), (0.55, 1)):
        behind = rng.standard_normal(5)
        error = behind.std(ddof=1) * np.sqrt(1 / 5 + 1 / 4)
        scores = np.zeros((5, 4, 1))
        scores[:, 2, 0] = -(behind - behind.mean() + distance * error)
        scores[:, [0, 3]] = 100.0  # one row and all rows do not count
        assert best_below_all(scores, slice(1, 3), 0.25) == (chosen, 0)
    assert best_below_all(scores, slice(1, 1), 0.25) is None


def test_every_measure_chooses_for_itself():
    def at(best_k, best_C):
        return shaped(lambda k, C: 0.3 - 0.1 * (k == best_k) - 0.02 * (best_C == C))

    grids = [
        grid("log_loss", "plain", {"error": at(50.0, 1.0), "balanced_error": at(20.0, 10.0) + 0.05}),
        grid("squared_hinge", "balanced", {"error": at(20.0, 10.0) + 0.05, "balanced_error": at(50.0, 10.0)}),
    ]
    error, balanced = choose(grids, "error")[1], choose(grids, "balanced_error")[1]
    assert (error.loss, error.weights, error.k, error.strength) == ("log_loss", "plain", 50.0, 1.0)
    assert (balanced.loss, balanced.weights, balanced.k, balanced.strength) == ("squared_hinge", "balanced", 50.0, 10.0)
    assert choose(grids, "balanced_error")[0].loss == "squared_hinge"
    assert choose(grids, "rmse") is None


def test_higher_is_better_where_it_is():
    value = shaped(lambda k, C: 0.5 + 0.2 * (k == 50.0) + 0.05 * (C == 10.0))
    _, atk, _ = choose([grid("log_loss", "plain", {"g_mean": value})], "g_mean")
    assert (atk.k, atk.strength) == (50.0, 10.0)
    assert choose([grid("log_loss", "plain", {"error": value})], "error")[1].share == 1.0


def test_a_loss_of_the_average_alone_is_one_side_only():
    hinge = grid("hinge", "plain", {"error": shaped(flat)[:, -1:] - 0.2}, ks=[N])
    average, atk, below = choose([hinge], "error")
    assert atk is average
    assert below is None
    assert list(method_choices([hinge], "error")) == [Method("average", "hinge", "plain")]
    beside = grid("log_loss", "plain", {"error": shaped(better_at_50)})
    average, atk, below = choose([hinge, beside], "error")
    assert (average.loss, atk.loss, below.loss) == ("hinge", "hinge", "log_loss")


def test_maximum_and_average_choose_C_alone():
    grids = [grid(loss, weights, {"error": shaped(better_at_50)}) for loss in LOSSES for weights in WEIGHTS]
    found = method_choices(grids, "error")
    assert len(found) == 3 * 4
    for (aggregate, k), loss, weights in itertools.product(
        {"maximum": 1.0, "average": N, "atk": 50.0}.items(), LOSSES, WEIGHTS
    ):
        choice = found[Method(aggregate, loss, weights)]
        assert (choice.k, choice.strength) == (k, 10.0)


class TestContest:
    """Both sides may map their decision values."""

    def grids(self, average=0.1, atk=0.2):
        """Return a grid in which mapped sides have these errors, plain ones 0.3 and 0.25."""
        shape = shaped(lambda k, _: 0.3 - 0.05 * (k == 50.0))
        mapped = {
            ("average", "error"): Mapped(N, 10.0, (1.0, -0.5), average + NOISE),
            ("atk", "error"): Mapped(50.0, 1.0, (1.0, 0.5), atk + NOISE),
        }
        said = {(N, 10.0): np.array([[1.0, 0.2]]), (50.0, 1.0): np.array([[-1.0, -0.2]])}
        return [grid("log_loss", "plain", {"error": shape}, mapped=mapped, said=said, rows=[4, 7])]

    def test_the_better_of_mapped_and_plain_is_taken(self):
        average, atk, below = choose(self.grids(), "error", contest=True)
        assert atk is average
        assert (average.map, below.map) == ((1.0, -0.5), (1.0, 0.5))
        np.testing.assert_allclose(average.said, [[0.5, -0.3]])
        np.testing.assert_allclose(below.said, [[-0.5, 0.3]])
        assert average.rows.tolist() == [4, 7]
        assert average.score == pytest.approx(-(0.1 + NOISE).mean())
        average, atk, _ = choose(self.grids(0.9, 0.9), "error", contest=True)
        assert (average.map, atk.map) == (None, None)
        assert atk.k == 50.0

    def test_without_it_no_map_is_taken(self):
        for choice in choose(self.grids(), "error"):
            assert choice.map is None


def records(n_splits=3, seed=0):
    rng = np.random.default_rng(seed)
    found = []
    for split, loss, weights in itertools.product([*range(n_splits), None], LOSSES, WEIGHTS):
        for k, C in itertools.product(KS, CS):
            on_test = {} if split is None else {"error": rng.random()}
            found.append(
                cell_record(dataset="a", loss=loss, weights=weights, split=split, k=k, n=N, strength=C, tol=1e-3,
                            gaps=None, validation={"error": rng.random(5).tolist()}, test=on_test, n_folds=5)
            )  # fmt: skip
        common = {"dataset": "a", "loss": loss, "weights": weights, "split": split}
        for aggregate, k in (("average", N), ("atk", 50.0)):
            found.append({"record": "map", **common, "aggregate": aggregate, "measure": "error", "k": k,
                          "strength": 1.0, "map": [1.0, rng.random()],
                          "validation": rng.random(5).tolist()})  # fmt: skip
        if split is not None:
            decisions = [{"k": k, "strength": 1.0, "decisions": rng.random((1, 4)).tolist()} for k in (50.0, N)]
            found.append({"record": "said", **common, "rows": rng.permutation(12)[:4].tolist(), "cells": decisions})
    return found


def as_numbers(value):
    """Return a nested value with arrays as lists, to compare with another."""
    if hasattr(value, "__dataclass_fields__"):
        return {name: as_numbers(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, dict):
        return {str(key): as_numbers(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [as_numbers(entry) for entry in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def test_grids_hold_what_records_say_in_whatever_order():
    told = records()
    grids = collect_grids(told, "a")
    assert set(grids) == {0, 1, 2, None}
    mixed = [told[i] for i in np.random.default_rng(1).permutation(len(told))]
    assert as_numbers(grids) == as_numbers(collect_grids(mixed, "a"))
    assert [(g.loss, g.weights) for g in grids[0]] == [(g.loss, g.weights) for g in collect_grids(mixed, "a")[0]]
    assert collect_grids(told, "b") == {}
    one = next(g for g in grids[1] if (g.loss, g.weights) == ("squared_hinge", "balanced"))
    own = [r for r in told if (r["split"], r["loss"], r["weights"]) == (1, "squared_hinge", "balanced")]
    for record in own:
        if record["record"] == "cell":
            i, j = KS.index(record["k"]), CS.index(record["strength"])
            assert one.validation["error"][:, i, j].tolist() == record["validation"]["error"]
            assert one.test["error"][i, j] == record["test"]["error"]
        elif record["record"] == "map":
            assert one.mapped[record["aggregate"], "error"].map == tuple(record["map"])
        else:
            assert one.rows.tolist() == record["rows"]
            for cell in record["cells"]:
                assert one.said[cell["k"], 1.0].tolist() == cell["decisions"]


def turned(record):
    """Return a record that says the contrary of the test part."""
    if record["record"] == "said":
        cells = [{**cell, "decisions": (-np.array(cell["decisions"])).tolist()} for cell in record["cells"]]
        return {**record, "cells": cells}
    return {**record, "test": {"error": 1.0 - record["test"]["error"]}} if record.get("test") else record


def test_choices_do_not_look_at_the_test_part():
    told = records()
    for split in range(3):
        one, two = (choose(collect_grids(of, "a")[split], "error") for of in (told, [turned(r) for r in told]))
        assert [(c.loss, c.weights, c.k, c.strength) for c in one] == [
            (c.loss, c.weights, c.k, c.strength) for c in two
        ]
        assert np.array_equal(one[0].said, -two[0].said)
        assert one[0].said.any()
