"""The point: predictions, losses and densities of all rows at one z and one k, and every move of the algorithm there.

With ``u = mass / k`` the average top-k of the losses is a maximum over densities ``r``:

    AT_k = max over r in R of sum(u r s),   R = {0 <= r <= 1, sum(u r) <= 1}
    (two-sided, for losses |s|:             R = {|r| <= 1, sum(u |r|) <= 1})

Adding ``-mu/2 sum(u (r - centre)^2)`` makes it smooth in ``s``; the maximiser is a clipped line in ``s`` above a
threshold ``lam >= 0``. Weighting the proximal term by ``u`` makes a sample of weight 2 and a repeated sample take the
very same steps.

Whatever has one entry per row lives in a store (:mod:`atklearn.core.store`); what the point sees of it is small:
numbers, named sums, arrays with one entry per coefficient. So this state machine is written once, and runs on arrays,
tensors, files and clusters.

Symbols: ``z`` the coefficients, those of the columns of ones among them; ``f`` the predictions; ``s`` the smooth part
of the losses (see :mod:`atklearn.losses.individual`); ``q = u r`` the sample weights; ``mu`` the smoothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from atklearn.core.packed import PackedSymmetric
from atklearn.losses.individual import Array
from atklearn.runtime.compiling import njit_if_there

if TYPE_CHECKING:
    from atklearn.core.store import Density, RowVector, State, Store, Subset

__all__ = [
    "Bound", "Curvature", "Form", "Gram", "Look", "Point", "Proof", "Ray", "Reading", "SettledSums", "Sides",
    "balance", "conclude", "narrow", "search_threshold",
]  # fmt: skip

Form: TypeAlias = Literal["matrix", "packed", "product"]

_MAX_SEARCH = 100  # looks at a threshold
ROUNDING = 1e-11  # in a sum of n shares
LEAST_ROUNDING, ROUNDING_PER_ROW = 1e-14, 1e-17  # that such a sum may be off to count as one
FOUND, LOOK, LOOK_AT_TOP = range(3)  # what a search has to do next


class SettledSums(NamedTuple):
    """What the rows add up to at a threshold, each term weighted by ``u``; a store fills it in this order."""

    above: float
    """``[l - lam]_+``"""
    slack: float
    """``[l - lam]_+ - (r s - lam |r|)``, which is never negative, so that the sum does not cancel."""
    mass: float
    """``|r|``"""
    moving: float
    """1 where a density is strictly between its bounds."""
    pull: float
    """``r s'`` where it is positive: the derivative along the column of ones, upwards;"""
    push: float
    """``-r s'`` where it is negative;"""
    pull_value: float
    push_value: float
    """and ``|r s|`` of either side."""
    steepness: float
    """``r s'`` times the predictions of a direction."""
    total: float
    first: float
    second: float
    size: float
    """1, ``s - lam``, ``(s - lam)^2`` and ``|s|``."""


class Reading(NamedTuple):
    """What a point says once it is smoothed."""

    threshold: float
    """``lam``: the densities are positive above it."""
    bound: float
    """``lam + sum(u [l - lam]_+)``, which is at least AT_k (Lemma 1)."""
    slack: float
    """``bound - sum(u r s)``: what the densities leave to gain."""
    push: float
    """Derivative along the column of ones; with several outputs the largest of theirs."""
    imbalance: float
    """At most what it costs the lower bound to balance the densities, so that this derivative vanishes."""
    steepness: float
    """Derivative along the ray; meaningless at a point that is on none."""
    moving: float
    """``sum(u)`` over the samples between the bounds of their density; 0 while the threshold is 0."""
    deviation: float
    size: float
    """Standard deviation of ``s``, and mean of ``|s|``."""

    @classmethod
    def of(cls, threshold: float, sums: SettledSums) -> Reading:
        """Return the reading of sums at a threshold."""
        return cls(*conclude(threshold, *sums))


class Gram(NamedTuple):
    """The weighted Gram matrix of the rows, without the rank-one term.

    ``sum(h x x^T)`` with ``h = u |r| s'' + [i in T] u s'^2 / mu``, where T are the samples strictly between the bounds
    of their density: as ``matrix``, as ``packed``, or as ``product`` with its ``diagonal``.
    """

    pulls: Array
    """``sum over T of u sign(r) s' x``"""
    tied: float
    """``sum over T of u``, each row standing for those left out."""
    is_sampled: bool
    """Whether only some rows went in."""
    matrix: Array | None = None
    packed: PackedSymmetric | None = None
    product: Callable[[Array], Array] | None = None
    diagonal: Array | None = None


class Curvature(NamedTuple):
    """The generalised Hessian of the smoothed loss, without the penalty, in the form that was asked for.

    ``matrix`` or ``packed`` is set if it was asked for, else ``product`` (v -> H v) and ``diagonal``. ``is_sampled``
    says that only some rows went in, ``has_ties`` that there are samples between the bounds of their density.
    """

    matrix: Array | None
    packed: PackedSymmetric | None
    product: Callable[[Array], Array] | None
    diagonal: Array | None
    is_sampled: bool
    has_ties: bool


class Sides(NamedTuple):
    """How hard the densities pull at the column of ones, up and down, and ``sum(u |r|)`` of up, down and neither."""

    pull: float
    push: float
    mass_up: float
    mass_down: float
    mass_level: float

    def feasible(self, balanced: bool) -> tuple[float, float, float]:
        """Return what the densities of each kind are multiplied with to be feasible, and balanced if wanted."""
        up, down = balance(self.pull, self.push) if balanced else (1.0, 1.0)
        most = max(up * self.mass_up + down * self.mass_down + self.mass_level, 1.0)  # feasible beyond rounding
        return up / most, down / most, 1.0 / most


class Bound(NamedTuple):
    """What feasible densities leave at a threshold, of losses computed anew; each term weighted by ``u``."""

    above: float
    """``[l - lam]_+``"""
    slack: float
    """``[l - lam]_+ - (r s - lam |r|)``"""
    mass: float
    """``|r|``"""
    change: float
    """``r (s - s_then - s'_then (f - f_then))``: how far the losses are above the tangents that the densities took."""
    steepness: float
    pull: float
    """``|s'|`` and ``|r s'|`` of the tangents."""


class Proof(NamedTuple):
    """What certifies a point: the exact aggregate, and a lower bound's ingredients."""

    value: float
    """AT_k, exactly: of predictions computed anew from z."""
    threshold: float
    """The k-th largest loss."""
    slack: float
    """``value - sum(u r (s + s' (x . z - f)))`` for the densities below.

    The tangents of convex losses bound them from below wherever they touch, so ``f`` may be predictions that rounding
    has moved from ``x . z``: they have served to find densities whose gradient vanishes, and fresh ones would not.
    """
    gradient: Array
    """``X^T (u r s')``."""
    density: Density
    """Feasible: ``sum(u |r|) <= 1``, and no derivative along the column of ones if that was asked for."""
    steepness: float
    pull: float
    """``sum(u |s'|)``, what an error in every prediction can count at most, and ``sum(u |r s'|)``."""


@njit_if_there(cache=True, nogil=True, error_model="numpy")
def balance(pull, push):  # type: ignore[no-untyped-def]
    """Return what the densities that pull up and those that push down are multiplied with, so that both balance.

    The heavier side is scaled down: so the densities stay feasible, since ``sum(u |r|) <= 1`` may be slack, and the
    bound needs no guess of where the optimal intercept lies.

    Examples
    --------
    >>> balance(4.0, 1.0), balance(0.0, 0.0)
    ((0.25, 1.0), (1.0, 1.0))
    """
    up = min(push / pull, 1.0) if pull > 0.0 else 1.0
    down = min(pull / push, 1.0) if push > 0.0 else 1.0
    return up, down


def _subtract_outer(H: Array, g: Array, factor: float) -> None:
    H -= np.outer(factor * g, g)


@njit_if_there(cache=True, nogil=True, error_model="numpy", instead=_subtract_outer)
def subtract_square(H, g, factor):  # type: ignore[no-untyped-def]
    """Take ``factor * g g^T`` off a matrix, in place."""
    for i in range(g.size):
        scaled = factor * g[i]
        for j in range(g.size):
            H[i, j] -= scaled * g[j]


@njit_if_there(cache=True, nogil=True, error_model="numpy")
def conclude(  # type: ignore[no-untyped-def]
    lam, above, slack, mass, moving, pull, push, pull_value, push_value, steepness, total, first, second, size
):
    """Return the fields of a :class:`Reading`, for a threshold and the fields of :class:`SettledSums`."""
    up, down = balance(pull, push)  # scaled down until it balances the other, the heavier side gives up this much
    imbalance = (1.0 - up) * pull_value + (1.0 - down) * push_value
    mean = first / total
    return (
        lam, lam + above, slack + lam * max(1.0 - mass, 0.0), pull - push, imbalance, steepness,
        moving if lam > 0.0 else 0.0, math.sqrt(max(second / total - mean * mean, 0.0)), size / total,
    )  # fmt: skip


@njit_if_there(cache=True, nogil=True, error_model="numpy")
def narrow(lam, low, high, seen_zero, total, free, mu, n):  # type: ignore[no-untyped-def]
    """Return the next threshold to look at, the bracket, whether zero was seen, and what to do.

    The sum of shares falls with lam and is piecewise linear, so from a good guess two or three looks are enough; only
    where they leave the bracket that has been seen are its ends looked at themselves.
    """
    seen_zero = seen_zero or lam == 0.0
    if abs(total - 1.0) <= max(LEAST_ROUNDING, ROUNDING_PER_ROW * n) or (lam == 0.0 and total <= 1.0 + ROUNDING):
        return lam, low, high, seen_zero, FOUND
    if total > 1.0:
        low = lam
    else:
        high = lam
    following = lam + (total - 1.0) * mu / free if free > 0.0 else np.nan
    if following == lam:
        return lam, low, high, seen_zero, FOUND
    if low < following < high:
        lam = following
    elif not seen_zero and total <= 1.0:
        lam = 0.0
    elif high == np.inf:
        return lam, low, high, seen_zero, LOOK_AT_TOP
    else:
        lam = 0.5 * (low + high)
    is_narrow = high < np.inf and high - low <= 1e-16 * high
    return lam, low, high, seen_zero, FOUND if is_narrow else LOOK


def search_threshold(
    shares: Callable[[float], tuple[float, float]], top: Callable[[], float], mu: float, guess: float, n: int
) -> float:
    """Return ``lam >= 0`` with ``sum(u |r|) = 1``, or 0 if the sum stays below: Newton's method inside a bracket.

    Parameters
    ----------
    shares : callable
        Takes ``lam``, returns ``sum(u |r|)`` and the part of it that moves with ``lam``.
    top : callable
        Returns a threshold above which every density is zero.
    mu, guess : float
    n : int
        How many samples there are.

    Examples
    --------
    >>> search_threshold(lambda lam: (2.0 - lam, 1.0), lambda: 2.0, mu=1.0, guess=0.0, n=1)
    1.0
    """
    lam, low, high, seen_zero, task = float(guess), 0.0, np.inf, False, LOOK
    total = free = 0.0
    for _ in range(_MAX_SEARCH):
        if task == LOOK:
            total, free = shares(lam)
        else:
            high = top()
        lam, low, high, seen_zero, task = narrow(lam, low, high, seen_zero, total, free, mu, n)
        if task == FOUND:
            break
    return float(lam)


class Ray:
    """A half-line from a point; looking along it takes no pass over X."""

    def __init__(
        self, store: Store, z: Array, state: State, centre: Density, threshold: float, direction: Array
    ) -> None:
        self.store, self.z, self.state, self.centre, self.threshold = store, z, state, centre, threshold
        self.direction = direction
        self.along: RowVector = store.predict(direction)

    def look(self, t: float, mu: float) -> Look:
        """Smooth the losses at ``z + t * direction``."""
        reading, state = self.store.smoothed_along(self.state, t, self.along, self.centre, mu, self.threshold)
        return Look(self, t, mu, reading, state)


class Look(NamedTuple):
    """What a ray saw at a distance: the smoothing, the reading, and the rows as they are there."""

    ray: Ray
    t: float
    mu: float
    reading: Reading
    state: State

    @property
    def z(self) -> Array:
        """Where that is."""
        return self.ray.z + self.t * self.ray.direction


class Point:
    """The rows of a store at one z and one k: every method is a few questions to the store, and arithmetic.

    Parameters
    ----------
    store : Store
    z : ndarray of shape (n_columns,)
    k : float
        Mass in the top.
    density : Density, default=None
        Densities, and the centre of the proximal term; everyone alike if None.
    """

    def __init__(self, store: Store, z: Array, k: float, density: Density | None = None) -> None:
        self.store, self.z, self.k = store, z, k
        self.state: State = store.stand(z, k, density)
        self.centre: Density = store.densities(self.state)
        self.reading: Reading | None = None  # of the last smoothing
        self.mu = 1.0
        self.is_fresh = True  # whether the predictions are those of z, and no move has added rounding

    @property
    def threshold(self) -> float:
        """The threshold of the last smoothing, from which the next search starts."""
        return 0.0 if self.reading is None else self.reading.threshold

    def smooth(self, mu: float) -> Reading:
        """Find threshold and densities: the maximum over r of ``sum(u (r s - mu/2 (r - centre)^2))``."""
        self.mu = mu
        self.reading, self.state = self.store.smoothed(self.state, self.centre, mu, self.threshold)
        return self.reading

    def recentre(self) -> None:
        """Make the densities the centre."""
        self.centre = self.densities()

    def densities(self) -> Density:
        """Return the densities of the last smoothing."""
        return self.store.densities(self.state)

    def refresh(self) -> None:
        """Compute predictions and losses anew from z: moves along rays add up rounding."""
        self.state = self.store.stand(self.z, self.k, self.densities())
        self.is_fresh = True

    def reach(self) -> float:
        """Return the length of the interval that holds all predictions and targets."""
        low, high = self.store.prediction_range(self.state)
        least, most = self.store.target_range
        return max(high, most) - min(low, least)

    def shift(self, amount: float) -> None:
        """Move along the column of ones, which takes no pass over X; to be smoothed again."""
        self.z = self.z.copy()
        self.z[self.store.ones] += amount
        self.state = self.store.shifted(self.state, amount)
        self.is_fresh = False

    def towards(self, direction: Array) -> Ray:
        """Return the ray in a direction: one pass over X."""
        return Ray(self.store, self.z, self.state, self.centre, self.threshold, direction)

    def move_to(self, look: Look) -> None:
        """Move to what a ray has looked at."""
        self.z, self.mu, self.reading, self.state = look.z, look.mu, look.reading, look.state
        self.is_fresh = False

    def gradient(self) -> Array:
        """Return ``X^T (u r s')``."""
        return self.store.pull(self.state)

    def curvature(
        self, mu: float, *, form: Form, cautious: bool = False, most: int | None = None, seed: int = 0
    ) -> Curvature:
        """Return ``X^T diag(h) X - g g^T / (mu m)``, as a matrix, packed into half of one, or as a product.

        ``h = u |r| s'' + [i in T] u s'^2 / mu``, ``g = sum over T of u sign(r) s' x``, ``m = sum over T of u``, where
        T are the samples strictly between the bounds of their density; the rank-one term, present while the threshold
        is positive, is the threshold following the step. Only up to ``most`` rows of T, and as many others, go in. A
        ``cautious`` one takes no ``s''`` below ``s'^2 / (2 s)``: a smaller one would promise negative losses.
        """
        gram = self.store.gram(self.state, mu, form=form, cautious=cautious, most=most, seed=seed)
        H, packed, product, diagonal = gram.matrix, gram.packed, gram.product, gram.diagonal
        moving = 0.0 if self.reading is None else self.reading.moving
        if moving > 0.0 and gram.tied > 0.0:
            # by no less than the moving mass of the rows that went in, or the matrix could turn indefinite
            g, factor = gram.pulls, 1.0 / (mu * max(moving, gram.tied))
            if H is not None:
                subtract_square(H, g, factor)
            elif packed is not None:
                packed.add_gram(g[None, :], -factor)
            elif product is not None and diagonal is not None:
                diagonal, product = diagonal - factor * g**2, _less_square(product, g, factor)
        return Curvature(H, packed, product, diagonal, gram.is_sampled, gram.tied > 0.0)

    def prove(self, *, balanced: bool) -> Proof:
        """Return the exact aggregate and a feasible density near r; ``balanced`` along the column of ones."""
        store, z = self.store, self.z
        at_once = store.prove_at_once(self.state, z, self.k, self.is_fresh, balanced)
        if at_once is not None:
            return at_once
        exact = self.state if self.is_fresh else store.stand(z, self.k, None)
        feasible = store.feasible(self.state, balanced)
        gradient = store.pull(feasible)
        threshold = store.ranked(exact, self.k)
        bound = store.bound(exact, feasible, threshold)
        slack = bound.slack + threshold * max(1.0 - bound.mass, 0.0) + bound.change
        density = store.densities(feasible)
        return Proof(threshold + bound.above, threshold, slack, gradient, density, bound.steepness, bound.pull)

    def largest(self, count: int, *, beside: Subset | None = None, above: float = 0.0) -> Subset:
        """Return the rows with the largest losses; ``beside`` those of a subset, only such as are ``above`` a value."""
        subset: Subset = self.store.largest(self.state, count, beside, above)
        return subset


def _less_square(product: Callable[[Array], Array], g: Array, factor: float) -> Callable[[Array], Array]:
    """Return v -> H v - factor (g . v) g."""

    def reduced(v: Array) -> Any:
        return product(v) - (factor * float(g @ v)) * g

    return reduced
