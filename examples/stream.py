"""Learn from a file that is read block by block: the threshold lambda is learned along with the weights.

Run: python examples/stream.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from atklearn import RowBlocks, SGDATkClassifier


def write_rows(folder: Path, n_rows: int = 200_000) -> tuple[np.ndarray, np.ndarray]:
    """Write two classes around (0, 0) and (2, 2), one in twenty rows of the first around (1, 1), and map the files."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(n_rows) < 0.5, 1, -1)
    rare = (y > 0) & (rng.random(n_rows) < 0.05)
    centre = np.where(y > 0, 0.0, 2.0) + rare
    np.save(folder / "X.npy", centre[:, None] + 0.22 * rng.standard_normal((n_rows, 2)))
    np.save(folder / "y.npy", y)
    return np.load(folder / "X.npy", mmap_mode="r"), np.load(folder / "y.npy", mmap_mode="r")


def main() -> None:
    """Compare the average loss with AT_k on a stream, and go on with the next block."""
    with tempfile.TemporaryDirectory() as folder:
        X, y = write_rows(Path(folder))
        for k in (1.0, 0.1):
            model = SGDATkClassifier(k=k, random_state=0).fit_blocks(RowBlocks(X, y), classes=[-1, 1])
            error = 100 * np.mean(model.predict(np.asarray(X)) != y)
            print(
                f"k = {k:3.1f} n: error {error:.2f} % after {model.n_iter_} passes, lambda {model.loss_threshold_:.3f}"
            )
        model.partial_fit(np.asarray(X[:5000]), np.asarray(y[:5000]))
        print(f"after one more block: {model.t_:,} visits")


if __name__ == "__main__":
    main()
