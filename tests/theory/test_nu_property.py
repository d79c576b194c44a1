"""The nu-property: k bounds margin errors and support vectors."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from atklearn import ATkClassifier, Hinge, SquaredHinge, theory
from atklearn.datasets import make_toy

collapses = pytest.mark.filterwarnings("ignore::atklearn.CollapseWarning")


class TestNuProperty:
    """k bounds margin errors and support vectors."""

    @collapses
    @pytest.mark.parametrize("fit_intercept", [True, False])
    def test_it_holds_for_weighted_fits(self, fit_intercept):
        two_sided = 0
        for seed in range(100):
            rng = np.random.default_rng(seed)
            n = int(rng.integers(20, 200))
            X = rng.standard_normal((n, 3))
            y = np.where(X[:, 0] + rng.choice([0.0, 0.5, 2.0]) * rng.standard_normal(n) > 0, "yes", "no")
            y[:2] = "yes", "no"
            mass = rng.integers(0, 4, n) * rng.uniform(0.1, 2.0) + (np.arange(n) < 2)
            C = 10.0 ** rng.uniform(-3, 4)
            model = ATkClassifier("hinge", k=rng.uniform(0.02, 1.0), C=C, fit_intercept=fit_intercept, tol=1e-5)
            found = theory.check_nu_property(model.fit(X, y, mass), X, y, mass)
            assert found.holds, str(found)
            two_sided += found.is_two_sided
        assert 20 < two_sided < 100  # both kinds were met

    def test_between_errors_and_support_vectors_there_is_little_but_the_margin(self):
        X, y = make_toy(4, random_state=0)
        found = theory.check_nu_property(ATkClassifier(Hinge(), k=20, C=1.0).fit(X, y), X, y)
        assert found.is_two_sided
        assert found.k - found.margin_errors <= 3  # two features and an intercept fix three samples on the margin
        assert found.support_vectors - found.k <= 3

    def test_without_a_threshold_support_vectors_may_be_fewer(self):
        X, y = make_toy(1, random_state=0)
        found = theory.check_nu_property(ATkClassifier("hinge", k=150, C=1e3).fit(X, y), X, y)
        assert not found.is_two_sided
        assert found.holds
        assert found.support_vectors < found.k
        assert "not promised" in str(found)

    def test_violations_are_seen(self):
        margins, weights = [-1.0, -1.0, 0.5, 2.0], [0.5, 0.5, 0.0, 0.0]
        assert theory.nu_property(margins, weights, rho=0.5, k=2).holds
        assert not theory.nu_property(margins, weights, rho=0.5, k=1).holds
        too_few = theory.nu_property(margins, weights, rho=0.5, k=3)
        assert not too_few.holds
        assert "VIOLATED" in str(too_few)
        assert theory.nu_property(margins, weights, rho=1.0, k=3).holds
        assert theory.nu_property(margins, weights, rho=0.5, k=5, mass=[2, 1, 1, 1]).support_vectors == 3.0

    def test_refusals(self):
        X, y = make_toy(1, random_state=0)
        with pytest.raises(ValueError, match="hinge"):
            theory.check_nu_property(ATkClassifier(SquaredHinge()).fit(X, y), X, y)
        with pytest.raises(ValueError, match="class_weight"):
            theory.check_nu_property(ATkClassifier("hinge", class_weight="balanced").fit(X, y), X, y)
        three = np.arange(200) // 67
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = ATkClassifier("hinge").fit(X, three)
        with pytest.raises(ValueError, match="two classes"):
            theory.check_nu_property(model, X, three)
        with pytest.raises(ValueError, match="vectors of one length"):
            theory.nu_property([1.0], [1.0, 2.0], rho=0.5, k=1)
        with pytest.raises(ValueError, match="rho"):
            theory.nu_property([1.0], [1.0], rho=1.5, k=1)
        with pytest.raises(ValueError, match="k is expected"):
            theory.nu_property([1.0], [1.0], rho=0.5, k=2)
