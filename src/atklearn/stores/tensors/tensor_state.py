# mypy: disable-error-code="no-untyped-def, attr-defined, index, no-any-return"
# ruff: noqa: ARG001, of kernels that all take the same operands
"""All rows at one z and one k, and the passes over them, on tensors and as kernels of an NVIDIA GPU.

Of every sample a pass reads prediction (and that of the direction of a ray), target, centre and mass, each once.
Losses, slopes and densities are made on the way, in the registers of a GPU, and sums come out. What a pass computes of
a sample is written once, for tensors and for kernels; a kernel is what loads samples and adds up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from atklearn.core.point import LEAST_ROUNDING, ROUNDING, ROUNDING_PER_ROW, Bound, Sides
from atklearn.losses.individual import Array
from atklearn.stores.tensors.tensor_losses import Expansion, TensorLoss, on_tensors, written_once
from atklearn.stores.tensors.triton_language import constant, jit, launch, processors, tl

__all__ = ["PickedRows", "RowWeights", "Seen", "Stratum", "TensorState"]

# Samples at a time: so that what is computed on the way stays small beside X, on a CPU in the cache.
_CPU_BLOCK, _GPU_BLOCK = 1 << 15, 1 << 22
# Samples that a program takes at a time; those that add up are as many for each multiprocessor as its registers hold.
_LOOK_BLOCK, _SUM_BLOCK, _EACH_BLOCK, _PROGRAMS = 128, 256, 1024, 5
_N_SUMS = 32  # that a program leaves at most, the last two of them maxima
_PARTS = 64  # programs whose sums are added up at a time

# What a search knows: where it looks, the ends of the bracket, whether zero was looked at, what to do, looks so far.
_LAM, _LOW, _HIGH, _SEEN_ZERO, _TASK, _LOOKS = (constant(place) for place in range(6))
_N_KNOWN = 6
_GO_ON, _FOUND, _GIVE_UP = (constant(float(task)) for task in range(3))
# Looks that are asked for before the host hears of them: more are seldom needed, and those in vain cost little.
_AHEAD = 4


# What is computed of samples: smooth parts s of their losses, slopes, curvatures ("bends"), densities r, u = mass / k


@written_once
def density_of(two_sided, s, centre, inverse_mu, lam):
    """Return the densities at a smoothing around a centre and a threshold."""
    if two_sided:
        side = np.where(centre + s * inverse_mu < 0.0, -1.0, 1.0)
        r = side * np.minimum(np.maximum(side * centre + (side * s - lam) * inverse_mu, 0.0), 1.0)
    else:  # (s - lam) / mu, not s / mu - lam / mu: for small mu the latter cancels
        r = np.minimum(np.maximum(centre + (s - lam) * inverse_mu, 0.0), 1.0)
    return r


@written_once
def loss_of(two_sided, s):
    """Return the losses, those with a positive part without it."""
    return np.abs(s) if two_sided else s


@written_once
def is_tied(r):
    """Say which densities are strictly between their bounds."""
    return (np.abs(r) > 0.0) & (np.abs(r) < 1.0)


@written_once
def is_full(smooth, r, slope, bend):
    """Say which densities are at their upper bound, of samples that go into the Hessian, be it a cautious one."""
    enters = (bend > 0.0) | (slope != 0.0) if smooth else bend > 0.0
    return (np.abs(r) >= 1.0) & enters


@written_once
def sums_of(two_sided, smooth, s, slope, bend, centre, u, along, inverse_mu, lam):
    """Return the pulls ``u r s'``, and what is added up: see :meth:`TensorState.look`."""
    r = density_of(two_sided, s, centre, inverse_mu, lam)
    size, over = np.abs(r), np.maximum(loss_of(two_sided, s) - lam, 0.0)
    a, value, distance = u * r * slope, u * np.abs(r * s), s - lam
    tied, full = is_tied(r) & (u > 0.0), is_full(smooth, r, slope, bend) & (u > 0.0)
    tied_weight = np.where(tied, u * (size * bend + slope * slope * inverse_mu), 0.0)
    full_weight = np.where(full, u * bend, 0.0)
    return (
        a, u * over, u * (over - (r * s - lam * size)), u * size, np.where(tied, u, 0.0), np.maximum(a, 0.0),
        np.maximum(-a, 0.0), np.where(a > 0.0, value, 0.0), np.where(a < 0.0, value, 0.0), a * along, u * distance,
        u * distance * distance, u * np.abs(s), np.where(tied, 1.0, 0.0), tied_weight, tied_weight * tied_weight,
        np.where(full, 1.0, 0.0), full_weight, full_weight * full_weight,
    )  # fmt: skip


@written_once
def sides_of(slope, r, u):
    """Return what :class:`Sides` adds up."""
    side, weight = r * slope, u * np.abs(r)
    pull, push = np.maximum(u * side, 0.0), np.maximum(-u * side, 0.0)
    up, down = np.where(side > 0.0, weight, 0.0), np.where(side < 0.0, weight, 0.0)
    return pull, push, up, down, np.where(side == 0.0, weight, 0.0)


@written_once
def scaled_of(slope, r, up, down, level):
    """Return the densities of each side times its factor."""
    side = r * slope
    return r * np.where(side > 0.0, up, np.where(side < 0.0, down, level))


@written_once
def bound_of(two_sided, s, before, r, u, lam):
    """Return what :class:`Bound` adds up, but for the slope of the tangents."""
    size, over = np.abs(r), np.maximum(loss_of(two_sided, s) - lam, 0.0)
    return u * over, u * (over - (r * s - lam * size)), u * size, u * r * (s - before)


@written_once
def weights_of(cautious, s, slope, bend, r, u, inverse_mu, is_listed, tied_a, full_a, tied_b, full_b):
    """Return the fields of :class:`RowWeights`; the factors are those of rows that are listed, then of the others."""
    if cautious:  # 1e-300 is too small to be taken for a float32
        bend = np.maximum(bend, slope * slope / np.maximum(2.0 * s, 1e-300))
    tied = is_tied(r)
    u = u * np.where(tied, np.where(is_listed, tied_a, tied_b), np.where(is_listed, full_a, full_b))
    root = np.sqrt(u * np.abs(r) * bend + np.where(tied, u * slope * slope * inverse_mu, 0.0))
    pull = np.where(tied, u * slope * np.where(r < 0.0, -1.0, 1.0), 0.0)
    ratio = np.where(root > 0.0, pull / np.where(root > 0.0, root, 1.0), 0.0)
    return root, ratio, np.where(tied, u, 0.0)


# Kernels


@jit
def _expanded(expand, parameters, at, y, mass, inverse_k, places, inside, mass_stride):
    target = tl.load(y + places, mask=inside, other=0).to(tl.float64)
    u = tl.load(mass + places * mass_stride, mask=inside, other=0.0) * inverse_k
    s, slope, bend = expand(parameters, at, target)
    return u, s, slope, bend


@jit
def _leave(out, a, b, c, d, e, f):
    tl.store(out, tl.sum(a, 0))
    tl.store(out + 1, tl.sum(b, 0))
    tl.store(out + 2, tl.sum(c, 0))
    tl.store(out + 3, tl.sum(d, 0))
    tl.store(out + 4, tl.sum(e, 0))
    tl.store(out + 5, tl.sum(f, 0))


@jit
def _look(
    expand: tl.constexpr, two_sided: tl.constexpr, smooth: tl.constexpr, parameters, f, y, centre, mass,
    inverse_k: tl.float64, n, centre_stride, mass_stride,
    inverse_mu: tl.float64, guess: tl.float64, known, t: tl.float64, along, pulls, out,
    has_along: tl.constexpr, n_sums: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    lam = tl.where(tl.load(known + _LOOKS) == 0.0, guess, tl.load(known + _LAM))
    n_blocks = tl.where(tl.load(known + _TASK) == _GO_ON, tl.cdiv(n, block), 0)
    nothing = tl.zeros([block], dtype=tl.float64)
    above, slack, size, moving, pull, push = nothing, nothing, nothing, nothing, nothing, nothing
    pull_value, push_value, steepness, first, second, length = nothing, nothing, nothing, nothing, nothing, nothing
    tied, tied_weight, tied_square = nothing, nothing, nothing
    full, full_weight, full_square = nothing, nothing, nothing
    low, high = nothing + float("-inf"), nothing + float("-inf")
    for part in range(tl.program_id(0), n_blocks, tl.num_programs(0)):
        places = tl.cast(part, tl.int64) * block + tl.arange(0, block)
        inside = places < n
        at, way = tl.load(f + places, mask=inside, other=0.0), nothing
        if has_along:
            way = tl.load(along + places, mask=inside, other=0.0)
            at += t * way
        middle = tl.load(centre + places * centre_stride, mask=inside, other=0.0)
        u, s, slope, bend = _expanded(expand, parameters, at, y, mass, inverse_k, places, inside, mass_stride)
        a, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18 = sums_of(
            two_sided, smooth, s, slope, bend, middle, u, way, inverse_mu, lam
        )
        tl.store(pulls + places, a, mask=inside)
        above += a1
        slack += a2
        size += a3
        moving += a4
        pull += a5
        push += a6
        pull_value += a7
        push_value += a8
        steepness += a9
        first += a10
        second += a11
        length += a12
        tied += a13
        tied_weight += a14
        tied_square += a15
        full += a16
        full_weight += a17
        full_square += a18
        low = tl.maximum(low, tl.where(inside, -at, float("-inf")))
        high = tl.maximum(high, tl.where(inside, at, float("-inf")))
    out += tl.program_id(0) * n_sums
    _leave(out, above, slack, size, moving, pull, push)
    _leave(out + 6, pull_value, push_value, steepness, first, second, length)
    _leave(out + 12, tied, tied_weight, tied_square, full, full_weight, full_square)
    tl.store(out + n_sums - 2, tl.max(low, 0))
    tl.store(out + n_sums - 1, tl.max(high, 0))


@jit
def _narrow(
    partial, n_parts, guess: tl.float64, mu: tl.float64, enough: tl.float64, rounding: tl.float64, known, out,
    n_sums: tl.constexpr, parts: tl.constexpr,
):  # fmt: skip
    """Add up what was seen, and say where to look next.

    This is :func:`atklearn.core.point.narrow` once more: the host would have to wait for the device at every look to
    decide by its own. Triton takes none of its early returns, so that neither can be had from the other; a test holds
    them together.
    """
    if tl.load(known + _TASK) == _GO_ON:
        columns = tl.arange(0, n_sums)
        sums, most = tl.zeros([parts, n_sums], dtype=tl.float64), tl.full([parts, n_sums], float("-inf"), tl.float64)
        for begin in range(0, n_parts, parts):
            rows = begin + tl.arange(0, parts)
            inside = (rows < n_parts)[:, None]
            left = tl.load(partial + rows[:, None] * n_sums + columns[None, :], mask=inside, other=0.0)
            sums += left
            most = tl.maximum(most, tl.where(inside, left, float("-inf")))
        numbers = tl.where(columns < n_sums - 2, tl.sum(sums, 0), tl.max(most, 0))
        tl.store(out + columns, numbers)
        total, free = tl.sum(tl.where(columns == 2, numbers, 0.0), 0), tl.sum(tl.where(columns == 3, numbers, 0.0), 0)
        looks = tl.load(known + _LOOKS)
        lam = tl.where(looks == 0.0, guess, tl.load(known + _LAM))
        high = tl.where(looks == 0.0, float("inf"), tl.load(known + _HIGH))
        low = tl.where(total > 1.0, lam, tl.load(known + _LOW))
        high = tl.where(total > 1.0, high, lam)
        seen_zero = (tl.load(known + _SEEN_ZERO) > 0.0) | (lam == 0.0)
        following = lam + (total - 1.0) * mu / tl.where(free > 0.0, free, 1.0)
        is_found = (tl.abs(total - 1.0) <= enough) | ((lam == 0.0) & (total <= 1.0 + rounding))
        is_found = is_found | ((free > 0.0) & (following == lam))
        is_inside = (free > 0.0) & (low < following) & (following < high)
        is_zero = (seen_zero == 0) & (total <= 1.0)
        is_lost = (is_inside == 0) & (is_zero == 0) & (high == float("inf"))
        is_narrow = (high < float("inf")) & (high - low <= 1e-16 * high)
        following = tl.where(is_inside, following, tl.where(is_zero, 0.0, 0.5 * (low + high)))
        tl.store(known + _LAM, tl.where(is_found | is_lost, lam, following))
        tl.store(known + _LOW, low)
        tl.store(known + _HIGH, high)
        tl.store(known + _SEEN_ZERO, tl.where(seen_zero, 1.0, 0.0))
        tl.store(known + _TASK, tl.where(is_found, _FOUND, tl.where(is_lost | is_narrow, _GIVE_UP, _GO_ON)))
        tl.store(known + _LOOKS, looks + 1.0)


@jit
def _fill(
    expand: tl.constexpr, two_sided: tl.constexpr, smooth: tl.constexpr, parameters, f, y, centre, mass,
    inverse_k: tl.float64, n, centre_stride, mass_stride,
    what: tl.constexpr, inverse_mu: tl.float64, lam: tl.float64, out, block: tl.constexpr,
):  # fmt: skip
    places = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = places < n
    at = tl.load(f + places, mask=inside, other=0.0)
    target = tl.load(y + places, mask=inside, other=0).to(tl.float64)
    s, slope, bend = expand(parameters, at, target)
    if what == "loss":
        tl.store(out + places, loss_of(two_sided, s), mask=inside)
    elif what == "slope":
        tl.store(out + places, slope, mask=inside)
    else:
        middle = tl.load(centre + places * centre_stride, mask=inside, other=0.0)
        r = density_of(two_sided, s, middle, inverse_mu, lam)
        if what == "density":
            tl.store(out + places, r, mask=inside)
        else:
            stratum = tl.where(is_full(smooth, r, slope, bend), 2, tl.where(is_tied(r), 1, 0))
            tl.store(out + places, stratum.to(tl.int8), mask=inside)


@jit
def _weigh_rows(
    expand: tl.constexpr, two_sided: tl.constexpr, smooth: tl.constexpr, parameters, f, y, centre, mass,
    inverse_k: tl.float64, n, centre_stride, mass_stride,
    cautious: tl.constexpr, inverse_mu: tl.float64, lam: tl.float64, rows, own, first, n_listed,
    tied_a: tl.float64, full_a: tl.float64, tied_b: tl.float64, full_b: tl.float64, roots, ratios, ties, m,
    has_rows: tl.constexpr, has_own: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    drawn = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = drawn < m
    places = first + drawn
    if has_rows:
        places = tl.load(rows + places, mask=inside, other=0)
    at = tl.load(f + places, mask=inside, other=0.0)
    middle = tl.load(centre + places * centre_stride, mask=inside, other=0.0)
    u, s, slope, bend = _expanded(expand, parameters, at, y, mass, inverse_k, places, inside, mass_stride)
    if has_own:
        u *= tl.load(own + first + drawn, mask=inside, other=0.0)
    r = density_of(two_sided, s, middle, inverse_mu, lam)
    root, ratio, tie = weights_of(
        cautious, s, slope, bend, r, u, inverse_mu, first + drawn < n_listed, tied_a, full_a, tied_b, full_b
    )
    tl.store(roots + drawn, root, mask=inside)
    tl.store(ratios + drawn, ratio, mask=inside)
    tl.store(ties + drawn, tie, mask=inside)


@jit
def _weigh_sides(
    expand: tl.constexpr, two_sided: tl.constexpr, smooth: tl.constexpr, parameters, f, y, centre, mass,
    inverse_k: tl.float64, n, centre_stride, mass_stride,
    r, r_stride, out, block: tl.constexpr,
):  # fmt: skip
    nothing = tl.zeros([block], dtype=tl.float64)
    pull, push, up, down, level = nothing, nothing, nothing, nothing, nothing
    for part in range(tl.program_id(0), tl.cdiv(n, block), tl.num_programs(0)):
        places = tl.cast(part, tl.int64) * block + tl.arange(0, block)
        inside = places < n
        at = tl.load(f + places, mask=inside, other=0.0)
        density = tl.load(r + places * r_stride, mask=inside, other=0.0)
        u, _, slope, _ = _expanded(expand, parameters, at, y, mass, inverse_k, places, inside, mass_stride)
        a, b, c, d, e = sides_of(slope, density, u)
        pull += a
        push += b
        up += c
        down += d
        level += e
    _leave(out + tl.program_id(0) * 6, pull, push, up, down, level, nothing)


@jit
def _scale_sides(
    expand: tl.constexpr, two_sided: tl.constexpr, smooth: tl.constexpr, parameters, f, y, centre, mass,
    inverse_k: tl.float64, n, centre_stride, mass_stride,
    given, given_stride, up: tl.float64, down: tl.float64, level: tl.float64, r, a, block: tl.constexpr,
):  # fmt: skip
    places = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = places < n
    at = tl.load(f + places, mask=inside, other=0.0)
    density = tl.load(given + places * given_stride, mask=inside, other=0.0)
    u, _, slope, _ = _expanded(expand, parameters, at, y, mass, inverse_k, places, inside, mass_stride)
    density = scaled_of(slope, density, up, down, level)
    tl.store(r + places, density, mask=inside)
    tl.store(a + places, u * density * slope, mask=inside)


@jit
def _bound(
    expand: tl.constexpr, two_sided: tl.constexpr, smooth: tl.constexpr, parameters, f, y, centre, mass,
    inverse_k: tl.float64, n, centre_stride, mass_stride,
    then, r, lam: tl.float64, has_moved: tl.constexpr, out, block: tl.constexpr,
):  # fmt: skip
    nothing = tl.zeros([block], dtype=tl.float64)
    above, slack, size, change = nothing, nothing, nothing, nothing
    for part in range(tl.program_id(0), tl.cdiv(n, block), tl.num_programs(0)):
        places = tl.cast(part, tl.int64) * block + tl.arange(0, block)
        inside = places < n
        at = tl.load(f + places, mask=inside, other=0.0)
        density = tl.load(r + places, mask=inside, other=0.0)
        u, s, _, _ = _expanded(expand, parameters, at, y, mass, inverse_k, places, inside, mass_stride)
        before = s
        if has_moved:
            at = tl.load(then + places, mask=inside, other=0.0)
            _, before, _, _ = _expanded(expand, parameters, at, y, mass, inverse_k, places, inside, mass_stride)
        a, b, c, d = bound_of(two_sided, s, before, density, u, lam)
        above += a
        slack += b
        size += c
        change += d
    _leave(out + tl.program_id(0) * 6, above, slack, size, change, nothing, nothing)


# States


class Stratum(NamedTuple):
    """Samples that go into the Hessian: how many, the sum of their weights there, and that of the squares of these."""

    n_rows: int
    weight: float
    square: float


class Seen(NamedTuple):
    """What a smoothing has seen beside its sums."""

    tied: Stratum
    """The samples between the bounds of their density,"""
    full: Stratum
    """and those at the upper."""
    low: float
    high: float
    """The smallest and the largest prediction."""


class PickedRows(NamedTuple):
    """Rows that go into the Hessian."""

    places: Tensor | None = None
    """Which; None for all."""
    n_listed: int = 0
    """So many of them were picked for their density, the others drawn whatever it is."""
    scales: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)
    """How many rows stand for one that is tied, and for one that is full: among those picked, then those drawn."""
    own: Tensor | None = None
    """How many stand for each, beside these scales."""
    is_sampled: bool = False


class RowWeights(NamedTuple):
    """Of rows: the roots of their weights ``h`` in the Hessian, pulls over roots, and masses of the tied ones."""

    roots: Tensor
    ratios: Tensor
    ties: Tensor


class TensorState:
    """All rows at one z and one k.

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
        self.seen: Seen | None = None

    @property
    def f(self) -> Tensor:
        """The predictions."""
        if self.direction is not None:
            self.start, self.direction = torch.add(self.start, self.direction, alpha=self.t), None
        return self.start

    def settled(self, centre: Tensor, mu: float, lam: float, numbers: Array, pulls: Tensor) -> TensorState:
        """Return the state with the densities at a threshold, of which :meth:`look` has said these numbers."""
        state = TensorState(self.loss, self.y, self.mass, self.k, self.start, self.t, self.direction, pulls=pulls)
        state.centre, state.mu, state.lam = centre, mu, lam
        tied, full = (Stratum(int(part[0]), part[1], part[2]) for part in (numbers[12:15], numbers[15:18]))
        state.seen = Seen(tied, full, -float(numbers[-2]), float(numbers[-1]))
        return state

    # What kernels and blocks take

    @property
    def has_kernels(self) -> bool:
        """Whether passes over these samples are kernels of a GPU."""
        return self.loss.kernels is not None

    def _operands(self, f: Tensor, centre: Tensor | None) -> tuple[object, ...]:
        """Return what every kernel takes first; without a centre none counts."""
        assert self.loss.kernels is not None
        centre = self.mass if centre is None else centre
        strides = centre.stride(0), self.mass.stride(0)
        return (*self.loss.kernels, f, self.y, centre, self.mass, 1.0 / self.k, len(f), *strides)

    def _partial(self, block: int, n_sums: int) -> Tensor:
        """Return room for the sums of as many programs as share the samples."""
        n, device = len(self.start), self.start.device
        programs = max(min(_PROGRAMS * processors(device), -(-n // block)), 1)
        return torch.empty((programs, n_sums), dtype=torch.float64, device=device)

    def _sums_by(self, kernel: object, *arguments: object) -> list[float]:
        """Return the six sums that a kernel leaves."""
        partial = self._partial(_SUM_BLOCK, 6)
        operands = *self._operands(self.f, None), *arguments
        launch(kernel, (len(partial),), partial.device, *operands, partial, _SUM_BLOCK)
        sums: list[float] = partial.sum(0).tolist()
        return sums

    def _line(self, along: Tensor | None) -> tuple[Tensor, float]:
        """Return where the samples start along a direction, and how far along they are."""
        return (self.f, 0.0) if along is None or self.direction is None else (self.start, self.t)

    def _blocks(self) -> Iterator[slice]:
        """Yield the samples in blocks; none are one block."""
        n, size = len(self.start), _CPU_BLOCK if self.start.device.type == "cpu" else _GPU_BLOCK
        for begin in range(0, max(n, 1), size):
            yield slice(begin, min(begin + size, n))

    def _sums_over(self, terms: Callable[[slice], Sequence[Tensor]]) -> list[float]:
        """Return the sums of terms, block by block."""
        parts = [torch.stack([each.sum() for each in terms(rows)]) for rows in self._blocks()]
        sums: list[float] = torch.stack(parts).sum(0).tolist()
        return sums

    def _expanded(self, rows: slice | Tensor) -> Expansion:
        return self.loss.expand(self.f[rows], self.y[rows])

    # Passes that add up

    def look(self, centre: Tensor, mu: float, lam: float, along: Tensor | None) -> tuple[Array, Tensor]:
        """Return what the samples add up to at a threshold, and the pulls ``u r s'`` there.

        The numbers are the fields of :class:`atklearn.core.point.SettledSums` in their order, without ``total``; those
        of the strata of :class:`Seen`; and last, minus the least and the largest prediction.
        """
        if self.has_kernels:
            numbers, pulls, _, _ = self.search(centre, mu, lam, along, most=1)
            return numbers, pulls
        start, t = self._line(along)
        sums, ends, pulls = [], [], torch.empty_like(start)
        for rows in self._blocks():
            way = 0.0 if along is None else along[rows]
            f = torch.add(start[rows], way, alpha=t) if t else start[rows]
            pulls[rows], *terms = on_tensors.sums_of(
                self.loss.two_sided, self.loss.smooth, *self.loss.expand(f, self.y[rows]), centre[rows],
                self.mass[rows] / self.k, way, 1.0 / mu, lam,
            )  # fmt: skip
            sums.append(torch.stack([each.sum() for each in terms]))
            ends.append(torch.stack([-f.amin(), f.amax()]))
        numbers = torch.cat([torch.stack(sums).sum(0), torch.stack(ends).amax(0)])
        return np.asarray(numbers.cpu().numpy()), pulls

    def search(
        self, centre: Tensor, mu: float, guess: float, along: Tensor | None, most: int = 100
    ) -> tuple[Array, Tensor, float, bool]:
        """Look for the threshold by kernels that find out themselves where to look next, ``most`` times.

        Return what :meth:`look` says, with some numbers of no meaning before the last two; the threshold, and whether
        it is found: if not, something out of the ordinary is to be looked at by the host.
        """
        (f, t), n, device = self._line(along), len(self.start), self.start.device
        pulls, partial = torch.empty_like(f), self._partial(_LOOK_BLOCK, _N_SUMS)
        told = torch.zeros(_N_SUMS + _N_KNOWN, dtype=torch.float64, device=device)
        known, asked, enough = told[_N_SUMS:], 0, max(LEAST_ROUNDING, ROUNDING_PER_ROW * n)
        while True:
            ahead = min(_AHEAD, most - asked) if asked or guess > 0.0 else 1
            for _ in range(ahead):
                launch(
                    _look, (len(partial),), device, *self._operands(f, centre), 1.0 / mu, guess, known, t,
                    f if along is None else along, pulls, partial, along is not None, _N_SUMS, _LOOK_BLOCK,
                )  # fmt: skip
                launch(
                    _narrow, (1,), device,
                    partial, len(partial), guess, mu, enough, ROUNDING, known, told, _N_SUMS, _PARTS,
                )  # fmt: skip
            asked += ahead
            numbers = told.cpu().numpy()
            lam, _, _, _, task, _ = numbers[_N_SUMS:].tolist()
            if task != 0.0 or asked >= most:  # neither to go on nor allowed to
                return numbers[:_N_SUMS], pulls, lam, task == 1.0

    def top(self, centre: Tensor, mu: float) -> float:
        """Return the threshold above which every density is zero."""
        lines = [self._expanded(rows).s + mu * centre[rows] for rows in self._blocks()]
        tops = [on_tensors.loss_of(self.loss.two_sided, line).amax() for line in lines]
        return max(float(torch.stack(tops).amax()), 0.0)

    def sides(self, density: Tensor) -> Sides:
        """Return how hard densities pull at the column of ones, and their mass."""

        def terms(rows: slice) -> Sequence[Tensor]:
            u = self.mass[rows] / self.k
            return on_tensors.sides_of(self._expanded(rows).slope, density[rows], u)

        if self.has_kernels:
            return Sides(*self._sums_by(_weigh_sides, density, density.stride(0))[:5])
        return Sides(*self._sums_over(terms))

    def scaled(self, density: Tensor, up: float, down: float, level: float) -> TensorState:
        """Return the state with the densities of either side and of none times a factor, and their pulls."""
        r, a = torch.empty_like(self.f), torch.empty_like(self.f)
        if self.has_kernels:
            operands = *self._operands(self.f, None), density, density.stride(0), up, down, level
            launch(_scale_sides, (-(-len(r) // _SUM_BLOCK),), r.device, *operands, r, a, _SUM_BLOCK)
        else:
            for rows in self._blocks():
                slope = self._expanded(rows).slope
                r[rows] = on_tensors.scaled_of(slope, density[rows], up, down, level)
                torch.mul(self.mass[rows] / self.k * r[rows], slope, out=a[rows])
        return TensorState(self.loss, self.y, self.mass, self.k, self.f, density=r, pulls=a)

    def bound(self, feasible: TensorState, lam: float) -> Bound:
        """Return what the densities of another state leave at a threshold, of the losses here."""
        r, a, then = feasible.density, feasible.pulls, feasible.f
        assert r is not None
        assert a is not None

        def terms(rows: slice) -> Sequence[Tensor]:
            before = self.loss.expand(then[rows], self.y[rows]).s
            u = self.mass[rows] / self.k
            return on_tensors.bound_of(self.loss.two_sided, self._expanded(rows).s, before, r[rows], u, lam)

        has_moved = then is not self.f
        found = self._sums_by(_bound, then, r, lam, has_moved) if self.has_kernels else self._sums_over(terms)
        above, slack, mass, change = found[:4]
        steepness = self.slopes().abs_().mul_(self.mass).sum() / self.k
        sums = torch.stack([(a * (self.f - then)).sum(), steepness, a.abs().sum()]).tolist()
        return Bound(above, slack, mass, change - sums[0], steepness=sums[1], pull=sums[2])

    # Passes that say something of every sample

    def losses(self) -> Tensor:
        """Return the losses, shape (n,); those with a positive part without it."""
        return self._filled("loss")

    def slopes(self) -> Tensor:
        """Return the slopes of the smooth parts, shape (n,)."""
        return self._filled("slope")

    def settled_densities(self) -> Tensor:
        """Return the densities of the last smoothing, shape (n,)."""
        return self._filled("density")

    def strata(self) -> Tensor:
        """Return 1 for samples between the bounds of their density, 2 for those at the upper: int8, shape (n,).

        All others, and those at the upper that have no curvature, do not go into the Hessian: 0.
        """
        return self._filled("stratum")

    def _filled(self, what: str) -> Tensor:
        out = torch.empty(len(self.f), dtype=torch.int8 if what == "stratum" else torch.float64, device=self.f.device)
        if self.has_kernels:
            operands = *self._operands(self.f, self.centre), what, 1.0 / self.mu, self.lam
            launch(_fill, (-(-len(out) // _EACH_BLOCK),), out.device, *operands, out, _EACH_BLOCK)
            return out
        for rows in self._blocks():
            s, slope, bend = self._expanded(rows)
            if what == "loss":
                out[rows] = on_tensors.loss_of(self.loss.two_sided, s)
            elif what == "slope":
                out[rows] = slope
            else:
                r = self._densities(s, rows)
                full = on_tensors.is_full(self.loss.smooth, r, slope, bend)
                out[rows] = r if what == "density" else 2 * full + on_tensors.is_tied(r)
        return out

    def _densities(self, s: Tensor, rows: slice | Tensor) -> Tensor:
        """Return the densities of some samples at the last smoothing, by the smooth parts of their losses."""
        assert self.centre is not None
        found: Tensor = on_tensors.density_of(self.loss.two_sided, s, self.centre[rows], 1.0 / self.mu, self.lam)
        return found

    def weigh(self, mu: float, picked: PickedRows, begin: int, end: int, *, cautious: bool) -> RowWeights:
        """Return the weights in the Hessian of the rows numbered from begin to end, of those picked."""
        cautious, m = cautious and self.loss.smooth, end - begin
        places, own = picked.places, picked.own
        if self.has_kernels:
            roots, ratios, ties = torch.empty((3, m), dtype=torch.float64, device=self.f.device)
            launch(
                _weigh_rows, (-(-m // _SUM_BLOCK),), self.f.device, *self._operands(self.f, self.centre),
                cautious, 1.0 / mu, self.lam, self.f if places is None else places, self.f if own is None else own,
                begin, picked.n_listed, *picked.scales, roots, ratios, ties, m, places is not None, own is not None,
                _SUM_BLOCK,
            )  # fmt: skip
            return RowWeights(roots, ratios, ties)
        rows = slice(begin, end) if places is None else places[begin:end]
        s, slope, bend = self._expanded(rows)
        u = self.mass[rows] / self.k if own is None else self.mass[rows] / self.k * own[begin:end]
        is_listed = torch.arange(begin, begin + len(u), device=u.device) < picked.n_listed
        found = on_tensors.weights_of(
            cautious, s, slope, bend, self._densities(s, rows), u, 1.0 / mu, is_listed, *picked.scales
        )
        return RowWeights(*found)
