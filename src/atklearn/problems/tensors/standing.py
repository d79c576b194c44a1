"""Where samples stand: predictions and the centre of the proximal term, and every pass over such numbers.

Smooth parts, slopes and densities are not kept but computed anew from the predictions wherever they are needed: on a
device that costs less than to fetch them, and leaves the memory to X.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from atklearn.losses.individual import Array
from atklearn.problems import smoothing
from atklearn.problems.rows import Reading
from atklearn.problems.tensors import triton_standing
from atklearn.problems.tensors.tensor_losses import Expansion, TensorLoss
from atklearn.problems.tensors.triton_language import serves
from atklearn.problems.tensors.triton_standing import Asked

__all__ = ["Look", "Standing"]

# Samples at a time: so that what is computed on the way stays small beside X, on a CPU in the cache.
_CPU_BLOCK, _GPU_BLOCK = 1 << 16, 1 << 24


@dataclass(frozen=True)
class Look:
    """What is seen of the samples at a smoothing and a threshold.

    Attributes
    ----------
    sums : ndarray of shape (13,)
        What :func:`atklearn.problems.smoothing.conclude` reads.
    low, high : float
        The smallest and the largest prediction.
    n_tied, n_full : int
        How many samples are between the bounds of their density, and at the upper.
    """

    sums: Array
    low: float
    high: float
    n_tied: int
    n_full: int


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
        return self.loss.is_built_in and serves(self.f)

    @property
    def operands(self) -> triton_standing.Operands:
        """What kernels take."""
        return triton_standing.Operands(
            self.loss.code, self.loss.delta, self.f, self.y, self.centre, self.mass, self.k
        )  # fmt: skip

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
            told = triton_standing.look(self.operands, mu, lam, t, along, pulls).cpu().numpy()
            n_tied, told[9] = int(told[9]), self.total / self.k
            return Look(told[:13], -float(told[14]), float(told[15]), n_tied, int(told[13]))
        looked = []
        for rows, part in self.parts():
            way: Tensor | float = 0.0 if along is None else along[rows]
            there = part if along is None else part.at(part.f + t * along[rows])
            looked.append(there._look(mu, lam, pulls[rows], way))
        sums, lows, highs = (torch.stack(parts) for parts in zip(*looked, strict=True))
        told = torch.cat([sums.sum(0), lows.amin()[None], highs.amax()[None]]).cpu().numpy()
        return Look(told[:13], float(told[15]), float(told[16]), int(told[13]), int(told[14]))

    def _look(self, mu: float, lam: float, pulls: Tensor, along: Tensor | float) -> tuple[Tensor, Tensor, Tensor]:
        u, (s, slope, _) = self.mass / self.k, self.expansion()
        r = self._densities(s, mu, lam)
        density, value, distance = r.abs(), u * (r * s).abs(), s - lam
        a = torch.mul(u * r, slope, out=pulls)
        over = ((s.abs() if self.two_sided else s) - lam).clamp(min=0.0)
        sums = torch.stack([
            (u * over).sum(),
            (u * (over - (r * s - lam * density))).sum(),
            (u * density).sum(),
            (u * ((density > 0.0) & (density < 1.0))).sum(),
            a.clamp(min=0.0).sum(),
            (-a).clamp(min=0.0).sum(),
            (value * (a > 0.0)).sum(),
            (value * (a < 0.0)).sum(),
            (a * along).sum(),
            u.sum(),
            (u * distance).sum(),
            (u * distance**2).sum(),
            (u * s.abs()).sum(),
            ((density > 0.0) & (density < 1.0)).sum(),
            (density >= 1.0).sum(),
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
        """Return 0 for samples without density, 1 for those between its bounds, 2 at the upper: int8, shape (n,)."""
        if self.has_kernels:
            return triton_standing.filled(self.operands, Asked.STRATUM, mu, lam)
        size = self.densities(mu, lam).abs()
        return (size > 0.0).to(torch.int8) + (size >= 1.0).to(torch.int8)

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
