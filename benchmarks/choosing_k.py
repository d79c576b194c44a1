"""Does a k chosen by cross-validation beat the average? Nested splits, paired differences, several rules.

Every outer split trains on 75 % of the rows and tests on the rest. On the training part, repeated 5-fold
cross-validation over a grid of k and C, warm-started, yields the scores from which a rule chooses k and C; its
competitor is the average (k = n) with the same weights and C chosen from the same scores. The test part is used only to
report. Features are standardised on the training part. The scores of all cells are stored, so that any number of rules
can be compared on the same splits; for ``k = "auto"`` C stays at 100.

Usage: python benchmarks/choosing_k.py collect DATA_DIR RESULTS.npz [--splits 20] [--seed 0] [--sets monk german ...]
       python benchmarks/choosing_k.py report RESULTS.npz
DATA_DIR holds NAME.csv.gz files with a header and the target in the last column (classes -1 and +1); the sets whose
names begin with "made-" are generated instead.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold, ShuffleSplit, StratifiedShuffleSplit

from atklearn.core.collapse import collapse_share
from atklearn.losses.individual import INDIVIDUAL_LOSSES
from atklearn.problems.encoding import ProblemEncoder
from atklearn.selection.choosing import (
    choose_best,
    choose_within_error,
    corrected_standard_error,
    default_Cs,
    default_ks,
)
from atklearn.selection.folds import Fold

CLASSIFICATION = (
    "monk",
    "australian",
    "german",
    "splice",
    "phoneme",
    "titanic",
    "made-group",
    "made-rare",
    "made-noise",
)
REGRESSION = ("housing", "abalone", "cpusmall", "made-uniform", "made-heavy")
CS = default_Cs(6)
FIXED_C = 3  # the place of C = 100 in the grid
RATIO = 0.25  # of a test fold to its training part


def make(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Generate 600 rows: a group that the average gives up, a rare class, label noise, bounded or heavy noise."""
    rng = np.random.default_rng(0)
    n, d = 600, 5
    X = rng.standard_normal((n, d))
    if name == "made-group":  # 12 % of the positive class lie apart
        y = rng.choice([-1.0, 1.0], n)
        X[:, 0] += 2.0 * y
        apart = (y > 0) & (rng.random(n) < 0.12)
        X[apart, :2] = 0.4 * rng.standard_normal((apart.sum(), 2)) + [-0.6, 3.0]
        return X, y
    if name == "made-rare":
        y = np.where(rng.random(n) < 0.08, 1.0, -1.0)
        X[:, 0] += 1.2 * y
        return X * np.where(y > 0, 0.5, 1.0)[:, None], y
    score = X @ np.array([1.0, 0.5, -0.5, 0.0, 0.0])
    if name == "made-noise":  # 15 % of the labels flipped
        return X, np.sign(score) * np.where(rng.random(n) < 0.15, -1.0, 1.0)
    noise = rng.uniform(-1.0, 1.0, n) if name == "made-uniform" else 0.3 * rng.standard_t(2, n)
    y = score + noise
    return X, (y - y.min()) / np.ptp(y)


def load(directory: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    if name.startswith("made-"):
        return make(name)
    table = np.loadtxt(directory / f"{name}.csv.gz", delimiter=",", skiprows=1)
    X, y = table[:, :-1], table[:, -1]
    return X, y if name in CLASSIFICATION else (y - y.min()) / np.ptp(y)


def k_grid(X: np.ndarray, y: np.ndarray, encoder: ProblemEncoder) -> np.ndarray:
    return default_ks(8, collapse_share(encoder.on(X, y).problems) if encoder.is_classification else None)


def cell_costs(X: Any, y: Any, train: Any, test: Any, ks: Any, encoder: ProblemEncoder) -> np.ndarray:
    """Return error and balanced error, or RMSE and MAE, of every cell on the test rows: shape (2, n_ks, n_Cs)."""
    fold = Fold(encoder.encode(X, y), (train, test), ks, CS)
    X, y, _ = fold.unseen()
    f = fold.path().decision(X)[:, :, 0]
    if not encoder.is_classification:
        return np.array([np.sqrt(((f - y) ** 2).mean(-1)), np.abs(f - y).mean(-1)])
    wrong = (f > 0) != (y > 0)
    return np.array([wrong.mean(-1), 0.5 * (wrong[..., y > 0].mean(-1) + wrong[..., y < 0].mean(-1))])


def one_split(X: Any, y: Any, train: Any, test: Any, seed: int, encoder: ProblemEncoder) -> tuple[Any, Any, Any]:
    """Return the k grid, the costs on the inner folds and the costs on the test part."""
    X = (X - X[train].mean(0)) / np.maximum(X[train].std(0), 1e-12)
    ks = k_grid(X[train], y[train], encoder)
    splitter = RepeatedStratifiedKFold if encoder.is_classification else RepeatedKFold
    folds = splitter(n_splits=5, n_repeats=5 if y.size < 1500 else 2, random_state=seed)
    inner = [cell_costs(X, y, train[a], train[b], ks, encoder) for a, b in folds.split(X[train], y[train])]
    return ks, np.array(inner), cell_costs(X, y, train, test, ks, encoder)


def collect(directory: Path, results: Path, n_splits: int, seed: int, sets: list[str]) -> None:
    stored = {}
    for name in sets:
        X, y = load(directory, name)
        classification = name in CLASSIFICATION
        splitter = StratifiedShuffleSplit if classification else ShuffleSplit
        outer = list(splitter(n_splits, test_size=0.25, random_state=seed).split(X, y))
        for weighting in ("plain", "balanced") if classification else ("plain",):
            loss = INDIVIDUAL_LOSSES["log_loss" if classification else "absolute_error"]()
            encoder = ProblemEncoder(loss, "free", "balanced" if weighting == "balanced" else None)
            start = time.perf_counter()
            runs = [one_split(X, y, a, b, seed + i, encoder) for i, (a, b) in enumerate(outer)]
            for key, values in zip(("ks", "inner", "test"), zip(*runs, strict=True), strict=True):
                stored[f"{name}/{weighting}/{key}"] = np.array(values)
            print(f"{name:<14}{weighting:<10}{time.perf_counter() - start:6.0f} s", flush=True)
            np.savez_compressed(results, **stored)


def average_cell(scores: np.ndarray) -> tuple[int, int]:
    return scores.shape[1] - 1, int(scores[:, -1].mean(axis=0).argmax())


def gate(errors: float) -> Callable[[np.ndarray], tuple[int, int]]:
    """Return the rule that takes the best cell if it leads the average by so many errors, else the average."""

    def rule(scores: np.ndarray) -> tuple[int, int]:
        best, average = choose_best(scores), average_cell(scores)
        lead = scores[:, best[0], best[1]] - scores[:, average[0], average[1]]
        return best if lead.mean() > errors * corrected_standard_error(lead, RATIO) else average

    return rule


def only_k(folds: int, errors: float) -> Callable[[np.ndarray], tuple[int, int]]:
    """Return rules for ``k = "auto"``: k alone, at C = 100, from the first folds."""
    return lambda scores: (
        choose_within_error(scores[:folds, :, FIXED_C : FIXED_C + 1], RATIO, errors)[0],
        FIXED_C,
    )


RULES: dict[str, Callable[[np.ndarray], tuple[int, int]]] = {
    "shipped: largest k within 1 corrected error of the best": lambda scores: choose_within_error(scores, RATIO),
    "largest k within 1 plain error of the best": lambda scores: choose_within_error(scores, 0.0),
    "largest k within 2 plain errors of the best": lambda scores: choose_within_error(scores, 0.0, 2.0),
    "best cell if it leads the average by 1 corrected error": gate(1.0),
    "best cell if it leads the average by 1/2 corrected error": gate(0.5),
    "best cell": choose_best,
}
AUTO_RULES = {
    '2 x 5 folds, within 1.5 corrected errors, much as k = "auto"': only_k(10, 1.5),
    "2 x 5 folds, within 1 corrected error": only_k(10, 1.0),
    "5 folds, within 2 corrected errors": only_k(5, 2.0),
    "5 folds, within 1 corrected error": only_k(5, 1.0),
    "5 folds, best k": only_k(5, 0.0),
    "k/n = bound ** 1/8, no cross-validation": lambda _: (6, FIXED_C),
    "k/n = bound ** 1/4, no cross-validation": lambda _: (5, FIXED_C),
    "k/n = bound ** 1/2, no cross-validation": lambda _: (3, FIXED_C),
}


def compare(stored: Any, case: str, which: int, rule: Any, fixed_C: bool) -> dict[str, Any]:
    """Return the costs of rule and average on the test parts, in percent, and their paired difference."""
    rows = []
    for inner, test in zip(stored[f"{case}/inner"], stored[f"{case}/test"], strict=True):
        scores, cost = -inner[:, which], 100.0 * test[which]
        average = (len(cost) - 1, FIXED_C) if fixed_C else average_cell(scores)
        chosen = rule(scores)
        rows.append((cost[average], cost[chosen], cost.min(), chosen[0] != average[0]))
    average, ours, hindsight, moved = np.array(rows, dtype=float).T
    error = (ours - average).std(ddof=1) / np.sqrt(len(rows))
    ratio = (ours - average).mean() / error if error > 0 else 0.0
    return {"average": average.mean(), "ours": ours.mean(), "difference": (ours - average).mean(), "error": error,
            "ratio": ratio, "moved": moved.mean(), "hindsight": hindsight.mean()}  # fmt: skip


def report(results: Path) -> None:
    stored = np.load(results)
    cases = list(dict.fromkeys(key.rsplit("/", 1)[0] for key in stored.files))
    cells = [(case, which) for case in cases for which in (0, 1)]
    shipped, *_ = RULES.values()
    print("| set | weights | score | average | AT_k, shipped rule | difference | k < n in | best cell in hindsight |")
    print("|---|---|---|---|---|---|---|---|")
    for case, which in cells:
        name, weighting = case.split("/")
        row = compare(stored, case, which, shipped, fixed_C=False)
        score = (("error", "balanced error") if name in CLASSIFICATION else ("RMSE", "MAE"))[which]
        sign = " **" if abs(row["ratio"]) > 2 else ""
        print(
            f"| {name} | {weighting} | {score} | {row['average']:.2f} | {row['ours']:.2f} | {row['difference']:+.2f} ± "
            f"{row['error']:.2f}{sign} | {100 * row['moved']:.0f} % | {row['hindsight']:.2f} |"
        )
    for title, rules, fixed_C in (("rule", RULES, False), ("rule at C = 100", AUTO_RULES, True)):
        print(f"\n| {title} | wins by > 2 errors | losses by > 1 error | largest loss | cells |\n|---|---|---|---|---|")
        for name, rule in rules.items():
            rows = {cell: compare(stored, *cell, rule, fixed_C) for cell in cells}
            losses = {cell: row for cell, row in rows.items() if row["ratio"] > 1.0}
            wins = sum(row["ratio"] < -2.0 for row in rows.values())
            worst = max(losses, key=lambda cell: losses[cell]["ratio"], default=None)
            text = (
                "none"
                if worst is None
                else f"{worst[0]}: {losses[worst]['difference']:+.2f} ± {losses[worst]['error']:.2f}"
            )
            print(f"| {name} | {wins} | {len(losses)} | {text} | {len(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stage", choices=("collect", "report"))
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sets", nargs="+", choices=CLASSIFICATION + REGRESSION, default=CLASSIFICATION + REGRESSION)
    given = parser.parse_args()
    if given.stage == "collect":
        collect(*given.paths, given.splits, given.seed, given.sets)
    else:
        report(*given.paths)


if __name__ == "__main__":
    main()
