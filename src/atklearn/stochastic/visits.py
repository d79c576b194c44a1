"""The visits of the stochastic solver: in which order it comes by the rows, and what it does there, compiled.

All visits weigh the same: a row of mass 2 is visited twice, a row of mass 0 never, and a row of mass 0.5 every second
time. So weights mean repetition by construction, and no heavy row makes a large step.

In shuffled passes the order starts from the rows themselves, sorted by a hash of their values, before it is shuffled.
Then neither the order of the rows, nor whether a row is repeated or weighted, nor whether the matrix is dense or
sparse, changes what a seed gives.

Symbols: the weights are ``w = scale * v``, so that shrinking them costs one multiplication. Their average with weights
``c_t`` is ``(reach * v - lag) / total``, where ``reach`` sums ``c_t * scale`` and ``lag`` holds each change of ``v``
times the reach before it, so that averaging costs no more than the change itself. A visit touches the non-zero entries
of its row and nothing else.

The loop is written once. It is compiled for NumPy arrays, for CSR rows and for losses that are formulas; any other
loss runs the same loop interpreted. What the loop does with a row stands in :mod:`atklearn.stores.passes`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from atklearn.losses.compiled import CompiledLoss, loss_and_slope
from atklearn.losses.individual import Array, IndividualLoss, Kink
from atklearn.runtime.compiling import njit, overload
from atklearn.stores.compiled import Places
from atklearn.stores.passes import add, add_twice, dot, fetch, square

__all__ = ["MassClock", "Rows", "StepRule", "passes", "walk"]

Rows: TypeAlias = Array | sp.csr_array | sp.csr_matrix

# Weights that sum to more than this many visits per row are scaled down: beyond it, a pass gets longer, not better.
_MAX_VISITS_PER_ROW = 10


class MassClock:
    """Turns the mass of the rows that come by into visits: one for every unit of mass, across blocks of rows.

    Examples
    --------
    >>> import numpy as np
    >>> clock = MassClock()
    >>> clock.visits(np.array([1.0, 2.0, 0.0])), clock.visits(np.array([0.5, 0.5, 0.5]))
    (array([0, 1, 1]), array([0, 2]))
    """

    def __init__(self, start: float = 0.5) -> None:
        self.time = start

    def visits(self, mass: Array) -> Places:
        """Return the positions of the rows in the order of their visits, repeated as often as they are visited."""
        counts, self.time = _count_ticks(mass, self.time)
        return np.repeat(np.arange(mass.size), counts)


def passes(X: Rows, y: Array, mass: Array, shuffle: bool, seed: int) -> Iterator[Places]:
    """Yield the visits of one pass over the data after the other.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d)
    y : ndarray of shape (n,)
    mass : ndarray of shape (n,)
        Sample weights >= 0.
    shuffle : bool
        Whether each pass has a random order of its own; otherwise rows are visited cyclically, as they come.
    seed : int
    """
    rows = np.argsort(row_keys(X, y), kind="stable") if shuffle else np.arange(mass.size)
    rows = rows[mass[rows] > 0.0]
    total = mass.sum()
    unit = np.clip(np.ceil(total * (1.0 - 1e-9)), rows.size, _MAX_VISITS_PER_ROW * rows.size) / total
    plain = bool(mass[rows].min() == mass[rows].max()) and total * unit == rows.size
    rng = np.random.default_rng(seed)
    while True:
        # Where weights are fractions, a fresh offset picks other rows each time, in proportion to their mass. It is
        # drawn in any case, so that the same shuffles follow whether rows are weighted or repeated.
        clock = MassClock(rng.random())
        visits = rows if plain else rows[clock.visits(mass[rows] * unit)]
        yield rng.permutation(visits) if shuffle else visits


def row_keys(X: Rows, y: Array) -> npt.NDArray[np.uint64]:
    """Return a number for each row that depends on its non-zero values, their columns and its target only."""
    keys: npt.NDArray[np.uint64] = (
        _dense_keys(X, y) if isinstance(X, np.ndarray) else _sparse_keys(X.data, X.indices, X.indptr, y)
    )
    return keys


@njit(cache=True)
def _count_ticks(mass, time):  # type: ignore[no-untyped-def]
    """Count the units completed by each row; row by row, so that it does not matter where a block ends."""
    counts = np.empty(mass.size, np.int64)
    for i in range(mass.size):
        time += mass[i]
        counts[i] = int(time)
        time -= counts[i]
    return counts, time


@njit(cache=True)
def _mix(column, value, cell):  # type: ignore[no-untyped-def]
    """Scramble one entry of a row into 64 bits, so that sums over the entries tell rows apart."""
    cell[0] = value
    bits = cell.view(np.uint64)[0] + np.uint64(0x9E3779B97F4A7C15) * np.uint64(column + 1)
    bits = (bits ^ (bits >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    bits = (bits ^ (bits >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return bits ^ (bits >> np.uint64(32))


@njit(cache=True)
def _dense_keys(X, y):  # type: ignore[no-untyped-def]
    keys = np.empty(X.shape[0], np.uint64)
    cell = np.empty(1)  # where the bits of a number are read
    for i in range(X.shape[0]):
        key = _mix(-1, y[i], cell)
        for j in range(X.shape[1]):
            if X[i, j] != 0.0:
                key += _mix(j, X[i, j], cell)
        keys[i] = key
    return keys


@njit(cache=True)
def _sparse_keys(data, indices, indptr, y):  # type: ignore[no-untyped-def]
    keys = np.empty(indptr.size - 1, np.uint64)
    cell = np.empty(1)
    for i in range(keys.size):
        key = _mix(-1, y[i], cell)
        for position in range(indptr[i], indptr[i + 1]):
            if data[position] != 0.0:
                key += _mix(indices[position], data[position], cell)
        keys[i] = key
    return keys


# The places of the numbers that change from visit to visit.
SCALE, B, LAM, T, TOTAL, REACH, B_SUM, LAM_SUM, STATE_SIZE = range(9)

INVERSE_POWER, OPTIMAL, CONSTANT = range(3)
LAST, ALL, RECENT = range(3)

# Below this scale, v grows so large that it is rescaled.
_SMALL_SCALE = 1e-9


class StepRule(NamedTuple):
    """What stays the same from visit to visit."""

    schedule: int
    eta0: float
    power: float
    delay: float  # visits after which an inverse-power step has begun to fall
    lam_rate: float  # of the threshold's step to the weights' step
    lam_max: float
    fraction: float  # k / n
    ridge: float  # 1 / C
    has_intercept: bool
    decays_intercept: bool
    curvature: float  # of the loss, to keep a step from overshooting; 0 where no step is limited
    averaging: int  # whether c_t is 0, 1 or t^2


def walk(
    X: Rows,
    y: Array,
    visits: Places,
    loss: CompiledLoss | IndividualLoss,
    v: Array,
    lag: Array,
    state: Array,
    rule: StepRule,
) -> float:
    """Make the visits in turn, changing ``v``, ``lag`` and ``state``; return the sum of ``lam + [l - lam]_+ n/k``."""
    compiled = isinstance(loss, CompiledLoss)
    return float((_walk if compiled else _walk.py_func)(X, y, visits, loss, v, lag, state, rule))


@njit(cache=True, nogil=True)
def _walk(X, y, visits, loss, v, lag, state, rule):  # type: ignore[no-untyped-def]
    scale, b, lam, t = state[SCALE], state[B], state[LAM], state[T]
    total, reach, b_sum, lam_sum = state[TOTAL], state[REACH], state[B_SUM], state[LAM_SUM]
    fraction, lam_rate, lam_max, curvature = rule.fraction, rule.lam_rate, rule.lam_max, rule.curvature
    has_intercept, decays_intercept, ridge = rule.has_intercept, rule.decays_intercept, rule.ridge
    averaging = rule.averaging
    cost = 0.0
    for position in range(visits.size):
        i = visits[position]
        if position + 1 < visits.size:
            fetch(X, visits[position + 1])
        eta = _step_size(rule, t)
        value, slope = _evaluate(loss, scale * dot(X, i, v) + b, y[i])
        above = value > lam
        cost += lam
        shrink = 1.0 - eta * ridge
        if shrink > 0.0:
            scale *= shrink
        if shrink <= 0.0 or scale < _SMALL_SCALE:
            # v takes over the scale, and lag what the average owes to the past
            for j in range(v.size):
                lag[j] -= reach * v[j]
                v[j] *= scale if shrink > 0.0 else 0.0
            scale = 1.0
            reach = 0.0
        if decays_intercept:
            b *= max(shrink, 0.0)
        if above:
            cost += (value - lam) / fraction
            step = eta
            if curvature > 0.0:
                bend = curvature * (square(X, i) + has_intercept)
                step = min(eta, fraction / bend) if bend > 0.0 else eta
            change = -step * slope / fraction
            if change != 0.0:
                if reach == 0.0:  # without averaging the lag stays out of the way
                    add(X, i, change / scale, v)
                else:
                    add_twice(X, i, change / scale, v, reach, lag)
                if has_intercept:
                    b += change
            lam = min(lam + eta * lam_rate * (1.0 / fraction - 1.0), lam_max)
        else:
            lam = max(lam - eta * lam_rate, 0.0)
        t += 1.0
        weight = t * t if averaging == RECENT else (1.0 if averaging == ALL else 0.0)
        total += weight
        reach += weight * scale
        b_sum += weight * b
        lam_sum += weight * lam
    state[SCALE], state[B], state[LAM], state[T] = scale, b, lam, t
    state[TOTAL], state[REACH], state[B_SUM], state[LAM_SUM] = total, reach, b_sum, lam_sum
    return cost


@njit(cache=True)
def _step_size(rule, t):  # type: ignore[no-untyped-def]
    """Return the step of the visit after ``t`` others."""
    if rule.schedule == INVERSE_POWER:
        slowed = 1.0 + t / rule.delay
        return rule.eta0 / (np.sqrt(slowed) if rule.power == 0.5 else slowed**rule.power)
    if rule.schedule == OPTIMAL:
        return rule.eta0 / (1.0 + rule.eta0 * rule.ridge * t)
    return rule.eta0


def _evaluate(loss, f, y):  # type: ignore[no-untyped-def]
    """Return the loss and its derivative in the prediction."""
    s, slope, _ = loss.expand(np.array([f]), np.array([y]))
    kink = Kink(loss.kink)
    return float(kink.loss(s)[0]), float(kink.slope(s, slope)[0])


@overload(_evaluate)
def _compile_evaluate(loss, f, y):  # type: ignore[no-untyped-def]  # noqa: ARG001
    def evaluate(loss, f, y):  # type: ignore[no-untyped-def]
        return loss_and_slope(loss, f, y)

    return evaluate
