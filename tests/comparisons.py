"""Tables to compare on, small comparisons, and grids that say what they are told to."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from atklearn.study.comparison import run_comparison
from atklearn.study.evidence import Choice, Grid
from atklearn.study.families import LinearModels
from atklearn.study.outcome import Question
from atklearn.study.results import read_results
from atklearn.study.settings import Settings
from atklearn.tables.tabular import TabularData

SMALL = {"repeats": 1, "n_folds": 3, "n_inner_folds": 3, "last_repeats": 2, "n_ks": 3, "n_Cs": 2}
OF_LINEAR_GRIDS = ("n_ks", "n_Cs", "tol")


def small(task, **changes):
    return settings_with(task, 200, **{**SMALL, **changes})


def settings_with(task, n_rows, **changes):
    """Return settings with changes, some of them about the grids of linear models; rows are set aside if asked."""
    grid = {name: changes.pop(name) for name in OF_LINEAR_GRIDS if name in changes}
    return Settings.for_task(task, n_rows, **{"family": LinearModels(**grid), "robust": False, **changes})


def table(X, y, task="classification", groups=None):
    frame = X if isinstance(X, csr_array) else pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    names = [] if isinstance(X, csr_array) else [[name, "number", ""] for name in frame.columns]
    health = {"rows_read": len(y), "rows_used": len(y), "rows_left_out": [], "warnings": [],
              "columns": [*names, ["y", "target", ""]] if names else []}  # fmt: skip
    return TabularData("made", frame, y, task, "y", groups, None if groups is None else "town",
                       np.arange(1, len(y) + 1), "made here", [], health=health)  # fmt: skip


def made(n=200, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4))
    return X, np.array(["a", "b", "c"])[(X[:, 0] > 0.0).astype(int) + (n_classes == 3) * (X[:, 1] > 0.7)]


def made_numbers(n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    return X, 1000.0 + 50.0 * X[:, 0] + 10.0 * rng.standard_t(3, n)


def run(data, path, settings=None, question=None, **options):
    question = question or Question.about(data.task, has_groups=data.groups is not None)
    run_comparison(data, settings or small(data.task), question, path, **options)
    return list(read_results(path))


def parts_of(taken):
    """Return the rows of the table in the training and in the test part."""
    return [taken.rows[places] for places in taken.places]


def in_any_order(records, question=None):
    """Return what records say, but for the header and, if one is named, for the answers to other questions."""
    return sorted(
        json.dumps(record, sort_keys=True)
        for record in records
        if record["record"] != "run" and (question is None or record.get("question", question) == question)
    )


def grid(loss, weights, validation, n=100.0, ks=(1.0, 20.0, 50.0, 100.0), strengths=(1.0, 10.0), mapped=None, said=None,
         rows=()):  # fmt: skip
    """Return a grid with given validation, per measure an array of shape (n_folds, n_ks, n_strengths)."""
    validation = {name: np.asarray(values, dtype=np.float64) for name, values in validation.items()}
    ks = np.asarray(ks)
    test = {name: values.mean(axis=0) for name, values in validation.items()}
    n_folds = len(next(iter(validation.values())))
    return Grid(loss, weights, ks, ks / n, np.asarray(strengths), n_folds, validation, test, mapped or {},
                np.asarray(rows, dtype=np.intp), said or {})  # fmt: skip


def choice(said, rows, share=1.0):
    """Return a choice that said this about the rows of a test part."""
    said = np.atleast_2d(np.asarray(said, dtype=np.float64))
    rows = np.asarray(rows, dtype=np.intp)
    return Choice("log_loss", "plain", share * 100, share, 1.0, None, np.zeros(3), 0.5, rows, said)
