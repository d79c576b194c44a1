"""`atklearn compare --quick` on a CSV of a million rows, beside a nested grid search of the average with scikit-learn.

Prints seconds, the peak memory of all processes (Linux), and the ratio of the times. Both read the same file, judge on
ten folds, and choose on three within each, among log loss, squared hinge and hinge, plain and balanced class weights,
and six values of C. scikit-learn does so for the average and one measure; we try three values of k and the maximum,
choose by every measure, and write a report. Usage: ./run bench compare [ROWS]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from atklearn.study.settings import Settings

QUICK = Settings.for_task("classification", 1_000_000, quick=True)


def write_csv(path: Path, n: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 28)).round(4)
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(28)])
    frame["town"] = rng.choice(["Ulm", "Bonn", "Jena", "Aalen"], n)
    score = X[:, 0] + X[:, 1] + 0.5 * rng.standard_normal(n) + 2.0 * (frame["town"] == "Ulm")
    frame["y"] = np.where(score > 3.0, "yes", "no")
    frame.to_csv(path, index=False)


def memory(pid: int) -> int:
    """Return the resident memory of a process and its children, in bytes."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except OSError:
        return 0
    return 4096 * pages + sum(memory(int(child)) for child in children)


def ours(path: Path, out: Path) -> tuple[float, float]:
    start, peak = time.perf_counter(), 0
    command = [sys.executable, "-m", "atklearn", "compare", str(path), "--target", "y", "--quick", "--quiet"]
    process = subprocess.Popen([*command, "--out", str(out)])
    watch = threading.Event()
    while process.poll() is None:
        peak = max(peak, memory(process.pid))
        watch.wait(0.1)
    if process.returncode:
        sys.exit(process.returncode)
    return time.perf_counter() - start, peak / 1e9


def theirs(path: Path) -> float:
    """Do for the average what --quick does: the same folds, losses, class weights and numbers of C, features once."""
    start = time.perf_counter()
    frame = pd.read_csv(path)
    frame = frame.sample(min(QUICK.max_rows, len(frame)), random_state=0)
    y = frame.pop("y")
    features = make_column_transformer((OneHotEncoder(), ["town"]), remainder=StandardScaler())
    Cs = QUICK.family.strengths / len(frame)  # scikit-learn's C is relative to the sum of the losses
    models = [LogisticRegression(), LinearSVC(loss="squared_hinge"), LinearSVC(loss="hinge")]
    grid = {"model": models, "model__C": Cs, "model__class_weight": [None, "balanced"]}
    search = GridSearchCV(
        Pipeline([("model", models[0])]), grid, cv=StratifiedKFold(QUICK.n_inner_folds), scoring="balanced_accuracy"
    )
    outer = StratifiedKFold(QUICK.n_folds, shuffle=True, random_state=0)
    os.environ["PYTHONWARNINGS"] = "ignore"  # liblinear's, of fits that it stopped at its limit
    cross_val_score(make_pipeline(features, search), frame, y, cv=outer, scoring="balanced_accuracy", n_jobs=-1)
    return time.perf_counter() - start


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "big.csv")
        write_csv(path, n)
        print(f"{n} x 30, {path.stat().st_size / 1e6:.0f} MB", flush=True)
        seconds, peak = ours(path, Path(folder, "out"))
        print(f"atklearn compare --quick: {seconds:.0f} s, peak {peak:.1f} GB", flush=True)
        competitor = theirs(path)
        print(f"scikit-learn, average only: {competitor:.0f} s; ours takes {seconds / competitor:.1f} times as long")


if __name__ == "__main__":
    main()
