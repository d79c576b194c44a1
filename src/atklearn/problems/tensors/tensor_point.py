"""Rows of tensors at one z and one k, and rays from there."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from atklearn.losses.individual import Array
from atklearn.problems.rows import Curvature, Form, Proof, Reading
from atklearn.problems.tensors.ranked_tensors import largest_places
from atklearn.problems.tensors.standing import Look, Standing
from atklearn.problems.tensors.tensor_curvature import curvature
from atklearn.problems.tensors.tensor_losses import TensorLoss
from atklearn.problems.tensors.tensor_matrix import TensorMatrix
from atklearn.problems.tensors.tensor_proof import prove

__all__ = ["RowsOfTensors", "TensorPart", "TensorPoint", "TensorRay"]


class RowsOfTensors(Protocol):
    """What points need of their rows."""

    paid: TensorLoss
    matrix: TensorMatrix
    y: Tensor
    mass: Tensor
    n_rows: int
    ones: int | None

    each: float | None

    @property
    def target_range(self) -> tuple[float, float]:
        """The smallest and the largest target."""

    def tensor_of(self, numbers: Any) -> Tensor:
        """Return numbers, one per row, as a tensor where X lies."""

    def predict(self, z: Array) -> Tensor:
        """Return the predictions of z."""

    def take(self, places: Tensor) -> Any:
        """Return some of the rows."""


class TensorPoint:
    """The rows at one z and one k."""

    def __init__(self, rows: RowsOfTensors, z: Array, k: float, density: Tensor) -> None:
        self.rows, self.z, self.k = rows, z, k
        self.centre = density
        self.density: Tensor | None = density  # as given, until the losses are smoothed
        self.mu, self.threshold, self.moving = 1.0, 0.0, 0.0
        self.refresh()

    @property
    def standing(self) -> Standing:
        """Where the rows stand."""
        return Standing(self.rows.paid, self.rows.y, self.rows.mass, self.k, self.f, self.centre)

    def refresh(self) -> None:
        """Compute predictions and losses anew from z."""
        self.f = self.rows.predict(self.z)
        self.range: tuple[float, float] | None = None  # of the predictions, once they were looked at
        self.is_fresh = True

    def smooth(self, mu: float) -> Reading:
        """Find threshold and densities."""
        reading, look = self.standing.settle(mu, self.threshold)
        self.take(mu, reading, look)
        return reading

    def take(self, mu: float, reading: Reading, look: Look) -> None:
        """Make a reading that of the point."""
        self.mu, self.threshold, self.moving, self.density = mu, reading.threshold, reading.moving, None
        self.range = look.low, look.high

    def recentre(self) -> None:
        """Make the densities the centre."""
        self.centre = self.densities()

    def densities(self) -> Tensor:
        """Return the densities of the last smoothing."""
        return self.standing.densities(self.mu, self.threshold) if self.density is None else self.density

    def reach(self) -> float:
        """Return the length of the interval that holds all predictions and targets."""
        if self.range is None:
            low, high = torch.stack(torch.aminmax(self.f)).tolist()
            self.range = low, high
        least, most = self.rows.target_range
        return max(most, self.range[1]) - min(least, self.range[0])

    def shift(self, amount: float) -> None:
        """Move along the column of ones."""
        self.z = self.z.copy()
        self.z[self.rows.ones] += amount
        self.move(self.f + amount)

    def move(self, f: Tensor) -> None:
        """Go to other predictions."""
        self.f, self.range, self.is_fresh = f, None, False

    def towards(self, direction: Array) -> TensorRay:
        """Return the ray in a direction."""
        return TensorRay(self, direction)

    def gradient(self) -> Array:
        """Return ``X^T (u r s')``."""
        if self.density is None:
            return self.rows.matrix.pull_back(self.standing.pulls(self.mu, self.threshold))
        return self.rows.matrix.pull_back(self.rows.mass / self.k * self.density * self.standing.slopes())

    def curvature(
        self, mu: float, *, form: Form, cautious: bool = False, most: int | None = None, seed: int = 0
    ) -> Curvature:
        """Return the generalised Hessian of the smoothed loss."""
        return curvature(
            self.rows.matrix, self.standing, self.densities(), self.moving, mu, form=form, cautious=cautious, most=most,
            seed=seed,
        )  # fmt: skip

    def prove(self, *, balanced: bool) -> Proof:
        """Return the exact aggregate and a feasible density near r."""
        return prove(
            self.rows.matrix, self.standing, self.densities(), self.z, self.rows.each, is_fresh=self.is_fresh,
            balanced=balanced,
        )  # fmt: skip

    def largest(self, count: int, *, beside: Any = None, above: float = 0.0) -> TensorPart:
        """Return the rows with the largest losses."""
        losses = self.standing.losses()
        if beside is None:
            return TensorPart(self.rows, largest_places(losses, count))
        losses[beside.places] = -1.0
        count = min(count, int((losses > above).sum()))
        places = beside.places
        if count:
            places = torch.sort(torch.cat([places, largest_places(losses, count)])).values
        return TensorPart(self.rows, places)


class TensorRay:
    """A half-line from a point."""

    def __init__(self, point: TensorPoint, direction: Array) -> None:
        self.point, self.direction = point, direction
        self.f_direction = point.rows.matrix.predict(direction)

    def at(self, t: float, mu: float) -> Reading:
        """Smooth the losses at ``z + t * direction``."""
        reading, look = self.point.standing.settle(mu, self.point.threshold, t, self.f_direction)
        self.last = t, mu, reading, look
        return reading

    def land(self) -> None:
        """Move the point to where the ray was last looked at."""
        t, mu, reading, look = self.last
        self.point.z = self.point.z + t * self.direction
        self.point.move(torch.add(self.point.f, self.f_direction, alpha=t))
        self.point.take(mu, reading, look)


class TensorPart:
    """Some of the rows, and their places among all."""

    def __init__(self, whole: RowsOfTensors, places: Tensor) -> None:
        self.whole, self.places = whole, places
        self.rows = whole.take(places)

    def restrict(self, density: Any) -> Tensor:
        """Return the densities of these rows."""
        return self.whole.tensor_of(density)[self.places]

    def extend(self, density: Any) -> Tensor:
        """Return densities of all rows."""
        out = torch.zeros(self.whole.n_rows, dtype=torch.float64, device=self.places.device)
        out[self.places] = self.whole.tensor_of(density)
        return out
