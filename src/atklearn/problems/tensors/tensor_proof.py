"""What certifies a point of tensors: feasible densities, the exact average of the top, and the slack between them."""

from __future__ import annotations

import torch
from torch import Tensor

from atklearn.losses.individual import Array, Kink
from atklearn.problems.rows import Proof
from atklearn.problems.tensors import triton_proof
from atklearn.problems.tensors.ranked_tensors import ranked
from atklearn.problems.tensors.standing import Standing
from atklearn.problems.tensors.tensor_matrix import TensorMatrix

__all__ = ["prove"]


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
    r, a, along = _make_feasible(at, density, balanced)
    gradient = matrix.pull_back(a)
    del a
    exact = at.f if is_fresh else matrix.predict(z)
    threshold = ranked(at.at(exact).losses(), at.mass, each, at.k)
    if at.loss.kink is Kink.POSITIVE_PART:
        threshold = max(threshold, 0.0)
    above, slack, mass, change = _read_slack(at, exact, r, threshold).tolist()
    slack += threshold * max(1.0 - mass, 0.0)
    if not is_fresh:
        slack += change - (float(gradient @ z) - along)  # a . (X z - f)
    return Proof(threshold + above, threshold, slack, gradient, r)


def _make_feasible(at: Standing, density: Tensor, balanced: bool) -> tuple[Tensor, Tensor, float]:
    """Scale the heavier side down until both balance, if asked to, and all of it down until its mass is one.

    Return feasible densities ``r``, their pulls ``a = u r s'``, and ``a . f``.
    """
    pull, push, mass_up, mass_down, mass_level, first = torch.cat([_weigh_sides(at, density), at.f[:1]]).tolist()
    up = min(push / pull, 1.0) if balanced and pull > 0.0 else 1.0
    down = min(pull / push, 1.0) if balanced and push > 0.0 else 1.0
    most = max(up * mass_up + down * mass_down + mass_level, 1.0)  # feasible beyond rounding
    middle = first if balanced else 0.0  # then a sums to zero, and products with f are taken where they are small
    r, a, sums = _scale_sides(at, density, up / most, down / most, 1.0 / most, middle)
    along, total = sums.tolist()
    return r, a, along + middle * total


def _weigh_sides(at: Standing, density: Tensor) -> Tensor:
    """Return what pulls up and down, and the masses of those that pull up, down and not at all, shape (5,)."""
    if at.has_kernels:
        return triton_proof.weigh_sides(at.operands, density)
    sums = []
    for rows, part in at.parts():
        u = part.mass / at.k
        side, weight = density[rows] * part.expansion().slope, u * density[rows].abs()
        parts = [
            (u * side).clamp(min=0.0), (-u * side).clamp(min=0.0), weight * (side > 0.0), weight * (side < 0.0),
            weight * (side == 0.0),
        ]  # fmt: skip
        sums.append(torch.stack([each.sum() for each in parts]))
    return torch.stack(sums).sum(0)


def _scale_sides(
    at: Standing, density: Tensor, up: float, down: float, level: float, middle: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return densities times the factors of their sides, pulls ``a``, and the sums of ``a (f - middle)`` and ``a``."""
    if at.has_kernels:
        return triton_proof.scale_sides(at.operands, density, up, down, level, middle)
    r, a, sums = torch.empty_like(at.f), torch.empty_like(at.f), []
    for rows, part in at.parts():
        given, slope = density[rows], part.expansion().slope
        side = given * slope
        r[rows] = torch.where(side > 0.0, up * given, torch.where(side < 0.0, down * given, level * given))
        torch.mul(part.mass / at.k * r[rows], slope, out=a[rows])
        sums.append(torch.stack([(a[rows] * (part.f - middle)).sum(), a[rows].sum()]))
    return r, a, torch.stack(sums).sum(0)


def _read_slack(at: Standing, exact: Tensor, r: Tensor, threshold: float) -> Tensor:
    """Return, summed over u: what is above the threshold, the slack, the density, and its gain by exact predictions."""
    if at.has_kernels:
        return triton_proof.read_slack(at.operands, exact, r, threshold)
    sums = []
    for rows, part in at.parts():
        u, before, s = part.mass / at.k, part.expansion().s, part.at(exact[rows]).expansion().s
        density = r[rows].abs()
        over = ((s.abs() if at.two_sided else s) - threshold).clamp(min=0.0)
        parts = [
            u * over, u * (over - (r[rows] * s - threshold * density)), u * density, u * r[rows] * (s - before)
        ]  # fmt: skip
        sums.append(torch.stack([each.sum() for each in parts]))
    return torch.stack(sums).sum(0)
