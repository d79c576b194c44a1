"""Rows as tensors on any device that has float64; they answer as the plain store does.

X is never copied as a whole. Beside it there are some numbers per row: predictions, those of a direction, the centre of
the densities, and what a pass writes for the next. Smooth parts, slopes and densities are not kept but computed anew
from the predictions wherever they are needed: on a device that costs less than to fetch them, and leaves the memory to
X. What crosses to the host is small, a few times per Newton step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from atklearn.core.coordinates import Rotation, Units, helpful_units, is_worth_rotating, looked_at, rotate
from atklearn.core.point import Bound, Form, Gram, Reading, SettledSums, Sides
from atklearn.core.ranking import Between, rank
from atklearn.core.store import Store, spread_places
from atklearn.losses.individual import Array, IndividualLoss, Kink
from atklearn.runtime.namespaces import is_quicker_on_host
from atklearn.stores.compiled import CompiledRows
from atklearn.stores.tensors import triton_proof, triton_standing
from atklearn.stores.tensors.tensor_curvature import Stratum, gram_of
from atklearn.stores.tensors.tensor_losses import Expansion, TensorLoss
from atklearn.stores.tensors.tensor_matrix import TensorMatrix
from atklearn.stores.tensors.triton_language import serves
from atklearn.stores.tensors.triton_losses import KernelLoss
from atklearn.stores.tensors.triton_standing import Asked

__all__ = ["TensorRows", "TensorState", "TensorSubset"]

# So many numbers of X take a device hardly longer than to be told to pass over them.
_MOMENT = 1 << 28
# Up to so many, places are drawn on the host, as for other rows; more are drawn on the device, which is quicker.
_FEW_PLACES = 1 << 16
# Samples at a time: so that what is computed on the way stays small beside X, on a CPU in the cache.
_CPU_BLOCK, _GPU_BLOCK = 1 << 16, 1 << 24


class TensorRows(Store):
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
    >>> rows.point(np.array([0.5]), k=1.0).prove(balanced=False).value
    0.5
    """

    is_dense = True
    most_ranked = 1 << 17

    def __init__(
        self, X: Tensor, y: Tensor, mass: Tensor, loss: IndividualLoss, intercept: bool, units: Units | None = None
    ) -> None:
        self.X, self.y, self.mass, self.loss = X, y, mass, loss
        self.matrix = TensorMatrix(X, intercept, units)
        self.n_rows, self.n_features = (int(size) for size in X.shape)
        self.n_columns = self.n_features + intercept
        self.ones = self.n_features if intercept else None
        self.max_subset_rows = self.n_rows
        self.is_remote = X.is_cuda
        self.min_efficient_rows = _MOMENT // max(self.n_columns, 1) if self.is_remote else 1
        self.each = _each(mass)  # the mass of every row, if they are alike
        self.total = float(mass.sum()) if self.each is None else self.each * self.n_rows
        self.paid = TensorLoss(loss)
        self._conditioned: dict[bool, tuple[TensorRows, Units | Rotation] | None] = {}

    @cached_property
    def target_range(self) -> tuple[float, float]:  # type: ignore[override]
        """The smallest and the largest target."""
        least, most = torch.stack(torch.aminmax(self.y)).tolist()
        return float(least), float(most)

    def tensor_of(self, numbers: Any) -> Tensor:
        """Return numbers, one per row, as a tensor where X lies."""
        return torch.as_tensor(numbers, dtype=torch.float64).to(self.X.device)

    # States

    def stand(self, z: Array, k: float, density: Any) -> TensorState:
        """Return the rows at z; where cold starts begin, without a pass over X."""
        f = self.matrix.predict(z) if z.any() else torch.zeros_like(self.mass)
        return TensorState(
            self.paid, self.y, self.mass, k, f, density=None if density is None else self.tensor_of(density)
        )  # fmt: skip

    def predict(self, direction: Array) -> Tensor:
        """Return the predictions of a direction."""
        return self.matrix.predict(direction)

    def moved(self, state: TensorState, t: float, along: Tensor) -> TensorState:
        """Return the rows at ``f + t along``, which is computed where it is needed."""
        return TensorState(self.paid, self.y, self.mass, state.k, state.f, t, along)

    def shifted(self, state: TensorState, amount: float) -> TensorState:
        """Return the rows at ``f + amount``."""
        return TensorState(self.paid, self.y, self.mass, state.k, state.f + amount, density=self.densities(state))

    def densities(self, state: TensorState) -> Tensor:
        """Return the densities: as given, or of the last smoothing."""
        if state.density is None:
            if state.centre is None:
                state.density = self.tensor_of([self.alike(state.k)]).expand(self.n_rows)
            else:
                state.density = state.settled_densities()
        return state.density

    def prediction_range(self, state: TensorState) -> tuple[float, float]:
        """Return the smallest and the largest prediction."""
        if state.look is not None:
            return state.look.low, state.look.high
        low, high = torch.stack(torch.aminmax(state.f)).tolist()
        return low, high

    # Smoothing

    def settle(
        self, state: TensorState, centre: Tensor, mu: float, lam: float, along: Tensor | None
    ) -> tuple[SettledSums, TensorState]:
        """Return the sums at a threshold, and the state with its pulls."""
        pulls = torch.empty_like(state.start)
        if state.has_kernels:
            operands, t, way = state.line(centre, along)
            numbers = triton_standing.search(operands, mu, lam, t, way, pulls, most=1)[0]
        else:
            looked = [part.look_at(centre[rows], mu, lam, pulls[rows], way) for rows, part, way in state.along(along)]
            sums, lows, highs = (torch.stack(parts) for parts in zip(*looked, strict=True))
            numbers = torch.cat([sums.sum(0), -lows.amin()[None], highs.amax()[None]]).cpu().numpy()
        return self._settled(state, centre, mu, lam, pulls, numbers)

    def _settled(
        self, state: TensorState, centre: Tensor, mu: float, lam: float, pulls: Tensor, numbers: Array
    ) -> tuple[SettledSums, TensorState]:
        """Return sums and state from numbers in the order of :func:`triton_standing.search`."""
        tied, full = (Stratum(int(part[0]), part[1], part[2]) for part in (numbers[13:16], numbers[16:19]))
        look = Glance(-float(numbers[-2]), float(numbers[-1]), tied, full)
        settled = state.settled(centre, mu, lam, pulls, look)
        return SettledSums(*numbers[:13].tolist())._replace(total=self.total / state.k), settled

    def top(self, state: TensorState, centre: Tensor, mu: float) -> float:
        """Return the threshold above which every density is zero."""
        lines = [part.expansion().s + mu * centre[rows] for rows, part in state.parts()]
        tops = [(line.abs() if self.kink.is_two_sided else line).amax() for line in lines]
        return max(float(torch.stack(tops).amax()), 0.0)

    def smoothed(
        self, state: TensorState, centre: Tensor, mu: float, guess: float, along: Tensor | None = None
    ) -> tuple[Reading, TensorState]:
        """Search by kernels that find out themselves where to look next, as long as nothing is out of the ordinary."""
        if state.has_kernels:
            pulls = torch.empty_like(state.start)
            operands, t, way = state.line(centre, along)
            numbers, lam, is_found = triton_standing.search(operands, mu, guess, t, way, pulls)
            if is_found:
                sums, settled = self._settled(state, centre, mu, lam, pulls, numbers)
                return Reading.of(lam, sums), settled
            guess = lam
        return super().smoothed(state, centre, mu, guess, along)

    # Derivatives

    def pull(self, state: TensorState) -> Array:
        """Return ``X^T (u r s')``."""
        if state.pulls is None:
            state.pulls = self.mass / state.k * self.densities(state) * state.slopes()
        return self.matrix.pull_back(state.pulls)

    def gram(self, state: TensorState, mu: float, *, form: Form, cautious: bool, most: int | None, seed: int) -> Gram:
        """Return the weighted Gram matrix of a settled state."""
        return gram_of(self.matrix, state, mu, form=form, cautious=cautious, most=most, seed=seed)

    # Proof

    def sides(self, state: TensorState) -> Sides:
        """Return pulls and masses."""
        density = self.densities(state)
        if state.has_kernels:
            return Sides(*triton_proof.weigh_sides(state.operands, density).tolist())
        sums = []
        for rows, part in state.parts():
            u = part.mass / state.k
            side, weight = density[rows] * part.expansion().slope, u * density[rows].abs()
            parts = [
                (u * side).clamp(min=0.0), (-u * side).clamp(min=0.0), weight * (side > 0.0), weight * (side < 0.0),
                weight * (side == 0.0),
            ]  # fmt: skip
            sums.append(torch.stack([each.sum() for each in parts]))
        return Sides(*torch.stack(sums).sum(0).tolist())

    def scaled(self, state: TensorState, up: float, down: float, level: float) -> TensorState:
        """Return the state with other densities, and their pulls."""
        density = self.densities(state)
        if state.has_kernels:
            r, a, _ = triton_proof.scale_sides(state.operands, density, up, down, level, 0.0)
        else:
            r, a = torch.empty_like(state.f), torch.empty_like(state.f)
            for rows, part in state.parts():
                given, slope = density[rows], part.expansion().slope
                side = given * slope
                r[rows] = torch.where(side > 0.0, up * given, torch.where(side < 0.0, down * given, level * given))
                torch.mul(part.mass / state.k * r[rows], slope, out=a[rows])
        return TensorState(self.paid, self.y, self.mass, state.k, state.f, density=r, pulls=a)

    def bound(self, exact: TensorState, feasible: TensorState, lam: float) -> Bound:
        """Return the sums over all rows."""
        r, a = self.densities(feasible), feasible.pulls
        assert a is not None
        if exact.has_kernels:
            numbers = triton_proof.read_slack(feasible.operands, exact.f, r, lam)
        else:
            sums = []
            for rows, part in exact.parts():
                u, s, density = part.mass / exact.k, part.expansion().s, r[rows].abs()
                before = self.paid.expand(feasible.f[rows], part.y).s
                over = ((s.abs() if self.kink.is_two_sided else s) - lam).clamp(min=0.0)
                parts = u * over, u * (over - (r[rows] * s - lam * density)), u * density, u * r[rows] * (s - before)
                sums.append(torch.stack([each.sum() for each in parts]))
            numbers = torch.stack(sums).sum(0)
        above, slack, mass, change = numbers.tolist()
        return Bound(above, slack, mass, change - float((a * (exact.f - feasible.f)).sum()))

    def least(self, state: TensorState) -> float:
        """Return the smallest loss."""
        least = float(state.losses().amin())
        return max(least, 0.0) if self.kink is Kink.POSITIVE_PART else least

    def between(self, state: TensorState, low: float, high: float, share: float, by_count: bool) -> Between:
        """Return what the losses say of an interval; at first a few of all come to the host, then what is inside."""
        return _between(state.losses(), None if by_count else self.mass, low, high, share)

    # Parts, and other stores of the same rows

    def largest(self, state: TensorState, count: int, beside: TensorSubset | None, above: float) -> TensorSubset:
        """Return the rows with the largest losses."""
        losses = state.losses()
        if beside is None:
            return TensorSubset(self, largest_places(losses, count))
        losses[beside.places] = -1.0
        count = min(count, int((losses > above).sum()))
        if count == 0:
            return beside
        return TensorSubset(self, torch.cat([beside.places, largest_places(losses, count)]).sort().values)

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
        """Return one row from each of ``count`` equal parts, without shuffling all of them."""
        if count <= _FEW_PLACES or not self.is_remote:
            return self.part(torch.as_tensor(spread_places(self.n_rows, count)).to(self.X.device))
        count, device = min(count, self.n_rows), self.X.device
        generator = torch.Generator(device).manual_seed(0)
        drawn = torch.rand(count, dtype=torch.float64, device=device, generator=generator)
        drawn += torch.arange(count, device=device)
        return self.part((drawn * (self.n_rows / count)).long().clamp_(max=self.n_rows - 1))

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


def _each(mass: Tensor) -> float | None:
    """Return the mass of every row, if they are alike."""
    if mass.stride(0) == 0:
        return float(mass[0])
    least, most = torch.stack(torch.aminmax(mass)).tolist()
    return float(least) if least == most else None


def _between(losses: Tensor, mass: Tensor | None, low: float, high: float, share: float) -> Between:
    """Return what losses say of an interval; amounts are mass, or numbers if there is None."""
    n = len(losses)
    if low == -np.inf and high == np.inf:
        step = max(int(1.0 / share), 1)
        total = float(n) if mass is None else float(mass.sum())
        told = losses[::step].cpu().numpy()
        weights = np.full(told.size, total / told.size) if step > 1 or mass is None else mass.cpu().numpy()
        least, most = (-np.inf, np.inf) if step > 1 else (float(told.min()), float(told.max()))
        return Between(0.0, total, n, told, weights, step > 1, least, most)
    is_above, is_inside = losses > high, (losses >= low) & (losses <= high)
    above = float((is_above if mass is None else mass * is_above).sum())
    inside, amounts = losses[is_inside], None if mass is None else mass[is_inside]
    count = len(inside)
    step = -(-count // max(int(share * count), 1))
    if step > 1:  # the others need not come to the host
        amount = float(count) if amounts is None else float(amounts.sum())
        least, most = torch.stack(torch.aminmax(inside)).tolist()
        told = inside[::step].cpu().numpy()
        return Between(above, amount, count, told, np.full(told.size, amount / told.size), True, least, most)
    told = inside.cpu().numpy()
    return Between.inside_of(above, told, np.ones(count) if amounts is None else amounts.cpu().numpy(), 1.0)


def largest_places(losses: Tensor, count: int) -> Tensor:
    """Return the sorted places of the largest losses; among ties the first.

    Examples
    --------
    >>> largest_places(torch.tensor([3.0, 1.0, 2.0, 2.0]), 2)
    tensor([0, 2])
    """
    n = len(losses)
    count = min(max(count, 1), n)
    if count == n:
        return torch.arange(count, device=losses.device)
    level = rank(
        lambda low, high, share: _between(losses, None, low, high, share), float(count), n, TensorRows.most_ranked
    ).value  # fmt: skip
    above = torch.nonzero(losses > level).ravel()
    tied = torch.nonzero(losses == level).ravel()[: count - len(above)]
    return torch.sort(torch.cat([above, tied])).values


class TensorSubset:
    """Some of the rows, and their places among all; few of them may be on the host, with their densities."""

    def __init__(self, whole: TensorRows, places: Tensor) -> None:
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


@dataclass(frozen=True)
class Glance:
    """What a smoothing has seen beside its sums.

    Attributes
    ----------
    low, high : float
        The smallest and the largest prediction.
    tied, full : Stratum
        The samples between the bounds of their density, and those at the upper.
    """

    low: float
    high: float
    tied: Stratum
    full: Stratum


class TensorState:
    """All rows at one z and one k, or some of them.

    Parameters
    ----------
    loss : TensorLoss
    y, mass : Tensor of shape (n,)
        Where all masses are alike, one number expanded.
    k : float
    start : Tensor of shape (n,)
        Predictions are ``start + t * direction``.
    t : float
    direction : Tensor of shape (n,), default=None
    density, pulls : Tensor of shape (n,), default=None
        Densities as they are given, and ``u r s'``, as long as they are known.
    """

    def __init__(
        self, loss: TensorLoss, y: Tensor, mass: Tensor, k: float, start: Tensor, t: float = 0.0,
        direction: Tensor | None = None, density: Tensor | None = None, pulls: Tensor | None = None,
    ) -> None:  # fmt: skip
        self.loss, self.y, self.mass, self.k = loss, y, mass, k
        self.start, self.t, self.direction = start, t, direction
        self.density, self.pulls = density, pulls
        self.centre: Tensor | None = None  # of the last smoothing, with its mu and threshold
        self.mu, self.lam = 1.0, 0.0
        self.look: Glance | None = None

    @property
    def f(self) -> Tensor:
        """The predictions."""
        if self.direction is not None:
            self.start, self.direction = torch.add(self.start, self.direction, alpha=self.t), None
        return self.start

    def settled(self, centre: Tensor, mu: float, lam: float, pulls: Tensor, look: Glance) -> TensorState:
        """Return the state with the densities at a threshold."""
        state = TensorState(self.loss, self.y, self.mass, self.k, self.start, self.t, self.direction, pulls=pulls)
        state.centre, state.mu, state.lam, state.look = centre, mu, lam, look
        return state

    @property
    def has_kernels(self) -> bool:
        """Whether passes over these samples are kernels of a GPU."""
        return serves(self.start) and self.loss.for_kernels(self.start.device) is not None

    @property
    def operands(self) -> triton_standing.Operands:
        """What kernels take; the centre is that of the last smoothing, or does not count."""
        centre = self.mass if self.centre is None else self.centre
        return triton_standing.Operands(self._kernel_loss, self.f, self.y, centre, self.mass, self.k)

    @property
    def _kernel_loss(self) -> KernelLoss:
        loss = self.loss.for_kernels(self.start.device)
        assert loss is not None  # else there are no kernels
        return loss

    def line(self, centre: Tensor, along: Tensor | None) -> tuple[triton_standing.Operands, float, Tensor | None]:
        """Return what kernels take that look along a direction: where it starts, how far to go, and which it is."""
        t, way = (0.0, along) if along is None or self.direction is None else (self.t, self.direction)
        f = self.f if t == 0.0 else self.start
        return triton_standing.Operands(self._kernel_loss, f, self.y, centre, self.mass, self.k), t, way

    def parts(self) -> Iterator[tuple[slice, TensorState]]:
        """Yield the samples in blocks, and which they are; none are one block."""
        for rows, part, _ in self.along(None):
            yield rows, part

    def along(self, along: Tensor | None) -> Iterator[tuple[slice, TensorState, Tensor | float]]:
        """Yield blocks of samples, and predictions of a direction for them."""
        start, direction = (self.f, None) if along is None else (self.start, self.direction)
        n, size = len(start), _CPU_BLOCK if start.device.type == "cpu" else _GPU_BLOCK
        for begin in range(0, max(n, 1), size):
            rows = slice(begin, min(begin + size, n))
            way = None if direction is None else direction[rows]
            part = TensorState(self.loss, self.y[rows], self.mass[rows], self.k, start[rows], self.t, way)
            yield rows, part, 0.0 if along is None else along[rows]

    def take(self, places: Tensor | slice) -> TensorState:
        """Return some of the samples, with the centre they were smoothed around."""
        part = TensorState(self.loss, self.y[places], self.mass[places], self.k, self.f[places])
        part.mu, part.lam = self.mu, self.lam
        part.centre = None if self.centre is None else self.centre[places]
        return part

    def expansion(self) -> Expansion:
        """Return smooth part, slope and curvature of all samples."""
        return self.loss.expand(self.f, self.y)

    def look_at(
        self, centre: Tensor, mu: float, lam: float, pulls: Tensor, along: Tensor | float
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Sum up what the densities at a threshold say; fill ``pulls`` with ``u r s'``; return the ends of f, too."""
        u, (s, slope, bend) = self.mass / self.k, self.expansion()
        r = _densities(self.loss, s, centre, mu, lam)
        density, value, distance = r.abs(), u * (r * s).abs(), s - lam
        a = torch.mul(u * r, slope, out=pulls)
        over = ((s.abs() if self.loss.kink.is_two_sided else s) - lam).clamp(min=0.0)
        tied, full = (density > 0.0) & (density < 1.0), (density >= 1.0) & self._enters(slope, bend)
        tied_weight, full_weight = u * tied * (density * bend + slope**2 / mu), u * full * bend
        sums = torch.stack([
            (u * over).sum(),
            (u * (over - (r * s - lam * density))).sum(),
            (u * density).sum(),
            (u * tied).sum(),
            a.clamp(min=0.0).sum(),
            (-a).clamp(min=0.0).sum(),
            (value * (a > 0.0)).sum(),
            (value * (a < 0.0)).sum(),
            (a * along).sum(),
            u.sum(),
            (u * distance).sum(),
            (u * distance**2).sum(),
            (u * s.abs()).sum(),
            tied.sum(), tied_weight.sum(), (tied_weight**2).sum(),
            full.sum(), full_weight.sum(), (full_weight**2).sum(),
        ])  # fmt: skip
        return sums, self.f.amin(), self.f.amax()

    def settled_densities(self) -> Tensor:
        """Return the densities of the last smoothing, shape (n,)."""
        assert self.centre is not None
        if self.has_kernels:
            return triton_standing.filled(self.operands, Asked.DENSITY, self.mu, self.lam)
        return self._filled(
            lambda rows, part: _densities(self.loss, part.expansion().s, self.centre[rows], self.mu, self.lam)  # type: ignore[index]
        )

    def strata(self) -> Tensor:
        """Return 1 for samples between the bounds of their density, 2 for those at the upper: int8, shape (n,).

        All others, and those at the upper that have no curvature, do not go into the Hessian: 0.
        """
        if self.has_kernels:
            return triton_standing.filled(self.operands, Asked.STRATUM, self.mu, self.lam)

        def stratum(rows: slice, part: TensorState) -> Tensor:
            s, slope, bend = part.expansion()
            size = _densities(self.loss, s, self.centre[rows], self.mu, self.lam).abs()  # type: ignore[index]
            full = (size >= 1.0) & self._enters(slope, bend)
            return torch.where(full, 2, ((size > 0.0) & (size < 1.0)).to(torch.int8)).to(torch.int8)

        return self._filled(stratum)

    def _enters(self, slope: Tensor, bend: Tensor) -> Tensor:
        """Say which samples, their density being at its upper bound, go into the Hessian, be it a cautious one."""
        return (bend > 0.0) | (slope != 0.0) if self.loss.kink is Kink.NONE else bend > 0.0

    def losses(self) -> Tensor:
        """Return the losses, shape (n,); those with a positive part without it."""
        if self.has_kernels:
            return triton_standing.filled(self.operands, Asked.LOSS)
        two_sided = self.loss.kink.is_two_sided
        return self._filled(lambda _, part: part.expansion().s.abs() if two_sided else part.expansion().s.clone())

    def slopes(self) -> Tensor:
        """Return the slopes of the smooth parts, shape (n,)."""
        if self.has_kernels:
            return triton_standing.filled(self.operands, Asked.SLOPE)
        return self._filled(lambda _, part: part.expansion().slope)

    def _filled(self, compute: Callable[[slice, TensorState], Tensor]) -> Tensor:
        parts = [compute(rows, part) for rows, part in self.parts()]
        return parts[0] if len(parts) == 1 else torch.cat(parts)


def _densities(loss: TensorLoss, s: Tensor, centre: Tensor, mu: float, lam: float) -> Tensor:
    """Return the densities at a smoothing around a centre and a threshold."""
    if not loss.kink.is_two_sided:
        # (s - lam) / mu, not s / mu - lam / mu: for small mu the latter cancels
        return (centre + (s - lam) / mu).clamp(0.0, 1.0)
    sign = torch.where(centre + s / mu < 0.0, -1.0, 1.0).to(s.dtype)
    return sign * (sign * centre + (sign * s - lam) / mu).clamp(0.0, 1.0)
