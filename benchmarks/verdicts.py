"""Whether `atklearn compare` finds the gain where it is, and none where there is none.

40 null sets have no sub-populations: a linear model with symmetric noise, or logistic classes. 20 sets have a gain in
truth, that is on 20,000 fresh rows: at least 10 % of the tail error, of the AT_k that cross-validation on these rows
chooses (k < n) against the average that it chooses, each with its own loss and C. Every set has 200 to 1,000 rows and
gets a full comparison. Prints verdicts, truths, and how many answers are right.

Last come sets of classes whose best AT_k has 3 points of balanced error less than the best average, both in hindsight.
With hinge and class weights among the averages, no way of drawing classes was found in which what cross-validation
chooses has such a gain; these are the nearest. What is then true of the chosen stands beside it.

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
from atklearn.core.collapse import collapse_share
from atklearn.encoding.encoded import ProblemEncoder
from atklearn.losses.individual import resolve_individual_loss
from atklearn.measures import MEASURES, Answers
from atklearn.selection.choosing import default_ks
from atklearn.study.comparison import run_comparison
from atklearn.study.evidence import choose, collect_grids
from atklearn.study.methods import AVERAGE_ONLY, CLASS_WEIGHTS, COMPARED_LOSSES
from atklearn.study.outcome import Outcome, Question
from atklearn.study.results import read_results
from atklearn.study.running import recorded_misses
from atklearn.study.settings import Settings
from atklearn.study.split_grids import SplitGrids
from atklearn.tables.tabular import TabularData

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


def waiting_times(seed: int) -> Made:
    """Draw a linear model with skewed noise, as of times: most are near, a few are far on one side."""
    rng = np.random.default_rng([4, seed])
    n, d, shape = int(rng.integers(300, 1001)), int(rng.integers(2, 16)), rng.uniform(0.2, 1.5)
    w = rng.standard_normal(d)

    def draw(m: int) -> tuple[np.ndarray, np.ndarray]:
        X = rng.standard_normal((m, d))
        return X, X @ w + rng.gamma(shape, 1.0 / np.sqrt(shape), m)

    return Made(f"waiting times {seed}", "regression", n, draw)


def rules(seed: int) -> Made:
    """Draw features near whole numbers, as of Monk, and classes by a few rules that no line can follow."""
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
        noisy = X + 0.15 * rng.standard_normal(X.shape)
        holds = np.zeros(m, dtype=bool)
        for term in terms:
            holds |= np.all([(X[:, j] == value) ^ negated for j, value, negated in term], axis=0)
        return noisy, np.where(holds ^ (rng.random(m) < flipped), "yes", "no")

    return Made(f"rules {seed}", "classification", n, draw)


def scores(
    task: str, measure: str, rows: tuple, fresh: tuple, loss: str, weight: str | None, ks: list, Cs: list
) -> np.ndarray:
    """Return a measure on fresh rows of fits on some rows, shape (n_ks, n_Cs)."""
    (X, y), (X_new, y_new) = rows, fresh
    scaler = StandardScaler().fit(X)
    centre, spread = (0.0, 1.0) if task == "classification" else (y.mean(), y.std())
    target = y if task == "classification" else (y - centre) / spread
    path = atk_path(scaler.transform(X), target, ks=ks, Cs=Cs, loss=loss, class_weight=weight)
    decisions = centre + spread * path.decision(scaler.transform(X_new))
    return MEASURES[measure].evaluate(Answers.from_decisions(decisions, y_new, path.classes))


def hindsight(made: Made, measure: str, rows: tuple, fresh: tuple) -> tuple[float, float]:
    """Return what the best average and the best AT_k have on fresh rows."""
    average, atk = [], []
    X = StandardScaler().fit_transform(rows[0])
    for loss in COMPARED_LOSSES[made.task]:
        for weight in CLASS_WEIGHTS.values() if made.task == "classification" else (None,):
            encoder = ProblemEncoder(resolve_individual_loss(loss, made.task), "free", weight, "The truth")
            bound = collapse_share(encoder.on(X, rows[1]).problems) if made.task == "classification" else None
            ks = [1.0] if loss in AVERAGE_ONLY else default_ks(8, bound).tolist()
            values = scores(made.task, measure, rows, fresh, loss, weight, ks, np.logspace(-1.0, 4.0, 6).tolist())
            average.append(values[-1].min())
            atk += [values[:-1].min()] if len(ks) > 1 else []
    return min(average), min(atk)


def truth(made: Made, measure: str, rows: tuple, fresh: tuple) -> tuple[float, float]:
    """Return what the chosen average and the chosen AT_k have on fresh rows."""
    experiment = SplitGrids(table(made, rows), Settings.for_task(made.task, made.n))
    with recorded_misses():
        records = [
            record for task in experiment.tasks() if task.key and task.key[0] is None for record in experiment.run(task)
        ]
    chosen = choose(collect_grids(records, made.name)[None], measure)
    assert chosen is not None
    average, atk = (
        float(
            scores(
                made.task, measure, rows, fresh, side.loss, CLASS_WEIGHTS[side.weights], [side.share], [side.strength]
            )[0, 0]
        )
        for side in (chosen[0], chosen[2] or chosen[0])
    )
    return average, atk


def enough(measure: str, average: float, atk: float) -> bool:
    """Return whether a gain is large enough to be found."""
    return (average - atk) / MEASURES[measure].scale(average) >= LEAST_GAIN[measure]


def with_gain(
    make: Callable[[int], Made], measure: str, count: int, *, in_truth: bool = True
) -> Iterator[tuple[Made, tuple, str]]:
    """Yield the first sets whose gain is large enough, in truth or in hindsight, with their rows and it in words."""
    seed = found = 0
    while found < count:
        made = make(seed)
        seed += 1
        rows, fresh = made.draw(made.n), made.draw(N_FRESH)
        if made.task == "classification" and min((rows[1] == label).sum() for label in ("yes", "no")) < LEAST_OF_CLASS:
            continue
        best = hindsight(made, measure, rows, fresh)
        if not enough(measure, *best):
            continue
        true = truth(made, measure, rows, fresh)
        if enough(measure, *true) or not in_truth:
            found += 1
            yield made, rows, f"true {true[0]:.3f} -> {true[1]:.3f} (in hindsight {best[0]:.3f} -> {best[1]:.3f})"


def table(made: Made, rows: tuple) -> TabularData:
    """Return rows as a table."""
    X, y = rows
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    return TabularData(made.name, frame, y, made.task, "y", None, None, np.arange(1, len(y) + 1), "made here")


def compared(made: Made, rows: tuple, folder: Path, *, quick: bool) -> Outcome:
    """Run the comparison as a user would."""
    settings = Settings.for_task(made.task, made.n, quick=quick)
    question = Question.about(made.task, has_groups=False)
    path = folder / f"{made.name.replace(' ', '-').replace(',', '')}.jsonl"
    run_comparison(table(made, rows), settings, question, path, n_jobs=cpu_count())
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
    for make in (late_rows, waiting_times):
        for made, rows, true in with_gain(make, "tail_error", max(1, options.sets // 2)):
            found[report(made, rows, "tail_error", true, folder, quick=options.quick)] += 1
    print(f"sets with a gain: {dict(found)}", flush=True)
    seen: Counter[str] = Counter()
    for made, rows, true in with_gain(rules, "balanced_error", max(1, options.sets // 4), in_truth=False):
        seen[report(made, rows, "balanced_error", true, folder, quick=options.quick)] += 1
    print(f"sets of classes with a gain in hindsight only: {dict(seen)}; {time.perf_counter() - began:.0f} s")


def report(made: Made, rows: tuple, measure: str, true: str, folder: Path, *, quick: bool) -> str:
    """Compare on a set and print what was seen beside what is true; return the answer."""
    verdicts = compared(made, rows, folder, quick=quick).verdicts
    verdict = verdicts[measure]
    hurt = [name for name, other in verdicts.items() if other.answer == "hurts"]
    print(
        f"{made.name:18s} n={made.n:4d}  {measure}: {true}, seen {verdict.average:.3f} -> {verdict.atk:.3f} "
        f"[{verdict.low:+.3f}, {verdict.high:+.3f}] {verdict.answer}{f'; hurts: {hurt}' if hurt else ''}",
        flush=True,
    )
    return verdict.answer


if __name__ == "__main__":
    main()
