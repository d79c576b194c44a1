"""From arrays to problems and back: classes, one-versus-rest targets, mass; and what is published of the solutions.

Every estimator, path and comparison states its problems here, so that weights, classes and k mean the same everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from sklearn.utils.multiclass import check_classification_targets

from atklearn.core.problem import Certificate, InterceptKind, Problem, Solution
from atklearn.core.store import Store
from atklearn.losses.aggregate import resolve_k
from atklearn.losses.compiling import HAS_NUMBA
from atklearn.losses.individual import Array, IndividualLoss
from atklearn.losses.labels import one_versus_rest
from atklearn.problems.arrays import check_mass, split_in_two
from atklearn.problems.class_weights import class_factors, problem_names
from atklearn.problems.namespaces import as_tensor_if_dense, is_quicker_on_host, is_tensor, on_host
from atklearn.stores import threads
from atklearn.stores.compiled import CompiledRows

__all__ = [
    "Coefficients",
    "Posed",
    "Posing",
    "SeenTargets",
    "Targets",
    "class_targets",
    "intercept_kind",
    "published",
    "regression_targets",
]


# Samples from which on two classes are told apart without sorting.
_MANY = 10_000


@dataclass(frozen=True)
class Targets:
    """What y and the weights say, in the form that problems take.

    Attributes
    ----------
    values : ndarray of shape (n_problems, n_samples)
        For classes +1 and -1, a row per problem; for a regression y itself, as one row.
    mass : ndarray of shape (n_samples,)
        Sample weights times class weights; 0 leaves a sample out.
    classes : ndarray of shape (n_classes,) or None
        None for a regression.
    """

    values: Array
    mass: Array
    classes: npt.NDArray[Any] | None = None

    @cached_property
    def total(self) -> float:
        """The mass of all samples, which k counts in; summed as the rows sum it."""
        return float((self.mass if self.is_whole else self.mass[self.kept]).sum())

    @property
    def kept(self) -> npt.NDArray[np.bool_]:
        """Which samples have mass."""
        return self.mass > 0.0

    @cached_property
    def is_whole(self) -> bool:
        """Whether all samples have mass."""
        return threads.extremes(self.mass)[0] > 0.0

    @property
    def names(self) -> list[str]:
        """What each problem is about, for messages."""
        return problem_names(self.classes)

    def spread(self, columns: Sequence[Array]) -> Array:
        """Return numbers of the samples that have mass, an array per problem, as columns for all; zero for others."""
        if columns[0].size == self.mass.size:
            return columns[0][:, None] if len(columns) == 1 else np.array(columns).T.copy()
        out = np.zeros((self.mass.size, len(columns)))
        out[self.kept] = np.array(columns).T
        return out


def regression_targets(y: Any, sample_weight: Any = None) -> Targets:
    """Return the targets of a regression."""
    values = np.asarray(y, dtype=np.float64)
    return Targets(values[None, :], check_mass(sample_weight, values.size))


def class_targets(y: Any, sample_weight: Any = None, class_weight: Any = None, owner: str = "A classifier") -> Targets:
    """Return the targets of a classification, and make sure that two classes have mass.

    Parameters
    ----------
    y : ndarray of shape (n_samples,)
        Labels of any kind.
    sample_weight : array-like of shape (n_samples,), default=None
    class_weight : dict, "balanced" or None, default=None
        Balanced by weight, so that weighting and repeating samples agree.
    owner : str
        Who asks, for messages.

    Examples
    --------
    >>> targets = class_targets(np.array(["a", "b", "b"]), class_weight="balanced")
    >>> targets.values, targets.mass
    (array([[-1.,  1.,  1.]]), array([1.5 , 0.75, 0.75]))
    """
    classes, codes = _classes_and_codes(y)
    mass = check_mass(sample_weight, codes.size)
    if sample_weight is None and classes.size == 2:
        highs = float(np.count_nonzero(codes))
        present = np.array([codes.size - highs, highs])
    else:
        present = np.bincount(codes, weights=mass, minlength=classes.size)
    factors = class_factors(classes, present, class_weight, owner)
    mass = mass if factors is None else mass * factors[codes]
    return Targets(one_versus_rest(codes, np.arange(classes.size)), mass, classes)


def _classes_and_codes(y: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the sorted labels, checked to be some, and which of them every sample has; of two numbers unsorted."""
    if isinstance(y, np.ndarray) and y.ndim == 1 and y.dtype.kind in "fiu" and y.size > _MANY:
        codes = split_in_two(y)
        if codes is not None:
            classes = np.array([y[codes.argmin()], y[codes.argmax()]])
            check_classification_targets(classes)
            return classes, codes
    check_classification_targets(y)
    return np.unique(y, return_inverse=True)


def intercept_kind(fit_intercept: bool, penalize_intercept: bool) -> InterceptKind:
    """Return what becomes of the intercept."""
    if not fit_intercept:
        return "none"
    return "penalized" if penalize_intercept else "free"


class Coefficients(NamedTuple):
    """Linear models, a row or entry per problem."""

    weights: Array
    intercepts: Array

    def decision(self, X: Any) -> Array:
        """Return ``X w + b``, shape (n_problems, n_samples), on the host; of a tensor computed where it lies."""
        if is_tensor(X):
            weights, intercepts = (X.new_tensor(part) for part in self)
            return np.asarray(on_host((X @ weights.T + intercepts).T), dtype=np.float64)
        return np.asarray((X @ self.weights.T).T) + self.intercepts[:, None]


@dataclass(frozen=True)
class Posing:
    """How linear problems are stated on whatever data: the loss, the intercept, the class weights.

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
    class_weight: Any = None
    owner: str = "A classifier"

    @property
    def is_classification(self) -> bool:
        """Whether targets are labels."""
        return self.loss.task == "classification"

    def on(
        self, X: Any, y: Any, sample_weight: Any = None, *, k: float = 1.0, C: float = 1.0, on_the_host: bool = False
    ) -> Posed:
        """State the problems on checked data, leaving out samples without mass; k is a count or a share.

        Tensors go to compiled code ``on_the_host`` where that is asked for, or quicker.
        """
        X = X if HAS_NUMBA else as_tensor_if_dense(X)
        if is_tensor(X) and ((on_the_host and HAS_NUMBA) or is_quicker_on_host(X.device, X.numel())):
            X, y, sample_weight = np.ascontiguousarray(on_host(X)), on_host(y), on_host(sample_weight)
        targets, rows = (self._tensors if is_tensor(X) else self._arrays)(X, y, sample_weight)
        amount = resolve_k(k, targets.total)
        return Posed(targets, [Problem(each, amount, float(C), self.intercept) for each in rows])

    def _tensors(self, X: Any, y: Any, sample_weight: Any) -> tuple[SeenTargets, Sequence[Store]]:
        """Return targets and rows that are tensors."""
        from atklearn.problems.tensors.tensor_posing import tensor_targets

        return tensor_targets(X, y, sample_weight, self.class_weight, self.owner, self.loss).rows(
            X, self.loss, self.intercept != "none"
        )

    def _arrays(self, X: Any, y: Any, sample_weight: Any) -> tuple[SeenTargets, Sequence[Store]]:
        """Return targets and rows that are arrays."""
        if self.is_classification:
            targets = class_targets(y, sample_weight, self.class_weight, self.owner)
        else:
            targets = regression_targets(y, sample_weight)
        values, mass = targets.values, targets.mass
        if not targets.is_whole:
            kept = targets.kept
            X, values, mass = X[kept], np.ascontiguousarray(values[:, kept]), mass[kept]
        first = CompiledRows(X, values[0], mass, self.loss, self.intercept != "none")
        return targets, [first, *(first.aiming_at(target) for target in values[1:])]


class SeenTargets(Protocol):
    """What has to be known of targets once problems are stated."""

    @property
    def classes(self) -> npt.NDArray[Any] | None:
        """The labels; None for a regression."""

    @property
    def total(self) -> float:
        """The mass of all samples."""

    @property
    def names(self) -> list[str]:
        """What each problem is about."""

    def spread(self, columns: Sequence[Any]) -> Any:
        """Return numbers of the samples that have mass, an array per problem, as columns for all samples."""


@dataclass(frozen=True)
class Posed:
    """Problems on given data: one for a regression or two classes, else one per class against the rest."""

    targets: SeenTargets
    problems: list[Problem]

    @property
    def k(self) -> float:
        """The mass in the top."""
        return self.problems[0].k

    def at(self, k: float, C: float) -> Posed:
        """Return the problems with another k, in mass, and C."""
        return Posed(self.targets, [problem.at(k, C) for problem in self.problems])

    def coefficients(self, solutions: Sequence[Certificate]) -> Coefficients:
        """Return the linear models of solutions, one per problem."""
        parts = [problem.coefficients(solution) for problem, solution in zip(self.problems, solutions, strict=True)]
        return Coefficients(np.array([w for w, _ in parts]), np.array([b for _, b in parts]))


class _Weighted(Protocol):
    """What is asked of a problem, linear or of a kernel, about its solution."""

    def sample_weights(self, certificate: Certificate) -> Array: ...


def published(
    targets: SeenTargets, problems: Sequence[_Weighted], solutions: Sequence[Solution], k: float
) -> dict[str, Any]:
    """Return the fitted attributes that all estimators share: plain for one problem, else an entry or column for each.

    ``sample_weights_`` has an entry per sample given, zero for those without mass; ``k_`` is in units of sample weight
    and ``k_share_`` the same as part of the whole, a value for the parameter ``k``.
    """
    weights = targets.spread([p.sample_weights(s) for p, s in zip(problems, solutions, strict=True)])
    single = len(solutions) == 1
    attributes: dict[str, Any] = {"sample_weights_": weights[:, 0] if single else weights}
    for name in ("threshold", "dual_gap", "objective", "n_iter"):
        values = [getattr(solution, name) for solution in solutions]
        attributes[f"{name}_"] = values[0] if single else np.array(values)
    return attributes | {"k_": k, "k_share_": min(k / targets.total, 1.0)}
