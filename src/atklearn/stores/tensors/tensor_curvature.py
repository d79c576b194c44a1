"""The generalised Hessian of the smoothed loss on tensors: which rows go in, with which weights; matrix or products."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from scipy.linalg.lapack import dtrttf
from torch import Tensor

from atklearn.core.packed import PackedSymmetric
from atklearn.core.point import Form, Gram
from atklearn.losses.individual import Array, Kink
from atklearn.stores.compiled import tell_enough
from atklearn.stores.tensors import triton_curvature
from atklearn.stores.tensors.tensor_matrix import TensorMatrix

if TYPE_CHECKING:
    from atklearn.stores.tensors.tensor_store import TensorState

__all__ = ["Stratum", "gram_of"]

_RUN = 8  # neighbouring rows drawn together
_PART = 0.125  # of all rows: more are not worth to be looked for
# A device multiplies rows quicker than it gathers them: more than these tell nothing new.
_ENOUGH, _ENOUGH_PER_COLUMN = 1 << 20, 400
_BLOCK = 1 << 25  # numbers that are scaled at a time
_GOLDEN = 0.6180339887498949  # whose multiples are spread most evenly, as to their fractions


@dataclass(frozen=True)
class Stratum:
    """Samples that go into the Hessian: how many, the sum of their weights there, and that of the squares of these."""

    count: int
    weight: float
    square: float


class _Weights(NamedTuple):
    """Of rows: the roots of their weights ``h`` in the Hessian, pulls over roots, and masses of the tied ones."""

    roots: Tensor
    ratios: Tensor
    ties: Tensor


@dataclass(frozen=True)
class _Picked:
    """Rows that go into the Hessian.

    Attributes
    ----------
    places : Tensor or None
        Which; None for all.
    n_listed : int
        So many of them were picked for their density, the others drawn whatever it is.
    scales : tuple of float
        How many rows stand for one that is between the bounds of its density, and for one that is at the upper: among
        those picked, then among those drawn.
    own : Tensor or None
        The same of every row by itself, beside these scales.
    is_sampled : bool
    """

    places: Tensor | None = None
    n_listed: int = 0
    scales: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)
    own: Tensor | None = None
    is_sampled: bool = False


@dataclass(frozen=True)
class _Rows:
    """The rows of a Hessian, scaled block by block."""

    matrix: TensorMatrix
    at: TensorState
    mu: float
    cautious: bool
    picked: _Picked

    @property
    def count(self) -> int:
        return self.matrix.n_rows if self.picked.places is None else len(self.picked.places)

    def blocks(self) -> Iterator[tuple[_Weights, Tensor]]:
        """Yield weights of rows and the rows times the roots of these, shape (m, n_columns)."""
        size = max(_BLOCK // self.matrix.n_columns, 1)
        for begin in range(0, max(self.count, 1), size):
            end = min(begin + size, self.count)
            weights = self.weigh(begin, end)
            yield weights, self.matrix.scaled(self.picked.places, begin, weights.roots)

    def weigh(self, begin: int, end: int) -> _Weights:
        """Return the weights of the rows numbered so, of those picked."""
        picked, kink = self.picked, self.at.loss.kink
        if self.at.has_kernels:
            return _Weights(*triton_curvature.weigh_rows(
                self.at.operands, self.mu, self.at.lam, picked.places, picked.own, begin, end - begin, picked.n_listed,
                picked.scales, cautious=self.cautious,
            ))  # fmt: skip
        at = self.at.take(slice(begin, end) if picked.places is None else picked.places[begin:end])
        s, slope, bend = at.expansion()
        if self.cautious and kink is Kink.NONE:
            bend = torch.maximum(bend, slope**2 / (2.0 * s).clamp(min=1e-300))
        u, r = at.mass / at.k, at.settled_densities()
        tied = (r.abs() > 0.0) & (r.abs() < 1.0)
        n_listed = min(max(picked.n_listed - begin, 0), end - begin)
        listed_tied, listed_full, drawn_tied, drawn_full = picked.scales
        u = torch.cat([
            u[:n_listed] * (listed_tied * tied[:n_listed] + listed_full * ~tied[:n_listed]),
            u[n_listed:] * (drawn_tied * tied[n_listed:] + drawn_full * ~tied[n_listed:]),
        ])  # fmt: skip
        u = u if picked.own is None else u * picked.own[begin:end]
        roots = (u * r.abs() * bend + torch.where(tied, u * slope**2 / self.mu, 0.0)).sqrt()
        pulls = torch.where(tied, u * r.sign() * slope, 0.0)
        return _Weights(roots, torch.where(roots > 0.0, pulls / roots, 0.0), torch.where(tied, u, 0.0))


def gram_of(
    matrix: TensorMatrix, at: TensorState, mu: float, *, form: Form, cautious: bool, most: int | None, seed: int
) -> Gram:
    """Return the weighted Gram matrix of a settled state: see :class:`atklearn.core.point.Gram`."""
    everything = _Rows(matrix, at, mu, cautious, _Picked())
    rows = replace(everything, picked=_pick(everything, most, seed))
    if form == "product":
        return _as_product(rows)
    n = matrix.n_columns
    numbers = torch.zeros(n * n + n + 1, dtype=torch.float64, device=matrix.X.device)
    gram, pulls, ties = numbers[: n * n].view(n, n), numbers[n * n : -1], numbers[-1]
    for weights, scaled in rows.blocks():
        gram.addmm_(scaled.T, scaled)
        pulls.addmv_(scaled.T, weights.ratios)
        ties += weights.ties.sum()
    found = numbers.cpu().numpy()
    H, told = found[: n * n].reshape(n, n), Gram(found[n * n : -1], float(found[-1]), rows.picked.is_sampled)
    if form == "matrix":
        return told._replace(matrix=H)
    packed = PackedSymmetric(n)
    packed.numbers = dtrttf(H, uplo="L")[0]
    return told._replace(packed=packed)


def _as_product(rows: _Rows) -> Gram:
    """Return the Gram matrix as the function v -> H v, one pass over the rows, and its diagonal."""
    device = rows.matrix.X.device
    diagonal, pulls = torch.zeros((2, rows.matrix.n_columns), dtype=torch.float64, device=device)
    ties = torch.zeros((), dtype=torch.float64, device=device)
    for weights, scaled in rows.blocks():
        diagonal += (scaled**2).sum(0)
        pulls += scaled.T @ weights.ratios
        ties += weights.ties.sum()

    def product(v: Array) -> Array:
        vector = rows.matrix.tensor_of(v)
        out = torch.zeros_like(vector)
        for _, scaled in rows.blocks():
            out += scaled.T @ (scaled @ vector)
        return np.asarray(out.cpu().numpy())

    gram = Gram(pulls.cpu().numpy(), float(ties), rows.picked.is_sampled)
    return gram._replace(product=product, diagonal=diagonal.cpu().numpy())


def _pick(everything: _Rows, most: int | None, seed: int) -> _Picked:
    """Return the rows that have weight: all, or about ``most`` of either stratum."""
    at, look = everything.at, everything.at.look
    assert look is not None
    tied, full = strata = look.tied, look.full
    n, columns, count = len(at.f), everything.matrix.n_columns, tied.count + full.count
    if most is None or count <= most:
        if count > _PART * n:
            return _Picked()
        return _Picked(torch.nonzero(at.strata()).ravel(), count)
    most = min(most, max(_ENOUGH, _ENOUGH_PER_COLUMN * columns))
    shift = np.random.default_rng(seed).random()
    if any(
        stratum.count > most and not tell_enough(most, columns, stratum.count, stratum.weight, stratum.square)
        for stratum in strata
    ):
        return _pick_by_weight(everything, strata, most, shift)
    if tied.count > max(most, _PART * n):  # so many that draws from all rows meet enough of them
        drawn, scale = _draw(n, 2 * most * n // count, shift, at.f.device)
        return _Picked(drawn, 0, (0.0, 0.0, scale, scale), is_sampled=True)
    codes = at.strata()
    some_tied, scale_tied = _draw_from(torch.nonzero(codes == 1).ravel(), most, shift)
    if full.count > max(most, _PART * n):
        some_full, scale_full = _draw(n, most * n // full.count, shift, at.f.device)
    else:
        some_full, scale_full = _draw_from(torch.nonzero(codes == 2).ravel(), most, shift)
    places = torch.cat([some_tied, some_full])
    return _Picked(places, len(some_tied), (scale_tied, 0.0, 0.0, scale_full), is_sampled=True)


def _pick_by_weight(everything: _Rows, strata: tuple[Stratum, Stratum], most: int, shift: float) -> _Picked:
    """Return rows drawn as often as they weigh: where few carry the weight, others would tell next to nothing."""
    weights = everything.weigh(0, everything.count)
    h, is_tied = weights.roots**2, weights.ties > 0.0
    del weights
    picked = []
    for stratum, members in zip(strata, (is_tied, ~is_tied), strict=True):
        own = torch.where(members, h, 0.0)
        if stratum.count <= most:
            places = torch.nonzero(own).ravel()
            picked.append((places, torch.ones_like(places, dtype=torch.float64)))
        else:
            picked.append(_draw_by_weight(own, most, shift))
    places, scales = (torch.cat(parts) for parts in zip(*picked, strict=True))
    return _Picked(places, own=scales, is_sampled=True)


def _draw_by_weight(h: Tensor, count: int, shift: float) -> tuple[Tensor, Tensor]:
    """Draw places as often as they weigh; return how many each stands for, too."""
    ends = torch.cumsum(h, 0)
    steps = torch.arange(count, dtype=torch.float64, device=h.device)
    # one from each of as many equal parts of the weight, at places in these that follow no pattern
    along = steps + (shift + _GOLDEN * steps) % 1.0
    places = torch.searchsorted(ends, along * (ends[-1] / count), right=True).clamp_(max=len(h) - 1)
    drawn = h[places]
    return places, torch.where(drawn > 0.0, ends[-1] / count / drawn, 0.0)


def _draw_from(listed: Tensor, most: int, shift: float) -> tuple[Tensor, float]:
    """Draw about ``most`` of the listed places, or take all; return how many each stands for, too."""
    places, scale = _draw(len(listed), most, shift, listed.device)
    return listed[places] if scale > 1.0 else listed, scale


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
