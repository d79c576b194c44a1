"""What has to work where nothing but the wheel is installed: estimators fit, and agree with scikit-learn's."""

import warnings
from importlib.metadata import version
from importlib.util import find_spec

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler

import atklearn
from atklearn import ATkClassifier, ATkRegressor, ATkSVC, ATkSVR, CollapseWarning, SGDATkClassifier

assert version("atklearn") == atklearn.__version__
assert all(find_spec(name) is None for name in ("pandas", "plotly", "rich", "typer", "torch", "dask", "lightgbm"))

X, y = load_breast_cancer(return_X_y=True)
X = StandardScaler().fit_transform(X)
same = LogisticRegression(tol=1e-8, max_iter=1000).fit(X, y)
model = ATkClassifier(k=1.0, tol=1e-8).fit(X, y)
np.testing.assert_allclose(model.coef_, same.coef_, atol=1e-3)

model = ATkClassifier(k=0.3).fit(X, y)
assert model.dual_gap_ <= model.tol * max(1.0, model.objective_)
assert model.score(X, y) > 0.95
assert ATkClassifier().fit(X, y).score(X, y) > 0.95  # chooses k
assert ATkSVC(k=0.5).fit(X, y).score(X, y) > 0.95
assert SGDATkClassifier(k=0.5, random_state=0).fit(X, y).score(X, y) > 0.9

Z, z = load_diabetes(return_X_y=True)
np.testing.assert_allclose(ATkRegressor(k=1.0, tol=1e-10).fit(Z, z).coef_, Ridge().fit(Z, z).coef_, rtol=1e-4)
worst = np.sort(np.abs(z - ATkRegressor(k=0.1, C=1e4).fit(Z, z).predict(Z)))[-44:].mean()
assert worst < np.sort(np.abs(z - Ridge(alpha=1e-2).fit(Z, z).predict(Z)))[-44:].mean()
assert ATkSVR(k=0.5, C=1e4).fit(Z, z).score(Z, z) > 0.4

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    flipped = np.where(np.random.default_rng(0).random(len(y)) < 0.4, 1 - y, y)
    ATkClassifier(k=0.02).fit(X, flipped)
assert [warning.category for warning in caught] == [CollapseWarning], caught

print(
    f"atklearn {atklearn.__version__} fits with "
    + ", ".join(f"{n} {version(n)}" for n in ("numpy", "scikit-learn", "numba"))
)
