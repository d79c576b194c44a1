"""One algorithm, whatever holds the rows: plain and compiled ones take it the same way, and it never looks inside."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from problems import INTERCEPTS, LOSSES, Case, random_case

from atklearn.core import collapse, solve
from atklearn.core import newton as system
from atklearn.core import problem as objective
from atklearn.core.grid import solve_grid
from atklearn.core.point import Point
from atklearn.core.problem import Problem, Solution, StopReason
from atklearn.core.solve import solve_linear
from atklearn.core.store import PlainState, PlainStore, Store, Subset
from atklearn.losses.individual import INDIVIDUAL_LOSSES, Hinge
from atklearn.stores.compiled import CompiledRows


def solve_and_record(problem: Problem, **options: Any) -> tuple[Solution, np.ndarray]:
    """Return the solution, and per move the Newton steps so far, the objective and the gap."""
    moves: list[tuple[int, float, float]] = []
    solution = solve_linear(problem, progress=lambda *move: moves.append(move), **options)
    return solution, np.array(moves)


def take_the_same_way(case: Case, **options: Any) -> bool:
    """Solve on both kinds of rows; check what must agree, and return whether every single move does."""
    (one, moves), (other, other_moves) = (
        solve_and_record(case.problem_on(kind), **options) for kind in (PlainStore, CompiledRows)
    )
    tol = options.get("tol", 1e-6)
    assert one.stop_reason is other.stop_reason is StopReason.CONVERGED
    assert one.objective == pytest.approx(other.objective, rel=2.0 * tol, abs=1e-300)
    if moves.shape != other_moves.shape or (moves[:, 0] != other_moves[:, 0]).any():
        return False
    # Rounding grows along the way, by C / mu at worst; the gap is a difference of nearly equal numbers in the end.
    scale = moves[:, 1]
    objectives_agree = np.abs(other_moves[:, 1] - scale) <= 1e-5 * scale
    gaps_agree = np.abs(other_moves[:, 2] - moves[:, 2]) <= 1e-4 * moves[:, 2] + 1e-8 * scale
    size = max(np.abs(one.coef).max(), 1e-300)
    return bool((objectives_agree & gaps_agree).all() and np.abs(one.coef - other.coef).max() <= 1e-6 * size)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_plain_and_compiled_rows_take_the_same_steps(loss, intercept):
    """All 360 problems do where this was written, and 719 of the first 720.

    One in twenty may differ: a last digit can decide whether a step was quick enough for mu to shrink.
    """
    same = sum(take_the_same_way(random_case(loss, intercept, seed)) for seed in range(20))
    assert same >= 19


def many_rows(loss: str, share: float, n: int, noise: float = 0.3) -> Case:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 4))
    score = X @ rng.standard_normal(4) + 0.5 + noise * rng.standard_normal(n)
    y = np.sign(score) if INDIVIDUAL_LOSSES[loss].task == "classification" else score
    mass = rng.uniform(0.5, 2.0, n)
    return Case(loss, "free", X, y, mass, share * mass.sum(), 10.0)


@pytest.mark.parametrize("loss", LOSSES)
def test_working_sets_grow_the_same_way(loss, monkeypatch):
    monkeypatch.setattr(solve, "_MANY", 1000)
    monkeypatch.setattr(objective, "LARGE", 1000)  # at zero, where one would start else, all classification losses tie
    assert take_the_same_way(many_rows(loss, 0.02, n=3000, noise=0.01))  # more would collapse


@pytest.mark.parametrize("loss", ["log_loss", "absolute_error"])
def test_thinned_starts_are_the_same(loss, monkeypatch):
    monkeypatch.setattr(objective, "LARGE", 1000)
    assert take_the_same_way(many_rows(loss, 0.5, n=3000))


@pytest.mark.parametrize("loss", LOSSES)
def test_conjugate_gradients_take_the_same_steps(loss, monkeypatch):
    """With more columns than rows they would not: conjugate gradients blow rounding up."""
    monkeypatch.setattr(system, "_DENSE_COLUMNS", 0)
    assert take_the_same_way(many_rows(loss, 0.4, n=200))


@pytest.mark.parametrize("loss", LOSSES)
def test_grids_are_solved_alike(loss):
    """Each cell starts from its neighbours, blended; cells with other numbers of steps would show in all after them.

    All cells agree for most losses, nine in ten for the absolute error: where all densities are at their bounds
    the objective has no curvature along the intercept, and rounding says which way it goes.
    """
    same = 0
    for seed in range(5):
        cells = []
        for kind in (PlainStore, CompiledRows):
            problem = random_case(loss, "free", seed).problem_on(kind)
            ks = problem.rows.total * np.array([1.0, 0.5, 0.2])
            cells.append(list(solve_grid(problem, ks, [0.01, 0.1, 1.0, 10.0])))
        for (i, j, one), (other_i, other_j, other) in zip(*cells, strict=True):
            assert (i, j) == (other_i, other_j)
            assert one.objective == pytest.approx(other.objective, rel=2e-3)
            same += one.n_iter == other.n_iter
    assert same >= (50 if loss == "absolute_error" else 57)  # of 60


def test_the_collapse_is_the_same():
    problems = [random_case("log_loss", "free", 7).problem_on(kind) for kind in (PlainStore, CompiledRows)]
    plain, compiled = (collapse.collapse_limit(problem) for problem in problems)
    assert plain == pytest.approx(compiled, rel=1e-6)


# The line between the algorithm and the data


class Opaque:
    """What has one entry per row: all one may do is hand it back."""

    def __init__(self, inside: Any) -> None:
        self._inside = inside


class Sealed:
    """A store, or a subset of one, that answers to the names of its interface and to no other."""

    def __init__(self, inside: Any, names: set[str]) -> None:
        self._inside, self._names = inside, names

    def __getattr__(self, name: str) -> Any:
        if name not in self._names:
            raise AssertionError(f"no store promises {name}")
        if name == "point":
            return lambda *given: Point(self, *given)
        value = getattr(self._inside, name)
        return (lambda *args, **kw: seal(value(*map(opened, args), **kw))) if inspect.ismethod(value) else seal(value)


STORE = {name for name in {*vars(Store), *Store.__annotations__} if not name.startswith("_")}
SUBSET = {"rows", "restrict", "extend"}
N_SEALED = 211


def seal(value: Any) -> Any:
    """Return what crosses the line: stores sealed, whatever has an entry per row opaque, small things as they are."""
    if isinstance(value, PlainStore | Subset):
        return Sealed(value, STORE if isinstance(value, PlainStore) else SUBSET)
    if isinstance(value, PlainState) or (isinstance(value, np.ndarray) and N_SEALED in value.shape):
        return Opaque(value)
    return tuple(map(seal, value)) if type(value) is tuple else value


def opened(given: Any) -> Any:
    """Undo the sealing of arguments."""
    if type(given) in (tuple, list):
        return type(given)(map(opened, given))
    return given._inside if isinstance(given, Sealed | Opaque) else given


@pytest.mark.parametrize("loss", ["log_loss", "hinge", "absolute_error"])
def test_point_solver_grid_and_collapse_run_on_a_store_that_shows_nothing_but_its_answers(loss, monkeypatch):
    monkeypatch.setattr(solve, "_MANY", 100)
    monkeypatch.setattr(objective, "LARGE", 200)
    case = many_rows(loss, 0.05, n=N_SEALED)
    open_problem = case.problem_on(PlainStore)
    problem = Problem(seal(open_problem.rows), case.k, case.C, "free")
    solution = solve_linear(problem)
    assert solution.stop_reason is StopReason.CONVERGED
    np.testing.assert_array_equal(solution.coef, solve_linear(open_problem).coef)
    ks, Cs = case.mass.sum() * np.array([0.8, 0.3]), [0.1, 1.0, 10.0]
    for (*_, cell), (*_, plain) in zip(solve_grid(problem, ks, Cs), solve_grid(open_problem, ks, Cs), strict=True):
        np.testing.assert_array_equal(cell.coef, plain.coef)
    if loss == "log_loss":
        assert collapse.collapse_limit(problem) == collapse.collapse_limit(open_problem)
        assert problem.rows.paying(Hinge()).loss.task == "classification"
