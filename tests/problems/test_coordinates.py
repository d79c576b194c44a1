"""Rotations and packed matrices: the same numbers, in fewer columns and in half the memory."""

from __future__ import annotations

import numpy as np
import pytest

from atklearn.core.coordinates import rotate
from atklearn.core.packed import PackedSymmetric


@pytest.mark.parametrize("rank", [12, 5])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("offset", [0.0, 40.0])
def test_a_rotation_keeps_predictions_and_penalty(rank, dtype, offset):
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((12, rank)) @ rng.standard_normal((rank, 30)) + offset).astype(dtype)
    centre = X.mean(axis=0, dtype=np.float64) if offset else np.zeros(30)
    rotation = rotate(X, centre).shifted(2.0)
    v = rng.standard_normal(rotation.factor.shape[1])
    weights, intercept = rotation.outward(v, 0.7)
    np.testing.assert_allclose(X.astype(float) @ weights + intercept, rotation.factor @ v + 0.7 + 2.0, atol=1e-4)
    rounding = 1e-6 if dtype == np.float64 else 1e-2  # of X itself: the rank of floats is that of their noise
    assert weights @ weights == pytest.approx(v @ v, rel=rounding)
    again, moved = rotation.inward(weights, intercept)
    np.testing.assert_allclose(again, v, atol=rounding)
    assert moved == pytest.approx(0.7, abs=1e-4)


def test_a_rotation_has_as_many_columns_as_the_rows_span():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((10, 4)) @ rng.standard_normal((4, 50))
    assert rotate(X, np.zeros(50)).factor.shape == (10, 4)
    assert rotate(np.zeros((3, 9)), np.zeros(9)) is None


@pytest.mark.parametrize("size", [1, 2, 3, 8, 11])
def test_a_packed_matrix_is_the_matrix(size):
    rng = np.random.default_rng(size)
    block, g, ridge, v = (
        rng.standard_normal((20, size)),
        rng.standard_normal(size),
        rng.random(size) + 2.0,
        np.ones(size),
    )
    packed = PackedSymmetric(size)
    packed.add_gram(block)
    packed.add_gram(0.1 * g[None, :], -1.0)
    packed.add_diagonal(ridge)
    matrix = block.T @ block - 0.01 * np.outer(g, g) + np.diag(ridge)
    np.testing.assert_allclose(packed.diagonal(), np.diag(matrix))
    assert packed.factor()
    np.testing.assert_allclose(packed.solve(v), np.linalg.solve(matrix, v), rtol=1e-9)


def test_an_indefinite_matrix_has_no_factor():
    packed = PackedSymmetric(2)
    packed.add_diagonal(np.array([1.0, -1.0]))
    assert not packed.factor()
