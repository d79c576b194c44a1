"""Linear estimators on Dask arrays and dataframes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from distributed import Client
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if

from atklearn.chunked.chunked_base import ChunkedATk, OnChunks
from atklearn.chunked.chunked_posing import ChunkedData
from atklearn.chunked.chunked_search import ChunkedATkCV
from atklearn.dask.cluster import ClusterLostError
from atklearn.dask.dask_blocks import is_dask, split_rows
from atklearn.dask.dask_engine import dask_engine, default_client
from atklearn.dask.lazy import lazy_prediction, lazy_weights
from atklearn.estimators import linear, search

__all__ = ["ATkClassifier", "ATkClassifierCV", "ATkRegressor", "ATkRegressorCV"]


class OnDask(OnChunks):
    """What all four share: collections as chunks, lazy predictions, a client."""

    _own_parameters: ClassVar[dict[str, Any]] = {"client": None, "persist": "auto", "checkpoint": None}
    _shared_parameters: ClassVar[tuple[str, ...]] = ("client",)
    _own_constraints: ClassVar[dict[str, Any]] = {
        **OnChunks._own_constraints,
        "client": "no_validation",
        "persist": ["boolean", StrOptions({"auto"})],
    }
    client: Client | None
    persist: bool | str

    if TYPE_CHECKING:

        def __init__(
            self,
            *loss: Any,
            client: Client | None = None,
            persist: bool | str = "auto",
            checkpoint: str | Path | None = None,
            **local: Any,
        ) -> None: ...

    @property
    def client_(self) -> Client:
        """The client that a fit would use now."""
        client = default_client() if self.client is None else self.client
        if client is None:
            raise AttributeError("client_ is that of a cluster, and there is none; fits run in this process.")
        return client

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()  # type: ignore[assignment]
        return state | {"client": None}  # a client does not travel

    def fit(self, X: Any, y: Any, *others: Any, **more: Any) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : dask.array.Array or dask.dataframe.DataFrame of shape (n_samples, n_features)
            Blocks are arrays or SciPy's sparse matrices.
        y : dask.array.Array or dask.dataframe.Series of shape (n_samples,)
            Cut as X is, or with known sizes of chunks.
        *others, **more
            ``sample_weight``, by place or by name: cut as y is.

        Returns
        -------
        self : estimator

        Raises
        ------
        ClusterLostError
            If the cluster is gone. With ``checkpoint``, the same fit goes on from what was reached.
        """
        try:
            return super().fit(X, y, *others, **more)  # type: ignore[misc, no-any-return]
        except ClusterLostError as error:
            if self.checkpoint is None:
                raise
            raise ClusterLostError(
                f"{error} What was reached is in {str(self.checkpoint)!r}, and the same fit goes on from there."
            ) from error

    def _open(self, X: Any, y: Any, sample_weight: Any) -> ChunkedData:
        blocks = split_rows(X, y, sample_weight)
        engine = dask_engine(blocks, self.client, self.persist)  # type: ignore[arg-type]
        spread = lambda columns: lazy_weights(blocks, columns)  # noqa: E731
        return ChunkedData(engine, blocks.n_features, blocks.feature_names, spread)

    def _say(self, method: str, X: Any) -> Any:
        """Return predictions: of collections lazy ones."""
        local = self.to_local()
        return lazy_prediction(local, method, X) if is_dask(X) else getattr(local, method)(X)

    def predict(self, X: Any) -> Any:
        """Return the predictions; of a Dask collection, to be computed when they are wanted.

        Parameters
        ----------
        X : dask.array.Array, dask.dataframe.DataFrame or array-like of shape (n_samples, n_features)

        Returns
        -------
        predictions : dask.array.Array or ndarray of shape (n_samples,)
        """
        return self._say("predict", X)


def _has_probabilities(self: Any) -> bool:
    return hasattr(self._local(self.loss), "predict_proba")


class OnDaskClassifier(OnDask):
    """What classifiers say beside their predictions."""

    def decision_function(self, X: Any) -> Any:
        """Return the scores ``x . w + b``; of two classes, those of the second.

        Parameters
        ----------
        X : dask.array.Array, dask.dataframe.DataFrame or array-like of shape (n_samples, n_features)

        Returns
        -------
        scores : dask.array.Array or ndarray of shape (n_samples,) or (n_samples, n_classes)
            One column per class, if there are more than two.
        """
        return self._say("decision_function", X)

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> Any:
        """Return the logistic function of the scores, scaled to sum to one over the classes.

        These are no calibrated probabilities for k < n. Only with ``loss="log_loss"``.

        Parameters
        ----------
        X : dask.array.Array, dask.dataframe.DataFrame or array-like of shape (n_samples, n_features)

        Returns
        -------
        probabilities : dask.array.Array or ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        return self._say("predict_proba", X)

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithm of :meth:`predict_proba`.

        Parameters
        ----------
        X : dask.array.Array, dask.dataframe.DataFrame or array-like of shape (n_samples, n_features)

        Returns
        -------
        logarithms : dask.array.Array or ndarray of shape (n_samples, n_classes)
        """
        return self._say("predict_log_proba", X)


class ATkClassifier(OnDaskClassifier, ChunkedATk, linear.ATkClassifier):
    """Linear classifier with the average top-k loss on Dask arrays and dataframes.

    The solver, the optimum and its certificate, which is that of all rows, are those of
    :class:`atklearn.ATkClassifier`. Rows stay where they are; sums travel.

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
    client : distributed.Client, default=None
        The cluster. If None, that of this process, if it has one, else a scheduler in this process: that of Dask's
        configuration, or threads.
    persist : bool or "auto", default="auto"
        Whether a cluster keeps the data in memory during the fit: "auto" if they take at most half of what all workers
        have. Data that were persisted before are used as they are; what is not in memory is read again for every pass.
    checkpoint : path-like, default=None
        A file to note in what was reached: a fit that was interrupted, or lost its cluster, goes on from there if it is
        started again. It is removed when the fit ends.

    Attributes
    ----------
    client_ : distributed.Client
        The client that a fit would use now.
    n_passes_ : int
        How often X was read.
    sample_weights_ : dask.array.Array
        As in :class:`atklearn.ATkClassifier`, computed when they are wanted.
    coef_, intercept_, classes_, threshold_, dual_gap_, objective_, n_iter_, k_, k_share_, C_, selection_
        As in :class:`atklearn.ATkClassifier`.
    set_aside_, drop_, n_features_in_, feature_names_in_
        As in :class:`atklearn.ATkClassifier`.

    Examples
    --------
    >>> import dask.array as da
    >>> from atklearn.dask import ATkClassifier
    >>> X = da.random.default_rng(0).standard_normal((1000, 5), chunks=(250, 5))
    >>> model = ATkClassifier(k=0.5).fit(X, X[:, 0] > 0.0)
    >>> bool(model.dual_gap_ <= 1e-6 * model.objective_), model.predict(X)
    (True, dask.array<atk-predict, shape=(1000,), dtype=bool, chunksize=(250,), chunktype=numpy.ndarray>)
    """

    _local = linear.ATkClassifier


class ATkRegressor(OnDask, ChunkedATk, linear.ATkRegressor):
    """Linear regressor with the average top-k loss on Dask arrays and dataframes.

    The solver, the optimum and its certificate, which is that of all rows, are those of
    :class:`atklearn.ATkRegressor`. Rows stay where they are; sums travel.

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
    client, persist, checkpoint
        As in :class:`atklearn.dask.ATkClassifier`.

    Attributes
    ----------
    client_ : distributed.Client
        The client that a fit would use now.
    n_passes_ : int
        How often X was read.
    sample_weights_ : dask.array.Array
        As in :class:`atklearn.ATkRegressor`, computed when they are wanted.
    coef_, intercept_, threshold_, dual_gap_, objective_, n_iter_, k_, k_share_, C_, selection_
        As in :class:`atklearn.ATkRegressor`.
    set_aside_, drop_, n_features_in_, feature_names_in_
        As in :class:`atklearn.ATkRegressor`.

    Examples
    --------
    >>> import dask.array as da
    >>> from atklearn.dask import ATkRegressor
    >>> X = da.random.default_rng(0).standard_normal((1000, 5), chunks=(250, 5))
    >>> model = ATkRegressor("absolute_error", k=0.2).fit(X, X[:, 0] + X[:, 1] ** 3)
    >>> bool(model.dual_gap_ <= 1e-6 * model.objective_)
    True
    """

    _local = linear.ATkRegressor


class ATkClassifierCV(OnDaskClassifier, ChunkedATkCV, search.ATkClassifierCV):
    """Linear classifier on Dask arrays and dataframes that chooses k and C by cross-validation.

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
    client, persist, checkpoint
        As in :class:`atklearn.dask.ATkClassifier`.

    Attributes
    ----------
    client_ : distributed.Client
        The client that a fit would use now.
    best_estimator_ : atklearn.dask.ATkClassifier
        The final fit; present if ``refit``.
    k_, k_share_, C_, selection_, cv_results_, best_index_, best_params_, best_score_, ks_, Cs_, drop_share_, n_samples_
        As in :class:`atklearn.ATkClassifierCV`.
    calibration_bound_, classes_
        As in :class:`atklearn.ATkClassifierCV`.
    coef_, intercept_, threshold_, dual_gap_, objective_, n_iter_, n_features_in_, feature_names_in_
        As in :class:`atklearn.ATkClassifierCV`.

    Examples
    --------
    >>> import dask.array as da
    >>> from atklearn.dask import ATkClassifierCV
    >>> X = da.random.default_rng(0).standard_normal((1000, 5), chunks=(250, 5))
    >>> model = ATkClassifierCV(ks=[0.3, 1.0], Cs=[1.0, 100.0], cv=2).fit(X, X[:, 0] + 0.1 * X[:, 1] > 0.0)
    >>> bool(model.best_score_ > -0.9)
    True
    """

    _local = search.ATkClassifierCV
    _plain = ATkClassifier


class ATkRegressorCV(OnDask, ChunkedATkCV, search.ATkRegressorCV):
    """Linear regressor on Dask arrays and dataframes that chooses k and C by cross-validation.

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
    client, persist, checkpoint
        As in :class:`atklearn.dask.ATkClassifier`.

    Attributes
    ----------
    client_ : distributed.Client
        The client that a fit would use now.
    best_estimator_ : atklearn.dask.ATkRegressor
        The final fit; present if ``refit``.
    k_, k_share_, C_, selection_, cv_results_, best_index_, best_params_, best_score_, ks_, Cs_, drop_share_, n_samples_
        As in :class:`atklearn.ATkRegressorCV`.
    calibration_bound_
        As in :class:`atklearn.ATkRegressorCV`.
    coef_, intercept_, threshold_, dual_gap_, objective_, n_iter_, n_features_in_, feature_names_in_
        As in :class:`atklearn.ATkRegressorCV`.

    Examples
    --------
    >>> import dask.array as da
    >>> from atklearn.dask import ATkRegressorCV
    >>> X = da.random.default_rng(0).standard_normal((1000, 5), chunks=(250, 5))
    >>> model = ATkRegressorCV(ks=[0.3, 1.0], Cs=[1.0, 100.0], cv=2).fit(X, X[:, 0] + 0.1 * X[:, 1])
    >>> bool(model.best_score_ > -0.9)
    True
    """

    _local = search.ATkRegressorCV
    _plain = ATkRegressor
