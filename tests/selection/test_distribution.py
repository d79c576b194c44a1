"""Samples as a distribution: order and repetition do not matter, and folds share the mass of every class alike."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from atklearn.selection.distribution import Distribution


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((80, 3)) < 0.5, 0.0, rng.integers(-9, 9, (80, 3)) / 4.0)
    return np.unique(X, axis=0), rng.integers(0, 3, len(np.unique(X, axis=0))), rng


def pieces(X, y, mass, seed=1):
    """Return the values and masses of all pieces, and who is judged in which fold."""
    rows, parts, splits = Distribution.of(X, y, mass, classification=True).cut(4, seed)
    dense = X.toarray() if sp.issparse(X) else X
    return np.column_stack([dense, y])[rows], parts, [judged for _, judged in splits]


def test_neither_order_nor_repetition_matters(samples):
    X, y, rng = samples
    weight = rng.integers(0, 4, y.size)
    repeated = rng.permutation(np.arange(y.size).repeat(weight))
    values, mass, folds = pieces(X, y, weight.astype(float))
    again = pieces(X[repeated], y[repeated], np.ones(repeated.size))
    assert_array_equal(values, again[0])
    assert_array_equal(mass, again[1])
    for fold, other in zip(folds, again[2], strict=True):
        assert_array_equal(fold, other)


@pytest.mark.parametrize("kind", [sp.csr_array, np.float32, lambda X: np.where(X == 0.0, -0.0, X)])
def test_neither_does_the_way_numbers_are_stored(samples, kind):
    X, y, _ = samples
    other = kind(X)
    assert_array_equal(pieces(X, y, np.ones(y.size))[0], pieces(other, y, np.ones(y.size))[0])


def test_seeds_draw_different_folds(samples):
    X, y, _ = samples
    one, two = (pieces(X, y, np.ones(y.size), seed)[2][0] for seed in (0, 1))
    assert set(one) != set(two)


def test_folds_share_the_mass_of_every_class_and_lose_none(samples):
    X, y, rng = samples
    mass = rng.random(y.size)
    values, parts, folds = pieces(X, y, mass)
    for label in range(3):
        shares = [parts[fold][values[fold][:, -1] == label].sum() for fold in folds]
        assert_allclose(shares, mass[y == label].sum() / 4)
    assert parts.size <= y.size + 3 * 3  # only samples on a cut are in two folds


def test_thinning_keeps_the_rare_and_the_shares_of_mass():
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((3000, 2)), (np.arange(3000) % 100 == 0).astype(int)
    whole = Distribution.of(X, y, rng.random(3000), classification=True)
    thin = whole.thinned(500)
    assert (thin.codes == 1).sum() == 30
    assert (thin.codes == 0).sum() == 250
    shares = [np.bincount(each.codes, weights=each.mass) / each.mass.sum() for each in (whole, thin)]
    assert_allclose(*shares)
    assert thin.mass.mean() == pytest.approx(whole.mass.mean())
    assert whole.thinned(3000) is whole
