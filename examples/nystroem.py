"""A kernel machine on 200,000 rows: Nystroem features and the linear estimator, against ATkSVC on a subsample.

An exact kernel machine needs time and support vectors that grow with the square of the number of samples. `Nystroem`
replaces the kernel by a few hundred features, on which `ATkClassifier(loss="hinge")` minimises the same objective.

    python examples/nystroem.py [n_samples]
"""

from __future__ import annotations

import sys
import time

import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline

from atklearn import ATkClassifier, ATkSVC

GAMMA, K, C = 0.1, 0.5, 10_000.0
N_TEST = 20_000


def make_data(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Ten features, a curved boundary, one label in twenty flipped."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 10))
    curve = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 3]
    return X, (curve > 0.0) ^ (rng.random(n) < 0.05)


def main(n: int = 200_000) -> None:
    """Print time and accuracy of the exact machine on subsamples and of the approximate one on all rows."""
    X, y = make_data(n, seed=0)
    X_test, y_test = make_data(N_TEST, seed=1)
    print(f"{'model':34} {'rows':>8} {'seconds':>8} {'test accuracy':>14}   gap/objective")
    for rows in (2_000, 8_000):
        begin = time.perf_counter()
        exact = ATkSVC(gamma=GAMMA, k=K, C=C).fit(X[:rows], y[:rows])
        seconds = time.perf_counter() - begin
        gap = exact.dual_gap_ / exact.objective_
        print(f"{'ATkSVC':34} {rows:8} {seconds:8.1f} {exact.score(X_test, y_test):14.3f}   {gap:.0e}")
    for n_components in (300, 1000):
        linear = ATkClassifier(loss="hinge", k=K, C=C, tol=1e-3)
        model = make_pipeline(Nystroem(gamma=GAMMA, n_components=n_components, random_state=0), linear)
        begin = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - begin
        gap = model[-1].dual_gap_ / model[-1].objective_
        label = f"Nystroem({n_components}) + ATkClassifier"
        print(f"{label:34} {n:8} {seconds:8.1f} {model.score(X_test, y_test):14.3f}   {gap:.0e}")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
