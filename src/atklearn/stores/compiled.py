"""Rows in memory, dense or CSR, with every pass over them compiled; they answer as the plain store does.

What is written in place belongs to a :class:`Workspace`: a state borrows its arrays there, and gives them back when
nobody holds it any more.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from atklearn.core.coordinates import Rotation, Units, convert, helpful_units, is_worth_rotating, rotate
from atklearn.core.point import Bound, Form, Gram, Proof, Reading, SettledSums, Sides
from atklearn.core.ranking import Between
from atklearn.core.store import Store, Subset, spread_places
from atklearn.losses.aggregate import rank_of
from atklearn.losses.individual import Array, IndividualLoss, Kink
from atklearn.stores import fused, hessian, passes, smoothing, threads
from atklearn.stores.ascent import CompiledAscent
from atklearn.stores.expansion import Losses, Paying
from atklearn.stores.features import Features
from atklearn.stores.picking import Places, largest_places

__all__ = ["CompiledRows", "CompiledState"]

# With more columns than this, what counts is that BLAS does half of a Hessian only.
_FEW_COLUMNS = 64
# From here on, a pass over X costs more than to look whether it is needed.
_MANY_ROWS = 10_000


class CompiledRows(Store):
    """Samples in memory.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (n_rows, n_features)
        An array is C-ordered, of float32 or float64; every sum is accumulated in float64.
    y : ndarray of shape (n_rows,)
        Targets; -1 and +1 for classification losses.
    mass : ndarray of shape (n_rows,)
        Sample weights > 0.
    loss : IndividualLoss
    intercept : bool
        Whether there is a column of ones, which is never stored; it is the last.
    """

    def __init__(
        self,
        X: Any,
        y: Array,
        mass: Array,
        loss: IndividualLoss,
        intercept: bool,
        rotations: dict[bool, Rotation | None] | None = None,
    ) -> None:
        self.X = X.astype(np.float64, copy=False) if sp.issparse(X) else X
        self.y = y
        self.mass = mass
        self.loss = loss
        self.n_rows, self.n_features = (int(size) for size in X.shape)
        self.n_columns = self.n_features + intercept
        self.ones = self.n_features if intercept else None
        self.total = float(mass.sum())
        self.max_subset_rows = self.n_rows
        least, most = threads.extremes(mass)
        self.each = least if least == most else None  # the mass of every row, if they are alike
        self.target_range = threads.extremes(y)
        self.paid = Paying(loss, y)
        self.compiled_loss = self.paid.compiled_loss
        self.two_sided = self.kink.is_two_sided
        self._workspace: weakref.ref[Workspace] | None = None
        self.features = Features(self.X, intercept)
        self.is_dense = not self.features.is_sparse
        self._conditioned: dict[bool, tuple[CompiledRows, Units | Rotation] | None] = {}
        self._rotations = {} if rotations is None else rotations  # shared by all rows of the same X
        # So small that several passes are made in one call: the calls cost more than the passes.
        is_short = self.n_rows <= hessian.GRAM_BLOCK and self.n_columns <= _FEW_COLUMNS
        self.is_small = is_short and self.is_dense and self.compiled_loss is not None

    # States

    @property
    def workspace(self) -> Workspace:
        """The arrays that states borrow, as long as there are states."""
        found = None if self._workspace is None else self._workspace()
        if found is None:
            found = Workspace(self.n_rows)
            self._workspace = weakref.ref(found)
        return found

    def stand(self, z: Array, k: float, density: Array | None) -> CompiledState:
        """Return the rows at z."""
        state = CompiledState(self.workspace, _Top(self.mass, k), density)
        if self.n_rows < _MANY_ROWS or z.any():
            self.predict_and_expand(z, state)
        else:  # where cold starts begin: no pass over X
            state.f.fill(0.0)
            self.paid.expand(state.f, 0.0, state.f, state)
        return state

    def predict_and_expand(self, z: Array, into: Any) -> None:
        """Fill in the predictions of z, ``s`` and its slope."""
        if self.is_small:
            fused.predict_and_expand(self.compiled_loss, self.X, *self.split(z), self.y, into.f, into.s, into.slope)
        else:
            self.paid.expand(self.features.predict(*self.split(z), into.f), 0.0, into.f, into)

    def smooth_parts(self, z: Array) -> Array:
        """Return ``s`` at z: the losses, but for the kink."""
        into = Losses(self.n_rows)
        self.predict_and_expand(z, into)
        return into.s

    def predict(self, direction: Array) -> Borrowed:
        """Return the predictions of a direction."""
        along = Borrowed(self.workspace)
        self.features.predict(*self.split(direction), along.f)
        return along

    def moved(self, state: CompiledState, t: float, along: Borrowed) -> CompiledState:
        """Return the rows at ``f + t along``."""
        there = state.like()
        self.paid.expand(state.f, t, along.f, there)
        return there

    def shifted(self, state: CompiledState, amount: float) -> CompiledState:
        """Return the rows at ``f + amount``: in the same arrays, which the state given loses."""
        threads.fill(state.f, np.add, state.f, amount)
        self.paid.expand(state.f, 0.0, state.f, state)
        return state

    def densities(self, state: CompiledState) -> Array:
        """Return the densities; nobody writes to them any more."""
        if state.density is None:
            if state.is_settled:
                state.density = threads.fill(np.empty(self.n_rows), np.positive, state.r)
            else:
                state.density = threads.fill(np.empty(self.n_rows), np.positive, self.alike(state.top.k))
        return state.density

    def prediction_range(self, state: CompiledState) -> tuple[float, float]:
        """Return the smallest and the largest prediction."""
        return threads.extremes(state.f)

    # Smoothing

    def settle(
        self, state: CompiledState, centre: Array, mu: float, lam: float, along: Borrowed | None
    ) -> tuple[SettledSums, CompiledState]:
        """Return the sums at a threshold; the state given has its densities."""
        way = state.f if along is None else along.f
        sums = threads.block_sums(
            smoothing.settle_blocks, smoothing.N_SUMS, self.n_rows, 4.0, state.s, state.slope, centre, state.top.u, mu,
            lam, self.two_sided, way, state.r, state.a,
        )  # fmt: skip
        return SettledSums(*sums.tolist()), state.settled()

    def top(self, state: CompiledState, centre: Array, mu: float) -> float:
        """Return the threshold above which every density is zero."""
        tops = np.empty(threads.count_blocks(self.n_rows, threads.BLOCK))
        threads.over_rows(smoothing.top_blocks, self.n_rows, 1.0, state.s, centre, mu, self.two_sided, tops)
        return float(tops.max())

    def smoothed(
        self, state: CompiledState, centre: Array, mu: float, guess: float, along: Borrowed | None = None
    ) -> tuple[Reading, CompiledState]:
        """Search in passes that sum up no more than the search asks for, of few rows in one call with the rest."""
        if self.n_rows > threads.BLOCK:
            lam = smoothing.find_threshold(state.s, centre, state.top.u, mu, guess, self.two_sided)
            sums, state = self.settle(state, centre, mu, lam, along)
            return Reading.of(lam, sums), state
        way = state.f if along is None else along.f
        reading = smoothing.settle_few(
            state.s, state.slope, centre, state.top.u, mu, guess, self.two_sided, way, state.r, state.a
        )
        return Reading(*reading), state.settled()

    def smoothed_along(
        self, state: CompiledState, t: float, along: Borrowed, centre: Array, mu: float, guess: float
    ) -> tuple[Reading, CompiledState]:
        """Move and smooth, in one call where the data are small."""
        if not self.is_small:
            return super().smoothed_along(state, t, along, centre, mu, guess)
        there = state.like()
        reading = fused.look(
            self.compiled_loss, state.f, t, along.f, self.y, there.f, there.s, there.slope, centre, state.top.u, mu,
            guess, self.two_sided, there.r, there.a,
        )  # fmt: skip
        return Reading(*reading), there.settled()

    # Derivatives

    def pull(self, state: CompiledState) -> Array:
        """Return ``X^T (u r s')``."""
        return self.features.pull_back(self._settled(state).a)

    def _settled(self, state: CompiledState) -> CompiledState:
        """Return the state with its densities and pulls written down, given ones, too."""
        if not state.is_settled:
            state.settle_for(self.densities(state))
        return state

    def gram(self, state: CompiledState, mu: float, *, form: Form, cautious: bool, most: int | None, seed: int) -> Gram:
        """Return the weighted Gram matrix, in one call where the data are small."""
        self._settled(state)
        if form == "matrix" and self.is_small and (most is None or self.n_rows <= most):
            H, pulls = np.empty((self.n_columns, self.n_columns)), np.empty(self.n_columns)
            tied = fused.hessian(
                self.compiled_loss, self.X, state.f, self.y, state.s, state.slope, state.r, state.top.u, mu,
                cautious and self.kink is Kink.NONE, H, pulls,
            )  # fmt: skip
            return Gram(pulls, tied, is_sampled=False, matrix=H)
        picked, h, pulls_of_rows, tied, is_sampled = hessian.weighted_rows(
            self.paid, state, state.top.u, mu, self.n_columns, cautious=cautious, most=most, seed=seed
        )
        gram = Gram(self.features.pull_back_rows(picked, pulls_of_rows), tied, is_sampled)
        if form == "product":
            product, diagonal = hessian.operator(self.features, picked, h)
            return gram._replace(product=product, diagonal=diagonal)
        if form == "packed":
            return gram._replace(packed=hessian.packed_gram(self.features, picked, h))
        return gram._replace(matrix=hessian.gram(self.features, picked, h))

    # Proof

    def prove_at_once(
        self, state: CompiledState, z: Array, k: float, is_fresh: bool, balanced: bool
    ) -> Proof | None:  # fmt: skip
        """Prove in one call where the data are small and all rows have the same mass."""
        if not self.is_small or self.each is None:
            return None
        density = state.density if state.density is not None else self._settled(state).r
        r, gradient = np.empty(self.n_rows), np.empty(self.n_columns)
        value, threshold, slack = fused.prove(
            self.compiled_loss, self.X, *self.split(z), self.y, state.top.u, rank_of(k / self.each, self.n_rows),
            balanced, state.f, state.s, state.slope, is_fresh, density, r, gradient,
        )  # fmt: skip
        return Proof(value, threshold, slack, gradient, r)

    def sides(self, state: CompiledState) -> Sides:
        """Return pulls and masses."""
        r = self._settled(state).r
        sums = threads.block_sums(smoothing.weigh_sides, 5, self.n_rows, 1.0, state.top.u, r, state.slope)
        return Sides(*sums.tolist())

    def scaled(self, state: CompiledState, up: float, down: float, level: float) -> CompiledState:
        """Return the state with other densities."""
        there = state.beside()
        threads.over_rows(
            smoothing.scale_sides, self.n_rows, 1.5, state.top.u, state.r, state.slope, up, down, level, there.r,
            there.a,
        )  # fmt: skip
        return there

    def bound(self, exact: CompiledState, feasible: CompiledState, lam: float) -> Bound:
        """Return the sums over all rows."""
        sums = threads.block_sums(
            smoothing.bound_blocks, 4, self.n_rows, 2.0, exact.s, exact.f, feasible.s, feasible.slope, feasible.f,
            feasible.r, feasible.top.u, lam, self.two_sided,
        )  # fmt: skip
        return Bound(*sums.tolist())

    def least(self, state: CompiledState) -> float:
        """Return the smallest loss."""
        if self.two_sided:
            return float(np.abs(state.s).min())
        least = threads.extremes(state.s)[0]
        return max(least, 0.0) if self.kink is Kink.POSITIVE_PART else least

    def between(self, state: CompiledState, low: float, high: float, share: float, by_count: bool) -> Between:
        """Return what the losses say of an interval: at first a few of all, then what is inside."""
        amounts = None if by_count else self.mass
        n, s = self.n_rows, state.s
        if low == -np.inf and high == np.inf:
            step = max(int(1.0 / share), 1)
            losses = s[::step]
            losses = np.abs(losses) if self.two_sided else losses
            total = float(n) if by_count else self.total
            weights = np.full(losses.size, total / losses.size) if step > 1 or amounts is None else amounts
            least, most = threads.extremes(losses) if step == 1 else (-np.inf, np.inf)
            return Between(0.0, total, n, losses, weights, step > 1, least, most)
        n_blocks = threads.count_blocks(n, threads.BLOCK)
        counts, sums = np.empty((n_blocks, 2), dtype=np.intp), np.empty((n_blocks, 2))
        threads.over_rows(passes.count_between, n, 1.0, s, self.two_sided, low, high, self.mass, counts, sums)
        starts = np.concatenate([[0], np.cumsum(counts[:, 1])])
        losses, weights = np.empty((2, starts[-1]))
        threads.over_rows(passes.fill_between, n, 1.0, s, self.two_sided, low, high, self.mass, starts, losses, weights)
        if by_count:
            weights.fill(1.0)
        return Between.inside_of(float(np.add.reduce(counts if by_count else sums)[0]), losses, weights, share)

    # Parts, and other stores of the same rows

    def largest(self, state: CompiledState, count: int, beside: Any, above: float) -> Subset:
        """Return the rows with the largest losses."""
        losses = self.kink.loss(state.s).copy()
        if beside is None:
            return Subset(self, largest_places(losses, count))
        losses[beside.places] = -1.0
        count = min(count, int(np.count_nonzero(losses > above)))
        places = np.sort(np.concatenate([beside.places, largest_places(losses, count)])) if count else beside.places
        return Subset(self, places)

    def take(self, places: Places) -> CompiledRows:
        """Return some of the rows."""
        X = self.features.take(places)
        return CompiledRows(X, self.y[places], self.mass[places], self.loss, self.ones is not None)

    def lighter(self, places: Places, mass: Array) -> CompiledRows:
        """Return some of the rows with other mass; coordinates that are good enough for all are so for these."""
        rows = CompiledRows(self.features.take(places), self.y[places], mass, self.loss, self.ones is not None)
        rows._conditioned = {centred: None for centred, found in self._conditioned.items() if found is None}
        return rows

    def sample(self, count: int) -> CompiledRows:
        """Return one row from each of ``count`` equal parts, without shuffling all of them."""
        return self.take(spread_places(self.n_rows, count))

    def conditioned(self, *, centred: bool) -> tuple[CompiledRows, Units | Rotation] | None:
        """Return the same samples in better coordinates, or None if these are good enough."""
        if centred not in self._conditioned:
            units: Units | Rotation | None
            units = helpful_units(self.X, self.y, centred=centred, regression=self.loss.task == "regression")
            found: tuple[CompiledRows, Units | Rotation] | None = None
            rotation = self._rotation(units, centred)
            if rotation is not None:
                units = rotation.shifted(0.0 if units is None else units.shift)
                found = self._like(rotation.factor, self.y - units.shift, self.loss), units
            elif units is not None:
                found = self._like(*convert(self.X, self.y, units), self.loss), units
            self._conditioned[centred] = found
        return self._conditioned[centred]

    def _rotation(self, units: Units | None, centred: bool) -> Rotation | None:
        """Return the rotation into fewer columns, where that pays."""
        if not (self.is_dense and is_worth_rotating(self.n_rows, self.n_features)):
            return None
        if centred not in self._rotations:
            self._rotations[centred] = rotate(self.X, np.zeros(self.n_features) if units is None else units.centre)
        return self._rotations[centred]

    def paying(self, loss: IndividualLoss) -> CompiledRows:
        """Return the same samples with another loss."""
        return self._like(self.X, self.y, loss, self._rotations)

    def aiming_at(self, y: Array) -> CompiledRows:
        """Return the same samples with other targets."""
        return self._like(self.X, y, self.loss, self._rotations)

    def _like(
        self, X: Any, y: Array, loss: IndividualLoss, rotations: dict[bool, Rotation | None] | None = None
    ) -> CompiledRows:
        return CompiledRows(X, y, self.mass, loss, self.ones is not None, rotations)

    def mean_square(self) -> float:
        """Return the mean of ``|x|^2`` over the mass."""
        return self.features.weighted_squares(self.mass) / self.total + (self.ones is not None)

    def ascent(self, k: float, C: float, density: Array | None = None, *, balanced: bool) -> CompiledAscent | None:
        """Start a coordinate ascent on the dual, where there are losses and rows for it."""
        if not self.loss.linear or not self.is_dense:
            return None
        start = self.stand(np.zeros(self.n_columns), k, None)
        return CompiledAscent(
            self.X,
            start.s.copy(),
            start.slope.copy(),
            start.top.u,
            C,
            self.ones is not None,
            balanced,
            self.two_sided,
            density,
        )

    def holds(self, density: Array) -> bool:
        """Say whether densities are of as many rows."""
        return isinstance(density, np.ndarray) and density.shape == (self.n_rows,)

    def blend(self, terms: Sequence[tuple[float, Array]], k: float) -> Array:
        """Return a linear combination of densities, made feasible."""
        out = terms[0][0] * terms[0][1]
        for factor, density in terms[1:]:
            threads.over_rows(passes.add_scaled, self.n_rows, 1.0, factor, density, out)
        low = -1.0 if self.two_sided else 0.0
        size = float(threads.block_sums(passes.clip, 1, self.n_rows, 1.0, self.mass, low, out)[0])
        if size > k:
            out *= k / size
        return out

    def sample_weights(self, density: Array, k: float) -> Array:
        """Return ``u |r|``."""
        out = threads.fill(np.empty(self.n_rows), np.abs, density)
        threads.fill(out, np.multiply, out, self.mass)
        return threads.fill(out, np.divide, out, k)


class _Top:
    """How much mass is in the top, and ``u = mass / k``, computed when it is first needed."""

    def __init__(self, mass: Array, k: float) -> None:
        self.mass, self.k = mass, k

    @cached_property
    def u(self) -> Array:
        """Mass over k."""
        return threads.fill(np.empty(self.mass.size), np.divide, self.mass, self.k)


class Workspace:
    """Arrays of numbers per row that are written in place, and lent again as soon as they come back."""

    def __init__(self, n_rows: int) -> None:
        self.n_rows = n_rows
        self.of_states: list[tuple[Array, ...]] = []
        self.single: list[Array] = []


class Borrowed:
    """A number per row; the array goes back to its workspace when nobody holds this."""

    __slots__ = ("f", "workspace")

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.f: Array = workspace.single.pop() if workspace.single else np.empty(workspace.n_rows)

    def __del__(self) -> None:
        self.workspace.single.append(self.f)


class _Arrays:
    """Five numbers per row; the arrays go back to their workspace when nobody holds this."""

    __slots__ = ("arrays", "workspace")

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.arrays = workspace.of_states.pop() if workspace.of_states else tuple(np.empty((5, workspace.n_rows)))

    def __del__(self) -> None:
        self.workspace.of_states.append(self.arrays)


class CompiledState(Losses):
    """All rows at one z and one k: predictions ``f``, smooth parts ``s``, their slopes; densities ``r`` once settled.

    ``a`` are the pulls ``u r s'``. ``density`` are densities as they were given, or as they have been handed out.
    """

    __slots__ = ("borrowed", "density", "is_settled", "top")

    def __init__(self, workspace: Workspace, top: _Top, density: Array | None) -> None:
        self.borrowed: tuple[Any, ...] = (arrays := _Arrays(workspace),)
        self.f, self.s, self.slope, self.r, self.a = arrays.arrays
        self.top, self.density, self.is_settled = top, density, False

    def like(self) -> CompiledState:
        """Return a state of the same top, with nothing in it."""
        return CompiledState(self.borrowed[0].workspace, self.top, None)

    def beside(self) -> CompiledState:
        """Return a state at the same predictions, with densities and pulls of its own, to be filled."""
        other, pulls = object.__new__(CompiledState), Borrowed(self.borrowed[0].workspace)
        other.borrowed = (*self.borrowed, pulls)
        other.f, other.s, other.slope, other.top = self.f, self.s, self.slope, self.top
        other.r, other.a = np.empty(self.f.size), pulls.f
        other.density, other.is_settled = other.r, True
        return other

    def settled(self) -> CompiledState:
        """Return this state, whose densities have just been written."""
        self.density, self.is_settled = None, True
        return self

    def settle_for(self, density: Array) -> None:
        """Write down densities that were given, and their pulls."""
        threads.fill(self.r, np.positive, density)
        threads.fill(self.a, np.multiply, self.top.u, self.r)
        threads.fill(self.a, np.multiply, self.a, self.slope)
        self.is_settled = True
