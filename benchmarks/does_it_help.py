"""Does AT_k help? Every measure on sets of the paper and of scikit-learn, by the library's own comparison.

For each set and measure: the best average against the best AT_k, both chosen by that measure within the training parts,
on rows that no fit has seen; the answer of `atklearn.compare`; and the answer with a tuned threshold (two classes) or
an affine map of the predictions (numbers) allowed on both sides, which is what one would try instead. Prints Markdown.

Usage: ./run bench does_it_help DIR [SET ...]    DIR holds the paper's files: `atklearn datasets` says which
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import sklearn.datasets as shipped

from atklearn import compare
from atklearn.datasets import load_dataset, make_deliveries

PAPER = ("abalone", "cpusmall", "housing", "monk", "australian", "german", "splice", "spambase", "titanic", "phoneme")
SHIPPED = {"diabetes": shipped.load_diabetes, "breast cancer": shipped.load_breast_cancer}
SHOWN = {
    "regression": ("rmse", "mae", "tail_error", "p95_error", "max_error"),
    "classification": ("error", "balanced_error", "worst_class_error", "roc_auc", "log_loss"),
}
REPEATS = 2
MOST_ROWS = 2500  # drawn at random of larger sets, so that a run takes minutes


def load(name: str, folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of a set, at most `MOST_ROWS` of them."""
    if name in SHIPPED:
        X, y = SHIPPED[name](return_X_y=True)
    elif name == "deliveries":
        table = make_deliveries()
        X, y = np.column_stack([table["distance_km"], table["climb_m"]]), table["minutes"]
    else:
        data = load_dataset(name, data_dir=folder)
        X, y = data.X, data.y
    rows = np.random.default_rng(0).permutation(len(y))[:MOST_ROWS]
    return np.asarray(X)[rows], np.asarray(y)[rows]


def task_of(y: np.ndarray) -> str:
    """Return the task: two values are classes, numbers of rings are not."""
    return "classification" if np.unique(y).size == 2 else "regression"


def told(verdict: dict[str, Any]) -> str:
    """Return a verdict as a cell: both values, and in bold where it helps or hurts."""
    values = f"{verdict['average']:.4g} → {verdict['atk']:.4g}"
    words = {"helps": "**helps**", "hurts": "**hurts**", "same": "same", "undecided": "?"}
    return f"{values} {words[verdict['answer']]}"


def main(folder: Path, names: list[str]) -> None:
    headed = ""
    for name in names or ["deliveries", *PAPER[:3], "diabetes", *PAPER[3:], "breast cancer"]:
        X, y = load(name, folder)
        summary = compare(X, y, task=task_of(y), robust=False, repeats=REPEATS, n_jobs=1, verbose=False).summary
        task = summary["task"]
        if task != headed:
            headed = task
            print(f"\n| set (rows x columns) | | {' | '.join(SHOWN[task])} |")
            print("|---" * (2 + len(SHOWN[task])) + "|")
        for label, verdicts in (("", summary["verdicts"]), ("mapped", summary["with_maps"])):
            cells = [told(verdicts[measure]) if measure in verdicts else "" for measure in SHOWN[task]]
            print(
                f"| {name if not label else ''}{f' ({len(y)} x {X.shape[1]})' if not label else ''} | {label} | ",
                end="",
            )
            print(" | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
