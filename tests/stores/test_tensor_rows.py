"""Rows of tensors beyond the laws that all rows obey: the compiled path's answers, other units, parts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from problems import CLASSIFICATION, INTERCEPTS, LOSSES, draw
from rows_cases import as_array

from atklearn.core.problem import Problem
from atklearn.core.solve import solve_linear
from atklearn.losses.individual import INDIVIDUAL_LOSSES
from atklearn.runtime import namespaces
from atklearn.stores.compiled import CompiledRows
from atklearn.stores.tensors.tensor_store import TensorRows

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


def tensor_rows_of(X, y, mass, loss, ones, device="cpu") -> TensorRows:
    kind = torch.int8 if loss.task == "classification" else torch.float64
    X, y, mass = torch.from_numpy(X), torch.from_numpy(y).to(kind), torch.from_numpy(mass)
    return TensorRows(X.to(device), y.to(device), mass.to(device), loss, ones)


def both(X, y, mass, loss, intercept, k, C, device="cpu", tol=1e-12):
    """Solve a problem on compiled rows and on tensors."""
    loss = INDIVIDUAL_LOSSES[loss]() if isinstance(loss, str) else loss
    ones = intercept != "none"
    rows = CompiledRows(X, y, mass, loss, ones), tensor_rows_of(X, y, mass, loss, ones, device)
    return [solve_linear(Problem(each, k, C, intercept), tol=tol) for each in rows]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(10))
def test_solutions_are_those_of_the_compiled_path(loss, seed, device):
    rng = np.random.default_rng([seed, LOSSES.index(loss)])
    X, y = draw(loss, n=int(rng.integers(20, 400)), d=int(rng.integers(1, 30)), seed=seed)
    mass = rng.uniform(0.5, 2.0, y.size) if seed % 2 else np.ones(y.size)
    k = rng.uniform(0.05, 1.0) * mass.sum()
    expected, found = both(X, y, mass, loss, INTERCEPTS[seed % 3], k, 10.0, device)
    assert found.objective == pytest.approx(expected.objective, rel=1e-12)
    np.testing.assert_allclose(found.coef, expected.coef, atol=1e-8)
    assert found.threshold == pytest.approx(expected.threshold, abs=1e-8)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("loss", ["log_loss", "absolute_error"])
def test_columns_of_any_size_and_offset_are_fitted_as_by_the_compiled_path(loss, dtype, device):
    """Units are applied on the way: X is neither copied nor changed."""
    X, y = draw(loss, n=300, d=4, seed=3)
    X = ((X + 50.0) * np.array([1e-4, 1.0, 1e4, 30.0])).astype(dtype)
    y = y + 1e4 if loss == "absolute_error" else y
    rows = tensor_rows_of(X, y, np.ones(300), INDIVIDUAL_LOSSES[loss](), True, device)
    conditioned, units = rows.conditioned(centred=True)
    assert conditioned.X is rows.X
    assert units.centre.any()
    weights = np.array([2e3, 0.3, -1e-4, 0.02])
    there = conditioned.point(conditioned.join(*units.inward(weights, 1.0)), 150.0).prove(balanced=False)
    assert there.value == pytest.approx(
        rows.point(rows.join(weights, 1.0), 150.0).prove(balanced=False).value, rel=1e-6
    )
    expected, found = both(X, y, np.ones(300), loss, "free", 150.0, 100.0, device, tol=1e-9)
    assert found.reaches(1e-9)
    assert found.objective == pytest.approx(expected.objective, rel=1e-8)
    np.testing.assert_allclose(found.coef[:-1], expected.coef[:-1], rtol=1e-4, atol=1e-6 * abs(expected.coef).max())


@pytest.mark.parametrize("loss", ["log_loss", "hinge", "squared_error"])
def test_wide_data_are_rotated_as_by_the_compiled_path(loss):
    X, y = draw(loss, n=40, d=200, seed=1)
    expected, found = both(X, y, np.ones(40), loss, "free", 20.0, 1.0, tol=1e-9)
    assert found.reaches(1e-9)
    np.testing.assert_allclose(found.coef, expected.coef, atol=1e-5)


@pytest.mark.parametrize("columns", [160, 700])
def test_many_columns_take_other_steps_to_the_same_place(columns):
    X, y = draw("log_loss", n=400, d=columns, seed=2)
    expected, found = both(X, y, np.ones(400), "log_loss", "free", 200.0, 1.0, tol=1e-8)
    assert found.reaches(1e-8)
    np.testing.assert_allclose(found.coef, expected.coef, atol=1e-4)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("loss", "share"), [("log_loss", 0.5), ("hinge", 1.0), ("squared_error", 0.01), ("absolute_error", 0.5)]
)
def test_many_rows_are_thinned_drawn_and_put_in_working_sets(loss, share, device):
    """More rows than fit into any block or sample: same optimum, certified by itself."""
    X, y = draw(loss, n=140_000, d=4, seed=5)
    mass = np.ones(y.size)
    expected, found = both(X, y, mass, loss, "free", share * y.size, 100.0, device, tol=1e-6)
    assert found.reaches(1e-6)
    assert found.lower_bound <= expected.objective <= found.objective + expected.dual_gap
    weights = found.density if device == "cpu" else found.density.cpu()
    assert float(weights.abs().sum()) / (share * y.size) <= 1.0 + 1e-12


@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
@pytest.mark.parametrize("share", [0.5, 0.01])
def test_few_rows_of_a_device_are_solved_on_the_host(loss, share, monkeypatch):
    """As on a GPU: samples and working sets are compiled rows, their densities arrays; the certificate is the same."""
    X, y = draw(loss, n=60_000, d=5, seed=1)
    rows = tensor_rows_of(X, y, np.ones(y.size), INDIVIDUAL_LOSSES[loss](), True)
    rows.is_remote = True
    assert isinstance(rows.sample(1000), CompiledRows)
    part = rows.point(np.zeros(6), 100.0).largest(50)
    density = part.restrict(torch.linspace(0.0, 1.0, y.size))
    assert isinstance(part.rows, CompiledRows)
    assert isinstance(density, np.ndarray)
    np.testing.assert_array_equal(as_array(part.restrict(part.extend(density))), density)
    found = solve_linear(Problem(rows, share * y.size, 10.0, "free"), tol=1e-6)
    plain = solve_linear(Problem(tensor_rows_of(X, y, np.ones(y.size), rows.loss, True), share * y.size, 10.0, "free"))
    assert found.reaches(1e-6)
    assert found.objective == pytest.approx(plain.objective, rel=2e-6)
    monkeypatch.setattr(namespaces, "HAS_NUMBA", False)
    assert isinstance(rows.sample(1000), TensorRows)


def test_tensors_of_any_layout_are_taken_as_they_are():
    X, y = draw("hinge", n=100, d=4, seed=0)
    assert "hinge" in CLASSIFICATION
    columns_first = torch.from_numpy(np.asfortranarray(X))
    every_other = torch.from_numpy(np.repeat(X, 2, axis=0))[::2]
    y, mass = torch.from_numpy(y), torch.ones(1, dtype=torch.float64).expand(100)
    solutions = [
        solve_linear(Problem(TensorRows(each, y, mass, INDIVIDUAL_LOSSES["hinge"](), True), 30.0, 1.0, "free"))
        for each in (torch.from_numpy(X), columns_first, every_other)
    ]
    for solution in solutions[1:]:
        assert solution.objective == pytest.approx(solutions[0].objective, rel=1e-9)
