"""Theorem 1: where the loss calibrates, on distributions whose Bayes rule is known."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from atklearn import ATkClassifier, theory
from atklearn.datasets import make_toy

# Six points with one indicator feature each: linear functions are all functions, and the Bayes rule is read off.
PRIOR = np.array([0.3, 0.2, 0.2, 0.1, 0.1, 0.1])
POSITIVE = np.array([0.95, 0.1, 0.85, 0.2, 0.9, 0.05])
RARELY_WRONG = np.array([0.99, 0.02, 0.97, 0.02, 0.99, 0.01])
BAYES = np.sign(POSITIVE - 0.5)  # the same for both
BAYES_ERROR = float(PRIOR @ np.minimum(POSITIVE, 1.0 - POSITIVE))
SWITCH = 2.0 * BAYES_ERROR

collapses = pytest.mark.filterwarnings("ignore::atklearn.CollapseWarning")


def population():
    X, y = np.tile(np.eye(6), (2, 1)), np.repeat([1.0, -1.0], 6)
    return X, y, np.concatenate([PRIOR * POSITIVE, PRIOR * (1.0 - POSITIVE)])


def draw(n, *seed, positive=POSITIVE):
    rng = np.random.default_rng(seed)
    point = rng.choice(6, size=n, p=PRIOR)
    return np.eye(6)[point], np.where(rng.random(n) < positive[point], 1.0, -1.0)


def fit(X, y, k, loss="hinge", C=1e4, sample_weight=None):
    k = "max" if k == 1 and not isinstance(k, float) else k
    return ATkClassifier(loss, k=k, C=C, fit_intercept=False).fit(X, y, sample_weight)


class TestCalibration:
    """Theorem 1."""

    @collapses
    @pytest.mark.parametrize("loss", ["hinge", "log_loss", "squared_hinge"])
    def test_the_population_switches_at_twice_the_bayes_error_whatever_the_loss(self, loss):
        X, y, mass = population()
        for share in (0.05, BAYES_ERROR, 0.99 * SWITCH):
            assert not fit(X, y, share, loss, sample_weight=mass).coef_.any()
        for share in (1.01 * SWITCH, 0.5, 1.0):
            assert_allclose(np.sign(fit(X, y, share, loss, sample_weight=mass).coef_[0]), BAYES)

    @collapses
    @pytest.mark.parametrize(
        ("positive", "loss", "n"),
        [
            (POSITIVE, "hinge", 1000),
            (POSITIVE, "log_loss", 400),
            (RARELY_WRONG, "hinge", 200),  # a third of the samples shows two wrong labels or fewer
        ],
        ids=["hinge", "log_loss", "rarely wrong"],
    )
    def test_the_interval_covers_the_switch_and_its_ends_behave_as_the_theorem_says(self, positive, loss, n):
        switch = 2.0 * PRIOR @ np.minimum(positive, 1.0 - positive)
        covers = tight = 0
        for seed in range(100):
            X, y = draw(n, seed, n, positive=positive)
            interval = theory.calibration_interval(X, y, loss, fit_intercept=False, random_state=seed)
            covers += interval.lower <= switch <= interval.upper
            tight += interval.switch_lower <= switch <= interval.switch_upper
            assert interval.lower <= interval.switch_lower <= interval.switch <= interval.switch_upper
            assert interval.switch <= interval.upper
            if seed % 5 == 0:
                if interval.degenerate_k > 0:
                    assert not fit(X, y, interval.degenerate_k, loss).coef_.any()
                assert (np.sign(fit(X, y, interval.calibrated_k, loss).coef_[0]) == BAYES).all()
        assert covers >= 95
        assert tight >= 90

    def test_estimates_come_near_the_truth(self):
        X, y = draw(20_000, 0)
        interval = theory.calibration_interval(X, y, "log_loss", C=1e4, fit_intercept=False, random_state=0)
        entropy = -(POSITIVE * np.log2(POSITIVE) + (1 - POSITIVE) * np.log2(1 - POSITIVE))
        assert_allclose(interval.bayes_error, BAYES_ERROR, atol=0.01)
        assert_allclose(interval.risk, PRIOR @ entropy, atol=0.02)  # in bits: log loss in units of l(0)
        assert_allclose(interval.switch, SWITCH, atol=0.02)

    @collapses
    def test_the_switch_is_that_of_the_sample(self):
        X, y = make_toy(4, random_state=0)
        X = np.vstack([X, X[:20]])
        y = np.append(y, -y[:20])
        k = 220 * theory.calibration_interval(X, y, random_state=0).switch
        assert not ATkClassifier(k=int(0.99 * k), C=1e4).fit(X, y).coef_.any()
        assert ATkClassifier(k=int(1.02 * k) + 1, C=1e4).fit(X, y).coef_.any()

    def test_more_rows_than_the_switch_needs_and_sparse_data(self):
        X, y = draw(30_000, 1)
        dense = theory.calibration_interval(X, y, "hinge", fit_intercept=False, random_state=0)
        rows = sp.csr_array(X)
        rows.indices, rows.indptr = rows.indices.astype(np.int64), rows.indptr.astype(np.int64)  # as read from files
        sparse = theory.calibration_interval(rows, y, "hinge", fit_intercept=False, random_state=0)
        assert dense.switch_lower < SWITCH < dense.switch_upper
        assert_allclose(sparse.upper, dense.upper, rtol=1e-3)

    def test_separable_classes_calibrate_at_every_k(self):
        X, y = make_toy(1, random_state=0)
        interval = theory.calibration_interval(X, y, "hinge", random_state=0)
        assert interval.lower == 0.0
        assert interval.degenerate_k == 0
        assert "no k is known to be too small" in str(interval)
        assert interval.switch < 1e-3

    def test_pure_noise_has_no_calibrated_k_and_says_so(self):
        rng = np.random.default_rng(0)
        X, y = rng.standard_normal((200, 3)), rng.choice(["a", "b"], 200)
        interval = theory.calibration_interval(X, y, random_state=0)
        assert interval.calibrated_k is None
        assert "no k is known" in str(interval)

    def test_the_text_has_the_numbers(self):
        X, y = draw(1000, 3)
        interval = theory.calibration_interval(X, y, "hinge", fit_intercept=False, random_state=0)
        assert f"[{interval.lower:.3f}, {interval.upper:.3f}]" in str(interval)
        assert f"k <= {interval.degenerate_k} is too small" in str(interval)

    def test_refusals(self):
        X, y = draw(100, 0)
        with pytest.raises(ValueError, match="two classes"):
            theory.calibration_interval(X, np.arange(100) % 3)
        with pytest.raises(ValueError, match="lower cv"):
            theory.calibration_interval(X, np.arange(100) < 4)
        with pytest.raises(ValueError, match="confidence"):
            theory.calibration_interval(X, y, confidence=95)
        with pytest.raises(ValueError, match="classification"):
            theory.calibration_interval(X, y, "squared_error")
        for largest in (1e154, 1e300):
            for features in (X * largest, sp.csr_array(X * largest)):
                with pytest.raises(ValueError, match="X is expected to hold numbers whose squares float64 can add up"):
                    theory.calibration_interval(features, y)
