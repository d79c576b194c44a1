"""Gradient and curvature of the smoothed average top-k, row by row: compiled for the losses of this library.

With masses ``m`` that sum to ``n``, the objective of a round is

    A(f) = max over 0 <= r <= 1, sum(m r) = k of sum(m r l) / k - mu / (2 k) * sum(m (r - k / n)**2)

whose maximiser is a clipped line in the losses, ``r = clip(k / n + (l - lam) / mu)``. Wide smoothing gives every row
the density ``k / n``, which is the average; as it narrows, the objective goes over to AT_k.

A round has three passes over the rows: the losses; the search of ``lam``, which looks at these a few times; and the
derivatives, which are written over the losses. More arrays than the two that are returned would cost as much as all
the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from atklearn.core.point import search_threshold
from atklearn.losses.compiled import ABSOLUTE, SMOOTH, compiled, expand_curvatures, expand_slopes
from atklearn.losses.individual import Array, Domain, IndividualLoss, Kink
from atklearn.runtime import threads
from atklearn.runtime.compiling import FAST_SUMS, njit

__all__ = ["Spread", "derivatives", "steady_expansion", "threshold"]

# Closer to the kink of a loss than this part of the mean distance, the parabola above it gets no narrower.
_NEAR_KINK = 1.0
_NO_MASS = np.ones(1)


@dataclass(frozen=True)
class Spread:
    """What the rows say together, by mass."""

    deviation: float  # of the losses, the standard one
    near: float  # the distance from a kink below which no parabola gets narrower
    usual: float  # the curvature of rows that have none of their own

    @classmethod
    def from_sums(cls, sums: Array, total: float) -> Spread:
        """Return it from sums over the rows: of loss, squared loss, distance, curvature and mass of the curved."""
        first, second, distance, curvature, curved = (float(value) for value in sums)
        if not np.isfinite(sums).all():
            raise ValueError(
                f"The squares of the losses are expected to have a finite sum, got {second:g}; divide the targets, or "
                "the sample weights, by their largest."
            )
        mean = first / total
        variance = max(second / total - mean * mean, 0.0)
        near, usual = _NEAR_KINK * distance / total, curvature / curved if curved > 0.0 else 1.0
        return cls(float(np.sqrt(variance)), near or 1.0, usual)


def threshold(losses: Array, mass: Array | None, k: float, total: float, mu: float, guess: float = 0.0) -> float:
    """Return ``lam``, at which the densities of width ``mu`` sum up to k, from a guess of it.

    Examples
    --------
    >>> losses = np.array([0.0, 1.0, 4.0])
    >>> lam = threshold(losses, None, k=1.0, total=3.0, mu=9.0)
    >>> np.clip(1.0 / 3.0 + (losses - lam) / 9.0, 0.0, 1.0).round(3)
    array([0.148, 0.259, 0.593])
    """
    centre = k / total

    def shares(lam: float) -> tuple[float, float]:
        given = _NO_MASS if mass is None else mass, mass is not None
        sums = threads.block_sums(_share_blocks, 2, losses.size, 1.0, losses, *given, centre, mu, lam)
        return float(sums[0]) / k, float(sums[1]) / k

    def top() -> float:
        return threads.extremes(losses)[1] + mu * centre

    return search_threshold(shares, top, mu, guess, losses.size)


def derivatives(
    loss: IndividualLoss,
    f: Array,
    y: Array,
    mass: Array | None,
    total: float,
    k: float,
    width: float,
    guess: float,
    positive: float | None = None,
) -> tuple[Array, Array, float]:
    """Return gradient, curvature and threshold of a round, from predictions f, targets y and a guess of the threshold.

    ``total`` and ``k`` are the mass of all rows and of the top, ``width`` is in standard deviations of the losses, and
    ``positive`` the label that is +1, all others being -1; None if targets are used as they are.
    """
    code = compiled(loss)
    if code is None:
        target = y if positive is None else np.where(y == positive, 1.0, -1.0)
        losses, slope, curvature, spread = steady_expansion(loss, f, target, mass, total)
    else:
        losses, curvature = np.empty_like(f), np.empty_like(f)  # later on gradient and hessian
        given = _NO_MASS if mass is None else mass, mass is not None
        options = (code, f, y, positive is not None, positive or 0.0, *given)
        pivot = float(loss(f[:1], y[:1] if positive is None else np.where(y[:1] == positive, 1.0, -1.0))[0])
        sums = threads.block_sums(_loss_blocks, 5, f.size, 4.0, *options, pivot, losses, curvature)
        spread = Spread.from_sums(sums, total)
    unit = 0.5 if loss.quadratic else 1.0  # libraries boost half the squared error: so penalties mean the same
    mu, lam = np.inf, 0.0  # where all rows are in the top, or all losses are alike, every density is the mean one
    if k < total and spread.deviation > 0.0:
        mu = width * spread.deviation
        lam = threshold(losses, mass, k, total, mu, guess)
    if code is None:
        lifted = np.clip(k / total + (losses - lam) / mu, 0.0, 1.0) * (total / k)
        each = unit if mass is None else unit * mass
        return each * lifted * slope, each * np.maximum(lifted, 1.0) * curvature, lam
    line, scales = (k / total, float(mu), float(lam)), (unit, spread.near, spread.usual, _has_chords(loss))
    threads.over_rows(_slope_blocks, f.size, 4.0, *options, line, scales, losses, curvature)
    return losses, curvature, lam


def steady_expansion(
    loss: IndividualLoss, f: Array, y: Array, mass: Array | None, total: float
) -> tuple[Array, Array, Array, Spread]:
    """Return losses, slopes and curvatures that are never zero, each of shape (n,), and what they say together.

    A boosted leaf takes the step ``-sum(slope) / sum(curvature)``, so that rows without curvature would let it go
    anywhere. Beside a kink, and on the straight part of a robust loss, the curvature is that of the parabola that
    touches the loss at the prediction and lies above it elsewhere; other rows without any have the mean of the rest.

    Examples
    --------
    >>> from atklearn import Huber
    >>> steady_expansion(Huber(1.0), np.array([0.5, 4.0]), np.zeros(2), None, 2.0)[2]
    array([1.  , 0.25])
    """
    s, slope, curvature = loss.expand(f, y)
    kink = Kink(loss.kink)
    losses = kink.loss(s)
    if _has_chords(loss):
        error = f - y
        curvature = np.maximum(curvature, np.divide(slope, error, out=np.zeros_like(error), where=error != 0.0))
    each = np.ones_like(f) if mass is None else mass
    curved = curvature > 0.0
    away = losses - losses[0]
    sums = [each @ away, each @ away**2, each @ np.abs(s), each @ np.where(curved, curvature, 0.0), each @ curved]
    spread = Spread.from_sums(np.array(sums), total)
    if kink is Kink.NONE:
        return losses, slope, np.where(curved, curvature, spread.usual), spread
    chord = slope**2 / np.maximum(np.abs(s), spread.near)
    return losses, kink.slope(s, slope), curvature + (chord if kink.is_two_sided else 0.5 * chord), spread


def _has_chords(loss: IndividualLoss) -> bool:
    """Whether a loss is smooth and of the error, so that the parabola above it has the curvature ``slope / error``."""
    return Kink(loss.kink) is Kink.NONE and loss.domain is Domain.NUMBERS and not loss.quadratic


@njit(cache=True, nogil=True, error_model="numpy")
def _fill_targets(y, classes, positive, target):  # type: ignore[no-untyped-def]
    # by itself, so that the loops over losses have no case to tell apart
    for i in range(y.size):
        target[i] = (1.0 if y[i] == positive else -1.0) if classes else y[i]


@njit(cache=True, nogil=True, fastmath=FAST_SUMS, error_model="numpy")
def _read(kink, mass, weighted, pivot, s, curvature):  # type: ignore[no-untyped-def]
    """Make losses of ``s``, and sum up what :class:`Spread` reads."""
    one = two = distance = bend = curved = 0.0
    for i in range(s.size):
        m = mass[i] if weighted else 1.0
        size = abs(s[i])
        s[i] = size if kink == ABSOLUTE else (s[i] if kink == SMOOTH else max(s[i], 0.0))
        away = s[i] - pivot
        one += m * away
        two += m * away * away
        distance += m * size
        bend += m * curvature[i]
        curved += m if curvature[i] > 0.0 else 0.0
    return one, two, distance, bend, curved


@njit(cache=True, nogil=True, error_model="numpy")
def _loss_blocks(first, last, size, loss, f, y, classes, positive, mass, weighted, pivot, losses, curvature, sums):  # type: ignore[no-untyped-def]
    """Fill in the losses and their own curvatures; leave sums of a block."""
    for block in range(first, last):
        part = slice(block * size, (block + 1) * size)
        target = np.empty(losses[part].size)
        _fill_targets(y[part], classes, positive, target)
        expand_curvatures(loss, f[part], target, losses[part], curvature[part])
        of_part = mass[part] if weighted else mass
        one, two, distance, bend, curved = _read(loss.kink, of_part, weighted, pivot, losses[part], curvature[part])
        sums[block, 0], sums[block, 1], sums[block, 2], sums[block, 3], sums[block, 4] = (
            one,
            two,
            distance,
            bend,
            curved,
        )


@njit(cache=True, nogil=True, fastmath=FAST_SUMS, error_model="numpy")
def _share_blocks(first, last, size, losses, mass, weighted, centre, mu, lam, sums):  # type: ignore[no-untyped-def]
    """Sum up the densities, and the mass of those between their bounds."""
    for block in range(first, last):
        total = free = 0.0
        for i in range(block * size, min((block + 1) * size, losses.size)):
            r = centre + (losses[i] - lam) / mu
            m = mass[i] if weighted else 1.0
            total += m * min(max(r, 0.0), 1.0)
            free += m if (r > 0.0) & (r < 1.0) else 0.0
        sums[block, 0], sums[block, 1] = total, free


@njit(cache=True, nogil=True, error_model="numpy")
def _steady(kink, f, target, scales, lifted, s, slope, curvature):  # type: ignore[no-untyped-def]
    """Write over slopes and curvatures those to boost with: see :func:`steady_expansion`."""
    unit, near, usual, has_chords = scales
    for i in range(f.size):
        one, two = slope[i], curvature[i]
        if kink != SMOOTH:
            chord = one * one / max(abs(s[i]), near)
            two += chord if kink == ABSOLUTE else 0.5 * chord
            one = one if s[i] > 0.0 else (-one if kink == ABSOLUTE else 0.0)
        elif has_chords:
            error = f[i] - target[i]
            two = max(two, one / error if error != 0.0 else 0.0)
        if kink == SMOOTH and two <= 0.0:
            two = usual
        slope[i] = unit * lifted[i] * one
        curvature[i] = unit * max(lifted[i], 1.0) * two


@njit(cache=True, nogil=True, error_model="numpy")
def _slope_blocks(first, last, size, loss, f, y, classes, positive, mass, weighted, line, scales, losses, curvature):  # type: ignore[no-untyped-def]  # fmt: skip
    """Write gradients over the losses, and curvatures to boost with over their own."""
    centre, mu, lam = line
    for block in range(first, last):
        part = slice(block * size, (block + 1) * size)
        target, slope, bend = np.empty(losses[part].size), losses[part], curvature[part]
        _fill_targets(y[part], classes, positive, target)
        lifted = np.empty(target.size)
        for i in range(target.size):
            lifted[i] = min(max(centre + (slope[i] - lam) / mu, 0.0), 1.0) / centre
        s = np.empty(target.size)
        expand_curvatures(loss, f[part], target, s, bend)
        expand_slopes(loss, f[part], target, s, slope)
        _steady(loss.kink, f[part], target, scales, lifted, s, slope, bend)
        if weighted:
            slope *= mass[part]
            bend *= mass[part]
