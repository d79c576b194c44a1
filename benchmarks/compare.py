"""`atklearn compare --quick` on a CSV of a million rows, beside a nested grid search of the average with scikit-learn.

Prints seconds, the peak memory of all processes (Linux), and the ratio of the times: scikit-learn fits k = n only, we
four more values of k and the maximum; both read the same file. Usage: ./run bench compare [ROWS]
"""

from __future__ import annotations

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
from sklearn.model_selection import GridSearchCV, StratifiedKFold, StratifiedShuffleSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

USED_ROWS = 50_000  # of --quick


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
    start = time.perf_counter()
    frame = pd.read_csv(path)
    frame = frame.sample(min(USED_ROWS, len(frame)), random_state=0)
    y = frame.pop("y")
    for weight in (None, "balanced"):
        features = make_column_transformer((OneHotEncoder(), ["town"]), remainder=StandardScaler())
        model = make_pipeline(features, LogisticRegression(class_weight=weight))
        grid = {"logisticregression__C": [1e-5, 1e-3, 1e-1]}
        search = GridSearchCV(model, grid, cv=StratifiedKFold(3), scoring="balanced_accuracy")
        outer = StratifiedShuffleSplit(5, test_size=0.25, random_state=0)
        cross_val_score(search, frame, y, cv=outer, scoring="balanced_accuracy", n_jobs=-1)
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
