"""The measures of a grid are those of its fits one by one."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import mean_absolute_error, root_mean_squared_error

from atklearn import ATkClassifier, ATkRegressor, atk_path
from atklearn.study.grid_measures import grid_measures, group_measures
from atklearn.measures.scores import balanced_error, g_mean, tail_loss, worst_class_error, worst_group_error

KS, CS = [1, 0.4, 1.0], [0.1, 10.0]
pytestmark = pytest.mark.filterwarnings("ignore::atklearn.CollapseWarning")


def problem(n_classes, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((120, 4))
    scores = X[:, :2] @ rng.standard_normal((2, n_classes)) + rng.standard_normal((120, n_classes))
    return X[:80], scores.argmax(axis=1)[:80], X[80:], scores.argmax(axis=1)[80:]


@pytest.mark.parametrize("loss", ["log_loss", "hinge"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classification(n_classes, loss):
    X, y, X_new, y_new = problem(n_classes)
    path = atk_path(X, y, ks=KS, Cs=CS, loss=loss, tol=1e-9)
    found = grid_measures(path, loss, path.scores(X_new), y_new)
    groups = np.where(X_new[:, 0] > 0.0, "a", "b")
    by_group = group_measures(path, path.scores(X_new), y_new, groups)
    for (i, k), (j, C) in cells():
        said = ATkClassifier(loss, k=k, C=C, tol=1e-9).fit(X, y).predict(X_new)
        assert found["error"][i, j] == pytest.approx((said != y_new).mean())
        assert found["balanced_error"][i, j] == pytest.approx(balanced_error(y_new, said))
        assert found["worst_class_error"][i, j] == pytest.approx(worst_class_error(y_new, said))
        assert found["g_mean"][i, j] == pytest.approx(g_mean(y_new, said))
        worst = worst_group_error(y_new, said, groups=groups)
        assert max(values[i, j] for values in by_group.values()) == pytest.approx(worst)


def cells():
    return [((i, k), (j, C)) for i, k in enumerate(KS) for j, C in enumerate(CS)]


@pytest.mark.parametrize("loss", ["log_loss", "hinge"])
def test_the_tail_of_two_classes(loss):
    X, y, X_new, y_new = problem(2)
    path = atk_path(X, y, ks=KS, Cs=CS, loss=loss)
    found = grid_measures(path, loss, path.scores(X_new), y_new)["tail_loss"]
    signs = np.where(y_new == 1, 1.0, -1.0)
    for (i, _), (j, _) in cells():
        assert found[i, j] == pytest.approx(tail_loss(signs, path.scores(X_new)[i, j, 0], loss=loss, k=0.1))


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error"])
def test_regression(loss):
    X, y, X_new, y_new = problem(2)
    y, y_new = 1.0 * y + X[:, 2], 1.0 * y_new + X_new[:, 2]
    path = atk_path(X, y, ks=KS, Cs=CS, loss=loss, tol=1e-9)
    found = grid_measures(path, loss, path.scores(X_new), y_new)
    groups = np.where(X_new[:, 0] > 0.0, "a", "b")
    by_group = group_measures(path, path.scores(X_new), y_new, groups)
    for (i, k), (j, C) in cells():
        said = X_new @ path.coefs[i, j, 0] + path.intercepts[i, j, 0]
        fitted = ATkRegressor(loss, k=k, C=C, tol=1e-9).fit(X, y).predict(X_new)
        np.testing.assert_allclose(said, fitted, atol=0.01)
        assert found["rmse"][i, j] == pytest.approx(root_mean_squared_error(y_new, said))
        assert found["mae"][i, j] == pytest.approx(mean_absolute_error(y_new, said))
        assert found["tail_loss"][i, j] == pytest.approx(tail_loss(y_new, said, loss=loss, k=0.1))
        rows = groups == "a"
        assert by_group["a"][i, j] == pytest.approx(root_mean_squared_error(y_new[rows], said[rows]))
