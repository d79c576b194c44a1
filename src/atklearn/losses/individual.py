"""Individual losses: how much one prediction costs.

A loss is one small class. Its method :meth:`IndividualLoss.expand` returns, for arrays of predictions and targets,
a convex function ``s`` that is differentiable in the prediction, with its slope and its curvature. The attribute
``kink`` says how the loss ``l`` follows from ``s``:

===================  =============  =====================================
``kink``             loss           example
===================  =============  =====================================
``"none"``           ``s`` (>= 0)   log loss, squared error, Huber
``"positive_part"``  ``max(0, s)``  hinge, with ``s = 1 - y f``
``"absolute"``       ``abs(s)``     absolute error, with ``s = y - f``
===================  =============  =====================================

Marked with :func:`elementwise`, ``expand`` is a formula, written once, in NumPy, for one sample or many: compiled code,
tensors and kernels are the same code with other functions in the place of NumPy's (:meth:`Formula.bound_to`).

Keeping the kink out of ``s`` lets the solver treat it exactly, together with the kink of the top-k selection
(Lemma 2 of the paper: ``[[a - x]_+ - b]_+ = [a - b - x]_+``), instead of smoothing it twice.
"""

from __future__ import annotations

import builtins
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, wraps
from types import CellType, FunctionType, ModuleType
from typing import ClassVar, Literal, TypeAlias, TypeVar
from zlib import crc32

import numpy as np
import numpy.typing as npt

from atklearn.runtime.messages import shown

__all__ = [
    "FUNCTIONS",
    "INDIVIDUAL_LOSSES",
    "AbsoluteError",
    "Array",
    "Domain",
    "Formula",
    "Hinge",
    "Huber",
    "IndividualLoss",
    "Kink",
    "LogLoss",
    "SquaredError",
    "SquaredHinge",
    "elementwise",
    "formula_of",
    "resolve_individual_loss",
    "task_of",
]


Array: TypeAlias = npt.NDArray[np.float64]
Parts: TypeAlias = tuple[Array | float, Array | float, Array | float]
Task: TypeAlias = Literal["classification", "regression"]
Loss = TypeVar("Loss", bound="IndividualLoss")

# What a formula may call, by its name in NumPy.
FUNCTIONS = (
    "abs", "clip", "exp", "log", "log1p", "logaddexp", "maximum", "minimum", "sign", "sqrt", "square", "tanh", "where",
)  # fmt: skip
_BY_VALUE: dict[object, str] = {getattr(np, name): name for name in FUNCTIONS} | {abs: "abs"}


@dataclass(frozen=True, eq=False)
class Formula:
    """A formula as it was written, to be run with other functions than NumPy's.

    Parameters
    ----------
    text : callable
        Takes the loss, a prediction and a target; returns ``s``, its slope and its curvature.
    """

    text: Callable[..., Parts]

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The attributes of the loss that it reads."""
        known = set(FUNCTIONS) | set(self.outer)
        return tuple(name for name in self.text.__code__.co_names if name not in known)

    def values(self, loss: IndividualLoss) -> tuple[float, ...]:
        """Return the numbers that a loss has for its parameters; raise TypeError if one of them is not a number."""
        missing = [name for name in self.parameters if not isinstance(getattr(loss, name, None), float | int)]
        if missing:
            raise self._refusal(missing[0])
        return tuple(float(getattr(loss, name)) for name in self.parameters)

    def bound_to(self, functions: Mapping[str, Callable[..., object]]) -> FunctionType:
        """Return the code with other functions in the place of NumPy's, by their names there."""
        module = ModuleType("numpy")  # compiled code looks up attributes of modules only
        vars(module).update(functions)

        def other(value: object) -> object:
            return module if value is np else functions.get(_BY_VALUE[value]) if _is_function(value) else value

        code = self.text.__code__
        outer = {name: other(value) for name, value in self.outer.items()}
        closure = tuple(CellType(outer[name]) for name in code.co_freevars)
        return FunctionType(code, outer | {"__builtins__": builtins}, self.text.__name__, None, closure)

    @property
    def fingerprint(self) -> int:
        """A number that another formula does not have, and this one only as long as it stays as it is."""
        code = self.text.__code__
        numbers = sorted((name, value) for name, value in self.outer.items() if isinstance(value, float | int))
        return crc32(repr((code.co_code, code.co_consts, code.co_names, code.co_varnames, numbers)).encode())

    @cached_property
    def outer(self) -> dict[str, object]:
        """What it reads from outside, by name: NumPy, functions of it, numbers."""
        code = self.text.__code__
        found: dict[str, object] = {}
        cells = dict(zip(code.co_freevars, self.text.__closure__ or (), strict=True))
        for name in (*code.co_names, *cells):
            if name in cells:
                found[name] = cells[name].cell_contents
            elif name in self.text.__globals__:
                found[name] = self.text.__globals__[name]
            elif hasattr(builtins, name):
                found[name] = getattr(builtins, name)
        for name, value in found.items():
            if not (value is np or _is_function(value) or isinstance(value, float | int)):
                raise self._refusal(name)
        return found

    def _refusal(self, name: str) -> TypeError:
        return TypeError(
            f"{self.text.__qualname__} is marked @elementwise and is expected to use arithmetic, numbers (of the loss, "
            f"too) and np.{', np.'.join(FUNCTIONS)}; {name!r} is none of these. Write it with them, or leave out "
            "@elementwise."
        )


def _is_function(value: object) -> bool:
    return callable(value) and value in _BY_VALUE


def elementwise(
    expand: Callable[[Loss, Array, Array], Parts],
) -> Callable[[Loss, Array, Array], tuple[Array, Array, Array]]:
    """Mark the ``expand`` of a loss as a formula that treats every sample by itself, so that it can be compiled.

    It may use arithmetic, comparisons, numbers of the loss (``self.delta``) and ``np.abs, clip, exp, log, log1p,
    logaddexp, maximum, minimum, sign, sqrt, square, tanh, where``; no branches on samples, which ``np.where`` is for,
    and no other function. What it returns may be plain numbers, where they are the same for all samples.

    The loss is then part of the compiled passes, of the stochastic steps and of boosting, and is computed where
    tensors lie, instead of being called back in Python.

    Parameters
    ----------
    expand : callable
        The method of a subclass of :class:`atklearn.IndividualLoss`.

    Returns
    -------
    expand : callable
        The method, for arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from atklearn import ATkRegressor, IndividualLoss, elementwise
    >>> class Expectile(IndividualLoss):
    ...     task = "regression"
    ...
    ...     def __init__(self, share):
    ...         self.share = share
    ...
    ...     @elementwise
    ...     def expand(self, prediction, target):
    ...         error = prediction - target
    ...         weight = np.where(error < 0.0, self.share, 1.0 - self.share)
    ...         return weight * error**2, 2.0 * weight * error, 2.0 * weight
    >>> Expectile(0.9)(np.array([0.0, 2.0]), np.array([1.0, 1.0])).round(3)
    array([0.9, 0.1])
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> ATkRegressor(Expectile(0.9), k=0.5, C=1e6).fit(X, [0.0, 2.0, 4.0, 6.0]).predict([[5.0]]).round(2)
    array([10.])
    """

    @wraps(expand)
    def on_arrays(self: Loss, prediction: Array, target: Array) -> tuple[Array, Array, Array]:
        s, slope, curvature = (
            part if isinstance(part, np.ndarray) else np.full(prediction.shape, part)
            for part in expand(self, prediction, target)
        )
        return s, slope, curvature

    on_arrays.formula = Formula(expand)  # type: ignore[attr-defined]
    return on_arrays


def formula_of(loss: IndividualLoss) -> Formula | None:
    """Return the formula of a loss, or None if its ``expand`` is not marked as one.

    Examples
    --------
    >>> from atklearn import Huber
    >>> formula_of(Huber(2.0)).parameters
    ('delta',)
    """
    return getattr(type(loss).expand, "formula", None)


class Kink(StrEnum):
    """How a loss follows from its smooth part ``s``: the table of this module, as code."""

    NONE = "none"
    POSITIVE_PART = "positive_part"
    ABSOLUTE = "absolute"

    @property
    def is_two_sided(self) -> bool:
        """Whether a sample can be in the top k on either side: the loss is ``|s|``."""
        return self is Kink.ABSOLUTE

    def loss(self, s: Array) -> Array:
        """Return the losses from their smooth parts."""
        if self is Kink.ABSOLUTE:
            return np.abs(s)
        return np.maximum(s, 0.0) if self is Kink.POSITIVE_PART else s

    def slope(self, s: Array, slope: Array) -> Array:
        """Return slopes of the losses from those of their smooth parts."""
        if self is Kink.NONE:
            return slope
        return np.where(s > 0.0, slope, -slope if self is Kink.ABSOLUTE else 0.0)


class Domain(StrEnum):
    """What the targets of a loss may be."""

    SIGNS = "signs"
    NUMBERS = "numbers"


class IndividualLoss(ABC):
    """Base class of the individual losses; subclass it to add your own.

    A subclass sets ``task`` and ``kink`` and implements :meth:`expand`, which returns a differentiable function ``s``
    of the prediction. The loss is ``s`` itself, ``max(0, s)`` or ``|s|``. Classification losses receive targets in
    {-1, +1}. An ``expand`` that is marked with :func:`atklearn.elementwise` is compiled, and runs where tensors lie.

    Attributes
    ----------
    task : {"classification", "regression"}
    kink : {"none", "positive_part", "absolute"}
        How the loss follows from ``s``; "none" unless a subclass says otherwise.
    title : str
        What people call it; the name of the class unless a subclass says otherwise.
    domain : {"signs", "numbers"}
        What the targets may be: -1 and +1, which classification losses get, or any number.

    Examples
    --------
    >>> import numpy as np
    >>> from atklearn import ATkRegressor, IndividualLoss
    >>> class LogCosh(IndividualLoss):
    ...     task = "regression"
    ...
    ...     def expand(self, prediction, target):
    ...         error = prediction - target
    ...         slope = np.tanh(error)
    ...         return np.logaddexp(error, -error) - np.log(2.0), slope, 1.0 - slope**2
    >>> LogCosh()(np.array([0.0, 1.0]), np.array([0.0, 0.0])).round(3)
    array([0.   , 0.434])
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> ATkRegressor(LogCosh(), k=0.5, C=1e6).fit(X, [0.0, 2.0, 4.0, 6.0]).predict([[5.0]]).round(2)
    array([10.])
    """

    task: ClassVar[Task]
    kink: ClassVar[Kink | str] = Kink.NONE
    title: ClassVar[str]
    domain: ClassVar[Domain]
    # True if the curvature never changes: then one exact Newton step solves the average loss.
    quadratic: ClassVar[bool] = False
    # True if ``s`` is a line in the prediction: then the dual can be climbed coordinate by coordinate.
    linear: ClassVar[bool] = False
    # True if ``s = 1 - margin``: less a threshold it is again a hinge, of margins on another scale.
    shifts_and_scales: ClassVar[bool] = False
    # True if no prediction makes the slope steep: then a stochastic step cannot overshoot by much.
    bounded_slope: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "title" not in vars(cls):
            cls.title = cls.__name__
        if "domain" not in vars(cls) and hasattr(cls, "task"):
            cls.domain = Domain.SIGNS if cls.task == "classification" else Domain.NUMBERS

    @abstractmethod
    def expand(self, prediction: Array, target: Array) -> tuple[Array, Array, Array]:
        """Return ``s``, its derivative and its second derivative in the prediction.

        Parameters
        ----------
        prediction : ndarray of shape (n,)
        target : ndarray of shape (n,)
            -1 and +1 for classification losses.

        Returns
        -------
        s, slope, curvature : ndarray of shape (n,)
            ``s`` is the loss but for its ``kink``.
        """

    def __call__(self, prediction: Array, target: Array) -> Array:
        """Return the losses ``l(prediction, target)``.

        Parameters
        ----------
        prediction, target : ndarray of shape (n,)

        Returns
        -------
        losses : ndarray of shape (n,)
        """
        return Kink(self.kink).loss(self.expand(prediction, target)[0])

    @property
    def at_zero(self) -> float:
        """The loss of a classifier that says nothing: of the prediction 0, the larger if it depends on the label.

        Examples
        --------
        >>> Hinge().at_zero
        1.0
        """
        return float(self(np.zeros(2), np.array([-1.0, 1.0])).max())

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={shown(value)}" for name, value in vars(self).items())
        return f"{type(self).__name__}({values})"


class LogLoss(IndividualLoss):
    """Logistic loss ``log(1 + exp(-y f))`` in natural logarithms.

    Examples
    --------
    >>> import numpy as np
    >>> from atklearn import LogLoss
    >>> LogLoss()(np.array([0.0, 2.0]), np.array([1.0, -1.0])).round(3)
    array([0.693, 2.127])
    """

    task = "classification"
    title = "log loss"
    bounded_slope = True

    @elementwise
    def expand(self, prediction: Array, target: Array) -> Parts:
        margin = target * prediction
        decay = np.exp(-np.abs(margin))
        wrong = np.where(margin >= 0.0, decay, 1.0) / (1.0 + decay)  # P(-y | f) = 1 / (1 + exp(y f)), no overflow
        return np.log1p(decay) - np.minimum(margin, 0.0), -target * wrong, wrong * (1.0 - wrong)


class Hinge(IndividualLoss):
    """Hinge loss ``max(0, 1 - y f)``, the loss of support vector machines.

    Examples
    --------
    >>> import numpy as np
    >>> from atklearn import Hinge
    >>> Hinge()(np.array([0.5, 2.0]), np.array([1.0, 1.0]))
    array([0.5, 0. ])
    """

    task = "classification"
    title = "hinge"
    bounded_slope = True
    kink = Kink.POSITIVE_PART
    linear = True
    shifts_and_scales = True

    @elementwise
    def expand(self, prediction: Array, target: Array) -> Parts:
        return 1.0 - target * prediction, -target, 0.0


class SquaredHinge(IndividualLoss):
    """Squared hinge loss ``max(0, 1 - y f)**2``.

    Examples
    --------
    >>> import numpy as np
    >>> from atklearn import SquaredHinge
    >>> SquaredHinge()(np.array([0.5, 2.0]), np.array([1.0, 1.0]))
    array([0.25, 0.  ])
    """

    task = "classification"
    title = "squared hinge"

    @elementwise
    def expand(self, prediction: Array, target: Array) -> Parts:
        violation = np.maximum(1.0 - target * prediction, 0.0)
        return violation**2, -2.0 * target * violation, np.where(violation > 0.0, 2.0, 0.0)


class SquaredError(IndividualLoss):
    """Squared error ``(y - f)**2``.

    Examples
    --------
    >>> import numpy as np
    >>> from atklearn import SquaredError
    >>> SquaredError()(np.array([1.0, 3.0]), np.array([0.0, 3.0]))
    array([1., 0.])
    """

    task = "regression"
    title = "squared error"
    quadratic = True

    @elementwise
    def expand(self, prediction: Array, target: Array) -> Parts:
        error = prediction - target
        return error**2, 2.0 * error, 2.0


class AbsoluteError(IndividualLoss):
    """Absolute error ``|y - f|``; with AT_k it is the loss of nu-support vector regression.

    Examples
    --------
    >>> import numpy as np
    >>> from atklearn import AbsoluteError
    >>> AbsoluteError()(np.array([1.0, 3.0]), np.array([0.0, 4.0]))
    array([1., 1.])
    """

    task = "regression"
    title = "absolute error"
    bounded_slope = True
    kink = Kink.ABSOLUTE
    linear = True

    @elementwise
    def expand(self, prediction: Array, target: Array) -> Parts:
        return target - prediction, -1.0, 0.0


class Huber(IndividualLoss):
    """Huber loss: ``e**2 / 2`` for errors up to ``delta``, ``delta (|e| - delta / 2)`` beyond.

    Parameters
    ----------
    delta : float, default=1.0
        The size of error, in units of the target, at which the loss turns from quadratic to linear.

    Raises
    ------
    ValueError
        If delta is not a finite number above 0.

    Examples
    --------
    >>> import numpy as np
    >>> from atklearn import Huber
    >>> Huber()(np.array([0.5, 3.0]), np.array([0.0, 0.0]))
    array([0.125, 2.5  ])
    """

    task = "regression"
    title = "Huber"
    bounded_slope = True

    def __init__(self, delta: float = 1.0) -> None:
        if not 0.0 < delta < np.inf:
            raise ValueError(
                f"Huber expects a finite delta > 0, got {shown(delta)}; pass the error size that is still usual."
            )
        self.delta = delta

    @elementwise
    def expand(self, prediction: Array, target: Array) -> Parts:
        error = prediction - target
        slope = np.clip(error, -self.delta, self.delta)
        # slope * (error - slope / 2) is e**2/2 inside and delta * (|e| - delta/2) outside
        return slope * (error - 0.5 * slope), slope, np.where(np.abs(error) <= self.delta, 1.0, 0.0)


INDIVIDUAL_LOSSES: dict[str, type[IndividualLoss]] = {
    "log_loss": LogLoss,
    "hinge": Hinge,
    "squared_hinge": SquaredHinge,
    "squared_error": SquaredError,
    "absolute_error": AbsoluteError,
    "huber": Huber,
}


def task_of(loss: str | IndividualLoss) -> Task:
    """Return the task a loss, or the name of one, belongs to.

    Examples
    --------
    >>> task_of("huber")
    'regression'
    """
    if isinstance(loss, IndividualLoss):
        return loss.task
    if loss not in INDIVIDUAL_LOSSES:
        raise ValueError(f"loss is expected to be one of {list(INDIVIDUAL_LOSSES)} or an IndividualLoss, got {loss!r}.")
    return INDIVIDUAL_LOSSES[loss].task


def resolve_individual_loss(loss: str | IndividualLoss, task: Task) -> IndividualLoss:
    """Turn a name or an instance into a loss that fits the task, or say what would."""
    fitting = [name for name, cls in INDIVIDUAL_LOSSES.items() if cls.task == task]
    if isinstance(loss, IndividualLoss):
        if loss.task != task:
            raise ValueError(f"A {task} estimator expects a {task} loss, got {loss!r}; use one of {fitting}.")
        return loss
    if loss not in fitting:
        raise ValueError(
            f"A {task} estimator expects loss to be one of {fitting} or an IndividualLoss instance, got {loss!r}."
        )
    return INDIVIDUAL_LOSSES[loss]()
