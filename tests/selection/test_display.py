"""The drawing of the score against k."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import scale

from atklearn import ATkClassifier, ATkClassifierCV, KCurveDisplay


@pytest.fixture(scope="module")
def fitted():
    X, y = load_breast_cancer(return_X_y=True)
    return ATkClassifierCV(ks=3, Cs=2, cv=3, scoring="balanced_accuracy").fit(scale(X), y)


@pytest.fixture
def ax():
    from matplotlib.figure import Figure

    return Figure().subplots()


def test_draws_the_best_C_of_every_k(fitted, ax):
    display = KCurveDisplay.from_estimator(fitted, ax=ax, color="black")
    x, y = display.line_.get_data()
    assert_allclose(x, fitted.ks_)
    assert_allclose(y, fitted.cv_results_["mean_test_score"].reshape(3, 2).max(axis=1))
    assert display.line_.get_color() == "black"
    assert ax.get_xscale() == "log"
    assert ax.get_ylabel() == "balanced_accuracy"
    assert_allclose(display.marks_["chosen"].get_xdata()[0], fitted.k_share_)
    assert_allclose(display.marks_["calibration bound"].get_xdata()[0], fitted.calibration_bound_)


@pytest.mark.parametrize(
    ("ks", "scale", "marks"),
    [
        ([0.3, 0.5, 1.0], "linear", {"k = n", "chosen", "calibration bound", "k = 1"}),
        ([0.05, 0.2, 1.0], "log", {"k = n", "chosen", "calibration bound"}),
        ([0.003, 0.1, 1.0], "log", {"k = n", "chosen", "calibration bound", "k = 1"}),
        ([0.6, 0.7, 0.8], "linear", {"chosen"}),
    ],
)
def test_the_curve_is_not_squeezed_by_what_is_far_off(ks, scale, marks, ax):
    ks = np.array(ks)
    known = {"chosen_k": ks[-1], "calibration_bound": 0.02, "n_samples": 600}
    display = KCurveDisplay(ks=ks, mean_score=ks, standard_error=0.1 * ks, **known).plot(ax)
    assert ax.get_xscale() == scale
    assert set(display.marks_) == {label.get_text() for label in ax.get_legend().get_texts()[2:]} == marks
    at = ax.transAxes.inverted().transform(ax.transData.transform(np.column_stack([ks, ks])))[:, 0]
    assert ((at > 0) & (at < 1)).all()
    assert at.size == 1 or np.ptp(at) > 0.5
    shown = [tick for tick in ax.get_xticks() if ax.get_xlim()[0] <= tick <= ax.get_xlim()[1]]
    assert len(shown) >= 3


def test_draws_a_grid_search(ax):
    X, y = load_breast_cancer(return_X_y=True)
    search = GridSearchCV(ATkClassifier(), {"k": [0.3, 1.0]}, cv=3).fit(scale(X), y)
    display = KCurveDisplay.from_cv_results(search.cv_results_, ax=ax)
    assert_allclose(display.mean_score, search.cv_results_["mean_test_score"])
    assert set(display.marks_) == {"k = n"}


def test_leaves_out_what_an_interrupt_left_open(fitted, ax):
    results = {
        name: np.array(values, dtype=object if name == "params" else None)
        for name, values in fitted.cv_results_.items()
    }
    results["mean_test_score"][:1] = np.nan
    assert KCurveDisplay.from_cv_results(results, ax=ax).ks.size == 2


def test_without_a_fit_says_so():
    with pytest.raises(ValueError, match="call fit first"):
        KCurveDisplay.from_estimator(ATkClassifierCV())


def test_without_matplotlib_says_so(fitted, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        KCurveDisplay.from_estimator(fitted)
