"""Questions that must have the same answers with Numba and without; run as a script, it answers them without.

``python tests/numba_free.py FILE`` writes its answers to a file, and what came of importing and of fitting arrays.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    sys.modules["numba"] = sys.modules["llvmlite"] = None  # as if not installed
    from no_torch import NoTorch

    sys.meta_path.insert(0, NoTorch())  # it would fit arrays where Numba cannot

import importlib
import pickle
import pkgutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone, is_regressor

import atklearn
from atklearn.core import newton as system
from atklearn.core import point
from atklearn.core import wide as quasi_newton
from atklearn.core.problem import Problem, weighted_square
from atklearn.core.solve import solve_linear
from atklearn.core.store import PlainStore
from atklearn.encoding.encoded import check_training, class_targets
from atklearn.losses.individual import INDIVIDUAL_LOSSES
from atklearn.runtime import threads
from atklearn.runtime.compiling import HAS_NUMBA

FITTED = (
    atklearn.ATkClassifier(),
    atklearn.ATkClassifier(k=0.7, class_weight="balanced"),
    atklearn.ATkRegressor("absolute_error", k=0.3),
    atklearn.ATkRegressor(),
    atklearn.ATkClassifierCV(ks=2, Cs=2, cv=2),
)
REFUSED = (
    atklearn.ATkSVC,
    atklearn.ATkSVR,
    atklearn.SGDATkClassifier,
)

SHAPES = ((60, 5, "free"), (60, 1, "free"), (80, 40, "penalized"), (50, 4, "none"), (30, 400, "free"))


def newton_systems() -> Iterator[tuple[str, Any]]:
    """Factor random Hessians of all orders, with and without a free coordinate, and solve with them."""
    rng = np.random.default_rng(0)
    for d in (1, 2, 7, 100):
        for free in sorted({-1, 0, d // 2, d - 1}):
            for order in "CF":
                A = rng.standard_normal((2 * d, d))
                H, ridge = np.asarray(A.T @ A / d, order=order), np.where(np.arange(d) == free, 0.0, 0.5)
                factored = system._eliminate(H, ridge, free, 1e-9)
                name = f"{d} columns, {free} is free, order {order}"
                yield f"factors of {name}", (*factored, H)
                for limit in (1e-3, 1e3):
                    step = system._back_substitute(*factored, free, limit, rng.standard_normal(d))
                    yield f"step of {name}, at most {limit}", step


def lifted_systems() -> Iterator[tuple[str, Any]]:
    """Factor what only a larger diagonal makes definite, and what nothing makes finite."""
    indefinite = np.array([[1.0, 1.003, 0.1], [1.003, 1.0, 0.2], [0.1, 0.2, 1.0]])
    for free in (-1, 2):
        yield f"lifted, {free} is free", system._eliminate(indefinite.copy(), np.zeros(3), free, 1e-9)
    for matrix in (np.eye(2) + 1.0, indefinite, np.full((2, 2), np.nan)):
        factor = matrix.copy()
        yield f"factor of {matrix}", (system._cholesky(factor), factor)


def vectors() -> Iterator[tuple[str, Any]]:
    """Compute what else has the size of the coefficients."""
    rng = np.random.default_rng(0)
    for d in (1, 6, 300):
        yield f"weighted square of {d}", weighted_square(rng.random(d), rng.standard_normal(d))
        factor, v = np.tril(rng.uniform(0.1, 0.5, (d, d))) / d + np.eye(d), rng.standard_normal(d)
        system._solve_factored(factor, v)
        yield f"solution of {d}", v
        steps, changes = rng.standard_normal((2, 20, d))
        for count in (0, 3, 50):
            gradient, inverse = rng.standard_normal(d), rng.uniform(0.1, 0.2, 20) / d
            direction = quasi_newton._two_loops(steps, changes, inverse, count, gradient, 0.3)
            yield f"quasi-Newton direction of {d} after {count}", direction


def thresholds() -> Iterator[tuple[str, Any]]:
    """Search thresholds from good guesses and bad ones."""
    rng = np.random.default_rng(0)
    for mu in (1e-6, 0.1, 10.0):
        for guess in (0.0, 0.5, 100.0):
            s, centre, k = rng.random(50), rng.random(50), float(rng.integers(1, 50))

            def shares(lam, s=s, centre=centre, mu=mu, k=k):
                r = centre + (s - lam) / mu
                return float(np.clip(r, 0.0, 1.0).sum() / k), float(((r > 0.0) & (r < 1.0)).sum() / k)

            def top(s=s, centre=centre, mu=mu):
                return float((s + mu * centre).max())

            found = point.search_threshold(shares, top, mu, guess, 50)
            yield f"threshold for {mu} from {guess}", found


def targets() -> Iterator[tuple[str, Any]]:
    """Look at many targets."""
    rng = np.random.default_rng(0)
    for values in (rng.random(5), rng.random(200_000), rng.integers(-5, 5, 20_000), np.array([np.nan, 1.0, 2.0])):
        yield f"extremes of {values}", threads.extremes(values)
    yield "extremes of nothing", threads.extremes(np.empty(0))
    for labels in (np.array([3, 7]), np.array([1.0, 2.0, 4.0])):
        found = class_targets(rng.choice(labels, 20_000), class_weight="balanced")
        yield f"targets of {labels}", (found.values, found.mass, found.classes, found.total)
    X, y = rng.random((1_000_000, 1)), np.ones(1_000_000)
    yield "a large array", check_training(None, X, y)[0][:9]
    X[777_777] = np.nan
    try:
        check_training(None, X, y)
    except ValueError as error:
        yield "a large array with a gap", str(error)


def answers() -> dict[str, Any]:
    """Answer all of these."""
    parts = (newton_systems(), lifted_systems(), vectors(), thresholds(), targets())
    return {question: answer for part in parts for question, answer in part}


def solutions() -> dict[str, tuple[float, Any]]:
    """Solve problems on plain rows: of every loss, with few columns, many, and so many that steps get cheaper."""
    found = {}
    for loss, kind in INDIVIDUAL_LOSSES.items():
        for n, d, intercept in SHAPES:
            rng = np.random.default_rng(d)
            X = rng.standard_normal((n, d))
            score = X @ rng.standard_normal(d) / np.sqrt(d) + 0.3 + 0.3 * rng.standard_normal(n)
            y = np.where(score > 0.0, 1.0, -1.0) if kind.task == "classification" else score
            rows = PlainStore(X, y, rng.uniform(0.5, 2.0, n), kind(), intercept != "none")
            # not tighter than usual, or rounding shows
            solution = solve_linear(Problem(rows, 0.4 * rows.total, 1.0, intercept))
            found[f"{loss} of {n} rows and {d} columns"] = solution.objective, solution.coef
    return found


def missing_in_modules() -> dict[str, str]:
    """Import every module; return the packages that those lack that cannot be imported."""
    found = {}
    for module in pkgutil.walk_packages(atklearn.__path__, "atklearn."):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            found[module.name] = str(error.name).split(".")[0]
    return found


def fits() -> dict[str, Any]:
    """Fit arrays, dense and sparse; return objectives and coefficients."""
    rng, found = np.random.default_rng(0), {}
    X = rng.standard_normal((80, 3)) * (rng.random((80, 3)) < 0.8)
    y = X @ [1.0, -2.0, 0.5] + rng.standard_normal(80)
    for name, data in (("dense", X), ("sparse", sp.csr_array(X))):
        for estimator in FITTED:
            fitted = clone(estimator).fit(data, y if is_regressor(estimator) else y > 0.0)
            found[f"{estimator}, {name}"] = fitted.objective_, fitted.coef_, fitted.intercept_
    return found


def refusals() -> dict[str, str]:
    """Fit arrays; return what is said."""
    found = {}
    X, y = np.random.default_rng(0).standard_normal((40, 2)), np.arange(40) % 2
    for estimator in REFUSED:
        try:
            estimator().fit(X, y)
        except ModuleNotFoundError as error:
            found[estimator.__name__] = str(error)
    return found


if __name__ == "__main__":
    assert not HAS_NUMBA
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        told = {"answers": answers(), "solutions": solutions(), "refusals": refusals(), "fits": fits()}
    Path(sys.argv[1]).write_bytes(pickle.dumps(told | {"missing": missing_in_modules()}))
