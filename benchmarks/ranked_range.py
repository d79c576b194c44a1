"""Whether a fit that sets rows aside finds the right ones, and what it costs.

optimum   How often a fit finds the least objective there is, on problems small enough to try all sets of rows.
cost      Times of fits with trim=.1 over those without.
outliers  Outliers that are alike and far out: are they found? Beside RANSAC and Huber regression of scikit-learn.

Usage: ./run bench ranked_range optimum | cost | outliers
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import defaultdict
from itertools import combinations, product
from typing import Any

import numpy as np
from joblib import cpu_count
from mislabelled import in_parallel, print_table
from sklearn.linear_model import HuberRegressor, RANSACRegressor

from atklearn import ATkClassifier, ATkRegressor

# --- optimum ---------------------------------------------------------------------------------------------------------

LOSSES = ("log_loss", "squared_hinge", "hinge", "squared_error", "absolute_error")
N_PROBLEMS = 300
STARTS = (0, 50, 500)
AS_GOOD = 1e-5


def estimator(loss: str, **settings: Any) -> Any:
    return (ATkRegressor if loss.endswith("error") else ATkClassifier)(loss, **settings)


def optimum_problem(loss: str, seed: int) -> tuple[str, list[bool], list[float], bool]:
    """Return whether fits with few and many starts are as good as can be, how far they are off, and if k = n."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng([2, seed])
    n, d, trim = int(rng.integers(8, 15)), int(rng.integers(1, 4)), int(rng.integers(1, 4))
    k = int(rng.integers(trim + 1, n + 1))
    C = float(10.0 ** rng.uniform(0.0, 3.0))
    X = rng.standard_normal((n, d))
    y = X @ rng.standard_normal(d) + rng.standard_normal(n)
    if loss.endswith("error"):
        y[:trim] += 5.0 * rng.standard_normal(trim)
    else:
        y = np.where(y > np.median(y), 1, -1)  # four rows of a class or more
        y = np.where(rng.random(n) < 0.15, -y, y)
        for label in (-1, 1):  # at least a tenth of every class stays: no class small enough for that to matter
            others = np.flatnonzero(y != label)
            y[others[: max(0, trim + 1 - (y == label).sum())]] = label
    least = np.inf
    for aside in combinations(range(n), trim):
        left = np.setdiff1d(np.arange(n), aside)
        least = min(least, estimator(loss, k=k - trim, C=C).fit(X[left], y[left]).objective_)
    objectives = [estimator(loss, k=k, trim=trim, C=C, n_init=count).fit(X, y).objective_ for count in STARTS]
    excess = [(value - least) / max(least, 1e-9) for value in objectives]
    return loss, [each <= AS_GOOD for each in excess], excess, k == n


def optimum() -> None:
    begin = time.perf_counter()
    cases = [(LOSSES[seed % len(LOSSES)], seed) for seed in range(N_PROBLEMS)]
    runs = in_parallel(optimum_problem, cases)
    print("# How often a fit with trim finds the least objective there is\n")
    print(
        f"{N_PROBLEMS} random problems of 8 to 14 rows, 1 to 3 columns, trim 1 to 3, k from trim + 1 to n, C from 1 to "
        f"1000; the least of the exact AT_(k-trim) objectives on the other rows, of all sets of rows. Found: within "
        f"{AS_GOOD} of it. Excess: of those that are not found, the median relative excess of the objective.\n"
    )
    rows = []
    groups = [*((loss, [run for run in runs if run[0] == loss]) for loss in LOSSES), ("all", runs),
              ("all, k = n (trimmed)", [run for run in runs if run[3]]),
              ("all, k < n", [run for run in runs if not run[3]])]  # fmt: skip
    for name, these in groups:
        found, excess = np.array([run[1] for run in these]), np.array([run[2] for run in these])
        texts = []
        for place in range(len(STARTS)):
            off = excess[~found[:, place], place]
            texts.append(f"{found[:, place].mean():.0%}" + (f" ({np.median(off):.1%})" if off.size else ""))
        rows.append([name, str(len(these)), *texts])
    print_table(["loss", "problems", *(f"n_init={count} (excess)" for count in STARTS)], rows)
    below = min(min(run[2]) for run in runs)
    print(f"Lowest relative excess: {below:.1e}. {time.perf_counter() - begin:.0f} s.", flush=True)


# --- cost ------------------------------------------------------------------------------------------------------------

COST_LOSSES = ("log_loss", "hinge", "squared_error", "absolute_error")
SIZES = ((200, 5), (1000, 10), (10_000, 20), (100_000, 20), (20_000, 100))
REPEATS = 3


def cost_data(loss: str, n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows with a tenth of the labels flipped, or of the targets shifted."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    score = X @ rng.standard_normal(d) / np.sqrt(d)
    wrong = rng.random(n) < 0.1
    if loss.endswith("error"):
        return X, score + 0.3 * rng.standard_normal(n) + 3.0 * wrong
    y = np.where(score + 0.3 * rng.standard_normal(n) > 0.0, 1, -1)
    return X, np.where(wrong, -y, y)


def best_time(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        model.fit(X, y)
        times.append(time.perf_counter() - begin)
    return min(times)


def cost() -> None:
    warnings.simplefilter("ignore")
    begin = time.perf_counter()
    print("# Times of fits with trim=.1 over those without\n")
    print(
        f"Milliseconds without -> with, best of {REPEATS}, and their ratio; a tenth of the labels flipped or of the "
        f"targets shifted; all else as it comes; {cpu_count()} cores.\n"
    )
    for loss, k in product(COST_LOSSES, (1.0, 0.7)):  # compile
        estimator(loss, k=k, trim=0.1).fit(*cost_data(loss, 100, 5))
    rows = []
    for n, d in SIZES:
        for k in ("auto", 1.0, 0.7):
            texts = []
            for loss in COST_LOSSES:
                X, y = cost_data(loss, n, d)
                plain, ranged = (1e3 * best_time(estimator(loss, k=k, trim=trim), X, y) for trim in (0, 0.1))
                texts.append(f"{plain:.1f} -> {ranged:.1f}: {ranged / plain:.1f} x")
            rows.append([f"{n} x {d}", str(k), *texts])
    print_table(["rows x columns", "k", *COST_LOSSES], rows)
    print(f"{time.perf_counter() - begin:.0f} s.", flush=True)


# --- outliers --------------------------------------------------------------------------------------------------------

DISTANCES = (5.0, 10.0, 30.0)
SLOPES = (1.0, 3.0)  # by how much the target of the outliers is off, in parts of their distance
OUTLIER_RUNS = 20
ROWS = 300


def far_regression(distance: float, slope: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return X, y, the true coefficients, and which quarter of the rows lies far out with wrong targets."""
    rng = np.random.default_rng([3, seed])
    w = rng.standard_normal(5)
    X = rng.standard_normal((ROWS, 5))
    y = X @ w + 0.5 * rng.standard_normal(ROWS)
    wrong = np.arange(ROWS) < ROWS // 4
    direction = rng.standard_normal(5)
    X[wrong] = distance * direction / np.linalg.norm(direction) + 0.3 * rng.standard_normal((wrong.sum(), 5))
    y[wrong] = X[wrong] @ w + slope * distance + 0.5 * rng.standard_normal(wrong.sum())
    return X, y, w, wrong


def far_classes(distance: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return X, y, the true direction, and which 14 % of the rows lie far out on the wrong side."""
    rng = np.random.default_rng([4, seed])
    w = rng.standard_normal(5)
    w /= np.linalg.norm(w)
    X = rng.standard_normal((ROWS, 5))
    y = np.where(X @ w + 0.3 * rng.standard_normal(ROWS) > 0.0, 1, -1)
    wrong = np.arange(ROWS) < round(0.14 * ROWS)
    X[wrong] = distance * w + 0.3 * rng.standard_normal((wrong.sum(), 5))
    y[wrong] = -1
    return X, y, w, wrong


def outliers() -> None:
    warnings.simplefilter("ignore")
    begin = time.perf_counter()
    print(f"# Outliers that are alike and far out: {ROWS} x 5, {OUTLIER_RUNS} runs each\n")
    print(
        "Recall: the mean share of the outliers that are named; all: the share of the runs in which at least 99 % are; "
        "named: rows. Stuck: the share of the runs that end above the objective of the exact fit to the good rows, so "
        "that it is the search that failed. trim is the true share.\n\n"
        "## A quarter of the rows in a far-out cluster with wrong targets: 75 outliers\n\n"
        "Off: by how much the targets are off, in parts of the distance. Error: the median distance to the true "
        "coefficients.\n"
    )
    rows = []
    for distance, slope in product(DISTANCES, SLOPES):
        seen: dict[str, list[tuple[float, ...]]] = defaultdict(list)
        for seed in range(OUTLIER_RUNS):
            X, y, w, wrong = far_regression(distance, slope, seed)
            for loss, count in product(("squared_error", "absolute_error"), STARTS):
                model = ATkRegressor(loss, trim=0.25, n_init=count).fit(X, y)
                error = np.linalg.norm(model.coef_ - w)
                seen[f"{loss}, n_init={count}"].append(
                    (*found(model.set_aside_, wrong, error), stuck(model, X, y, wrong))
                )
            plain = ATkRegressor(k=1.0).fit(X, y)
            largest = np.argsort(-np.abs(y - plain.predict(X)))[: wrong.sum()]
            seen["average: its largest losses"].append(found(largest, wrong, np.linalg.norm(plain.coef_ - w)))
            ransac = RANSACRegressor(random_state=seed).fit(X, y)
            away = np.flatnonzero(~ransac.inlier_mask_)
            seen["RANSACRegressor"].append(found(away, wrong, np.linalg.norm(ransac.estimator_.coef_ - w)))
            huber = HuberRegressor(max_iter=1000).fit(X, y)
            away = np.flatnonzero(huber.outliers_)
            seen["HuberRegressor"].append(found(away, wrong, np.linalg.norm(huber.coef_ - w)))
        rows += [[f"{distance:.0f}", f"{slope:.0f}", name, *summary(values, "{:.3f}")] for name, values in seen.items()]
    print_table(["distance", "off", "model", "recall", "all", "named", "error of the coefficients", "stuck"], rows)
    print(
        "## 14 % of the rows in a far-out cluster on the wrong side of two classes: 42 outliers\n\n"
        "Angle: the median angle to the true direction, in degrees.\n"
    )
    rows = []
    for distance in DISTANCES:
        seen = defaultdict(list)
        for seed in range(OUTLIER_RUNS):
            X, y, w, wrong = far_classes(distance, seed)
            for loss, count in product(("log_loss", "squared_hinge", "hinge"), STARTS):
                model = ATkClassifier(loss, trim=0.14, n_init=count).fit(X, y)
                seen[f"{loss}, n_init={count}"].append(
                    (*found(model.set_aside_, wrong, angle(model.coef_[0], w)), stuck(model, X, y, wrong))
                )
            plain = ATkClassifier(k=1.0).fit(X, y)
            largest = np.argsort(y * plain.decision_function(X))[: wrong.sum()]
            seen["average: its largest losses"].append(found(largest, wrong, angle(plain.coef_[0], w)))
        rows += [[f"{distance:.0f}", name, *summary(values, "{:.1f}")] for name, values in seen.items()]
    print_table(["distance", "model", "recall", "all", "named", "angle", "stuck"], rows)
    print(f"{time.perf_counter() - begin:.0f} s.", flush=True)


def found(named: np.ndarray, wrong: np.ndarray, error: float) -> tuple[float, float, float]:
    return float(wrong[named].sum() / wrong.sum()), float(len(named)), float(error)


def stuck(model: Any, X: np.ndarray, y: np.ndarray, wrong: np.ndarray) -> float:
    """Return 1.0 if the exact fit to the good rows has a lower objective, else 0.0."""
    good = estimator(model.loss, k=1.0, C=model.C_).fit(X[~wrong], y[~wrong])
    return float(model.objective_ > good.objective_ * (1.0 + AS_GOOD))


def summary(values: list[tuple[float, ...]], form: str) -> list[str]:
    recall, named, error, *rest = np.array(values).T
    return [
        f"{recall.mean():.2f}",
        f"{(recall >= 0.99).mean():.0%}",
        f"{named.mean():.0f}",
        form.format(np.median(error)),
        f"{rest[0].mean():.0%}" if rest else "",
    ]


def angle(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.degrees(np.arccos(np.clip(a @ b / max(np.linalg.norm(a) * np.linalg.norm(b), 1e-300), -1.0, 1.0))))


def main() -> None:
    stages = {"optimum": optimum, "cost": cost, "outliers": outliers}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stage", choices=stages)
    stages[parser.parse_args().stage]()


if __name__ == "__main__":
    main()
