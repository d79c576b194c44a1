"""What certifies a point of tensors: feasible densities, the exact average of the top, and the slack between them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from atklearn.losses.individual import Array, Kink
from atklearn.problems.rows import Proof
from atklearn.problems.tensors.ranked_tensors import ranked
from atklearn.problems.tensors.standing import Standing
from atklearn.problems.tensors.tensor_matrix import TensorMatrix

__all__ = ["prove"]


class _Feasible(NamedTuple):
    """Feasible densities ``r``, their pulls ``a = u r s'``, and ``a . f``."""

    r: Tensor
    a: Tensor
    along: float


def prove(
    matrix: TensorMatrix, at: Standing, density: Tensor, z: Array, each: float | None, *, is_fresh: bool, balanced: bool
) -> Proof:
    """Return the exact aggregate at z, and feasible densities near given ones.

    Parameters
    ----------
    matrix : TensorMatrix
    at : Standing
        With the predictions that the densities were found at.
    density : Tensor of shape (n_rows,)
    z : ndarray of shape (n_columns,)
    each : float or None
        The mass of every sample, if all are alike.
    is_fresh : bool
        Whether these predictions are those of z as they stand.
    balanced : bool
        Whether the densities are to have no derivative along the column of ones.
    """
    feasible = _make_feasible(at, density, balanced)
    gradient = matrix.pull_back(feasible.a)
    exact = at.f if is_fresh else matrix.predict(z)
    losses = at.at(exact).losses()
    threshold = ranked(losses, at.mass, each, at.k)
    if at.loss.kink is Kink.POSITIVE_PART:
        threshold = max(threshold, 0.0)
    above, slack, mass, change = _read(at, exact, feasible.r, threshold)
    slack += threshold * max(1.0 - mass, 0.0)
    if not is_fresh:
        slack += change - (float(gradient @ z) - feasible.along)  # a . (X z - f)
    return Proof(threshold + above, threshold, slack, gradient, feasible.r)


def _make_feasible(at: Standing, density: Tensor, balanced: bool) -> _Feasible:
    """Scale the heavier side down until both balance, if asked to, and all of it down until its mass is one."""
    up = down = 1.0
    if balanced:
        pull, push = _sides(at, density)
        up = min(push / pull, 1.0) if pull > 0.0 else 1.0
        down = min(pull / push, 1.0) if push > 0.0 else 1.0
    middle = (
        float(at.f[0]) if balanced else 0.0
    )  # then a sums to zero, and products with f are taken where they are small
    r, a = torch.empty_like(density), torch.empty_like(density)
    masses = []
    for rows, part in at.parts():
        given = density[rows]
        side = given * part.slopes()
        r[rows] = torch.where(side > 0.0, up * given, torch.where(side < 0.0, down * given, given))
        masses.append((part.mass / at.k * r[rows].abs()).sum())
    r.div_(torch.stack(masses).sum().clamp(min=1.0))  # feasible beyond rounding
    sums = []
    for rows, part in at.parts():
        torch.mul(part.mass / at.k * r[rows], part.slopes(), out=a[rows])
        sums.append(torch.stack([(a[rows] * (part.f - middle)).sum(), a[rows].sum()]))
    along, total = torch.stack(sums).sum(0).tolist()
    return _Feasible(r, a, along + middle * total)


def _sides(at: Standing, density: Tensor) -> tuple[float, float]:
    """Return what pulls up and what pulls down."""
    sums = []
    for rows, part in at.parts():
        a = part.mass / at.k * density[rows] * part.slopes()
        sums.append(torch.stack([a.clamp(min=0.0).sum(), (-a).clamp(min=0.0).sum()]))
    pull, push = torch.stack(sums).sum(0).tolist()
    return pull, push


def _read(at: Standing, exact: Tensor, r: Tensor, threshold: float) -> tuple[float, float, float, float]:
    """Return, summed over u: what is above the threshold, the slack, the density, and how it gains by exactness."""
    sums = []
    for rows, part in at.parts():
        u, s, before = part.mass / at.k, part.at(exact[rows]).smooth_parts(), part.smooth_parts()
        density = r[rows].abs()
        over = ((s.abs() if at.two_sided else s) - threshold).clamp(min=0.0)
        sums.append(torch.stack([
            (u * over).sum(),
            (u * (over - (r[rows] * s - threshold * density))).sum(),
            (u * density).sum(),
            (u * r[rows] * (s - before)).sum(),
        ]))  # fmt: skip
    above, slack, mass, change = torch.stack(sums).sum(0).tolist()
    return above, slack, mass, change
