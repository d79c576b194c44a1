"""What all estimators share: progress, what becomes of a failed fit, X deciding where a fit is computed, predictions.

Everything follows X. What is fitted are arrays of its library, on its device, until they are called back to the host;
what is predicted from chunks of rows is made chunk by chunk, of a Dask collection when it is wanted.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import Tags
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from atklearn.chunked.checkpoint import Checkpoint
from atklearn.chunked.chunks import Chunks, EncodedChunks
from atklearn.core.problem import Progress, Solution, StopReason
from atklearn.encoding.encoded import (
    Encoded,
    ProblemEncoder,
    check_features,
    enter_features,
    enter_training,
    intercept_kind,
)
from atklearn.losses.individual import Array, LogLoss, Task, resolve_individual_loss
from atklearn.losses.labels import chosen_labels, class_probabilities
from atklearn.runtime.messages import shown, stack_level
from atklearn.runtime.namespaces import Home, on_host, same_home

if TYPE_CHECKING:
    from atklearn.encoding.tensors import TensorDecisions

__all__ = [
    "AsIs", "CallbackSupportMixin", "ClassWeight", "Constraints", "FitProgress", "FollowsX", "LinearClassifierMixin",
    "LinearRegressorMixin", "ScoredRegressorMixin", "chunks_of", "published_at_once", "training_data",
    "warn_of_classes_aside", "warn_unless_converged",
]  # fmt: skip

AsIs: TypeAlias = Any
"""What users pass, or get: arrays, dataframes, tensors, lazy collections, of whatever library."""
Constraints: TypeAlias = dict[str, list[object]]
"""What scikit-learn may be told of parameters."""
ClassWeight: TypeAlias = dict[Any, float] | str | None
"""Weights of labels of whatever kind, or "balanced"."""
_Fit = TypeVar("_Fit", bound=Callable[..., Any])

try:
    from sklearn.callback import CallbackSupportMixin
except ImportError:  # scikit-learn < 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stand-in for estimators under a scikit-learn without callbacks."""


class FitProgress:
    """Reports one fit of an estimator, step by step.

    With ``verbose`` it prints; callbacks set by ``estimator.set_callbacks`` get one task per Newton step, and may stop
    the fit.
    """

    def __init__(self, estimator: BaseEstimator, X: AsIs = None, y: AsIs = None, sample_weight: AsIs = None) -> None:
        self.estimator = estimator
        self.chunks: EncodedChunks | None = None
        self.checkpoint: Checkpoint | None = None
        self.task: dict[str, object] = {"estimator": estimator, "X": X, "y": y}
        if sample_weight is not None:
            self.task["metadata"] = {"sample_weight": sample_weight}
        self.context = None
        if X is not None and hasattr(estimator, "_init_callback_context"):  # None: a part of another fit
            self.context = estimator._init_callback_context(max_subtasks=None)
            self.context.call_on_fit_task_begin(**self.task)

    def watch(self, chunks: EncodedChunks, checkpoint: Checkpoint | None) -> None:
        """Note in a checkpoint what a fit on chunks has reached, and say how often it has read them."""
        self.chunks, self.checkpoint = chunks, checkpoint

    @property
    def listened(self) -> bool:
        """Whether callbacks are set."""
        return bool(getattr(self.estimator, "_skl_callbacks", None))

    def following(self, problem: str) -> Progress | None:
        """Return what the solver calls while it works on the named problem, or None if nobody listens."""
        if not self.listened and not self.estimator.verbose and self.checkpoint is None:
            return None
        reported = -1

        def report(step: int, objective: float, gap: float) -> bool:
            nonlocal reported
            if self.chunks is not None and self.checkpoint is not None:
                self.chunks.note(self.checkpoint, problem)
            if step == reported:  # a move of the centre, not a Newton step
                return False
            reported = step
            if self.estimator.verbose:
                passes = "" if self.chunks is None else f", {self.chunks.coordinator.reads} passes over the data"
                print(f"{problem} step {step}: objective {objective:.6g}, duality gap {gap:.1e}{passes}", flush=True)
            return self.passed("newton-step")

        return report

    def passed(self, task_name: str) -> bool:
        """Tell the callbacks that a part of the fit is done; return whether one of them asks to stop."""
        if not self.listened or self.context is None:
            return False
        context = self.context.subcontext(task_name=task_name)
        context.call_on_fit_task_begin(**self.task)
        return bool(context.call_on_fit_task_end(**self.task))

    def finish(self) -> None:
        """Tell the callbacks that the estimator is fitted."""
        if self.context is not None:
            self.context.call_on_fit_task_end(**self.task, reconstruction_attributes={})


_MOST_OF_CLASS = 0.5


def warn_unless_converged(solutions: Sequence[Solution], names: Sequence[str], tol: float, C: float) -> None:
    """Say, once for all problems of a fit, how far the worst got that did not reach its tolerance, and what to do."""
    missed = [
        (solution, name)
        for solution, name in zip(solutions, names, strict=True)
        if not solution.reaches(tol) and solution.stop_reason is not StopReason.CALLBACK
    ]
    if not missed:
        return
    worst, name = max(missed, key=lambda of: of[0].dual_gap / max(of[0].objective, 1e-300))
    others = "" if len(solutions) == 1 else f"{len(missed)} of {len(solutions)} classes missed the tolerance. "
    whose = "" if len(solutions) == 1 else f" of {name}, the worst,"
    first = "raise max_iter" if worst.stop_reason is StopReason.MAX_ITER else "raise tol"
    warnings.warn(
        f"{others}The fit{whose} stopped after {worst.n_iter} steps because {worst.stop_reason}: the objective "
        f"{worst.objective:.6g} is certified to within {worst.dual_gap:.1e} of the optimum, "
        f"{tol * worst.objective:.1e} was asked for. To go on, {first}, standardise the features or lower "
        f"C={C:g}.",
        ConvergenceWarning,
        stacklevel=stack_level(),
    )


def warn_of_classes_aside(shares: Array, classes: AsIs, trim: float) -> None:
    """Say so if most of a class is set aside: it may be rare rather than wrong."""
    if shares.size and shares.max() > _MOST_OF_CLASS:
        worst = int(shares.argmax())
        warnings.warn(
            f"trim={shown(trim)} sets {shares[worst]:.0%} of class {shown(classes[worst])} aside. If its rows are rare "
            'and not wrong, lower trim, or take class_weight="balanced", with which trim counts all classes alike.',
            UserWarning,
            stacklevel=stack_level(),
        )


def published_at_once(method: _Fit) -> _Fit:
    """Let a method that fits work on a copy of the estimator, which takes over all of it in one move at the end.

    So a fit that fails or is interrupted, wherever that is, leaves the estimator as it was, and whoever pickles it
    meanwhile gets the former fit. Only ``partial_fit`` sees what was fitted before; others find the parameters and
    what a warm start goes on from.
    """
    goes_on = method.__name__ == "partial_fit"

    @wraps(method)
    def fit(self: BaseEstimator, *args: object, **kwargs: object) -> BaseEstimator:
        draft = object.__new__(type(self))
        state = dict(vars(self))
        vars(draft).update(state if goes_on else {name: state[name] for name in state if not is_fitted_name(name)})
        method(draft, *args, **kwargs)
        self.__dict__ = vars(draft)
        return self

    return fit  # type: ignore[return-value]


def is_fitted_name(name: str) -> bool:
    """Say whether an attribute of this name is what a fit publishes.

    Examples
    --------
    >>> [is_fitted_name(name) for name in ("coef_", "tol", "_solutions")]
    [True, False, False]
    """
    return name.endswith("_") and not name.startswith("_")


def is_dask(values: object) -> bool:
    """Say whether this is a collection of Dask, without importing Dask."""
    if type(values).__module__.partition(".")[0] != "dask" or "dask" not in sys.modules:
        return False
    import dask

    return bool(dask.is_dask_collection(values))


def chunks_of(X: object) -> Chunks | None:
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
    estimator: FollowsX, encoder: ProblemEncoder, X: AsIs, y: AsIs, sample_weight: AsIs, **checks: int
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
        yield data
    except BaseException as error:
        for path in data.reached:
            error.add_note(f"What was reached is in {path!r}, and this fit goes on from there.")
        raise
    finally:
        data.close()


def each_chunk(method: Callable[[AsIs, AsIs], AsIs]) -> Callable[[AsIs, AsIs], AsIs]:
    """Let a method that predicts from an array of rows predict from chunks of rows, too."""

    @wraps(method)
    def predict(self: BaseEstimator, X: AsIs) -> AsIs:
        chunks = chunks_of(X) if isinstance(self, FollowsX) else None
        if chunks is None:
            return method(self, X)
        check_is_fitted(self, "coef_")
        model = getattr(self, "best_estimator_", self)  # what travels to the rows knows no search
        return chunks.map_rows(getattr(model.to_predict(), method.__name__))

    return predict


def in_memory(*values: AsIs) -> tuple[AsIs, ...]:
    """Return arrays of the host, of Dask collections and tensors what they hold; all else as it is."""
    return tuple(on_host(value.compute() if is_dask(value) else value) for value in values)


class FollowsX(BaseEstimator):
    """Base of the linear estimators that are computed where X lies."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.array_api_support = tags.input_tags.sparse = True
        return tags

    def to_numpy(self) -> Self:
        """Return a copy with all that is fitted as NumPy arrays on the host, to predict from arrays there.

        Returns
        -------
        copy : estimator
            Without the state that a warm start goes on from.
        """
        return self._copy(lambda value: value.to_numpy() if isinstance(value, FollowsX) else on_host(value))

    def to_predict(self) -> Self:
        """Return a copy with what predictions are made of: nothing in it has an entry per sample.

        Returns
        -------
        copy : estimator
        """
        copy = self._copy(lambda value: value.to_predict() if isinstance(value, FollowsX) else value)
        copy.__dict__.pop("top_weights_", None)
        return copy

    def _copy(self, convert: Callable[[AsIs], AsIs]) -> Self:
        """Return a copy whose fitted attributes are converted."""
        copy: Self = clone(self)
        copy.__dict__.update({name: convert(value) for name, value in self._fitted()})
        return copy

    def _follow(self, home: Home | None) -> None:
        """Move what is fitted to where X lies; None is the host."""
        for name, value in self._fitted():
            if isinstance(value, FollowsX):
                value._follow(home)
            else:
                setattr(self, name, on_host(value) if home is None else home.publish(value))

    def _fitted(self) -> list[tuple[str, AsIs]]:
        return [(name, value) for name, value in vars(self).items() if is_fitted_name(name)]

    def _encoder(self, task: Task) -> ProblemEncoder:
        """Return what makes the problems."""
        return ProblemEncoder(
            resolve_individual_loss(self.loss, task),
            intercept_kind(self.fit_intercept, self.penalize_intercept),
            getattr(self, "class_weight", None),
            type(self).__name__,
        )


@dataclass(frozen=True)
class ArrayDecisions:
    """Decision values of arrays, shape (n_samples,) or (n_samples, n_problems)."""

    scores: Array

    def values(self) -> Array:
        """Return the scores, without a second axis for two classes."""
        return self.scores[:, 0] if self.scores.ndim == 2 and self.scores.shape[1] == 1 else self.scores

    def labels(self, classes: AsIs) -> AsIs:
        """Return the chosen labels."""
        return chosen_labels(self.scores.T, classes)

    def probabilities(self) -> Array:
        """Return the logistic function of the scores, scaled to sum to one over the classes."""
        return class_probabilities(self.scores.T).T

    def log_probabilities(self) -> Array:
        """Return the logarithm of the probabilities."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.probabilities()))


def _decisions(estimator: BaseEstimator, X: AsIs, method: str) -> ArrayDecisions | TensorDecisions:
    """Return ``X w + b`` of a fitted estimator, which has been asked for it by a method."""
    check_is_fitted(estimator, "coef_")
    coef, intercept = estimator.coef_, estimator.intercept_
    follows = isinstance(estimator, FollowsX)
    home = same_home(coef, X, f"{type(estimator).__name__}.{method}()") if follows else None
    if home is not None:
        from atklearn.encoding.tensors import TensorDecisions, tensor_scores

        return TensorDecisions(home, tensor_scores(home, enter_features(estimator, X), coef, intercept))
    X = check_features(estimator, X)
    # In the precision of X: NumPy would copy all of a float32 X to multiply it by float64 coefficients.
    coef, intercept = (np.asarray(part, dtype=X.dtype) for part in (coef, intercept))
    return ArrayDecisions(safe_sparse_dot(X, coef.T) + intercept)


def _says_probabilities(estimator: BaseEstimator) -> bool:
    return estimator.loss == "log_loss" or isinstance(estimator.loss, LogLoss)


class LinearClassifierMixin(ClassifierMixin):
    """Predictions of linear classifiers, one-vs-rest with more than two classes."""

    @each_chunk
    def decision_function(self, X: AsIs) -> AsIs:
        """Return the scores ``x . w + b``; of two classes, those of the second.

        Parameters
        ----------
        X : {array-like, sparse matrix, tensor, Dask collection, Chunks} of shape (n_samples, n_features)
            Of a Dask collection, predictions are computed when they are wanted.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            One column per class, if there are more than two.
        """
        return _decisions(self, X, "decision_function").values()

    @each_chunk
    def predict(self, X: AsIs) -> AsIs:
        """Return the predicted class labels.

        Parameters
        ----------
        X : {array-like, sparse matrix, tensor, Dask collection, Chunks} of shape (n_samples, n_features)
            Of a Dask collection, predictions are computed when they are wanted.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        return _decisions(self, X, "predict").labels(self.classes_)

    @available_if(_says_probabilities)
    @each_chunk
    def predict_proba(self, X: AsIs) -> AsIs:
        """Return the logistic function of the scores, scaled to sum to one over the classes.

        These are no calibrated probabilities for k < n. Only with ``loss="log_loss"``.

        Parameters
        ----------
        X : {array-like, sparse matrix, tensor, Dask collection, Chunks} of shape (n_samples, n_features)
            Of a Dask collection, predictions are computed when they are wanted.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        return _decisions(self, X, "predict_proba").probabilities()

    @available_if(_says_probabilities)
    @each_chunk
    def predict_log_proba(self, X: AsIs) -> AsIs:
        """Return the logarithm of :meth:`predict_proba`.

        Parameters
        ----------
        X : {array-like, sparse matrix, tensor, Dask collection, Chunks} of shape (n_samples, n_features)

        Returns
        -------
        logarithms : ndarray of shape (n_samples, n_classes)
        """
        return _decisions(self, X, "predict_log_proba").log_probabilities()

    def score(self, X: AsIs, y: AsIs, sample_weight: AsIs = None) -> float:
        """Return the accuracy of the predictions.

        Parameters
        ----------
        X : {array-like, sparse matrix, tensor, Dask collection, Chunks} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        score : float
        """
        predicted, y, sample_weight = in_memory(self.predict(X), y, sample_weight)
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))


class LinearRegressorMixin(RegressorMixin):
    """Predictions of linear regressors."""

    @each_chunk
    def predict(self, X: AsIs) -> AsIs:
        """Return the predictions ``x . w + b``.

        Parameters
        ----------
        X : {array-like, sparse matrix, tensor, Dask collection, Chunks} of shape (n_samples, n_features)
            Of a Dask collection, predictions are computed when they are wanted.

        Returns
        -------
        predictions : ndarray of shape (n_samples,)
        """
        return _decisions(self, X, "predict").values()


class ScoredRegressorMixin(LinearRegressorMixin):
    """Their R2, wherever predictions and truth lie."""

    def score(self, X: AsIs, y: AsIs, sample_weight: AsIs = None) -> float:
        """Return the R2 of the predictions.

        Parameters
        ----------
        X : {array-like, sparse matrix, tensor, Dask collection, Chunks} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        score : float
        """
        predicted, y, sample_weight = in_memory(self.predict(X), y, sample_weight)
        return float(r2_score(y, predicted, sample_weight=sample_weight))
