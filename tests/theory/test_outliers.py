"""The range of k for a share of outliers, and how many samples to set aside."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import comb

from atklearn import ATkClassifier, theory
from atklearn.aggregates import AverageTopK
from atklearn.theory.outliers import OutlierRange

collapses = pytest.mark.filterwarnings("ignore::atklearn.CollapseWarning")


class TestOutliers:
    """AT_k bounds the top-k loss."""

    @pytest.mark.parametrize("seed", range(5))
    def test_the_bounds_hold_with_outliers_anywhere(self, seed):
        rng = np.random.default_rng(seed)
        losses = np.sort(rng.exponential(size=200))[::-1]
        allowed = theory.k_for_outliers(0.05, 200, max_looseness=8)
        m = allowed.n_outliers
        for k in range(m + 1, 201):
            assert losses[m] <= allowed.looseness(k) * AverageTopK(k).value(losses) * (1 + 1e-12)
            weights = AverageTopK(k).weights(losses)
            assert weights[:m].sum() <= allowed.outlier_weight(k) + 1e-12
        assert allowed.outlier_weight(allowed.lower) < 0.5 <= allowed.outlier_weight(allowed.lower - 1)
        assert allowed.looseness(allowed.upper) <= 8 < allowed.looseness(allowed.upper + 1)
        assert allowed.looseness(m) == math.inf

    @collapses
    def test_flipped_labels_collapse_the_fit_below_and_do_no_harm_above(self):
        rng = np.random.default_rng(0)
        truth = rng.choice([-1.0, 1.0], size=400)
        X = np.column_stack([truth, 0.1 * rng.standard_normal(400)])
        y = np.where(np.arange(400) < 20, -truth, truth)
        allowed = theory.k_for_outliers(0.05, 400)
        for k in (5, 20, 30):
            assert not ATkClassifier("hinge", k=k).fit(X, y).coef_.any()
        for k in (allowed.lower, 80, 400):
            assert (ATkClassifier("hinge", k=k).fit(X, y).predict(X) == truth).all()

    def test_rounding_and_ends(self):
        assert theory.k_for_outliers(0.07, 100).n_outliers == 7
        assert theory.k_for_outliers(0.071, 100).n_outliers == 8
        assert theory.k_for_outliers(0.0, 100) == OutlierRange(1, 100, 0, 100)
        assert theory.k_for_outliers(0.1, 1000, max_weight=0.2).lower == 501
        for max_looseness in (1e308, math.inf):
            assert theory.k_for_outliers(0.1, 100, max_looseness=max_looseness).upper == 100

    def test_refusals(self):
        for which in (theory.k_for_outliers, theory.trim_for_outliers):
            for share in (1.0, -0.1, 5, math.nan):
                with pytest.raises(ValueError, match="outlier_share"):
                    which(share, 100)
            for n in (0, 10.5, math.inf, 10**400):
                with pytest.raises(ValueError, match="n_samples is expected to be an int"):
                    which(0.1, n)
        with pytest.raises(ValueError, match="max_weight"):
            theory.k_for_outliers(0.1, 100, max_weight=1.0)
        for max_weight in (0.5, 5e-324):
            with pytest.raises(ValueError, match="clean the data"):
                theory.k_for_outliers(0.5, 100, max_weight=max_weight)
        for max_looseness in (1.5, -1.0, math.nan):
            with pytest.raises(ValueError, match="max_looseness"):
                theory.k_for_outliers(0.2, 100, max_looseness=max_looseness)


class TestTrim:
    """The outliers exceed the count as rarely as asked for, and no smaller count does."""

    @pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
    @pytest.mark.parametrize("share", [0.0, 0.001, 0.05, 0.3])
    @pytest.mark.parametrize("n", [1, 10, 60])
    def test_it_is_the_smallest_count_that_is_rarely_exceeded(self, n, share, confidence):
        counts = np.arange(n + 1)
        at_most = np.cumsum(comb(n, counts) * share**counts * (1 - share) ** (n - counts))
        trim = theory.trim_for_outliers(share, n, confidence=confidence) if at_most[n - 1] >= confidence else n
        assert at_most[trim] >= confidence
        assert trim == 0 or at_most[trim - 1] < confidence

    def test_samples_drawn_at_random(self):
        trim = theory.trim_for_outliers(0.05, 1000)
        outliers = (np.random.default_rng(0).random((4000, 1000)) < 0.05).sum(axis=1)
        assert (outliers <= trim).mean() == pytest.approx(0.95, abs=0.015)
        assert isinstance(trim, int)

    def test_refusals(self):
        for confidence in (0.0, 1.0, 95):
            with pytest.raises(ValueError, match="confidence"):
                theory.trim_for_outliers(0.1, 100, confidence=confidence)
        with pytest.raises(ValueError, match="clean the data"):
            theory.trim_for_outliers(0.9, 3)
