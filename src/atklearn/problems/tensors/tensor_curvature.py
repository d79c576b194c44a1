"""The generalised Hessian of the smoothed loss on tensors: which rows go in, with which weights; matrix or products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.linalg.lapack import dtrttf
from torch import Tensor

from atklearn.losses.individual import Array, Kink
from atklearn.problems.packed import PackedSymmetric
from atklearn.problems.rows import Curvature, Form
from atklearn.problems.tensors.standing import Standing
from atklearn.problems.tensors.tensor_matrix import TensorMatrix

__all__ = ["curvature"]

_RUN = 8  # neighbouring rows drawn together
_FEW = 0.25  # of all rows: so few are copied before they are multiplied


@dataclass(frozen=True)
class _Picked:
    """Rows that go into the Hessian.

    Attributes
    ----------
    places : Tensor or None
        Which; None for all.
    scale : Tensor or float
        How many rows each stands for.
    is_sampled : bool
    """

    places: Tensor | None
    scale: Tensor | float
    is_sampled: bool


def curvature(
    matrix: TensorMatrix, at: Standing, density: Tensor, moving: float, mu: float, *, form: Form, cautious: bool,
    most: int | None, seed: int,
) -> Curvature:  # fmt: skip
    """Return what :meth:`atklearn.problems.rows.Point.curvature` says, ``moving`` being that of the last reading."""
    picked = _pick(density, most, seed)
    rows, u, r = matrix, at.mass / at.k, density
    if picked.places is not None:
        rows, at = matrix.take(picked.places), at.take(picked.places)
        u, r = u[picked.places], r[picked.places]
    s, slope, bend = at.expansion()
    if cautious and at.loss.kink is Kink.NONE:
        bend = torch.maximum(bend, slope**2 / (2.0 * s).clamp(min=1e-300))
    u = u * picked.scale
    tied = (r.abs() > 0.0) & (r.abs() < 1.0)
    h = u * r.abs() * bend + torch.where(tied, u * slope**2 / mu, 0.0)
    pulls = torch.where(tied, u * r.sign() * slope, 0.0)
    tied_mass = float((u * tied).sum())
    rank_one = None
    if moving > 0.0:
        # by no less than the moving mass of the rows that went in, or the matrix could turn indefinite
        rank_one = rows.pull_back(pulls) / np.sqrt(mu * max(moving, tied_mass))
    if form == "product":
        return _as_product(rows, h, rank_one, picked.is_sampled, tied_mass > 0.0)
    H = rows.gram(h).cpu().numpy()
    if rank_one is not None:
        H -= np.outer(rank_one, rank_one)
    if form == "packed":
        packed = PackedSymmetric(len(H))
        packed.numbers = dtrttf(H, uplo="L")[0]
        return Curvature(None, packed, None, None, picked.is_sampled, tied_mass > 0.0)
    return Curvature(H, None, None, None, picked.is_sampled, tied_mass > 0.0)


def _as_product(
    rows: TensorMatrix, h: Tensor, rank_one: Array | None, is_sampled: bool, has_ties: bool
) -> Curvature:  # fmt: skip
    """Return the curvature as the function v -> H v, and its diagonal."""
    diagonal = rows.column_squares(h)
    if rank_one is not None:
        diagonal -= rank_one**2

    def product(v: Array) -> Array:
        out = rows.gram_product(h, v)
        return out if rank_one is None else out - (rank_one @ v) * rank_one

    multiply: Callable[[Array], Array] = product
    return Curvature(None, None, multiply, diagonal, is_sampled, has_ties)


def _pick(r: Tensor, most: int | None, seed: int) -> _Picked:
    """Return the rows of positive density: all, or up to ``most`` of those between its bounds and of the others."""
    size = r.abs()
    tied, full = (size > 0.0) & (size < 1.0), size >= 1.0
    n_tied, n_full = torch.stack([tied.sum(), full.sum()]).tolist()
    if most is None or n_tied + n_full <= most:
        if n_tied + n_full > _FEW * len(r):
            return _Picked(None, 1.0, is_sampled=False)
        return _Picked(torch.nonzero(size > 0.0).ravel(), 1.0, is_sampled=False)
    rng = np.random.default_rng(seed)
    parts = [_draw(torch.nonzero(part).ravel(), most, rng) for part in (tied, full)]
    places = torch.cat([part for part, _ in parts])
    scale = torch.cat([torch.full_like(part, times, dtype=torch.float64) for part, times in parts])
    return _Picked(places, scale, is_sampled=True)


def _draw(places: Tensor, most: int, rng: np.random.Generator) -> tuple[Tensor, float]:
    """Draw up to ``most`` places, in short runs from as many equal parts; return how many each stands for, too."""
    n = len(places)
    if n <= most:
        return places, 1.0
    runs = max(most // _RUN, 1)
    offset = torch.tensor(rng.random(), dtype=torch.float64, device=places.device)
    steps = torch.arange(runs, dtype=torch.float64, device=places.device)
    # one shift for all runs: random numbers for each would have to come from the host
    starts = ((steps + offset) * ((n - _RUN) / runs)).long()
    drawn = (starts[:, None] + torch.arange(min(_RUN, n), device=places.device)).ravel()
    return places[drawn], n / len(drawn)
