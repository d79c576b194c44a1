"""Rows of tensors at one z and one k, and rays from there."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from atklearn.losses.individual import Array
from atklearn.problems.compiled_rows import CompiledRows
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
    total: float
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

    def part(self, places: Tensor) -> Any:
        """Return some of the rows, where so many are computed best."""


class TensorPoint:
    """The rows at one z and one k."""

    def __init__(self, rows: RowsOfTensors, z: Array, k: float, density: Tensor) -> None:
        self.rows, self.z, self.k = rows, z, k
        self.centre = density
        self.density: Tensor | None = density  # as given, until the losses are smoothed
        self.mu, self.threshold, self.moving = 1.0, 0.0, 0.0
        self.range: tuple[float, float] | None = None  # of the predictions, once they were looked at
        self.pulls: Tensor | None = None  # ``u r s'``, as long as it holds
        self.look: Look | None = None  # what the last reading was read from
        self.refresh()

    @property
    def standing(self) -> Standing:
        """Where the rows stand."""
        rows = self.rows
        return Standing(rows.paid, rows.y, rows.mass, rows.total, self.k, self.f, self.centre)

    def refresh(self) -> None:
        """Compute predictions and losses anew from z."""
        self.move(self.rows.predict(self.z), is_fresh=True)

    def smooth(self, mu: float) -> Reading:
        """Find threshold and densities."""
        reading, look, pulls = self.standing.settle(mu, self.threshold)
        self.take(mu, reading, look, pulls)
        return reading

    def take(self, mu: float, reading: Reading, look: Look, pulls: Tensor) -> None:
        """Make a reading that of the point."""
        self.mu, self.threshold, self.moving, self.density = mu, reading.threshold, reading.moving, None
        self.range, self.look, self.pulls = (look.low, look.high), look, pulls

    def recentre(self) -> None:
        """Make the densities the centre."""
        self.centre = self.density = self.densities()

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

    def move(self, f: Tensor, *, is_fresh: bool = False) -> None:
        """Go to other predictions."""
        self.f, self.is_fresh = f, is_fresh
        self.range = self.pulls = None

    def towards(self, direction: Array) -> TensorRay:
        """Return the ray in a direction."""
        return TensorRay(self, direction)

    def gradient(self) -> Array:
        """Return ``X^T (u r s')``."""
        if self.pulls is None:
            self.pulls = self.rows.mass / self.k * self.densities() * self.standing.slopes()
        return self.rows.matrix.pull_back(self.pulls)

    def curvature(
        self, mu: float, *, form: Form, cautious: bool = False, most: int | None = None, seed: int = 0
    ) -> Curvature:
        """Return the generalised Hessian of the smoothed loss."""
        assert self.look is not None
        return curvature(
            self.rows.matrix, self.standing, self.threshold, self.moving, mu, (self.look.tied, self.look.full),
            form=form, cautious=cautious, most=most, seed=seed,
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
        self.t, self.mu = t, mu
        self.reading, self.look, self.pulls = self.point.standing.settle(
            mu, self.point.threshold, t, self.f_direction
        )  # fmt: skip
        return self.reading

    def land(self) -> None:
        """Move the point to where the ray was last looked at."""
        self.point.z = self.point.z + self.t * self.direction
        self.point.move(torch.add(self.point.f, self.f_direction, alpha=self.t))
        self.point.take(self.mu, self.reading, self.look, self.pulls)


class TensorPart:
    """Some of the rows, and their places among all; few of them may be on the host, with their densities."""

    def __init__(self, whole: RowsOfTensors, places: Tensor) -> None:
        self.whole, self.places = whole, places
        self.rows = whole.part(places)

    def restrict(self, density: Any) -> Any:
        """Return the densities of these rows."""
        picked = self.whole.tensor_of(density)[self.places]
        return picked.cpu().numpy() if isinstance(self.rows, CompiledRows) else picked

    def extend(self, density: Any) -> Tensor:
        """Return densities of all rows."""
        out = torch.zeros(self.whole.n_rows, dtype=torch.float64, device=self.places.device)
        out[self.places] = self.whole.tensor_of(density)
        return out
