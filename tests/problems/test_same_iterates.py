"""One algorithm, whatever holds the rows: plain and compiled ones take it the same way, and it never looks inside."""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from plain_rows import PlainRows
from problems import INTERCEPTS, LOSSES, Case, random_case

from atklearn.losses.individual import INDIVIDUAL_LOSSES, Hinge
from atklearn.problems import objective
from atklearn.problems.compiled_rows import CompiledRows
from atklearn.problems.objective import Problem
from atklearn.problems.rows import Curvature, Part, Point, Proof, Ray, Reading, Rows
from atklearn.problems.solution import Solution, StopReason
from atklearn.solvers.exact import balance, collapse, grid, newton, solve, system, thinning
from atklearn.solvers.exact.grid import solve_grid
from atklearn.solvers.exact.solve import solve_linear


def solve_and_record(problem: Problem, **options: Any) -> tuple[Solution, np.ndarray]:
    """Return the solution, and per move the Newton steps so far, the objective and the gap."""
    moves: list[tuple[int, float, float]] = []
    solution = solve_linear(problem, progress=lambda *move: moves.append(move), **options)
    return solution, np.array(moves)


def take_the_same_way(case: Case, **options: Any) -> bool:
    """Solve on both kinds of rows; check what must agree, and return whether every single move does."""
    (one, moves), (other, other_moves) = (
        solve_and_record(case.problem_on(kind), **options) for kind in (PlainRows, CompiledRows)
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
    monkeypatch.setattr(thinning, "LARGE", 1000)  # at zero, where one would start else, all classification losses tie
    assert take_the_same_way(many_rows(loss, 0.02, n=3000, noise=0.01))  # more would collapse


@pytest.mark.parametrize("loss", ["log_loss", "absolute_error"])
def test_thinned_starts_are_the_same(loss, monkeypatch):
    monkeypatch.setattr(thinning, "LARGE", 1000)
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
        for kind in (PlainRows, CompiledRows):
            problem = random_case(loss, "free", seed).problem_on(kind)
            ks = problem.rows.total * np.array([1.0, 0.5, 0.2])
            cells.append(list(solve_grid(problem, ks, [0.01, 0.1, 1.0, 10.0])))
        for (i, j, one), (other_i, other_j, other) in zip(*cells, strict=True):
            assert (i, j) == (other_i, other_j)
            assert one.objective == pytest.approx(other.objective, rel=2e-3)
            same += one.n_iter == other.n_iter
    assert same >= (50 if loss == "absolute_error" else 57)  # of 60


def test_the_collapse_is_the_same():
    problems = [random_case("log_loss", "free", 7).problem_on(kind) for kind in (PlainRows, CompiledRows)]
    plain, compiled = (collapse.collapse_limit(problem) for problem in problems)
    assert plain == pytest.approx(compiled, rel=1e-6)


# The line between the algorithm and the data

THE_ALGORITHM = (newton, system, solve, thinning, balance, grid, collapse, objective)
INTERFACES = {
    "rows": Rows,
    "point": Point,
    "ray": Ray,
    "part": Part,
    "reading": Reading,
    "proof": Proof,
    "curvature": Curvature,
}
ONE_ENTRY_PER_SAMPLE = {
    "X",
    "y",
    "mass",
    "design",
    "here",
    "there",
    "centre",
    "f",
    "s",
    "slope",
    "r",
    "u",
    "a",
    "losses",
}


def names_of(interface: type) -> set[str]:
    return {name for name in {*vars(interface), *interface.__annotations__} if not name.startswith("_")}


def reaches_across(source: str) -> list[str]:
    """Return the attributes in a source that are of one entry per sample, or that no interface defines."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Attribute):
            continue
        base = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
        interface = INTERFACES.get(base)
        unknown = interface is not None and node.attr not in names_of(interface)
        if unknown or node.attr in ONE_ENTRY_PER_SAMPLE:
            found.append(ast.unparse(node))
    return found


@pytest.mark.parametrize("module", THE_ALGORITHM, ids=lambda module: module.__name__)
def test_the_algorithm_names_nothing_that_has_an_entry_per_sample(module):
    source = inspect.getsource(module)
    assert reaches_across(source) == []
    imported = {node.module for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)}
    assert not {name for name in imported if name and name.endswith(("compiled_rows", "passes"))}


@pytest.mark.parametrize(
    "line", ["self.point.here.f", "problem.rows.X", "rows.take(places)", "point.rows", "reading.losses", "solution.r"]
)
def test_reaching_across_is_seen(line):
    assert reaches_across(inspect.getsource(newton) + f"\n{line}\n")


class Sealed:
    """Rows, a point, a ray or a part, that answers to the names of its interface and to no other."""

    def __init__(self, inside: Any, interface: type) -> None:
        self._inside, self._interface = inside, interface

    def __getattr__(self, name: str) -> Any:
        if name not in names_of(self._interface):
            raise AssertionError(f"{self._interface.__name__} promises no {name}")
        value = getattr(self._inside, name)
        return (
            (lambda *args, **kw: seal(value(*open_all(args), **open_all(kw))))
            if inspect.ismethod(value)
            else seal(value)
        )


@dataclass(frozen=True)
class SealedDensity:
    """Densities that cannot be looked at: all one may do is hand them back."""

    inside: np.ndarray


def seal(value: Any) -> Any:
    """Return what crosses the line: interfaces sealed, densities opaque, small things as they are."""
    for interface, kind in ((Rows, "Rows"), (Point, "Point"), (Ray, "Ray"), (Part, "Part")):
        if type(value).__name__ == f"Plain{kind}":
            return Sealed(value, interface)
    if isinstance(value, Proof):
        return value._replace(density=SealedDensity(value.density))
    if isinstance(value, np.ndarray) and value.shape == (N_SEALED,):
        return SealedDensity(value)
    return value


def open_all(given: Any) -> Any:
    """Undo the sealing of arguments."""
    if isinstance(given, dict):
        return {name: open_all(value) for name, value in given.items()}
    if isinstance(given, tuple | list):
        return type(given)(open_all(value) for value in given)
    if isinstance(given, SealedDensity):
        return given.inside
    return given._inside if isinstance(given, Sealed) else given


N_SEALED = 211


@pytest.mark.parametrize("loss", ["log_loss", "hinge", "absolute_error"])
def test_solver_grid_and_collapse_run_on_rows_that_show_nothing_but_the_interface(loss, monkeypatch):
    monkeypatch.setattr(solve, "_MANY", 100)
    monkeypatch.setattr(thinning, "LARGE", 200)
    case = many_rows(loss, 0.05, n=N_SEALED)
    open_problem = case.problem_on(PlainRows)
    problem = Problem(Sealed(open_problem.rows, Rows), case.k, case.C, "free")
    solution = solve_linear(problem)
    assert solution.stop_reason is StopReason.CONVERGED
    np.testing.assert_array_equal(solution.coef, solve_linear(open_problem).coef)
    ks, Cs = case.mass.sum() * np.array([0.8, 0.3]), [0.1, 1.0, 10.0]
    for (*_, cell), (*_, plain) in zip(solve_grid(problem, ks, Cs), solve_grid(open_problem, ks, Cs), strict=True):
        np.testing.assert_array_equal(cell.coef, plain.coef)
    if loss == "log_loss":
        assert collapse.collapse_limit(problem) == collapse.collapse_limit(open_problem)
        assert problem.rows.paying(Hinge()).loss.task == "classification"
