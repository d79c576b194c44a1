"""From data to problems: X, y and weights are checked and encoded once, and every problem is made from that one value.

:class:`Targets` is what y and the weights say; :class:`Encoded` is that beside X, checked; a :class:`ProblemEncoder`
makes both, and :class:`Problems` of them, so that weights, classes and k mean the same in every fit. Arrays and sparse
matrices of the host and tensors of PyTorch go the same way; chunks of rows have
:class:`atklearn.chunked.chunks.EncodedChunks` in the place of :class:`Encoded`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias, TypeVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils import check_X_y
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from atklearn.core.problem import Certificate, InterceptKind, Problem
from atklearn.core.store import PlainStore
from atklearn.losses.aggregate import resolve_k
from atklearn.losses.individual import Array, IndividualLoss
from atklearn.losses.labels import one_versus_rest
from atklearn.runtime import threads
from atklearn.runtime.compiling import HAS_NUMBA
from atklearn.runtime.messages import refuse_extremes, refuse_weights, shown, stack_level
from atklearn.runtime.namespaces import (
    Features,
    Labels,
    Vector,
    as_tensor_if_dense,
    home_of,
    is_quicker_on_host,
    is_tensor,
    on_host,
    take_rows,
)
from atklearn.stores.compiled import CompiledRows

if TYPE_CHECKING:
    from atklearn.stores.tensors.tensor_store import TensorRows

__all__ = [
    "ClassWeight", "Coefficients", "Encoded", "ProblemEncoder", "Problems", "Targets", "check_features", "check_mass",
    "check_training", "class_factors", "class_targets", "enter_features", "enter_training", "intercept_kind",
    "n_problems", "plain", "problem_names", "refuse_malformed", "regression_targets", "saying_what_overflows",
    "sum_of_squares",
]  # fmt: skip

_FLOATS = (np.float64, np.float32)
# Entries from which on several threads look for NaN and infinity.
_LARGE = 1_000_000
# Samples from which on two classes are told apart without sorting.
_MANY = 10_000


@contextmanager
def saying_what_overflows() -> Iterator[None]:
    """Turn what Python says of an integer that no float can hold into a ValueError."""
    try:
        yield
    except OverflowError as error:
        raise ValueError(
            f"X, y and sample_weight are expected to be numbers of at most {np.finfo(np.float64).max:.2g}, got an "
            "integer that is larger; rescale the column it is in, or drop the sample."
        ) from error


@saying_what_overflows()
def check_training(estimator: BaseEstimator, X: Features, y: Vector, **checks: object) -> tuple[Features, Vector]:
    """Return X as C-ordered array or CSR with 32-bit indices, and y, both checked.

    The estimator gets ``n_features_in_`` and ``feature_names_in_``; it is None where a function is called. ``checks``
    are what else scikit-learn's ``validate_data`` should see to.
    """
    refuse_malformed(X)
    options: dict[str, object] = {"accept_sparse": "csr", "dtype": list(_FLOATS), "order": "C"} | checks
    quick = isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype in _FLOATS and X.flags.c_contiguous
    squares = sum_of_squares(X) if quick and X.size >= _LARGE else np.nan
    if np.isfinite(squares):
        options["ensure_all_finite"] = False  # as looked at on several threads; else it is said where the trouble is
    X, y = (
        check_X_y(X, on_host(y), **options) if estimator is None else validate_data(estimator, X, on_host(y), **options)
    )
    if X.dtype == np.float64:  # shorter floats have squares, whatever they are
        known = np.isfinite(squares)
        refuse_extremes("X", squares if known else sum_of_squares(X.data if sp.issparse(X) else X))
    return _with_small_indices(X), y


def sum_of_squares(values: Array) -> float:
    """Return the sum of squares of a C-ordered array: infinite, or NaN, if one of them is."""
    flat = values.reshape(-1)
    return float(threads.block_sums(_add_squares, 1, flat.size, 0.5, flat)[0])


def _add_squares(first: int, last: int, size: int, flat: Array, sums: Array) -> None:
    """Sum up squares in blocks so small that BLAS wakes no threads, which would keep the cores busy for a while."""
    with np.errstate(all="ignore"):
        for block in range(first, last):
            part = flat[block * size : (block + 1) * size]
            sums[block, 0] = np.vdot(part, part)


def refuse_malformed(X: Features) -> None:
    """Say what is wrong with a sparse matrix whose arrays do not fit together: compiled code would read beyond them."""
    if not sp.issparse(X) or X.ndim != 2 or X.format not in ("bsr", "coo", "csc", "csr"):
        return
    problem = None
    n_stored = n_used = len(X.data)
    if X.format == "coo":
        indices = {"row": (X.row, X.shape[0]), "col": (X.col, X.shape[1])}
    else:
        height, width = X.blocksize if X.format == "bsr" else (1, 1)
        n_lines, n_places = X.shape[0] // height, X.shape[1] // width
        if X.format == "csc":
            n_lines, n_places = n_places, n_lines
        indices = {"indices": (X.indices, n_places)}
        if X.indptr.shape != (n_lines + 1,):
            problem = f"an indptr of shape {X.indptr.shape} instead of ({n_lines + 1},)"
        elif X.indptr[0] != 0 or X.indptr[-1] > n_stored or (X.indptr[1:] < X.indptr[:-1]).any():
            problem = f"an indptr that does not ascend from 0 to at most {n_stored}"
        else:
            n_used = X.indptr[-1]
    for name, (places, size) in indices.items():
        if problem is None and places.shape != (n_stored,):
            problem = f"{n_stored} entries of data, and {name} of shape {places.shape}"
        elif problem is None and n_used and not 0 <= places[:n_used].min() <= places[:n_used].max() < size:
            problem = f"{name} outside of 0 to {size - 1}"
    if problem is not None:
        raise ValueError(
            f"A sparse X is expected to hold arrays that fit together, got a {X.format.upper()} matrix of shape "
            f"{X.shape} with {problem}; build it anew, for example as scipy.sparse.coo_array((data, (rows, columns)))."
        )


@saying_what_overflows()
def check_features(estimator: BaseEstimator, X: Features, **checks: object) -> Features:
    """Return X to predict from, checked against the features of the fit."""
    refuse_malformed(X)
    options: dict[str, object] = {"accept_sparse": "csr", "dtype": list(_FLOATS)} | checks
    return validate_data(estimator, X, reset=False, **options)


@saying_what_overflows()
def check_mass(sample_weight: Vector, n_samples: int) -> Array:
    """Return the sample weights as a vector of numbers >= 0, or say what is wrong with them."""
    if sample_weight is None:
        return np.ones(n_samples)
    mass = np.asarray(on_host(sample_weight), dtype=np.float64)
    if mass.ndim == 0:
        mass = np.full(n_samples, float(mass))
    ends = (mass.min(), mass.max()) if mass.size else (0.0, 0.0)
    refuse_weights(n_samples, mass.shape, *ends)
    return mass


def _with_small_indices(X: Features) -> Features:
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


def enter_training(estimator: BaseEstimator, X: Features, y: Vector, **checks: object) -> tuple[Features, Vector]:
    """Return X and y to fit on: see :func:`check_training`, and :func:`check_tensor_training` for tensors."""
    home = home_of(X)
    if home is None:
        return check_training(estimator, X, y, **checks)
    from atklearn.encoding.tensors import check_tensor_training

    return check_tensor_training(estimator, home, X, y, **checks)


def enter_features(estimator: BaseEstimator, X: Features) -> Features:
    """Return X to predict from, checked against the features of the fit."""
    home = home_of(X)
    if home is None:
        return check_features(estimator, X)
    from atklearn.encoding.tensors import check_tensor_features

    return check_tensor_features(estimator, home, X)


_T = TypeVar("_T", bound="Targets")
_Value = TypeVar("_Value")
ClassWeight: TypeAlias = dict[Any, float] | str | None


@dataclass(frozen=True, eq=False)
class Targets:
    """What y and the sample weights say, on the host or, as tensors, on a device.

    Attributes
    ----------
    y : ndarray or tensor of shape (n_samples,)
        Which of the classes every sample has; for a regression y itself, as floats.
    weight : ndarray or tensor of shape (n_samples,)
        Sample weights; 0 leaves a sample out.
    classes : ndarray of shape (n_classes,) or None
        The labels, sorted, on the host; None for a regression.
    factors : ndarray of shape (n_classes,) or None
        What the weights of the samples of each class are multiplied with; None for nothing.
    """

    y: Vector
    weight: Vector
    classes: Labels | None = None
    factors: Array | None = None

    @property
    def n_problems(self) -> int:
        """One for a regression or two classes, else one per class against the rest."""
        return n_problems(self.classes)

    @property
    def names(self) -> list[str]:
        """What each problem is about, for messages."""
        return problem_names(self.classes)

    @cached_property
    def mass(self) -> Vector:
        """Sample weights times class weights, shape (n_samples,)."""
        if self.factors is None:
            return self.weight
        if is_tensor(self.weight):
            return self.weight * self.weight.new_tensor(self.factors)[self.y.long()]
        return self.weight * self.factors[self.y]

    @property
    def kept(self) -> Vector:
        """Which samples have mass."""
        return self.mass > 0.0

    @cached_property
    def is_whole(self) -> bool:
        """Whether all samples have mass."""
        if is_tensor(self.mass):
            return float(self.mass.min()) > 0.0
        return threads.extremes(self.mass)[0] > 0.0

    @cached_property
    def total(self) -> float:
        """The mass of all samples, which k counts in; summed as the rows sum it."""
        mass = self.mass
        if is_tensor(mass) and mass.stride() == (0,):  # all alike
            return float(mass[0]) * len(mass)
        return float((mass if self.is_whole else mass[self.kept]).sum())

    @property
    def unit(self) -> float:
        """A power of two near the mean mass: what expects masses near one divides by it, without rounding."""
        return float(2.0 ** np.round(np.log2(self.total / len(self.mass))))

    @property
    def values(self) -> Vector:
        """The targets of each problem, shape (n_problems, n_samples): +1 and -1 for classes, else y itself."""
        if self.classes is None:
            return self.y[None, :]
        if is_tensor(self.y):
            return [(self.y == each).char() * 2 - 1 for each in _positives(self.classes)]
        return one_versus_rest(self.y, np.arange(self.classes.size))

    @property
    def labels(self) -> Vector:
        """The targets as they were given: labels on the host, numbers where they lie."""
        return self.y if self.classes is None else self.classes[on_host(self.y)]

    def take(self, rows: Vector) -> Self:
        """Return the targets of some rows, given by their places or by a mask, with the same class weights."""
        return replace(self, y=take_rows(self.y, rows), weight=take_rows(self.weight, rows))

    def spread(self, columns: Sequence[Vector]) -> Vector:
        """Return numbers of the samples that have mass, a vector per problem, as columns for all; zero for others."""
        if is_tensor(self.mass):
            together = columns[0].new_empty((len(columns[0]), len(columns)))
            for place, column in enumerate(columns):
                together[:, place] = column
            if len(together) == len(self.mass):
                return together
            out = together.new_zeros((len(self.mass), len(columns)))
        else:
            if columns[0].size == self.mass.size:
                return columns[0][:, None] if len(columns) == 1 else np.array(columns).T.copy()
            together = np.array(columns).T
            out = np.zeros((self.mass.size, len(columns)))
        out[self.kept] = together
        return out


def regression_targets(y: Vector, sample_weight: Vector = None) -> Targets:
    """Return the targets of a regression."""
    with saying_what_overflows():
        values = np.ascontiguousarray(y, dtype=np.float64)
    refuse_extremes("y", sum_of_squares(values), bool(values.any()))
    return Targets(values, check_mass(sample_weight, values.size))


def class_targets(
    y: Vector, sample_weight: Vector = None, class_weight: ClassWeight = None, owner: str = "A classifier"
) -> Targets:
    """Return the targets of a classification, and make sure that there are two classes.

    Balanced is by weight, so that weighting and repeating samples agree; ``owner`` is who asks, for messages.

    Examples
    --------
    >>> targets = class_targets(np.array(["a", "b", "b"]), class_weight="balanced")
    >>> targets.values, targets.mass
    (array([[-1.,  1.,  1.]]), array([1.5 , 0.75, 0.75]))
    """
    classes, codes = _classes_and_codes(y)
    targets = Targets(codes, check_mass(sample_weight, codes.size), classes)
    return _weighted_by_class(targets, class_weight, owner)


def _weighted_by_class(targets: _T, class_weight: ClassWeight, owner: str, *, warns: bool = True) -> _T:
    """Return targets with class weights; ``warns`` of classes that have none."""
    classes, codes, weight = targets.classes, targets.y, targets.weight
    assert classes is not None
    present: Array
    if is_tensor(weight):
        from atklearn.encoding.tensors import class_masses

        present = class_masses(codes, weight, classes.size)
    else:
        present = np.bincount(codes, weights=weight, minlength=classes.size).astype(np.float64, copy=False)
    factors = class_factors(classes, present, class_weight, owner)
    if warns and not present.all():
        warnings.warn(
            f"The samples of {shown(list(classes[present == 0.0]))} have no weight: no sample of these classes is "
            "learned from, and they are left out.",
            UserWarning,
            stacklevel=stack_level(),
        )
    return replace(targets, factors=factors)


def _classes_and_codes(y: Vector) -> tuple[Labels, Labels]:
    """Return the sorted labels, checked to be some, and which of them every sample has; of two numbers unsorted."""
    if isinstance(y, np.ndarray) and y.ndim == 1 and y.dtype.kind in "fiu" and y.size > _MANY:
        classes = np.array([y.min(), y.max()])
        codes = y == classes[1]
        if classes[0] < classes[1] and (codes | (y == classes[0])).all():
            check_classification_targets(classes)
            return classes, codes.view(np.int8)
    check_classification_targets(y)
    return np.unique(y, return_inverse=True)


def class_factors(classes: Labels, present: Array, class_weight: ClassWeight, owner: str) -> Array | None:
    """Return what class weights multiply the mass of each class with, None for nothing.

    ``present`` is the mass that the samples of each class have; ``owner`` is who asks, for messages.

    Examples
    --------
    >>> class_factors(np.array(["a", "b"]), np.array([1.0, 3.0]), "balanced", "A classifier")
    array([2.        , 0.66666667])
    """
    if classes.size < 2:
        raise ValueError(f"{owner} expects samples of at least 2 classes, got {classes.size} class(es) in y; check y.")
    if class_weight is None:
        return None
    factors: Array
    if isinstance(class_weight, str):  # balanced
        mean = present.sum() / np.count_nonzero(present)
        factors = np.divide(mean, present, where=present > 0, out=np.zeros_like(present))
    else:
        factors = np.asarray(compute_class_weight(class_weight, classes=classes, y=classes))
    with np.errstate(over="ignore"):
        masses = factors * present
    if (
        factors.min() < 0.0
        or np.count_nonzero(masses) < min(2, int(np.count_nonzero(present)))
        or not np.isfinite(masses.sum())
    ):
        raise ValueError(
            f"class_weight is expected to give finite weights >= 0 and a positive one to at least 2 classes, "
            f"got {shown(class_weight)}."
        )
    return factors


def n_problems(classes: Labels | None) -> int:
    """Return how many problems there are: one for a regression or two classes, else one per class."""
    return 1 if classes is None or classes.size == 2 else classes.size


def problem_names(classes: Labels | None) -> list[str]:
    """Return what each problem is about: the fit, the larger of two classes, or each class against the rest."""
    if classes is None:
        return ["fit"]
    return [f"class {label}" for label in (classes[-1:] if classes.size == 2 else classes)]


def _positives(classes: Labels) -> Sequence[int]:
    """Return which class is +1 in each problem."""
    return [1] if classes.size == 2 else range(classes.size)


def intercept_kind(fit_intercept: bool, penalize_intercept: bool) -> InterceptKind:
    """Return what becomes of the intercept."""
    if not fit_intercept:
        return "none"
    return "penalized" if penalize_intercept else "free"


class Coefficients(NamedTuple):
    """Linear models, a row or entry per problem."""

    weights: Array
    intercepts: Array

    def decision(self, X: Features) -> Array:
        """Return ``X w + b``, shape (n_problems, n_samples), on the host; of a tensor computed where it lies."""
        if is_tensor(X):
            weights, intercepts = (X.new_tensor(part) for part in self)
            return np.asarray(on_host((X @ weights.T + intercepts).T), dtype=np.float64)
        return np.asarray((X @ self.weights.T).T) + self.intercepts[:, None]


@dataclass(frozen=True)
class ProblemEncoder:
    """How linear problems are made of whatever data: the loss, the intercept, the class weights.

    Attributes
    ----------
    loss : IndividualLoss
        It decides between classification and regression.
    intercept : {"free", "penalized", "none"}
    class_weight : dict, "balanced" or None, default=None
    owner : str
        Who asks, for messages.
    """

    loss: IndividualLoss
    intercept: InterceptKind
    class_weight: ClassWeight = None
    owner: str = "A classifier"

    @property
    def is_classification(self) -> bool:
        """Whether targets are labels."""
        return self.loss.task == "classification"

    def encode(self, X: Features, y: Vector, sample_weight: Vector = None) -> Encoded:
        """Return checked X and y, and sample weights, as one value; the weights are checked here."""
        if is_tensor(X):
            targets = self._tensor_targets(X, y, sample_weight)
        elif self.is_classification:
            targets = class_targets(y, sample_weight, self.class_weight, self.owner)
        else:
            targets = regression_targets(y, sample_weight)
        weighted = sample_weight is not None
        return Encoded(
            targets.y, targets.weight, targets.classes, targets.factors, X=X, encoder=self, is_weighted=weighted
        )

    def _tensor_targets(self, X: Features, y: Vector, sample_weight: Vector) -> Targets:
        """Return targets as tensors beside X."""
        from atklearn.encoding.tensors import check_tensor_mass, classes_and_codes

        weight = check_tensor_mass(sample_weight, X)
        if not self.is_classification:
            y = y if is_tensor(y) else as_tensor_if_dense(np.asarray(y, dtype=np.float64))
            y = y.double().to(X.device)
            refuse_extremes("y", float(y @ y), bool(y.any()))
            return Targets(y, weight)
        classes, codes = classes_and_codes(y, X.device)
        return _weighted_by_class(Targets(codes, weight, classes), self.class_weight, self.owner)

    def on(
        self,
        X: Features,
        y: Vector,
        sample_weight: Vector = None,
        *,
        k: float = 1.0,
        C: float = 1.0,
        on_the_host: bool = False,
    ) -> Problems:
        """Return the problems on checked data: see :meth:`encode` and :meth:`Encoded.problems`."""
        return self.encode(X, y, sample_weight).problems(k=k, C=C, on_the_host=on_the_host)


@dataclass(frozen=True, eq=False, kw_only=True)
class Encoded(Targets):
    """Targets beside their features, checked: what every part of a fit takes its rows from.

    Attributes
    ----------
    X : {ndarray, sparse matrix, tensor} of shape (n_samples, n_features)
    encoder : ProblemEncoder
        What encoded them, and says how problems are made of them.
    is_weighted : bool
        Whether sample weights were given.
    """

    X: Features
    encoder: ProblemEncoder
    is_weighted: bool = False

    @property
    def n_samples(self) -> int:
        """How many rows there are, with those that have no mass."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """How many columns there are."""
        return int(self.X.shape[1])

    @property
    def sample_weight(self) -> Vector:
        """The sample weights, None if none were given."""
        return self.weight if self.is_weighted else None

    def take(self, rows: Vector) -> Self:
        """Return some rows, given by their places, with the same class weights; only these are copied."""
        return replace(super().take(rows), X=take_rows(self.X, rows))

    def on_host(self) -> Encoded:
        """Return the data as arrays of the host."""
        if not is_tensor(self.X):
            return self
        X, y, weight = (np.ascontiguousarray(on_host(each)) for each in (self.X, self.y, self.weight))
        return replace(self, X=X, y=y, weight=weight)

    def where_computed(self, *, on_the_host: bool) -> Encoded:
        """Return the data where problems are made of them: tensors on the host if that is asked for, or quicker.

        Without Numba, arrays are computed as tensors if there is PyTorch.
        """
        if is_tensor(self.X):
            here = on_the_host and HAS_NUMBA
            return self.on_host() if here or is_quicker_on_host(self.X.device, self.X.numel()) else self
        X = self.X if HAS_NUMBA else as_tensor_if_dense(self.X)
        if X is self.X:
            return self
        y, weight = (as_tensor_if_dense(np.ascontiguousarray(each)) for each in (self.y, self.weight))
        return replace(self, X=X, y=y, weight=weight)

    def part(self, rows: Vector, weight: Vector = None) -> Encoded:
        """Return some rows to fit on, with sample weights of their own if given; balanced classes are so among them."""
        part = self.take(rows)
        if weight is not None:
            part = replace(part, weight=weight, is_weighted=True)
        if self.classes is None:
            return part
        return _weighted_by_class(part, self.encoder.class_weight, self.encoder.owner, warns=False)

    def problems(self, *, k: float = 1.0, C: float = 1.0, on_the_host: bool = False) -> Problems:
        """Return the problems on these rows, those without mass left out; k is a count or a share.

        Tensors go to compiled code ``on_the_host`` where that is asked for, or quicker.
        """
        data = self.where_computed(on_the_host=on_the_host)
        X, values, mass = data.X, data.values, data.mass
        if not data.is_whole:
            kept = data.kept
            X, values, mass = X[kept], [value[kept] for value in values], mass[kept]
        loss, intercept = self.encoder.loss, self.encoder.intercept
        first = _rows(X, values[0], mass, loss, intercept != "none")
        rows = [first, *(first.aiming_at(target) for target in values[1:])]
        amount = resolve_k(k, data.total)
        problems = [Problem(each, amount, float(C), intercept) for each in rows]
        return Problems(problems, data.classes, data.total, data.spread)


def _rows(
    X: Features, y: Vector, mass: Vector, loss: IndividualLoss, has_ones: bool
) -> CompiledRows | PlainStore | TensorRows:
    """Return the store of arrays, plain where Numba is missing, or that of tensors."""
    if not is_tensor(X):
        return (CompiledRows if HAS_NUMBA else PlainStore)(X, y, mass, loss, has_ones)
    from atklearn.stores.tensors.tensor_store import TensorRows

    return TensorRows(X, y, mass, loss, has_ones)


@dataclass(frozen=True)
class Problems:
    """Problems on the same rows: one for a regression or two classes, else one per class against the rest.

    Attributes
    ----------
    problems : list of Problem
    classes : ndarray of shape (n_classes,) or None
        The labels; None for a regression.
    total : float
        The mass of all samples.
    spread : callable
        Takes numbers of the rows of the problems, a vector per problem; returns them as columns for all samples.
    """

    problems: list[Problem]
    classes: Labels | None
    total: float
    spread: Callable[[Sequence[Vector]], Vector]

    @property
    def names(self) -> list[str]:
        """What each problem is about."""
        return problem_names(self.classes)

    @property
    def k(self) -> float:
        """The mass in the top."""
        return self.problems[0].k

    def at(self, k: float, C: float) -> Problems:
        """Return the problems with another k, in mass, and C."""
        return replace(self, problems=[problem.at(k, C) for problem in self.problems])

    def coefficients(self, solutions: Sequence[Certificate]) -> Coefficients:
        """Return the linear models of solutions, one per problem."""
        parts = [problem.coefficients(solution) for problem, solution in zip(self.problems, solutions, strict=True)]
        return Coefficients(np.array([w for w, _ in parts]), np.array([b for _, b in parts]))

    def sample_weights(self, solutions: Sequence[Certificate]) -> Vector:
        """Return the worst-case weights of all samples, a column per problem; zero for samples without mass."""
        weights = [p.sample_weights(solution) for p, solution in zip(self.problems, solutions, strict=True)]
        return self.spread(weights)


def plain(values: Sequence[_Value]) -> _Value | Array:
    """Return what is published of values, one per problem: of a single problem its value, else an array.

    Examples
    --------
    >>> plain([0.5]), plain([0.5, 1.0])
    (0.5, array([0.5, 1. ]))
    """
    return values[0] if len(values) == 1 else np.array(values)
