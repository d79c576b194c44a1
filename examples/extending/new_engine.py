"""An engine that the library does not have, as docs/extending/engine.md builds it: files of NumPy, asked by joblib."""

from functools import partial, reduce
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from joblib import Parallel, delayed

from atklearn import ATkClassifier
from atklearn.chunked.chunk import Block
from atklearn.chunked.chunks import ChunkedData, Chunks
from atklearn.chunked.engine import Reply, answer, forget


def read_block(path):
    """Return the rows of one file: X, y and, if the file has them, weights."""
    with np.load(path) as arrays:
        return Block(arrays["X"], arrays["y"], arrays.get("weight"))


def ask_one(paths, request, reading, index):
    """Let one chunk answer, in whatever process this runs."""
    return answer(request, [(index, read_block(paths[index]) if reading else None)])


class JoblibEngine:
    """Chunks are files; joblib's workers read them and answer.

    Parameters
    ----------
    paths : list of path
        Of .npz files with ``X``, ``y`` and, if need be, ``weight``.
    n_jobs : int
    """

    is_lazy = True  # a file is read for every question that needs its features, and not kept

    def __init__(self, paths, n_jobs):
        self.paths, self.n_jobs = paths, n_jobs
        self.n_chunks = len(paths)

    def ask(self, request, chunks, *, reading):
        """Return the sum of what the chunks answer."""
        work = delayed(partial(ask_one, self.paths, request, reading))
        replies = Parallel(n_jobs=self.n_jobs, prefer="threads")(work(index) for index in chunks)
        return reduce(Reply.plus, replies, Reply(None))

    def close(self, fit):
        """Forget a fit here; workers elsewhere drop old fits by themselves."""
        forget(fit)


class FileChunks(Chunks):
    """A folder of .npz files as the X of a fit: ``ATkClassifier().fit(FileChunks(folder), None)``.

    Parameters
    ----------
    folder : path
        With a file for every chunk.
    n_jobs : int
    checkpoint : path, default=None
    """

    def __init__(self, folder, n_jobs=1, checkpoint=None):
        super().__init__(checkpoint=checkpoint)
        self.paths, self.n_jobs = sorted(Path(folder).glob("*.npz")), n_jobs
        if not self.paths:
            raise ValueError(f"A folder with .npz files is expected, got {str(folder)!r} without one.")

    def open(self, y, sample_weight=None):
        """Return the rows as an engine holds them."""
        if y is not None or sample_weight is not None:
            raise ValueError("The files are expected to hold targets and weights; call fit(chunks, None).")

        def spread(columns):
            """Return the sample weights, file after file, a column per problem."""
            blocks = enumerate(map(read_block, self.paths))  # one at a time
            return np.concatenate([np.stack([c.make(block, i) for c in columns], axis=1) for i, block in blocks])

        n_features = read_block(self.paths[0]).X.shape[1]
        return ChunkedData(JoblibEngine(self.paths, self.n_jobs), n_features, None, spread, n_reads_to_spread=1)

    def map_rows(self, function):
        """Return what a function of rows gives, file after file."""
        rows = (read_block(path).X for path in self.paths)
        return np.concatenate([function(X) for X in rows if len(X)])


def write_parts(folder, X, y, ends):
    """Write rows into files that end at given places."""
    for part, (begin, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        np.savez(Path(folder, f"part-{part:03}.npz"), X=X[begin:end], y=y[begin:end])


def main():
    """Fit on files and in memory, and compare."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 5))
    y = X[:, 0] + 0.5 * rng.standard_normal(3000) > 0.0
    with TemporaryDirectory() as folder:
        write_parts(folder, X, y, ends=[1000, 1500, 3000])
        model = ATkClassifier(k=0.5, tol=1e-9).fit(FileChunks(folder, n_jobs=2), None)
    local = ATkClassifier(k=0.5, tol=1e-9).fit(X, y)
    apart = np.linalg.norm(model.coef_ - local.coef_) / np.linalg.norm(local.coef_)
    print(f"{model.n_passes_} passes over the files, coefficients within 1e-6 of those in memory: {apart < 1e-6}")


if __name__ == "__main__":
    main()
