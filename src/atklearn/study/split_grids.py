"""The grids of a comparison, k against strength: fitted, measured and mapped, split by split."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from atklearn.encoding.encoded import ProblemEncoder
from atklearn.losses.individual import Array, resolve_individual_loss
from atklearn.measures import MEASURES, Answers
from atklearn.measures.catalogue import evaluate_measures
from atklearn.selection.folds import Split
from atklearn.study.evidence import best_below_all, best_of_all, best_of_one
from atklearn.study.families import Family
from atklearn.study.methods import CLASS_WEIGHTS, Aggregate
from atklearn.study.recalibration import Recalibration, map_kind
from atklearn.study.results import Record, cell_record, short
from atklearn.study.running import Task
from atklearn.study.settings import Settings
from atklearn.study.splitting import Splitting
from atklearn.tables.features import features_in_words, make_features, take_rows
from atklearn.tables.tabular import TabularData

__all__ = ["SplitGrids", "TableSplit", "split_of"]

_LEAST_OF_CLASS = 100
# Test rows, whose predictions are recorded one by one: enough to tell any difference that matters.
_MOST_JUDGED = 50_000


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


def split_of(task: str) -> int | None:
    """Return the split that a task is about, from its name; None for all rows and for other tasks.

    Examples
    --------
    >>> split_of("split 7, hinge, plain"), split_of("all rows, hinge, plain")
    (7, None)
    """
    return int(task.split()[1].rstrip(",")) if task.startswith("split ") else None


class SplitGrids:
    """The grids: for every split, loss and kind of class weights, and for all rows."""

    def __init__(self, data: TabularData, settings: Settings) -> None:
        self.data, self.settings = data, settings
        self.classification = data.task == "classification"
        self.labels, self.y = data.target, data.target
        if self.classification:
            self.labels, self.y = np.unique(data.target, return_inverse=True)
        self.used = self._draw_rows()
        clusters = None if data.split_by is None else np.unique(data.split_by, return_inverse=True)[1]
        self.splitting = Splitting(self.y, self.classification, clusters, data.time, settings.random_state)
        self.n_folds = self.splitting.n_folds(self.used, settings.n_folds)
        self.judged = self._draw(self.splitting.tested(self.used, self.n_folds), _MOST_JUDGED)
        if data.split_by is not None or data.time is not None:  # what cannot be split is said before anything is run
            for train, _ in self.splitting.folds(self.used, self.n_folds):
                self.splitting.n_folds(self.used[train], settings.n_inner_folds)
        self.place_judged = np.full(self.y.size, -1)
        self.place_judged[self.judged] = np.arange(self.judged.size)
        self._at_hand: tuple[int | None, TableSplit] | None = None

    def tasks(self) -> Sequence[Task]:
        """Return a task per split, loss and kind of class weights, and those that set rows aside."""
        splits: list[int | None] = [*range(self.settings.repeats * self.n_folds), None]
        tasks = [Task("data", cost=0.0)]
        for split, loss, weights in product(splits, self.settings.losses, self.settings.weights):
            name = "all rows" if split is None else f"split {split}"
            tasks.append(Task(f"{name}, {loss}, {weights}", (split, loss, weights, 0.0)))
        loss, weights = self.settings.losses[0], self.settings.weights[0]
        for split, drop in product([*range(self.n_folds), None], self.settings.drops):
            name = "all rows" if split is None else f"aside, split {split}"
            tasks.append(Task(f"{name}, {loss}, {weights}, drop {drop:g}", (split, loss, weights, drop)))
        return tasks

    def run(self, task: Task) -> list[Record]:
        """Fit, measure and map one grid."""
        if task.key is None:
            return [self._describe()]
        split, loss, weights, drop = task.key
        encoder = ProblemEncoder(
            resolve_individual_loss(loss, self.data.task), "free", CLASS_WEIGHTS[weights], "The comparison"
        )
        taken = self.take(split)
        y, (train, test) = self.y[taken.rows], taken.places
        family = self.settings.family.setting_aside(drop)
        ks, strengths = family.ks(encoder, loss, weights, taken.X[: train.size], y[train]), family.strengths.tolist()
        folds, n_folds = self._validation_folds(split, taken.rows[train])
        on_folds, fold_gaps = zip(*(self._fit(family, encoder, taken, y, fold, ks) for fold in folds), strict=True)
        on_test, gaps = (None, None) if split is None else self._fit(family, encoder, taken, y, (train, test), ks)
        measured = [evaluate_measures(answers) for answers in on_folds]
        # as they are written, since whoever reads them has to choose the same cells
        validation = {name: _as_written(np.stack([fold[name] for fold in measured])) for name in measured[0]}
        tested = {} if on_test is None else evaluate_measures(on_test)
        amounts = [1.0 if k == 1 and isinstance(k, int) else short(k * train.size) for k in ks]
        common = {"dataset": self.data.name, "loss": loss, "weights": weights, "split": split, "drop": drop}
        cells = [
            cell_record(
                **common,
                k=amounts[i],
                n=float(train.size),
                strength=strengths[j],
                tol=family.tol,
                gaps=None if gaps is None else gaps[i, j],
                validation={name: values[:, i, j].tolist() for name, values in validation.items()},
                test={name: short(values[i, j]) for name, values in tested.items()},
                n_folds=n_folds,
                fold_gaps=[reached[i, j] for reached in fold_gaps if reached is not None] or None,
            )
            for i, j in np.ndindex(len(ks), len(strengths))
        ]
        chosen = self._choices(validation, n_folds, amounts)
        names = {(i, j): {"k": amounts[i], "strength": strengths[j]} for i, j in np.ndindex(len(ks), len(strengths))}
        maps = [
            {"record": "map", **common, "aggregate": aggregate, **names[cell], **found}
            for aggregate, cell, found in (self._maps(on_folds, chosen, n_folds) if drop == 0.0 else ())
        ]
        if on_test is None:
            return [*cells, *maps]
        places = self.place_judged[taken.rows[test]]
        judged = places >= 0
        said = [
            {**names[cell], "decisions": _as_written(self._decisions(on_test, cell)[:, judged]).tolist()}
            for cell in sorted({cell for _, _, cell in chosen})
        ]
        return [*cells, *maps, {"record": "said", **common, "rows": places[judged].tolist(), "cells": said}]

    def _choices(
        self, validation: dict[str, Array], n_folds: int, amounts: Sequence[float]
    ) -> list[tuple[str, Aggregate, tuple[int, int]]]:
        """Return the cells of the grid that maximum, average and AT_k choose by each measure."""
        below_all = slice(int(amounts[0] <= 1.0), len(amounts) - 1)
        found: list[tuple[str, Aggregate, tuple[int, int]]] = []
        for measure, values in validation.items():
            scores = MEASURES[measure].sign * values
            if below_all.start:
                found.append((measure, "maximum", best_of_one(scores)))
            found.append((measure, "average", best_of_all(scores)))
            below = best_below_all(scores, below_all, 1.0 / (n_folds - 1))
            if below is not None:
                found.append((measure, "atk", below))
        return found

    def _maps(
        self, on_folds: Sequence[Answers], chosen: Sequence[tuple[str, Aggregate, tuple[int, int]]], n_folds: int
    ) -> Iterator[tuple[Aggregate, tuple[int, int], Record]]:
        """Yield, for every measure that a map could improve, the chosen cells and their maps."""
        made: dict[tuple[int, int], Recalibration] = {}
        for measure, aggregate, cell in chosen:
            if aggregate == "maximum" or map_kind(measure, len(self.labels) if self.classification else None) is None:
                continue
            if cell not in made:
                made[cell] = self._recalibration(on_folds, cell, n_folds)
            slope, shift = made[cell].fitted_to(measure)
            validation = [short(value) for value in made[cell].validation(measure)]
            yield aggregate, cell, {"measure": measure, "map": [short(slope), short(shift)], "validation": validation}

    def _recalibration(self, on_folds: Sequence[Answers], cell: tuple[int, int], n_folds: int) -> Recalibration:
        folds = [(self._decisions(answers, cell), answers.y, answers.groups) for answers in on_folds]
        return Recalibration(folds, n_folds, on_folds[0].classes, self.settings.tail)

    @staticmethod
    def _decisions(answers: Answers, cell: tuple[int, int]) -> Array:
        assert answers.decisions is not None
        return np.asarray(answers.decisions[cell])

    def _describe(self) -> Record:
        """Return what the report says about the data and the protocol."""
        data, (n, d), clusters = self.data, self.data.features.shape, self.splitting.clusters
        record = {
            "record": "data", "dataset": data.name, "task": data.task, "model": self.settings.family.name,
            "n": n, "d": d, "n_used": int(self.used.size),
            "target": data.target_name, "group": data.group_name, "notes": list(data.notes), "health": data.health,
            "features": features_in_words(data), "n_folds": self.n_folds, "tail": self.settings.tail,
            "split_by": data.split_by_name, "time": data.time_name, "truth": self.y[self.judged].tolist(),
            "groups": None if data.groups is None else [str(group) for group in data.groups[self.judged]],
            "clusters": None if clusters is None else clusters[self.judged].tolist(),
        }  # fmt: skip
        if self.classification:
            record |= {"classes": [str(label) for label in self.labels], "counts": np.bincount(self.y).tolist()}
        return record

    def _draw_rows(self) -> npt.NDArray[np.intp]:
        """Return the rows to compare on: all, or a random part."""
        return self._draw(np.arange(self.y.size), self.settings.max_rows or self.y.size)

    def _draw(self, rows: npt.NDArray[np.intp], most: int) -> npt.NDArray[np.intp]:
        """Return rows, or a random part of them with every class in proportion."""
        if rows.size <= most:
            return rows
        rng = np.random.default_rng(self.settings.random_state)
        if not self.classification:
            return np.sort(rng.choice(rows, most, replace=False))
        drawn = []
        for code, count in enumerate(np.bincount(self.y[rows])):
            enough = min(max(round(count * most / rows.size), _LEAST_OF_CLASS), count)  # to split a rare one
            drawn.append(rng.choice(rows[self.y[rows] == code], enough, replace=False))
        return np.sort(np.concatenate(drawn))

    def _validation_folds(self, split: int | None, rows: npt.NDArray[np.intp]) -> tuple[list[Split], int]:
        """Return the folds of a training part, and how many a round has; those of all rows have several rounds."""
        n_folds = self.splitting.n_folds(rows, self.settings.n_inner_folds)
        rounds = self.settings.last_repeats if split is None else 1
        return [fold for repeat in range(rounds) for fold in self.splitting.folds(rows, n_folds, repeat)], n_folds

    def take(self, split: int | None) -> TableSplit:
        """Return the rows of a split, or all rows as a training part; that of the last call is kept."""
        if self._at_hand is None or self._at_hand[0] != split:
            train, test = self.used, self.used[:0]
            if split is not None:
                repeat, fold = divmod(split, self.n_folds)
                train, test = (self.used[part] for part in self.splitting.folds(self.used, self.n_folds, repeat)[fold])
            seen = replace(self.data, features=take_rows(self.data.features, train))
            maker = make_features(seen)
            X = maker.fit_transform(seen.features)
            if test.size:
                parts = [X, maker.transform(take_rows(self.data.features, test))]
                X = sp.vstack(parts, format="csr") if sp.issparse(X) else np.vstack(parts)
            self._at_hand = split, TableSplit(X, np.concatenate([train, test]), train.size)
        return self._at_hand[1]

    def _fit(
        self,
        family: Family,
        encoder: ProblemEncoder,
        taken: TableSplit,
        y: npt.NDArray[Any],
        split: Split,
        ks: Sequence[float],
    ) -> tuple[Answers, Array | None]:
        """Fit the grid on some rows; return what it says about others, and how exact each of its fits is, if known."""
        fitted, unseen = split
        centre, spread, target = 0.0, 1.0, y
        if not self.classification:  # C weighs losses in units of the target's spread
            centre, spread = float(y[fitted].mean()), float(y[fitted].std()) or 1.0
            target = (y - centre) / spread
        decisions, classes, gaps = family.answer(encoder, taken.X, target, split, ks)
        groups = None if self.data.groups is None else self.data.groups[taken.rows[unseen]]
        answers = Answers.from_decisions(
            centre + spread * decisions, y[unseen], classes, loss=encoder.loss, groups=groups, tail=self.settings.tail
        )
        return answers, gaps


def _as_written(values: Array) -> Array:
    """Return numbers to the digits of a results file."""
    return np.array([short(value) for value in values.ravel()]).reshape(values.shape)
