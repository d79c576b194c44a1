"""Maximum, average and AT_k on a table: k and C chosen within each training part, test parts that nothing has seen."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold, StratifiedShuffleSplit

from atklearn.estimators.linear import ATkClassifier
from atklearn.losses.individual import Array, resolve_individual_loss
from atklearn.losses.individual import Task as LearningTask
from atklearn.measures import Answers
from atklearn.measures.catalogue import DEFAULT_MEASURES, evaluate_by_group, evaluate_measures, selectable_measures
from atklearn.problems.design import Rows
from atklearn.selection.choosing import calibration_share, default_Cs, default_folds, default_ks
from atklearn.selection.paths import atk_path
from atklearn.study.evidence import Recommendation, collect_grids, compare_methods, ratio_of_parts, recommend
from atklearn.study.last_fit import LastFit
from atklearn.study.methods import CLASS_WEIGHTS, PAPER_LOSSES
from atklearn.study.results import Record, ResultsFile, cell_record, read_results, relative_gaps, short
from atklearn.study.running import Task, run_experiment
from atklearn.study.tabular import TabularData, features_in_words, make_features, take_rows

__all__ = ["Settings", "run_comparison"]

_LEAST_OF_CLASS = 100


@dataclass(frozen=True)
class Settings:
    """How a comparison is run.

    Attributes
    ----------
    score : str
        The measure that chooses k and C, and that the verdict is about.
    losses : tuple of str
    weights : tuple of {"plain", "balanced"}
        Class weights.
    n_splits : int
        Of the rows into training and test part.
    test_share : float
        The part of the rows to test on.
    n_ks, n_Cs : int
        Sizes of the grids.
    n_folds : int or None
        Of each training part, for validation; None for five, repeated 5 times below 1,500 rows and twice above.
    max_rows : int or None
        Compare on no more rows than these, drawn at random.
    tol : float
        The duality gap allowed in every fit of the grids, relative to its objective.
    random_state : int
    """

    score: str
    losses: tuple[str, ...]
    weights: tuple[str, ...] = ("plain",)
    n_splits: int = 10
    test_share: float = 0.25
    n_ks: int = 8
    n_Cs: int = 6
    n_folds: int | None = None
    max_rows: int | None = None
    tol: float = 1e-3
    random_state: int = 0

    @classmethod
    def for_task(cls, task: LearningTask, *, quick: bool = False, **changes: Any) -> Settings:
        """Return the settings for a task, full or for a quick first look, with changes."""
        classification = task == "classification"
        settings: dict[str, Any] = {
            "score": DEFAULT_MEASURES[task],
            "losses": PAPER_LOSSES[task][:1] if quick else PAPER_LOSSES[task],
            "weights": ("plain", "balanced") if classification else ("plain",),
        }
        if quick:
            settings |= {"n_splits": 5, "n_ks": 5, "n_Cs": 3, "n_folds": 3, "max_rows": 50_000}
        settings |= changes
        if settings["score"] not in selectable_measures(task):
            raise ValueError(
                f"The score for {task} is expected to be one of {selectable_measures(task)}, got {settings['score']!r}."
            )
        for loss in settings["losses"]:
            resolve_individual_loss(loss, task)
        return cls(**settings)

    @property
    def shares(self) -> dict[str, float]:
        """The parts of the rows that a split has to train and to test on."""
        return {"train": 1.0 - self.test_share, "test": self.test_share}


def run_comparison(
    data: TabularData,
    settings: Settings,
    path: Path,
    *,
    n_jobs: int = 1,
    on_start: Callable[[Sequence[Task]], None] = lambda _: None,
    on_task: Callable[[Task], None] = lambda _: None,
) -> Recommendation:
    """Compare on a table and write everything found to a results file, going on where a former run stopped.

    Parameters
    ----------
    data : TabularData
    settings : Settings
    path : Path
        The results file.
    n_jobs : int, default=1
        Processes.
    on_start, on_task : callable
        Told of all tasks at first, and of every task as it is finished.

    Returns
    -------
    recommendation : Recommendation
    """
    experiment = SplitGrids(data, settings)
    config = {"data": data.fingerprint, "dataset": data.name, "target": data.target_name, "task": data.task,
              "group": data.group_name, "columns": _fingerprint_of_columns(data), **asdict(settings)}  # fmt: skip
    last = Task("last fit", cost=0.5)
    on_start([*experiment.tasks(), last])
    with ResultsFile(path, "compare", config) as results:
        run_experiment(experiment, results, n_jobs=n_jobs, on_task=on_task)
        records = list(read_results(path))
        grids = collect_grids(records, data.name)
        outcome = compare_methods(grids, settings.score, ratio_of_parts(settings.shares))
        recommendation = recommend(outcome, grids[None])
        chosen = (recommendation.loss, recommendation.weights)
        shares = next(grid.shares for grid in grids[None] if (grid.loss, grid.weights) == chosen)
        run_experiment(LastFit(data, recommendation, shares, settings.tol, last), results, on_task=on_task)
    return recommendation


class SplitGrids:
    """The grids of k and C: for every split, loss and kind of class weights, and for all rows."""

    def __init__(self, data: TabularData, settings: Settings) -> None:
        self.data, self.settings = data, settings
        self.classification = data.task == "classification"
        self.labels, self.y = data.target, data.target
        if self.classification:
            self.labels, self.y = np.unique(data.target, return_inverse=True)
        self.used = self._draw_rows()
        self._at_hand: tuple[int | None, tuple[Any, Any, Rows, Rows]] | None = None

    def tasks(self) -> Sequence[Task]:
        """Return a task per split, loss and kind of class weights."""
        splits: list[int | None] = [*range(self.settings.n_splits), None]
        keys = product(splits, self.settings.losses, self.settings.weights)
        return [Task("data", cost=0.0), *(Task(f"split {key[0]}, {key[1]}, {key[2]}", key) for key in keys)]

    def run(self, task: Task) -> list[Record]:
        """Fit and measure one grid."""
        if task.key is None:
            return [self._describe()]
        split, loss, weights = task.key
        X, X_test, rows, test_rows = self._parts(split)
        y, y_test = self.y[rows], self.y[test_rows]
        ks: list[float] = [1, *self._shares(X, y, loss, weights)]
        Cs = default_Cs(self.settings.n_Cs)
        splitter = self._folds(y)
        on_folds, fold_gaps = [], []
        for a, b in splitter.split(np.zeros(y.size), y):
            answers, reached = self._fit((X[a], y[a]), (X[b], y[b]), ks, Cs, loss, weights)
            on_folds.append(evaluate_measures(answers))
            fold_gaps.append(reached)
        gaps: Array | None = None
        test: dict[str, Array] = {}
        groups: dict[str, Array] = {}
        if split is not None:
            answers, gaps = self._fit((X, y), (X_test, y_test), ks, Cs, loss, weights)
            if self.data.groups is not None:
                answers = replace(answers, groups=self.data.groups[test_rows])
            test, groups = evaluate_measures(answers), evaluate_by_group(answers)
        return [
            cell_record(
                dataset=self.data.name,
                loss=loss,
                weights=weights,
                split=split,
                k=1.0 if i == 0 else short(ks[i] * y.size),
                n=float(y.size),
                C=float(Cs[j]),
                tol=self.settings.tol,
                gaps=None if gaps is None else gaps[i, j],
                validation={name: [short(fold[name][i, j]) for fold in on_folds] for name in on_folds[0]},
                test={name: short(values[i, j]) for name, values in test.items()},
                n_folds=len(on_folds) // getattr(splitter, "n_repeats", 1),
                fold_gaps=[reached[i, j] for reached in fold_gaps],
                groups={name: short(values[i, j]) for name, values in groups.items()},
            )
            for i, j in np.ndindex(len(ks), len(Cs))
        ]

    def _describe(self) -> Record:
        """Return what the report says about the data and the protocol."""
        data, (n, d) = self.data, self.data.features.shape
        record = {
            "record": "data", "dataset": data.name, "task": data.task, "n": n, "d": d, "n_used": int(self.used.size),
            "target": data.target_name, "group": data.group_name, "notes": list(data.notes),
            "features": features_in_words(data), "shares": self.settings.shares,
        }  # fmt: skip
        if self.classification:
            record |= {"classes": [str(label) for label in self.labels], "counts": np.bincount(self.y).tolist()}
        return record

    def _draw_rows(self) -> Rows:
        """Return the rows to compare on: all, or a random part with every class in proportion."""
        n, most = self.y.size, self.settings.max_rows
        if most is None or n <= most:
            return np.arange(n)
        rng = np.random.default_rng(self.settings.random_state)
        if not self.classification:
            return np.sort(rng.choice(n, most, replace=False))
        drawn = []
        for code, count in enumerate(np.bincount(self.y)):
            enough = min(max(round(count * most / n), _LEAST_OF_CLASS), count)  # to split a rare one
            drawn.append(rng.choice(np.flatnonzero(self.y == code), enough, replace=False))
        return np.sort(np.concatenate(drawn))

    def _splitter(self, n_splits: int, **sizes: Any) -> Any:
        kind = StratifiedShuffleSplit if self.classification else ShuffleSplit
        return kind(n_splits, random_state=self.settings.random_state, **sizes)

    def _folds(self, y: npt.NDArray[Any]) -> Any:
        seed = self.settings.random_state
        if self.settings.n_folds is None:
            return default_folds(y, classification=self.classification, random_state=seed)
        kind = StratifiedKFold if self.classification else KFold
        return kind(self.settings.n_folds, shuffle=True, random_state=seed)

    def _parts(self, split: int | None) -> tuple[Any, Any, Rows, Rows]:
        """Return the features of training and test part, their making fitted to the training part, and the rows."""
        if self._at_hand is None or self._at_hand[0] != split:
            train, test = self.used, self.used[:0]
            if split is not None:
                splitter = self._splitter(self.settings.n_splits, test_size=self.settings.test_share)
                pair = next(islice(splitter.split(self.used, self.y[self.used]), split, None))
                train, test = self.used[pair[0]], self.used[pair[1]]
            seen = replace(self.data, features=take_rows(self.data.features, train))
            maker = make_features(seen)
            X = maker.fit_transform(seen.features)
            X_test = maker.transform(take_rows(self.data.features, test)) if test.size else None
            self._at_hand = split, (X, X_test, train, test)
        return self._at_hand[1]

    def _shares(self, X: Any, y: npt.NDArray[Any], loss: str, weights: str) -> Array:
        """Return the grid of k as parts of the rows, for classes above the calibration bound of these rows."""
        if not self.classification:
            return default_ks(self.settings.n_ks, None)
        template = ATkClassifier(loss, class_weight=CLASS_WEIGHTS[weights])
        return default_ks(self.settings.n_ks, calibration_share(template._problems(X, y, None)[0]))

    def _fit(
        self,
        fitted: tuple[Any, npt.NDArray[Any]],
        unseen: tuple[Any, npt.NDArray[Any]],
        ks: Sequence[float],
        Cs: Array,
        loss: str,
        weights: str,
    ) -> tuple[Answers, Array]:
        """Fit the grid on one part; return what it says about another, and how exact each of its fits is."""
        (X, y), (X_unseen, y_unseen) = fitted, unseen
        options: dict[str, Any] = {"ks": ks, "Cs": list(Cs), "loss": loss, "tol": self.settings.tol}
        if self.classification:
            path = atk_path(X, y, class_weight=CLASS_WEIGHTS[weights], **options)
            decisions = path.scores(X_unseen)
        else:  # C weighs losses in units of the target's spread
            centre, spread = float(y.mean()), float(y.std()) or 1.0
            path = atk_path(X, (y - centre) / spread, **options)
            decisions = centre + spread * path.scores(X_unseen)
        answers = Answers.from_decisions(decisions, y_unseen, path.classes, loss=loss)
        return answers, relative_gaps(path.dual_gaps, path.objectives)


def _fingerprint_of_columns(data: TabularData) -> str:
    names = getattr(data.features, "columns", [str(data.features.shape[1])])
    return hashlib.sha256("\0".join(names).encode(errors="replace")).hexdigest()[:16]
