"""Checking arrays that users pass, once for all: features, targets and sample weights as problems take them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils import check_X_y
from sklearn.utils.validation import validate_data

from atklearn.losses.compiling import FAST_SUMS, HAS_NUMBA, njit
from atklearn.losses.individual import Array
from atklearn.problems.namespaces import on_host
from atklearn.stores import threads

__all__ = ["check_features", "check_mass", "check_training", "refuse_weights", "split_in_two"]

_FLOATS = (np.float64, np.float32)
# Entries from which on several threads look for NaN and infinity.
_LARGE = 1_000_000


def check_training(estimator: Any, X: Any, y: Any, **checks: Any) -> tuple[Any, Any]:
    """Return X as C-ordered array or CSR with 32-bit indices, and y, both checked.

    Parameters
    ----------
    estimator : estimator or None
        Gets ``n_features_in_`` and ``feature_names_in_``; None where a function is called, not an estimator.
    X, y : array-like
    **checks
        What else scikit-learn's ``validate_data`` should see to.
    """
    options: dict[str, Any] = {"accept_sparse": "csr", "dtype": list(_FLOATS), "order": "C"} | checks
    quick = isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype in _FLOATS and X.flags.c_contiguous
    if HAS_NUMBA and quick and X.size >= _LARGE and _is_finite(X):
        options["ensure_all_finite"] = False  # as looked at on several threads; else it is said where the trouble is
    X, y = (
        check_X_y(X, on_host(y), **options) if estimator is None else validate_data(estimator, X, on_host(y), **options)
    )
    return _with_small_indices(X), y


def _is_finite(X: Array) -> bool:
    """Say whether a C-ordered array has neither NaN nor infinity."""
    return bool(np.isfinite(threads.block_sums(_zeros, 1, X.size, 0.5, X.reshape(-1))[0]))


@njit(cache=True, nogil=True, fastmath=FAST_SUMS)
def _zeros(first, last, size, entries, sums):  # type: ignore[no-untyped-def]
    """Sum up zero times every entry: NaN if one of them is not finite."""
    for block in range(first, last):
        part = entries[block * size : (block + 1) * size]  # places that are known to be >= 0: so the loop runs wide
        total = 0.0
        for i in range(part.size):
            total += np.float64(part[i]) * 0.0
        sums[block, 0] = total


def split_in_two(y: npt.NDArray[Any]) -> npt.NDArray[np.int8] | None:
    """Return 0 where y, a vector of numbers, is the smaller of its two values and 1 where the larger.

    None if it has other than two values, or if it takes sorting to find out.
    """
    if not HAS_NUMBA:
        return None
    low, high = threads.extremes(y)
    codes = np.empty(y.size, dtype=np.int8)
    others = threads.block_sums(_tell_apart, 1, y.size, 1.0, y, low, high, codes)[0]
    exact = max(abs(low), abs(high)) < 2.0**53  # whole numbers that are floats as well
    return codes if exact and low < high and others == 0.0 else None


@njit(cache=True, nogil=True)
def _tell_apart(first, last, size, y, low, high, codes, sums):  # type: ignore[no-untyped-def]
    """Tell the two values apart, and count what is neither."""
    for block in range(first, last):
        others = 0
        for i in range(block * size, min((block + 1) * size, y.size)):
            codes[i] = y[i] == high
            others += (y[i] != high) & (y[i] != low)
        sums[block, 0] = others


def check_features(estimator: Any, X: Any, **checks: Any) -> Any:
    """Return X to predict from, checked against the features of the fit."""
    options: dict[str, Any] = {"accept_sparse": "csr", "dtype": list(_FLOATS)} | checks
    return validate_data(estimator, X, reset=False, **options)


def check_mass(sample_weight: Any, n_samples: int) -> Array:
    """Return the sample weights as a vector of numbers >= 0, or say what is wrong with them."""
    if sample_weight is None:
        return threads.fill(np.empty(n_samples), np.positive, 1.0)
    mass = np.asarray(on_host(sample_weight), dtype=np.float64)
    if mass.ndim == 0:
        mass = np.full(n_samples, float(mass))
    ends = (mass.min(), mass.max()) if mass.size else (0.0, 0.0)
    refuse_weights(n_samples, mass.shape, *ends)
    return mass


def refuse_weights(n_samples: int, shape: tuple[int, ...], least: float, most: float) -> None:
    """Say what is wrong with sample weights, if it is so, by their shape and their ends, which are NaN if one is."""
    problem = None
    if shape != (n_samples,):
        problem = f"an array of shape {shape}; pass one weight per sample"
    elif not (np.isfinite(least) and np.isfinite(most)):
        problem = "NaN or infinity; replace or drop these samples"
    elif least < 0.0:
        problem = f"a weight of {least:g}; use 0 to leave a sample out"
    elif most == 0.0:
        problem = "all-zero weights; at least one sample needs a positive weight"
    if problem is not None:
        raise ValueError(f"sample_weight is expected to be {n_samples} finite numbers >= 0, got {problem}.")


def _with_small_indices(X: Any) -> Any:
    """Return a sparse matrix with 32-bit indices, which solvers and LIBSVM take; files are often read with 64 bits."""
    if not sp.issparse(X) or (X.indices.dtype == np.int32 and X.indptr.dtype == np.int32):
        return X
    largest = np.iinfo(np.int32).max
    if max(X.nnz, *X.shape) > largest:
        raise ValueError(
            f"A sparse X is expected to have at most {largest} rows, columns and stored entries, got shape {X.shape} "
            f"with {X.nnz} entries; use fewer rows, or stream them with SGDATkClassifier or SGDATkRegressor."
        )
    return type(X)((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)
