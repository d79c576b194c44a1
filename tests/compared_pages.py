"""Comparisons of every kind, and what their reports hold."""

from __future__ import annotations

import json
from functools import lru_cache

import numpy as np
from comparisons import made, run, settings_with, table
from scipy.sparse import csr_array

from atklearn.datasets import make_toy
from atklearn.report.comparison_findings import Findings, comparison_summary
from atklearn.report.comparison_page import comparison_page
from atklearn.report.content import Chart, Explorer, Table

UNUSUAL = {"repeats": 2, "n_folds": 3, "n_ks": 3, "n_Cs": 2, "n_inner_folds": 4, "tol": 0.02}


def late_rows(n=240):
    """Numbers of which a tenth is late, which no feature tells: the tail is to gain by a shift, the mean is not."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n, 2))
    return X, 100.0 + X @ [3.0, -2.0] + 0.5 * rng.standard_normal(n) + 6.0 * (rng.random(n) < 0.12)


def compared(data, path, *, question=None, **changes):
    return run(data, path, settings_with(data.task, len(data.target), **{**UNUSUAL, **changes}), question)


def page_of(records):
    return _page(json.dumps(records))


def summary_of(records):
    return comparison_summary(_findings(json.dumps(records)))


@lru_cache(maxsize=8)
def _findings(lines):
    """Weigh what records say, once for tests that ask for the same."""
    return Findings(json.loads(lines))


@lru_cache(maxsize=8)
def _page(lines):
    return comparison_page(_findings(lines))


def of_kind(records, kind):
    return [record for record in records if record["record"] == kind]


def blocks_of(page):
    return [block for section in page.sections for block in section.blocks]


def tables_of(page):
    return {block.name: block for block in blocks_of(page) if isinstance(block, Table)}


def explorer_of(page):
    return next(block for block in blocks_of(page) if isinstance(block, Explorer))


def charts_of(page):
    return {block.name: block for block in blocks_of(page) if isinstance(block, Chart)}


def texts_of(page, section):
    return [block for part in page.sections if part.name == section for block in part.blocks if isinstance(block, str)]


def said(records):
    return dict(page_of(records).provenance)


ALL_KINDS = ["toy", "groups", "three", "sparse", "late"]


def many_kinds():
    """Return a table of every kind, by name."""
    X, y = make_toy(4, random_state=0)
    toy = table(X * [10.0, 0.1] + [5.0, -3.0], np.where(y > 0, "yes", "no"))
    X, y = made()
    groups = np.where(X[:, 2] > 0.0, "north", "south")
    noisy = np.where((groups == "south") & (np.random.default_rng(0).random(200) < 0.4), "b", y)
    late, numbers = late_rows()
    return {
        "toy": toy,
        "groups": table(X, noisy, groups=groups),
        "three": table(*made(n_classes=3)),
        "sparse": table(csr_array(np.where(X > 0.0, X, 0.0)), y),
        "late": table(late, numbers, "regression", groups=np.where(numbers > 106.0, "late", "in time")),
    }
