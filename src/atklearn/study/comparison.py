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

from atklearn.selection.choosing import calibration_share, default_Cs, default_folds, default_ks
from atklearn.problems.design import Rows
from atklearn.study.evidence import CLASS_WEIGHTS, Recommendation, collect_grids, compare_methods, recommend
from atklearn.study.last_fit import LastFit
from atklearn.study.grid_measures import LOSSES, MEASURES, grid_measures, group_measures
from atklearn.study.running import Task, run_experiment
from atklearn.losses.individual import Array, resolve_individual_loss
from atklearn.losses.individual import Task as Kind
from atklearn.estimators.linear import ATkClassifier
from atklearn.selection.paths import ATkPath, atk_path
from atklearn.study.results import Record, ResultsFile, cell_record, read_results, short
from atklearn.study.tabular import TabularData, make_features, take_rows

__all__ = ["Settings", "run_comparison"]

_TEST_SHARE = 0.25
_LEAST_OF_CLASS = 100
_TEST_TO_TRAIN = _TEST_SHARE / (1.0 - _TEST_SHARE)


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
        Of the rows into 75 % for training and 25 % for the test.
    n_ks, n_Cs : int
        Sizes of the grids.
    n_folds : int or None
        Of each training part, for validation; None for five, repeated 5 times below 1,500 rows and twice above.
    max_rows : int or None
        Compare on no more rows than these, drawn at random.
    random_state : int
    """

    score: str
    losses: tuple[str, ...]
    weights: tuple[str, ...] = ("plain",)
    n_splits: int = 10
    n_ks: int = 8
    n_Cs: int = 6
    n_folds: int | None = None
    max_rows: int | None = None
    random_state: int = 0

    @classmethod
    def for_task(cls, task: Kind, *, quick: bool = False, **changes: Any) -> Settings:
        """Return the settings for a task, full or for a quick first look, with changes."""
        classification = task == "classification"
        settings: dict[str, Any] = {
            "score": "balanced_error" if classification else "rmse",
            "losses": LOSSES[task][:1] if quick else LOSSES[task],
            "weights": ("plain", "balanced") if classification else ("plain",),
        }
        if quick:
            settings |= {"n_splits": 5, "n_ks": 5, "n_Cs": 3, "n_folds": 3, "max_rows": 50_000}
        settings |= changes
        selectable = [measure for measure in MEASURES[task] if measure != "tail_loss"]  # whose minimum is w = 0
        if settings["score"] not in selectable:
            raise ValueError(f"The score for {task} is expected to be one of {selectable}, got {settings['score']!r}.")
        for loss in settings["losses"]:
            resolve_individual_loss(loss, task)
        return cls(**settings)


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
        outcome = compare_methods(grids, settings.score, test_to_train=_TEST_TO_TRAIN, fold_ratio=experiment.fold_ratio)
        recommendation = recommend(outcome, grids[None], experiment.fold_ratio)
        chosen = (recommendation.loss, recommendation.weights)
        shares = next(grid.shares for grid in grids[None] if (grid.loss, grid.weights) == chosen)
        run_experiment(LastFit(data, recommendation, shares, last), results, on_task=on_task)
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

    @property
    def fold_ratio(self) -> float:
        """Size of a validation fold over that of the part it is left out of."""
        n_folds = self.settings.n_folds or self._folds(self.y[self.used]).cvargs["n_splits"]
        return 1.0 / (n_folds - 1)

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
        folds = [
            self._measure((X[a], y[a]), (X[b], y[b]), ks, Cs, loss, weights)[0]
            for a, b in self._folds(y).split(np.zeros(y.size), y)
        ]
        gaps = np.zeros((len(ks), len(Cs)))
        test: dict[str, Array] = {}
        groups: dict[str, Array] = {}
        if split is not None:
            test, path, scores = self._measure((X, y), (X_test, y_test), ks, Cs, loss, weights)
            gaps = (path.dual_gaps / path.objectives).max(axis=-1)
            if self.data.groups is not None:
                groups = group_measures(path, scores, y_test, self.data.groups[test_rows])
                worst = "worst_group_error" if self.classification else "worst_group_rmse"
                test[worst] = np.max(list(groups.values()), axis=0)
        return [
            cell_record(
                dataset=self.data.name,
                loss=loss,
                weights=weights,
                split=split,
                k=1.0 if i == 0 else short(ks[i] * y.size),
                n=float(y.size),
                C=float(Cs[j]),
                gap=short(gaps[i, j]),
                validation={name: [short(fold[name][i, j]) for fold in folds] for name in folds[0]},
                test={name: short(values[i, j]) for name, values in test.items()},
                groups={name: short(values[i, j]) for name, values in groups.items()},
            )
            for i, j in np.ndindex(gaps.shape)
        ]

    def _describe(self) -> Record:
        """Return what the report says about the data and the protocol."""
        data, (n, d) = self.data, self.data.features.shape
        record = {
            "record": "data", "dataset": data.name, "task": data.task, "n": n, "d": d, "n_used": int(self.used.size),
            "target": data.target_name, "group": data.group_name, "notes": list(data.notes),
            "test_to_train": _TEST_TO_TRAIN, "fold_ratio": self.fold_ratio,
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
                splitter = self._splitter(self.settings.n_splits, test_size=_TEST_SHARE)
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

    def _measure(
        self,
        fitted: tuple[Any, npt.NDArray[Any]],
        unseen: tuple[Any, npt.NDArray[Any]],
        ks: Sequence[float],
        Cs: Array,
        loss: str,
        weights: str,
    ) -> tuple[dict[str, Array], ATkPath, Array]:
        """Fit the grid on one part; return its measures on another, the fits, and what they say there."""
        (X, y), (X_unseen, y_unseen) = fitted, unseen
        if self.classification:
            path = atk_path(X, y, ks=ks, Cs=list(Cs), loss=loss, class_weight=CLASS_WEIGHTS[weights])
            scores = path.scores(X_unseen)
        else:  # C weighs losses in units of the target's spread
            centre, spread = float(y.mean()), float(y.std()) or 1.0
            path = atk_path(X, (y - centre) / spread, ks=ks, Cs=list(Cs), loss=loss)
            scores = centre + spread * path.scores(X_unseen)
        return grid_measures(path, loss, scores, y_unseen), path, scores


def _fingerprint_of_columns(data: TabularData) -> str:
    names = getattr(data.features, "columns", [str(data.features.shape[1])])
    return hashlib.sha256("\0".join(names).encode(errors="replace")).hexdigest()[:16]
