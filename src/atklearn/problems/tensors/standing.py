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
    """

    sums: Array
    low: float
    high: float


@dataclass(frozen=True)
class Standing:
    """Predictions of samples, and what they are judged by.

    Attributes
    ----------
    loss : TensorLoss
    y : Tensor of shape (n,)
    mass : Tensor of shape (n,)
        Where all are alike, one number expanded.
    k : float
    f : Tensor of shape (n,)
        Predictions.
    centre : Tensor of shape (n,)
        Densities of the last proximal step; where all are alike, one number expanded.
    """

    loss: TensorLoss
    y: Tensor
    mass: Tensor
    k: float
    f: Tensor
    centre: Tensor

    @property
    def two_sided(self) -> bool:
        """Whether densities have a sign."""
        return self.loss.kink.is_two_sided

    @property
    def _has_kernels(self) -> bool:
        return self.loss.is_built_in and serves(self.f)

    @property
    def _operands(self) -> triton_standing.Operands:
        """What kernels take."""
        return triton_standing.Operands(
            self.loss.code, self.loss.delta, self.f, self.y, self.centre, self.mass, self.k
        )  # fmt: skip

    def settle(self, mu: float, guess: float, t: float = 0.0, along: Tensor | None = None) -> tuple[Reading, Look]:
        """Find the threshold, here or at ``f + t * along``: return the reading, and the look that it is read from."""
        seen: dict[float, Look] = {}

        def look(lam: float) -> Look:
            if lam not in seen:
                seen[lam] = self.look(mu, lam, t, along)
            return seen[lam]

        def shares(lam: float) -> tuple[float, float]:
            sums = look(lam).sums
            return float(sums[2]), float(sums[3])

        lam = smoothing.search_threshold(shares, lambda: self.top(mu, t, along), mu, guess, len(self.f))
        told = look(lam)
        return Reading(*smoothing.conclude(lam, told.sums)), told

    def look(self, mu: float, lam: float, t: float = 0.0, along: Tensor | None = None) -> Look:
        """Sum up what the densities at a threshold say, here or at ``f + t * along``."""
        if self._has_kernels:
            numbers = triton_standing.look(self._operands, mu, lam, t, along)
        else:
            looked = [part._look(mu, lam, 0.0 if way is None else way) for part, way in self._ahead(t, along)]
            sums, extremes = (torch.stack(parts) for parts in zip(*looked, strict=True))
            numbers = torch.cat([sums.sum(0), extremes[:, 0].amin()[None], extremes[:, 1].amax()[None]])
        told = numbers.cpu().numpy()
        return Look(told[:-2], float(told[-2]), float(told[-1]))

    def _look(self, mu: float, lam: float, along: Tensor | float) -> tuple[Tensor, Tensor]:
        u, (s, slope, _) = self.mass / self.k, self.expansion()
        r = self._densities(s, mu, lam)
        density, losses = r.abs(), s.abs() if self.two_sided else s
        a, value, distance = u * r * slope, u * (r * s).abs(), s - lam
        over = (losses - lam).clamp(min=0.0)
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
        ])  # fmt: skip
        return sums, torch.stack(torch.aminmax(self.f))

    def top(self, mu: float, t: float = 0.0, along: Tensor | None = None) -> float:
        """Return the threshold above which every density is zero."""
        tops = [
            (lines.abs() if self.two_sided else lines).amax()
            for part, _ in self._ahead(t, along)
            for lines in [part.expansion().s + mu * part.centre]
        ]
        return max(float(torch.stack(tops).amax()), 0.0)

    def densities(self, mu: float, lam: float) -> Tensor:
        """Return the densities at a smoothing and a threshold, shape (n,)."""
        if self._has_kernels:
            return triton_standing.densities(self._operands, mu, lam)
        return self._filled(lambda part: part._densities(part.expansion().s, mu, lam))

    def pulls(self, mu: float, lam: float) -> Tensor:
        """Return ``u r s'``, shape (n,)."""
        if self._has_kernels:
            return triton_standing.pulls(self._operands, mu, lam)

        def pull(part: Standing) -> Tensor:
            s, slope, _ = part.expansion()
            return part.mass / self.k * part._densities(s, mu, lam) * slope

        return self._filled(pull)

    def at(self, f: Tensor) -> Standing:
        """Return the same samples at other predictions."""
        return replace(self, f=f)

    def smooth_parts(self) -> Tensor:
        """Return the smooth parts of the losses, shape (n,)."""
        return self._filled(lambda part: part.expansion().s)

    def losses(self) -> Tensor:
        """Return the losses, shape (n,)."""
        return self._filled(lambda part: part.loss.losses(part.expansion().s))

    def slopes(self) -> Tensor:
        """Return the slopes of the smooth parts, shape (n,)."""
        return self._filled(lambda part: part.expansion().slope)

    def take(self, places: Tensor) -> Standing:
        """Return some of the samples."""
        return replace(
            self, y=self.y[places], mass=self.mass[places], f=self.f[places], centre=self.centre[places]
        )  # fmt: skip

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

    def _ahead(self, t: float, along: Tensor | None) -> Iterator[tuple[Standing, Tensor | None]]:
        """Yield parts of the samples where a ray looks, and the predictions of its direction."""
        for rows, part in self.parts():
            if along is None:
                yield part, None
            else:
                yield replace(part, f=part.f + t * along[rows]), along[rows]

    def parts(self) -> Iterator[tuple[slice, Standing]]:
        """Yield the samples in blocks, and which they are."""
        n, size = len(self.f), _CPU_BLOCK if self.f.device.type == "cpu" else _GPU_BLOCK
        for begin in range(0, n, size):
            rows = slice(begin, min(begin + size, n))
            yield rows, replace(
                self, y=self.y[rows], mass=self.mass[rows], f=self.f[rows], centre=self.centre[rows]
            )  # fmt: skip
