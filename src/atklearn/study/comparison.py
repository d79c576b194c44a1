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
import scipy.sparse as sp
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold, StratifiedShuffleSplit

from atklearn.losses.individual import Array, resolve_individual_loss
from atklearn.losses.individual import Task as LearningTask
from atklearn.measures import Answers
from atklearn.measures.catalogue import DEFAULT_MEASURES, evaluate_by_group, evaluate_measures, selectable_measures
from atklearn.problems.posing import Posing
from atklearn.selection.choosing import default_Cs, default_folds, default_ks
from atklearn.selection.folds import Fold, Split
from atklearn.solvers.exact.collapse import collapse_share
from atklearn.study.evidence import Recommendation, collect_grids, compare_methods, ratio_of_parts, recommend
from atklearn.study.last_fit import LastFit
from atklearn.study.methods import CLASS_WEIGHTS, PAPER_LOSSES
from atklearn.study.results import Record, ResultsFile, cell_record, read_results, relative_gaps, short
from atklearn.study.running import Task, run_experiment
from atklearn.study.tabular import TabularData, features_in_words, make_features, take_rows

__all__ = ["Settings", "SplitGrids", "TableSplit", "run_comparison"]

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


@dataclass(frozen=True)
class TableSplit:
    """The rows of a table that a split takes, as numbers; what makes the features has seen the training part only.

    Attributes
    ----------
    X : ndarray or CSR array of shape (n_train + n_test, n_features)
        The training part, then the test part.
    rows : ndarray of int of shape (n_train + n_test,)
        Their places in the table.
    n_train : int
    """

    X: Any
    rows: npt.NDArray[np.intp]
    n_train: int

    @property
    def places(self) -> Split:
        """The training part and the test part, as places in ``X``."""
        places = np.arange(self.rows.size)
        return places[: self.n_train], places[self.n_train :]


class SplitGrids:
    """The grids of k and C: for every split, loss and kind of class weights, and for all rows."""

    def __init__(self, data: TabularData, settings: Settings) -> None:
        self.data, self.settings = data, settings
        self.classification = data.task == "classification"
        self.labels, self.y = data.target, data.target
        if self.classification:
            self.labels, self.y = np.unique(data.target, return_inverse=True)
        self.used = self._draw_rows()
        self._at_hand: tuple[int | None, TableSplit] | None = None

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
        posing = Posing(resolve_individual_loss(loss, self.data.task), "free", CLASS_WEIGHTS[weights], "The comparison")
        taken = self.take(split)
        y, (train, test) = self.y[taken.rows], taken.places
        ks: list[float] = [1, *self._shares(posing, taken.X[: train.size], y[train])]
        Cs = default_Cs(self.settings.n_Cs)
        splitter = self._folds(y[train])
        on_folds, fold_gaps = [], []
        for fold in splitter.split(np.zeros(train.size), y[train]):
            answers, reached = self._fit(posing, taken.X, y, fold, ks, Cs)
            on_folds.append(evaluate_measures(answers))
            fold_gaps.append(reached)
        gaps: Array | None = None
        on_test: dict[str, Array] = {}
        groups: dict[str, Array] = {}
        if split is not None:
            answers, gaps = self._fit(posing, taken.X, y, (train, test), ks, Cs)
            if self.data.groups is not None:
                answers = replace(answers, groups=self.data.groups[taken.rows[test]])
            on_test, groups = evaluate_measures(answers), evaluate_by_group(answers)
        return [
            cell_record(
                dataset=self.data.name,
                loss=loss,
                weights=weights,
                split=split,
                k=1.0 if i == 0 else short(ks[i] * train.size),
                n=float(train.size),
                C=float(Cs[j]),
                tol=self.settings.tol,
                gaps=None if gaps is None else gaps[i, j],
                validation={name: [short(fold[name][i, j]) for fold in on_folds] for name in on_folds[0]},
                test={name: short(values[i, j]) for name, values in on_test.items()},
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

    def _draw_rows(self) -> npt.NDArray[np.intp]:
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

    def take(self, split: int | None) -> TableSplit:
        """Return the rows of a split, or all rows as a training part; that of the last call is kept."""
        if self._at_hand is None or self._at_hand[0] != split:
            train, test = self.used, self.used[:0]
            if split is not None:
                splitter = self._splitter(self.settings.n_splits, test_size=self.settings.test_share)
                pair = next(islice(splitter.split(self.used, self.y[self.used]), split, None))
                train, test = self.used[pair[0]], self.used[pair[1]]
            seen = replace(self.data, features=take_rows(self.data.features, train))
            maker = make_features(seen)
            X = maker.fit_transform(seen.features)
            if test.size:
                parts = [X, maker.transform(take_rows(self.data.features, test))]
                X = sp.vstack(parts, format="csr") if sp.issparse(X) else np.vstack(parts)
            self._at_hand = split, TableSplit(X, np.concatenate([train, test]), train.size)
        return self._at_hand[1]

    def _shares(self, posing: Posing, X: Any, y: npt.NDArray[Any]) -> Array:
        """Return the grid of k as parts of the rows, for classes above the calibration bound of these rows."""
        bound = collapse_share(posing.on(X, y).problems) if self.classification else None
        return default_ks(self.settings.n_ks, bound)

    def _fit(
        self, posing: Posing, X: Any, y: npt.NDArray[Any], split: Split, ks: Sequence[float], Cs: Array
    ) -> tuple[Answers, Array]:
        """Fit the grid on some rows; return what it says about others, and how exact each of its fits is."""
        fitted, unseen = split
        centre, spread, target = 0.0, 1.0, y
        if not self.classification:  # C weighs losses in units of the target's spread
            centre, spread = float(y[fitted].mean()), float(y[fitted].std()) or 1.0
            target = (y - centre) / spread
        fold = Fold(posing, X, target, None, split, ks, Cs, self.settings.tol)
        path = fold.path()
        decisions = centre + spread * path.decision(fold.part(1)[0])
        answers = Answers.from_decisions(decisions, y[unseen], path.classes, loss=posing.loss)
        return answers, relative_gaps(path.dual_gaps, path.objectives)


def _fingerprint_of_columns(data: TabularData) -> str:
    names = getattr(data.features, "columns", [str(data.features.shape[1])])
    return hashlib.sha256("\0".join(names).encode(errors="replace")).hexdigest()[:16]
