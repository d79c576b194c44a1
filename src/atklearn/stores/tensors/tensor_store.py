"""Rows as tensors on any device that has float64; they answer as the plain store does.

X is never copied as a whole. Beside it there are some numbers per row: predictions, those of a direction, the centre of
the densities, and what a pass writes for the next. Smooth parts, slopes and densities are not kept but computed anew
from the predictions wherever they are needed: on a device that costs less than to fetch them, and leaves the memory to
X. What crosses to the host is small, a few times per Newton step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
import torch
from scipy.linalg.lapack import dtrttf
from torch import Tensor

from atklearn.core.coordinates import Rotation, Units, helpful_units, is_worth_rotating, looked_at, rotate
from atklearn.core.packed import PackedSymmetric
from atklearn.core.point import Bound, Form, Gram, Reading, SettledSums, Sides
from atklearn.core.ranking import Between, rank
from atklearn.core.store import Gathered, Store, spread_places
from atklearn.losses.individual import Array, IndividualLoss, Kink
from atklearn.runtime.namespaces import is_quicker_on_host
from atklearn.stores.compiled import CompiledRows, tell_enough
from atklearn.stores.tensors.tensor_losses import TensorLoss
from atklearn.stores.tensors.tensor_matrix import TensorMatrix
from atklearn.stores.tensors.tensor_state import PickedRows, RowWeights, Stratum, TensorState
from atklearn.stores.tensors.triton_language import serves

__all__ = ["TensorRows", "TensorSubset", "largest_places"]

Numbers: TypeAlias = "Tensor | Array"
"""One number per row, of this store or of another one."""

# So many numbers of X take a device hardly longer than to be told to pass over them.
_MOMENT = 1 << 28
# Up to so many, places are drawn on the host, as for other rows; more are drawn on the device, which is quicker.
_FEW_PLACES = 1 << 16


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
        self.paid = TensorLoss(loss, X.device if serves(X) else None)
        self._conditioned: dict[bool, tuple[TensorRows, Units | Rotation] | None] = {}

    @cached_property
    def target_range(self) -> tuple[float, float]:  # type: ignore[override]
        """The smallest and the largest target."""
        least, most = torch.stack(torch.aminmax(self.y)).tolist()
        return float(least), float(most)

    # States

    def stand(self, z: Array, k: float, density: Numbers | None) -> TensorState:
        """Return the rows at z; where cold starts begin, without a pass over X."""
        f = self.predict(z) if z.any() else torch.zeros_like(self.mass)
        return self._at(k, f, None if density is None else self.matrix.tensor_of(density))

    def _at(self, k: float, f: Tensor, density: Tensor | None) -> TensorState:
        return TensorState(self.paid, self.y, self.mass, k, f, density=density)

    def predict(self, direction: Array) -> Tensor:
        """Return the predictions of a direction."""
        return self.matrix.predict(*self.split(direction))

    def moved(self, state: TensorState, t: float, along: Tensor) -> TensorState:
        """Return the rows at ``f + t along``, which is computed where it is needed."""
        return TensorState(self.paid, self.y, self.mass, state.k, state.f, t, along)

    def shifted(self, state: TensorState, amount: float) -> TensorState:
        """Return the rows at ``f + amount``."""
        return self._at(state.k, state.f + amount, self.densities(state))

    def densities(self, state: TensorState) -> Tensor:
        """Return the densities: as given, or of the last smoothing."""
        if state.density is None:
            if state.centre is None:
                state.density = self.matrix.tensor_of([self.alike(state.k)]).expand(self.n_rows)
            else:
                state.density = state.settled_densities()
        return state.density

    def prediction_range(self, state: TensorState) -> tuple[float, float]:
        """Return the smallest and the largest prediction."""
        if state.seen is not None:
            return state.seen.low, state.seen.high
        low, high = torch.stack(torch.aminmax(state.f)).tolist()
        return low, high

    # Smoothing

    def settle(
        self, state: TensorState, centre: Tensor, mu: float, lam: float, along: Tensor | None
    ) -> tuple[SettledSums, TensorState]:
        """Return the sums at a threshold, and the state with its pulls."""
        numbers, pulls = state.look(centre, mu, lam, along)
        return self._sums(state.k, numbers), state.settled(centre, mu, lam, numbers, pulls)

    def _sums(self, k: float, numbers: Array) -> SettledSums:
        return SettledSums(*[*numbers[:9].tolist(), self.total / k, *numbers[9:12].tolist()])

    def top(self, state: TensorState, centre: Tensor, mu: float) -> float:
        """Return the threshold above which every density is zero."""
        return state.top(centre, mu)

    def smoothed(
        self, state: TensorState, centre: Tensor, mu: float, guess: float, along: Tensor | None = None
    ) -> tuple[Reading, TensorState]:
        """Search by kernels that find out themselves where to look next, as long as nothing is out of the ordinary."""
        if state.has_kernels:
            numbers, pulls, guess, is_found = state.search(centre, mu, guess, along)
            if is_found:
                reading = Reading.of(guess, self._sums(state.k, numbers))
                return reading, state.settled(centre, mu, guess, numbers, pulls)
        return super().smoothed(state, centre, mu, guess, along)

    # Derivatives

    def pull(self, state: TensorState) -> Array:
        """Return ``X^T (u r s')``."""
        if state.pulls is None:
            state.pulls = self.mass / state.k * self.densities(state) * state.slopes()
        return self.matrix.pull_back(state.pulls)

    def gram(self, state: TensorState, mu: float, *, form: Form, cautious: bool, most: int | None, seed: int) -> Gram:
        """Return the weighted Gram matrix of a settled state."""
        everything = _HessianRows(self.matrix, state, mu, cautious, PickedRows())
        rows = replace(everything, picked=_pick(everything, most, seed))
        return _gram_of(rows, form)

    # Proof

    def sides(self, state: TensorState) -> Sides:
        """Return pulls and masses."""
        return state.sides(self.densities(state))

    def scaled(self, state: TensorState, up: float, down: float, level: float) -> TensorState:
        """Return the state with other densities, and their pulls."""
        return state.scaled(self.densities(state), up, down, level)

    @cached_property
    def largest_entries(self) -> Array:
        """The largest ``|x|`` of every column, the column of ones included."""
        return self.matrix.largest_entries()

    def bound(self, exact: TensorState, feasible: TensorState, lam: float) -> Bound:
        """Return the sums over all rows."""
        return exact.bound(feasible, lam)

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

    @property
    def is_gatherable(self) -> bool:  # type: ignore[override]
        """Whether the host's memory holds a copy of all, most likely."""
        return self.n_rows * self.n_columns <= _MOMENT

    def gathered(self) -> Gathered:
        """Return all rows on the host."""
        X = self.matrix.converted().cpu().numpy()
        y, mass = (numbers.double().cpu().numpy() for numbers in (self.y, self.mass))
        rows = CompiledRows(X, y, np.ascontiguousarray(mass), self.loss, self.ones is not None)
        return Gathered(rows, self.matrix.tensor_of)

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
                factor = self.matrix.tensor_of(rotation.factor)
                return self._like(factor, y_shifted, None), rotation.shifted(shift)
        return None if units is None else (self._like(self.X, y_shifted, units), units)

    def _like(self, X: Tensor, y: Tensor, units: Units | None, loss: IndividualLoss | None = None) -> TensorRows:
        return TensorRows(X, y, self.mass, loss or self.loss, self.ones is not None, units)

    def paying(self, loss: IndividualLoss) -> TensorRows:
        """Return the same samples with another loss."""
        return self._like(self.X, self.y, self.matrix.units, loss)

    def aiming_at(self, y: Tensor) -> TensorRows:
        """Return the same samples with other targets."""
        return self._like(self.X, y, self.matrix.units)

    def mean_square(self) -> float:
        """Return the mean of ``|x|^2`` over the mass."""
        squares = self.matrix.column_squares(self.mass)[: self.n_features]
        return float(squares.sum()) / self.total + (self.ones is not None)

    def holds(self, density: Numbers) -> bool:
        """Say whether densities are of as many rows."""
        return tuple(np.shape(density)) == (self.n_rows,)

    def blend(self, terms: Sequence[tuple[float, Numbers]], k: float) -> Tensor:
        """Return a linear combination of densities, made feasible."""
        out = terms[0][0] * self.matrix.tensor_of(terms[0][1])
        for factor, density in terms[1:]:
            out.add_(self.matrix.tensor_of(density), alpha=factor)
        out.clamp_(-1.0 if self.paid.kink.is_two_sided else 0.0, 1.0)
        size = float((self.mass * out.abs()).sum())
        return out.mul_(k / size) if size > k else out

    def sample_weights(self, density: Numbers, k: float) -> Tensor:
        """Return ``u |r|``."""
        return self.matrix.tensor_of(density).abs() * self.mass / k


def _each(mass: Tensor) -> float | None:
    """Return the mass of every row, if they are alike."""
    if mass.stride(0) == 0:
        return float(mass[0])
    least, most = torch.stack(torch.aminmax(mass)).tolist()
    return float(least) if least == most else None


def _between(losses: Tensor, mass: Tensor | None, low: float, high: float, share: float) -> Between:
    """Return what losses say of an interval; amounts are mass, or numbers if there is None.

    If few of those inside are wanted, the others do not come to the host.
    """
    above, ends = 0.0, [-np.inf, np.inf]
    is_everything = low == -np.inf and high == np.inf
    if not is_everything:
        is_above, is_inside = losses > high, (losses >= low) & (losses <= high)
        above = float((is_above if mass is None else mass * is_above).sum())
        losses, mass = losses[is_inside], None if mass is None else mass[is_inside]
    count = len(losses)
    step = -(-count // max(int(share * count), 1))
    told = losses[::step].cpu().numpy() if count else np.empty(0)
    if step <= 1:
        return Between.inside_of(above, told, np.ones(count) if mass is None else mass.cpu().numpy(), 1.0)
    if not is_everything:
        ends = torch.stack(torch.aminmax(losses)).tolist()
    amount = float(count) if mass is None else float(mass.sum())
    return Between(above, amount, count, told, np.full(told.size, amount / told.size), True, *ends)


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

    def restrict(self, density: Numbers) -> Numbers:
        """Return the densities of these rows."""
        picked = self.whole.matrix.tensor_of(density)[self.places]
        return picked.cpu().numpy() if isinstance(self.rows, CompiledRows) else picked

    def extend(self, density: Numbers) -> Tensor:
        """Return densities of all rows."""
        out = torch.zeros(self.whole.n_rows, dtype=torch.float64, device=self.places.device)
        out[self.places] = self.whole.matrix.tensor_of(density)
        return out


# The generalised Hessian of the smoothed loss: which rows go in, with which weights; as a matrix or by products

_RUN = 8  # neighbouring rows drawn together
_PART = 0.125  # of all rows: more are not worth to be looked for
# A device multiplies rows quicker than it gathers them: more than these tell nothing new.
_ENOUGH, _ENOUGH_PER_COLUMN = 1 << 20, 400
_BLOCK = 1 << 25  # numbers that are scaled at a time
_GOLDEN = 0.6180339887498949  # whose multiples are spread most evenly, as to their fractions


@dataclass(frozen=True)
class _HessianRows:
    """The rows of a Hessian, scaled block by block."""

    matrix: TensorMatrix
    at: TensorState
    mu: float
    cautious: bool
    picked: PickedRows

    @property
    def count(self) -> int:
        return self.matrix.n_rows if self.picked.places is None else len(self.picked.places)

    def weigh(self, begin: int, end: int) -> RowWeights:
        return self.at.weigh(self.mu, self.picked, begin, end, cautious=self.cautious)

    def blocks(self) -> Iterator[tuple[RowWeights, Tensor]]:
        """Yield weights of rows and the rows times the roots of these, shape (m, n_columns)."""
        size = max(_BLOCK // self.matrix.n_columns, 1)
        for begin in range(0, max(self.count, 1), size):
            weights = self.weigh(begin, min(begin + size, self.count))
            yield weights, self.matrix.scaled(self.picked.places, begin, weights.roots)


def _gram_of(rows: _HessianRows, form: Form) -> Gram:
    """Return the Gram matrix, whole or packed, or as the function v -> H v with its diagonal."""
    n, device = rows.matrix.n_columns, rows.matrix.X.device
    size = n if form == "product" else n * n
    numbers = torch.zeros(size + n + 1, dtype=torch.float64, device=device)  # which come to the host at once
    sums, pulls, ties = numbers[:size], numbers[size:-1], numbers[-1]
    for weights, scaled in rows.blocks():
        if form == "product":
            sums += (scaled**2).sum(0)
        else:
            sums.view(n, n).addmm_(scaled.T, scaled)
        pulls.addmv_(scaled.T, weights.ratios)
        ties += weights.ties.sum()
    found = numbers.cpu().numpy()
    told = Gram(found[size:-1], float(found[-1]), rows.picked.is_sampled)
    if form == "product":
        return told._replace(product=lambda v: _product(rows, v), diagonal=found[:size])
    H = found[:size].reshape(n, n)
    if form == "matrix":
        return told._replace(matrix=H)
    packed = PackedSymmetric(n)
    packed.numbers = dtrttf(H, uplo="L")[0]
    return told._replace(packed=packed)


def _product(rows: _HessianRows, v: Array) -> Array:
    """Return H v: one pass over the rows."""
    vector = rows.matrix.tensor_of(v)
    out = torch.zeros_like(vector)
    for _, scaled in rows.blocks():
        out += scaled.T @ (scaled @ vector)
    return np.asarray(out.cpu().numpy())


def _pick(everything: _HessianRows, most: int | None, seed: int) -> PickedRows:
    """Return the rows that have weight: all, or about ``most`` of either stratum."""
    at, seen = everything.at, everything.at.seen
    assert seen is not None
    tied, full = strata = seen.tied, seen.full
    n, columns, count = len(at.f), everything.matrix.n_columns, tied.n_rows + full.n_rows
    if most is None or count <= most:
        if count > _PART * n:
            return PickedRows()
        return PickedRows(torch.nonzero(at.strata()).ravel(), count)
    most = min(most, max(_ENOUGH, _ENOUGH_PER_COLUMN * columns))
    shift = np.random.default_rng(seed).random()
    if any(
        stratum.n_rows > most and not tell_enough(most, columns, stratum.n_rows, stratum.weight, stratum.square)
        for stratum in strata
    ):
        return _pick_by_weight(everything, strata, most, shift)
    if tied.n_rows > max(most, _PART * n):  # so many that draws from all rows meet enough of them
        drawn, scale = _draw(n, 2 * most * n // count, shift, at.f.device)
        return PickedRows(drawn, 0, (0.0, 0.0, scale, scale), is_sampled=True)
    codes = at.strata()
    listed = torch.nonzero(codes == 1).ravel()
    drawn, scale_tied = _draw(len(listed), most, shift, at.f.device)
    some_tied = listed[drawn]
    if full.n_rows > max(most, _PART * n):
        some_full, scale_full = _draw(n, most * n // full.n_rows, shift, at.f.device)
    else:
        listed = torch.nonzero(codes == 2).ravel()
        drawn, scale_full = _draw(len(listed), most, shift, at.f.device)
        some_full = listed[drawn]
    places = torch.cat([some_tied, some_full])
    return PickedRows(places, len(some_tied), (scale_tied, 0.0, 0.0, scale_full), is_sampled=True)


def _pick_by_weight(everything: _HessianRows, strata: tuple[Stratum, Stratum], most: int, shift: float) -> PickedRows:
    """Return rows drawn as often as they weigh: where few carry the weight, others would tell next to nothing."""
    weights = everything.weigh(0, everything.count)
    h, is_tied = weights.roots**2, weights.ties > 0.0
    del weights
    picked = []
    for stratum, members in zip(strata, (is_tied, ~is_tied), strict=True):
        own = torch.where(members, h, 0.0)
        if stratum.n_rows <= most:
            places = torch.nonzero(own).ravel()
            picked.append((places, torch.ones_like(places, dtype=torch.float64)))
        else:
            picked.append(_draw_by_weight(own, most, shift))
    places, scales = (torch.cat(parts) for parts in zip(*picked, strict=True))
    return PickedRows(places, own=scales, is_sampled=True)


def _draw_by_weight(h: Tensor, count: int, shift: float) -> tuple[Tensor, Tensor]:
    """Draw places as often as they weigh; return how many each stands for, too."""
    ends = torch.cumsum(h, 0)
    steps = torch.arange(count, dtype=torch.float64, device=h.device)
    # one from each of as many equal parts of the weight, at places in these that follow no pattern
    along = steps + (shift + _GOLDEN * steps) % 1.0
    places = torch.searchsorted(ends, along * (ends[-1] / count), right=True).clamp_(max=len(h) - 1)
    drawn = h[places]
    return places, torch.where(drawn > 0.0, ends[-1] / count / drawn, 0.0)


def _draw(n: int, count: int, shift: float, device: torch.device) -> tuple[Tensor, float]:
    """Draw about so many of n places, in short runs from equal parts; return how many each stands for, too."""
    if count >= n:
        return torch.arange(n, device=device), 1.0
    runs, length = max(count // _RUN, 1), min(_RUN, n)
    steps = torch.arange(runs, dtype=torch.float64, device=device)
    # one shift for all runs: random numbers for each would have to come from the host
    starts = ((steps + shift) * ((n - length) / runs)).long()
    places = (starts[:, None] + torch.arange(length, device=device)).ravel()
    return places, n / len(places)
