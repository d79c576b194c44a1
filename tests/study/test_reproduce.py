"""The paper's tables and figures: its protocol, checked against independent answers."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from atklearn.datasets import bayes_boundary, load_dataset, make_toy
from atklearn.study.evidence import collect_grids
from atklearn.study.paper_figures import ShiftedLoss, ToyCases
from atklearn.study.paper_tables import PaperTables, decades_beyond, drawn, log_spaced, paper_split, scale_features
from atklearn.study.results import read_results
from atklearn.study.running import Task, recorded_misses


def test_splits_are_half_and_two_quarters():
    train, validation, test = paper_split(1001, 3)
    assert (train.size, validation.size, test.size) == (500, 250, 251)
    assert sorted(np.r_[train, validation, test]) == list(range(1001))


def test_features_are_scaled_on_the_training_part():
    X = np.c_[np.arange(10.0), np.ones(10)]
    scaled = scale_features(X, np.arange(5))
    np.testing.assert_allclose(scaled[[0, 4, 9], 0], [-1.0, 1.0, 3.5])
    np.testing.assert_array_equal(scaled[:, 1], 0.0)


def test_sinc_is_drawn_anew_and_targets_are_in_the_unit_interval():
    sinc = load_dataset("sinc")
    (_, first), (_, second) = drawn(sinc, 0), drawn(sinc, 1)
    assert not np.array_equal(first, second)
    assert (first.min(), first.max()) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("name", "loss", "measure"), [("monk", "log_loss", "error"), ("sinc", "squared_error", "rmse")]
)
def test_the_average_column_is_what_scikit_learn_gets(results, name, loss, measure):
    grids = collect_grids(read_results(results[0]), name)
    for split, found in grids.items():
        grid = next(grid for grid in found if grid.loss == loss)
        X, y = drawn(load_dataset(name), split)
        train, validation, test = paper_split(y.size, split)
        Z = np.c_[scale_features(X, train), np.ones(y.size)]  # a penalised intercept is one more feature
        for j, C in enumerate(grid.strengths):
            if not 1e-3 <= C <= 1e3:
                continue
            n = train.size
            if name == "monk":
                model = LogisticRegression(C=C / n, fit_intercept=False, tol=1e-8, max_iter=5000)
                errors = {part: (model.fit(Z[train], y[train]).predict(Z[rows]) != y[rows]).mean()
                          for part, rows in {"validation": validation, "test": test}.items()}  # fmt: skip
                slack = 0.01  # one sample of 108 at a gap of 1e-3
            else:
                loss_of = Ridge(alpha=n / (2.0 * C), fit_intercept=False).fit(Z[train], y[train])
                errors = {part: np.sqrt(np.mean((loss_of.predict(Z[rows]) - y[rows]) ** 2))
                          for part, rows in {"validation": validation, "test": test}.items()}  # fmt: skip
                slack = 2e-3
            assert grid.test[measure][-1, j] == pytest.approx(errors["test"], abs=slack)
            assert grid.validation[measure][0, -1, j] == pytest.approx(errors["validation"], abs=slack)


def test_C_is_extended_where_an_end_is_best():
    falling = {decade: {"error": np.full(3, -float(decade))} for decade in (-1, 0, 1)}
    assert decades_beyond(falling) == [2]
    rising = {decade: {"g_mean": np.full(3, -float(decade))} for decade in (-1, 0, 1)}
    assert decades_beyond(rising) == [-2]
    inside = {decade: {"error": np.full(3, float(decade**2))} for decade in (-1, 0, 1)}
    assert decades_beyond(inside) == []
    tied = {decade: {"error": np.full(3, float(max(decade, 0)))} for decade in (-1, 0, 1)}
    assert decades_beyond(tied) == []


def test_stochastic_and_exact_tables_agree():
    monk = load_dataset("monk")
    task = Task("table: monk, log_loss, split 0", ("monk", "log_loss", 0))
    with recorded_misses():
        exact, sgd = (
            collect_grids(PaperTables([monk], 1, solver).run(task), "monk")[0][0] for solver in ("exact", "sgd")
        )
    at = [np.isclose(grid.strengths, 10.0) for grid in (exact, sgd)]
    above_collapse = slice(-3, None)
    difference = exact.test["error"][above_collapse, at[0]] - sgd.test["error"][above_collapse, at[1]]
    assert np.abs(difference).max() < 0.05


def test_figure_1_shows_where_atk_is_better():
    X, y = make_toy(4, random_state=0)
    records = ToyCases({4: (X, y)}, "exact").run(Task("figure 1: case 4, log_loss", (4, "log_loss")))
    errors = {record["k"]: record["error"] for record in records if record["record"] == "point"}
    assert errors[10] == pytest.approx(0.005)  # the outlier alone
    assert errors[200] > 0.02
    assert errors[1] > 0.02


@pytest.mark.parametrize("case", range(1, 7))
def test_the_bayes_classifier_is_best_on_a_large_sample(case):
    a, b, c = bayes_boundary(case)
    samples = [make_toy(case if case not in (2, 4, 6) else case - 1, random_state=seed) for seed in range(200)]
    X, y = np.concatenate([s[0] for s in samples]), np.concatenate([s[1] for s in samples])

    def error(shift):
        return (np.where(X @ [a, b] + c + shift > 0.0, 1.0, -1.0) != y).mean()

    assert error(0.0) <= min(error(-0.15), error(0.15))


def test_figure_2_is_the_shifted_loss():
    for task in ShiftedLoss().tasks():
        first, *others = ShiftedLoss().run(task)
        for curve in others:
            np.testing.assert_allclose(curve["y"], np.maximum(np.array(first["y"]) - curve["lambda"], 0.0), atol=1e-6)


def test_fits_are_recorded_with_their_certificates(results):
    """Every fit that is shown says how exact it is, and how exact it was meant to be."""
    records = [record for record in read_results(results[0]) if "n_fits" in record]
    assert {record["record"] for record in records} == {"cell", "point", "curve"}
    assert {record["tol"] for record in records} == {1e-3, 1e-4, 1e-6}
    assert all(record["gap"] >= 0.0 for record in records)
    for record in records:
        assert (record["n_missed"] > 0) == (record["gap"] > record["tol"])
    # a few fits at a C so large that the loss alone counts stop before they get there, and are known
    assert sum(record["n_missed"] for record in records) < 0.01 * sum(record["n_fits"] for record in records)
    assert {record["n_fits"] for record in records if record["record"] == "cell"} == {1}


def test_k_are_log_spaced():
    assert log_spaced(100, 3) == [1, 10, 100]
