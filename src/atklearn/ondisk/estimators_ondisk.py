"""Linear estimators on data that are read from files chunk by chunk."""

from __future__ import annotations

from concurrent.futures import Executor
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from atklearn.chunked.chunked_base import ChunkedATk, OnChunks
from atklearn.chunked.chunked_posing import ChunkedData
from atklearn.chunked.chunked_search import ChunkedATkCV
from atklearn.chunked.weights import ChunkedWeights
from atklearn.estimators import linear, search
from atklearn.losses.individual import Array
from atklearn.losses.messages import shown
from atklearn.ondisk.executor_engine import ArrayChunks, ExecutorEngine

__all__ = ["ATkClassifier", "ATkClassifierCV", "ATkRegressor", "ATkRegressorCV"]

# Bytes of a chunk: much for one pass, little beside what a machine has.
_CHUNK = 1 << 26


class OnDisk(OnChunks):
    """What all four share: arrays that are cut into chunks of rows."""

    _own_parameters: ClassVar[dict[str, Any]] = {"executor": None, "chunk_rows": None, "checkpoint": None}
    _shared_parameters: ClassVar[tuple[str, ...]] = ("executor",)
    _own_constraints: ClassVar[dict[str, list[Any]]] = {
        **OnChunks._own_constraints,
        "chunk_rows": [Interval(Integral, 1, None, closed="left"), None],
        "executor": [Executor, None],
    }
    executor: Executor | None
    chunk_rows: int | None

    if TYPE_CHECKING:

        def __init__(
            self,
            *loss: Any,
            executor: Executor | None = None,
            chunk_rows: int | None = None,
            checkpoint: str | Path | None = None,
            **local: Any,
        ) -> None: ...

    def _open(self, X: Any, y: Any, sample_weight: Any) -> ChunkedData:
        chunks = array_chunks(X, y, sample_weight, self.chunk_rows)
        engine = ExecutorEngine(chunks, self.executor)
        return ChunkedData(
            engine, int(X.shape[1]), None, lambda columns: _weights(chunks, columns), n_reads_to_spread=1
        )


def array_chunks(X: Any, y: Any, sample_weight: Any, chunk_rows: int | None) -> ArrayChunks:
    """Return arrays as chunks of some bytes."""
    shape = getattr(X, "shape", None)
    lengths = [np.shape(array)[:1] for array in (y, sample_weight) if array is not None]
    if shape is None or len(shape) != 2 or any(length != (shape[0],) for length in lengths):
        raise ValueError(
            "X is expected to be an array of two dimensions, memory-mapped or otherwise sliceable by rows, y and "
            f"sample_weight as long, got X of shape {shape} and lengths {[n for (n,) in lengths]}."
        )
    if shape[0] == 0 or shape[1] == 0:
        raise ValueError(f"X is expected to have rows and columns, got shape {shown(shape)}.")
    rows = int(chunk_rows or max(_CHUNK // (8 * shape[1]), 1))
    ends = [*range(rows, shape[0], rows), shape[0]]
    return ArrayChunks(X, y, sample_weight, ends=ends)


def _weights(chunks: ArrayChunks, columns: list[ChunkedWeights]) -> Array:
    """Return the weights of all samples, a column per problem, made chunk by chunk."""
    out = np.empty((chunks.ends[-1], len(columns)))
    begin = 0
    for index, end in enumerate(chunks.ends):
        block = chunks.block(index)
        for place, column in enumerate(columns):
            out[begin:end, place] = column.make(block, index)
        begin = end
    return out


class ATkClassifier(OnDisk, ChunkedATk, linear.ATkClassifier):
    """Linear classifier with the average top-k loss on data larger than memory.

    The solver, the optimum and its certificate are those of :class:`atklearn.ATkClassifier`. X is read chunk by chunk,
    twice for a Newton step; some four numbers per row stay in memory, and nothing else but a sample of the rows.

    Parameters
    ----------
    loss, k
        As in :class:`atklearn.ATkClassifier`.
    drop : {0}, default=0
        On chunks no rows are set aside.
    C, scoring, tail, at_most, fit_intercept, penalize_intercept, class_weight
        As in :class:`atklearn.ATkClassifier`.
    solver : {"exact"}, default="exact"
        On chunks there are no stochastic steps.
    tol, max_iter, n_starts, warm_start, verbose
        As in :class:`atklearn.ATkClassifier`.
    executor : concurrent.futures.Executor, default=None
        Works on chunks; if None, threads, as many as there are cores. Processes open memory-mapped files by
        themselves.
    chunk_rows : int, default=None
        Rows in a chunk; if None, those of some 64 MB.
    checkpoint : path-like, default=None
        A file to note in what was reached: a fit that was interrupted goes on from there if it is started again. It is
        removed when the fit ends.

    Attributes
    ----------
    n_passes_ : int
        How often X was read.
    sample_weights_ : ndarray
        As in :class:`atklearn.ATkClassifier`, made chunk by chunk.
    coef_, intercept_, classes_, threshold_, dual_gap_, objective_, n_iter_, k_, k_share_, C_, selection_
        As in :class:`atklearn.ATkClassifier`.
    set_aside_, drop_, n_features_in_
        As in :class:`atklearn.ATkClassifier`.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from atklearn.ondisk import ATkClassifier
    >>> rng = np.random.default_rng(0)
    >>> with tempfile.TemporaryFile() as file:
    ...     X = np.memmap(file, dtype=np.float64, shape=(1000, 5))
    ...     X[:] = rng.standard_normal(X.shape)
    ...     model = ATkClassifier(k=0.5, chunk_rows=300).fit(X, X[:, 0] > 0.0)
    >>> bool(model.dual_gap_ <= 1e-6 * model.objective_), model.to_local()
    (True, ATkClassifier(k=0.5))
    """

    _local = linear.ATkClassifier


class ATkRegressor(OnDisk, ChunkedATk, linear.ATkRegressor):
    """Linear regressor with the average top-k loss on data larger than memory.

    The solver, the optimum and its certificate are those of :class:`atklearn.ATkRegressor`. X is read chunk by chunk,
    twice for a Newton step; some four numbers per row stay in memory, and nothing else but a sample of the rows.

    Parameters
    ----------
    loss, k
        As in :class:`atklearn.ATkRegressor`.
    drop : {0}, default=0
        On chunks no rows are set aside.
    C, scoring, tail, at_most, fit_intercept, penalize_intercept
        As in :class:`atklearn.ATkRegressor`.
    solver : {"exact"}, default="exact"
        On chunks there are no stochastic steps.
    tol, max_iter, n_starts, warm_start, verbose
        As in :class:`atklearn.ATkRegressor`.
    executor, chunk_rows, checkpoint
        As in :class:`atklearn.ondisk.ATkClassifier`.

    Attributes
    ----------
    n_passes_ : int
        How often X was read.
    sample_weights_ : ndarray
        As in :class:`atklearn.ATkRegressor`, made chunk by chunk.
    coef_, intercept_, threshold_, dual_gap_, objective_, n_iter_, k_, k_share_, C_, selection_
        As in :class:`atklearn.ATkRegressor`.
    set_aside_, drop_, n_features_in_
        As in :class:`atklearn.ATkRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from atklearn.ondisk import ATkRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((1000, 5))
    >>> model = ATkRegressor("absolute_error", k=0.2, chunk_rows=300).fit(X, X[:, 0] + rng.standard_normal(1000))
    >>> bool(model.dual_gap_ <= 1e-6 * model.objective_)
    True
    """

    _local = linear.ATkRegressor


class ATkClassifierCV(OnDisk, ChunkedATkCV, search.ATkClassifierCV):
    """Linear classifier on data larger than memory that chooses k and C by cross-validation.

    It is :class:`atklearn.ATkClassifierCV` on chunks. Every fit of the grid takes some ten passes over the data; models
    are judged on the rows of the fold, or on a sample of 64 MB of them.

    Parameters
    ----------
    loss, ks, Cs
        As in :class:`atklearn.ATkClassifierCV`.
    drop : {0}, default=0
        On chunks no rows are set aside.
    cv : int or None, default=None
        A number of folds, drawn row by row from the values themselves, and fitted on all chunks. None is the folds in
        memory, of 5,000 samples at most, which are the same ones however chunks are cut.
    scoring, tail, at_most, rule, refit, fit_intercept, penalize_intercept, class_weight, tol, max_iter
        As in :class:`atklearn.ATkClassifierCV`.
    n_jobs : {None, 1}, default=None
        Every fit has all the workers.
    random_state, verbose
        As in :class:`atklearn.ATkClassifierCV`.
    executor, chunk_rows, checkpoint
        As in :class:`atklearn.ondisk.ATkClassifier`.

    Attributes
    ----------
    best_estimator_ : atklearn.ondisk.ATkClassifier
        The final fit; present if ``refit``.
    k_, k_share_, C_, selection_, cv_results_, best_index_, best_params_, best_score_, ks_, Cs_, drop_share_, n_samples_
        As in :class:`atklearn.ATkClassifierCV`.
    calibration_bound_, classes_
        As in :class:`atklearn.ATkClassifierCV`.
    coef_, intercept_, threshold_, dual_gap_, objective_, n_iter_, n_features_in_
        As in :class:`atklearn.ATkClassifierCV`.

    Examples
    --------
    >>> import numpy as np
    >>> from atklearn.ondisk import ATkClassifierCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((1000, 5))
    >>> y = X[:, 0] + 0.1 * rng.standard_normal(1000) > 0.0
    >>> model = ATkClassifierCV(ks=[0.3, 1.0], Cs=[1.0, 100.0], cv=2, chunk_rows=300).fit(X, y)
    >>> bool(model.best_score_ > -0.9), model.to_local()
    (True, ATkClassifierCV(Cs=[1.0, 100.0], cv=2, ks=[0.3, 1.0]))
    """

    _local = search.ATkClassifierCV
    _plain = ATkClassifier


class ATkRegressorCV(OnDisk, ChunkedATkCV, search.ATkRegressorCV):
    """Linear regressor on data larger than memory that chooses k and C by cross-validation.

    It is :class:`atklearn.ATkRegressorCV` on chunks. Every fit of the grid takes some ten passes over the data; models
    are judged on the rows of the fold, or on a sample of 64 MB of them.

    Parameters
    ----------
    loss, ks, Cs
        As in :class:`atklearn.ATkRegressorCV`.
    drop : {0}, default=0
        On chunks no rows are set aside.
    cv : int or None, default=None
        A number of folds, drawn row by row from the values themselves, and fitted on all chunks. None is the folds in
        memory, of 5,000 samples at most, which are the same ones however chunks are cut.
    scoring, tail, at_most, rule, refit, fit_intercept, penalize_intercept, tol, max_iter
        As in :class:`atklearn.ATkRegressorCV`.
    n_jobs : {None, 1}, default=None
        Every fit has all the workers.
    random_state, verbose
        As in :class:`atklearn.ATkRegressorCV`.
    executor, chunk_rows, checkpoint
        As in :class:`atklearn.ondisk.ATkClassifier`.

    Attributes
    ----------
    best_estimator_ : atklearn.ondisk.ATkRegressor
        The final fit; present if ``refit``.
    k_, k_share_, C_, selection_, cv_results_, best_index_, best_params_, best_score_, ks_, Cs_, drop_share_, n_samples_
        As in :class:`atklearn.ATkRegressorCV`.
    calibration_bound_
        As in :class:`atklearn.ATkRegressorCV`.
    coef_, intercept_, threshold_, dual_gap_, objective_, n_iter_, n_features_in_
        As in :class:`atklearn.ATkRegressorCV`.

    Examples
    --------
    >>> import numpy as np
    >>> from atklearn.ondisk import ATkRegressorCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((1000, 5))
    >>> y = X[:, 0] + 0.1 * rng.standard_normal(1000)
    >>> model = ATkRegressorCV(ks=[0.3, 1.0], Cs=[1.0, 100.0], cv=2, chunk_rows=300).fit(X, y)
    >>> bool(model.best_score_ > -0.9)
    True
    """

    _local = search.ATkRegressorCV
    _plain = ATkRegressor
