"""Whether `atklearn compare` finds the gain where it is, and none where there is none.

40 null sets have no sub-populations: a linear model with symmetric noise, or logistic classes. 20 sets have a gain in
truth, that is on 20,000 fresh rows, the best AT_k against the best average (both with the best loss, class weights and
C in hindsight): at least 10 % of the tail error, or 3 points of balanced error. Every set has 200 to 1,000 rows and
gets a full comparison. Prints the verdicts, the true gains, and how many answers are right.

Usage: ./run bench verdicts [--quick] [--sets N] [--keep DIR]
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import cpu_count
from sklearn.preprocessing import StandardScaler

from atklearn import CollapseWarning, atk_path
from atklearn.losses.individual import resolve_individual_loss
from atklearn.measures import MEASURES, Answers
from atklearn.problems.posing import Posing
from atklearn.selection.choosing import default_Cs, default_ks
from atklearn.solvers.exact.collapse import collapse_share
from atklearn.study.comparison import run_comparison
from atklearn.study.methods import AVERAGE_ONLY, CLASS_WEIGHTS, COMPARED_LOSSES
from atklearn.study.outcome import Outcome, Question
from atklearn.study.results import read_results
from atklearn.study.split_grids import Settings
from atklearn.study.tabular import TabularData

N_FRESH = 20_000
LEAST_OF_CLASS = 30
LEAST_GAIN = {"tail_error": 0.10, "balanced_error": 0.03}
Draw = Callable[[int], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Made:
    """A way to draw rows, and how many the comparison gets."""

    name: str
    task: str
    n: int
    draw: Draw


def noise(rng: np.random.Generator, kind: int, n: int) -> np.ndarray:
    """Return symmetric noise of unit scale."""
    return (rng.standard_normal(n), rng.laplace(size=n) / np.sqrt(2.0), rng.standard_t(5, n))[kind]


def null_regression(seed: int) -> Made:
    """Draw a linear model with symmetric noise."""
    rng = np.random.default_rng([1, seed])
    n, d, kind = int(rng.integers(200, 1001)), int(rng.integers(2, 16)), int(rng.integers(3))
    w, mix = rng.standard_normal(d), rng.standard_normal((d, d)) / np.sqrt(d)
    level = rng.uniform(0.3, 2.0) * np.linalg.norm(mix @ w)

    def draw(m: int) -> tuple[np.ndarray, np.ndarray]:
        X = rng.standard_normal((m, d)) @ mix
        return X, X @ w + level * noise(rng, kind, m)

    return Made(f"null, numbers {seed}", "regression", n, draw)


def null_classes(seed: int) -> Made:
    """Draw classes from a logistic model."""
    rng = np.random.default_rng([2, seed])
    n, d = int(rng.integers(200, 1001)), int(rng.integers(2, 16))
    w, mix = rng.standard_normal(d), rng.standard_normal((d, d)) / np.sqrt(d)
    w *= rng.uniform(1.0, 4.0) / np.linalg.norm(mix @ w)
    shift = rng.uniform(-1.5, 1.5)

    def draw(m: int) -> tuple[np.ndarray, np.ndarray]:
        X = rng.standard_normal((m, d)) @ mix
        return X, np.where(rng.random(m) < 1.0 / (1.0 + np.exp(-X @ w - shift)), "yes", "no")

    return Made(f"null, classes {seed}", "classification", n, draw)


def late_rows(seed: int) -> Made:
    """Draw a linear model in which a part of the rows, that no feature tells, is off to one side."""
    rng = np.random.default_rng([3, seed])
    n, d, kind = int(rng.integers(300, 1001)), int(rng.integers(2, 16)), int(rng.integers(3))
    w, share, shift = rng.standard_normal(d), rng.uniform(0.05, 0.25), rng.uniform(2.0, 8.0)

    def draw(m: int) -> tuple[np.ndarray, np.ndarray]:
        X = rng.standard_normal((m, d))
        return X, X @ w + noise(rng, kind, m) + shift * (rng.random(m) < share)

    return Made(f"late rows {seed}", "regression", n, draw)


def other_slope(seed: int) -> Made:
    """Draw a linear model in which a part of the rows follows another slope."""
    rng = np.random.default_rng([4, seed])
    n, d = int(rng.integers(300, 1001)), int(rng.integers(2, 10))
    w, other = rng.standard_normal((2, d))
    share, level = rng.uniform(0.05, 0.3), rng.uniform(0.1, 0.5)

    def draw(m: int) -> tuple[np.ndarray, np.ndarray]:
        X = rng.standard_normal((m, d))
        slopes = np.where((rng.random(m) < share)[:, None], w + 1.5 * other, w)
        return X, (X * slopes).sum(axis=1) + level * rng.standard_normal(m)

    return Made(f"other slope {seed}", "regression", n, draw)


def rules(seed: int) -> Made:
    """Draw whole-number features, as of Monk, and classes by a few rules that no line can follow."""
    rng = np.random.default_rng([5, seed])
    d, n = int(rng.integers(2, 6)), int(rng.integers(300, 1001))
    sizes = rng.integers(2, 6, size=d)
    terms = [
        [(int(j), int(rng.integers(sizes[j])), bool(rng.integers(2))) for j in rng.choice(d, min(d, length), False)]
        for length in rng.integers(1, 4, size=rng.integers(2, 5))
    ]
    flipped = rng.choice([0.0, 0.05, 0.1])

    def draw(m: int) -> tuple[np.ndarray, np.ndarray]:
        X = np.column_stack([rng.integers(size, size=m) for size in sizes]).astype(float)
        holds = np.zeros(m, dtype=bool)
        for term in terms:
            holds |= np.all([(X[:, j] == value) ^ negated for j, value, negated in term], axis=0)
        return X, np.where(holds ^ (rng.random(m) < flipped), "yes", "no")

    return Made(f"rules {seed}", "classification", n, draw)


def true_gain(task: str, measure: str, train: tuple, fresh: tuple) -> tuple[float, float]:
    """Return what the best average and the best AT_k have on fresh rows, in hindsight."""
    (X, y), (X_new, y_new) = train, fresh
    scaler = StandardScaler().fit(X)
    X, X_new = scaler.transform(X), scaler.transform(X_new)
    centre, spread = (0.0, 1.0) if task == "classification" else (y.mean(), y.std())
    target = y if task == "classification" else (y - centre) / spread
    average, atk = [], []
    for loss in COMPARED_LOSSES[task]:
        for weight in CLASS_WEIGHTS.values() if task == "classification" else (None,):
            posing = Posing(resolve_individual_loss(loss, task), "free", weight, "The truth")
            bound = collapse_share(posing.on(X, target).problems) if task == "classification" else None
            ks = [1.0] if loss in AVERAGE_ONLY else default_ks(8, bound)
            path = atk_path(X, target, ks=list(ks), Cs=default_Cs(6), loss=loss, class_weight=weight)
            decisions = centre + spread * path.decision(X_new)
            values = MEASURES[measure].evaluate(Answers.from_decisions(decisions, y_new, path.classes))
            average.append(values[-1].min())
            atk += [values[:-1].min()] if len(ks) > 1 else []
    return min(average), min(atk)


def with_gain(make: Callable[[int], Made], measure: str, count: int) -> Iterator[tuple[Made, tuple, float, float]]:
    """Yield the first sets whose true gain is large enough, with their rows and the truth."""
    seed = found = 0
    while found < count:
        made = make(seed)
        seed += 1
        train, fresh = made.draw(made.n), made.draw(N_FRESH)
        if made.task == "classification" and min((train[1] == label).sum() for label in ("yes", "no")) < LEAST_OF_CLASS:
            continue
        average, atk = true_gain(made.task, measure, train, fresh)
        gain = (average - atk) / (average if MEASURES[measure].relative else 1.0)
        if gain >= LEAST_GAIN[measure]:
            found += 1
            yield made, train, average, atk


def compared(made: Made, train: tuple, folder: Path, *, quick: bool) -> Outcome:
    """Run the comparison as a user would."""
    X, y = train
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    data = TabularData(made.name, frame, y, made.task, "y", None, None, np.arange(1, len(y) + 1), "made here")
    settings = Settings.for_task(made.task, len(y), quick=quick)
    question = Question.about(made.task, has_groups=False)
    path = folder / f"{made.name.replace(' ', '-').replace(',', '')}.jsonl"
    run_comparison(data, settings, question, path, n_jobs=cpu_count())
    return Outcome.from_records(read_results(path), question, settings.repeats)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--sets", type=int, default=20, help="of each kind")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore", CollapseWarning)
    folder = options.keep or Path(tempfile.mkdtemp())
    began = time.perf_counter()
    answers: Counter[str] = Counter()
    for make in (null_regression, null_classes):
        for seed in range(options.sets):
            made = make(seed)
            outcome = compared(made, made.draw(made.n), folder, quick=options.quick)
            answers.update(verdict.answer for verdict in outcome.verdicts.values())
            seen = [f"{name} {verdict.answer}" for name, verdict in outcome.verdicts.items()
                    if verdict.answer in ("helps", "hurts")]  # fmt: skip
            print(f"{made.name:18s} n={made.n:4d}  {', '.join(seen) or '-'}", flush=True)
    total = sum(answers.values())
    wrong = answers["helps"] + answers["hurts"]
    print(f"null sets: {wrong} of {total} verdicts helps or hurts ({100.0 * wrong / total:.1f} %); {dict(answers)}")
    found: Counter[str] = Counter()
    shares = ((late_rows, "tail_error", 0.4), (other_slope, "tail_error", 0.2), (rules, "balanced_error", 0.4))
    for make, measure, share in shares:
        for made, train, average, atk in with_gain(make, measure, max(1, round(share * options.sets))):
            verdict = compared(made, train, folder, quick=options.quick).verdicts[measure]
            found[verdict.answer] += 1
            print(f"{made.name:18s} n={made.n:4d}  {measure}: true {average:.3f} -> {atk:.3f}, seen "
                  f"{verdict.average:.3f} -> {verdict.atk:.3f} [{verdict.low:+.3f}, {verdict.high:+.3f}] "
                  f"{verdict.answer}", flush=True)  # fmt: skip
    print(f"sets with a gain: {dict(found)}; {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
