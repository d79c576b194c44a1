"""A short run of benchmarks/fuzz.py, and proof that it sees what it is there to see."""

from __future__ import annotations

import importlib
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from problems import CLASSIFICATION, INTERCEPTS, LOSSES, Case, optimum_by_cvxpy, random_case

from atklearn import ATkClassifier, ATkRegressor

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))  # as where the benchmark is run from
fuzz = importlib.import_module("fuzz")
definition = importlib.import_module("fuzzing.definition")
outside = importlib.import_module("fuzzing.outside")
problems = importlib.import_module("fuzzing.problems")
verdict = importlib.import_module("fuzzing.verdict")


def test_nasty_problems_are_fitted_as_certified() -> None:
    verdicts = list(fuzz.examine_all(range(150), seed=1, tol=1e-6, jobs=1))
    print(fuzz.summary(verdicts))  # shown where the test fails
    assert not any(one.failures for one in verdicts)
    assert sum("warned" in one.notes for one in verdicts) <= 3
    assert sum("no answer" in one.notes for one in verdicts) <= 3


def test_kernel_machines_are_certified_wherever_they_stop() -> None:
    verdicts = list(fuzz.examine_all(range(80), seed=1, tol=1e-6, jobs=1, kernels=True))
    print(fuzz.summary(verdicts))
    assert not any(one.failures for one in verdicts)
    assert sum("warned" in one.notes for one in verdicts) <= 2
    assert sum("stopped early" in one.notes for one in verdicts) >= 5


def test_problems_depend_on_seed_and_index_alone() -> None:
    first, again, other = problems.fuzz_problem(3, 17), problems.fuzz_problem(3, 17), problems.fuzz_problem(4, 17)
    assert str(first) == str(again) != str(other)
    np.testing.assert_array_equal(first.definition().X, again.definition().X)
    np.testing.assert_array_equal(first.y, again.y)


def test_traits_are_all_common() -> None:
    drawn = [problems.fuzz_problem(0, index) for index in range(1500)]
    for trait in problems.TRAITS:
        fitting = [
            p for p in drawn if trait.task == "any" or (trait.task == "classification") == (p.loss in CLASSIFICATION)
        ]
        assert sum(trait.name in problem.traits for problem in fitting) > 0.02 * len(fitting), trait.name


def state(case: Case) -> Any:
    return definition.Definition(case.dense(), case.y, case.mass, case.k, case.loss, case.C, case.intercept)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_outside_solver_agrees_with_cvxpy(loss: str, intercept: str) -> None:
    for seed in range(3):
        case = replace(random_case(loss, intercept, seed), C=10.0)  # where cvxpy's own accuracy suffices
        problem = state(case)
        point = outside.outside_point(problem)
        assert problem.value(point) == pytest.approx(optimum_by_cvxpy(case), rel=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_definition_is_that_of_the_library(loss: str) -> None:
    case = random_case(loss, "free", 1)
    rng = np.random.default_rng(0)
    z = rng.standard_normal(case.X.shape[1] + 1)
    value = state(case).value(definition.Point(z[:-1], z[-1]))
    assert value == pytest.approx(case.problem.certify(z, np.zeros(case.y.size)).objective, rel=1e-12)


def test_definition_survives_cancellation() -> None:
    """1e16 + 1 - 1e16 is 1, also where float64 says 0 or 2."""
    X, one = np.array([[1e8, 1.0, -1e8]]), np.ones(1)
    problem = definition.Definition(X, np.zeros(1), one, 1.0, "absolute_error", 1e300, "none")
    assert problem.losses(definition.Point(np.array([1e8, 1.0, 1e8]), 0.0)) == pytest.approx(1.0, abs=0.0)


class _Faulty:
    """An estimator of which something is spoilt after the fit."""

    def __init__(self, model: Any, spoil: Any, stop_early: bool = False, silent: bool = False) -> None:
        self.model = model.set_params(max_iter=1) if stop_early else model
        self.spoil = spoil
        self.silent = silent

    def fit(self, *args: Any, **kwargs: Any) -> Any:
        with warnings.catch_warnings():
            if self.silent:
                warnings.simplefilter("ignore")
            self.model.fit(*args, **kwargs)
        self.spoil(self.model)
        return self.model


def set_to(name: str, change: Any) -> Any:
    return lambda model: setattr(model, name, change(getattr(model, name)))


def plain_problem(loss: str, intercept: str = "free") -> Any:
    """Return a problem of no trait, so that only what is planted can fail."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 4))
    f = X @ rng.standard_normal(4) + 0.2 * rng.standard_normal(40)
    y = np.where(f > 0.0, 1.0, -1.0) if loss in CLASSIFICATION else f
    return problems.FuzzProblem(0, loss, intercept, X, y, None, None, 0.5, 10.0, ())


@pytest.mark.parametrize("loss", LOSSES)
def test_nothing_is_found_where_nothing_is_planted(loss: str) -> None:
    found = verdict.examine(plain_problem(loss))
    assert not found.failures
    assert not found.notes


@pytest.mark.parametrize("loss", ["log_loss", "hinge", "squared_error", "absolute_error"])
@pytest.mark.parametrize(
    ("kinds", "options"),
    [
        ({"inconsistent", "wrong bound"}, {"spoil": set_to("objective_", lambda value: 1.01 * value)}),
        ({"inconsistent"}, {"spoil": set_to("objective_", lambda value: 0.99 * value)}),
        ({"inconsistent"}, {"spoil": set_to("loss_threshold_", lambda value: value + 0.01)}),
        ({"inconsistent"}, {"spoil": set_to("k_", lambda value: value + 1.0)}),
        (
            {"wrong bound", "above"},
            {"spoil": set_to("dual_gap_", lambda _: 0.0), "stop_early": True, "silent": True},
        ),
        ({"wrong bound"}, {"spoil": set_to("dual_gap_", lambda _: 0.0), "stop_early": True}),
        ({"missed", "above"}, {"spoil": lambda _: None, "stop_early": True, "silent": True}),
        ({"nan"}, {"spoil": set_to("loss_threshold_", lambda _: np.nan)}),
        ({"nan"}, {"spoil": set_to("coef_", lambda coef: np.inf * coef)}),
        ({"infeasible"}, {"spoil": set_to("top_weights_", lambda q: 1.1 * q)}),
        ({"infeasible"}, {"spoil": set_to("top_weights_", lambda q: np.where(q == q.min(), -1e-6, q))}),
        ({"error"}, {"spoil": lambda model: model.predict(None)}),
    ],
)
def test_planted_faults_are_found(loss: str, kinds: set[str], options: dict[str, Any]) -> None:
    found = verdict.examine(
        plain_problem(loss), make_estimator=lambda *args: _Faulty(verdict.library_estimator(*args), **options)
    )
    assert kinds <= set(found.failures)
    # a lower objective or an honest gap is no other fault
    assert set(found.failures) <= kinds | {"missed"}
    assert not fuzz.is_acceptable([found])


def test_a_warning_is_counted_not_failed() -> None:
    found = verdict.examine(
        plain_problem("squared_error"),
        make_estimator=lambda *args: verdict.library_estimator(*args).set_params(max_iter=1),
    )
    assert not found.failures
    assert found.notes == {"warned", "beaten"}
    assert not fuzz.is_acceptable([found])


def test_estimators_are_the_public_ones() -> None:
    assert type(verdict.library_estimator(plain_problem("hinge"), 1e-6)) is ATkClassifier
    assert type(verdict.library_estimator(plain_problem("huber"), 1e-6)) is ATkRegressor
