"""Everything follows X.

What is fitted are arrays of its library, on its device, until they are called back to the host; what is predicted from
chunks of rows is made chunk by chunk, of a Dask collection when it is wanted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import Tags

from atklearn.chunked.chunks import Chunks
from atklearn.chunked.encoded_chunks import EncodedChunks
from atklearn.encoding.encoded import Encoded, ProblemEncoder, enter_training
from atklearn.runtime.messages import shown
from atklearn.runtime.namespaces import Home, on_host

__all__ = ["FollowsX", "ScoredClassifierMixin", "ScoredRegressorMixin", "chunks_of", "each_chunk", "training_data"]


def is_dask(values: Any) -> bool:
    """Say whether this is a collection of Dask, without importing Dask."""
    if type(values).__module__.partition(".")[0] != "dask" or "dask" not in sys.modules:
        return False
    import dask

    return bool(dask.is_dask_collection(values))


def chunks_of(X: Any) -> Chunks | None:
    """Return X as chunks of rows if it is in chunks, or a Dask collection; None for an array, whatever it maps.

    Examples
    --------
    >>> import numpy as np
    >>> from atklearn.ondisk import ArrayChunks
    >>> X = np.zeros((3, 2))
    >>> chunks_of(X) is None, type(chunks_of(ArrayChunks(X))).__name__
    (True, 'ArrayChunks')
    """
    if isinstance(X, Chunks):
        return X
    if not is_dask(X):
        return None
    from atklearn.dask import DaskChunks

    return DaskChunks(X)


@contextmanager
def training_data(
    estimator: Any, encoder: ProblemEncoder, X: Any, y: Any, sample_weight: Any, **checks: Any
) -> Iterator[Encoded | EncodedChunks]:
    """Lend X, y and sample weights, checked and encoded once, wherever they lie; the estimator learns the features.

    Parameters
    ----------
    estimator : estimator
        Gets ``n_features_in_`` and ``feature_names_in_``.
    encoder : ProblemEncoder
    X, y, sample_weight
        As users pass them.
    **checks
        What else scikit-learn's ``validate_data`` should see to.
    """
    chunks = chunks_of(X)
    if chunks is None:
        X, y = enter_training(estimator, X, y, y_numeric=not encoder.is_classification, **checks)
        yield encoder.encode(X, y, sample_weight)
        return
    if estimator.trim:
        raise ValueError(
            f"On chunks of rows, trim is expected to be 0, got {shown(estimator.trim)}: every round of setting rows "
            "aside would read all of them; fit as many rows as fit into memory, as an array."
        )
    data = EncodedChunks.of(encoder, chunks, y, sample_weight)
    try:
        estimator.n_features_in_ = data.n_features
        if data.data.names is not None:
            estimator.feature_names_in_ = np.array(data.data.names, dtype=object)
        elif hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
        yield data
    except BaseException as error:
        if chunks.checkpoint is not None and Path(chunks.checkpoint).exists():
            error.add_note(f"What was reached is in {str(chunks.checkpoint)!r}, and this fit goes on from there.")
        raise
    finally:
        data.close()


def each_chunk(method: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Let a method that predicts from an array of rows predict from chunks of rows, too."""

    @wraps(method)
    def predict(self: Any, X: Any) -> Any:
        chunks = chunks_of(X)
        return method(self, X) if chunks is None else chunks.map_rows(getattr(self.to_predict(), method.__name__))

    return predict


def in_memory(*values: Any) -> tuple[Any, ...]:
    """Return arrays of the host, of Dask collections and tensors what they hold; all else as it is."""
    return tuple(on_host(value.compute() if is_dask(value) else value) for value in values)


class FollowsX(BaseEstimator):
    """Base of the estimators that are computed where X lies."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        return tags

    def to_numpy(self) -> Self:
        """Return a copy with all that is fitted as NumPy arrays on the host, to predict from arrays there.

        Returns
        -------
        copy : estimator
            Without the state that a warm start goes on from.
        """
        copy: Self = clone(self)
        for name, value in self._fitted():
            setattr(copy, name, value.to_numpy() if isinstance(value, FollowsX) else on_host(value))
        return copy

    def to_predict(self) -> Self:
        """Return a copy with what predictions are made of: nothing in it has an entry per sample.

        Returns
        -------
        copy : estimator
        """
        copy: Self = clone(self)
        for name, value in self._fitted():
            if name != "top_weights_":
                setattr(copy, name, value.to_predict() if isinstance(value, FollowsX) else value)
        return copy

    def _follow(self, home: Home | None) -> None:
        """Move what is fitted to where X lies; None is the host."""
        for name, value in self._fitted():
            if isinstance(value, FollowsX):
                value._follow(home)
            else:
                setattr(self, name, on_host(value) if home is None else home.publish(value))

    def _fitted(self) -> list[tuple[str, Any]]:
        return [(name, value) for name, value in vars(self).items() if name.endswith("_") and not name.startswith("_")]


class ScoredClassifierMixin(ClassifierMixin):
    """Accuracy, wherever predictions and truth lie."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of the predictions.

        Parameters
        ----------
        X : {array-like, sparse matrix, tensor} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        score : float
        """
        predicted, y, sample_weight = in_memory(self.predict(X), y, sample_weight)
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))


class ScoredRegressorMixin(RegressorMixin):
    """R2, wherever predictions and truth lie."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the R2 of the predictions.

        Parameters
        ----------
        X : {array-like, sparse matrix, tensor} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        score : float
        """
        predicted, y, sample_weight = in_memory(self.predict(X), y, sample_weight)
        return float(r2_score(y, predicted, sample_weight=sample_weight))
