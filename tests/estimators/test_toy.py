"""The paper's toy cases: AT_k finds the boundary that neither the maximum nor the average finds."""

from __future__ import annotations

import numpy as np
import pytest

from atklearn import ATkClassifier, CollapseWarning
from atklearn.datasets import make_toy


def error(X, y, loss, k) -> float:
    return 1.0 - ATkClassifier(loss, k=k, C=100.0, penalize_intercept=True).fit(X, y).score(X, y)


@pytest.mark.parametrize("loss", ["log_loss", "hinge"])
@pytest.mark.filterwarnings("ignore::atklearn.CollapseWarning")  # the maximum loss collapses on the outlier
@pytest.mark.parametrize(("case", "k"), [(4, 10), (6, 8)])
@pytest.mark.parametrize("seed", [0, 1])
def test_an_outlier_and_a_rare_group(case, k, loss, seed):
    X, y = make_toy(case, random_state=seed)
    assert error(X, y, loss, k) <= 0.006  # the outlier alone
    assert error(X, y, loss, 1.0) > 0.006
    if case == 4:  # in case 6 the four negative samples may leave the outlier on its side of a line
        assert error(X, y, loss, "max") > 0.006


@pytest.mark.parametrize("loss", ["log_loss", "hinge"])
def test_separable_classes_are_separated_by_every_k(loss):
    X, y = make_toy(1, random_state=0)
    assert [error(X, y, loss, k) for k in ("max", 10, 100, 1.0)] == [0.0] * 4


def test_the_maximum_collapses_on_an_outlier_and_says_so():
    X, y = make_toy(2, random_state=0)
    with pytest.warns(CollapseWarning):
        error(X, y, "log_loss", "max")


def test_cases_are_what_the_paper_describes():
    for case in range(1, 7):
        X, y = make_toy(case, random_state=0)
        assert X.shape == (200, 2)
        assert (y < 0).sum() == (100 if case <= 4 else 4)
        np.testing.assert_array_equal(make_toy(case, random_state=0)[0], X)
    with pytest.raises(ValueError, match="1 to 6"):
        make_toy(7)
