"""What a store of rows answers: the line between the algorithm and the data; and the plain store, which defines it.

A store holds the samples: X, with a column of ones if there is an intercept, targets and mass, and the loss they pay.
What crosses the line is small: numbers, named sums, arrays with one entry per coefficient. Whatever has one entry per
row (a state, a vector of predictions, densities) is opaque outside, and never changed by anybody but its store.

:class:`PlainStore` says every answer as plainly as NumPy can. All other stores must answer as it does, and differ in
how an answer is computed, in nothing else. It is also what runs where Numba is missing, and the one store that knows
several *outputs* (predictions of shape (n, m)) and *units* (what is ranked is a group of rows, its loss the weighted
mean of theirs).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.linalg.lapack import dtrttf

from atklearn.core.coordinates import Coordinates, Units, convert, even_units, helpful_units
from atklearn.core.packed import PackedSymmetric
from atklearn.core.point import Bound, Form, Gram, Point, Proof, Reading, SettledSums, Sides, search_threshold
from atklearn.core.ranking import Between, rank
from atklearn.losses.aggregate import least_mass, rank_of
from atklearn.losses.individual import Array, IndividualLoss, Kink

__all__ = [
    "ArrayStore", "Ascent", "Density", "Expanded", "Gathered", "PlainState", "PlainStore", "RowVector", "State",
    "Store", "Subset", "spread_places",
]  # fmt: skip

Density: TypeAlias = Any
"""One number in [0, 1] per unit, in [-1, 1] for two-sided losses, held as the store likes it."""
RowVector: TypeAlias = Any
"""Predictions of all rows, held as the store likes it."""
State: TypeAlias = Any
"""All rows at one z and one k: predictions, losses, densities, held as the store likes it."""
Places: TypeAlias = npt.NDArray[np.intp]


_SOME_NUMBERS = 1 << 18  # of X that are looked at together, so that their copy is small


def spread_places(n: int, count: int, seed: int = 0) -> Places:
    """Return the places of some of n rows: random, sorted, one from each of ``count`` equal parts.

    Examples
    --------
    >>> spread_places(10, 3)
    array([2, 4, 6])
    """
    count = min(count, n)
    drawn = (np.arange(count) + np.random.default_rng(seed).random(count)) * (n / max(count, 1))
    return drawn.astype(np.intp)


class Ascent(Protocol):
    """Coordinate ascent on the dual of a loss with a kink, whose smooth part is a line: ``s = s_0 + s' f``.

    The dual is ``sum(u r s_0) - sum(give (X^T (u r s'))^2) / 2``, ``give`` being one over the ridge, and
    ``z = -give X^T (u r s')`` all along; the bound on the sum of the densities is left out.
    """

    @property
    def z(self) -> Array:
        """The coefficients of these densities."""

    @property
    def density(self) -> Density:
        """Where it has got to."""

    def sweep(self) -> float:
        """Maximise over the density of each row once, in random order; return ``sum(u |r|)``."""


class Subset:
    """Some units of a store, in memory, that know their places among all.

    Parameters
    ----------
    whole : Store
        Whose densities are arrays.
    places : ndarray of shape (n,)
    """

    def __init__(self, whole: Any, places: Any) -> None:
        self.whole, self.places = whole, places
        self.rows: Store = whole.take(places)

    def restrict(self, density: Density) -> Density:
        """Return the densities of these units."""
        return density[self.places]

    def extend(self, density: Density) -> Density:
        """Return densities of all units, zero for those that are not here."""
        out = np.zeros(self.whole.n_rows)
        out[self.places] = density
        return out


class Expanded(NamedTuple):
    """The smooth parts of the losses of all rows, with their derivatives in the prediction, as arrays."""

    s: Array
    slope: Array
    bend: Array


class Gathered(NamedTuple):
    """All units of a store as arrays in memory, and what makes densities of these the store's own."""

    rows: ArrayStore
    extend: Callable[[Array], Density]


class Store(ABC):
    """Samples, and what an algorithm may ask of them.

    Attributes
    ----------
    loss : IndividualLoss
    is_dense : bool
        Whether products of matrices are the quick way to compute with X.
    n_rows : int
        How many units are ranked: rows, if each is a unit by itself.
    n_columns : int
        How many coefficients there are.
    total : float
        The mass of all.
    each : float or None
        The mass of every unit, if all are alike.
    ones : int, ndarray or None
        Which entries of z belong to the column of ones.
    target_range : tuple of float
        The smallest and the largest target.
    max_subset_rows : int
        How many rows a subset in memory may have.
    passes_are_remote : bool
        Whether every pass over X is dear, be it over few of the rows.
    min_efficient_rows : int
        So many rows take no longer than fewer would.
    is_gatherable : bool
        Whether all of it fits into memory as arrays.
    """

    loss: IndividualLoss
    is_dense: bool
    n_rows: int
    n_columns: int
    total: float
    each: float | None
    ones: Any
    target_range: tuple[float, float]
    max_subset_rows: int
    passes_are_remote = False
    min_efficient_rows = 1
    is_gatherable = False
    n_outputs = 1
    most_ranked = 1 << 17  # losses that are sorted at a time

    @property
    def kink(self) -> Kink:
        """How the loss follows from its smooth part."""
        return Kink(self.loss.kink)

    @cached_property
    def loss_at_zero(self) -> float:
        """What a classifier pays that says nothing."""
        return self.loss.at_zero

    def point(self, z: Array, k: float, density: Density | None = None) -> Point:
        """Return the point at z, its densities and their centre as given, or everyone alike."""
        return Point(self, z, k, density)

    def alike(self, k: float) -> float:
        """Return the density of everyone where all are alike; of two-sided losses zero, so that no side is taken."""
        return 0.0 if self.kink.is_two_sided else min(k / self.total, 1.0)

    # States

    @abstractmethod
    def stand(self, z: Array, k: float, density: Density | None) -> State:
        """Return the rows at z, with densities as given, or everyone alike: one pass over X."""

    @abstractmethod
    def predict(self, direction: Array) -> RowVector:
        """Return ``X direction``: one pass over X."""

    @abstractmethod
    def moved(self, state: State, t: float, along: RowVector) -> State:
        """Return the rows at predictions ``f + t along``; no pass over X."""

    @abstractmethod
    def shifted(self, state: State, amount: Any) -> State:
        """Return the rows at predictions ``f + amount``."""

    @abstractmethod
    def densities(self, state: State) -> Density:
        """Return the densities of a state."""

    @abstractmethod
    def prediction_range(self, state: State) -> tuple[float, float]:
        """Return the smallest and the largest prediction."""

    # Smoothing

    @abstractmethod
    def settle(
        self, state: State, centre: Density, mu: float, lam: float, along: RowVector | None
    ) -> tuple[SettledSums, State]:
        """Return what the rows add up to at a threshold, and the state with the densities there."""

    @abstractmethod
    def top(self, state: State, centre: Density, mu: float) -> float:
        """Return the threshold above which every density is zero."""

    def smoothed(
        self, state: State, centre: Density, mu: float, guess: float, along: RowVector | None = None
    ) -> tuple[Reading, State]:
        """Find the threshold, from a first guess; return the reading there, and the state with its densities."""
        seen: dict[float, tuple[SettledSums, State]] = {}

        def shares(lam: float) -> tuple[float, float]:
            seen.clear()
            seen[lam] = sums, _ = self.settle(state, centre, mu, lam, along)
            return sums.mass, sums.moving

        lam = search_threshold(shares, lambda: self.top(state, centre, mu), mu, guess, self.n_rows)
        sums, settled = seen.get(lam) or self.settle(state, centre, mu, lam, along)
        return Reading.of(lam, sums), settled

    def smoothed_along(
        self, state: State, t: float, along: RowVector, centre: Density, mu: float, guess: float
    ) -> tuple[Reading, State]:
        """Find the threshold at predictions ``f + t along``."""
        return self.smoothed(self.moved(state, t, along), centre, mu, guess, along)

    # Derivatives

    @abstractmethod
    def pull(self, state: State) -> Array:
        """Return ``X^T (u r s')``."""

    @abstractmethod
    def gram(self, state: State, mu: float, *, form: Form, cautious: bool, most: int | None, seed: int) -> Gram:
        """Return the weighted Gram matrix: see :meth:`Point.curvature`. Its arrays belong to the caller."""

    # Proof

    def prove_at_once(
        self,
        state: State,  # noqa: ARG002
        z: Array,  # noqa: ARG002
        k: float,  # noqa: ARG002
        is_fresh: bool,  # noqa: ARG002
        balanced: bool,  # noqa: ARG002
    ) -> Proof | None:
        """Return what :meth:`Point.prove` would, where one call for all of it pays; else None."""
        return None

    @cached_property
    @abstractmethod
    def largest_entries(self) -> Array:
        """The largest ``|x|`` of every column, the column of ones included: what rounding in X z is bounded by."""

    @property
    def most_terms(self) -> int:
        """How many entries a row has at most: as many products are summed up in ``X z``."""
        return self.n_columns

    def feasible(self, state: State, balanced: bool) -> State:
        """Return the state with feasible densities near its own, balanced along the column of ones if wanted."""
        return self.scaled(state, *self.sides(state).feasible(balanced))

    @abstractmethod
    def sides(self, state: State) -> Sides:
        """Return how hard the densities pull at the column of ones, and their mass."""

    @abstractmethod
    def scaled(self, state: State, up: float, down: float, level: float) -> State:
        """Return the state with the densities that pull up, down and not at all times a factor each."""

    @abstractmethod
    def bound(self, exact: State, feasible: State, lam: float) -> Bound:
        """Return what the feasible densities leave at a threshold, of the losses of another state."""

    def ranked(self, state: State, k: float) -> float:
        """Return the k-th largest loss."""
        by_count = self.each is not None
        wanted = least_mass(k) if self.each is None else float(rank_of(k / self.each, self.n_rows))
        if by_count and wanted == self.n_rows:
            return self.least(state)
        found = rank(
            lambda low, high, share: self.between(state, low, high, share, by_count),
            wanted, self.n_rows, self.most_ranked,
        )  # fmt: skip
        return max(found.value, 0.0) if self.kink is Kink.POSITIVE_PART else found.value

    @abstractmethod
    def least(self, state: State) -> float:
        """Return the smallest loss."""

    @abstractmethod
    def between(self, state: State, low: float, high: float, share: float, by_count: bool) -> Between:
        """Return what the losses say of an interval; amounts are mass, or numbers if asked for ``by_count``."""

    # Parts, and other stores of the same rows

    @abstractmethod
    def largest(self, state: State, count: int, beside: Any, above: float) -> Any:
        """Return the subset with the largest losses; ``beside`` those of a subset, only such as are ``above``."""

    @abstractmethod
    def sample(self, count: int) -> Store:
        """Return a random part of the rows, the same every time."""

    @abstractmethod
    def conditioned(self, *, centred: bool) -> tuple[Store, Coordinates] | None:
        """Return the same samples in coordinates that are quicker or harm less by rounding, or None."""

    @abstractmethod
    def paying(self, loss: IndividualLoss) -> Store:
        """Return the same samples with another loss."""

    @abstractmethod
    def mean_square(self) -> float:
        """Return the mean of ``|x|^2`` over the mass, the column of ones included."""

    def ascent(self, k: float, C: float, density: Density | None = None, *, balanced: bool) -> Ascent | None:  # noqa: ARG002
        """Start a coordinate ascent on the dual, the ridge being 1 / C, where there are losses and rows for it.

        If ``balanced``, the column of ones has no ridge: its coefficient follows the derivative along it, which
        vanishes in the end.
        """
        return None

    def gathered(self) -> Gathered:
        """Return all rows as arrays in memory, if it is gatherable."""
        raise NotImplementedError

    # Densities and coefficients

    @abstractmethod
    def holds(self, density: Density) -> bool:
        """Say whether densities are of as many units."""

    @abstractmethod
    def blend(self, terms: Sequence[tuple[float, Density]], k: float) -> Density:
        """Return a linear combination of densities, made feasible for k."""

    @abstractmethod
    def sample_weights(self, density: Density, k: float) -> Any:
        """Return ``q = u |r|``."""

    def split(self, z: Array) -> tuple[Array, Any]:
        """Return the weights of the features and the intercept."""
        return (z, 0.0) if self.ones is None else (z[:-1], float(z[-1]))

    def join(self, weights: Array, intercept: Any) -> Array:
        """Return z from the weights of the features and the intercept."""
        return np.array(weights) if self.ones is None else np.append(weights, intercept)


class ArrayStore(Store):
    """Samples whose numbers of rows are NumPy arrays: for algorithms that keep some of their own.

    Attributes
    ----------
    X : {ndarray, CSR matrix} of shape (n_rows, n_features)
    mass : ndarray of shape (n_rows,)
    is_gatherable : bool
        Whether there is one output and every row is a unit; else the questions below have no answers.
    """

    X: Any
    mass: Array
    is_gatherable = True

    @cached_property
    def most_terms(self) -> int:
        """How many entries a row has at most; those that are not stored are not summed up."""
        return int(np.diff(self.X.indptr).max(initial=0)) if sp.issparse(self.X) else int(self.X.shape[1])

    def gathered(self) -> Gathered:
        """Return the store itself."""
        return Gathered(self, lambda density: density)

    @abstractmethod
    def expand_at(self, z: Array) -> Expanded:
        """Return the losses at z with their derivatives: one pass over X."""

    @abstractmethod
    def predictions(self, direction: Array) -> Array:
        """Return ``X direction``, shape (n_rows,)."""

    @abstractmethod
    def pull_of(self, pulls: Array) -> Array:
        """Return ``X^T pulls``."""

    @abstractmethod
    def gram_of(self, weights: Array) -> Array:
        """Return ``X^T diag(weights) X``, weights >= 0; it belongs to the caller."""

    def sizes_at(self, z: Array, pulls: Array) -> tuple[Array, Array]:
        """Return ``|X| |z|``, one number per row, and ``|X|^T |pulls|``: what rounding in these products depends on."""
        weights, intercept = self.split(np.abs(z))
        of_rows, of_columns, pulls = np.empty(self.n_rows), np.zeros(weights.size), np.abs(pulls)
        size = max(_SOME_NUMBERS * self.n_rows // max(self.X.size, 1), 1)  # what is not stored costs nothing
        for begin in range(0, self.n_rows, size):
            part = slice(begin, begin + size)
            block = abs(self.X[part])
            of_rows[part] = block @ weights + intercept
            of_columns += block.T @ pulls[part]
        return of_rows, self.join(of_columns, float(pulls.sum()))

    @abstractmethod
    def in_even_units(self, *, centred: bool) -> tuple[Store, Units] | None:
        """Return the same samples with columns of one size, centred if wanted and dense; None if they are so."""


@dataclass(frozen=True)
class PlainState:
    """All rows at one z and one k; arrays are never changed in place.

    Attributes
    ----------
    k : float
    f : ndarray of shape (n, m)
        Predictions.
    s : ndarray of shape (n_units,)
        Smooth parts of the losses.
    slope, bend : ndarray of shape (n, m) and (n, m, m)
        Their derivatives in the predictions.
    r : ndarray of shape (n_units,)
        Densities.
    """

    k: float
    f: Array
    s: Array
    slope: Array
    bend: Array
    r: Array


class PlainStore(ArrayStore):
    """Rows as NumPy says them: every quantity by its formula, from scratch, no array ever changed in place.

    Parameters
    ----------
    X : {ndarray, sparse matrix} of shape (n, d)
    y : ndarray of shape (n,) or (n, m)
        Targets; m outputs are predicted by m models, and a loss sees all of them: it expands predictions of shape
        (n, m) into ``s``, slopes (n, m) and curvatures (n, m, m).
    mass : ndarray of shape (n,)
    loss : IndividualLoss
    intercept : bool
    groups : ndarray of shape (n,), default=None
        The unit of each row, counted from 0; its loss is the mean of its rows' over their mass, its own mass the sum of
        theirs. Each row is a unit if None. For losses without a kink.

    Examples
    --------
    >>> from atklearn.losses.individual import Hinge
    >>> store = PlainStore(np.array([[1.0], [-2.0]]), np.array([1.0, -1.0]), np.ones(2), Hinge(), intercept=False)
    >>> store.point(np.array([0.5]), k=1.0).prove(balanced=False).value
    0.5
    """

    def __init__(
        self, X: Any, y: Array, mass: Array, loss: IndividualLoss, intercept: bool, groups: Any = None
    ) -> None:
        self.X, self.y, self.row_mass, self.loss = X, y, mass, loss
        self.groups = None if groups is None else np.asarray(groups, dtype=np.intp)
        self.n, self.d = (int(size) for size in X.shape)
        self.has_ones = intercept
        self.is_dense = not sp.issparse(X)
        self.n_outputs = 1 if y.ndim == 1 else int(y.shape[1])
        self.n_columns = self.n_outputs * (self.d + intercept)
        self.mass = mass if self.groups is None else np.bincount(self.groups, weights=mass).astype(np.float64)
        self.n_rows = self.max_subset_rows = int(self.mass.size)
        self.is_gatherable = groups is None and self.n_outputs == 1
        self.total = float(self.mass.sum())
        self.each = float(self.mass[0]) if (self.mass == self.mass[0]).all() else None
        self.target_range = float(y.min()), float(y.max())
        places = (self.d + 1) * np.arange(1, self.n_outputs + 1) - 1  # the last column of each output
        self.ones = None if not intercept else int(places[0]) if self.n_outputs == 1 else places

    @cached_property
    def design(self) -> Any:
        """The features with their column of ones, of shape (n, p)."""
        if not self.has_ones:
            return self.X.astype(np.float64, copy=False)
        ones = np.ones((self.n, 1))
        return np.hstack([self.X, ones]) if self.is_dense else sp.hstack([self.X, ones], format="csr")

    @cached_property
    def _means(self) -> Any:
        """The matrix of shape (n_units, n) that takes the mean of every unit's rows."""
        share = self.row_mass / self.mass[self.groups]
        return sp.csr_array((share, (self.groups, np.arange(self.n))), shape=(self.n_rows, self.n))

    def over_units(self, rows: Array) -> Array:
        """Return the means of numbers of rows over each unit."""
        return rows if self.groups is None else self._means @ rows

    def of_rows(self, units: Array) -> Array:
        """Return what weights of the units are for their rows, each having its share."""
        return units if self.groups is None else self._means.T @ units

    # States

    def _expand(self, f: Array) -> tuple[Array, Array, Array]:
        if self.n_outputs > 1:
            return self.loss.expand(f, self.y)
        s, slope, bend = self.loss.expand(f[:, 0], self.y)
        return s, slope[:, None], bend[:, None, None]

    def _at(self, k: float, f: Array, r: Array) -> PlainState:
        s, slope, bend = self._expand(f)
        return PlainState(k, f, self.over_units(s), slope, bend, r)

    def stand(self, z: Array, k: float, density: Array | None) -> PlainState:
        """Return the rows at z."""
        return self._at(k, self.predict(z), np.full(self.n_rows, self.alike(k)) if density is None else density)

    def predict(self, direction: Array) -> Array:
        """Return the predictions, shape (n, m)."""
        return np.asarray(self.design @ direction.reshape(self.n_outputs, -1).T)

    def moved(self, state: PlainState, t: float, along: Array) -> PlainState:
        """Return the rows at ``f + t along``."""
        return self._at(state.k, state.f + t * along, state.r)

    def shifted(self, state: PlainState, amount: Any) -> PlainState:
        """Return the rows at ``f + amount``, a number for each output."""
        return self._at(state.k, state.f + amount, state.r)

    def densities(self, state: PlainState) -> Array:
        """Return the densities."""
        return state.r

    def prediction_range(self, state: PlainState) -> tuple[float, float]:
        """Return the smallest and the largest prediction."""
        return float(state.f.min()), float(state.f.max())

    def _pulls(self, state: PlainState) -> Array:
        """Return how hard each row pulls at its predictions, ``u r s'``, shape (n, m)."""
        return self.of_rows(self.mass / state.k * state.r)[:, None] * state.slope

    # Smoothing

    def settle(
        self, state: PlainState, centre: Array, mu: float, lam: float, along: Array | None
    ) -> tuple[SettledSums, PlainState]:
        """Without the cap on their sum, the best density is ``centre + s / mu``, cut to its bounds.

        The cap has a price ``lam`` (the threshold) per unit, which draws every density towards zero by ``lam / mu``,
        not beyond.
        """
        s, u = state.s, self.mass / state.k
        side = np.where(self.kink.is_two_sided & (centre + s / mu < 0.0), -1.0, 1.0)
        size = np.clip(side * centre + (side * s - lam) / mu, 0.0, 1.0)
        state = replace(state, r=side * size)
        over = np.maximum(self.kink.loss(s) - lam, 0.0)
        pull, push, pull_value, push_value = self._imbalance(state, u)
        return SettledSums(
            above=float(u @ over),
            slack=float(u @ (over - (state.r * s - lam * size))),
            mass=float(u @ size),
            moving=float(u[(size > 0.0) & (size < 1.0)].sum()),
            pull=pull,
            push=push,
            pull_value=pull_value,
            push_value=push_value,
            steepness=0.0 if along is None else float((self._pulls(state) * along).sum()),
            total=float(u.sum()),
            first=float(u @ (s - lam)),
            second=float(u @ (s - lam) ** 2),
            size=float(u @ np.abs(s)),
        ), state

    def _imbalance(self, state: PlainState, u: Array) -> tuple[float, float, float, float]:
        """Return what pulls at the column of ones up and down, and what these sides weigh.

        With several outputs: the size of the derivative along their intercepts, and as its weight what a Newton step
        in these gains, which is what it costs to balance them.
        """
        if self.n_outputs > 1:
            slope, step = self._intercept_step(state)
            return float(np.abs(slope).max()), 0.0, float(0.5 * slope @ step), 0.0
        a, value = self._unit_pulls(state), u * np.abs(state.r * state.s)
        up, down = a > 0.0, a < 0.0
        return float(a[up].sum()), float(-a[down].sum()), float(value[up].sum()), float(value[down].sum())

    def _unit_pulls(self, state: PlainState) -> Array:
        """Return how hard each unit pulls at the column of ones, of one output."""
        return self.mass / state.k * state.r * self.over_units(state.slope[:, 0])

    def _intercept_step(self, state: PlainState) -> tuple[Array, Array]:
        """Return the derivative along the intercepts of several outputs, and the Newton step against it."""
        slope = self._pulls(state).sum(axis=0)
        weights = self.of_rows(self.mass / state.k * np.abs(state.r))
        return slope, np.linalg.lstsq(np.einsum("i,ijl->jl", weights, state.bend), slope, rcond=None)[0]

    def top(self, state: PlainState, centre: Array, mu: float) -> float:
        """Return the threshold above which every density is zero."""
        line = state.s + mu * centre
        return max(float((np.abs(line) if self.kink.is_two_sided else line).max()), 0.0)

    # Derivatives

    def pull(self, state: PlainState) -> Array:
        """Return ``X^T (u r s')``, the columns of one output after those of the other."""
        return np.asarray(self.design.T @ self._pulls(state)).T.ravel()

    def gram(
        self,
        state: PlainState,
        mu: float,
        *,
        form: Form,
        cautious: bool,
        most: int | None,  # noqa: ARG002
        seed: int,  # noqa: ARG002
    ) -> Gram:
        """Return the Gram matrix of all rows: ``most`` allows to leave some out, it does not ask for it.

        The gradient ``sum(u r s' x)`` moves in two ways: with s', at the rate s'' while r stays; and with r where it is
        between its bounds, by ``(s' dx - dlam) / mu``, dlam being what keeps the sum of the densities at its cap. The
        parabola that touches a loss and has the curvature ``s'^2 / (2 s)`` has its minimum at zero: being cautious
        is to take no flatter one, where losses have no kink and so are never negative.
        """
        bend, m = state.bend, self.n_outputs
        if cautious and m == 1 and self.kink is Kink.NONE:
            s = self._expand(state.f)[0]
            bend = np.maximum(bend, (state.slope**2 / np.maximum(2.0 * s, 1e-300)[:, None])[:, :, None])
        X, u, size = self.design, self.mass / state.k, np.abs(state.r)
        weights = self.of_rows(u * size)
        H = np.block([[self._weighted(weights * bend[:, i, j]) for j in range(m)] for i in range(m)])
        tied = (size > 0.0) & (size < 1.0)
        slopes = np.hstack([self._dense(self.over_units(self._times(state.slope[:, j], X)))[tied] for j in range(m)])
        H = H + slopes.T @ (u[tied, None] / mu * slopes)
        pulls = slopes.T @ (u * np.sign(state.r))[tied]
        gram = Gram(pulls, float(u[tied].sum()), is_sampled=False)
        if form == "matrix":
            return gram._replace(matrix=H)
        if form == "packed":
            packed = PackedSymmetric(len(H))
            packed.numbers = dtrttf(H, uplo="L")[0]
            return gram._replace(packed=packed)
        return gram._replace(product=lambda v: np.asarray(H @ v), diagonal=np.diag(H).copy())

    def _times(self, factors: Array, X: Any) -> Any:
        return X * factors[:, None] if self.is_dense else sp.diags_array(factors) @ X

    def _weighted(self, h: Array) -> Array:
        return np.asarray(self._dense(self.design.T @ self._times(h, self.design)))

    @staticmethod
    def _dense(matrix: Any) -> Any:
        return matrix.toarray() if sp.issparse(matrix) else matrix

    # Numbers of rows, of one output

    def expand_at(self, z: Array) -> Expanded:
        """Return the losses at z with their derivatives."""
        return Expanded(*self.loss.expand(self.predictions(z), self.y))

    def predictions(self, direction: Array) -> Array:
        """Return ``X direction``."""
        return np.asarray(self.design @ direction)

    def pull_of(self, pulls: Array) -> Array:
        """Return ``X^T pulls``."""
        return np.asarray(self.design.T @ pulls)

    def gram_of(self, weights: Array) -> Array:
        """Return ``X^T diag(weights) X``."""
        return self._weighted(weights)

    # Proof

    @cached_property
    def largest_entries(self) -> Array:
        """The largest ``|x|`` of every column, once for each output."""
        return np.tile(np.asarray(self._dense(abs(self.design)).max(axis=0)), self.n_outputs)

    def feasible(self, state: PlainState, balanced: bool) -> PlainState:
        """With several outputs, go to tangents elsewhere: at intercepts where the densities have no derivative."""
        if not balanced or self.n_outputs == 1:
            settled: PlainState = super().feasible(state, balanced)
            return settled
        state = replace(state, r=state.r / max(float(self.mass / state.k @ np.abs(state.r)), 1.0))
        for _ in range(20):
            slope, step = self._intercept_step(state)
            if not np.abs(slope).max() > 1e-16 * np.abs(self._pulls(state)).sum():
                break
            state = self.shifted(state, -step)
        return state

    def sides(self, state: PlainState) -> Sides:
        """Return pulls and masses."""
        a, mass = self._unit_pulls(state), self.mass / state.k * np.abs(state.r)
        up, down = a > 0.0, a < 0.0
        parts = a[up], -a[down], mass[up], mass[down], mass[~up & ~down]
        return Sides(*(float(part.sum()) for part in parts))

    def scaled(self, state: PlainState, up: float, down: float, level: float) -> PlainState:
        """Return the state with other densities."""
        a = self._unit_pulls(state) if self.n_outputs == 1 else np.zeros(self.n_rows)
        return replace(state, r=state.r * np.where(a > 0.0, up, np.where(a < 0.0, down, level)))

    def bound(self, exact: PlainState, feasible: PlainState, lam: float) -> Bound:
        """Return the sums over all units."""
        u, r, s = self.mass / exact.k, feasible.r, exact.s
        over = np.maximum(self.kink.loss(s) - lam, 0.0)
        change = u @ (r * (s - feasible.s)) - (self._pulls(feasible) * (exact.f - feasible.f)).sum()
        slack = u @ (over - (r * s - lam * np.abs(r)))
        steepness = float((self.of_rows(u)[:, None] * np.abs(feasible.slope)).sum())
        pull = float(np.abs(self._pulls(feasible)).sum())
        return Bound(float(u @ over), float(slack), float(u @ np.abs(r)), float(change), steepness, pull)

    def least(self, state: PlainState) -> float:
        """Return the smallest loss."""
        return float(self.kink.loss(state.s).min())

    def between(self, state: PlainState, low: float, high: float, share: float, by_count: bool) -> Between:
        """Return what the losses say of an interval."""
        amounts: Array = np.ones(self.n_rows) if by_count else np.asarray(self.mass, dtype=np.float64)
        return Between.of(self.kink.loss(state.s), amounts, low, high, share)

    # Parts, and other stores of the same rows

    def largest(self, state: PlainState, count: int, beside: Subset | None, above: float) -> Subset:
        """Return the units with the largest losses."""
        losses = self.kink.loss(state.s)
        order = np.argsort(-losses, kind="stable")
        if beside is None:
            return Subset(self, np.sort(order[: max(count, 1)]))
        others = order[(losses[order] > above) & ~np.isin(order, beside.places)]
        return Subset(self, np.sort(np.append(beside.places, others[:count])))

    def take(self, places: Places) -> Self:
        """Return some of the units."""
        rows, groups = places, None
        if self.groups is not None:
            rows = np.flatnonzero(np.isin(self.groups, places))
            groups = np.searchsorted(places, self.groups[rows])
        return type(self)(self.X[rows], self.y[rows], self.row_mass[rows], self.loss, self.has_ones, groups)

    def sample(self, count: int) -> Self:
        """Return one unit from each of ``count`` equal parts."""
        return self.take(spread_places(self.n_rows, count))

    def conditioned(self, *, centred: bool) -> tuple[Store, Coordinates] | None:
        """Return the same samples in other units, if these are bad."""
        if self.n_outputs > 1:
            return None
        units = helpful_units(self.X, self.y, centred=centred, regression=self.loss.task == "regression")
        if units is None:
            return None
        X, y = convert(self.X, self.y, units)
        return type(self)(X, y, self.row_mass, self.loss, self.has_ones, self.groups), units

    def in_even_units(self, *, centred: bool) -> tuple[PlainStore, Units] | None:
        """Return the same samples with columns of one size."""
        units = even_units(self.X, self.y, centred=centred, regression=self.loss.task == "regression")
        if units is None or not self.is_gatherable:
            return None
        return type(self)(*convert(self.X, self.y, units), self.row_mass, self.loss, self.has_ones), units

    def paying(self, loss: IndividualLoss) -> Self:
        """Return the same samples with another loss."""
        return type(self)(self.X, self.y, self.row_mass, loss, self.has_ones, self.groups)

    def aiming_at(self, y: Array) -> Self:
        """Return the same samples with other targets."""
        return type(self)(self.X, y, self.row_mass, self.loss, self.has_ones, self.groups)

    def mean_square(self) -> float:
        """Return the mean of ``|x|^2`` over the mass."""
        squares = np.asarray(self._dense(self.design * self.design if self.is_dense else self.design**2).sum(axis=1))
        return float(self.row_mass @ squares) / self.total

    # Densities and coefficients

    def holds(self, density: Density) -> bool:
        """Say whether densities are of as many units."""
        return np.shape(density) == (self.n_rows,)

    def blend(self, terms: Sequence[tuple[float, Array]], k: float) -> Array:
        """Return a combination of densities: cut to their bounds, then scaled down if their sum is too large."""
        lowest = -1.0 if self.kink.is_two_sided else 0.0
        mixed = np.clip(sum(factor * r for factor, r in terms), lowest, 1.0)
        return np.asarray(mixed / max(1.0, float(self.sample_weights(mixed, k).sum())))

    def sample_weights(self, density: Array, k: float) -> Array:
        """Return ``u |r|``, for every unit."""
        return self.mass / k * np.abs(density)

    def split(self, z: Array) -> tuple[Array, Any]:
        """Return weights and intercept; with several outputs of shape (m, d) and (m,)."""
        if self.n_outputs == 1:
            return super().split(z)
        rows = z.reshape(self.n_outputs, -1)
        return rows[:, : self.d], rows[:, -1] if self.has_ones else np.zeros(self.n_outputs)

    def join(self, weights: Array, intercept: Any) -> Array:
        """Return z from weights and intercept."""
        if self.n_outputs == 1:
            return super().join(weights, intercept)
        return np.array(weights).ravel() if not self.has_ones else np.column_stack([weights, intercept]).ravel()
