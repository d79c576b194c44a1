"""The drawing of the measure against its price."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_breast_cancer

from atklearn import ATkClassifierCV, ATkRegressor, KCurveDisplay


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 2))
    return ATkRegressor(tail=0.1, at_most=0.05).fit(X, X[:, 0] + rng.exponential(size=400))


@pytest.fixture
def ax():
    from matplotlib.figure import Figure

    return Figure().subplots()


def test_the_front_is_what_no_cell_beats(fitted, ax):
    display = KCurveDisplay.from_estimator(fitted, ax=ax, color="black")
    cells, (prices, measures) = display.cells_.get_offsets(), display.front_.get_data()
    unbeaten = [cell for cell in cells if not (((cells <= cell).all(axis=1)) & (cells < cell).any(axis=1)).any()]
    assert_array_equal(np.sort(np.unique(unbeaten, axis=0)[:, 0]), prices)
    assert (np.diff(measures) < 0.0).all()
    assert display.front_.get_color() == "black"


def test_marks_are_where_the_selection_says(fitted, ax):
    display, selection = KCurveDisplay.from_estimator(fitted, ax=ax), fitted.selection_
    for name, cell in (("chosen", selection.chosen), ("average", selection.average)):
        expected = 100.0 * selection.prices[cell], selection.measured(cell)
        assert_allclose(display.marks_[name].get_offsets()[0], expected)
    assert_allclose(display.marks_["budget"].get_xdata()[0], 5.0)
    assert ax.get_ylabel() == selection.measure == "worst 10 % of the errors"
    assert (display.cells_.get_offsets()[:, 0] <= 20.0).all()


def test_without_a_budget_there_is_no_line_for_it(ax):
    X, y = load_breast_cancer(return_X_y=True)
    model = ATkClassifierCV(ks=3, Cs=2, cv=3, scoring="balanced_accuracy").fit(X / X.std(axis=0), y)
    display = KCurveDisplay.from_estimator(model, ax=ax)
    assert set(display.marks_) == {"average", "chosen"}
    assert (np.diff(display.front_.get_ydata()) > 0.0).all()


def test_without_a_choice_says_so():
    with pytest.raises(ValueError, match="call fit first"):
        KCurveDisplay.from_estimator(ATkRegressor())


def test_without_matplotlib_says_so(fitted, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        KCurveDisplay.from_estimator(fitted)
