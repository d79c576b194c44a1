"""Rows in chunks at one z and one k: every method is a few questions to all chunks, and arithmetic on their sums."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any
from weakref import ref

import numpy as np

from atklearn.chunked.chunk_ranking import Ranked, rank
from atklearn.chunked.chunked_part import ChunkedDensity, ChunkedPart, RowsInChunks
from atklearn.chunked.questions import (
    Bound,
    Curving,
    Fetch,
    GramProduct,
    Losing,
    Pull,
    Question,
    Settle,
    Sides,
    Standing,
    Tangent,
    Top,
)  # fmt: skip
from atklearn.chunked.sums import Picked, Sums
from atklearn.chunked.vectors import Feasible, Moved, Product, Scattered, Settled, Vector
from atklearn.losses.aggregate import least_mass, rank_of
from atklearn.losses.individual import Array, Kink
from atklearn.problems import smoothing
from atklearn.problems.packed import PackedSymmetric
from atklearn.problems.rows import Curvature, Form, Proof, Reading

__all__ = ["ChunkedPoint", "ChunkedRay"]

# What a proximal step most often does to the smoothing.
_SHRINK = 0.2
_ROUNDING = 1e-14  # of the bound: less slack than that leaves no proximal step to take


class ChunkedPoint:
    """The rows at one z and one k."""

    def __init__(self, rows: RowsInChunks, z: Array, k: float, density: Vector) -> None:
        self.rows, self.fleet, self.z, self.k = rows, rows.fleet, z, k
        self.centre = density
        self.density: Vector | None = density  # as given, until the losses are smoothed
        self.mu, self.threshold, self.moving = 1.0, 0.0, 0.0
        self.reading: Reading | None = None
        self.direction: Vector | None = None  # predictions of that of a ray
        self.range = (0.0, 0.0)  # of the predictions
        self.curving: Curving | None = None  # what was last asked for
        self.pulled: Sums | None = None  # what the last gradient read, as long as it holds
        self.fresh: Vector | None = None  # predictions that a proof computes anew
        self.proved: Vector | None = None  # and its densities
        self.ahead: ChunkedPoint | None = None  # what will be asked next, if all goes well
        self.fleet.holders.add(self)
        self.refresh()

    def needed(self) -> list[Vector]:
        """Return the vectors that should stay with the chunks."""
        vectors = self.f, self.centre, self.density, self.direction, self.fresh, self.proved
        return [each for each in vectors if each is not None]

    @property
    def standing(self) -> Standing:
        """Where the rows stand, for questions."""
        density = None if self.density is None else self.density.token
        return Standing(
            self.rows.view, self.k, self.f.token, self.centre.token, self.mu, self.threshold, density
        )  # fmt: skip

    def ask(self, question: Question, *more: Vector) -> Any:
        """Ask about where the rows stand, and let the chunks make what moves have left to make."""
        standing = (self.f, self.centre) if self.density is None else (self.f, self.centre, self.density)
        return self.fleet.ask(question, *standing, *more)

    def refresh(self) -> None:
        """Compute predictions and losses anew from z."""
        self.f = Vector(Product(self.fleet.name(), self.rows.view, self.z))
        self.is_fresh = True
        self.pulled = self.ahead = None

    def smooth(self, mu: float) -> Reading:
        """Find threshold and densities."""
        ahead, self.ahead = self.ahead, None
        if ahead is not None and ahead.reading is not None and (ahead.mu, ahead.centre) == (mu, self.centre):
            reading, self.pulled = ahead.reading, ahead.pulled
        else:
            (reading, self.range), self.pulled = self.settle(mu), None
        self.take(mu, reading)
        return reading

    def take(self, mu: float, reading: Reading) -> None:
        """Make a reading that of the point."""
        self.mu, self.threshold, self.moving, self.density = mu, reading.threshold, reading.moving, None
        self.reading = reading

    def settle(self, mu: float, t: float = 0.0, along: Vector | None = None) -> tuple[Reading, tuple[float, float]]:
        """Find threshold and densities, here or along a ray: return the reading and the range of the predictions."""
        token, rays = (None, ()) if along is None else (along.token, (along,))
        at = replace(self.standing, mu=mu)
        seen: dict[float, Sums] = {}

        def look(lam: float) -> Sums:
            if lam not in seen:
                seen[lam] = self.ask(Settle(at, lam, t, token), *rays)
            return seen[lam]

        def shares(lam: float) -> tuple[float, float]:
            sums = look(lam)["sums"]
            return float(sums[2]), float(sums[3])

        def top() -> float:
            return float(self.ask(Top(at, t, token), *rays)["top"].high)

        lam = smoothing.search_threshold(shares, top, mu, self.threshold, self.rows.n_rows)
        told = look(lam)
        return Reading(*smoothing.conclude(lam, told["sums"])), (told["reach"].low, told["reach"].high)

    def recentre(self) -> None:
        """Make the densities the centre."""
        self.centre = self.settled() if self.ahead is None else self.ahead.centre

    def settled(self) -> Vector:
        """Return the densities as a vector of the chunks."""
        if self.density is not None:
            return self.density
        step = Settled(
            self.fleet.name(), self.rows.view, self.centre.token, self.f.token, self.mu, self.threshold
        )  # fmt: skip
        return Vector(step, (self.centre, self.f))

    def densities(self) -> ChunkedDensity:
        """Return the densities of the last smoothing."""
        return ChunkedDensity(self.rows, self.settled())

    def reach(self) -> float:
        """Return the length of the interval that holds all predictions and targets."""
        low, high = self.rows.target_range
        return max(high, self.range[1]) - min(low, self.range[0])

    def shift(self, amount: float) -> None:
        """Move along the column of ones."""
        self.z = self.z.copy()
        self.z[self.rows.ones] += amount
        last = self.f.step
        if isinstance(last, Moved) and not self.fleet.holds(self.f):  # one move is still to be made: as one with this
            self._move(replace(last, token=self.fleet.name(), z=self.z, offset=last.offset + amount))
        else:
            self._move(Moved(self.fleet.name(), self.rows.view, self.z, self.f.token, offset=amount))
        self.range = self.range[0] + amount, self.range[1] + amount

    def _move(self, move: Moved) -> None:
        self.f = Vector(move)
        self.direction = self.pulled = self.ahead = None
        self.is_fresh = False

    def towards(self, direction: Array) -> ChunkedRay:
        """Return the ray in a direction."""
        self.direction = Vector(Product(self.fleet.name(), self.rows.view, direction))
        return ChunkedRay(self, direction, self.direction)

    def land(self, z: Array, t: float, along: Vector, mu: float, reading: Reading, reach: tuple[float, float]) -> None:
        """Move to where a ray was looked at."""
        self.z = z
        self._move(Moved(self.fleet.name(), self.rows.view, z, self.f.token, t, along.token))
        self.range = reach
        self.take(mu, reading)

    def gradient(self) -> Array:
        """Return ``X^T (u r s')``, and have the curvature from the same pass, as a step is likely to ask for it next.

        Where features are fetched for it, the same goes for where the proximal step leads to that may follow.
        """
        self.fleet.latest = ref(self)
        if self.pulled is None:
            has_slack = self.reading is not None and self.reading.slack > _ROUNDING * self.reading.bound
            self.ahead = self._after_recentring() if has_slack and self.fleet.engine.is_lazy else None
            standings = (self.standing,) if self.ahead is None else (self.standing, self.ahead.standing)
            told = self.ask(Pull(standings, self.curving), *(() if self.ahead is None else (self.ahead.centre,)))
            self.pulled, *others = told["pulled"]
            if self.ahead is not None:
                self.ahead.pulled = others[0]
        return np.asarray(self.pulled["gradient"])

    def _after_recentring(self) -> ChunkedPoint:
        """Return the point after the proximal step that may follow."""
        ahead = copy.copy(self)
        ahead.centre, ahead.ahead, ahead.direction = self.settled(), None, None
        self.fleet.holders.add(ahead)
        ahead.smooth(_SHRINK * self.mu)
        return ahead

    def curvature(
        self, mu: float, *, form: Form, cautious: bool = False, most: int | None = None, seed: int = 0
    ) -> Curvature:
        """Return the generalised Hessian of the smoothed loss."""
        share = None if most is None or most >= self.rows.n_rows else most / self.rows.n_rows
        wanted = Curving(form, cautious and self.rows.kink is Kink.NONE, share, seed)
        if self.pulled is None or "curvature" not in self.pulled or not wanted.is_like(self.curving):
            self.curving = wanted
            others = self.ask(Pull((self.standing,), wanted, gradient=self.pulled is None))["pulled"][0]
            self.pulled = Sums((self.pulled or {}) | others)
        told, curving = self.pulled.pop("curvature"), self.curving
        assert curving is not None
        rank_one = None
        if self.moving > 0.0:
            rank_one = told["pulls"] / np.sqrt(mu * max(self.moving, told["tied"]))
        is_sampled, has_ties = told["sampled"] > 0, told["tied"] > 0.0
        if form == "product":
            diagonal = told["diagonal"] if rank_one is None else told["diagonal"] - rank_one**2
            return Curvature(None, None, self._product(curving, rank_one), diagonal, is_sampled, has_ties)
        if form == "packed":
            packed = PackedSymmetric(self.rows.n_columns)
            packed.numbers = told["packed"].copy()
            if rank_one is not None:
                packed.add_gram(rank_one[None, :], -1.0)
            return Curvature(None, packed, None, None, is_sampled, has_ties)
        H = told["matrix"] if rank_one is None else told["matrix"] - np.outer(rank_one, rank_one)
        return Curvature(np.array(H), None, None, None, is_sampled, has_ties)

    def _product(self, curving: Curving, rank_one: Array | None) -> Any:
        """Return the function v -> H v: a pass over X for every call."""
        standing = self.standing

        def product(v: Array) -> Array:
            out: Array = self.ask(GramProduct(standing, curving, v))["product"]
            return out if rank_one is None else out - (rank_one @ v) * rank_one

        return product

    def prove(self, *, balanced: bool) -> Proof:
        """Return the exact aggregate and a feasible density near r."""
        pull, push, mass_up, mass_down, mass = self.ask(Sides(self.standing))["sides"]
        up = down = 1.0
        if balanced:
            up = min(push / pull, 1.0) if pull > 0.0 else 1.0
            down = min(pull / push, 1.0) if push > 0.0 else 1.0
            mass += (up - 1.0) * mass_up + (down - 1.0) * mass_down
        scale = 1.0 / max(mass, 1.0)
        standing, before = self.standing, self.settled()
        step = Feasible(self.fleet.name(), self.rows.view, before.token, self.f.token, up, down, scale)
        density = Vector(step, (before, self.f))
        fresh = self.f if self.is_fresh else Vector(Product(self.fleet.name(), self.rows.view, self.z))
        self.fresh, self.proved = fresh, density
        gradient: Array = self.ask(Tangent(standing, fresh.token, density.token), fresh, before, density)["gradient"]
        threshold = self._ranked(fresh)
        above, slack, size, moved = self.ask(
            Bound(standing, fresh.token, density.token, threshold), fresh, before, density
        )["sums"]
        self.fresh = self.proved = None
        slack += threshold * max(1.0 - size, 0.0) + moved
        return Proof(
            value=float(threshold + above),
            threshold=threshold,
            slack=float(slack),
            gradient=gradient,
            density=ChunkedDensity(self.rows, density),
        )

    def _ranked(self, f: Vector) -> float:
        """Return the k-th largest loss."""
        each, n = self.rows.each, self.rows.n_rows
        if each is None:
            return self._rank(f, least_mass(self.k), by_count=False).value
        return self._rank(f, float(rank_of(self.k / each, n)), by_count=True).value

    def _rank(self, f: Vector, wanted: float, *, by_count: bool, without: Vector | None = None) -> Ranked:
        """Return the loss that completes an amount, counted from the top, without some rows."""
        token = None if without is None else without.token
        more = (f,) if without is None else (f, without)

        def ask(low: float, high: float, share: float) -> Sums:
            told: Sums = self.ask(Losing(self.rows.view, f.token, low, high, share, by_count, token), *more)
            return told

        return rank(ask, wanted, self.rows.n_rows)

    def largest(self, count: int, *, beside: Any = None, above: float = 0.0) -> ChunkedPart:
        """Return the rows with the largest losses."""
        rows, view = self.rows, self.rows.view
        count = min(max(count, 1), self.rows.n_rows)
        if beside is None:
            ranked, without = self._rank(self.f, float(count), by_count=True), None
        else:
            without = Vector(Scattered(self.fleet.name(), view, beside.ids, np.ones(beside.ids.size)))
            higher = self.ask(Losing(view, self.f.token, above, above, 0.0, True, without.token), without)["above"]
            if higher == 0.0:
                return beside  # type: ignore[no-any-return]
            ranked = Ranked(above, higher)
            if higher > count:
                ranked = self._rank(self.f, float(count), by_count=True, without=without)
        left = {} if ranked.value == above and beside is not None else self._ties(ranked, count, without)
        more = () if without is None else (without,)
        token = None if without is None else without.token
        picked: Picked = self.ask(Fetch(view, self.f.token, ranked.value, left, token), *more)
        if beside is not None:
            picked = picked + Picked((beside.columns,))
        return ChunkedPart(rows, picked.together())

    def _ties(self, ranked: Ranked, count: int, without: Vector | None) -> dict[int, int]:
        """Return how many rows with just that loss are taken from each chunk, for the number to be as wanted."""
        value, token = ranked.value, None if without is None else without.token
        more = () if without is None else (without,)
        told = self.ask(Losing(self.rows.view, self.f.token, value, value, 0.0, True, token), *more)
        left, ties = count - int(told["above"]), {}
        for index, n in sorted(told["n_inside"]):
            ties[index] = min(n, left)
            left -= ties[index]
        return {index: n for index, n in ties.items() if n > 0}


class ChunkedRay:
    """A half-line from a point."""

    def __init__(self, point: ChunkedPoint, direction: Array, along: Vector) -> None:
        self.point, self.direction, self.along = point, direction, along

    def at(self, t: float, mu: float) -> Reading:
        """Smooth the losses at ``z + t * direction``."""
        self.t, self.mu = t, mu
        self.reading, self.range = self.point.settle(mu, t, self.along)
        return self.reading

    def land(self) -> None:
        """Move the point to where the ray was last looked at."""
        z = self.point.z + self.t * self.direction
        self.point.land(z, self.t, self.along, self.mu, self.reading, self.range)
