"""Figures 1 to 3 of the paper: the toy cases, the shifted and truncated loss, the error against k."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from atklearn.datasets import Dataset, bayes_boundary
from atklearn.losses.individual import Array, resolve_individual_loss
from atklearn.measures import MEASURES, Answers
from atklearn.selection.paths import ATkPath
from atklearn.stochastic.sgd import SGD
from atklearn.study.methods import PAPER_LOSSES
from atklearn.study.paper_tables import drawn, log_spaced, paper_path, paper_split, scale_features
from atklearn.study.results import Record, certificate, relative_gaps, short
from atklearn.study.running import Task

__all__ = ["FIGURE_3_SETS", "ErrorAgainstK", "ShiftedLoss", "ToyCases"]

FIGURE_3_SETS = ("monk", "australian", "splice", "phoneme")
_C = 100.0
_SHOWN_K = 10  # the AT_k of Figure 1
_N_KS = 30
_TOY_PASSES = 1000
_AUTHORS = SGD(eta0=1e-3 * _C, shuffle=False, average="all")
_LAMBDAS = (0.25, 0.5)


class ToyCases:
    """Figure 1: a task per toy case and loss, with the fits of all k from 1 to n at C = 100."""

    def __init__(self, cases: dict[int, tuple[Array, Array]], solver: str) -> None:
        self.cases, self.solver = cases, solver

    def tasks(self) -> Sequence[Task]:
        """Return all tasks."""
        keys = [(case, loss) for case in self.cases for loss in PAPER_LOSSES["classification"]]
        return [Task(f"figure 1: case {case}, {loss}", (case, loss), cost=2.0) for case, loss in keys]

    def run(self, task: Task) -> list[Record]:
        """Fit every k."""
        case, loss = task.key
        X, y = self.cases[case]
        limits: dict[str, Any] = {"tol": 1e-6}
        if self.solver == "sgd":  # as the authors' published code does it: all passes, whatever the gap
            limits = {"steps": _AUTHORS, "tol": 1e-12, "max_iter": _TOY_PASSES}
        ks = range(1, y.size + 1)
        path = paper_path(X, y, loss, self.solver, ks=ks, Cs=[_C], **limits)
        errors, gaps = _errors(path, X, y), relative_gaps(path.dual_gaps, path.objectives)
        plane = {
            "record": "plane", "figure": 1, "dataset": f"case {case}", "loss": loss,
            "x": [short(value) for value in X[:, 0]], "y": [short(value) for value in X[:, 1]],
            "label": y.tolist(), "outliers": [0] if case in (2, 4, 6) else [], "bayes": list(bayes_boundary(case)),
            "shown_k": _SHOWN_K,
        }  # fmt: skip
        points = [
            {
                "record": "point", "figure": 1, "dataset": f"case {case}", "loss": loss, "k": k, "C": _C,
                "coef": [short(value) for value in path.coefs[k - 1, 0, 0]],
                "intercept": short(path.intercepts[k - 1, 0, 0]), "error": short(errors[k - 1]),
                **certificate(gaps[k - 1, 0], limits["tol"]),
            }
            for k in ks
        ]  # fmt: skip
        return [plane, *points]


class ShiftedLoss:
    """Figure 2: the individual loss, and as AT_k sees it, ``[l - lambda]_+``."""

    def tasks(self) -> Sequence[Task]:
        """Return a task per loss."""
        return [Task(f"figure 2: {loss}", loss, cost=0.0) for loss in PAPER_LOSSES["classification"]]

    def run(self, task: Task) -> list[Record]:
        """Evaluate the curves."""
        margin = np.linspace(-2.0, 3.0, 101)
        values = resolve_individual_loss(task.key, "classification")(margin, np.ones(margin.size))
        curves = {0.0: values} | {lam: np.maximum(values - lam, 0.0) for lam in _LAMBDAS}
        return [
            {
                "record": "curve", "figure": 2, "loss": task.key, "lambda": lam,
                "x": [short(value) for value in margin], "y": [short(value) for value in curve],
            }
            for lam, curve in curves.items()
        ]  # fmt: skip


class ErrorAgainstK:
    """Figure 3: the error on the test part against k at C = 100; a task per data set, loss and split."""

    def __init__(self, datasets: Sequence[Dataset], n_splits: int, solver: str) -> None:
        self.datasets = {dataset.name: dataset for dataset in datasets if dataset.name in FIGURE_3_SETS}
        self.n_splits, self.solver = n_splits, solver

    def tasks(self) -> Sequence[Task]:
        """Return all tasks."""
        return [
            Task(f"figure 3: {name}, {loss}, split {split}", (name, loss, split), cost=0.3)
            for name in self.datasets
            for loss in PAPER_LOSSES["classification"]
            for split in range(self.n_splits)
        ]

    def run(self, task: Task) -> list[Record]:
        """Fit all k of one split."""
        name, loss, split = task.key
        X, y = drawn(self.datasets[name], split)
        train, _, test = paper_split(y.size, split)
        X = scale_features(X, train)
        limits: dict[str, Any] = {"tol": 1e-4} if self.solver == "exact" else {"tol": 1e-2, "max_iter": 100}
        path = paper_path(X[train], y[train], loss, self.solver, ks=_ks(train.size), Cs=[_C], **limits)
        return [
            {
                "record": "curve", "figure": 3, "dataset": name, "loss": loss, "split": split, "C": _C,
                "x": path.ks.tolist(), "y": [short(value) for value in _errors(path, X[test], y[test])],
                **certificate(relative_gaps(path.dual_gaps, path.objectives), limits["tol"]),
            }
        ]  # fmt: skip


def _errors(path: ATkPath, X: Array, y: Array) -> Array:
    """Return the error of the fits at the one C on some rows, shape (n_ks,)."""
    return MEASURES["error"].evaluate(Answers.from_decisions(path.decision(X), y, path.classes))[:, 0]


def _ks(n: int) -> list[int]:
    """Return k from 1 to n: evenly spaced by their logarithms for the one end, and evenly for the other."""
    return sorted({*log_spaced(n, _N_KS), *(int(k) for k in np.linspace(1, n, _N_KS))})
