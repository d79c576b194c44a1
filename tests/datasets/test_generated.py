"""The paper's data sets that are generated: they obey their rules."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from atklearn.datasets import load_dataset, make_monk, make_sinc, make_titanic, make_toy


def test_monk_is_the_factorial_labelled_by_its_rule():
    X, y = make_monk()
    assert {tuple(row) for row in X.tolist()} == {
        (a + 1, b + 1, c + 1, d + 1, e + 1, f + 1) for a, b, c, d, e, f in np.ndindex(3, 3, 2, 3, 4, 2)
    }
    assert X.shape == (432, 6)
    assert X.tolist() == sorted(X.tolist())
    for row, label in zip(X.tolist(), y.tolist(), strict=True):
        _, second, _, fourth, fifth, _ = row
        rule = fourth == 1 if fifth == 3 and second == 3 else fifth <= 3 and second <= 2
        assert label == (1 if rule else -1)
    assert Counter(y.tolist()) == {1.0: 228, -1.0: 204}


def test_titanic_has_the_margins_of_its_table():
    X, y = make_titanic()
    ship_class, child, male = X.T
    assert X.shape == (2201, 3)
    assert (y == 1).sum() == 711
    assert (y == -1).sum() == 1490
    assert Counter(ship_class.tolist()) == {1: 325, 2: 285, 3: 706, 4: 885}
    assert Counter(child.tolist()) == {1: 109, 0: 2092}
    assert Counter(male.tolist()) == {1: 1731, 0: 470}
    assert not ((child == 1) & (ship_class == 4)).any()
    survivors = y == 1
    assert Counter(ship_class[survivors].tolist()) == {1: 203, 2: 118, 3: 178, 4: 212}
    assert (child[survivors] == 1).sum() == 57
    assert (male[survivors] == 0).sum() == 344


def test_sinc_is_a_noisy_curve_seen_through_ten_bumps():
    X, y = make_sinc(20_000, random_state=0)
    assert ((X > 0) & (X <= 1)).all()
    # The distances to the first two centres, 20 / 9 apart, give x back.
    centres = np.linspace(-10, 10, 10)
    first, second = -np.log(X[:, 0]), -np.log(X[:, 1])
    x = ((first - second) / (centres[1] - centres[0]) + centres[0] + centres[1]) / 2
    np.testing.assert_allclose(np.exp(-((x[:, None] - centres) ** 2)), X, rtol=1e-6, atol=1e-12)
    assert x.min() == pytest.approx(-10, abs=0.01)
    assert x.max() == pytest.approx(10, abs=0.01)
    assert x.mean() == pytest.approx(0, abs=0.15)
    residual = y - np.sin(x) / x
    assert residual.std() == pytest.approx(0.2, rel=0.03)
    assert residual.mean() == pytest.approx(0, abs=0.01)
    with pytest.raises(ValueError, match="at least 1"):
        make_sinc(0)


def test_generators_repeat_themselves():
    for first, second in zip(make_sinc(50, random_state=3), make_sinc(50, random_state=3), strict=True):
        np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(load_dataset("sinc").X, make_sinc(random_state=0)[0])
    np.testing.assert_allclose(make_toy(4, random_state=0)[0][1], [0.215322, 0.492997], atol=1e-6)


@pytest.mark.parametrize("name", ["monk", "titanic", "sinc"])
def test_generated_sets_need_neither_file_nor_network(name, tmp_path):
    dataset = load_dataset(name, data_dir=tmp_path / "nowhere", network=False)
    assert dataset.source == "generated"
    assert dataset.X.dtype == dataset.y.dtype == np.float64
    assert len(dataset.feature_names) == dataset.X.shape[1]
