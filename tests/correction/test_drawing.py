"""The drawing of a correction: what was chosen from, and what it brings."""

from __future__ import annotations

import matplotlib
import numpy as np
import pytest
from correction_problems import Affine, biased_group, noisy_classes
from numpy.testing import assert_allclose
from sklearn.linear_model import Ridge
from sklearn.naive_bayes import GaussianNB

from atklearn.correction import TailCorrectedClassifier, TailCorrectedRegressor, TailFrontDisplay


@pytest.fixture(autouse=True)
def without_a_screen():
    from matplotlib import pyplot

    matplotlib.use("agg")
    yield
    pyplot.close("all")


@pytest.mark.parametrize(
    ("kind", "base", "rows"),
    [(TailCorrectedRegressor, Ridge(1e4), biased_group), (TailCorrectedClassifier, GaussianNB(), noisy_classes)],
)
def test_bars_are_the_changes_of_the_profile(kind, base, rows):
    model = kind(base, tail=0.03, experts=None).fit(*rows())
    display = TailFrontDisplay.from_estimator(model)
    for name, bars in display.bars_.items():
        heights = [bar.get_height() for bar in bars]
        assert_allclose(heights, 100.0 * (model.profile_.worst[name] / model.profile_.worst["plain"] - 1.0))
    front, profile = display.figure_.axes
    assert front.get_ylabel() == model.selection_.measure
    assert [tick.get_text() for tick in profile.get_xticklabels()] == [
        "20 %",
        "10 %",
        "5 %",
        "3 %",
        "2 %",
        "1 %",
        "largest",
    ]
    display.figure_.canvas.draw()


def test_may_be_put_beside_others():
    from matplotlib.figure import Figure

    axes = Figure().subplots(1, 2)
    model = TailCorrectedRegressor(Ridge(), experts=None).fit(*biased_group())
    assert TailFrontDisplay.from_estimator(model, axes=axes).figure_ is axes[0].figure


def test_of_a_model_without_errors_has_nothing_to_show():
    X = np.arange(100.0)[:, None]
    model = TailCorrectedRegressor(Affine().fit(), experts=None, cv="prefit").fit(X, X[:, 0])
    display = TailFrontDisplay.from_estimator(model)
    assert {bar.get_height() for bars in display.bars_.values() for bar in bars} == {0.0}


def test_without_a_fit_says_so():
    with pytest.raises(ValueError, match=r"expects a fitted tail correction, got TailCorrectedRegressor .* call fit"):
        TailFrontDisplay.from_estimator(TailCorrectedRegressor())
