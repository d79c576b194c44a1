"""Rows as tensors on any device that has float64: see :mod:`atklearn.problems.rows` for the meaning.

X is never copied as a whole. Beside it there are some numbers per row: predictions, those of a direction, the centre of
the densities, and what a pass writes for the next. What crosses to the host is small, a few times per Newton step.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from atklearn.losses.individual import Array, IndividualLoss
from atklearn.problems.compiled_rows import CompiledRows
from atklearn.problems.conditioning import Units, helpful_units, looked_at
from atklearn.problems.namespaces import is_quicker_on_host
from atklearn.problems.rotation import Rotation, is_worth_rotating, rotate
from atklearn.problems.tensors.tensor_losses import TensorLoss
from atklearn.problems.tensors.tensor_matrix import TensorMatrix
from atklearn.problems.tensors.tensor_point import TensorPoint

__all__ = ["TensorRows"]

# So many numbers of X take a device hardly longer than to be told to pass over them.
_MOMENT = 1 << 28
# Up to so many, places are drawn on the host as for other rows; more are drawn where X lies.
_FEW_PLACES = 1 << 16


class TensorRows:
    """Samples as tensors.

    Parameters
    ----------
    X : Tensor of shape (n_rows, n_features)
        Of float32 or float64; every sum is accumulated in float64.
    y : Tensor of shape (n_rows,)
        Targets; -1 and +1, in whatever type, for classification losses.
    mass : Tensor of shape (n_rows,)
        Sample weights > 0 in float64; where all are alike, one number expanded.
    loss : IndividualLoss
    intercept : bool
        Whether there is a column of ones, which is never stored; it is the last.
    units : Units, default=None
        Of the features, if not those of X: they are applied on the way.

    Examples
    --------
    >>> from atklearn.losses.individual import Hinge
    >>> X, y = torch.tensor([[1.0], [-2.0]]), torch.tensor([1.0, -1.0])
    >>> rows = TensorRows(X, y, torch.ones(1).double().expand(2), Hinge(), intercept=False)
    >>> rows.at(np.array([0.5]), k=1.0).prove(balanced=False).value
    0.5
    """

    is_dense = True
    is_far = False

    def __init__(
        self, X: Tensor, y: Tensor, mass: Tensor, loss: IndividualLoss, intercept: bool, units: Units | None = None
    ) -> None:
        self.X, self.y, self.mass, self.loss = X, y, mass, loss
        self.matrix = TensorMatrix(X, intercept, units)
        self.n_rows, self.n_features = (int(size) for size in X.shape)
        self.n_columns = self.n_features + intercept
        self.ones = self.n_features if intercept else None
        self.room = self.n_rows
        self.is_remote = X.is_cuda
        self.at_once = _MOMENT // max(self.n_columns, 1) if self.is_remote else 1
        self.each = _each(mass)  # the mass of every row, if they are alike
        self.total = float(mass.sum()) if self.each is None else self.each * self.n_rows
        self.paid = TensorLoss(loss)
        self._conditioned: dict[bool, tuple[TensorRows, Units | Rotation] | None] = {}

    @cached_property
    def target_range(self) -> tuple[float, float]:
        """The smallest and the largest target."""
        least, most = torch.stack(torch.aminmax(self.y)).tolist()
        return float(least), float(most)

    @property
    def loss_at_zero(self) -> float:
        """What a classifier pays that says nothing."""
        return self.loss.at_zero

    def tensor_of(self, numbers: Any) -> Tensor:
        """Return numbers, one per row, as a tensor where X lies."""
        return torch.as_tensor(numbers, dtype=torch.float64).to(self.X.device)

    def at(self, z: Array, k: float, density: Any = None) -> TensorPoint:
        """Return the point at z."""
        if density is None:  # everyone alike, and no side taken by two-sided losses
            alike = 0.0 if self.paid.kink.is_two_sided else min(k / self.total, 1.0)
            return TensorPoint(self, z, k, self.tensor_of([alike]).expand(self.n_rows))
        return TensorPoint(self, z, k, self.tensor_of(density))

    def predict(self, z: Array) -> Tensor:
        """Return the predictions of z; where cold starts begin, without a pass over X."""
        return self.matrix.predict(z) if z.any() else torch.zeros_like(self.mass)

    def take(self, places: Tensor) -> TensorRows:
        """Return some of the rows."""
        alike = self.mass.stride(0) == 0
        mass = self.mass[:1].expand(len(places)) if alike else self.mass[places]
        rows = TensorRows(
            self.X.index_select(0, places), self.y[places], mass, self.loss, self.ones is not None, self.matrix.units
        )  # fmt: skip
        # what is good enough for all is good enough for some
        rows._conditioned = {centred: None for centred, found in self._conditioned.items() if found is None}
        return rows

    def part(self, places: Tensor) -> TensorRows | CompiledRows:
        """Return some of the rows; so few that a device would be idle, as compiled ones on the host."""
        if not (self.is_remote and is_quicker_on_host(self.X.device, len(places) * self.n_columns)):
            return self.take(places)
        X = self.matrix.take(places).converted().cpu().numpy()
        y, mass = (numbers[places].double().cpu().numpy() for numbers in (self.y, self.mass))
        return CompiledRows(X, y, mass, self.loss, self.ones is not None)

    def sample(self, count: int) -> TensorRows | CompiledRows:
        """Return one row from each of ``count`` equal parts: random, sorted, and without shuffling all of them."""
        count = min(count, self.n_rows)
        if count <= _FEW_PLACES:
            drawn = torch.as_tensor(np.arange(count) + np.random.default_rng(0).random(count)).to(self.X.device)
        else:
            generator = torch.Generator(self.X.device).manual_seed(0)
            drawn = torch.rand(count, dtype=torch.float64, device=self.X.device, generator=generator)
            drawn += torch.arange(count, device=self.X.device)
        return self.part((drawn * (self.n_rows / count)).long().clamp(max=self.n_rows - 1))

    def conditioned(self, *, centred: bool) -> tuple[TensorRows, Units | Rotation] | None:
        """Return the same samples in better coordinates, or None if these are good enough."""
        if centred not in self._conditioned:
            self._conditioned[centred] = self._condition(centred)
        return self._conditioned[centred]

    def _condition(self, centred: bool) -> tuple[TensorRows, Units | Rotation] | None:
        rows = looked_at(self.n_rows, self.n_features)
        X, y = self.X[rows].cpu().numpy(), self.y[rows].double().cpu().numpy()
        units = helpful_units(X, y, centred=centred, regression=self.loss.task == "regression")
        shift = 0.0 if units is None else units.shift
        y_shifted = self.y - shift if shift else self.y
        if is_worth_rotating(self.n_rows, self.n_features):
            centre = np.zeros(self.n_features) if units is None else units.centre
            rotation = rotate(self.X.cpu().numpy(), centre)
            if rotation is not None:
                factor = self.tensor_of(rotation.factor)
                return self._like(factor, y_shifted, None), rotation.shifted(shift)
        return None if units is None else (self._like(self.X, y_shifted, units), units)

    def _like(self, X: Tensor, y: Tensor, units: Units | None) -> TensorRows:
        return TensorRows(X, y, self.mass, self.loss, self.ones is not None, units)

    def paying(self, loss: IndividualLoss) -> TensorRows:
        """Return the same samples with another loss."""
        return TensorRows(self.X, self.y, self.mass, loss, self.ones is not None, self.matrix.units)

    def aiming_at(self, y: Tensor) -> TensorRows:
        """Return the same samples with other targets."""
        return self._like(self.X, y, self.matrix.units)

    def mean_square(self) -> float:
        """Return the mean of ``|x|^2`` over the mass."""
        squares = self.matrix.column_squares(self.mass)[: self.n_features]
        return float(squares.sum()) / self.total + (self.ones is not None)

    def ascent(self, k: float, C: float, density: Any = None, *, balanced: bool) -> None:  # noqa: ARG002
        """Return None: to visit one row after the other is not what devices are good at."""
        return

    def holds(self, density: Any) -> bool:
        """Say whether densities are of as many rows."""
        return tuple(np.shape(density)) == (self.n_rows,)

    def blend(self, terms: Sequence[tuple[float, Any]], k: float) -> Tensor:
        """Return a linear combination of densities, made feasible."""
        out = terms[0][0] * self.tensor_of(terms[0][1])
        for factor, density in terms[1:]:
            out.add_(self.tensor_of(density), alpha=factor)
        out.clamp_(-1.0 if self.paid.kink.is_two_sided else 0.0, 1.0)
        size = float((self.mass * out.abs()).sum())
        return out.mul_(k / size) if size > k else out

    def sample_weights(self, density: Any, k: float) -> Tensor:
        """Return ``u |r|``."""
        return self.tensor_of(density).abs() * self.mass / k

    def split(self, z: Array) -> tuple[Array, float]:
        """Return the weights of the features and the intercept."""
        return self.matrix.split(z)

    def join(self, weights: Array, intercept: float) -> Array:
        """Return z from the weights of the features and the intercept."""
        return np.array(weights) if self.ones is None else np.append(weights, intercept)


def _each(mass: Tensor) -> float | None:
    """Return the mass of every row, if they are alike."""
    if mass.stride(0) == 0:
        return float(mass[0])
    least, most = torch.stack(torch.aminmax(mass)).tolist()
    return float(least) if least == most else None
