"""Where samples stand: predictions and the centre of the proximal term, and every pass over such numbers.

Smooth parts, slopes and densities are not kept but computed anew from the predictions wherever they are needed: on a
device that costs less than to fetch them, and leaves the memory to X.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from atklearn.losses.individual import Array, Kink
from atklearn.problems import smoothing
from atklearn.problems.rows import Reading
from atklearn.problems.tensors import triton_standing
from atklearn.problems.tensors.tensor_losses import Expansion, TensorLoss
from atklearn.problems.tensors.triton_language import serves
from atklearn.problems.tensors.triton_standing import Asked

__all__ = ["Look", "Standing", "Stratum"]

# Samples at a time: so that what is computed on the way stays small beside X, on a CPU in the cache.
_CPU_BLOCK, _GPU_BLOCK = 1 << 16, 1 << 24


@dataclass(frozen=True)
class Stratum:
    """Samples that go into the Hessian: how many, the sum of their weights there, and that of the squares of these."""

    count: int
    weight: float
    square: float


@dataclass(frozen=True)
class Look:
    """What is seen of the samples at a smoothing and a threshold.

    Attributes
    ----------
    sums : ndarray of shape (13,)
        What :func:`atklearn.problems.smoothing.conclude` reads.
    low, high : float
        The smallest and the largest prediction.
    tied, full : Stratum
        Those between the bounds of their density, and those at the upper.
    """

    sums: Array
    low: float
    high: float
    tied: Stratum
    full: Stratum


@dataclass(frozen=True)
class Standing:
    """Predictions of samples, and what they are judged by.

    Attributes
    ----------
    loss : TensorLoss
    y : Tensor of shape (n,)
    mass : Tensor of shape (n,)
        Where all are alike, one number expanded.
    total : float
        The sum of it.
    k : float
    f : Tensor of shape (n,)
        Predictions.
    centre : Tensor of shape (n,)
        Densities of the last proximal step; where all are alike, one number expanded.
    """

    loss: TensorLoss
    y: Tensor
    mass: Tensor
    total: float
    k: float
    f: Tensor
    centre: Tensor

    @property
    def two_sided(self) -> bool:
        """Whether densities have a sign."""
        return self.loss.kink.is_two_sided

    @property
    def has_kernels(self) -> bool:
        """Whether passes over these samples are kernels of a GPU."""
        return serves(self.f) and self.loss.for_kernels(self.f.device) is not None

    @property
    def operands(self) -> triton_standing.Operands:
        """What kernels take."""
        loss = self.loss.for_kernels(self.f.device)
        assert loss is not None  # else there are no kernels
        return triton_standing.Operands(loss, self.f, self.y, self.centre, self.mass, self.k)

    def settle(
        self, mu: float, guess: float, t: float = 0.0, along: Tensor | None = None
    ) -> tuple[Reading, Look, Tensor]:
        """Find the threshold, here or at ``f + t * along``.

        Returns
        -------
        reading : Reading
        look : Look
            What it is read from.
        pulls : Tensor of shape (n,)
            ``u r s'``.
        """
        seen: dict[float, Look] = {}
        pulls = torch.empty_like(self.f)
        if self.has_kernels:
            numbers, guess, is_found = triton_standing.search(self.operands, mu, guess, t, along, pulls)
            if is_found:
                told = self._look_of(numbers)
                return Reading(*smoothing.conclude(guess, told.sums)), told, pulls

        def look(lam: float) -> Look:
            if lam not in seen:
                seen[lam] = self.look(mu, lam, pulls, t, along)
            return seen[lam]

        def shares(lam: float) -> tuple[float, float]:
            sums = look(lam).sums
            return float(sums[2]), float(sums[3])

        lam = smoothing.search_threshold(shares, lambda: self.top(mu, t, along), mu, guess, len(self.f))
        if lam in seen and lam != next(reversed(seen)):  # not looked at last: the pulls are those of another one
            del seen[lam]
        told = look(lam)
        return Reading(*smoothing.conclude(lam, told.sums)), told, pulls

    def look(self, mu: float, lam: float, pulls: Tensor, t: float = 0.0, along: Tensor | None = None) -> Look:
        """Sum up what the densities at a threshold say, at ``f + t * along``; fill ``pulls`` with ``u r s'``."""
        if self.has_kernels:
            return self._look_of(triton_standing.search(self.operands, mu, lam, t, along, pulls, most=1)[0])
        looked = []
        for rows, part in self.parts():
            way: Tensor | float = 0.0 if along is None else along[rows]
            there = part if along is None else part.at(part.f + t * along[rows])
            looked.append(there._look(mu, lam, pulls[rows], way))
        sums, lows, highs = (torch.stack(parts) for parts in zip(*looked, strict=True))
        return self._look_of(torch.cat([sums.sum(0), -lows.amin()[None], highs.amax()[None]]).cpu().numpy())

    def _look_of(self, numbers: Array) -> Look:
        """Return what was seen, from numbers in the order of :func:`triton_standing.search`."""
        sums, tied, full = numbers[:13], numbers[13:16].tolist(), numbers[16:19].tolist()
        sums[9] = self.total / self.k
        low, high = -float(numbers[-2]), float(numbers[-1])
        return Look(sums, low, high, Stratum(int(tied[0]), *tied[1:]), Stratum(int(full[0]), *full[1:]))

    def _look(self, mu: float, lam: float, pulls: Tensor, along: Tensor | float) -> tuple[Tensor, Tensor, Tensor]:
        u, (s, slope, bend) = self.mass / self.k, self.expansion()
        r = self._densities(s, mu, lam)
        density, value, distance = r.abs(), u * (r * s).abs(), s - lam
        a = torch.mul(u * r, slope, out=pulls)
        over = ((s.abs() if self.two_sided else s) - lam).clamp(min=0.0)
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

    def top(self, mu: float, t: float = 0.0, along: Tensor | None = None) -> float:
        """Return the threshold above which every density is zero."""
        tops = []
        for rows, part in self.parts():
            there = part if along is None else part.at(part.f + t * along[rows])
            lines = there.expansion().s + mu * part.centre
            tops.append((lines.abs() if self.two_sided else lines).amax())
        return max(float(torch.stack(tops).amax()), 0.0)

    def densities(self, mu: float, lam: float) -> Tensor:
        """Return the densities at a smoothing and a threshold, shape (n,)."""
        if self.has_kernels:
            return triton_standing.filled(self.operands, Asked.DENSITY, mu, lam)
        return self._filled(lambda part: part._densities(part.expansion().s, mu, lam))

    def strata(self, mu: float, lam: float) -> Tensor:
        """Return 1 for samples between the bounds of their density, 2 for those at the upper: int8, shape (n,).

        All others, and those at the upper that have no curvature, do not go into the Hessian: 0.
        """
        if self.has_kernels:
            return triton_standing.filled(self.operands, Asked.STRATUM, mu, lam)
        return self._filled(lambda part: part._strata(mu, lam))

    def _strata(self, mu: float, lam: float) -> Tensor:
        s, slope, bend = self.expansion()
        size = self._densities(s, mu, lam).abs()
        full = (size >= 1.0) & self._enters(slope, bend)
        return torch.where(full, 2, ((size > 0.0) & (size < 1.0)).to(torch.int8)).to(torch.int8)

    def _enters(self, slope: Tensor, bend: Tensor) -> Tensor:
        """Say which samples, their density being at its upper bound, go into the Hessian, be it a cautious one."""
        return (bend > 0.0) | (slope != 0.0) if self.loss.kink is Kink.NONE else bend > 0.0

    def losses(self) -> Tensor:
        """Return the losses, shape (n,); those with a positive part without it."""
        if self.has_kernels:
            return triton_standing.filled(self.operands, Asked.LOSS)
        return self._filled(lambda part: part.expansion().s.abs() if self.two_sided else part.expansion().s)

    def slopes(self) -> Tensor:
        """Return the slopes of the smooth parts, shape (n,)."""
        if self.has_kernels:
            return triton_standing.filled(self.operands, Asked.SLOPE)
        return self._filled(lambda part: part.expansion().slope)

    def at(self, f: Tensor) -> Standing:
        """Return the same samples at other predictions."""
        return replace(self, f=f)

    def take(self, places: Tensor | slice) -> Standing:
        """Return some of the samples."""
        return replace(
            self, y=self.y[places], mass=self.mass[places], f=self.f[places], centre=self.centre[places]
        )  # fmt: skip

    def parts(self) -> Iterator[tuple[slice, Standing]]:
        """Yield the samples in blocks, and which they are; none are one block."""
        n, size = len(self.f), _CPU_BLOCK if self.f.device.type == "cpu" else _GPU_BLOCK
        for begin in range(0, max(n, 1), size):
            rows = slice(begin, min(begin + size, n))
            yield rows, self.take(rows)

    def expansion(self) -> Expansion:
        """Return smooth part, slope and curvature of all samples."""
        return self.loss.expand(self.f, self.y)

    def _densities(self, s: Tensor, mu: float, lam: float) -> Tensor:
        if not self.two_sided:
            # (s - lam) / mu, not s / mu - lam / mu: for small mu the latter cancels
            return (self.centre + (s - lam) / mu).clamp(0.0, 1.0)
        sign = torch.where(self.centre + s / mu < 0.0, -1.0, 1.0).to(s.dtype)
        return sign * (sign * self.centre + (sign * s - lam) / mu).clamp(0.0, 1.0)

    def _filled(self, compute: Callable[[Standing], Tensor]) -> Tensor:
        parts = [compute(part) for _, part in self.parts()]
        return parts[0] if len(parts) == 1 else torch.cat(parts)
